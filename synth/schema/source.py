"""A database as the source of a table: its address, and which rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self

from synth.errors import ConfigError
from synth.names import shown
from synth.schema.conditions import condition
from synth.schema.documents import Text, Texts

if TYPE_CHECKING:
    from sqlalchemy import URL

__all__ = ["DatabaseSource", "Origin", "origin_sentences"]

Origin = Literal["file", "table", "selection", "query"]
"""Where rows came from: a file, all of a database's table, those for which a condition holds, or a free query."""

_ASSUMED: dict[str, tuple[str, ...]] = {
    "selection": (
        "The rows are those of a database's table for which a declared condition on one row holds. Where the number of "
        "rows is declared public, it is public for how many the condition holds.",
    ),
    "query": (
        "The rows are the result of a query that the owner wrote: each row of the query's result depends on one unit "
        "(declared as a query, which no reader can check).",
    ),
}

_QUERY_PARTS = {"host", "sslmode", "sslrootcert"}
"""What may follow the question mark of an address; any other option goes to the driver, and may name files."""

MOST_SQL = 100_000


def origin_sentences(origin: str) -> tuple[str, ...]:
    """Return what the certificate says is assumed of rows because of where they came from."""
    return _ASSUMED.get(origin, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource:
    """A table of a database, or the result of a query.

    ``url`` is an address of SQLAlchemy without a password. ``table`` (in ``schema``) is read with ``columns``, or all
    of them, where ``where`` holds (:mod:`synth.schema.conditions`). ``sql`` is a free query in its place: each row of
    its result is then assumed to depend on one unit, and the certificate says so.
    """

    url: Text
    table: Text | None = None
    schema: Text | None = None
    columns: Texts = ()
    where: Text | None = None
    sql: Text | None = None

    def __post_init__(self) -> None:
        parts = self.address
        if parts.password is not None:
            raise ConfigError(
                "source: a password does not belong in the address, where it would be kept. Take it out: the screen "
                "asks for it, and the command line takes it from the environment variable that --password-env names."
            )
        if parts.get_backend_name() not in ("postgresql", "sqlite"):
            raise ConfigError(
                "source: the address must begin with postgresql:// or sqlite:///. For other databases, save the table "
                "as a file."
            )
        if parts.drivername not in ("postgresql", "postgresql+psycopg", "sqlite", "sqlite+pysqlite"):
            raise ConfigError("source: the address names a driver that is not supported. Write only postgresql://.")
        unknown = next((part for part in parts.query if part not in _QUERY_PARTS), None)
        if unknown is not None:
            known = ", ".join(sorted(_QUERY_PARTS))
            raise ConfigError(f"source: the address must not contain '{shown(unknown)}'. Allowed are {known}.")
        if self.is_sqlite and (not parts.database or parts.database == ":memory:" or parts.query):
            raise ConfigError(
                "source: name the file of the SQLite database, for example sqlite:////data/clinic.sqlite."
            )
        self._check_rows()

    def _check_rows(self) -> None:
        if (self.table is None) == (self.sql is None):
            raise ConfigError("source: name either the 'table' or a query under 'sql'.")
        beside = next((key for key in ("schema", "columns", "where") if getattr(self, key)), None)
        if self.sql is not None and beside is not None:
            raise ConfigError(
                f"source: '{beside}' belongs to a table, not to a query under 'sql'. Leave one of them out."
            )
        if self.sql is not None and (len(self.sql) > MOST_SQL or "\0" in self.sql):
            raise ConfigError(f"source: the query under 'sql' must be a text of at most {MOST_SQL:,} characters.")
        if len(set(self.columns)) != len(self.columns):
            raise ConfigError("source: a column is named twice under 'columns'. Name each once.")
        if self.where is not None:
            condition(self.where)

    @classmethod
    def from_mapping(cls, body: Mapping[str, Any]) -> Self:
        """Make it of what :meth:`to_mapping` wrote."""
        given: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in body.items()}
        return cls(**given)

    @property
    def address(self) -> URL:
        """The parts of the address."""
        from sqlalchemy import make_url  # here: runs without a database need not load it
        from sqlalchemy.exc import ArgumentError

        try:
            short = self.url.startswith("postgres://")
            return make_url(f"postgresql://{self.url.removeprefix('postgres://')}" if short else self.url)
        except (ArgumentError, ValueError):
            raise ConfigError(
                "source: the address is not understood. Write for example "
                "postgresql://reader@db.example.org:5432/clinic or sqlite:////data/clinic.sqlite."
            ) from None

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite file."""
        return self.address.get_backend_name() == "sqlite"

    @property
    def origin(self) -> Origin:
        """Where the rows come from, in the word that a format keeps."""
        if self.sql is not None:
            return "query"
        return "table" if self.where is None else "selection"

    @property
    def name(self) -> str:
        """What the table is called in messages."""
        return self.table or "query"

    @property
    def kept_name(self) -> str:
        """What the table is called once it was read, which is never also a word of a configuration."""
        return "rows of a query" if self.table is None else f"{self.table} (table of a database)"

    def to_mapping(self) -> dict[str, Any]:
        """Write it as the ``source`` section of a configuration."""
        body = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in body.items() if value}
