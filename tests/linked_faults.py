"""Bugs of a join, each of which would let one person's rows decide about others', or lose or alter a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from synth.reading.more import linked

__all__ = ["FAULTS"]

Plant = Callable[[pytest.MonkeyPatch], None]

FAULTS: dict[str, Plant] = {}


def _fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant
        return plant

    return keep


def _beside(patch: pytest.MonkeyPatch, change: Callable[[Any, Any, np.ndarray], np.ndarray]) -> None:
    right = linked._Held.rows_beside

    def rows_beside(self: Any, ids: Any, places: Any) -> Any:
        return change(self, (ids, places), right(self, ids, places))

    patch.setattr(linked._Held, "rows_beside", rows_beside)


@_fault("rows are joined by their place")
def _(patch: pytest.MonkeyPatch) -> None:
    _beside(patch, lambda held, asked, rows: np.where(rows >= 0, np.arange(len(rows)) % max(held.rows, 1), rows))


@_fault("each row stands beside the next person's")
def _(patch: pytest.MonkeyPatch) -> None:
    _beside(patch, lambda held, asked, rows: np.where(rows >= 0, (rows + 1) % max(held.rows, 1), rows))


@_fault("a row whose key the first table does not have stands beside the last of its rows")
def _(patch: pytest.MonkeyPatch) -> None:
    _beside(patch, lambda held, asked, rows: np.where((rows < 0) & (held.rows > 0), held.rows - 1, rows))


@_fault("the order of ids in a batch decides, not the row's own id")
def _(patch: pytest.MonkeyPatch) -> None:
    _beside(patch, lambda held, asked, rows: np.sort(rows))


@_fault("the last row of a key counts, not the first")
def _(patch: pytest.MonkeyPatch) -> None:
    def number(self: Any, ids: Any, places: Any) -> None:
        known = [*ids, None]
        self._row_of |= {
            known[place]: row for row, place in enumerate(places.tolist(), start=self.rows) if known[place]
        }

    patch.setattr(linked._Held, "_number", number)


@_fault("keys are compared as they are written")
def _(patch: pytest.MonkeyPatch) -> None:
    def ids_in(cells: pa.Array, request: Any) -> Any:
        cells = cells if pa.types.is_dictionary(cells.type) else cells.cast(pa.string()).dictionary_encode()
        ids = [None if one is None else str(one).encode() for one in cells.dictionary.to_pylist()]
        return ids, cells.indices.cast(pa.int64()).fill_null(len(ids)).to_numpy(zero_copy_only=False)

    patch.setattr(linked, "ids_in", ids_in)


@_fault("rows without a key belong together")
def _(patch: pytest.MonkeyPatch) -> None:
    right = linked.ids_in

    def ids_in(cells: pa.Array, request: Any) -> Any:
        ids, places = right(cells, request)
        return [*(one or b"nobody" for one in ids), b"nobody"], places

    patch.setattr(linked, "ids_in", ids_in)


def _batches(patch: pytest.MonkeyPatch, change: Callable[[list[pa.Array]], list[pa.Array] | None]) -> None:
    right = linked._joined

    def joined(*given: Any) -> Iterator[list[pa.Array]]:
        for columns in right(*given):
            changed = change(columns)
            if changed is not None:
                yield changed

    patch.setattr(linked, "_joined", joined)


@_fault("people without a row in the second table are lost")
def _(patch: pytest.MonkeyPatch) -> None:
    _batches(patch, lambda columns: None if "left_only" in columns[-1].to_pylist() else columns)


@_fault("further rows of a key are lost")
def _(patch: pytest.MonkeyPatch) -> None:
    seen: set[object] = set()

    def change(columns: list[pa.Array]) -> list[pa.Array]:
        keys, merge = columns[0].to_pylist(), columns[-1].to_pylist()
        kept = pa.array([word != "left_only" or key not in seen for key, word in zip(keys, merge, strict=True)])
        seen.update(keys)
        return [cells.filter(kept) for cells in columns]

    _batches(patch, change)


@_fault("rows whose person is missing are lost")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(columns: list[pa.Array]) -> list[pa.Array]:
        kept = pa.array([one != "right_only" for one in columns[-1].to_pylist()])
        return [cells.filter(kept) for cells in columns]

    _batches(patch, change)


@_fault("every row is said to come from both tables")
def _(patch: pytest.MonkeyPatch) -> None:
    _batches(patch, lambda columns: [*columns[:-1], linked._merge(np.zeros(len(columns[-1]), dtype=np.int64))])


@_fault("the words of a batch are taken from the dictionary of another order")
def _(patch: pytest.MonkeyPatch) -> None:
    right = linked._texts

    def texts(cells: pa.Array, kind: Any) -> pa.Array:
        made = right(cells, kind)
        words = made.dictionary
        return pa.DictionaryArray.from_arrays(made.indices, words.take(pa.array(range(len(words))[::-1], pa.int64())))

    patch.setattr(linked, "_texts", texts)


@_fault("a cell that one row has is taken for the rows of its batch that have none")
def _(patch: pytest.MonkeyPatch) -> None:
    right = linked._Held.taken

    def taken(self: Any, rows: Any) -> Any:
        return right(self, np.where(rows < 0, rows.max(initial=0), rows))

    patch.setattr(linked._Held, "taken", taken)


@_fault("whether a person has rows is only known of the last batch")
def _(patch: pytest.MonkeyPatch) -> None:
    right = linked._Side.read

    def read(self: Any) -> Iterator[list[pa.Array]]:
        batches = list(right(self))
        yield from batches[-1:] if self.table == "visits" else batches

    patch.setattr(linked._Side, "read", read)
