"""The contract of reading: the codes of line i are a function of line i and of what is declared."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from mutations import (
    FORMATS,
    LONGEST,
    PARQUET_SCHEMA,
    SCHEMA,
    TALLY,
    changed_lines,
    codes_of,
    honest_cells,
    hostile_line,
    of_lines,
    parquet_cells,
    parquet_file,
)

from synth.reading import text as reader_text
from synth.schema import TableFormat

MUTATIONS, MORE_MUTATIONS, AUDITED = 80, 300, 2_000
LINES, MORE_LINES, AUDITED_LINES = 30, 100, 300

SOME_FORMATS = [
    name if place % 3 == 0 else pytest.param(name, marks=pytest.mark.thorough) for place, name in enumerate(FORMATS)
]
"""Of which the default command alters lines: a third of them."""

COMPARED = [
    pytest.param(name, marks=pytest.mark.thorough)
    if name
    in {
        *("semicolons", "tabs", "no header", "cp1252", "utf-16, big end"),
        *("latin-1", "utf-16 without header", "fixed positions, utf-16"),
    }
    else name
    for name in FORMATS
]
"""Of which the default command compares lines alone and among others.

Here all but five whose lines ``test_planted_bugs`` compares and alters where nothing is planted, and three that are two
others at once: a codec of one byte beside cp1252, and UTF-16 without its mark, with a header or without one.
"""

TRIED = [
    MUTATIONS,
    pytest.param(MORE_MUTATIONS, marks=pytest.mark.thorough),
    pytest.param(AUDITED, marks=pytest.mark.audit),
]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_text, "LONGEST_LINE", LONGEST)


@pytest.mark.parametrize("tried", TRIED)
@pytest.mark.parametrize("name", SOME_FORMATS)
def test_no_mutation_of_one_line_changes_another(name: str, tried: int) -> None:
    found = changed_lines(FORMATS[name], tried, seed=11)
    TALLY[f"{name}, {tried}"] = (tried, len(found))
    assert not found, f"{len(found)} of {tried} mutations changed another line: {found[:5]}"


@pytest.mark.parametrize(
    "number",
    [
        LINES,
        pytest.param(MORE_LINES, marks=pytest.mark.thorough),
        pytest.param(AUDITED_LINES, marks=pytest.mark.audit),
    ],
)
@pytest.mark.parametrize("name", COMPARED)
def test_a_line_becomes_the_same_alone_and_among_others(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, random_ = FORMATS[name], random.Random(5)
    lines = [hostile_line(random_, kind) for _ in range(number)]
    became_of = of_lines(kind, lines, codes_of)
    assert None in became_of or kind.schema is not SCHEMA or kind.form.kind in {"xlsx", "ods"}, "a blank line is there"
    for line, became in zip(lines, became_of, strict=True):
        assert codes_of(kind.file([line]), kind.form, kind.schema) == ([] if became is None else [became])
    # Wherever the file is cut into pieces, and whether or not its last line has an end. By single bytes, which takes
    # longer than all else here, few of them but in the audit.
    for piece, first in ((1, number if number == AUDITED_LINES else number // 4), (7, number), (4_096, number)):
        monkeypatch.setattr(reader_text, "CHUNK", piece)
        assert of_lines(kind, lines[:first], codes_of) == became_of[:first]
    end = "\n".encode(kind.encoding)
    assert of_lines(kind, [*lines[:-1], lines[-1].removesuffix(end)], codes_of) == became_of


def test_rows_with_line_breaks_change_no_other_while_every_mark_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(8)
    kind = replace(FORMATS["every cell quoted"], form=TableFormat(newlines=True))

    def a_row() -> bytes:
        cells = honest_cells(random_)
        cells[2] = random_.choice(
            ["Ayr", "Bath, Avon", "a\nb", '"\n"', "\r\n\n", "x" * (LONGEST + 1), "\n" * 40, "é\nü"]
        )
        # Cells too many or too few, and a byte that is no text, spoil their own row and leave no mark open.
        return kind.line(cells[: random_.choice([2, 5, 5, 5])]).replace("ü".encode(), random_.choice([b"\xff", b"u"]))

    rows = [a_row() for _ in range(200)]
    together = codes_of(kind.file(rows), kind.form, kind.schema)
    assert together == [codes_of(kind.file([row]), kind.form, kind.schema)[0] for row in rows]
    for piece, first in ((1, 50), (7, 200), (4_096, 200)):  # by single bytes few, as everywhere here
        monkeypatch.setattr(reader_text, "CHUNK", piece)
        assert codes_of(kind.file(rows[:first]), kind.form, kind.schema) == together[:first]


PARQUET_KINDS = [
    *((pa.timestamp(unit), True, 3) for unit in ("ms", "us", "ns")),
    (pa.timestamp("us", "UTC"), False, 100),
    (pa.timestamp("us", "Pacific/Auckland"), True, 1),
]


@pytest.mark.parametrize("tried", TRIED)
@pytest.mark.parametrize(("seen", "dictionary", "group"), PARQUET_KINDS, ids=str)
def test_no_row_of_a_parquet_file_changes_another(seen: pa.DataType, dictionary: bool, group: int, tried: int) -> None:
    random_ = random.Random(3)
    how = {"seen": seen, "dictionary": dictionary, "group": group}
    rows = [parquet_cells(random_) for _ in range(8)]

    def became(of: list[dict[str, object]]) -> list[tuple[int, ...]]:
        found = codes_of(parquet_file(of, **how), TableFormat(), PARQUET_SCHEMA)
        assert len(found) == len(of), "a row is a row"
        return found

    before = became(rows)
    changed = 0
    for _ in range(tried // len(PARQUET_KINDS)):
        place = random_.randrange(len(rows) + 1)
        other = parquet_cells(random_)
        after = became([*rows[:place], other, *rows[place:]])
        changed += [*after[:place], *after[place + 1 :]] != before
        assert became([other]) == [after[place]]
    TALLY[f"Parquet, {seen}, {tried}"] = (tried // len(PARQUET_KINDS), changed)
    assert not changed
