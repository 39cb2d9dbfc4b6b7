"""Where this installation keeps its state, its limits, and the limits of the process that reads a table."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from synth.errors import ConfigError, TableError
from synth.limits import COLUMNS, ROWS

__all__ = ["LOCAL_HOSTS", "Connection", "Login", "ReaderLimits", "Settings", "size_text", "too_large"]

LOCAL_HOSTS = ("localhost", "127.0.0.1")
"""Names by which a browser on the same machine reaches the server."""

_CLAIM = re.compile(r"[A-Za-z0-9_-]+")
_DASHBOARD = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(?P<port>[0-9]{1,5})"
)
_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Connection:
    """A database from which an administrator lets tables be read by a name, without anyone typing a password.

    ``address`` is that of the database and has no password: PostgreSQL's client library takes that from the file that
    ``PGPASSFILE`` names on the server, or from a service file.
    """

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Login:
    """How the server learns who somebody is, as ``HERMITAGE_LOGIN`` says.

    ``kind`` is ``oidc`` for a provider of OpenID Connect, or ``header`` for a proxy in front that has asked already.
    ``name`` is the claim, or the header, with the name of the user.
    """

    kind: Literal["oidc", "header"]
    name: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Where this installation keeps its state, and its limits.

    ``hosts`` are the names by which browsers may reach the server: those of the machine itself, and those in
    ``HERMITAGE_HOSTS``. ``databases`` are the servers and folders from which screens may read tables of databases, as
    listed in ``HERMITAGE_DATABASES``; none by default. ``folders`` are those from which screens may take tables by
    path, as listed in ``HERMITAGE_FOLDERS``; none by default. ``login`` says how users
    are told apart; None is an installation with a single user. ``ray`` is the address of the dashboard of the Ray
    cluster that executes runs, from ``HERMITAGE_RAY``; by default this machine does.
    """

    home: Path
    database_url: str
    job_slots: int = 1
    maximum_upload_bytes: int = 200 * 2**20
    maximum_table_bytes: int = 20 * 2**30
    retention_hours: float = 24.0
    heartbeat_seconds: float = 30.0
    login: Login | None = None
    threads: int = 0
    hosts: tuple[str, ...] = LOCAL_HOSTS
    databases: tuple[str, ...] = ()
    connections: tuple[Connection, ...] = ()
    folders: tuple[str, ...] = ()
    ray: str = ""

    def __post_init__(self) -> None:
        if self.ray and self.database_url.startswith("sqlite"):
            raise ConfigError(
                "HERMITAGE_RAY needs PostgreSQL, because several machines cannot share a SQLite file. Set DATABASE_URL "
                "to postgresql://user@host/database, or unset HERMITAGE_RAY."
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read ``HERMITAGE_HOME`` (default ``~/.hermitage``), ``DATABASE_URL`` and the ``HERMITAGE_*`` limits."""
        variables = os.environ if environment is None else environment
        home = Path(variables.get("HERMITAGE_HOME") or Path.home() / ".hermitage").expanduser().resolve()
        url = variables.get("DATABASE_URL") or f"sqlite:///{home / 'hermitage.sqlite'}"
        databases, connections = _databases(variables)
        return cls(
            home=home,
            database_url=url,
            job_slots=int(_number(variables, "HERMITAGE_JOB_SLOTS", 1)),
            maximum_upload_bytes=int(_number(variables, "HERMITAGE_MAXIMUM_UPLOAD_MIB", 200) * 2**20),
            maximum_table_bytes=int(_number(variables, "HERMITAGE_MAXIMUM_TABLE_GIB", 20) * 2**30),
            retention_hours=_number(variables, "HERMITAGE_RETENTION_HOURS", 24.0),
            login=_login(variables.get("HERMITAGE_LOGIN", "").strip()),
            threads=int(_number(variables, "HERMITAGE_THREADS", 0)),
            hosts=_hosts(variables),
            databases=databases,
            connections=connections,
            folders=_folders(variables),
            ray=_cluster(variables),
        )


def _login(text: str) -> Login | None:
    if not text:
        return None
    kind, colon, name = text.partition(":")
    if kind == "oidc" and (not colon or _CLAIM.fullmatch(name)):
        return Login("oidc", name or "email")
    if kind == "header" and _CLAIM.fullmatch(name):
        return Login("header", name)
    raise ConfigError(
        "The environment variable HERMITAGE_LOGIN must be oidc, oidc:CLAIM or header:NAME, for example "
        "header:X-Forwarded-User."
    )


def _listed(variables: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, variables.get(name, "").split(","))))


def _folders(variables: Mapping[str, str]) -> tuple[str, ...]:
    folders = _listed(variables, "HERMITAGE_FOLDERS")
    if not all(map(os.path.isabs, folders)):
        raise ConfigError(
            "The environment variable HERMITAGE_FOLDERS must be a list of whole paths of folders, separated by commas, "
            "for example /srv/claims,/srv/open."
        )
    return folders


def _hosts(variables: Mapping[str, str]) -> tuple[str, ...]:
    named = [name.strip().lower() for name in variables.get("HERMITAGE_HOSTS", "").split(",") if name.strip()]
    for name in named:
        if not _HOST.fullmatch(name):
            raise ConfigError(
                "The environment variable HERMITAGE_HOSTS must be a list of names of this server, separated by commas "
                "and without port or path, for example synth.example.org,10.0.0.7."
            )
    return tuple(dict.fromkeys((*LOCAL_HOSTS, *named)))


def _databases(variables: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[Connection, ...]]:
    """Return the hosts and folders of ``HERMITAGE_DATABASES``, and the connections that it names."""
    places: list[str] = []
    named: dict[str, str] = {}
    for entry in filter(None, map(str.strip, variables.get("HERMITAGE_DATABASES", "").split(","))):
        name, sign, address = (part.strip() for part in entry.partition("="))
        if entry.startswith("/") or not sign:
            places.append(entry)
        elif not _NAME.fullmatch(name) or name in named:
            raise ConfigError(
                "The environment variable HERMITAGE_DATABASES must give every connection a name of its own, of "
                "letters, digits, dots, dashes and underscores: claims=postgresql://reader@db.example.org/claims."
            )
        elif re.search("://[^/]*:[^/]*@|[?&]password=", address):
            raise ConfigError(
                f"The environment variable HERMITAGE_DATABASES has a password in the address of '{name}'. Put it into "
                "the file that PGPASSFILE names instead, and take it out here."
            )
        else:
            named[name] = address
    return tuple(places), tuple(Connection(name, address) for name, address in named.items())


def _cluster(variables: Mapping[str, str]) -> str:
    address = variables.get("HERMITAGE_RAY", "").strip().rstrip("/")
    found = _DASHBOARD.fullmatch(address)
    if address and (found is None or int(found["port"]) > 65535):
        raise ConfigError(
            "The environment variable HERMITAGE_RAY must be the address of the dashboard of a Ray cluster, without a "
            "name, password or path, for example http://head:8265."
        )
    return address


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"The environment variable {name} must be a number of at least 0.")
    return value


# Reading a table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """How much of a file the parsing process accepts, and how much of the machine it may use.

    ``input_bytes`` are the bytes of the file, ``text_bytes`` those after decompression; ``memory_bytes`` is the private
    memory of the parsing process, ``cpu_seconds`` its processor time.
    """

    input_bytes: int = 20 * 2**30
    text_bytes: int = 40 * 2**30
    rows: int = ROWS
    columns: int = COLUMNS
    cell_bytes: int = 2**20
    memory_bytes: int = 4 * 2**30
    cpu_seconds: int = 1_800
    wall_seconds: float = 3_600.0

    @property
    def once_more(self) -> ReaderLimits:
        """Limits for reading again what was read within these: more time and memory, for a busy machine."""
        return replace(
            self,
            memory_bytes=2 * self.memory_bytes,
            cpu_seconds=4 * self.cpu_seconds,
            wall_seconds=4 * self.wall_seconds,
        )

    def too_many_columns(self, columns: int) -> TableError:
        """Return the error for a table with too many columns."""
        return TableError(
            f"The table has {columns:,} columns; at most {self.columns:,} are read. Leave out columns you do not need."
        )

    def too_many_rows(self) -> TableError:
        """Return the error for a table with too many rows."""
        return TableError(f"The table has more than {self.rows:,} rows, the most this machine reads. Split the table.")


def too_large(what: str, limit: int) -> TableError:
    """Return the error for a file or a table of more than ``limit`` bytes."""
    return TableError(
        f"{what} is larger than {size_text(limit)}, the most this machine reads. Split the table, or ask your "
        "administrator for a higher limit."
    )


def size_text(size: int) -> str:
    """Return a number of bytes in words."""
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
