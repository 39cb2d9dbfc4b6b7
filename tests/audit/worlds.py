"""Neighbouring tables, made as cells before anything is encoded, capped or split."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.table import PrivateTable
from synth.schema import (
    CategoryColumn,
    DateColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    Protection,
    RowCountRule,
    Schema,
    YesNoColumn,
)
from synth.schema.encoding import encode_column

EPSILON, DELTA = 1.0, 1e-5
ACCOUNT_KEY = b"the key of an account in a test!"
LABEL = "outcome"

Row = dict[str, str | None]


@dataclass(frozen=True)
class World:
    """How a table is declared: which change is hidden, whose rows are whose, and whether some units are held out."""

    row_count: RowCountRule
    rows_per_unit: int = 1
    ids: bool = False
    holdout: float = 0.0
    protection: Protection = "record"
    cell_change: float = 1.0

    @property
    def schema(self) -> Schema:
        unit = PrivacyUnit(rows_per_unit=self.rows_per_unit, id_column="person" if self.ids else None)
        columns = (
            IdentifierColumn("person"),
            NumberColumn("age", 0, 100, 1, missing=True),
            CategoryColumn("region", ("north", "south", "east", "west"), other=True, missing=True),
            NumberColumn("income", -1000, 50_000, 250, special=(-1.0,)),
            CategoryColumn("job", tuple(f"job {place}" for place in range(40)), other=True),
            DateColumn("visited", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), missing=True),
            YesNoColumn("smoker", missing=True),
            CategoryColumn(LABEL, ("well", "ill")),
        )
        if self.protection == "cell":
            # The one column whose cells all lie on a grid: only there does a declared change need less noise.
            columns = (*columns, NumberColumn("height", 0, 200, 1))
        return Schema(
            columns, unit=unit, row_count=self.row_count, protection=self.protection, cell_change=self.cell_change
        )

    @property
    def rows_each(self) -> int:
        """The most rows of somebody that are kept."""
        return self.rows_per_unit

    @property
    def budget(self) -> PrivacyBudget:
        return PrivacyBudget(EPSILON, DELTA, self.schema.neighbours)

    def table(self, rows: Sequence[Row], part: str = "train") -> PrivateTable:
        """Encode, cap and split rows of cells, as the product does when it opens a file."""
        schema = self.schema
        codes = {
            column.name: encode_column(column, pa.array([row[column.name] for row in rows], type=pa.string()))
            for column in schema.modelled
        }
        ids = [row["person"] for row in rows] if self.ids else None
        return PrivateTable.from_codes(
            schema, codes, unit_ids=ids, account_key=ACCOUNT_KEY, holdout=self.holdout, part=part
        )


WORLDS = {
    "replace one": World("public", holdout=0.25),
    "add or remove": World("private", holdout=0.25),
    "replace one of several rows": World("public", rows_per_unit=3, ids=True, holdout=0.25),
    "add or remove several rows": World("private", rows_per_unit=3, ids=True, holdout=0.25),
}

EXTREME = [
    *("0", "1", "1e6", "-1e12", "nan", "NaN", "inf", "-inf", "", " ", "1e400", "0x10", "-1", "250", "100", "101"),
    *("north", "undeclared", "NORTH", "job 7", "well", "ill", "yes", "no", "TRUE", "2020-01-01", "2024-12-31"),
    *("9999-12-31", "2020-13-45", "=1+1", "\u0000", "ü", "x" * 300),
]


def ordinary_row(rng: np.random.Generator, person: str) -> Row:
    return {
        "person": person,
        "age": str(rng.integers(20, 60)),
        "region": str(rng.choice(["north", "south", "west"])),
        "income": str(250 * rng.integers(0, 40)),
        "job": f"job {rng.integers(0, 10)}",
        "visited": f"2021-0{rng.integers(1, 9)}-1{rng.integers(0, 9)}",
        "smoker": str(rng.choice(["yes", "no"])),
        LABEL: str(rng.choice(["well", "ill"])),
        "height": str(rng.integers(150, 190)),
    }


def ordinary_rows(units: int, rows_per_unit: int, seed: int = 0) -> list[Row]:
    """Rows of ``units`` people; where several rows are allowed some have more than that, so that the cap bites."""
    rng = np.random.default_rng(seed)
    rows = []
    for unit in range(units):
        n_rows = 1 if rows_per_unit == 1 else int(rng.integers(1, rows_per_unit + 3))
        rows += [ordinary_row(rng, f"person {unit}") for _ in range(n_rows)]
    return [rows[place] for place in rng.permutation(len(rows))]


extreme_rows = st.lists(
    st.fixed_dictionaries(
        {name: st.sampled_from(EXTREME) for name in ("age", "region", "income", "job", "visited", "smoker", LABEL)}
    ),
    min_size=5,
    max_size=5,
)
"""Rows that somebody brings; a world takes as many as one unit may have, and more where a cap is to cut them."""


def far_rows(several: int = 5) -> list[Row]:
    """An outlier: as far from ordinary rows as cells can be, in every column."""
    row = {
        "age": "100",
        "region": "east",  # declared between others, and brought by nobody else
        "income": "1e12",
        "job": "never declared",
        "visited": "2024-12-31",
        "smoker": "",
        LABEL: "ill",
        "height": "0",
    }
    return [dict(row) for _ in range(several)]


def neighbours_of(
    world: World,
    rows: list[Row],
    brought: Sequence[Row],
    place: int = 3,
    person: str = "somebody new",
    *,
    id_column: str = "person",
) -> list[Row]:
    """Change one unit: bring somebody new, or put somebody new in the place of somebody else."""
    new = [{**row, id_column: person} for row in brought]
    if not world.ids:
        changed = list(rows)
        if world.row_count == "private":
            return [*changed, *new[: world.rows_per_unit]]
        return [*changed[:place], *new[:1], *changed[place + 1 :]]
    if world.row_count == "private":
        return [*rows[:place], *new, *rows[place:]]
    gone = rows[place][id_column]
    return [*new, *(row for row in rows if row[id_column] != gone)]
