r"""How much of a row each component of a public mixture is responsible for: the E-step of EM, as a feature map.

.. math:: r_k(x) = \frac{2^{s_k(x)}}{\sum_l 2^{s_l(x)}}, \qquad s_k(x) = w_k + \sum_j t_{jk}(x_j)

where w are the logarithms of the components' weights and t_j those of column j's proportions, or of its density, to the
base 2: public numbers, which may follow from earlier answers and may differ by class of a column. Multiplied by the
counts of a row, they are what EM adds up. A row's responsibilities are not negative and add up to at most 1, so the
product with a vector is no longer than that vector however many components there are.

Everything is whole numbers: scores are sums of whole numbers that are looked up, powers of 2 are looked up in a public
table and shifted, and responsibilities are truncated quotients of whole numbers, which are added up in float64 below
2^53. So they follow from a row and the map alone, to the last bit, on every machine (``docs/proofs/mixtures.md``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.bins import Bins
from synth.privacy.costs import Bound
from synth.privacy.counting import Axis, ColumnOf, Computed, CountMemory, PrivateRows, joint_index
from synth.privacy.feature_maps import (
    Arrays,
    Cells,
    ColumnMap,
    FeatureMap,
    Inner,
    Matrix,
    OneHot,
    Summable,
    Sums,
    SyntheticCodes,
    binned,
    bins_from,
    checked_bins,
    frozen,
    kept,
    kept_bins,
    whole_array,
)
from synth.privacy.more.lookups import Lookup
from synth.privacy.questions import name_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SCORE_BITS", "SHARE_BITS", "Responsibilities", "ShareOfTable", "shares_by_cell"]

SCORE_BITS = 12
"""Logarithms are whole multiples of 2^-12."""

SHARE_BITS = 18
"""Responsibilities are whole multiples of 2^-18, truncated: those of a row add up to at most 1."""

POWER_BITS = 30
"""Powers of 2 are whole multiples of 2^-30; the likeliest component has 1."""

MOST_COMPONENTS = 2**10

ROWS_AT_A_TIME = 2**14
"""Rows worked on at a time; changes nothing else."""

CARD_PLACES = 2**20
"""Places that sums are added to on a graphics card, at most, where there are fewer cells; changes nothing else."""

CARD_ENTRIES = 2**25
"""Rows times components that a graphics card works on at a time; changes nothing else."""


@dataclass(frozen=True, slots=True, eq=False)
class Responsibilities(ColumnMap):
    """What part of a row each component of a mixture of products has: not negative, with sum 1 but for truncation.

    Parameters
    ----------
    columns : tuple of str
        Different modelled columns.
    bins : tuple of (Bins or None)
        Bin of every code, by column; None where the code is the bin.
    tables : tuple of arrays of shape (classes, bins, components), int32
        Logarithms to the base 2 of each column's proportions, in whole steps of 2^-12.
    weights : array of shape (classes, components), int32
        Those of the components' weights, in the same steps.
    by : OneHot, optional
        The column whose cell says which class's mixture it is; absent, there is one class.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other.

    Notes
    -----
    Those of a row are calculated in whole numbers from its codes and these tables alone.
    """

    kind: ClassVar[str] = "responsibilities"
    is_exact: ClassVar[bool] = False

    columns: tuple[str, ...] = field()
    bins: tuple[Bins | None, ...]
    tables: tuple[NDArray[np.int32], ...]
    weights: NDArray[np.int32]
    by: OneHot | None = None
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own, weights = tuple(self.columns), whole_array("weights", "responsibilities", self.weights, 2)
        tables = tuple(whole_array("tables", "responsibilities", one, 3) for one in self.tables)
        classes, components = weights.shape
        if len(set(own)) != len(own) or not len(own) == len(tables) == len(self.bins):
            raise PrivacyError("Responsibilities need the bins and the table of every column, each named once.")
        if not 1 <= components <= MOST_COMPONENTS or classes != (1 if self.by is None else self.by.dimension):
            raise PrivacyError(
                f"Responsibilities need 1 to {MOST_COMPONENTS:,} components, with a weight for every class of each."
            )
        if any(one.shape[0] != classes or one.shape[2] != components or not one.shape[1] for one in tables):
            raise PrivacyError("The tables of responsibilities need an entry for every class, bin and component.")
        pairs = zip(own, self.bins, tables, strict=True)
        bins = tuple(checked_bins(name, one, table.shape[1]) for name, one, table in pairs)
        for name, value in (("columns", own), ("bins", bins), ("tables", tables), ("weights", weights)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "key", name_of(self))

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """The column that says the class, where there is one."""
        return () if self.by is None else (self.by,)

    @property
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """Its columns, with the number of codes of each."""
        sizes = (table.shape[1] if one is None else one.size for one, table in zip(self.bins, self.tables, strict=True))
        return tuple(zip(self.columns, sizes, strict=True))

    @property
    def dimension(self) -> int:
        """Number of components."""
        return int(self.weights.shape[1])

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The responsibilities as a column that every block of a sum shares."""
        return (self,)

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the weight: numbers of at least 0 with sum at most 1; a single component always has all of it."""
        return Bound(weight, math.sqrt(2) * weight if self.dimension > 1 else 0.0)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Add responsibilities up by cell."""
        return shares_by_cell(self, rows, cells, device=device) * math.floor(
            weight * 2.0 ** (2 * half_bits - SHARE_BITS)
        )

    def cells(self, column: ColumnOf, n_rows: int) -> NDArray[np.float64]:
        """Return the responsibilities of every row in whole steps of 2^-18.

        Parameters
        ----------
        column : callable
            Returns a column's codes by name, shape (n_rows,).
        n_rows : int

        Returns
        -------
        array of shape (components, n_rows), float64
            Whole numbers; those of a row add up to at most 2^18.
        """
        shares = np.empty((self.dimension, n_rows))
        codes = [column(name) for name in self.columns]
        rows, axes = PrivateRows(column, n_rows), () if self.by is None else self.by.axes
        for start in range(0, n_rows, ROWS_AT_A_TIME):
            part = slice(start, min(start + ROWS_AT_A_TIME, n_rows))
            of_class = joint_index(rows, axes, part).astype(np.int64)
            scores = self.weights[of_class].astype(np.int64)
            for table, one, code in zip(self.tables, self.bins, codes, strict=True):
                scores += table[of_class, binned(code[part], one)]
            shares[:, part] = _shares(scores).T
        return shares

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the responsibilities of synthetic rows, shape (n_rows, components)."""
        shares = self.cells(codes.__getitem__, len(next(iter(codes.values()))))
        return np.ascontiguousarray(shares.T) * 2.0**-SHARE_BITS

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return columns, bins, tables and weights."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "bins": [kept_bins(arrays, f"{name}.bins.{place}", one) for place, one in enumerate(self.bins)],
            "tables": [kept(arrays, f"{name}.tables.{place}", one) for place, one in enumerate(self.tables)],
            "weights": kept(arrays, f"{name}.weights", self.weights),
            "by": None if self.by is None else self.by.to_json(f"{name}.by", arrays),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the responsibilities of columns, bins, tables and weights."""
        by = None if said["by"] is None else inner(said["by"])
        if type(by) not in (OneHot, type(None)):
            raise TypeError("another kind of map is in its place")
        return cls(
            columns=tuple(said["columns"]),
            bins=tuple(bins_from(one, arrays) for one in said["bins"]),
            tables=tuple(arrays[name] for name in said["tables"]),
            weights=arrays[said["weights"]],
            by=by if isinstance(by, OneHot) else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ShareOfTable(Summable):
    """Responsibilities times a lookup: every component's part of what one column's code is looked up as."""

    is_exact: ClassVar[bool] = False

    shares: Responsibilities
    table: Lookup

    @property
    def maps(self) -> tuple[ColumnMap, ...]:
        """The responsibilities and the lookup."""
        return (self.shares, self.table)

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the length of the table's longest row, and twice that: two rows may lie opposite one another."""
        norm = weight * self.table.row_bound().norm
        return Bound(norm, 2 * norm)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Multiply responsibilities, added up by bin, by the table, whose entries are truncated first."""
        table = np.trunc(self.table.table * weight * 2.0 ** (2 * half_bits - SHARE_BITS)).astype(np.int64)
        sums = shares_by_cell(self.shares, rows, (*cells, self.table.axis), device=device)
        by_bin = sums.reshape(-1, len(table), self.shares.dimension).transpose(0, 2, 1)
        # Fewer than 2^27 rows of 2^18 steps, times at most 2^18: int64 holds it.
        return np.asarray((by_bin @ table).reshape(len(by_bin), -1))


def shares_by_cell(
    shares: Responsibilities, rows: PrivateRows, cells: tuple[Axis, ...], *, device: str = "cpu"
) -> NDArray[np.int64]:
    """Add up the responsibilities of rows by cell; shape (n_cells, components), in whole steps of 2^-18.

    Both devices do the same whole-number operations for a row, so that neither a bit of it nor of the sums differs.
    """
    if device != "cpu":
        return _by_cell_on_card(shares, rows, cells, device)
    index = joint_index(rows, cells)
    n_cells = math.prod(axis.size for axis in cells)
    # Whole numbers of at most 2^18 from fewer than 2^27 rows: float64 holds their sums exactly, in any order.
    sums = [np.bincount(index, weights=one, minlength=n_cells) for one in rows.column(shares.key)]
    return np.stack(sums, axis=1).astype(np.int64)


def _shares(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return responsibilities in whole steps of 2^-18, shape (n_rows, components), of scores in steps of 2^-12."""
    below = scores.max(axis=1, keepdims=True) - scores
    likely = _powers()[below & (2**SCORE_BITS - 1)] >> np.minimum(below >> SCORE_BITS, POWER_BITS + 1)
    return np.asarray((likely << SHARE_BITS) // likely.sum(axis=1, keepdims=True))


def _by_cell_on_card(
    shares: Responsibilities, rows: PrivateRows, cells: tuple[Axis, ...], device: str
) -> NDArray[np.int64]:
    """Do what :func:`shares_by_cell` does on a card, which keeps columns between questions and shares within one."""
    import torch

    memory = CountMemory() if rows.memory is None else rows.memory
    of_rows = memory.on_card("responsibilities", shares.key, lambda: _shares_on_card(shares, rows, memory, device))
    n_cells = math.prod(axis.size for axis in cells)
    # Threads that add to one place wait for each other: each cell has several, for rows that follow one another.
    places = 1 << min(6, max(0, (CARD_PLACES // max(n_cells * shares.dimension, 1)).bit_length() - 1))
    several = min(rows.n_rows, _at_a_time(shares))
    own = memory.on_card("places", (places, several), lambda: torch.arange(several, device=device) & (places - 1))
    sums = torch.zeros((n_cells * places, shares.dimension), dtype=torch.int64, device=device)
    for part in _parts(shares, rows.n_rows):
        index = _index_on_card(rows, memory, cells, part, device).mul_(places).add_(own[: part.stop - part.start])
        # Whole numbers: the same sum in whatever order threads arrive.
        sums.index_add_(0, index, of_rows[part].to(torch.int64))
    return np.asarray(sums.view(n_cells, places, -1).sum(dim=1).cpu().numpy())


def _shares_on_card(shares: Responsibilities, rows: PrivateRows, memory: CountMemory, device: str) -> Tensor:
    """Return the responsibilities of every row on a card, shape (n_rows, components), int32, as ``cells`` does."""
    import torch

    sizes = [table.shape[1] for table in shares.tables]
    tables = np.concatenate([*shares.tables, np.zeros((len(shares.weights), 0, shares.dimension), np.int32)], axis=1)
    scores_of = torch.from_numpy(tables.reshape(-1, shares.dimension)).to(device)
    weights = torch.from_numpy(shares.weights.astype(np.int64)).to(device)
    powers = memory.on_card("powers", None, lambda: torch.from_numpy(_powers().copy()).to(device))
    axes = [Axis(name, one, size) for name, one, size in zip(shares.columns, shares.bins, sizes, strict=True)]
    found = torch.empty((rows.n_rows, shares.dimension), dtype=torch.int32, device=device)
    for part in _parts(shares, rows.n_rows):
        of_class = _index_on_card(rows, memory, () if shares.by is None else shares.by.axes, part, device)
        scores, first = weights.index_select(0, of_class), of_class.mul_(sum(sizes))
        for axis in axes:
            places = _index_on_card(rows, memory, (axis,), part, device).add_(first)
            scores.add_(scores_of.index_select(0, places))
            first += axis.size
        # As in _shares, line by line.
        below = scores.amax(dim=1, keepdim=True).sub(scores)
        shift = (below >> SCORE_BITS).clamp_(max=POWER_BITS + 1)
        likely = powers.take(below.bitwise_and_(2**SCORE_BITS - 1)) >> shift
        total = likely.sum(dim=1, keepdim=True)
        found[part] = (likely << SHARE_BITS).div_(total, rounding_mode="floor")
    return found


def _at_a_time(shares: Responsibilities) -> int:
    return max(1, CARD_ENTRIES // shares.dimension)


def _parts(shares: Responsibilities, n_rows: int) -> Iterator[slice]:
    """Yield rows that a card works on at a time."""
    several = _at_a_time(shares)
    for start in range(0, n_rows, several):
        yield slice(start, min(start + several, n_rows))


def _index_on_card(rows: PrivateRows, memory: CountMemory, axes: Sequence[Axis], part: slice, device: str) -> Tensor:
    """Return what :func:`joint_index` does, on a card and as int64, from the bins of columns that it keeps."""
    import torch

    def bins(axis: Axis) -> Tensor:
        smallest = np.uint8 if axis.size <= 2**8 else np.int16 if axis.size <= 2**15 else np.int32
        return torch.from_numpy(joint_index(rows, (axis,)).astype(smallest)).to(device)

    if not axes:
        return torch.zeros(part.stop - part.start, dtype=torch.int64, device=device)
    of_rows = [memory.on_card(axis.key, None, lambda axis=axis: bins(axis))[part] for axis in axes]  # type: ignore[misc]
    index = of_rows[0].to(torch.int64)
    for axis, own in zip(axes[1:], of_rows[1:], strict=True):
        index.mul_(axis.size).add_(own)
    return index


@functools.cache
def _powers() -> NDArray[np.int64]:
    """Return 2^-x for x from 0 to 1 at multiples of 2^-12, in whole steps of 2^-30. Public numbers."""
    steps = 2**SCORE_BITS
    return frozen(np.array([round(2**POWER_BITS * 2 ** (-place / steps)) for place in range(steps)], dtype=np.int64))
