"""The two controls: every column on its own, overall or by class of the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs, Tuned

__all__ = ["BY_CLASS", "CARDS", "INDEPENDENT", "IndependentOptions"]


@dataclass(frozen=True, slots=True)
class IndependentOptions(Options):
    """Options of both controls."""

    bins: Annotated[int, Between(1, 4096)] = 32
    """Equal parts of a number's or date's declared range; more parts follow its shape, fewer have less noise."""


_UNKNOWN = "not recorded"

CONSTANTS = (Tuned("bins", "parts of a range whose counts are clear of the noise", _UNKNOWN),)
"""The numbers that were chosen for both controls."""

INDEPENDENT = Card(
    name="independent",
    fits_at_once=True,
    title="Independent columns",
    summary="Counts every column on its own, with noise, and ignores how columns depend on each other.",
    best_for="Very small budgets or tables, and as the control that every other generator has to beat.",
    loses_where="Anything that needs two columns at once: pairs, groups, and every classifier.",
    keeps_people=(
        "Kept: how many rows somebody has, and what lies between them. Which rows are one person's is chance: what a "
        "row says follows neither from the person nor from the row before."
    ),
    reference="Noisy contingency tables (Dwork 2006).",
    made_by="synth.generators.independent.independent:Independent",
    options=IndependentOptions,
    constants=CONSTANTS,
    measures_one_ways=True,
    answers_pure=True,
)

BY_CLASS = Card(
    name="independent-by-class",
    fits_at_once=True,
    title="Independent columns, by class",
    summary="Counts every column within each class of the label, with noise; columns are independent within a class.",
    best_for="Training a classifier at a small budget, and as the control that every other generator has to beat.",
    loses_where="Columns that depend on each other within a class: they come out as if they did not.",
    keeps_people=(
        "Kept: how many rows somebody has, and how the label of a row goes with the row after it. Else, which rows are "
        "one person's is chance."
    ),
    reference="Noisy contingency tables (Dwork 2006); the naive Bayes assumption.",
    made_by="synth.generators.independent.independent:IndependentByClass",
    options=IndependentOptions,
    constants=CONSTANTS,
    needs=Needs(label=True, columns=2),
    measures_one_ways=True,
    answers_pure=True,
)

CARDS = (INDEPENDENT, BY_CLASS)
