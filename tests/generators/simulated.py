"""Simulated tables for generator tests; no real person is in any of them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from recorded_noise import RecordedNoise
from suited import suited

from synth import generators
from synth.generators import GeneratorTask
from synth.generators.adaptive import dp_hp_adaptive
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, DateColumn, DateStep, NumberColumn, PrivacyUnit, Schema, YesNoColumn

FAST = {
    "independent": {},
    "independent-by-class": {},
    "dp-merf": {"features": 60, "steps": 25, "batch_size": 64},
    "dp-hp": {"order": 20, "epochs": 3, "steps_per_epoch": 8, "batch_size": 64},
    "dp-hp-adaptive": {"cells": 20_000},
    "kahm": {"n": 5, "block": 200},
    "kernel-sos": {"features": 60, "support": 20, "steps": 10},
    "dp-mixture": {"components": 2, "steps": 3},
    "privbayes": {"parents": 2},
    "dp-gan": {"steps": 6, "hidden": 8, "batch_size": 64, "generated": 32},
    "dp-cgan": {"steps": 6, "hidden": 8, "batch_size": 64, "generated": 32},
    "gs-wgan": {"parts": 5, "turns": 6, "batch_size": 8, "critic_steps": 2},
}
"""Options with which every generator fits in a fraction of a second."""

COLUMNS = {
    "age": NumberColumn("age", 18, 90, 1),
    "income": NumberColumn("income", 0, 200_000, 1, special=(0.0, -1.0), missing=True),
    "score": NumberColumn("score", 0, 5, 0.5, missing=True),
    "region": CategoryColumn("region", ("north", "south", "east", "west"), other=True),
    "smoker": YesNoColumn("smoker", missing=True),
    "visited": DateColumn("visited", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), DateStep.MONTH),
    "outcome": CategoryColumn("outcome", ("none", "mild", "severe")),
}


def schema(*names: str, row_count: str = "public", rows_per_unit: int = 1) -> Schema:
    columns = tuple(COLUMNS[name] for name in (names or COLUMNS))
    return Schema(columns, PrivacyUnit(rows_per_unit=rows_per_unit), row_count=row_count)


def schema_for(name: str, label: str | None = "outcome", **changes) -> Schema:
    """The columns of the simulated table that a generator takes."""
    return suited(name, schema(**changes), label)


def dependent_codes(n_rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A table in which every column depends on the outcome."""
    random = np.random.default_rng(seed)
    outcome = random.choice(3, size=n_rows, p=[0.5, 0.3, 0.2])
    grids = {name: column.levels for name, column in COLUMNS.items() if column.levels}
    place = np.clip(random.normal(0.25 + 0.25 * outcome, 0.1), 0, 1)
    codes = {name: np.rint(place * (levels - 1)).astype(int) for name, levels in grids.items()}
    codes["income"][random.random(n_rows) < 0.2 * (outcome == 0)] = COLUMNS["income"].levels
    codes["score"][random.random(n_rows) < 0.1] = COLUMNS["score"].size - 1
    codes["region"] = (outcome + (random.random(n_rows) < 0.3)) % 5
    codes["smoker"] = np.where(random.random(n_rows) < 0.8, outcome > 0, 2)
    codes["outcome"] = outcome
    return {name: codes[name] for name in COLUMNS}


def random_codes(declared: Schema, n_rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {column.name: random.integers(column.size, size=n_rows) for column in declared.modelled}


def session(
    declared: Schema, codes: dict[str, np.ndarray], *, epsilon: float = 1.0, noise_key: int | None = 0
) -> PrivateSession:
    """A session on codes, with known noise; asks for the row count first where it is private, as a run does."""
    table = PrivateTable.from_codes(declared, {name: codes[name] for name in declared.names})
    budget = PrivacyBudget(epsilon, 1e-5, declared.neighbours)
    opened = PrivateSession(table, budget, noise=RecordedNoise(noise_key))
    if not declared.rows_are_public:
        opened.count_rows(share=0.05)
    return opened


@contextmanager
def no_sets() -> Iterator[None]:
    """Ask no sets of many columns, as where a table has too few rows for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dp_hp_adaptive, "_CLEAR_WHOLE_ROWS", math.inf)
        yield


def task(declared: Schema, label: str | None = "outcome", *, seed: int = 0, device: str = "cpu") -> GeneratorTask:
    return GeneratorTask(schema=declared, label=label, seed=seed, device=device)


def fitted(name: str, declared: Schema | None = None, codes=None, *, label="outcome", epsilon=5.0, device="cpu"):
    """A generator fitted to few rows; with a budget at which the adaptive one finds tables worth choosing."""
    declared = declared or schema_for(name, label)
    codes = codes or dependent_codes(400)
    opened = session(declared, codes, epsilon=epsilon)
    made = generators.make(name, task(declared, label, device=device), FAST[name])
    return made.fit(opened, NullProgress()), opened


def check_domain(rows: np.ndarray, declared: Schema, n_rows: int) -> None:
    assert rows.dtype == np.int64
    assert rows.shape == (n_rows, len(declared.names))
    assert int(rows.min()) >= 0
    assert (rows < np.array(declared.sizes)).all()
