"""dp-mixture: kinds of row, found by EM whose sums are noisy."""

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
    """Equal parts of a number's or date's declared range. Zero, special values and missing have places of their own."""

    components: Annotated[int, Between(0, 64)] = 0
    """Kinds of row within each class of the label; 0 lets the number of rows and the budget decide."""

    steps: Annotated[int, Between(0, 50)] = 0
    """Steps of EM, each of which is a question; 0 lets the number of rows and the budget decide."""

    class_share: Annotated[float, Between(0.01, 0.5)] = 0.05
    """Part of the budget for counting the classes of the label, if there is one."""

    numbers: Literal["bins", "gaussian"] = "bins"
    """How numbers look within a kind: bins; or gaussian (a bell: for smooth numbers alone, as spikes and tails go)."""


_FAMILY = "synth.generators.mixture.dp_mixture"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("bins", "parts of a range that a kind of row tells apart", _UNKNOWN),
    Tuned("class_share", "what counting the classes needs", _UNKNOWN),
    Tuned("ENOUGH", "rows of an average kind, in units of the noise of a count", _UNKNOWN, _FAMILY),
)
"""The numbers that were chosen."""

CARD = Card(
    name="dp-mixture",
    title="DP mixture (latent classes)",
    summary=(
        "Finds kinds of row, by class of the label if there is one, by expectation maximisation whose sums are noisy; "
        "within a kind, columns are unrelated."
    ),
    best_for=(
        "Seeing which kinds of row a large table has: the model is short enough to read. Tables whose columns go "
        "together because rows are of a few kinds: 20,000 rows and more at epsilon 1, few classes of the label."
    ),
    loses_where=(
        "Small tables and budgets, where it counts columns by class alone; two columns that determine each other; "
        "detail inside a bin. On every table we measured dp-hp-adaptive is closer to the rows."
    ),
    reference="Park et al. 2017 (DP-EM); Wang et al. 2020; one joint sensitivity for all components is ours.",
    made_by="synth.generators.mixture.dp_mixture:DpMixture",
    options=MixtureOptions,
    constants=CONSTANTS,
    questions={"classes": "How many rows does each class of the label have?"},
)

CARDS = (CARD,)
