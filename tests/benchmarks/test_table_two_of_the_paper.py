"""Table 2: both conventions from one training, and a stopped run goes on where it stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import downstream  # noqa: E402
from tables import Table  # noqa: E402

from synth.schema import CategoryColumn, NumberColumn, Schema  # noqa: E402

SCHEMA = Schema((NumberColumn("x", 0, 99, 1), NumberColumn("z", 0, 99, 1), CategoryColumn("y", ("a", "b"))))


def rows(n_rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    x, z = random.integers(0, 100, (2, n_rows))
    return np.column_stack([x, z, (x + random.integers(-20, 20, n_rows) > 60).astype(int)])


def test_both_conventions_come_from_one_training() -> None:
    table = Table("simulated", SCHEMA, "y", rows(300, 1))
    found = downstream.scored(table, table.codes, rows(200, 2), seed=0)
    assert set(found["classifiers"]) == set(downstream.TWELVE)  # type: ignore[call-overload]
    assert len(downstream.TWELVE) == 12
    assert found["roc_auc"] > found["hard_roc_auc"] > 0.75  # type: ignore[operator]
    assert (found["trained_on"], found["tested_on"], found["classes"]) == (300, 200, 2)


def test_a_stopped_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def scored(table: Table, codes: np.ndarray, test: np.ndarray, seed: int) -> dict[str, object]:
        asked.append((len(codes), seed))
        heads = (*downstream.HEADS["paper"], *downstream.HEADS["sound"])
        return dict.fromkeys(heads, 0.5) | {"classes": 2, "trained_on": 1, "tested_on": 1}

    split = (Table("cervical", SCHEMA, "y", rows(60, 1)), rows(30, 2))
    monkeypatch.setattr(downstream, "scored", scored)
    monkeypatch.setattr(downstream, "load_split", lambda name, **how: split)
    monkeypatch.setenv("HERMITAGE_DATA", str(tmp_path))
    words = [
        "downstream.py",
        "--tables",
        "cervical",
        "--conventions",
        "sound",
        "--generators",
        "independent",
        "--seeds",
        "2",
    ]
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(tmp_path / "cells.json")])
    downstream.main()
    assert len(asked) == 4
    assert len(json.loads((tmp_path / "cells.json").read_text())["cells"]) == 4
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(tmp_path / "cells.json"), "--resume"])
    downstream.main()
    assert len(asked) == 4
    assert "Not the paper's data" in capsys.readouterr().out


def test_undersampling_leaves_only_rows_of_the_most_frequent_class_out() -> None:
    table, test = Table("simulated", SCHEMA, "y", rows(3000, 1)), rows(1500, 2)
    fewer, fewer_tested = downstream.undersampled(table, test, 0.25, seed=0)
    for before, after in ((table.codes, fewer.codes), (test, fewer_tested)):
        frequent, rare = (before[:, 2] == 0).sum(), (before[:, 2] == 1).sum()
        assert (after[:, 2] == 1).sum() == rare
        assert 0.2 * frequent < (after[:, 2] == 0).sum() < 0.3 * frequent


def test_labels_are_merged_into_the_classes_of_the_paper() -> None:
    schema = Schema((NumberColumn("x", 0, 9, 1), CategoryColumn("y", ("1", "2", "3"))))
    table = Table("simulated", schema, "y", np.array([[4, 0], [5, 1], [6, 2]]))
    merged, test = downstream.with_classes(table, np.array([[7, 1]]), {"1": "vowel", "2": "other", "3": "vowel"})
    label = merged.schema.columns[1]
    assert isinstance(label, CategoryColumn)
    assert [label.values[code] for code in merged.codes[:, 1]] == ["vowel", "other", "vowel"]
    assert [label.values[code] for code in test[:, 1]] == ["other"]
    assert table.codes[2, 1] == 2


def test_every_printed_figure_belongs_to_a_table_that_is_run() -> None:
    assert {name for name, _ in downstream.PRINTED} <= set(downstream.TABLES)
    assert downstream.PRINTED["adult", "dp-hp"] == "ROC 0.688, PR 0.632"
