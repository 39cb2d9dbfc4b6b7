"""A table of a database, read by a separate process and passed on as the bytes of a Parquet file.

The process is asked for one table and answers with pieces of that file, or with one sentence that quotes no cell,
address or password. Nothing is written to a disk. What a cell becomes follows from that cell and from the type that the
database declares for its column. The rows are sorted by their own cells: the order in which a database stores them may
depend on rows that were added or removed, and the order decides which rows of a unit are kept.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from synth.errors import InputError, TableError
from synth.names import shown
from synth.reading.more.frames import GROUP_BYTES, GROUP_ROWS, Frames
from synth.schema.conditions import condition, expression_of, names_in
from synth.schema.source import DatabaseAccess, DatabaseSource
from synth.system.confined import answers_alone, confine
from synth.system.conversation import read_frame, write_frame
from synth.system.settings import ReaderLimits, size_text

if TYPE_CHECKING:
    import psycopg
    from psycopg.adapt import Loader

__all__ = ["Kind", "answer_with_rows", "connection_options", "main", "serve", "statement"]

_ROWS_AT_ONCE = 500
"""Rows that a database sends at a time."""

_CONNECT_SECONDS = 15

Cell = str | bytes | None
"""A cell as the database writes it, the same for both kinds: UTF-8 texts of numbers, days, truth values and words."""


def main() -> int:
    """Read one request from standard input and answer on standard output."""
    answers, questions = answers_alone(), sys.stdin.buffer
    asked = json.loads(read_frame(questions)[1])
    limits = ReaderLimits(**asked["limits"])
    pa.set_cpu_count(1)
    confine(memory_bytes=limits.memory_bytes, cpu_seconds=limits.cpu_seconds)
    access = DatabaseAccess(**asked["access"])
    os.environ.update(access.files_of_passwords)
    serve(DatabaseSource.from_mapping(asked["source"]), access, limits, answers, only_names=asked["only_names"])
    return 0


def serve(
    source: DatabaseSource, access: DatabaseAccess, limits: ReaderLimits, answers: BinaryIO, *, only_names: bool
) -> None:
    """Answer with the pieces of a file and an end, or with one sentence."""
    try:
        answer_with_rows(source, access, limits, answers, only_names=only_names)
    except InputError as error:
        _refuse(answers, str(error))
    except MemoryError:
        _refuse(
            answers,
            f"Reading the table needs more memory than the {size_text(limits.memory_bytes)} allowed. Name fewer "
            "columns.",
        )
    except Exception as error:  # its text may quote a cell, a host or a password
        write_frame(answers, b"F", _code_of(error, access).encode())


def _refuse(answers: BinaryIO, sentence: str) -> None:
    write_frame(answers, b"E", sentence.encode())


def answer_with_rows(
    source: DatabaseSource, access: DatabaseAccess, limits: ReaderLimits, answers: BinaryIO, *, only_names: bool = False
) -> None:
    """Send the file of one table, with or without its rows, and at the end what is known of the reading."""
    opened = _opened_sqlite(access) if access.is_sqlite else _opened_postgresql(source, access, limits)
    with opened as database:
        source = database.found(source)
        names, kinds = _asked_columns(source, database)
        if len(names) > limits.columns:
            raise limits.too_many_columns(len(names))
        rows = iter(()) if only_names else database.rows(statement(source, names, database.dialect))
        count = _write(Frames(answers, limits), names, kinds, rows, limits)
        may_write = database.may_write
    write_frame(answers, b"Z", json.dumps({"rows": count, "may_write": may_write}).encode())


# What is asked --------------------------------------------------------------------------------------------------------


def _asked_columns(source: DatabaseSource, database: _SQLite | _PostgreSQL) -> tuple[list[str], list[Kind]]:
    there = database.names(source)
    known = f"It has: {', '.join(map(shown, there))}." if len(there) <= 50 else "Check the spelling."
    if len(set(there)) < len(there):
        raise TableError("source: two columns of the query have the same name. Give each its own with AS.")
    for name in source.columns:
        if name not in there:
            raise TableError(f"The table '{shown(source.name)}' has no column '{shown(name)}'. {known}")
    for one in names_in(condition(source.where)) if source.where else ():
        if one.column not in there:
            raise TableError(
                f"where: '{shown(one.column)}' at character {one.place} is not a column of the table "
                f"'{shown(source.name)}'; a text needs 'single quotation marks'. {known}"
            )
    names, kinds = list(source.columns) or there, []
    for name, declared in zip(names, database.declared(source, names), strict=True):
        kind = database.kind(declared)
        if kind is None:
            raise TableError(
                f"The column '{shown(name)}' is stored as {shown(declared)}, which is not supported. List the columns "
                "to read, without it."
            )
        kinds.append(kind)
    return names, kinds


def statement(source: DatabaseSource, names: Sequence[str], dialect: sa.Dialect) -> sa.Select[Any]:
    """Build the statement to run: SELECT named columns of one table or view, with a condition, sorted by the cells.

    A free query is put inside it in place of the table.
    """
    columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in names]
    # Texts are the same in both kinds of database, however a driver reads a day or a decimal.
    written = [sa.cast(column, sa.Text) if dialect.name == "postgresql" else column for column in columns]
    order = [sa.collate(one, "C" if dialect.name == "postgresql" else "BINARY") for one in written]
    asked = sa.select(*(one.label(name) for one, name in zip(written, names, strict=True)))
    if source.sql is not None:
        asked = asked.select_from(sa.table(_inside(source.sql, dialect)).alias("asked"))
    else:
        asked = asked.select_from(sa.table(source.name, schema=source.schema))
    if source.where is not None:
        asked = asked.where(expression_of(condition(source.where)))
    return asked.order_by(*order)


def _inside(sql: str, dialect: sa.Dialect) -> sa.quoted_name:
    """Return a query in brackets, as it was written; ``%`` is doubled for drivers that use it as a sign."""
    inner = sql.strip().removesuffix(";")
    return sa.quoted_name(f"({inner.replace('%', '%%') if dialect.name == 'postgresql' else inner}\n)", quote=False)


# Cells ----------------------------------------------------------------------------------------------------------------


class Kind:
    """How the cells of a column are stored: an Arrow type, and a function from the text of a cell to its value."""

    def __init__(self, stored: pa.DataType, value: Callable[[str], Any]) -> None:
        self.stored = stored
        self._value = value

    def value(self, cell: Cell, most: int) -> Any:
        """Return the value of a cell, None where it is invalid; no other cell has any influence."""
        if cell is None or len(cell) > most:
            return None
        try:
            return self._value(cell if isinstance(cell, str) else cell.decode())
        except (ValueError, InvalidOperation):
            return None


def _whole(text: str) -> int | None:
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _decimal(text: str, *, precision: int, scale: int) -> Decimal | None:
    number = Decimal(text)
    if not number.is_finite():
        return None
    moved = number.scaleb(scale)
    return number if moved == moved.to_integral_value() and abs(moved) < 10**precision else None


def _day(text: str) -> date | None:
    return date.fromisoformat(text) if _DAY.fullmatch(text) else None


def _moment(text: str) -> datetime | None:
    # Where a time zone is declared, the session writes UTC.
    return datetime.fromisoformat(text).replace(tzinfo=None) if _DAY.match(text) else None


_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

_WORDS = Kind(pa.string(), str)
_WHOLE_NUMBERS = Kind(pa.int64(), _whole)
_FLOATS = Kind(pa.float64(), float)
_FLAGS = Kind(pa.bool_(), lambda text: _TRUTH.get(text.lower()))
_DAYS = Kind(pa.date32(), _day)
_MOMENTS = Kind(pa.timestamp("us"), _moment)


# The file -------------------------------------------------------------------------------------------------------------


def _write(
    target: Frames,
    names: Sequence[str],
    kinds: Sequence[Kind],
    pieces: Iterator[Sequence[tuple[Cell, ...]]],
    limits: ReaderLimits,
) -> int:
    """Write rows as Parquet, a group at a time, and return how many there were."""
    schema = pa.schema([pa.field(name, kind.stored) for name, kind in zip(names, kinds, strict=True)])
    held: list[list[Any]] = [[] for _ in names]
    count = size = 0
    with pq.ParquetWriter(target, schema) as writer:
        for rows in pieces:
            count += len(rows)
            if count > limits.rows:
                raise limits.too_many_rows()
            for column, kind, cells in zip(held, kinds, zip(*rows, strict=True), strict=True):
                column.extend([kind.value(cell, limits.cell_bytes) for cell in cells])
            size += sum(len(cell) for row in rows for cell in row if cell is not None)
            if len(held[0]) >= GROUP_ROWS or size >= GROUP_BYTES:
                _write_group(writer, held, schema)
                size = 0
        if held[0]:
            _write_group(writer, held, schema)
    return count


def _write_group(writer: pq.ParquetWriter, held: list[list[Any]], schema: pa.Schema) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(held, schema, strict=True)]
    writer.write_batch(pa.record_batch(columns, schema=schema))
    for column in held:
        column.clear()


# SQLite ---------------------------------------------------------------------------------------------------------------


class _SQLite:
    """An SQLite file; the connection itself refuses whatever SELECT does not need."""

    dialect: sa.Dialect = SQLiteDialect_pysqlite(paramstyle="named")

    _ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33)  # 33: of a recursive query
    _WORDS_OF_KINDS = (
        ("BOOL", _FLAGS), ("INT", _WHOLE_NUMBERS), ("REAL", _FLOATS), ("FLOA", _FLOATS), ("DOUB", _FLOATS),
        ("BLOB", None), ("JSON", None),
    )  # fmt: skip

    may_write = False
    """Whether its user may change the table: the connection is the file's, opened for reading only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def found(self, source: DatabaseSource) -> DatabaseSource:
        """Return the source with its schema, after checking that it is the table or the view that it is called."""
        if source.sql is not None:
            return source
        if source.schema not in (None, "main"):
            raise TableError("source: an SQLite file has no schemas. Leave 'schema' out.")
        there = self._connection.execute(
            "SELECT type, sql FROM main.sqlite_master WHERE name = ? AND type IN ('table', 'view')", [source.name]
        ).fetchone()
        if there is None:
            raise _no_table(source)
        is_plain = there[0] == "table" and not str(there[1]).upper().startswith("CREATE VIRTUAL")
        _require_as_called(source, is_plain=is_plain)
        return replace(source, schema="main")

    def names(self, source: DatabaseSource) -> list[str]:
        """Return the names of all columns of the table or query."""
        if source.sql is not None:
            asked = self._connection.execute(f"SELECT * FROM {_inside(source.sql, self.dialect)} LIMIT 0")  # noqa: S608
            return [column[0] for column in asked.description]
        return list(self._listed(source))

    def _listed(self, source: DatabaseSource) -> dict[str, str]:
        listed = self._connection.execute("SELECT name, type, hidden FROM pragma_table_xinfo(?)", [source.name])
        return {name: declared for name, declared, hidden in listed if hidden != 1}

    def declared(self, source: DatabaseSource, names: Sequence[str]) -> list[str]:
        """Return the types of some columns, as the database calls them."""
        # The columns of a query have no declared types in SQLite.
        listed = {} if source.sql is not None else self._listed(source)
        return [listed.get(name, "") for name in names]

    def kind(self, declared: str) -> Kind | None:
        """Return how cells of a type are stored; None where they are not read."""
        # As SQLite itself finds the affinity of a column. Days and decimals are texts here, because an SQLite file may
        # write them in any way.
        return next((kind for word, kind in self._WORDS_OF_KINDS if word in declared.upper()), _WORDS)

    def rows(self, asked: sa.Select[Any]) -> Iterator[Sequence[tuple[Cell, ...]]]:
        """Yield the rows of a statement, some at a time; none of it is held whole."""
        compiled = asked.compile(dialect=self.dialect)
        bound = {name: float(one) if isinstance(one, Decimal) else one for name, one in compiled.params.items()}
        self._connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in self._ALLOWED else sqlite3.SQLITE_DENY
        )
        self._connection.text_factory = _Bytes
        cursor = self._connection.execute(str(compiled), bound)
        while found := cursor.fetchmany(_ROWS_AT_ONCE):
            yield [tuple(map(_written, row)) for row in found]


def _written(cell: object) -> Cell:
    """Return the text of a cell of SQLite by its exact type: 1 and 1.0 are the same, and blobs have no text."""
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "inf" if cell > 0 else "-inf"
        # Written like the whole number that it equals, so that cells that compare as equal have one text.
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2.0**63 else repr(cell)
    if isinstance(cell, _Bytes):
        return bytes(cell)
    return str(cell) if isinstance(cell, int | str) else None


class _Bytes(bytes):
    """A text of SQLite as it is stored, to distinguish it from blobs."""


@contextmanager
def _opened_sqlite(access: DatabaseAccess) -> Iterator[_SQLite]:
    path = Path(str(access.address.database)).expanduser().absolute()
    # A closed write-ahead log could only be read by writing a file next to it, so the database is taken as unchanging.
    at_rest = _keeps_a_log(path) and not path.with_name(f"{path.name}-wal").exists()
    before = path.stat().st_mtime_ns if at_rest else None
    how = "mode=ro&immutable=1" if at_rest else "mode=ro"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None)) as connection:
        # Rows are sorted in memory, so that no unencrypted copy of them is on a disk.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        yield _SQLite(connection)
    if at_rest and (path.with_name(f"{path.name}-wal").exists() or path.stat().st_mtime_ns != before):
        raise TableError("The SQLite database was changed while it was read. Try again.")


def _keeps_a_log(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(20)[18:] == b"\x02\x02"
    except OSError:
        return False


# PostgreSQL -----------------------------------------------------------------------------------------------------------


class _PostgreSQL:
    """A read-only transaction on one state of the database."""

    dialect: sa.Dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]

    _KINDS = (
        dict.fromkeys(("int2", "int4", "int8", "oid"), _WHOLE_NUMBERS)
        | dict.fromkeys(("float4", "float8"), _FLOATS)
        | {"bool": _FLAGS, "date": _DAYS, "timestamp": _MOMENTS, "timestamptz": _MOMENTS}
        | dict.fromkeys(
            ("numeric", "text", "varchar", "bpchar", "char", "name", "uuid", "time", "timetz", "interval", "enum"),
            _WORDS,
        )
        | dict.fromkeys(("inet", "cidr", "macaddr"), _WORDS)
    )

    def __init__(self, connection: psycopg.Connection[Any], raw: type[Loader]) -> None:
        self._connection = connection
        self._raw = raw
        self.may_write = False

    def found(self, source: DatabaseSource) -> DatabaseSource:
        if source.sql is not None:
            return source
        there = self._connection.execute(
            "SELECT n.nspname, c.relkind::text, pg_catalog.row_security_active(c.oid), "
            "pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') FROM pg_catalog.pg_class AS c "
            "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relname = %(table)s AND "
            "CASE WHEN %(schema)s::text IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) "
            "ELSE n.nspname = %(schema)s END",
            {"table": source.name, "schema": source.schema},
        ).fetchone()
        if there is None or there[1] not in "rpvmf":
            raise _no_table(source)
        _require_as_called(source, is_plain=there[1] in "rp")
        if there[2]:
            raise TableError(
                f"A policy of the database decides which rows of '{shown(source.name)}' this user may see, and it may "
                "depend on other rows. Connect as a user who may read all of them."
            )
        # Only the built-in operators and types are used, whatever schemas this user would search.
        self._connection.execute("SET LOCAL search_path = pg_catalog")
        self.may_write = bool(there[3])
        return replace(source, schema=there[0])

    def names(self, source: DatabaseSource) -> list[str]:
        if source.sql is not None:
            asked = f"SELECT * FROM {_inside(source.sql, self.dialect)} AS asked WHERE false"  # noqa: S608
            with self._connection.cursor() as cursor:
                return [column.name for column in self._described(cursor, asked)]
        listed = self._connection.execute(
            "SELECT a.attname FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid "
            "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s AND "
            "a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [source.schema, source.name],
        )
        return [name for (name,) in listed]

    def declared(self, source: DatabaseSource, names: Sequence[str]) -> list[str]:
        columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in names]
        asked = statement(source, names, self.dialect).with_only_columns(*columns).where(sa.false()).order_by(None)
        with self._connection.cursor() as cursor:
            described = self._described(cursor, asked)
        return [self._type_of(column) for column in described]

    def _described(self, cursor: psycopg.Cursor[Any], asked: str | sa.Select[Any]) -> list[psycopg.Column]:
        compiled = asked if isinstance(asked, str) else asked.compile(dialect=self.dialect)
        bound = {} if isinstance(compiled, str) else compiled.params
        cursor.execute(str(compiled).encode(), bound)
        return cursor.description or []

    def _type_of(self, column: psycopg.Column) -> str:
        if column.precision is not None and column.scale is not None:
            return f"numeric({column.precision},{column.scale})"
        known = self._connection.adapters.types.get(column.type_code)
        if known is not None:
            return known.name if column.type_code == known.oid else f"an array of {known.name}"
        named = self._connection.execute(
            "SELECT typname, typtype::text FROM pg_catalog.pg_type WHERE oid = %s", [column.type_code]
        ).fetchone()
        return "unknown" if named is None else "enum" if named[1] == "e" else named[0]

    def kind(self, declared: str) -> Kind | None:
        exact = re.fullmatch(r"numeric\((\d+),(\d+)\)", declared)
        if exact is None:
            return self._KINDS.get(declared)
        precision, scale = map(int, exact.groups())
        if not (precision <= _MOST_DIGITS and scale <= precision):
            return _WORDS
        return Kind(pa.decimal128(precision, scale), partial(_decimal, precision=precision, scale=scale))

    def rows(self, asked: sa.Select[Any]) -> Iterator[Sequence[tuple[Cell, ...]]]:
        compiled = asked.compile(dialect=self.dialect)
        # As bytes, which each column decodes itself: a cell that is not text must not end the whole table.
        self._connection.adapters.register_loader("text", self._raw)
        with self._connection.cursor(name="hermitage") as cursor:
            cursor.execute(str(compiled).encode(), compiled.params)
            while found := cursor.fetchmany(_ROWS_AT_ONCE):
                yield found


_MOST_DIGITS = 38
"""Digits of the longest decimals in Parquet; longer ones are texts."""

_NO_FILE = f"{os.devnull}/none"
"""A path at which there is no file, ever; with no path, libpq would take the usual one."""

_NOTICED = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""A server that vanishes without a word is noticed after a minute, in seconds and numbers of libpq."""

_SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "lock_timeout": "15s",
}


def connection_options(access: DatabaseAccess) -> dict[str, Any]:
    """Return how a database of PostgreSQL is opened.

    Only a connection that an administrator has named finds what lets the server in: passwords and client certificates
    in their usual places are not for whoever types an address.
    """
    parts, is_named = access.address, bool(access.files_of_passwords)
    options: dict[str, Any] = {
        "host": parts.host,
        "port": parts.port,
        "user": parts.username,
        "password": access.password,
        "dbname": parts.database,
        "passfile": access.files_of_passwords.get("PGPASSFILE", os.devnull),
        "sslcert": None if is_named else _NO_FILE,
        "sslkey": None if is_named else _NO_FILE,
        "connect_timeout": _CONNECT_SECONDS,
        "client_encoding": "UTF8",
        "application_name": "Hermitage",
        **_NOTICED,
        **parts.query,
    }
    return {name: value for name, value in options.items() if value not in (None, "")}


@contextmanager
def _opened_postgresql(source: DatabaseSource, access: DatabaseAccess, limits: ReaderLimits) -> Iterator[_PostgreSQL]:
    import psycopg
    from psycopg.adapt import Loader

    class Raw(Loader):
        """A text as the bytes that were sent."""

        def load(self, data: Any) -> bytes:
            return bytes(data)

    with psycopg.connect(**connection_options(access)) as connection:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        settings = _SESSION | {"statement_timeout": f"{math.ceil(limits.wall_seconds)}s"}
        if source.sql is None:
            settings["row_security"] = "off"
        for name, value in settings.items():
            connection.execute("SELECT pg_catalog.set_config(%s, %s, true)", [name, value])
        try:
            yield _PostgreSQL(connection, Raw)
        except psycopg.Error:
            if not connection.broken:
                raise
            raise TableError(
                "The database went away while the table was read, and nothing of it was kept. Try again when it "
                "answers."
            ) from None
        connection.rollback()


# What went wrong ------------------------------------------------------------------------------------


def _no_table(source: DatabaseSource) -> TableError:
    where = "" if source.schema is None else f" in the schema '{shown(source.schema)}'"
    return TableError(
        f"The database has no table '{shown(source.name)}'{where}, or this user may not see it. Upper and lower "
        "case matter."
    )


def _require_as_called(source: DatabaseSource, *, is_plain: bool) -> None:
    """Refuse a view that is called a table, which would hide an assumption, and a table that is called a view."""
    if source.view is not None and is_plain:
        raise TableError(f"'{shown(source.name)}' is a table. Name it as one: nothing needs to be assumed of its rows.")
    if source.view is None and not is_plain:
        raise TableError(
            f"'{shown(source.name)}' is a view or an external table, so one of its rows may depend on several people. "
            "Read the underlying table, or name it as a 'view': the certificate then states what is assumed."
        )


def _code_of(error: Exception, access: DatabaseAccess) -> str:
    """Return a code of ours for the error of a driver, whose message is not passed on."""
    if not access.is_sqlite:
        import psycopg

        if isinstance(error, psycopg.Error):
            if error.sqlstate is None and error.pgconn is not None and error.pgconn.needs_password:
                return "needs password"
            if error.sqlstate is None and error.pgconn is not None and error.pgconn.used_password:
                return "wrong password"
            return error.sqlstate or "unreachable"
    # Such as SQLITE_CANTOPEN_ISDIR.
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])


if __name__ == "__main__":
    raise SystemExit(main())
