"""Simulated tables on which many columns together tell what pairs do not, or all columns hang together.

Public by construction: each is drawn from fixed seeds, the same bytes on every machine.

- ``xor1`` to ``xor4``: eight uniform numbers and a label, whether an odd number of the first 1 to 4 is above one half;
  20,000 rows to learn from and 5,000 to test on;
- ``scm_tree``: eight numbers of a random structural causal model, labelled by a random decision tree of depth six;
  as many rows;
- ``g10``, ``g30``: numbers with one dense covariance (a Wishart one; four factors) in thirty equal places, labelled by
  the sign of the last; 50,000 and 5,000 rows;
- ``heaps``: numbers as people write them: 62 % of incomes are divisible by 1,000, 98.5 % of fares by half, two in five
  blood pressures end in 0, densities are five; 20,000 and 5,000 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.schema import CategoryColumn, Column, NumberColumn

LABEL = "y"
Made = tuple[list[Column], pd.DataFrame, int]
"""Declared columns, rows, and how many of them, from the top, are there to learn from."""


def parity(among: int) -> Made:
    """Draw numbers whose first few tell the label only all together."""
    random = np.random.default_rng(100 + among)
    numbers = random.random((25_000, 8)).round(3)
    label = (numbers[:, :among] > 0.5).sum(axis=1) % 2
    return _columns("x", 8, (0, 1, 0.001)), _rows("x", numbers, label), 20_000


def structural_tree() -> Made:
    """Draw numbers that cause each other, labelled by a tree of cuts."""
    random = np.random.default_rng(7)
    numbers = _causes(random, 25_000)
    label = np.zeros(len(numbers), dtype=np.int64)
    _cut(random, numbers, np.arange(len(numbers)), 6, label)
    return _columns("x", 8, (-5, 5, 0.001)), _rows("x", numbers, label), 20_000


def gaussian(columns: int, factors: int, seed: int) -> Made:
    """Draw numbers of one dense covariance: of so many factors, or of as many as there are columns."""
    random = np.random.default_rng(seed)
    loadings = random.normal(size=(columns, factors or columns))
    covariance = loadings @ loadings.T + (0.5 * np.eye(columns) if factors else 0)
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / scale / scale[:, None]
    values = np.clip(random.multivariate_normal(np.zeros(columns), correlation, 55_000), -4, 4)
    places = np.minimum((values + 4) / 8 * 30, 29.999).astype(np.int64)
    return (
        _columns("g", columns - 1, (0, 29, 1), digits=2),
        _rows("g", places[:, :-1], (values[:, -1] > 0).astype(np.int64), digits=2),
        50_000,
    )


def heaps() -> Made:
    """Draw numbers that are rounded as people round, and a label that goes with them."""
    random = np.random.default_rng(62)
    rows = 25_000
    wealth = random.normal(size=rows)
    income = np.exp(10.6 + 0.7 * wealth + 0.2 * random.normal(size=rows))
    kind = random.random(rows)
    income = np.where(
        kind < 0.62, (income / 1000).round() * 1000, np.where(kind < 0.8, (income / 100).round() * 100, income)
    )
    fare = 2.5 + random.gamma(2.0, 5.0, rows) * np.exp(0.2 * wealth)
    fare = np.where(random.random(rows) < 0.985, (fare * 2).round() / 2, fare.round(2))
    pressure = 128 + 18 * random.normal(size=rows) - 4 * wealth
    kind = random.random(rows)
    pressure = np.where(kind < 1 / 3, (pressure / 10).round() * 10, (pressure / 2).round() * 2)
    density = np.array([0.7913, 0.8765, 0.9982, 1.0301, 1.1127])[np.searchsorted([-1.2, -0.3, 0.4, 1.1], wealth)]
    label = (wealth + random.normal(size=rows) > 0.8).astype(np.int64)
    columns: list[Column] = [
        NumberColumn("income", 0, 1_000_000, 1),
        NumberColumn("fare", 0, 300, 0.01),
        NumberColumn("pressure", 60, 260, 1),
        NumberColumn("density", 0, 2, 0.0001),
        CategoryColumn(LABEL, ("0", "1")),
    ]
    made = {
        "income": np.clip(income, 0, 1_000_000).round().astype(np.int64),
        "fare": [f"{one:.2f}" for one in np.clip(fare, 0, 300)],
        "pressure": np.clip(pressure, 60, 260).round().astype(np.int64),
        "density": [f"{one:.4f}" for one in density],
        LABEL: label,
    }
    return columns, pd.DataFrame(made), 20_000


def _causes(random: np.random.Generator, n_rows: int) -> NDArray[np.float64]:
    numbers = np.zeros((n_rows, 8))
    for at in range(8):
        parents = random.choice(at, min(at, random.integers(0, 4)), replace=False) if at else []
        value: NDArray[np.float64] | float = 0
        for parent in parents:
            weight = random.normal()
            value = value + weight * (np.tanh(numbers[:, parent]) if random.random() < 0.5 else numbers[:, parent])
        numbers[:, at] = value + random.normal(size=n_rows) * 0.7
    return np.clip((numbers - numbers.mean(axis=0)) / numbers.std(axis=0), -5, 5).round(3)


def _cut(
    random: np.random.Generator,
    numbers: NDArray[np.float64],
    rows: NDArray[np.int64],
    depth: int,
    label: NDArray[np.int64],
) -> None:
    """Give the rows of a node one class, or cut them in two at a quantile between .3 and .7 of one number."""
    if depth == 0 or len(rows) < 50:
        label[rows] = random.integers(2)
        return
    column = random.integers(8)
    right = numbers[rows, column] > np.quantile(numbers[rows, column], random.uniform(0.3, 0.7))
    _cut(random, numbers, rows[right], depth - 1, label)
    _cut(random, numbers, rows[~right], depth - 1, label)


def _names(letter: str, many: int, digits: int) -> list[str]:
    return [f"{letter}{at:0{digits}d}" for at in range(many)]


def _columns(letter: str, many: int, bounds: tuple[float, float, float], *, digits: int = 1) -> list[Column]:
    numbers = [NumberColumn(name, *bounds) for name in _names(letter, many, digits)]
    return [*numbers, CategoryColumn(LABEL, ("0", "1"))]


def _rows(letter: str, numbers: NDArray, label: NDArray[np.int64], *, digits: int = 1) -> pd.DataFrame:
    rows = pd.DataFrame(numbers, columns=_names(letter, numbers.shape[1], digits))
    rows[LABEL] = label
    return rows


SIMULATED: dict[str, Callable[[], Made]] = {
    **{f"xor{among}": partial(parity, among) for among in (1, 2, 3, 4)},
    "scm_tree": structural_tree,
    "g10": partial(gaussian, 10, 0, 1),
    "g30": partial(gaussian, 30, 4, 2),
    "heaps": heaps,
}
