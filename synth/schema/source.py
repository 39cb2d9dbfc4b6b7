"""A database as the source of a table: its address, and which rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self

from synth.errors import ConfigError
from synth.names import shown
from synth.schema.conditions import condition
from synth.schema.documents import Text, Texts

if TYPE_CHECKING:
    from sqlalchemy import URL

__all__ = ["DatabaseAccess", "DatabaseSource", "Origin", "check_address", "origin_sentences"]

Origin = Literal["file", "table", "selection", "view", "query"]
"""Where rows came from: a file, all of a database's table, those for which a condition holds, a view, or a query."""

_ASSUMED: dict[str, tuple[str, ...]] = {
    "selection": (
        "The rows are those of a database's table for which a declared condition on one row holds. Where the number of "
        "rows is declared public, it is public for how many the condition holds.",
    ),
    "view": (
        "The rows are those of a view of a database: each row of the view depends on one unit (declared as a view, "
        "which no reader can check). Where the number of rows is declared public, it is public how many the view has, "
        "or, with a condition, for how many the condition holds.",
    ),
    "query": (
        "The rows are the result of a query that the owner wrote: each row of the query's result depends on one unit "
        "(declared as a query, which no reader can check).",
    ),
}

_QUERY_PARTS = frozenset({"host", "sslmode", "sslrootcert"})
"""What may follow the question mark of an address; any other option goes to the driver, and may name files."""

_OF_ADMINISTRATORS = frozenset({"service", "sslcert", "sslkey"})
"""What may follow it too in an address that an administrator gave a connection."""

MOST_SQL = 100_000


def origin_sentences(origin: str) -> tuple[str, ...]:
    """Return what the certificate says is assumed of rows because of where they came from."""
    return _ASSUMED.get(origin, ())


def _parts(address: str, *, within: str) -> URL:
    from sqlalchemy import make_url  # here: runs without a database need not load it
    from sqlalchemy.exc import ArgumentError

    try:
        short = address.startswith("postgres://")
        return make_url(f"postgresql://{address.removeprefix('postgres://')}" if short else address)
    except (ArgumentError, ValueError):
        raise ConfigError(
            f"{within}the address is not understood. Write for example "
            "postgresql://reader@db.example.org:5432/clinic or sqlite:////data/clinic.sqlite."
        ) from None


def check_address(parts: URL, *, within: str, allowed: frozenset[str] = _QUERY_PARTS) -> None:
    """Refuse an address with a password, of another kind of database, or with options that are not allowed.

    Parameters
    ----------
    parts : URL
    within : str
        What the message begins with.
    allowed : frozenset of str
        What may follow the question mark of an address.

    Raises
    ------
    ConfigError
        The message has no part of the address but the name of an option.
    """
    if parts.password is not None:
        raise ConfigError(
            f"{within}a password does not belong in the address, where it would be kept. Take it out: the screen "
            "asks for it, and the command line takes it from the environment variable that --password-env names."
        )
    if parts.get_backend_name() not in ("postgresql", "sqlite"):
        raise ConfigError(
            f"{within}the address must begin with postgresql:// or sqlite:///. For other databases, save the table "
            "as a file."
        )
    if parts.drivername not in ("postgresql", "postgresql+psycopg", "sqlite", "sqlite+pysqlite"):
        raise ConfigError(f"{within}the address names a driver that is not supported. Write only postgresql://.")
    unknown = next((part for part in parts.query if part not in allowed), None)
    if unknown is not None:
        raise ConfigError(
            f"{within}the address must not contain '{shown(unknown)}'. Allowed are {', '.join(sorted(allowed))}."
        )
    is_sqlite = parts.get_backend_name() == "sqlite"
    if is_sqlite and (not parts.database or parts.database == ":memory:" or parts.query):
        raise ConfigError(f"{within}name the file of the SQLite database, for example sqlite:////data/clinic.sqlite.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAccess:
    """How a database is reached, by whoever may: its address, and what opens it.

    ``files_of_passwords`` are the files that the client library of PostgreSQL looks into for a password and for a
    service, by the names of the environment variables that choose them; none, unless an administrator named the
    connection: passwords on this machine are not for anyone who types an address.
    """

    url: str
    password: str | None = field(default=None, repr=False)
    files_of_passwords: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_connection(cls, name: str, url: str, files_of_passwords: Mapping[str, str]) -> Self:
        """Check the address that an administrator gave a connection, and return how it is reached."""
        found = cls(url=url, files_of_passwords=files_of_passwords)
        within = f"HERMITAGE_DATABASES, '{name}': "
        check_address(_parts(url, within=within), within=within, allowed=_QUERY_PARTS | _OF_ADMINISTRATORS)
        return found

    @property
    def address(self) -> URL:
        """The parts of the address."""
        return _parts(self.url, within="source: ")

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite file."""
        return self.address.get_backend_name() == "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource:
    """A table or a view of a database, or the result of a query.

    ``url`` is an address of SQLAlchemy without a password; in its place, ``connection`` is the name of one that an
    administrator has set up (:class:`synth.system.settings.Connection`). ``table`` (in ``schema``) is read with
    ``columns``, or all of them, where ``where`` holds (:mod:`synth.schema.conditions`). ``view`` is read like a table,
    and ``sql`` is a free query: each row of either is then assumed to depend on one unit, and the certificate says so.
    """

    url: Text | None = None
    connection: Text | None = None
    table: Text | None = None
    view: Text | None = None
    schema: Text | None = None
    columns: Texts = ()
    where: Text | None = None
    sql: Text | None = None

    def __post_init__(self) -> None:
        if (self.url is None) == (self.connection is None):
            raise ConfigError(
                "source: name the database with either its address under 'url', or the name of a connection of this "
                "server under 'connection'."
            )
        if self.url is not None:
            check_address(self.address, within="source: ")
        elif self.sql is not None:
            raise ConfigError(
                "source: a connection of the server reads tables and views, and no query of your own, because it has "
                "the rights that the administrator gave it. Ask for a view."
            )
        self._check_rows()

    def _check_rows(self) -> None:
        if [self.table, self.view, self.sql].count(None) != 2:
            raise ConfigError("source: name either the 'table', a 'view' or a query under 'sql'.")
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
        """The parts of the address; that of a connection is known to the server alone."""
        return _parts(self.url or "", within="source: ")

    @property
    def origin(self) -> Origin:
        """Where the rows come from, in the word that a format keeps."""
        if self.sql is not None:
            return "query"
        if self.view is not None:
            return "view"
        return "table" if self.where is None else "selection"

    @property
    def name(self) -> str:
        """What the table or the view is called in messages."""
        return self.table or self.view or "query"

    @property
    def kept_name(self) -> str:
        """What the table is called once it was read, which is never also a word of a configuration."""
        if self.sql is not None:
            return "rows of a query"
        return f"{self.name} ({'table' if self.view is None else 'view'} of a database)"

    def to_mapping(self) -> dict[str, Any]:
        """Write it as the ``source`` section of a configuration."""
        body = {one.name: getattr(self, one.name) for one in fields(self)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in body.items() if value}
