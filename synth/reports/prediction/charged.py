"""Predictions on the hold-out as charged evidence, from one noisy table that the run's budget paid for.

The table counts rows by guess, bin of confidence and label. Scores are coarse: a row ranks higher for class k the more
confidently k is guessed, and lower the more confidently another class is. Areas under curves are those of that score,
with rows of one bin in random order. For two classes that is the predictor's own score cut into bins. Ranges cover the
noise alone. For a label that is a number, squared errors are added up instead, with the declared range as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import NoisyAnswer
from synth.privacy.receipt import Receipt
from synth.reports.evidence import ChargedEvidence
from synth.reports.features import Target
from synth.reports.figures import Cell, Table
from synth.reports.holdout import (
    WIDEST_LOSS,
    WIDEST_RANGE,
    HoldoutLosses,
    HoldoutTables,
    LossTable,
    charged_groups,
    holdout_losses,
    holdout_tables,
)
from synth.reports.measured import BAR
from synth.reports.prediction.problem import TITLES, Measure
from synth.reports.wording import beyond_noise, in_hundred, who_counts
from synth.schema import RunConfig

__all__ = ["MEASURES", "TableMeasures", "charged_predictions", "mean_loss", "measures_of", "table_measures"]

MEASURES = ("roc_auc", "pr_auc", "macro_f1", "weighted_f1", "accuracy")

_DRAWS = 400
_TOLD = 3.0
"""A number of rows counts as there if it is so many standard deviations of its noise above nothing."""

_RANGE = 0.95
_WIDENED = 1.1
"""Draws about noisy counts know the noise a little less well than draws about the exact ones would (measured)."""

Counts = NDArray[np.float64]
"""Shape (draws, classes, bins, classes): guessed class, bin of its confidence, label."""


@dataclass(frozen=True, slots=True, eq=False)
class TableMeasures:
    """What noisy counts show.

    Attributes
    ----------
    measures : mapping
        By name, with half the width of the 95 % range of the noise; without a value where noise hides it.
    majority : mapping
        The same measures for guessing the most frequent label always.
    rows : Measure
        Number of rows.
    classes : tuple of int
        Classes that stand out from the noise: macro F1 and areas are means over these.
    asked : tuple of int
        Classes whose areas are measured: the rarer one of two.
    """

    measures: Mapping[str, Measure]
    majority: Mapping[str, Measure]
    rows: Measure
    classes: tuple[int, ...]
    asked: tuple[int, ...]


def table_measures(counts: NDArray[np.float64], noise_std: float, *, seed: int) -> TableMeasures:
    """Calculate measures from one noisy table, with ranges from drawing the known noise again.

    Parameters
    ----------
    counts : array of shape (classes, bins, classes)
        Noisy counts, in rows.
    noise_std : float
        Standard deviation of the noise on each, in rows.
    seed : int
        Public; draws noise that has only its scale in common with the noise of the counts.
    """
    random = np.random.default_rng([seed, counts.size, 41])
    drawn = counts + np.concatenate(
        [np.zeros((1, *counts.shape)), random.normal(0, noise_std, (_DRAWS, *counts.shape))]
    )
    support = counts.sum(axis=(0, 1))
    of_class = noise_std * np.sqrt(counts.size / len(support))
    classes = tuple(np.flatnonzero(support > _TOLD * of_class).tolist())
    rows = drawn.sum(axis=(1, 2, 3))
    size = _measure(rows, widest=np.inf, most=np.inf)
    nothing = dict.fromkeys(MEASURES, Measure(None, None))
    if not classes or rows[0] <= _TOLD * noise_std * np.sqrt(counts.size):
        return TableMeasures(nothing, nothing, size, classes, ())
    asked = classes if len(support) > 2 else (int(support.argmin()),)
    asked = asked if len(classes) > 1 else ()
    found = measures_of(drawn, classes, asked)
    always = _majority(drawn, int(support.argmax()), classes, asked)
    # With one class that stands out from the noise there is an accuracy, and nothing to average.
    shown = MEASURES if len(classes) > 1 else ("accuracy",)
    return TableMeasures(
        nothing | {name: _measure(found[name]) for name in shown},
        nothing | {name: _measure(always[name]) for name in shown},
        size,
        classes,
        asked,
    )


def measures_of(counts: Counts, classes: tuple[int, ...], asked: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
    """Measure many tables at once.

    Parameters
    ----------
    counts : array of shape (draws, classes, bins, classes)
    classes : tuple of int
        Classes that F1 is a mean over.
    asked : tuple of int
        Classes whose areas are averaged, one against the rest.

    Returns
    -------
    mapping from name to array of shape (draws,)
        Between 0 and 1 for counts that are not negative; noise can carry a value outside, which is left as it is, since
        cutting it off would hide noise. NaN where a measure is not defined.
    """
    confusion = counts.sum(axis=2)
    right = np.diagonal(confusion, axis1=1, axis2=2)
    support, given = confusion.sum(axis=1), confusion.sum(axis=2)
    known = list(classes)
    f1 = (2 * right / _positive(support + given))[:, known]
    weights = np.maximum(support[:, known], 0)
    found = {
        "roc_auc": _mean_over(asked, lambda one: _roc_area(*_ordered(counts, one)), len(counts)),
        "pr_auc": _mean_over(asked, lambda one: _precision_area(*_ordered(counts, one)), len(counts)),
        "macro_f1": f1.mean(axis=1),
        "weighted_f1": (f1 * weights).sum(axis=1) / _positive(weights.sum(axis=1)),
        "accuracy": right.sum(axis=1) / _positive(support.sum(axis=1)),
    }
    return found


def _majority(
    counts: Counts, guess: int, classes: tuple[int, ...], asked: tuple[int, ...]
) -> dict[str, NDArray[np.float64]]:
    """Measure the predictor that always guesses one class: all its rows are in one bin."""
    always = np.zeros((*counts.shape[:2], 1, counts.shape[3]))
    always[:, guess, 0] = counts.sum(axis=(1, 2))
    return measures_of(always, classes, asked)


def _mean_over(asked: tuple[int, ...], area: Callable[[int], NDArray[np.float64]], n_draws: int) -> NDArray[np.float64]:
    if not asked:
        return np.full(n_draws, np.nan)
    return np.asarray(np.mean([area(one) for one in asked], axis=0))


def _ordered(counts: Counts, one: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rows of one class and of the others by descending score for it, each of shape (draws, 2 bins)."""
    of_class, total = counts[..., one], counts.sum(axis=3)
    others = [place for place in range(counts.shape[1]) if place != one]
    sides = []
    for table in (of_class, total - of_class):
        guessed = table[:, one, ::-1]
        sides.append(np.concatenate([guessed, table[:, others].sum(axis=1)], axis=1))
    return sides[0], sides[1]


def _roc_area(hits: NDArray[np.float64], misses: NDArray[np.float64]) -> NDArray[np.float64]:
    # Linear in each table, so that noise of mean zero leaves it unbiased.
    below = hits.sum(axis=1, keepdims=True) - np.cumsum(hits, axis=1) + hits / 2
    pairs = (misses * (hits.sum(axis=1, keepdims=True) - below)).sum(axis=1)
    return np.asarray(pairs / _positive(hits.sum(axis=1)) / _positive(misses.sum(axis=1)))


def _precision_area(hits: NDArray[np.float64], misses: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Integrate precision over recall, with rows of one bin in random order.

    Over a bin with p rows of the class among d, after A among B: the integral of p (A + p t) / (B + d t) over t.
    """
    p = _not_negative(hits)
    d = p + _not_negative(misses)
    before_p, before_d = np.cumsum(p, axis=1) - p, np.cumsum(d, axis=1) - d
    share = p / _positive(d)
    grown = np.log1p(d / _positive(before_d)) * (before_d > 0)
    areas = p * (share + (before_p - share * before_d) / _positive(d) * grown)
    return np.asarray(np.where(d > 0, areas, 0.0).sum(axis=1) / _positive(p.sum(axis=1)))


def _not_negative(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest counts, row by row, that are not negative and have the same sum."""
    falling = -np.sort(-counts, axis=1)
    total = np.maximum(counts.sum(axis=1, keepdims=True), 0.0)
    excess = (np.cumsum(falling, axis=1) - total) / np.arange(1, counts.shape[1] + 1)
    kept = np.maximum((falling > excess).sum(axis=1, keepdims=True), 1)
    return np.asarray(np.maximum(counts - np.take_along_axis(excess, kept - 1, axis=1), 0.0))


def _positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(values, 1e-9)


def _measure(values: NDArray[np.float64], *, widest: float = WIDEST_RANGE, most: float = 1.0) -> Measure:
    """Return the first value, less the bias from noise, with its range; nothing where noise hides it.

    Draws around the noisy counts show both the bias and the spread of a measure. The range includes the bias as well,
    because the draws know it only as well as they know the counts.
    """
    if np.isnan(values).any():
        return Measure(None, None)
    middle = float(values[1:].mean())
    error = _WIDENED * float(np.quantile(np.abs(values[1:] - middle), _RANGE)) + abs(middle - float(values[0]))
    if error > widest:
        return Measure(None, None)
    return Measure(float(np.clip(2 * values[0] - middle, 0, most)), error)


# As evidence --------------------------------------------------------------------------------------------------------


_BY_GROUP = ("accuracy", "macro_f1", "roc_auc")
_HIDDEN = "Hidden by privacy noise: the hold-out is too small for the share of the budget that was spent on it."
_GUESSED = {
    False: "Boosted trees were trained on synthetic rows and their values rounded to whole numbers; then",
    True: "The released model's guesses (the likeliest value other than missing) were calculated in whole numbers, "
    "with features in steps of 2^-16 and coefficients in steps of 2^-20; then",
}
"""How guesses were made, by whether a model was released."""

_ONE_CLASS = "Not defined: fewer than two classes of the label stand out from the noise among the held-out rows."


def charged_predictions(releases: Sequence[NoisyAnswer], config: RunConfig) -> tuple[ChargedEvidence, ...]:
    """Report how well the label of held-out rows is predicted, by a released model or by trees of synthetic rows.

    Parameters
    ----------
    releases : sequence of NoisyAnswer
        The paid answers of a run.
    config : RunConfig

    Returns
    -------
    tuple of ChargedEvidence
        ``predictions.<measure>``, ``predictions.majority_<measure>``, ``predictions.rows``, ``predictions.table`` and
        ``predictions.groups.<column>``; of a number ``predictions.mse``, ``predictions.rows`` and the groups; nothing
        where no predictions were paid for.
    """
    losses = holdout_losses(releases)
    if losses is not None:
        return _ChargedLosses(losses, config).evidence()
    tables = holdout_tables(releases)
    if tables is None:
        return ()
    charged = _Charged(tables, config)
    found = table_measures(tables.counts, tables.noise_std, seed=config.seed)
    return (
        *(charged.number(name, found.measures[name], found) for name in MEASURES),
        *(charged.anchor(name, found.majority[name], found) for name in MEASURES),
        charged.rows(found),
        charged.table(found),
        *(charged.group(name, counts, noise_std) for name, counts, noise_std in tables.groups),
    )


def _reason(name: str, found: TableMeasures) -> str:
    """Say why a measure has no value: with one class alone there is an accuracy and nothing to average."""
    return _ONE_CLASS if name != "accuracy" and len(found.classes) == 1 else _HIDDEN


class _Paid:
    """What all numbers from one answer share: its cost and its receipt."""

    def __init__(self, receipt: Receipt, config: RunConfig) -> None:
        self._receipt, self._config, self._of = receipt, config, config.schema.unit.counted
        # The cost of noise of this law, real or simulated; that simulated noise is never certified is checked
        # elsewhere.
        self._epsilon = epsilon_of_receipts((replace(receipt, private=True),), config.delta)

    @property
    def _source(self) -> str:
        """The predictor, as named in a title."""
        return "released model" if self._config.is_model else "synthetic rows"

    @property
    def _trained(self) -> str:
        """The same, at the beginning of a sentence."""
        return "The released model" if self._config.is_model else "Trained on synthetic rows only"

    def _evidence(
        self, name: str, title: str, measure: Measure, sentence: str, *, unit: str = "", table: Table | None = None
    ) -> ChargedEvidence:
        return ChargedEvidence(
            id=f"predictions.{name}",
            title=title,
            value=measure.value,
            # An anchor that no noise moves has no range.
            error=measure.error or None,
            unit=unit,
            sentence=sentence,
            figures=() if table is None else (table,),
            epsilon=self._epsilon,
            receipts=(self._receipt.sequence,),
        )

    def _aside(self, left_out: float) -> str:
        """Say what was left out: rows without a label, and columns of too many groups."""
        config, said = self._config, ""
        if left_out:
            said += f" About {max(left_out, 0):,.0f} {self._of} without a label were left out."
        untold = [name for name in config.groups if name not in charged_groups(config) and name != config.label]
        if untold:
            said += f" Groups of {', '.join(untold)} have too many declared values to be counted separately."
        once = who_counts(config.schema)
        return f"{said} {once}" if once else said


def _widest_gap(measures: Sequence[Measure]) -> Measure:
    """Return the distance between the lowest and the highest measure that is shown."""
    known = [measure for measure in measures if measure.value is not None]
    if len(known) < 2:
        return Measure(None, None)
    low, high = (pick(known, key=lambda one: one.value or 0.0) for pick in (min, max))
    return Measure((high.value or 0.0) - (low.value or 0.0), math.hypot(low.error or 0.0, high.error or 0.0))


def _gap_seen(gap: Measure, what: str, name: str) -> tuple[str, str]:
    """Say how much groups differ, and whether noise explains it."""
    if gap.value is None:
        return f"No two groups of {name} can be compared", ""
    clear = int(gap.value > (gap.error or 0.0))
    return f"Groups of {name} differ by up to {gap.value:.2g} in {what}", beyond_noise(clear, 1, noise=gap.error or 0.0)


class _Charged(_Paid):
    """Numbers from a table of counts, and the names of classes."""

    def __init__(self, tables: HoldoutTables, config: RunConfig) -> None:
        super().__init__(tables.receipt, config)
        self._tables = tables
        column = config.schema.modelled_column(tables.label)
        self._classes = column.shown_texts(range(tables.counts.shape[0]))

    def number(self, name: str, measure: Measure, found: TableMeasures) -> ChargedEvidence:
        """Return one measure of the predictor."""
        sentence = f"{self._trained}; tested on held-out rows."
        if not (self._config.is_model or self._tables.predictor.columns):
            sentence = "The synthetic rows taught nothing: the most frequent class among them is always predicted."
        if name in ("roc_auc", "pr_auc"):
            n_classes, bins = self._tables.predictor.shape
            sentence += f" From scores in {n_classes * bins} bins"
            asked = [self._classes[one] for one in found.asked]
            sentence += (
                f", for '{asked[0]}'." if n_classes == 2 and asked else "; mean over classes, one against the rest."
            )
        if measure.value is None:
            sentence = _reason(name, found)
        return self._evidence(name, f"{TITLES[name]}, {self._source}", measure, sentence)

    def anchor(self, name: str, measure: Measure, found: TableMeasures) -> ChargedEvidence:
        """Return the same measure for always guessing the most frequent class of the noisy table."""
        sentence = "Always predicts the most frequent class."
        if measure.value is None:
            sentence = _reason(name, found)
        return self._evidence(f"majority_{name}", f"{TITLES[name]}, majority class", measure, sentence)

    def rows(self, found: TableMeasures) -> ChargedEvidence:
        """Return the noisy number of rows, and how the numbers were made."""
        sentence = (
            f"Noisy number of held-out {self._of} with a known '{self._tables.label}'. "
            f"{_GUESSED[self._config.is_model]} held-out {self._of} were counted, with noise, by bin of prediction and "
            "by label. The 95 % ranges come from the known noise alone, simulated around the noisy counts; they do not "
            f"cover which {self._of} happened to be held out."
        )
        unknown = [one for place, one in enumerate(self._classes) if place not in found.classes]
        if unknown:
            sentence += f" Noise hides the classes {', '.join(unknown)}; means over classes leave them out."
        sentence += self._aside(self._tables.left_out)
        return self._evidence("rows", f"Test {self._of}", found.rows, sentence, unit=self._of)

    def table(self, found: TableMeasures) -> ChargedEvidence:
        """Return the noisy counts by guess and label."""
        counts = self._tables.counts.sum(axis=1)
        error = BAR * self._tables.noise_std * math.sqrt(self._tables.counts.shape[1])
        rows: list[tuple[Cell, ...]] = [
            (guess, *(float(round(count)) for count in row)) for guess, row in zip(self._classes, counts, strict=True)
        ]
        header = ("predicted", *(f"actual: {name}" for name in self._classes))
        each = f"each count ± {error:,.0f} {self._of} (95 %, noise alone)"
        sentence = f"Held-out {self._of} by predicted and actual label, {each}."
        nothing = Measure(None, None)
        ours, guess = found.measures["accuracy"], found.majority["accuracy"].value
        title, judged = f"How many held-out {self._of} were predicted correctly", ""
        if ours.value is not None and guess is not None:
            right = in_hundred(ours.value, self._of)
            title = f"{right} predicted correctly, {100 * guess:.0f} by always guessing one class"
            sure = ours.value - (ours.error or 0.0) > guess
            judged = "Good: better than guessing." if sure else "No better than guessing, within the noise."
        table = Table(title, header, tuple(rows), judged)
        return self._evidence("table", "Confusion matrix", nothing, sentence, table=table)

    def group(self, name: str, counts: NDArray[np.float64], noise_std: float) -> ChargedEvidence:
        """Return measures for every value of a column of groups, and how much their accuracies differ."""
        labels = self._config.schema.modelled_column(name).shown_texts()
        measured = [
            table_measures(counts[..., place], noise_std, seed=self._config.seed + place)
            for place in range(counts.shape[3])
        ]
        rows = []
        for label, found in zip(labels, measured, strict=True):
            cells: list[Cell] = [label, round(found.rows.value or 0.0)]
            for measure in (found.measures[one] for one in _BY_GROUP):
                cells += [measure.value, measure.error]
            rows.append(tuple(cells))
        gap = _widest_gap([found.measures["accuracy"] for found in measured])
        seen, judged = _gap_seen(gap, "accuracy", name)
        titles = [heading for one in _BY_GROUP for heading in (TITLES[one], f"{TITLES[one]}, ±")]
        return self._evidence(
            f"groups.{name}",
            f"Widest gap in accuracy between groups of {name}",
            gap,
            f"Measures for each value of '{name}' that noise does not hide. The widest of several gaps tends to be "
            "overstated.",
            table=Table(seen, (name, f"{self._of} (noisy)", *titles), tuple(rows), judged),
        )


# Of a number -------------------------------------------------------------------------------------------------------


def mean_loss(losses: float, rests: float, noise_std: float) -> Measure:
    """Return a mean loss with the range that noise makes.

    Parameters
    ----------
    losses, rests : float
        Noisy sum of losses, and of what is missing to 1; both together are a noisy number of rows.
    noise_std : float
        Standard deviation of the noise on each.

    Returns
    -------
    Measure
        Losses as a part of the rows, from 0 to 1. Its range is Fieller's: the means m for which losses - m rows is
        explained by noise. Nothing where noise hides the number of rows, or the range is wide.
    """
    rows, noise = losses + rests, BAR * noise_std
    if rows <= _TOLD * math.sqrt(2) * noise_std:
        return Measure(None, None)
    # (losses - m rows)^2 <= noise^2 ((1 - m)^2 + m^2)
    square, linear = rows**2 - 2 * noise**2, losses * rows - noise**2
    half = math.sqrt(max(linear**2 - square * (losses**2 - noise**2), 0.0)) / square
    value, middle = min(max(losses / rows, 0.0), 1.0), linear / square
    error = max(value - (middle - half), middle + half - value)
    return Measure(value, error) if error <= WIDEST_LOSS else Measure(None, None)


_HOW = {
    False: "Boosted trees were trained on synthetic rows, their values rounded to whole numbers and their predictions "
    "to one of 64; then",
    True: "The released model's predictions were calculated in whole numbers, with features in steps of 2^-16 and "
    "coefficients in steps of 2^-20; then",
}
"""How predictions were made, by whether a model was released."""


class _ChargedLosses(_Paid):
    """Numbers from sums of losses."""

    def __init__(self, losses: HoldoutLosses, config: RunConfig) -> None:
        super().__init__(losses.receipt, config)
        self._losses = losses
        self._target = Target.of(config.schema, losses.predictor.target.column)

    def evidence(self) -> tuple[ChargedEvidence, ...]:
        """Return every number."""
        overall = self._losses.overall
        return (self._error(overall), self._rows(overall), *map(self._group, self._losses.groups))

    def _root(self, measure: Measure) -> float | None:
        """Return the root of a mean squared error in the label's own unit."""
        low, high = self._target.bounds
        return None if measure.value is None else math.sqrt(measure.value) * (high - low)

    def _error(self, overall: LossTable) -> ChargedEvidence:
        found = mean_loss(float(overall.losses[0]), float(overall.rests[0]), overall.noise_std)
        sentence = _HIDDEN
        root = self._root(found)
        if root is not None:
            sentence = (
                f"{self._trained}; tested on held-out rows, whose squared errors carry privacy noise. The root is "
                f"{root:.3g} {self._target.unit}."
            )
            if not (self._config.is_model or self._losses.predictor.features.columns):
                sentence += " The synthetic rows taught nothing: their mean is always predicted."
        return self._evidence("mse", f"Mean squared error, {self._source}", found, sentence, unit="declared range as 1")

    def _rows(self, overall: LossTable) -> ChargedEvidence:
        rows = float(overall.losses[0] + overall.rests[0])
        sentence = (
            f"Noisy number of held-out {self._of} with a known '{self._target.column.name}'. "
            f"{_HOW[self._config.is_model]} squared errors of held-out {self._of} were added up, with noise. The 95 % "
            f"ranges come from the known noise alone; they do not cover which {self._of} happened to be held out."
            f"{self._aside(float(overall.left_out[0]))}"
        )
        measure = Measure(max(rows, 0.0), BAR * math.sqrt(2) * overall.noise_std)
        return self._evidence("rows", f"Test {self._of}", measure, sentence, unit=self._of)

    def _group(self, table: LossTable) -> ChargedEvidence:
        """Return the error for every value of a column of groups, and how much they differ."""
        labels = self._config.schema.modelled_column(table.column).shown_texts()
        pairs = zip(table.losses.tolist(), table.rests.tolist(), strict=True)
        measured = [mean_loss(*pair, table.noise_std) for pair in pairs]
        counts = np.maximum(table.losses + table.rests, 0.0)
        rows: list[tuple[Cell, ...]] = [
            (label, float(round(count)), one.value, one.error, self._root(one))
            for label, count, one in zip(labels, counts, measured, strict=True)
        ]
        header = (table.column, f"{self._of} (noisy)", "mean squared error", "±", f"root, {self._target.unit}")
        gap = _widest_gap(measured)
        seen, judged = _gap_seen(gap, "squared error", table.column)
        return self._evidence(
            f"groups.{table.column}",
            f"Widest gap in mean squared error between groups of {table.column}",
            gap,
            f"Prediction error for each value of '{table.column}' that noise does not hide. The widest of several gaps "
            "tends to be overstated.",
            unit="declared range as 1",
            table=Table(seen, header, tuple(rows), judged),
        )
