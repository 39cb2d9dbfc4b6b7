"""What is asked and told of a label that is a number: who is counted, how trees predict, what ranges cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synth.errors import ConfigError
from synth.privacy.feature_maps import bound_of
from synth.privacy.more.losses import Losses
from synth.reports.holdout import WIDEST_LOSS, loss_question, planned_question
from synth.reports.prediction.charged import mean_loss
from synth.reports.prediction.problem import Measure
from synth.reports.tree_predictors import constant_losses, synthetic_losses
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 80, 1, missing=True),
        CategoryColumn("town", ("a", "b", "c", "d"), missing=True),
        YesNoColumn("smoker"),
        # 99 lies within the range, -1 does not.
        NumberColumn("cost", 0, 100, 0.5, special=(-1.0, 99.0), missing=True),
    ),
    number_of_units=1000,
)
UNKNOWN = (201, 203)  # -1 and missing
KNOWN_SPECIAL = 202


def config_of(*groups: str) -> RunConfig:
    return RunConfig(
        schema=SCHEMA,
        account="town",
        epsilon=1.0,
        delta=1e-6,
        people_at_most=1000,
        rows=1000,
        label="cost",
        holdout=0.2,
        prediction_share=0.1,
        groups=groups,
    )


def rows_of(count: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    age, town, smoker = (random.integers(0, size, count) for size in (81, 4, 2))
    cost = 20 + 0.5 * age + np.array([0, 25, 5, 15])[town] * smoker + random.normal(0, 3, count)
    codes = np.rint(cost.clip(0, 100) * 2).astype(np.int64)
    codes[:6] = [*UNKNOWN, KNOWN_SPECIAL] * 2
    return [age, town, smoker, codes]


@pytest.mark.thorough
def test_the_trees_predict_about_as_well_as_can_be() -> None:
    made, real = rows_of(6000, 1), rows_of(3000, 2)
    losses = synthetic_losses(made, SCHEMA, "cost", seed=3)
    assert losses.features.columns == ("age", "town", "smoker")
    assert losses.features.dimension == 64
    found = losses.evaluate(dict(zip(SCHEMA.names, real, strict=True)))[6:, 0].mean()
    # The noise of a cost has a standard deviation of 3 in a range of 100.
    assert 0.0009 < found < 0.0015
    plain = constant_losses(made, SCHEMA, "cost").evaluate(dict(zip(SCHEMA.names, real, strict=True)))[6:, 0].mean()
    assert plain == pytest.approx(float(np.var(real[3][6:] / 200)), rel=0.05)
    again = synthetic_losses(made, SCHEMA, "cost", seed=3)
    assert again.is_same(losses)


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_that_teach_nothing_leave_a_constant(rows: int) -> None:
    made = [codes[6 : 6 + rows] for codes in rows_of(20, 1)]
    losses = synthetic_losses(made, SCHEMA, "cost", seed=3)
    assert losses.features.columns == ()
    assert losses.parameters.tolist() == pytest.approx([made[3][0] / 200 if rows else 0.5], abs=1e-6)


@pytest.mark.parametrize("groups", [(), ("town",), ("town", "smoker")])
def test_every_row_is_counted_once_and_those_without_a_label_apart(groups: tuple[str, ...]) -> None:
    made = rows_of(500, 1)
    question = loss_question(constant_losses(made, SCHEMA, "cost"), config_of(*groups))
    codes = dict(zip(SCHEMA.names, made, strict=True))
    found = question.evaluate(codes).sum(axis=0)
    parts = np.split(found, np.cumsum([part.dimension for part in question.inner])[:-1]) if len(groups) > 1 else [found]
    for part in parts:
        by_known = (part * math.sqrt(max(len(groups), 1))).reshape(2, 2, -1).sum(axis=(0, 2))
        np.testing.assert_allclose(by_known, [496, 4])
    bound = bound_of(question.blocks(), half_bits=16)
    assert (bound.norm, bound.diameter) == pytest.approx((1.0, math.sqrt(2)), rel=1e-6)
    planned = bound_of(planned_question(config_of(*groups)).blocks(), half_bits=16)
    assert planned == bound


def test_a_predictor_may_not_look_at_what_it_predicts() -> None:
    other = synthetic_losses(rows_of(500, 1), SCHEMA, "age", seed=1)
    assert isinstance(other, Losses)
    with pytest.raises(ConfigError, match="must not use that column"):
        loss_question(other, config_of())


@pytest.mark.parametrize(("rows", "mean"), [(100, 0.02), (300, 0.001), (300, 0.5), (2000, 0.9)])
def test_ranges_of_a_mean_loss_cover_what_they_have_to(rows: int, mean: float) -> None:
    noise_std, random, covered, shown = 3.0, np.random.default_rng([rows, 5]), 0, 0
    for _ in range(2000):
        noisy = np.array([rows * mean, rows * (1 - mean)]) + random.normal(0, noise_std, 2)
        found = mean_loss(*noisy.tolist(), noise_std)
        if found.value is not None and found.error is not None:
            shown += 1
            covered += abs(found.value - mean) <= found.error
    assert shown > 1500
    assert covered / shown > 0.94


def test_what_noise_hides_has_no_value() -> None:
    assert mean_loss(0.5, 9.0, 3.0) == Measure(None, None)  # hardly any rows
    hidden = mean_loss(20.0, 20.0, 3.0)
    assert hidden == Measure(None, None)  # half of 40 rows, and known to about .15
    exact = mean_loss(10.0, 90.0, 1e-9)
    assert exact.value == pytest.approx(0.1)
    assert exact.error == pytest.approx(0.0, abs=1e-9)
    near = mean_loss(-2.0, 300.0, 3.0)
    assert near.value == 0.0
    assert near.error is not None
    assert near.error < WIDEST_LOSS


@pytest.mark.parametrize(("levels", "most"), [(500, 503), (2**24 - 300, 2**15 + 3)])
def test_a_long_range_of_numbers_is_predicted_to_within_half_a_step_of_many(levels: int, most: int) -> None:
    column = NumberColumn("cost", 0, levels - 1, 1, special=(-1.0, 99.0), missing=True)
    losses = constant_losses([np.array([3, 9])], Schema((column,)), "cost")
    assert len(losses.target.table) == most
    random = np.random.default_rng(1)
    codes = np.concatenate([random.integers(0, levels, 1000), np.arange(levels - 2, column.size)])
    found = losses.target.evaluate({"cost": codes})[:, 0]
    truly = np.concatenate([codes[:1002], [0, 99, 0]]) / (levels - 1)
    assert np.abs(found - truly).max() <= 2**-20 + (2**-16 if levels > 2**16 else 0)
