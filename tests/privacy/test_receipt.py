"""A receipt survives JSON exactly and cannot hold an impossible number."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import PrivacyError, UnsupportedCostError
from synth.privacy.answers import NoisyAnswer
from synth.privacy.receipt import Receipt
from synth.schema import Neighbours


def receipt(**changes: object) -> Receipt:
    fields: dict[str, object] = {
        "sequence": 3,
        "query": "pair of age and income",
        "mechanism": "discrete_gaussian",
        "source": "dp-hp",
        "neighbours": Neighbours.ADD_REMOVE,
        "protects": "household",
        "rows_per_unit": 4,
        "sensitivity": 4.0,
        "noise_scale": 15.1,
        "dimension": 12,
        "grid": 2.0**-18,
        "mu_squared_units": 77_000_000_000,
        "slack": 1e-12,
        "additive_delta": 1e-9,
        "assumptions": ("The cap of 4 rows is declared.",),
    }
    return Receipt(**{**fields, **changes})


positive = st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False)


@given(positive, positive, positive, st.integers(1, 2**200), st.sampled_from(list(Neighbours)), st.text())
def test_json_gives_back_an_equal_receipt(
    sensitivity: float, noise: float, slack: float, units: int, neighbours: Neighbours, query: str
) -> None:
    paid = receipt(
        sensitivity=sensitivity,
        noise_scale=noise,
        slack=slack,
        mu_squared_units=units,
        neighbours=neighbours,
        query=query,
    )
    again = Receipt.from_dict(json.loads(json.dumps(paid.to_dict(), allow_nan=False)))
    assert again == paid
    assert isinstance(again.neighbours, Neighbours)
    assert isinstance(again.assumptions, tuple)


def test_whole_numbers_written_without_a_point_are_read() -> None:
    values = {**receipt().to_dict(), "noise_scale": 15, "additive_delta": 0}
    assert Receipt.from_dict(values).noise_scale == 15.0
    assert isinstance(Receipt.from_dict(values).additive_delta, float)


def test_every_field_is_needed_and_no_other() -> None:
    values = receipt().to_dict()
    with pytest.raises(PrivacyError, match="missing or unknown: colour"):
        Receipt.from_dict({**values, "colour": "red"})
    del values["private"]
    with pytest.raises(PrivacyError, match="missing or unknown: private"):
        Receipt.from_dict(values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sequence", 1.0),
        ("sequence", True),
        ("dimension", "12"),
        ("query", 5),
        ("neighbours", "swap"),
        ("neighbours", None),
        ("private", 1),
        ("private", "yes"),
        ("noise_scale", "15"),
        ("noise_scale", False),
        ("assumptions", "one sentence"),
        ("assumptions", [1]),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(PrivacyError, match=f"field '{name}' has a value of the wrong kind"):
        Receipt.from_dict({**receipt().to_dict(), name: value})


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("sensitivity", 0.0, "positive and finite"),
        ("noise_scale", -1.0, "positive and finite"),
        ("noise_scale", math.inf, "positive and finite"),
        ("grid", math.nan, "positive and finite"),
        ("slack", -1e-30, "finite and at least 0"),
        ("additive_delta", math.nan, "finite and at least 0"),
        ("rows_per_unit", 0, "at least 1"),
        ("dimension", 0, "at least 1"),
        ("mu_squared_units", 0, "at least 1"),
        ("mu_squared_units", -1, "at least 0"),
        ("pure_units", -1, "at least 0"),
        ("sequence", -1, "at least 0"),
    ],
)
def test_an_impossible_number_is_named(name: str, value: float, rule: str) -> None:
    with pytest.raises(PrivacyError, match=f"{name} must be {rule}, got {value}"):
        receipt(**{name: value})


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(UnsupportedCostError, match=r"must be one of discrete_gaussian, .*, got 'staircase'"):
        receipt(mechanism="staircase")


def test_a_receipt_is_private_unless_said_otherwise_and_cannot_be_changed() -> None:
    paid = receipt()
    assert paid.private
    with pytest.raises(dataclasses.FrozenInstanceError):
        paid.slack = 0.0


def test_a_release_keeps_its_own_unchangeable_copy() -> None:
    answer = np.arange(6, dtype=np.float64).reshape(2, 3)
    release = NoisyAnswer(receipt(), answer, "the question")
    answer[0, 0] = 99.0
    assert release.value[0, 0] == 0.0
    assert release.value.shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        release.value[0, 0] = 1.0


def test_a_release_tells_its_noise_and_a_selection_has_none() -> None:
    assert NoisyAnswer(receipt(), np.zeros(2), None).noise_std == 15.1
    with pytest.raises(PrivacyError, match="is a selection"):
        _ = NoisyAnswer(receipt(mechanism="exponential"), np.zeros(1), None).noise_std
