"""Files of SPSS, Stata, SAS, .xls and .xlsb: what a row becomes follows from that row, whatever the others are."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pytest
from mutations import SCHEMA, TALLY, Outcome, codes_of
from reading_faults import (
    labels_are_left_out_where_one_value_has_none,
    one_bad_date_spoils_its_column,
    one_bad_text_spoils_its_column,
)
from typed_files import STATISTICAL, sas7bdat, statistical, xls, xlsb

from synth.reading.more import calamine
from synth.reading.more import statistical as reader
from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema, TableFormat, TimeColumn

NAMES = [column.name for column in SCHEMA]
FORMATS_OF_DATES = {"sav": "DATE11", "dta": "%td", "xpt": "DATE9"}
TO_1960 = datetime.date(1960, 1, 1).toordinal()
ZERO = {"sav": datetime.date(1582, 10, 14).toordinal(), "dta": TO_1960, "xpt": TO_1960}
MUTATIONS = [40, pytest.param(1_000, marks=pytest.mark.thorough)]

Row = tuple[Any, ...]


def honest(random_: random.Random) -> Row:
    day = datetime.date(2020 + random_.randrange(5), 1 + random_.randrange(12), 11)
    return (
        f"p{random_.randrange(40)}",
        random_.choice([None, 999.0, float(random_.randrange(121))]),
        random_.choice(["Ayr", "Bath, Avon", "São Paulo", "Leith"]),
        random_.choice([None, day]),
        random_.choice([0.0, 1.0]),
    )


BAD = "~bad"
"""A text that is written as bytes that are not in the encoding of the file."""

TEXTS = (
    "",
    " ",
    BAD,
    "x" * 299,
    "x" * 301,
    "é" * 200,
    "Ayr ",
    "SÃO PAULO",
    "\U0001f600",
    "a\nb",
    "=1",
    "nan",
    "47",
    "\x7f",
)
NUMBERS = (None, -1.0, 1e300, -1e300, 0.1, 47.5, 2.0**53, 1e18, -1e18, 6e-324)


def hostile(random_: random.Random) -> Row:
    """Return a row of anything that such a file can hold; its date may be a number that no calendar has."""
    return (
        random_.choice(TEXTS),
        random_.choice(NUMBERS),
        random_.choice(TEXTS),
        random_.choice([*NUMBERS, datetime.date(9999, 12, 31), datetime.date(1, 1, 1)]),
        random_.choice(NUMBERS),
    )


def statistical_file(name: str, rows: Sequence[Row]) -> bytes:
    """Write rows as a file that stores dates as numbers and has labels for yes and no."""
    kind = STATISTICAL[name]
    unit = 86_400 if kind == "sav" else 1

    def day(cell: Any) -> Any:
        return unit * float(cell.toordinal() - ZERO[kind]) if isinstance(cell, datetime.date) else cell

    codes = {0.0: 8.0, 1.0: 7.0} if kind != "xpt" else {}  # which say nothing without their labels
    cells = [(who, age, town, day(seen), codes.get(well, well)) for who, age, town, seen, well in rows]
    table = pd.DataFrame(cells, columns=NAMES)
    table[["age", "seen", "well"]] = table[["age", "seen", "well"]].astype(float)
    said: dict[str, Any] = {"variable_format": {"seen": FORMATS_OF_DATES[kind]}} if kind != "dta" else {}
    if kind != "xpt":
        said["variable_value_labels"] = {"well": {8: "no", 7: "yes"}}
    data = statistical(name, table, **said, **({"variable_format": {"seen": "%td"}} if kind == "dta" else {}))
    return data.replace(BAD.encode(), b"\xff\xfe\xfa\xfb")


def sheet_file(write: Callable[..., bytes], rows: Sequence[Row]) -> bytes:
    def cells(row: Row) -> list[Any]:
        who, age, town, seen, well = row
        day = seen.isoformat() if isinstance(seen, datetime.date) else seen
        return [who or None, age, town or None, day, "yes" if well == 1 else "no" if well == 0 else well]

    return write([NAMES, *map(cells, rows)])


FILES: dict[str, Callable[[Sequence[Row]], bytes]] = {
    **{name: lambda rows, name=name: statistical_file(name, rows) for name in STATISTICAL},  # type: ignore[misc]
    "xls": lambda rows: sheet_file(xls, rows),
    "xlsb": lambda rows: sheet_file(xlsb, rows),
}


def changed_rows(name: str, tried: int) -> int:
    """Return how many of so many mutations of one row change what another one becomes."""
    random_ = random.Random(7)
    rows = [honest(random_) for _ in range(30)]
    became = codes_of(FILES[name](rows), TableFormat(), SCHEMA)
    changed = 0
    for _ in range(tried):
        place, instead = random_.randrange(len(rows)), hostile(random_)
        others = codes_of(FILES[name]([*rows[:place], instead, *rows[place + 1 :]]), TableFormat(), SCHEMA)
        # In a sheet a row without any value is no row.
        none = len(others) < len(rows) and name in {"xls", "xlsb"}
        changed += [*others[:place], *others[place + (not none) :]] != [*became[:place], *became[place + 1 :]]
    return changed


@pytest.mark.parametrize("tried", MUTATIONS)
@pytest.mark.parametrize("name", FILES)
def test_no_mutation_of_one_row_changes_another(name: str, tried: int) -> None:
    found = changed_rows(name, tried)
    TALLY[f"{name}, {tried}"] = (tried, found)
    assert found == 0


@pytest.mark.parametrize("name", FILES)
def test_a_row_becomes_the_same_alone_and_among_others(name: str) -> None:
    random_ = random.Random(3)
    rows = [(honest if k % 2 else hostile)(random_) for k in range(16)]
    alone: list[Outcome] = [code for row in rows for code in codes_of(FILES[name]([row]), TableFormat(), SCHEMA)]
    assert codes_of(FILES[name](rows), TableFormat(), SCHEMA) == alone


@pytest.mark.parametrize("name", STATISTICAL)
def test_however_many_rows_are_read_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(4)
    data = FILES[name]([honest(random_) for _ in range(23)])
    became = codes_of(data, TableFormat(), SCHEMA)
    for size in (1, 3_000):
        monkeypatch.setattr(reader, "CHUNK_BYTES", size)
        monkeypatch.setattr(reader, "COLUMNS_AT_ONCE", 2)
        assert codes_of(data, TableFormat(), SCHEMA) == became


OF_SAS = Schema(
    (
        CategoryColumn("patno", ("1001", "1002"), other=True),
        DateColumn("dtc1", datetime.date(1900, 1, 1), datetime.date(2100, 12, 31), missing=True),
        *(
            DateColumn(name, datetime.date(1900, 1, 1), datetime.date(2100, 12, 31), missing=True)
            for name in ("dtc2", "dtc3", "dtc4")
        ),
        TimeColumn("tm1", missing=True),
        *(
            DateColumn(name, datetime.date(1900, 1, 1), datetime.date(2100, 12, 31), missing=True)
            for name in ("dt1", "dt2")
        ),
        NumberColumn("yr", 0, 9, 1, missing=True),
    ),
    row_count="private",
)
"""The columns of the file of SAS; ``yr`` is a date, so it is declared in vain as a number."""


def test_a_row_of_sas_changes_no_other() -> None:
    data, random_ = sas7bdat(), random.Random(5)
    became = codes_of(data, TableFormat(), OF_SAS)
    assert len(became) == len(set(became)) == 20
    for patno in (1001, 1011, 1020):
        start = data.index(struct.pack("<d", patno))
        for _ in range(10):
            cells = struct.pack("<8d", *(random_.choice([*NUMBERS[1:], math.inf, math.nan]) for _ in range(8)))
            others = codes_of(data[:start] + cells + data[start + 64 :], TableFormat(), OF_SAS)
            place = patno - 1001
            assert (others[:place], others[place + 1 :]) == (became[:place], became[place + 1 :])


# Bugs planted in the reader -------------------------------------------------------------------------------------------


def a_short_row_ends_the_table(patch: pytest.MonkeyPatch) -> None:
    honest = calamine.CalamineBook.rows

    def rows(self: Any, name: str) -> Any:
        return itertools.takewhile(lambda row: len(row[1]) > 3, honest(self, name))

    patch.setattr(calamine.CalamineBook, "rows", rows)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (one_bad_text_spoils_its_column, "sav"),
        (one_bad_text_spoils_its_column, "xpt"),
        (one_bad_date_spoils_its_column, "dta"),
        (labels_are_left_out_where_one_value_has_none, "zsav"),
        (a_short_row_ends_the_table, "xls"),
    ],
)
def test_a_planted_bug_is_found(plant: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert changed_rows(name, 40)
