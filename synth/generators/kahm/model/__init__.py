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
    """Made rows that machines are built from, all classes together; they are part of what is released."""


CARD = Card(
    name="kahm-classifier",
    title="KAHM classifier",
    summary="Kernel affine hull machines, one for each class, of rows made as the generator kahm makes them.",
    best_for=(
        "Many numbers that depend on each other (pixels, spectra, embeddings) with a class to predict; classifiers of "
        "several parties that hand on their machines."
    ),
    loses_where="Tables of categories; small classes; where chances are wanted: its scores order classes and no more.",
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
