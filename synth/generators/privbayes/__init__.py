"""privbayes: a Bayesian network whose parents are chosen privately (Zhang 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Tuned

__all__ = ["CARD", "CARDS", "PrivBayesOptions"]


@dataclass(frozen=True, slots=True)
class PrivBayesOptions(Options):
    """Options of the Bayesian network."""

    bins: Annotated[int, Between(2, 256)] = 32
    """Maximum number of bins for a number or date when it is counted together with other columns."""

    columns_share: Annotated[float, Between(0.01, 0.9)] = 0.2
    """Share of the budget for counting each column on its own."""

    network_share: Annotated[float, Between(0.01, 0.9)] = 0.3
    """Share of the rest for choosing which columns each column depends on; what is left counts them together."""

    usefulness: Annotated[float, Between(0.1, 100.0)] = 4.0
    """Rows of an average cell in units of its expected noise (theta in the paper): more allows fewer parents."""

    parents: Annotated[int, Between(1, 5)] = 3
    """Maximum number of columns that a column depends on directly."""

    score: Literal["R", "F"] = "R"
    """What parents are chosen by. R: the rows that would have to move for a column to be independent of its parents. F:
    those for its parents to determine it; only if every column has at most two values, and then with less noise."""


_FIT = "synth.generators.privbayes.privbayes"

CONSTANTS = (
    Tuned("columns_share", "a tenth more or less was farther in sets of three columns", "discretised Adult"),
    Tuned("network_share", "that of the paper; half of it was no better", "discretised Adult"),
    Tuned("usefulness", "that of the paper; half or twice as much was no better", "discretised Adult"),
    Tuned("_EVEN", "less than a row in most cells; more blurs what was counted", "discretised Adult", _FIT),
    Tuned("_RAKING", "more changed nothing", "discretised Adult", _FIT),
)
"""The numbers that were chosen."""

CARD = Card(
    name="privbayes",
    fits_at_once=True,
    title="Bayesian network (PrivBayes)",
    summary=(
        "Counts every column, privately chooses for each one the columns that it depends on, and counts it together "
        "with these."
    ),
    best_for="A model that can be read, and is fitted in seconds: one table says what each column is drawn from.",
    loses_where=(
        "Sets of two and three columns, and predictions, at every budget we tried: dp-hp-adaptive is better there. "
        "independent-by-class trains better classifiers. A relation is lost unless the chosen parents "
        "carry it."
    ),
    keeps_people=(
        "Kept: how many rows somebody has, and in most cases categories that stay the same from row to row. Numbers of "
        "one person come out less alike than they are."
    ),
    reference="Zhang et al. 2017 (PrivBayes).",
    made_by="synth.generators.privbayes.privbayes:PrivBayes",
    options=PrivBayesOptions,
    measures_one_ways=True,
    answers_pure=True,
    asks_first=True,
    constants=CONSTANTS,
    questions={
        "one-way tables": "How often is each value of each column?",
        "tables of the network": "How does each column depend on those that were chosen for it?",
    },
)

CARDS = (CARD,)
