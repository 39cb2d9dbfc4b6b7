"""The benchmark of whole rows: its tables have the bytes they had, and a figure that is missed is printed."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from simulated_tables import SIMULATED
from tables import TESTS, load_split
from whole_row import Cell, Kept, missed

CELL = Cell("xor2", "independent", "{}", 1.0, 1e-5, "add_remove", 11, 300)


def test_a_simulated_table_has_the_bytes_that_figures_were_measured_on() -> None:
    _, rows, learnt = SIMULATED["xor2"]()
    written = rows[:learnt].to_csv(index=False).encode()
    assert hashlib.sha256(written).hexdigest().startswith("3f45e3e729c52b84")


def test_rows_to_test_on_are_those_below_and_in_the_same_codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMITAGE_DATA", str(tmp_path))
    assert "xor2" in TESTS
    table, test = load_split("xor2", neighbours="add_remove", seed=0)
    assert (len(table.codes), len(test)) == (20_000, 5_000)
    for codes in (table.codes, test):
        assert np.array_equal((codes[:, :2] > 500).sum(axis=1) % 2, codes[:, -1])


def test_a_missed_figure_is_printed_and_a_met_one_is_not() -> None:
    good = {"tv2": 0.030, "boosting auc": 0.84}
    assert not list(missed("scm_tree", [good, good]))
    worse = {"tv2": 0.10, "boosting auc": 0.84}
    assert [line.split()[1] for line in missed("scm_tree", [worse, worse])] == ["tv2"]
    near = [{**good, "boosting auc": each} for each in (0.80, 0.85)]
    (line,) = missed("scm_tree", near)
    assert line.endswith("0.8250 ± 0.0500, aim 0.8300, within two standard errors")


def test_finished_cells_are_kept_line_by_line_and_other_code_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    Kept(path).put(CELL, {"tv2": 0.5})
    path.write_text(
        path.read_text() + path.read_text().replace('"seed": 11', '"seed": 12').replace('"source": "', '"source": "x')
    )
    again = Kept(path)
    assert again.get(CELL) == {"tv2": 0.5}
    assert again.of_other_code == 1
