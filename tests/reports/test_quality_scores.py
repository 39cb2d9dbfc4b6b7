"""SDMetrics scores: a copy is perfect, shuffled columns lose on pairs, and odd tables are no trouble."""

from __future__ import annotations

import datetime
import importlib.util
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from synth.reports.controls import anchored
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Table
from synth.reports.scores import _torch_left_out, owner_scores
from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema, YesNoColumn

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 0.5, special=(-1,), missing=True),
        CategoryColumn("region", ("n", "s", "e"), other=True, missing=True),
        YesNoColumn("ill", missing=True),
        YesNoColumn("well"),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31), missing=True),
    )
)


def drawn(schema: Schema, rows: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    places = [0.9 * cause + 0.1 * random.random(rows) for _ in schema.modelled]
    return [np.minimum((size * place).astype(int), size - 1) for size, place in zip(schema.sizes, places, strict=True)]


def scored(real: list[np.ndarray], made: list[np.ndarray], schema: Schema) -> dict[str, OwnerOnlyEvidence]:
    tables = anchored(real, made, schema, control_noise=1.0, seed=0)
    found = owner_scores(tables)
    assert {type(entry) for entry in found} == {OwnerOnlyEvidence}
    return {entry.id: entry for entry in found}


@pytest.mark.thorough
def test_a_copy_is_perfect_and_shuffled_columns_lose_on_pairs() -> None:
    real = drawn(SCHEMA, 1000, seed=1)
    assert scored(real, real, SCHEMA)["scores.quality"].value == pytest.approx(1)
    random = np.random.default_rng(2)
    found = scored(real, [random.permutation(codes) for codes in real], SCHEMA)["scores.quality"]
    (table,) = found.figures
    assert isinstance(table, Table)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["overall"][0] == found.value
    assert rows["Column Shapes"][0] == pytest.approx(1)
    assert rows["Column Pair Trends"][0] < 0.8  # type: ignore[operator]
    # The bootstrap is better than unrelated columns.
    assert rows["overall"][2] > rows["overall"][1]  # type: ignore[operator]


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_scores() -> None:
    real, made = drawn(SCHEMA, 300, seed=1), drawn(SCHEMA, 200, seed=2)
    assert scored(real, made, SCHEMA) == scored(real, made, SCHEMA)


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        scored(drawn(SCHEMA, 100, seed=1), drawn(SCHEMA, 100, seed=2), SCHEMA)
    assert not [record for record in caplog.records if record.name.startswith("sdmetrics")]


@pytest.mark.parametrize("rows", [1, 200])
@pytest.mark.parametrize("constant", [False, True], ids=["spread", "constant or missing"])
def test_odd_tables(rows: int, constant: bool) -> None:
    for schema in (Schema(SCHEMA.columns[:1]), Schema(SCHEMA.columns[1:2]), SCHEMA):
        real = drawn(schema, rows, seed=1)
        if constant:
            real = [np.full(rows, size - 1) for size in schema.sizes]
        found = scored(real, drawn(schema, 50, seed=2), schema)
        assert set(found) == {"scores.quality", "scores.diagnostic"}


@pytest.mark.thorough
def test_wide_tables_are_scored_on_some_columns() -> None:
    schema = Schema(tuple(CategoryColumn(f"c{place}", ("a", "b")) for place in range(60)))
    found = scored(drawn(schema, 100, seed=1), drawn(schema, 100, seed=2), schema)
    assert "20 of 60 columns, a seeded sample" in found["scores.quality"].sentence


def test_long_lists_of_categories_are_left_out() -> None:
    long = CategoryColumn("long", tuple(map(str, range(5000))))
    both = Schema((long, YesNoColumn("ill")))
    found = scored(drawn(both, 100, seed=1), drawn(both, 100, seed=2), both)
    assert "1 of 2 columns" in found["scores.quality"].sentence
    alone = Schema((long,))
    assert scored(drawn(alone, 100, seed=1), drawn(alone, 100, seed=2), alone)["scores.none"].value is None


def test_torch_is_left_out_for_the_thread_that_asks_and_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", object())
    del sys.modules["torch"]  # and what stood there comes back at the end
    with _torch_left_out():
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("torch")
        with ThreadPoolExecutor(1) as other:
            assert other.submit(importlib.util.find_spec, "torch").result() is not None
    assert importlib.util.find_spec("torch") is not None


@pytest.mark.thorough
def test_scores_load_no_torch() -> None:
    script = "import sys; from synth.reports.scores import _reports; _reports(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
