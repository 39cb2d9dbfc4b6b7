"""Every predictor learns what can be learnt, and rows that teach nothing give a constant prediction with its reason."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from choosing import each_once

from synth.reports.prediction import classifiers
from synth.reports.prediction.classifiers import CLASSIFIERS, REGRESSORS, Predictor, classify, regress


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def easy(rows: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(n_classes, size=rows)
    noise = random.random((rows, n_classes)).astype(np.float32)
    return np.clip(0.6 * noise + 0.4 * (labels[:, None] == np.arange(n_classes)), 0, 1).astype(np.float32), labels


def test_there_are_twelve_and_one() -> None:
    assert len(CLASSIFIERS) == 13
    assert len(REGRESSORS) == 5
    assert len({one.title for one in CLASSIFIERS.values()}) == 13


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_every_classifier_learns(name: str) -> None:
    rows, labels = easy(600, 3, seed=1)
    test, truth = easy(300, 3, seed=2)
    found = classify(CLASSIFIERS[name], rows, labels + 10, test, np.array([10, 12, 99]), seed=0)
    assert found.constant is None
    assert set(found.classes) <= {10, 11, 12}
    assert (found.classes == truth + 10).mean() > 0.6
    for place, one in enumerate((0, 2)):
        assert found.scores[truth == one, place].mean() > found.scores[truth != one, place].mean()
    # A class that no training row has is as likely everywhere.
    assert len(set(found.scores[:, 2])) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_two_classes_have_scores_on_both_sides(name: str) -> None:
    rows, labels = easy(400, 2, seed=1)
    found = classify(CLASSIFIERS[name], rows, labels, rows, np.array([1, 0]), seed=0)
    assert np.corrcoef(found.scores[:, 0], labels)[0, 1] > 0.3
    assert np.corrcoef(found.scores[:, 1], labels)[0, 1] < -0.3


DEGENERATE = {
    "one class": (np.random.default_rng(0).random((50, 3)), np.full(50, 4)),
    "constant columns": (np.ones((50, 3)), np.arange(50) % 2),
    "no columns": (np.zeros((50, 0)), np.arange(50) % 2),
    "no rows": (np.zeros((0, 3)), np.zeros(0)),
    "two rows": (np.eye(2, 3), np.arange(2)),
    "sixty classes in 200 rows": (np.random.default_rng(1).random((200, 3)), np.arange(200) % 60),
    "a class for every row": (np.random.default_rng(2).random((12, 3)), np.arange(12)),
    "a class of one row": (np.random.default_rng(3).random((60, 3)), np.arange(60) // 59),
}
CONSTANT = {"one class", "constant columns", "no columns", "no rows"}


@pytest.mark.parametrize(("name", "case"), each_once(list(CLASSIFIERS), list(DEGENERATE), others=pytest.mark.slow))
def test_odd_rows_stop_no_classifier(name: str, case: str) -> None:
    rows, labels = DEGENERATE[case]
    test = np.random.default_rng(5).random((20, rows.shape[1])).astype(np.float32)
    found = classify(
        CLASSIFIERS[name], rows.astype(np.float32), labels.astype(np.int64), test, np.array([0, 1]), seed=0
    )
    assert found.classes.shape == (20,)
    assert found.scores.shape == (20, 2)
    assert np.isfinite(found.scores).all()
    if case in CONSTANT:
        assert found.constant
        assert len(set(found.classes)) == 1
    if case == "one class":
        assert set(found.classes) == {4}


@pytest.mark.parametrize("name", list(REGRESSORS))
def test_every_regressor_learns_within_the_bounds(name: str) -> None:
    random = np.random.default_rng(1)
    rows = random.random((500, 4)).astype(np.float32)
    truth = 200 + 800 * rows[:, 0]
    found = regress(REGRESSORS[name], rows[:300], truth[:300], rows[300:], (200.0, 1000.0), seed=0)
    assert found.constant is None
    assert found.values.min() >= 200
    assert found.values.max() <= 1000
    assert np.corrcoef(found.values, truth[300:])[0, 1] > 0.8


@pytest.mark.parametrize("name", list(REGRESSORS))
@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        (np.ones((9, 2)), np.arange(9.0), 4.0),
        (np.eye(9), np.full(9, 3.0), 3.0),
        (np.zeros((0, 2)), np.zeros(0), 5.0),
    ],
    ids=["constant columns", "one number", "no rows"],
)
def test_odd_rows_stop_no_regressor(name: str, rows: np.ndarray, labels: np.ndarray, expected: float) -> None:
    test = np.zeros((4, rows.shape[1]), dtype=np.float32)
    found = regress(REGRESSORS[name], rows.astype(np.float32), labels, test, (0.0, 10.0), seed=0)
    np.testing.assert_allclose(found.values, expected)
    assert found.constant


class Broken:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def fit(self, rows: np.ndarray, labels: np.ndarray) -> Broken:
        raise self.error("CANARY in a cell")


@pytest.mark.parametrize("error", [ValueError, np.linalg.LinAlgError, FloatingPointError, MemoryError])
def test_a_library_that_gives_up_is_named_by_its_type_alone(error: type[Exception]) -> None:
    broken = Predictor("broken", lambda _: Broken(error))
    rows, labels = easy(30, 2, seed=1)
    found = classify(broken, rows, labels, rows, np.array([1]), seed=0)
    assert found.constant == f"Not trained ({error.__name__})."
    assert regress(broken, rows, labels.astype(float), rows, (0.0, 1.0), seed=0).constant == found.constant


def test_linear_discriminants_need_rows_that_differ_within_classes() -> None:
    rows, labels = np.repeat(np.eye(2, dtype=np.float32), [57, 3], axis=0), np.repeat([0, 1], [57, 3])
    found = classify(CLASSIFIERS["lda"], rows, labels, rows, np.array([0, 1]), seed=0)
    assert found.constant == "Not trained (IndexError)."
    assert set(found.classes) == {0}


def test_a_fault_of_ours_is_not_hidden() -> None:
    rows, labels = easy(30, 2, seed=1)
    with pytest.raises(AttributeError):
        classify(Predictor("broken", lambda _: Broken(AttributeError)), rows, labels, rows, np.array([1]), seed=0)


def test_a_package_that_is_not_there_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(one.is_there for one in (CLASSIFIERS["xgboost"], CLASSIFIERS["mlp"]))
    monkeypatch.setattr(classifiers, "find_spec", lambda name: None)
    assert [name for name, one in CLASSIFIERS.items() if not one.is_there] == ["xgboost"]
