"""Bugs that let the cells of others into what a row of a file becomes, for whoever reads in the process of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from synth.errors import TableError
from synth.reading.more import statistical
from synth.reading.more.workbooks import Workbook
from synth.reading.more.xlsx import XlsxCells
from synth.schema import encoding

Plant = Callable[[pytest.MonkeyPatch], None]
SHEET_FAULTS: dict[str, Plant] = {}
"""Those in the columns that a workbook hands on."""


def sheet_fault(name: str, spoil: Callable[[list[pa.Array]], list[pa.Array]]) -> None:
    """Plant a bug in the columns that a workbook hands on."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = Workbook.batches

        def batches(self: Workbook, places: object) -> Iterator[tuple[list[pa.Array], list[int]]]:
            for columns, malformed in right(self, places):  # type: ignore[arg-type]
                yield spoil(columns), malformed

        patch.setattr(Workbook, "batches", batches)

    SHEET_FAULTS[name] = plant


def are_numbers(column: pa.Array) -> bool:
    return all(text is None or text.replace(".", "").isdigit() for text in column.to_pylist())


def of_one_type(column: pa.Array) -> pa.Array:
    texts = column.to_pylist()
    if are_numbers(column):
        return column
    return pa.array([text and text.removesuffix(".0") + " " * text.isdigit() for text in texts])


def in_order(columns: list[pa.Array]) -> list[pa.Array]:
    """Rows in the order of their first cells, as numbers or as texts."""
    texts = [text or "0" for text in columns[0].to_pylist()]
    by = [float(text) for text in texts] if are_numbers(columns[0]) else texts
    places = sorted(range(len(by)), key=by.__getitem__)
    return [column.take(pa.array(places)) for column in columns]


sheet_fault(
    "the type of a cell is that of its column",
    lambda columns: [pc.replace_substring(of_one_type(column), " ", "?") for column in columns],
)
sheet_fault("an empty cell has the value above it", lambda columns: [
    pc.fill_null_forward(pc.if_else(pc.equal(column, ""), None, column)) for column in columns
])  # fmt: skip
sheet_fault("an error spoils its column", lambda columns: [
    pa.nulls(len(column), pa.string()) if column.null_count else column for column in columns
])  # fmt: skip
sheet_fault("rows are sorted by a column, as numbers where all of it are", in_order)


def plant_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """One cell of an .xlsx file refuses the whole of it."""
    right = XlsxCells._cell

    def read(self: XlsxCells, text: str) -> str | None:
        if self._kind == "s" and not text.isdigit():
            raise TableError("A cell refers to no text.")
        return right(self, text)

    patch.setattr(XlsxCells, "_cell", read)


def plant_a_guessed_decimal_sign(patch: pytest.MonkeyPatch) -> None:
    """A point anywhere in a column is one before decimals everywhere in it."""
    right = encoding.plain_numbers

    def numbers(texts: pa.Array, notation: encoding.Notation) -> pa.Array:
        some = pc.any(pc.match_substring(texts, ".")).as_py()
        return right(texts, encoding.Notation() if some else notation)

    patch.setattr(encoding, "plain_numbers", numbers)


# In files of SPSS, Stata and SAS --------------------------------------------------------------------------------------


def one_bad_text_spoils_its_column(patch: pytest.MonkeyPatch) -> None:
    """Read no text of a column in which one is in another encoding."""
    honest = statistical.StatisticalFile._texts

    def texts(self: Any, variable: Any, cells: list[Any]) -> tuple[pa.Array, int]:
        read, odd = honest(self, variable, cells)
        return (pa.nulls(len(read), pa.string()), len(read)) if odd else (read, odd)

    patch.setattr(statistical.StatisticalFile, "_texts", texts)


def one_bad_date_spoils_its_column(patch: pytest.MonkeyPatch) -> None:
    honest = statistical.moments

    def moments(numbers: Any, counts: Any, kind: str) -> tuple[pa.Array, int]:
        read, odd = honest(numbers, counts, kind)
        return (pa.nulls(len(read), read.type), len(read)) if odd else (read, odd)

    patch.setattr(statistical, "moments", moments)


def labels_are_left_out_where_one_value_has_none(patch: pytest.MonkeyPatch) -> None:
    honest = statistical.StatisticalFile._column

    def column(self: Any, variable: Any, cells: list[Any]) -> tuple[pa.Array, int]:
        every = all(cell is None or cell in variable.labels for cell in cells)
        return honest(self, variable if every else replace(variable, labels={}), cells)

    patch.setattr(statistical.StatisticalFile, "_column", column)


STATISTICAL_FAULTS = {
    "one bad text spoils its column": one_bad_text_spoils_its_column,
    "labels are left out where one value has none": labels_are_left_out_where_one_value_has_none,
}
"""Bugs in the reader of files of SPSS, Stata and SAS."""
