"""dp-merf: one noisy mean embedding of random Fourier features trains a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Tuned

__all__ = ["CARD", "CARDS", "DpMerfOptions"]


@dataclass(frozen=True, slots=True)
class DpMerfOptions(Options):
    """Options of dp-merf."""

    features: Annotated[int, Between(2, 100_000)] = 1000
    """Random Fourier features of the numbers, cosines and sines together; half see one number, half all of them."""

    length_scale: Annotated[float, Between(0.001, 10.0)] = 0.035
    """Width of the kernel as a part of each number's declared range; n numbers together take sqrt(n) times it."""

    steps: Annotated[int, Between(1, 1_000_000)] = 1500
    """Training steps; they use the released answer only, so more cost time and no privacy."""

    batch_size: Annotated[int, Between(16, 100_000)] = 512
    """Synthetic rows drawn in each training step."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.005
    """Step size of the optimiser at the start; it falls to zero."""


_NETWORK, _FAMILY = "synth.generators.neural", "synth.generators.fourier.dp_merf"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("features", "more features carry no more noise, and cost time", _UNKNOWN),
    Tuned("length_scale", "dp-hp's of a column by itself: the root of .005 where a range runs from -1 to 1", "none"),
    Tuned("steps", "seconds of training on one thread", _UNKNOWN),
    Tuned("batch_size", "rows of a step; the distance has no bias of so few", _UNKNOWN),
    Tuned("learning_rate", "half of the published code's", _UNKNOWN),
    Tuned("LEAST_ALONE", "frequencies of one number alone, which carry no more noise", _UNKNOWN, _FAMILY),
    Tuned("COUNT_SHARE", "what counting the classes needs of the norm, where no category does it", _UNKNOWN, _FAMILY),
    Tuned("LATENT", "directions in which rows of one class differ", _UNKNOWN, _NETWORK),
    Tuned("HIDDEN", "width of two layers", _UNKNOWN, _NETWORK),
    Tuned("SOFTMAX_LEVELS", "probabilities for longer grids follow the noise", "Adult", _NETWORK),
)
"""The numbers that were chosen."""

CARD = Card(
    name="dp-merf",
    title="DP-MERF (random Fourier features)",
    summary=(
        "One noisy average of random Fourier features and category counts, by class of the label if there "
        "is one, trains a neural network."
    ),
    best_for="Numbers and categories with a label to predict.",
    loses_where=(
        "Tables of counts: it measures no pairs of categories and blurs spikes. With a length scale of .1 both "
        "controls were closer on sets of one to four columns of Adult, and classifiers did no better than with "
        "independent-by-class; with .035 it is closer than unrelated columns on discretised Adult at epsilon 0.3."
    ),
    reference="Harder, Adamczewski and Park 2021, AISTATS.",
    made_by="synth.generators.fourier.dp_merf:DpMerf",
    options=DpMerfOptions,
    short_training={"steps": 2},
    on_card="whole",
    card_work="training and sampling, which are few large matrix products a step",
    constants=CONSTANTS,
)

CARDS = (CARD,)
