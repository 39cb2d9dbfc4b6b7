"""Counting rows by cell: the only way in which a sum over rows reads them, column by column and in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.leaves import Lookup, OneHot

__all__ = ["MAXIMUM_ROWS", "Axis", "Rows", "axes_of", "joint_counts", "joint_index", "rows_by_cell"]

MAXIMUM_ROWS = 2**26
"""Most rows of a private table: with features below 2^36 grid steps no sum leaves int64."""

PIECE = 2**20
"""Rows indexed at a time; bounds the memory, changes nothing else."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a sum may read: one column of codes at a time, by name."""

    column: Callable[[str], NDArray[Any]]
    n_rows: int

    def __post_init__(self) -> None:
        if self.n_rows > MAXIMUM_ROWS:
            raise PrivacyError(f"A private table may have at most {MAXIMUM_ROWS:,} rows.")


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A column as one axis of a table of counts: the bin of every code, and the number of bins."""

    column: str
    bins: NDArray[np.int32] | None
    size: int


def axes_of(leaf: OneHot | Lookup) -> tuple[Axis, ...]:
    """Return the axes along which a leaf looks at a row."""
    if isinstance(leaf, Lookup):
        return (Axis(leaf.column, leaf.bins, len(leaf.table)),)
    return tuple(Axis(*axis) for axis in zip(leaf.columns, leaf.bins, leaf.shape, strict=True))


def joint_index(rows: Rows, axes: Sequence[Axis], piece: slice = slice(None)) -> NDArray[Any]:
    """Return the cell of each row, last axis fastest; shape (rows in ``piece``,)."""
    if len(axes) == 1 and axes[0].bins is None:
        return rows.column(axes[0].column)[piece]
    index: NDArray[Any] = np.zeros(len(range(rows.n_rows)[piece]), dtype=np.int64)
    for axis in axes:
        codes = rows.column(axis.column)[piece]
        index *= axis.size
        index += codes if axis.bins is None else axis.bins[codes]
    return index


def joint_counts(rows: Rows, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """Count rows by cell; shape (product of the axes' sizes,), last axis fastest."""
    n_cells = math.prod(axis.size for axis in axes)
    if not axes:
        return np.array([rows.n_rows], dtype=np.int64)
    counts = np.zeros(n_cells, dtype=np.int64)
    for start in range(0, rows.n_rows, PIECE):
        counts += _count(joint_index(rows, axes, slice(start, start + PIECE)), n_cells)
    return counts


def rows_by_cell(rows: Rows, axes: Sequence[Axis]) -> Iterator[tuple[int, NDArray[np.int64] | slice]]:
    """Yield each cell that has rows, with the places of those rows."""
    if not axes:
        yield 0, slice(0, rows.n_rows)
        return
    index = joint_index(rows, axes)
    order = np.argsort(index, kind="stable")
    present, starts = np.unique(index[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for cell, start, end in zip(present.tolist(), starts.tolist(), ends if present.size else [], strict=True):
        yield cell, order[start:end]


def _count(index: NDArray[Any], n_cells: int) -> NDArray[np.int64]:
    # torch counts bytes three times as fast as numpy; it wants memory of its own and no unsigned type but bytes.
    whole = index.copy() if index.dtype == np.uint8 else index.astype(np.int64)
    counts = torch.bincount(torch.from_numpy(whole), minlength=n_cells).numpy()
    if len(counts) > n_cells:
        raise PrivacyError("A column holds a code that its declaration does not have; the table must be encoded again.")
    return counts.astype(np.int64)
