"""Tables of thousands of columns: work grows with the columns, and what reports hold of pairs with their states."""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from synth.bundle.table_files import write_csv
from synth.generators.protocol import states_of_columns
from synth.reports.document import report_page
from synth.reports.evidence import SafeEvidence
from synth.reports.relations import published_relations, relations_of
from synth.schema import NumberColumn, RunConfig, Schema

FEW, MANY = 60, 240


def declared(columns: int) -> Schema:
    return Schema(tuple(NumberColumn(f"q{place}", 0, 2, 1) for place in range(columns)))


def configured(columns: int) -> RunConfig:
    return RunConfig(
        schema=declared(columns),
        account="town",
        epsilon=1.0,
        delta=1e-6,
        people_at_most=10_000,
        rows=50,
        generator="independent",
        holdout=0.0,
    )


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of functions, those of C too: a measure of work that no busy machine changes."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def the_page(columns: int) -> Callable[[], object]:
    numbers = [
        SafeEvidence(id=f"columns.q{place}.distance", title=f"Column q{place}", value=0.1, unit="", sentence="")
        for place in range(columns)
    ]
    return lambda: report_page(numbers, heading="Five thousand", promise=())


def the_states(columns: int) -> Callable[[], object]:
    state = {f"column.{place}.{name}": np.zeros(1) for place in range(columns) for name in ("table", "noise")}
    return lambda: states_of_columns(state, columns)


def the_csv(columns: int) -> Callable[[], object]:
    schema = declared(columns)
    return lambda: write_csv(np.zeros((2, columns), dtype=np.int64), schema, io.BytesIO(), 0)


@pytest.mark.parametrize("of", [the_page, the_states, the_csv])
def test_work_grows_with_the_number_of_columns_and_not_with_that_of_pairs(
    of: Callable[[int], Callable[[], object]],
) -> None:
    of(FEW)()  # what is made once for all
    few, many = calls_of(of(FEW)), calls_of(of(MANY))
    assert many <= 1.1 * few * MANY / FEW


def test_states_of_columns_are_told_apart_by_their_whole_place() -> None:
    state = {
        name: np.array([place]) for place, name in enumerate(("column.1.a", "column.10.a", "column.1.b.c", "model.a"))
    }
    found = states_of_columns(state, 11)
    assert [sorted(one) for one in found] == [[], ["a", "b.c"], *[[]] * 8, ["a"]]
    assert [found[1]["a"], found[10]["a"], found[1]["b.c"]] == [[0], [1], [2]]


def test_what_is_held_of_all_pairs_is_a_few_bytes_each() -> None:
    columns = 1_000
    config = configured(columns)
    tracemalloc.start()
    try:
        known = relations_of((), (), config.schema.names, rows=1_000.0)
        found = published_relations(known, config)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.value for one in found] == [0, 499_500, 0, 499_500]
    # Two bytes and three while they are made, of both orders of a pair; the report itself is some kilobytes a column.
    assert most < 6 * columns**2 + 2_000 * columns
