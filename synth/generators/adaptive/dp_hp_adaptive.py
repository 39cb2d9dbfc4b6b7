"""DP-HP made adaptive: all columns by themselves once, then the tables of several columns that matter most."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.adaptive import CARD, AdaptiveOptions
from synth.generators.adaptive.bins import CoarseningOptions, ColumnBins, bins_that_fit, coarsen, declared_bins
from synth.generators.adaptive.budget import WIDE, AdaptiveBudget, allocate_budget, columns_error, share_for_columns
from synth.generators.adaptive.tables import (
    MANY_COLUMNS,
    ChowLiuTree,
    RoundPlan,
    SelectionRounds,
    bins_of_tree,
    measure_label_marginals,
    rounds_of_tree,
)
from synth.generators.one_way_marginals import OneWayMarginals, OneWayOptions, fine_grid, measure_one_way_marginals
from synth.generators.protocol import Card, Generator, GeneratorTask, State
from synth.generators.sampling import check_rows, random_source
from synth.models.joint_model import FEW_COLUMNS, Fitter, fitter_of, kind_for, restored_model
from synth.models.marginals import JointModel, NoisyMarginal, misfit
from synth.privacy.answers import AnswerSource
from synth.progress import Progress
from synth.system.devices import resolved_device

__all__ = ["DpHpAdaptive"]

_BINS = 1.2
"""Bins of a column, divided by the root of the rows in units of their noise; at 1.2 a cell of a table of two columns of
even bins holds about 0.7 times the noise of a count."""

_MOST_CANDIDATES = 10_000

_WORTH_ASKING = 0.03
"""Part of the budget below which columns are not counted again."""

_DUST = 1e-3
"""Part of the budget that rounding may leave."""


class DpHpAdaptive(Generator):
    """A sum kernel on all columns once, product kernels on subsets chosen privately, one model of all answers.

    Columns are counted by themselves at several resolutions and put into bins of about equal noisy mass. Then, round by
    round, the table of two or three columns that the model so far describes worst is chosen privately and counted, and
    the model is fitted to all answers. Rows are drawn from the model; values inside a bin follow the columns.

    Notes
    -----
    Vinaroz et al. (2022, section 5) release the embedding of one fixed product kernel. Here features are one-hot,
    kernels are chosen as in AIM (McKenna 2022), noise is accounted for exactly, and the model is fitted to the answers
    as in ``synth.models.mrf_estimation``.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: AdaptiveOptions) -> None:
        self._task, self._options = task, options
        self._columns = task.schema.modelled
        self._label = None if task.label is None else task.schema.names.index(task.label)
        self._classes = 1 if self._label is None else self._columns[self._label].size
        self._many = len(self._columns) > MANY_COLUMNS
        self._most_bins = bins_that_fit(declared_bins(self._columns, options.bins), options.bins)
        self._most_rounds: float | None = None
        if self._many:
            tree = bins_of_tree(len(self._columns), self._classes, options.cells)
            self._most_rounds = rounds_of_tree(len(self._columns)) if tree else 0.0
            self._most_bins = min(self._most_bins, tree or self._most_bins)
        self._bins: tuple[ColumnBins, ...] = ()
        self._model: JointModel | None = None

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Count columns, choose and count tables, and fit the model to all answers."""
        device = resolved_device(self._task.device)
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
        if choosing and self._many:
            progress.phase("Finding a tree of columns")
            tree = ChowLiuTree(
                session,
                self._columns,
                self._bins,
                label=self._label if by_label else None,
                fitter=fitter,
                total=one_ways.rows,
                source=self._source,
            )
            edges = tree.ask(budget.rounds if by_label else budget.rounds + budget.by_label)
            measured += edges
            if by_label and not edges:
                share = session.remaining_share
                measured += self._measured_by_label(session, share, one_ways.rows, coarseness.bins, again=True)
        elif choosing:
            progress.phase("Choosing tables")
            share = budget.rounds if by_label else budget.rounds + budget.by_label
            self._choose(session, fitter, measured, one_ways, (share, budget.n_rounds, budget.columns), progress)
        if choosing and session.remaining_share > _DUST:
            # Tables told less than columns still can; the model's bins stay.
            one_ways = self._counted(session, session.remaining_share, one_ways)
            self._bins = tuple(
                ColumnBins.of(way, one.bin_of_place) for way, one in zip(one_ways.columns, self._bins, strict=True)
            )
            measured[: len(sizes)] = [one.measured(d) for d, one in enumerate(self._bins)]
        progress.phase("Fitting")
        fitter.refit(measured, last=True, report=lambda _step, _loss: progress.check_cancelled())
        progress.loss(misfit(fitter.model, measured, one_ways.rows))
        self._model = fitter.model
        return self

    def _choose(
        self,
        session: AnswerSource,
        fitter: Fitter,
        measured: list[NoisyMarginal],
        one_ways: OneWayMarginals,
        parts: tuple[float, float, float],
        progress: Progress,
    ) -> None:
        """Choose, count and fit in rounds; ``parts``: their share, how many that lasts, and the columns' share."""
        share, n_rounds, for_columns = parts
        plan = RoundPlan(
            share=share,
            rounds=n_rounds,
            choosing=self._options.choosing_share,
            cells=self._options.cells,
            most_candidates=_MOST_CANDIDATES,
        )

        def refitted(spent: float) -> None:
            progress.loss(misfit(fitter.model, measured, one_ways.rows))
            progress.step(round(100 * spent), 100)

        SelectionRounds(
            session,
            self._columns,
            self._bins,
            label=self._label,
            fitter=fitter,
            plan=plan,
            unit_noise=one_ways.unit_noise,
            total=one_ways.rows,
            columns_gain=self._columns_gain(for_columns),
            source=self._source,
            seed=self._task.seed,
        ).run(measured, refitted)

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw bins from the model by controlled rounding, then codes inside the bins."""
        check_rows(n_rows)
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        random = random_source(seed)
        rows = self._model.sample(n_rows, random)
        for d, bins in enumerate(self._bins):
            rows[:, d] = bins.codes(rows[:, d], random)
        return rows

    def state(self) -> State:
        """Return the columns' bins and the model."""
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        columns = {
            f"column.{d}.{name}": array for d, bins in enumerate(self._bins) for name, array in bins.state().items()
        }
        model = {f"model.{name}": np.ascontiguousarray(array) for name, array in self._model.state().items()}
        return {**columns, **model}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: AdaptiveOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        bins = []
        for d, column in enumerate(generator._columns):
            prefix = f"column.{d}."
            parts = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
            bins.append(ColumnBins.from_state(fine_grid(column, OneWayOptions()), parts))
        generator._bins = tuple(bins)
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._model = restored_model(tuple(one.size for one in bins), model)
        return generator

    @property
    def _source(self) -> str:
        return f"generator {self.card.name}"

    def _kind(self) -> str:
        if self._options.model != "auto":
            return self._options.model
        return kind_for(declared_bins(self._columns, self._most_bins), self._options.cells)

    def _coarsening(self, one_ways: OneWayMarginals, budget: AdaptiveBudget) -> CoarseningOptions:
        """Choose bins so coarse that a table of two columns tells more than noise."""
        table = max(budget.table * (1.0 - self._options.choosing_share), budget.by_label / len(self._columns))
        if table <= 0:
            return CoarseningOptions(bins=self._most_bins)
        rows, least = one_ways.rows / (one_ways.unit_noise / math.sqrt(table)), 4.0
        bins = _BINS * math.sqrt(rows)
        if len(self._columns) >= WIDE and not budget.n_rounds:
            # Only tables by class are counted: noise in their cells is what bounds the bins.
            bins, least = _BINS**2 * rows / self._classes, 2.0
        elif self._many:
            bins, least = _BINS * math.sqrt(rows / self._classes), float(min(4, self._most_bins))
        bins = round(min(max(bins, least), float(self._most_bins)))
        categories = min((1 if self._many else 8) * bins, CoarseningOptions().most_categories)
        return CoarseningOptions(bins=bins, most_categories=categories)

    def _columns_gain(self, spent: float) -> Callable[[float], float]:
        """Return what more of the budget for columns would gain in all pairs, where this was spent on them."""
        error = (len(self._bins) - 1) * columns_error(self._bins)
        return lambda more: error * (1.0 - math.sqrt(spent / (spent + more)))

    def _measured_by_label(
        self, session: AnswerSource, share: float, rows: float, bins: int, *, again: bool = False
    ) -> list[NoisyMarginal]:
        return measure_label_marginals(
            session,
            self._columns,
            self._bins,
            label=self._label or 0,
            lengths=declared_bins(self._columns, bins),
            share=share,
            total=rows,
            source=self._source,
            query="tables by label" + (" again" if again else ""),
        )

    def _measured_columns(self, session: AnswerSource) -> tuple[OneWayMarginals, AdaptiveBudget]:
        """Count columns with a small part of the budget, divide it by what they are like, and count them again."""
        whole = session.remaining_share
        options = self._options

        def division(for_columns: float) -> AdaptiveBudget:
            return allocate_budget(
                session,
                whole,
                declared_bins(self._columns, self._most_bins),
                for_columns=for_columns,
                label_share=options.label_share,
                label_size=self._classes,
                most_rounds=self._most_rounds,
            )

        budget = division(options.columns_share)
        one_ways = self._counted(session, budget.columns, None)
        if not budget.n_rounds or self._many:
            return one_ways, budget
        wanted = share_for_columns(one_ways, budget.columns / whole)
        if wanted < options.columns_share + _WORTH_ASKING:
            return one_ways, budget
        spent = budget.columns
        budget = division(wanted)
        last = not budget.n_rounds and not budget.by_label
        return self._counted(session, session.remaining_share if last else budget.columns - spent, one_ways), budget

    def _counted(self, session: AnswerSource, share: float, earlier: OneWayMarginals | None) -> OneWayMarginals:
        return measure_one_way_marginals(
            session,
            self._columns,
            label=self._task.label,
            share=share,
            source=self._source,
            options=OneWayOptions(),
            earlier=earlier,
        )
