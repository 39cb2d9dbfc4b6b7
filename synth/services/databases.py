"""A database as the source of a table: a confined process reads it, and the rows are encrypted as they arrive."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO

from synth.errors import InputError, TableError
from synth.names import shown
from synth.schema import RunConfig, TableFormat
from synth.schema.source import DatabaseAccess, DatabaseSource
from synth.system.confined import Confined
from synth.system.conversation import Conversation
from synth.system.settings import Connection, ReaderLimits, Settings
from synth.vault.incoming import Incoming

__all__ = [
    "PasswordNeededError",
    "as_read_from_source",
    "connections_for",
    "form_of_rows",
    "refuse_unlisted",
    "rows_of",
]

_READER = "synth.reading.more.database"


class PasswordNeededError(InputError):
    """The database requires a password, and none was given."""


_LACKS_A_TYPE = (
    "where: a column is compared with a value of another type. Write texts and dates in 'single quotation marks', and "
    "numbers without."
)
_SAID = {
    "28P01": "The database does not accept this user name and password.",
    "wrong password": "The database does not accept this user name and password.",
    "3D000": "The database server has no database of this name.",
    "unreachable": "The database cannot be reached, or rejects this user. Check host, port, database and user name.",
    "42P01": "The query names a table that the database does not have.",
    "42703": "The query names a column that the database does not have.",
    "42501": "This user may not read the table. Ask the database administrator for the right to SELECT.",
    **dict.fromkeys(("42883", "42804", "22P02", "22007", "22008", "22003"), _LACKS_A_TYPE),
    "57014": "The database took too long and was stopped. Read fewer rows.",
    "55P03": "The table is locked by another user. Try again later.",
    **dict.fromkeys(("57P03", "53300"), "The database takes no connections at the moment. Try again later."),
    "25006": "The query would change the database. Only reading is allowed.",
    "42601": "The database does not understand the query under 'sql'. Write one SELECT.",
    "SQLITE_CANTOPEN": "The file of the SQLite database cannot be opened. Check the path after sqlite:///.",
    "SQLITE_NOTADB": "The file is not an SQLite database.",
    "SQLITE_CORRUPT": "The file of the SQLite database is damaged.",
    "SQLITE_BUSY": "Another program is writing to the SQLite database. Try again later.",
    "SQLITE_AUTH": "The query does more than read. Only reading is allowed.",
}
"""The message for a failure, by the code that the reading process gives it."""

_NOT_LET_IN = ("28P01", "wrong password", "3D000", "unreachable")
"""Failures of an address, a user or a password, none of which whoever uses a named connection knows."""


def form_of_rows(source: DatabaseSource, form: TableFormat) -> TableFormat:
    """Return the format of the file that a database is read into; texts that mean "missing" stay as declared."""
    return replace(form, kind="parquet", header=True, names=None, newlines=False, origin=source.origin)


def as_read_from_source(config: RunConfig) -> RunConfig:
    """Return a configuration whose format says that a database was read, limited to the declared columns."""
    source = config.source
    if source is None:
        return config
    if source.sql is None and not source.columns:
        names = [one.name for one in config.schema if one.is_printed or one.name == config.schema.unit.id_column]
        source = replace(source, columns=tuple(names))
    # A test table that is a file has a format of its own.
    of_test = config.test_format if config.test_table is None else config.test_format or config.format
    return replace(config, source=source, format=form_of_rows(source, config.format), test_format=of_test)


def connections_for(settings: Settings) -> tuple[Connection, ...]:
    """Return the named connections that may be used: all of them, by everyone who can reach this installation.

    Who may use which is decided here and nowhere else: screens offer what it returns, and a table is read from nothing
    else.
    """
    return settings.connections


def _access_to(source: DatabaseSource, password: str | None, connections: Sequence[Connection]) -> DatabaseAccess:
    """Return how the database of a source is reached.

    Raises
    ------
    InputError
        If there is no connection of that name.
    ConfigError
        If the address that the administrator gave it cannot be used.
    """
    if source.url is not None:
        return DatabaseAccess(url=source.url, password=password)
    named = {one.name: one.address for one in connections}
    name = str(source.connection)
    if name not in named:
        there = f"There are: {', '.join(map(shown, named))}." if named else "HERMITAGE_DATABASES names none."
        raise InputError(f"This server has no database connection '{shown(name)}'. {there}")
    files = {variable: os.environ.get(variable) or str(Path.home() / usual) for variable, usual in _FILES.items()}
    return DatabaseAccess.of_connection(name, named[name], files)


_FILES = {"PGPASSFILE": ".pgpass", "PGSERVICEFILE": ".pg_service.conf"}
"""Files of the client library of PostgreSQL, by the variable that chooses each, and its usual name in the home."""


def refuse_unlisted(source: DatabaseSource, settings: Settings) -> None:
    """Refuse a database that the operator of the server did not list in ``HERMITAGE_DATABASES``.

    A file in the home of the installation is never listed, and neither is an address without a host: with that the
    client library takes a socket of this machine, where whoever runs the server may be let in without a password.

    Raises
    ------
    InputError
        Before any connection is made.
    """
    if source.connection is not None:  # it names what the operator has set up, or nothing
        return
    parts, allowed = source.address, settings.databases
    if parts.get_backend_name() == "sqlite":
        place = Path(str(parts.database)).expanduser().resolve()
        listed = any(one.startswith("/") and place.is_relative_to(Path(one).resolve()) for one in allowed)
        listed &= not place.is_relative_to(settings.home.resolve())
    else:
        host = parts.query.get("host", parts.host)
        # A list of several hosts, which a driver would try in turn, is never allowed.
        listed = isinstance(host, str) and {host, f"{host}:{parts.port or 5432}"} & set(allowed) != set()
    if not listed:
        raise InputError(
            "This server may not read that database: its operator lists the databases that it may read in "
            "HERMITAGE_DATABASES. Ask the operator, or use the command line: synth run CONFIG.yaml --from ADDRESS "
            "--table NAME."
        )


_MAY_WRITE = (
    "The user with which the database was read may also change this table. Nothing was changed: it was read in a "
    "read-only transaction. Ask the database administrator for a user that may only SELECT."
)


@contextmanager
def rows_of(
    source: DatabaseSource,
    *,
    password: str | None,
    directory: Path,
    limits: ReaderLimits,
    connections: Sequence[Connection] = (),
    warn: Callable[[str], None] = lambda _: None,
    only_names: bool = False,
) -> Iterator[BinaryIO]:
    """Read a table of a database once, and yield its file as a stream that can be read again.

    The file is in ``directory``, without a name, encrypted under a key of this process, and is gone after the block.

    Parameters
    ----------
    source : DatabaseSource
        Which rows.
    password : str, optional
        Sent to the reading process and the database, and not stored.
    directory : Path
        Where the file is kept.
    limits : ReaderLimits
        The limits of the reading process on rows, bytes, memory and time.
    connections : sequence of Connection
        The named ones that may be used (:func:`connections_for`).
    warn : callable
        Is told that the user of the database may do more than read the table.
    only_names : bool
        Read only the names and types of columns, and no row.

    Raises
    ------
    PasswordNeededError
        If the database requires a password and none was given.
    InputError
        If there is no connection of that name.
    TableError
        If the table cannot be read; the message contains no cell, address or password.
    """
    access = _access_to(source, password, connections)
    incoming = Incoming(directory)
    arrival = incoming.arrive("", "")
    try:
        asked: dict[str, object] = {"source": source.to_mapping(), "access": asdict(access), "limits": asdict(limits)}
        asked["only_names"] = only_names
        with (
            Confined(_READER, seconds=limits.wall_seconds) as process,
            # The process gets no file: it returns one.
            Conversation(process, io.BytesIO(), size=0) as conversation,
        ):
            try:
                conversation.ask(json.dumps(asked).encode())
                while (piece := _piece(conversation, source, warn)) is not None:
                    arrival.write(piece)
            except TimeoutError:
                raise TableError(_SAID["57014"]) from None
            except (EOFError, ValueError, KeyError, TypeError, BrokenPipeError):
                took_too_long = process.used_up_its_time()
                raise TableError(
                    _SAID["57014"]
                    if took_too_long
                    else "Reading the table needs more memory than is allowed. Read fewer columns."
                ) from None
        with incoming.claim(arrival.finish()) as stream:
            yield stream
    finally:
        incoming.forget("")


def _piece(conversation: Conversation, source: DatabaseSource, warn: Callable[[str], None]) -> bytes | None:
    """Return the next piece of the file, or None at its end."""
    kind, body = conversation.hear()
    if kind == b"B":
        return body
    if kind == b"Z":
        if json.loads(body)["may_write"]:
            warn(_MAY_WRITE)
        return None
    if kind == b"E":
        raise TableError(body.decode())
    if kind != b"F":
        raise ValueError
    code = body.decode()
    if code == "needs password" and source.connection is not None:
        raise InputError(
            f"The database of the connection '{shown(source.connection)}' requires a password, and the server has none "
            "for it. Its administrator puts one into the file that PGPASSFILE names, which only the server's user may "
            "read."
        )
    if code in _NOT_LET_IN and source.connection is not None:
        raise TableError(
            f"The database of the connection '{shown(source.connection)}' cannot be reached, or does not accept the "
            "user or the password of this server. Ask the administrator of this server."
        )
    if code == "needs password":
        raise PasswordNeededError(
            "The database requires a password. Name the environment variable that holds it with --password-env."
        )
    if code in _SAID:
        raise TableError(_SAID[code])
    if source.sql is not None:
        raise TableError("The query under 'sql' failed in the database. Try it there first, as one SELECT.")
    raise TableError("The database could not be read to the end. Try again.")
