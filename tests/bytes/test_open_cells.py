"""The contract of reading for columns that nobody described: their codes and their texts follow from their own line."""

from __future__ import annotations

import io
from json import loads

import numpy as np
import pytest
from choosing import few
from mutations import FORMATS, LIMITS, LONGEST, TALLY, changed_lines, codes_of

from synth.reading import text as reader_text
from synth.reading.more import texts
from synth.reading.more.texts import answer_with_texts
from synth.reading.process import serve
from synth.reading.request import Request
from synth.schema import FindColumn, ModelledColumn, Schema, TableFormat
from synth.system.conversation import read_frame

MUTATIONS, MORE_MUTATIONS, AUDITED = 20, 60, 500


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_text, "LONGEST_LINE", LONGEST)


def opened(schema: Schema) -> Schema:
    """The same table with its modelled columns open."""
    columns = tuple(FindColumn(one.name) if isinstance(one, ModelledColumn) else one for one in schema)
    return Schema(columns, schema.unit, schema.row_count)


def texts_of_lines(data: bytes, form: TableFormat, schema: Schema) -> list[tuple[bytes | None, ...]]:
    """Return for every row the text of each open column, None where its cell is no value."""
    answers = io.BytesIO()
    serve(Request(form, LIMITS, columns=schema.columns), io.BytesIO(data), answers, answer_with_texts)
    answers.seek(0)
    rows: list[tuple[bytes | None, ...]] = []
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            return []
        if kind == b"Z":
            assert loads(body)["rows"] == len(rows)
            return rows
        here, place = int.from_bytes(body[:8], "little"), 8
        columns = []
        for _ in schema.modelled:
            count = int.from_bytes(body[place : place + 4], "little")
            lengths = np.frombuffer(body, "<u4", count, place + 4).tolist()
            place += 4 + 4 * count
            held: list[bytes | None] = []
            for length in lengths:
                held.append(body[place : place + length])
                place += length
            index = np.frombuffer(body, "<u4", here, place)
            place += index.nbytes
            columns.append([[*held, None][one] for one in index.tolist()])
        assert place == len(body)
        rows += zip(*columns, strict=True)


def outcomes(data: bytes, form: TableFormat, schema: Schema) -> list[tuple[object, ...]]:
    """Return what each row adds to a finding: its codes, whose it is, and its texts."""
    codes, of_texts = codes_of(data, form, opened(schema)), texts_of_lines(data, form, opened(schema))
    return [(*one, *other) for one, other in zip(codes, of_texts, strict=True)]


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "mutations",
    [
        MUTATIONS,
        pytest.param(MORE_MUTATIONS, marks=pytest.mark.thorough),
        pytest.param(AUDITED, marks=pytest.mark.audit),
    ],
)
# A third of the formats, and not the third of which test_lines.py alters lines.
@pytest.mark.parametrize("name", few(FORMATS, kept=list(FORMATS)[1::3]))
def test_no_mutation_of_one_line_changes_what_another_adds(name: str, mutations: int) -> None:
    found = changed_lines(FORMATS[name], mutations, seed=mutations - 37, read=outcomes)
    TALLY[f"open columns, {name}, {mutations}"] = (mutations, len(found))
    assert not found


def test_a_text_that_depends_on_the_lines_beside_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = texts.values_of_cells

    def beside(cells: object, **named: object) -> object:
        found, index = right(cells, **named)
        # A value that stands there once is taken for a slip of the pen.
        once = np.bincount(index, minlength=len(found)) == 1
        return [None if alone else text for text, alone in zip(found, once, strict=True)], index

    monkeypatch.setattr(texts, "values_of_cells", beside)
    assert changed_lines(FORMATS["csv"], MUTATIONS, seed=23, read=outcomes)
