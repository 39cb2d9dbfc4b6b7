"""The independent control: rows that have the right columns, as far as noise allows, and nothing else.

It is what a table costs nothing to make once its one-way tables are known, so every other table must beat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.generators.coarse_grid import coarse_grid
from synth.generators.sampling import project_to_simplex, rounded_counts
from synth.reports.counting import CodeTable
from synth.schema import ModelledColumn, Schema

__all__ = [
    "PUBLIC_BINS",
    "OneWay",
    "coarse_bins",
    "coarse_size",
    "independent_rows",
    "owner_control",
    "shuffled_rows",
]

PUBLIC_BINS = 32
"""Bins into which a number's or date's declared range is put where one bin per code would be mostly noise."""


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """Counts of one column, over bins of its codes.

    ``bins`` has shape (column size,), the bin of every code; ``counts`` has shape (n_bins,), in rows, and may be noisy.
    """

    bins: NDArray[np.int32]
    counts: NDArray[np.float64]


def coarse_bins(column: ModelledColumn) -> NDArray[np.int32]:
    """Return the public bin of every code: at most 32 equal parts of a declared range; other codes stay by themselves.

    Returns
    -------
    array of shape (column.size,), int32
    """
    places = coarse_grid(column, grid=PUBLIC_BINS, atoms=max(column.size, 1))
    bins = places.bins
    return np.arange(column.size, dtype=np.int32) if bins is None else bins


def coarse_size(column: ModelledColumn) -> int:
    """Return the number of public bins of a column, as :func:`coarse_bins` makes them."""
    return min(column.levels, PUBLIC_BINS) + column.size - column.levels


def independent_rows(tables: Sequence[OneWay], *, n_rows: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw rows whose columns follow noisy one-way tables and are unrelated to each other.

    Parameters
    ----------
    tables : sequence of OneWay
        One for each column; negative counts are allowed.
    n_rows : int
        Rows to draw, at least 1.
    seed : int
        Public.

    Returns
    -------
    list of arrays of shape (n_rows,), int64
        Codes, one array per column; inside a bin every code is as likely.
    """
    random = np.random.default_rng([seed, len(tables)])
    rows = []
    for table in tables:
        total = max(float(table.counts.sum()), 1.0)
        drawn = np.repeat(
            np.arange(len(table.counts)), rounded_counts(project_to_simplex(table.counts / total), n_rows, random)
        )
        codes = _codes_inside(table.bins, drawn, random)
        rows.append(random.permutation(codes))
    return rows


def owner_control(
    private: CodeTable, schema: Schema, noise: float, *, n_rows: int, seed: int
) -> list[NDArray[np.int64]]:
    """Draw the control of an owner-only report, from counts of private rows with as much noise as a budget buys.

    The noise is not privacy noise: it shows the owner what noise of this size does, and the sum never leaves the
    owner's page.

    Parameters
    ----------
    private : CodeTable
        Codes in ``schema.names`` order.
    schema : Schema
    noise : float
        Standard deviation on every count, in rows.
    n_rows : int
        Rows to draw.
    seed : int
        Public.
    """
    random = np.random.default_rng([seed, 2])
    tables = []
    for column, codes in zip(schema.modelled, private, strict=True):
        bins = coarse_bins(column)
        counts = np.bincount(bins[codes], minlength=int(bins.max()) + 1)
        tables.append(OneWay(bins, counts + random.normal(0.0, noise, size=len(counts))))
    return independent_rows(tables, n_rows=n_rows, seed=seed)


def shuffled_rows(rows: CodeTable, *, seed: int) -> list[NDArray[Any]]:
    """Return rows with every column shuffled by itself: the control of rows that are public or synthetic."""
    random = np.random.default_rng([seed, 3])
    return [random.permutation(codes) for codes in rows]


def _codes_inside(bins: NDArray[np.int32], drawn: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    order = np.argsort(bins, kind="stable")
    width = np.bincount(bins, minlength=int(drawn.max(initial=0)) + 1)
    first = np.concatenate([[0], np.cumsum(width)[:-1]])
    inside = (random.random(len(drawn)) * width[drawn]).astype(np.int64)
    return np.asarray(order[first[drawn] + np.minimum(inside, width[drawn] - 1)])
