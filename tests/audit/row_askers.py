"""Who asks for rows: the two modes of KAHM, with either noise, and a hand-made question with unusual tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from worlds import LABEL, World

from synth.generators import GeneratorTask
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.kahm import RowsMode
from synth.privacy.answers import AnswerSource
from synth.privacy.more.lookups import Lookup
from synth.progress import NullProgress
from synth.schema import Schema

CELL = World("public", holdout=0.25, protection="cell")
PART_OF_A_RANGE = World("public", holdout=0.25, protection="cell", cell_change=0.2)
ROW = World("public", holdout=0.25)

ASKERS: dict[str, World] = {
    "cell": CELL,
    "cell, part of a range": PART_OF_A_RANGE,
    "cell without a label": CELL,
    "rows": ROW,
    "rows with Laplace noise": ROW,
    "rows by hand": ROW,
    "cells by hand": CELL,
}
"""Every asker, and the world in which it may ask."""


def asker(name: str, schema: Schema) -> Callable[[AnswerSource], Any]:
    if name.endswith("by hand"):
        return by_hand(name, schema)
    mode = "cell" if name.startswith("cell") else "rows"
    noise = "laplace" if "Laplace" in name else "gaussian"
    label = None if "without" in name else LABEL
    settings = KahmOptions(mode, n=3, block=15, noise=noise, label_share=0.3)
    task = GeneratorTask(schema, label, seed=0, device="cpu")
    return lambda session: RowsMode(task, settings).fit(session, NullProgress())


def by_hand(name: str, schema: Schema) -> Callable[[AnswerSource], Any]:
    """Ask for signed, clipped and binned tables, two at a time, in two questions."""
    sizes = dict(zip(schema.names, schema.sizes, strict=True))

    def ask(session: AnswerSource) -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        signed = Lookup("income", rng.normal(size=(sizes["income"], 3)))
        huge = rng.normal(size=(sizes["age"], 2))
        huge[:, -1] *= 1e6
        halves = Lookup("visited", np.array([[0.1], [0.9]]), np.arange(sizes["visited"]) * 2 // sizes["visited"])
        noise = "laplace" if name.startswith("cells") else "gaussian"
        asked = {"noise": noise, "source": "by hand"}
        first = session.perturb_rows((signed, Lookup("age", huge)), share=0.4, query="first", **asked)
        second = session.perturb_rows(
            (halves, Lookup("job", np.eye(41))), label=LABEL, share=session.remaining_share, query="second", **asked
        )
        return [first.numbers, second.numbers, second.labels]

    return ask


def declared(world: World, **changes: Any) -> World:
    return dataclasses.replace(world, **changes)
