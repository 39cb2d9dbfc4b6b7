"""Neighbouring tables of a database, and bugs that let one row of it into the lines of others."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from database_here import file_read_here

from synth.reading.more import database
from synth.schema import Schema
from synth.schema.source import DatabaseSource

Row = Mapping[str, object]

KINDS = {
    **{"age": "INTEGER", "income": "REAL", "visited": "DATE", "seen": "DATE"},
    **{"smoker": "VARCHAR(3)", "well": "VARCHAR(3)"},
}
"""Declared types of some columns; the others are texts."""

WHERE = "(age >= 0 OR age IS NULL) AND NOT age > 1000"

_numbers = itertools.count()


def file_of(
    folder: Path,
    schema: Schema,
    rows: Sequence[Row],
    *,
    where: str | None = None,
    sql: str | None = None,
    laid_out: Callable[[sqlite3.Connection], None] | None = None,
) -> bytes:
    """Lay rows down in a database, in the order they come in, and return the file that it is read as."""
    path = folder / f"{next(_numbers)}.sqlite"
    names = [column.name for column in schema if column.is_printed or column.name == schema.unit.id_column]
    with closing(sqlite3.connect(path)) as connection, connection:
        declared = ", ".join(f"{name} {KINDS.get(name, 'TEXT')}" for name in names)
        connection.execute(f"CREATE TABLE people ({declared})")
        marks = ", ".join("?" for _ in names)
        connection.executemany(
            f"INSERT INTO people VALUES ({marks})",  # noqa: S608 - question marks
            [[row[name] for name in names] for row in rows],
        )
        if laid_out is not None:
            laid_out(connection)
    how = {"sql": sql} if sql else {"table": "people", "columns": tuple(names), "where": where}
    data = file_read_here(DatabaseSource(url=f"sqlite:///{path}", **how)).getvalue()
    path.unlink()
    return data


def moved_about(connection: sqlite3.Connection) -> None:
    """Lay the same rows down in another order."""
    connection.execute("CREATE TABLE other AS SELECT * FROM people ORDER BY rowid DESC")
    connection.execute("DELETE FROM people WHERE rowid % 3 = 0 OR rowid % 3 = 1 OR rowid % 3 = 2")
    connection.execute("INSERT INTO people SELECT * FROM other")
    connection.execute("DROP TABLE other")


# Planted bugs ---------------------------------------------------------------------------------------------------------

STATEMENT, WRITE_GROUP = database.statement, database._write_group


def _with_a_subquery(found: Any) -> Any:
    return sa.text("(age IS NULL OR age >= (SELECT avg(age) FROM people))")


def _as_it_lies(*arguments: Any) -> Any:
    return STATEMENT(*arguments).order_by(None)


def _each_once(*arguments: Any) -> Any:
    return STATEMENT(*arguments).distinct()


def _every_other_place(*arguments: Any) -> Any:
    return STATEMENT(*arguments).where(sa.text("rowid % 2 = 0"))


def _in_thousands(writer: Any, held: list[list[Any]], schema: Any) -> None:
    """The unit of a column is guessed from its largest value."""
    for place, column in enumerate(held):
        numbers = [cell for cell in column if isinstance(cell, float)]
        if numbers and max(numbers) > 1e6:
            held[place][:] = [None if cell is None else cell / 1000 for cell in column]
    WRITE_GROUP(writer, held, schema)


def _left_out(writer: Any, held: list[list[Any]], schema: Any) -> None:
    """Cells that are none are left out, so that those behind them move up."""
    for column in held:
        known = [cell for cell in column if cell is not None]
        column[:] = known + [None] * (len(column) - len(known))
    WRITE_GROUP(writer, held, schema)


FAULTS: dict[str, tuple[str, Any]] = {
    "a condition with a subquery": ("expression_of", _with_a_subquery),
    "rows as they lie": ("statement", _as_it_lies),
    "rows that are alike once": ("statement", _each_once),
    "rows by their place": ("statement", _every_other_place),
    "a unit guessed from values": ("_write_group", _in_thousands),
    "unreadable cells left out": ("_write_group", _left_out),
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        name, bug = FAULTS[fault]
        patch.setattr(f"synth.reading.more.database.{name}", bug)
        yield
