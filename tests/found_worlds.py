"""Tables that nobody described, as bytes; and what a finding answers about them, with noise that a test sets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.finding import finding_budget, open_table
from synth.privacy.more.found_values import FoundValues, ValuesQuestion
from synth.privacy.session import PrivateSession
from synth.schema import DropColumn, FindColumn, IdentifierColumn, PrivacyUnit, Schema, TableFormat

__all__ = [
    "KEY",
    "LEVEL",
    "OPEN",
    "WORLDS",
    "LevelNoise",
    "OpenWorld",
    "as_csv",
    "exact",
    "exact_of",
    "ordinary",
    "values_asked",
]

KEY = b"the key of an account in a test!"
OPEN = ("age", "town", "income", "seen", "note")
NAMES = ("person", *OPEN, "secret")
LEVEL = 2**50
"""Noise so far above any threshold that every text is let out, with a count that says how many rows hold it."""

Line = Mapping[str, str]


@dataclass(frozen=True)
class OpenWorld:
    """How the unit of a table of open columns is declared."""

    row_count: str
    rows_per_unit: int = 1
    ids: bool = False
    epsilon: float = 1.0
    delta: float = 1e-6

    @property
    def schema(self) -> Schema:
        columns = (IdentifierColumn("person"), *(FindColumn(name) for name in OPEN), DropColumn("secret"))
        unit = PrivacyUnit("person", self.rows_per_unit, "person" if self.ids else None)
        return Schema(
            columns,
            unit,
            row_count=self.row_count,
            number_of_units=50 if self.row_count == "public" else None,
        )

    @property
    def budget(self) -> PrivacyBudget:
        return finding_budget(self.epsilon, self.delta, self.schema.neighbours)

    def session(self, data: bytes, noise: object, form: TableFormat | None = None) -> PrivateSession:
        table = open_table(
            lambda: io.BytesIO(data), "table", self.schema, form or TableFormat(missing=("", "?")), account_key=KEY
        )
        return PrivateSession(table, self.budget, noise=noise)


WORLDS = {
    "add or remove": OpenWorld("private"),
    "replace one": OpenWorld("public"),
    "add or remove several rows": OpenWorld("private", rows_per_unit=3, ids=True),
    "replace one of several rows": OpenWorld("public", rows_per_unit=3, ids=True),
}


@dataclass
class LevelNoise:
    """The same noise for every number: NOT PRIVATE. It notes what was asked of it."""

    level: int = 0
    private = False
    calls: list[tuple[int, int]] = field(default_factory=list)

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        self.calls.append((variance, size))
        return np.full(size, self.level, dtype=np.int64)


def as_csv(lines: Sequence[Line]) -> bytes:
    """Write lines with a header; a cell that a line does not have is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(NAMES)
    writer.writerows([line.get(name, "") for name in NAMES] for line in lines)
    return target.getvalue().encode()


def ordinary(count: int, rows: int = 1, seed: int = 0) -> list[dict[str, str]]:
    """Lines of so many units, each with so many rows, with cells of every kind."""
    rng = np.random.default_rng(seed)
    towns = ("Ayr", "Bath", " São Paulo", "?", "Ely")
    return [
        {
            "person": f"unit {unit}",
            "age": str(rng.integers(17, 91)),
            "town": towns[rng.integers(len(towns))],
            "income": f"{rng.normal(2e4, 9e3):.2f}" if rng.random() < 0.9 else "",
            "seen": f"202{rng.integers(6)}-0{rng.integers(1, 10)}-11",
            "note": f"said {rng.integers(10**6)}",
            "secret": f"secret {unit}",
        }
        for unit in range(count)
        for _ in range(rows)
    ]


def values_asked(session: PrivateSession, columns: Sequence[str] = OPEN) -> FoundValues:
    """Ask for the values of columns with the last half of a session's budget."""
    question = ValuesQuestion(tuple(columns), 0.49e-6)
    return session.ask(question, share=0.5, query="values", source="test")


def exact(world: OpenWorld, lines: Sequence[Line]) -> dict[tuple[str, object], int]:
    """Return every exact count that a finding looks at, by column and kind, bin or text; from bytes."""
    return exact_of(world.session(as_csv(lines), LevelNoise()))


def exact_of(session: PrivateSession) -> dict[tuple[str, object], int]:
    """Return the same of a session whose noise is level."""
    found: dict[tuple[str, object], int] = {}
    for name in OPEN:
        column = session.schema[name]
        assert isinstance(column, FindColumn)
        for what, bins in (("kind", column.kinds()), ("number", column.number_bins()), ("date", column.date_bins())):
            answer = session.noisy_sum(OneHot((name,), (bins,)), share=0.01, query=f"{what} {name}", source="test")
            assert isinstance(answer, NoisyAnswer)
            found |= {(name, (what, place)): int(n) for place, n in enumerate(answer.value) if n}
    session._noise = LevelNoise(LEVEL)
    for column, text, count in values_asked(session).values:
        rows, rest = divmod(count - LEVEL, 2**24)
        assert rest == 0
        found[column, text] = rows
    return found
