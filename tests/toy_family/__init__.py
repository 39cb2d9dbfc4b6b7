"""A family of one generator, as somebody would add it: one folder, and one line in the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Mode

__all__ = ["CARDS", "ToyOptions"]


@dataclass(frozen=True, slots=True)
class ToyOptions(Options):
    """Options of the toy."""

    mode: Literal["plain", "shy"] = "plain"
    """Which of its promises it is run with: plain asks and draws, shy draws every code as often."""

    flatness: Annotated[float, Between(0.0, 1.0)] = 0.5
    """How much of an even distribution is mixed into the counted one, from 0 to 1."""


CARDS = (
    Card(
        name="toy",
        title="Toy",
        summary="Counts every column by itself and flattens it.",
        best_for="Showing what a folder has to bring.",
        loses_where="Everywhere.",
        reference="None.",
        made_by="toy_family.toy:Toy",
        options=ToyOptions,
        measures_one_ways=True,
        modes=(
            Mode(name="plain", title="Plain", promise="Hides one person's whole row.", beware="It is a toy."),
            Mode(name="shy", title="Shy", promise="Hides one person's whole row.", beware="It learns nothing."),
        ),
        advice=lambda schema: "Any other generator is better." if len(schema.modelled) > 2 else "",
    ),
)
