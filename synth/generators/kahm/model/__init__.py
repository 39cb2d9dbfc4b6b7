"""Classes by kernel affine hull machines of rows that were made private first (Kumar 2024, Definitions 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from synth.generators.kahm import CARD as GENERATOR
from synth.generators.kahm import MODES, KahmOptions
from synth.generators.options import Between
from synth.generators.protocol import Card, Needs

__all__ = ["CARD", "CARDS", "MOST_ROWS", "KahmClassifierOptions"]

MOST_ROWS = 4000
"""A machine is built from one matrix of a class's rows."""


@dataclass(frozen=True, slots=True)
class KahmClassifierOptions(KahmOptions):
    """Options of the classifier: those of the generator whose rows it is built from, and how many of them."""

    rows: Annotated[int, Between(50, MOST_ROWS)] = 1000
    """Synthetic rows that the machines are built from, over all classes; they are part of the release."""


CARD = Card(
    name="kahm-classifier",
    asks_as="generator kahm",
    title="KAHM classifier",
    summary="One kernel affine hull machine for each class, built from synthetic rows of the generator kahm.",
    best_for=(
        "Many numbers that depend on each other (pixels, spectra, embeddings) with a class to predict; several parties "
        "that exchange their machines."
    ),
    loses_where="Tables of categories; small classes; wherever probabilities are needed: its scores only rank the "
    "classes.",
    reference="Kumar 2024 (machines and classes); the private moments are ours.",
    made_by="synth.generators.kahm.model.classifier:PrivateKahmClassifier",
    options=KahmClassifierOptions,
    needs=Needs(label=True, columns=2),
    modes=MODES,
    short_training={"steps": 2},
    kind="model",
    predicts=True,
    on_card=GENERATOR.on_card,
    card_work=GENERATOR.card_work,
)

CARDS = (CARD,)
