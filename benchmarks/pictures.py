"""MNIST and the digits of scikit-learn as rows of numbers in [0, 1], for the KAHM benchmarks."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Pictures", "digits", "mnist"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Training and test pictures.

    ``train`` and ``test`` have shapes (rows, pixels), float32 in [0, 1]; labels are whole numbers from 0.
    """

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def classes(self) -> int:
        return int(self.train_labels.max()) + 1


def mnist(data: Path) -> Pictures:
    """Read the 60,000 and 10,000 pictures of MNIST; pixels are divided by 255."""
    folder = data / "mnist"
    train, test = (_read(folder / f"{part}-images-idx3-ubyte.gz").reshape(-1, 784) for part in ("train", "t10k"))
    train_labels, test_labels = (_read(folder / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k"))
    return Pictures("mnist", _scaled(train), train_labels.astype(int), _scaled(test), test_labels.astype(int))


def digits(seed: int = 0) -> Pictures:
    """Split the 1,797 digits of scikit-learn into 1,297 and 500."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    train, test = order[:1297], order[1297:]
    rows = (rows / 16).astype(np.float32)
    return Pictures("digits", rows[train], labels[train], rows[test], labels[test])


def _read(path: Path) -> np.ndarray:
    body = gzip.decompress(path.read_bytes())
    dimensions = body[3]
    shape = [int.from_bytes(body[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(dimensions)]
    return np.frombuffer(body, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _scaled(pixels: np.ndarray) -> np.ndarray:
    return (pixels / 255).astype(np.float32)
