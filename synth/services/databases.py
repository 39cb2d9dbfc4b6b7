"""A database as the source of a table: read by a confined process, and encrypted while it comes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO

from synth.errors import InputError, TableError
from synth.schema import RunConfig, TableFormat
from synth.schema.source import DatabaseSource
from synth.system.confined import Confined
from synth.system.conversation import Conversation
from synth.system.settings import ReaderLimits
from synth.vault.incoming import Incoming

__all__ = ["PasswordNeededError", "as_read_from_source", "form_of_rows", "refuse_unlisted", "rows_of"]

_READER = "synth.reading.more.database"


class PasswordNeededError(InputError):
    """The database asks for a password, and none was given."""


_LACKS_A_TYPE = (
    "where: a column is compared with something of another type. Write texts and days in 'single quotation marks', and "
    "numbers without."
)
_SAID = {
    "28P01": "The database does not accept this name with this password.",
    "wrong password": "The database does not accept this name with this password.",
    "3D000": "The database server has no database of this name.",
    "unreachable": "The database cannot be reached, or does not let this name in. Check host, port, database and name.",
    "42P01": "The database has no table that the query names.",
    "42703": "The database has no column that the query names.",
    "42501": "This name may not read the table. Ask whoever keeps the database for the right to SELECT.",
    **dict.fromkeys(("42883", "42804", "22P02", "22007", "22008", "22003"), _LACKS_A_TYPE),
    "57014": "The database took longer than is allowed and was stopped. Read fewer rows.",
    "55P03": "Somebody else holds the table. Try again later.",
    "25006": "The query would change the database, and only reading is possible.",
    "42601": "The query under 'sql' is not understood. Write one SELECT.",
    "SQLITE_CANTOPEN": "The file of the SQLite database cannot be opened. Check the path after sqlite:///.",
    "SQLITE_NOTADB": "The file is no SQLite database.",
    "SQLITE_CORRUPT": "The file of the SQLite database is damaged.",
    "SQLITE_BUSY": "Somebody else writes to the SQLite database. Try again later.",
    "SQLITE_AUTH": "The query does more than read, and only reading is possible.",
}
"""What is said of a failure, by the word that the reading process has for it."""


def form_of_rows(source: DatabaseSource, form: TableFormat) -> TableFormat:
    """Return how the file is written that a database becomes; which texts mean "missing" stays as it was declared."""
    return replace(form, kind="parquet", header=True, names=None, newlines=False, origin=source.origin)


def as_read_from_source(config: RunConfig) -> RunConfig:
    """Return a configuration whose format says that a database was read, and of its table no more than is declared."""
    source = config.source
    if source is None:
        return config
    if source.sql is None and not source.columns:
        names = [one.name for one in config.schema if one.is_printed or one.name == config.schema.unit.id_column]
        source = replace(source, columns=tuple(names))
    # The test table is a file, and has a format of its own then.
    of_test = config.test_format if config.test_table is None else config.test_format or config.format
    return replace(config, source=source, format=form_of_rows(source, config.format), test_format=of_test)


def refuse_unlisted(source: DatabaseSource, allowed: tuple[str, ...]) -> None:
    """Refuse a database that whoever runs the server did not name in ``HERMITAGE_DATABASES``.

    Raises
    ------
    InputError
        In one sentence; nothing is connected to.
    """
    parts = source.address
    if source.is_sqlite:
        place = Path(str(parts.database)).expanduser().resolve()
        listed = any(one.startswith("/") and place.is_relative_to(Path(one).resolve()) for one in allowed)
    else:
        host = parts.query.get("host", parts.host or "localhost")
        # Several hosts, which a driver would try in turn, are on no list.
        listed = isinstance(host, str) and {host, f"{host}:{parts.port or 5432}"} & set(allowed) != set()
    if not listed:
        raise InputError(
            "This server may not read from that database: whoever runs it lists what it may read in "
            "HERMITAGE_DATABASES. Ask them, or use the command line: synth run CONFIG.yaml --from ADDRESS --table NAME."
        )


@contextmanager
def rows_of(
    source: DatabaseSource,
    *,
    password: str | None,
    directory: Path,
    limits: ReaderLimits,
    only_names: bool = False,
) -> Iterator[BinaryIO]:
    """Read a table of a database once, and yield its file as a stream that can be read again.

    It lies in ``directory`` without a name and encrypted under a key of this process, and is gone after the block.

    Parameters
    ----------
    source : DatabaseSource
        Which rows.
    password : str, optional
        Sent to the reading process and the database, and kept nowhere.
    directory : Path
        On whose disk the file lies.
    limits : ReaderLimits
        Of the reading process; rows, bytes, memory and time.
    only_names : bool
        Read names and types of columns, and no row.

    Raises
    ------
    PasswordNeededError
        If the database asks for one and there is none.
    TableError
        If it cannot be read, in one sentence without a cell, an address or a password.
    """
    incoming = Incoming(directory)
    arrival = incoming.arrive("", "")
    try:
        asked: dict[str, object] = {"source": source.to_mapping(), "password": password, "limits": asdict(limits)}
        asked["only_names"] = only_names
        with (
            Confined(_READER, seconds=limits.wall_seconds) as process,
            # No file is handed over: it brings one.
            Conversation(process, io.BytesIO(), size=0) as conversation,
        ):
            try:
                conversation.ask(json.dumps(asked).encode())
                while (piece := _piece(conversation, source)) is not None:
                    arrival.write(piece)
            except TimeoutError:
                raise TableError(_SAID["57014"]) from None
            except (EOFError, ValueError, KeyError, TypeError, BrokenPipeError):
                took_too_long = process.used_up_its_time()
                raise TableError(
                    _SAID["57014"]
                    if took_too_long
                    else "Reading the table needs more memory than is allowed. Name fewer columns."
                ) from None
        with incoming.claim(arrival.finish()) as stream:
            yield stream
    finally:
        incoming.forget("")


def _piece(conversation: Conversation, source: DatabaseSource) -> bytes | None:
    """Return the next piece of the file, None at its end."""
    kind, body = conversation.hear()
    if kind == b"B":
        return body
    if kind == b"Z":
        return None
    if kind == b"E":
        raise TableError(body.decode())
    if kind != b"F":
        raise ValueError
    code = body.decode()
    if code == "needs password":
        raise PasswordNeededError(
            "The database asks for a password. Name the environment variable that holds it with --password-env."
        )
    if code in _SAID:
        raise TableError(_SAID[code])
    if source.sql is not None:
        raise TableError("The query under 'sql' failed in the database. Run it there, as one SELECT.")
    raise TableError("The database could not be read to the end. Try again.")
