"""A simulated table for membership attacks, split, and what generators make of it; no real person is in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from recorded_noise import RecordedNoise
from suited import suited

from synth import generators
from synth.generators import GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.code_tables import CodeTable, UnitRows
from synth.reports.risk_bounds import ProvenCeiling
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, RowCountRule, Schema, YesNoColumn

DELTA = 1e-5
FAST = {
    "dp-merf": {"features": 60, "steps": 25, "batch_size": 64},
    "dp-hp": {"order": 20, "epochs": 3, "steps_per_epoch": 8, "batch_size": 64},
}
"""Options with which slow generators fit in a fraction of a second."""


def people_schema(*, row_count: RowCountRule = "public", rows_per_unit: int = 1) -> Schema:
    return Schema(
        (
            NumberColumn("age", 18, 90, 1),
            NumberColumn("income", 0, 200_000, 100, special=(0.0,), missing=True),
            CategoryColumn("region", tuple("abcdefgh"), other=True),
            CategoryColumn("trade", tuple("abcdefghijklmnop")),
            YesNoColumn("smoker", missing=True),
            NumberColumn("visits", 0, 30, 1),
            CategoryColumn("outcome", ("none", "mild", "severe")),
        ),
        PrivacyUnit(rows_per_unit=rows_per_unit),
        row_count,
    )


def people(n_rows: int, *, seed: int) -> list[np.ndarray]:
    """Rows of people who fall into a few kinds, with much that is their own."""
    random = np.random.default_rng(seed)
    kind = random.integers(4, size=n_rows)

    def mixed(size: int) -> np.ndarray:
        centre = (kind * size) // 4 + size // 8
        return np.clip(np.rint(random.normal(centre, size / 6)), 0, size - 1).astype(np.int64)

    return [
        mixed(73),
        np.where(random.random(n_rows) < 0.1, 2001 + random.integers(2, size=n_rows), mixed(2001)),
        mixed(9),
        mixed(16),
        random.integers(3, size=n_rows),
        mixed(31),
        np.minimum(kind, 2),
    ]


def split(n_train: int, n_held: int, *, seed: int = 0) -> tuple[UnitRows, UnitRows]:
    rows = people(n_train + n_held, seed=seed)
    train = UnitRows([codes[:n_train] for codes in rows], np.arange(n_train))
    return train, UnitRows([codes[n_train:] for codes in rows], np.arange(n_held))


def released_by(name: str, train: CodeTable, schema: Schema, *, seed: int = 0) -> tuple[CodeTable, ProvenCeiling]:
    """What a generator makes of rows at epsilon 1, and what its receipts prove."""
    table = PrivateTable.from_codes(schema, dict(zip(schema.names, train, strict=True)))
    budget = PrivacyBudget(1.0, DELTA, schema.neighbours)
    session = PrivateSession(table, budget, noise=RecordedNoise(seed))
    if not schema.rows_are_public:
        session.count_rows(share=0.02)
    task = GeneratorTask(schema=schema, label="outcome", seed=seed, device="cpu")
    fitted = generators.make(name, task, FAST.get(name, {})).fit(
        session.sub_session(session.remaining_share), NullProgress()
    )
    codes = fitted.sample(len(train[0]), seed)
    # The noise is known so that a test is the same every time; its law is that of a run.
    receipts = tuple(replace(receipt, private=True) for receipt in session.receipts)
    return list(codes.T), ProvenCeiling(1.0, DELTA, receipts)


def columns_for(name: str, schema: Schema, *sides: UnitRows) -> tuple[Schema, list[UnitRows]]:
    """The columns that a generator takes, of the schema and of every side."""
    taken = suited(name, schema, "outcome")
    places = [schema.names.index(column) for column in taken.names]
    return taken, [UnitRows([side.codes[place] for place in places], side.units) for side in sides]


def promised(schema: Schema, *, mu_squared: float = 0.07) -> ProvenCeiling:
    """The ceiling of one Gaussian answer at about epsilon 1."""
    units = int(mu_squared * 2**40)
    receipt = Receipt(
        sequence=0, query="all", mechanism="discrete_gaussian", source="test", neighbours=schema.neighbours,
        protects="person", rows_per_unit=1, sensitivity=1.0, noise_scale=1.01 * mu_squared**-0.5, dimension=10,
        grid=1e-9, mu_squared_units=units, slack=1e-12,
    )  # fmt: skip
    return ProvenCeiling(1.0, DELTA, (receipt,))
