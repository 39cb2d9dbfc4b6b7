"""dp-hp: noisy mean embeddings of Hermite features train a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.options import Between, Options
from synth.generators.protocol import Card

__all__ = ["CARD", "CARDS", "DpHpOptions"]


@dataclass(frozen=True, slots=True)
class DpHpOptions(Options):
    """Options of dp-hp, named as in the paper where it has them."""

    order: Annotated[int, Between(0, 500)] = 200
    """Highest Hermite order of the sum kernel, which sees each column by itself."""

    order_product: Annotated[int, Between(0, 100)] = 5
    """Highest Hermite order of the product kernel, which sees a few columns together."""

    prod_dimension: Annotated[int, Between(1, 10)] = 2
    """Columns that the product kernel takes together; its features grow as (order_product + 1) to this power."""

    gamma: Annotated[float, Between(0.0, 1e9)] = 1.0
    """Weight of the product kernel's distance beside the sum kernel's."""

    epochs: Annotated[int, Between(1, 10_000)] = 30
    """How often the columns of the product kernel are redrawn; each time is paid for."""

    split: Annotated[float, Between(0.01, 0.99)] = 0.5
    """Part of the privacy budget (of mu squared) for the sum kernel; the epochs share the rest evenly."""

    length_scale: Annotated[float, Between(0.01, 100.0)] = 0.07
    """Width of the sum kernel on a column's declared range, which is scaled to run from -1 to 1."""

    length_scale_product: Annotated[float, Between(0.01, 100.0)] = 0.5
    """Width of the product kernel on the same range; its few orders see numbers within a few widths of the middle."""

    batch_size: Annotated[int, Between(16, 100_000)] = 512
    """Synthetic rows drawn in each training step."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.01
    """Step size of the optimiser at the start; it falls to zero."""

    steps_per_epoch: Annotated[int, Between(1, 100_000)] = 50
    """Training steps for each epoch; they use released answers only, so more cost time and no privacy."""


CARD = Card(
    name="dp-hp",
    title="DP-HP (Hermite features)",
    summary=(
        "Noisy averages of Hermite features, of each column and of small groups of columns, train a neural network."
    ),
    best_for="Tables of numbers and short category lists, where pairs of columns matter.",
    loses_where=(
        "Long category lists, whose order it treats as a scale, and spikes in numbers; on Adult both controls are "
        "closer on marginals of one to four columns, and classifiers did slightly worse than with independent-by-class."
    ),
    reference="Vinaroz, Charusaie, Harder, Adamczewski and Park 2022, ICML.",
    made_by="synth.generators.hermite.dp_hp:DpHp",
    options=DpHpOptions,
    short_training={"steps_per_epoch": 2},
)

CARDS = (CARD,)
