"""Finding columns privately: the questions about columns that have no description yet.

The first question of every open column is the kind of its cells; then come the bounds of numbers and dates, in fine
bins and in blocks of bins, and the values of texts. Numbers that may be codes get both. The conclusions are a public
rule, :mod:`synth.privacy.more.found_columns`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import AnswerSource, NoisyAnswer
from synth.privacy.bins import Bins
from synth.privacy.costs import between_neighbours, gaussian_on_grid
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.found_columns import (
    CLEAR,
    FoundColumn,
    blocks_query,
    bounds_query,
    columns_found,
    kind_of,
    kind_query,
    open_column,
    required_columns,
    values_query,
)
from synth.privacy.more.found_values import (
    VALUE_GRIDS,
    ValuesQuestion,
    bound_of_row,
    keys_of_unit,
    threshold_of,
)
from synth.privacy.questions import Answer
from synth.privacy.table import PrivateTable, TableSource, chosen_rows, read_table, require_number_of_units
from synth.reading.more.texts import TextCounts, count_texts
from synth.reading.request import Request
from synth.schema import DropColumn, FindColumn, Neighbours, Schema, TableFormat
from synth.schema.columns.find import CellKind
from synth.system.settings import ReaderLimits

__all__ = ["Foreseen", "find", "finding_budget", "foreseen", "key_delta", "open_schema", "open_table"]

SOURCE = "find"

KINDS_SHARE = 0.2
"""Part of a finding's budget that pays for kinds; the rest pays for bounds and values. Kinds are lost first
where rows are few: with a tenth, twice as many columns of 250 rows were left out."""

BLOCKS_SHARE = 0.5
"""Part of what a column's bounds cost that pays for blocks: a block has as much noise as a bin, and many more cells."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a finding will lose, from public facts alone.

    A value in fewer than ``least_rows`` rows is more likely lost than found. A column with fewer than ``kind_rows``
    cells that are not missing is more likely left out than found.
    """

    least_rows: int
    kind_rows: int


def open_schema(schema: Schema) -> Schema:
    """Return the schema that a finding asks: open columns as they are, the unit's id, and all others left out.

    No column is described in words, which nothing that is asked depends on.
    """
    kept = tuple(
        replace(column, description="")
        if isinstance(column, FindColumn) or column.name == schema.unit.id_column
        else DropColumn(column.name)
        for column in schema.columns
    )
    return schema.of_rows(kept)


def finding_budget(epsilon: float, delta: float, neighbours: Neighbours) -> PrivacyBudget:
    """Return the budget of a finding's session: half of delta is for its noise, the rest for values of one unit."""
    return PrivacyBudget(epsilon, delta / 2, neighbours)


def key_delta(delta: float) -> float:
    """Return the largest probability that a finding at ``delta`` releases a value that one unit alone holds."""
    return 0.49 * delta


def foreseen(schema: Schema, epsilon: float, delta: float) -> Foreseen:
    """Estimate how many rows a value and a column need to be found.

    Parameters
    ----------
    schema : Schema
        With the open columns; none of it comes from rows.
    epsilon, delta : float
        What the finding may spend.

    Raises
    ------
    PrivacyError
        If no column is open, or no noise can keep such a budget.
    """
    k = len(required_columns(schema))
    all_units = finding_budget(epsilon, delta, schema.neighbours).units
    kinds = gaussian_on_grid(
        VALUE_GRIDS[0],
        between_neighbours(bound_of_row(1), schema),
        dimension=CellKind.MISSING + 1,
        units=max(math.floor(KINDS_SHARE / k * all_units), 1),
    )
    units = math.floor((1 - KINDS_SHARE) * all_units)
    keys, sensitivity = keys_of_unit(k, schema), between_neighbours(bound_of_row(k), schema)
    noise = gaussian_on_grid(VALUE_GRIDS[0], sensitivity, dimension=keys, units=max(units, 1))
    threshold = threshold_of(
        noise_std=noise.noise_std,
        grid=noise.grid,
        rows_per_unit=schema.unit.rows_per_unit,
        keys=keys,
        delta_key=key_delta(delta),
    )
    return Foreseen(math.ceil(threshold * noise.grid), math.ceil(CLEAR * kinds.noise_std))


def open_table(
    source: TableSource | Callable[[], BinaryIO],
    table_id: str,
    schema: Schema,
    form: TableFormat,
    *,
    account_key: bytes,
    undeclared: Literal["refuse", "drop"] = "refuse",
    limits: ReaderLimits | None = None,
) -> PrivateTable:
    """Open a table to find its columns: every unit, with at most ``rows_per_unit`` of its rows, without a hold-out.

    Parameters
    ----------
    source, table_id, form, account_key, undeclared, limits
        As in :meth:`PrivateTable.open`.
    schema : Schema
        As :func:`open_schema` returns it.

    Raises
    ------
    TableError
        If the table cannot be read, in one sentence without a cell.
    PrivacyError
        If the number of units is public and not declared.
    """
    named = required_columns(schema)
    require_number_of_units(schema)

    def open_stream() -> BinaryIO:
        return source() if callable(source) else source.open(table_id)

    encoded = read_table(
        open_stream, table_id, schema, form, account_key=account_key, undeclared=undeclared, limits=limits
    )
    chosen = chosen_rows(encoded, schema, account_key=account_key, holdout=0.0, part="train")
    table = PrivateTable._of(encoded, schema, account_key=account_key, holdout=0.0, part="train")

    def texts(columns: Sequence[str]) -> Sequence[TextCounts]:
        # Read a second time, because few columns turn out to be texts, and texts are large.
        request = Request(
            format=form,
            limits=limits or ReaderLimits().once_more,
            columns=tuple(one if one.name in columns else DropColumn(one.name) for one in schema.columns),
            drop_undeclared=undeclared == "drop",
        )
        found = dict(zip(filter(columns.__contains__, named), count_texts(open_stream, request, chosen), strict=True))
        return [found[name] for name in columns]

    table._texts = texts
    return table


def find(session: AnswerSource, *, delta_key: float) -> tuple[FoundColumn, ...]:
    """Ask all questions of a finding, with the whole budget of a session.

    Parameters
    ----------
    session : AnswerSource
        Of a table as :func:`open_table` opens it.
    delta_key : float
        Largest probability of releasing a value that one unit alone holds: :func:`key_delta`.

    Returns
    -------
    tuple of FoundColumn
        As :func:`columns_found` concludes them from the answers.
    """
    schema = session.schema
    columns = {name: open_column(schema, name) for name in required_columns(schema)}
    answers: list[Answer] = []

    def count(name: str, bins: NDArray[np.int32], share: float, query: str) -> NoisyAnswer:
        answers.append(
            asked := session.noisy_sum(OneHot((name,), (Bins.of_codes(bins),)), share=share, query=query, source=SOURCE)
        )
        return asked

    kinds = {
        name: kind_of(count(name, column.kinds(), KINDS_SHARE / len(columns), kind_query(name)))
        for name, column in columns.items()
    }
    bounded = [name for name, kind in kinds.items() if kind.has_bounds]
    texts = tuple(name for name, kind in kinds.items() if kind.kind == "text" or kind.may_be_codes)
    # Bounds or values of every column are asked, of some both; each of them costs the same.
    parts = max(len(columns), len(bounded) + len(texts))
    for name in bounded:
        column, share = columns[name], (1 - KINDS_SHARE) / parts
        dates = kinds[name].kind == "date"
        bins, blocks = (
            (column.date_bins(), column.date_blocks()) if dates else (column.number_bins(), column.number_blocks())
        )
        count(name, bins, (1 - BLOCKS_SHARE) * share, bounds_query(name))
        count(name, blocks, BLOCKS_SHARE * share, blocks_query(name))
    if texts:
        share = (1 - KINDS_SHARE) * len(texts) / parts
        answers.append(
            session.ask(ValuesQuestion(texts, delta_key), share=share, query=values_query(texts), source=SOURCE)
        )
    return columns_found(schema, answers)
