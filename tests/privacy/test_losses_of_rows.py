"""Losses are data: squared errors of a public predictor in whole numbers, clipped to the range of the target."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from questions import SIZES, losses_of_each_kind, random_forest, small_codes, small_schema
from recorded_noise import RecordedNoise

from synth.bundle.answers import from_description
from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, bound_of
from synth.privacy.more.forests import Forest
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import LOSS_BITS, Losses
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours, PrivacyUnit

KINDS = losses_of_each_kind()
INCOMES = Lookup("income", np.arange(301)[:, None] / 300)
REGION = OneHot(("region",), (None,), (4,))


def true_losses(question: Losses, codes: dict[str, np.ndarray]) -> np.ndarray:
    """From the definition, in float64."""
    if isinstance(question.features, Forest):
        found = question.parameters[question.features.cells(codes.__getitem__, len(codes["age"]))]
    else:
        found = question.features.evaluate(codes) @ question.parameters
    targets = question.target.table[:, 0]
    wanted = question.target.evaluate(codes)[:, 0]
    return np.asarray(((found.clip(targets.min(), targets.max()) - wanted) / np.ptp(targets)) ** 2)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_squared_errors_with_the_range_of_the_target_as_one(kind: str) -> None:
    codes = small_codes(3000, seed=9)
    loss, rest = KINDS[kind].evaluate(codes).T
    # Features and errors are truncated to 2^-16, losses rounded to 2^-14.
    np.testing.assert_allclose(loss, true_losses(KINDS[kind], codes), atol=4e-4)
    np.testing.assert_array_equal(loss + rest, 1.0)
    assert loss.min() < 0.01
    assert loss.max() > 0.5


def test_a_row_between_two_cells_is_no_longer_and_no_farther_than_one_in_a_cell() -> None:
    for kind in KINDS.values():
        (whole,) = (bound_of(kind.blocks(), half_bits=12),)
        assert (whole.norm, whole.diameter) == pytest.approx((1.0, math.sqrt(2)))
    levels = np.arange(2**LOSS_BITS + 1) / 2**LOSS_BITS
    lengths = np.hypot(levels, 1 - levels)
    assert lengths.max() == 1.0
    # Both ends are met: a right guess and one that is as wrong as can be.
    forest = Forest((), (), np.zeros((1, 4), int), np.array([[1]]), np.array([0]), np.zeros((1, 0), int))
    ends = Losses(forest, np.array([0.0]), INCOMES).evaluate({"income": np.array([0, 300])})
    np.testing.assert_array_equal(ends, [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("unit", "row_count", "sensitivity"),
    [
        (PrivacyUnit(), "public", math.sqrt(2)),
        (PrivacyUnit(), "private", 1.0),
        (PrivacyUnit(rows_per_unit=3), "private", 3.0),
        (PrivacyUnit(rows_per_unit=3), "public", 3 * math.sqrt(2)),
    ],
)
def test_a_unit_moves_losses_by_group_as_it_moves_counts(unit: PrivacyUnit, row_count: str, sensitivity: float) -> None:
    schema = small_schema(row_count, unit)
    table = PrivateTable.from_codes(schema, small_codes(60), account_key=bytes(32))
    session = PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(None))
    question = Product((KINDS["losses of a forest"], REGION))
    answer = session.noisy_sum(question, share=1.0, query="q", source="test")
    assert answer.receipt.sensitivity == pytest.approx(sensitivity, rel=1e-9)
    assert (schema.neighbours is Neighbours.ADD_REMOVE) == (row_count == "private")
    by_region = np.zeros((2, 4))
    np.add.at(by_region.T, small_codes(60)["region"], KINDS["losses of a forest"].evaluate(small_codes(60)))
    np.testing.assert_allclose(answer.value, by_region, atol=1e-9)


def test_descriptions_give_the_same_losses_back_and_others_are_others() -> None:
    for question in KINDS.values():
        description, arrays = question.describe()
        again = from_description(description, arrays)
        assert isinstance(again, Losses)
        assert again.is_same(question)
        assert again.key == question.key
        other = dataclasses.replace(question, parameters=question.parameters + 2.0**-20)
        assert not other.is_same(question)
        assert other.key != question.key


def test_two_losses_never_share_what_was_counted() -> None:
    schema, codes = small_schema(), small_codes(300)
    session = PrivateSession(
        PrivateTable.from_codes(schema, codes), PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(None)
    )
    one = KINDS["losses of a forest"]
    for place, question in enumerate((one, dataclasses.replace(one, parameters=1 - one.parameters), one)):
        found = session.noisy_sum(question, share=0.2, query=f"q{place}", source="test").value
        np.testing.assert_allclose(found, question.evaluate(codes).sum(axis=0), atol=1e-9)


NUMBER = {"features": Constant(), "parameters": np.array([0.5]), "target": INCOMES}
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "parameters of another number of features": ({"parameters": np.zeros(2)}, "1 finite parameters"),
    "a parameter that is no number": ({"parameters": np.array([np.nan])}, "finite"),
    "a prediction that would be rounded": ({"parameters": np.array([2.0**15])}, "could reach"),
    "a target of two numbers": ({"target": Lookup("income", np.eye(301)[:, :2])}, "one number per code"),
    "a target that is no lookup": ({"target": Constant()}, "one number per code"),
    "one target for everybody": ({"target": Lookup("income", np.full((301, 1), 0.5))}, "two different numbers"),
    "features that are no table": (
        {"features": RowMoments((INCOMES,), 1.0, (0.0, 1.0, 0.0)), "parameters": np.zeros(1)},
        "made of",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_loss_is_refused(wrong: str) -> None:
    changes, words = WRONG[wrong]
    with pytest.raises(PrivacyError, match=words):
        Losses(**{**NUMBER, **changes})  # type: ignore[arg-type]


def test_losses_of_another_table_are_refused_before_anything_is_spent() -> None:
    schema = small_schema()
    session = PrivateSession(
        PrivateTable.from_codes(schema, small_codes(50)), PrivacyBudget(1.0, 1e-5, schema.neighbours)
    )
    short = Lookup("income", np.arange(300)[:, None] / 300)
    forest = dataclasses.replace(random_forest(), places=tuple(np.arange(SIZES[name] - 1) for name in SIZES)[:3])
    for question in (Losses(Constant(), np.ones(1), short), Losses(forest, np.ones(forest.dimension), INCOMES)):
        with pytest.raises(PrivacyError, match="make it from this schema"):
            session.noisy_sum(question, share=0.5, query="q", source="test")
    refused: tuple[FeatureMap, ...] = (KINDS["losses of a forest"], Lookup("age", np.eye(12)))
    with pytest.raises(PrivacyError, match="tables of counts only"):
        session.noisy_sum(Product(refused), share=0.5, query="q", source="test")
    assert session.remaining_share == 1.0


@pytest.mark.parametrize("half_bits", [10, 12])
@pytest.mark.parametrize("weight", [1.0, 0.5, math.sqrt(0.5)])
def test_a_weighted_loss_is_bounded_with_a_step_for_each_truncated_number(weight: float, half_bits: int) -> None:
    losses, step = next(iter(KINDS.values())), 2.0 ** (-2 * half_bits)
    found = losses.weighted_bound(weight, half_bits)
    level = np.linspace(0, 1, 2001)
    pairs = np.trunc(np.stack([level, 1 - level], axis=1) * weight / step) * step
    farthest = float(np.hypot(*(pairs[:, None] - pairs[None]).T).max())
    assert np.hypot(*pairs.T).max() <= found.norm == weight
    assert farthest <= found.diameter
    # Two numbers of two rows, each off by less than a step; of weight 1 nothing is truncated.
    truncated = 0.0 if weight == 1.0 else 2 * math.sqrt(2) * step
    assert found.diameter == pytest.approx(math.sqrt(2) * weight + truncated, rel=1e-15)
