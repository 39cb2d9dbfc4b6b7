"""Check noisy rows against their receipts: how far a cell or a row moves them is worked out again from the question."""

from __future__ import annotations

import math
from collections.abc import Iterator

from synth.privacy.row_bounds import CellBound
from synth.privacy.row_plans import RowsQuestion, bounds_of
from synth.privacy.row_release import RowsRelease
from synth.schema import Neighbours, Schema

__all__ = ["rows_problems"]


def rows_problems(release: RowsRelease, schema: Schema) -> Iterator[str]:
    """Yield what does not fit between noisy rows, their receipts and the declared table.

    Parameters
    ----------
    release : RowsRelease
        As it was read from a bundle.
    schema : Schema
        As it was declared.
    """
    receipt, question = release.receipt, release.question
    name = f"The answer to '{receipt.query}'"
    width = sum(question.widths)
    if release.numbers.ndim != 2 or release.numbers.shape[1] != width or receipt.dimension != width:
        yield f"{name} has rows of another width than its question and its receipt."
        return
    if not schema.rows_are_public:
        yield f"{name} shows how many rows there are, which was not declared public."
    bounds, of_rows = (
        bounds_of(question.tables, schema, bits=_bits(receipt.grid), change=change)
        for change in (schema.cell_change, 1.0)
    )
    if receipt.mechanism == "discrete_laplace":
        yield from _cell_problems(release, bounds, of_rows)
    elif receipt.mechanism != "gaussian_rows":
        yield f"{name} has a receipt that is not of rows."
    elif math.sqrt(sum(bound.squared for bound in of_rows)) * receipt.grid > receipt.sensitivity * (1 + 1e-9):
        yield f"{name} moves farther with one row than its receipt says."
    yield from _label_problems(release, question, schema)


def _bits(grid: float) -> int:
    return round(-math.log2(grid))


def _cell_problems(release: RowsRelease, bounds: list[CellBound], of_rows: list[CellBound]) -> Iterator[str]:
    cells = release.receipt.cells
    if len(cells) != len(bounds):
        yield f"The receipt of '{release.receipt.query}' does not state the noise of every column."
        return
    query = release.receipt.query
    for table, bound, of_row, cell in zip(release.question.tables, bounds, of_rows, cells, strict=True):
        if bound.l1 > cell.l1 or of_row.l1 > cell.row_l1 or of_row.largest > cell.row_largest:
            yield f"A cell of '{table.column}' moves the answer to '{query}' farther than its receipt says."


def _label_problems(release: RowsRelease, question: RowsQuestion, schema: Schema) -> Iterator[str]:
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


def _within(release: RowsRelease, size: int) -> bool:
    labels = release.labels
    return labels is not None and (labels.size == 0 or bool((labels >= 0).all() and (labels < size).all()))
