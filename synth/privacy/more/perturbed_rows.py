r"""Rows released one by one: every row's numbers with their own noise, in a random order.

Nothing is added up here, so the noise of a row has to hide that row alone, and a row's numbers are looked up by its own
codes in whole-number tables: other rows affect none of their bits. It is the one answer with as many numbers as the
private table.

How much noise hides one cell, or one whole row, follows from public data (tables, schema, share), before a row is read.
Under the relation "one cell" the cost is the pure epsilon of the dearest column, because a changed cell moves the
numbers of one column only. For a whole row it is mu = (L2 change of the row's numbers) / (standard deviation) with
Gaussian noise, or k times the mu^2 of one cell with Laplace noise, and the mu of a randomised response for the label
(``docs/proofs/noisy-rows.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import MU_UNIT, GaussianPlan, gaussian_on_grid, mu_of_pure, pure_of_mu, units_of
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import binned
from synth.privacy.more.cells import CellNoise, pure_units_of_cells, row_epsilon_of_cells, units_of_cells
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.row_sensitivity import CellBound, cell_bound, whole_table
from synth.privacy.noise import MAXIMUM_SCALE, NoiseSource
from synth.privacy.questions import (
    Allowance,
    Answer,
    Digest,
    Numbers,
    Question,
)
from synth.privacy.receipt import PlannedCost, Receipt
from synth.schema import Neighbours, Schema

__all__ = [
    "GRIDS",
    "LABEL_SHARE",
    "MAXIMUM_NUMBERS",
    "ROW_NOISES",
    "PerturbedRows",
    "RowNoise",
    "RowsPlan",
    "RowsQuestion",
    "bounds_of",
    "draw_rows",
]

LABELS_QUERY = "{query}: labels"
"""Name of the question for the labels, in addition to that for the rows."""

PIECE = 2**22
"""Numbers that are drawn or moved at a time, so that little memory is needed in addition to the answer."""

Whole = NDArray[np.int64]

RowNoise = Literal["gaussian", "laplace"]
ROW_NOISES: tuple[RowNoise, ...] = ("gaussian", "laplace")

LABEL_SHARE = 0.25
"""Part of a question's mu^2 that protects the label, where a whole row is protected and it has one."""

MAXIMUM_NUMBERS = 2**27
"""Most numbers in all noisy rows together: 1 GiB in memory, and half as much in the file of answers."""

GRIDS = (10, 12, 14, 16, 18, 20)
"""Bits of the grid of a row's numbers; the coarsest that is fine enough is used: answers are kept number by number."""

SMALLEST_SCALE = 2**12
"""Laplace noise is at least so many grid steps wide, so that the grid has no visible effect."""

SAFETY = 1 + 1e-12
ROUNDED_DOWN = 1 - 2.0**-40


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
    classes : int
        Number of codes of the label; 0 where there is none.
    assumptions : tuple of str
        Assumptions of the receipts, in addition to those of every receipt of the table.
    """

    bits: int
    widths: tuple[int, ...]
    largest: tuple[int, ...]
    cells: tuple[CellNoise, ...]
    gaussian: GaussianPlan | None
    label_epsilon: Fraction | None
    pure: bool
    classes: int = 0
    assumptions: tuple[str, ...] = ()

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

    def worth_for_a_row(self, delta: float) -> float | None:
        """Return the epsilon at ``delta`` that noise on cells gives a whole row; None for any other noise."""
        return row_epsilon_of_cells(self.cells, delta, numbers=self.width) if self.pure else None

    @property
    def coordinates(self) -> int:
        """Numbers of a row, as no other row's change between neighbours."""
        return self.width

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The cost of the rows, and that of their labels where these are randomised."""
        return (self.cost_of_rows, *(() if self.label_epsilon is None else (self.cost_of_labels(self.label_epsilon),)))

    @property
    def cost_of_rows(self) -> PlannedCost:
        """What the numbers cost."""
        if self.gaussian is not None:
            return PlannedCost(
                mechanism="gaussian_rows",
                sensitivity=self.gaussian.sensitivity,
                noise_scale=self.gaussian.noise_std,
                dimension=self.width,
                grid=self.grid,
                mu_squared_units=self.gaussian.units,
                slack=self.gaussian.slack,
                assumptions=self.assumptions,
            )
        dearest = max(self.cells, key=lambda cell: Fraction(cell.l1, cell.scale))
        return PlannedCost(
            mechanism="discrete_laplace",
            sensitivity=max(dearest.l1, 1) * self.grid,
            noise_scale=dearest.scale * self.grid,
            dimension=self.width,
            grid=self.grid,
            mu_squared_units=0 if self.pure else max(units_of_cells(self.cells), 1),
            pure_units=max(pure_units_of_cells(self.cells), 1) if self.pure else 0,
            cells=self.cells,
            assumptions=self.assumptions,
        )

    def cost_of_labels(self, label_epsilon: Fraction) -> PlannedCost:
        """Return the cost of labels that are randomised at ``label_epsilon``."""
        return PlannedCost(
            mechanism="randomised_response",
            sensitivity=1.0,
            noise_scale=float(label_epsilon),
            dimension=self.classes,
            grid=1.0,
            mu_squared_units=units_of(mu_of_pure(float(label_epsilon)) ** 2),
            named=LABELS_QUERY,
            assumptions=self.assumptions,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedRows(Answer):
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

    receipts: tuple[Receipt, ...] = field()
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
        """Return the noisy numbers of some rows in units of the tables, shape (rows, width): all rows need memory."""
        return self.numbers[rows].astype(np.float64) * self.receipt.grid

    def assumptions(self, schema: Schema) -> tuple[str, ...]:
        """Return the assumptions of its question."""
        return self.question.assumptions(schema)


@dataclass(frozen=True, slots=True, eq=False)
class RowsQuestion(Question[RowsPlan, PerturbedRows]):
    """What is asked of every row: public data.

    Parameters
    ----------
    tables : tuple of Lookup
        The columns of a row, side by side.
    label : str, optional
        A column that is released as a class: randomised where a whole row is hidden, unchanged where one cell is.
    label_share : float
        Part of the question's cost for the label, where it is randomised.
    noise : {"gaussian", "laplace"}
    """

    tells_row_count: ClassVar[bool] = True
    unforeseen: ClassVar[str] = "What is made of '{query}'"

    tables: tuple[Lookup, ...]
    label: str | None = None
    label_share: float = LABEL_SHARE
    noise: RowNoise = "gaussian"

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each column."""
        return tuple(table.dimension for table in self.tables)

    def check(self, schema: Schema) -> None:
        """Refuse what does not fit the schema or its relation."""
        if not schema.rows_are_public:
            raise PrivacyError(
                "Noisy rows show how many rows there are, so their number must be public: declare row_count: public "
                "and rows_per_unit: 1, or choose a generator that does not release rows one by one."
            )
        tables, label, noise = self.tables, self.label, self.noise
        names = [table.column for table in tables] + ([] if label is None else [label])
        if not tables or len(set(names)) != len(names):
            raise PrivacyError("Noisy rows need at least one column, each named once, and the label not among them.")
        for table in tables:
            if type(table) is not Lookup:
                raise PrivacyError("Noisy rows are made of lookups alone; make a Lookup of each column.")
            table.check_codes(schema)
        if label is not None:
            schema.modelled_column(label)
        if noise not in ROW_NOISES:
            raise PrivacyError(f"The noise of rows must be one of {', '.join(ROW_NOISES)}, got '{noise}'.")
        if schema.neighbours is Neighbours.CELL and noise != "laplace":
            raise PrivacyError(
                "One cell is hidden by Laplace noise only, whose cost is a pure epsilon; set the noise to 'laplace'."
            )
        if not 0 < self.label_share < 1:
            raise PrivacyError(f"label_share must lie strictly between 0 and 1, got {self.label_share:g}.")

    def plan(self, allowed: Allowance) -> RowsPlan:
        """Find the least noise that keeps the rows within what is allowed; refuse where no grid carries it."""
        schema, units = allowed.schema, allowed.units
        pure = schema.neighbours is Neighbours.CELL
        label_epsilon = None
        if self.label is not None and not pure:
            label_units = math.floor(units * Fraction(self.label_share))
            units -= label_units
            # A shorter fraction below the float, because draws are compared with its digits exactly.
            epsilon = pure_of_mu(math.sqrt(label_units * MU_UNIT) * ROUNDED_DOWN) if label_units else 0.0
            label_epsilon = Fraction(math.floor(epsilon * 2**40), 2**40)
        if units < 1 or label_epsilon == 0:
            raise PrivacyError("This share of the budget is too small for noisy rows. Choose a larger epsilon.")
        for bits in GRIDS:
            bounds, of_rows = (
                bounds_of(self.tables, schema, bits=bits, change=change) for change in (schema.cell_change, 1.0)
            )
            cells: tuple[CellNoise, ...] = ()
            gaussian = None
            if self.noise == "laplace":
                cells = _cells(bounds, of_rows, units, pure=pure, bits=bits)
                fits = all(SMALLEST_SCALE <= cell.scale <= MAXIMUM_SCALE for cell in cells if cell.l1)
            else:
                sensitivity = math.sqrt(sum(bound.squared for bound in of_rows)) * SAFETY * 2.0**-bits
                gaussian = gaussian_on_grid(bits // 2, sensitivity, dimension=sum(self.widths), units=units)
                deviation = math.isqrt(gaussian.variance) + 1
                fits = gaussian.slack <= allowed.slack and SMALLEST_SCALE <= deviation <= MAXIMUM_SCALE
            if fits:
                return RowsPlan(
                    bits=bits,
                    widths=self.widths,
                    largest=tuple(bound.largest for bound in of_rows),
                    cells=cells,
                    gaussian=gaussian,
                    label_epsilon=label_epsilon,
                    pure=pure,
                    classes=0 if self.label is None else schema.modelled_column(self.label).size,
                    assumptions=self.assumptions(schema),
                )
        raise PrivacyError(
            "No grid carries the noise of these rows at this share of the budget; choose epsilon between 0.001 and 100."
        )

    def check_size(self, plan: RowsPlan, n_rows: float) -> None:
        """Refuse an answer of more numbers than a bundle carries."""
        if n_rows * plan.width > MAXIMUM_NUMBERS:
            raise PrivacyError(
                f"Noisy rows would have {n_rows * plan.width:,.0f} numbers; at most {MAXIMUM_NUMBERS:,} can be "
                "released. Leave columns out, declare fewer categories, or use a sample of the rows."
            )

    def assumptions(self, schema: Schema) -> tuple[str, ...]:
        """Return what is public by definition when every row is released by itself."""
        if schema.neighbours is not Neighbours.CELL:
            return ("The number of rows is public: one noisy row is released for every private row.",)
        said = ["The number of rows is public by definition."]
        if self.label is not None:
            said = [
                f"The labels in '{self.label}', the sizes of their classes and the number of rows are public by "
                "definition, and are released unchanged."
            ]
        if schema.cell_change < 1:
            said.append(
                f"A number or date changes by at most {schema.cell_change:g} of its declared range; a larger change "
                "costs more than the stated epsilon."
            )
        return tuple(said)

    def digest(self) -> str:
        """Return the digest of columns, label and noise."""
        found = Digest("rows")
        found.add_words([self.label, self.label_share, self.noise, len(self.tables)])
        for table in self.tables:
            found.add_map(table)
        return found.hexdigest()

    def draw(self, plan: RowsPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Return the noisy numbers of all rows, and their labels where there is one."""
        return draw_rows(self, plan, rows, noise)

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> PerturbedRows:
        """Return the rows."""
        return PerturbedRows(receipts, self, numbers[0], numbers[1] if len(numbers) > 1 else None)

    def again(self, answer: Answer) -> PerturbedRows:
        """Return old rows of the same columns, label and noise; how the cost was divided does not matter."""
        if not isinstance(answer, PerturbedRows) or not self._same_as(answer.question):
            raise PrivacyError(f"'{answer.query}' was asked of other columns; use the options of the recorded run.")
        return answer

    def _same_as(self, other: RowsQuestion) -> bool:
        return (self.label, self.noise, len(self.tables)) == (other.label, other.noise, len(other.tables)) and all(
            map(Lookup.is_same, self.tables, other.tables)
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
        # A column that cannot change reveals nothing; it still gets noise, as wide as one whole range.
        CellNoise(bound.l1, of_row.l1, of_row.largest, math.ceil(bound.l1 / epsilon) if bound.l1 else 2**bits)
        for bound, of_row in zip(bounds, of_rows, strict=True)
    )


def draw_rows(question: RowsQuestion, plan: RowsPlan, rows: PrivateRows, noise: NoiseSource) -> Numbers:
    """Look up every row's numbers, add noise to each, randomise its label, and put the rows in a random order.

    Parameters
    ----------
    question : RowsQuestion
    plan : RowsPlan
        The noise.
    rows : PrivateRows
        The private rows.
    noise : NoiseSource
        Draws the noise, the labels and the order.

    Returns
    -------
    numbers : array of shape (n_rows, width)
        In grid steps.
    labels : array of shape (n_rows,)
        Where there is a label.
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
        labels = noise.respond(labels, classes=plan.classes, numerator=odds.numerator, denominator=odds.denominator)
    order = noise.order(rows.n_rows)
    _put_in_order(numbers, order)
    numbers.setflags(write=False)
    return (numbers,) if labels is None else (numbers, labels[order])


def _put_in_order(numbers: Whole, order: Whole) -> None:
    """Put rows in an order, a few columns at a time, as a copy of all of them may not fit in memory."""
    step = max(1, PIECE // max(1, len(order)))
    for first in range(0, numbers.shape[1], step):
        some = numbers[:, first : first + step]
        some[:] = some[order]


def _kept(given: NDArray[np.int64]) -> Whole:
    """Return whole numbers, read-only; without a copy where they are read-only and owned already."""
    if given.dtype == np.int64 and given.base is None and not given.flags.writeable:
        return given
    own = np.array(given, dtype=np.int64)
    own.setflags(write=False)
    return own


def _numbers(table: Lookup, rows: PrivateRows, bits: int) -> Whole:
    codes = rows.column(table.column)
    whole = whole_table(table, bits)
    return np.asarray(whole[binned(codes, table.bins)])
