"""The best that one question with the whole budget can do for a mean and a 99th percentile, by the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from skewed import FAMILIES, at_best


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", ["lognormal 0.5", "zeros 0.7", "profit"])
def test_nobody_clips_better(family: str, relation: str) -> None:
    """Over all points to clip at, the expected error is that of a bias with Laplace noise."""
    values = np.sort(np.rint(FAMILIES[family](np.random.default_rng(0), 400)))
    # A replaced row moves a sum of both signs from one end to the other.
    diameter = 2 if relation == "replace_one" and values[0] < 0 else 1
    errors = []
    for high in np.abs(values[values != 0]):
        bias = abs(np.clip(values, -high, high).mean() - values.mean())
        noise = diameter * high / (0.5 * len(values))
        errors.append(bias + noise * np.exp(-bias / noise))
    found = at_best(values, 0.5, relation)["mean at best"]
    assert found == pytest.approx(min(errors) / np.abs(values).mean())


@pytest.mark.parametrize("family", ["lognormal 0.5", "zeros 0.7", "profit"])
def test_percentile_is_chosen_from_every_code_in_the_range(family: str) -> None:
    values = np.sort(np.rint(FAMILIES[family](np.random.default_rng(1), 400)))
    truth = values[int(np.ceil(0.99 * len(values))) - 1]
    codes = np.arange(values[0], values[-1] + 1)
    # How many ranks each code is from that of the truth, by the rows below it and up to it.
    below, up_to = (np.searchsorted(values, codes, side=side) for side in ("left", "right"))
    rank = np.ceil(0.99 * len(values))
    away = np.maximum(np.maximum(rank - up_to, below + 1 - rank), 0)
    chances = np.exp(-0.5 * away / 2)
    expected = chances @ np.abs(codes - truth) / chances.sum() / abs(truth)
    assert at_best(values, 0.5, "add_remove")["q99 at best"] == pytest.approx(expected)
