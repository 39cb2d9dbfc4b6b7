"""Neighbouring workbooks, statistics files and texts with a notation of their own, from bytes to the sealed bundle."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from audited_runs import NAMES, WORLDS, World, moved, rows_of_people, start_home, t5_whole_runs
from reading_faults import SHEET_FAULTS, STATISTICAL_FAULTS, plant_a_guessed_decimal_sign, plant_a_refusal
from reading_here import read_here
from sheets import ods, ods_row, ods_text, xlsx, xlsx_row
from typed_files import statistical, xls
from worlds import Row, neighbours_of

from synth.errors import TableError
from synth.reading import reader
from synth.schema import TableFormat

UNITS = 60
DAY_ZERO = datetime.date(1899, 12, 30)


@dataclass(frozen=True)
class Kind:
    """How rows become a file, and what somebody brings whose cells are of no kind that was declared.

    Every row has an age, and most have no day.
    """

    form: TableFormat
    file: Callable[[Sequence[Row]], bytes]
    brought: tuple[Row, ...]


def xlsx_cell(cell: str, texts: dict[str, int]) -> str:
    if cell.isdigit():
        return f"<c><v>{cell}</v></c>"
    if cell.startswith("2020-"):
        return f'<c s="1"><v>{(datetime.date.fromisoformat(cell) - DAY_ZERO).days}</v></c>'
    if not cell or cell.startswith("<"):
        return cell or "<c/>"
    return f'<c t="s"><v>{texts.setdefault(cell, len(texts))}</v></c>'


def ods_cell(cell: str) -> str:
    if cell.isdigit():
        return f'<t:table-cell o:value-type="float" o:value="{cell}"/>'
    if cell.startswith("2020-"):
        return f'<t:table-cell o:value-type="date" o:date-value="{cell}"/>'
    return cell if cell.startswith("<") else ods_text(cell)


def as_xlsx(rows: Sequence[Row]) -> bytes:
    """Texts are kept in the order that they first come in, so that one more row moves those of others."""
    texts: dict[str, int] = {}
    lines = [f"<row>{''.join(xlsx_cell(cell, texts) for cell in row.values())}</row>" for row in rows]
    return xlsx(xlsx_row(NAMES) + "".join(lines), strings=texts)


def as_ods(rows: Sequence[Row]) -> bytes:
    lines = (f"<t:table-row>{''.join(map(ods_cell, row.values()))}</t:table-row>" for row in rows)
    return ods(ods_row(NAMES) + "".join(lines))


def as_text(rows: Sequence[Row]) -> bytes:
    """Numbers with decimal commas, days as Germans write them, and a second row of names."""
    lines = [NAMES, tuple(f"Q{place}" for place in range(len(NAMES)))]
    for row in rows:
        who, age, town, seen, well = row.values()
        lines.append((who, f"{age},0" if age.isdigit() else age, town, ".".join(reversed(seen.split("-"))), well))
    return "".join(";".join(line) + "\n" for line in lines).encode()


def as_fixed(rows: Sequence[Row]) -> bytes:
    """Cells of fixed widths; a day that is longer moves what is behind it."""
    lines = (f"{who:<6}{age:<4}{town:<8}{seen:<10}{well:<3}" for who, age, town, seen, well in map(dict.values, rows))
    return "".join(f"{line}\n" for line in lines).encode("latin-1")


def as_xls(rows: Sequence[Row]) -> bytes:
    def written(cell: str) -> Any:
        return float(cell) if cell.isdigit() else datetime.date.fromisoformat(cell) if cell[:5] == "2020-" else cell

    return xls([NAMES, *([written(cell) or None for cell in row.values()] for row in rows)])


STATISTICAL = ("sav", "dta")
NO_LABEL, NO_DAY, BAD = "3", "1e300", "~bad"


def as_statistical(kind: str, rows: Sequence[Row]) -> bytes:
    """Ages and days as numbers, yes and no as codes with labels, and one text in another encoding."""
    zero, unit = (datetime.date(1582, 10, 14), 86_400.0) if kind == "sav" else (datetime.date(1960, 1, 1), 1.0)

    def day(cell: str) -> float | None:
        if cell.startswith("2020-"):
            return unit * (datetime.date.fromisoformat(cell) - zero).days
        return float(cell) if cell else None

    columns = {name: [row[name] for row in rows] for name in NAMES}
    table = pd.DataFrame({
        "who": columns["who"],
        "age": [float(cell) if cell else None for cell in columns["age"]],
        "town": columns["town"],
        "seen": list(map(day, columns["seen"])),
        "well": [{"yes": 7.0, "no": 8.0, "": None}.get(cell, 3.0) for cell in columns["well"]],
    }).astype({"age": float, "seen": float, "well": float})  # fmt: skip
    said = {"variable_format": {"seen": "DATE11" if kind == "sav" else "%td"}}
    made = statistical(kind, table, variable_value_labels={"well": {7: "yes", 8: "no"}}, **said)
    return made.replace(BAD.encode(), b"\xff\xfe\xfa\xfb")


def cells(age: str, town: str, seen: str, well: str) -> Row:
    return dict(zip(NAMES, ("new", age, town, seen, well), strict=True))


XLSX_ERROR = '<c t="e"><v>#N/A</v></c>'
ODS_ERROR = '<t:table-cell calcext:value-type="error"><p:p>#N/A</p:p></t:table-cell>'
KINDS = {
    "xlsx": Kind(
        TableFormat(kind="xlsx"),
        as_xlsx,
        (
            cells("old", XLSX_ERROR, "2020-03-01", '<c r="ZZZZ9"/>'),
            cells('<c t="s"><v>x</v></c>', '<c s="77"><v>44000</v></c>', '<c s="1"><v>60</v></c>', "perhaps"),
            cells('<c r="B2"><v>1e400</v></c>', "Leith", "2020-03-01", '<c t="b"><v>7</v></c>'),
        ),
    ),
    "ods": Kind(
        TableFormat(kind="ods"),
        as_ods,
        (
            cells("old", ODS_ERROR, "2020-03-01", '<t:table-cell t:number-columns-repeated="16384"/>'),
            cells('<t:table-cell t:number-columns-repeated="9" o:string-value="7"/>', "Leith", "", ""),
            cells(
                '<t:table-cell o:value-type="float" o:value="x"/>', "<t:covered-table-cell/>", "2020-03-01", "perhaps"
            ),
        ),
    ),
    "fixed positions": Kind(
        TableFormat(
            fields=tuple(
                (name, first, last)
                for name, first, last in zip(NAMES, (1, 7, 11, 19, 29), (6, 10, 18, 28, 31), strict=True)
            ),
            encoding="latin-1",
        ),
        as_fixed,
        (
            cells("46.0", "Leith", "2020-02-31", "?"),
            cells("1.2", "Oban", "2020-03-01 at noon", "no"),
            cells("", "", "44000", "no"),
        ),
    ),
    "xls": Kind(
        TableFormat(kind="xls"),
        as_xls,
        (cells("old", "Leith", "2020-03-01", "perhaps"), cells("1e400", "7", "x" * 300, ""), cells("", "", "9", "no")),
    ),
    **{
        kind: Kind(
            TableFormat(kind=kind),
            partial(as_statistical, kind),
            (
                cells("1e300", BAD, NO_DAY, NO_LABEL),
                cells("-1", "Leith", "-1e300", NO_LABEL),
                cells("", BAD, "2020-03-01", ""),
            ),
        )
        for kind in STATISTICAL
    },
    "text": Kind(
        TableFormat(separator=";", header_rows=2, names_from=1, decimal=",", dates=("%d.%m.%Y",)),
        as_text,
        (
            cells("46.0", "Leith", "2020-02-31", "perhaps"),
            cells("1.234,5", "Oban;", "2020-03-01", '"'),
            cells("", "", "44000", "no"),
        ),
    ),
}


def rows_of(world: World) -> list[Row]:
    rows = rows_of_people(world, UNITS)
    return [row if place % 20 == 19 else row | {"seen": ""} for place, row in enumerate(rows)]


def check(name: str, world: World, home: Path, *, verify: bool = False) -> None:
    """One unit changes no public byte, and moves the exact answers no farther than the certificate says."""
    kind, rows = KINDS[name], rows_of(world)
    changed = neighbours_of(world, rows, kind.brought, person="new", id_column="who")
    config = replace(world.config(UNITS, "independent"), format=kind.form)
    others, heard = {name: kind.file(changed)}, []
    before, dictation = t5_whole_runs(config, kind.file(rows), others, home, verify=verify, heard=heard)
    certificate = json.loads(before["files"]["certificate.json"])
    assert any(moved(certificate, dictation, heard[0]).values()), "what somebody brings is not read"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("workbooks") / "home")


@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_of_a_file_changes_a_public_byte(kind: str, world: str, home: Path) -> None:
    check(kind, WORLDS[world], home, verify=True)


MOVED, REFUSED = "moved by", "refers to no text"
FAULTS = {
    **{f"{name}, {kind}": (kind, plant, MOVED) for name, plant in SHEET_FAULTS.items() for kind in ("xlsx", "ods")},
    **{
        f"{name}, {kind}": (kind, plant, MOVED) for name, plant in STATISTICAL_FAULTS.items() for kind in ("sav", "dta")
    },
    "one cell refuses a workbook, xlsx": ("xlsx", plant_a_refusal, REFUSED),
    "a decimal sign is guessed, text": ("text", plant_a_guessed_decimal_sign, MOVED),
}
"""The kind of file, the bug, and how it shows."""


@pytest.mark.audit
@pytest.mark.parametrize("world", ["replace one of several rows", "add or remove several rows"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_bug_shows_in_a_whole_run(
    fault: str, world: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, plant, shows = FAULTS[fault]
    monkeypatch.setattr(reader, "ask", read_here)
    plant(monkeypatch)
    with pytest.raises((AssertionError, TableError), match=shows):
        check(kind, WORLDS[world], home)
