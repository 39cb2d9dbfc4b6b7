"""A predictor of the label as public data: boosted trees trained on synthetic rows, their numbers made whole.

It becomes a :class:`synth.privacy.more.forests.Forest`, which a private session can put rows into without running
anybody's code. Everything here is read off synthetic rows: the order of categories, thresholds, leaves, and the edges
that cut confidence into bins of about equally many synthetic rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.privacy.more.forests import LARGEST_VALUE, Forest
from synth.reports.counting import CodeTable
from synth.reports.prediction_features import Target
from synth.reports.prediction_tasks import quiet_and_single
from synth.schema import ModelledColumn, Schema

__all__ = ["constant_forest", "synthetic_forest"]

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
    columns = [(place, column) for place, column in enumerate(schema.modelled) if place != target.place]
    if len(np.unique(truth)) < 2 or not columns:
        return constant_forest(codes, schema, label, bins=bins)
    places = [_places(column, codes[place][rows], truth, target.n_classes) for place, column in columns]
    matrix = np.stack([one[codes[place][rows]] for one, (place, _) in zip(places, columns, strict=True)], axis=1)
    grown = _grown(matrix.astype(np.float32), truth, target.n_classes, seed)
    names = tuple(column.name for _, column in columns)
    forest = Forest(
        names, tuple(places), grown.nodes, grown.values, grown.roots, np.zeros((target.n_classes, 0), np.int32)
    )
    return _with_edges(forest, codes, schema, bins)


def constant_forest(codes: CodeTable, schema: Schema, label: str, *, bins: int) -> Forest:
    """Return the predictor that always guesses the most frequent class of synthetic rows."""
    target = Target.of(schema, label)
    counts = np.bincount(codes[target.place][target.usable(codes)].astype(np.int64), minlength=target.n_classes)
    values = np.zeros((1, target.n_classes), dtype=np.int32)
    values[0, int(counts[: target.n_classes].argmax())] = 1
    edges = np.ones((target.n_classes, bins - 1), dtype=np.int32)
    return Forest((), (), np.zeros((1, 4), np.int32), values, np.zeros(1, np.int32), edges)


@dataclass(frozen=True, slots=True, eq=False)
class _Grown:
    nodes: NDArray[np.int32]
    values: NDArray[np.int32]
    roots: NDArray[np.int32]


def _places(column: ModelledColumn, codes: NDArray[Any], truth: NDArray[np.int64], n_classes: int) -> NDArray[np.int32]:
    """Return the place of every code: as declared where it lies on a grid, else in the order of the label's shares.

    For two classes that is the order of the share of one of them, and the best cut of a list of categories is then
    among its cuts in two.
    """
    if column.levels:
        return np.arange(column.size, dtype=np.int32)
    counts = np.zeros((column.size, n_classes))
    np.add.at(counts, (codes.astype(np.int64), truth), 1.0)
    frequencies = counts.sum(axis=0) / counts.sum()
    # One row's worth of the whole table for every value: rare values keep to the middle.
    totals = counts.sum(axis=1, keepdims=True) + 1.0
    apart = (counts + frequencies) / totals - frequencies
    _, _, directions = np.linalg.svd(apart * np.sqrt(totals), full_matrices=False)
    along = np.round(apart @ directions[0], 12)
    places = np.empty(column.size, dtype=np.int32)
    places[np.argsort(along, kind="stable")] = np.arange(column.size)
    return places


def _grown(matrix: NDArray[np.float32], truth: NDArray[np.int64], n_classes: int, seed: int) -> _Grown:
    """Boost trees on places, and write them as whole numbers."""
    # Imported late: a run that charges no prediction need not load a library of predictors.
    from sklearn.ensemble import GradientBoostingClassifier

    present, known = np.unique(truth, return_inverse=True)
    outputs = 1 if len(present) == 2 else len(present)
    model = GradientBoostingClassifier(
        n_estimators=max(_TREES // outputs, 10),
        learning_rate=_LEARNING_RATE,
        max_leaf_nodes=_LEAVES,
        max_depth=_DEPTH,
        min_samples_leaf=_SMALLEST_LEAF,
        subsample=0.5,
        max_features=min(matrix.shape[1], _MOST_COLUMNS_A_SPLIT),
        random_state=seed % 2**32,
    )
    with quiet_and_single():
        model.fit(matrix, known)
    shares = np.bincount(known) / len(known)
    first = np.full(n_classes, -float(LARGEST_VALUE))  # a class that no synthetic row has is never guessed
    first[present] = np.log(shares) * _STEPS
    nodes, values, roots = [np.zeros((1, 4), np.int32)], [np.rint(first)[None, :]], [0]
    start = 1
    for trees in model.estimators_:
        for output, tree in enumerate(trees):
            inner = tree.tree_
            of_class = present[1] if outputs == 1 else present[output]
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
            steps = np.rint(inner.value[:, 0, 0] * _LEARNING_RATE * _STEPS)
            added[:, of_class] = np.where(leaf, np.clip(steps, -LARGEST_VALUE, LARGEST_VALUE), 0)
            nodes.append(block.astype(np.int32))
            values.append(added)
            roots.append(start)
            start += inner.node_count
    return _Grown(np.concatenate(nodes), np.concatenate(values).astype(np.int32), np.array(roots, np.int32))


def _with_edges(forest: Forest, codes: CodeTable, schema: Schema, bins: int) -> Forest:
    """Cut the confidence of every guessed class where its synthetic rows fall into equal parts."""
    by_name = dict(zip(schema.names, codes, strict=True))
    guess, confidence = forest.guesses(by_name.__getitem__, len(codes[0]))
    edges = np.zeros((forest.shape[0], bins - 1), dtype=np.int32)
    for one in range(len(edges)):
        own = np.sort(confidence[guess == one])
        if len(own):
            edges[one] = own[(np.arange(1, bins) * len(own)) // bins]
    return Forest(forest.columns, forest.places, forest.nodes, forest.values, forest.roots, edges)
