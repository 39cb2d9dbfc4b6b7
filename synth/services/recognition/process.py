"""The confined process that recognises a file: its bytes go in, proposals come out.

It reads the file as a run does, in a process with limits on memory and time. Without a look nothing after the first
line is examined.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from json import dumps
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.reading.files import Batches, Counted, open_batches, open_bytes
from synth.reading.more.workbooks import kind_of_workbook, top_of_sheet
from synth.reading.process import work_confined
from synth.reading.request import START_BYTES, Request, kind_of_start
from synth.reading.text import TextTable
from synth.schema import ENCODINGS, TYPED_KINDS, DurationUnit, NumberColumn, TableFormat, format_to_mapping
from synth.schema.encoding import composed_texts, texts_of
from synth.schema.header import check_names
from synth.schema.schema import MERGE
from synth.services.recognition.agreement import agreement_of
from synth.services.recognition.columns import MOST_TEXTS, Tally, proposal_of
from synth.services.recognition.encodings import encoding_of
from synth.services.recognition.layout import layout_of, layout_of_header, layout_of_sheet
from synth.services.recognition.proposals import ColumnProposal, FormatProposal
from synth.services.recognition.together import together_of
from synth.system.conversation import AskedRanges, write_frame

__all__ = ["answer_with_proposals"]

SAMPLE_BYTES = 4 * 2**20
"""Bytes at the beginning of a text that its layout and encoding are found in."""

TOP_ROWS = 500
"""Rows at the top of a workbook's sheet that its layout is found in."""

SAMPLE_ROWS = 10_000
"""Rows at the top of a table in which notations are found; ranges and values are those of all rows."""

_LEFT_ONLY, _RIGHT_ONLY = MERGE.values[1:]

LOOK, ALONE = "look", "alone"
"""Arguments: to look at rows, and to propose notations for each column alone."""


def answer_with_proposals(
    request: Request, questions: BinaryIO, answers: BinaryIO, *, look: bool, alone: bool = False
) -> None:
    """Read a file, and send what its format and its columns seem to be.

    Raises
    ------
    TableError
        If a look is wanted and the file cannot be read as a table even as it is proposed.
    """
    form, proposals = request.format, []
    if request.size is not None:
        asked = AskedRanges(questions, answers, request.size)
        source: Any = asked
        ranges = asked
        if look and kind_of_start(asked.read(START_BYTES)) in {"workbook", "xls"}:
            top = list(top_of_sheet(asked, form, request.limits, most=TOP_ROWS))
            proposals = list(layout_of_sheet(top, form, kind=kind_of_workbook(asked, request.limits)))
            form = _adopted(form, proposals)
        asked.seek(0)
    else:
        source = open_bytes(questions, request.limits, first_is_row=not form.header and form.kind not in TYPED_KINDS)
        ranges = None
        if kind_of_start(source.peek(START_BYTES)) == "text" and form.kind not in TYPED_KINDS:
            proposals = _of_text(source, form, look=look)
            form = _adopted(form, proposals)
    body: dict[str, Any] = {"columns": [], "rows": 0, "lines": [0, {}], "described": [], "together": []}
    if look:
        batches = open_batches(source, form, request.limits, ranges=ranges)
        check_names(batches.names)
        table = _Table(batches, form, alone=alone, of_first=request.of_first)
        proposals += table.proposals
        form = table.form
        body = table.body()
    write_frame(
        answers, b"Z", dumps({**body, "form": _said(form), "proposals": list(map(_written, proposals))}).encode()
    )


def _written(proposal: FormatProposal) -> dict[str, Any]:
    return {
        "key": proposal.key,
        "value": proposal.value,
        "evidence": proposal.evidence,
        "choices": list(proposal.choices),
    }


def _said(form: TableFormat) -> dict[str, Any]:
    return format_to_mapping(form)


def _adopted(form: TableFormat, proposals: Sequence[FormatProposal]) -> TableFormat:
    chosen = {one.key: one.value for one in proposals if not one.choices}
    return replace(form, **chosen) if chosen else form


# The text -------------------------------------------------------------------------------------------------------------


def _of_text(source: Counted, form: TableFormat, *, look: bool) -> list[FormatProposal]:
    """Return proposals about the encoding and the layout of a text; without a look from its first line alone."""
    data = source.peek(SAMPLE_BYTES) if look else _first_line(source)
    whole = len(data) < SAMPLE_BYTES
    if not whole:
        data = data[: data.rfind(b"\n") + 1] or data
    if not look and not form.header:
        return []  # the first line is a row
    proposals = []
    encoding = encoding_of(data) if form.encoding == TableFormat().encoding else None
    if encoding is not None:
        label = ENCODINGS.get(encoding, "UTF-16")
        which = "the bytes beyond ASCII" if look else "the bytes of the first line"
        proposals.append(FormatProposal("encoding", encoding, f"{which} are not UTF-8, and read as {label}"))
    text = data.decode(encoding or _codec_of(data, form), "replace")
    if look and not form.fields:
        layout = layout_of(text, form, whole=whole)
        marked = _codec_of(data, form) == "utf-16" and any(one.key == "header" for one in layout)
        # The mark at the beginning says nothing where the first line is a row.
        said = [FormatProposal("encoding", "utf-16", "the file begins with a mark of UTF-16")] if marked else []
        return [*proposals, *said, *layout]
    if form.fields:
        return proposals
    return [*proposals, *layout_of_header(text.removeprefix("\ufeff").rstrip("\r\n"), form)]


def _first_line(source: Counted) -> bytes:
    data = source.peek(2**16)
    end = data.find(b"\n")
    # The line feed of UTF-16 has a second byte.
    return data if end < 0 else data[: end + 1 + (data[end + 1 : end + 2] == b"\0")]


def _codec_of(data: bytes, form: TableFormat) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return {"utf-8-sig": "utf-8", "": "utf-8"}.get(form.codec, form.codec)


# The cells ------------------------------------------------------------------------------------------------------------


class _Table:
    """The rows of an opened table: how their cells are written, and what the columns are.

    With ``of_first`` it is one that two were joined into, of which these are the columns of the first.
    """

    def __init__(
        self, batches: Batches, form: TableFormat, *, alone: bool, of_first: Sequence[str] | None = None
    ) -> None:
        self._batches, self._names = batches, batches.names
        self._merge = None if of_first is None else self._names.index(MERGE.name)
        self._absent_in = [_RIGHT_ONLY if name in (of_first or ()) else _LEFT_ONLY for name in self._names]
        every = _texts_of_batches(batches, form)
        first: list[list[pa.Array]] = []
        rows = 0
        for columns in every:
            first.append(columns)
            rows += len(columns[0])
            if rows >= SAMPLE_ROWS:
                break
        samples = [_sample([columns[place] for columns in first]) for place in range(len(self._names))]
        commas = batches.text is None or (isinstance(batches.text, TextTable) and batches.text.separator == ",")
        found = agreement_of(self._names, samples, form, alone=alone, commas=commas)
        self.proposals, self._writings, kept = found.proposals, found.writings, found.kept
        self.form = _adopted(form, found.proposals)
        tallies = [Tally(max(1_000, MOST_TEXTS // len(self._names))) for _ in self._names]
        for columns in chain(first, every):
            for place, (tally, texts) in enumerate(zip(tallies, self._with_cells(columns), strict=True)):
                missing = [word for word in self.form.missing if word not in kept[place]]
                tally.add(texts, _is_missing(texts, missing), self._writings[place])
        self._tallies = tallies
        self._first = [
            pa.chunked_array([columns[place] for columns in first], pa.string()).slice(0, SAMPLE_ROWS)
            for place in range(len(self._names))
        ]

    def _with_cells(self, columns: list[pa.Array]) -> Iterator[pa.Array]:
        """Yield the texts of each column, of two joined tables without rows that have no cell of it."""
        for place, texts in enumerate(columns):
            if self._merge is None or self._is_of_both(place):
                yield texts
            else:
                yield texts.filter(pc.not_equal(columns[self._merge], self._absent_in[place]))

    def _is_of_both(self, place: int) -> bool:
        """Whether every row of two joined tables has a cell of a column: the key, which is the first, and the merge."""
        return place in (0, self._merge)

    def body(self) -> dict[str, Any]:
        """Return what is sent about rows and columns."""
        types = self._batches.types or [None] * len(self._names)
        parts = zip(self._names, self._tallies, self._writings, types, strict=True)
        columns = [
            _with_unit(proposal_of(name, tally, writing, self.form), kind)
            for place, (name, tally, writing, kind) in enumerate(parts)
            if place != self._merge
        ]
        first = [cells for place, cells in enumerate(self._first) if place != self._merge]
        return {
            "columns": list(map(_column_written, columns)),
            "rows": self._tallies[0].rows if self._tallies else 0,
            "lines": list(self._batches.odd_lines),
            "described": [one.to_list() for one in self._batches.described],
            "together": [asdict(one) for one in together_of(columns, first, self.form)],
        }


def _with_unit(column: ColumnProposal, kind: pa.DataType | None) -> ColumnProposal:
    """Return a proposal that says in what durations count, which have been read in seconds."""
    if kind is None or not pa.types.is_duration(kind) or column.body.get("type") != NumberColumn.kind:
        return column
    return replace(column, body={**column.body, "duration": str(DurationUnit.SECONDS)})


def _column_written(column: ColumnProposal) -> dict[str, Any]:
    return {
        "name": column.name,
        "body": column.body,
        "evidence": column.evidence,
        "rarer": column.rarer,
        "note": column.note,
        "choices": list(column.choices),
        "rows_per_value": column.rows_per_value,
    }


def _texts_of_batches(batches: Batches, form: TableFormat) -> Iterator[list[pa.Array]]:
    """Yield the cells of every batch as texts without white space around them."""
    for batch in batches.read(range(len(batches.names))):
        yield [_texts(cells, strip=form.strip) for cells in batch.columns]


def _texts(cells: pa.Array, *, strip: bool) -> pa.Array:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    texts = composed_texts(pc.fill_null(texts_of(cells).cast(pa.string()), ""))
    return pc.utf8_trim_whitespace(texts) if strip else texts


def _is_missing(texts: pa.Array, words: Sequence[str]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(texts, value_set=pa.array(["", *words], pa.string())).to_numpy(
        zero_copy_only=False
    )
    return found


def _sample(pieces: Sequence[pa.Array]) -> Counter[str]:
    """Return how many of the first cells hold each text."""
    texts = pa.chunked_array(pieces, pa.string()).slice(0, SAMPLE_ROWS)
    counted = (
        texts.combine_chunks().value_counts()
        if len(texts)
        else pa.array([], pa.struct([("values", pa.string()), ("counts", pa.int64())]))
    )
    return Counter(dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True)))


if __name__ == "__main__":
    raise SystemExit(
        work_confined(partial(answer_with_proposals, look=LOOK in sys.argv[1:], alone=ALONE in sys.argv[1:]))
    )
