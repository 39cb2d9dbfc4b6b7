"""Measures of noisy counts: those of scikit-learn without noise, unbiased and within their ranges with it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score

from synth.reports.prediction.charged import MEASURES, WIDEST_RANGE, measures_of, table_measures


def example(classes: int, bins: int, n: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Truth, guesses and bins of confidence of rows, and their counts."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(classes, n, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    scores = rng.normal(size=(n, classes)) + 1.6 * np.eye(classes)[truth]
    guess = scores.argmax(axis=1)
    ordered = np.sort(scores, axis=1)
    place = np.minimum((ordered[:, -1] - ordered[:, -2]) * bins / 3, bins - 1).astype(int)
    counts = np.zeros((classes, bins, classes))
    np.add.at(counts, (guess, place, truth), 1)
    return truth, guess, place, counts


@pytest.mark.parametrize(("classes", "bins"), [(2, 5), (2, 1), (4, 3)])
def test_without_noise_they_are_those_of_scikit_learn(classes: int, bins: int) -> None:
    truth, guess, place, counts = example(classes, bins, 3000)
    found = measures_of(counts[None], tuple(range(classes)), tuple(range(classes)))
    asked = [np.where(guess == one, place + 1, -(place + 1)) for one in range(classes)]
    expected = {
        "roc_auc": np.mean([roc_auc_score(truth == one, score) for one, score in enumerate(asked)]),
        "macro_f1": f1_score(truth, guess, average="macro"),
        "weighted_f1": f1_score(truth, guess, average="weighted"),
        "accuracy": accuracy_score(truth, guess),
    }
    for name, value in expected.items():
        assert found[name][0] == pytest.approx(value, abs=1e-12), name


def test_the_area_under_precision_is_that_of_rows_in_random_order_within_a_bin() -> None:
    truth, guess, place, counts = example(2, 3, 4000)
    found = measures_of(counts[None], (0, 1), (1,))["pr_auc"][0]
    score = np.where(guess == 1, place + 1, -(place + 1))
    rng = np.random.default_rng(1)
    shuffled = [average_precision_score(truth == 1, score + 0.5 * rng.random(len(score))) for _ in range(20)]
    assert found == pytest.approx(np.mean(shuffled), abs=0.003)
    assert average_precision_score(truth == 1, score) < found  # all rows of a bin at once would undervalue it


@pytest.mark.thorough
@pytest.mark.parametrize(("classes", "bins", "noise_std"), [(2, 5, 20.0), (3, 3, 12.0)])
def test_ranges_cover_and_noise_carries_off_nothing(classes: int, bins: int, noise_std: float) -> None:
    *_, counts = example(classes, bins, 4000)
    exact = table_measures(counts, 1e-6, seed=0)
    rng = np.random.default_rng(7)
    repeats = 200
    inside, errors = dict.fromkeys(MEASURES, 0), {name: [] for name in MEASURES}
    for seed in range(repeats):
        found = table_measures(counts + rng.normal(0, noise_std, counts.shape), noise_std, seed=seed)
        assert found.asked == exact.asked
        for name in MEASURES:
            off = found.measures[name].value - exact.measures[name].value
            errors[name].append(off)
            inside[name] += abs(off) <= found.measures[name].error
            assert found.measures[name].error < 0.1  # tight enough to say something
    for name in MEASURES:
        assert inside[name] >= 0.9 * repeats, name
        assert abs(np.mean(errors[name])) <= 0.01, name
        # Half the noise would not be covered: the ranges are as wide as they have to be.
        assert np.mean(np.abs(errors[name])) > 0.2 * found.measures[name].error, name


def test_what_noise_hides_has_no_value() -> None:
    *_, counts = example(2, 5, 60)
    found = table_measures(counts, 50.0, seed=0)
    assert {measure.value for measure in found.measures.values()} == {None}
    assert found.rows.value is not None
    *_, counts = example(2, 5, 1000)
    little = table_measures(counts, 30.0, seed=0)
    shown = [measure for measure in little.measures.values() if measure.value is not None]
    assert all(measure.error <= WIDEST_RANGE for measure in shown)


def test_a_class_that_nobody_has_is_left_out_of_means() -> None:
    *_, counts = example(3, 2, 2000)
    counts[..., 1] = 0
    found = table_measures(counts, 2.0, seed=0)
    assert found.classes == (0, 2)
    assert found.asked == (0, 2)
    one = counts.copy()
    one[..., 0] = 0
    alone = table_measures(one, 2.0, seed=0)
    assert alone.classes == (2,)
    assert alone.measures["roc_auc"].value is None
    assert alone.measures["macro_f1"].value is None
    assert alone.measures["accuracy"].value is not None


def test_a_value_beyond_its_bounds_keeps_the_width_of_its_noise() -> None:
    """Where nearly all is guessed right, noise carries an accuracy above 1: its range must not shrink by that."""
    counts = np.zeros((2, 5, 2))
    counts[0, :, 0], counts[1, :, 1] = 300, 300
    counts[0, 0, 1] = -60  # as noise would have it
    found = table_measures(counts, 30.0, seed=0)
    assert found.measures["accuracy"].value == 1.0
    expected = 1.96 * 30 * np.sqrt(10) / counts.sum()
    for name in ("accuracy", "macro_f1", "weighted_f1"):
        assert found.measures[name].error > 0.9 * expected, name


def test_the_majority_stands_at_the_bottom() -> None:
    truth, *_, counts = example(2, 5, 3000)
    always = table_measures(counts, 1e-6, seed=0).majority
    assert always["accuracy"].value == pytest.approx((truth == 1).mean())
    assert always["roc_auc"].value == pytest.approx(0.5)
    assert always["pr_auc"].value == pytest.approx((truth == 0).mean())
    assert always["macro_f1"].value == pytest.approx(f1_score(truth, np.ones_like(truth), average="macro"))
