"""Pieces of a screen as data: what a report shows, without a word of how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from synth.reports.evidence import Evidence, Kind
from synth.reports.figures import Table

__all__ = [
    "Answered",
    "Asked",
    "Badge",
    "Cards",
    "Choice",
    "Folded",
    "Forecasted",
    "Heading",
    "Listing",
    "Option",
    "Panel",
    "Panels",
    "Part",
    "Pick",
    "Promised",
    "Rehearsed",
    "Renewing",
    "Shouted",
    "Warned",
    "Words",
]


class Panel:
    """A piece of a screen."""

    __slots__ = ()


Panels = Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Cards(Panel):
    """Numbers, three in a line, and below them in full width whatever has pictures or tables."""

    entries: Sequence[Evidence]
    key: str


@dataclass(frozen=True, slots=True)
class Heading(Panel):
    """A heading inside a tab."""

    text: str


@dataclass(frozen=True, slots=True)
class Words(Panel):
    """A sentence or two: a paragraph, a small note, or why something is not there."""

    text: str
    kind: Literal["paragraph", "note", "info"] = "info"


@dataclass(frozen=True, slots=True)
class Badge(Panel):
    """What all numbers that follow are."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Warned(Panel):
    """What has to be said before exact numbers."""


@dataclass(frozen=True, slots=True)
class Listing(Panel):
    """A table of numbers; ``formats`` says how the numbers of a column are printed."""

    table: Table
    key: str
    formats: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """One of several things to look at; a choice without a title is not offered by name."""

    name: str
    title: str
    panels: Panels


@dataclass(frozen=True, slots=True)
class Choice(Panel):
    """One of a few things, chosen by a click; a choice that an option begins with stands beside this one."""

    label: str
    key: str
    options: Sequence[Option]
    help: str = ""


@dataclass(frozen=True, slots=True)
class Pick(Panel):
    """One of many things, picked from a list."""

    label: str
    key: str
    options: Sequence[Option]


@dataclass(frozen=True, slots=True)
class Folded(Panel):
    """What is opened by a click."""

    title: str
    panels: Panels


@dataclass(frozen=True, slots=True)
class Part(Panel):
    """One of the parts of a tab that several reports share; one of them is looked at."""

    name: str
    title: str
    panels: Panels


@dataclass(frozen=True, slots=True)
class Renewing(Panel):
    """Offers to make a part of a report at the owner's wish, and follows it."""

    name: str


@dataclass(frozen=True, slots=True)
class Answered(Panel):
    """The first screen: what the rows are fit for, what not, what nobody can do, and the pictures that say so."""


@dataclass(frozen=True, slots=True)
class Asked(Panel):
    """Takes questions about the population, and shows what was estimated; ``examples`` can be asked as they stand."""

    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promised(Panel):
    """What the run promises: epsilon, delta and generator."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Forecasted(Panel):
    """What was forecast before the run."""


@dataclass(frozen=True, slots=True)
class Rehearsed(Panel):
    """What the rehearsal of this configuration came to in one section."""

    section: str


@dataclass(frozen=True, slots=True)
class Shouted(Panel):
    """A number that is an alarm."""

    entry: Evidence
