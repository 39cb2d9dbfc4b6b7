"""The confined process that recognises a file: its bytes go in, proposals come out.

It reads the file as a run does, in a process with limits on memory and time. Without a look nothing after the first
line is examined.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from json import dumps
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.reading.files import Batches, Counted, open_batches, open_bytes
from synth.reading.process import work_confined
from synth.reading.request import STARTS, Request
from synth.schema import ENCODINGS, TYPED_KINDS, TableFormat, format_to_mapping
from synth.schema.encoding import texts_of
from synth.schema.header import check_names
from synth.services.recognition.columns import LEAST_ROWS, LEAST_SHARE, MOST_TEXTS, Tally, Writing, proposal_of
from synth.services.recognition.encodings import encoding_of
from synth.services.recognition.layout import layout_of, layout_of_header
from synth.services.recognition.notations import (
    MISSING_WORDS,
    NEVER_WORDS,
    dates_in,
    kind_of_cell,
    numbers_in,
    times_in,
    words_for_pattern,
)
from synth.services.recognition.proposals import ColumnProposal, FormatProposal
from synth.system.conversation import AskedRanges, write_frame

__all__ = ["answer_with_proposals"]

SAMPLE_BYTES = 4 * 2**20
"""Bytes at the beginning of a text that its layout and encoding are found in."""

SAMPLE_ROWS = 10_000
"""Rows at the top of a table in which notations are found; ranges and values are those of all rows."""

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
    else:
        source = open_bytes(questions, request.limits, first_is_row=not form.header and form.kind not in TYPED_KINDS)
        ranges = None
        if source.peek(4)[:4] not in STARTS and form.kind not in TYPED_KINDS:
            proposals = _of_text(source, form, look=look)
            form = _adopted(form, proposals)
    body: dict[str, Any] = {"columns": [], "rows": 0, "lines": [0, 0]}
    if look:
        batches = open_batches(source, form, request.limits, ranges=ranges)
        check_names(batches.names)
        table = _Table(batches, form, alone=alone)
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
    if look:
        layout = layout_of(text, form, whole=whole)
        marked = _codec_of(data, form) == "utf-16" and any(one.key == "header" for one in layout)
        # The mark at the beginning says nothing where the first line is a row.
        said = [FormatProposal("encoding", "utf-16", "the file begins with a mark of UTF-16")] if marked else []
        return [*proposals, *said, *layout]
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
    """The rows of an opened table: how their cells are written, and what the columns are."""

    def __init__(self, batches: Batches, form: TableFormat, *, alone: bool) -> None:
        self._batches, self._names = batches, batches.names
        every = _texts_of_batches(batches, form)
        first: list[list[pa.Array]] = []
        rows = 0
        for columns in every:
            first.append(columns)
            rows += len(columns[0])
            if rows >= SAMPLE_ROWS:
                break
        samples = [_sample([columns[place] for columns in first]) for place in range(len(self._names))]
        self.proposals, self.form, self._writings, kept = _notations(self._names, samples, form, alone=alone)
        tallies = [Tally(max(1_000, MOST_TEXTS // len(self._names))) for _ in self._names]
        for columns in chain(first, every):
            for place, (tally, texts) in enumerate(zip(tallies, columns, strict=True)):
                missing = [word for word in self.form.missing if word not in kept[place]]
                tally.add(texts, _is_missing(texts, missing), self._writings[place])
        self._tallies = tallies

    def body(self) -> dict[str, Any]:
        """Return what is sent about rows and columns."""
        parts = zip(self._names, self._tallies, self._writings, strict=True)
        columns = [proposal_of(name, tally, writing, self.form) for name, tally, writing in parts]
        return {
            "columns": list(map(_column_written, columns)),
            "rows": self._tallies[0].rows if self._tallies else 0,
            "lines": list(self._batches.odd_lines),
        }


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
    texts = pc.fill_null(texts_of(cells).cast(pa.string()), "")
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


def _notations(
    names: Sequence[str], samples: Sequence[Counter[str]], form: TableFormat, *, alone: bool
) -> tuple[list[FormatProposal], TableFormat, list[Writing], list[frozenset[str]]]:
    """Return proposals about cells, the format with them, how each column is written, and which words it keeps."""
    missing = _Missing(form)
    present = [missing.without(sample) for sample in samples]
    writings = [_writing(counts, form) for counts in present]
    kept = [missing.kept(sample, writing) for sample, writing in zip(samples, writings, strict=True)]
    proposals = missing.proposals(samples, writings, kept)
    proposals += [] if alone else _number_signs(writings, present, form)
    writings = _settled(names, writings, proposals, form)
    proposals += [] if alone else _date_patterns(writings, present, form)
    return proposals, _adopted(form, proposals), writings, kept


class _Missing:
    """Which texts mean a missing cell."""

    def __init__(self, form: TableFormat) -> None:
        self._declared = form.missing

    def without(self, sample: Mapping[str, int]) -> Counter[str]:
        """Return the texts that may say something, where the column is numbers or dates; else all but empty ones."""
        return Counter(
            {text: count for text, count in sample.items() if text not in MISSING_WORDS and text not in self._declared}
        )

    def kept(self, sample: Mapping[str, int], writing: Writing) -> frozenset[str]:
        """Return words that are values of a column of words: a country NA among other countries, and None."""
        if writing != Writing():
            return frozenset()
        countries = sum(len(text) == 2 and text.isascii() and text.isupper() for text in sample)
        kept = {word for word in MISSING_WORDS if word and word not in NEVER_WORDS}
        return frozenset(kept | ({"NA"} if countries > _COUNTRIES else set()))

    def proposals(
        self, samples: Sequence[Mapping[str, int]], writings: Sequence[Writing], kept: Sequence[frozenset[str]]
    ) -> list[FormatProposal]:
        """Return the proposal of codes for missing cells; empty where none was found."""
        found: Counter[str] = Counter()
        for sample, writing, values in zip(samples, writings, kept, strict=True):
            words = MISSING_WORDS if writing != Writing() else NEVER_WORDS
            known = [text for text in words if text and text not in values]
            found.update({text: sample[text] for text in (*known, *writing.nothing) if sample.get(text)})
        fresh = [word for word, _ in found.most_common() if word not in self._declared]
        if not fresh or self._declared != TableFormat().missing:
            return []
        counts = ", ".join(f"'{word}' in {found[word]:,} cells" for word in fresh)
        return [FormatProposal("missing", (*self._declared, *fresh), f"{counts} of the first rows")]


_COUNTRIES = 5
"""Other texts of two capitals from which on NA is taken for a country."""


def _writing(counts: Counter[str], form: TableFormat) -> Writing:
    """Return how one column is written, without words that stand for nothing among numbers or dates."""
    writing = _plain_writing(counts, form)
    strangers = _strangers(counts) if writing == Writing() else ()
    if not strangers:
        return writing
    others = Counter({text: count for text, count in counts.items() if text not in strangers})
    without = _plain_writing(others, form)
    return writing if without == Writing() else replace(without, nothing=strangers)


def _strangers(counts: Counter[str]) -> tuple[str, ...]:
    """Return up to three words that many cells hold in a column whose other cells are mostly something else."""
    whole = sum(counts.values())
    least = max(LEAST_ROWS, LEAST_SHARE * whole)
    words = tuple(text for text, count in counts.most_common(10) if count >= least and kind_of_cell(text) == "text")
    held = sum(counts[word] for word in words)
    return words if 1 <= len(words) <= 3 and held < whole / 2 and len(counts) >= 10 else ()


def _plain_writing(counts: Counter[str], form: TableFormat) -> Writing:
    time = times_in(counts)
    if time is not None:
        return Writing(time=time[0])
    number = numbers_in(counts)
    if number is not None and not all(len(text) == 8 and text.isdigit() for text in counts):
        return Writing(number=number)
    date = dates_in(counts, form.dates)
    if date is not None:
        return Writing(date=date)
    return Writing(number=number)


def _number_signs(
    writings: Sequence[Writing], present: Sequence[Counter[str]], form: TableFormat
) -> list[FormatProposal]:
    """Return the signs of most numbers of the table; open where no column settles them."""
    cells: Counter[tuple[str, str]] = Counter()
    columns: Counter[tuple[str, str]] = Counter()
    opened = 0
    for writing, counts in zip(writings, present, strict=True):
        number = writing.number
        if number is None:
            continue
        opened += bool(number.open)
        for key, sign in (("decimal", number.decimal), ("thousands", number.thousands)):
            if sign is not None:
                cells[key, sign] += sum(count for text, count in counts.items() if sign in text or sign in "' ")
                columns[key, sign] += 1
    proposals = []
    point = _most_of(columns, "decimal")
    group = _most_of(columns, "thousands")
    if form.decimal is None and point is not None and point != ".":
        proposals.append(_sign_proposal("decimal", point, cells, columns, "before decimals"))
    taken = form.decimal or point or "."
    if form.thousands is None and group is not None and group != taken:
        proposals.append(_sign_proposal("thousands", group, cells, columns, "between thousands"))
    if (
        opened
        and form.decimal is None
        and point is None
        and form.thousands is None
        and group is None
        and _is_open(writings, form)
    ):
        of = "1 column has" if opened == 1 else f"{opened} columns have"
        why = f"{of} numbers whose only sign stands before three digits"
        proposals.append(FormatProposal("decimal", None, why, (".", ",")))
    return proposals


def _is_open(writings: Sequence[Writing], form: TableFormat) -> bool:
    """Whether a sign before three digits may be either; where commas separate cells, a point is before decimals."""
    signs = {one.number.open for one in writings if one.number is not None and one.number.open}
    return signs != {"."} or form.separator == ";"


def _most_of(columns: Counter[tuple[str, str]], key: str) -> str | None:
    found = [(count, sign) for (one, sign), count in columns.items() if one == key]
    return max(found)[1] if found else None


def _sign_proposal(
    key: str, sign: str, cells: Counter[tuple[str, str]], columns: Counter[tuple[str, str]], where: str
) -> FormatProposal:
    held, of = cells[key, sign], columns[key, sign]
    return FormatProposal(
        key, sign, f"{held:,} cells of {of:,} {'column' if of == 1 else 'columns'} have '{sign}' {where}"
    )


def _settled(
    names: Sequence[str], writings: Sequence[Writing], proposals: Sequence[FormatProposal], form: TableFormat
) -> list[Writing]:
    """Return how columns are written, with what one leaves open settled by the others."""
    said = {one.key: one.value for one in proposals if not one.choices}
    decimals = {one.number.decimal for one in writings if one.number is not None and one.number.decimal is not None}
    asked = any(one.key == "decimal" and one.choices for one in proposals)
    point = (
        said.get("decimal")
        or form.decimal
        or next(iter(decimals), None)
        or ("," if "thousands" in said and said["thousands"] == "." else ".")
    )
    orders = {
        order: name
        for name, one in zip(names, writings, strict=True)
        if one.date is not None and not one.date.is_open
        for order in one.date.ways
    }
    settled = []
    for writing in writings:
        number, date = writing.number, writing.date
        if number is not None and number.open and not asked:
            writing = replace(writing, number=number.settled(point))
        elif date is not None and date.is_open:
            known = [order for order in date.ways if order in orders]
            if len(known) == 1:
                writing = replace(
                    writing, date=replace(date, ways={known[0]: date.ways[known[0]]}), like=orders[known[0]]
                )
        settled.append(writing)
    return settled


def _date_patterns(
    writings: Sequence[Writing], present: Sequence[Counter[str]], form: TableFormat
) -> list[FormatProposal]:
    """Return the patterns of the dates of a table, and the choices where day and month are open."""
    dates = [
        (one.date, sum(counts.values())) for one, counts in zip(writings, present, strict=True) if one.date is not None
    ]
    settled = [
        (date, cells) for date, cells in dates if not date.is_open and date.patterns and date.patterns != ("%Y-%m",)
    ]
    proposals = []
    chosen: list[str] = list(form.dates)
    evidence = []
    for date, cells in settled:
        if set(date.ways) & {"declared"} or _clash(date.patterns, chosen):
            continue
        chosen += [pattern for pattern in date.patterns if pattern not in chosen]
        words = " or ".join(map(words_for_pattern, date.patterns))
        evidence.append(f"{date.read:,} of {cells:,} cells read as {words}")
    if evidence and not form.dates:
        proposals.append(FormatProposal("dates", tuple(chosen), "; ".join(dict.fromkeys(evidence))))
    opened = [date for date, _ in dates if date.is_open]
    if opened:
        orders = [order for order in opened[0].ways if all(order in date.ways for date in opened)]
        choices = tuple(
            tuple(dict.fromkeys([*chosen, *chain.from_iterable(date.ways[order] for date in opened)]))
            for order in orders
        )
        why = f"dates such as {_example(opened[0])} do not show which of {' and '.join(orders)} it is"
        proposals = [one for one in proposals if one.key != "dates"]
        proposals.append(FormatProposal("dates", None, why, choices))
    return proposals


def _example(date: Any) -> str:
    return (
        words_for_pattern(date.patterns[0])
        .replace("dd", "03")
        .replace("mm", "04")
        .replace("yyyy", "2021")
        .replace("yy", "21")
    )


def _clash(patterns: Sequence[str], chosen: Sequence[str]) -> bool:
    """Whether a pattern would read cells of another one: the same signs in another order."""
    return any(sorted(one) == sorted(other) and one != other for one in patterns for other in chosen)


if __name__ == "__main__":
    raise SystemExit(
        work_confined(partial(answer_with_proposals, look=LOOK in sys.argv[1:], alone=ALONE in sys.argv[1:]))
    )
