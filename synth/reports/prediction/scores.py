"""How good predictions of test rows are: areas, F1 and errors, for many weightings of the rows at once.

A weighting says how often each test row counts, the first once each, the others as rows are drawn with replacement;
with whole weights every measure equals that of scikit-learn on the repeated rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Weights", "class_measures", "number_measures", "resampled"]

Weights = NDArray[np.int64]
"""Shape (1 + n_resamples, n_test); the first row is all ones."""


def resampled(units: NDArray[np.int64], n_resamples: int, seed: int) -> Weights:
    """Return the weightings of a bootstrap of test rows: units are drawn, and all rows of a unit come with it.

    Parameters
    ----------
    units : array of shape (n_test,)
        Whose each row is. Rows of one person are alike: drawn by themselves they would look like more than they are.
    n_resamples : int
    seed : int
        Public; the same weightings for the same seed.
    """
    random = np.random.default_rng([seed, len(units), 7])
    distinct, place = np.unique(units, return_inverse=True)
    weights = np.ones((1 + n_resamples, len(units)), dtype=np.int64)
    for replicate in weights[1:]:
        drawn = np.bincount(random.integers(len(distinct), size=len(distinct)), minlength=len(distinct))
        replicate[:] = drawn[place]
    return weights


def class_measures(
    truth: NDArray[np.int64],
    guesses: NDArray[np.int64],
    scores: NDArray[np.float64],
    asked: NDArray[np.int64],
    weights: Weights,
) -> Mapping[str, NDArray[np.float64]]:
    """Measure predicted classes.

    Parameters
    ----------
    truth, guesses : arrays of shape (n_test,)
        Codes of classes.
    scores : array of shape (n_test, n_asked)
    asked : array of shape (n_asked,)
        The rarer class of two, or every class of the test rows.
    weights : array of shape (n_weightings, n_test)

    Returns
    -------
    mapping from name to array of shape (n_weightings,)
        ``roc_auc`` and ``pr_auc`` (average precision), means over the asked classes, NaN where none of them has both
        kinds of rows; ``macro_f1`` (mean over the classes of the test rows), ``weighted_f1``, ``accuracy``.
    """
    areas = np.array([_areas(truth == one, scores[:, place], weights) for place, one in enumerate(asked)])
    seen = ~np.isnan(areas).all(axis=0)
    means = np.where(seen, np.nansum(areas, axis=0), np.nan) / np.maximum((~np.isnan(areas)).sum(axis=0), 1)
    return {"roc_auc": means[0], "pr_auc": means[1], **_of_classes(truth, guesses, weights)}


def _areas(positive: NDArray[np.bool_], scores: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """Return the area under the ROC curve (trapezoids over ties) and the average precision, shape (2, n_weightings)."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    drawn = weights[:, order]
    hits = np.cumsum(drawn * positive[order], axis=1)[:, ends]
    misses = np.cumsum(drawn, axis=1)[:, ends] - hits
    both = (hits[:, -1] > 0) & (misses[:, -1] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        new_hits = np.diff(hits, axis=1, prepend=0)
        new_misses = np.diff(misses, axis=1, prepend=0)
        roc = (new_misses * (hits - 0.5 * new_hits)).sum(axis=1) / (hits[:, -1] * misses[:, -1])
        precision = np.where(new_hits > 0, new_hits * hits / (hits + misses), 0.0).sum(axis=1) / hits[:, -1]
    return np.where(both, [roc, precision], np.nan)


def _of_classes(
    truth: NDArray[np.int64], guesses: NDArray[np.int64], weights: Weights
) -> dict[str, NDArray[np.float64]]:
    classes, places = np.unique(np.concatenate([truth, guesses]), return_inverse=True)
    size = len(classes)
    cell = places[: len(truth)] * size + places[len(truth) :]
    counts = np.array([np.bincount(cell, weights=one, minlength=size * size) for one in weights])
    counts = counts.reshape(len(weights), size, size)
    right = np.diagonal(counts, axis1=1, axis2=2)
    support, given = counts.sum(axis=2), counts.sum(axis=1)
    f1 = 2 * right / np.maximum(support + given, 1)
    there = support > 0
    return {
        "macro_f1": (f1 * there).sum(axis=1) / there.sum(axis=1),
        "weighted_f1": (f1 * support).sum(axis=1) / support.sum(axis=1),
        "accuracy": right.sum(axis=1) / support.sum(axis=1),
    }


def number_measures(
    truth: NDArray[np.float64], guesses: NDArray[np.float64], weights: Weights
) -> Mapping[str, NDArray[np.float64]]:
    """Measure predicted numbers.

    Returns
    -------
    mapping from name to array of shape (n_weightings,)
        ``r2`` (share of the variance explained; NaN where all test rows are alike) and ``mae`` (mean absolute error, in
        the label's unit).
    """
    total = weights.sum(axis=1)
    mean = weights @ truth / total
    variance = weights @ truth**2 / total - mean**2
    error = weights @ (guesses - truth) ** 2 / total
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(variance > 1e-12 * np.maximum(mean**2, 1e-300), 1 - error / variance, np.nan)
    return {"r2": r2, "mae": weights @ np.abs(guesses - truth) / total}
