"""What kernel affine hull machines did to blocks of rows, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from synth.generators.kahm import MODES, KahmOptions
from synth.generators.protocol import Fact
from synth.models.fabrication import Fabrication

__all__ = ["MOST_CLASSES", "FabricatedBlock", "facts_of_blocks"]

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


def facts_of_blocks(options: KahmOptions, blocks: Sequence[FabricatedBlock]) -> tuple[Fact, ...]:
    """Say what a mode promises and what its machines did, block by block.

    Parameters
    ----------
    options : KahmOptions
    blocks : sequence of FabricatedBlock
        Those of the rows that were made.
    """
    chosen = next(mode for mode in MODES if mode.name == options.mode)
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
            options.steps * len(blocks),
            f"M = {options.steps} in sequence (a public number) for each of {len(blocks)} random blocks of at most "
            f"{options.block:,} rows; n = {options.n}.",
        ),
        Fact(
            "guarded",
            "Rows whose weights nearly cancelled",
            sum(one.guarded for one in blocks),
            "Each was left as it was. More than a few mean that n is too large.",
        ),
        Fact(
            "ridge",
            "Ridge lambda",
            median(lambdas),
            f"The median over blocks; from {min(lambdas):.3g} to {max(lambdas):.3g}. Well below 1, rows stay almost as "
            "they are; well above 1, they are averaged.",
            ("block", "rows", "n used", "lambda", "weights that nearly cancelled"),
            rows[:_MOST_LISTED],
        ),
    )
