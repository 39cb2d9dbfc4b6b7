"""Before a charge a table is read once: every habit of writing one is read right, or told before anything is spent."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from synth.errors import TableError
from synth.reading.reader import read_codes
from synth.reports.losses import Losses, losses_of
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    FindColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    TableFormat,
    TimeColumn,
    YesNoColumn,
)
from synth.schema.columns.base import CellCounts, ReadingCounts
from synth.services.first_reading import read_once
from synth.services.inspection import NO_HEADER, inspect_header

AGE = NumberColumn("age", 0, 120, 1, missing=True)
PAY = NumberColumn("pay", 0, 9_000, 0.01, missing=True)
OK = YesNoColumn("ok", "True", "False", missing=True)
SEEN = DateColumn("seen", datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), missing=True)
TOWN = CategoryColumn("town", ("Ayr", "Bath"), missing=True)
SCHEMA = Schema((AGE, PAY, OK, SEEN, TOWN))
NAMES = "age,pay,ok,seen,town"
ROWS = 60


def row(place: int) -> list[str]:
    truth, town = ("True", "False")[place % 2], ("Ayr", "Bath")[place % 2]
    return [str(20 + place % 60), f"{1_001 + 77 * place}.5", truth, f"2024-{1 + place % 12:02d}-{13 + place % 9}", town]


def written(change: Callable[[list[str]], Sequence[str]] = list, names: str = NAMES, separator: str = ",") -> bytes:
    """Write a table in which every row was changed."""
    return "".join(f"{line}\n" for line in [names, *(separator.join(change(row(one))) for one in range(ROWS))]).encode()


def lost(data: bytes, schema: Schema = SCHEMA, **form: object) -> Losses:
    return read_once(io.BytesIO(data), TableFormat(**form), schema)  # type: ignore[arg-type]


def cell(place: int, change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda cells: [change(one) if here == place else one for here, one in enumerate(cells)]


def german(text: str) -> str:
    return f'"{float(text):,.2f}"'.translate(str.maketrans(",.", ".,"))


def american(text: str) -> str:
    return datetime.date.fromisoformat(text).strftime("%m/%d/%Y")


READ_RIGHT: dict[str, tuple[bytes, dict[str, object]]] = {
    "as declared": (written(), {}),
    "TRUE and false": (written(cell(2, lambda text: {"True": "TRUE", "False": "false"}[text])), {}),
    "T and F of R": (written(cell(2, lambda text: text[0])), {}),
    "1 and 0": (written(cell(2, lambda text: str(int(text == "True")))), {}),
    "Yes and no": (written(cell(2, lambda text: {"True": "Yes", "False": "no"}[text])), {}),
    "Y and n": (written(cell(2, lambda text: {"True": "Y", "False": "n"}[text])), {}),
    "blank lines everywhere": (written().replace(b"\n", b"\n\n"), {}),
    "blank lines of Windows, and of spaces": (written().replace(b"\n", b"\r\n \t\r\n"), {}),
    "the separator in a line of Excel": (b"sep=;\r\n" + written().replace(b",", b";"), {}),
    "the same in quotation marks, in capitals": (b'"SEP=;"\n' + written().replace(b",", b";"), {}),
    "a separator of Excel that no header would show": (b"sep=|\n" + written().replace(b",", b"|"), {}),
    "the same, with a byte-order mark": (b"\xef\xbb\xbfsep=;\n" + written().replace(b",", b";"), {}),
    "the same, where the separator is declared": (b"sep=,\n" + written(), {"separator": ","}),
    "the same, passed over by the owner": (b"sep=;\n" + written(), {"skip_rows": 1}),
    "line breaks in cells, declared": (written(cell(4, lambda text: f'"{text}\n"')), {"newlines": True}),
    "an index of pandas without a name is left out": (
        written(lambda cells: ["7", *cells], f"__index_level_0__,{NAMES}"),
        {},
    ),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", READ_RIGHT)
def test_read_right(name: str) -> None:
    data, form = READ_RIGHT[name]
    found = lost(data, **form)
    assert found == Losses()
    right = read_codes(lambda: io.BytesIO(written()), TableFormat(), SCHEMA)
    codes = read_codes(lambda: io.BytesIO(data), TableFormat(**form), SCHEMA)  # type: ignore[arg-type]
    assert {column: one.tolist() for column, one in codes._codes.items()} == {
        column: one.tolist() for column, one in right._codes.items()
    }


TOLD: dict[str, tuple[bytes, dict[str, object], str]] = {
    "row names of R": (
        written(lambda cells: ["r", *cells]),
        {},
        "100 % of the lines cannot be split into the declared columns, and all of their cells are lost: 100 % have one "
        "cell more than there are names.",
    ),
    "two cells more": (written(lambda cells: [*cells, "", ""]), {}, "100 % have more cells than there are names."),
    "a line feed within quotation marks": (
        written(cell(4, lambda text: f'"{text}\nby the sea"')),
        {},
        "50 % have fewer cells than there are names, 50 % have a quotation mark out of place. Check the separator; if "
        "cells in quotation marks hold line breaks, add --format newlines=true.",
    ),
    "another separator": (written().replace(b",", b";").replace(b";", b",", 4), {}, "100 % have fewer cells than"),
    "another encoding": (
        written(cell(4, lambda text: f"{text}é")).decode().encode("latin-1"),
        {},
        "100 % are not in the declared encoding. Name the encoding of the file, for example --format encoding=cp1252.",
    ),
    "American dates": (
        written(cell(3, american)),
        {},
        "'seen': 100 % of the cells cannot be read as a date. Most are read with --format dates=%m/%d/%Y.",
    ),
    "dates with a time, as Germans write them": (
        written(cell(3, lambda text: f"{datetime.date.fromisoformat(text):%d.%m.%Y} 09:30")),
        {},
        "Most are read with --format 'dates=%d.%m.%Y %H:%M'.",
    ),
    "dates that may be of both kinds": (
        written(cell(3, lambda text: f"{text[5:7]}/{text[5:7]}/2024")),
        {},
        "Most are read with --format dates=%d/%m/%Y or --format dates=%m/%d/%Y.",
    ),
    "commas between thousands": (
        written(cell(1, lambda text: f'"{float(text):,}"')),
        {},
        "'pay': 100 % of the cells cannot be read as a number. Most are read with --format thousands=,.",
    ),
    "numbers as Germans write them": (
        written(cell(1, german)),
        {},
        "Most are read with --format decimal=, --format thousands=..",
    ),
    "decimal commas": (
        written(cell(1, lambda text: f'"{text.replace(".", ",")}"')),
        {},
        "Most are read with --format decimal=,.",
    ),
    "spaces between thousands": (
        written(cell(1, lambda text: f"{float(text):,}".replace(",", "\u00a0"))),
        {},
        "Most are read with --format 'thousands= '.",
    ),
    "a currency": (written(cell(1, lambda text: f"€ {text}")), {}, "Most are read with --format 'units=€'."),
    "a currency and decimal commas": (
        written(cell(1, lambda text: f'"{text.replace(".", ",")} €"')),
        {},
        "Most are read with --format decimal=, --format 'units=€'.",
    ),
    "NA where numbers are": (
        written(cell(0, lambda text: "NA" if int(text) % 3 else text)),
        {},
        "'age': 67 % of the cells cannot be read as a number. Most are read with --format missing=,NA.",
    ),
    "numbers beyond the bounds": (
        written(cell(0, lambda text: text + "00")),
        {},
        "'age': 100 % of the cells are outside the declared range.",
    ),
    "words in other capitals": (
        written(cell(4, str.upper)),
        {},
        "'town': 100 % of the cells are none of the declared values. Most are read with other capitals: list these "
        "spellings under 'aliases'.",
    ),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", TOLD)
def test_told_with_its_share_and_what_to_change(name: str) -> None:
    data, form, words = TOLD[name]
    found = lost(data, **form)
    assert words in " ".join(found.lines)
    assert found.mostly


def test_a_twentieth_is_told_and_a_half_waits() -> None:
    def spoilt(number: int) -> Losses:
        lines = written().decode().splitlines()
        lines[1 : 1 + number] = [line.replace("Ayr", "?").replace("Bath", "?") for line in lines[1 : 1 + number]]
        return lost("\n".join(lines).encode())

    assert spoilt(ROWS // 20) == Losses()
    assert spoilt(ROWS // 20 + 1).lines == (
        "'town': 7 % of the cells are none of the declared values. Most are read with --format 'missing=,?'.",
    )
    assert [spoilt(number).mostly for number in (ROWS // 20 + 1, ROWS // 2, ROWS // 2 + 1)] == [False, False, True]


def test_times_of_day_and_a_pattern_of_a_column() -> None:
    schema = Schema((TimeColumn("at", datetime.time(0), datetime.time(23, 59), missing=True),))
    data = b"at\n" + b"2:30 PM\n" * 9
    assert lost(data, schema).lines == (
        "'at': 100 % of the cells cannot be read as a time of day. Most are read with --format 'dates=%I:%M %p'.",
    )
    schema = Schema((DateColumn("seen", SEEN.low, SEEN.high, missing=True, pattern="%d.%m.%Y"),))
    (line,) = lost(b"seen\n" + b"13/05/2024\n" * 9, schema).lines
    assert line.endswith("with --format dates=%d/%m/%Y in place of what the column declares itself.")


def test_nothing_of_open_columns_is_lost_but_lines() -> None:
    schema = Schema((FindColumn("a"), FindColumn("b")))
    assert lost(b"a,b\n" + b"x,1\n" * 9, schema) == Losses()
    found = lost(b"a,b\n" + b"x,1,2\n" * 9, schema)
    assert found.mostly
    assert len(found.lines) == 1, "what becomes of the cells of a lost line is not said again for every column"


def test_rows_of_nobody_are_told() -> None:
    schema = Schema((IdentifierColumn("who"), AGE), PrivacyUnit("person", 2, "who"))
    found = lost(b"who,age\n" + b",30\n" * 6 + b"a,31\n" * 4, schema)
    assert found == Losses(("60 % of the rows have no 'who': they are nobody's, and not used.",), mostly=True)
    assert lost(b"who,age\n" + b"a,31\n" * 9 + b"a\n", schema).mostly is False


def test_undeclared_values_that_become_other_are_told_where_most_do_and_waited_for_where_nearly_all_do() -> None:
    town = CategoryColumn("town", ("Ayr",), other=True)

    def counted(others: int) -> Losses:
        return losses_of(ReadingCounts(100, 0, {}, 0, {"town": CellCounts(outside=others)}), Schema((town,)))

    assert [bool(counted(one)) for one in (6, 50, 51)] == [False, False, True]
    assert [counted(one).mostly for one in (60, 95, 96)] == [False, False, True]


def test_empty_cells_are_lost_where_missing_is_not_declared() -> None:
    counts = ReadingCounts(100, 0, {}, 0, {"age": CellCounts(missing=60)})
    assert losses_of(counts, Schema((AGE,))) == Losses()
    found = losses_of(counts, Schema((NumberColumn("age", 0, 9, 1, fallback=3),)))
    assert found == Losses(("'age': 60 % of the cells are empty, which is not declared.",), mostly=True)


def test_of_many_columns_the_worst_have_a_sentence_of_their_own() -> None:
    names = [f"x{place}" for place in range(60)]
    schema = Schema(tuple(NumberColumn(name, 0, 9, 1, missing=True) for name in names))
    counts = ReadingCounts(1000, 0, {}, 0, {name: CellCounts(outside=place + 20) for place, name in enumerate(names)})
    found = losses_of(counts, schema)
    # 31 to 59 are told of: more than 50 of 1,000 cells each. At most 30 alone.
    assert [line.split("'")[1] for line in found.lines] == names[:30:-1]
    more = replace(counts, cells={name: CellCounts(outside=place + 40) for place, name in enumerate(names)})
    found = losses_of(more, schema)
    assert len(found.lines) == 31
    assert found.lines[-1] == "Up to 7 % of the cells of each of 19 more columns are not as declared either."


def test_lost_lines_and_lost_cells_add_up() -> None:
    counts = ReadingCounts(100, 0, {"fewer": 30}, 0, {"age": CellCounts(malformed=60)})
    found = losses_of(counts, Schema((AGE,)))
    assert found.mostly
    assert [line.split(" %")[0] for line in found.lines] == ["30", "'age': 30"]


def test_no_sentence_quotes_a_cell() -> None:
    canary = "Zanzibar-7391846"
    data = written(lambda cells: [canary] * len(cells))
    assert canary not in " ".join(lost(data).lines)


X = NumberColumn("x", 0, 4, 1)
HEADERS: dict[str, tuple[bytes, tuple[Column, ...]]] = {
    "a name that is a value": (
        b"x,c\n1,a\n2,c\n3,b\n",
        (NumberColumn("x", 0, 4, 1, fallback=0), CategoryColumn("c", ("a", "b", "c"), fallback="a")),
    ),
    "a name that is a truth": (b"x,y\n1,y\n2,n\n", (X, YesNoColumn("y", "y", "n"))),
    "names that are years": (b"2019,2020\n5,6\n7,8\n", (NumberColumn("2019", 0, 9, 1), NumberColumn("2020", 0, 9, 1))),
    "a name that is a date": (b"x,2020-01-01\n1,2020-01-01\n", (X, DateColumn("2020-01-01", SEEN.low, SEEN.high))),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_first_line_that_names_the_declared_columns_is_a_header(name: str) -> None:
    data, columns = HEADERS[name]
    with pytest.raises(TableError) as caught:
        inspect_header(io.BytesIO(data))
    assert str(caught.value) == NO_HEADER
    header = inspect_header(io.BytesIO(data), declared=columns)
    assert header.names == tuple(column.name for column in columns)
    assert header.n_rows == data.count(b"\n") - 1
    assert inspect_header(io.BytesIO(data), vouched=True) == header
    # Other names are no reason to believe a line that looks like a row, nor are some of many.
    with pytest.raises(TableError):
        inspect_header(io.BytesIO(data), declared=(AGE,))
    with pytest.raises(TableError):
        inspect_header(io.BytesIO(data), declared=columns[:1])
    assert inspect_header(io.BytesIO(data), declared=columns[:1], undeclared="drop") == header
