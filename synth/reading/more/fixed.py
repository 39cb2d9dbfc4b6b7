"""A text whose cells have fixed positions, as rows of cells. The contract: the codes of line i follow from line i.

Lines end as in other texts (:mod:`synth.reading.text`), and a blank one is no row. The layout is declared; positions
count characters from 1, after decoding. A line that ends before the last position, or has something other than spaces
behind it, is one row in which every cell is malformed; so is one that is too long or not in the declared encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from synth.reading.text import REASONS, Blocks, Peekable, past_lines
from synth.schema import TableFormat

__all__ = ["FixedTable"]

_ILL = "\udcff"
"""A character that no decoded text holds: it stands for a line that cannot be read."""


class FixedTable:
    """A text whose cells have fixed positions; its attributes are those of :class:`synth.reading.text.TextTable`."""

    def __init__(self, source: Peekable, form: TableFormat) -> None:
        form.check()
        self._places = [(first - 1, last) for _, first, last in form.fields]
        self._width = max(last for _, last in self._places)
        self.names = tuple(name for name, _, _ in form.fields)
        self._blocks = Blocks(source, past_lines(source, form), ill=b"\xff\n")
        self.blank = 0
        self.unreadable = dict.fromkeys(REASONS, 0)

    def batches(self, places: Sequence[int]) -> Iterator[tuple[list[pa.Array], int]]:
        """Yield the columns at ``places`` as texts, and how many rows are malformed; their cells are null."""
        for block in self._blocks:
            lines = [line.removesuffix("\r").removeprefix("\ufeff") for line in _lines(block)]
            rows = [line for line in lines if line.strip(" \t")]
            self.blank += len(lines) - len(rows)
            read = [self._is_row(line) for line in rows]
            for reason, count in self._blocks.take_replaced().items():
                self.unreadable[reason] += count
            if not rows:
                continue
            yield [self._column(rows, read, place) for place in places], read.count(False)

    def _is_row(self, line: str) -> bool:
        if line == _ILL:
            return False
        if len(line) < self._width:
            self.unreadable["fewer"] += 1
            return False
        if len(line) > self._width and line[self._width :].strip(" "):
            self.unreadable["more"] += 1
            return False
        return True

    def _column(self, rows: Sequence[str], read: Sequence[bool], place: int) -> pa.Array:
        first, last = self._places[place]
        cells = [line[first:last] if good else None for line, good in zip(rows, read, strict=True)]
        return pa.array(cells, pa.string())


def _lines(block: bytes) -> list[str]:
    # Only a line that was replaced holds a byte that is not UTF-8.
    return block.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
