"""The four modes of KAHM in words: what each one promises, to whom, and what it leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from synth.generators.protocol import Fact
from synth.models.fabrication import Fabrication

__all__ = [
    "MODES",
    "MOST_CLASSES",
    "PAPER_REFUSAL",
    "FabricatedBlock",
    "KahmMode",
    "Mode",
    "facts_of_blocks",
    "mode_of",
]

Mode = Literal["record", "rows", "cell", "paper"]

PAPER_REFUSAL = (
    "KAHM exactly as published is not differentially private: its stopping rule and its clusters read the private "
    "rows, and an attack on the stopping rule succeeds (docs/kahm.md). It makes no release. Choose mode 'record'."
)


@dataclass(frozen=True, slots=True)
class KahmMode:
    """One mode, as the app and the documentation describe it.

    ``promise`` says what is hidden, ``beware`` what is not or what it costs; ``releases`` is whether it can make a
    bundle.
    """

    name: Mode
    title: str
    promise: str
    beware: str
    releases: bool = True


MODES = (
    KahmMode(
        "record",
        "Record level (central)",
        "Hides one person's whole row, label included, with (epsilon, delta) differential privacy.",
        "Our adaptation; not the paper's algorithm.",
    ),
    KahmMode(
        "rows",
        "Record level, row noise (for experts)",
        "Hides one person's whole row, label included, with (epsilon, delta) differential privacy.",
        "Every row gets noise of its own, far more than the other modes need: wider than the range of a column at "
        "every epsilon up to 8 as soon as there are three columns. Makes one row for every private one.",
    ),
    KahmMode(
        "cell",
        "Cell level (as in the paper, repaired)",
        "Protects ONE CELL of the table.",
        "Class labels, class sizes and the number of rows are not protected, and a whole row only by the much larger "
        "epsilon that is printed beside. Needs an account of its own.",
    ),
    KahmMode(
        "paper",
        "Paper exact (research)",
        "Not differentially private: stopping rule and clusters read the raw data; we have a working attack.",
        "Makes no bundle. On data that are not private, from the source: benchmarks/published_fabrication.py.",
        releases=False,
    ),
)
"""In the order the app shows them; the first is the default."""


def mode_of(name: str) -> KahmMode:
    """Return one mode by name."""
    return next(mode for mode in MODES if mode.name == name)


# --------------------------------------------------------------------------------------------------------------------
# Blocks of rows that kernel affine hull machines smoothed, and what is told of them


MOST_CLASSES = 256
"""A label with more classes, such as a number that is let out code by code, is a column like the others."""

_MOST_LISTED = 200


@dataclass(frozen=True, slots=True)
class FabricatedBlock:
    """What is known of one block: computed from noisy rows or from drawn ones, so publishable.

    ``label`` is the code of its class, or None; ``regularisers`` are the lambda of every step; ``guarded`` counts rows
    whose weights nearly cancelled.
    """

    label: int | None
    rows: int
    regularisers: tuple[float, ...]
    n_effective: int
    guarded: int

    @classmethod
    def of(cls, made: Fabrication, label: int | None) -> FabricatedBlock:
        """Describe fabricated rows."""
        return cls(label, len(made.rows), made.regularisers, made.n_effective, made.guarded)


def facts_of_blocks(
    mode: str, blocks: Sequence[FabricatedBlock], *, n: int, steps: int, block: int
) -> tuple[Fact, ...]:
    """Say what a mode promises and what its machines did, block by block.

    Parameters
    ----------
    mode : str
        A name of ``modes.MODES``.
    blocks : sequence of FabricatedBlock
        Those of the rows that were made.
    n, steps, block : int
        The options.
    """
    chosen = mode_of(mode)
    promise = Fact("mode", "KAHM", chosen.title, f"{chosen.promise} {chosen.beware}")
    if not blocks:
        return (promise, Fact("machines", "Affine hull machines", 0, "Rows were left as they were drawn."))
    lambdas = [one.regularisers[-1] for one in blocks]
    rows = tuple(
        (place, one.rows, one.n_effective, one.regularisers[-1], one.guarded) for place, one in enumerate(blocks, 1)
    )
    return (
        promise,
        Fact(
            "machines",
            "Affine hull machines",
            steps * len(blocks),
            f"M = {steps} one after another, a public number, for each of {len(blocks)} random blocks of at most "
            f"{block:,} rows; n = {n}.",
        ),
        Fact(
            "guarded",
            "Rows whose weights nearly cancelled",
            sum(one.guarded for one in blocks),
            "Each was left as it was; more than a few say that n is too large.",
        ),
        Fact(
            "ridge",
            "Ridge lambda",
            median(lambdas),
            f"The median over blocks; from {min(lambdas):.3g} to {max(lambdas):.3g}. Small against 1: rows are kept; "
            "large: they are averaged.",
            ("block", "rows", "n used", "lambda", "weights that nearly cancelled"),
            rows[:_MOST_LISTED],
        ),
    )
