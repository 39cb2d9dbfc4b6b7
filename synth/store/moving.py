"""Moves of a database from one layout to the next, by Alembic; whoever opens an up-to-date database never loads it.

The layouts are in ``layouts/versions/``, each named after the version of the program that brought it. An empty database
is moved through all of them too, so a new database and an old one that was moved are made by the same statements
(``tests/store/test_moving.py`` compares both with the tables that the program declares). A move is part of the caller's
transaction, which SQLite and PostgreSQL undo whole, statements on tables included.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData
from sqlalchemy.exc import InterfaceError, OperationalError

from synth.errors import ConfigError, SynthError
from synth.store.layout import LAYOUT, create_triggers, drop_triggers

__all__ = ["alembic_config", "move"]

FOLDER = Path(__file__).parent / "layouts"

_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps the move that it is making in global variables. Taken inside the transaction, so it waits for none."""


def alembic_config(connection: Connection, *, tables: MetaData | None = None) -> Config:
    """Return what Alembic has to know to work on a connection.

    Parameters
    ----------
    connection : Connection
        Inside a transaction, which Alembic neither commits nor rolls back.
    tables : MetaData, optional
        What a drafted revision is to lead to.
    """
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes.update({"connection": connection, "tables": tables})
    return config


def move(connection: Connection, found: str | None) -> None:
    """Move a database to the layout of this program, inside the caller's transaction.

    Triggers belong to no revision: they are dropped first, so that a revision may fill a new column of a table to which
    rows are only ever added, and those of this program are created at the end.

    Parameters
    ----------
    connection : Connection
        In a writing transaction that enforces no foreign key (:meth:`~synth.store.engine.Transactions.moving`).
    found : str, optional
        The layout that the database has; None if it is empty.

    Raises
    ------
    ConfigError
        If a statement fails; the caller's transaction has to be rolled back.
    """
    try:
        drop_triggers(connection)
        with _ONE_AT_A_TIME:
            command.upgrade(alembic_config(connection), "head")
        create_triggers(connection)
    except SynthError:
        raise
    except Exception as error:
        if isinstance(error, OperationalError | InterfaceError) and not _is_of_statement(error):
            raise  # the disk is full, or the database does not answer
        before = "The database could not be created" if found is None else f"The database keeps its layout {found}"
        raise ConfigError(
            f"{before}: the move to layout {LAYOUT} failed, and nothing was changed. Go on with the version of this "
            "program that you had, and report this as a fault."
        ) from error


def _is_of_statement(error: Any) -> bool:
    """Whether SQLite refused a statement, which its driver reports like a disk that fails."""
    return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
