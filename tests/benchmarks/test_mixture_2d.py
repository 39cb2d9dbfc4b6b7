"""Figure 2: the true density scores what it must, and neither lost modes nor collapsed rows pass for good."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import mixture_2d  # noqa: E402


def scored(points: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    private = mixture_2d.counts(*mixture_2d.drawn(800, np.random.default_rng(5)))
    return mixture_2d.scores(points, labels, private)


def test_the_distribution_itself_scores_the_entropy() -> None:
    found = scored(*mixture_2d.drawn(800, np.random.default_rng(1)))
    entropy = np.log(25) + 1 + np.log(2 * np.pi * 0.04)
    assert found["nll"] == pytest.approx(entropy, abs=0.03)
    assert found["nll, as printed"] - found["nll"] == pytest.approx(0.6905, abs=1e-4)
    assert found["modes"] == 25
    assert found["stray"] == pytest.approx(np.exp(-4.5), abs=0.004)


def test_no_class_has_two_neighbours() -> None:
    centres, classes = mixture_2d.means()
    apart = np.abs(centres[:, None] - centres).sum(axis=2)
    assert not ((apart == 1) & (classes[:, None] == classes)).any()
    assert (np.bincount(classes) == 5).all()


def test_collapsed_rows_have_a_better_likelihood_and_are_told_apart() -> None:
    centres, classes = mixture_2d.means()
    found = scored(np.repeat(centres, 100, axis=0), np.repeat(classes, 100))
    assert found["nll"] < 2.0
    assert found["modes"] == 25
    assert found["tv"] > 0.5


def test_modes_of_the_wrong_class_do_not_count() -> None:
    points, labels = mixture_2d.drawn(100, np.random.default_rng(2))
    found = scored(points, (labels + 1) % 5)
    assert (found["modes"], found["stray"]) == (0, pytest.approx(1.0, abs=0.06))


def test_rows_far_from_every_mean_have_a_finite_likelihood() -> None:
    found = scored(np.full((10, 2), -1.0), np.full(10, 3))
    assert 50 < found["nll"] < 500
