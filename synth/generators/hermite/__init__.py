"""dp-hp: noisy mean embeddings of Hermite features train a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Tuned

__all__ = ["CARD", "CARDS", "DpHpOptions"]


@dataclass(frozen=True, slots=True)
class DpHpOptions(Options):
    """Options of dp-hp, named as in the paper where it has them."""

    order: Annotated[int, Between(0, 500)] = 200
    """Highest Hermite order of the sum kernel, which uses each column separately."""

    order_product: Annotated[int, Between(0, 100)] = 5
    """Highest Hermite order of the product kernel, which uses a few columns together."""

    prod_dimension: Annotated[int, Between(0, 10)] = 0
    """Columns in each product kernel; the number of its features is (order_product + 1) to this power. 0 means five, as
    in the paper, or fewer if that would make more than 131,072 features over all classes."""

    orders: Literal["one", "by column"] = "one"
    """Whether all columns have these orders, or a column with few levels has only as many as it has levels."""

    gamma: Annotated[float, Between(0.0, 1e9)] = 1.0
    """Weight of the product kernel's distance, relative to the sum kernel's."""

    epochs: Annotated[int, Between(0, 10_000)] = 0
    """How often the columns of the product kernel are redrawn; each time is paid for. 0 means until every column was
    drawn twice, at most thirty times."""

    split: Annotated[float, Between(0.01, 0.99)] = 0.5
    """Share of the privacy budget (in mu squared) for the sum kernel; the epochs share the rest evenly."""

    length_scale: Annotated[float, Between(0.001, 100.0)] = 0.07
    """Width of the sum kernel on a column's declared range, which is scaled to run from -1 to 1."""

    length_scale_product: Annotated[float, Between(0.001, 100.0)] = 0.5
    """Width of the product kernel on the same range; its few orders reach a few widths from the middle of the range."""

    batch_size: Annotated[int, Between(16, 100_000)] = 512
    """Synthetic rows drawn in each training step."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.01
    """Initial step size of the optimiser; it falls to zero."""

    steps_per_epoch: Annotated[int, Between(0, 100_000)] = 0
    """Training steps in each epoch; 0 means about 1,500 in total. They use only released answers, so more steps cost
    time but no privacy."""


_NETWORK, _FAMILY = "synth.generators.row_network", "synth.generators.hermite.dp_hp"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("order", "at its width the sum kernel reaches the ends of a range: x^2 / l^2 is 200", "none"),
    Tuned("length_scale", "the square root of .005, as in the published code", "none"),
    Tuned("order_product", "as in the paper's settings for labelled tables", "none"),
    Tuned(
        "length_scale_product",
        "at the sum kernel's width the few orders vanish away from the middle of a range",
        _UNKNOWN,
    ),
    Tuned("gamma", "both embeddings have norm at most 1", "none"),
    Tuned("split", "half for each kernel, as in the published code", "none"),
    Tuned("batch_size", "rows of a step; the estimated distance is unbiased however few they are", _UNKNOWN),
    Tuned("learning_rate", "as in the published code for labelled tables", "none"),
    Tuned("COLUMNS_TOGETHER", "as in the paper's settings for labelled tables", "none", _FAMILY),
    Tuned(
        "TURNS",
        "with fewer epochs each has less noise; every column is combined with other columns twice",
        "characters, scm_tree, wine_white, adult",
        _FAMILY,
    ),
    Tuned("MOST_EPOCHS", "the previous default", _UNKNOWN, _FAMILY),
    Tuned("STEPS", "as many as thirty epochs of fifty steps, the previous default", _UNKNOWN, _FAMILY),
    Tuned("LATENT", "directions in which rows of one class differ", _UNKNOWN, _NETWORK),
    Tuned("HIDDEN", "width of two layers", _UNKNOWN, _NETWORK),
    Tuned("SOFTMAX_LEVELS", "probabilities for longer grids follow the noise", "Adult", _NETWORK),
)
"""The numbers that were chosen."""

CARD = Card(
    name="dp-hp",
    title="DP-HP (Hermite features)",
    summary=(
        "Trains a neural network on noisy averages of Hermite features of each column and of small groups of columns."
    ),
    best_for="Numbers and short category lists that depend on several other columns at once.",
    loses_where=(
        "Long category lists, whose order it treats as a scale, and spikes in numbers; on discretised Adult at epsilon "
        "0.3 sets of three columns are hardly more accurate than independent columns, and on Adult classifiers did "
        "slightly worse than with independent-by-class."
    ),
    keeps_people=(
        "Kept: how many rows somebody has. Numbers of one person come out more alike than they are; categories change "
        "from row to row nearly by chance."
    ),
    reference="Vinaroz, Charusaie, Harder, Adamczewski and Park 2022, ICML.",
    made_by="synth.generators.hermite.dp_hp:DpHp",
    options=DpHpOptions,
    short_training={"steps_per_epoch": 2},
    on_card="whole",
    card_work="the training",
    constants=CONSTANTS,
)

CARDS = (CARD,)
