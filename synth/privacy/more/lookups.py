r"""Lookups: one column's code looked up in a table of feature vectors.

A table is clipped to norm 1 and truncated towards zero to a grid when the map is made, so a sum over synthetic rows and
the noisy sum over private rows speak of the same numbers. Bounds are read off the whole-number entries exactly: the
norm is the largest length of a row of the table, the diameter the largest distance between two
(``docs/proofs/sensitivity.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.bins import Bins
from synth.privacy.costs import Bound
from synth.privacy.counting import Axis, PrivateRows, joint_counts, joint_index, rows_by_cell
from synth.privacy.feature_maps import (
    Arrays,
    Cells,
    ColumnMap,
    Inner,
    Matrix,
    Sums,
    SyntheticCodes,
    binned,
    bins_from,
    checked_bins,
    frozen,
    kept,
    kept_bins,
)

__all__ = ["LEAF_BITS", "Lookup"]

LEAF_BITS = 20
"""Entries of a table are multiples of 2^-20."""

EXACT_BINS = 4096
"""Up to this many bins every pair of table rows is compared; above, twice the norm bounds the diameter."""

BLOCK = 512
"""Rows of a table that are compared with all others at a time."""

PIECE = 2**16
"""Rows of a table that are worked on at a time."""

MAXIMUM_HISTOGRAM = 2**24
"""Cells of one table of counts; larger ones are counted in parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(ColumnMap):
    """One column's code looked up in a table.

    Parameters
    ----------
    column : str
        Name of a modelled column.
    table : array of shape (n_bins, width), float64
        Feature vector of every bin. A row longer than 1 is shortened to norm 1; entries are truncated towards zero to
        multiples of 2^-20.
    bins : Bins, optional
        Bin of every code, or an array of shape (column size,) that lists them; absent, the code is the bin.

    Raises
    ------
    PrivacyError
        If the table holds a number that is not finite, or a bin has no row in it.

    Notes
    -----
    What a row adds is an entry of this table, in whole steps: a function of that row's code alone.
    """

    kind: ClassVar[str] = "lookup"

    column: str
    table: NDArray[np.float64]
    bins: Bins | None = None

    def __post_init__(self) -> None:
        table = self.table
        # A read-only table on the grid is shared: it may be as long as a declared range.
        if not (_is_frozen(table) and _is_on_grid(table)):
            table = np.array(table, dtype=np.float64, ndmin=2)
            if table.ndim != 2 or 0 in table.shape:
                raise PrivacyError(f"The table of '{self.column}' must have bins as rows and features as columns.")
            if not all(np.isfinite(piece).all() for piece in _pieces(table)):
                raise PrivacyError(
                    f"The table of '{self.column}' holds a number that is not finite; use finite numbers."
                )
            table = frozen(_clipped_to_grid(table))
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "bins", checked_bins(self.column, self.bins, len(table)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """The column, with its number of codes."""
        return ((self.column, len(self.table) if self.bins is None else self.bins.size),)

    @property
    def dimension(self) -> int:
        """Number of features."""
        return int(self.table.shape[1])

    @property
    def axis(self) -> Axis:
        """The bins of the column, as an axis of a table of counts."""
        return Axis(self.column, self.bins, len(self.table))

    @property
    def whole(self) -> NDArray[np.float64]:
        """The table in steps of 2^-20.

        Raises
        ------
        PrivacyError
            If an entry is off the grid, which happens only when a map was altered after it was made.
        """
        return self._whole(self.table)

    def _whole(self, table: Matrix) -> NDArray[np.float64]:
        whole = table * 2.0**LEAF_BITS
        if not _is_whole(whole):
            raise PrivacyError(f"The table of '{self.column}' was altered after the map was made; make a new map.")
        return whole

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest size of every feature, in steps of 2^-20; shape (dimension,)."""
        return np.asarray(np.maximum(self.table.max(axis=0), -self.table.min(axis=0)) * 2.0**LEAF_BITS)

    def row_bound(self) -> Bound:
        """Bound the rows of the table that codes can select, and the distance between two of them."""
        table = self.table if self.bins is None else self.table[self.bins.used]
        # Exact: whole numbers whose partial sums stay below 2^42.
        longest = max(float(_squares(self._whole(piece)).max()) for piece in _pieces(table))
        if longest > 2.0 ** (2 * LEAF_BITS):
            raise PrivacyError(f"The table of '{self.column}' has a row longer than 1; make a new map from it.")
        farthest = 4 * longest
        if table.shape[1] == 1:
            farthest = float(np.ptp(self._whole(table))) ** 2
        elif len(table) <= EXACT_BINS:
            whole = self._whole(table)
            squares = _squares(whole)
            farthest = max(
                float((squares[some, None] + squares - 2 * (whole[some] @ whole.T)).max())
                for some in (slice(start, start + BLOCK) for start in range(0, len(whole), BLOCK))
            )
        return Bound(math.sqrt(longest) / 2**LEAF_BITS, math.sqrt(farthest) / 2**LEAF_BITS)

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the table's bound times the weight, and what truncation adds."""
        row = self.row_bound()
        # Truncated entries of two rows differ from the exact ones by less than one grid step each.
        truncated = 2 * 2.0 ** (-2 * half_bits) * math.sqrt(self.dimension) if weight != 1.0 else 0.0
        return Bound(weight * row.norm, weight * row.diameter + truncated)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Multiply counts of bins by the table, whose entries are truncated first."""
        table = np.trunc(self.table * weight * 2.0 ** (2 * half_bits)).astype(np.int64)
        n_cells = math.prod(axis.size for axis in cells)
        if n_cells * len(table) <= MAXIMUM_HISTOGRAM:
            return joint_counts(rows, (*cells, self.axis)).reshape(n_cells, len(table)) @ table
        sums = np.zeros((n_cells, table.shape[1]), dtype=np.int64)
        bins = joint_index(rows, (self.axis,))
        for cell, places in rows_by_cell(rows, cells):
            sums[cell] = np.bincount(bins[places], minlength=len(table)) @ table
        return sums

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of synthetic rows, shape (n_rows, dimension)."""
        return np.asarray(self.table[binned(codes[self.column], self.bins)])

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return the column, its table and its bins."""
        table, bins = kept(arrays, f"{name}.table", self.table), kept_bins(arrays, f"{name}.bins", self.bins)
        return {"kind": self.kind, "column": self.column, "table": table, "bins": bins}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the lookup of column, table and bins."""
        return cls(said["column"], arrays[said["table"]], bins_from(said["bins"], arrays))


def _pieces(table: Matrix) -> Iterator[Matrix]:
    """Yield a table some rows at a time, so that working on a long one takes little additional memory."""
    return (table[start : start + PIECE] for start in range(0, len(table), PIECE))


def _squares(whole: Matrix) -> NDArray[np.float64]:
    return np.asarray((whole * whole).sum(axis=1))


def _is_whole(whole: Matrix) -> bool:
    finite = np.isfinite(whole).all() and (whole == np.trunc(whole)).all()
    return bool(finite and np.abs(whole).max() <= 2**LEAF_BITS)


def _is_frozen(table: object) -> bool:
    if not isinstance(table, np.ndarray) or table.dtype != np.float64 or table.ndim != 2 or not table.size:
        return False
    return table.flags.owndata and table.flags.c_contiguous and not table.flags.writeable


def _is_on_grid(table: Matrix) -> bool:
    """Whether clipping would leave every entry as it is."""
    for piece in _pieces(table):
        whole = piece * 2.0**LEAF_BITS
        if not _is_whole(whole) or np.signbit(whole[whole == 0]).any():
            return False
        if _squares(whole).max() > 2.0 ** (2 * LEAF_BITS):
            return False
    return True


def _clipped_to_grid(table: Matrix) -> Matrix:
    clipped = np.empty_like(table)
    for piece, into in zip(_pieces(table), _pieces(clipped), strict=True):
        into[:] = _clipped(piece)
    return clipped


def _clipped(table: Matrix) -> Matrix:
    largest = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1.0)
    scaled = table / largest  # so that no square overflows
    norms = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1 / largest)
    whole = np.trunc(scaled / norms * 2.0**LEAF_BITS)
    # A squared norm above 1 would be above it by 2^-40, and float64 errs by 2^-52: no row ends up too long.
    return np.asarray(whole / 2**LEAF_BITS + 0.0)
