"""DP-HP made adaptive: all columns by themselves once, then the tables of several columns that matter most."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from synth.errors import InputError
from synth.generators.adaptive_budget import AdaptiveBudget, columns_error, divided, share_for_columns
from synth.generators.adaptive_rounds import RoundPlan, Rounds
from synth.generators.coarsening import CoarseningOptions, coarsen
from synth.generators.column_bins import ColumnBins
from synth.generators.fine_places import OneWayOptions, fine_places
from synth.generators.joint_models import FEW_COLUMNS, fitter_of, kind_for, restored_model
from synth.generators.label_tables import measure_by_label
from synth.generators.neural import resolve_device
from synth.generators.one_ways import OneWays, measure_one_ways
from synth.generators.options import check_between
from synth.generators.protocol import GeneratorTask
from synth.generators.sampling import check_rows, random_source
from synth.models.answers import JointModel, Measured
from synth.privacy.session import AnswerSource
from synth.progress import Progress

__all__ = ["AdaptiveOptions", "DpHpAdaptive"]

_BINS = 1.2
"""A cell of an even table of two columns holds about this part, to the power of -2, of the noise of a count."""

_PAIR_CELLS = 2**24
"""Most cells of all pairs of columns together; wide tables get coarser bins."""

_MOST_CANDIDATES = 10_000

_WORTH_ASKING = 0.03
"""Part of the budget below which columns are not counted again."""

_DUST = 1e-3
"""Part of the budget that rounding may leave."""


@dataclass(frozen=True, slots=True)
class AdaptiveOptions:
    """Options of the adaptive generator."""

    bins: int = 32
    """Most bins of a number or date where it is counted together with other columns."""

    columns_share: float = 0.2
    """Least part of the budget for the columns by themselves; small tables get more."""

    label_share: float = 0.2
    """Part of the budget for counting every column by class of the label, if there is one; small tables give more."""

    choosing_share: float = 0.15
    """Part of every round that goes into choosing which columns to count together."""

    cells: int = 200_000
    """Most cells of the joint model: more follow more relations between columns and take longer to fit."""

    model: Literal["auto", "field", "mixture"] = "auto"
    """Joint model: field (Markov random field), mixture (of products), or auto: a field where it can hold the table."""

    def __post_init__(self) -> None:
        check_between("bins", self.bins, 2, 256)
        check_between("columns_share", self.columns_share, 0.01, 1.0)
        check_between("label_share", self.label_share, 0.0, 0.5)
        check_between("choosing_share", self.choosing_share, 0.01, 0.9)
        check_between("cells", self.cells, 1000, 10**8)


class DpHpAdaptive:
    """A sum kernel on all columns once, product kernels on subsets chosen privately, one model of all answers.

    Columns are counted by themselves at several resolutions and put into bins of about equal noisy mass. Then, round by
    round, the table of two or three columns that the model so far describes worst is chosen privately and counted, and
    the model is fitted to all answers. Rows are drawn from the model; values inside a bin follow the columns.

    Notes
    -----
    Vinaroz et al. (2022, section 5) release the embedding of one fixed product kernel. Here features are one-hot,
    kernels are chosen as in AIM (McKenna 2022), noise is accounted for exactly, and the model is fitted to the answers
    as in ``synth.models.field``.
    """

    name: ClassVar[str] = "dp-hp-adaptive"
    title: ClassVar[str] = "DP-HP adaptive"
    summary: ClassVar[str] = (
        "Counts every column, then privately finds the groups of columns that matter and counts those together."
    )
    best_for: ClassVar[str] = "Nearly every table: it adapts to the budget, and falls back to single columns in need."
    loses_where: ClassVar[str] = (
        "Relations among four and more columns, and fine detail inside the bins of two numbers at once."
    )
    reference: ClassVar[str] = "Vinaroz et al. 2022 (DP-HP); McKenna et al. 2022 (AIM); McKenna et al. 2019."
    Options: ClassVar[type[AdaptiveOptions]] = AdaptiveOptions
    measures_one_ways: ClassVar[bool] = True

    def __init__(self, task: GeneratorTask, options: AdaptiveOptions) -> None:
        self._task, self._options = task, options
        self._columns = task.schema.modelled
        self._label = None if task.label is None else task.schema.names.index(task.label)
        self._most_bins = _bins_that_fit(self._columns_most(options.bins), options.bins)
        self._bins: tuple[ColumnBins, ...] = ()
        self._model: JointModel | None = None

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Count columns, choose and count tables, and fit the model to all answers."""
        device = resolve_device(self._task.device)
        progress.phase("Counting columns")
        one_ways, budget = self._measured_columns(session)
        coarseness = self._coarsening(one_ways, budget)
        self._bins = coarsen(one_ways, coarseness)
        useful = [d for d, one in enumerate(self._bins) if one.size > 1]
        by_label = self._label in useful and len(useful) > 1 and budget.by_label > 0
        choosing = len(useful) > 1 and budget.n_rounds > 0
        if not by_label and not choosing and session.remaining_share > _DUST:
            # Columns that might have varied do not: nothing else is worth asking.
            one_ways = self._counted(session, session.remaining_share, one_ways)
            self._bins = coarsen(one_ways, CoarseningOptions(bins=self._most_bins))
        sizes = tuple(one.size for one in self._bins)
        kind = self._kind()
        fitter = fitter_of(
            kind,
            sizes,
            one_ways.rows,
            device,
            seed=self._task.seed,
            triple_cells=self._options.cells // (64 if len(sizes) > FEW_COLUMNS else 16),
        )
        measured = [one.measured(d) for d, one in enumerate(self._bins)]
        if by_label:
            # Shares are rounded down; the last question takes what that left.
            share = budget.by_label if choosing else session.remaining_share
            measured += self._measured_by_label(session, share, one_ways.rows, coarseness.bins)
        fitter.refit(measured, last=False)
        if choosing:
            progress.phase("Choosing tables")
            plan = RoundPlan(
                share=budget.rounds if by_label else budget.rounds + budget.by_label,
                rounds=budget.n_rounds,
                choosing=self._options.choosing_share,
                cells=self._options.cells,
                most_candidates=_MOST_CANDIDATES,
            )

            def refitted(spent: float) -> None:
                progress.loss(_misfit(fitter.model, measured, one_ways.rows))
                progress.step(round(100 * spent), 100)

            Rounds(
                session,
                self._columns,
                self._bins,
                label=self._label,
                fitter=fitter,
                plan=plan,
                unit_noise=one_ways.unit_noise,
                total=one_ways.rows,
                columns_gain=self._columns_gain(budget.columns),
                source=self._source,
                seed=self._task.seed,
            ).run(measured, refitted)
            if session.remaining_share > _DUST:
                # Tables told less than columns still can; the model's bins stay.
                one_ways = self._counted(session, session.remaining_share, one_ways)
                self._bins = tuple(
                    ColumnBins.of(way, one.bin_of_place) for way, one in zip(one_ways.columns, self._bins, strict=True)
                )
                measured[: len(sizes)] = [one.measured(d) for d, one in enumerate(self._bins)]
        progress.phase("Fitting")
        fitter.refit(measured, last=True, report=lambda _step, _loss: progress.check_cancelled())
        progress.loss(_misfit(fitter.model, measured, one_ways.rows))
        self._model = fitter.model
        return self

    def sample(self, n_rows: int, seed: int) -> Tensor:
        """Draw bins from the model by controlled rounding, then codes inside the bins."""
        check_rows(n_rows)
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        random = random_source(seed)
        rows = self._model.sample(n_rows, random)
        for d, bins in enumerate(self._bins):
            rows[:, d] = bins.codes(rows[:, d], random)
        return torch.from_numpy(rows)

    def state(self) -> Mapping[str, Tensor]:
        """Return the columns' bins and the model."""
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        columns = {
            f"column.{d}.{name}": tensor for d, bins in enumerate(self._bins) for name, tensor in bins.state().items()
        }
        model = {
            f"model.{name}": torch.from_numpy(np.ascontiguousarray(array))
            for name, array in self._model.state().items()
        }
        return {**columns, **model}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: AdaptiveOptions, state: Mapping[str, Tensor]) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        bins = []
        for d, column in enumerate(generator._columns):
            prefix = f"column.{d}."
            parts = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
            bins.append(ColumnBins.from_state(fine_places(column, OneWayOptions()), parts))
        generator._bins = tuple(bins)
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._model = restored_model(tuple(one.size for one in bins), model)
        return generator

    @property
    def _source(self) -> str:
        return f"generator {self.name}"

    def _columns_most(self, bins: int) -> list[int]:
        """Return the most bins that each column can get, by its declaration."""
        most = CoarseningOptions().most_categories
        return [
            min(column.levels, bins) + min(column.size - column.levels, most)
            if column.levels
            else min(column.size, most)
            for column in self._columns
        ]

    def _kind(self) -> str:
        if self._options.model != "auto":
            return self._options.model
        return kind_for(self._columns_most(self._most_bins), self._options.cells)

    def _coarsening(self, one_ways: OneWays, budget: AdaptiveBudget) -> CoarseningOptions:
        """Choose bins so coarse that a table of two columns tells more than noise."""
        table = max(budget.table * (1.0 - self._options.choosing_share), budget.by_label / len(self._columns))
        if table <= 0:
            return CoarseningOptions(bins=self._most_bins)
        noise = one_ways.unit_noise / math.sqrt(table)
        bins = round(min(max(_BINS * math.sqrt(one_ways.rows / noise), 4.0), float(self._most_bins)))
        return CoarseningOptions(bins=bins, most_categories=min(8 * bins, CoarseningOptions().most_categories))

    def _columns_gain(self, spent: float) -> Callable[[float], float]:
        """Return what more of the budget for columns would gain in all pairs, where this was spent on them."""
        error = (len(self._bins) - 1) * columns_error(self._bins)
        return lambda more: error * (1.0 - math.sqrt(spent / (spent + more)))

    def _measured_by_label(self, session: AnswerSource, share: float, rows: float, bins: int) -> list[Measured]:
        return measure_by_label(
            session,
            self._columns,
            self._bins,
            label=self._label or 0,
            lengths=self._columns_most(bins),
            share=share,
            total=rows,
            source=self._source,
        )

    def _measured_columns(self, session: AnswerSource) -> tuple[OneWays, AdaptiveBudget]:
        """Count columns with a small part of the budget, divide it by what they are like, and count them again."""
        whole = session.remaining_share
        options = self._options

        def division(for_columns: float) -> AdaptiveBudget:
            return divided(
                session,
                whole,
                self._columns_most(self._most_bins),
                for_columns=for_columns,
                label_share=options.label_share,
                label_size=1 if self._label is None else self._columns[self._label].size,
            )

        budget = division(options.columns_share)
        one_ways = self._counted(session, budget.columns, None)
        if not budget.n_rounds:
            return one_ways, budget
        wanted = share_for_columns(one_ways, budget.columns / whole)
        if wanted < options.columns_share + _WORTH_ASKING:
            return one_ways, budget
        spent = budget.columns
        budget = division(wanted)
        last = not budget.n_rounds and not budget.by_label
        return self._counted(session, session.remaining_share if last else budget.columns - spent, one_ways), budget

    def _counted(self, session: AnswerSource, share: float, earlier: OneWays | None) -> OneWays:
        return measure_one_ways(
            session,
            self._columns,
            label=self._task.label,
            share=share,
            source=self._source,
            options=OneWayOptions(),
            earlier=earlier,
        )


def _bins_that_fit(most: list[int], bins: int) -> int:
    """Return the number of bins at which all pairs together stay below the limit."""
    while bins > 2:
        sizes = [min(size, bins) for size in most]
        if (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2 <= _PAIR_CELLS:
            break
        bins -= 1
    return bins


def _misfit(model: JointModel, measured: list[Measured], total: float) -> float:
    """Return the root mean square of the model's distance from the answers, in units of their noise; best about 1."""
    squares = cells = 0.0
    for one in measured:
        squares += float((((total * model.marginal(one.columns) - one.table) / one.noise_std) ** 2).sum())
        cells += one.table.size
    return math.sqrt(squares / max(cells, 1.0))
