"""A small bundle of two tables that belong together, by the real session and generator; some people have no visit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bundle_making import Key

from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import (
    CategoryColumn,
    IdentifierColumn,
    LinkedTables,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    YesNoColumn,
)
from synth.schema.schema import LEFT_ONLY, MERGE
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

SCHEMA = Schema(
    (
        CategoryColumn("sex", ("f", "m")),
        IdentifierColumn("patient"),
        NumberColumn("day", 0, 40, 1, fallback=7),
        CategoryColumn("ward", ("general", "=heart"), missing=True),
        IdentifierColumn("visit"),
        NumberColumn("born", 1930, 2020, 10, missing=True),
        YesNoColumn("urgent", "yes", "no", fallback="no"),
    ),
    unit=PrivacyUnit("patient", 3, "patient", ("sex", "born"), "day"),
    people="whole",
    tables=LinkedTables("patients", "visits", "patient"),
)
FIRST, SECOND = ["sex", "patient", "born"], ["patient", "day", "ward", "visit", "urgent"]
FILES = ("patients.csv", "patients.parquet", "visits.csv", "visits.parquet")
CONFIG = RunConfig(
    SCHEMA,
    account="clinic",
    people_at_most=1_000,
    epsilon=5.0,
    delta=1e-6,
    generator="independent",
    rows=150,
    by_people=True,
    seed=5,
)


def joined_codes(schema: Schema, counts: np.ndarray, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the joined table, person by person and in order, and the number of each row's person.

    ``counts`` says how many rows each person has in the second table, of shape (people,).
    """
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(len(counts)), np.maximum(counts, 1))
    columns = {}
    for column in schema.modelled:
        if column.name in schema.unit.same_in_all_rows:
            columns[column.name] = rng.integers(0, column.size, len(counts))[units]
        else:
            columns[column.name] = rng.integers(0, column.size, len(units))
            columns[column.name][counts[units] == 0] = column.unreadable_code
    columns[MERGE.name] = np.where(counts[units] == 0, LEFT_ONLY, 0)
    if schema.unit.ordered_by is not None:
        order = np.lexsort((columns[schema.unit.ordered_by], units))
        for name in {*columns} - {*schema.unit.same_in_all_rows}:
            columns[name] = columns[name][order]
    return np.column_stack([columns[name] for name in schema.names]), units


def linked_bundle(folder: Path, key: Key, **changes: Any) -> Path:
    """Seal a bundle of 150 people, of whom some have no visit, as a run does."""
    config = replace(CONFIG, **changes)
    codes, units = joined_codes(config.schema, np.random.default_rng(1).integers(0, 4, 400))
    columns = dict(zip(config.schema.names, codes.T, strict=True))
    table = PrivateTable.from_codes(config.schema, columns, unit_ids=units.tolist(), account_key=bytes(32))
    fitted = fit_and_sample(config, table, NullProgress())
    sealing = Sealing(signer=key, ledger={"charges": 1, "head": "ab" * 32})
    folder.mkdir(parents=True, exist_ok=True)
    return seal_release(config, fitted, folder, sealing=sealing, progress=NullProgress()).path
