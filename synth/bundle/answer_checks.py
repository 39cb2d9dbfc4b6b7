"""Check answers against their receipts: how far one unit moves an answer is worked out again from the question.

What an answer holds is enough for a sum and for noisy rows. Of a private choice only the chosen candidate is kept, and
it is enough too: weights are divided by the largest before candidates are scored, so the sensitivity is that of a score
of weight 1, whatever the other candidates were. Which ones they were, and whether the stated parameter was the one
that was drawn with, no bundle shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from synth.bundle.measurements import Measurements
from synth.errors import SynthError
from synth.privacy.answers import ROW_COUNT_QUERY
from synth.privacy.calibration import FINE
from synth.privacy.features import Constant, FeatureMap
from synth.privacy.more.row_bounds import CellBound
from synth.privacy.more.row_plans import GRIDS, RowsQuestion, bounds_of, check_rows_question
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer, Receipt
from synth.privacy.selection import SCORE_STEP, Selection
from synth.privacy.sensitivities import sensitivity_of_choice, sensitivity_of_sum
from synth.privacy.validation import check_fits, require_whole_rows
from synth.schema import Neighbours, Schema

__all__ = ["choice_problems", "row_count_problems", "rows_problems", "sum_problems"]

_RELATIVE = 1e-9
"""Two computers may disagree on a bound by this much."""

_SUM_GRIDS = {2.0 ** (-2 * half_bits): half_bits for half_bits in FINE}
_ROW_GRIDS = frozenset(2.0**-bits for bits in GRIDS)
_OF_NOISE = {"gaussian": "gaussian_rows", "laplace": "discrete_laplace"}
_OFF_GRID = 1e-3
"""An answer is a whole number of grid steps, up to the rounding of float64."""


def sum_problems(release: NoisyAnswer, schema: Schema) -> Iterator[str]:
    """Yield what does not fit between a noisy sum, its receipt and the declared table.

    Parameters
    ----------
    release : NoisyAnswer
        As it was read from a bundle.
    schema : Schema
        As it was declared.
    """
    receipt, question, name = release.receipt, release.feature_map, f"The noisy answer to '{release.receipt.query}'"
    if receipt.mechanism != "discrete_gaussian":
        yield f"{name} has a receipt that is not of a sum."
        return
    if not isinstance(question, FeatureMap):
        yield f"{name} has no question of the closed set."
        return
    if not release.value.size == receipt.dimension == question.dimension or release.value.shape != question.shape:
        yield f"{name} has another number of coordinates than its receipt or its question."
        return
    if not np.isfinite(release.value).all():
        yield f"{name} holds a number that is not finite."
    elif np.abs(release.value / receipt.grid - np.rint(release.value / receipt.grid)).max(initial=0.0) > _OFF_GRID:
        yield f"{name} does not lie on the grid of its receipt."
    if receipt.grid not in _SUM_GRIDS:
        yield f"The receipt of '{receipt.query}' states a grid that no sum is taken on."
        return
    try:
        require_whole_rows(schema)
        check_fits(question, schema)
        least = sensitivity_of_sum(question, schema, half_bits=_SUM_GRIDS[receipt.grid])
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot have been asked of the declared table: {refusal}"
        return
    yield from _sensitivity_problems(receipt, least)
    yield from _variance_problems(receipt)


def choice_problems(selection: Selection, schema: Schema) -> Iterator[str]:
    """Yield what does not fit between a private choice, its receipt and the declared table; as :func:`sum_problems`."""
    receipt, name = selection.receipt, f"The private choice '{selection.receipt.query}'"
    if receipt.mechanism != "exponential":
        yield f"{name} has a receipt that is not of a choice."
        return
    try:
        require_whole_rows(schema)
        check_fits(selection.candidate.one_hot, schema)
    except SynthError as refusal:
        yield f"{name} cannot have been made on the declared table: {refusal}"
        return
    if not 0 <= selection.index < receipt.dimension:
        yield f"{name} chose a candidate that is not among the {receipt.dimension:,} of its receipt."
    if receipt.grid != SCORE_STEP:
        yield f"The receipt of '{receipt.query}' states a grid that no score is taken on."
    yield from _sensitivity_problems(receipt, sensitivity_of_choice(schema))


def rows_problems(release: PerturbedRows, schema: Schema) -> Iterator[str]:
    """Yield what does not fit between noisy rows, their receipts and the declared table.

    Parameters
    ----------
    release : PerturbedRows
        As it was read from a bundle.
    schema : Schema
        As it was declared.
    """
    receipt, question = release.receipt, release.question
    name = f"The answer to '{receipt.query}'"
    try:
        check_rows_question(question, schema)
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot have been asked of the declared table: {refusal}"
        return
    width = sum(question.widths)
    if release.numbers.ndim != 2 or release.numbers.shape[1] != width or receipt.dimension != width:
        yield f"{name} has rows of another width than its question and its receipt."
        return
    if receipt.mechanism != _OF_NOISE[question.noise]:
        yield f"{name} has a receipt that is not of rows with {question.noise} noise."
        return
    if receipt.grid not in _ROW_GRIDS:
        yield f"The receipt of '{receipt.query}' states a grid that no row is let out on."
        return
    bounds, of_rows = (
        bounds_of(question.tables, schema, bits=_bits(receipt.grid), change=change)
        for change in (schema.cell_change, 1.0)
    )
    if receipt.mechanism == "discrete_laplace":
        yield from _cell_problems(release, bounds, of_rows)
    else:
        least = math.sqrt(sum(bound.squared for bound in of_rows)) * receipt.grid
        yield from _sensitivity_problems(receipt, least)
        yield from _variance_problems(receipt)
    yield from _label_problems(release, question, schema)


def _bits(grid: float) -> int:
    return round(-math.log2(grid))


def _sensitivity_problems(receipt: Receipt, least: float) -> Iterator[str]:
    if not receipt.sensitivity >= least * (1 - _RELATIVE):
        yield (
            f"The receipt of '{receipt.query}' states a sensitivity of {receipt.sensitivity:.6g}; its question and "
            f"schema.json give {least:.6g}."
        )


def _variance_problems(receipt: Receipt) -> Iterator[str]:
    """Noise is drawn with a whole-number variance in grid steps, and stated a last digit too small."""
    stated = math.nextafter(receipt.noise_scale, math.inf) / receipt.grid
    variance = round(Fraction(stated) ** 2)
    # Beyond 2^53 neighbouring whole numbers have the same root: one of those that float64 tells apart will do.
    step = max(1, variance >> 53)
    if variance < 1 or not any(math.sqrt(variance + k * step) == stated for k in range(-2, 3) if variance + k * step):
        yield f"The receipt of '{receipt.query}' states noise that no variance in whole grid steps gives."


def _cell_problems(release: PerturbedRows, bounds: list[CellBound], of_rows: list[CellBound]) -> Iterator[str]:
    cells = release.receipt.cells
    if len(cells) != len(bounds):
        yield f"The receipt of '{release.receipt.query}' does not state the noise of every column."
        return
    query, grid = release.receipt.query, release.receipt.grid
    dearest = max(cells, key=lambda cell: Fraction(cell.l1, cell.scale))
    if (release.receipt.sensitivity, release.receipt.noise_scale) != (max(dearest.l1, 1) * grid, dearest.scale * grid):
        yield f"The receipt of '{query}' does not state the sensitivity and noise of its dearest column."
    for table, bound, of_row, cell in zip(release.question.tables, bounds, of_rows, cells, strict=True):
        if bound.l1 > cell.l1 or of_row.l1 > cell.row_l1 or of_row.largest > cell.row_largest:
            yield f"A cell of '{table.column}' moves the answer to '{query}' farther than its receipt says."


def _label_problems(release: PerturbedRows, question: RowsQuestion, schema: Schema) -> Iterator[str]:
    name = f"The answer to '{release.receipt.query}'"
    if question.label is None or release.labels is None:
        if len(release.receipts) != 1 or release.labels is not None or question.label is not None:
            yield f"{name} has a receipt or labels too many, as it was asked without a label."
        return
    size = schema.modelled_column(question.label).size
    if release.labels.shape != (len(release.numbers),) or not _within(release, size):
        yield f"{name} does not have one declared label for each row."
    of_labels = release.receipts[1:]
    if schema.neighbours is Neighbours.CELL:
        if of_labels:
            yield f"{name} has a receipt for labels, which are public where one cell is hidden."
    elif [one.mechanism for one in of_labels] != ["randomised_response"] or of_labels[0].dimension != size:
        yield f"{name} lets labels out without a receipt for a randomised response over its {size} classes."
    else:
        yield from _sensitivity_problems(of_labels[0], 1.0)


def _within(release: PerturbedRows, size: int) -> bool:
    labels = release.labels
    return labels is not None and (labels.size == 0 or bool((labels >= 0).all() and (labels < size).all()))


def row_count_problems(found: Measurements, schema: Schema, *, holdout: float) -> Iterator[str]:
    """Yield what the file of answers says about the number of private rows without a right to it.

    Parameters
    ----------
    found : Measurements
        As they were read from a bundle.
    schema : Schema
        As it was declared.
    holdout : float
        Part of the units that the configuration holds out: a declared number of units, less them, is that of the rows.
    """
    rows = found.rows
    if rows is None:
        return
    if schema.rows_are_public:
        exact = rows.public and rows.noise_std == 0 and rows.value == round(rows.value)
        declared = schema.number_of_units if schema.needs_number_of_units else None
        let_out = {len(release.numbers) for release in found.row_releases}
        if declared is None:
            exact = exact and let_out <= {rows.value}
        else:
            # Noisy rows are as many as there were rows, which need not be as many as were declared.
            exact = exact and rows.value == declared - round(holdout * declared) and len(let_out) <= 1
        if not exact:
            yield "measurements.npz does not state the number of rows that was declared public."
        return
    if rows.public:
        yield "measurements.npz states an exact number of rows, which was not declared public."
        return
    counts = [one for one in found.releases if isinstance(one.feature_map, Constant) and one.receipt.part == "train"]
    paid = [
        (max(float(one.value[0]), 1.0), one.receipt.noise_scale)
        for one in counts
        if one.receipt.query == ROW_COUNT_QUERY
    ]
    if (rows.value, rows.noise_std) not in paid:
        yield "measurements.npz states a number of rows that is not the noisy one that was paid for."
