"""Whole copies of the database: SQLite by its backup interface, PostgreSQL by ``pg_dump`` and ``pg_restore``.

Copying the files of a SQLite database in use leaves out what still stands in its write-ahead log.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, inspect, make_url
from sqlalchemy.exc import OperationalError

from synth.errors import ConfigError
from synth.store.engine import make_engine

__all__ = ["copy_database", "database_file", "is_empty", "restore_database"]

_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}


def database_file(address: str) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    url = make_url(address.replace("postgres://", "postgresql://", 1))
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def is_empty(address: str) -> bool:
    """Whether nothing is in the database yet; a SQLite file that does not exist is empty."""
    path = database_file(address)
    if path is not None and not path.exists():
        return True
    engine = make_engine(address)
    try:
        return not inspect(engine).get_table_names()
    except OperationalError:
        raise ConfigError(
            "The database cannot be reached. Check DATABASE_URL and that its server runs, then try again."
        ) from None
    finally:
        engine.dispose()


def copy_database(address: str, target: Path) -> None:
    """Write one consistent state of the database into a new file of mode 0600, while others go on using it.

    Raises
    ------
    ConfigError
        If the database or ``pg_dump`` cannot be reached.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path = database_file(address)
    if path is None:
        _run(("pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--file", str(target)), address)
        return
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        # One file, without a log beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        if copy.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise ConfigError("The database is damaged: its copy does not pass the check. Restore an earlier backup.")


def restore_database(source: Path, address: str) -> None:
    """Fill an empty database with what :func:`copy_database` wrote.

    Raises
    ------
    ConfigError
        If the database or ``pg_restore`` cannot be reached.
    """
    path = database_file(address)
    if path is None:
        _run(
            ("pg_restore", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", str(source)),
            address,
            into=True,
        )
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(0o600)


def _run(command: Sequence[str], address: str, *, into: bool = False) -> None:
    url = make_url(address.replace("postgres://", "postgresql://", 1))
    database = ("--dbname", str(url.database)) if into else (str(url.database),)
    try:
        done = subprocess.run([*command, *database], env=_environment(url), capture_output=True, check=False)
    except FileNotFoundError:
        raise ConfigError(
            f"The program {command[0]} is not installed. Install PostgreSQL's client programs, of the server's version."
        ) from None
    if done.returncode != 0:
        # Its own text may quote the address.
        raise ConfigError(
            f"{command[0]} could not copy the database (exit {done.returncode}). Check DATABASE_URL, and that the "
            "program is not older than the server."
        )


def _environment(url: URL) -> dict[str, str]:
    """Return the environment that carries the address: on a command line everybody could read the password."""
    given = {name: value for name, value in url.query.items() if isinstance(value, str)}
    given |= {name: str(value) for name, value in (("host", url.host), ("port", url.port)) if value is not None}
    named = {_ENVIRONMENT[name]: value for name, value in given.items() if name in _ENVIRONMENT}
    secret = {"PGPASSWORD": str(url.password)} if url.password is not None else {}
    user = {"PGUSER": url.username} if url.username is not None else {}
    return {**os.environ, **named, **user, **secret}
