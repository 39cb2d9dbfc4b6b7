"""Pictures and tables of a report, as data: always binned beforehand, never one point for one row.

The title of a figure says what is seen on it, and its subtitle, where it has one, whether that is good. Pages and the
page of the bundle draw them; nothing here knows how.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synth.errors import InputError
from synth.generators.protocol import Picture, Trace

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
"""Points of one trace; more is neither readable nor a summary."""

MAXIMUM_HEAT_MAP_SIDE = 40

Meaning = Literal["synthetic", "real", "measured", "stand_in", "control", "floor", "ceiling"]
"""What a series shows; each meaning has one colour everywhere."""

_MEANINGS: tuple[Meaning, ...] = ("synthetic", "real", "measured", "stand_in", "control", "floor", "ceiling")

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Series:
    """One trace: a value for every category, and half the width of its 95 % bar where there is one.

    Where a bar reaches down another way than up, ``errors`` is how far it reaches up and ``below`` how far down.
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
        if self.meaning not in _MEANINGS:
            raise InputError(f"'{self.name}': meaning must be one of {', '.join(_MEANINGS)}.")


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars or dots with whiskers over the same categories; lines where ``joined``, for points of an ordered scale."""

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

    With ``states`` a value is no amount but the place of a word in them, the strongest first; ``unit`` then says what
    None means.
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
            raise InputError(f"'{self.title}': a value of a heat map is the place of one of its states.")

    def word(self, value: float | None) -> Cell:
        """Return a value as a table prints it."""
        return value if not self.states else self.unit if value is None else self.states[int(value)]


@dataclass(frozen=True, slots=True)
class Table:
    """A small table: the twin of a picture, or a list such as the worst ten."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    subtitle: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.header) for row in self.rows):
            raise InputError(f"'{self.title}': every row needs one cell for every heading.")


@dataclass(frozen=True, slots=True)
class Mark:
    """One place on a gauge, and half the width of its 95 % range where it has one."""

    name: str
    meaning: Meaning
    value: float
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number on one line with those that it is held against; without marks where nothing was measured.

    It is drawn from other numbers and stands in no report.json. ``badge`` says what those are where they are of another
    kind than the rest of the screen.
    """

    title: str
    unit: str
    low: float
    high: float
    marks: tuple[Mark, ...]
    sentence: str
    badge: str = ""


Figure = Bars | HeatMap | Table | Picture


def figure_to_dict(figure: Figure) -> dict[str, Any]:
    """Write a figure as JSON values; :func:`figure_from_dict` gives it back."""
    if isinstance(figure, Table):
        rows = [[_finite(cell) for cell in row] for row in figure.rows]
        return {"figure": "table", **_headed(figure), "header": list(figure.header), "rows": rows}
    if isinstance(figure, Picture):
        return _picture_to_dict(figure)
    if isinstance(figure, HeatMap):
        values = [[_finite(cell) for cell in row] for row in figure.values]
        body = {"figure": "heat_map", **_headed(figure), "unit": figure.unit}
        # Left out where it says nothing, as below.
        states = {"states": list(figure.states)} if figure.states else {}
        return {**body, "names": list(figure.names), "values": values, **states}
    series = [
        {
            "name": trace.name,
            "meaning": trace.meaning,
            "values": list(trace.values),
            "errors": None if trace.errors is None else list(trace.errors),
            # Left out where it says nothing, as most traces do.
            **({} if trace.below is None else {"below": list(trace.below)}),
        }
        for trace in figure.series
    ]
    # Left out where it says nothing, as above.
    joined = {"joined": True} if figure.joined else {}
    body = {"figure": "bars", **_headed(figure), "unit": figure.unit}
    return {**body, "categories": list(figure.categories), "series": series, **joined}


def _headed(figure: Bars | HeatMap | Table) -> dict[str, str]:
    # Left out where it says nothing, as above.
    return {"title": figure.title} | ({"subtitle": figure.subtitle} if figure.subtitle else {})


def _picture_to_dict(picture: Picture) -> dict[str, Any]:
    body = {"figure": "picture", "drawn": picture.kind, "name": picture.name, "title": picture.title}
    body |= {"sentence": picture.sentence} if picture.sentence else {}
    axes = {"axes": [picture.across, picture.up]}
    if picture.kind == "heat_map":
        cells = {"unit": picture.unit, "columns": list(picture.columns), "rows": list(picture.rows)}
        return {**body, **axes, **cells, "values": [list(row) for row in picture.values]}
    series = [
        {
            "name": trace.name,
            "x": list(trace.across),
            "y": list(trace.up),
            **({} if trace.errors is None else {"errors": list(trace.errors)}),
        }
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
        return _READERS[body["figure"]](body)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError("A figure of the report cannot be read.") from None


def _read_table(body: Mapping[str, Any]) -> Table:
    rows = tuple(tuple(map(_cell, row)) for row in body["rows"])
    return Table(str(body["title"]), _texts(body["header"]), rows, _subtitle(body))


def _read_heat_map(body: Mapping[str, Any]) -> HeatMap:
    values = tuple(tuple(None if cell is None else float(cell) for cell in row) for row in body["values"])
    words, states = (str(body["title"]), str(body["unit"])), _texts(body.get("states", ()))
    return HeatMap(*words, _texts(body["names"]), values, _subtitle(body), states)


def _read_bars(body: Mapping[str, Any]) -> Bars:
    series = tuple(
        Series(
            str(trace["name"]),
            trace["meaning"],
            tuple(float(value) for value in trace["values"]),
            None if trace["errors"] is None else tuple(float(value) for value in trace["errors"]),
            None if trace.get("below") is None else tuple(float(value) for value in trace["below"]),
        )
        for trace in body["series"]
    )
    joined = body.get("joined") is True
    return Bars(str(body["title"]), str(body["unit"]), _texts(body["categories"]), series, joined, _subtitle(body))


def _read_picture(body: Mapping[str, Any]) -> Picture:
    across, up = _texts(body["axes"])
    return Picture(
        name=str(body["name"]),
        title=str(body["title"]),
        sentence=str(body.get("sentence", "")),
        kind=body["drawn"],
        across=across,
        up=up,
        unit=str(body.get("unit", "")),
        columns=_places(body.get("columns", ())),
        rows=_places(body.get("rows", ())),
        values=tuple(tuple(None if cell is None else float(cell) for cell in row) for row in body.get("values", ())),
        traces=tuple(
            Trace(
                str(trace["name"]),
                tuple(float(value) for value in trace["x"]),
                tuple(float(value) for value in trace["y"]),
                None if trace.get("errors") is None else tuple(float(value) for value in trace["errors"]),
            )
            for trace in body.get("series", ())
        ),
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "table": _read_table,
    "heat_map": _read_heat_map,
    "bars": _read_bars,
    "picture": _read_picture,
}


def _subtitle(body: Mapping[str, Any]) -> str:
    return str(body.get("subtitle", ""))


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _places(values: Sequence[object]) -> tuple[float | str, ...]:
    found = tuple(value for value in map(_cell, values) if value is not None)
    if len(found) != len(values):
        raise ValueError
    return found


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value
