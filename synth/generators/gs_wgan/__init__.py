"""gs-wgan: private critics take turns to say, with noise, where synthetic rows should move (Chen 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Tuned

__all__ = ["CARD", "CARDS", "GsWganOptions"]


@dataclass(frozen=True, slots=True)
class GsWganOptions(Options):
    """Options of gs-wgan."""

    parts: Annotated[int, Between(0, 10_000)] = 0
    """Number of parts into which people are divided, each with a critic of its own. More parts need less noise, and
    each critic sees fewer people. 0 chooses 1000, or fewer if the declared number of people, or the most that there may
    be, leaves under 20 each."""

    turns: Annotated[int, Between(1, 100_000)] = 1000
    """Turns that all critics take together. Somebody pays for the turns of their part's critic: turns / parts, rounded
    up."""

    batch_size: Annotated[int, Between(1, 1024)] = 16
    """Synthetic rows of a turn, for each of which the critic says where it should move. The answers of all turns are
    stored in the bundle: turns times rows times numbers of a row."""

    clip: Annotated[float, Between(2.0**-20, 2.0**20)] = 1.0
    """Length to which the critic's gradient at a synthetic row is shortened; critics are trained to have about 1."""

    critic_steps: Annotated[int, Between(1, 1000)] = 20
    """Training steps of a critic at each of its turns."""

    critic_rate: Annotated[float, Between(1e-6, 1.0)] = 0.01
    """Step size of the critics."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.002
    """Initial step size of the network that draws rows; it falls to zero."""


_FIT = "synth.generators.gs_wgan.gs_wgan"
_CRITIC = "synth.privacy.more.private_critics"

CONSTANTS = (
    Tuned("_PARTS", "400 needed more noise and were worse; that of the paper", "Adult", _FIT),
    Tuned("_LEAST_IN_A_PART", "fewer people tell a critic little", "none", _FIT),
    Tuned("turns", "each critic once; the answers are some megabytes", "Adult"),
    Tuned("batch_size", "the noise of the mean does not depend on it", "Adult"),
    Tuned("_LEARNED_FROM", "rows that take no time beside the critic", "none", _FIT),
    Tuned("_CRITIC_BATCH", "rows of a small part", "none", _FIT),
    Tuned("clip", "that of the paper: the slope that critics are trained to have", "none"),
    Tuned("critic_steps", "twice as many were little better; half as many with slower critics taught nothing", "Adult"),
    Tuned("critic_rate", "slower critics had learned too little after their steps", "Adult"),
    Tuned("learning_rate", "half and twice of it were worse", "Adult"),
    Tuned("HIDDEN", "two small layers, as parts are small", "none", _CRITIC),
    Tuned("LEAK", "usual", "none", _CRITIC),
    Tuned("PENALTY", "that of Gulrajani 2017", "none", _CRITIC),
)
"""The numbers that were chosen."""

CARD = Card(
    name="gs-wgan",
    title="Generative adversarial network (GS-WGAN)",
    summary=(
        "Divides people into parts, trains a critic on each of them inside the privacy boundary, and a network that "
        "draws rows on the critics' noisy gradients."
    ),
    best_for="Comparison with the literature.",
    loses_where=(
        "Everything we tried, against independent columns: on discretised Adult, sets of three columns are .32 away at "
        "epsilon 8, where independent columns are .16 and dp-hp-adaptive .02 away. At epsilon 1 it learns next to "
        "nothing."
    ),
    keeps_people=(
        "At epsilon 1 next to nothing, but for what every generator keeps: what belongs to somebody, and the order of "
        "rows."
    ),
    reference="Chen, Orekondy and Fritz 2020 (GS-WGAN).",
    made_by=f"{_FIT}:GsWgan",
    options=GsWganOptions,
    short_training={"critic_steps": 1},
    questions={"turns of the critics": "Where should synthetic rows move to look like the rows?"},
    constants=CONSTANTS,
)

CARDS = (CARD,)
