"""How files are written in many places: each is recognised, read back cell by cell, or asked about."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from recognised_here import read_as_proposed, recognise_here

from synth.schema import TableFormat
from synth.services.recognition.proposals import ColumnProposal

ROWS = 300
DRAW = random.Random(41)
AGES = [DRAW.randrange(18, 91) for _ in range(ROWS)]
COSTS = [round(DRAW.lognormvariate(6.5, 1), 2) for _ in range(ROWS)]
DAYS = [date(2022, 3, 1) + timedelta(DRAW.randrange(900)) for _ in range(ROWS)]
SEXES = [DRAW.choice(["female", "male"]) for _ in range(ROWS)]
TRUTHS = [DRAW.random() < 0.4 for _ in range(ROWS)]
TOWNS = [DRAW.choice(["north", "south", "west"]) for _ in range(ROWS)]
BIG = [DRAW.randrange(200, 9000) for _ in range(ROWS)]
GAPS = [DRAW.random() < 0.1 for _ in range(ROWS)]

Column = Sequence[str]


def point(value: float) -> str:
    return f"{value:.2f}"


def comma(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def grouped(thousands: str, decimal: str) -> Callable[[float], str]:
    return lambda value: f"{value:,.2f}".replace(",", "_").replace(".", decimal).replace("_", thousands)


def text(columns: Mapping[str, Column], sign: str = ",", *, header: bool = True, end: str = "\n") -> str:
    lines = [sign.join(columns)] if header else []
    lines += [sign.join(cells) for cells in zip(*columns.values(), strict=True)]
    return end.join([*lines, ""])


def table(**columns: Column) -> dict[str, Column]:
    return columns


@dataclass(frozen=True)
class Habit:
    """A file, the keys of the format that are proposed for it, and what its cells mean."""

    name: str
    data: bytes
    form: Mapping[str, Any]
    means: Mapping[str, Sequence[Any]]
    types: Mapping[str, str] = field(default_factory=dict)


def habit(
    name: str, written: str | bytes, form: Mapping[str, Any], means: Mapping[str, Sequence[Any]], **types: str
) -> Habit:
    return Habit(name, written if isinstance(written, bytes) else written.encode(), form, means, types)


PLAIN = table(age=[*map(str, AGES)], cost=[*map(point, COSTS)], sex=SEXES, day=[*map(str, DAYS)])
MEANS = {"age": AGES, "cost": COSTS, "sex": SEXES, "day": DAYS}
GERMAN = table(
    Alter=[*map(str, AGES)], Größe=[comma(150 + age / 2) for age in AGES], Kosten=[*map(grouped(".", ","), COSTS)]
)
MEANS_GERMAN = {"Alter": AGES, "Größe": [150 + age / 2 for age in AGES], "Kosten": COSTS}


def quoted(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {f'"{name}"': [f'"{cell}"' for cell in cells] for name, cells in columns.items()}


def with_missing(cells: Column, word: str) -> list[str]:
    return [word if gap else cell for cell, gap in zip(cells, GAPS, strict=True)]


def kept(values: Sequence[Any]) -> list[Any]:
    return [None if gap else value for value, gap in zip(values, GAPS, strict=True)]


def days(pattern: str) -> list[str]:
    return [day.strftime(pattern) for day in DAYS]


def row_names(columns: Mapping[str, Column], sign: str) -> str:
    lines = text(columns, sign).splitlines()
    return "\n".join([lines[0], *(f'"{place}"{sign}{line}' for place, line in enumerate(lines[1:], start=1)), ""])


HABITS = [
    habit("as programs write", text(PLAIN), {}, MEANS, age="number", cost="number", sex="category", day="date"),
    habit("semicolons", text(PLAIN, ";"), {}, MEANS),
    habit("tabs", text(PLAIN, "\t"), {}, MEANS),
    habit("bars", text(PLAIN, "|"), {}, MEANS),
    habit("carets", text(PLAIN, "^"), {"separator": "^"}, MEANS),
    habit("spaces", text(PLAIN, " "), {"separator": " "}, MEANS),
    habit("line ends of Windows", text(PLAIN, end="\r\n"), {}, MEANS),
    habit("everything quoted", text(quoted(PLAIN)), {}, MEANS),
    habit("a byte-order mark", "\ufeff" + text(PLAIN), {}, MEANS),
    habit("UTF-16 with a mark", text(PLAIN, "\t").encode("utf-16"), {}, MEANS),
    habit("UTF-16 without a mark", text(PLAIN, ";").encode("utf-16-le"), {"encoding": "utf-16-le"}, MEANS),
    habit("German, Windows", text(GERMAN, ";").encode("cp1252"),
          {"encoding": "cp1252", "decimal": ",", "thousands": "."}, MEANS_GERMAN),
    habit("German, Macintosh", text(GERMAN, ";").encode("mac-roman"), {"encoding": "mac-roman", "decimal": ","}, MEANS_GERMAN),
    habit("German, DOS", text(GERMAN, ";").encode("cp850"), {"encoding": "cp850", "decimal": ","}, MEANS_GERMAN),
    habit("French spaces", text(table(cout=[*map(grouped("\u202f", ","), COSTS)], age=[*map(str, AGES)]), ";"),
          {"decimal": ",", "thousands": " "}, {"cout": COSTS, "age": AGES}),
    habit("Swiss apostrophes", text(table(kosten=[*map(grouped("'", "."), COSTS)], age=[*map(str, AGES)]), ";"),
          {"thousands": "'"}, {"kosten": COSTS}),
    habit("British commas", text(table(cost=[f'"{one}"' for one in map(grouped(",", "."), COSTS)], age=[*map(str, AGES)])),
          {"thousands": ","}, {"cost": COSTS}),
    habit("whole thousands with commas", text(table(n=[f'"{one:,}"' for one in BIG], age=[*map(str, AGES)])),
          {"thousands": ","}, {"n": BIG}, n="number"),
    habit("whole thousands with points", text(table(n=[f"{one:,}".replace(",", ".") for one in BIG], x=[*map(comma, COSTS)]), ";"),
          {"thousands": ".", "decimal": ","}, {"n": BIG, "x": COSTS}),
    habit("a unit behind", text(table(w=[f"{one} kg" for one in AGES], age=[*map(str, AGES)])), {}, {"w": AGES}, w="number"),
    habit("a unit without a space", text(table(w=[f"{one}kg" for one in AGES], a=[*map(str, AGES)])), {}, {"w": AGES}),
    habit("euros before", text(table(w=[f"€ {comma(one)}" for one in COSTS], a=[*map(str, AGES)]), ";"), {"decimal": ","}, {"w": COSTS}),
    habit("dollars and thousands", text(table(w=[f'"${one:,.2f}"' for one in COSTS], a=[*map(str, AGES)])), {"thousands": ","}, {"w": COSTS}),
    habit("percent", text(table(w=[f"{one} %" for one in AGES], a=[*map(str, AGES)])), {}, {"w": AGES}),
    habit("German dates", text(table(tag=days("%d.%m.%Y"), a=[*map(str, AGES)]), ";"), {"dates": ("%d.%m.%Y",)}, {"tag": DAYS}, tag="date"),
    habit("American dates", text(table(day=days("%m/%d/%Y"), a=[*map(str, AGES)])), {"dates": ("%m/%d/%Y",)}, {"day": DAYS}),
    habit("British dates", text(table(day=days("%d/%m/%Y"), a=[*map(str, AGES)])), {"dates": ("%d/%m/%Y",)}, {"day": DAYS}),
    habit("short years", text(table(day=days("%d.%m.%y"), a=[*map(str, AGES)])), {"dates": ("%d.%m.%y",)}, {"day": DAYS}),
    habit("dates with slashes, year first", text(table(day=days("%Y/%m/%d"), a=[*map(str, AGES)])), {"dates": ("%Y/%m/%d",)}, {"day": DAYS}),
    habit("dates of SAS", text(table(day=[one.upper() for one in days("%d%b%Y")], a=[*map(str, AGES)])), {"dates": ("%d%b%Y",)}, {"day": DAYS}),
    habit("dates in words", text(table(day=[f'"{one}"' for one in days("%B %d, %Y")], a=[*map(str, AGES)])), {"dates": ("%B %d, %Y",)}, {"day": DAYS}),
    habit("Japanese dates", text(table(day=days("%Y年%m月%d日"), 年齢=[*map(str, AGES)])).encode("cp932"),
          {"encoding": "cp932", "dates": ("%Y年%m月%d日",)}, {"day": DAYS, "年齢": AGES}),
    habit("dates of eight digits", text(table(day=days("%Y%m%d"), a=[*map(str, AGES)])), {}, {"day": DAYS}, day="date"),
    habit("dates with times", text(table(day=days("%d.%m.%Y 14:35"), a=[*map(str, AGES)])), {"dates": ("%d.%m.%Y %H:%M",)}, {"day": DAYS}),
    habit("American times", text(table(day=days("%m/%d/%Y 02:35 PM"), a=[*map(str, AGES)])), {"dates": ("%m/%d/%Y %I:%M %p",)}, {"day": DAYS}),
    habit("ISO dates with times", text(table(day=days("%Y-%m-%dT10:00:00"), a=[*map(str, AGES)])), {}, {"day": DAYS}, day="date"),
    habit("times of day", text(table(t=[f"{one % 24:02}:{15 * (one % 4):02}" for one in AGES], a=[*map(str, AGES)])), {},
          {"t": [f"{one % 24:02}:{15 * (one % 4):02}" for one in AGES]}, t="time"),
    habit("NA", text(table(x=with_missing([*map(point, COSTS)], "NA"), s=with_missing(TOWNS, "NA"))), {"missing": ("", "NA")},
          {"x": kept(COSTS), "s": kept(TOWNS)}, x="number", s="category"),
    habit("a dash for nothing", text(table(x=with_missing([*map(str, AGES)], "-"), y=[*map(str, AGES)])), {"missing": ("", "-")}, {"x": kept(AGES)}),
    habit("points for nothing", text(table(x=with_missing([*map(str, AGES)], "."), y=[*map(str, AGES)])), {"missing": ("", ".")}, {"x": kept(AGES)}),
    habit("999 for refused", text(table(x=with_missing([*map(str, AGES)], "999"), y=[*map(str, AGES)])), {},
          {"x": [999 if one is None else one for one in kept(AGES)]}, x="number"),
    habit("TRUE and FALSE", text(table(b=[str(one).upper() for one in TRUTHS], a=[*map(str, AGES)])), {},
          {"b": [str(one).upper() for one in TRUTHS]}, b="yes_no"),
    habit("true and false", text(table(b=[str(one).lower() for one in TRUTHS], a=[*map(str, AGES)])), {},
          {"b": [str(one).lower() for one in TRUTHS]}, b="yes_no"),
    habit("1 and 0", text(table(b=[str(int(one)) for one in TRUTHS], a=[*map(str, AGES)])), {}, {"b": [str(int(one)) for one in TRUTHS]}, b="yes_no"),
    habit("oui et non", text(table(b=["oui" if one else "non" for one in TRUTHS], a=[*map(str, AGES)])), {},
          {"b": ["oui" if one else "non" for one in TRUTHS]}, b="yes_no"),
    habit("m and w", text(table(g=["w" if one else "m" for one in TRUTHS], a=[*map(str, AGES)])), {}, {"g": ["w" if one else "m" for one in TRUTHS]}, g="category"),
    habit("names of rows, as R writes them", row_names(PLAIN, ","), {"row_names": "row_name"}, MEANS, row_name="drop"),
    habit("names of rows and spaces, as R writes them", row_names(quoted(PLAIN), " "), {"row_names": "row_name", "separator": " "}, MEANS),
    habit("the index of pandas", text({"": [*map(str, range(ROWS))], **PLAIN}), {}, MEANS, column_1="drop"),
    habit("a title", "Report of the year\n\n" + text(PLAIN), {"skip_rows": 1}, MEANS),
    habit("a title as wide as a row", "Report,,,\n" + text(PLAIN), {"skip_rows": 1}, MEANS),
    habit("comments", "# made by us\n# in March\n" + text(PLAIN), {"comment": "#"}, MEANS),
    habit("a separator that is stated", "sep=;\n" + text(PLAIN, ";"), {"separator": ";"}, MEANS),
    habit("units below the names", "age,cost,sex,day\nyears,€,,\n" + text(PLAIN, header=False), {"header_rows": 2, "names_from": 1}, MEANS),
    habit("no header", text(PLAIN, header=False), {"header": False, "names": ("column_1", "column_2", "column_3", "column_4"), "separator": ","},
          {"column_1": AGES, "column_2": COSTS, "column_3": SEXES, "column_4": DAYS}),
    habit("years as names", text({"town": TOWNS, "2019": [*map(str, AGES)], "2020": [*map(str, BIG)]}),
          {"header": False, "names": ("town", "2019", "2020"), "skip_rows": 1, "separator": ","}, {"town": TOWNS, "2019": AGES, "2020": BIG}),
    habit("a name that is a value", text({"x": [*map(str, AGES)], "c": [DRAW.choice("abc") for _ in range(ROWS)]}),
          {"header": False, "names": ("x", "c"), "skip_rows": 1, "separator": ","}, {"x": AGES}),
    habit("line breaks in cells", text({"note": ['"one\ntwo"' if gap else "one" for gap in GAPS], **PLAIN}), {"newlines": True}, MEANS),
    habit("zeros in front", text(table(code=[f"{one % 7:03}" for one in AGES], a=[*map(str, AGES)])), {}, {"code": [f"{one % 7:03}" for one in AGES]}, code="category"),
    habit("small and capital letters", text(table(s=[one.upper() if gap and one == "north" else one for one, gap in zip(TOWNS, GAPS, strict=True)], a=[*map(str, AGES)])),
          {}, {"s": TOWNS}, s="category"),
    habit("negative numbers", text(table(x=[point(one - 900) for one in COSTS], a=[*map(str, AGES)])), {}, {"x": [round(one - 900, 2) for one in COSTS]}),
    habit("exponents", text(table(x=[f"{one * 1000:.3e}" for one in AGES], a=[*map(str, AGES)])), {}, {"x": [1000 * one for one in AGES]}, x="number"),
    habit("months", text(table(x=days("%Y-%m"), a=[*map(str, AGES)])), {}, {"x": [day.replace(day=1) for day in DAYS]}, x="date"),
]  # fmt: skip


@pytest.mark.parametrize("one", HABITS, ids=lambda one: one.name)
def test_a_habit_is_recognised_and_read_back(one: Habit) -> None:
    found = recognise_here(one.data)
    for key, value in one.form.items():
        assert getattr(found.form, key) == value, found.proposals
    proposed = {proposal.key for proposal in found.proposals}
    assert proposed <= {*one.form, "skip_rows", "names", "header", "separator", "newlines", "dates", "thousands"}
    assert not found.open
    types = {column.name: column.body["type"] for column in found.columns}
    assert types.items() >= dict(one.types).items(), found.columns
    read = read_as_proposed(one.data, found)
    assert read.odd_lines == (0, 0)
    for name, values in one.means.items():
        assert read.lost[name] == 0
        assert [like(cell, value) for cell, value in zip(read.texts[name], values, strict=True)] == [
            *map(plain, values)
        ]


def like(cell: str, value: Any) -> Any:
    """Return a text as the kind of value it should be."""
    if cell == "":
        return None
    if isinstance(value, int | float):
        return round(float(cell), 6)
    return date.fromisoformat(cell) if isinstance(value, date) else cell


def plain(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, int | float) else value
