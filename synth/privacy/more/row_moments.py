r"""The moments of whole rows: a row of codes as one vector, centred, projected and clipped; its powers are added up.

.. math:: a(x) = \mathrm{clip}(P^T (v(x) - o) / c), \qquad
    \phi(x) = [w_0, \; w_1 a, \; w_2 \, \mathrm{vech}(a a^T)]

where v(x) are the columns' tables side by side, and Fourier features of columns behind them, o is a public offset (one
for all rows, or one for each cell of a column), P a public projection, c the clip norm and vech the upper triangle with
:math:`\sqrt 2` off the diagonal, so that inner products of the second powers are squared inner products of the vectors.

Every step is a function of one row and of the map's own numbers, computed so that neither the other rows nor the device
change a bit: lookups, offsets and projections are whole numbers whose sums float64 holds exactly, in any order in which
a matrix product takes them; the clip is made of single multiplications, additions, divisions and roots, number by
number and coordinate after coordinate, each rounded as IEEE float64 says, whatever its position in an array; entries
are truncated towards zero to whole steps, and the squared norm of the whole numbers is checked
(``docs/proofs/sensitivity.md``).

A clipped vector is whole numbers of at most 2^b; products of two are whole numbers of at most 2^(2b), and a matrix
product over blocks of rows holds their sums exactly in float64 while 2 b + log2(rows held) is at most 52. Weights and
the factor :math:`\sqrt 2` are whole multiples of 2^-12 and multiply the sums: with 2 b + 12 = 2 h bits the answer is in
steps of 2^-(2h), and nothing is rounded after a row has been clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound
from synth.privacy.counting import ColumnOf, PrivateRows, rows_by_cell
from synth.privacy.feature_maps import (
    Arrays,
    Cells,
    ColumnMap,
    FeatureMap,
    Inner,
    Matrix,
    OneHot,
    Sums,
    SyntheticCodes,
    binned,
    check_dimension,
    columns_of,
    kept,
)
from synth.privacy.more.fourier import Fourier, waves_of_rows, whole_waves
from synth.privacy.more.lookups import Lookup

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["POWER_BITS", "RowMoments", "clipped_columns", "power_bound", "rows_of_vectors"]

CELL_BITS = 16
"""Tables and offsets are used in whole steps of 2^-16."""

PROJECTION_BITS = 18
"""Projections are read in whole steps of at least 2^-18; wide ones in coarser steps, so that products stay exact."""

POWER_BITS = 12
"""Weights of the powers are whole steps of 2^-12, rounded down, and so are the factors of the upper triangle."""

SHOWN_BITS = 12
"""Bits of a clipped vector's entries where a map is evaluated on synthetic rows: as many as the finest grid has."""

MANTISSA = 52
HELD_BITS = MANTISSA
"""Sums are moved from float64 to int64 before they have more bits."""

BLOCK_ENTRIES = 2**21
LONGEST_OFFSET = 2.0
SHORTEST_CLIP = 2.0**-20

MARGIN = 1 - 2.0**-30
"""Covers the roundings of a clip, which has fewer than 2^20 on any path, each relative 2^-53."""


@dataclass(frozen=True, slots=True, eq=False)
class RowMoments(ColumnMap):
    """Powers of one clipped vector per row: the constant, the vector, its products in pairs.

    Parameters
    ----------
    tables : tuple of Lookup
        Columns, each once, whose vectors are put side by side.
    clip : float
        Length to which longer vectors are shortened; positive. Features are in units of it.
    weights : tuple of three floats
        Weights of the constant, of the vector and of its products; 0 leaves a part out, squares add up to at most 1.
        Read in steps of 2^-12, rounded down.
    offsets : array of shape (width,) or (cells, width), optional
        Subtracted first; absolute values at most 2.
    offset_of : OneHot, optional
        The one column whose cell chooses the row of ``offsets``.
    projection : array of shape (width, n), optional
        Columns are the directions that are kept; absolute values at most 1. Absent, all of the vector is.
    waves : Fourier, optional
        Fourier features that follow the tables' vectors.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or a number is out of bounds.
    """

    kind: ClassVar[str] = "row-moments"
    is_exact: ClassVar[bool] = False
    alone: ClassVar[str] = "The moments of rows can be multiplied by tables of counts only; use one per product."

    tables: tuple[Lookup, ...]
    clip: float
    weights: tuple[float, float, float]
    offsets: NDArray[np.float64] | None = None
    offset_of: OneHot | None = None
    projection: NDArray[np.float64] | None = None
    waves: Fourier | None = None
    _steps: _Steps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tables = tuple(self.tables)
        names = [table.column for table in tables]
        if not tables or len(set(names)) != len(names):
            raise PrivacyError("The moments of rows need at least one column, each named once.")
        if type(self.waves) not in (Fourier, type(None)):
            raise PrivacyError("The moments of rows can have tables and Fourier features only.")
        if not (math.isfinite(self.clip) and self.clip >= SHORTEST_CLIP):
            raise PrivacyError(f"The clip norm of the moments of rows must be at least 2^-20, got {self.clip}.")
        weights = tuple(_rounded_down(float(weight)) for weight in self.weights)
        if len(weights) != 3 or min(weights) < 0 or not 0 < math.fsum(weight**2 for weight in weights) <= 1 + 1e-12:
            raise PrivacyError("The moments of rows need three weights, not negative, whose squares add up to 1.")
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "clip", float(self.clip))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "offsets", self._checked_offsets())
        object.__setattr__(self, "projection", _checked("projection", self.projection, 1.0, (self.width, None)))
        check_dimension(self.dimension)
        object.__setattr__(self, "_steps", _Steps.of(self))

    @property
    def width(self) -> int:
        """Number of coordinates before the projection."""
        return sum(one.dimension for one in (*self.tables, *filter(None, (self.waves,))))

    @property
    def length(self) -> int:
        """Number n of coordinates of the clipped vector."""
        return self.width if self.projection is None else int(self.projection.shape[1])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of features of each power; 0 where its weight is."""
        n = self.length
        full = (1, n, n * (n + 1) // 2)
        return tuple(size if weight else 0 for size, weight in zip(full, self.weights, strict=True))  # type: ignore[return-value]

    @property
    def dimension(self) -> int:
        """Number of features."""
        return sum(self.sizes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the tables and of waves, and the one that chooses among offsets."""
        return columns_of(self.inner)

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """The tables, the waves, and the column that chooses among offsets."""
        return (*self.tables, *filter(None, (self.waves, self.offset_of)))

    @property
    def factors(self) -> NDArray[np.float64]:
        """Factor of every feature, shape (dimension,): the weights, times about sqrt 2 off the diagonal of products."""
        return self.factors_under(1.0)

    def factors_under(self, weight: float) -> NDArray[np.float64]:
        """Return the factors where the whole map has a weight of at most 1; whole multiples of 2^-12, rounded down."""
        constant, linear, quadratic = (weight * own for own in self.weights)
        on, off = _rounded_down(quadratic), _rounded_down(math.sqrt(2) * quadratic)
        products = np.full(self.sizes[2], off)
        if self.sizes[2]:
            # Row by row of the upper triangle: every row begins with its product on the diagonal.
            lengths = np.arange(self.length, 0, -1)
            products[np.cumsum(lengths) - lengths] = on
        return np.concatenate(
            (np.full(self.sizes[0], _rounded_down(constant)), np.full(self.sizes[1], _rounded_down(linear)), products)
        )

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of synthetic rows, shape (n_rows, dimension)."""
        whole = rows_of_vectors(self, codes.__getitem__, slice(None), bits=SHOWN_BITS).numpy().T
        rows = whole * 2.0**-SHOWN_BITS
        first, second = np.triu_indices(self.length)
        parts = (np.ones((len(rows), 1)), rows, rows[:, first] * rows[:, second])
        used = [part for part, weight in zip(parts, self.weights, strict=True) if weight]
        return np.asarray(np.concatenate(used, axis=1) * self.factors)

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Bound the powers of vectors of length at most 1, times the weight."""
        powers = power_bound(self.weights)
        return Bound(weight * powers.norm, weight * powers.diameter)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Add the moments up by cell; a clipped vector's entries have 6 bits less than ``half_bits``."""
        sums = np.zeros((math.prod(axis.size for axis in cells), self.dimension), dtype=np.int64)
        columns = {name: rows.column(name) for name in self.columns}
        for cell, places in rows_by_cell(rows, cells):
            chosen = np.arange(rows.n_rows)[places] if isinstance(places, slice) else places
            sums[cell] = _of_one_cell(self, weight, columns, chosen, half_bits - POWER_BITS // 2, device)
        return sums

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return tables, clip, weights, offsets, projection, and waves where there are any."""
        waves = {} if self.waves is None else {"waves": self.waves.to_json(f"{name}.waves", arrays)}
        return waves | {
            "kind": self.kind,
            "tables": [table.to_json(f"{name}.{place}", arrays) for place, table in enumerate(self.tables)],
            "clip": self.clip,
            "weights": list(self.weights),
            "offsets": kept(arrays, f"{name}.offsets", self.offsets),
            "offset_of": None if self.offset_of is None else self.offset_of.to_json(f"{name}.of", arrays),
            "projection": kept(arrays, f"{name}.projection", self.projection),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the moments of tables, clip, weights, offsets and projection."""
        constant, linear, quadratic = said["weights"]
        tables = tuple(map(inner, said["tables"]))
        of = None if said["offset_of"] is None else inner(said["offset_of"])
        waves = inner(said["waves"]) if "waves" in said else None
        if not all(type(table) is Lookup for table in tables) or type(of) not in (OneHot, type(None)):
            raise TypeError("another kind of map is in its place")
        if type(waves) not in (Fourier, type(None)):
            raise TypeError("another kind of map is in its place")
        return cls(
            tables=tuple(table for table in tables if isinstance(table, Lookup)),
            clip=said["clip"],
            weights=(constant, linear, quadratic),
            offsets=None if said["offsets"] is None else arrays[said["offsets"]],
            offset_of=of if isinstance(of, OneHot) else None,
            projection=None if said["projection"] is None else arrays[said["projection"]],
            waves=waves if isinstance(waves, Fourier) else None,
        )

    def _checked_offsets(self) -> NDArray[np.float64] | None:
        if self.offset_of is None:
            if self.offsets is not None and np.ndim(self.offsets) == 2 and len(self.offsets) != 1:
                raise PrivacyError("Several offsets of the moments of rows need a column that chooses among them.")
            return _checked("offsets", self.offsets, LONGEST_OFFSET, (1, self.width))
        if len(self.offset_of.columns) != 1 or self.offsets is None:
            raise PrivacyError("The offsets of the moments of rows are chosen by one column, and must be given.")
        return _checked("offsets", self.offsets, LONGEST_OFFSET, (self.offset_of.dimension, self.width))


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The numbers of a map as whole steps, as used in calculations."""

    tables: tuple[NDArray[np.float64], ...]
    waves: NDArray[np.float64] | None
    offsets: NDArray[np.float64] | None
    projection: Tensor | None
    per_clip: float

    @classmethod
    def of(cls, moments: RowMoments) -> _Steps:
        tables = tuple(np.rint(table.table * 2.0**CELL_BITS) for table in moments.tables)
        waves = None if moments.waves is None else whole_waves(moments.waves.scale, CELL_BITS)
        offsets = None if moments.offsets is None else np.rint(moments.offsets * 2.0**CELL_BITS)
        if moments.projection is None:
            return cls(tables, waves, offsets, None, 1.0 / (moments.clip * 2.0**CELL_BITS))
        import torch  # here and below, so that checking questions needs no torch

        largest = np.concatenate([np.abs(table).max(axis=0) for table in tables])
        if waves is not None:
            largest = np.concatenate([largest, np.full(moments.width - len(largest), np.abs(waves).max())])
        if offsets is not None:
            largest = largest + np.abs(offsets).max(axis=0)
        # No sum of products, in whatever order it is taken, leaves the whole numbers that float64 holds.
        reach = float((largest @ np.abs(moments.projection)).max())
        bits = min(PROJECTION_BITS, MANTISSA - math.ceil(math.log2(max(reach, 1.0))) - 1)
        projection = torch.from_numpy(np.rint(moments.projection * 2.0**bits).T.copy())
        return cls(tables, waves, offsets, projection, 1.0 / (moments.clip * 2.0 ** (CELL_BITS + bits)))


def rows_of_vectors(
    moments: RowMoments,
    column: ColumnOf,
    places: NDArray[np.int64] | slice,
    *,
    bits: int,
    device: str = "cpu",
) -> Tensor:
    """Return the clipped vectors of some rows in whole steps of 2^-bits.

    Parameters
    ----------
    moments : RowMoments
    column : callable
        Returns a column's codes by name, shape (n_rows,).
    places : array of int64, or slice
        Which rows.
    bits : int
        6 to 20.
    device : str
        "cpu" or "cuda"; changes no bit.

    Returns
    -------
    Tensor of shape (length, rows chosen), float64
        Whole numbers; the squares of a row's add up to at most 2^(2 bits).
    """
    import torch

    steps = moments._steps
    codes = [column(table.column)[places] for table in moments.tables]
    vectors = np.empty((moments.width, len(codes[0])))
    start = 0
    for table, whole, code in zip(moments.tables, steps.tables, codes, strict=True):
        chosen = whole[binned(code, table.bins)]
        vectors[start : start + table.dimension] = chosen.T
        start += table.dimension
    if moments.waves is not None and steps.waves is not None:
        of_waves = waves_of_rows(moments.waves, steps.waves, lambda name: column(name)[places], device)
        vectors[start:] = of_waves.cpu().numpy()
    if steps.offsets is not None:
        vectors -= _offsets_of(moments, steps.offsets, column, places)
    on_device = torch.from_numpy(vectors).to(device)
    if steps.projection is not None:
        on_device = steps.projection.to(device) @ on_device
    return clipped_columns(on_device.mul_(steps.per_clip), bits)


def _rounded_down(weight: float) -> float:
    return math.floor(weight * 2.0**POWER_BITS) / 2.0**POWER_BITS


def _offsets_of(
    moments: RowMoments,
    offsets: NDArray[np.float64],
    column: ColumnOf,
    places: NDArray[np.int64] | slice,
) -> NDArray[np.float64]:
    if moments.offset_of is None:
        return offsets.T
    cells = column(moments.offset_of.columns[0])[places]
    return np.asarray(offsets[binned(cells, moments.offset_of.bins[0])].T)


def clipped_columns(vectors: Tensor, bits: int) -> Tensor:
    """Shorten columns that are longer than 1 to length 1, and truncate all to whole steps.

    Parameters
    ----------
    vectors : Tensor of shape (length, n), float64
        Written to. What becomes of a column follows from that column alone, to the last bit.
    bits : int
        6 to 24.

    Returns
    -------
    Tensor of shape (length, n), float64
        Whole numbers, in steps of 2^-bits; the squares of a column's add up to at most 2^(2 bits).
    """
    import torch

    squares = torch.zeros(vectors.shape[1], dtype=torch.float64, device=vectors.device)
    square = torch.empty_like(squares)
    for coordinate in vectors:  # one after another: a row's sum must not depend on how many other rows there are
        torch.mul(coordinate, coordinate, out=square)
        squares.add_(square)
    # By numpy, whose roots are rounded as IEEE arithmetic says. Those of torch on a processor come from a library that
    # may err in the last bit, and not alike on every machine.
    roots = torch.from_numpy(np.sqrt(squares.cpu().numpy()))
    lengths = roots.to(vectors.device).clamp_(min=1.0)
    whole = vectors.mul_(MARGIN * 2.0**bits).div_(lengths).trunc_()
    # Whole numbers add up exactly in any order, up to the limit that decides: 2^(2 bits) is below 2^53.
    too_long = (whole * whole).sum(dim=0) > 2.0 ** (2 * bits)
    whole[:, too_long] = 0.0  # never happens, by the proof; a longer vector would count as 0
    return whole


def _checked(
    what: str, values: ArrayLike | None, most: float, shape: Sequence[int | None]
) -> NDArray[np.float64] | None:
    if values is None:
        return None
    array = np.array(values, dtype=np.float64, ndmin=2)
    wanted = tuple(array.shape[place] if size is None else size for place, size in enumerate(shape))
    if array.shape != wanted or 0 in array.shape:
        raise PrivacyError(f"The {what} of the moments of rows must have shape {wanted}, got {array.shape}.")
    if not np.isfinite(array).all() or float(np.abs(array).max()) > most:
        raise PrivacyError(f"The {what} of the moments of rows must be finite numbers from {-most:g} to {most:g}.")
    array.flags.writeable = False
    return array


def power_bound(weights: tuple[float, float, float]) -> Bound:
    r"""Bound the powers of vectors of length at most 1, whose inner products are w0^2 + w1^2 s + w2^2 s^2."""
    constant, linear, quadratic = (weight**2 for weight in weights)
    # The least that the inner product can be, apart from the constant; docs/proofs/sensitivity.md.
    least = -(linear**2) / (4 * quadratic) if linear < 2 * quadratic else quadratic - linear
    return Bound(math.sqrt(constant + linear + quadratic), math.sqrt(2 * (linear + quadratic - least)))


def _of_one_cell(
    moments: RowMoments,
    weight: float,
    columns: dict[str, NDArray[np.unsignedinteger]],
    places: NDArray[np.int64],
    bits: int,
    device: str,
) -> NDArray[np.int64]:
    import torch

    n = moments.length
    _, linear, quadratic = moments.weights
    block = max(1, min(BLOCK_ENTRIES // moments.width, 2 ** (HELD_BITS - 2 * bits)))
    blocks_held = 2 ** (HELD_BITS - 2 * bits) // block
    first = np.zeros(n, dtype=np.int64)
    second = np.zeros((n, n) if quadratic else (0, 0), dtype=np.int64)
    held = torch.zeros(second.shape, dtype=torch.float64, device=device)
    for number, start in enumerate(range(0, len(places) if linear or quadratic else 0, block), start=1):
        vectors = rows_of_vectors(moments, columns.__getitem__, places[start : start + block], bits=bits, device=device)
        first += vectors.sum(dim=1).cpu().numpy().astype(np.int64)
        if quadratic:
            held.addmm_(vectors, vectors.T)
            if number % blocks_held == 0:
                second += held.cpu().numpy().astype(np.int64)
                held.zero_()
    second += held.cpu().numpy().astype(np.int64)
    # In steps of 2^-(2 bits), whatever the power.
    powers = (np.array([len(places)]) << (2 * bits), first << bits, second[np.triu_indices(n)] if quadratic else first)
    used = [power for power, weight in zip(powers, moments.weights, strict=True) if weight]
    factors = np.rint(moments.factors_under(weight) * 2.0**POWER_BITS).astype(np.int64)
    return np.asarray(np.concatenate(used) * factors)
