"""Cells of the whole row: the nearest of a few public centres, by class.

Cells of a set divide its columns; here all columns of a row count together. Coordinates of rows and of centres are
integers of at most 128, so squared distances are integers far below 2^53, which float64 adds up exactly in any order: a
row's cell depends only on that row and the centres, to the last bit, whatever the block size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.models.cells import PooledRows, columns_of_state
from synth.models.junction_tree import ColumnSet

__all__ = ["LARGEST_COORDINATE", "CellsOfCentres", "centres_of", "nearest", "squares_of"]

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]

LARGEST_COORDINATE = 2**7
"""Largest coordinate of rows and centres, in absolute value."""

_TURNS = 8
"""Iterations of Lloyd's algorithm."""

_ROWS_AT_A_TIME = 2**13


@dataclass(frozen=True, slots=True, eq=False)
class CellsOfCentres:
    """Cells by the nearest centre, and by class.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns that have coordinates, and of the label if there are classes; ascending.
    coordinates : tuple of arrays of shape (bins of the column, width), float64
        Integers, by column, without the label.
    centres : array of shape (n_centres, sum of the widths), float64
        Integers.
    label : int, optional
        Position of the column whose bins are the classes.
    classes : int
        Their number; 1 without a label.
    """

    columns: ColumnSet
    coordinates: tuple[Vector, ...]
    centres: Vector
    label: int | None = None
    classes: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """Centres and classes."""
        return len(self.centres), self.classes

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.centres) * self.classes

    @property
    def features(self) -> ColumnSet:
        """The columns that have coordinates."""
        return tuple(column for column in self.columns if column != self.label)

    def index(self, pool: PooledRows) -> Whole:
        """Return the cell of every row of a pool, class fastest; shape (n_rows,). Computed once for each pool."""
        return pool.once(self, lambda: self._index(pool))

    def _index(self, pool: PooledRows) -> Whole:
        cells = nearest([pool.columns[column] for column in self.features], self.coordinates, self.centres)
        return cells if self.label is None else cells * self.classes + pool.columns[self.label]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return columns, coordinates and centres."""
        places = {f"places.{column}": one for column, one in zip(self.features, self.coordinates, strict=True)}
        label = -1 if self.label is None else self.label
        return {
            "columns": np.array(self.columns, dtype=np.int64),
            "label": np.array([label, self.classes], dtype=np.int64),
            "centres": self.centres,
            **places,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Self:
        """Return the cells of a state, by columns of these sizes.

        Raises
        ------
        LookupError, ValueError
            If they are not cells of such columns.
        """
        columns = columns_of_state(state)
        place, classes = state["label"].astype(np.int64).tolist()
        label = None if place < 0 else place
        if (1 if label is None else sizes[label]) != classes or (label is not None and label not in columns):
            raise ValueError("The classes of a pool's cells must be those of one of its columns.")
        coordinates = tuple(state[f"places.{column}"].astype(np.float64) for column in columns if column != label)
        centres = state["centres"].astype(np.float64)
        found = cls(columns, coordinates, centres, label, classes)
        fits = all(
            one.ndim == 2 and len(one) == sizes[column]
            for column, one in zip(found.features, found.coordinates, strict=True)
        )
        width = sum(one.shape[-1] for one in coordinates)
        if not coordinates or not fits or centres.ndim != 2 or not len(centres) or centres.shape[1] != width:
            raise ValueError("The centres of a pool need a coordinate for every bin.")
        if any(
            (np.abs(one) > LARGEST_COORDINATE).any() or (one != np.rint(one)).any() for one in (*coordinates, centres)
        ):
            raise ValueError("The centres of a pool and its coordinates must be whole numbers of at most 128.")
        return found


def squares_of(centres: Vector) -> Vector:
    """Return the squared length of every centre, shape (n_centres,)."""
    return np.asarray(np.einsum("kj,kj->k", centres, centres))


def nearest(bins: Sequence[NDArray[Any]], coordinates: Sequence[Vector], centres: Vector) -> Whole:
    """Return the nearest centre of every row, the first in a tie; shape (n_rows,).

    Parameters
    ----------
    bins : sequence of arrays of shape (n_rows,)
        Of every column that has coordinates.
    coordinates, centres
        As in :class:`CellsOfCentres`.
    """
    # Integers below 2^24 are exact in float32, which takes half the time.
    kind = np.float32 if 3 * centres.shape[1] * LARGEST_COORDINATE**2 < 2**24 else np.float64
    tables = [one.astype(kind) for one in coordinates]
    squares, ways = squares_of(centres).astype(kind), (-2.0 * centres.T).astype(kind)
    found = np.empty(len(bins[0]), dtype=np.int64)
    for start in range(0, len(found), _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        rows = np.concatenate([table[own[part]] for table, own in zip(tables, bins, strict=True)], axis=1)
        # |row - centre|^2 without |row|^2, which is the same for all centres.
        distances = rows @ ways
        distances += squares
        found[part] = distances.argmin(axis=1)
    return found


def centres_of(bins: Sequence[NDArray[Any]], coordinates: Sequence[Vector], *, most: int, seed: int) -> Vector:
    """Find centres of some rows by Lloyd's algorithm (Lloyd 1982), in integers.

    Parameters
    ----------
    bins : sequence of arrays of shape (n_rows,)
        Of every column that has coordinates.
    coordinates : sequence of arrays of shape (bins of the column, width)
        Integers.
    most : int
        Maximum number of centres; equal rows are one first centre.
    seed : int
        Public; draws the rows that are the first centres.

    Returns
    -------
    array of shape (at most ``most``, sum of the widths)
        Means of the rows that are nearest to each, rounded to integers.
    """
    rows = np.concatenate([one[own] for one, own in zip(coordinates, bins, strict=True)], axis=1)
    random = np.random.Generator(np.random.PCG64(seed))
    centres = np.unique(rows[random.choice(len(rows), min(most, len(rows)), replace=False)], axis=0)
    for _ in range(_TURNS):
        own = nearest(bins, coordinates, centres)
        held = np.bincount(own, minlength=len(centres))
        sums = np.stack([np.bincount(own, column, len(centres)) for column in rows.T], axis=1)
        means = np.rint(sums / np.maximum(held, 1)[:, None])
        centres = np.where(held[:, None] > 0, means, centres)
    return centres
