r"""Second moments of a pool's rows, which determine a linear or logistic regression.

A binned row becomes one vector a, with a few coordinates for each column, shortened to length 1. The weight of a row is

.. math:: p_i \propto \exp\left(\sum_{j < l} \theta_{jl} \, a_{ij} a_{il}\right)

over pairs of coordinates of different columns, so that the products' weighted means agree with noisy answers. This is
the exponential family of least change from the pool, as in ``synth.models.pool``, with products in place of cells.

The weights of a saved model's rows are computed number by number in IEEE float64, so that they are the same on every
machine; only fits use matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Coordinates", "CountedMoments", "TiltedMoments"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """How a binned row becomes a vector.

    Attributes
    ----------
    columns : tuple of int
        Positions of columns, ascending.
    tables : tuple of arrays of shape (bins, coordinates)
        Coordinates of every bin, by column, in units of the length to which vectors are shortened.
    """

    columns: tuple[int, ...]
    tables: tuple[Matrix, ...]

    @property
    def length(self) -> int:
        """Number of coordinates of all columns."""
        return sum(table.shape[1] for table in self.tables)

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pairs of coordinates of different columns: the first ones and the second ones, both of shape (pairs,)."""
        of_column = np.repeat(np.arange(len(self.columns)), [table.shape[1] for table in self.tables])
        first, second = np.triu_indices(self.length, 1)
        apart = of_column[first] != of_column[second]
        return first[apart], second[apart]

    def rows(self, bins: Sequence[NDArray[Any]]) -> Matrix:
        """Return the shortened vectors of rows, coordinate by coordinate; shape (coordinates, rows).

        Parameters
        ----------
        bins : sequence of arrays of shape (rows,)
            The bins of every column of the model.
        """
        rows = np.concatenate(
            [table.T[:, bins[column]] for column, table in zip(self.columns, self.tables, strict=True)]
        )
        squared = np.zeros(rows.shape[1])
        for coordinate in rows:
            squared += coordinate * coordinate
        np.maximum(squared, 1.0, out=squared)
        rows /= np.sqrt(squared, out=squared)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class CountedMoments:
    """Noisy sums of products of two coordinates over the private rows.

    Attributes
    ----------
    coordinates : Coordinates
    sums : array of shape (pairs,)
        In rows; with noise.
    noise_std : float
        Of one sum, in rows; positive.
    """

    coordinates: Coordinates
    sums: Vector
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class TiltedMoments:
    """The part of the logarithm of a row's weight that depends on products of two coordinates.

    Attributes
    ----------
    coordinates : Coordinates
    factors : array of shape (pairs,)
    """

    coordinates: Coordinates
    factors: Vector
    _places: tuple[NDArray[np.intp], NDArray[np.intp]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", self.coordinates.pairs)

    def logs(self, bins: Sequence[NDArray[Any]]) -> Vector:
        """Return this part for every row, shape (rows,), computed number by number."""
        rows = self.coordinates.rows(bins)
        found, inner = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        first, second = self._places
        for j in range(len(rows)):
            inner[:] = 0.0
            for pair in np.flatnonzero(first == j):
                inner += self.factors[pair] * rows[second[pair]]
            found += rows[j] * inner
        return found

    def state(self) -> dict[str, Vector]:
        """Return columns, tables and factors."""
        state: dict[str, Vector] = {"moments.columns": np.array(self.coordinates.columns, dtype=np.float64)}
        state["moments.factors"] = self.factors
        for column, table in zip(self.coordinates.columns, self.coordinates.tables, strict=True):
            state[f"moments.{column}"] = table
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Vector], sizes: Sequence[int]) -> Self | None:
        """Return the moments of a state, or None if it has none.

        Raises
        ------
        LookupError, ValueError
            If they are not moments of columns of these sizes.
        """
        if "moments.columns" not in state:
            return None
        columns = tuple(state["moments.columns"].astype(np.int64).tolist())
        if not columns or list(columns) != sorted(set(columns)) or columns[0] < 0:
            raise ValueError("The moments of a pool need different columns, in ascending order.")
        tables = tuple(np.ascontiguousarray(state[f"moments.{column}"]) for column in columns)
        whole = all(one.ndim == 2 and len(one) == sizes[column] for column, one in zip(columns, tables, strict=True))
        if not whole or not all(np.isfinite(one).all() for one in tables):
            raise ValueError("The moments of a pool need a finite vector for every bin.")
        coordinates, factors = Coordinates(columns, tables), state["moments.factors"]
        if factors.shape != coordinates.pairs[0].shape or not np.isfinite(factors).all():
            raise ValueError("The moments of a pool need one finite factor for every product.")
        return cls(coordinates, factors)
