"""Distances inside groups: against a plain count, on copies, on planted harm; and how small a group noise allows."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from test_published import measured_session, release, simulated

from synth.privacy.feature_maps import OneHot
from synth.privacy.more.products import Product
from synth.reports.code_tables import coarse_bins
from synth.reports.controls import Anchored, anchored
from synth.reports.document import published_evidence
from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import Bars, Table
from synth.reports.groups import group_distances, owner_group_marginals
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

SCHEMA = Schema(
    (
        CategoryColumn("town", ("a", "b", "c", "d"), missing=True),
        NumberColumn("age", 0, 99, 1, missing=True),
        YesNoColumn("ill"),
        CategoryColumn("code", tuple(f"v{place}" for place in range(400))),
    )
)


def rows_of(count: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    town = random.choice(4, count, p=[0.5, 0.3, 0.15, 0.05])
    age = np.clip(20 * town + random.integers(0, 41, count), 0, 99)
    return [town, age, (age > 50).astype(np.int64), random.integers(0, 400, count)]


def tables(real: list[np.ndarray], made: list[np.ndarray]) -> Anchored:
    return anchored(real, made, SCHEMA, control_noise=2.0, seed=0)


def plain_distance(one: list[np.ndarray], other: list[np.ndarray], places: tuple[int, ...]) -> float:
    """Total variation, cell by cell."""
    counts: dict[tuple[int, ...], list[float]] = {}
    for which, table in enumerate((one, other)):
        for cell in zip(*(table[place].tolist() for place in places), strict=True):
            counts.setdefault(cell, [0.0, 0.0])[which] += 1 / len(table[0])
    return 0.5 * sum(abs(left - right) for left, right in counts.values())


@pytest.mark.parametrize("alpha", [1, 2])
def test_distances_are_those_of_a_plain_count(alpha: int) -> None:
    real, made = rows_of(600, 1), rows_of(300, 2)
    found = group_distances(tables(real, made), "town", alpha=alpha, limit=100)
    bins = coarse_bins(SCHEMA.modelled_column("age"))
    coarse = [[town, bins[age], ill, code] for town, age, ill, code in (real, made)]
    sets = list(itertools.combinations((1, 2, 3), alpha))
    overall = np.mean([plain_distance(*coarse, places) for places in sets])
    assert found.distances[0, 0] == pytest.approx(overall)
    for group in range(4):
        inside = [[codes[table[0] == group] for codes in table] for table in coarse]
        wanted = np.mean([plain_distance(*inside, places) for places in sets])
        assert found.distances[0, 1 + group] == pytest.approx(wanted)
    assert np.isnan(found.distances[:, 5]).all(), "nobody's town is missing"


def entry_of(real: list[np.ndarray], made: list[np.ndarray], group: str = "town") -> OwnerOnlyEvidence:
    (entry,) = owner_group_marginals(tables(real, made), (group,))
    assert type(entry) is OwnerOnlyEvidence
    assert "do not publish" in entry.sentence
    return entry


def test_a_copy_is_nowhere_apart_and_harm_to_one_group_is_named() -> None:
    real = rows_of(3000, 1)
    bars, table = entry_of(real, real).figures
    assert isinstance(bars, Bars)
    assert isinstance(table, Table)
    assert bars.categories == ("a", "b", "c", "d")
    assert set(bars.series[0].values) == {0.0}
    assert [row[0] for row in table.rows] == ["all rows", "a", "b", "c", "d"]
    made = rows_of(3000, 2)
    harmed = [codes.copy() for codes in made]
    harmed[1][made[0] == 3] = 0
    entry = entry_of(real, harmed)
    assert "It is largest for d;" in entry.sentence
    assert entry.value > entry.error > 0  # type: ignore[operator]
    honest = entry_of(real, made)
    # A column of 400 values cannot be told from chance in a group of 150 rows.
    assert honest.value < 0.25 * entry.value  # type: ignore[operator]


def test_a_group_that_vanished_is_named_and_as_far_as_can_be() -> None:
    real, made = rows_of(900, 1), rows_of(900, 2)
    gone = [codes[made[0] != 2] for codes in made]
    entry = entry_of(real, gone)
    assert "Groups without synthetic rows, at distance 1: c." in entry.sentence
    assert entry.figures[0].series[0].values[2] == 1.0  # type: ignore[union-attr]
    assert entry.figures[1].rows[3][3] == 0.0  # type: ignore[union-attr]


def test_ranges_cover_another_draw_of_the_private_rows() -> None:
    made, covered, drawn = rows_of(2000, 99), 0, []
    for seed in range(40):
        found = group_distances(tables(rows_of(800, seed), made), "town", alpha=1, limit=10)
        drawn.append((found.distances[0], found.error))
    distances, errors = (np.array(each)[:, :5] for each in zip(*drawn, strict=True))
    covered = (np.abs(distances - distances.mean(axis=0)) <= errors).mean()
    assert 0.85 < covered <= 1.0
    assert (errors.mean(axis=0) < 4 * distances.std(axis=0)).all()


def test_ranges_of_numbers_are_groups_in_public_parts_and_two_columns_have_no_pairs() -> None:
    real, made = rows_of(400, 1), rows_of(400, 2)
    assert len(entry_of(real, made, "age").figures[0].categories) <= 33  # type: ignore[union-attr]
    schema = Schema(SCHEMA.columns[:1] + SCHEMA.columns[2:3])
    two = anchored(real[:3:2], made[:3:2], schema, control_noise=2.0, seed=0)
    (entry,) = owner_group_marginals(two, ("town",))
    assert "single columns" in entry.sentence
    assert len(entry.figures[1].header) == 8  # type: ignore[union-attr]
    assert owner_group_marginals(replace(two, schema=Schema(SCHEMA.columns[:1])), ("town",)) == ()


def test_steps_are_told_and_may_stop() -> None:
    steps: list[tuple[int, int]] = []
    both = tables(rows_of(200, 1), rows_of(200, 2))
    owner_group_marginals(both, ("town", "ill"), on_step=lambda done, of: steps.append((done, of)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_how_small_a_group_can_be_follows_from_the_noise_alone() -> None:
    schema = Schema((CategoryColumn("x", ("a", "b")), CategoryColumn("y", ("a", "b")), CategoryColumn("z", ("a", "b"))))
    config = RunConfig(
        schema=schema, account="a", epsilon=1.0, rows=4, delta=1e-6, people_at_most=5000, groups=("x", "z")
    )
    single = release(OneHot(("x",), (None,), (2,)), [900.0, 60.0], noise=3.0)
    pair = release(
        Product((OneHot(("x",), (None,), (2,)), OneHot(("y",), (None,), (2,)))), [450.0, 450, 30, 30], noise=4.0
    )
    other = release(OneHot(("z",), (None,), (2,)), [900.0, 60.0], noise=3.0)
    made = np.zeros((4, 3), dtype=np.int64)
    found = {entry.id: entry for entry in published_evidence(made, [single, pair, other], config)}
    entry = found["groups.smallest.x"]
    assert type(entry) is SafeEvidence
    assert entry.value == math.ceil(1.959964 * 5.0 / 0.05)
    assert "these groups are smaller: b." in entry.sentence
    assert entry.figures[0].rows == (("y", 980, 490, 196, 98, 49),)  # type: ignore[union-attr]
    assert found["groups.smallest.z"].value is None
    assert "the model's guess" in found["groups.smallest.z"].sentence


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("summed", [False, True], ids=["size measured apart", "size summed"])
def test_in_a_group_of_that_size_noise_stays_below_the_error(share: float, summed: bool) -> None:
    random = np.random.default_rng([int(100 * share), summed])
    cells, noise, draws = 5, 4.0, 20_000
    of_size = noise * math.sqrt(cells) if summed else 6.0
    rows = 1.959964 * math.hypot(noise, of_size) / 0.05
    on_cells = random.normal(0, noise, (draws, cells))
    on_size = on_cells.sum(axis=1) if summed else random.normal(0, of_size, draws)
    errors = (share * rows + on_cells[:, 0]) / (rows + on_size) - share
    assert (np.abs(errors) <= 0.05).mean() >= 0.945


def test_the_published_groups_of_a_session_are_safe() -> None:
    schema, codes = simulated()
    session = measured_session(schema, codes)
    made = np.column_stack([codes[name][:100] for name in schema.names])
    group = next(column.name for column in schema.modelled if isinstance(column, CategoryColumn))
    config = RunConfig(
        schema=schema, account="a", epsilon=1.0, rows=100, delta=1e-6, people_at_most=5000, groups=(group,)
    )
    found = {entry.id: entry for entry in published_evidence(made, session.sums, config, rows=session.rows)}
    assert found[f"groups.smallest.{group}"].kind == "safe"
    assert found[f"groups.smallest.{group}"].value is None
