"""Simulated stand-ins as YAML: a shape, public shares and one link for each column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synth.errors import ConfigError, SchemaError
from synth.names import shown
from synth.rehearsal.simulation import SHAPES, SimulatedColumn, Simulation
from synth.schema.documents import parse_number, parse_text, read_mapping, read_text
from synth.system.paths import path_of

__all__ = ["load_simulation", "parse_simulation"]

_COLUMN_KEYS = ("shape", "shares", "follows", "strength")


def load_simulation(path: str | Path, *, rows: int) -> Simulation:
    """Read a file that says how stand-in rows are simulated.

    Parameters
    ----------
    path : path
    rows : int
        How many, where the file does not say.

    Raises
    ------
    ConfigError
        If it cannot be read, or holds what cannot be used.
    """
    path = path_of(path, "the simulation")
    return parse_simulation(read_mapping(read_text(path, "The file")), rows=rows)


def parse_simulation(document: Mapping[str, Any], *, rows: int) -> Simulation:
    """Read ``rows``, ``seed`` and ``columns`` from a parsed document; errors as :func:`load_simulation`."""
    if set(document) - {"rows", "seed", "columns"}:
        # The key is not quoted: a table may have been given instead.
        raise ConfigError("A simulation has a key that is not known. Choose from: rows, seed, columns.")
    columns = document.get("columns") or {}
    if not isinstance(columns, Mapping):
        raise ConfigError("columns must be a mapping of column names, such as 'age: {shape: bell}'.")
    return Simulation(
        rows=_whole("rows", document.get("rows", rows)),
        seed=_whole("seed", document.get("seed", 0)),
        columns={str(name): _column(str(name), body) for name, body in columns.items()},
    )


def _column(name: str, body: object) -> SimulatedColumn:
    if not isinstance(body, Mapping) or set(body) - set(_COLUMN_KEYS):
        raise ConfigError(f"'{shown(name)}' of a simulation takes {', '.join(_COLUMN_KEYS)}, such as {{shape: bell}}.")
    shape = next((known for known in SHAPES if known == str(body.get("shape", SHAPES[0]))), None)
    shares = body.get("shares") or []
    if shape is None:
        raise ConfigError(f"'{name}': shape must be one of {', '.join(SHAPES)}.")
    if not isinstance(shares, list):
        raise ConfigError(f"'{name}': shares must be a list of numbers, such as [49, 51].")
    follows = body.get("follows")
    # Followed without a number: clearly, but far from exactly.
    strength = body.get("strength", 0.0 if follows is None else 0.5)
    try:
        return SimulatedColumn(
            shape=shape,
            shares=tuple(parse_number(f"'{name}': a share", share) for share in shares),
            follows=None if follows is None else parse_text(f"'{shown(name)}': follows", follows),
            strength=parse_number(f"'{name}': strength", strength),
        )
    except (ConfigError, SchemaError) as error:
        said = str(error)
        raise ConfigError(said if said.startswith(f"'{name}'") else f"'{name}': {said}") from None


def _whole(where: str, value: object) -> int:
    number = parse_number(where, value)
    if not number.is_integer():
        raise ConfigError(f"{where} must be a whole number, got {number:g}.")
    return int(number)
