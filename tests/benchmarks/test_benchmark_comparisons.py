"""What benchmarks conclude: verdicts with standard errors, splits by unit, accuracies of classifiers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from marginals import differences
from raw_tables import frame
from tables import Table, split
from whole_runs import accuracies

from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, Schema

COLUMNS = (NumberColumn("size", 0, 9, 1, missing=True), CategoryColumn("kind", ("a", "b")))


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        pytest.param([0.5, 0.6, 0.7], "WORSE", id="worse"),
        pytest.param([0.2, 0.3, 0.5], "within two", id="within two"),
        pytest.param([0.1, 0.1, 0.1], "better", id="better"),
    ],
)
def test_verdicts_follow_the_standard_error_of_the_difference(ours: list[float], verdict: str) -> None:
    theirs = [0.2, 0.3, 0.4]
    found = {"control": [{"tv1": each} for each in theirs], "ours": [{"tv1": each} for each in ours]}
    (line,) = differences("table", found, "control", ("tv1",))
    difference = np.mean(ours) - np.mean(theirs)
    error = np.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / 3)
    assert line.endswith(verdict)
    assert f"{difference:+.4f} ± {error:.4f}" in line


def table_of(codes: np.ndarray, units: np.ndarray | None = None) -> Table:
    if units is None:
        return Table("made", Schema(COLUMNS), "kind", codes)
    schema = Schema((IdentifierColumn("id"), *COLUMNS), PrivacyUnit("patient", 3, "id"))
    return Table("made", schema, "kind", codes, units)


def test_a_split_keeps_units_together_and_loses_no_row() -> None:
    random = np.random.default_rng(0)
    units = random.integers(200, size=500)
    # The size names the unit's last digit, so that rows on both sides can be told apart.
    codes = np.stack([units % 10, random.integers(2, size=500)], axis=1)
    kept, tested = split(table_of(codes, units), seed=1)
    assert kept.units is not None
    assert len(kept.codes) + len(tested) == 500
    assert np.array_equal(kept.codes[:, 0], kept.units % 10)
    everywhere, there = (np.bincount(each, minlength=200) for each in (units, kept.units))
    assert set(np.unique(there[there > 0] - everywhere[there > 0])) == {0}
    assert 0.2 < len(tested) / 500 < 0.5


def test_accuracies_of_rows_that_say_all_and_of_one_class() -> None:
    codes = np.stack([np.arange(400) % 10, (np.arange(400) % 10 > 6).astype(np.int64)], axis=1)
    table = table_of(codes)
    rows = frame(table, codes)
    known = accuracies(table.schema, "kind", rows, rows, seed=0)
    assert all(min(each.values()) > 0.99 for each in known.values())
    one_class = frame(table, codes[codes[:, 1] == 0])
    guessed = accuracies(table.schema, "kind", one_class, rows, seed=0)
    for each in guessed.values():
        assert each["roc_auc"] == 0.5
        assert each["pr_auc"] == pytest.approx(0.3)
        # All "a": F1 of 2 * .7 / 1.7 for one class and none for the other.
        assert each["macro_f1"] == pytest.approx(0.7 / 1.7)


def test_missing_numbers_are_told_apart_from_all_numbers() -> None:
    features, labels = frame(table_of(np.empty((0, 2), dtype=np.int64)), np.array([[0, 1], [9, 0], [10, 1]]))
    assert features["size"].tolist() == [0.0, 9.0, -1.0]
    assert labels.tolist() == [1, 0, 1]
