"""Pieces of a screen as data: what a report shows, and nothing about how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from synth.reports.evidence import Evidence, Kind
from synth.reports.figures import Table

__all__ = [
    "Alarm",
    "Badge",
    "Cards",
    "Choice",
    "ExactWarning",
    "Folded",
    "ForecastDetails",
    "Heading",
    "Listing",
    "NoisyCounts",
    "OnRequest",
    "Opening",
    "Option",
    "Panel",
    "Panels",
    "Part",
    "Pick",
    "PromiseCards",
    "Questions",
    "RehearsalResults",
    "Words",
]


class Panel:
    """A piece of a screen."""

    __slots__ = ()


Panels = Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Cards(Panel):
    """Numbers, three in a row, and below them those that have pictures or tables."""

    entries: Sequence[Evidence]
    key: str


@dataclass(frozen=True, slots=True)
class Heading(Panel):
    """A heading inside a tab."""

    text: str


@dataclass(frozen=True, slots=True)
class Words(Panel):
    """A sentence or two: a paragraph, a small note, or the reason why something is missing."""

    text: str
    kind: Literal["paragraph", "note", "info"] = "info"


@dataclass(frozen=True, slots=True)
class Badge(Panel):
    """The badge of all numbers that follow."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class ExactWarning(Panel):
    """The warning above exact numbers."""


@dataclass(frozen=True, slots=True)
class Listing(Panel):
    """A table of numbers; ``formats`` says how the numbers of a column are printed."""

    table: Table
    key: str
    formats: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """One of several things to show, with the title it is chosen by."""

    name: str
    title: str
    panels: Panels


@dataclass(frozen=True, slots=True)
class Choice(Panel):
    """One of a few options, chosen by a click; if each begins with a choice of its own, that one is shown beside it."""

    label: str
    key: str
    options: Sequence[Option]
    help: str = ""


@dataclass(frozen=True, slots=True)
class Pick(Panel):
    """One of many options, picked from a list."""

    label: str
    key: str
    options: Sequence[Option]


@dataclass(frozen=True, slots=True)
class Folded(Panel):
    """Panels that are opened by a click."""

    title: str
    panels: Panels


@dataclass(frozen=True, slots=True)
class Part(Panel):
    """One of the parts of a tab that several reports share; one part is shown at a time."""

    name: str
    title: str
    panels: Panels


@dataclass(frozen=True, slots=True)
class OnRequest(Panel):
    """Offer a part of a report that is made on request, and follow its progress."""

    name: str


@dataclass(frozen=True, slots=True)
class Opening(Panel):
    """The first screen: what the rows are good for, what not, how well people are protected, and its pictures."""


@dataclass(frozen=True, slots=True)
class Questions(Panel):
    """Take questions about the population and show the estimates; ``examples`` can be asked as they are."""

    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoisyCounts(Panel):
    """Every noisy count of the bundle: one table at a time as a picture, all of them to download."""


@dataclass(frozen=True, slots=True)
class PromiseCards(Panel):
    """The promise of the run: epsilon, delta and generator."""

    sentence: str


@dataclass(frozen=True, slots=True)
class ForecastDetails(Panel):
    """The forecast made before the run."""


@dataclass(frozen=True, slots=True)
class RehearsalResults(Panel):
    """The results of the rehearsal of this configuration in one section."""

    section: str


@dataclass(frozen=True, slots=True)
class Alarm(Panel):
    """A number that is an alarm, shown prominently."""

    entry: Evidence
