"""Public binnings of a column's codes: which bin every declared code belongs to, in memory that follows their form.

A declared range may have millions of codes, and its bins be a few thousand runs of them. A binning is therefore kept as
its longest runs, or, where these are very many (classes of digits change with every code), as the different pages of
its codes and the order in which they follow each other. Each binning has one such form alone: equal ones are equal
arrays. The bin of a code follows from that code and the binning, whatever the other rows hold.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError

__all__ = ["CODES_PER_ROW", "MOST_RUNS", "PAGE", "Bins", "pieces"]

MOST_RUNS = 2**16
"""Binnings of more runs than this are kept as pages."""

PAGE = 10_000
"""Codes of a page: a power of ten, as the digits of numbers repeat after it."""

FEW_CODES = 2**12
"""Up to this many codes a plain table is quicker than a search, however few rows are looked up."""

CODES_PER_ROW = 16
"""Up to so many codes for each row that is looked up a plain table is quicker, too."""

_AT_ONCE = 2**20

Whole = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The bin of every code of a column; made by one of its class methods.

    Attributes
    ----------
    size : int
        Number of codes.
    table : array of int32
        For runs, of shape (2, runs): the first code of each and its bin; neighbours differ. For pages, of shape
        (pages, 10,000): the bins of each page, all different, in the order in which they first occur; what the last one
        lacks repeats its last bin.
    order : array of shape (pages of the column,), int32, or None
        Which page comes where; None for runs.
    count : int
        The largest bin and one.

    Raises
    ------
    PrivacyError
        If the arrays are not the one form of a binning.
    """

    size: int
    table: Whole
    order: Whole | None = None
    count: int = field(init=False, repr=False)
    digest: str = field(init=False, repr=False)
    """A hash of all of it: two binnings have the same one exactly if they are equal."""

    def __post_init__(self) -> None:
        held = hashlib.sha256(f"{self.size} {self.order is not None};".encode())
        for array in (self.table, self.order):
            if array is not None:
                held.update(f"{array.shape};".encode() + np.ascontiguousarray(array, dtype="<i4").data)
                array.flags.writeable = False
        bins = self.table if self.order is not None else self.table[1:]
        object.__setattr__(self, "count", int(bins.max(initial=-1)) + 1)
        object.__setattr__(self, "digest", held.hexdigest())

    @classmethod
    def of_codes(cls, bins: ArrayLike) -> Self:
        """Return the binning that names the bin of every code, shape (codes,), whole numbers from 0 to 2^31 - 1."""
        return cls.of_blocks([np.asarray(bins)])

    @classmethod
    def of_runs(cls, bins: ArrayLike, widths: ArrayLike) -> Self:
        """Return the binning of runs of codes; ``bins`` and ``widths`` have shape (runs,), and widths may be 0."""
        wide = np.asarray(widths, dtype=np.int64)
        each, wide = _whole(np.asarray(bins)[wide > 0]), wide[wide > 0]
        kept = np.flatnonzero(_begins(each, before=-1))
        starts = np.cumsum(wide) - wide
        if 0 < len(kept) <= MOST_RUNS:
            return cls(int(wide.sum()), _pair(starts[kept], each[kept]))
        # A part is at most twice as long as all runs are many, or one run.
        return cls.of_blocks(_spread(each, wide))

    @classmethod
    def of_blocks(cls, blocks: Iterable[NDArray[np.integer[Any]]]) -> Self:
        """Return the binning of codes whose bins come in blocks of any length, one after the other."""
        pages, order, inside, runs = dict[bytes, int](), list[int](), list[int](), list[Whole]()
        size, last, many = 0, -1, 0
        for page in _paged(blocks):
            whole = page if len(page) == PAGE else np.append(page, np.repeat(page[-1:], PAGE - len(page)))
            place = pages.setdefault(whole.tobytes(), len(pages))
            if place == len(inside):  # what a page lacks repeats its last bin, and so begins no run
                inside.append(int(np.count_nonzero(np.diff(whole))))
            many += inside[place] + int(page[0] != last)
            if many <= MOST_RUNS:
                first = np.flatnonzero(_begins(page, before=last))
                runs.append(_pair(first + size, page[first]))
            order.append(place)
            size, last = size + len(page), int(page[-1])
        if not size:
            raise PrivacyError("A binning needs the bin of at least one code.")
        if many <= MOST_RUNS:
            return cls(size, np.concatenate(runs, axis=1))
        table = np.frombuffer(b"".join(pages), dtype=np.int32).reshape(-1, PAGE)
        return cls(size, table, np.array(order, dtype=np.int32))

    @property
    def edges(self) -> NDArray[np.int64]:
        """The first code of every run, shape (runs,); where these are very many, some others too."""
        return np.concatenate([first for first, _, _ in pieces(0, self.size, self)])

    @property
    def widths(self) -> NDArray[np.int64]:
        """Number of codes of every bin, shape (count,)."""
        found = np.zeros(self.count, dtype=np.int64)
        for bins, lengths in self.lengths():
            found += np.bincount(bins, weights=lengths, minlength=self.count).astype(np.int64)
        return found

    @property
    def used(self) -> Whole:
        """The bins that have a code, ascending."""
        return np.unique(self.table if self.order is not None else self.table[1])

    @property
    def is_identity(self) -> bool:
        """Whether every code is a bin of its own, with the same number."""
        if self.count != self.size or len(self.used) != self.size:
            return False
        return all(((own == first) & (first == last)).all() for first, last, (own,) in pieces(0, self.size, self))

    def __getitem__(self, codes: NDArray[np.integer[Any]] | int, /) -> Whole:
        """Return the bin of each code, in new memory.

        Raises
        ------
        PrivacyError
            If one is not a code of the column.
        """
        codes = np.asarray(codes)
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < self.size:
            raise PrivacyError("A column holds a code that is not in its declaration; the table must be encoded again.")
        if self.size <= max(CODES_PER_ROW * codes.size, FEW_CODES):
            return np.asarray(self.plain()[codes])
        if self.order is not None:
            page, inside = np.divmod(codes, PAGE)
            return np.asarray(self.table[self.order[page], inside])
        return np.asarray(self.table[1][np.searchsorted(self.table[0], codes, side="right") - 1])

    def plain(self, kind: type[np.integer[Any]] = np.int32) -> NDArray[Any]:
        """Return the bin of every code, shape (size,): for columns that are not much longer than the rows at hand."""
        return self.between(0, self.size).astype(kind, copy=False)

    def between(self, start: int, end: int) -> Whole:
        """Return the bins of the codes from ``start`` to ``end`` - 1."""
        if self.order is not None:
            first, last = start // PAGE, -(-end // PAGE)
            pages = self.table[self.order[first:last]].reshape(-1)
            return np.asarray(pages[start - first * PAGE : end - first * PAGE])
        first, last = np.searchsorted(self.table[0], [start, end - 1], side="right")
        edges = np.concatenate([[start], self.table[0, first:last], [end]])
        return np.asarray(np.repeat(self.table[1, first - 1 : last], np.diff(edges)))

    def lengths(self) -> Iterator[tuple[Whole, NDArray[np.int64]]]:
        """Yield bins with numbers of codes that add up to those of the column; a bin may come several times."""
        if self.order is None:
            yield self.table[1], np.diff(self.table[0], append=self.size)
            return
        times = np.bincount(self.order, minlength=len(self.table))
        for page, many in zip(self.table, times.tolist(), strict=True):
            yield page, np.full(PAGE, many)
        lacking = len(self.order) * PAGE - self.size
        if lacking:
            yield self.table[self.order[-1], -1:], np.array([-lacking])

    def merged(self, groups: NDArray[np.integer[Any]]) -> Bins:
        """Return the binning in which bin b is ``groups[b]``, an array of shape (count,)."""
        if self.order is None:
            return Bins.of_runs(groups[self.table[1]], np.diff(self.table[0], append=self.size))
        if len(np.unique(groups[self.used])) == len(self.used):  # other names of the same bins
            return Bins(self.size, groups.astype(np.int32)[self.table], self.order)
        return Bins.of_blocks(groups[self.between(start, end)] for start, end in _blocks(0, self.size))

    def followed_by(self, one: int, size: int) -> Bins:
        """Return the binning of ``size`` codes of which those after the present ones are in one bin."""
        if size == self.size:
            return self
        blocks = (self.between(start, end) for start, end in _blocks(0, self.size))
        return Bins.of_blocks(itertools.chain(blocks, [np.full(size - self.size, one)]))

    def codes(self, bins: NDArray[np.integer[Any]], ranks: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the code that comes at a rank, from 0 on, among those of its bin; all arrays have the same shape."""
        if self.order is None:
            order = np.argsort(self.table[1], kind="stable")
            starts, own = self.table[0].astype(np.int64)[order], self.table[1][order]
            wide = np.diff(self.table[0], append=self.size)[order]
            before = np.cumsum(wide) - wide
            first = np.append(before, self.size)[np.searchsorted(own, np.arange(self.count))][bins]
            run = np.searchsorted(before, first + ranks, side="right") - 1
            return np.asarray(starts[run] + (first + ranks - before[run]))
        found = np.zeros(np.shape(bins), dtype=np.int64)
        for one in np.unique(bins).tolist():
            mine = bins == one
            held = np.count_nonzero(self.table == one, axis=1)
            before = np.concatenate([[0], np.cumsum(held[self.order])])
            page = np.searchsorted(before, ranks[mine], side="right") - 1
            inside = ranks[mine] - before[page]
            places = [np.flatnonzero(row == one) for row in self.table]
            which = self.order[page]
            found[mine] = page * PAGE + np.array([places[p][i] for p, i in zip(which, inside, strict=True)], np.int64)
        return found

    def to_json(self, name: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """Return JSON types, and put arrays into ``arrays`` under names that begin with ``name``."""
        arrays[f"{name}.table"] = self.table
        if self.order is None:
            return {"size": self.size, "table": f"{name}.table"}
        arrays[f"{name}.order"] = self.order
        return {"size": self.size, "table": f"{name}.table", "order": f"{name}.order"}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the binning that ``to_json`` wrote.

        Raises
        ------
        PrivacyError
            If its arrays are not the one form of a binning.
        """
        order = arrays[said["order"]] if "order" in said else None
        return cls._checked(said["size"], arrays[said["table"]], order)

    @classmethod
    def _checked(cls, size: Any, table: NDArray[Any], order: NDArray[Any] | None) -> Self:
        fits = type(size) is int and 0 < size < 2**31 and table.dtype == np.int32 and table.ndim == 2 and table.size
        if fits and order is None:
            starts, bins = table if len(table) == 2 else (table[:0], table[:0])
            fits = (
                0 < len(starts) <= MOST_RUNS
                and int(starts[0]) == 0
                and int(starts[-1]) < size
                and bool((np.diff(starts) > 0).all() and (bins >= 0).all() and (np.diff(bins) != 0).all())
            )
        elif fits and order is not None:
            pages, first = np.unique(order, return_index=True)
            fits = (
                order.dtype == np.int32
                and order.shape == (-(-size // PAGE),)
                and table.shape == (len(pages), PAGE)
                and bool((pages == np.arange(len(pages))).all() and (np.diff(first) > 0).all() and (table >= 0).all())
                and len({page.tobytes() for page in table}) == len(pages)
                and bool((table[order[-1], (size - 1) % PAGE :] == table[order[-1], -1]).all())
                and _runs_of_pages(size, table, order) > MOST_RUNS
            )
        if not fits:
            raise PrivacyError("The bins of a column are not written in their one form; the measurements are damaged.")
        return cls(size, table, order)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bins) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def pieces(
    start: int, end: int, *bins: Bins
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], tuple[Whole, ...]]]:
    """Yield pieces of the codes from ``start`` to ``end`` - 1 that lie in one bin of each binning, in order.

    Parameters
    ----------
    start, end : int
    *bins : Bins
        Of the same column.

    Yields
    ------
    first, last : arrays of shape (pieces,), int64
        The first code of each piece and its last one.
    own : tuple of arrays of shape (pieces,), int32
        Its bin in each binning. Neighbouring pieces may have the same.
    """
    if start >= end:
        return
    if all(one.order is None for one in bins):
        inside = (one.table[0][(one.table[0] > start) & (one.table[0] < end)] for one in bins)
        first = np.unique(np.concatenate([[start], *inside])).astype(np.int64)
        yield first, np.append(first[1:], end) - 1, tuple(one[first] for one in bins)
        return
    for one_start, one_end in _blocks(start, end):
        each = [one.between(one_start, one_end) for one in bins]
        begins = np.flatnonzero(np.any([_begins(block, before=-1) for block in each], axis=0))
        first = one_start + begins
        yield first, np.append(first[1:], one_end) - 1, tuple(block[begins] for block in each)


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    return ((one, min(one + _AT_ONCE, end)) for one in range(start, end, _AT_ONCE))


def _whole(bins: NDArray[Any]) -> Whole:
    """Return bins as int32, or refuse what cannot be bins."""
    if not (np.issubdtype(bins.dtype, np.integer) and bins.ndim == 1):
        raise PrivacyError("The bins of a column must be whole numbers below 2^31, one per code.")
    if bins.size and not 0 <= int(bins.min()) <= int(bins.max()) < 2**31:
        raise PrivacyError("The bins of a column must be whole numbers from 0 to 2^31 - 1.")
    return bins.astype(np.int32, copy=False)


def _pair(starts: NDArray[np.integer[Any]], bins: Whole) -> Whole:
    return np.stack([starts.astype(np.int32), bins])


def _begins(bins: Whole, *, before: int) -> NDArray[np.bool_]:
    """Return where a run begins, given the bin before the first one."""
    return np.asarray(np.diff(bins, prepend=np.int32(before)) != 0)


def _spread(bins: Whole, widths: NDArray[np.int64]) -> Iterator[Whole]:
    """Yield the bin of every code, in parts."""
    step = max(len(bins) // 64, 1)
    for start in range(0, len(bins), step):
        yield np.repeat(bins[start : start + step], widths[start : start + step])


def _paged(blocks: Iterable[NDArray[Any]]) -> Iterator[Whole]:
    """Yield blocks cut anew into pages, the last one shorter where they do not divide evenly."""
    held = np.empty(0, dtype=np.int32)
    for block in blocks:
        held = np.concatenate([held, _whole(block)]) if held.size else _whole(block)
        end = len(held) - len(held) % PAGE
        yield from (held[start : start + PAGE] for start in range(0, end, PAGE))
        held = held[end:]
    if held.size:
        yield held


def _runs_of_pages(size: int, table: Whole, order: Whole) -> int:
    """Return how many runs pages have; what the last one lacks repeats its last bin, and so begins none."""
    inside = np.count_nonzero(np.diff(table, axis=1), axis=1)
    between = table[order[1:], 0] != table[order[:-1], -1]
    return int(inside[order].sum() + np.count_nonzero(between) + 1)
