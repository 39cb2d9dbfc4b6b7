r"""Feature maps: what a sum over rows may add up, as public data from a closed set.

A feature map turns one row of codes into a vector of numbers. It is data (tables, whole-number frequencies), never a
function, so that it hides nothing and the session can compute its bounds instead of trusting them. Each map knows the
columns it uses, how far one row can move its sum, how it is summed exactly, how it is evaluated on synthetic rows, and
how it is written down. ``answers`` lists them all.

The contribution of a row to a sum is a vector of whole numbers that follows from that row and the map alone, to the
last bit: other rows may be added, removed, put in another order or cut into other blocks, on any device. Noise hides
one row only because of that: if a row changed the last bit of another row's contribution, that would be a change of its
own. Constants and one-hots add 1 to a count, and counts are integers; a table's entries are truncated to whole steps
before a row is read, and a sum is histogram times table in int64; maps of ``more`` say in their modules why it holds
for them. A unit of several rows contributes the sum of its rows' vectors; nothing is clipped, scaled or rounded after
rows are added. The argument is in ``docs/proofs/sensitivity.md``; ``tests/privacy/test_contributions.py`` looks for
exceptions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError
from synth.privacy.bins import Bins
from synth.privacy.costs import Bound
from synth.privacy.counting import Axis, Computed, PrivateRows, joint_counts, with_computed
from synth.schema import Schema

__all__ = [
    "MAXIMUM_DIMENSION",
    "SAFETY",
    "WEIGHT_BITS",
    "Arrays",
    "Block",
    "CellMap",
    "Cells",
    "ColumnMap",
    "Constant",
    "FeatureMap",
    "Inner",
    "Matrix",
    "OneHot",
    "Stack",
    "Summable",
    "Sums",
    "SyntheticCodes",
    "as_bins",
    "binned",
    "bins_from",
    "bound_of",
    "check_dimension",
    "checked_bins",
    "columns_of",
    "exact_sum",
    "frozen",
    "kept",
    "kept_bins",
    "kept_whole_numbers",
    "l1_bound_of",
    "whole_array",
    "whole_numbers",
]

WEIGHT_BITS = 24
"""Weights of a stack and the scale of a Fourier map are multiples of 2^-24."""

MAXIMUM_DIMENSION = 2**28
MOST_COLUMNS = 6  # of one table of counts

SAFETY = 1 + 1e-12
"""Covers the float64 arithmetic of bounds, which has far fewer than a thousand roundings on any path."""

Matrix = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Cells = tuple[Axis, ...]
"""Axes whose joint bins are the cells of rows; none where all rows are one cell."""

Sums = NDArray[np.int64]
"""Sums by cell in whole steps, shape (n_cells, dimension)."""

SyntheticCodes = Mapping[str, NDArray[Any]]
"""Codes of synthetic rows, one 1-D array of integers per column."""


class FeatureMap(ABC):
    """A map of the closed set; ``answers`` lists the classes, and a map is known by its exact class alone."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name where maps are written down."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that are used."""

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """The maps that it is made of."""
        return ()

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """Columns with the number of codes that it has entries for, without those of ``inner``."""
        return ()

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return (self.dimension,)

    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """Write the map as blocks whose places together cover every place of the answer once."""

    def bound(self, *, half_bits: int) -> Bound:
        """Bound what one row adds; as :func:`bound_of`."""
        return bound_of(self.blocks(), half_bits=half_bits)

    @abstractmethod
    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of synthetic rows, shape (n_rows, dimension)."""

    @abstractmethod
    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return JSON types, and put arrays into ``arrays`` under names that begin with ``name``."""

    @classmethod
    @abstractmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the map that ``to_json`` wrote; ``inner`` makes the maps inside it."""

    def describe(self, name: str = "map") -> tuple[dict[str, Any], Arrays]:
        """Return all of it as JSON types, and the arrays that these name; ``name`` begins every array's name."""
        arrays: Arrays = {}
        return self.to_json(name, arrays), arrays

    def is_same(self, other: object) -> bool:
        """Whether the other is a map of the same class and the same data."""
        if type(other) is not type(self):
            return False
        (own, arrays), (theirs, others) = self.describe(), other.describe()
        return (
            own == theirs
            and arrays.keys() == others.keys()
            and all(np.array_equal(array, others[name]) for name, array in arrays.items())
        )

    def check_codes(self, schema: Schema) -> None:
        """Refuse a map that does not have an entry for every code of its columns.

        Raises
        ------
        PrivacyError
            If the map was made for another table.
        SchemaError
            If it names a column that is not modelled.
        """
        for column, size in self.code_sizes:
            declared = schema.size_of(column)
            if size != declared:
                raise PrivacyError(
                    f"The question expects {size} codes of '{column}', which has {declared}; make it from this schema."
                )


Inner = Callable[[Mapping[str, Any]], FeatureMap]


class Summable(ABC):
    """A block of a map: something with its own bound and exact sum."""

    __slots__ = ()

    is_exact: ClassVar[bool] = True
    """Whether its features need no rounding other than that of one table and one weight."""

    @property
    @abstractmethod
    def maps(self) -> tuple[ColumnMap, ...]:
        """The maps that it is the product of."""

    @property
    def computed(self) -> tuple[Computed, ...]:
        """Columns that are calculated from others before rows are counted."""
        return ()

    @abstractmethod
    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Bound the whole-number features of ``weight`` times the map, in units of the answer."""

    @abstractmethod
    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Add ``weight`` times the map up by cell; shape (n_cells, dimension), in steps of 2^-(2 half_bits)."""


class ColumnMap(FeatureMap, Summable):
    """A map that is one block by itself."""

    __slots__ = ()

    alone: ClassVar[str] = ""
    """Why it can be multiplied by tables of counts only; empty where it has no such limit."""

    @property
    def maps(self) -> tuple[ColumnMap, ...]:
        """Itself."""
        return (self,)

    def blocks(self) -> tuple[Block, ...]:
        """Return the one block that it is."""
        return (Block(1.0, self, np.arange(self.dimension)),)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A weight times a map that is summed by itself.

    ``places`` is an int64 array of shape (dimension,): the indices of the block's features in the answer.
    """

    weight: float
    map: Summable
    places: NDArray[np.int64]

    def bound(self, half_bits: int) -> Bound:
        """Bound what one row adds to the block."""
        return self.map.weighted_bound(self.weight, half_bits)


def bound_of(blocks: Sequence[Block], *, half_bits: int) -> Bound:
    """Bound the whole-number features of a map that is summed on a grid of step 2^-(2 half_bits).

    Parameters
    ----------
    blocks : sequence of Block
        The map, written out.
    half_bits : int
        Bits of each side of a product of tables.

    Returns
    -------
    Bound
        In units of the answer.

    Raises
    ------
    PrivacyError
        If a table is longer than 1 or off its grid, which happens only when a map was altered after it was made.
    """
    bounds = [block.bound(half_bits) for block in blocks]
    norm = math.sqrt(math.fsum(bound.norm**2 for bound in bounds))
    diameter = math.sqrt(math.fsum(bound.diameter**2 for bound in bounds))
    return Bound(norm * SAFETY, min(diameter, 2 * norm) * SAFETY)


def l1_bound_of(blocks: Sequence[Block], *, half_bits: int) -> Bound:
    """Bound the L1 norm of the whole-number features of counts; the rest as in :func:`bound_of`.

    A row is 1 in one cell of each table and 0 elsewhere, so that the norms of its blocks add up; a row in another cell
    of a table moves two counts.

    Raises
    ------
    PrivacyError
        As :func:`bound_of`, and if a block is no count: its norm in L1 is not known.
    """
    if not all(isinstance(block.map, Constant | CellMap) for block in blocks):
        raise PrivacyError("With a delta of 0 only counts of rows, in all and by cell, can be asked for.")
    norms = [block.bound(half_bits).norm for block in blocks]
    moved = [norm for block, norm in zip(blocks, norms, strict=True) if isinstance(block.map, CellMap)]
    return Bound(math.fsum(norms) * SAFETY, 2 * math.fsum(moved) * SAFETY)


def exact_sum(blocks: Sequence[Block], rows: PrivateRows, *, half_bits: int, device: str = "cpu") -> NDArray[np.int64]:
    """Add up a map over all rows.

    Parameters
    ----------
    blocks : sequence of Block
        The map, written out.
    rows : PrivateRows
        The private rows.
    half_bits : int
        Bits of each side of a product of tables, 10 to 18; the grid step is 2^-(2 half_bits).
    device : str
        "cpu" or "cuda"; changes the time, never the result.

    Returns
    -------
    array of shape (dimension,), int64
        The sum in grid steps.
    """
    rows = with_computed(rows, [one for block in blocks for one in block.map.computed])
    answer = np.zeros(sum(block.places.size for block in blocks), dtype=np.int64)
    for block in blocks:
        sums = block.map.sums_by_cell(block.weight, rows, (), half_bits=half_bits, device=device)
        answer[block.places] = sums.reshape(-1)
    return answer


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

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
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

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Count rows by the cells that are given, and by its own."""
        counts = Constant().sums_by_cell(weight, rows, (*cells, *self.axes), half_bits=half_bits, device=device)
        return counts.reshape(-1, self.dimension)


@dataclass(frozen=True, slots=True, eq=False)
class OneHot(CellMap):
    """The cell of a contingency table a row falls into: 1 there, 0 elsewhere.

    Parameters
    ----------
    columns : tuple of str
        One to six different modelled columns.
    bins : tuple of (Bins or None)
        Bin of every code, by column; None where the code is the bin. An array of shape (column size,) is taken as the
        bins that it lists.
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
    bins: tuple[Bins | None, ...]
    sizes: tuple[int, ...] = ()
    shape: tuple[int, ...] = field(init=False, repr=False)
    """Number of bins of each column, which is also the shape of the answer."""
    axes: tuple[Axis, ...] = field(init=False, repr=False)
    """One axis for each column."""

    def __post_init__(self) -> None:
        columns, bins = tuple(self.columns), tuple(map(as_bins, self.bins))
        if not 1 <= len(columns) <= MOST_COLUMNS or len(set(columns)) != len(columns):
            raise PrivacyError(f"A table of counts needs one to six different columns, got {', '.join(columns)}.")
        sizes = tuple(self.sizes) or tuple(0 if one is None else one.size for one in bins)
        if not len(columns) == len(sizes) == len(bins):
            raise PrivacyError("A table of counts needs one entry of 'bins' and one of 'sizes' for each column.")
        for column, size, one in zip(columns, sizes, bins, strict=True):
            if size < 1 or (one is not None and one.size != size):
                raise PrivacyError(
                    f"'{column}': name the bin of every code in 'bins', or the number of codes in 'sizes'."
                )
        checked = [checked_bins(column, one, size) for column, one, size in zip(columns, bins, sizes, strict=True)]
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "sizes", tuple(int(size) for size in sizes))
        object.__setattr__(self, "bins", tuple(checked))
        # Calculated once: a schema has thousands of columns.
        shape = (size if one is None else one.count for size, one in zip(self.sizes, checked, strict=True))
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "axes", tuple(Axis(*axis) for axis in zip(columns, checked, self.shape, strict=True)))
        check_dimension(self.dimension)

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """Its columns, with the number of codes of each."""
        return tuple(zip(self.columns, self.sizes, strict=True))

    @property
    def dimension(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the indicator of each synthetic row's cell, shape (n_rows, dimension); last column fastest."""
        cells = [binned(codes[column], one) for column, one in zip(self.columns, self.bins, strict=True)]
        flat = np.ravel_multi_index(cells, self.shape)
        features = np.zeros((len(flat), self.dimension))
        features[np.arange(len(flat)), flat] = 1.0
        return features

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return columns, sizes and bins."""
        bins = [kept_bins(arrays, f"{name}.bins.{place}", one) for place, one in enumerate(self.bins)]
        return {"kind": self.kind, "columns": list(self.columns), "sizes": list(self.sizes), "bins": bins}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the one-hot of columns, bins and sizes."""
        bins = tuple(bins_from(one, arrays) for one in said["bins"])
        return cls(tuple(said["columns"]), bins, tuple(said["sizes"]))


@dataclass(frozen=True, slots=True, eq=False)
class Stack(FeatureMap):
    """Maps one after another, each times a weight; the squared weights add up to at most 1.

    Weights are truncated towards zero to multiples of 2^-24. What a row adds to one part does not depend on the others.
    """

    kind: ClassVar[str] = "stack"

    parts: tuple[FeatureMap, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        parts, weights = tuple(self.parts), tuple(float(weight) for weight in self.weights)
        if not parts or len(parts) != len(weights):
            raise PrivacyError("A stack needs at least one part and one weight per part.")
        if not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise PrivacyError("The weights of a stack must be positive and finite.")
        weights = tuple(math.floor(weight * 2**WEIGHT_BITS) / 2**WEIGHT_BITS for weight in weights)
        if math.fsum(weight * weight for weight in weights) > 1 + 1e-12 or min(weights) == 0:
            raise PrivacyError(
                "The squared weights of a stack must add up to at most 1, and none may be below 2^-24; "
                f"they add up to {math.fsum(weight * weight for weight in weights):.9g}."
            )
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "weights", weights)
        check_dimension(self.dimension)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all parts."""
        return columns_of(self.parts)

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """The parts."""
        return self.parts

    @property
    def dimension(self) -> int:
        """Number of features of all parts together."""
        return sum(part.dimension for part in self.parts)

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks of all parts, weighted."""
        starts = np.cumsum([0, *(part.dimension for part in self.parts)])
        return tuple(
            Block(weight * block.weight, block.map, start + block.places)
            for part, weight, start in zip(self.parts, self.weights, starts, strict=False)
            for block in part.blocks()
        )

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of synthetic rows, shape (n_rows, dimension); parts in order."""
        features = [weight * part.evaluate(codes) for part, weight in zip(self.parts, self.weights, strict=True)]
        return np.concatenate(features, axis=1)

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return weights and parts."""
        parts = [part.to_json(f"{name}.{place}", arrays) for place, part in enumerate(self.parts)]
        return {"kind": self.kind, "weights": list(self.weights), "parts": parts}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the stack of the parts."""
        return cls(tuple(map(inner, said["parts"])), tuple(said["weights"]))


def columns_of(maps: Sequence[FeatureMap]) -> tuple[str, ...]:
    """Return the columns of several maps, each once."""
    return tuple(dict.fromkeys(column for one in maps for column in one.columns))


def check_dimension(dimension: int) -> None:
    """Refuse an answer of more than 2^28 numbers."""
    if dimension > MAXIMUM_DIMENSION:
        raise PrivacyError(
            f"A question may have at most {MAXIMUM_DIMENSION:,} numbers in its answer, got {dimension:,}."
        )


def kept(arrays: Arrays, name: str, array: NDArray[Any] | None) -> str | None:
    """Put an array under a name and return the name; None without an array."""
    if array is None:
        return None
    arrays[name] = array
    return name


def whole_numbers(what: str, values: ArrayLike) -> NDArray[np.int32]:
    """Return a copy as int32, or refuse what is not whole or not below 2^31."""
    whole = np.array(values)
    if not np.issubdtype(whole.dtype, np.integer) or (
        whole.size and max(abs(int(whole.min())), abs(int(whole.max()))) >= 2**31
    ):
        raise PrivacyError(f"The {what} of a feature map must be whole numbers below 2^31.")
    return whole.astype(np.int32)


def whole_array(what: str, of: str, values: ArrayLike, axes: int) -> NDArray[np.int32]:
    """Return whole numbers with so many axes, read-only; errors as :func:`whole_numbers`."""
    array = whole_numbers(f"{what} of {of}, as those", values)
    if array.ndim != axes:
        raise PrivacyError(f"The {what} of {of} must be an array with {axes} axes, got {array.ndim}.")
    return frozen(array)


def kept_whole_numbers(what: str, values: ArrayLike) -> NDArray[np.int32]:
    """Return whole numbers, read-only; errors as :func:`whole_numbers`.

    Read-only ones are shared by all maps that have them, as one copy may be as large as a column.
    """
    if isinstance(values, np.ndarray) and _is_frozen(values) and (not values.size or int(values.min()) > -(2**31)):
        return values
    return frozen(whole_numbers(what, values))


def _is_frozen(values: NDArray[Any]) -> bool:
    return (
        values.dtype == np.int32 and values.flags.owndata and values.flags.c_contiguous and not values.flags.writeable
    )


def as_bins(bins: Bins | ArrayLike | None) -> Bins | None:
    """Return bins, made of the bin of every code where an array lists them."""
    return bins if bins is None or isinstance(bins, Bins) else Bins.of_codes(np.asarray(bins))


def checked_bins(column: str, bins: Bins | ArrayLike | None, rows: int) -> Bins | None:
    """Return bins, or refuse what are not bins from 0 to ``rows`` - 1; None where each of as many codes is its own."""
    checked = as_bins(bins)
    if checked is None:
        return None
    if checked.count > rows:
        raise PrivacyError(f"The bins of '{column}' must be whole numbers from 0 to {rows - 1}, one per code.")
    return None if checked.size == rows and checked.is_identity else checked


def kept_bins(arrays: Arrays, name: str, bins: Bins | None) -> dict[str, Any] | None:
    """Put the arrays of bins under names that begin with ``name`` and return what says so; None without bins."""
    return None if bins is None else bins.to_json(name, arrays)


def bins_from(said: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> Bins | None:
    """Make the bins that :func:`kept_bins` put away."""
    return None if said is None else Bins.from_json(said, arrays)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


def binned(codes: NDArray[Any], bins: Bins | None) -> NDArray[Any]:
    """Return the bin of each code; the code itself where there are no bins."""
    return codes if bins is None else bins[codes]
