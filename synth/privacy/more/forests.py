r"""The bin that a forest of decision trees puts a row into: a predictor as public data, evaluated in whole numbers.

Every tree sends a row from its root to a leaf by comparing positions of codes with thresholds; every leaf holds one
whole number for each class. A row's scores are the sums over trees; its guess is the class with the largest score (the
first of several), its confidence how far that score lies above the second. The bin is the guess, and how many of the
guess's edges lie below the confidence. Nothing is rounded, so a row's bin is the same on every machine, whatever
the other rows.

A guess from another predictor than trees is a :class:`Guess` too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError
from synth.privacy.bins import Bins
from synth.privacy.counting import Axis, ColumnOf, Computed
from synth.privacy.feature_maps import (
    Arrays,
    CellMap,
    Inner,
    Matrix,
    SyntheticCodes,
    check_dimension,
    kept,
    kept_bins,
    whole_array,
)
from synth.privacy.questions import name_of

__all__ = [
    "LARGEST_VALUE",
    "MAXIMUM_BINS",
    "MAXIMUM_CLASSES",
    "ROWS_AT_A_TIME",
    "Forest",
    "Guess",
    "checked_edges",
    "even_edges",
]

MAXIMUM_TREES = 2**10
MAXIMUM_NODES = 2**22
MAXIMUM_DEPTH = 64
MAXIMUM_CLASSES = 2**6
MAXIMUM_BINS = 2**6

LARGEST_VALUE = 2**20
"""Largest absolute number in a leaf: scores of all trees together stay below 2^30."""

ROWS_AT_A_TIME = 2**14

_PARTS = ("nodes", "values", "roots", "edges")


class Guess(CellMap):
    """The class that a public predictor guesses and the bin of its confidence, as a one-hot: 1 there, 0 elsewhere.

    ``edges`` has shape (n_classes, n_bins - 1): by guessed class, edges of the confidence, none falling. A confidence
    above an edge is in a later bin. ``key`` names the predictor: two that differ never share one.
    """

    __slots__ = ()

    edges: NDArray[np.int32]
    key: str

    @property
    def shape(self) -> tuple[int, int]:
        """Classes and bins of confidence of each."""
        return int(self.edges.shape[0]), int(self.edges.shape[1]) + 1

    @property
    def dimension(self) -> int:
        """Number of bins of all classes together."""
        return self.shape[0] * self.shape[1]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """One axis: the bin is a column of its own, calculated before rows are counted."""
        return (Axis(self.key, None, self.dimension),)

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The bin as a column."""
        return (self,)

    def cells(self, column: ColumnOf, n_rows: int) -> NDArray[np.uint16]:
        """Return the bin of every row, guessed class slowest.

        Parameters
        ----------
        column : callable
            Returns a column's codes by name, shape (n_rows,).
        n_rows : int

        Returns
        -------
        array of shape (n_rows,), uint16
        """
        guesses, confidences = self.guesses(column, n_rows)
        bins = guesses.astype(np.int64) * self.shape[1]
        for place in range(self.edges.shape[1]):
            bins += confidences > self.edges[guesses, place]
        return bins.astype(np.uint16)

    @abstractmethod
    def guesses(self, column: ColumnOf, n_rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the class with the largest score of every row, and how far that lies above the second.

        Parameters
        ----------
        column, n_rows
            As in :meth:`cells`.

        Returns
        -------
        guesses : array of shape (n_rows,), uint8
        confidences : array of shape (n_rows,), int64
            In whole steps; where there is one class alone, its score.
        """

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the indicator of each synthetic row's bin, shape (n_rows, dimension)."""
        cells = self.cells(codes.__getitem__, len(next(iter(codes.values()))))
        features = np.zeros((len(cells), self.dimension))
        features[np.arange(len(cells)), cells] = 1.0
        return features


def checked_edges(edges: ArrayLike, n_classes: int) -> NDArray[np.int32]:
    """Return edges of confidence, or refuse edges that are not valid.

    Raises
    ------
    PrivacyError
        If there are none for a class, too many, or they fall.
    """
    array = whole_array("edges", "a forest", edges, 2)
    if len(array) != n_classes or array.shape[1] >= MAXIMUM_BINS or bool((np.diff(array, axis=1) < 0).any()):
        raise PrivacyError("A guess needs edges of confidence for every class, fewer than 64 and none falling.")
    return array


def even_edges(
    guesses: NDArray[np.integer[Any]], confidences: NDArray[np.int64], *, n_classes: int, bins: int
) -> NDArray[np.int32]:
    """Cut the confidence of every guessed class so that its public rows fall into equal parts; at 0 without rows.

    Parameters
    ----------
    guesses, confidences : arrays of shape (n_rows,)
        Of rows that are public; as :meth:`Guess.guesses` gives them.
    n_classes, bins : int
    """
    edges = np.zeros((n_classes, bins - 1), dtype=np.int32)
    for one in range(n_classes):
        own = np.sort(confidences[guesses == one])
        if len(own):
            edges[one] = own[(np.arange(1, bins) * len(own)) // bins].clip(max=2**31 - 1)
    return edges


@dataclass(frozen=True, slots=True, eq=False)
class Forest(Guess):
    """The bin of a forest's prediction, as a one-hot.

    Parameters
    ----------
    columns : tuple of str
        Different modelled columns that are looked at; may be empty for a forest of leaves.
    places : tuple of Bins
        Place of every code, by column: what thresholds are compared with. An array of shape (column size,) is taken as
        the places that it lists.
    nodes : array of shape (n_nodes, 4), int32
        Of every node: which of ``columns``, the threshold, the node for rows at or below it, the node for rows above.
        Both come after their parent. A leaf has itself as both.
    values : array of shape (n_nodes, n_classes), int32
        What a row adds to the score of every class if it ends there; from -2^20 to 2^20.
    roots : array of shape (n_trees,), int32
        Where every tree begins.
    edges : array of shape (n_classes, n_bins - 1), int32
        By guessed class, edges of the confidence, none falling. A confidence above an edge is in a later bin.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or a tree could run in a circle.
    """

    kind: ClassVar[str] = "forest"

    columns: tuple[str, ...] = field()
    places: tuple[Bins, ...]
    nodes: NDArray[np.int32]
    values: NDArray[np.int32]
    roots: NDArray[np.int32]
    edges: NDArray[np.int32]
    depth: int = field(init=False, repr=False)
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        places = tuple(one if isinstance(one, Bins) else Bins.of_codes(one) for one in self.places)
        if len(set(columns)) != len(columns) or len(places) != len(columns):
            raise PrivacyError("A forest needs the place of every code, by column, each column named once.")
        nodes, values = (
            whole_array("nodes", "a forest", self.nodes, 2),
            whole_array("values", "a forest", self.values, 2),
        )
        roots = whole_array("roots", "a forest", self.roots, 1)
        n_classes = values.shape[1]
        if nodes.shape[1] != 4 or len(values) != len(nodes) or not 1 <= len(nodes) <= MAXIMUM_NODES:
            raise PrivacyError(f"A forest needs four numbers and its values for each of 1 to {MAXIMUM_NODES:,} nodes.")
        if not 1 <= n_classes <= MAXIMUM_CLASSES or np.abs(values.astype(np.int64)).max() > LARGEST_VALUE:
            raise PrivacyError(f"A forest scores 1 to {MAXIMUM_CLASSES} classes by numbers of at most 2^20.")
        if not 1 <= len(roots) <= MAXIMUM_TREES or roots.min() < 0 or roots.max() >= len(nodes):
            raise PrivacyError(f"A forest needs 1 to {MAXIMUM_TREES:,} trees that begin at its nodes.")
        edges = checked_edges(self.edges, n_classes)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "places", places)
        for name, array in (("nodes", nodes), ("values", values), ("roots", roots), ("edges", edges)):
            object.__setattr__(self, name, array)
        object.__setattr__(self, "depth", _depth(nodes, len(columns)))
        object.__setattr__(self, "key", name_of(self))
        check_dimension(self.dimension)

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """Its columns, with the number of codes of each."""
        return tuple((column, places.size) for column, places in zip(self.columns, self.places, strict=True))

    def guesses(self, column: ColumnOf, n_rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the class with the largest score of every row, and how far that lies above the second."""
        codes = [column(name) for name in self.columns]
        guesses, confidences = np.empty(n_rows, dtype=np.uint8), np.empty(n_rows, dtype=np.int64)
        for start in range(0, n_rows, ROWS_AT_A_TIME):
            part = slice(start, min(start + ROWS_AT_A_TIME, n_rows))
            pairs = zip(self.places, codes, strict=True)
            placed = [places[code[part]] for places, code in pairs] or [np.zeros(part.stop - start, dtype=np.int32)]
            scores = self._scores(np.stack(placed))
            guesses[part] = scores.argmax(axis=1)
            ordered = np.sort(scores, axis=1)
            confidences[part] = ordered[:, -1] - (ordered[:, -2] if scores.shape[1] > 1 else 0)
        return guesses, confidences

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return columns, places and trees."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "places": [kept_bins(arrays, f"{name}.places.{place}", one) for place, one in enumerate(self.places)],
            **{part: kept(arrays, f"{name}.{part}", getattr(self, part)) for part in _PARTS},
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the forest of columns, places and trees."""
        places = tuple(Bins.from_json(one, arrays) for one in said["places"])
        return cls(tuple(said["columns"]), places, *(arrays[said[part]] for part in _PARTS))

    def _scores(self, placed: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the scores of rows whose places are given, shape (n_rows, n_classes)."""
        which, threshold, below, above = (np.ascontiguousarray(one) for one in self.nodes.T)
        rows = np.arange(placed.shape[1])
        scores = np.zeros((len(rows), self.values.shape[1]), dtype=np.int64)
        for root in self.roots:
            node = np.full(len(rows), root)
            # The same number of steps for every row: a row at a leaf stays there.
            for _ in range(self.depth):
                node = np.where(placed[which[node], rows] <= threshold[node], below[node], above[node])
            scores += self.values[node]
        return scores


def _depth(nodes: NDArray[np.int32], n_columns: int) -> int:
    """Return the most steps from any node to a leaf, after checking that every tree ends."""
    own = np.arange(len(nodes))
    which, _, below, above = nodes.T
    leaf = (below == own) & (above == own)
    inside = (below > own) & (above > own) & (below < len(nodes)) & (above < len(nodes))
    if not (leaf | inside).all() or which.min() < 0 or which[inside].max(initial=-1) >= n_columns:
        raise PrivacyError("Every node of a forest is a leaf, or compares a column and leads to two later nodes.")
    if which[leaf].max(initial=0) > max(n_columns - 1, 0):
        raise PrivacyError("A leaf of a forest names a column that the forest does not look at.")
    steps = [0] * len(nodes)
    pairs = list(zip(below.tolist(), above.tolist(), strict=True))
    for node in range(len(nodes) - 1, -1, -1):
        if not leaf[node]:
            steps[node] = 1 + max(steps[pairs[node][0]], steps[pairs[node][1]])
    if max(steps) > MAXIMUM_DEPTH:
        raise PrivacyError(f"A tree of a forest may have at most {MAXIMUM_DEPTH} steps, got {max(steps)}.")
    return max(steps)
