"""The scale of random sub-samples: one finds its own size, a copy is worth all rows, odd tables are no trouble."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from synth.reports.controls import anchored
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.fidelity.subsample import owner_subsample, percentage_of, subsample_scale
from synth.reports.figures import Table
from synth.schema import CategoryColumn, NumberColumn, Schema

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 1, missing=True),
        NumberColumn("income", 0, 1e6, 1),
        CategoryColumn("region", ("n", "s", "e", "w")),
        CategoryColumn("class", ("a", "b", "c")),
    )
)


def drawn(schema: Schema, rows: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    return [
        np.minimum((size * (0.8 * cause + 0.2 * random.random(rows))).astype(int), size - 1) for size in schema.sizes
    ]


def test_places_follow_the_error_of_a_sample_drawn_without_putting_back() -> None:
    sizes, n = (10, 100, 300), 1000
    distances = 0.5 * np.sqrt(1 / np.array(sizes) - 1 / n)
    for rows in (15, 50, 250, 999, 1000):
        distance = 0.5 * np.sqrt(1 / rows - 1 / n)
        assert percentage_of(distance, n, sizes, distances) == pytest.approx(rows / 10)
    assert percentage_of(0.2, n, sizes, distances) is None
    # Where chance turned two sizes around, more distance never means a larger sub-sample.
    crooked = np.array([0.2, 0.1, 0.12])
    places = [percentage_of(distance, n, sizes, crooked) or 0 for distance in np.linspace(0, 0.2, 50)]
    assert places == sorted(places, reverse=True)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_a_sub_sample_finds_its_own_size(share: float) -> None:
    real = drawn(SCHEMA, 20_000, seed=1)
    kept = np.random.default_rng(9).choice(20_000, int(share * 20_000), replace=False)
    scale = subsample_scale(real, [[codes[kept] for codes in real]], SCHEMA, seed=3)
    assert scale is not None
    assert scale.percentages[0] == pytest.approx(100 * share, rel=0.25)


def test_a_copy_is_worth_all_rows_and_a_bootstrap_half_of_them() -> None:
    real = drawn(SCHEMA, 5000, seed=1)
    tables = anchored(real, real, SCHEMA, control_noise=5.0, seed=0)
    found = {entry.id: entry for entry in owner_subsample(tables)}
    assert {type(entry) for entry in found.values()} == {OwnerOnlyEvidence}
    for alpha in (1, 2, 3):
        assert found[f"fidelity.subsample.{alpha}"].value == pytest.approx(100)
    scale = subsample_scale(real, [tables.floor, tables.control], SCHEMA)
    assert scale is not None
    # The variance of a bootstrap is 1/n, that of a sub-sample 1/m - 1/n.
    assert scale.percentages[0] == pytest.approx(50, rel=0.3)
    assert (scale.percentages[1] or 0) < 5
    (table,) = found["fidelity.subsample.distances"].figures
    assert isinstance(table, Table)
    assert table.header == ("table", "single columns", "pairs of columns", "sets of three columns")


def test_the_same_seed_gives_the_same_numbers() -> None:
    tables = anchored(drawn(SCHEMA, 500, 1), drawn(SCHEMA, 400, 2), SCHEMA, control_noise=5.0, seed=0)
    assert owner_subsample(replace(tables, seed=4)) == owner_subsample(replace(tables, seed=4))
    assert owner_subsample(replace(tables, seed=4)) != owner_subsample(replace(tables, seed=5))


def test_far_tables_are_worth_less_than_the_smallest_sub_sample() -> None:
    schema = Schema((CategoryColumn("a", ("x", "y")), CategoryColumn("b", ("x", "y"))))
    zeros = [np.zeros(2000, dtype=int)] * 2
    tables = anchored(zeros, [np.ones(100, dtype=int)] * 2, schema, control_noise=1.0, seed=0)
    first, *_ = owner_subsample(tables)
    assert first.value == pytest.approx(0.1)
    assert "less than 0.1 %" in first.sentence


@pytest.mark.parametrize("rows", [1, 2, 200])
@pytest.mark.parametrize("width", [1, 2])
def test_small_tables(rows: int, width: int) -> None:
    schema = Schema(tuple(NumberColumn(f"c{place}", 0, 9, 1, missing=True) for place in range(width)))
    tables = anchored(drawn(schema, rows, 1), drawn(schema, 30, 2), schema, control_noise=5.0, seed=0)
    names = [entry.id for entry in owner_subsample(tables)]
    expected = [f"fidelity.subsample.{alpha}" for alpha in range(1, width + 1)] + ["fidelity.subsample.distances"]
    assert names == ([] if rows == 1 else expected)


def test_wide_tables_are_sampled_and_say_so() -> None:
    schema = Schema(tuple(NumberColumn(f"c{place}", 0, 3, 1) for place in range(100)))
    tables = anchored(drawn(schema, 400, 1), drawn(schema, 400, 2), schema, control_noise=5.0, seed=0)
    told: list[tuple[int, int]] = []
    found = {entry.id: entry for entry in owner_subsample(tables, limit=50, on_step=lambda *at: told.append(at))}
    assert "50 of 4,950" in found["fidelity.subsample.2"].sentence
    assert told == [(1, 3), (2, 3), (3, 3)]
