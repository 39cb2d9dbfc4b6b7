"""MNIST, read from its own files, for the KAHM benchmarks."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Pictures", "mnist", "read_idx"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Training and test pictures.

    ``train`` and ``test`` have shapes (rows, pixels), float32 in [0, 1]; labels are whole numbers from 0.
    """

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
    train, test = (read_idx(folder / f"{part}-images-idx3-ubyte.gz").reshape(-1, 784) for part in ("train", "t10k"))
    train_labels, test_labels = (read_idx(folder / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k"))
    return Pictures(_scaled(train), train_labels.astype(int), _scaled(test), test_labels.astype(int))


def read_idx(path: Path) -> np.ndarray:
    """Read an array of bytes in the format of MNIST, gzipped."""
    body = gzip.decompress(path.read_bytes())
    dimensions = body[3]
    shape = [int.from_bytes(body[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(dimensions)]
    return np.frombuffer(body, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _scaled(pixels: np.ndarray) -> np.ndarray:
    return (pixels / 255).astype(np.float32)
