"""On a simulated table every generator beats uniform rows, and those that see the label keep what depends on it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from simulated import COLUMNS, dependent_codes, schema, schema_for, session, task

from synth import generators
from synth.generators import GENERATORS
from synth.progress import NullProgress

N_ROWS = 20_000

# A few seconds each: far fewer steps than the defaults, so the thresholds below are wide.
OPTIONS = {
    "independent": {},
    "independent-by-class": {},
    "dp-merf": {"features": 600, "steps": 250, "batch_size": 200, "learning_rate": 0.01},
    "dp-hp": {"order": 40, "epochs": 10, "steps_per_epoch": 25, "batch_size": 200, "learning_rate": 0.01},
    "dp-hp-adaptive": {},
    "kahm": {},
    "kernel-sos": {"features": 300, "support": 60, "steps": 60},
    "dp-mixture": {},
    "privbayes": {},
}

FOR_COMPARISON = {"dp-gan", "dp-cgan", "gs-wgan"}
"""Published methods that at epsilon 1 are hardly better than uniform rows, as their cards say."""


def test_every_generator_is_compared_or_said_to_be_there_for_comparison() -> None:
    assert set(OPTIONS) | FOR_COMPARISON == set(GENERATORS)
    assert all(GENERATORS[name].best_for.startswith("Comparison") for name in FOR_COMPARISON)


@functools.cache
def real() -> dict[str, np.ndarray]:
    return dependent_codes(N_ROWS)


@functools.cache
def synthetic(name: str) -> dict[str, np.ndarray]:
    declared = schema_for(name)
    opened = session(declared, real(), epsilon=1.0)
    made = generators.make(name, task(declared), OPTIONS[name]).fit(opened, NullProgress())
    rows = made.sample(N_ROWS, seed=1)
    return {column: rows[:, d] for d, column in enumerate(declared.names)}


def coarse(name: str, codes: np.ndarray) -> np.ndarray:
    """At most ten equal parts of a grid, then the atoms."""
    levels = COLUMNS[name].levels
    if levels <= 10:
        return codes
    return np.where(codes < levels, codes * 10 // levels, 10 + codes - levels)


def distance(rows: dict[str, np.ndarray], *names: str) -> float:
    """Half of the summed difference of two tables of proportions: 0 equal, 1 disjoint."""
    tables = []
    for table in (real(), rows):
        cells = [coarse(name, table[name]) for name in names]
        sizes = [int(coarse(name, np.arange(COLUMNS[name].size)).max()) + 1 for name in names]
        tables.append(np.bincount(np.ravel_multi_index(cells, sizes), minlength=int(np.prod(sizes))) / N_ROWS)
    return float(0.5 * np.abs(tables[0] - tables[1]).sum())


def uniform() -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {name: random.integers(column.size, size=N_ROWS) for name, column in COLUMNS.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_single_columns_are_closer_than_uniform_ones(name):
    rows = synthetic(name)
    for column in rows:
        assert distance(rows, column) < max(0.5 * distance(uniform(), column), 0.03), column


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["independent", "independent-by-class", "dp-hp-adaptive"])
def test_generators_that_count_columns_follow_their_tables(name):
    rows = synthetic(name)
    for column in COLUMNS:
        assert distance(rows, column) < 0.03, column  # noise of some 10 rows in a cell, of 20,000


@pytest.mark.thorough
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["independent-by-class", "dp-merf", "dp-hp", "dp-hp-adaptive"])
def test_what_depends_on_the_label_is_kept(name):
    kept, lost = synthetic(name), synthetic("independent")
    for column in ("age", "region", "smoker"):
        assert distance(kept, column, "outcome") < 0.6 * distance(lost, column, "outcome"), column


@pytest.mark.thorough
@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_label_is_drawn_in_proportion(name):
    assert distance(synthetic(name), "outcome") < 0.01


def test_more_budget_brings_the_control_closer():
    errors = []
    for epsilon in (0.05, 5.0):
        opened = session(schema(), dependent_codes(2000), epsilon=epsilon)
        made = generators.make("independent", task(schema()), {}).fit(opened, NullProgress())
        rows = made.sample(N_ROWS, seed=1)
        table = {column: rows[:, d] for d, column in enumerate(schema().names)}
        errors.append(np.mean([distance(table, column) for column in COLUMNS]))
    assert errors[1] < 0.5 * errors[0]
