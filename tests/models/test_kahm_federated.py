import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from synth.errors import InputError
from synth.models.kahm_classifier import KahmModel
from synth.models.kahm_parties import FederatedClassifier

VECTORS = json.loads((Path(__file__).parent.parent / "references" / "kahm.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Answering:
    """A party's model of which only the answers are known."""

    classes: tuple[int, ...]
    answers: np.ndarray
    n_columns: int = 1

    def distances(self, points):
        return torch.from_numpy(self.answers)


def test_reference_values():
    want = VECTORS["federated"]
    table = np.array(
        [[[math.inf if value is None else value for value in row] for row in point] for point in want["Gamma"]]
    )
    parties = []
    for party in range(table.shape[2]):
        known = [number for number in range(table.shape[1]) if np.isfinite(table[0, number, party])]
        parties.append(Answering(tuple(known), table[:, known, party]))
    points = torch.zeros(len(table), 1)
    assert FederatedClassifier(tuple(parties)).distances(points) == pytest.approx(np.array(want["Gamma_global"]))
    assert FederatedClassifier(tuple(parties)).predict(points).tolist() == want["GC"]


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
    assert classifier.classes == (0, 1, 2, 3, 4, 5, 6, 7, 9)


def test_the_order_of_parties_does_not_matter(parties):
    models, points, _ = parties
    found = FederatedClassifier(tuple(models)).distances(points)
    assert (FederatedClassifier(tuple(reversed(models))).distances(points) == found).all()


def test_one_party_alone_is_its_own_classifier(parties):
    models, points, _ = parties
    assert (FederatedClassifier((models[0],)).predict(points) == models[0].predict(points)).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FederatedClassifier(()), "at least one party"),
        (lambda: FederatedClassifier((model(2), model(3))), r"columns: \[2, 3\]"),
        (lambda: FederatedClassifier((model(2), model(2, "a"))).classes, "all text or all whole"),
    ],
    ids=["no model", "columns", "kinds"],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def model(n_columns, label=0):
    return KahmModel.fit(torch.rand(5, n_columns, generator=torch.Generator().manual_seed(0)), [label] * 5)
