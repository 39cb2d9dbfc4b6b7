"""Tables of real databases, SQLite and PostgreSQL, on their way into the vault."""

from __future__ import annotations

import os
import pty
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from database_here import asks_for_password, file_read_here

from synth.application import Application
from synth.cli import main
from synth.cli.finding import find_in_document
from synth.errors import InputError, SynthError, TableError
from synth.reading.more import database
from synth.schema import parse_config
from synth.schema.source import DatabaseAccess, DatabaseSource
from synth.services.databases import PasswordNeededError, refuse_unlisted, rows_of
from synth.system.settings import ReaderLimits, Settings

TABLE = 'CREATE TABLE visits (person TEXT, age INTEGER, cost REAL, town VARCHAR(9), "odd %s ""name" TEXT)'
ROWS: list[tuple[Any, ...]] = [
    ("CANARY a", 34, 0.5, "A", "x%y"),
    ("CANARY b", None, 12.0, "B", None),
    ("CANARY c", 71, None, "A", "it's"),
]


@dataclass(frozen=True)
class Place:
    """A database, and how to write to it."""

    url: str

    def run(self, *statements: str, rows: Sequence[tuple[Any, ...]] = ()) -> None:
        if self.url.startswith("sqlite"):
            with sqlite3.connect(self.url.removeprefix("sqlite:///")) as connection:
                for one in statements:
                    connection.execute(one)
                connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows)
            connection.close()
        else:
            with psycopg.connect(self.url, autocommit=True) as connection:
                for one in statements:
                    connection.execute(one.encode())
                connection.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", rows)


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Place:
    """A database of each kind with one small table."""
    path = tmp_path / "clinic.sqlite"
    found = Place(f"sqlite:///{path}" if database_url.startswith("sqlite") else database_url)
    found.run(TABLE, rows=ROWS)
    return found


@pytest.fixture
def postgres(database_url: str) -> Place:
    return Place(database_url)


on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def incoming(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "incoming"
    yield folder
    assert not folder.exists() or not list(folder.iterdir())


def read(place: Place, folder: Path, *, limits: ReaderLimits | None = None, **said: Any) -> pa.Table:
    """Read as the program does, in the process of the test."""
    source = DatabaseSource(**{"url": place.url, **({} if "sql" in said else {"table": "visits"}), **said})
    return pq.read_table(file_read_here(source, limits or ReaderLimits()))


def refused(place: Place, folder: Path, **said: Any) -> str:
    with pytest.raises(SynthError) as found:
        read(place, folder, **said)
    text = str(found.value)
    assert "CANARY" not in text
    assert "\n" not in text
    assert place.url not in text
    return text


def test_all_rows_come_with_the_declared_types(place: Place, incoming: Path) -> None:
    source = DatabaseSource(url=place.url, table="visits")
    with rows_of(source, password=None, directory=incoming, limits=ReaderLimits()) as stream:
        table = pq.read_table(stream)
    with rows_of(source, password=None, directory=incoming, limits=ReaderLimits(), only_names=True) as stream:
        assert pq.read_table(stream).equals(table.slice(0, 0))
    assert read(place, incoming).equals(table)
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    assert table.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.string(), pa.string()]
    assert table.column_names[-1] == 'odd %s "name'


def test_chosen_columns_and_rows(place: Place, incoming: Path) -> None:
    table = read(place, incoming, columns=("cost", "age"), where="town = 'A' AND age BETWEEN 30 AND 40")
    assert table.to_pylist() == [{"cost": 0.5, "age": 34}]
    for where, ages in (
        ("age IS NULL", [None]),
        ("NOT age > 40", [34]),
        ("person LIKE 'CANARY _' AND town NOT IN ('B', 'C')", [34, 71]),
        ("\"odd %s \"\"name\" = 'it''s'", [71]),
        ("cost = 0.5 OR age = 71", [34, 71]),
        ("cost > age", []),
    ):
        assert read(place, incoming, columns=("age",), where=where)["age"].to_pylist() == ages, where


def test_rows_come_in_the_same_order_however_they_lie(place: Place, incoming: Path) -> None:
    before = read(place, incoming)
    place.run("DELETE FROM visits", rows=[ROWS[2], ROWS[0], ROWS[1]])
    assert read(place, incoming).equals(before)
    place.run("UPDATE visits SET age = age + 1 WHERE town = 'A'")
    place.run("UPDATE visits SET age = age - 1 WHERE town = 'A'")
    assert read(place, incoming).equals(before)


def test_a_query_is_read_once_it_is_named_as_one(place: Place, incoming: Path) -> None:
    table = read(place, incoming, sql="SELECT town, count(*) AS n, '%s:x' AS other FROM visits GROUP BY town -- all;")
    assert [list(map(str, row.values())) for row in table.to_pylist()] == [["A", "2", "%s:x"], ["B", "1", "%s:x"]]
    assert read(place, incoming, sql="SELECT 1 AS one;").num_rows == 1


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a; DELETE FROM visits",
        "SELECT 1) AS q; DELETE FROM visits --",
        "DELETE FROM visits",
        "WITH gone AS (DELETE FROM visits RETURNING 1) SELECT * FROM gone",
        "INSERT INTO visits SELECT * FROM visits",
        "SELECT CANARY FROM visits",
        "SELECT * FROM CANARY",
        "SELECT * FROM visits WHERE",
        "",
        "ATTACH '/tmp/CANARY' AS other",
        "PRAGMA query_only = OFF",
        "SET TRANSACTION READ WRITE",
        "COPY visits TO '/tmp/CANARY'",
    ],
)
def test_a_query_changes_nothing_and_is_refused_in_words_of_ours(place: Place, incoming: Path, sql: str) -> None:
    said = refused(place, incoming, sql=sql or " ")
    assert "sql" in said or "query" in said
    assert read(place, incoming).num_rows == len(ROWS)


def test_what_cannot_be_read_is_said_in_one_sentence(place: Place, incoming: Path) -> None:
    assert "no table 'nothing'" in refused(place, incoming, table="nothing")
    assert "no table 'VISITS'" in refused(place, incoming, table="VISITS")
    assert "no column 'nothing'. It has: person, age" in refused(place, incoming, columns=("nothing",))
    said = refused(place, incoming, where="town = 'A' AND agee > 1")
    assert "'agee' at character 16 is not a column of the table 'visits'" in said
    place.run(
        "CREATE VIEW seen AS SELECT * FROM visits",
        "CREATE TABLE pictures (person TEXT, face BLOB)".replace(
            "BLOB", "BLOB" if place.url.startswith("sqlite") else "BYTEA"
        ),
    )
    assert "'seen' is a view or an external table" in refused(place, incoming, table="seen")
    assert "The column 'face' is stored as" in refused(place, incoming, table="pictures")
    assert read(place, incoming, table="pictures", columns=("person",)).num_rows == 0
    assert "schema" in refused(place, incoming, schema="nowhere")


def test_limits_hold(place: Place, incoming: Path) -> None:
    with pytest.raises(TableError, match="more than 2 rows"):
        read(place, incoming, limits=ReaderLimits(rows=2))
    with pytest.raises(TableError, match="has 5 columns; at most 4"):
        read(place, incoming, limits=ReaderLimits(columns=4))
    with pytest.raises(TableError, match="larger than 100 bytes"):
        read(place, incoming, limits=ReaderLimits(input_bytes=100))
    assert read(place, incoming, limits=ReaderLimits(cell_bytes=7))["person"].to_pylist() == [None] * 3
    # Enough rows that no reading is over before a busy machine has looked at its clock.
    place.run(
        "CREATE TABLE many (number INTEGER)",
        "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 300000) "
        "INSERT INTO many SELECT n FROM counted",
    )
    source, limits = DatabaseSource(url=place.url, table="many"), ReaderLimits(wall_seconds=0.01)
    with (
        pytest.raises(TableError, match="took too long"),
        rows_of(source, password=None, directory=incoming, limits=limits),
    ):
        raise AssertionError


def test_groups_of_rows_are_written_one_by_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.run(rows=[(f"{k:05}", k, k / 2, "A", None) for k in range(2_000)])
    monkeypatch.setattr(database, "GROUP_ROWS", 700)
    file = pq.ParquetFile(file_read_here(DatabaseSource(url=place.url, table="visits"), ReaderLimits()))
    assert [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)] == [1000, 1000, 3]
    assert file.read()["age"].null_count == 1


# What becomes of a cell -----------------------------------------------------------------------------------------------


@on_sqlite
def test_a_cell_of_sqlite_follows_from_itself_and_the_declared_type(place: Place, incoming: Path) -> None:
    place.run(
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, whole INT, part DOUBLE, flag BOOLEAN, day DATE, any_kind)",
        "INSERT INTO odd VALUES (1, '12', '1.5', 1, '2020-01-31', 1), (2, 'CANARY', 'CANARY', 'CANARY', 43861, 1.0), "
        "(3, 1.5, 9e999, 'true', '31.1.2020', 'text'), (4, 9223372036854775807, -2, 0, NULL, x'4142'), "
        "(5, X'00', 1e300, NULL, x'ff', CAST(x'ff41' AS TEXT)), (6, NULL, 0.1, 2, 2.5, -0.0)",
    )
    table = read(place, incoming, table="odd").to_pydict()
    assert table["whole"] == [12, None, None, 2**63 - 1, None, None]
    assert table["part"] == [1.5, None, float("inf"), -2.0, 1e300, 0.1]
    assert table["flag"] == [True, None, True, False, None, None]
    assert table["day"] == ["2020-01-31", "43861", "31.1.2020", None, None, "2.5"]
    assert table["any_kind"] == ["1", "1", "text", None, None, "0"]


@on_sqlite
def test_a_write_ahead_log_is_read_at_rest_and_beside_a_writer(place: Place, incoming: Path) -> None:
    source = DatabaseSource(url=place.url, table="visits")
    place.run("PRAGMA journal_mode = WAL")
    with sqlite3.connect(place.url.removeprefix("sqlite:///")) as writer:
        writer.execute("UPDATE visits SET age = 5")
        with rows_of(source, password=None, directory=incoming, limits=ReaderLimits()) as stream:
            assert pq.read_table(stream)["age"].to_pylist() == [34, None, 71]
    writer.close()
    before = sorted(Path(place.url.removeprefix("sqlite:///")).parent.glob("clinic*"))
    with rows_of(source, password=None, directory=incoming, limits=ReaderLimits()) as stream:
        assert pq.read_table(stream)["age"].to_pylist() == [5, 5, 5]
    assert sorted(Path(place.url.removeprefix("sqlite:///")).parent.glob("clinic*")) == before


@on_postgresql
def test_a_cell_of_postgresql_follows_from_itself_and_the_declared_type(postgres: Place, incoming: Path) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('well', 'ill')",
        "CREATE DOMAIN share AS numeric(5, 2)",
        "CREATE TABLE odd (id int8, part float4, flag bool, price numeric(10, 2), any_number numeric, "
        "long numeric(60, 1), share share, day date, at timestamptz, local timestamp, mood mood, key uuid, "
        "fixed char(4), span interval)",
        "INSERT INTO odd VALUES (1, 0.1, true, 12.1, 1.50, 1e40, 1.5, '2020-01-31', '2020-01-01 00:30+02', "
        "'2020-01-01 00:30:00.25', 'well', '00000000-0000-0000-0000-00000000000a', 'ab', '1 day'), "
        "(2, 'NaN', false, 'NaN', 'NaN', NULL, NULL, 'infinity', 'infinity', '0044-03-15 BC', 'ill', NULL, '', NULL)",
        "ALTER DATABASE postgres SET datestyle = 'German'",
        "ALTER DATABASE postgres SET timezone = 'Asia/Tokyo'",
    )
    try:
        table = read(postgres, incoming, table="odd").to_pydict()
    finally:
        postgres.run("ALTER DATABASE postgres RESET ALL")
    assert table["part"][0] == 0.1
    assert table["flag"] == [True, False]
    assert table["price"] == [Decimal("12.10"), None]
    assert table["any_number"] == ["1.50", "NaN"]
    assert table["long"] == [f"1{40 * '0'}.0", None]
    assert table["share"] == [Decimal("1.50"), None]
    assert table["day"] == [date(2020, 1, 31), None]
    assert table["at"] == [datetime(2019, 12, 31, 22, 30), None]
    assert table["local"] == [datetime(2020, 1, 1, 0, 30, 0, 250_000), None]
    assert table["mood"] == ["well", "ill"]
    assert [row[1] for row in map(list, (table["key"], table["span"]))] == [None, None]
    assert table["fixed"] == ["ab", ""]


@on_postgresql
def test_decimals_of_postgresql_that_parquet_cannot_hold_are_texts(postgres: Place, incoming: Path) -> None:
    postgres.run("CREATE TABLE odd (most numeric(38, 2), more numeric(39, 2))", "INSERT INTO odd VALUES (1.25, 1.25)")
    assert read(postgres, incoming, table="odd").to_pylist() == [{"most": Decimal("1.25"), "more": "1.25"}]


@on_postgresql
def test_a_type_of_postgresql_that_is_not_supported_is_named(postgres: Place, incoming: Path) -> None:
    postgres.run("CREATE TYPE spot AS (x int, y int)", "CREATE TABLE odd (ages int4[], at spot)")
    for column, kind in (("ages", "an array of int4"), ("at", "spot")):
        told = refused(postgres, incoming, table="odd", columns=(column,))
        assert f"The column '{column}' is stored as {kind}, which is not supported." in told


@on_postgresql
def test_who_may_read_what(postgres: Place, incoming: Path) -> None:
    postgres.run(
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA public TO reader",
        "CREATE TABLE closed (a int)",
        "CREATE TABLE partly (a int, b int)",
        "GRANT SELECT (a) ON partly TO reader",
        "CREATE TABLE chosen (a int)",
        "GRANT SELECT ON chosen TO reader",
        "ALTER TABLE chosen ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON chosen USING (a > (SELECT 1))",
    )
    reader = Place(postgres.url.replace("postgres@", "reader@"))
    assert "may not read the table" in refused(reader, incoming, table="closed")
    assert "may not read the table" in refused(reader, incoming, table="partly")
    assert read(reader, incoming, table="partly", columns=("a",)).num_rows == 0
    assert "A policy of the database decides" in refused(reader, incoming, table="chosen")
    assert read(postgres, incoming, table="chosen").num_rows == 0
    postgres.run("CREATE SCHEMA aside", "CREATE TABLE aside.visits (a int)")
    assert "no table" in refused(postgres, incoming)
    assert read(postgres, incoming, schema="aside").num_rows == 0
    for url in (postgres.url.replace("postgres@", "CANARY@"), "postgresql://CANARY@127.0.0.1:1/CANARY"):
        assert "cannot be reached" in refused(Place(url), incoming)
    for where in ("a > 'x'", "a LIKE 'x%'", "a = TRUE"):
        assert "a value of another type" in refused(postgres, incoming, schema="aside", where=where)


@on_postgresql
def test_a_password_is_asked_for_and_never_said(
    postgres: Place, incoming: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    postgres.run("CREATE TABLE visits (a int)")
    with asks_for_password(postgres.url, "CANARY secret") as url:
        source = DatabaseSource(url=url, table="visits")
        with (
            pytest.raises(PasswordNeededError, match="--password-env"),
            rows_of(source, password=None, directory=incoming, limits=ReaderLimits()),
        ):
            raise AssertionError
        with (
            pytest.raises(TableError, match="does not accept") as wrong,
            rows_of(source, password="CANARY wrong", directory=incoming, limits=ReaderLimits()),
        ):
            raise AssertionError
        assert "CANARY" not in str(wrong.value)
        with rows_of(source, password="CANARY secret", directory=incoming, limits=ReaderLimits()) as stream:
            assert pq.read_table(stream).num_rows == 0
        # At a terminal the command line asks for it, and what is typed is not echoed; elsewhere it says how to give it.
        shown = typed_at_a_terminal(tmp_path, ["schema", "visits", "--from", url], "CANARY secret")
        assert "Password of the database:" in shown
        assert "a: {type: number" in shown
        assert "CANARY" not in shown
        assert main(["schema", "visits", "--from", url]) == InputError.exit_code
        assert "--password-env" in capfd.readouterr().err


@on_postgresql
def test_a_finding_asks_for_the_password_before_it_is_charged(
    postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    postgres.run(
        "CREATE TABLE visits AS SELECT CASE WHEN i % 2 = 0 THEN 'l' ELSE 'r' END AS side "
        "FROM generate_series(1, 600) AS i"
    )
    with asks_for_password(postgres.url, "CANARY secret") as url:
        document = {
            "account": "town",
            "source": {"url": url, "table": "visits"},
            "unit": {"protects": "person", "rows_per_unit": 1},
            "row_count": "private",
            "people_at_most": 1000,
            "budget": {"epsilon": 9.0},
            "rows": 10,
            "columns": {"side": {"type": "find"}},
        }
        config = parse_config(document)
        with pytest.raises(PasswordNeededError, match="--password-env"):
            find_in_document(document, config, epsilon=4.0)
        with Application.from_environment() as application:
            assert application.ledger_rows() == []
        found = find_in_document(document, config, epsilon=4.0, password="CANARY secret")
    assert found.document["columns"]["side"] == {"type": "category", "values": ["l", "r"], "other": True}
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"CANARY" in path.read_bytes()]


def typed_at_a_terminal(folder: Path, arguments: Sequence[str], answer: str) -> str:
    """Run the command line at a terminal of its own, answer its first question, and return what the terminal showed."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ["HERMITAGE_HOME"] = str(folder / "terminal")
        os.execv(sys.executable, [sys.executable, "-m", "synth", *arguments])  # noqa: S606
    shown = b""
    with os.fdopen(terminal, "r+b", buffering=0) as stream:
        try:
            while piece := stream.read(4096):
                if b"Password" in piece:
                    stream.write(answer.encode() + b"\n")
                shown += piece
        except OSError:  # a terminal that its last process has left
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, shown
    return shown.decode()


def test_a_server_reads_what_its_operator_lists(tmp_path: Path) -> None:
    def refuse(source: DatabaseSource, listed: tuple[str, ...]) -> None:
        refuse_unlisted(source, Settings(home=tmp_path / "a" / "home", database_url="", databases=listed))

    inside = DatabaseSource(url=f"sqlite:///{tmp_path}/a/clinic.sqlite", table="visits")
    refuse(inside, (str(tmp_path / "a"),))
    beside = [DatabaseSource(url=f"sqlite:///{tmp_path}/{name}.sqlite", table="visits") for name in ("a/../b", "ab")]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link.sqlite").symlink_to(tmp_path / "b.sqlite")
    beside.append(DatabaseSource(url=f"sqlite:///{tmp_path}/a/link.sqlite", table="visits"))
    # The database of the installation itself, although the folder around it is listed.
    beside.append(DatabaseSource(url=f"sqlite:///{tmp_path}/a/home/hermitage.sqlite", table="accounts"))
    host = DatabaseSource(url="postgresql://me@db.example.org/clinic", table="visits")
    refuse(host, ("db.example.org",))
    refuse(host, ("db.example.org:5432",))
    refuse(DatabaseSource(url=f"postgresql:///clinic?host={tmp_path}", table="visits"), (str(tmp_path),))
    for source, listed in (
        *((one, (str(tmp_path / "a"),)) for one in beside),
        (host, ()),
        (host, ("db.example.org:5433", "example.org")),
        (DatabaseSource(url="postgresql:///clinic", table="visits"), ("db.example.org",)),
        # Without a host it is a socket of this machine, which lets the user of the server in.
        (DatabaseSource(url="postgresql:///clinic", table="visits"), ("localhost",)),
        (DatabaseSource(url="postgresql://a/b?host=c&host=a", table="visits"), ("a", "c")),
        (DatabaseSource(url="postgresql://a/b?host=a,c", table="visits"), ("a",)),
    ):
        with pytest.raises(InputError, match="HERMITAGE_DATABASES"):
            refuse(source, listed)


def test_whoever_types_an_address_gets_no_certificate_of_the_server() -> None:
    url = "postgresql://reader@db.example.org/clinic"
    typed = database.connection_options(DatabaseAccess(url=url))
    assert {typed["passfile"], typed["sslcert"], typed["sslkey"]} == {"/dev/null", "/dev/null/none"}
    files = {"PGPASSFILE": "/etc/hermitage/pgpass", "PGSERVICEFILE": "/etc/hermitage/services"}
    named = database.connection_options(DatabaseAccess.of_connection("claims", url, files))
    assert named["passfile"] == files["PGPASSFILE"]
    assert not {"sslcert", "sslkey"} & set(named)
    own = DatabaseAccess.of_connection("claims", f"{url}?sslcert=/etc/hermitage/reader.crt", files)
    assert database.connection_options(own)["sslcert"] == "/etc/hermitage/reader.crt"


def test_nothing_of_the_table_lies_in_clear(place: Place, tmp_path: Path, incoming: Path) -> None:
    with rows_of(
        DatabaseSource(url=place.url, table="visits"), password=None, directory=incoming, limits=ReaderLimits()
    ) as stream:
        held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _exists(fd)]
        (unnamed,) = [one for one in held if one.startswith(str(incoming))]
        content = Path(f"/proc/self/fd/{_number_of(unnamed)}").read_bytes()
        assert content
        assert b"CANARY" not in content
        assert b"CANARY" in stream.read()


def _exists(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def _number_of(target: str) -> str:
    return next(
        fd for fd in os.listdir("/proc/self/fd") if _exists(fd) and os.readlink(f"/proc/self/fd/{fd}") == target
    )
