"""dp-merf: one noisy mean embedding of random Fourier features trains a network."""

from __future__ import annotations

from dataclasses import dataclass

from synth.generators.options import check_between
from synth.generators.protocol import Card

__all__ = ["CARD", "CARDS", "DpMerfOptions"]


@dataclass(frozen=True, slots=True)
class DpMerfOptions:
    """Options of dp-merf."""

    features: int = 1000
    """Random Fourier features of the numbers, cosines and sines together; half see one number, half all of them."""

    length_scale: float = 0.1
    """Width of the kernel as a part of each number's declared range; n numbers together take sqrt(n) times it."""

    steps: int = 1500
    """Training steps; they use the released answer only, so more cost time and no privacy."""

    batch_size: int = 512
    """Synthetic rows drawn in each training step."""

    learning_rate: float = 0.005
    """Step size of the optimiser at the start; it falls to zero."""

    def __post_init__(self) -> None:
        check_between("features", self.features, 2, 100_000)
        check_between("length_scale", self.length_scale, 0.02, 10.0)
        check_between("steps", self.steps, 1, 1_000_000)
        check_between("batch_size", self.batch_size, 16, 100_000)
        check_between("learning_rate", self.learning_rate, 1e-6, 1.0)


CARD = Card(
    name="dp-merf",
    title="DP-MERF (random Fourier features)",
    summary=(
        "One noisy average of random Fourier features and category counts, by class of the label if there "
        "is one, trains a neural network."
    ),
    best_for="Numbers and categories with a label to predict.",
    loses_where=(
        "Tables of counts: it measures no pairs of categories and blurs spikes, and on Adult both controls are closer "
        "on marginals of one to four columns; classifiers did no better there than with independent-by-class."
    ),
    reference="Harder, Adamczewski and Park 2021, AISTATS.",
    made_by="synth.generators.fourier.dp_merf:DpMerf",
    options=DpMerfOptions,
    short_training={"steps": 2},
)

CARDS = (CARD,)
