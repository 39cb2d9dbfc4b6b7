import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from synth.errors import InputError
from synth.reports.membership.score import (
    membership_score_of_distances,
    membership_score_of_rows,
)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order] / 16, labels[order]
    return {"members": images[:600], "others": images[600:1200], "third": images[1200:], "labels": labels[:600]}


def test_a_generator_that_copies_is_found_out(digits):
    score = membership_score_of_rows(
        digits["members"], digits["members"], digits["others"], labels=digits["labels"], permutations=19
    )
    assert score.stands_out
    assert score.unit_free > 5 * score.null_95
    assert score.p_value == pytest.approx(1 / 20)
    assert score.auc - score.auc_error > 0.7
    assert score.tpr > 0.05


def test_without_labels_a_copy_is_found_out_as_well(digits):
    score = membership_score_of_rows(digits["members"], digits["members"], digits["others"], permutations=19)
    assert score.stands_out
    assert score.auc > 0.7


@pytest.mark.thorough
def test_rows_of_strangers_give_nobody_away(digits):
    """An honest generator: rows that have nothing to do with either sample."""
    score = membership_score_of_rows(digits["third"], digits["members"], digits["others"], permutations=59)
    assert not score.stands_out
    assert abs(score.auc - 0.5) < 1.5 * score.auc_error
    assert score.tpr < 0.05


@pytest.mark.thorough
def test_the_null_keeps_its_level():
    """Of honest pairs of samples about 5 % may stand out: 20 pairs, so seldom more than 4."""
    random = np.random.default_rng(1)
    found = [
        membership_score_of_distances(random.gamma(5, size=80), random.gamma(5, size=60), permutations=19, seed=seed)
        for seed in range(20)
    ]
    assert sum(score.stands_out for score in found) <= 4
    assert np.mean([score.auc for score in found]) == pytest.approx(0.5, abs=0.05)
    assert np.mean([abs(score.auc - 0.5) <= score.auc_error for score in found]) >= 0.8


def test_identical_samples_score_nothing():
    distances = np.random.default_rng(0).gamma(5, size=150)
    score = membership_score_of_distances(distances, distances, permutations=19)
    assert score.value == pytest.approx(0, abs=1e-12)
    assert score.auc == pytest.approx(0.5)
    assert score.p_value == 1.0


@pytest.mark.parametrize(("n_members", "n_others"), [(200, 20), (20, 200), (2, 3)])
def test_samples_of_different_sizes(n_members, n_others):
    random = np.random.default_rng(2)
    score = membership_score_of_distances(random.random(n_members), random.random(n_others), permutations=19)
    assert math.isfinite(score.unit_free)
    assert (score.n_members, score.n_non_members) == (n_members, n_others)


def test_the_unit_of_distance_changes_the_score_but_not_the_unit_free_one():
    random = np.random.default_rng(3)
    members, others = random.gamma(5, size=200), 1.2 * random.gamma(5, size=150)
    metres, millimetres = (
        membership_score_of_distances(factor * members, factor * others, permutations=19) for factor in (1, 1000)
    )
    assert millimetres.unit_free == pytest.approx(metres.unit_free, rel=1e-9)
    assert millimetres.null_95 == pytest.approx(metres.null_95, rel=1e-9)
    assert millimetres.value == pytest.approx(metres.value / 1000, rel=1e-9)
    spread = np.concatenate([members, others]).std(ddof=1)
    assert metres.unit_free == pytest.approx(metres.value * spread)


def test_the_same_seed_gives_the_same_score():
    random = np.random.default_rng(4)
    members, others = random.random(60), random.random(50)
    first = membership_score_of_distances(members, others, permutations=19, seed=5)
    assert first == membership_score_of_distances(members, others, permutations=19, seed=5)
    assert first != membership_score_of_distances(members, others, permutations=19, seed=6)


def test_attack_figures_by_counting():
    random = np.random.default_rng(6)
    members, others = random.integers(0, 9, size=150).astype(float), random.integers(1, 12, size=230).astype(float)
    score = membership_score_of_distances(members, others, permutations=19)
    nearer = (members[:, None] < others).mean() + (members[:, None] == others).mean() / 2
    assert score.auc == pytest.approx(nearer)
    rates = [((members < level).mean(), (others < level).mean()) for level in np.arange(0, 13)]
    assert score.tpr == pytest.approx(max(true for true, false in rates if false <= 0.01))


def test_distances_that_do_not_vary_score_nothing():
    score = membership_score_of_distances([1.0] * 5, [1.0] * 4, permutations=19)
    assert (score.value, score.unit_free, score.null_95, score.p_value, score.auc) == (0, 0, 0, 1, 0.5)


@pytest.mark.parametrize(
    ("members", "others", "permutations", "words"),
    [
        ([1.0], [1.0, 2.0], 19, "at least 2 members"),
        ([[1.0, 2.0]], [1.0, 2.0], 19, "at least 2 members"),
        ([1.0, math.inf], [1.0, 2.0], 19, "must be finite"),
        ([1.0, 2.0], [1.0, 2.0], 18, "at least 19"),
    ],
    ids=["one", "table", "infinite", "permutations"],
)
def test_what_cannot_be_scored_is_refused(members, others, permutations, words):
    with pytest.raises(InputError, match=words):
        membership_score_of_distances(members, others, permutations=permutations)
