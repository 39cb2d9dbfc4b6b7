"""Pictures and tables of a report as data: always binned beforehand, never one point per row.

The title of a figure says what it shows, and its subtitle, if it has one, whether that is good. The screens and the
report page of the bundle draw them; nothing here knows how.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from synth.errors import InputError
from synth.generators.protocol import Picture

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "Bars",
    "Cell",
    "Figure",
    "Gauge",
    "HeatMap",
    "Mark",
    "Meaning",
    "Series",
    "Table",
    "figure_from_dict",
    "figure_to_dict",
]

MAXIMUM_POINTS = 200
"""Most points of one trace; more would be neither readable nor a summary."""

MAXIMUM_HEAT_MAP_SIDE = 40

Meaning = Literal["synthetic", "real", "measured", "stand_in", "control", "floor", "ceiling"]
"""What a series shows; each meaning has one colour everywhere."""

Cell = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Series:
    """One trace: a value for every category, and half the width of its 95 % bar if it has one.

    If a bar is not symmetric, ``errors`` is how far it reaches up and ``below`` how far down.
    """

    name: str
    meaning: Meaning
    values: tuple[float, ...]
    errors: tuple[float, ...] | None = None
    below: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.values) > MAXIMUM_POINTS:
            raise InputError(f"'{self.name}' has {len(self.values)} points; bin it to at most {MAXIMUM_POINTS}.")
        if self.errors is not None and len(self.errors) != len(self.values):
            raise InputError(f"'{self.name}' needs one error for every value.")
        if self.below is not None and (self.errors is None or len(self.below) != len(self.values)):
            raise InputError(f"'{self.name}' needs one error below for every error above.")


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars or dots with whiskers over the same categories; lines if ``joined``, for points on an ordered scale."""

    title: str
    unit: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    joined: bool = False
    subtitle: str = ""

    def __post_init__(self) -> None:
        if any(len(series.values) != len(self.categories) for series in self.series):
            raise InputError(f"'{self.title}': every series needs one value for every category.")


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A square of values, one row and one column for every name; None where nothing was computed.

    With ``states`` a value is not an amount but the index of a word in them, the strongest first; ``unit`` then says
    what None means.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    subtitle: str = ""
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        side = len(self.names)
        if side > MAXIMUM_HEAT_MAP_SIDE:
            raise InputError(f"'{self.title}': a heat map shows at most {MAXIMUM_HEAT_MAP_SIDE} columns, got {side}.")
        if len(self.values) != side or any(len(row) != side for row in self.values):
            raise InputError(f"'{self.title}': a heat map needs one row and one column for every name.")
        known = range(len(self.states))
        if self.states and any(cell is not None and cell not in known for row in self.values for cell in row):
            raise InputError(f"'{self.title}': a value of a heat map is the index of one of its states.")

    def word(self, value: float | None) -> Cell:
        """Return a value as it is printed in a table."""
        return value if not self.states else self.unit if value is None else self.states[int(value)]


@dataclass(frozen=True, slots=True)
class Table:
    """A small table: the numbers of a picture, or a list such as the worst ten."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    subtitle: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.header) for row in self.rows):
            raise InputError(f"'{self.title}': every row needs one cell for every heading.")


@dataclass(frozen=True, slots=True)
class Mark:
    """One value on a gauge, and half the width of its 95 % range if it has one."""

    name: str
    meaning: Meaning
    value: float
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number on a line, with the numbers that it is compared with; without marks if nothing was measured.

    It is drawn from other numbers and is not in report.json. ``badge`` gives their kind if it differs from the rest of
    the screen.
    """

    title: str
    unit: str
    low: float
    high: float
    marks: tuple[Mark, ...]
    sentence: str
    badge: str = ""


Figure = Bars | HeatMap | Table | Picture


_UNSAID = frozenset({"subtitle", "joined", "states", "below"})
"""Fields that are left out of the JSON if they are empty."""


def figure_to_dict(figure: Figure) -> dict[str, Any]:
    """Write a figure as JSON values; :func:`figure_from_dict` gives it back."""
    if isinstance(figure, Picture):
        return _picture_to_dict(figure)
    if isinstance(figure, Bars):
        return {"figure": "bars", **_values(figure), "series": [_values(trace) for trace in figure.series]}
    if isinstance(figure, Table):
        return {"figure": "table", **_values(figure), "rows": [list(map(_finite, row)) for row in figure.rows]}
    return {"figure": "heat_map", **_values(figure), "values": [list(map(_finite, row)) for row in figure.values]}


def _values(one: Bars | HeatMap | Table | Series) -> dict[str, Any]:
    values = {field.name: getattr(one, field.name) for field in fields(one)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value or name not in _UNSAID
    }


def _picture_to_dict(picture: Picture) -> dict[str, Any]:
    body = {"figure": "picture", "drawn": picture.kind, "name": picture.name, "title": picture.title}
    body |= {"sentence": picture.sentence} if picture.sentence else {}
    axes = {"axes": [picture.across, picture.up]}
    if picture.kind == "heat_map":
        cells = {"unit": picture.unit, "columns": list(picture.columns), "rows": list(picture.rows)}
        return {**body, **axes, **cells, "values": [list(row) for row in picture.values]}
    series = [
        {"name": trace.name, "x": list(trace.across), "y": list(trace.up)}
        | ({} if trace.errors is None else {"errors": list(trace.errors)})
        for trace in picture.traces
    ]
    return {**body, **axes, "series": series}


def figure_from_dict(body: Mapping[str, Any]) -> Figure:
    """Read a figure back.

    Raises
    ------
    InputError
        If it is not a figure that :func:`figure_to_dict` writes.
    """
    try:
        fields_of = _of_picture(body) if body["figure"] == "picture" else body
        return _reader(body["figure"]).validate_python(fields_of)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError("A figure of the report cannot be read.") from None


@functools.cache
def _reader(name: str) -> TypeAdapter[Figure]:
    from pydantic import TypeAdapter  # here: a process that reads no report does without it

    kinds: dict[str, type[Figure]] = {"table": Table, "heat_map": HeatMap, "bars": Bars, "picture": Picture}
    return TypeAdapter(kinds[name])


def _of_picture(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a picture under the names of the dataclass."""
    across, up = body["axes"]
    traces = [
        {"name": trace["name"], "across": trace["x"], "up": trace["y"], "errors": trace.get("errors")}
        for trace in body.get("series", ())
    ]
    return {**body, "kind": body["drawn"], "across": across, "up": up, "traces": traces}


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value
