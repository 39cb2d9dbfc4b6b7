"""Predictors trained on synthetic rows as data that a private session can evaluate: boosted trees made whole.

They become a :class:`synth.privacy.more.forests.Forest`, which a session evaluates without running a library's code.
Everything about it is learned from synthetic rows: the order of categories, thresholds, leaves, and the edges that cut
confidence, or a predicted number, into bins with about equal numbers of synthetic rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from synth.generators.coarse_grid import coarse_grid
from synth.privacy.bins import Bins
from synth.privacy.more.forests import LARGEST_VALUE, MAXIMUM_BINS, Forest, even_edges
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.reports.code_tables import CodeTable
from synth.reports.features import Target, predicting
from synth.schema import ModelledColumn, Schema

__all__ = [
    "constant_forest",
    "constant_losses",
    "quiet_and_single",
    "synthetic_forest",
    "synthetic_losses",
]

_MOST_ROWS = 10_000
_TREES = 120
"""Trees of all classes together, so that many classes take no longer than two."""

_LEARNING_RATE = 0.1
_LEAVES = 16
_DEPTH = 6
_SMALLEST_LEAF = 10
_MOST_COLUMNS_A_SPLIT = 40
_STEPS = 2.0**12
"""Whole-number steps in one unit of a score (log odds)."""

_MOST_NUMBERS = 2**15
"""Different numbers of a label whose declared range has more than twice as many; half a step of it is no error."""

_NUMBER_STEPS = 2.0**16
"""Whole-number steps in the range of a label that is a number."""


def synthetic_forest(codes: CodeTable, schema: Schema, label: str, *, bins: int, seed: int) -> Forest:
    """Train a predictor of the label on synthetic rows.

    Parameters
    ----------
    codes : CodeTable
        Synthetic rows, codes of every modelled column in ``schema.names`` order.
    schema : Schema
    label : str
        A column of classes; the forest does not look at it.
    bins : int
        Bins of confidence for each guessed class, at least 1.
    seed : int
        Public.

    Returns
    -------
    Forest
        A single leaf where synthetic rows have fewer than two classes, or no other column.
    """
    target = Target.of(schema, label)
    usable = target.usable(codes)
    rows = np.random.default_rng([seed, len(usable), 31]).permutation(usable)[:_MOST_ROWS]
    truth = codes[target.place][rows].astype(np.int64)
    columns = predicting(schema, label)
    if len(np.unique(truth)) < 2 or not columns:
        return constant_forest(codes, schema, label, bins=bins)
    places = [_places(column, codes[place][rows], truth, target.n_classes) for place, column in columns]
    grown = _grown(_matrix(places, columns, codes, rows), truth, target.n_classes, seed)
    return _with_edges(_cut(places, columns, grown), target.n_classes, codes, schema, bins)


def constant_forest(codes: CodeTable, schema: Schema, label: str, *, bins: int) -> Forest:
    """Return the predictor that always guesses the most frequent class of synthetic rows."""
    target = Target.of(schema, label)
    counts = np.bincount(codes[target.place][target.usable(codes)].astype(np.int64), minlength=target.n_classes)
    values = np.zeros((1, target.n_classes), dtype=np.int32)
    values[0, int(counts[: target.n_classes].argmax())] = 1
    edges = np.ones((target.n_classes, bins - 1), dtype=np.int32)
    return Forest((), (), np.zeros((1, 4), np.int32), values, np.zeros(1, np.int32), edges)


def synthetic_losses(codes: CodeTable, schema: Schema, label: str, *, seed: int) -> Losses:
    """Train a predictor of a number on synthetic rows: boosted trees whose prediction is one of 64 numbers.

    Parameters
    ----------
    codes, schema, label, seed
        As in :func:`synthetic_forest`; the label is a number or a date.

    Returns
    -------
    Losses
        The mean is always predicted where synthetic rows have fewer than two numbers, or no other column.
    """
    target = Target.of(schema, label)
    usable = target.usable(codes)
    rows = np.random.default_rng([seed, len(usable), 31]).permutation(usable)[:_MOST_ROWS]
    truth = _scaled(target, target.values(codes, rows))
    columns = predicting(schema, label)
    if len(np.unique(truth)) < 2 or not columns:
        return constant_losses(codes, schema, label)
    places = [
        None if column.levels else _places_by_mean(column, codes[place][rows], truth) for place, column in columns
    ]
    grown = _grown_number(_matrix(places, columns, codes, rows), truth, seed)
    forest = _with_edges(_cut(places, columns, grown), 1, codes, schema, MAXIMUM_BINS)
    by_name = dict(zip(schema.names, codes, strict=True))
    _, scores = forest.guesses(by_name.__getitem__, len(codes[0]))
    cells = forest.cells(by_name.__getitem__, len(codes[0]))
    counts = np.bincount(cells, minlength=forest.dimension)
    means = np.bincount(cells, weights=scores / _NUMBER_STEPS, minlength=forest.dimension) / np.maximum(counts, 1)
    return _losses_of(forest, means, schema, label)


def constant_losses(codes: CodeTable, schema: Schema, label: str) -> Losses:
    """Return the predictor that always predicts the mean of synthetic rows, or the middle of the range without rows."""
    target = Target.of(schema, label)
    usable = target.usable(codes)
    leaf = Forest((), (), np.zeros((1, 4), int), np.zeros((1, 1), int), np.zeros(1, int), np.zeros((1, 0), int))
    mean = float(_scaled(target, target.values(codes, usable)).mean()) if len(usable) else 0.5
    return _losses_of(leaf, np.array([mean]), schema, label)


def _losses_of(forest: Forest, predictions: NDArray[np.float64], schema: Schema, label: str) -> Losses:
    target = Target.of(schema, label)
    column = target.column
    grid = coarse_grid(
        column, grid=_MOST_NUMBERS if column.size > 2 * _MOST_NUMBERS else column.size, atoms=column.size
    )
    middles = grid.first + (grid.width - 1) // 2
    values = target.values([middles] * (target.place + 1), np.arange(len(middles)))
    return Losses(forest, predictions, Lookup(label, _scaled(target, values)[:, None], grid.bins))


def _scaled(target: Target, values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = target.bounds
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def _matrix(
    places: Sequence[_CodePlaces],
    columns: Sequence[tuple[int, ModelledColumn]],
    codes: CodeTable,
    rows: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Return the places of some rows, shape (n_rows, n_columns)."""
    own = [codes[place][rows] for place, _ in columns]
    found = [code if one is None else one[code] for one, code in zip(places, own, strict=True)]
    return np.stack(found, axis=1).astype(np.float32)


_Grown = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""Nodes, values and roots of a forest."""

_CodePlaces = NDArray[np.int32] | None
"""Place of every code; None on a grid, where it is the code."""


def _cut(places: Sequence[_CodePlaces], columns: Sequence[tuple[int, ModelledColumn]], grown: _Grown) -> Forest:
    """Return a forest without edges; a grid, which may be long, is cut into places where its thresholds lie."""
    nodes, values, roots = grown
    nodes, bins = nodes.copy(), []
    own = np.arange(len(nodes))
    for which, (place, (_, column)) in enumerate(zip(places, columns, strict=True)):
        if place is not None:
            bins.append(Bins.of_codes(place))
            continue
        mine = (nodes[:, 0] == which) & (nodes[:, 2] != own)
        thresholds, nodes[mine, 1] = np.unique(nodes[mine, 1], return_inverse=True)
        bins.append(
            Bins.of_runs(np.arange(len(thresholds) + 1), np.diff(thresholds, prepend=-1, append=column.size - 1))
        )
    names = tuple(column.name for _, column in columns)
    return Forest(names, tuple(bins), nodes, values, roots, np.zeros((values.shape[1], 0), np.int32))


def _places(column: ModelledColumn, codes: NDArray[Any], truth: NDArray[np.int64], n_classes: int) -> _CodePlaces:
    """Return the place of every code: as declared where it lies on a grid, else in the order of the label's shares.

    For two classes that is the order of the share of one of them, and the best cut of a list of categories is then
    among its cuts in two.
    """
    if column.levels:
        return None
    counts = np.zeros((column.size, n_classes))
    np.add.at(counts, (codes.astype(np.int64), truth), 1.0)
    frequencies = counts.sum(axis=0) / counts.sum()
    # Every value also counts one average row of the whole table, so that rare values stay near the middle.
    totals = counts.sum(axis=1, keepdims=True) + 1.0
    apart = (counts + frequencies) / totals - frequencies
    _, _, directions = np.linalg.svd(apart * np.sqrt(totals), full_matrices=False)
    along = np.round(apart @ directions[0], 12)
    places = np.empty(column.size, dtype=np.int32)
    places[np.argsort(along, kind="stable")] = np.arange(column.size)
    return places


def _places_by_mean(column: ModelledColumn, codes: NDArray[Any], truth: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the place of every value of a list in the order of the label's mean, rare ones near the middle."""
    counts = np.bincount(codes, minlength=column.size) + 1.0
    means = (np.bincount(codes, weights=truth, minlength=column.size) + truth.mean()) / counts
    places = np.empty(column.size, dtype=np.int32)
    places[np.argsort(np.round(means, 12), kind="stable")] = np.arange(column.size)
    return places


@contextmanager
def quiet_and_single() -> Iterator[None]:
    """Limit libraries to one thread and silence their warnings about convergence; both settings are global."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _grown(matrix: NDArray[np.float32], truth: NDArray[np.int64], n_classes: int, seed: int) -> _Grown:
    """Boost trees on places, and write them as whole numbers."""
    # Imported late: a run that charges no prediction need not load a library of predictors.
    from sklearn.ensemble import GradientBoostingClassifier

    present, known = np.unique(truth, return_inverse=True)
    outputs = 1 if len(present) == 2 else len(present)
    model = GradientBoostingClassifier(**_settings(matrix, seed) | {"n_estimators": max(_TREES // outputs, 10)})
    with quiet_and_single():
        model.fit(matrix, known)
    shares = np.bincount(known) / len(known)
    first = np.full(n_classes, -float(LARGEST_VALUE))  # a class that no synthetic row has is never guessed
    first[present] = np.log(shares) * _STEPS
    of_output = [present[1]] if outputs == 1 else list(present)
    return _as_whole_numbers(model.estimators_, np.rint(first), of_output, _STEPS)


def _grown_number(matrix: NDArray[np.float32], truth: NDArray[np.float64], seed: int) -> _Grown:
    """Boost trees for a number between 0 and 1."""
    from sklearn.ensemble import GradientBoostingRegressor  # imported late, as above

    model = GradientBoostingRegressor(**_settings(matrix, seed))
    with quiet_and_single():
        model.fit(matrix, truth)
    return _as_whole_numbers(model.estimators_, np.rint([truth.mean() * _NUMBER_STEPS]), [0], _NUMBER_STEPS)


def _settings(matrix: NDArray[np.float32], seed: int) -> dict[str, Any]:
    return {
        "n_estimators": _TREES,
        "learning_rate": _LEARNING_RATE,
        "max_leaf_nodes": _LEAVES,
        "max_depth": _DEPTH,
        "min_samples_leaf": _SMALLEST_LEAF,
        "subsample": 0.5,
        "max_features": min(matrix.shape[1], _MOST_COLUMNS_A_SPLIT),
        "random_state": seed % 2**32,
    }


def _as_whole_numbers(
    estimators: NDArray[Any], first: NDArray[np.float64], of_output: Sequence[int], steps: float
) -> _Grown:
    """Write boosted trees in whole numbers: a leaf with what all rows begin with, then every tree."""
    n_classes = len(first)
    nodes, values, roots = [np.zeros((1, 4), np.int32)], [first[None, :]], [0]
    start = 1
    for trees in estimators:
        for of_class, tree in zip(of_output, trees, strict=True):
            inner = tree.tree_
            leaf = inner.children_left < 0
            own = np.arange(inner.node_count)
            block = np.stack(
                [
                    np.where(leaf, 0, inner.feature),
                    np.where(leaf, 0, np.floor(inner.threshold)),
                    start + np.where(leaf, own, inner.children_left),
                    start + np.where(leaf, own, inner.children_right),
                ],
                axis=1,
            )
            added = np.zeros((inner.node_count, n_classes))
            whole = np.rint(inner.value[:, 0, 0] * _LEARNING_RATE * steps)
            added[:, of_class] = np.where(leaf, np.clip(whole, -LARGEST_VALUE, LARGEST_VALUE), 0)
            nodes.append(block.astype(np.int32))
            values.append(added)
            roots.append(start)
            start += inner.node_count
    return np.concatenate(nodes), np.concatenate(values).astype(np.int32), np.array(roots, np.int32)


def _with_edges(forest: Forest, n_classes: int, codes: CodeTable, schema: Schema, bins: int) -> Forest:
    """Cut the confidence of every guessed class where its synthetic rows fall into equal parts."""
    by_name = dict(zip(schema.names, codes, strict=True))
    edges = even_edges(*forest.guesses(by_name.__getitem__, len(codes[0])), n_classes=n_classes, bins=bins)
    return replace(forest, edges=edges)
