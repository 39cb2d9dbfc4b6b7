"""Measures equal those of scikit-learn, row by row and for every resampling."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from synth.reports.prediction.scores import class_measures, number_measures, resampled


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("decimals", [1, 8], ids=["ties", "no ties"])
def test_class_measures_equal_the_library_on_repeated_rows(n_classes: int, decimals: int) -> None:
    random = np.random.default_rng(n_classes)
    truth, guesses = random.integers(n_classes, size=(2, 300))
    guesses = np.where(random.random(300) < 0.5, truth, guesses)
    asked = np.arange(n_classes) if n_classes > 2 else np.array([1])
    scores = np.round(random.random((300, len(asked))) + 0.4 * (truth[:, None] == asked), decimals)
    weights = resampled(np.arange(300), 3, seed=4)
    found = class_measures(truth, guesses, scores, asked, weights)
    for place, one in enumerate(weights):
        rows = np.repeat(np.arange(300), one)
        true, guess, score = truth[rows], guesses[rows], scores[rows]
        expected = {
            "roc_auc": np.mean([metrics.roc_auc_score(true == c, score[:, i]) for i, c in enumerate(asked)]),
            "pr_auc": np.mean([metrics.average_precision_score(true == c, score[:, i]) for i, c in enumerate(asked)]),
            "macro_f1": metrics.f1_score(true, guess, average="macro"),
            "weighted_f1": metrics.f1_score(true, guess, average="weighted"),
            "accuracy": metrics.accuracy_score(true, guess),
        }
        assert {name: values[place] for name, values in found.items()} == pytest.approx(expected)


def test_macro_f1_is_over_the_classes_of_the_test_rows() -> None:
    truth, guesses = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 7])
    found = class_measures(truth, guesses, np.zeros((4, 1)), np.array([1]), resampled(np.arange(4), 0, seed=0))
    assert found["macro_f1"][0] == pytest.approx((1 + 2 / 3) / 2)


def test_one_class_has_no_area() -> None:
    truth = np.zeros(5, dtype=np.int64)
    found = class_measures(truth, truth, np.zeros((5, 1)), np.array([0]), resampled(np.arange(5), 2, seed=0))
    assert np.isnan(found["roc_auc"]).all()
    assert np.isnan(found["pr_auc"]).all()
    assert (found["accuracy"] == 1).all()


def test_constant_scores_are_the_anchor() -> None:
    truth = np.arange(100) // 80
    found = class_measures(
        truth, np.zeros(100, dtype=np.int64), np.zeros((100, 1)), np.array([1]), resampled(np.arange(100), 2, 0)
    )
    assert found["roc_auc"].tolist() == [0.5, 0.5, 0.5]
    assert found["pr_auc"][0] == pytest.approx(0.2)


def test_number_measures_equal_the_library_on_repeated_rows() -> None:
    random = np.random.default_rng(1)
    truth = 1000 + 50 * random.normal(size=200)
    guesses = truth + 20 * random.normal(size=200)
    weights = resampled(np.arange(200), 3, seed=4)
    found = number_measures(truth, guesses, weights)
    for place, one in enumerate(weights):
        rows = np.repeat(np.arange(200), one)
        assert found["r2"][place] == pytest.approx(metrics.r2_score(truth[rows], guesses[rows]))
        assert found["mae"][place] == pytest.approx(metrics.mean_absolute_error(truth[rows], guesses[rows]))
    assert np.isnan(number_measures(np.full(5, 7.1), np.arange(5.0), resampled(np.arange(5), 1, 0))["r2"]).all()


def test_resampling_keeps_the_number_of_rows_and_repeats_itself() -> None:
    weights = resampled(np.arange(50), 4, seed=9)
    assert weights.shape == (5, 50)
    assert (weights[0] == 1).all()
    assert (weights.sum(axis=1) == 50).all()
    np.testing.assert_array_equal(weights, resampled(np.arange(50), 4, seed=9))
    assert (weights != resampled(np.arange(50), 4, seed=10)).any()


def test_rows_of_one_unit_are_drawn_together() -> None:
    units = np.repeat(np.arange(40), 5)
    weights = resampled(units, 30, seed=1)
    assert (weights.reshape(31, 40, 5) == weights.reshape(31, 40, 5)[:, :, :1]).all()
    truth = np.repeat(np.arange(40) % 2, 5)
    guesses = np.where(units < 30, truth, 1 - truth)
    by_unit = number_measures(truth, guesses, weights)["mae"]
    by_row = number_measures(truth, guesses, resampled(np.arange(200), 30, seed=1))["mae"]
    # Five rows that are right or wrong together say as much as one.
    assert by_unit[1:].std() > 1.5 * by_row[1:].std()
