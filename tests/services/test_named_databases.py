"""Databases that an administrator has named: what is read of them, and what if one changes or goes away."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from database_here import asks_for_password, file_read_here

from synth.application import Application
from synth.cli import main
from synth.cli.local import run_locally
from synth.errors import ConfigError, InputError, SynthError, TableError
from synth.reading.more import database
from synth.schema import parse_config, parse_format
from synth.schema.source import DatabaseSource, origin_sentences
from synth.services import databases
from synth.services.databases import connections_for, rows_of
from synth.system.settings import Connection, ReaderLimits, Settings

pytestmark = pytest.mark.thorough

on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def settings_of(folder: Path, databases: str) -> Settings:
    return Settings.from_environment({"HERMITAGE_HOME": str(folder / "home"), "HERMITAGE_DATABASES": databases})


def taken(settings: Settings, **said: object) -> tuple[list[dict[str, object]], str | None]:
    """Take a table in as the program does, and return its rows and what there is to know of its database."""
    with Application(settings) as application:
        source = DatabaseSource(**said)  # type: ignore[arg-type]
        table = application.intake.receive_from(source, None, "survey", parse_format({}))
        with application.vault.open(table.table_id) as stream:
            return pq.read_table(stream).to_pylist(), table.caution


def refused(settings: Settings, **said: object) -> str:
    with pytest.raises(SynthError) as caught:
        taken(settings, **said)
    text = str(caught.value)
    assert "CANARY" not in text
    assert "\n" not in text
    with Application(settings) as application:
        assert not application.intake.tables()
        assert not application.account_names()
    return text


# What an administrator writes -----------------------------------------------------------------------------------------


def test_a_list_names_connections_beside_hosts_and_folders(tmp_path: Path) -> None:
    listed = (
        "db.example.org:5433, claims = postgresql://reader@db/claims?sslmode=require, /data/a=b, old=sqlite:////o.db"
    )
    settings = settings_of(tmp_path, listed)
    assert settings.databases == ("db.example.org:5433", "/data/a=b")
    assert settings.connections == (
        Connection("claims", "postgresql://reader@db/claims?sslmode=require"),
        Connection("old", "sqlite:////o.db"),
    )
    assert connections_for(settings) == settings.connections


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("claims=postgresql://me:CANARY@db/x", "has a password in the address of 'claims'"),
        ("claims=postgresql:///x?host=db&password=CANARY", "has a password in the address of 'claims'"),
        ("a=sqlite:////a.db,a=sqlite:////b.db", "a name of its own"),
        ("=sqlite:////a.db", "a name of its own"),
        ("postgresql://CANARY@db/x?sslmode=require", "a name of its own"),
        ("a b=sqlite:////a.db", "a name of its own"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_at_the_start(tmp_path: Path, listed: str, said: str) -> None:
    with pytest.raises(ConfigError, match="HERMITAGE_DATABASES") as caught:
        settings_of(tmp_path, listed)
    assert said in str(caught.value)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://me@CANARY/x", "must begin with postgresql:// or sqlite:///"),
        ("CANARY", "is not understood"),
        ("postgresql://db/x?options=CANARY", "must not contain 'options'. Allowed are host, service, sslcert"),
        ("postgresql://me:CAN/ARY@db/x", "a password does not belong"),
        ("sqlite://", "name the file"),
    ],
)
def test_an_address_that_cannot_be_used_is_said_with_the_name_of_its_connection(
    tmp_path: Path, address: str, said: str
) -> None:
    settings = settings_of(tmp_path, f"claims={address}")
    text = refused(settings, connection="claims", table="visits")
    assert text.startswith("HERMITAGE_DATABASES, 'claims': ")
    assert said in text


def test_a_source_is_an_address_or_the_name_of_a_connection() -> None:
    with pytest.raises(ConfigError, match="either its address under 'url', or the name"):
        DatabaseSource(table="visits")
    with pytest.raises(ConfigError, match="either its address under 'url', or the name"):
        DatabaseSource(url="sqlite:////a.db", connection="claims", table="visits")
    with pytest.raises(ConfigError, match="no query of your own"):
        DatabaseSource(connection="claims", sql="SELECT 1")
    with pytest.raises(ConfigError, match="either the 'table', a 'view' or a query"):
        DatabaseSource(connection="claims", table="visits", view="visits")
    source = DatabaseSource(connection="claims", view="visits", where="a = 1")
    assert source.origin == "view"
    assert DatabaseSource.from_mapping(source.to_mapping()) == source


# What is read -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clinic(database_url: str) -> str:
    """A database with a role that may read one table and one view, and no password to it."""
    run(
        database_url,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        'CREATE TABLE visits (person text, age int, "odd ""name; --" text)',
        "INSERT INTO visits VALUES ('CANARY a', 34, 'x'), ('CANARY b', NULL, NULL)",
        "CREATE VIEW adults AS SELECT person, age FROM visits WHERE age >= 18",
        """CREATE TABLE "Odd 'table""; DROP TABLE visits; --" AS SELECT 1 AS a""",
        "CREATE TABLE closed (a int)",
        "GRANT USAGE ON SCHEMA public TO reader",
        """GRANT SELECT ON visits, adults, "Odd 'table""; DROP TABLE visits; --" TO reader""",
    )
    return database_url.replace("postgres@", "reader@")


@on_postgresql
def test_tables_and_views_of_a_named_connection_are_read(clinic: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f"claims={clinic}")
    rows, caution = taken(settings, connection="claims", table="visits")
    assert rows == [
        {"person": "CANARY a", "age": 34, 'odd "name; --': "x"},
        {"person": "CANARY b", "age": None, 'odd "name; --': None},
    ]
    assert caution is None
    assert taken(settings, connection="claims", table="""Odd 'table"; DROP TABLE visits; --""", schema="public")[0] == [
        {"a": 1}
    ]
    assert taken(settings, connection="claims", table="visits", where="age > 18", columns=("age",))[0] == [{"age": 34}]
    assert taken(settings, connection="claims", view="adults")[0] == [{"person": "CANARY a", "age": 34}]
    with Application(settings) as application:
        assert application.intake.tables()[-1].name == "adults (view of a database)"


@on_postgresql
def test_a_table_is_read_from_one_state_without_writing_and_some_rows_at_a_time(database_url: str) -> None:
    """What a view sees of the transaction in which it is read."""
    run(
        database_url,
        "CREATE VIEW seen AS SELECT current_setting('transaction_isolation') AS isolation, "
        "current_setting('transaction_read_only') AS read_only, (SELECT max(name) FROM pg_cursors) AS cursor",
    )
    seen = pq.read_table(file_read_here(DatabaseSource(url=database_url, view="seen"))).to_pylist()
    assert seen == [{"isolation": "repeatable read", "read_only": "on", "cursor": "hermitage"}]


@on_postgresql
def test_what_cannot_be_read_is_one_sentence_and_nothing_is_kept(
    clinic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = settings_of(tmp_path, f"claims={clinic}, none={clinic.replace('/postgres?', '/CANARY?')}")
    assert "no database connection 'claim'. There are: claims, none." in refused(
        settings, connection="claim", table="visits"
    )
    assert "HERMITAGE_DATABASES names none" in refused(
        settings_of(tmp_path, "db.example.org"), connection="claims", table="visits"
    )
    assert "no table 'nothing'" in refused(settings, connection="claims", table="nothing")
    assert "may not read the table" in refused(settings, connection="claims", table="closed")
    assert "name it as a 'view'" in refused(settings, connection="claims", table="adults")
    assert "'visits' is a table. Name it as one" in refused(settings, connection="claims", view="visits")
    assert "The database of the connection 'none' cannot be reached" in refused(
        settings, connection="none", table="visits"
    )
    assert "CANARY" not in caplog.text


@pytest.mark.thorough
@on_postgresql
def test_a_user_that_may_also_write_is_said(clinic: str, database_url: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f"claims={clinic}")
    for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
        run(database_url, f"GRANT {right} ON visits TO reader")
        caution = taken(settings, connection="claims", table="visits")[1]
        assert caution is not None
        assert "may also change this table. Nothing was changed" in caution
        run(database_url, f"REVOKE {right} ON visits FROM reader")
    assert taken(settings, connection="claims", table="visits")[1] is None


@on_postgresql
def test_the_password_of_a_connection_stays_in_a_file_of_the_server(
    clinic: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passfile, services = tmp_path / "passwords", tmp_path / "services"
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with asks_for_password(database_url, "CANARY secret") as url:
        folder = url.rpartition("=")[2]
        services.write_text(f"[claims]\nhost={folder}\nuser=locked\ndbname=postgres\n")
        settings = settings_of(tmp_path, f"claims={url}, served=postgresql:///?service=claims")
        said = refused(settings, connection="claims", table="visits")
        assert "The database of the connection 'claims' requires a password, and the server has none for it." in said
        passfile.write_text("*:*:*:locked:CANARY wrong\n")
        passfile.chmod(0o600)
        said = refused(settings, connection="claims", table="visits")
        assert "does not accept the user or the password of this server. Ask the administrator" in said
        passfile.write_text("*:*:*:locked:CANARY secret\n")
        assert len(taken(settings, connection="claims", table="visits")[0]) == 2
        assert len(taken(settings, connection="served", table="visits")[0]) == 2
        # Whoever types the address gets no password of the server, and no service.
        with pytest.raises(InputError, match="--password-env"):
            taken(settings, url=url, table="visits")
        with pytest.raises(ConfigError, match="must not contain 'service'"):
            taken(settings, url="postgresql:///?service=claims", table="visits")
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"CANARY secret" in path.read_bytes()]


@pytest.mark.thorough
@on_postgresql
@pytest.mark.usefixtures("without_trial")
def test_a_run_reads_a_view_by_the_name_of_its_connection(
    clinic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    without_trial: None,
) -> None:
    run(clinic.replace("reader@", "postgres@"), "INSERT INTO visits SELECT 'p', n % 90 FROM generate_series(1, 300) n")
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HERMITAGE_DATABASES", f"claims={clinic}")
    assert main(["schema", "visits", "--from", "claims"]) == 0
    drafted = capsys.readouterr().out
    assert "connection: claims" in drafted
    assert clinic not in drafted
    config = parse_config(CONFIG | {"source": {"connection": "claims", "view": "adults", "columns": ["age"]}})
    result = run_locally(config, tmp_path / "out")
    certificate = json.loads((result.folder / "certificate.json").read_bytes())
    assert origin_sentences("view")[0] in certificate["assumptions"]
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in kept if clinic.encode() in path.read_bytes()]


CONFIG = {
    "account": "survey",
    "unit": {"protects": "person", "rows_per_unit": 1},
    "row_count": "private",
    "people_at_most": 1000,
    "budget": {"epsilon": 1.0, "delta": 1e-6},
    "generator": {"name": "independent"},
    "rows": 50,
    "columns": {"age": {"type": "number", "low": 18, "high": 90, "step": 1, "fallback": 40}},
}


# A database that changes, or goes away --------------------------------------------------------------------------------


@pytest.fixture
def many(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of which the rows are sent in many pieces."""
    run(
        own_server.url,
        "CREATE TABLE visits AS SELECT 'CANARY ' || n % 1000 AS person, n AS visit, 0 AS state "
        "FROM generate_series(1, 20000) AS n",
    )
    monkeypatch.setattr(database, "GROUP_ROWS", 500)
    return own_server.url


def test_one_state_of_a_table_is_read_whatever_is_written_meanwhile(many: str) -> None:
    def written() -> None:
        run(many, "UPDATE visits SET state = 1", "DELETE FROM visits WHERE visit % 3 = 0")
        run(many, "INSERT INTO visits SELECT 'CANARY new', n, 2 FROM generate_series(1, 500) AS n", "VACUUM visits")

    table = pq.read_table(file_read_here(DatabaseSource(url=many, table="visits"), meanwhile=written))
    assert sorted(table["visit"].to_pylist()) == list(range(1, 20001))
    assert set(table["state"].to_pylist()) == {0}
    again = pq.read_table(file_read_here(DatabaseSource(url=many, table="visits")))
    assert set(again["state"].to_pylist()) == {1, 2}


@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(own_server: Any, tmp_path: Path) -> None:
    run(
        own_server.url,
        "CREATE TABLE visits AS SELECT n AS age, repeat(md5(n::text), 5) AS person "
        "FROM generate_series(1, 1500000) AS n",
    )
    with rows_of(
        DatabaseSource(url=own_server.url, table="visits"),
        password=None,
        directory=tmp_path / "incoming",
        limits=ReaderLimits(memory_bytes=192 * 2**20),  # a table of three rows needs more than 96 MiB, this has 240
    ) as stream:
        assert pq.ParquetFile(stream).metadata.num_rows == 1_500_000


def test_a_database_that_goes_away_in_the_middle_is_one_sentence(many: str, own_server: Any) -> None:
    with pytest.raises(TableError, match="went away while the table was read, and nothing of it was kept") as caught:
        file_read_here(DatabaseSource(url=many, table="visits"), meanwhile=own_server.stop)
    assert "CANARY" not in str(caught.value)
    own_server.start()
    assert len(pq.read_table(file_read_here(DatabaseSource(url=many, table="visits")))) == 20000


@pytest.fixture
def stopped_in_the_middle(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[bytes]]:
    """Stop the server as soon as a piece of the table has come from the reading process, of which many are left."""
    heard: list[bytes] = []
    piece = databases._piece

    def stopping(*given: object) -> bytes | None:
        found = piece(*given)  # type: ignore[arg-type]
        if not heard:
            own_server.stop()
        heard.append(found or b"")
        return found

    # Enough rows that the process still reads while the pipe to this one is full.
    run(
        own_server.url,
        "CREATE TABLE visits AS SELECT n AS age, 'CANARY ' || md5(n::text) || md5((n + 1)::text) AS person "
        "FROM generate_series(1, 200000) AS n",
    )
    monkeypatch.setattr(databases, "_piece", stopping)
    return lambda: heard


def test_nothing_is_charged_or_kept_of_a_table_whose_database_goes_away(
    own_server: Any,
    stopped_in_the_middle: Callable[[], list[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HERMITAGE_DATABASES", f"claims={own_server.url}")
    config = parse_config(CONFIG | {"source": {"connection": "claims", "table": "visits"}})
    with pytest.raises(TableError, match="went away while the table was read"):
        run_locally(config, tmp_path / "out")
    assert stopped_in_the_middle()
    with Application.from_environment() as application:
        assert application.ledger_rows() == []
        assert not application.account_names()
        assert not application.intake.tables()
    assert not list((tmp_path / "home" / "incoming").iterdir())
    assert not [path for path in (tmp_path / "home" / "vault").rglob("*") if path.suffix in {".table", ".header"}]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"CANARY" in path.read_bytes()]
    assert "CANARY" not in caplog.text
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    # The same command does its work when the database is back.
    monkeypatch.undo()
    own_server.start()
    with (
        rows_of(
            DatabaseSource(connection="claims", table="visits", columns=("age",), where="age <= 10"),
            password=None,
            directory=tmp_path / "incoming",
            limits=ReaderLimits(),
            connections=(Connection("claims", own_server.url),),
        ) as stream,
    ):
        assert len(pq.read_table(stream)) == 10


def test_a_database_that_is_not_there_is_one_sentence(own_server: Any, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f"claims={own_server.url}")
    own_server.stop()
    assert "The database of the connection 'claims' cannot be reached" in refused(
        settings, connection="claims", table="visits"
    )
