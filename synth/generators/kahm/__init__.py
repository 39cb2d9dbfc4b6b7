"""kahm: rows from kernel affine hull machines, in four modes with different guarantees."""

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
    "rows, and an attack on the stopping rule succeeds (docs/kahm.md). It cannot be released. Choose mode 'record'."
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
        beware="Noise is added to every row, far more than the other modes need: with three columns or more it is "
        "wider than the range of a column at every epsilon up to 8. Makes one synthetic row for every private row.",
        perturbs_rows=True,
    ),
    Mode(
        name="cell",
        title="Cell level (as in the paper, repaired)",
        promise="Protects ONE CELL of the table.",
        beware="Class labels, class sizes and the number of rows are not protected, and a whole row is protected "
        "only by the much larger epsilon that is printed beside it. Needs an account of its own.",
        hides="cell",
        perturbs_rows=True,
    ),
    Mode(
        name="paper",
        title="Paper exact (research)",
        promise="Not differentially private: its stopping rule and clusters read the raw data; we have a working "
        "attack.",
        beware="Makes no bundle. For data that are not private, see benchmarks/published_fabrication.py in the source.",
        refusal=PAPER_REFUSAL,
    ),
)
"""In the order the app shows them; the first is the default."""

_MANY_CATEGORIES = 3
"""With at least this many category columns a generator that counts them is the better choice."""


@dataclass(frozen=True, slots=True)
class KahmOptions(Options):
    """Options of the KAHM generator."""

    mode: Literal["record", "rows", "cell", "paper"] = "record"
    """What is protected: record or rows (one person's whole row), cell (one cell), paper (nothing: refused)."""

    n: Annotated[int, Between(1, 1000)] = 20
    """Dimension of the subspace in which kernel affine hull machines compare rows."""

    steps: Annotated[int, Between(0, 50)] = 2
    """Machines built one after another to smooth rows; a public number. 0 (mode record only) leaves rows unchanged."""

    block: Annotated[int, Between(10, 5000)] = 1000
    """Maximum number of rows that one machine is built from; blocks are random."""

    noise: Literal["gaussian", "laplace"] = "gaussian"
    """Noise in mode rows. Mode cell always uses Laplace noise, and mode record adds none to rows."""

    label_share: Annotated[float, Between(0.01, 0.99)] = 0.25
    """Share of the budget that protects the label in mode rows."""

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if self.mode == "paper":
            raise ConfigError(PAPER_REFUSAL)
        if self.mode != "record" and self.steps < 1:
            raise ConfigError("option 'steps' must be at least 1 in modes 'rows' and 'cell', got 0.")


_RECORD = "synth.generators.kahm.record"
_UNKNOWN = "not recorded"

CONSTANTS = (
    Tuned("n", "as in the paper's experiments", "none"),
    Tuned("steps", "what the paper's stopping rule chose in most blocks, made public", "none"),
    Tuned("block", "rows of one matrix: the cost of a machine grows with their cube", "none"),
    Tuned("_MANY_NUMBERS", "with more numbers a table is treated as one signal", _UNKNOWN, _RECORD),
    Tuned("_MOST_DIRECTIONS", "directions whose products are measured by class", _UNKNOWN, _RECORD),
    Tuned("_CLEAR_MEANS", "squared noise of class means, in squared lengths of a row", _UNKNOWN, _RECORD),
    Tuned(
        "_CLEAR_COLUMNS", "noise of a count, as a fraction of the rows, in tables with few numbers", _UNKNOWN, _RECORD
    ),
    Tuned("_ROOM", "this clip shortens about half of the rows a little", _UNKNOWN, _RECORD),
)
"""The numbers that were chosen for mode record."""


def _advice(schema: Schema) -> str:
    """Warn that rare categories are lost, if there are several category columns."""
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
        "Many numbers that depend on each other (pixels, spectra, embeddings) with a class to predict, and at least "
        "500 rows in each class. (epsilon, delta) differential privacy for one person's whole row, label included. "
        "Our adaptation; not the paper's algorithm."
    ),
    loses_where=(
        "Tables of categories and counts: every class is one cloud, so within a class only correlations are kept; "
        "choose dp-hp-adaptive if there are three or more category columns. Small classes; many classes."
    ),
    keeps_people=(
        "Kept: how many rows somebody has, and how alike numbers of one person are. Categories stay the same from row "
        "to row less often than in the table."
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
    card_work="the affine hull machines",
)

CARDS = (CARD,)
