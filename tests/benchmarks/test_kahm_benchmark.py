"""The KAHM paper's experiments: a class's machine keeps its clusters, and every test picture is scored."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import kahm  # noqa: E402
from pictures import Pictures  # noqa: E402

SIZES = (30, 50)


def pictures(seed: int = 0) -> Pictures:
    """Two classes, each of a small and a large cluster far apart: together they are one cloud in strong noise."""
    random = np.random.default_rng(seed)
    centres = random.random((2, 2, 12))

    def rows() -> tuple[np.ndarray, np.ndarray]:
        parts = [
            centres[label, cluster] + 0.02 * random.normal(size=(SIZES[cluster], 12))
            for label in range(2)
            for cluster in range(2)
        ]
        return np.concatenate(parts).astype(np.float32), np.repeat([0, 1], sum(SIZES))

    return Pictures(*rows(), *rows())


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> kahm.Experiment:
    monkeypatch.setattr(kahm, "BLOCK", 40)
    monkeypatch.setattr(kahm, "SCORED", 60)
    return kahm.Experiment(pictures(), depth=1, device="cpu")


@pytest.mark.parametrize("definition", [12, 15])
def test_parts_of_a_machine_are_the_clusters_of_the_original_rows(experiment: kahm.Experiment, definition: int) -> None:
    generator, members = torch.Generator().manual_seed(3), experiment.members(1)
    if definition == 12:
        parts = experiment.noisy(members, epsilon=0.5, generator=generator)
    else:
        parts, _ = experiment.fabricated(members, epsilon=0.5, n=3, generator=generator)
    assert sorted(map(len, parts)) == list(SIZES)
    (machine,) = experiment.hulls([parts], n=3)
    assert [part.layers[0].report.n_rows for part in machine.parts] == [len(part) for part in parts]
    for part, made in zip(machine.parts, parts, strict=True):
        assert torch.equal(part.layers[0].rows, made)


def test_parts_may_be_looked_for_again(experiment: kahm.Experiment) -> None:
    parts = experiment.noisy(experiment.members(0), epsilon=0.5, generator=torch.Generator().manual_seed(3))
    experiment.parts = "again"
    (machine,) = experiment.hulls([parts], n=3)
    rows = torch.cat([part.layers[0].rows for part in machine.parts])
    assert torch.equal(rows.sort(dim=0).values, torch.cat(parts).sort(dim=0).values)
    assert sorted(part.layers[0].report.n_rows for part in machine.parts) != list(SIZES)


def test_all_test_pictures_are_scored(experiment: kahm.Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def seen(members: np.ndarray, others: np.ndarray, *, seed: int) -> object:
        sizes.append((len(members), len(others)))
        return right(members, others, seed=seed)

    right = kahm.membership_score_of_distances
    monkeypatch.setattr(kahm, "membership_score_of_distances", seen)
    found = experiment.central(epsilon=50.0, n=3, definition=12, seed=0)
    assert found["accuracy"] == 1.0
    assert sizes == [(60, 2 * sum(SIZES)), (60, sum(SIZES)), (60, sum(SIZES))]
    assert len(found["score_by_halves"]) == 2


def test_parties_without_a_class_leave_it_to_others(experiment: kahm.Experiment) -> None:
    found = experiment.federated(experiment.by_class(1), epsilon=50.0, n=3, seed=0)
    assert found["accuracy"] == 1.0
