"""Excessive risk by group: by hand, on planted harm, and under no harm at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_downstream import OPTIONS, owner, problem, rows_of

from synth.errors import RunCancelledError
from synth.progress import NullProgress
from synth.reports.code_tables import CodeTable
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Bars, Table
from synth.reports.prediction.disparity import (
    FEWEST_ROWS,
    GroupRisks,
    excessive_risk,
    losing_groups,
    mean_losses,
    monte_carlo_error,
    spread_of_releases,
)
from synth.reports.prediction.over_runs import who_pays
from synth.reports.prediction.problem import Problem
from synth.reports.prediction.scores import resampled
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn


def shuffled_rows(rows: list[np.ndarray], *, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng([seed, 3])
    return [random.permutation(codes) for codes in rows]


def test_losses_are_averaged_by_group_for_every_weighting() -> None:
    weights = np.array([[1, 1, 1, 1], [2, 0, 0, 2]])
    found = mean_losses(np.array([1.0, 0.0, 0.5, 0.0]), np.array([0, 0, 1, 2]), 4, weights)
    np.testing.assert_array_equal(found[0], [0.375, 0.5, 0.5, 0.0, np.nan])
    np.testing.assert_array_equal(found[1], [0.5, 1.0, np.nan, 0.0, np.nan])


def test_excessive_risk_and_its_gap_by_hand() -> None:
    # One training, one group of 60 rows and one of 40.
    real, made = np.array([[[0.10, 0.10, 0.10]]]), np.array([[[0.16, 0.12, 0.22]]])
    still = np.ones((1, 3, 1))
    found = GroupRisks(("a", "b"), np.array([60, 40]), {"real": real * still, "synthetic": made * still})
    excess = excessive_risk(found, "synthetic")
    assert excess.overall == pytest.approx(0.06)
    np.testing.assert_allclose(excess.risk, [0.02, 0.12])
    np.testing.assert_allclose(excess.gap, [0.04, 0.06])
    assert losing_groups(found, excess) == ["b"]


def simulated(random: np.random.Generator, rates: list[float], sizes: list[int]) -> GroupRisks:
    """Predictors that err on 20 % after real rows; after synthetic rows a share of each group is lost, another won."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    weights = resampled(np.arange(len(groups)), 40, int(random.integers(2**31)))
    risks: dict[str, list[np.ndarray]] = {"real": [], "synthetic": []}
    wrong = random.random(len(groups)) < 0.2
    lost = ~wrong & (random.random(len(groups)) < (0.05 + np.array(rates)[groups]) / 0.8)
    won = wrong & (random.random(len(groups)) < 0.25)
    for _ in range(2):
        flip = random.random(len(groups)) < 0.01
        for name, losses in (("real", wrong), ("synthetic", (wrong | lost) & ~won)):
            risks[name].append(mean_losses((losses ^ flip).astype(float), groups, len(sizes), weights))
    labels = tuple(f"g{place}" for place in range(len(sizes)))
    return GroupRisks(labels, np.array(sizes), {name: np.array(found) for name, found in risks.items()})


@pytest.mark.thorough
def test_ranges_cover_and_nobody_is_named_where_nobody_loses() -> None:
    sizes = [1500, 400, 100, 40, 30, 12]
    named = covered = beyond = 0
    for seed in range(300):
        found = simulated(np.random.default_rng([seed, 41]), [0.0] * len(sizes), sizes)
        excess = excessive_risk(found, "synthetic")
        named += bool(losing_groups(found, excess))
        judged = found.judged
        assert judged.tolist() == [0, 1, 2, 3, 4]
        beyond += bool((np.abs(excess.apart) > excess.apart_error)[judged].any())
        covered += int((np.abs(excess.risk) <= excess.error)[judged].sum())
    # One side of a range that covers 95 % is crossed in 2.5 % of the draws; 300 of them.
    assert named / 300 < 0.055
    assert beyond / 300 < 0.09
    assert covered / (300 * 5) > 0.93


@pytest.mark.thorough
def test_a_group_that_pays_is_named_and_the_ranges_are_not_idle() -> None:
    sizes = [1500, 400, 100]
    named = [0, 0, 0]
    for seed in range(60):
        found = simulated(np.random.default_rng([seed, 43]), [0.0, 0.0, 0.25], sizes)
        for label in losing_groups(found, excessive_risk(found, "synthetic")):
            named[found.labels.index(label)] += 1
    assert named[2] >= 57
    assert named[0] + named[1] <= 3


def split_problem(*, harm: bool) -> Problem:
    """The label follows a number; harm turns it round in the synthetic rows of one group."""
    schema = Schema((NumberColumn("x", 0, 99, 1), CategoryColumn("town", ("a", "b", "c")), YesNoColumn("ill")))

    def rows(count: int, seed: int) -> list[np.ndarray]:
        random = np.random.default_rng(seed)
        x, town = random.integers(0, 100, count), random.choice(3, count, p=[0.6, 0.3, 0.1])
        return [x, town, ((x > 50) ^ (random.random(count) < 0.05)).astype(np.int64)]

    real, made = rows(900, 1), rows(900, 2)
    if harm:
        made[2] = np.where(made[1] == 2, 1 - made[2], made[2])
    tables = {"synthetic": made, "real": real, "control": shuffled_rows(real, seed=3)}
    return Problem(schema, "ill", tables, rows(800, 4), groups=("town", "x"))  # type: ignore[arg-type]


@pytest.mark.parametrize("harm", [False, True])
def test_planted_harm_is_found_and_named(harm: bool) -> None:
    entry = owner(split_problem(harm=harm), replace(OPTIONS, maximum_rows=900))["downstream.groups.town"]
    assert isinstance(entry, OwnerOnlyEvidence)
    bars, excess, accuracy = entry.figures
    assert isinstance(bars, Bars)
    assert isinstance(excess, Table)
    assert isinstance(accuracy, Table)
    assert [series.meaning for series in bars.series] == ["synthetic", "real", "control"]
    by_group = {row[0]: dict(zip(excess.header, row, strict=True)) for row in excess.rows}
    assert list(by_group) == ["all rows", "a", "b", "c"]
    for name, row in by_group.items():
        assert row["excess"] == pytest.approx(row["risk, synthetic rows"] - row["risk, real rows"])
        if name != "all rows":
            assert row["gap"] == pytest.approx(abs(row["excess"] - by_group["all rows"]["excess"]))
    right = {row[0]: row[2] for row in accuracy.rows}
    assert right["c"] == pytest.approx(1 - by_group["c"]["risk, synthetic rows"])
    if harm:
        assert "lose more than the rows as a whole, by more than chance in the test rows explains: c." in entry.sentence
        assert entry.value == by_group["c"]["gap"] > 0.3  # type: ignore[operator]
        assert entry.value > entry.error > 0  # type: ignore[operator]
    else:
        assert entry.value < 0.15  # type: ignore[operator]


@pytest.mark.thorough
def test_a_declared_range_is_told_apart_in_public_parts() -> None:
    entry = owner(split_problem(harm=False), replace(OPTIONS, maximum_rows=300))["downstream.groups.x"]
    bars = entry.figures[0]
    assert isinstance(bars, Bars)
    assert len(bars.categories) == 32
    assert bars.categories[0].startswith("0 to ")


@pytest.mark.thorough
def test_a_copy_costs_nobody_anything() -> None:
    asked = replace(split_problem(harm=False), groups=("town",))
    copied = replace(asked, tables={**asked.tables, "synthetic": asked.tables["real"]})
    entry = owner(copied)["downstream.groups.town"]
    assert entry.value == 0.0
    assert "No group loses more" in entry.sentence


@pytest.mark.thorough
def test_numbers_are_squared_errors_with_the_declared_range_as_one() -> None:
    entry = owner(replace(problem(label="age"), groups=("smoker",)))["downstream.groups.smoker"]
    _, excess, errors = entry.figures
    assert "declared range as 1" in entry.unit
    assert "Mean absolute error, units of age" in errors.title
    for row in excess.rows:  # type: ignore[union-attr]
        assert all(0 <= risk <= 1 for risk in row[2:5])


@pytest.mark.thorough
def test_one_group_or_small_ones_are_said_and_not_judged() -> None:
    asked = replace(problem(), groups=("smoker",))
    alone = [np.zeros_like(codes) if place == 2 else codes for place, codes in enumerate(asked.test)]
    entry = owner(replace(asked, test=alone))["downstream.groups.smoker"]
    assert entry.value is None
    assert "nothing is compared" in entry.sentence
    few = rows_of(asked.schema, 45, seed=8)
    few[3] = np.minimum(few[3], 1)
    few[2] = (np.arange(45) < FEWEST_ROWS - 1).astype(np.int64)
    entry = owner(replace(asked, test=few))["downstream.groups.smoker"]
    assert entry.value is None
    assert len(entry.figures[1].rows) == 3  # type: ignore[union-attr]


# Over many runs -----------------------------------------------------------------------------------------------------


def test_spread_and_monte_carlo_error_by_hand() -> None:
    # Three runs whose excess over all rows is .1, .2 and .3, and that of the one group 0, .3 and .6.
    made = np.array([[[0.2, 0.1]], [[0.3, 0.4]], [[0.4, 0.7]]])
    found = GroupRisks(("a",), np.array([60]), {"real": np.full((3, 1, 2), 0.1), "synthetic": made})
    np.testing.assert_allclose(spread_of_releases(found), [0.1, 0.3])
    # Student's t with two degrees of freedom leaves 2.5 % beyond 4.302653.
    np.testing.assert_allclose(monte_carlo_error(found), 4.302653 / np.sqrt(3) * np.array([0.1, 0.3]), rtol=1e-6)


def over_runs(asked: Problem, made: list[CodeTable], stop: int | None = None) -> dict[str, OwnerOnlyEvidence]:
    class Stopping(NullProgress):
        def step(self, k: int, of: int) -> None:
            if k == stop:
                raise RunCancelledError("The run was cancelled.")

    left = list(made)
    options = replace(OPTIONS, maximum_rows=900)
    found = who_pays(asked, lambda: left.pop(0), options, Stopping(), runs=len(made), tested_on="the hold-out")
    return {entry.id: entry for entry in found}


@pytest.mark.thorough
@pytest.mark.parametrize("harm", [False, True])
def test_what_all_runs_do_to_a_group_is_found_and_named(harm: bool) -> None:
    asked = replace(split_problem(harm=harm), groups=("town",))
    made = asked.tables["synthetic"]
    runs = [[codes[place:] for codes in made] for place in (0, 50, 100)]
    entry = over_runs(asked, runs)["excess.town"]
    assert type(entry) is OwnerOnlyEvidence
    table = entry.figures[1]
    assert isinstance(table, Table)
    by_group = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    for name, row in by_group.items():
        excess = row["risk, mean of 3 runs"] - row["risk, private rows"]  # type: ignore[operator]
        assert row["excess"] == pytest.approx(excess)
        if name != "all rows":
            assert row["gap"] == pytest.approx(abs(excess - by_group["all rows"]["excess"]))  # type: ignore[operator]
    assert ("c. The largest gap is that of c" in entry.sentence) is harm
    assert (entry.value > 0.3) is harm  # type: ignore[operator]


@pytest.mark.thorough
def test_runs_that_copy_the_private_rows_cost_nobody_anything_and_have_no_spread() -> None:
    asked = replace(split_problem(harm=False), groups=("town",))
    entry = over_runs(asked, [asked.tables["real"]] * 2)["excess.town"]
    assert entry.value == 0.0
    assert [row[7] for row in entry.figures[1].rows] == [0.0] * 4  # type: ignore[union-attr]


@pytest.mark.thorough
def test_runs_stop_between_two_of_them_and_say_why_there_are_none() -> None:
    asked = replace(split_problem(harm=False), groups=("town",))
    with pytest.raises(RunCancelledError):
        over_runs(asked, [asked.tables["real"]] * 3, stop=1)
    few = replace(asked, test=[codes[:9] for codes in asked.test])
    assert "Fewer than 20 rows" in over_runs(few, [])["excess.none"].sentence
