"""Fabricate blocks of rows by kernel affine hull machines, and report what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.kahm import MODES, KahmOptions
from synth.generators.protocol import Fact
from synth.models.fabrication import Fabrication, fabrications
from synth.system.costs import Work

__all__ = ["MOST_CLASSES", "FabricatedBlock", "fabricated_blocks", "facts_of_blocks", "work_of_blocks"]

MOST_CLASSES = 256
"""A label with more classes, such as a number, is treated like any other column."""

_MOST_LISTED = 200


@dataclass(frozen=True, slots=True)
class FabricatedBlock:
    """The report of one block: computed from noisy or drawn rows, so publishable.

    ``label`` is the code of its class, or None; ``regularisers`` are the lambda of every step; ``guarded`` counts rows
    whose weights nearly cancelled.
    """

    label: int | None
    rows: int
    regularisers: tuple[float, ...]
    n_effective: int
    guarded: int


def fabricated_blocks(
    matrix: NDArray[Any],
    blocks: Sequence[tuple[int | None, NDArray[np.int64]]],
    options: KahmOptions,
    *,
    device: str,
    unit: float = 1.0,
    checked: Callable[[], None] = lambda: None,
) -> Iterator[tuple[NDArray[np.float64], FabricatedBlock]]:
    """Yield the fabricated rows of every block, and its report.

    Parameters
    ----------
    matrix : array of shape (rows, width)
        Noisy or drawn rows, in units of ``unit``.
    blocks : sequence of (code of a class or None, row numbers)
    options : KahmOptions
    device : str
        "cpu", where rows are taken as they are needed, or "cuda", where all rows are uploaded and downloaded once.
    unit : float
    checked : callable
        Called block by block; may raise to stop.
    """
    if not blocks:
        return
    taken = _rows_of(matrix, [rows for _, rows in blocks], device, unit)
    made = fabrications(taken, n=options.n, steps=options.steps)
    for (label, _), one in zip(blocks, made if device == "cpu" else _brought_back(made, checked), strict=True):
        checked()
        yield one.rows.numpy(), FabricatedBlock(label, len(one.rows), one.regularisers, one.n_effective, one.guarded)


def _rows_of(matrix: NDArray[Any], blocks: list[NDArray[np.int64]], device: str, unit: float) -> Iterator[Tensor]:
    if device == "cpu":
        for rows in blocks:
            yield torch.from_numpy(matrix[rows].astype(np.float64) * unit)
        return
    there = torch.tensor(matrix, device=device).double() * unit
    for places in torch.split(torch.from_numpy(np.concatenate(blocks)).to(device), [len(rows) for rows in blocks]):
        yield there[places]


def _brought_back(made: Iterator[Fabrication], checked: Callable[[], None]) -> Iterator[Fabrication]:
    """Yield what was made on a card with its rows on the processor: they are downloaded together at the end."""
    there = []
    for one in made:
        checked()
        there.append(one)
    here = torch.cat([one.rows for one in there]).cpu()
    for one, rows in zip(there, torch.split(here, [len(one.rows) for one in there]), strict=True):
        yield replace(one, rows=rows)


def work_of_blocks(rows: int, numbers: int, options: KahmOptions) -> Work:
    """Return what fabricating rows computes, a step for each block, in numbers.

    A machine factors and solves with a kernel matrix and finds leading directions. A card gets the operations of a
    batch of 16 blocks at a time, some 230 for each machine.

    Parameters
    ----------
    rows : int
    numbers : int
        Coordinates of a row.
    options : KahmOptions
    """
    side = min(options.block, max(rows, 1))
    narrow = min(side, numbers)
    return Work(
        steps=-(-rows // side) if options.steps and numbers else 0,
        operations=230.0 * options.steps / 16,
        double=options.steps * (2.5 * side**3 + 4.0 * narrow**3 + 6.0 * side**2 * numbers),
        bytes=options.steps * 8.0 * (34 * side**2 + 55 * side * numbers),
    )


def facts_of_blocks(options: KahmOptions, blocks: Sequence[FabricatedBlock]) -> tuple[Fact, ...]:
    """Report what a mode promises and what its machines did, block by block.

    Parameters
    ----------
    options : KahmOptions
    blocks : sequence of FabricatedBlock
        The blocks of the rows that were made.
    """
    chosen = next(mode for mode in MODES if mode.name == options.mode)
    promise = Fact("mode", "KAHM", chosen.title, f"{chosen.promise} {chosen.beware}")
    if not blocks:
        return (promise, Fact("machines", "Affine hull machines", 0, "Rows were not smoothed."))
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
            f"M = {options.steps} one after another (a public number) for each of {len(blocks)} random blocks of at "
            f"most {options.block:,} rows; n = {options.n}.",
        ),
        Fact(
            "guarded",
            "Rows whose weights nearly cancelled",
            sum(one.guarded for one in blocks),
            "Each was left unchanged. More than a few mean that n is too large.",
        ),
        Fact(
            "ridge",
            "Ridge lambda",
            median(lambdas),
            f"The median over blocks; from {min(lambdas):.3g} to {max(lambdas):.3g}. Well below 1, rows hardly "
            "change; well above 1, they are averaged.",
            ("block", "rows", "n used", "lambda", "weights that nearly cancelled"),
            rows[:_MOST_LISTED],
        ),
    )
