"""Counting rows by cell: the only way in which a sum reads rows, column by column and in pieces."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.limits import ROWS
from synth.privacy.bins import CODES_PER_ROW, Bins

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "MAXIMUM_ROWS",
    "Axis",
    "ColumnOf",
    "Computed",
    "CountMemory",
    "Counters",
    "PrivateRows",
    "Wanted",
    "count_pieces",
    "joint_counts",
    "joint_index",
    "rows_by_cell",
    "tables_of_counts",
    "with_computed",
]

MAXIMUM_ROWS = ROWS
"""Most rows of a private table, below 2^27: with features of at most 2^36 grid steps no sum, noise added, leaves int64.

The noise of every coordinate is below 2^53 steps, and 120 million times 2^36 is 2^63 less 2^59.7.
"""

PIECE = 2**20
"""Most rows indexed at a time; bounds the memory, changes nothing else."""

SMALL_PIECE = 2**16
"""Rows indexed at a time where tables are small: what a cache holds."""

MANY_ROWS = 2**22
"""Rows from which on torch is started to count them."""

GROUP_CELLS = 2**22
"""Cells of the tables that are counted together."""

MOST_CELLS = 2**26
"""Cells kept at most: 256 MB."""

MOST_ON_CARD = 2**33
"""Bytes kept on a graphics card at most."""


ColumnOf = Callable[[str], NDArray[Any]]
"""Returns the codes of a column by its name, shape (n_rows,)."""


class CountMemory:
    """Exact counts kept between questions of one session, so that nothing is counted twice.

    They are as private as the rows: they stay inside the session, in a bounded amount of memory, and are dropped with
    it. The least recently used table makes room first. So it is with what a graphics card holds of the rows.
    """

    __slots__ = ("_bytes", "_cells", "_on_card", "_tables")

    def __init__(self) -> None:
        self._tables: OrderedDict[Hashable, NDArray[np.int32]] = OrderedDict()
        self._on_card: OrderedDict[Hashable, tuple[Hashable, Tensor]] = OrderedDict()
        self._cells = self._bytes = 0

    def recall(self, key: Hashable) -> NDArray[np.int32] | None:
        """Return the counts kept under a key, or None."""
        counts = self._tables.get(key)
        if counts is not None:
            self._tables.move_to_end(key)
        return counts

    def keep(self, key: Hashable, counts: NDArray[np.int32], *, wanted: Collection[Hashable]) -> None:
        """Keep counts, unless room could only be made by dropping tables that the same question needs.

        A question whose tables do not all fit would otherwise drop each one just before it is needed again.
        """
        if key in self._tables:
            return
        while self._cells + counts.size > MOST_CELLS:
            oldest = next(iter(self._tables), None)
            if oldest is None or oldest in wanted:
                return
            self._cells -= self._tables.pop(oldest).size
        counts.flags.writeable = False
        self._tables[key] = counts
        self._cells += counts.size

    def on_card(self, name: Hashable, version: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return what a card holds under a name, made anew if that is another version or not there.

        Parameters
        ----------
        name, version : Hashable
            One version of a name is held at a time.
        make : callable
            Returns it, on the card.
        """
        held = self._on_card.pop(name, None)
        if held is not None and held[0] == version:
            self._on_card[name] = held
            return held[1]
        self._bytes -= 0 if held is None else held[1].nbytes
        del held  # before its successor needs the room
        made = make()
        while self._on_card and self._bytes + made.nbytes > MOST_ON_CARD:
            self._bytes -= self._on_card.popitem(last=False)[1][1].nbytes
        if self._bytes + made.nbytes <= MOST_ON_CARD:
            self._on_card[name] = version, made
            self._bytes += made.nbytes
        return made

    def __repr__(self) -> str:
        return "<CountMemory: counts are not shown>"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("Remembered counts cannot be copied, pickled or sent to another process.")


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """What a sum may read: one column of codes at a time, by name; and earlier counts of the same rows.

    ``units`` numbers the unit of each row, shape (n_rows,), where there are ids and a unit may have several rows.
    ``texts`` counts the texts of columns that are to be found privately, where a table was opened for that.
    ``keyed`` returns a secret number for each row, shape (n_rows, 2), uint64: the same for all rows of an id, else one
    that follows from the contents of the row (``docs/proofs/critic-turns.md``). ``counters`` count a part of the rows
    each, and add up to the same counts.
    """

    column: ColumnOf
    n_rows: int
    memory: CountMemory | None = field(default=None, repr=False)
    units: NDArray[np.int64] | None = field(default=None, repr=False)
    texts: Callable[[Sequence[str]], Sequence[dict[str, int]]] | None = field(default=None, repr=False)
    keyed: Callable[[], NDArray[np.uint64]] | None = field(default=None, repr=False)
    counters: Counters | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.n_rows > MAXIMUM_ROWS:
            raise PrivacyError(f"A private table may have at most {MAXIMUM_ROWS:,} rows.")


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A column as one axis of a table of counts: the bin of every code, never changed, and the number of bins."""

    column: str
    bins: Bins | None
    size: int

    @property
    def key(self) -> Hashable:
        """What is counted along it: the column, its bins, and their number."""
        return self.column, self.bins, self.size


class Computed(Protocol):
    """A column calculated from others, row by row: its name, and its codes."""

    @property
    def key(self) -> str:
        """Its name, which no declared column has."""
        ...

    def cells(self, column: ColumnOf, n_rows: int) -> NDArray[Any]:
        """Return its codes, shape (n_rows,), of the columns that ``column`` returns by name."""
        ...


def with_computed(rows: PrivateRows, wanted: Sequence[Computed]) -> PrivateRows:
    """Return rows that have every computed column as one more, under its key."""
    computed = {one.key: one for one in wanted}
    made: dict[str, NDArray[Any]] = {}

    def column(name: str) -> NDArray[Any]:
        if name not in computed:
            return rows.column(name)
        if name not in made:
            # Only where it is read: a card has another way to it.
            made[name] = computed[name].cells(rows.column, rows.n_rows)
        return made[name]

    return replace(rows, column=column) if computed else rows


def joint_index(rows: PrivateRows, axes: Sequence[Axis], piece: slice = slice(None)) -> NDArray[Any]:
    """Return the cell of each row, last axis fastest; shape (rows in ``piece``,)."""
    if len(axes) == 1 and axes[0].bins is None:
        return rows.column(axes[0].column)[piece]
    index: NDArray[Any] = np.zeros(len(range(rows.n_rows)[piece]), dtype=np.int64)
    for axis in axes:
        codes = rows.column(axis.column)[piece]
        index *= axis.size
        index += codes if axis.bins is None else axis.bins[codes]
    return index


def joint_counts(rows: PrivateRows, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """Count rows by cell; shape (product of the axes' sizes,), last axis fastest."""
    return next(tables_of_counts(rows, (tuple(axes),))).astype(np.int64)


def tables_of_counts(rows: PrivateRows, tables: Sequence[tuple[Axis, ...]]) -> Iterator[NDArray[np.int32]]:
    """Yield the joint counts of many tables, in order, each of shape (product of its axes' sizes,), last axis fastest.

    Tables are counted many at a time, so that a column's bins are looked up once for all of them; tables that ``rows``
    remembers are not counted again.
    """
    memory = CountMemory() if rows.memory is None else rows.memory
    keys = [tuple(axis.key for axis in axes) for axes in tables]
    wanted = frozenset(keys)
    for group in _groups(tables):
        found = [memory.recall(key) for key in keys[group]]
        missing = [place for place, counts in enumerate(found, start=group.start) if counts is None]
        fresh = iter(_counted(rows, [tables[place] for place in missing], [keys[place] for place in missing]))
        for key, held in zip(keys[group], found, strict=True):
            counts = next(fresh) if held is None else held
            memory.keep(key, counts, wanted=wanted)
            yield counts


def rows_by_cell(rows: PrivateRows, axes: Sequence[Axis]) -> Iterator[tuple[int, NDArray[np.int64] | slice]]:
    """Yield each cell that has rows, with the indices of those rows."""
    if not axes:
        yield 0, slice(0, rows.n_rows)
        return
    index = joint_index(rows, axes)
    order = np.argsort(index, kind="stable")
    present, starts = np.unique(index[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for cell, start, end in zip(present.tolist(), starts.tolist(), ends if present.size else [], strict=True):
        yield cell, order[start:end]


def _groups(tables: Sequence[tuple[Axis, ...]]) -> Iterator[slice]:
    """Cut tables into runs with a bounded number of cells."""
    start, held = 0, 0
    for place, axes in enumerate(tables):
        cells = math.prod(axis.size for axis in axes)
        if place > start and held + cells > GROUP_CELLS:
            yield slice(start, place)
            start, held = place, 0
        held += cells
    yield slice(start, len(tables))


def _counted(
    rows: PrivateRows, tables: Sequence[tuple[Axis, ...]], keys: Sequence[tuple[Hashable, ...]]
) -> list[NDArray[np.int32]]:
    """Count rows by the cells of every table; axes with the same key are looked up once."""
    if not tables:
        return []
    axes = {
        key: axis for table, names in zip(tables, keys, strict=True) for key, axis in zip(names, table, strict=True)
    }
    places = {key: place for place, key in enumerate(axes)}
    lookups = [_lookup(axis, rows.n_rows) for axis in axes.values()]
    wanted = Wanted(
        tuple(axis.column for axis in axes.values()),
        tuple(axis.size for axis in axes.values()),
        tuple(lookups),
        tuple(tuple(places[key] for key in names) for names in keys),
    )
    plain = all(axis.bins is None or lookup is not None for axis, lookup in zip(axes.values(), lookups, strict=True))
    if rows.counters is not None and plain and (found := rows.counters.counts(wanted)) is not None:
        return found
    columns = {axis.column: rows.column(axis.column) for axis in axes.values()}
    searched = [axis.bins if lookup is None else None for axis, lookup in zip(axes.values(), lookups, strict=True)]
    return count_pieces(columns, wanted, (0, rows.n_rows), many=rows.n_rows > MANY_ROWS, searched=searched)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Tables of counts: their axes, and which of them each table has, last fastest.

    ``columns`` names the column of every axis, ``sizes`` its number of bins, and ``lookups`` the bin of every code, in
    the smallest type that can be counted, or None where there is no table of them: the codes are the bins, or are
    searched for.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    lookups: tuple[NDArray[Any] | None, ...]
    tables: tuple[tuple[int, ...], ...]

    @property
    def cells(self) -> list[int]:
        """Number of cells of every table."""
        return [math.prod(self.sizes[axis] for axis in table) for table in self.tables]


class Counters(Protocol):
    """Whatever counts the rows of a table in several parts (:mod:`synth.privacy.counting_processes`)."""

    def counts(self, wanted: Wanted) -> list[NDArray[np.int32]] | None:
        """Return tables of counts of all rows, or None where it does not know a column."""
        ...


def count_pieces(
    columns: Mapping[str, NDArray[Any]],
    wanted: Wanted,
    rows: tuple[int, int],
    *,
    many: bool,
    searched: Sequence[Bins | None] = (),
) -> list[NDArray[np.int32]]:
    """Count the rows from one place to another by the cells of every table, piece by piece.

    Parameters
    ----------
    columns : mapping of name to array of shape (n_rows,)
    wanted : Wanted
    rows : (int, int)
        The first row, and the first behind the last.
    many : bool
        Whether starting torch is worth it.
    searched : sequence of Bins or None
        For every axis, where its bins are searched for, because a table of them would be too long.

    Returns
    -------
    list of arrays of shape (cells of the table,), int32
    """
    first, last = rows
    sizes = [[wanted.sizes[axis] for axis in table] for table in wanted.tables]
    totals = [np.zeros(cells, dtype=np.int32) for cells in wanted.cells]
    # Every piece of rows adds to every cell of a table, so large tables need large pieces.
    piece = min(max(SMALL_PIECE, *(4 * total.size for total in totals)), PIECE) if totals else PIECE
    for start in range(first, last, piece):
        end = min(start + piece, last)
        axes = zip_longest(wanted.columns, wanted.sizes, wanted.lookups, searched)
        bins = [_bins_of(size, lookup, found, columns[name][start:end]) for name, size, lookup, found in axes]
        for total, table, one in zip(totals, wanted.tables, sizes, strict=True):
            total += _count([bins[axis] for axis in table], one, many=many) if table else end - start
    return totals


def _kind(size: int) -> type[np.integer[Any]]:
    """Return the smallest type that holds so many bins and can be counted."""
    return np.uint8 if size <= 2**8 else np.int16 if size <= 2**15 else np.int32


def _lookup(axis: Axis, n_rows: int) -> NDArray[Any] | None:
    """Return the bin of every code where there are few codes for each row, or few at all: then a table is quicker."""
    plain = axis.bins is not None and axis.bins.size <= max(CODES_PER_ROW * n_rows, PIECE)
    return axis.bins.plain(_kind(axis.size)) if plain and axis.bins is not None else None


def _bins_of(size: int, lookup: NDArray[Any] | None, searched: Bins | None, codes: NDArray[Any]) -> NDArray[Any]:
    """Return the bin of each row, in new memory."""
    if searched is not None:
        return searched[codes].astype(_kind(size), copy=False)
    if int(codes.max()) >= (size if lookup is None else len(lookup)):
        raise PrivacyError("A column holds a code that is not in its declaration; the table must be encoded again.")
    return codes.astype(_kind(size)) if lookup is None else lookup[codes]


def _count(bins: Sequence[NDArray[Any]], sizes: Sequence[int], *, many: bool) -> NDArray[np.int64]:
    """Count the rows of one piece by cell; ``many`` means that starting torch is worth it for all pieces together."""
    n_cells = math.prod(sizes)
    index = bins[0]
    if len(bins) > 1:
        kind = np.int16 if n_cells < 2**15 else np.int32
        index = np.multiply(bins[0], sizes[1], dtype=kind)
        index += bins[1]
        for more, size in zip(bins[2:], sizes[2:], strict=True):
            index *= size
            index += more
    if "torch" not in sys.modules and not many:
        return np.bincount(index, minlength=n_cells)
    import torch  # here, as it takes a second to start

    # It counts small types about twice as fast as numpy counts any; the counts are the same.
    return np.asarray(torch.bincount(torch.from_numpy(index), minlength=n_cells).numpy())
