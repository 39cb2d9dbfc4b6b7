"""The four modes of KAHM in words: what each one promises, to whom, and what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["MODES", "PAPER_REFUSAL", "KahmMode", "Mode", "mode_of"]

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
        "Makes no bundle. From Python, on data that are not private: synth.kernels.published_fabrication.",
        releases=False,
    ),
)
"""In the order the app shows them; the first is the default."""


def mode_of(name: str) -> KahmMode:
    """Return one mode by name."""
    return next(mode for mode in MODES if mode.name == name)
