"""Pictures as columns: grey values are coded and drawn where they belong, and the best classifier reads real ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import images  # noqa: E402
from pictures import Pictures  # noqa: E402


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    """A bright square whose place tells the digit."""
    random = np.random.default_rng(1)
    labels = np.arange(120) % 10
    pixels = 0.2 * random.random((120, 28, 28)).astype(np.float32)
    for picture, label in zip(pixels, labels, strict=True):
        picture[2 * label : 2 * label + 6, 4:10] = 1.0
    flat = pixels.reshape(120, 784)
    return Pictures(flat[:80], labels[:80], flat[80:], labels[80:])


def test_a_picture_is_784_columns_of_grey_values_and_a_label(pictures: Pictures) -> None:
    task = images.problem(pictures, 16)
    assert len(task.schema.names) == 785
    assert task.train.shape == (80, 785)
    assert (task.train[:, :-1].min(), task.train[:, :-1].max()) == (0, 15)
    np.testing.assert_array_equal(task.test[:, -1], pictures.test_labels)
    assert task.train[3, 28 * 6 + 4] == 15


def test_a_sheet_has_a_line_for_every_digit(pictures: Pictures) -> None:
    rows = images.problem(pictures, 16).train
    page = images.sheet(rows, 16)
    assert page.shape == (280, 280)
    for label in range(10):
        corner = page[28 * label + 2 * label : 28 * label + 2 * label + 6, 4:10]
        assert corner.min() == 1.0
    assert page[:, 8 * 28 :].max() == 0.0, "eight pictures of each digit, then nothing"


@pytest.mark.thorough
def test_real_pictures_are_read(pictures: Pictures) -> None:
    task = images.problem(pictures, 16)
    found = images.accuracies(task.train, task.test, 16, size=80, seed=0)
    assert set(found) == set(images.TWELVE)
    assert found["logistic_regression"] > 0.9
    assert found["random_forest"] > 0.9
