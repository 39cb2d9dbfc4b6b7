import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from synth.errors import InputError
from synth.models.kahm_classifier import KahmModel
from synth.models.kahm_parties import ClassDistances, FederatedClassifier, combined_distances

VECTORS = json.loads((Path(__file__).parent.parent / "references" / "kahm.json").read_text(encoding="utf-8"))


def test_reference_values():
    want = VECTORS["federated"]
    table = np.array(
        [[[math.inf if value is None else value for value in row] for row in point] for point in want["Gamma"]]
    )
    n_parties = table.shape[2]
    answers = []
    for party in range(n_parties):
        known = [number for number in range(table.shape[1]) if np.isfinite(table[0, number, party])]
        answers.append(ClassDistances(tuple(known), table[:, known, party]))
    combined = combined_distances(answers)
    assert combined.values == pytest.approx(np.array(want["Gamma_global"]))
    assert combined.predict().tolist() == want["GC"]
    # A party may as well send infinite distances for classes it lacks.
    whole = [ClassDistances(tuple(range(table.shape[1])), table[:, :, party]) for party in range(n_parties)]
    assert (combined_distances(whole).values == combined.values).all()


@pytest.fixture(scope="module")
def parties():
    images, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(images / 16)
    # Each party lacks some classes; together they have all.
    shares = [labels[:1200] < 5, (labels[:1200] >= 4) & (labels[:1200] < 8), labels[:1200] % 3 == 0]
    models = [KahmModel.fit(images[:1200][torch.from_numpy(share)], labels[:1200][share], n=10) for share in shares]
    return models, images[1200:], labels[1200:]


def test_parties_with_missing_classes(parties):
    models, points, labels = parties
    classifier = FederatedClassifier(tuple(models))
    known = labels != 8
    assert (classifier.predict(points)[known] == labels[known]).mean() > 0.9
    assert classifier.distances(points).classes == (0, 1, 2, 3, 4, 5, 6, 7, 9)


def test_exchanging_distances_or_models_is_the_same(parties):
    models, points, _ = parties
    sent = combined_distances([ClassDistances.of(model, points) for model in models])
    held = FederatedClassifier(tuple(models)).distances(points)
    assert sent.classes == held.classes
    assert (sent.values == held.values).all()
    backwards = combined_distances([ClassDistances.of(model, points) for model in reversed(models)])
    assert (backwards.values == held.values).all()


def test_one_party_alone_is_its_own_classifier(parties):
    models, points, _ = parties
    assert (FederatedClassifier((models[0],)).predict(points) == models[0].predict(points)).all()


def test_matching_scores_of_missing_classes_are_zero():
    answer = ClassDistances(("a", "b", "c"), np.array([[1.0, math.inf, 2.0]]))
    assert answer.matching_scores()[0] == pytest.approx([math.exp(-0.2), 0.0, math.exp(-0.8)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: combined_distances([]), "at least one party"),
        (lambda: combined_distances([distances(2, 1), distances(3, 1)]), "different numbers of points"),
        (lambda: combined_distances([distances(2, "a"), distances(2, 1)]), "all text or all whole"),
        (lambda: ClassDistances((1, 0), np.zeros((2, 2))), "ascend"),
        (lambda: ClassDistances((), np.zeros((2, 0))), "one class at least"),
        (lambda: ClassDistances((0, 1), np.zeros((2, 3))), "do not fit"),
        (lambda: ClassDistances((0,), np.array([[math.nan]])), "must be numbers"),
        (lambda: ClassDistances((0,), np.array([[-1.0]])), "must not be negative"),
        (lambda: FederatedClassifier(()), "at least one party"),
        (lambda: FederatedClassifier((model(2), model(3))), r"columns: \[2, 3\]"),
    ],
    ids=["nobody", "points", "kinds", "order", "no class", "shape", "nan", "negative", "no model", "columns"],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def distances(n_points, label):
    return ClassDistances((label,), np.zeros((n_points, 1)))


def model(n_columns):
    return KahmModel.fit(torch.rand(5, n_columns, generator=torch.Generator().manual_seed(0)), [0] * 5)
