"""A type of column that the product does not have: a class and an entry in the registry take it through a whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from reading_here import read_here

import synth
from synth.bundle.checks import check
from synth.bundle.table_files import read_table
from synth.errors import SchemaError
from synth.schema import COLUMN_TYPES, ModelledColumn, config_of_text, config_to_yaml, parse_column
from synth.schema.columns.base import Cells, Coded, Fate
from synth.schema.constraints import repair
from synth.schema.documents import Whole, Word
from synth.schema.rule_lines import read_rules


@dataclass(frozen=True, slots=True)
class StarsColumn(ModelledColumn):
    """So many stars: an ordered word, which is neither a number nor a category."""

    kind: ClassVar[str] = "stars"
    role: ClassVar[str] = "stars"
    blank: ClassVar[str] = "{type: stars, most: 5}"
    is_ordered: ClassVar[bool] = True

    most: Whole = 5
    fallback: Word | None = field(default=None, kw_only=True)

    @property
    def levels(self) -> int:
        return self.most

    @property
    def size(self) -> int:
        return self.most + self.missing

    def _code_of_fallback(self) -> int:
        return len(str(self.fallback)) - 1

    def spellings(self, **_: object) -> dict[str, int]:
        return {"*" * (code + 1): code for code in range(self.most)}

    def encode(self, cells: Cells) -> Coded:
        codes, absent = cells.labels(self)
        fates = np.where(codes < 0, Fate.MALFORMED, Fate.KEPT).astype(np.int8)
        fates[absent] = Fate.MISSING
        return np.where(codes < 0, self.unreadable_code, codes), fates

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        return ["*" * (code + 1) if code < self.most else missing for code in codes]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        return [text or None for text in self.texts(codes)]

    def _codes_near(self, text: str) -> list[int]:
        return [len(text) - 1] if 1 <= len(text) <= self.most else []

    def grid_at(self, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return levels + 1.0

    def comparable(self, text: str) -> float:
        if set(text) != {"*"}:
            raise SchemaError("Stars are compared with stars.")
        return float(len(text))


CONFIG = """
account: guests
unit: {protects: guest, rows_per_unit: 1}
row_count: public
number_of_units: 300
budget: {epsilon: 8.0}
rows: 200
holdout: 0
generator: {name: independent}
rules: ["service >= **"]
columns:
  service: {type: stars, most: 5, missing: true}
  food: {type: stars, most: 3, fallback: "**", weight: high}
  again: {type: yes_no, fallback: "no"}
"""


@pytest.fixture(autouse=True)
def _with_stars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(COLUMN_TYPES, StarsColumn.kind, StarsColumn)
    # What parses and what verifies are processes of their own, which have the types of the product alone.
    for asker in ("synth.reading.reader", "synth.services.first_reading", "synth.services.inspection"):
        monkeypatch.setattr(f"{asker}.ask", read_here)
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)


def test_a_run_takes_it_from_the_file_to_a_bundle_that_verifies(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    stars = ["*" * count for count in random.integers(1, 6, 300)]
    lines = [f"{one},{one[:3]},{'yes' if len(one) > 3 else 'no'}" for one in stars]
    (tmp_path / "table.csv").write_text("service,food,again\n,?,yes\n" + "\n".join(lines[1:]) + "\n")
    config = config_of_text(CONFIG)
    assert config_of_text(config_to_yaml(config)) == config
    result = synth.run(config, tmp_path / "out", table=tmp_path / "table.csv")
    assert not check(result.bundle).failures
    made = read_table(tmp_path / "out" / "synthetic.csv", config.schema)
    np.testing.assert_array_equal(made, read_table(tmp_path / "out" / "synthetic.parquet", config.schema))
    assert made.shape == (200, 3)
    # The constraint held, missing cells aside; the table was about even, and so are the rows that were made.
    assert made[:, 0].min() >= 1
    assert len(np.unique(made[:, 0])) >= 4


def test_it_is_declared_and_compared_like_the_others() -> None:
    column = parse_column("service", {"type": "stars", "most": "4", "fallback": "**", "weight": "low"})
    assert column == StarsColumn("service", most=4, fallback="**", weight=column.weight)
    assert column.to_mapping() == {"type": "stars", "most": 4, "fallback": "**", "weight": "low"}
    with pytest.raises(
        SchemaError,
        match=r"'service': unknown key 'low'\. Known keys: description, fallback, missing, most, type, weight",
    ):
        parse_column("service", {"type": "stars", "low": 1})
    schema = config_of_text(CONFIG).schema
    rules = read_rules(["service >= food"], schema)
    assert repair(np.array([[0, 2, 0], [5, 2, 0]]), rules, schema).codes.tolist() == [[2, 2, 0], [5, 2, 0]]
