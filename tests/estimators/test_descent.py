"""A descent by hand: along what is asked, averaged over its later half."""

from __future__ import annotations

import numpy as np
import pytest

from synth.errors import InputError
from synth.estimators.random_features.fitting import averaged_descent


@pytest.mark.parametrize("steps", [1, 4, 5])
def test_descent_by_hand(steps):
    target, asked = np.array([1.0, -2.0]), []

    def ask(coefficients: np.ndarray) -> np.ndarray:
        asked.append(coefficients)
        return coefficients - target

    found = averaged_descent(ask, features=2, rate=0.3, steps=steps)
    now, path = np.zeros(2), []
    for _ in range(steps):
        path.append(now)
        now = now - 0.3 * (now - target)
    path.append(now)
    np.testing.assert_allclose(asked, path[:-1])
    np.testing.assert_allclose(found, np.mean(path[steps // 2 + 1 :], axis=0))
    with pytest.raises(InputError, match="steps"):
        averaged_descent(lambda c: c, features=2, rate=1.0, steps=0)
