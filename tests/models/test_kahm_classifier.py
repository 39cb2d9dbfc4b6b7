import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from synth.errors import InputError
from synth.models.fabrication import fabrications
from synth.models.kahm_classifier import KahmClassifier, KahmModel
from synth.system import machine


@parametrize_with_checks([KahmClassifier()])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return images[order] / 16, labels[order]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_digits(digits, dtype):
    images, labels = digits[0].astype(dtype), digits[1]
    model = KahmClassifier().fit(images[:1297], labels[:1297])
    assert model.score(images[1297:], labels[1297:]) > 0.97
    assert model.distances(images[:3]).dtype == dtype


def test_predictions_scores_and_distances_agree(digits):
    images, labels = digits
    model = KahmClassifier(n=10, block=60, partition="random").fit(images[:600], labels[:600].astype(str))
    points = images[600:800]
    distances, shares = model.distances(points), model.predict_proba(points)
    assert (model.predict(points) == model.classes_[distances.argmin(axis=1)]).all()
    assert (shares.argmax(axis=1) == distances.argmin(axis=1)).all()
    assert shares.sum(axis=1) == pytest.approx(1)
    squares = distances**2
    scores = np.exp(-squares / squares.sum(axis=1, keepdims=True))
    assert model.decision_function(points) == pytest.approx(np.log(scores), abs=1e-12)
    assert shares == pytest.approx(scores / scores.sum(axis=1, keepdims=True), abs=1e-12)


def test_of_two_classes_at_the_same_distance_the_first_is_predicted():
    rows = np.array([[0.2, 0.1], [0.4, 0.9], [0.7, 0.3], [0.2, 0.1], [0.4, 0.9], [0.7, 0.3]])
    model = KahmClassifier(n=2).fit(rows, ["b", "b", "b", "a", "a", "a"])
    assert model.predict(rows[:3]).tolist() == ["a"] * 3
    assert model.decision_function(rows[:3]).tolist() == [0.0] * 3
    assert model.predict_proba(rows[:3]) == pytest.approx(0.5)


def test_public_bounds_and_fitted_ones(digits):
    images, labels = digits
    raw, scaled = 16 * images, images
    want = KahmClassifier(n=8).fit(scaled[:500], labels[:500]).distances(scaled[500:520])
    public = KahmClassifier(n=8, scale=(0, 16)).fit(raw[:500], labels[:500])
    assert public.distances(raw[500:520]) == pytest.approx(want, abs=1e-10)
    by_column = KahmClassifier(n=8, scale=(np.zeros(64), np.full(64, 16.0))).fit(raw[:500], labels[:500])
    assert by_column.distances(raw[500:520]) == pytest.approx(want, abs=1e-10)
    fitted = KahmClassifier(n=8, scale="fitted").fit(raw[:500], labels[:500])
    assert (raw[:500].min(axis=0) == fitted.offset_).all()
    assert fitted.score(raw[500:], labels[500:]) > 0.9
    # Without a scale the same digits in other units make another classifier.
    assert KahmClassifier(n=8).fit(raw[:500], labels[:500]).distances(raw[500:520]) / 16 != pytest.approx(
        want, abs=1e-3
    )


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("unit", "None, 'fitted'"),
        ((1, 0), "below the upper"),
        ((0, np.inf), "finite"),
        ((0, 1, 2), "two bounds"),
        (3, "two"),
    ],
    ids=["word", "order", "infinite", "three", "one"],
)
def test_scales_that_are_none_are_refused(scale, words):
    with pytest.raises(InputError, match=words):
        KahmClassifier(scale=scale).fit(np.eye(3), [0, 1, 1])


def test_the_same_seed_gives_the_same_classifier(digits):
    images, labels = digits
    model = KahmClassifier(block=30, seed=3)
    first = model.fit(images[:400], labels[:400]).distances(images[400:420])
    assert (clone(model).fit(images[:400], labels[:400]).distances(images[400:420]) == first).all()
    assert (clone(model).set_params(seed=4).fit(images[:400], labels[:400]).distances(images[400:420]) != first).any()


def test_blocks_reach_the_machines(digits):
    images, labels = digits
    model = KahmClassifier(n=6, block=50).fit(images[:400], labels[:400]).model_
    for group, hull in enumerate(model.hulls):
        assert sum(part.report.n_rows for part in hull.parts) == int((labels[:400] == group).sum())
        assert all(part.report.n_effective == 6 for part in hull.parts)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_predicts_what_the_cpu_predicts(digits):
    images, labels = digits
    here = KahmClassifier(block=60).fit(images[:600], labels[:600]).distances(images[600:])
    there = KahmClassifier(block=60, partition="k-means", device="cuda").fit(images[:600], labels[:600])
    assert there.distances(images[600:]) == pytest.approx(here, abs=1e-8)


# Models of several classes


def test_a_class_of_one_row_and_a_class_of_equal_rows():
    rows = torch.tensor([[0.1, 0.2], [0.5, 0.5], [0.5, 0.5], [0.9, 0.1], [0.8, 0.3], [0.7, 0.2]], dtype=torch.float64)
    model = KahmModel.fit(rows, ["one", "same", "same", "many", "many", "many"])
    assert model.classes == ("many", "one", "same")
    assert model.predict(rows[:3]).tolist() == ["one", "same", "same"]


def test_a_party_learns_from_noisy_rows(digits):
    images, labels = torch.from_numpy(digits[0]), torch.from_numpy(digits[1])
    noise = torch.distributions.Laplace(0.0, 0.25).sample(images[:1297].shape).double()
    noisy, made = images[:1297] + noise, torch.empty_like(images[:1297])
    for label in range(10):
        own = torch.nonzero(labels[:1297] == label).flatten()
        made[own] = next(fabrications([noisy[own]], n=20)).rows
    model = KahmModel.fit(made, labels[:1297].numpy(), n=20)
    assert (model.predict(images[1297:]) == labels[1297:].numpy()).mean() > 0.95


# Threads


def test_threads_are_no_more_than_the_machine_lends_and_restored():
    before = torch.get_num_threads()
    with machine.quota_threads():
        assert torch.get_num_threads() <= min(before, machine.cores())
    assert torch.get_num_threads() == before
