"""Tables of thousands of columns: work grows with the columns, and what reports hold of pairs with their states."""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import synth
from synth.bundle.table_files import write_csv
from synth.cli.commands import main
from synth.generators.protocol import states_of_columns
from synth.reading import files, text
from synth.reports.document import report_page
from synth.reports.evidence import SafeEvidence
from synth.reports.relations import published_relations, relations_of
from synth.schema import NumberColumn, RunConfig, Schema, TableFormat
from synth.schema.encoding import NUMBER, numbers_of_texts
from synth.system.settings import ReaderLimits

FEW, MANY = 60, 240
LIMITS = ReaderLimits()


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


def test_numbers_without_a_letter_are_what_the_pattern_takes() -> None:
    """Texts of signs, points and digits are converted together where all are numbers: each as it is by itself."""
    signs = "0.+-"
    texts = ["".join(chosen) for length in range(6) for chosen in itertools.product(signs, repeat=length)]
    written = [re.fullmatch(NUMBER.strip("^$"), text) is not None for text in texts]
    alone = [not np.isnan(numbers_of_texts(pa.array([text]))).any() for text in texts]
    assert alone == written
    # One that is no number takes all to the pattern, and changes none of the others.
    together = numbers_of_texts(pa.array([*texts, None, "1e3", "x"], pa.string()))
    assert [not unreadable for unreadable in np.isnan(together)] == [*written, False, True, False]
    good = [text for text, right in zip(texts, written, strict=True) if right]
    assert np.array_equal(numbers_of_texts(pa.array(["", *good, "2.5"]))[1:], [*map(float, good), 2.5])


@pytest.mark.parametrize("long", [False, True])
def test_rows_are_counted_the_same_one_by_one_and_by_the_places_of_their_characters(
    long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "_LONG_ROWS", 1 if long else 2**30)
    lines = ["a,b,c", "1,2,3", "", '"x,""y",2,3', "1,2", "1,2,3,4", '1,"2,3', " ", "1\r,2,3", "\ufeff1,2,3\r", "7,8,9"]
    table = text.TextTable(
        files.Counted(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), 2**20, "The file"),
        TableFormat(),
        LIMITS,
    )
    read = [
        (list(zip(*(column.to_pylist() for column in columns), strict=True)), malformed.tolist())
        for columns, malformed in table.batches([0, 1, 2])
    ]
    nothing = (None, None, None)
    rows = [
        ("1", "2", "3"),
        ('x,"y', "2", "3"),
        nothing,
        nothing,
        nothing,
        ("1\r", "2", "3"),
        ("1", "2", "3"),
        ("7", "8", "9"),
    ]
    assert read == [(rows, [row == nothing for row in rows])]
    assert table.blank == 2
    assert table.unreadable == {"fewer": 1, "one more": 1, "more": 0, "quotation": 1, "encoding": 0, "length": 0}


def test_what_was_read_is_not_held_beside_what_is_read_next() -> None:
    """A batch that was passed on is gone before the next block of the file is asked for."""
    columns = 4
    lines = b"".join(b"%d,2,3,4\n" % place for place in range(200_000))
    held: list[weakref.ref[pa.Array]] = []
    alive: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            alive.append(sum(one() is not None for one in held))
            return super().read(size)

    source = Watched(b"a,b,c,d\n" + lines)
    opened = files.open_batches(source, TableFormat(), LIMITS, ranges=None)
    batches = opened.read(range(columns))
    while (batch := next(batches, None)) is not None:
        held.append(weakref.ref(batch.columns[0]))
        del batch
    assert len(held) > 1
    assert max(alive) == 0


@pytest.mark.slow
@pytest.mark.parametrize("generator", ["independent", "dp-hp-adaptive"])
def test_five_thousand_columns_end_in_a_release_that_a_check_accepts_within_its_usual_limits(
    generator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    names = [f"q{place}" for place in range(5_000)]
    cells = np.random.default_rng(5).integers(0, 3, (2_000, len(names)))
    table = tmp_path / "wide.csv"
    table.write_text("\n".join(",".join(map(str, row)) for row in [names, *cells.tolist()]) + "\n", encoding="utf-8")
    said = {
        "table": str(table),
        "account": "wide",
        "unit": {"protects": "person", "rows_per_unit": 1, "id_column": None},
        "row_count": "private",
        "people_at_most": 10_000,
        "holdout": 0,
        "budget": {"epsilon": 1.0},
        "generator": {"name": generator},
        "rows": 2_000,
        "columns": {name: {"type": "number", "low": 0, "high": 2, "step": 1, "fallback": 0} for name in names},
    }
    config = tmp_path / "wide.yaml"
    config.write_text(json.dumps(said), encoding="utf-8")
    assert main(["run", str(config), "--out", str(tmp_path / "out"), "--no-owner-report"]) == 0
    assert synth.verify(tmp_path / "out" / "bundle.zip").ok
