"""Times of day: what becomes of cells of every kind, alone and beside dates, and how they are declared."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from reading_here import read_here

import synth
from synth.bundle.checks import check
from synth.cli.files import draft_configuration
from synth.cli.frames import FORMAT, frame_as_table
from synth.errors import SchemaError
from synth.reading.reader import read_codes
from synth.schema import (
    DateColumn,
    DropColumn,
    Schema,
    TableFormat,
    TimeColumn,
    TimeStep,
    config_of_text,
    config_to_yaml,
    encoding,
)
from synth.schema.columns import parse_column
from synth.schema.documents import read_mapping
from synth.schema.encoding import encode_cells

SHOP = TimeColumn("at", datetime.time(8), datetime.time(18, 30), TimeStep.QUARTER, missing=True)
MISSING = SHOP.size - 1


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("08:00", 0), ("8:14", 0), ("08:15", 1), ("08:15:59", 1), ("18:30", 42), ("18:44:59", 42),
        ("07:59", 0), ("23:59", 42),  # moved to the bounds
        ("2024-03-01 08:31", 2), ("2024-03-01T08:31:10.5+05:00", 2), ("2024-03-01T08:31Z", 2),
        ("2024-03-01", MISSING), ("", MISSING), ("25:00", MISSING), ("8", MISSING), ("08:61", MISSING),
        ("noon", MISSING), (":", MISSING), ("0" * 2000 + "8:00", MISSING),
    ],
)  # fmt: skip
def test_a_time_is_the_quarter_that_it_is_in(cell: str, code: int) -> None:
    assert encode_cells(SHOP, pa.array([cell])).codes.tolist() == [code]


def test_the_code_of_a_cell_follows_from_it_alone() -> None:
    cells = ["08:00", "9:10 PM", "", "2024-03-01 10:00", "x", "21:10", "12 AM", "08:00"]
    column = TimeColumn("at", pattern=("%I:%M %p", "%I %p"), fallback=datetime.time(3))
    together = encode_cells(column, pa.array(cells)).codes.tolist()
    assert together == [int(encode_cells(column, pa.array([cell])).codes[0]) for cell in cells]
    assert together == [480, 1270, 180, 600, 180, 1270, 0, 480]


def test_cells_that_do_not_fit_are_counted() -> None:
    counts = encode_cells(SHOP, pa.array(["08:00", "07:00", "", "x", None])).counts
    assert (counts.missing, counts.malformed, counts.outside) == (2, 1, 1)


def test_typed_cells() -> None:
    moment = datetime.datetime(2024, 3, 1, 8, 31, tzinfo=datetime.UTC)
    for cells in (
        pa.array([datetime.time(8, 31), None], pa.time32("s")),
        pa.array([datetime.time(8, 31), None], pa.time64("us")),
        pa.array([moment, None], pa.timestamp("us", "UTC")),
        pa.array([moment.replace(tzinfo=None), None], pa.timestamp("ns")),
    ):
        assert encode_cells(SHOP, cells).codes.tolist() == [2, MISSING], cells.type
    # A day has no time of day.
    assert encode_cells(SHOP, pa.array([moment.date()], pa.date32())).codes.tolist() == [MISSING]
    assert encode_cells(SHOP, pa.array([8.5, 510])).codes.tolist() == [MISSING, MISSING]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_date_and_its_time_are_read_from_one_column(kind: str) -> None:
    schema = Schema(
        (
            TimeColumn("came at", of="came", missing=True),
            DateColumn("came", datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), missing=True),
        )
    )
    moments = [datetime.datetime(2024, 1, 2, 14, 35), datetime.datetime(2024, 2, 1, 0, 0), None]
    target = io.BytesIO()
    if kind == "csv":
        target.write(b'came\n2024-01-02 14:35:10\n2024-02-01T00:00\n""\n')
    else:
        pyarrow.parquet.write_table(pa.table({"came": pa.array(moments, pa.timestamp("ms"))}), target)
    read = read_codes(lambda: io.BytesIO(target.getvalue()), TableFormat(), schema)
    assert read._codes["came"].tolist() == [1, 31, 366]
    assert read._codes["came at"].tolist() == [14 * 60 + 35, 0, 1440]


def test_a_column_of_its_own_name_goes_before_that_of_another() -> None:
    schema = Schema(
        (TimeColumn("at", of="came", fallback=datetime.time(1)), DateColumn("came", *YEAR, fallback=YEAR[0]))
    )
    read = read_codes(lambda: io.BytesIO(b"came,at\n2024-01-02 14:35,09:00\n"), TableFormat(), schema)
    assert read._codes["at"].tolist() == [540]


@pytest.mark.parametrize("pattern", [None, "%d.%m.%Y %I:%M %p"])
def test_moments_of_a_frame_are_read_as_date_and_time(pattern: str | None) -> None:
    came = DateColumn("came", datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), missing=True, pattern=pattern)
    at = TimeColumn("at", of="came", missing=True, pattern=pattern)
    moment = datetime.datetime(2024, 2, 1, 14, 35, 10)
    frame = pd.DataFrame({"came": pd.Series([moment, pd.Timestamp(moment), None, moment.date()], dtype=object)})
    expected = {"came": [31, 31, 366, 31], "at": [875, 875, 1440, 1440]}
    for schema in (Schema((came, at)), Schema((at, DropColumn("came")))):
        written = frame_as_table(frame, schema).getvalue()
        read = read_codes(lambda written=written: io.BytesIO(written), FORMAT, schema)  # type: ignore[misc]
        assert {name: read._codes[name].tolist() for name in schema.names} == {
            name: expected[name] for name in schema.names
        }
    alone = Schema((TimeColumn("at", missing=True),))
    written = frame_as_table(pd.DataFrame({"at": [datetime.time(14, 35, 10), None]}), alone).getvalue()
    assert read_codes(lambda: io.BytesIO(written), FORMAT, alone)._codes["at"].tolist() == [875, 1440]


def test_a_draft_carries_the_time_in_the_cells_of_a_date(tmp_path: Path) -> None:
    table, known = tmp_path / "table.csv", tmp_path / "known.yaml"
    table.write_text(
        "Came,pickup_datetime,visit_date\n2024-01-02 14:35,2024-01-02 14:35,2024-01-02\n", encoding="utf-8"
    )
    # By its name alone it is offered, and nothing stands for it until somebody takes the sign away.
    drafted = draft_configuration(str(table))
    assert drafted.count('# "pickup_datetime time": {type: time') == drafted.count("type: time") == 1
    offered = next(line for line in drafted.splitlines() if "pickup_datetime time" in line).replace("# ", "", 1)
    said = read_mapping("columns:\n" + offered)["columns"]
    assert parse_column("t", said["pickup_datetime time"]) == TimeColumn(
        "t", step=TimeStep.QUARTER, of="pickup_datetime"
    )
    known.write_text(
        "columns:\n  came: {type: date, low: 2024-01-01, high: 2024-12-31, missing: true}\n"
        "  came at: {type: time, step: quarter, of: came, missing: true}\n",
        encoding="utf-8",
    )
    columns = read_mapping(draft_configuration(str(table), dictionaries=[str(known)]))["columns"]
    assert list(columns) == ["Came", "came at", "pickup_datetime", "visit_date"]
    assert parse_column("at", columns["came at"]) == TimeColumn("at", step=TimeStep.QUARTER, of="Came", missing=True)


YEAR = (datetime.date(2024, 1, 1), datetime.date(2024, 12, 31))


def test_where_one_cell_is_hidden_it_is_not_two_columns() -> None:
    """The promise for cells is about one cell of the file, whose change would move both."""
    columns = (TimeColumn("at", of="came", missing=True), DateColumn("came", *YEAR, missing=True))
    with pytest.raises(SchemaError, match="'at' is read from the cells of 'came', so one cell would be two values"):
        Schema(columns, protection="cell", number_of_units=10)
    assert Schema(columns[:1], protection="cell", number_of_units=10)
    twice = (columns[0], TimeColumn("hour", step=TimeStep.HOUR, of="came", missing=True))
    with pytest.raises(SchemaError, match="so one cell would be two values"):
        Schema(twice, protection="cell", number_of_units=10)  # of a column that is dropped as undeclared


def test_it_is_declared_as_it_is_written() -> None:
    said = {
        "type": "time",
        "low": "6:30",
        "high": 1110,
        "step": "hour",
        "of": "came",
        "pattern": "%H.%M",
        "missing": True,
    }
    column = parse_column("at", said)
    assert isinstance(column, TimeColumn)
    assert (column.low, column.high) == (datetime.time(6, 30), datetime.time(18, 30))  # YAML takes 18:30 for minutes
    assert parse_column("at", column.to_mapping()) == column
    for fallback in ("06:30", "18:30"):
        other = parse_column("at", {**said, "fallback": fallback})
        assert parse_column("at", config_columns(other)) == other
    assert column.texts([0, 12]) == ["06:30", "18:30"]
    assert column.comparable("07:10") == 430
    for wrong, words in (
        ({"low": "25:00"}, "must be a time of day such as 08:30"),
        ({"low": "12:00", "high": "11:00"}, "high must be later than low"),
        ({"fallback": "03:00", "low": "04:00"}, "fallback must lie between 04:00 and 23:59"),
        ({"of": "at"}, "'of' must name another column"),
        ({"step": "second"}, "step"),
    ):
        with pytest.raises(SchemaError, match=words):
            parse_column("at", {"type": "time", **wrong})


def config_columns(column: TimeColumn) -> dict[str, object]:
    """What a column says after it was written as YAML and read again."""
    return dict(read_mapping(yaml.safe_dump(column.to_mapping())))


CONFIG = """
account: trips
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 10000
budget: {epsilon: 4}
rows: 500
holdout: 0
generator: {name: dp-hp-adaptive}
format: {dates: ["%d/%m/%Y %H:%M"]}
rules: ["left at >= came at", "came at >= 06:00"]
columns:
  came: {type: date, low: 2024-01-01, high: 2024-12-31, missing: true}
  came at: {type: time, step: quarter, of: came, missing: true}
  left at: {type: time, step: hour, missing: true}
"""


@pytest.mark.thorough
def test_from_the_file_to_a_bundle_that_verifies_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    random = np.random.default_rng(2)
    lines = ["came,left at"]
    for _ in range(1500):
        came = datetime.datetime(2024, 1, 1, 8) + datetime.timedelta(
            days=int(random.integers(366)), minutes=int(random.integers(120))
        )
        lines.append(f"{came:%d/%m/%Y %H:%M},{came + datetime.timedelta(hours=8):%H:%M:%S}")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = config_of_text(CONFIG)
    assert config_of_text(config_to_yaml(config)) == config
    result = synth.run(config, tmp_path / "out", table=tmp_path / "table.csv")
    assert not check(result.bundle).failures
    told = result.table.dropna()
    hours = told["came at"].str[:2].astype(int)
    # All came between eight and ten, which a date alone would not say.
    assert hours.between(7, 11).mean() > 0.8
    assert (told["left at"] >= told["came at"]).all()
    written = synth.rows_as_declared(result.bundle)
    assert written.startswith(b"came,left at\n")
    again = read_codes(lambda: io.BytesIO(written), config.format, config.schema)
    assert len(again._codes["came at"]) == 500
    dated = result.table["came"].notna()
    texts = np.array(config.schema.modelled_column("came at").texts(again._codes["came at"]), dtype=object)
    assert (texts[dated] == result.table["came at"].fillna("")[dated]).all()


@pytest.mark.thorough
def test_one_line_moves_no_other() -> None:
    lines_are_independent()


def test_a_time_that_is_taken_from_the_line_before_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug, from the bytes of a file on: an unreadable time becomes that of the cell before."""
    right = encoding.minutes_of_texts

    def carried(texts: pa.Array, **more: Any) -> np.ndarray:
        found = right(texts, **more).copy()
        for place in range(1, len(found)):
            found[place] = found[place - 1] if found[place] < 0 else found[place]
        return found

    monkeypatch.setattr("synth.reading.reader.ask", read_here)
    lines_are_independent()
    monkeypatch.setattr(encoding, "minutes_of_texts", carried)
    with pytest.raises(AssertionError):
        lines_are_independent()


def lines_are_independent() -> None:
    """Whatever stands in one cell, dates and times of the other lines are what they are without that line."""
    schema = Schema((DateColumn("came", *YEAR, missing=True), TimeColumn("came at", of="came", missing=True)))
    honest = ["2024-01-02 14:35", "2024-05-01", "", "2024-12-31T23:59:59"]
    for odd in ("99:99", '"2024-03-01 10:00"', "2024-03-01 10:00+14:00", "\x00", "x" * 5000, ":::::", "24:00", "١٢:٣٠"):
        for place in range(len(honest) + 1):
            lines = [*honest[:place], odd, *honest[place:]]
            read = read_codes(
                lambda lines=lines: io.BytesIO("\n".join(["came", *(one or '""' for one in lines)]).encode()),  # type: ignore[misc]
                TableFormat(),
                schema,
            )
            others = [np.delete(read._codes[name], place).tolist() for name in schema.names]
            assert others == [[1, 121, 366, 365], [14 * 60 + 35, 1440, 1440, 23 * 60 + 59]], (odd, place)
