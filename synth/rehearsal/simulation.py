r"""Stand-in rows from declarations only, for owners who have no public table to rehearse on.

Every column gets a shape or publicly known shares, and may follow one other column. No private row is read: the result
shows how a configuration works on rows *like these*.

**Law.** A column that follows no other draws :math:`z \sim N(0, 1)`; one that follows :math:`z'` with strength s draws
:math:`z = s z' + \sqrt{1 - s^2}\, e`, :math:`e \sim N(0, 1)`. A cell is the value at the quantile :math:`\Phi(z)` of
the column's shape, in the declared order of its values. Then special values, "other" and missing cells take their own
shares, independently of everything else.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from synth.errors import ConfigError
from synth.names import shown
from synth.schema import ModelledColumn, Schema, TableFormat
from synth.schema.documents import (
    Number,
    Read,
    Text,
    Whole,
    as_mapping,
    as_number,
    each,
    read_as,
    read_mapping,
    read_text,
)
from synth.schema.schema import BOTH, LEFT_ONLY, MERGE
from synth.system.paths import path_of

__all__ = [
    "MISSING_SHARE",
    "OTHER_SHARE",
    "SHAPES",
    "SIMULATED_FORMAT",
    "SPECIAL_SHARE",
    "Shape",
    "SimulatedColumn",
    "Simulation",
    "load_simulation",
    "parse_simulation",
    "simulated_table",
]

Shape = Literal["even", "bell", "falling", "rising"]

SHAPES: tuple[Shape, ...] = get_args(Shape)
"""Frequent values. Even: all equally. Bell: the middle. Falling: the first, exponentially. Rising: the last."""

SIMULATED_FORMAT = TableFormat(separator=",", kind="csv")
"""The format of a simulated table."""

MISSING_SHARE, OTHER_SHARE, SPECIAL_SHARE = 0.05, 0.02, 0.05
"""Shares of missing cells, of undeclared values, and of each special value (together at most half of the cells)."""

_STEEPNESS, _BELL_WIDTH = 4.0, 0.18
_MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class SimulatedColumn:
    """How one column is drawn.

    Attributes
    ----------
    shape : Shape
    shares : tuple of float
        Public shares instead of a shape: one for each declared value of a category or for no and yes, or one for each
        of several equal parts of the range of a number or a date. They need not add up to one.
    follows : str, optional
        A modelled column that this column is correlated with.
    strength : float
        The correlation of the two before they get their shapes, in [-1, 1]; if positive, high values go together.
    """

    shape: Shape = "even"
    shares: Annotated[tuple[float, ...], Read(each(as_number, " of numbers, such as [49, 51]"))] = ()
    follows: Text | None = None
    strength: Number = 0.0

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ConfigError(f"shape must be one of {', '.join(SHAPES)}, got '{self.shape}'.")
        if self.shares and not (all(math.isfinite(share) and share >= 0 for share in self.shares) and any(self.shares)):
            raise ConfigError("shares must be numbers of at least 0 that are not all 0.")
        if not -1 <= self.strength <= 1:
            raise ConfigError(f"strength must lie between -1 and 1, got {self.strength:g}.")
        if self.strength and self.follows is None:
            raise ConfigError("strength needs 'follows', the column that this column is correlated with.")


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated stand-in is made of: declarations, never rows.

    Attributes
    ----------
    rows : int
        The number of rows, from 1 to a million.
    columns : mapping of name to SimulatedColumn
        How columns are drawn; other modelled columns are even and follow no column.
    seed : int
        Public.
    """

    rows: Whole = 5000
    columns: Annotated[Mapping[str, SimulatedColumn], Read(lambda declared: _columns(declared))] = field(
        default_factory=dict
    )
    seed: Whole = 0

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= _MOST_ROWS:
            raise ConfigError(f"rows of a simulated table must lie between 1 and {_MOST_ROWS:,}, got {self.rows:,}.")
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative, got {self.seed}.")


def simulated_table(simulation: Simulation, schema: Schema) -> bytes:
    """Draw a table and write it as CSV, in :data:`SIMULATED_FORMAT`.

    Parameters
    ----------
    simulation : Simulation
    schema : Schema
        What is declared. If units have an id, each has from one to ``rows_per_unit`` rows, drawn uniformly. Of two
        tables that belong together both are drawn, joined: a unit has from none to as many rows in the second.

    Returns
    -------
    bytes
        The same for the same arguments. The columns are as declared; dropped ones are empty.

    Raises
    ------
    ConfigError
        If a column is not modelled, shares do not fit it, or columns follow each other in a circle.
    """
    random = np.random.default_rng([simulation.seed, 41])
    # Which table a row comes from follows from how many rows its unit has.
    unknown = sorted(set(simulation.columns) - {one.name for one in schema.declared if one.name in schema.names})
    if unknown:
        raise ConfigError(f"'{unknown[0]}' is not a modelled column, so it cannot be simulated.")
    scores = _scores(simulation, schema, random)
    texts = {}
    for column in schema.modelled:
        own = simulation.columns.get(column.name, SimulatedColumn())
        codes = _with_atoms(_codes(column, own, scores[column.name]), column, random)
        used, place = np.unique(codes, return_inverse=True)
        printed = np.array(column.notated_texts(used), dtype=object)
        texts[column.name] = printed[place].tolist()
    units, has_row = _units(simulation.rows, schema, random)
    if schema.tables is not None:
        texts |= _of_two_tables(texts, units, has_row, schema)
    for number, other in enumerate(schema.columns):
        if other.name == schema.unit.id_column:
            texts[other.name] = [f"unit-{unit}" for unit in units.tolist()]
        elif other.is_identifier:
            texts[other.name] = _numbered(number, simulation.rows)
        elif other.name not in texts:
            texts[other.name] = [""] * simulation.rows
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [column.name for column in schema.columns]
    writer.writerow(names)
    writer.writerows(zip(*(texts[name] for name in names), strict=True))
    return buffer.getvalue().encode()


def _scores(simulation: Simulation, schema: Schema, random: np.random.Generator) -> dict[str, npt.NDArray[np.float64]]:
    """Return the normal score of every row and column, computing a column after the one that it follows."""
    drawn = {name: random.standard_normal(simulation.rows) for name in schema.names}
    found: dict[str, npt.NDArray[np.float64]] = {}
    for name in _leaders_first(simulation, schema):
        own = simulation.columns.get(name, SimulatedColumn())
        found[name] = drawn[name]
        if own.follows is not None:
            found[name] = own.strength * found[own.follows] + math.sqrt(1 - own.strength**2) * drawn[name]
    return found


def _leaders_first(simulation: Simulation, schema: Schema) -> list[str]:
    leaders = {name: own.follows for name, own in simulation.columns.items() if own.follows is not None}
    for name, leader in leaders.items():
        if leader not in schema.names:
            raise ConfigError(f"'{name}' follows '{leader}', which is not a modelled column.")
    ordered: list[str] = []
    waiting = list(schema.names)
    while waiting:
        ready = [name for name in waiting if leaders.get(name) is None or leaders[name] in ordered]
        if not ready:
            raise ConfigError(
                f"These columns follow each other in a circle: {', '.join(waiting)}. Remove one 'follows'."
            )
        ordered += ready
        waiting = [name for name in waiting if name not in ready]
    return ordered


def _codes(column: ModelledColumn, own: SimulatedColumn, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the codes of plain values: the grid of numbers and dates, declared categories, no and yes."""
    shares = _shares(column, own)
    edges = np.cumsum(shares) / shares.sum()
    codes: npt.NDArray[np.int64] = np.searchsorted(edges[:-1], ndtr(scores), side="right")
    return codes


def _shares(column: ModelledColumn, own: SimulatedColumn) -> npt.NDArray[np.float64]:
    """Return the weight of every plain code."""
    plain = column.n_values
    if own.shares:
        if not column.levels and len(own.shares) != plain:
            raise ConfigError(
                f"'{column.name}' has {plain:,} declared values but {len(own.shares)} shares. Give one for each."
            )
        if len(own.shares) > plain:
            raise ConfigError(f"'{column.name}' has {plain:,} levels but {len(own.shares)} shares. Give fewer shares.")
        part = np.arange(plain) * len(own.shares) // plain
        # The share of each part is spread over its levels, however many there are.
        return np.asarray(own.shares, dtype=np.float64)[part] / np.bincount(part)[part]
    middle = (np.arange(plain) + 0.5) / plain
    if own.shape == "bell":
        return np.exp(-(((middle - 0.5) / _BELL_WIDTH) ** 2) / 2)
    falling = np.exp(-_STEEPNESS * middle)
    return {"even": np.ones(plain), "falling": falling, "rising": falling[::-1]}[own.shape]


def _with_atoms(
    codes: npt.NDArray[np.int64], column: ModelledColumn, random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Give special values, "other" and missing cells their shares."""
    if column.special:
        each = min(SPECIAL_SHARE, 0.5 / len(column.special))
        place = np.floor(random.random(len(codes)) / each).astype(np.int64)
        codes = np.where(place < len(column.special), column.levels + place, codes)
    if column.other_code is not None:
        codes = np.where(random.random(len(codes)) < OTHER_SHARE, column.other_code, codes)
    if column.missing_code is not None:
        codes = np.where(random.random(len(codes)) < MISSING_SHARE, column.missing_code, codes)
    return codes


def _units(
    rows: int, schema: Schema, random: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return whose each row is, and whether it is a row of the second table where there are two."""
    sizes = random.integers(0 if schema.tables is not None else 1, schema.unit.rows_per_unit + 1, size=rows)
    units = np.repeat(np.arange(rows), np.maximum(sizes, 1))[:rows]
    return units, sizes[units] > 0


def _of_two_tables(
    texts: Mapping[str, list[str]], units: npt.NDArray[np.int64], has_row: npt.NDArray[np.bool_], schema: Schema
) -> dict[str, list[str]]:
    """Return the cells of two tables side by side: those of a unit, and those of its rows where it has some."""
    first = np.searchsorted(units, units).tolist()
    labels = np.where(has_row, MERGE.values[BOTH], MERGE.values[LEFT_ONLY]).tolist()
    joined = {MERGE.name: labels}
    for name in (name for name in texts if name != MERGE.name):
        if name in schema.unit.same_in_all_rows:
            joined[name] = [texts[name][row] for row in first]
        else:
            joined[name] = [cell if has else "" for cell, has in zip(texts[name], has_row.tolist(), strict=True)]
    return joined


def _numbered(place: int, rows: int) -> list[str]:
    return [f"made-{place}-{row}" for row in range(rows)]


# As a file -----------------------------------------------------------------------------------------------------------


def load_simulation(path: str | Path, *, rows: int) -> Simulation:
    """Read a file that says how to simulate stand-in rows.

    Parameters
    ----------
    path : path
    rows : int
        The number of rows, if the file does not say.

    Raises
    ------
    ConfigError
        If the file cannot be read, or an entry cannot be used.
    """
    path = path_of(path, "the simulation")
    return parse_simulation(read_mapping(read_text(path, "The file")), rows=rows)


def parse_simulation(document: Mapping[str, Any], *, rows: int) -> Simulation:
    """Read ``rows``, ``seed`` and ``columns`` from a parsed document; errors as :func:`load_simulation`."""
    if set(document) - {"rows", "seed", "columns"}:
        # The key is not quoted, because a table may have been given by mistake.
        raise ConfigError("The simulation has an unknown key. Use only: rows, seed, columns.")
    return read_as(Simulation, {"rows": rows, **document})


def _columns(declared: object) -> dict[str, SimulatedColumn]:
    return {str(name): _column(str(name), body) for name, body in as_mapping(declared).items()}


def _column(name: str, body: object) -> SimulatedColumn:
    within = f"'{shown(name)}': "
    if isinstance(body, Mapping) and body.get("follows") is not None:
        body = {"strength": 0.5, **body}  # a clear but moderate correlation by default
    try:
        return read_as(SimulatedColumn, body, within=within)
    except ConfigError as error:
        said = str(error)
        raise ConfigError(said if said.startswith(within.removesuffix(": ")) else within + said) from None
