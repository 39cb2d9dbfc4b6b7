"""Noisy rows: every row's numbers made noisy by themselves, and let out in an order that says nothing.

Nothing is added up here, so the noise of a row has to hide that row alone, and a row's numbers are looked up by its own
codes in whole-number tables: other rows touch none of their bits. It is the one answer that has as many numbers as the
private table; what may be asked so, and at what cost, is worked out in ``row_plans``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.privacy.counting import Rows
from synth.privacy.features import Lookup
from synth.privacy.more.row_bounds import whole_table
from synth.privacy.more.row_plans import RowsPlan, RowsQuestion
from synth.privacy.noise import NoiseSource
from synth.privacy.receipt import Receipt

__all__ = ["LABELS_QUERY", "NoisyRows", "PerturbedRows", "draw_rows"]

LABELS_QUERY = "{query}: labels"
"""Name of the question that a label is, beside the rows it belongs to."""

PIECE = 2**22
"""Numbers that are drawn or moved at a time, so that little memory is needed beside the answer itself."""

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRows:
    """Numbers of shape (n_rows, width), in grid steps, and the labels of shape (n_rows,), where there is one."""

    numbers: Whole
    labels: Whole | None


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedRows:
    """Noisy rows and their receipts; safe to keep, print and publish.

    Parameters
    ----------
    receipts : tuple of Receipt
        That of the rows, and that of the labels where they were randomised.
    question : RowsQuestion
        What was asked; public. A label without a receipt of its own is public by definition.
    numbers : int64 array of shape (n_rows, width)
        Noisy numbers, in grid steps, in an order drawn by the privacy noise; read-only.
    labels : int64 array of shape (n_rows,), optional
        Code of each row's class; read-only.
    """

    receipts: tuple[Receipt, ...]
    question: RowsQuestion
    numbers: Whole
    labels: Whole | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "receipts", tuple(self.receipts))
        for name in ("numbers", "labels"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _kept(given))

    @property
    def receipt(self) -> Receipt:
        """The receipt of the rows."""
        return self.receipts[0]

    @property
    def vectors(self) -> NDArray[np.float64]:
        """The noisy numbers in units of the tables, shape (n_rows, width)."""
        return self.vectors_of(slice(None))

    def vectors_of(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the noisy numbers of some rows in units of the tables, shape (rows, width): all need much memory."""
        return self.numbers[rows].astype(np.float64) * self.receipt.grid


def draw_rows(question: RowsQuestion, plan: RowsPlan, rows: Rows, noise: NoiseSource, *, classes: int) -> NoisyRows:
    """Look up every row's numbers, add noise to each, randomise its label, and put the rows in a drawn order.

    Parameters
    ----------
    question : RowsQuestion
    plan : RowsPlan
        The noise.
    rows : Rows
        The private rows.
    noise : NoiseSource
        Draws the noise, the labels and the order.
    classes : int
        Number of codes of the label.
    """
    numbers = np.empty((rows.n_rows, plan.width), dtype=np.int64)
    start = 0
    for place, (table, width) in enumerate(zip(question.tables, plan.widths, strict=True)):
        own = numbers[:, start : start + width]
        own[:] = _numbers(table, rows, plan.bits)
        if plan.gaussian is None:
            own += noise.laplace(plan.cells[place].scale, own.size).reshape(own.shape)
        start += width
    if plan.gaussian is not None:
        piece = max(1, PIECE // plan.width)
        for first in range(0, rows.n_rows, piece):
            some = numbers[first : first + piece]
            some += noise.gaussian(plan.gaussian.variance, some.size).reshape(some.shape)
    labels = None if question.label is None else np.asarray(rows.column(question.label)).astype(np.int64)
    if labels is not None and plan.label_epsilon is not None:
        odds = plan.label_epsilon
        labels = noise.respond(labels, classes=classes, numerator=odds.numerator, denominator=odds.denominator)
    order = noise.order(rows.n_rows)
    _put_in_order(numbers, order)
    numbers.setflags(write=False)
    return NoisyRows(numbers, None if labels is None else labels[order])


def _put_in_order(numbers: Whole, order: Whole) -> None:
    """Put rows in an order, a few columns at a time, as a copy of all of them may not fit beside them."""
    step = max(1, PIECE // max(1, len(order)))
    for first in range(0, numbers.shape[1], step):
        some = numbers[:, first : first + step]
        some[:] = some[order]


def _kept(given: NDArray[np.int64]) -> Whole:
    """Return whole numbers that nobody can write to; without a copy where the caller has given them up already."""
    if given.dtype == np.int64 and given.base is None and not given.flags.writeable:
        return given
    own = np.array(given, dtype=np.int64)
    own.setflags(write=False)
    return own


def _numbers(table: Lookup, rows: Rows, bits: int) -> Whole:
    codes = rows.column(table.column)
    whole = whole_table(table, bits)
    return np.asarray(whole[codes if table.bins is None else table.bins[codes]])
