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
from synth.system.disks import disk_full, has_no_room

__all__ = ["copy_database", "database_file", "is_empty", "restore_database"]


def database_file(address: str) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    url = make_url(address.replace("postgres://", "postgresql://", 1))
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def is_empty(address: str) -> bool:
    """Whether nothing is in the database yet; a SQLite file that does not exist, nor its log, is empty.

    A log that was left behind belongs to the database that it was written for: SQLite would read it into any other one
    of that name.
    """
    path = database_file(address)
    if path is not None and not path.exists():
        return not any(path.with_name(f"{path.name}{end}").exists() for end in ("-wal", "-journal"))
    engine = make_engine(address)
    try:
        return not inspect(engine).get_table_names()
    except OperationalError:
        raise ConfigError(
            "The database does not answer. Check DATABASE_URL and that its server runs, then try again."
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
        try:
            _run(("pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--file", str(target)), address)
        except ConfigError:
            if has_no_room(target.parent):
                raise disk_full(target.parent) from None
            raise
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
        options = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error")
        _run(("pg_restore", *options, str(source)), address)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(0o600)


def _run(command: Sequence[str], address: str) -> None:
    url = make_url(address.replace("postgres://", "postgresql://", 1))
    # On a command line everybody could read the password.
    secret = url.password if url.password is not None else url.query.get("password")
    environment = dict(os.environ) if secret is None else {**os.environ, "PGPASSWORD": str(secret)}
    public = url.set(drivername="postgresql").difference_update_query(["password"])
    open_address = URL.create(
        "postgresql", public.username, None, public.host, public.port, public.database, public.query
    ).render_as_string()
    try:
        done = subprocess.run([*command, f"--dbname={open_address}"], env=environment, capture_output=True, check=False)
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
