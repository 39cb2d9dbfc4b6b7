"""Table 2: both conventions from one training, and a stopped run goes on where it stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import table_two  # noqa: E402
from tables import Table  # noqa: E402

from synth.schema import CategoryColumn, NumberColumn, Schema  # noqa: E402

SCHEMA = Schema((NumberColumn("x", 0, 99, 1), NumberColumn("z", 0, 99, 1), CategoryColumn("y", ("a", "b"))))


def rows(n_rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    x, z = random.integers(0, 100, (2, n_rows))
    return np.column_stack([x, z, (x + random.integers(-20, 20, n_rows) > 60).astype(int)])


def test_both_conventions_come_from_one_training() -> None:
    table = Table("simulated", SCHEMA, "y", rows(300, 1))
    found = table_two.scored(table, table.codes, rows(200, 2), seed=0)
    assert set(found["classifiers"]) == set(table_two.TWELVE)  # type: ignore[call-overload]
    assert len(table_two.TWELVE) == 12
    assert found["roc_auc"] > found["hard_roc_auc"] > 0.75  # type: ignore[operator]
    assert (found["trained_on"], found["tested_on"], found["classes"]) == (300, 200, 2)


def test_a_stopped_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def scored(table: Table, codes: np.ndarray, test: np.ndarray, seed: int) -> dict[str, object]:
        asked.append((len(codes), seed))
        return dict.fromkeys(table_two.HEADS, 0.5) | {"classes": 2, "trained_on": 1, "tested_on": 1}

    split = (Table("cervical", SCHEMA, "y", rows(60, 1)), rows(30, 2))
    monkeypatch.setattr(table_two, "scored", scored)
    monkeypatch.setattr(table_two, "load_split", lambda name, **how: split)
    monkeypatch.setenv("HERMITAGE_DATA", str(tmp_path))
    words = ["table_two.py", "--tables", "cervical", "--generators", "independent", "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(tmp_path / "cells.json")])
    table_two.main()
    assert len(asked) == 4
    assert len(json.loads((tmp_path / "cells.json").read_text())["cells"]) == 4
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(tmp_path / "cells.json"), "--resume"])
    table_two.main()
    assert len(asked) == 4
    assert "Not the paper's data" in capsys.readouterr().out
