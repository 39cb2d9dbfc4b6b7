r"""A probability for every row of mixed columns: kernels around given rows, one factor for each column.

.. math:: \log p(x) = \log \frac{1}{n} \sum_{i=1}^{n} \prod_{j} \frac{e^{-w_j d_j(x_j, y_{ij})}}{Z_j(y_{ij})}

where d_j is Gower's distance in column j, in [0, 1], and Z_j sums the numerator over all codes of the column. So a
number spreads like a discrete Laplace law cut off at its declared range, a category keeps its value with some
probability and takes each other with an equal smaller one (Aitchison 1976), and p is a law on the declared codes: it
sums to one.

A column's sharpness is w_j = s / (mean distance of two of the rows in that column): columns count alike whatever their
range. The one free number s is chosen so that rows left out are as likely as can be (Habbema 1974).

It is chosen over a mixture or a network because it is a law on exactly the codes a generator makes, has one number to
fit and no start to get stuck in, and keeps what an attack on copies lives on: a spike at every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from synth.reports.counting import CodeTable
from synth.schema import ModelledColumn, Schema

__all__ = ["RowDensity", "mean_distances"]

_SHARPNESS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LEFT_OUT = 400
"""Rows left out to choose the sharpness."""

_PAIRS = 10_000
_LEAST_SPREAD = 1e-4
"""A column whose rows agree is as sharp as one that differs in one pair of 10,000."""

_CELLS = 2**19
"""Pairs of rows at a time: what fits a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class RowDensity:
    """A density around given rows.

    Attributes
    ----------
    columns : tuple of ModelledColumn
    weights : array of shape (n_columns,)
        w_j.
    places : list of arrays of shape (n_rows,), float32
        Where the rows are, in units in which columns' distances add up.
    mass : array of shape (n_rows,)
        Logarithm of the product of the Z_j of each row, and of the number of rows.
    """

    columns: tuple[ModelledColumn, ...]
    weights: NDArray[np.float64]
    places: list[NDArray[np.float32]]
    mass: NDArray[np.float64]

    @classmethod
    def fit(cls, rows: CodeTable, schema: Schema, *, spreads: NDArray[np.float64], seed: int) -> Self:
        """Choose the sharpness by rows left out.

        Parameters
        ----------
        rows : CodeTable
            Codes in ``schema.names`` order, at least one row.
        spreads : array of shape (n_columns,)
            Mean distance of two rows in each column (:func:`mean_distances`).
        seed : int
            Public; draws the rows left out.
        """
        n_rows = len(rows[0])
        left_out = np.random.default_rng([seed, 4]).permutation(n_rows)[:_LEFT_OUT]
        weights = 1.0 / np.maximum(spreads, _LEAST_SPREAD)
        unit = cls._around(rows, schema.modelled, weights)
        # Distances for a sharpness of 1; every other one multiplies them.
        apart = unit.distances([codes[left_out] for codes in rows])
        apart[np.arange(len(left_out)), left_out] = np.inf
        best, chosen = -np.inf, _SHARPNESS[0]
        for sharpness in _SHARPNESS if n_rows > 1 else ():
            mass = _log_mass(rows, schema.modelled, sharpness * weights)
            likelihood = float(_log_sums(-np.float32(sharpness) * apart, mass).mean())
            if likelihood > best:
                best, chosen = likelihood, sharpness
        return cls._around(rows, schema.modelled, chosen * weights)

    @classmethod
    def _around(cls, rows: CodeTable, columns: tuple[ModelledColumn, ...], weights: NDArray[np.float64]) -> Self:
        places = [_places(column, codes, w) for column, codes, w in zip(columns, rows, weights.tolist(), strict=True)]
        return cls(columns, weights, places, _log_mass(rows, columns, weights) + np.log(len(rows[0])))

    def log_probability(self, targets: CodeTable) -> NDArray[np.float64]:
        """Return the logarithm of the probability of rows.

        Parameters
        ----------
        targets : CodeTable
            Codes in the order of the columns.

        Returns
        -------
        array of shape (n_targets,)
        """
        found = np.empty(len(targets[0]))
        size = max(1, _CELLS // len(self.mass))
        for start in range(0, len(found), size):
            piece = [codes[start : start + size] for codes in targets]
            found[start : start + size] = _log_sums(-self.distances(piece), self.mass)
        return found

    def distances(self, targets: CodeTable) -> NDArray[np.float32]:
        """Return the weighted distance of every target from every row.

        Returns
        -------
        array of shape (n_targets, n_rows)
        """
        total = np.zeros((len(targets[0]), len(self.mass)), dtype=np.float32)
        apart = np.empty_like(total)
        for column, weight, theirs, codes in zip(
            self.columns, self.weights.tolist(), self.places, targets, strict=True
        ):
            mine = _places(column, codes, weight)[:, None]
            if column.levels:
                np.subtract(mine, theirs, out=apart)
                np.abs(apart, out=apart)
                if column.size > column.levels:
                    np.minimum(apart, np.float32(weight), out=apart)
            else:
                np.multiply(mine != theirs, np.float32(weight), out=apart)
            total += apart
        return total


def mean_distances(rows: CodeTable, schema: Schema, *, seed: int) -> NDArray[np.float64]:
    """Return the mean of Gower's distance of two rows, column by column, over pairs drawn by a public seed.

    Parameters
    ----------
    rows : CodeTable
        Codes in ``schema.names`` order, at least one row.

    Returns
    -------
    array of shape (n_columns,), in [0, 1]
    """
    one, other = np.random.default_rng([seed, 5]).integers(len(rows[0]), size=(2, _PAIRS))
    spreads = []
    for column, codes in zip(schema.modelled, rows, strict=True):
        left, right = codes[one].astype(np.int64), codes[other].astype(np.int64)
        apart = (left != right).astype(np.float64)
        on_grid = (left < column.levels) & (right < column.levels)
        apart[on_grid] = np.abs(left - right)[on_grid] / max(column.levels - 1, 1)
        spreads.append(float(apart.mean()))
    return np.array(spreads)


def _log_sums(exponents: NDArray[np.float32], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(sum(exp(exponents - mass))) of each row; the exponents are written over."""
    exponents -= mass.astype(np.float32)
    greatest = exponents.max(axis=1, keepdims=True)
    exponents -= greatest
    np.exp(exponents, out=exponents)
    return np.asarray(np.log(exponents.sum(axis=1, dtype=np.float64)) + greatest[:, 0])


def _places(column: ModelledColumn, codes: NDArray[np.integer], weight: float) -> NDArray[np.float32]:
    """Return numbers whose difference, cut off at the weight, is the weighted distance; categories keep their code."""
    if not column.levels:
        return codes.astype(np.float32)
    step = weight / max(column.levels - 1, 1)
    # Float32 keeps categories and, relative to their range, grid places to 2^-24.
    state = 2.0 * weight * (codes.astype(np.float64) - column.levels + 1)
    return np.where(codes < column.levels, codes * step, state).astype(np.float32)


def _log_mass(
    rows: CodeTable, columns: tuple[ModelledColumn, ...], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the logarithm of the product of the Z_j of each row."""
    total = np.zeros(len(rows[0]))
    for column, codes, weight in zip(columns, rows, weights.tolist(), strict=True):
        other = np.exp(-weight)
        if not column.levels:
            total += np.log1p((column.size - 1) * other)
            continue
        ratio = np.exp(-weight / max(column.levels - 1, 1))
        place = codes.astype(np.float64)
        tail = np.float64(1.0 - ratio)
        grid = (2 - ratio ** (place + 1) - ratio ** (column.levels - place)) / tail - 1
        atoms = column.size - column.levels
        states = 1 + (column.size - 1) * other
        total += np.log(np.where(place < column.levels, grid + atoms * other, states))
    return total
