"""The one question of a charged prediction report: held-out rows by bin of prediction, label and group.

The bin is that of a forest: boosted trees trained on synthetic rows, their numbers made whole. It becomes a
:class:`synth.privacy.more.forests.Forest`, which a private session can put rows into without running anybody's code.
Everything about it is read off synthetic rows: the order of categories, thresholds, leaves, and the edges that cut
confidence into bins of about equally many synthetic rows. Each column of groups has a table of its own beside the one
over all rows, which gets half of the question's share then.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from synth.errors import ConfigError
from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
from synth.privacy.more.forests import LARGEST_VALUE, Forest
from synth.privacy.more.products import Product
from synth.privacy.receipt import Receipt
from synth.reports.code_tables import CodeTable
from synth.reports.features import Target
from synth.schema import ModelledColumn, RunConfig, Schema

__all__ = [
    "MOST_GROUPS",
    "PREDICTION_QUERY",
    "WIDEST_RANGE",
    "HoldoutTables",
    "bins_of_confidence",
    "charged_groups",
    "constant_forest",
    "holdout_tables",
    "planned_question",
    "prediction_question",
    "quiet_and_single",
    "synthetic_forest",
]

PREDICTION_QUERY = "predictions on the hold-out"

WIDEST_RANGE = 0.25
"""A measure whose range is wider than this to either side says nothing, and is not shown."""

MOST_GROUPS = 20
"""A column of groups with more declared values than this has no table: its counts would be noise."""

_BINS = {2: 5, 3: 4, 4: 4}
_BINS_OF_MANY = 2


def bins_of_confidence(n_classes: int) -> int:
    """Return how many bins the confidence of each guessed class is cut into; fewer where classes are many."""
    return _BINS.get(n_classes, _BINS_OF_MANY)


def charged_groups(config: RunConfig) -> tuple[str, ...]:
    """Return the columns of groups that are told apart: those with few declared values, and not the label."""
    return tuple(
        name
        for name in dict.fromkeys(config.groups)
        if name != config.label and config.schema.modelled_column(name).size <= MOST_GROUPS
    )


def prediction_question(forest: Forest, config: RunConfig) -> FeatureMap:
    """Return what is asked of the hold-out.

    Parameters
    ----------
    forest : Forest
        One guess for each class of the label.
    config : RunConfig
        With a label of classes.

    Returns
    -------
    FeatureMap
        The one-hot of (bin of the forest, label), of shape (classes, bins, label); with groups a stack of it at weight
        sqrt(1/2) and one table by group for each column, which share the other half equally. The label has one more
        cell for rows where it is missing.
    """
    label = _label(config)
    if label.name in forest.columns:
        raise ConfigError(f"A predictor of '{label.name}' may not look at it.")
    overall = Product((forest, _by_class(label)))
    groups = charged_groups(config)
    if not groups:
        return overall
    parts: list[FeatureMap] = [overall]
    for name in groups:
        size = config.schema.modelled_column(name).size
        parts.append(Product((*overall.factors, OneHot((name,), (None,), (size,)))))
    each = math.sqrt(0.5 / len(groups))
    return Stack(tuple(parts), (math.sqrt(0.5), *(each for _ in groups)))


def planned_question(config: RunConfig) -> FeatureMap:
    """Return a question that costs what the real one will: the trees change no bound."""
    n_classes = Target.of(config.schema, _label(config).name).n_classes
    leaf, edges = np.zeros((1, 4), np.int32), np.zeros((n_classes, bins_of_confidence(n_classes) - 1), np.int32)
    forest = Forest((), (), leaf, np.zeros((1, n_classes), np.int32), np.zeros(1, np.int32), edges)
    return prediction_question(forest, config)


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutTables:
    """Noisy tables of held-out rows.

    Attributes
    ----------
    receipt : Receipt
    label : str
    forest : Forest
    counts : array of shape (classes, bins, classes)
        Rows by guessed class, bin of confidence and label; all tables together, each as much as it knows.
    noise_std : float
        Standard deviation of the noise on each of ``counts``, in rows.
    left_out : float
        Noisy number of rows whose label is missing, 0 where it cannot be.
    groups : mapping as tuple of pairs
        By column: counts of shape (classes, bins, classes, values) and the standard deviation of their noise.
    """

    receipt: Receipt
    label: str
    forest: Forest
    counts: NDArray[np.float64]
    noise_std: float
    left_out: float
    groups: tuple[tuple[str, NDArray[np.float64], float], ...]


def holdout_tables(releases: Iterable[NoisyAnswer]) -> HoldoutTables | None:
    """Find the answer to a charged prediction among the answers of a run, or None."""
    release = next((one for one in releases if one.receipt.query == PREDICTION_QUERY), None)
    if release is None or release.receipt.part != "holdout":
        return None
    question, flat = release.feature_map, np.asarray(release.value, dtype=np.float64).reshape(-1)
    parts, weights = (question.parts, question.weights) if isinstance(question, Stack) else ((question,), (1.0,))
    tables: list[tuple[tuple[str, ...], NDArray[np.float64], float]] = []
    forest, start = None, 0
    for part, weight in zip(parts, weights, strict=True):
        factors = part.factors if isinstance(part, Product) else ()
        hots = [factor for factor in factors[1:] if isinstance(factor, OneHot)]
        if not isinstance(part, Product) or not isinstance(factors[0], Forest) or len(hots) not in (1, 2):
            return None
        forest = factors[0]
        values = (flat[start : start + part.dimension] / weight).reshape(part.shape)
        tables.append((tuple(hot.columns[0] for hot in hots), values, release.noise_std / weight))
        start += part.dimension
    if forest is None:
        return None
    n_classes = forest.shape[0]
    whole, noise_std = _together([(_over_groups(values), _noise_over_groups(values, std)) for _, values, std in tables])
    return HoldoutTables(
        receipt=release.receipt,
        label=tables[0][0][0],
        forest=forest,
        counts=whole[..., :n_classes],
        noise_std=noise_std,
        left_out=float(whole[..., n_classes:].sum()),
        groups=tuple((names[1], values[:, :, :n_classes], std) for names, values, std in tables if len(names) == 2),
    )


def _over_groups(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values if values.ndim == 3 else values.sum(axis=3)


def _noise_over_groups(values: NDArray[np.float64], noise_std: float) -> float:
    return noise_std if values.ndim == 3 else noise_std * math.sqrt(values.shape[3])


def _together(tables: list[tuple[NDArray[np.float64], float]]) -> tuple[NDArray[np.float64], float]:
    """Average tables of the same rows, each by the inverse of its variance."""
    precisions = [1 / std**2 for _, std in tables]
    total = sum(precisions)
    added = sum(values * precision for (values, _), precision in zip(tables, precisions, strict=True))
    return np.asarray(added / total), 1 / math.sqrt(total)


def _label(config: RunConfig) -> ModelledColumn:
    if config.label is None:
        raise ConfigError("A charged prediction needs a label. Name the column to predict under 'label:'.")
    return config.schema.modelled_column(config.label)


def _by_class(label: ModelledColumn) -> OneHot:
    return OneHot((label.name,), (None,), (label.size,))


# The predictor ------------------------------------------------------------------------------------------------------


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


@contextmanager
def quiet_and_single() -> Iterator[None]:
    """Keep libraries to one thread and their advice about convergence to themselves; both settings are global."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
