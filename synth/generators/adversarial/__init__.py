"""dp-gan and dp-cgan: a generator and a critic of rows, the critic trained by DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs, Tuned

__all__ = ["CARDS", "DPCGAN", "DPGAN", "AdversarialOptions", "DpCganOptions", "DpGanOptions"]


@dataclass(frozen=True, slots=True)
class AdversarialOptions(Options):
    """Options that both have."""

    steps: Annotated[int, Between(1, 20_000)] = 500
    """Number of training steps on private rows. More steps need more noise in each."""

    batch_size: Annotated[int, Between(0, 1_000_000)] = 0
    """Expected number of private rows in a step; 0 is 512, or a quarter of the rows if that is less. Each is drawn at
    random by itself, so the true number is private."""

    clip: Annotated[float, Between(2.0**-20, 2.0**20)] = 1.0
    """Length to which the gradient of one person's rows is shortened."""

    hidden: Annotated[int, Between(0, 128)] = 0
    """Width of the critic's two hidden layers; 0 is 32, or fewer where a table is so wide that there would be over 4
    million noisy numbers. Every weight of the critic is noisy, so a wide one learns less."""

    critic_rate: Annotated[float, Between(1e-6, 1.0)] = 0.01
    """Initial step size of the critic; it falls to zero."""

    learning_rate: Annotated[float, Between(1e-6, 1.0)] = 0.0005
    """Initial step size of the network that draws rows; it falls to zero."""

    generated: Annotated[int, Between(16, 100_000)] = 256
    """Synthetic rows drawn in each step."""


@dataclass(frozen=True, slots=True)
class DpGanOptions(AdversarialOptions):
    """Options of dp-gan."""

    weight_limit: Annotated[float, Between(0.001, 8.0)] = 0.1
    """Largest weight of the critic; larger ones are cut off after each step."""


@dataclass(frozen=True, slots=True)
class DpCganOptions(AdversarialOptions):
    """Options of dp-cgan."""

    label_share: Annotated[float, Between(0.001, 0.9)] = 0.05
    """Share of the budget for counting the classes of the label."""


_FAMILY = "synth.generators.adversarial.dp_gan"
_CONSTANTS = (
    Tuned("steps", "the answers of 500 steps are some megabytes; more need more noise in each", "none"),
    Tuned("_BATCH", "the noise of the mean hardly depends on it; rows that take some milliseconds", "none", _FAMILY),
    Tuned("_PART", "a sample that is smaller than the table", "none", _FAMILY),
    Tuned("clip", "1, as is usual; gradients of a new critic are 4 to 11 long", "none"),
    Tuned("_HIDDEN", "few weights, as each of them is noisy", "none", _FAMILY),
    Tuned("_NUMBERS", "a bundle of some 30 MB, which is checked within the usual memory", "diabetes130", _FAMILY),
    Tuned("critic_rate", "twenty times that of the network: slower critics were worse", "Adult, insurance"),
    Tuned("learning_rate", "with .001 and more, the networks swing", "Adult, insurance"),
    Tuned("generated", "rows of a step", "none"),
)

DPGAN = Card(
    name="dp-gan",
    title="Generative adversarial network (DP-GAN)",
    summary=(
        "Trains a network that draws rows against a critic that scores rows; the critic learns from noisy gradients of "
        "private rows (DP-SGD)."
    ),
    best_for="Comparison with the literature.",
    loses_where=(
        "All sets of one to three columns, against independent, on every table and at every budget we tried. Use "
        "dp-hp-adaptive."
    ),
    keeps_people=(
        "Kept: little but what is always kept. Numbers of one person are about half as alike as they are, and how many "
        "rows somebody has is far off."
    ),
    reference="Xie et al. 2018 (DP-GAN).",
    made_by=f"{_FAMILY}:DpGan",
    options=DpGanOptions,
    needs=Needs(sampling=True),
    short_training={"steps": 2},
    on_card="whole",
    card_work="the training",
    questions={"gradients of the critic": "How can rows be told from synthetic ones?"},
    constants=(
        *_CONSTANTS,
        Tuned(
            "weight_limit",
            "ten times the printed one; .03, .3 and .5 were neither better nor worse",
            "Adult, insurance",
        ),
    ),
)

DPCGAN = Card(
    name="dp-cgan",
    title="Conditional generative adversarial network (DP-CGAN)",
    summary=(
        "As dp-gan, with the label given to both networks and its classes counted with noise; the critic tells private "
        "rows from synthetic ones of the same class."
    ),
    best_for="Comparison with the literature.",
    loses_where=(
        "All sets of one to three columns, against independent, on every table and at every budget we tried. "
        "independent-by-class trains better classifiers. Use dp-hp-adaptive."
    ),
    keeps_people=(
        "Kept: little but what is always kept. Numbers of one person come out far more alike than they are, and how "
        "many rows somebody has is far off."
    ),
    reference="Torkzadehmahani, Kairouz and Paten 2019 (DP-CGAN).",
    made_by=f"{_FAMILY}:DpCgan",
    options=DpCganOptions,
    needs=Needs(label=True, sampling=True),
    short_training={"steps": 2},
    on_card="whole",
    card_work="the training",
    questions={
        "classes": "How many rows has each class?",
        "gradients of the critic": "How can rows be told from synthetic ones of their class?",
    },
    constants=(*_CONSTANTS, Tuned("label_share", "classes of some rows are known well enough", "none")),
)

CARDS = (DPGAN, DPCGAN)
