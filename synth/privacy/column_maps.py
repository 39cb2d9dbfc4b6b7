r"""The feature maps of one or a few columns: the constant, lookups, one-hots.

What a map says of itself is exactly what is summed: tables are clipped to norm 1 and truncated towards zero to a grid
when the map is made, so a sum over made rows and the noisy sum over private rows speak of the same numbers. Bounds are
read off the whole-number entries exactly: the norm is the largest length of a row of the table, the diameter the
largest distance between two (``docs/proofs/sensitivity.md``). No bound is taken from a generator.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError
from synth.privacy.counting import Axis, Rows, joint_counts, joint_index, rows_by_cell
from synth.privacy.feature_maps import Arrays, ColumnMap, Inner, Matrix, SyntheticCodes, check_dimension
from synth.privacy.sensitivity import Bound

__all__ = ["LEAF_BITS", "CellMap", "Constant", "Lookup", "OneHot", "checked_bins", "frozen", "kept", "whole_numbers"]

LEAF_BITS = 20
"""Entries of a table are multiples of 2^-20."""

EXACT_BINS = 4096
"""Up to this many bins every pair of table rows is compared; above, twice the norm bounds the diameter."""

BLOCK = 512

MAXIMUM_HISTOGRAM = 2**24
"""Cells of one table of counts; larger ones are counted in parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Constant(ColumnMap):
    """The number 1 for every row, whatever it holds: its sum is the number of rows."""

    kind: ClassVar[str] = "constant"

    @property
    def columns(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def dimension(self) -> int:
        """One feature."""
        return 1

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the weight: every row adds the same."""
        return Bound(weight, 0.0)

    def sums_by_cell(
        self, weight: float, rows: Rows, cells: tuple[Axis, ...], *, half_bits: int, device: str
    ) -> NDArray[np.int64]:
        """Count rows by cell."""
        return joint_counts(rows, cells)[:, None] * math.floor(weight * 2.0 ** (2 * half_bits))

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return a column of ones, shape (n_rows, 1)."""
        return np.ones((len(next(iter(codes.values()))), 1))

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return its kind."""
        return {"kind": self.kind}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the constant."""
        return cls()


class CellMap(ColumnMap):
    """The cell of a table of counts that a row falls into: 1 there, 0 elsewhere."""

    __slots__ = ()

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """The axes of its cells, last fastest."""

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the weight; rows in different cells have features at right angles."""
        return Bound(weight, math.sqrt(2) * weight if self.dimension > 1 else 0.0)

    def sums_by_cell(
        self, weight: float, rows: Rows, cells: tuple[Axis, ...], *, half_bits: int, device: str
    ) -> NDArray[np.int64]:
        """Count rows by the cells that are given, and by its own."""
        counts = Constant().sums_by_cell(weight, rows, (*cells, *self.axes), half_bits=half_bits, device=device)
        return counts.reshape(-1, self.dimension)


@dataclass(frozen=True, slots=True, eq=False)
class OneHot(CellMap):
    """The cell of a contingency table a row falls into: 1 there, 0 elsewhere.

    Parameters
    ----------
    columns : tuple of str
        One to three different modelled columns.
    bins : tuple of (array of shape (column size,), int32, or None)
        Bin of every code, by column; None where the code is the bin.
    sizes : tuple of int, optional
        Number of codes of each column; needed where a column has no bins.

    Raises
    ------
    PrivacyError
        If a column is named twice, or its number of codes is not known.

    Notes
    -----
    A row adds 1 to the cell of its own codes; cells are found and counted in integers.
    """

    kind: ClassVar[str] = "one-hot"

    columns: tuple[str, ...] = field()
    bins: tuple[NDArray[np.int32] | None, ...]
    sizes: tuple[int, ...] = ()
    shape: tuple[int, ...] = field(init=False, repr=False)
    """Number of bins of each column, which is also the shape of the answer."""

    def __post_init__(self) -> None:
        columns, bins = tuple(self.columns), tuple(self.bins)
        if not 1 <= len(columns) <= 3 or len(set(columns)) != len(columns):
            raise PrivacyError(f"A table of counts needs one to three different columns, got {', '.join(columns)}.")
        sizes = tuple(self.sizes) or tuple(0 if one is None else len(one) for one in bins)
        if not len(columns) == len(sizes) == len(bins):
            raise PrivacyError("A table of counts needs one entry of 'bins' and one of 'sizes' for each column.")
        checked: list[NDArray[np.int32] | None] = []
        for column, size, one in zip(columns, sizes, bins, strict=True):
            if size < 1 or (one is not None and len(one) != size):
                raise PrivacyError(
                    f"'{column}': name the bin of every code in 'bins', or the number of codes in 'sizes'."
                )
            checked.append(None if one is None else checked_bins(column, one, size))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "sizes", tuple(int(size) for size in sizes))
        object.__setattr__(self, "bins", tuple(checked))
        # Told once: a declared range has up to millions of places, and a schema thousands of ranges.
        shape = (size if one is None else int(one.max()) + 1 for size, one in zip(self.sizes, checked, strict=True))
        object.__setattr__(self, "shape", tuple(shape))
        check_dimension(self.dimension)

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """Its columns, with the number of codes of each."""
        return tuple(zip(self.columns, self.sizes, strict=True))

    @property
    def dimension(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """One axis for each column."""
        return tuple(Axis(*axis) for axis in zip(self.columns, self.bins, self.shape, strict=True))

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the indicator of each made row's cell, shape (n_rows, dimension); last column fastest."""
        cells = [_binned(codes[column], one) for column, one in zip(self.columns, self.bins, strict=True)]
        flat = np.ravel_multi_index(cells, self.shape)
        features = np.zeros((len(flat), self.dimension))
        features[np.arange(len(flat)), flat] = 1.0
        return features

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return columns, sizes and bins."""
        bins = [kept(arrays, f"{name}.bins.{place}", one) for place, one in enumerate(self.bins)]
        return {"kind": self.kind, "columns": list(self.columns), "sizes": list(self.sizes), "bins": bins}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the one-hot of columns, bins and sizes."""
        bins = tuple(None if name is None else arrays[name] for name in said["bins"])
        return cls(tuple(said["columns"]), bins, tuple(said["sizes"]))


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
    bins : array of shape (column size,), int32, optional
        Bin of every code; absent, the code is the bin.

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
    bins: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64, ndmin=2)
        if table.ndim != 2 or 0 in table.shape:
            raise PrivacyError(f"The table of '{self.column}' must have bins as rows and features as columns.")
        if not np.isfinite(table).all():
            raise PrivacyError(f"The table of '{self.column}' holds a number that is not finite; use finite numbers.")
        object.__setattr__(self, "table", frozen(_clipped_to_grid(table)))
        if self.bins is not None:
            object.__setattr__(self, "bins", checked_bins(self.column, self.bins, len(table)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """The column, with its number of codes."""
        return ((self.column, len(self.table) if self.bins is None else len(self.bins)),)

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
        whole = self.table * 2.0**LEAF_BITS
        if not (np.isfinite(whole).all() and (whole == np.trunc(whole)).all() and np.abs(whole).max() <= 2**LEAF_BITS):
            raise PrivacyError(f"The table of '{self.column}' was altered after the map was made; make a new map.")
        return whole

    def row_bound(self) -> Bound:
        """Bound the rows of the table that a code is looked up in, and the distance between two of them."""
        whole = self.whole if self.bins is None else self.whole[np.unique(self.bins)]
        # Exact: whole numbers whose partial sums stay below 2^42.
        squares = (whole * whole).sum(axis=1)
        if squares.max() > 2.0 ** (2 * LEAF_BITS):
            raise PrivacyError(f"The table of '{self.column}' has a row longer than 1; make a new map from it.")
        longest = float(squares.max())
        farthest = 4 * longest
        if len(whole) <= EXACT_BINS:
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

    def sums_by_cell(
        self, weight: float, rows: Rows, cells: tuple[Axis, ...], *, half_bits: int, device: str
    ) -> NDArray[np.int64]:
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
        """Return the features of made rows, shape (n_rows, dimension)."""
        return np.asarray(self.table[_binned(codes[self.column], self.bins)])

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return the column, its table and its bins."""
        table, bins = kept(arrays, f"{name}.table", self.table), kept(arrays, f"{name}.bins", self.bins)
        return {"kind": self.kind, "column": self.column, "table": table, "bins": bins}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the lookup of column, table and bins."""
        bins = None if said["bins"] is None else arrays[said["bins"]]
        return cls(said["column"], arrays[said["table"]], bins)


def kept(arrays: Arrays, name: str, array: NDArray[Any] | None) -> str | None:
    """Put an array under a name and return the name; None where there is none."""
    if array is None:
        return None
    arrays[name] = array
    return name


def whole_numbers(what: str, values: ArrayLike) -> NDArray[np.int32]:
    """Return a copy as int32, or refuse what is not whole or not below 2^31."""
    whole = np.array(values)
    if not np.issubdtype(whole.dtype, np.integer) or (whole.size and np.abs(whole.astype(np.int64)).max() >= 2**31):
        raise PrivacyError(f"The {what} of a feature map must be whole numbers below 2^31.")
    return whole.astype(np.int32)


def checked_bins(column: str, bins: NDArray[Any], rows: int) -> NDArray[np.int32]:
    """Return a copy of bins that nobody can change, or refuse what are no bins from 0 to ``rows`` - 1."""
    checked = whole_numbers("bins", bins)
    if checked.ndim != 1 or checked.size == 0 or int(checked.min()) < 0 or int(checked.max()) >= rows:
        raise PrivacyError(f"The bins of '{column}' must be whole numbers from 0 to {rows - 1}, one per code.")
    return frozen(checked)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that nobody can write to any more."""
    array.flags.writeable = False
    return array


def _clipped_to_grid(table: Matrix) -> Matrix:
    largest = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1.0)
    scaled = table / largest  # so that no square overflows
    norms = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1 / largest)
    whole = np.trunc(scaled / norms * 2.0**LEAF_BITS)
    # A squared norm above 1 would be above it by 2^-40, and float64 errs by 2^-52: no row ends up too long.
    return np.asarray(whole / 2**LEAF_BITS + 0.0)


def _binned(codes: NDArray[Any], bins: NDArray[np.int32] | None) -> NDArray[Any]:
    return codes if bins is None else bins[codes]
