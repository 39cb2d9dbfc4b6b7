"""How files are written in many places: each is recognised, read back cell by cell, or asked about."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from recognised_here import read_as_proposed, recognise_here
from sheets import xlsx, xlsx_row

from synth.errors import InputError, TableError
from synth.schema import TableFormat
from synth.services.recognition import ColumnProposal, recognise
from synth.services.recognition.columns import round_range

ROWS = 300
DRAW = random.Random(41)
AGES = [DRAW.randrange(18, 91) for _ in range(ROWS)]
AGED = list(map(str, AGES))
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


PLAIN = table(age=AGED, cost=[*map(point, COSTS)], sex=SEXES, day=[*map(str, DAYS)])
MEANS = {"age": AGES, "cost": COSTS, "sex": SEXES, "day": DAYS}
GERMAN = table(Alter=AGED, Größe=[comma(150 + age / 2) for age in AGES], Kosten=[*map(grouped(".", ","), COSTS)])
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
    habit(
        "German, Windows",
        text(GERMAN, ";").encode("cp1252"),
        {"encoding": "cp1252", "decimal": ",", "thousands": "."},
        MEANS_GERMAN,
    ),
    habit(
        "German, Macintosh",
        text(GERMAN, ";").encode("mac-roman"),
        {"encoding": "mac-roman", "decimal": ","},
        MEANS_GERMAN,
    ),
    habit("German, DOS", text(GERMAN, ";").encode("cp850"), {"encoding": "cp850", "decimal": ","}, MEANS_GERMAN),
    habit(
        "French spaces",
        text(table(cout=[*map(grouped("\u202f", ","), COSTS)], age=AGED), ";"),
        {"decimal": ",", "thousands": " "},
        {"cout": COSTS, "age": AGES},
    ),
    habit(
        "Swiss apostrophes",
        text(table(kosten=[*map(grouped("'", "."), COSTS)], age=AGED), ";"),
        {"thousands": "'"},
        {"kosten": COSTS},
    ),
    habit(
        "British commas",
        text(table(cost=[f'"{one}"' for one in map(grouped(",", "."), COSTS)], age=AGED)),
        {"thousands": ","},
        {"cost": COSTS},
    ),
    habit(
        "whole thousands with commas",
        text(table(n=[f'"{one:,}"' for one in BIG], age=AGED)),
        {"thousands": ","},
        {"n": BIG},
        n="number",
    ),
    habit(
        "whole thousands with points",
        text(table(n=[f"{one:,}".replace(",", ".") for one in BIG], x=[*map(comma, COSTS)]), ";"),
        {"thousands": ".", "decimal": ","},
        {"n": BIG, "x": COSTS},
    ),
    habit("a unit behind", text(table(w=[f"{one} kg" for one in AGES], age=AGED)), {}, {"w": AGES}, w="number"),
    habit("a unit without a space", text(table(w=[f"{one}kg" for one in AGES], a=AGED)), {}, {"w": AGES}),
    habit(
        "euros before", text(table(w=[f"€ {comma(one)}" for one in COSTS], a=AGED), ";"), {"decimal": ","}, {"w": COSTS}
    ),
    habit(
        "dollars and thousands",
        text(table(w=[f'"${one:,.2f}"' for one in COSTS], a=AGED)),
        {"thousands": ","},
        {"w": COSTS},
    ),
    habit("percent", text(table(w=[f"{one} %" for one in AGES], a=AGED)), {}, {"w": AGES}),
    habit(
        "German dates",
        text(table(tag=days("%d.%m.%Y"), a=AGED), ";"),
        {"dates": ("%d.%m.%Y",)},
        {"tag": DAYS},
        tag="date",
    ),
    habit("American dates", text(table(day=days("%m/%d/%Y"), a=AGED)), {"dates": ("%m/%d/%Y",)}, {"day": DAYS}),
    habit("British dates", text(table(day=days("%d/%m/%Y"), a=AGED)), {"dates": ("%d/%m/%Y",)}, {"day": DAYS}),
    habit("short years", text(table(day=days("%d.%m.%y"), a=AGED)), {"dates": ("%d.%m.%y",)}, {"day": DAYS}),
    habit(
        "dates with slashes, year first",
        text(table(day=days("%Y/%m/%d"), a=AGED)),
        {"dates": ("%Y/%m/%d",)},
        {"day": DAYS},
    ),
    habit(
        "dates of SAS",
        text(table(day=[one.upper() for one in days("%d%b%Y")], a=AGED)),
        {"dates": ("%d%b%Y",)},
        {"day": DAYS},
    ),
    habit(
        "dates in words",
        text(table(day=[f'"{one}"' for one in days("%B %d, %Y")], a=AGED)),
        {"dates": ("%B %d, %Y",)},
        {"day": DAYS},
    ),
    habit(
        "Japanese dates",
        text(table(day=days("%Y年%m月%d日"), 年齢=AGED)).encode("cp932"),
        {"encoding": "cp932", "dates": ("%Y年%m月%d日",)},
        {"day": DAYS, "年齢": AGES},
    ),
    habit("dates of eight digits", text(table(day=days("%Y%m%d"), a=AGED)), {}, {"day": DAYS}, day="date"),
    habit(
        "dates with times",
        text(table(day=days("%d.%m.%Y 14:35"), a=AGED)),
        {"dates": ("%d.%m.%Y %H:%M",)},
        {"day": DAYS},
    ),
    habit(
        "American times",
        text(table(day=days("%m/%d/%Y 02:35 PM"), a=AGED)),
        {"dates": ("%m/%d/%Y %I:%M %p",)},
        {"day": DAYS},
    ),
    habit("ISO dates with times", text(table(day=days("%Y-%m-%dT10:00:00"), a=AGED)), {}, {"day": DAYS}, day="date"),
    habit(
        "times of day",
        text(table(t=[f"{one % 24:02}:{15 * (one % 4):02}" for one in AGES], a=AGED)),
        {},
        {"t": [f"{one % 24:02}:{15 * (one % 4):02}" for one in AGES]},
        t="time",
    ),
    habit(
        "NA",
        text(table(x=with_missing([*map(point, COSTS)], "NA"), s=with_missing(TOWNS, "NA"))),
        {"missing": ("", "NA")},
        {"x": kept(COSTS), "s": kept(TOWNS)},
        x="number",
        s="category",
    ),
    habit(
        "a dash for nothing", text(table(x=with_missing(AGED, "-"), y=AGED)), {"missing": ("", "-")}, {"x": kept(AGES)}
    ),
    habit(
        "points for nothing", text(table(x=with_missing(AGED, "."), y=AGED)), {"missing": ("", ".")}, {"x": kept(AGES)}
    ),
    habit(
        "999 for refused",
        text(table(x=with_missing(AGED, "999"), y=AGED)),
        {},
        {"x": [999 if one is None else one for one in kept(AGES)]},
        x="number",
    ),
    habit(
        "TRUE and FALSE",
        text(table(b=[str(one).upper() for one in TRUTHS], a=AGED)),
        {},
        {"b": [str(one).upper() for one in TRUTHS]},
        b="yes_no",
    ),
    habit(
        "true and false",
        text(table(b=[str(one).lower() for one in TRUTHS], a=AGED)),
        {},
        {"b": [str(one).lower() for one in TRUTHS]},
        b="yes_no",
    ),
    habit(
        "1 and 0",
        text(table(b=[str(int(one)) for one in TRUTHS], a=AGED)),
        {},
        {"b": [str(int(one)) for one in TRUTHS]},
        b="yes_no",
    ),
    habit(
        "oui et non",
        text(table(b=["oui" if one else "non" for one in TRUTHS], a=AGED)),
        {},
        {"b": ["oui" if one else "non" for one in TRUTHS]},
        b="yes_no",
    ),
    habit(
        "m and w",
        text(table(g=["w" if one else "m" for one in TRUTHS], a=AGED)),
        {},
        {"g": ["w" if one else "m" for one in TRUTHS]},
        g="category",
    ),
    habit(
        "a separator at the end of rows",
        "age;cost;sex;day\n" + text(PLAIN, ";", header=False, end=";\n"),
        {"header": False, "skip_rows": 1, "separator": ";"},
        MEANS,
        column_5="drop",
    ),
    habit("names of rows, as R writes them", row_names(PLAIN, ","), {"row_names": "row_name"}, MEANS, row_name="drop"),
    habit(
        "names of rows and spaces, as R writes them",
        row_names(quoted(PLAIN), " "),
        {"row_names": "row_name", "separator": " "},
        MEANS,
    ),
    habit("the index of pandas", text({"": [*map(str, range(ROWS))], **PLAIN}), {}, MEANS, column_1="drop"),
    habit("a title", "Report of the year\n\n" + text(PLAIN), {"skip_rows": 1}, MEANS),
    habit("a title as wide as a row", "Report,,,\n" + text(PLAIN), {"skip_rows": 1}, MEANS),
    habit("comments", "# made by us\n# in March\n" + text(PLAIN), {"comment": "#"}, MEANS),
    habit("a separator that is stated", "sep=;\n" + text(PLAIN, ";"), {"separator": ";"}, MEANS),
    habit(
        "units below the names",
        "age,cost,sex,day\nyears,€,,\n" + text(PLAIN, header=False),
        {"header_rows": 2, "names_from": 1},
        MEANS,
    ),
    habit(
        "no header",
        text(PLAIN, header=False),
        {"header": False, "names": ("column_1", "column_2", "column_3", "column_4"), "separator": ","},
        {"column_1": AGES, "column_2": COSTS, "column_3": SEXES, "column_4": DAYS},
    ),
    habit(
        "years as names",
        text({"town": TOWNS, "2019": AGED, "2020": [*map(str, BIG)]}),
        {"header": False, "names": ("town", "2019", "2020"), "skip_rows": 1, "separator": ","},
        {"town": TOWNS, "2019": AGES, "2020": BIG},
    ),
    habit(
        "a name that is a value",
        text({"x": AGED, "c": [DRAW.choice("abc") for _ in range(ROWS)]}),
        {"header": False, "names": ("x", "c"), "skip_rows": 1, "separator": ","},
        {"x": AGES},
    ),
    habit(
        "line breaks in cells",
        text({"note": ['"one\ntwo"' if gap else "one" for gap in GAPS], **PLAIN}),
        {"newlines": True},
        MEANS,
    ),
    habit(
        "zeros in front",
        text(table(code=[f"{one % 7:03}" for one in AGES], a=AGED)),
        {},
        {"code": [f"{one % 7:03}" for one in AGES]},
        code="category",
    ),
    habit(
        "small and capital letters",
        text(
            table(
                s=[one.upper() if gap and one == "north" else one for one, gap in zip(TOWNS, GAPS, strict=True)], a=AGED
            )
        ),
        {},
        {"s": TOWNS},
        s="category",
    ),
    habit(
        "negative numbers",
        text(table(x=[point(one - 900) for one in COSTS], a=AGED)),
        {},
        {"x": [round(one - 900, 2) for one in COSTS]},
    ),
    habit(
        "exponents",
        text(table(x=[f"{one * 1000:.3e}" for one in AGES], a=AGED)),
        {},
        {"x": [1000 * one for one in AGES]},
        x="number",
    ),
    habit("months", text(table(x=days("%Y-%m"), a=AGED)), {}, {"x": [day.replace(day=1) for day in DAYS]}, x="date"),
]


@pytest.mark.four_cases
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
    assert read.odd_lines == (0, {})
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


def sheet(top: Sequence[Sequence[str]], columns: Mapping[str, Sequence[str]]) -> bytes:
    rows = [*top, *zip(*columns.values(), strict=True)]
    return xlsx("".join(xlsx_row(row) if row else "<row></row>" for row in rows))


TWO = {"age": AGED, "town": TOWNS}
NAMES = ("age", "town")


@pytest.mark.parametrize(
    ("top", "form", "names"),
    [
        ([NAMES], {"skip_rows": 0}, NAMES),
        ([(*NAMES, "note")], {"header": True, "skip_rows": 0}, (*NAMES, "note")),
        ([("Survey 2024",), (*NAMES, "note", "remarks")], {"skip_rows": 1}, (*NAMES, "note", "remarks")),
        ([("Survey 2024",), (), NAMES], {"skip_rows": 2}, NAMES),
        ([("Survey", "", "2024"), NAMES], {"skip_rows": 1}, NAMES),
        ([("Survey",), ("age", "town"), ("years", "UK")], {"skip_rows": 1, "header_rows": 2, "names_from": 1}, NAMES),
        ([], {"header": False, "skip_rows": 0, "kind": "xlsx"}, ("column_1", "column_2")),
        ([("Survey",), ("2019", "2020")], {"header": False, "skip_rows": 2}, ("2019", "2020")),
    ],
    ids=[
        "none",
        "an empty column",
        "a title, two empty columns",
        "a title and a blank row",
        "a wide title",
        "a title and units",
        "no header",
        "a title and years",
    ],
)
def test_titles_and_names_of_a_sheet_are_recognised(
    top: Sequence[Sequence[str]], form: dict[str, Any], names: tuple[str, ...]
) -> None:
    table = {"a": AGED, "b": [*map(str, BIG)]} if "2019" in str(top) else TWO
    found = recognise(io.BytesIO(sheet(top, table)), look=True)
    assert {key: getattr(found.form, key) for key in form} == form, found.proposals
    assert tuple(column.name for column in found.columns) == names
    assert found.rows == ROWS


# What is asked, and what is told --------------------------------------------------------------------------------------


def early(pattern: str) -> list[str]:
    """Days whose day and month may be exchanged."""
    return [day.replace(day=day.day % 12 + 1).strftime(pattern) for day in DAYS]


def test_day_and_month_that_may_be_exchanged_are_asked_and_never_guessed() -> None:
    data = text(table(born=early("%d.%m.%Y"), a=AGED), ";").encode()
    found = recognise_here(data)
    (asked,) = found.open
    assert (asked.key, asked.value) == ("dates", None)
    assert asked.choices == (("%d.%m.%Y",), ("%m.%d.%Y",))
    assert found.form.dates == ()
    born = found.columns[0]
    assert (born.body, len(born.choices)) == ({}, 2)
    for way, choice in enumerate(asked.choices):
        chosen = found.chosen("dates", choice)
        assert chosen.form.dates == choice
        assert not chosen.open
        read = read_as_proposed(data, chosen)
        meant = [datetime.strptime(cell, choice[0]).date().isoformat() for cell in early("%d.%m.%Y")]
        assert read.texts["born"] == meant, way
    with pytest.raises(InputError, match="is not an open question"):
        found.chosen("dates", ("%Y",))


def test_another_column_of_dates_answers_for_one_that_leaves_it_open() -> None:
    data = text(table(born=early("%d/%m/%Y"), seen=days("%d/%m/%Y"), a=AGED)).encode()
    found = recognise_here(data)
    assert (found.open, found.form.dates) == ((), ("%d/%m/%Y",))
    assert "as in 'seen'" in found.columns[0].evidence


def test_declared_dates_are_asked_about_no_more() -> None:
    data = text(table(born=early("%d.%m.%Y"), a=AGED), ";").encode()
    found = recognise_here(data, TableFormat(dates=("%m.%d.%Y",)))
    assert (found.open, found.columns[0].body["type"]) == ((), "date")
    assert not [one for one in found.proposals if one.key == "dates"]


def test_a_comma_before_three_digits_is_asked_where_nothing_answers_it() -> None:
    data = text(table(x=[f"{one},{one + 100}" for one in AGES], town=TOWNS), ";").encode()
    found = recognise_here(data)
    (asked,) = found.open
    assert (asked.key, asked.choices) == ("decimal", (".", ","))
    small, large = (found.chosen("decimal", sign).columns[0].body for sign in (",", "."))
    assert (small["high"], large["high"]) == (100, 100_000)
    assert read_as_proposed(data, found.chosen("decimal", ",")).texts["x"][0] == f"{AGES[0]}.{AGES[0] + 100}"
    assert read_as_proposed(data, found.chosen("decimal", ".")).texts["x"][0] == f"{AGES[0]}{AGES[0] + 100}"


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_point_before_three_digits_is_asked_unless_commas_separate_cells(separator: str) -> None:
    columns = table(x=[f"{one}.{one + 100}" for one in AGES], town=TOWNS)
    data = text(columns, separator).encode()
    found = recognise_here(data)
    (asked,) = found.open
    assert (asked.key, asked.choices) == ("decimal", (".", ","))
    # Each way can be declared for the column by itself, as a draft proposes it.
    assert [(one["decimal"], one.get("thousands")) for one in found.columns[0].choices] == [(".", None), (",", ".")]
    assert read_as_proposed(data, found.chosen("decimal", ",")).texts["x"][0] == f"{AGES[0]}{AGES[0] + 100}"
    commas = recognise_here(text(columns).encode())
    assert (commas.open, commas.columns[0].body["high"]) == ((), 100)


def test_a_column_without_a_name_beside_one_that_is_named_by_a_year() -> None:
    data = text({"2019": AGED, "": AGED, "town": TOWNS}).encode()
    found = recognise_here(data)
    assert [one.name for one in found.columns] == ["2019", "column_2", "town"]
    assert read_as_proposed(data, found).texts["column_2"] == AGED


def test_another_column_answers_for_a_comma_before_three_digits() -> None:
    data = text(table(x=[f"{one},{one + 100}" for one in AGES], y=[*map(comma, COSTS)]), ";").encode()
    found = recognise_here(data)
    assert found.open == ()
    assert read_as_proposed(data, found).texts["x"][0] == f"{AGES[0]}.{AGES[0] + 100}"


def test_two_notations_of_numbers_are_kept_apart() -> None:
    data = text(table(x=[*map(comma, COSTS)], z=[*map(grouped(".", ","), COSTS)], y=[*map(point, COSTS)]), ";").encode()
    found = recognise_here(data)
    read = read_as_proposed(data, found)
    assert all([*map(float, read.texts[name])] == COSTS for name in "xyz")


def proposed(**columns: Column) -> dict[str, ColumnProposal]:
    return {one.name: one for one in recognise_here(text(columns).encode()).columns}


def test_no_column_is_left_out_because_its_values_differ() -> None:
    many = [*map(point, [one + place / 7 for place, one in enumerate(COSTS)])]
    each = [str(date(1990, 1, 1) + timedelta(7 * place)) for place in range(ROWS)]
    found = proposed(
        cost=many, day=each, code=[f"F{place:04}" for place in range(ROWS)], n=[*map(str, range(500, 800))]
    )
    assert [one.body["type"] for one in found.values()] == ["number", "date", "identifier", "number"]


def test_codes_in_few_rows_are_no_ids() -> None:
    few = [f"F{place:04}" if place % 10 == 0 else "" for place in range(ROWS)]
    assert proposed(code=few, a=AGED)["code"].body == {"type": "drop"}


def test_texts_that_nearly_all_differ_are_left_out_with_the_reason() -> None:
    words = [
        f"{'abcdefghij'[place % 10]} seen on ward {'klmnopqrst'[place // 10 % 10]}{'uvw'[place // 100]}"
        for place in range(ROWS)
    ]
    found = proposed(said=words, a=AGED)["said"]
    assert found.body == {"type": "drop"}
    assert "300 different texts in 300 cells" in found.evidence


def test_rare_values_are_counted_and_not_shown() -> None:
    towns = [
        "hidden" if place < 19 else "secret" if place < 24 else "north" if place % 2 else "south"
        for place in range(ROWS)
    ]
    found = proposed(town=towns, a=AGED)["town"]
    assert (found.body["values"], found.body["other"], found.rarer) == (["north", "south"], True, 2)
    assert "hidden" not in repr(found)
    assert "2 rarer values, each in fewer than 20 rows" in found.note


def test_a_value_needs_a_share_of_the_rows_too() -> None:
    data = text(table(town=["rare"] * 25 + ["north"] * 3_000)).encode()
    (town,) = recognise_here(data).columns
    assert (town.body["values"], town.rarer) == (["north"], 1)


def test_ranges_end_at_round_numbers_outside_of_the_values() -> None:
    for low, high in ((0.42, 80.0), (1122, 63770), (-3.7, 4.1), (17, 17), (0.0, 0.0), (1e-7, 3e-7), (2**40, 2**41)):
        whole = float(low).is_integer() and float(high).is_integer()
        first, last, step = round_range(low, high, 3, is_whole=whole)
        assert first <= low <= high <= last
        assert first < last
        assert step > 0
        if not whole or high - low > 40:
            assert last - first <= 2.1 * (high - low) or high == low


def test_numbers_for_nothing_are_special_only_far_from_the_others() -> None:
    codes = ["999" if gap else str(one) for one, gap in zip(AGES, GAPS, strict=True)]
    near = ["99" if gap else str(one) for one, gap in zip(AGES, GAPS, strict=True)]
    below = ["-1" if gap else str(one) for one, gap in zip(AGES, GAPS, strict=True)]
    scale = [str(place % 7 - 3) for place in range(ROWS)]
    found = proposed(codes=codes, near=near, below=below, scale=scale)
    assert [one.body.get("special") for one in found.values()] == [[999], None, [-1], None]
    assert found["scale"].body.items() >= {"low": -3, "high": 3}.items()


def test_an_identifier_says_how_many_rows_share_a_value() -> None:
    found = proposed(case=[f"P{place // 3:05}" for place in range(ROWS)], a=AGED)["case"]
    assert (found.body, found.rows_per_value) == ({"type": "identifier"}, 3)


def test_few_values_under_a_name_of_an_identifier_are_a_number() -> None:
    found = proposed(admission_type_id=[str(place % 5) for place in range(ROWS)], a=AGED)
    assert found["admission_type_id"].body["type"] == "number"


def test_units_that_differ_within_a_column_are_no_number() -> None:
    weights = [f"{one} {'kg' if place % 2 else 'g'}" for place, one in enumerate(AGES)]
    assert proposed(weight=weights, a=AGED)["weight"].body["type"] != "number"


def test_codes_among_numbers_stay_codes() -> None:
    codes = [f"{250 + place % 3}.{place % 10}" if place % 50 else f"V{place % 5 + 40}" for place in range(ROWS)]
    assert proposed(diagnosis=codes, a=AGED)["diagnosis"].body["type"] != "number"


def test_a_country_called_na_is_a_country() -> None:
    countries = [("NA", "DE", "FR", "IT", "ES", "PL", "CZ")[place % 7] for place in range(ROWS)]
    found = recognise_here(text(table(country=countries, x=with_missing(AGED, "NA"))).encode())
    assert "NA" in found.columns[0].body["values"]
    assert found.form.missing == ("", "NA")


def test_names_written_like_numbers_above_other_numbers_are_no_row_and_no_secret() -> None:
    found = recognise_here(text({"2019": AGED, "2020": [*map(str, BIG)]}).encode())
    assert found.form.names == ("2019", "2020")


def test_a_column_without_values_is_left_out() -> None:
    found = proposed(nothing=[""] * ROWS, a=AGED)["nothing"]
    assert (found.body, found.evidence) == ({"type": "drop"}, "all 300 cells are empty")


def test_notations_of_a_data_frame_are_those_of_its_columns() -> None:
    data = text(
        table(cost=[f'"{grouped(".", ",")(one)}"' for one in COSTS], x=[repr(one / 8) for one in AGES])
    ).encode()
    found = recognise_here(data, TableFormat(separator=",", kind="csv"), alone=True)
    assert found.form == TableFormat(separator=",", kind="csv")
    assert found.columns[0].body.items() >= {"decimal": ",", "thousands": "."}.items()
    read = read_as_proposed(data, found)
    assert [*map(float, read.texts["cost"])] == COSTS
    assert [*map(float, read.texts["x"])] == [one / 8 for one in AGES]


# Without a look -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("Größe;Kosten (€)", "cp1252"),
        ("Women\u2019s ward;Nurses\u2019 notes", "cp1252"),
        ("O\u2019Brien;Don\u2019t know", "cp1252"),
        ("Imię;Płeć;Województwo", "cp1250"),
        ("年齢,性別,都道府県", "cp932"),
        ("Возраст;Пол", "cp1251"),
    ],
)
def test_without_a_look_the_header_line_alone_speaks(header: str, encoding: str) -> None:
    line = header.encode(encoding)
    sign = ";" if ";" in header else ","
    for row in ("1" + f"{sign}2" * header.count(sign), "\x80\x81ä", "", "ж" * 90):
        found = recognise_here(line + b"\n" + row.encode("utf-8") + b"\n", look=False)
        assert [(one.key, one.value) for one in found.proposals] == [("encoding", encoding)]
        assert (found.columns, found.rows, found.looked) == ((), 0, False)


def test_without_a_look_a_stated_separator_is_proposed_and_a_first_row_says_nothing() -> None:
    assert [one.key for one in recognise_here(b"sep=;\na;b\n1;2\n", look=False).proposals] == ["separator"]
    form = TableFormat(header=False, names=("a", "b"), separator=",")
    assert recognise_here("Größe,1\n".encode("cp1252"), form, look=False).proposals == ()


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 50, b"\xff\xfe", b"PAR1" + b"x" * 40, b"PK\x03\x04" + b"x" * 40, b'"\n"' * 9]
)
def test_a_broken_file_is_refused_or_proposed_about(data: bytes) -> None:
    for look in (False, True):
        with suppress(InputError):
            assert recognise_here(data, look=look).looked is look


@pytest.mark.parametrize(
    ("data", "types"),
    [
        (b"a,b\n" + b"".join(b"%s,1\n" % (b"1" * 9_000) for _ in range(60)), ["category", "number"]),
        (b"a,b\n" + b"".join(b"%s,1\n" % (b"1." * 4_000) for _ in range(60)), ["category", "number"]),
        (b"a,b\n" + b'"' * 10**5 + b"\n1,2\n" * 50, ["number", "number"]),
    ],
    ids=["long numbers", "long texts", "quotation marks"],
)
def test_long_cells_are_words(data: bytes, types: list[str]) -> None:
    assert [column.body["type"] for column in recognise_here(data).columns] == types


def test_a_long_line_in_no_encoding_is_refused() -> None:
    with pytest.raises(TableError, match="This does not look like UTF-8 text"):
        recognise_here(bytes(range(128, 256)) * 5_000 + b"\n1\n")


def test_lines_that_are_no_rows_are_counted() -> None:
    found = recognise_here((text(PLAIN) + "1,2\n\n").encode())
    assert (found.rows, found.unreadable, found.blank) == (ROWS + 1, 1, 1)


def test_the_process_answers_what_is_recognised_here() -> None:
    data = text(GERMAN, ";").encode("cp1252")
    assert recognise(io.BytesIO(data), look=True) == recognise_here(data)
