"""A family of one model, as somebody would add it: one folder, and one line in the registry of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs

__all__ = ["CARDS", "LineOptions"]


@dataclass(frozen=True, slots=True)
class LineOptions(Options):
    """Options of the line."""

    steps: Annotated[int, Between(1, 50)] = 4
    """How many noisy gradients it descends along."""

    rate: Annotated[float, Between(0.0, 10.0)] = 2.0
    """How far each step goes."""


CARDS = (
    Card(
        name="toy-line",
        title="Toy line",
        summary="Foretells a number by a line through the other numbers, descended to along noisy gradients.",
        best_for="Showing what a folder has to bring.",
        loses_where="Everywhere.",
        reference="None.",
        made_by="toy_models.line:Line",
        options=LineOptions,
        needs=Needs(label=True, columns=2),
        kind="model",
        predicts=True,
        paid="number",
        short_training={},
    ),
)
