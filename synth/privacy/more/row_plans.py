r"""How much noise hides one cell, or one whole row, when every row is made noisy by itself and let out.

All of it follows from public data (tables, schema, share), before a row is read. Under the relation "one cell" the cost
is the pure epsilon of the dearest column, because a changed cell moves the numbers of one column only. For a whole row
it is mu = (L2 change of the row's numbers) / (standard deviation) with Gaussian noise, or k times the mu^2 of one cell
with Laplace noise, and the mu of a randomised response for the label (``docs/proofs/noisy-rows.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from synth.errors import PrivacyError
from synth.privacy.calibration import GaussianPlan, gaussian_on_grid
from synth.privacy.costs import MU_UNIT, mu_of_pure, pure_of_mu, pure_units_of_cells, units_of, units_of_cells
from synth.privacy.descriptions import same_map
from synth.privacy.features import Lookup
from synth.privacy.more.row_bounds import CellBound, cell_bound
from synth.privacy.receipt import CellNoise
from synth.privacy.samplers import MAXIMUM_SCALE
from synth.privacy.validation import check_fits
from synth.schema import Neighbours, Schema

__all__ = [
    "LABEL_SHARE",
    "MAXIMUM_NUMBERS",
    "ROW_NOISES",
    "RowNoise",
    "RowsPlan",
    "RowsQuestion",
    "bounds_of",
    "check_rows_question",
    "plan_rows",
    "require_few_numbers",
]

RowNoise = Literal["gaussian", "laplace"]
ROW_NOISES: tuple[RowNoise, ...] = ("gaussian", "laplace")

LABEL_SHARE = 0.25
"""Part of a question's mu^2 that protects the label, where a whole row is protected and it has one."""

MAXIMUM_NUMBERS = 2**27
"""Most numbers in all noisy rows together: 1 GiB of them, and half as much in the file of answers."""

GRIDS = (10, 12, 14, 16, 18, 20)
"""Bits of the grid of a row's numbers, the coarsest that is fine enough first: answers are kept number by number."""

SMALLEST_SCALE = 2**12
"""Laplace noise is at least so many grid steps wide, so that its grid is not felt."""

SAFETY = 1 + 1e-12
ROUNDED_DOWN = 1 - 2.0**-40


@dataclass(frozen=True, slots=True, eq=False)
class RowsQuestion:
    """What is asked of every row: public data.

    Parameters
    ----------
    tables : tuple of Lookup
        The columns of a row, side by side.
    label : str, optional
        A column that is let out as a class: randomised where a whole row is hidden, as it is where one cell is.
    label_share : float
        Part of the question's cost for the label, where it is randomised.
    noise : {"gaussian", "laplace"}
    """

    tables: tuple[Lookup, ...]
    label: str | None = None
    label_share: float = LABEL_SHARE
    noise: RowNoise = "gaussian"

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each column."""
        return tuple(table.dimension for table in self.tables)

    def same_as(self, other: RowsQuestion) -> bool:
        """Whether two questions are the same data; how the cost is divided is no part of it."""
        return (self.label, self.noise, len(self.tables)) == (other.label, other.noise, len(other.tables)) and all(
            map(same_map, self.tables, other.tables)
        )


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """Noise of one question for rows: all of it public.

    Attributes
    ----------
    bits : int
        The grid of the numbers has step 2^-bits.
    widths : tuple of int
        Numbers of each column.
    largest : tuple of int
        Largest change of one number of each column when its row changes, in grid steps.
    cells : tuple of CellNoise
        Laplace noise of each column; empty where noise is Gaussian.
    gaussian : GaussianPlan, optional
        Gaussian noise, the same on every number.
    label_epsilon : Fraction, optional
        Epsilon of the randomised response; None where there is no label or it is public.
    pure : bool
        Whether the cost is counted in pure epsilon: one cell is hidden.
    """

    bits: int
    widths: tuple[int, ...]
    largest: tuple[int, ...]
    cells: tuple[CellNoise, ...]
    gaussian: GaussianPlan | None
    label_epsilon: Fraction | None
    pure: bool

    @property
    def grid(self) -> float:
        """Grid step of the numbers."""
        return 2.0**-self.bits

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return sum(self.widths)

    @property
    def noise_stds(self) -> tuple[float, ...]:
        """Standard deviation of the noise on each column's numbers, in units of how far one of them can move."""
        if self.gaussian is not None:
            stds = [self.gaussian.noise_std / self.grid] * len(self.widths)
        else:
            stds = [math.sqrt(2.0) * cell.scale for cell in self.cells]
        return tuple(std / max(most, 1) for std, most in zip(stds, self.largest, strict=True))

    @property
    def rows_receipt(self) -> dict[str, Any]:
        """Fields of the receipt of the rows."""
        if self.gaussian is not None:
            return {
                "mechanism": "gaussian_rows",
                "sensitivity": self.gaussian.sensitivity,
                "noise_scale": self.gaussian.noise_std,
                "dimension": self.width,
                "grid": self.grid,
                "mu_squared_units": self.gaussian.units,
                "slack": self.gaussian.slack,
            }
        dearest = max(self.cells, key=lambda cell: Fraction(cell.l1, cell.scale))
        return {
            "mechanism": "discrete_laplace",
            "sensitivity": max(dearest.l1, 1) * self.grid,
            "noise_scale": dearest.scale * self.grid,
            "dimension": self.width,
            "grid": self.grid,
            "mu_squared_units": 0 if self.pure else max(units_of_cells(self.cells), 1),
            "pure_units": max(pure_units_of_cells(self.cells), 1) if self.pure else 0,
            "cells": self.cells,
        }

    def labels_receipt(self, classes: int) -> dict[str, Any]:
        """Return the fields of the receipt of randomised labels."""
        if self.label_epsilon is None:
            raise PrivacyError("These labels are not randomised; they have no receipt.")
        epsilon = float(self.label_epsilon)
        return {
            "mechanism": "randomised_response",
            "sensitivity": 1.0,
            "noise_scale": epsilon,
            "dimension": classes,
            "grid": 1.0,
            "mu_squared_units": units_of(mu_of_pure(epsilon) ** 2),
        }


def check_rows_question(question: RowsQuestion, schema: Schema) -> None:
    """Refuse a question for rows that does not fit the schema or its relation, before anything is spent."""
    if not schema.rows_are_public:
        raise PrivacyError(
            "Noisy rows show how many rows there are, so their number must be public: declare row_count: public and "
            "rows_per_unit: 1, or choose a generator that does not let rows out one by one."
        )
    tables, label, noise = question.tables, question.label, question.noise
    names = [table.column for table in tables] + ([] if label is None else [label])
    if not tables or len(set(names)) != len(names):
        raise PrivacyError("Noisy rows need at least one column, each named once, and the label not among them.")
    for table in tables:
        check_fits(table, schema)
    if label is not None:
        schema.modelled_column(label)
    if noise not in ROW_NOISES:
        raise PrivacyError(f"The noise of rows must be one of {', '.join(ROW_NOISES)}, got '{noise}'.")
    if schema.neighbours is Neighbours.CELL and noise != "laplace":
        raise PrivacyError("One cell is hidden by Laplace noise, whose cost is a pure epsilon; ask for it by name.")
    if not 0 < question.label_share < 1:
        raise PrivacyError(f"label_share must lie strictly between 0 and 1, got {question.label_share:g}.")


def require_few_numbers(plan: RowsPlan, n_rows: float) -> None:
    """Refuse an answer of more numbers than a bundle carries; the number of rows is public."""
    if n_rows * plan.width > MAXIMUM_NUMBERS:
        raise PrivacyError(
            f"Noisy rows would have {n_rows * plan.width:,.0f} numbers; at most {MAXIMUM_NUMBERS:,} can be let out; "
            "leave columns out, declare fewer categories, or use a sample of the rows."
        )


def plan_rows(question: RowsQuestion, schema: Schema, *, units: int, slack: float) -> RowsPlan:
    """Find the least noise that keeps noisy rows within ``units``.

    Parameters
    ----------
    question : RowsQuestion
    schema : Schema
        Says which change is hidden.
    units : int
        Cost allowed, in units of 2^-40 of mu^2, or of pure epsilon where one cell is hidden.
    slack : float
        Discretisation cost c allowed.

    Raises
    ------
    PrivacyError
        If the question does not fit, or no grid carries the noise.
    """
    check_rows_question(question, schema)
    tables = question.tables
    pure = schema.neighbours is Neighbours.CELL
    label_epsilon = None
    if question.label is not None and not pure:
        label_units = math.floor(units * Fraction(question.label_share))
        units -= label_units
        # A shorter fraction below the float: its digits are drawn against exactly.
        epsilon = pure_of_mu(math.sqrt(label_units * MU_UNIT) * ROUNDED_DOWN) if label_units else 0.0
        label_epsilon = Fraction(math.floor(epsilon * 2**40), 2**40)
    if units < 1 or label_epsilon == 0:
        raise PrivacyError("This share of the budget is too small for noisy rows. Choose a larger epsilon.")
    for bits in GRIDS:
        bounds, of_rows = (bounds_of(tables, schema, bits=bits, change=change) for change in (schema.cell_change, 1.0))
        cells: tuple[CellNoise, ...] = ()
        gaussian = None
        if question.noise == "laplace":
            cells = _cells(bounds, of_rows, units, pure=pure, bits=bits)
            fits = all(SMALLEST_SCALE <= cell.scale <= MAXIMUM_SCALE for cell in cells if cell.l1)
        else:
            sensitivity = math.sqrt(sum(bound.squared for bound in of_rows)) * SAFETY * 2.0**-bits
            gaussian = gaussian_on_grid(bits // 2, sensitivity, dimension=sum(question.widths), units=units)
            deviation = math.isqrt(gaussian.variance) + 1
            fits = gaussian.slack <= slack and SMALLEST_SCALE <= deviation <= MAXIMUM_SCALE
        if fits:
            return RowsPlan(
                bits=bits,
                widths=question.widths,
                largest=tuple(bound.largest for bound in of_rows),
                cells=cells,
                gaussian=gaussian,
                label_epsilon=label_epsilon,
                pure=pure,
            )
    raise PrivacyError(
        "No grid carries the noise of these rows at this share of the budget; choose epsilon between 0.001 and 100."
    )


def bounds_of(tables: Sequence[Lookup], schema: Schema, *, bits: int, change: float) -> list[CellBound]:
    """Bound what a cell of each column moves when numbers and dates change by at most a part of their range."""
    return [cell_bound(table, schema.modelled_column(table.column), bits=bits, change=change) for table in tables]


def _cells(
    bounds: Sequence[CellBound], of_rows: Sequence[CellBound], units: int, *, pure: bool, bits: int
) -> tuple[CellNoise, ...]:
    """Return every column's noise: the same epsilon for each, as large as ``units`` allow."""
    if pure:
        epsilon = Fraction(units) * Fraction(MU_UNIT)
    else:
        share = max(units // len(bounds) - 1, 1)
        epsilon = Fraction(pure_of_mu(math.sqrt(share * MU_UNIT) * ROUNDED_DOWN))
    return tuple(
        # A column that cannot change tells nothing; it gets noise all the same, as wide as one whole range.
        CellNoise(bound.l1, of_row.l1, of_row.largest, math.ceil(bound.l1 / epsilon) if bound.l1 else 2**bits)
        for bound, of_row in zip(bounds, of_rows, strict=True)
    )
