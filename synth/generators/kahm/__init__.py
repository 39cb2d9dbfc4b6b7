"""kahm: rows from kernel affine hull machines, in four modes that promise different things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.errors import ConfigError
from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Mode, Tuned
from synth.schema import Schema

__all__ = ["CARD", "CARDS", "MODES", "PAPER_REFUSAL", "KahmOptions"]

PAPER_REFUSAL = (
    "KAHM exactly as published is not differentially private: its stopping rule and its clusters read the private "
    "rows, and an attack on the stopping rule succeeds (docs/kahm.md). It makes no release. Choose mode 'record'."
)

MODES = (
    Mode(
        name="record",
        title="Record level (central)",
        promise="Hides one person's whole row, label included, with (epsilon, delta) differential privacy.",
        beware="Our adaptation; not the paper's algorithm.",
    ),
    Mode(
        name="rows",
        title="Record level, row noise (for experts)",
        promise="Hides one person's whole row, label included, with (epsilon, delta) differential privacy.",
        beware="Every row gets noise of its own, far more than the other modes need: wider than the range of a column "
        "at every epsilon up to 8 as soon as there are three columns. Makes one row for every private one.",
        perturbs_rows=True,
    ),
    Mode(
        name="cell",
        title="Cell level (as in the paper, repaired)",
        promise="Protects ONE CELL of the table.",
        beware="Class labels, class sizes and the number of rows are not protected, and a whole row only by the much "
        "larger epsilon that is printed beside it. Needs an account of its own.",
        hides="cell",
        perturbs_rows=True,
    ),
    Mode(
        name="paper",
        title="Paper exact (research)",
        promise="Not differentially private: stopping rule and clusters read the raw data; we have a working attack.",
        beware="Makes no bundle. On data that are not private, from the source: benchmarks/published_fabrication.py.",
        refusal=PAPER_REFUSAL,
    ),
)
"""In the order the app shows them; the first is the default."""

_MANY_CATEGORIES = 3
"""From so many category columns on, a generator that counts them is the better choice."""


@dataclass(frozen=True, slots=True)
class KahmOptions(Options):
    """Options of the KAHM generator."""

    mode: Literal["record", "rows", "cell", "paper"] = "record"
    """What is hidden: record or rows (one person's whole row), cell (one cell), paper (nothing: refused)."""

    n: Annotated[int, Between(1, 1000)] = 20
    """Dimension of the subspace in which kernel affine hull machines compare rows."""

    steps: Annotated[int, Between(0, 50)] = 2
    """Machines built one after another to smooth rows; a public number. 0 (record only) leaves rows as they are."""

    block: Annotated[int, Between(10, 5000)] = 1000
    """Most rows that one machine is built from; blocks are random."""

    noise: Literal["gaussian", "laplace"] = "gaussian"
    """Noise of mode rows; one cell is always hidden by Laplace noise, and mode record adds none to rows."""

    label_share: Annotated[float, Between(0.01, 0.99)] = 0.25
    """Part of the budget that protects the label in mode rows."""

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if self.mode == "paper":
            raise ConfigError(PAPER_REFUSAL)
        if self.mode != "record" and self.steps < 1:
            raise ConfigError("option 'steps' must be at least 1 where noisy rows are fabricated, got 0.")


_RECORD = "synth.generators.kahm.record"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("n", "as in the paper's experiments", "none"),
    Tuned("steps", "what the paper's stopping rule took in most blocks, made public", "none"),
    Tuned("block", "rows of one matrix: the cost of a machine is cubic in them", "none"),
    Tuned("_MANY_NUMBERS", "beyond it a table is read as one signal", _UNKNOWN, _RECORD),
    Tuned("_MOST_DIRECTIONS", "directions whose products are asked for by class", _UNKNOWN, _RECORD),
    Tuned("_CLEAR_MEANS", "squared noise of class means, in squared lengths of a row", _UNKNOWN, _RECORD),
    Tuned("_CLEAR_COLUMNS", "noise of a count, as a part of the rows, in tables of few numbers", _UNKNOWN, _RECORD),
    Tuned("_ROOM", "about half of the rows are shortened a little by such a clip", _UNKNOWN, _RECORD),
)
"""The numbers that were chosen for mode record."""


def _advice(schema: Schema) -> str:
    """Say that rare categories are lost, where there are several columns of categories."""
    categories = sum(column.is_categorical for column in schema.modelled)
    if categories < _MANY_CATEGORIES:
        return ""
    return (
        f"This table has {categories} category columns. KAHM averages rows and loses rare categories; "
        "`dp-hp-adaptive` counts them."
    )


CARD = Card(
    name="kahm",
    title="KAHM (kernel affine hull machines)",
    summary=(
        "Noisy means and directions of whole rows, by class of the label if there is one; rows drawn from them, "
        "smoothed by kernel affine hulls."
    ),
    best_for=(
        "Many numbers that depend on each other (pixels, spectra, embeddings) with a class to predict; 500 rows and "
        "more a class. (epsilon, delta) differential privacy for one person's whole row, labels included. Our "
        "adaptation; not the paper's algorithm."
    ),
    loses_where=(
        "Tables of categories and counts: every class is one cloud, so which values go together within a class shows "
        "in correlations alone; choose dp-hp-adaptive from three categorical columns on. Small classes; many classes."
    ),
    reference="Kumar 2024 (machines and smoothing); the private moments are ours.",
    made_by="synth.generators.kahm.kahm:Kahm",
    options=KahmOptions,
    measures_one_ways=True,
    modes=MODES,
    short_training={"steps": 2},
    advice=_advice,
    constants=CONSTANTS,
    on_card="whole",
    card_work="the affine hull machines, which are products and factors of large matrices",
)

CARDS = (CARD,)
