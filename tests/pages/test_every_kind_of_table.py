"""Every kind of table that people have, on the pages, on the command line and from Python: the rows of a bundle hold
nothing but declared values, and few of them missing; or a sentence names the column before anything is charged.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from driving import go, new_people, open_app, texts, uploader, wait_for_run
from typed_files import sas7bdat, statistical, xls, xlsb

import synth
from pages.ui.session import application
from synth.application import Application
from synth.cli.commands import main
from synth.errors import InputError, NotAsDeclaredError
from synth.reading.more.ods import write_ods
from synth.reading.more.xlsx import write_xlsx

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("worker_here", "without_trial")]

ROWS = 600
FIVE = np.arange(ROWS) % 5


def number(low: float, high: float, step: float = 1, **more: Any) -> dict[str, Any]:
    return {"type": "number", "low": low, "high": high, "step": step, "missing": True, **more}


def words(*values: str, **more: Any) -> dict[str, Any]:
    return {"type": "category", "values": list(values), "missing": True, **more}


def date(low: str, high: str) -> dict[str, Any]:
    return {"type": "date", "low": low, "high": high, "step": "month", "missing": True}


@dataclass(frozen=True)
class Kind:
    """A table and what is declared of it.

    ``content`` is a DataFrame, or a file with its name. ``values`` are all that a column may hold, and at least two of
    them; where none is listed, any two. ``refused`` are words of the sentence, where there is no release. ``more`` are
    other lines of a configuration.
    """

    content: pd.DataFrame | Callable[[], bytes]
    columns: dict[str, Any]
    values: dict[str, set[str]]
    name: str = "table.parquet"
    refused: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def file(self) -> bytes:
        if not isinstance(self.content, pd.DataFrame):
            return self.content()
        target = io.BytesIO()
        pa.parquet.write_table(pa.Table.from_pandas(self.content, preserve_index=False), target)
        return target.getvalue()

    def config(self) -> dict[str, Any]:
        return {
            "account": "survey",
            "unit": {"protects": "person", "rows_per_unit": 1, "id_column": None},
            "row_count": "private",
            "people_at_most": 200_000,
            "holdout": 0,
            "budget": {"epsilon": 2.0},
            "generator": {"name": "independent"},
            "rows": 100,
            "columns": self.columns,
            **self.more,
        }


def texts_of(low: int, high: int) -> set[str]:
    return set(map(str, range(low, high)))


def moments() -> pd.DataFrame:
    """Days of one year, and one moment that no calendar holds."""
    seconds = np.datetime64("2024-01-01", "s") + (np.arange(ROWS) % 360 * 86_400).astype("timedelta64[s]")
    seconds[-1] = np.array(2**53).astype("datetime64[s]")
    return pd.DataFrame({"t": seconds})


TOWNS = ["Zürich", "Bern"]
BIG = [str(2**53 + place) for place in (1, 2, 3)]
CENTS = (np.arange(ROWS) * 1_234_567 % 10**8 / 100).round(2)

FRAMES: dict[str, Kind] = {
    "one date beyond the calendar": Kind(moments(), {"t": date("2024-01-01", "2024-12-31")}, {"t": set()}),
    "whole numbers above 2**53": Kind(
        pd.DataFrame({"b": [int(BIG[place % 3]) for place in range(ROWS)]}), {"b": words(*BIG)}, {"b": set(BIG)}
    ),
    "durations": Kind(
        pd.DataFrame({"d": pd.to_timedelta(FIVE, unit="min")}),
        {"d": number(0, 4, duration="minutes")},
        {"d": texts_of(0, 5)},
    ),
    "lists": Kind(
        pd.DataFrame({"l": [[1, 2]] * ROWS, "x": FIVE}), {"l": words("a"), "x": number(0, 4)}, {}, refused="'l'"
    ),
    "bytes": Kind(
        pd.DataFrame({"k": [f"k{one}".encode() for one in FIVE]}),
        {"k": words(*(f"k{one}" for one in range(5)))},
        {"k": {f"k{one}" for one in range(5)}},
    ),
    "decomposed letters": Kind(
        pd.DataFrame({"town": ["Zu\N{COMBINING DIAERESIS}rich" if one else "Bern" for one in FIVE % 2]}),
        {"town": words(*TOWNS, other=True)},
        {"town": {*TOWNS, "other"}},
    ),
    "cents up to a million": Kind(pd.DataFrame({"paid": CENTS}), {"paid": number(0, 1_000_000, 0.01)}, {"paid": set()}),
    "times of day": Kind(
        pd.DataFrame({"t": [datetime.time(int(one), 30) for one in FIVE]}),
        {"t": {"type": "time", "step": "quarter", "missing": True}},
        {"t": set()},
    ),
}

PEOPLE = pd.DataFrame({"n": FIVE, "town": [("Ayr", "Leith", "Bute")[place % 3] for place in range(ROWS)]})
CELLS = [list(PEOPLE.columns), *PEOPLE.to_numpy().tolist()]
IN_WORDS = [list(map(str, row)) for row in CELLS]
COLUMNS = {"n": number(0, 4), "town": words("Ayr", "Leith", "Bute")}
HELD = {"n": texts_of(0, 5), "town": {"Ayr", "Leith", "Bute"}}
file_of_people = partial(Kind, columns=COLUMNS, values=HELD)


def text(separator: str = ",") -> bytes:
    return PEOPLE.to_csv(index=False, sep=separator).encode()


def feather() -> bytes:
    target = io.BytesIO()
    pa.feather.write_feather(PEOPLE, target)
    return target.getvalue()


def fixed() -> bytes:
    return "".join(f"{row.n}{row.town:6}\r\n" for row in PEOPLE.itertuples()).encode()


def german() -> bytes:
    """As a German hospital's program writes: Windows' letters, decimal commas and points, days first."""
    lines = ["Aufnahme;Größe (cm);Kosten (€);Raucher"]
    for place in range(ROWS):
        euros = f"{place % 3}.{place % 900 + 100}" if place % 3 else f"{place % 900 + 100}"
        smokes = ("ja", "nein", "")[place % 3]
        day, month, size = 1 + place % 28, 1 + place % 12, f"{160 + place % 30},{place % 10}"
        lines.append(f"{day:02d}.{month:02d}.2023;{size};{euros},50;{smokes}")
    return "\r\n".join([*lines, ""]).encode("cp1252")


def wide(columns: int, rows: int = ROWS) -> bytes:
    cells = np.random.default_rng(5).integers(0, 3, (rows, columns))
    return pd.DataFrame(cells, columns=[f"q{place}" for place in range(columns)]).to_csv(index=False).encode()


YES = {"type": "number", "low": 0, "high": 1, "step": 1, "fallback": 0}


def of_wide(columns: int) -> Kind:
    declared = {f"q{place}": {**YES, "high": 2} for place in range(columns)}
    held = {"q0": texts_of(0, 3), f"q{columns - 1}": texts_of(0, 3)}
    return Kind(partial(wide, columns), declared, held, "wide.csv")


def incomes() -> bytes:
    drawn = np.random.default_rng(5)
    earned = np.minimum(np.exp(drawn.normal(9.5, 1.1, 2000)), 9.9e6).round().astype(int)
    return pd.DataFrame({"income": earned, "age": drawn.integers(18, 90, 2000)}).to_csv(index=False).encode()


def answers() -> bytes:
    return ("a,b\n" + "".join(f"{place % 2},{place % 3 % 2}\n" for place in range(891))).encode()


FILES: dict[str, Kind] = {
    "csv": file_of_people(text, name="people.csv"),
    "tsv": file_of_people(partial(text, "\t"), name="people.tsv"),
    "fixed": file_of_people(
        fixed, name="people.txt", more={"format": {"fields": {"n": "1-1", "town": "2-7"}, "encoding": "utf-8"}}
    ),
    "feather": file_of_people(feather, name="people.feather"),
    "xlsx": file_of_people(partial(write_xlsx, IN_WORDS), name="people.xlsx"),
    "ods": file_of_people(partial(write_ods, IN_WORDS), name="people.ods"),
    "xls": file_of_people(partial(xls, CELLS), name="people.xls"),
    "xlsb": file_of_people(partial(xlsb, CELLS), name="people.xlsb"),
    "sav": file_of_people(partial(statistical, "sav", PEOPLE), name="people.sav"),
    "dta": file_of_people(partial(statistical, "dta", PEOPLE), name="people.dta"),
    "xpt": file_of_people(partial(statistical, "xpt", PEOPLE), name="people.xpt"),
    "sas7bdat": Kind(
        sas7bdat,
        {name: {"type": "drop"} for name in ("patno", "dtc1", "dtc2", "dtc4", "tm1", "dt1", "dt2")}
        | {name: date("1960-01-01", "2029-12-31") for name in ("dtc3", "yr")},
        {},
        "dates.sas7bdat",
    ),
    "german": Kind(
        german,
        {
            "Aufnahme": date("2023-01-01", "2023-12-31"),
            "Größe (cm)": number(160, 190, 0.1),
            "Kosten (€)": number(0, 3000, 0.5),
            "Raucher": {"type": "yes_no", "yes": "ja", "no": "nein", "missing": True},
        },
        {"Größe (cm)": set(), "Kosten (€)": set(), "Aufnahme": set()},
        "german.csv",
        more={
            "format": {"separator": ";", "encoding": "cp1252", "decimal": ",", "thousands": ".", "dates": ["%d.%m.%Y"]}
        },
    ),
    "a name that is a value": Kind(
        lambda: ("x,c\n" + "".join(f"{place % 5},{'abc'[place % 3]}\n" for place in range(ROWS))).encode(),
        {"x": number(0, 4), "c": words("a", "b", "c")},
        {"x": texts_of(0, 5), "c": {"a", "b", "c"}},
        "header.csv",
    ),
    "two answers of a public number": Kind(
        answers,
        {"a": YES, "b": YES},
        {"a": {"0", "1"}, "b": {"0", "1"}},
        "answers.csv",
        more={"row_count": "public", "number_of_units": 891, "generator": {"name": "dp-hp-adaptive"}},
    ),
    "incomes to ten million": Kind(
        incomes,
        {"income": number(0, 10_000_000), "age": number(0, 110)},
        {"income": set(), "age": set()},
        "incomes.csv",
        more={"generator": {"name": "dp-hp-adaptive"}},
    ),
    "300 columns": of_wide(300),
    "1,000 columns": of_wide(1000),
}

KINDS = {**FRAMES, **FILES}


def on_the_page(kind: Kind, folder: Path) -> str:
    app = new_people(go(open_app(), "upload"), "survey")
    uploader(app, "codebook").upload("codebook.yaml", json.dumps(kind.config()).encode(), "application/yaml")
    app.run()
    uploader(app, "table").upload(kind.name, kind.file(), "application/octet-stream")
    app.run()
    if "draft" not in app.session_state or not app.session_state["draft"].get("table_id"):
        raise InputError(texts(app))
    for page, button in (("describe", "continue-budget"), ("generate", "spend"), ("generate", "confirm-spend")):
        app = app if button == "confirm-spend" else go(app, page)
        if not any(one.key == button for one in app.button):
            raise InputError(texts(app))
        app.button(key=button).click().run()
    assert wait_for_run(app) == "reported", texts(app)
    made: Path = application().folder(app.session_state["draft"]["run_id"])
    (folder / "bundle.zip").write_bytes((made / "bundle.zip").read_bytes())
    return (made / "synthetic.csv").read_text(encoding="utf-8")


def written(kind: Kind, folder: Path) -> Path:
    (folder / kind.name).write_bytes(kind.file())
    path = folder / "c.yaml"
    path.write_text(json.dumps({"table": str(folder / kind.name), **kind.config()}), encoding="utf-8")
    return path


def on_the_command_line(kind: Kind, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["run", str(written(kind, folder)), "--out", str(folder / "out"), "--no-owner-report"])
    if code:
        raise InputError(capsys.readouterr().err)
    (folder / "out" / "bundle.zip").rename(folder / "bundle.zip")
    return (folder / "out" / "synthetic.csv").read_text(encoding="utf-8")


def from_python(kind: Kind, folder: Path) -> str:
    if isinstance(kind.content, pd.DataFrame):
        said = kind.config()
        declared = {"unit": said["unit"], "row_count": said["row_count"], "columns": said["columns"]}
        how = {"epsilon": 2.0, "people_at_most": said["people_at_most"], "generator": "independent", "rows": 100}
        release = synth.Release(kind.content, declared, account="survey", holdout=0, **how).fit()
        path = release.bundle_
    else:
        path = synth.run(synth.load_config(written(kind, folder)), folder / "out").bundle
    (folder / "bundle.zip").write_bytes(Path(path).read_bytes())
    return (Path(path).parent / "synthetic.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("face", ["page", "command line", "Python"])
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_table_becomes_a_release_or_is_refused_by_the_name_of_a_column(
    name: str, face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, folder = KINDS[name], tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    make = {"page": on_the_page, "command line": partial(on_the_command_line, capsys=capsys), "Python": from_python}
    if kind.refused:
        with pytest.raises((InputError, NotAsDeclaredError), match=kind.refused):
            make[face](kind, folder)
        with Application.from_environment() as opened:
            known = opened.store.accounts.named("survey")
            assert known is None or opened.account("survey").epsilon_spent == 0
        return
    rows = list(csv.DictReader(io.StringIO(make[face](kind, folder))))
    assert len(rows) == 100
    for column, allowed in kind.values.items():
        cells = [row[column] for row in rows]
        filled = [cell for cell in cells if cell]
        assert len(filled) >= 0.9 * len(cells), column
        assert not allowed or set(filled) <= allowed, column
        assert len(set(filled)) > 1, column
    assert synth.verify(folder / "bundle.zip").ok
