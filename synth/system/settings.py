"""Where this installation keeps its state, and its limits."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from synth.errors import ConfigError

__all__ = ["LOCAL_HOSTS", "Settings"]

LOCAL_HOSTS = ("localhost", "127.0.0.1")
"""Names under which a browser on the same machine reaches the server."""

_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where this installation keeps its state, and its limits.

    ``hosts`` are the names under which browsers may reach the server: those of the machine itself, and what
    ``HERMITAGE_HOSTS`` lists.
    """

    home: Path
    database_url: str
    job_slots: int = 1
    maximum_upload_bytes: int = 200 * 2**20
    maximum_table_bytes: int = 20 * 2**30
    retention_hours: float = 24.0
    heartbeat_seconds: float = 30.0
    approval_epsilon: float | None = None
    threads: int = 0
    hosts: tuple[str, ...] = LOCAL_HOSTS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read ``HERMITAGE_HOME`` (default ``~/.hermitage``), ``DATABASE_URL`` and the ``HERMITAGE_*`` limits."""
        variables = os.environ if environment is None else environment
        home = Path(variables.get("HERMITAGE_HOME") or Path.home() / ".hermitage").expanduser().resolve()
        url = variables.get("DATABASE_URL") or f"sqlite:///{home / 'hermitage.sqlite'}"
        return cls(
            home=home,
            database_url=url,
            job_slots=int(_number(variables, "HERMITAGE_JOB_SLOTS", 1)),
            maximum_upload_bytes=int(_number(variables, "HERMITAGE_MAXIMUM_UPLOAD_MIB", 200) * 2**20),
            maximum_table_bytes=int(_number(variables, "HERMITAGE_MAXIMUM_TABLE_GIB", 20) * 2**30),
            retention_hours=_number(variables, "HERMITAGE_RETENTION_HOURS", 24.0),
            approval_epsilon=_number(variables, "HERMITAGE_APPROVAL_EPSILON", 0.0) or None,
            threads=int(_number(variables, "HERMITAGE_THREADS", 0)),
            hosts=_hosts(variables),
        )


def _hosts(variables: Mapping[str, str]) -> tuple[str, ...]:
    named = [name.strip().lower() for name in variables.get("HERMITAGE_HOSTS", "").split(",") if name.strip()]
    for name in named:
        if not _HOST.fullmatch(name):
            raise ConfigError(
                "The environment variable HERMITAGE_HOSTS must list names of this server, separated by commas and "
                "without port or path, for example synth.example.org,10.0.0.7."
            )
    return tuple(dict.fromkeys((*LOCAL_HOSTS, *named)))


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"The environment variable {name} must be a number that is not negative.")
    return value
