"""What the rows of one id seem to have in common: columns that never differ, and one that gives their order.

Only rows at the top of a table are compared, so memory and time do not grow with it; the proposal says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from synth.errors import InputError
from synth.schema import ModelledColumn, TableFormat, parse_column
from synth.schema.encoding import encode_cells
from synth.services.recognition.proposals import ColumnProposal, Together

__all__ = ["together_of"]

FEWEST = 20
"""Ids with several rows among those compared; with fewer, nothing is proposed."""

_RISES = 0.5
"""Share of steps from a row to the next of the same id in which a column that gives the order has to rise."""

_Whole = npt.NDArray[np.int64]


def together_of(
    columns: Sequence[ColumnProposal], cells: Sequence[pa.ChunkedArray], form: TableFormat
) -> list[Together]:
    """Compare the rows of each id, for every column that identifies several rows.

    Parameters
    ----------
    columns : sequence of ColumnProposal
    cells : sequence of ChunkedArray
        The first cells of each column as texts, trimmed.
    form : TableFormat
        How they are written.
    """
    found = []
    for place, column in enumerate(columns):
        if column.rows_per_value > 1 and len(cells[place]):
            one = _together(column.name, _distinct(cells[place]), columns, cells, form)
            if one is not None:
                found.append(one)
    return found


def _together(
    name: str, ids: _Whole, columns: Sequence[ColumnProposal], cells: Sequence[pa.ChunkedArray], form: TableFormat
) -> Together | None:
    rows = np.argsort(ids, kind="stable")
    pairs = ids[rows][1:] == ids[rows][:-1]
    before, after = rows[:-1][pairs], rows[1:][pairs]
    several = len(np.unique(ids[before]))
    if several < FEWEST:
        return None
    same = tuple(
        column.name
        for column, texts in zip(columns, cells, strict=True)
        if column.is_modelled and _never_differs(_distinct(texts), before, after)
    )
    order = next(_orders(columns, cells, form, before, after), None)
    return Together(name, same, order, f"{several:,} ids with several rows among the first {len(ids):,} rows")


def _distinct(texts: pa.ChunkedArray) -> _Whole:
    coded = texts.combine_chunks().dictionary_encode()
    indices: _Whole = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _never_differs(codes: _Whole, before: _Whole, after: _Whole) -> bool:
    """Whether a column is the same in all rows of every id, without being the same everywhere."""
    return bool(np.all(codes[before] == codes[after]) and codes.max() > 0)


def _orders(
    columns: Sequence[ColumnProposal],
    cells: Sequence[pa.ChunkedArray],
    form: TableFormat,
    before: _Whole,
    after: _Whole,
) -> Iterator[str]:
    """Yield the columns that never fall from a row of an id to its next one and mostly rise, dates first."""
    by_kind = sorted(zip(columns, cells, strict=True), key=lambda one: one[0].body.get("type") != "date")
    for column, texts in by_kind:
        if column.body.get("type") not in ("date", "number"):
            continue
        try:
            declared = parse_column(column.name, column.body)
        except InputError:
            continue
        if not isinstance(declared, ModelledColumn):
            continue
        codes = encode_cells(declared, texts, **form.of_cells).codes.astype(np.int64)
        known = (codes[before] < declared.levels) & (codes[after] < declared.levels)
        steps = (codes[after] - codes[before])[known]
        if len(steps) and steps.min() >= 0 and np.mean(steps > 0) >= _RISES:
            yield column.name
