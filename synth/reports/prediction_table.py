r"""How good predictions are, from noisy counts of rows by guess, bin of confidence and label; with the noise's range.

Scores are coarse: for class k a row stands the higher the more confidently k is guessed, and the lower the more
confidently another class is. Areas under curves are those of that score, with rows of one bin in random order. For two
classes that is the predictor's own score cut into bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.reports.prediction_problem import Measure

__all__ = ["MEASURES", "WIDEST_RANGE", "TableMeasures", "measures_of", "table_measures"]

MEASURES = ("roc_auc", "pr_auc", "macro_f1", "weighted_f1", "accuracy")

_DRAWS = 400
_TOLD = 3.0
"""A number of rows counts as there if it is so many standard deviations of its noise above nothing."""

WIDEST_RANGE = 0.25
"""A measure whose range is wider than this to either side says nothing, and is not shown."""

_RANGE = 0.95
_WIDENED = 1.1
"""Draws about noisy counts know the noise a little less well than draws about the exact ones would (measured)."""

Counts = NDArray[np.float64]
"""Shape (draws, classes, bins, classes): guessed class, bin of its confidence, label."""


@dataclass(frozen=True, slots=True, eq=False)
class TableMeasures:
    """What noisy counts say.

    Attributes
    ----------
    measures : mapping
        By name, with half the width of the range that noise makes (95 %); without a value where noise hides it.
    majority : mapping
        The same measures for guessing the most frequent label always.
    rows : Measure
        Number of rows.
    classes : tuple of int
        Classes that are told from nothing: those macro F1 and areas are means over.
    asked : tuple of int
        Classes whose areas are taken: the rarer one of two.
    """

    measures: Mapping[str, Measure]
    majority: Mapping[str, Measure]
    rows: Measure
    classes: tuple[int, ...]
    asked: tuple[int, ...]


def table_measures(counts: NDArray[np.float64], noise_std: float, *, seed: int) -> TableMeasures:
    """Read measures off one noisy table, with ranges by drawing known noise again.

    Parameters
    ----------
    counts : array of shape (classes, bins, classes)
        Noisy counts, in rows.
    noise_std : float
        Standard deviation of the noise on each, in rows.
    seed : int
        Public; draws noise that has nothing to do with the noise of the counts but its scale.
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
    # One class that is told from nothing leaves the number of rows that are guessed right, and nothing to average.
    told = MEASURES if len(classes) > 1 else ("accuracy",)
    return TableMeasures(
        nothing | {name: _measure(found[name]) for name in told},
        nothing | {name: _measure(always[name]) for name in told},
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
    """Measure the predictor that always guesses one class: all its rows stand in one bin."""
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
    # Linear in each table, so that noise of mean zero leaves it right on average.
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
    """Return the first value, less what noise adds to it on average, with its range; nothing where noise hides it.

    Draws about the noisy counts say both: how far noise carries a measure off on average, and how far from that. The
    range has the first in it as well, since the draws know it only as well as they know the counts.
    """
    if np.isnan(values).any():
        return Measure(None, None)
    middle = float(values[1:].mean())
    error = _WIDENED * float(np.quantile(np.abs(values[1:] - middle), _RANGE)) + abs(middle - float(values[0]))
    if error > widest:
        return Measure(None, None)
    return Measure(float(np.clip(2 * values[0] - middle, 0, most)), error)
