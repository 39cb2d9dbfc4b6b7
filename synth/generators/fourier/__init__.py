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
    """Number of random Fourier features, cosines and sines together; half of them use one number, half use all."""

    length_scale: Annotated[float, Between(0.001, 10.0)] = 0.035
    """Width of the kernel as a fraction of each number's declared range; sqrt(n) times that for n numbers together."""

    steps: Annotated[int, Between(1, 1_000_000)] = 1500
    """Training steps; they use only the released answer, so more steps cost time but no privacy."""

    batch_size: Annotated[int, Between(16, 100_000)] = 512
    """Synthetic rows drawn in each training step."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.005
    """Initial step size of the optimiser; it falls to zero."""


_NETWORK, _FAMILY = "synth.generators.row_network", "synth.generators.fourier.dp_merf"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("features", "more features carry no more noise, and cost time", _UNKNOWN),
    Tuned("length_scale", "dp-hp's for a single column: the square root of .005 for a range from -1 to 1", "none"),
    Tuned("steps", "seconds of training on one thread", _UNKNOWN),
    Tuned("batch_size", "rows of a step; the estimated distance is unbiased however few they are", _UNKNOWN),
    Tuned("learning_rate", "half that of the published code", _UNKNOWN),
    Tuned("LEAST_ALONE", "frequencies of a single number; more carry no more noise", _UNKNOWN, _FAMILY),
    Tuned("COUNT_SHARE", "part of the norm for counting the classes, if no category counts them", _UNKNOWN, _FAMILY),
    Tuned("LATENT", "directions in which rows of one class differ", _UNKNOWN, _NETWORK),
    Tuned("HIDDEN", "width of two layers", _UNKNOWN, _NETWORK),
    Tuned("SOFTMAX_LEVELS", "probabilities for longer grids follow the noise", "Adult", _NETWORK),
)
"""The numbers that were chosen."""

CARD = Card(
    name="dp-merf",
    title="DP-MERF (random Fourier features)",
    summary=(
        "Trains a neural network on one noisy average of random Fourier features and category counts, by class of the "
        "label if there is one."
    ),
    best_for="Numbers and categories with a label to predict.",
    loses_where=(
        "Tables of counts: it measures no pairs of categories and blurs spikes. With a length scale of .1 both "
        "controls were more accurate on sets of one to four columns of Adult, and classifiers did no better than with "
        "independent-by-class; with .035 it is more accurate than independent columns on discretised Adult at epsilon "
        "0.3."
    ),
    keeps_people=(
        "Kept: how many rows somebody has, and in part how alike numbers of one person are. Categories change from row "
        "to row nearly by chance."
    ),
    reference="Harder, Adamczewski and Park 2021, AISTATS.",
    made_by="synth.generators.fourier.dp_merf:DpMerf",
    options=DpMerfOptions,
    short_training={"steps": 2},
    on_card="whole",
    card_work="the training",
    constants=CONSTANTS,
)

CARDS = (CARD,)
