"""DP-HP made adaptive: all columns by themselves once, then the marginals of several columns that matter most.

How the budget is divided follows from declared facts, the number of rows, and a first look at the columns
(``allocate_budget``, ``share_for_columns``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.adaptive import CARD, AdaptiveOptions
from synth.generators.adaptive.bins import CoarseningOptions, ColumnBins, bins_that_fit, coarsen, declared_bins
from synth.generators.adaptive.tables import (
    MANY_COLUMNS,
    ChowLiuTree,
    RoundPlan,
    SelectionRounds,
    Survey,
    bins_of_tree,
    measure_label_marginals,
    rounds_of_tree,
)
from synth.generators.one_way_marginals import OneWayMarginals, OneWayOptions, fine_grid, measure_one_way_marginals
from synth.generators.protocol import Card, Generator, GeneratorTask, State
from synth.generators.sampling import check_rows, random_source
from synth.models.joint_model import FEW_COLUMNS, fitter_of, kind_for, restored_model
from synth.models.marginals import JointModel, NoisyMarginal, misfit
from synth.privacy.answers import AnswerSource
from synth.privacy.costs import Bound, between_neighbours
from synth.progress import Progress
from synth.system.machine import resolved_device

__all__ = ["WIDE", "AdaptiveBudget", "DpHpAdaptive", "allocate_budget", "columns_error", "share_for_columns"]

_BINS = 1.2
"""Bins of a column, divided by the root of the rows in units of their noise; at 1.2 a cell of a table of two columns of
even bins holds about 0.7 times the noise of a count."""

_MOST_CANDIDATES = 10_000

_WORTH_ASKING = 0.03
"""Part of the budget below which columns are not counted again."""

_COMPARED_COLUMNS = 20
"""Most columns with which the models of earlier rounds are held against all answers."""

_DUST = 1e-3
"""Part of the budget that rounding may leave."""

_ROUNDS_PER_COLUMN = 3.0

_FEWEST_ROUNDS_PER_COLUMN = 0.75
"""Rounds below which chosen tables do more harm to the columns than good to the rest."""

_LARGEST_SHARE = 0.5
"""Most of the budget that columns by themselves get where there is any left for tables of several."""

_RELATED = 0.1
"""Rows of which two even columns tell about each other, as a part of all: what tables of several could find."""

_COARSE = 32
"""Cells of a number or date in which its error is looked at."""

_TABLE_NOISE = 0.02
"""Noise of a count of several columns, as a part of the rows, from which on a table tells next to nothing."""

_LABEL_WITHOUT_ROUNDS = 0.4
"""Part of the budget for the columns by class where no table is chosen."""

_FEW_BINS = 4
"""Bins by class whose noise must stay below the number of rows for the label to be worth a question."""

WIDE = 32
"""Columns from which on a label's tables count together: each may be faint if all of them tell the classes apart."""

_CLEAR_CLASSES = 6.0
"""Parts of a cell of a few bins by class that its noise is aimed at in a wide table: one."""

_FAINTEST = 2.0
"""Noise of a cell of a few bins by class, in parts of the cell, that a wide table may have; another table one part."""

_MOST_FOR_LABEL = 0.6
"""Most of the budget that the columns by class get in a wide table."""


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
        self._bins: tuple[ColumnBins, ...] = ()
        self._model: JointModel | None = None

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Measure the columns, choose and measure marginals of several, and fit the model to all answers."""
        fit = _Fit(self._task, self._options, session, source=f"generator {self.card.name}", progress=progress)
        progress.phase("Counting columns")
        fit.measure_columns()
        fit.choose_bins()
        fit.measure_by_label()
        fit.start_model()
        fit.choose_marginals()
        fit.measure_columns_with_what_is_left()
        progress.phase("Fitting")
        self._bins, self._model = fit.bins, fit.finished_model()
        return self

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
        for d, column in enumerate(task.schema.modelled):
            prefix = f"column.{d}."
            parts = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
            bins.append(ColumnBins.from_state(fine_grid(column, OneWayOptions()), parts))
        generator._bins = tuple(bins)
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._model = restored_model(tuple(one.size for one in bins), model)
        return generator


class _Fit:
    """What one fit knows: what was declared, how the budget is divided, and the answers so far.

    Attributes
    ----------
    bins : tuple of ColumnBins
        How the model sees every column.
    """

    def __init__(
        self, task: GeneratorTask, options: AdaptiveOptions, session: AnswerSource, *, source: str, progress: Progress
    ) -> None:
        # Refuses a missing device before anything is spent.
        self._device = resolved_device(task.device)
        self._task, self._options, self._session, self._progress = task, options, session, progress
        self._columns = task.schema.modelled
        label = None if task.label is None else task.schema.names.index(task.label)
        self._survey = Survey(session, self._columns, label, source)
        self._classes = 1 if label is None else self._columns[label].size
        self._many = len(self._columns) > MANY_COLUMNS
        self._most_bins = bins_that_fit(declared_bins(self._columns, options.bins), options.bins)
        self._most_rounds: float | None = None
        if self._many:
            tree = bins_of_tree(len(self._columns), self._classes, options.cells)
            self._most_rounds = rounds_of_tree(len(self._columns)) if tree else 0.0
            self._most_bins = min(self._most_bins, tree or self._most_bins)
        self.bins: tuple[ColumnBins, ...] = ()
        self._measured: list[NoisyMarginal] = []
        self._models: list[JointModel] = []

    def measure_columns(self) -> None:
        """Count columns with a small part of the budget, divide it by what they are like, and count them again."""
        whole, least = self._session.remaining_share, self._options.columns_share
        self._budget = self._divided(whole, least)
        self._one_ways = self._counted(self._budget.columns, None)
        if not self._budget.n_rounds or self._many:
            return
        wanted = share_for_columns(self._one_ways, self._budget.columns / whole)
        if wanted < least + _WORTH_ASKING:
            return
        spent, self._budget = self._budget.columns, self._divided(whole, wanted)
        last = not self._budget.n_rounds and not self._budget.by_label
        share = self._session.remaining_share if last else self._budget.columns - spent
        self._one_ways = self._counted(share, self._one_ways)

    def choose_bins(self) -> None:
        """Put every column into bins that tell more than noise, and see what is worth asking then."""
        coarseness = self._coarsening(self._one_ways, self._budget)
        self._label_bins = coarseness.bins
        self.bins = coarsen(self._one_ways, coarseness)
        varied = [d for d, one in enumerate(self.bins) if one.size > 1]
        self._by_label = self._survey.label in varied and len(varied) > 1 and self._budget.by_label > 0
        self._choosing = len(varied) > 1 and self._budget.n_rounds > 0
        if not self._by_label and not self._choosing and self._session.remaining_share > _DUST:
            # Columns that might have varied do not: nothing else is worth asking.
            self._one_ways = self._counted(self._session.remaining_share, self._one_ways)
            self.bins = coarsen(self._one_ways, CoarseningOptions(bins=self._most_bins))
        self._measured = [one.measured(d) for d, one in enumerate(self.bins)]

    def measure_by_label(self) -> None:
        """Count every column by class of the label, where that is worth asking."""
        if self._by_label:
            # Shares are rounded down; the last question takes what that left.
            share = self._budget.by_label if self._choosing else self._session.remaining_share
            self._measured += self._label_marginals(share, "tables by label")

    def start_model(self) -> None:
        """Fit a first model: what the columns and the label say."""
        sizes = tuple(one.size for one in self.bins)
        self._fitter = fitter_of(
            self._kind(),
            sizes,
            self._one_ways.rows,
            self._device,
            seed=self._task.seed,
            triple_cells=self._options.cells // (64 if len(sizes) > FEW_COLUMNS else 16),
        )
        self._fitter.refit(self._measured, last=False)
        self._models.append(self._fitter.model)

    def choose_marginals(self) -> None:
        """Choose marginals of several columns, one after another or as a tree, and measure them."""
        if not self._choosing:
            return
        share = self._budget.rounds if self._by_label else self._budget.rounds + self._budget.by_label
        if self._many:
            self._progress.phase("Finding a tree of columns")
            self._measure_tree(share)
        else:
            self._progress.phase("Choosing tables")
            self._measure_in_rounds(share)

    def measure_columns_with_what_is_left(self) -> None:
        """Count the columns once more where tables told less than columns still can; the model's bins stay."""
        if not self._choosing or self._session.remaining_share <= _DUST:
            return
        self._one_ways = self._counted(self._session.remaining_share, self._one_ways)
        self.bins = tuple(
            ColumnBins.of(way, one.bin_of_place) for way, one in zip(self._one_ways.columns, self.bins, strict=True)
        )
        self._measured[: len(self.bins)] = [one.measured(d) for d, one in enumerate(self.bins)]

    def finished_model(self) -> JointModel:
        """Fit the model to all answers."""
        self._fitter.refit(self._measured, last=True, report=lambda _step, _loss: self._progress.check_cancelled())
        # All held against all answers: against those of its own round alone a later model, which has more to fit, would
        # look worse than the one before. An earlier model is asked for sets of columns that it has no table of, which
        # few columns allow only.
        earlier = self._models if len(self._columns) <= _COMPARED_COLUMNS else []
        for model in (*earlier, self._fitter.model):
            self._progress.loss(misfit(model, self._measured, self._one_ways.rows))
        return self._fitter.model

    def _divided(self, whole: float, for_columns: float) -> AdaptiveBudget:
        return allocate_budget(
            self._session,
            whole,
            declared_bins(self._columns, self._most_bins),
            for_columns=for_columns,
            label_share=self._options.label_share,
            label_size=self._classes,
            most_rounds=self._most_rounds,
        )

    def _counted(self, share: float, earlier: OneWayMarginals | None) -> OneWayMarginals:
        return measure_one_way_marginals(
            self._session,
            self._columns,
            label=self._task.label,
            share=share,
            source=self._survey.source,
            options=OneWayOptions(),
            earlier=earlier,
        )

    def _label_marginals(self, share: float, query: str) -> list[NoisyMarginal]:
        lengths = declared_bins(self._columns, self._label_bins)
        total = self._one_ways.rows
        return measure_label_marginals(self._survey, self.bins, lengths=lengths, share=share, total=total, query=query)

    def _measure_tree(self, share: float) -> None:
        """Find a tree of columns and count its edges; where there is none, count by label once more."""
        tree = ChowLiuTree(
            self._survey, self.bins, by_class=self._by_label, fitter=self._fitter, total=self._one_ways.rows
        )
        edges = tree.ask(share)
        self._measured += edges
        if self._by_label and not edges:
            self._measured += self._label_marginals(self._session.remaining_share, "tables by label again")

    def _measure_in_rounds(self, share: float) -> None:
        """Choose, count and fit in rounds."""
        plan = RoundPlan(
            share=share,
            rounds=self._budget.n_rounds,
            choosing=self._options.choosing_share,
            cells=self._options.cells,
            most_candidates=_MOST_CANDIDATES,
        )
        rounds = SelectionRounds(
            self._survey,
            self.bins,
            fitter=self._fitter,
            plan=plan,
            unit_noise=self._one_ways.unit_noise,
            total=self._one_ways.rows,
            columns_gain=self._columns_gain(self._budget.columns),
            seed=self._task.seed,
        )
        rounds.run(self._measured, self._tell_round)

    def _tell_round(self, spent: float) -> None:
        self._models.append(self._fitter.model)
        self._progress.step(round(100 * spent), 100)

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
        error = (len(self.bins) - 1) * columns_error(self.bins)
        return lambda more: error * (1.0 - math.sqrt(spent / (spent + more)))


@dataclass(frozen=True, slots=True)
class AdaptiveBudget:
    """Parts of the session's budget, in mu^2; they add up to all of it.

    Attributes
    ----------
    columns : float
        For every column by itself.
    by_label : float
        For every column by class of the label; 0 without one.
    rounds : float
        For tables that are chosen.
    n_rounds : float
        Rounds that the first round's part would last; 0 where noise would drown every table.
    """

    columns: float
    by_label: float
    rounds: float
    n_rounds: float

    @property
    def table(self) -> float:
        """Budget of a typical table of two columns by chosen rounds; 0 where there are none."""
        return self.rounds / self.n_rounds if self.n_rounds else 0.0


def allocate_budget(
    session: AnswerSource,
    whole: float,
    sizes: Sequence[int],
    *,
    for_columns: float,
    label_share: float,
    label_size: int,
    most_rounds: float | None = None,
) -> AdaptiveBudget:
    """Divide a session's budget.

    Parameters
    ----------
    session : AnswerSource
    whole : float
        Part of the session's budget to divide.
    sizes : sequence of int
        Most bins of every column, by its declaration.
    for_columns : float
        Part of it for the columns by themselves; all that the label leaves where noise would drown the other tables.
    label_share : float
        Part for the columns by class of the label; more where nothing else is left to ask, and none where noise would
        drown even a few bins by class.
    label_size : int
        Classes of the label; 1 without one.
    most_rounds : float, optional
        Most rounds of chosen tables; by default three a column.
    """
    columns = sum(size > 1 for size in sizes)
    if columns < 2:
        return AdaptiveBudget(whole, 0.0, 0.0, 0.0)
    one_hot = between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), session.schema)
    # Squared rows of noise that all of the budget would leave in one table.
    variance = one_hot**2 / (session.budget.mu_squared * whole)
    rows = session.rows.value
    wide = columns >= WIDE
    # Of the rows, what is in a cell of a few bins by class.
    cell = max(rows, 1.0) / (_FEW_BINS * label_size)
    faintest = (_FAINTEST * cell if wide else cell) ** 2
    if wide and label_share > 0 and columns * variance / _MOST_FOR_LABEL <= faintest:
        # A share at which the noise of the tables by class is a small part of their cells.
        label_share = max(label_share, min(columns * variance * (_CLEAR_CLASSES / cell) ** 2, _MOST_FOR_LABEL))
    for_label = min(label_share, 1.0 - for_columns) if label_size > 1 else 0.0
    left = 1.0 - for_columns - for_label
    most_rounds = _ROUNDS_PER_COLUMN * columns if most_rounds is None else most_rounds
    n_rounds = min(most_rounds, left * (_TABLE_NOISE * rows) ** 2 / variance)
    if n_rounds >= _FEWEST_ROUNDS_PER_COLUMN * columns:
        return AdaptiveBudget(whole * for_columns, whole * for_label, whole * left, n_rounds)
    for_label = min(max(_LABEL_WITHOUT_ROUNDS, label_share if wide else 0.0), 1.0 - for_columns) if for_label else 0.0
    if for_label and columns * variance / for_label > faintest:
        for_label = 0.0
    return AdaptiveBudget(whole * (1.0 - for_label), whole * for_label, 0.0, 0.0)


def columns_error(bins: Sequence[ColumnBins]) -> float:
    """Return about how far the columns by themselves are off, all together, as a part of the rows."""
    error = 0.0
    for one in bins:
        noise = one.noise_std / max(float(one.table.sum()), 1.0)
        error += float((noise * one.expected / np.hypot(one.expected, noise)).sum())
    return error * 0.5 * math.sqrt(2 / math.pi)


def share_for_columns(one_ways: OneWayMarginals, spent: float) -> float:
    r"""Return which part of a budget should go to the columns by themselves, from a first answer about them.

    Columns that are off by A in all pairs together for the whole budget, and tables of several that are off by T, leave
    an error of

    .. math:: A / \sqrt f + T / \sqrt{1 - f}

    which is least where f / (1 - f) = (A / T)^(2/3). A is what noise makes of the columns as they were answered; T is a
    fixed part of what two columns could tell about each other, which is little where most rows agree.

    Parameters
    ----------
    one_ways : OneWayMarginals
        As answered so far.
    spent : float
        Part of the budget that this took.

    Returns
    -------
    float, at most one half
    """
    errors, varied = [], []
    for one in one_ways.columns:
        grid = one.grid
        coarse = min(grid.levels, _COARSE)
        cells = np.arange(grid.size) - grid.levels + coarse
        cells[: grid.levels] = np.arange(grid.levels) * coarse // max(grid.levels, 1)
        part = np.bincount(cells, weights=one.proportions)
        noise = one.cell_std / one_ways.rows
        errors.append(0.5 * math.sqrt(2 / math.pi) * noise * float((part / np.hypot(part, noise)).sum()))
        varied.append(1.0 - float((part**2).sum()))
    n = len(errors)
    columns = (n - 1) * sum(errors) * math.sqrt(spent)
    # Of each pair the column that varies less; in ascending order, every one is the lesser beside all that follow.
    tables = _RELATED * float(np.sort(varied) @ np.arange(n - 1, -1, -1))
    if tables <= 0:
        return _LARGEST_SHARE
    ratio = (columns / tables) ** (2 / 3)
    return float(min(ratio / (1.0 + ratio), _LARGEST_SHARE))
