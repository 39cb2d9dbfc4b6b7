"""Distances between rows of mixed columns, and exact nearest neighbours by that distance.

A row is a place on every axis. Rows are halved along the axis on which they differ most until a box holds few of them.
What a box holds of each axis bounds its distance from a query from below; a box farther than the nearest row found so
far is not opened. Sums of whole numbers: no order of work changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable
from synth.reports.membership.axes import Axis, Placed, Places
from synth.reports.membership.pairs_in_blocks import between_in_blocks, nearest_in_blocks
from synth.schema import Schema
from synth.system.machine import is_lack_of_means

__all__ = ["Box", "GowerSpace", "RowTree", "distances_between", "distinct_rows"]

_ROWS_OF_A_BOX = 256
_LOOKED_AT = 512
"""Rows by which the axis of a cut is chosen."""

_PROMISING = 3
"""Boxes that every query opens in its own order before all boxes are visited one by one."""

_QUERIES_AT_ONCE = 2048
_BYTE = 255
_FAR = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Some rows, and what they have on each axis.

    Attributes
    ----------
    rows : Placed
        At least one row.
    differing : tuple of int
        Axes on which they differ; on the others one row represents all.
    """

    rows: Placed
    differing: tuple[int, ...]

    @classmethod
    def of(cls, rows: Placed) -> Self:
        """Note where rows differ."""
        return cls(rows, tuple(place for place, values in enumerate(rows) if values.min() != values.max()))

    def bound(self, axes: Sequence[Axis], queries: Placed) -> Places:
        """Return the least possible distance of each query from any row here."""
        total = np.zeros(len(queries[0]), dtype=np.int32)
        for place, (axis, mine, wanted) in enumerate(zip(axes, self.rows, queries, strict=True)):
            if place not in self.differing:
                total += axis.between(wanted, mine[:1])
            elif axis.levels:
                total += _least(axis, mine, wanted)
            else:
                held = np.zeros(axis.size, dtype=bool)
                held[mine] = True
                total += np.where(held[wanted], np.int32(0), np.int32(axis.unit))
        return total

    def nearest(self, axes: Sequence[Axis], queries: Placed) -> Places:
        """Return the distance of each query from the nearest row here."""
        best = np.empty(len(queries[0]), dtype=np.int32)
        for start in range(0, len(best), _QUERIES_AT_ONCE):
            piece = [wanted[start : start + _QUERIES_AT_ONCE] for wanted in queries]
            best[start : start + _QUERIES_AT_ONCE] = self._sums(axes, piece).min(axis=1)
        return best

    def _sums(self, axes: Sequence[Axis], queries: Placed) -> Places:
        alike = [place for place in range(len(axes)) if place not in self.differing]
        common = np.zeros(len(queries[0]), dtype=np.int32)
        for place in alike:
            common += axes[place].between(queries[place], self.rows[place][:1])
        chosen = list(self.differing)
        sums = distances_between(
            [axes[place] for place in chosen],
            [queries[place] for place in chosen],
            [self.rows[place] for place in chosen],
            shape=(len(common), len(self.rows[0])),
        )
        sums += common[:, None]
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class RowTree:
    """Rows in boxes."""

    axes: tuple[Axis, ...]
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, axes: Sequence[Axis], rows: Placed, *, rows_of_a_box: int = _ROWS_OF_A_BOX) -> Self:
        """Sort rows into boxes.

        Parameters
        ----------
        axes : sequence of Axis
        rows : Placed
            At least one row, no two alike (:func:`distinct_rows`).
        rows_of_a_box : int
            Most rows of one box.
        """
        waiting, boxes = [np.arange(len(rows[0]))], []
        while waiting:
            members = waiting.pop()
            if len(members) <= rows_of_a_box:
                boxes.append(Box.of([values[members] for values in rows]))
                continue
            left = _cut(axes, rows, members)
            waiting += [members[~left], members[left]]
        return cls(tuple(axes), tuple(boxes))

    def nearest(self, queries: Placed, *, on_step: OnStep = unwatched) -> Places:
        """Return the distance of every query from its nearest row.

        Parameters
        ----------
        queries : Placed
        on_step : callable
            Called with (done, total); may raise to stop.

        Returns
        -------
        array of shape (n_queries,), int32
        """
        found = []
        n_queries, size = len(queries[0]), max(_QUERIES_AT_ONCE, 2**24 // len(self.boxes))
        for start in range(0, n_queries, size):
            found.append(self._nearest([wanted[start : start + size] for wanted in queries]))
            on_step(min(start + size, n_queries), n_queries)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int32)

    def _nearest(self, queries: Placed) -> Places:
        bounds = np.stack([box.bound(self.axes, queries) for box in self.boxes], axis=1)
        best = np.full(len(bounds), _FAR, dtype=np.int32)
        for _ in range(min(_PROMISING, len(self.boxes))):
            wanted = bounds.argmin(axis=1)
            open_ = np.flatnonzero(bounds[np.arange(len(best)), wanted] < best)
            for box, members in _grouped(wanted[open_], open_):
                self._visit(box, members, queries, best)
                bounds[members, box] = _FAR
        for box in np.argsort(bounds.min(axis=0)).tolist():
            self._visit(box, np.flatnonzero(bounds[:, box] < best), queries, best)
        return best

    def _visit(self, box: int, members: NDArray[np.int64], queries: Placed, best: Places) -> None:
        if len(members):
            near = self.boxes[box].nearest(self.axes, [wanted[members] for wanted in queries])
            best[members] = np.minimum(best[members], near)


def distances_between(
    axes: Sequence[Axis], left: Placed, right: Placed, *, shape: tuple[int, int] | None = None
) -> Places:
    """Return the summed distance of every row from every other.

    Returns
    -------
    array of shape (rows of ``left``, rows of ``right``), int32
    """
    size = shape or (len(left[0]), len(right[0]))
    sums = np.zeros(size, dtype=np.int32)
    apart, differ = np.empty(size, dtype=np.int32), np.empty(size, dtype=bool)
    # Bytes are compared and counted many at a time.
    mismatches = np.zeros(size, dtype=np.uint8 if len(axes) <= _BYTE else np.uint16)
    for axis, mine, theirs in zip(axes, left, right, strict=True):
        if axis.levels:
            np.subtract(mine[:, None], theirs, out=apart)
            np.abs(apart, out=apart)
            if axis.size > axis.levels:
                np.minimum(apart, np.int32(axis.unit), out=apart)
            sums += apart
            continue
        narrow = np.uint8 if axis.size <= _BYTE else np.int32
        np.not_equal(mine.astype(narrow)[:, None], theirs.astype(narrow), out=differ)
        mismatches += differ.view(np.uint8)
    if axes:
        sums += mismatches * np.int32(axes[0].unit)
    return sums


def distinct_rows(rows: Placed) -> tuple[Placed, NDArray[np.int64]]:
    """Return every different row once, and for each row which of them it is."""
    order = np.lexsort(rows)
    begins = np.zeros(len(order), dtype=bool)
    begins[:1] = True
    for values in rows:
        begins[1:] |= values[order][1:] != values[order][:-1]
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(begins) - 1
    return [values[order[begins]] for values in rows], inverse


def _least(axis: Axis, rows: Places, queries: Places) -> Places:
    """Bound the distance on an axis with a grid by the grid's part that is held, and by the other states held."""
    grid = rows[rows <= axis.unit]
    # A grid without rows is at the largest distance.
    low, high = (int(grid.min()), int(grid.max())) if len(grid) else (-axis.unit, -axis.unit)
    outside = np.maximum(np.maximum(low - queries, queries - high), 0)
    least = np.minimum(outside, axis.unit)
    if axis.size == axis.levels:
        return least.astype(np.int32)
    held = np.unique(rows[rows > axis.unit])
    return np.where(np.isin(queries, held), 0, least).astype(np.int32)


def _cut(axes: Sequence[Axis], rows: Placed, members: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Halve rows along the axis on which they differ most; both parts hold some."""
    looked = members[:: max(1, len(members) // _LOOKED_AT)]
    spreads = [_spread(axis, values[looked]) for axis, values in zip(axes, rows, strict=True)]
    for place in np.argsort(spreads)[::-1].tolist():
        values = rows[place][members]
        least, greatest = int(values.min()), int(values.max())
        if least < greatest:
            middle = int(np.partition(values, len(values) // 2)[len(values) // 2])
            return np.asarray(values < middle if middle > least else values <= least)
    raise AssertionError("rows are distinct")  # pragma: no cover


def _spread(axis: Axis, values: Places) -> float:
    """Return the mean distance of two of the rows on one axis."""
    return float(axis.between(values[: len(values) // 2, None], values[None, len(values) // 2 :]).mean())


def _grouped(boxes: NDArray[np.int64], members: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    order = np.argsort(boxes, kind="stable")
    firsts = np.flatnonzero(np.diff(boxes[order], prepend=-1))
    parts = np.split(members[order], firsts[1:])
    return [(int(boxes[order[first]]), part) for first, part in zip(firsts, parts, strict=True)] if len(order) else []


# Gower's distance ---------------------------------------------------------------------------------------------------


_WORTH_A_CARD = 2**20
"""Fewest pairs whose distances a card is asked for: a processor takes some 10 ms for them."""

_FINEST = 2**24
_LARGEST_SUM = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GowerSpace:
    r"""Where the codes of a schema's columns lie, so that Gower's distance is a sum of distances on axes (Gower 1971).

    .. math:: d(x, y) = \frac{1}{p} \sum_{j=1}^{p} d_j(x_j, y_j)

    where d_j of a number or date is |difference| / declared range, d_j of categories is 0 if they agree and 1 if not,
    and a missing cell or special value is a separate state: 0 from itself and 1 from everything else. Only the schema
    decides.

    Attributes
    ----------
    axes : tuple of Axis
        One for each modelled column.
    unit : int
        What a distance of 1 in one column is: the whole number that declared ranges are divided into. 2^24, less for
        very many columns or special values; no number moves by more than half of 1 / ``unit`` of its range.
    """

    axes: tuple[Axis, ...]
    unit: int

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Lay out the modelled columns of a schema."""
        columns = schema.modelled
        # The largest value of a mixed column, and the largest sum over columns, must fit 32 bits.
        widest = max((2 * (column.size - column.levels + 1) for column in columns if column.levels), default=1)
        unit = _FINEST
        while unit * max(widest, len(columns)) > _LARGEST_SUM:
            unit //= 2
        return cls(tuple(Axis(column.levels, column.size, unit) for column in columns), unit)

    def place(self, table: CodeTable) -> Placed:
        """Return the place of every code.

        Parameters
        ----------
        table : CodeTable
            Codes in ``schema.names`` order, one array of shape (n_rows,) per column.

        Returns
        -------
        list of arrays of shape (n_rows,)
            Multiples of 1 / ``unit`` for columns with a grid; codes for others.
        """
        if len(table) != len(self.axes):
            raise InputError(f"Rows of {len(self.axes)} columns are needed, got {len(table)}.")
        return [axis.place(codes) for axis, codes in zip(self.axes, table, strict=True)]

    def between(self, left: CodeTable, right: CodeTable, *, device: str = "cpu") -> NDArray[np.float64]:
        """Return the distance of every row of one table from every row of another, the same on every device.

        Parameters
        ----------
        left, right : CodeTable
            Codes in ``schema.names`` order.
        device : {"cpu", "cuda"}
            A card is asked only where there are many pairs.

        Returns
        -------
        array of shape (rows of ``left``, rows of ``right``), in [0, 1]
        """
        mine, theirs = self.place(left), self.place(right)
        found = None
        if len(left[0]) * len(right[0]) >= _WORTH_A_CARD:
            found = _on_card(device, lambda: between_in_blocks(self.axes, mine, theirs, device=device))
        return self._shares(distances_between(self.axes, mine, theirs) if found is None else found)

    def nearest(
        self, queries: CodeTable, rows: CodeTable, *, device: str = "cpu", on_step: OnStep = unwatched
    ) -> NDArray[np.float64]:
        """Return how far the nearest of ``rows`` is from every query; exact, and the same on every device.

        Parameters
        ----------
        queries, rows : CodeTable
            Codes in ``schema.names`` order; at least one row among ``rows``.
        device : {"cpu", "cuda"}
            A processor searches a tree, a card compares all pairs.
        on_step : callable
            Called with (done, total); may raise to stop.

        Returns
        -------
        array of shape (n_queries,), in [0, 1]

        Raises
        ------
        InputError
            If there are no rows to compare with.
        """
        if not len(rows[0]):
            raise InputError("There are no rows to compare with.")
        wanted, inverse = distinct_rows(self.place(queries))
        there, _ = distinct_rows(self.place(rows))
        if not len(inverse):
            return np.zeros(0)
        found = _on_card(device, lambda: nearest_in_blocks(self.axes, wanted, there, device=device, on_step=on_step))
        if found is None:
            found = RowTree.of(self.axes, there).nearest(wanted, on_step=on_step)
        return self._shares(found)[inverse]

    def _shares(self, distances: NDArray[np.int32]) -> NDArray[np.float64]:
        return distances / (float(self.unit) * len(self.axes))


def _on_card(device: str, search: Callable[[], Places]) -> Places | None:
    """Return what a card finds; None if there is none to be asked, or if it is full or fails."""
    if device == "cpu":
        return None
    try:
        return search()
    except Exception as error:
        if not is_lack_of_means(error):
            raise
        return None
