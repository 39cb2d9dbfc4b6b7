"""dp-mixture: kinds of row, found by EM on noisy sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Tuned

__all__ = ["CARD", "CARDS", "MixtureOptions"]


@dataclass(frozen=True, slots=True)
class MixtureOptions(Options):
    """Options of the mixture."""

    bins: Annotated[int, Between(2, 256)] = 20
    """Equal parts of a number's or date's declared range. Zero, special values and missing are separate."""

    components: Annotated[int, Between(0, 64)] = 0
    """Kinds of row within each class of the label; 0: chosen from the number of rows and the budget."""

    steps: Annotated[int, Between(0, 50)] = 0
    """Steps of EM, each of which is a question; 0: chosen from the number of rows and the budget."""

    class_share: Annotated[float, Between(0.01, 0.5)] = 0.05
    """Share of the budget for counting the classes of the label, if there is one."""

    numbers: Literal["bins", "gaussian"] = "bins"
    """How numbers are modelled within a kind: bins, or gaussian (smooth numbers only: spikes and tails are lost)."""


_FAMILY = "synth.generators.mixture.dp_mixture"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("bins", "parts of a range that a kind of row distinguishes", _UNKNOWN),
    Tuned("class_share", "enough to count the classes", _UNKNOWN),
    Tuned("ENOUGH", "rows of an average kind, in units of the noise of a count", _UNKNOWN, _FAMILY),
)
"""The numbers that were chosen."""

CARD = Card(
    name="dp-mixture",
    title="DP mixture (latent classes)",
    summary=(
        "Finds kinds of row, by class of the label if there is one, by expectation maximisation on noisy sums; within "
        "a kind, columns are independent."
    ),
    best_for=(
        "Seeing which kinds of row a large table has: the model is short enough to read. Tables whose columns depend "
        "on each other because rows are of a few kinds: at least 20,000 rows at epsilon 1, few classes of the label."
    ),
    loses_where=(
        "Small tables and budgets, where it only counts columns by class; two columns that determine each other; "
        "detail within a bin. On every table we measured, dp-hp-adaptive is more accurate."
    ),
    keeps_people=(
        "Kept: how many rows somebody has. What belongs to one person and what follows what are mostly lost: two rows "
        "of one person have little more in common than a kind."
    ),
    reference="Park et al. 2017 (DP-EM); Wang et al. 2020; one joint sensitivity for all components is ours.",
    made_by="synth.generators.mixture.dp_mixture:DpMixture",
    options=MixtureOptions,
    constants=CONSTANTS,
    questions={"classes": "How many rows does each class of the label have?"},
)

CARDS = (CARD,)
