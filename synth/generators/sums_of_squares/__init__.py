"""kernel-sos: one noisy mean embedding by class, and a smooth density of the numbers that fits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs, Tuned
from synth.schema import Schema

__all__ = ["CARD", "CARDS", "KernelSosOptions"]

FEW_ROWS = 500
"""Rows that a class needs for a shape of its own at epsilon 1."""


@dataclass(frozen=True, slots=True)
class KernelSosOptions(Options):
    """Options of kernel-sos."""

    features: Annotated[int, Between(0, 20_000)] = 0
    """Number of random Fourier features, cosines and sines together; 0: 600 for one or two numbers, 1000 for more."""

    support: Annotated[int, Between(20, 400)] = 200
    """Support points of the density; with k classes each has this number divided by the square root of k."""

    bandwidth: Literal["auto", "0.06", "0.09", "0.14", "0.2"] = "auto"
    """Width of the kernel as a fraction of each number's range; auto: the largest that the answer allows."""

    steps: Annotated[int, Between(1, 10_000)] = 200
    """Steps of the fit; they use only the released answer, so more steps cost time but no privacy."""


def _advice(schema: Schema) -> str:
    if schema.number_of_units is None or schema.number_of_units * schema.unit.rows_per_unit >= FEW_ROWS:
        return ""
    return (
        f"With fewer than {FEW_ROWS} rows a density of several numbers is mostly noise: independent is probably better."
    )


_FAMILY = "synth.generators.sums_of_squares.kernel_sos"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("support", "points of the density; the time of a fit grows with their cube", _UNKNOWN),
    Tuned("steps", "seconds of a fit", _UNKNOWN),
    Tuned("_COUNT_SHARE", "part of the norm for counting the groups", _UNKNOWN, _FAMILY),
    Tuned("_PADDING", "how far a density may extend beyond a range, in ranges", _UNKNOWN, _FAMILY),
)
"""The numbers that were chosen."""

CARD = Card(
    name="kernel-sos",
    title="Smooth density (kernel sum-of-squares)",
    summary=(
        "Fits a smooth density to one noisy average of random Fourier features, by class of the label if there is one, "
        "and draws rows from it exactly."
    ),
    best_for="One to six numbers or dates, with or without a label of few classes: shapes, clusters, correlations.",
    loses_where=(
        "Every other table: it takes no categories besides the label unless all of them together form few groups, and "
        "it blurs spikes and steps that are finer than its bandwidth. Choose dp-hp-adaptive for those."
    ),
    keeps_people=(
        "Seldom possible: each row is asked about together with the next, which is more columns than it takes. Where "
        "it refuses, 'people: separate_rows' makes every row a person of its own."
    ),
    reference="Muzellec, Bach and Rudi 2021; sampling after Marteau-Ferey, Bach and Rudi 2022.",
    made_by="synth.generators.sums_of_squares.kernel_sos:KernelSos",
    options=KernelSosOptions,
    needs=Needs(numbers=6, groups=16),
    questions={"mean embedding": "random Fourier features of the numbers, by class"},
    constants=CONSTANTS,
    short_training={"steps": 2, "support": 20},
    advice=_advice,
)

CARDS = (CARD,)
