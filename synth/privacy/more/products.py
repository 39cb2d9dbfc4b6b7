r"""Sums of products of several tables' features.

The tables are cut into two sides. A side's features are the products of its tables' entries, rounded to whole
multiples of :math:`2^{-h}`; the features of a row are the outer product of its two sides, whole multiples of
:math:`2^{-2h}`. That is a function of one row: what is done with its numbers before they are whole is one IEEE float64
multiplication after another, number by number in the order of the tables, and one rounding to nearest; no sum, no
division and no function is taken of them. Whole numbers are then added up in one of two ways, with the same result:
from a table of joint counts where that is small (the features are those of every cell, made by the same lines), else by
a matrix product :math:`L^T R` of blocks of rows, which float64 holds exactly, in any order, while 2 h + log2(rows in a
block) is at most 52. Which way is taken may depend on the number of rows; what a row adds does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.privacy.counting import Axis, Rows, axes_of, joint_counts, joint_index, rows_by_cell
from synth.privacy.leaves import Lookup
from synth.privacy.terms import Term

__all__ = ["product_sums"]

SMALL_HISTOGRAM = 10**6
LARGEST_SIDE = 2**24
BLOCK_ENTRIES = 2**21
MANTISSA = 52


def product_sums(
    term: Term, rows: Rows, cells: tuple[Axis, ...], *, half_bits: int, device: str = "cpu"
) -> NDArray[np.int64]:
    """Add up a block with two or more tables; shape (n_cells, features), in steps of 2^-(2 half_bits)."""
    sides = term.sides
    axes = [tuple(axis for table in side for axis in axes_of(table)) for side in sides]
    bins = [math.prod(axis.size for axis in side) for side in axes]
    widths = [math.prod(table.dimension for table in side) for side in sides]
    n_cells = math.prod(axis.size for axis in cells)
    few_cells = n_cells * bins[0] * bins[1] <= max(rows.n_rows, SMALL_HISTOGRAM)
    if few_cells and all(n * width <= LARGEST_SIDE for n, width in zip(bins, widths, strict=True)):
        return _by_counts(term, rows, cells, axes, half_bits)
    return _by_rows(term, rows, cells, axes, half_bits, device)


def _by_counts(
    term: Term, rows: Rows, cells: tuple[Axis, ...], axes: Sequence[tuple[Axis, ...]], half_bits: int
) -> NDArray[np.int64]:
    left, right = (
        _features(_on_device(tables, "cpu"), _every_cell(side), weight, half_bits).numpy()
        for tables, side, weight in zip(term.sides, axes, (term.weight, 1.0), strict=True)
    )
    counts = joint_counts(rows, (*cells, *axes[0], *axes[1])).reshape(-1, len(left), len(right))
    # At most 2^26 rows times 2^18 steps: exact. The product with the left side would not be: it is taken in two parts.
    # With n rows on the left, at most 2^24, low parts add up to at most 2^52, high ones to 2^(3 h - 26) n + 2^h n.
    partial = counts.astype(np.float64) @ right
    low_bits = MANTISSA - half_bits - math.ceil(math.log2(len(left)))
    high = np.floor(partial / 2.0**low_bits)
    low = partial - high * 2.0**low_bits
    sums = (left.T @ high).astype(np.int64) * 2**low_bits + (left.T @ low).astype(np.int64)
    return np.asarray(sums.reshape(len(counts), -1))


def _by_rows(
    term: Term, rows: Rows, cells: tuple[Axis, ...], axes: Sequence[tuple[Axis, ...]], half_bits: int, device: str
) -> NDArray[np.int64]:
    widths = [math.prod(table.dimension for table in side) for side in term.sides]
    block = max(1, min(BLOCK_ENTRIES // sum(widths), 2 ** (MANTISSA - 2 * half_bits)))
    blocks_held = 2 ** (MANTISSA - 2 * half_bits) // block
    tables = [_on_device(side, device) for side in term.sides]
    bins = [[joint_index(rows, (axis,)) for axis in side] for side in axes]
    sums = np.zeros((math.prod(axis.size for axis in cells), widths[0] * widths[1]), dtype=np.int64)
    for cell, places in rows_by_cell(rows, cells):
        chosen = [[index[places] for index in side] for side in bins]
        held = torch.zeros(widths[0], widths[1], dtype=torch.float64, device=device)
        for number, start in enumerate(range(0, len(chosen[0][0]), block), start=1):
            left, right = (
                _features(side, [index[start : start + block] for index in indexes], weight, half_bits)
                for side, indexes, weight in zip(tables, chosen, (term.weight, 1.0), strict=True)
            )
            held.addmm_(left.T, right)
            if number % blocks_held == 0:
                sums[cell] += _whole(held)
                held.zero_()
        sums[cell] += _whole(held)
    return sums


def _features(tables: Sequence[Tensor], indexes: Sequence[NDArray[Any]], weight: float, half_bits: int) -> Tensor:
    """Return one side's features of the rows with these bins, in whole steps of 2^-half_bits; shape (n_rows, width)."""
    chosen = [
        table[torch.from_numpy(index.astype(np.int64)).to(table.device)]
        for table, index in zip(tables, indexes, strict=True)
    ]
    features = chosen[0]
    for factor in chosen[1:]:
        features = (features[:, :, None] * factor[:, None, :]).flatten(1)
    return features.mul_(weight * 2.0**half_bits).round_()


def _every_cell(axes: Sequence[Axis]) -> list[NDArray[np.int64]]:
    return [index.reshape(-1) for index in np.indices([axis.size for axis in axes])]


def _on_device(tables: Sequence[Lookup], device: str) -> list[Tensor]:
    return [torch.from_numpy(table.table.copy()).to(device) for table in tables]


def _whole(sums: Tensor) -> NDArray[np.int64]:
    return np.asarray(sums.cpu().numpy().astype(np.int64).reshape(-1))
