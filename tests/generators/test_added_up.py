"""Sums of numbers: where values are clipped, how far a row moves them, and bins that agree with them."""

from __future__ import annotations

import datetime
import itertools
import math

import numpy as np
import pytest
from simulated import session

from synth.generators.adaptive import sums
from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.adaptive.sums import (
    QUERY,
    ClippedSum,
    measure_sums,
    share_for_sums,
    summed_numbers,
    with_mean,
)
from synth.generators.one_way_marginals import OneWayMarginals, measure_one_way_marginals
from synth.generators.sampling import random_source
from synth.privacy.answers import sensitivity_of_sum
from synth.privacy.feature_maps import Stack
from synth.privacy.session import PrivateSession
from synth.reports.interval_estimates import SummedTable
from synth.reports.interval_estimates import summed_numbers as released_sums
from synth.reports.intervals import column_numbers
from synth.reports.measured import compare_measured
from synth.schema import CategoryColumn, DateColumn, NumberColumn, PrivacyUnit, RunConfig, Schema

COST = NumberColumn("cost", 0, 10_000_000, 1, special=(-1.0,), missing=True)
GAIN = NumberColumn("gain", -1_000_000, 1_000_000, 1)
KIND = CategoryColumn("kind", ("a", "b"))
ROWS = 4000


def schema_of(row_count: str = "private", rows_per_unit: int = 1) -> Schema:
    return Schema((COST, GAIN, KIND), PrivacyUnit(rows_per_unit=rows_per_unit), row_count=row_count)


def bills(zeros: float = 0.5, seed: int = 0) -> dict[str, np.ndarray]:
    """Costs that are often zero, gains of both signs; codes, of which a few say that a cost is special or missing."""
    random = np.random.default_rng(seed)
    cost = np.where(random.random(ROWS) < zeros, 0, np.rint(np.exp(7 + random.normal(size=ROWS)))).astype(int)
    cost[:40], cost[40:100] = COST.levels, COST.levels + 1
    gain = np.rint(2000 * random.standard_t(3, ROWS)).astype(int) + 1_000_000
    return {"cost": cost, "gain": gain, "kind": random.integers(0, 2, ROWS)}


def measured(
    declared: Schema, codes: dict[str, np.ndarray], noise_key: int | None = 0, epsilon: float = 1.0
) -> tuple[PrivateSession, OneWayMarginals, dict[str, ClippedSum]]:
    opened = session(declared, codes, epsilon=epsilon, noise_key=noise_key)
    one_ways = measure_one_way_marginals(opened, declared.modelled, label=None, share=0.4, source="test")
    return opened, one_ways, measure_sums(opened.sub_session(0.2), one_ways, "test")


def asked(opened: PrivateSession) -> Stack:
    (question,) = (one.feature_map for one in opened.sums if one.query == QUERY)
    assert isinstance(question, Stack)
    return question


def test_long_numbers_are_added_up_and_nothing_else() -> None:
    short = NumberColumn("short", 0, 63, 1)
    day = DateColumn("day", datetime.date(2024, 1, 1), datetime.date(2025, 1, 1))
    assert summed_numbers((COST, short, day, KIND, GAIN)) == (COST, GAIN)


@pytest.mark.parametrize("row_count", ["private", "public"])
@pytest.mark.parametrize("several", [1, 3])
def test_no_row_moves_the_sums_farther_than_is_stated(row_count: str, several: int) -> None:
    """By the definition, over all pairs of the codes at which a step of a sum begins or ends."""
    declared = schema_of(row_count, several)
    opened, _, _ = measured(declared, bills())
    question = asked(opened)
    steps = []
    for part, column in zip(question.parts, (COST, GAIN), strict=True):
        codes = np.array(
            [0, 1, 50, 1000, 30_000, column.levels // 2, column.levels - 1, *range(column.levels, column.size)]
        )
        steps.append(part.evaluate({column.name: codes})[:, 0])
    rows = np.array(list(itertools.product(*steps))) * question.weights
    longest = float(np.linalg.norm(rows, axis=1).max())
    apart = max(float(np.linalg.norm(rows - one, axis=1).max()) for one in rows)
    least = longest if row_count == "private" else max(apart, longest if several > 1 else 0.0)
    stated = sensitivity_of_sum(question, declared, half_bits=18)
    assert several * least <= stated <= several * least * 1.2


@pytest.mark.parametrize("row_count", ["private", "public"])
def test_a_sum_without_noise_is_that_of_clipped_values(row_count: str) -> None:
    codes = bills()
    _, one_ways, found = measured(schema_of(row_count), codes, noise_key=None)
    for column, one_way in zip((COST, GAIN), one_ways.columns, strict=False):
        one = found[column.name]
        values = codes[column.name][codes[column.name] < column.levels]
        expected = ((np.clip(values, one.low, one.high) - one.origin) / one.scale).sum()
        places = np.searchsorted(one_way.grid.first[: one_way.grid.levels], values, side="right") - 1
        # Every value counts as one in the middle of its place.
        slack = float((one_way.grid.width[places][values < one.high] / 2).sum()) / one.scale
        assert one.value == pytest.approx(expected, abs=slack + 0.01)
        assert one.low < one.origin < one.high


def test_where_values_are_clipped_follows_from_released_answers_alone() -> None:
    """Other rows with the same noisy counts are asked the same question: nothing else is looked at."""
    opened, one_ways, _ = measured(schema_of(), bills())
    other = session(schema_of(), bills(zeros=0.0, seed=5))
    measure_sums(other.sub_session(0.2), one_ways, "test")
    assert asked(opened).is_same(asked(other))


def test_rows_far_beyond_the_clipping_point_count_as_rows_at_it() -> None:
    codes = bills()
    _, one_ways, found = measured(schema_of(), codes, noise_key=None)
    farther = codes | {"cost": np.where(codes["cost"] == codes["cost"][100:].max(), 9_000_000, codes["cost"])}
    opened = session(schema_of(), farther, noise_key=None)
    again = measure_sums(opened.sub_session(0.2), one_ways, "test")
    moved = again["cost"].value - found["cost"].value
    assert 0 <= moved <= (farther["cost"] == 9_000_000).sum()


def test_noise_in_cells_far_out_makes_no_rows_there() -> None:
    """Of a range of ten million; a single row of noise in the last cell would be worth the sum of all rows."""
    codes = bills(zeros=0.9)
    farthest = codes["cost"][100:].max()
    reached = []
    for key in range(20):
        opened = session(schema_of(), codes, noise_key=key)
        one_ways = measure_one_way_marginals(opened, schema_of().modelled, label=None, share=0.2, source="test")
        one = one_ways.columns[0]
        places = np.flatnonzero(one.proportions[: one.grid.levels] > 0)
        reached.append(one.grid.first[places[-1]] / farthest)
        # What noise explains is still known, without bias.
        assert np.abs(one.everywhere.counts[places[-1] + 1 :]).sum() > 0
    assert np.median(reached) < 6.0
    assert max(reached) < 40.0


def test_rows_that_are_clearly_far_out_stay_there() -> None:
    codes = bills()
    codes["cost"][200:500] = 9_000_000
    _, one_ways, _ = measured(schema_of(), codes)
    one = one_ways.columns[0]
    far = one.grid.first[: one.grid.levels] > 8_000_000
    assert one.proportions[: one.grid.levels][far].sum() == pytest.approx(300 / ROWS, rel=0.3)


def agreed(key: int) -> tuple[ColumnBins, ColumnBins, np.ndarray, ClippedSum, OneWayMarginals]:
    opened, one_ways, found = measured(schema_of(), bills(seed=key), noise_key=key)
    before = coarsen(one_ways, Coarseness(bins=8))[0]
    after = with_mean(before, one_ways.columns[0], found["cost"], before.expected, one_ways.rows)
    assert opened.receipts[-1].query == QUERY
    return before, after, bills(seed=key)["cost"], found["cost"], one_ways


@pytest.mark.thorough
def test_bins_keep_their_rows_and_come_nearer_to_the_mean() -> None:
    errors = []
    for key in range(12):
        before, after, codes, one, ways = agreed(key)
        np.testing.assert_allclose(after.expected, before.expected, atol=1e-12)
        assert (after.proportions >= 0).all()
        middles = np.clip(sums._middles(ways.columns[0]), one.low, one.high)
        known = codes[codes < COST.levels]
        truth = float(np.clip(known, one.low, one.high).mean())
        held = [bins.proportions[: bins.grid.levels] for bins in (before, after)]
        errors.append([float(own @ middles) / float(own.sum()) / truth - 1 for own in held])
    was, now = np.sqrt(np.mean(np.square(errors), axis=0))
    assert now < was
    assert now < 0.1


def test_an_answer_without_noise_is_followed() -> None:
    before, _, codes, one, ways = agreed(3)
    known = codes[codes < COST.levels]
    exact = float(((np.clip(known, one.low, one.high) - one.origin) / one.scale).sum())
    sure = ClippedSum(one.low, one.high, one.origin, one.scale, exact * ways.rows / ROWS, 1e-9)
    on_grid = float(
        before.expected @ (np.bincount(before.bin_of_place[: before.grid.levels], minlength=before.size) > 0)
    )
    followed = with_mean(before, ways.columns[0], sure, before.expected, ways.rows)
    middles = np.clip(sums._middles(ways.columns[0]), one.low, one.high)
    mean = float(followed.proportions[: before.grid.levels] @ middles) / on_grid
    assert mean == pytest.approx(one.origin + one.scale * sure.value / (on_grid * ways.rows), rel=0.02)


@pytest.mark.parametrize(("epsilon", "expected"), [(1.0, 0.03), (1e-4, 0.0), (300.0, None)])
def test_the_share_follows_from_declared_facts(epsilon: float, expected: float | None) -> None:
    opened = session(schema_of("public"), bills(), epsilon=epsilon)
    other = session(schema_of("public"), bills(zeros=1.0), epsilon=epsilon)
    found = share_for_sums(opened, (COST, GAIN))
    assert found == share_for_sums(other, (COST, GAIN))
    assert found == expected if expected is not None else 0.002 <= found < 0.03
    assert share_for_sums(opened, ()) == 0.0


def interval(key: int, rows: dict[str, np.ndarray], epsilon: float = 3.0) -> tuple[float, float] | None:
    """The report's interval of the mean cost, from answers alone; made rows are others of the same law."""
    declared = schema_of()
    opened, _, _ = measured(declared, rows, noise_key=key, epsilon=epsilon)
    made = [bills(seed=99)[name] for name in declared.names]
    compared = compare_measured(made, declared, opened.sums, opened.rows)
    summed = released_sums(opened.sums)["cost"]
    single = next(one for one in compared if one.columns == ("cost",))
    ends = summed.intervals(COST, SummedTable.of(single, "cost"), made[0], opened.rows, k=1)
    config = RunConfig(declared, "test", epsilon, ROWS, 1e-5, ROWS)
    numbers = {one.name: one for one in column_numbers(compared, COST, made[0], config, summed)}
    if ends is None:
        assert "total of the private rows" not in numbers
        return None
    assert (numbers["mean"].low, numbers["mean"].high) == ends[0]
    total = numbers["total of the private rows"]
    assert total.low < total.high
    return ends[0]


@pytest.mark.thorough
def test_intervals_hold_the_mean_of_the_private_rows() -> None:
    held, widths = [], []
    for key in range(40):
        rows = bills(seed=key)
        known = np.where(rows["cost"] == COST.levels, -1, rows["cost"])[rows["cost"] <= COST.levels]
        ends = interval(key, rows)
        assert ends is not None
        held.append(ends[0] <= known.mean() <= ends[1])
        widths.append((ends[1] - ends[0]) / known.mean())
    assert np.mean(held) >= 0.95
    assert np.median(widths) < 0.5


def test_where_noise_hides_how_far_out_rows_lie_no_sum_is_believed() -> None:
    assert interval(1, bills(zeros=0.995), epsilon=0.5) is None


def test_noise_of_a_sum_is_that_of_its_receipt() -> None:
    declared = schema_of()
    opened, _, found = measured(declared, bills())
    answer = next(one for one in opened.sums if one.query == QUERY)
    for weight, name in zip(asked(opened).weights, ("cost", "gain"), strict=True):
        assert found[name].noise_std == pytest.approx(answer.noise_std / weight)
        assert math.isfinite(found[name].value)


def test_a_row_in_a_bin_without_rows_lies_at_its_inner_edge() -> None:
    _, one_ways, _ = measured(schema_of(), bills())
    one = one_ways.columns[0]
    places = np.arange(one.grid.size)
    cuts = np.array([np.flatnonzero(one.proportions[: one.grid.levels] > 0)[-1] + 1, one.grid.levels])
    bins = ColumnBins.of(one, np.searchsorted(cuts, places, side="right").astype(np.int32))
    drawn = bins.codes(np.full(50, 1), random_source(0))
    assert drawn.max() < one.grid.first[cuts[0]] + one.grid.width[cuts[0]]
