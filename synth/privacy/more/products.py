r"""Products of maps: every feature of one times every feature of the others.

Counts by cell need only counting: a product of one-hots, and at most one other map, is that map summed cell by cell.
Products of several tables are cut into two sides. A side's features are the products of its tables' entries, rounded to
whole multiples of :math:`2^{-h}`; the features of a row are the outer product of its two sides, whole multiples of
:math:`2^{-2h}`. That is a function of one row: what is done with its numbers before they are whole is one IEEE float64
multiplication after another, number by number in the order of the tables, and one rounding to nearest; no sum, no
division and no function is taken of them. Whole numbers are then added up in one of two ways, with the same result:
from a table of joint counts where that is small (the features are those of every cell, made by the same lines), else by
a matrix product :math:`L^T R` of blocks of rows, which float64 holds exactly, in any order, while 2 h + log2(rows in a
block) is at most 52. The choice may depend on the number of rows; what a row adds does not.

Maps with norm at most 1 and squared diameter at most 2 keep both under outer products: the closure lemma of
``docs/proofs/sensitivity.md``. Rounding of products is added to a bound as a slack.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound
from synth.privacy.counting import Axis, Computed, PrivateRows, joint_counts, joint_index, rows_by_cell
from synth.privacy.feature_maps import (
    SAFETY,
    Arrays,
    Block,
    CellMap,
    Cells,
    ColumnMap,
    Constant,
    FeatureMap,
    Inner,
    Matrix,
    Summable,
    Sums,
    SyntheticCodes,
    check_dimension,
    columns_of,
)
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.responsibilities import Responsibilities, ShareOfTable

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Joint", "Product", "TableProduct"]

MAXIMUM_BLOCKS = 2**16
SMALL_HISTOGRAM = 10**6
LARGEST_SIDE = 2**24
BLOCK_ENTRIES = 2**21
MANTISSA = 52


@dataclass(frozen=True, slots=True, eq=False)
class Product(FeatureMap):
    """The outer product of maps, first factor slowest: every feature of one times every feature of the others.

    Several tables in it are multiplied row by row and number by number in IEEE float64, in the order of the factors,
    and rounded to whole steps before rows are added: a function of that row's codes alone.
    """

    kind: ClassVar[str] = "product"

    factors: tuple[FeatureMap, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise PrivacyError("A product needs at least one factor.")
        check_dimension(self.dimension)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all factors."""
        return columns_of(self.factors)

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """The factors."""
        return self.factors

    @property
    def dimension(self) -> int:
        """Product of the factors' numbers of features."""
        return math.prod(factor.dimension for factor in self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """The factors' shapes one after another."""
        return tuple(size for factor in self.factors for size in factor.shape)

    def blocks(self) -> tuple[Block, ...]:
        """Return the product of stacks as the stack of the products of their parts."""
        expanded = [factor.blocks() for factor in self.factors]
        if math.prod(len(blocks) for blocks in expanded) > MAXIMUM_BLOCKS:
            raise PrivacyError(f"A product of stacks may have at most {MAXIMUM_BLOCKS:,} blocks; stack fewer parts.")
        combined = []
        for blocks in itertools.product(*expanded):
            places = np.zeros(1, dtype=np.int64)
            for factor, block in zip(self.factors, blocks, strict=True):
                places = (places[:, None] * factor.dimension + block.places[None, :]).reshape(-1)
            joint = Joint(tuple(one for block in blocks for one in block.map.maps))
            combined.append(Block(math.prod(block.weight for block in blocks), joint, places))
        return tuple(combined)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of synthetic rows, shape (n_rows, dimension)."""
        features: Matrix = _outer([factor.evaluate(codes) for factor in self.factors])
        return features

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return the factors."""
        factors = [factor.to_json(f"{name}.{place}", arrays) for place, factor in enumerate(self.factors)]
        return {"kind": self.kind, "factors": factors}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the product of the factors."""
        return cls(tuple(map(inner, said["factors"])))


@dataclass(frozen=True, slots=True, eq=False)
class Joint(Summable):
    """One block of a product: the cells of its tables of counts, and what is summed in each of them."""

    maps: tuple[ColumnMap, ...] = field()

    def __post_init__(self) -> None:
        others = self._others()
        refusal = next((one.alone for one in others if one.alone), "")
        if len(others) > 1 and refusal:
            raise PrivacyError(refusal)
        kinds = [type(one) for one in others]
        if Responsibilities in kinds and kinds not in ([Responsibilities], [Responsibilities, Lookup]):
            raise PrivacyError("Responsibilities can be multiplied by tables of counts and by one lookup after them.")

    @property
    def cells(self) -> tuple[CellMap, ...]:
        """The tables of counts."""
        return tuple(one for one in self.maps if isinstance(one, CellMap))

    @property
    def value(self) -> Summable:
        """What is summed in each cell."""
        others = self._others()
        if len(others) > 1 and isinstance(others[0], Responsibilities):
            return ShareOfTable(*others)  # type: ignore[arg-type]  # a lookup, as was checked
        if len(others) > 1:
            return TableProduct(tuple(one for one in others if isinstance(one, Lookup)))
        return others[0] if others else Constant()

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """Whether what is summed is."""
        return self.value.is_exact

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The columns that its maps work out of others."""
        return tuple(column for one in self.maps for column in one.computed)

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the bound within a cell, or between two cells, whose features are at right angles."""
        same = self.value.weighted_bound(weight, half_bits)
        apart = math.sqrt(2) * same.norm if math.prod(one.dimension for one in self.cells) > 1 else 0.0
        return Bound(same.norm, max(same.diameter, apart))

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Add up what is summed by the cells that are given, and by its own; features in the order of the maps."""
        own = tuple(axis for one in self.cells for axis in one.axes)
        sums = self.value.sums_by_cell(weight, rows, (*cells, *own), half_bits=half_bits, device=device)
        places = sorted(range(len(self.maps)), key=lambda place: not isinstance(self.maps[place], CellMap))
        found = sums.reshape([-1, *(self.maps[place].dimension for place in places)])
        order = [0, *(1 + places.index(place) for place in range(len(places)))]
        n_given = math.prod(axis.size for axis in cells)
        return found.transpose(order).reshape(n_given, -1)

    def _others(self) -> list[ColumnMap]:
        return [one for one in self.maps if not isinstance(one, CellMap | Constant)]


@dataclass(frozen=True, slots=True, eq=False)
class TableProduct(Summable):
    """The outer product of two or more lookups."""

    is_exact: ClassVar[bool] = False

    tables: tuple[Lookup, ...]

    @property
    def maps(self) -> tuple[ColumnMap, ...]:
        """The tables."""
        return self.tables

    @property
    def sides(self) -> tuple[tuple[Lookup, ...], tuple[Lookup, ...]]:
        """The tables cut in two so that both sides are about equally wide."""
        widths = [table.dimension for table in self.tables]
        cuts = range(1, len(widths))
        cut = min(cuts, key=lambda place: math.prod(widths[:place]) + math.prod(widths[place:]))
        return self.tables[:cut], self.tables[cut:]

    @property
    def widths(self) -> list[int]:
        """Number of features of each side."""
        return [math.prod(table.dimension for table in side) for side in self.sides]

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the closure lemma's bound where it holds, else twice the norm; both with the rounding of sides."""
        rows = [table.row_bound() for table in self.tables]
        left, right = (2.0 ** -(half_bits + 1) * math.sqrt(width) for width in self.widths)
        # How far a product of two rounded sides, of norm at most 1, lies from the product itself.
        slack = left + right + left * right
        norm = weight * math.prod(row.norm for row in rows) + slack
        if all(row.norm <= 1 and row.diameter**2 <= 2 * SAFETY for row in rows):
            return Bound(norm, weight * math.sqrt(2) + 2 * slack)
        return Bound(norm, 2 * norm)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Add up by joint counts where these are few, else row by row."""
        axes = [tuple(table.axis for table in side) for side in self.sides]
        bins = [math.prod(axis.size for axis in side) for side in axes]
        n_cells = math.prod(axis.size for axis in cells)
        few_cells = n_cells * bins[0] * bins[1] <= max(rows.n_rows, SMALL_HISTOGRAM)
        if few_cells and all(n * width <= LARGEST_SIDE for n, width in zip(bins, self.widths, strict=True)):
            return _by_counts(self, rows, cells, axes, weight, half_bits)
        return _by_rows(self, rows, cells, axes, weight, half_bits, device)


def _by_counts(
    product: TableProduct,
    rows: PrivateRows,
    cells: tuple[Axis, ...],
    axes: Sequence[tuple[Axis, ...]],
    weight: float,
    half_bits: int,
) -> NDArray[np.int64]:
    left, right = (
        _features(_on_device(tables, "cpu"), _every_cell(side), factor, half_bits).numpy()
        for tables, side, factor in zip(product.sides, axes, (weight, 1.0), strict=True)
    )
    counts = joint_counts(rows, (*cells, *axes[0], *axes[1])).reshape(-1, len(left), len(right))
    # At most N < 2^27 rows times 2^18 steps: exact. The product with the left side is taken in two parts, as it is not.
    # With n rows on the left, at most 2^24, low parts add up to at most 2^52, high ones to N 2^(3 h - 52) n + 2^h n,
    # which stays below 2^53.
    partial = counts.astype(np.float64) @ right
    low_bits = MANTISSA - half_bits - math.ceil(math.log2(len(left)))
    high = np.floor(partial / 2.0**low_bits)
    low = partial - high * 2.0**low_bits
    sums = (left.T @ high).astype(np.int64) * 2**low_bits + (left.T @ low).astype(np.int64)
    return np.asarray(sums.reshape(len(counts), -1))


def _by_rows(
    product: TableProduct,
    rows: PrivateRows,
    cells: tuple[Axis, ...],
    axes: Sequence[tuple[Axis, ...]],
    weight: float,
    half_bits: int,
    device: str,
) -> NDArray[np.int64]:
    import torch

    widths = product.widths
    block = max(1, min(BLOCK_ENTRIES // sum(widths), 2 ** (MANTISSA - 2 * half_bits)))
    blocks_held = 2 ** (MANTISSA - 2 * half_bits) // block
    tables = [_on_device(side, device) for side in product.sides]
    bins = [[joint_index(rows, (axis,)) for axis in side] for side in axes]
    sums = np.zeros((math.prod(axis.size for axis in cells), widths[0] * widths[1]), dtype=np.int64)
    for cell, places in rows_by_cell(rows, cells):
        chosen = [[index[places] for index in side] for side in bins]
        held = torch.zeros(widths[0], widths[1], dtype=torch.float64, device=device)
        for number, start in enumerate(range(0, len(chosen[0][0]), block), start=1):
            left, right = (
                _features(side, [index[start : start + block] for index in indexes], factor, half_bits)
                for side, indexes, factor in zip(tables, chosen, (weight, 1.0), strict=True)
            )
            held.addmm_(left.T, right)
            if number % blocks_held == 0:
                sums[cell] += _whole(held)
                held.zero_()
        sums[cell] += _whole(held)
    return sums


def _features(tables: Sequence[Tensor], indexes: Sequence[NDArray[Any]], weight: float, half_bits: int) -> Tensor:
    """Return one side's features of the rows with these bins, in whole steps of 2^-half_bits; shape (n_rows, width)."""
    import torch

    chosen = [
        table[torch.from_numpy(index.astype(np.int64)).to(table.device)]
        for table, index in zip(tables, indexes, strict=True)
    ]
    features: Tensor = _outer(chosen)
    return features.mul_(weight * 2.0**half_bits).round_()


def _outer(factors: Sequence[Any]) -> Any:
    """Return the outer products of the rows of arrays or tensors, first factor slowest."""
    features = factors[0]
    for factor in factors[1:]:
        width = features.shape[1] * factor.shape[1]
        features = (features[:, :, None] * factor[:, None, :]).reshape(len(features), width)
    return features


def _every_cell(axes: Sequence[Axis]) -> list[NDArray[np.int64]]:
    return [index.reshape(-1) for index in np.indices([axis.size for axis in axes])]


def _on_device(tables: Sequence[Lookup], device: str) -> list[Tensor]:
    import torch

    return [torch.from_numpy(table.table.copy()).to(device) for table in tables]


def _whole(sums: Tensor) -> NDArray[np.int64]:
    return np.asarray(sums.cpu().numpy().astype(np.int64).reshape(-1))
