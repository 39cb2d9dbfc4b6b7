"""What fails for declared reasons fails before the charge, in one sentence; what passes ends in a bundle."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from synth import verify
from synth.application import Application
from synth.bundle.replay import replay
from synth.cli.local import RunResult, run_locally
from synth.errors import SynthError, TableError
from synth.reading.reader import read_codes
from synth.schema import (
    CategoryColumn,
    DateColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    TableFormat,
    YesNoColumn,
)
from synth.services.first_reading import read_once
from synth.services.inspection import inspect_header
from synth.store import ChargeState
from synth.system.settings import ReaderLimits

SIGNS = ("=lab", "@handle", "+change", "-delta")
CONFIG = RunConfig(
    schema=Schema((NumberColumn("age", 0, 99, 1, missing=True),), number_of_units=40),
    account="town",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=20,
    generator="independent",
    holdout=0.0,
)


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)


def written(path: Path, config: RunConfig, rows: int = 40) -> Path:
    """Write a table with the declared columns, cells taken from what is declared in turn."""
    values = {
        column.name: column.words if not isinstance(column, NumberColumn) else ("3", "57", "")
        for column in config.schema.modelled
    }
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(values)
        writer.writerows([texts[row % len(texts)] for texts in values.values()] for row in range(rows))
    return path


def bundled(folder: Path, config: RunConfig) -> RunResult:
    """Run a configuration on a table of its own, up to its bundle."""
    return run_locally(config, folder / "out", table=written(folder / "people.csv", config), owner_report=False)


@pytest.mark.thorough
def test_names_and_values_that_a_spreadsheet_would_run_end_in_a_bundle(tmp_path: Path) -> None:
    columns = (
        *(CategoryColumn(name, tuple(f"{sign}s" for sign in SIGNS), missing=True) for name in SIGNS),
        YesNoColumn("'quoted', \"twice\"", yes="+", no="-", fallback="-"),
    )
    config = replace(CONFIG, schema=Schema(columns, number_of_units=40))
    result = bundled(tmp_path, config)
    verdict = verify(result.bundle)
    assert verdict.ok, verdict.json["failures"]
    assert replay(result.bundle, tmp_path / "again").as_certified


DAYS = (datetime.date(2020, 1, 1), datetime.date(2024, 1, 1))
AGE = CONFIG.schema.columns[0]


def declared(*columns: Any, **settings: Any) -> dict[str, Any]:
    return {"schema": Schema((AGE, *columns), **{"number_of_units": 40, **settings})}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a pattern that names a part twice": (
        declared(DateColumn("day", *DAYS, pattern="%d-%d", missing=True)),
        "pattern must be like %d/%m/%Y, got %d-%d",
    ),
    "an account that is a path": ({"account": "/home/data/town"}, "contains a path of a machine"),
    "a category that is a path": (
        declared(CategoryColumn("where", ("/srv/data", "b"), fallback="b")),
        "contains a path of a machine",
    ),
    "a unit that reads like a private number": (
        declared(unit=PrivacyUnit("owner-only member")),
        "contains an owner-only number",
    ),
    "none to learn from": ({"holdout": 0.99}, "leaves none to learn from"),
    "none of several rows to learn from": (
        {
            **declared(
                IdentifierColumn("who"),
                unit=PrivacyUnit(rows_per_unit=3, id_column="who"),
                number_of_units=2,
                people="whole",
            ),
            "holdout": 0.9,
        },
        "holdout: 0.9 of 2 people leaves none to learn from",
    ),
    "fewer people than units": ({"people_at_most": 10}, "people_at_most must be at least number_of_units"),
    "half a character": (declared(CategoryColumn("member", ("a", "b\ud800"), fallback="a")), "lone surrogate"),
    "more rows of a unit than noise can hide": (
        declared(unit=PrivacyUnit(rows_per_unit=10**9), number_of_units=None),
        "No grid carries the noise",
    ),
    "a format of another separator": (
        {**declared(YesNoColumn("member", yes="b", fallback="b")), "format": TableFormat(separator=";")},
        "names none of the declared columns",
    ),
    "a format that passes over the header": ({"format": TableFormat(skip_rows=1)}, "none of the declared columns"),
    "a format of Parquet": ({"format": TableFormat(kind="parquet")}, "not a Parquet file"),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_declared_fails_in_one_sentence_and_charges_nothing(name: str, tmp_path: Path) -> None:
    changes, words = REFUSED[name]
    config = replace(CONFIG, **changes)
    table = tmp_path / "people.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(
            [[column.name for column in config.schema], *[["3", *["b"] * (len(config.schema.columns) - 1)]] * 40]
        )
    with Application.from_environment() as application:
        # As a browser does it: the format of the configuration may be another than that of the upload.
        with table.open("rb") as stream:
            table_id = application.intake.receive(stream, account="town", name="people.csv").table_id
        with pytest.raises(SynthError, match=words) as caught:
            carried_out(application, config, table_id)
        assert "\n" not in str(caught.value)
        assert charged(application) == []


def carried_out(application: Application, config: RunConfig, table_id: str) -> None:
    """Do what a worker does, in this process."""
    from synth.progress import NullProgress
    from synth.services.runs import carry_out

    application.open_account("town")
    if config.account != "town":
        # The table is of another account then, which has a refusal of its own.
        with Path(application.settings.home).parent.joinpath("people.csv").open("rb") as stream:
            table_id = application.intake.receive(stream, account=config.account, name="people.csv").table_id
    run = application.reserve(config, table_id=table_id)
    carry_out(application.installation, run.id, NullProgress())


def charged(application: Application) -> list[ChargeState]:
    states = [
        charge.state for account in application.store.accounts.all() for charge in application.ledger.rows(account.id)
    ]
    return [state for state in states if state not in (ChargeState.RESERVED, ChargeState.FREED)]


def test_a_file_whose_name_every_bundle_holds_charges_nothing(tmp_path: Path) -> None:
    # "rows" stands in every README.txt, so the linter could not tell it from the name of the file.
    table = written(tmp_path / "people.csv", CONFIG).rename(tmp_path / "rows")
    with pytest.raises(SynthError, match="the uploaded file"):
        run_locally(CONFIG, tmp_path / "out", table=table)
    with Application.from_environment() as application:
        assert charged(application) == []
        assert application.account("town").epsilon_spent == 0


@pytest.mark.thorough
def test_a_column_called_like_a_count_of_rows_ends_in_a_bundle(tmp_path: Path) -> None:
    config = replace(CONFIG, **declared(NumberColumn("n_rows", 0, 99, 1, missing=True)))
    result = bundled(tmp_path, config)
    assert verify(result.bundle).ok


def test_a_file_called_like_the_account_ends_in_a_bundle(tmp_path: Path) -> None:
    config = replace(CONFIG, account="people.csv")
    result = bundled(tmp_path, config)
    assert verify(result.bundle).ok


LONG = "town" * 50
ROWS = [["age", "where"], *[[str(row % 90), LONG] for row in range(300)]]
TEXT = "\n".join(",".join(row) for row in ROWS).encode()
TWO = declared(CategoryColumn("where", ("a",), other=True))["schema"]


def as_parquet() -> bytes:
    buffer = io.BytesIO()
    columns = {name: [row[place] for row in ROWS[1:]] for place, name in enumerate(ROWS[0])}
    pa.parquet.write_table(pa.table(columns), buffer, use_dictionary=False)
    return buffer.getvalue()


LIMITS: dict[str, tuple[bytes, ReaderLimits, str]] = {
    "rows of a text": (TEXT, ReaderLimits(rows=299), "more than 299 rows"),
    "rows of a gzip file": (gzip.compress(TEXT), ReaderLimits(rows=299), "more than 299 rows"),
    "rows of Parquet": (as_parquet(), ReaderLimits(rows=299), "more than 299 rows"),
    "bytes of the file": (TEXT, ReaderLimits(input_bytes=len(TEXT) - 1), "The file is larger than"),
    "bytes of Parquet": (as_parquet(), ReaderLimits(input_bytes=500), "The file is larger than"),
    "bytes in gzip": (gzip.compress(TEXT), ReaderLimits(text_bytes=len(TEXT) - 1), "inside the gzip file is larger"),
    "bytes in Parquet": (as_parquet(), ReaderLimits(text_bytes=1_000), "inside the Parquet file is larger"),
    "columns": (TEXT, ReaderLimits(columns=1), "at most 1 are read"),
    "columns of Parquet": (as_parquet(), ReaderLimits(columns=1), "at most 1 are read"),
    "memory": (TEXT, ReaderLimits(memory_bytes=32 * 2**20), "memory"),
    "time": (TEXT, ReaderLimits(wall_seconds=0.0), "took longer"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_of_the_reader_is_met_when_a_table_is_taken_in(name: str) -> None:
    data, limits, words = LIMITS[name]
    readings: list[Callable[[], object]] = [
        lambda: inspect_header(io.BytesIO(data), limits=limits),
        lambda: read_once(io.BytesIO(data), TableFormat(), TWO, limits=limits),
        lambda: read_codes(lambda: io.BytesIO(data), TableFormat(), TWO, limits=limits),
    ]
    for reading in readings:
        with pytest.raises(TableError, match=words):
            reading()


@pytest.mark.parametrize("data", [TEXT, gzip.compress(TEXT), as_parquet()], ids=["text", "gzip", "Parquet"])
def test_what_is_just_within_the_limits_is_read_everywhere(data: bytes) -> None:
    limits = ReaderLimits(rows=300, input_bytes=len(TEXT), text_bytes=len(TEXT) + 300 * 16, columns=2)
    assert inspect_header(io.BytesIO(data), limits=limits).n_rows == 300
    read_once(io.BytesIO(data), TableFormat(), TWO, limits=limits)
    assert read_codes(lambda: io.BytesIO(data), TableFormat(), TWO, limits=limits)._n_rows == 300


def test_a_table_of_too_many_rows_is_not_taken_in_and_opens_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    with Application.from_environment() as application:
        application.intake._limits = ReaderLimits(rows=299)
        with pytest.raises(TableError, match="more than 299 rows"):
            application.intake.receive(io.BytesIO(TEXT), account="town", name="people.csv")
        assert application.accounts() == []
        assert application.intake.tables() == []


def test_a_table_that_was_taken_in_before_its_limits_is_refused_when_a_run_is_reserved() -> None:
    config = replace(CONFIG, schema=TWO)
    with Application.from_environment() as application:
        table_id = application.intake.receive(io.BytesIO(TEXT), account="town", name="people.csv").table_id
        application.intake._limits = ReaderLimits(rows=299)
        with pytest.raises(TableError, match="more than 299 rows"):
            application.reserve(config, table_id=table_id)
        assert list(application.ledger.rows(application.store.accounts.all()[0].id)) == []


def test_the_reading_of_a_run_has_more_time_and_memory_than_those_before_it() -> None:
    before, run = ReaderLimits(), ReaderLimits().once_more
    assert run.cpu_seconds > before.cpu_seconds
    assert run.wall_seconds > before.wall_seconds
    assert run.memory_bytes > before.memory_bytes
    sizes = ("input_bytes", "text_bytes", "rows", "columns", "cell_bytes")
    assert all(getattr(run, name) == getattr(before, name) for name in sizes)
