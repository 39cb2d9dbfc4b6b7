"""The density of mixed rows is a law on the declared codes, and follows the rows it stands on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from synth.reports.membership.attacks import RowDensity, mean_distances
from synth.reports.membership.distances import GowerSpace
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn

SMALL = Schema(
    (
        NumberColumn("age", 0, 6, 1, special=(9.0,), missing=True),
        CategoryColumn("town", ("a", "b", "c"), missing=True),
        YesNoColumn("smoker"),
    )
)


def drawn(rows: int, *, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    kind = random.integers(2, size=rows)
    age = np.where(random.random(rows) < 0.2, 7 + kind, np.clip(3 * kind + random.integers(3, size=rows), 0, 6))
    return [age, 2 * kind + (random.random(rows) < 0.2), kind]


def every_row() -> list[np.ndarray]:
    return list(np.array(list(itertools.product(*map(range, SMALL.sizes)))).T)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rows", [1, 2, 40, 3000])
def test_probabilities_of_all_rows_add_up_to_one(rows: int, seed: int) -> None:
    given = drawn(rows, seed=seed)
    density = RowDensity.fit(given, SMALL, spreads=mean_distances(given, SMALL, seed=0), seed=0)
    assert np.exp(density.log_probability(every_row())).sum() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.thorough
def test_a_density_nears_the_law_of_its_rows() -> None:
    law, errors = drawn(400_000, seed=2), []
    cells = np.ravel_multi_index(tuple(law), SMALL.sizes)
    truth = np.bincount(cells, minlength=int(np.prod(SMALL.sizes))) / 400_000
    for rows in (50, 500, 20_000):
        given = drawn(rows, seed=3)
        density = RowDensity.fit(given, SMALL, spreads=mean_distances(given, SMALL, seed=0), seed=0)
        errors.append(0.5 * np.abs(np.exp(density.log_probability(every_row())) - truth).sum())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03


def test_mean_distances_are_those_of_pairs() -> None:
    given = drawn(60, seed=4)
    for place, column in enumerate(SMALL.modelled):
        alone = Schema((column,))
        exact = GowerSpace.of(alone).between([given[place]], [given[place]]).mean()
        assert mean_distances(given, SMALL, seed=0)[place] == pytest.approx(exact, abs=0.02)


def test_far_rows_have_finite_probabilities() -> None:
    columns = tuple(NumberColumn(f"n{place}", 0, 1_000_000, 1) for place in range(40))
    schema = Schema(columns)
    given = [np.random.default_rng(place).integers(100, size=500) for place in range(40)]
    density = RowDensity.fit(given, schema, spreads=mean_distances(given, schema, seed=0), seed=0)
    found = density.log_probability([np.full(3, 1_000_000)] * 40)
    assert np.isfinite(found).all()
    assert (found < density.log_probability([codes[:3] for codes in given])).all()
