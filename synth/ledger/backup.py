"""Back up, restore and remove a whole installation: database, keys, marks, runs and tables.

A backup lacks what was spent after it was made. In a restored installation every account is therefore frozen until its
owner has entered the missing certificates and accepted the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import URL, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from synth.errors import ConfigError, InputError, LedgerError
from synth.ledger.chain import SUCCESSORS
from synth.ledger.ledger import Ledger
from synth.store import EventKind, Store, TableState, WorkState, now
from synth.store.engine import make_engine
from synth.store.layout import LAYOUT_TABLE, METADATA
from synth.store.store import require_layout
from synth.system.disk import disk_full, has_no_room, locked, naming_full_disk, private_file
from synth.system.settings import Settings
from synth.vault.kept_answers import ANSWERS_FILE
from synth.vault.keys import PUBLIC_FILE, SECRET_FILES, load_keys
from synth.version import OLDEST_READ, __version__

__all__ = ["BackupMade", "Contents", "Restored", "back_up", "contents", "copy_database", "remove", "restore"]

MANIFEST = "manifest.json"
_FORMAT = 2
"""Format of a backup, in its manifest; versions before 0.9.0 wrote 1."""

_DATABASES = {"sqlite": "database.sqlite", "postgresql": "database.dump"}
_KEYS = (*SECRET_FILES, PUBLIC_FILE)

INTERRUPTED = (
    "The installation was restored from a backup that was made before this run had finished. What it was charged stays "
    "spent, because it may have read the rows afterwards."
)


@dataclass(frozen=True, slots=True)
class BackupMade:
    """A finished backup: its folder, its number of files, and whether it has the encrypted tables."""

    folder: Path
    files: int
    with_tables: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored: when the backup was made, the names of the accounts (all frozen), and the number of runs.

    ``lost_tables`` is the number of tables that still had rows when the backup was made, but are not in it.
    """

    made: datetime
    accounts: tuple[str, ...]
    runs: int
    lost_tables: int


def back_up(settings: Settings, target: str | Path, *, with_tables: bool = False) -> BackupMade:
    """Copy an installation, which may be in use, to a new folder that only this user can read.

    Marks are copied before the database and runs after it: in the copy the ledger is never behind its marks, and every
    finished run has its files.

    Parameters
    ----------
    settings : Settings
        Of the installation.
    target : path
        A new or empty folder.
    with_tables : bool
        Copy the encrypted tables and their keys too. The backup keeps them beyond their retention time.

    Raises
    ------
    InputError
        If there is no installation, or the folder is not empty.
    ConfigError
        If the database cannot be copied.
    """
    folder = Path(target)
    if not (settings.home / "keys").is_dir() or _is_empty(settings.database_url):
        raise InputError(f"There is no installation in {settings.home}. Set HERMITAGE_HOME to the right one.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"The folder '{folder.name}' is not empty. Choose a new folder for the backup.")
    require_layout(settings)  # do not copy what this version could not open after a restore; moving waits until then
    with naming_full_disk(folder):
        return _copied(settings, folder, with_tables=with_tables)


def _copied(settings: Settings, folder: Path, *, with_tables: bool) -> BackupMade:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for pattern in ("*.mark", *(("*.header", "*.table") if with_tables else ())):
        for path in sorted((settings.home / "vault").glob(pattern)):
            _copy(path, folder / "vault" / path.name)
    kind = "postgresql" if _database_file(settings.database_url) is None else "sqlite"
    copy_database(settings.database_url, folder / _DATABASES[kind])
    for name in _KEYS:
        _copy(settings.home / "keys" / name, folder / "keys" / name)
    for path in _files(settings.home / "runs"):
        if path.name == ANSWERS_FILE:
            continue  # a restored run is never continued: the original may have been
        _copy(path, folder / "runs" / path.relative_to(settings.home / "runs"))
    files = {str(path.relative_to(folder)): _digest(path) for path in _files(folder)}
    body = {
        "version": _FORMAT,
        "made": int(now().timestamp()),
        "database": kind,
        "with_tables": with_tables,
        "files": files,
    }
    # Last: an incomplete backup has no manifest and cannot be restored.
    with private_file(folder / MANIFEST) as manifest:
        manifest.write(json.dumps(body, indent=1, sort_keys=True).encode() + b"\n")
    return BackupMade(folder, len(files), with_tables)


def restore(settings: Settings, source: str | Path) -> Restored:
    """Restore a backup into an empty home and an empty database, and freeze every account.

    Raises
    ------
    InputError
        If the home or the database is not empty, or the backup is damaged, incomplete or not a backup.
    ConfigError
        If the database cannot be filled.
    """
    folder = Path(source)
    body = _checked_manifest(folder)
    kind = "postgresql" if _database_file(settings.database_url) is None else "sqlite"
    if body["database"] != kind:
        raise InputError(
            f"The backup is of a {body['database']} database, but DATABASE_URL names {kind}. Use the same kind."
        )
    if any(_files(settings.home / part) for part in ("keys", "vault", "runs")) or not _is_empty(settings.database_url):
        raise InputError(
            f"There is already an installation in {settings.home} or in its database. Move both away and keep them, "
            "since you may have to enter the certificates of its runs; or set HERMITAGE_HOME to a new folder."
        )
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for part in ("vault", "runs"):
        (settings.home / part).mkdir(mode=0o700, exist_ok=True)
        for path in _files(folder / part):
            _copy(path, settings.home / part / path.relative_to(folder / part))
    _restore_database(folder / _DATABASES[kind], settings.database_url)
    with Store(settings) as store:
        made = datetime.fromtimestamp(body["made"], UTC)
        restored = _freeze_everything(store, Ledger(store, load_keys(folder)), made)
    # Last: without keys nothing starts, so an incomplete restore cannot spend anything.
    draft = settings.home / f"keys.{uuid4().hex}"
    for name in _KEYS:
        _copy(folder / "keys" / name, draft / name)
    draft.rename(settings.home / "keys")
    return restored


def _freeze_everything(store: Store, ledger: Ledger, made: datetime) -> Restored:
    unfinished = [run for run in store.runs.all() if not run.is_finished]
    accounts = store.accounts.all()
    for account in accounts:
        for charge in ledger.current(account.id):
            if SUCCESSORS[charge.state] and not _led_to_report(store, charge.run_id):
                ledger.count_as_spent(charge)
        ledger.freeze(account.id, because="restored", who="restore")
        with suppress(LedgerError):  # a mark that is ahead stays ahead
            ledger.check_whole(account.id)
            ledger.mark(account.id)
    for run in unfinished:
        store.work.move(run.id, WorkState.FAILED, message=INTERRUPTED)
    store.work.forget_all_but_runs()
    lost = 0
    for account in accounts:
        for table in store.tables.of_account(account.id):
            there = all((store.settings.home / "vault" / f"{table.id}{end}").exists() for end in (".table", ".header"))
            if table.state is TableState.STORED and not there:
                store.tables.mark_deleted(table.id)
                store.events.add(EventKind.TABLE_DELETED, account_id=account.id, table_id=table.id, who="restore")
                lost += 1
    return Restored(made, tuple(account.name for account in accounts), len(store.runs.all()), lost)


def _led_to_report(store: Store, run_id: str) -> bool:
    """Whether a run can still be released; its charge is spent and stays open until then."""
    run = store.runs.find(run_id)
    return run is not None and run.state in (WorkState.UNCHECKED, WorkState.REPORTED, WorkState.RELEASED)


def _checked_manifest(folder: Path) -> dict[str, Any]:
    try:
        body = json.loads((folder / MANIFEST).read_bytes())
        files = dict(body["files"])
        number = int(body["version"])
        known = number == _FORMAT and body["database"] in _DATABASES and isinstance(body["made"], int)
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"'{folder.name}' is not a complete backup: it has no readable {MANIFEST}. Give one that synth backup made."
        ) from None
    if not known:
        maker = f"a version before {OLDEST_READ}" if number < _FORMAT else "a later version"
        raise InputError(
            f"The backup '{folder.name}' was made by {maker} of this program; this is version {__version__}, which "
            "cannot restore it. Use the version that made it."
        )
    found = {str(path.relative_to(folder)) for path in _files(folder)} - {MANIFEST}
    wrong = [name for name in files if name not in found or _digest(folder / name) != files[name]]
    if wrong or found - set(files):
        raise InputError(
            f"The backup '{folder.name}' is damaged: {len(wrong)} files are missing or altered, and "
            f"{len(found - set(files))} do not belong to it. Use another backup."
        )
    return dict(body)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _copy(source: Path, target: Path) -> None:
    for made in reversed([parent for parent in target.parents if not parent.exists()]):
        made.mkdir(mode=0o700)
    try:
        with source.open("rb") as stream, private_file(target) as copy:
            shutil.copyfileobj(stream, copy)
    except FileNotFoundError:
        if source.parent.name == "keys":
            raise ConfigError(
                f"The key {source.name} is missing from {source.parent}. Restore it from a backup."
            ) from None
        # A temporary file of a run in progress, or a table that was just deleted.
        target.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# Removing an installation ---------------------------------------------------------------------------------------------

_PARTS = ("keys", "vault", "runs", "rehearsals", "trials", "incoming")
"""What an installation keeps in its home besides a SQLite database. Keys go first: the rest is unreadable then."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of an installation: the numbers of accounts, releases and stored private tables."""

    accounts: int
    releases: int
    tables: int


def contents(settings: Settings) -> Contents:
    """Return what would be removed.

    Raises
    ------
    InputError
        If there is no installation, or it is in use.
    """
    if not settings.home.is_dir() or (_is_empty(settings.database_url) and not _files(settings.home / "keys")):
        raise InputError(f"There is no installation in {settings.home}. Set HERMITAGE_HOME to the right one.")
    with Store(settings) as store:
        _require_idle(store)
        released = sum(run.state is WorkState.RELEASED for run in store.runs.all())
        return Contents(len(store.accounts.all()), released, len(store.tables.stored()))


def remove(settings: Settings) -> tuple[str, ...]:
    """Remove an installation: keys, vault, ledger, runs and rehearsals. Only a backup can bring them back.

    Returns
    -------
    tuple of str
        Names of other files in its home, which stay.

    Raises
    ------
    InputError
        If it is in use; nothing is removed then.
    """
    vault = settings.home / "vault"
    vault.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(vault, alone=True) as held:
        if not held:
            raise InputError("A table is being uploaded. Wait until that has finished, or stop it, then try again.")
        with Store(settings) as store:
            _require_idle(store)
        for part in _PARTS:
            shutil.rmtree(settings.home / part, ignore_errors=True)
        _remove_database(settings.database_url)
    left = tuple(sorted(path.name for path in settings.home.iterdir()))
    if not left:
        settings.home.rmdir()
    return left


def _require_idle(store: Store) -> None:
    if store.work.active() or store.work.waiting():
        raise InputError("Work is in progress. Wait until it has ended, or stop it, then try again.")


def _remove_database(address: str) -> None:
    path = _database_file(address)
    if path is not None:
        for end in ("", "-wal", "-shm", "-journal"):
            path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
        return
    engine = make_engine(address)
    try:
        with engine.begin() as connection:
            # The triggers go with the tables; other tables in the database stay.
            METADATA.drop_all(connection)
            LAYOUT_TABLE.drop(connection, checkfirst=True)
            connection.execute(text("DROP TABLE IF EXISTS hermitage_commits"))
            connection.execute(text("DROP FUNCTION IF EXISTS hermitage_refuse()"))
    except OperationalError:
        raise ConfigError(
            "The keys are removed, but the database does not answer. Delete it yourself: without the keys nothing in "
            "it can be charged or opened."
        ) from None
    finally:
        engine.dispose()


# The database ---------------------------------------------------------------------------------------------------


def _database_file(address: str) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    url = make_url(address.replace("postgres://", "postgresql://", 1))
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def _is_empty(address: str) -> bool:
    """Whether the database is empty; a SQLite database without a file counts as empty if it has no log either.

    A log that was left behind belongs to the database for which it was written, but SQLite would apply it to any other
    of that name.
    """
    path = _database_file(address)
    if path is not None and not path.exists():
        return not any(path.with_name(f"{path.name}{end}").exists() for end in ("-wal", "-journal"))
    engine = make_engine(address)
    try:
        return not inspect(engine).get_table_names()
    except OperationalError:
        raise ConfigError(
            "The database does not answer. Check DATABASE_URL, and that its server is running, then try again."
        ) from None
    finally:
        engine.dispose()


def copy_database(address: str, target: Path) -> None:
    """Write one consistent state of the database to a new file of mode 0600, while it is in use.

    SQLite is copied with its backup interface, because copies of its files would lack the write-ahead log; PostgreSQL
    with ``pg_dump``.

    Raises
    ------
    ConfigError
        If the database or ``pg_dump`` cannot be reached.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path = _database_file(address)
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
        # A single file, without a log.
        copy.execute("PRAGMA journal_mode = DELETE")
        if copy.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise ConfigError("The database is damaged: its copy does not pass the check. Restore an earlier backup.")


def _restore_database(source: Path, address: str) -> None:
    """Fill an empty database with what :func:`copy_database` wrote.

    Raises
    ------
    ConfigError
        If the database or ``pg_restore`` cannot be reached.
    """
    path = _database_file(address)
    if path is None:
        options = ("--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error")
        _run(("pg_restore", *options, str(source)), address)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(0o600)


def _run(command: Sequence[str], address: str) -> None:
    url = make_url(address.replace("postgres://", "postgresql://", 1))
    # On the command line everyone could read the password.
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
            f"The program {command[0]} is not installed. Install PostgreSQL's client programs for the server's version."
        ) from None
    if done.returncode != 0:
        # Its own message may quote the address.
        raise ConfigError(
            f"{command[0]} could not copy the database (exit code {done.returncode}). Check DATABASE_URL, and that the "
            "program is not older than the server."
        )
