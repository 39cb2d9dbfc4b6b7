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
    """Highest Hermite order of the sum kernel, which sees each column by itself."""

    order_product: Annotated[int, Between(0, 100)] = 5
    """Highest Hermite order of the product kernel, which sees a few columns together."""

    prod_dimension: Annotated[int, Between(0, 10)] = 0
    """Columns that the product kernel takes together; its features grow as (order_product + 1) to this power. With 0
    five, as in the paper, or as many as make 131,072 features for all classes."""

    orders: Literal["one", "by column"] = "one"
    """Whether all columns have these orders, or a column of few places only as many as it has places."""

    gamma: Annotated[float, Between(0.0, 1e9)] = 1.0
    """Weight of the product kernel's distance beside the sum kernel's."""

    epochs: Annotated[int, Between(0, 10_000)] = 0
    """How often the columns of the product kernel are redrawn; each time is paid for. With 0 until every column had two
    turns, thirty times at most."""

    split: Annotated[float, Between(0.01, 0.99)] = 0.5
    """Part of the privacy budget (of mu squared) for the sum kernel; the epochs share the rest evenly."""

    length_scale: Annotated[float, Between(0.001, 100.0)] = 0.07
    """Width of the sum kernel on a column's declared range, which is scaled to run from -1 to 1."""

    length_scale_product: Annotated[float, Between(0.001, 100.0)] = 0.5
    """Width of the product kernel on the same range; its few orders see numbers within a few widths of the middle."""

    batch_size: Annotated[int, Between(16, 100_000)] = 512
    """Synthetic rows drawn in each training step."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.01
    """Step size of the optimiser at the start; it falls to zero."""

    steps_per_epoch: Annotated[int, Between(0, 100_000)] = 0
    """Training steps for each epoch, with 0 some 1,500 in all; they use released answers only, so more cost time and no
    privacy."""


_NETWORK, _FAMILY = "synth.generators.neural", "synth.generators.hermite.dp_hp"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("order", "the sum kernel sees the ends of a range at its width: x^2 / l^2 is 200", "none"),
    Tuned("length_scale", "the root of .005, as in the published code", "none"),
    Tuned("order_product", "as in the paper's settings for labelled tables", "none"),
    Tuned(
        "length_scale_product", "with the sum kernel's the few orders vanish away from the middle of a range", _UNKNOWN
    ),
    Tuned("gamma", "both embeddings have norm at most 1", "none"),
    Tuned("split", "half for each kernel, as in the published code", "none"),
    Tuned("batch_size", "rows of a step; the distance has no bias of so few", _UNKNOWN),
    Tuned("learning_rate", "as in the published code for labelled tables", "none"),
    Tuned("COLUMNS_TOGETHER", "as in the paper's settings for labelled tables", "none", _FAMILY),
    Tuned(
        "TURNS",
        "fewer epochs carry less noise each; no column is left with a single neighbourhood",
        "characters, scm_tree, wine_white, adult",
        _FAMILY,
    ),
    Tuned("MOST_EPOCHS", "the default before", _UNKNOWN, _FAMILY),
    Tuned("STEPS", "as many as thirty epochs of fifty steps, the default before", _UNKNOWN, _FAMILY),
    Tuned("LATENT", "directions in which rows of one class differ", _UNKNOWN, _NETWORK),
    Tuned("HIDDEN", "width of two layers", _UNKNOWN, _NETWORK),
    Tuned("SOFTMAX_LEVELS", "probabilities for longer grids follow the noise", "Adult", _NETWORK),
)
"""The numbers that were chosen."""

CARD = Card(
    name="dp-hp",
    title="DP-HP (Hermite features)",
    summary=(
        "Noisy averages of Hermite features, of each column and of small groups of columns, train a neural network."
    ),
    best_for="Numbers and short category lists of which several together matter.",
    loses_where=(
        "Long category lists, whose order it treats as a scale, and spikes in numbers; on discretised Adult at epsilon "
        "0.3 sets of three columns are hardly closer than unrelated columns, and on Adult classifiers did slightly "
        "worse than with independent-by-class."
    ),
    reference="Vinaroz, Charusaie, Harder, Adamczewski and Park 2022, ICML.",
    made_by="synth.generators.hermite.dp_hp:DpHp",
    options=DpHpOptions,
    short_training={"steps_per_epoch": 2},
    on_card="whole",
    card_work="training and sampling, which are few large matrix products a step",
    constants=CONSTANTS,
)

CARDS = (CARD,)
