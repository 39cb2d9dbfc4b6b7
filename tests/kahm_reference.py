"""Reference values of kernel affine hull machines, and the machine written out slowly from the definitions."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

VECTORS = Path(__file__).parent / "references" / "kahm.json"

TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Largest absolute difference from a reference value."""

DTYPES = list(TOLERANCE)


@cache
def vectors() -> dict[str, Any]:
    return json.loads(VECTORS.read_text(encoding="utf-8"))


def tensor(values: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def furthest(got: Any, want: Any) -> float:
    return float((torch.as_tensor(got).double() - torch.as_tensor(want, dtype=torch.float64)).abs().max())


def blobs(n_rows: int, n_columns: int, *, seed: int = 0) -> Tensor:
    """Rows in [0, 1] near a curve, as images or signals of one class are."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.rand(n_rows, 3, dtype=torch.float64, generator=generator)
    mix = torch.randn(3, n_columns, dtype=torch.float64, generator=generator)
    noise = 0.05 * torch.randn(n_rows, n_columns, dtype=torch.float64, generator=generator)
    return torch.sigmoid(torch.sin(3 * place) @ mix + noise)


class SlowMachine:
    """Definition 1 word by word: covariance, inverse, fixed point by its own iteration, no shift of exponents."""

    def __init__(self, rows: Any, n: int) -> None:
        self.rows = np.asarray(rows, dtype=float)
        count, columns = self.rows.shape
        covariance = np.cov(self.rows, rowvar=False).reshape(columns, columns)
        _, vectors_ = np.linalg.eigh(covariance)
        self.encoder = vectors_[:, ::-1][:, :n].T
        self.encoded = self.rows @ self.encoder.T
        self.inverse = np.linalg.inv(np.cov(self.encoded, rowvar=False).reshape(n, n))
        self.n = n
        self.kernel = self.kernel_of(self.encoded)
        level = np.sum(self.rows**2) / self.rows.size
        excess = level / 2
        for _ in range(500):
            residual = self.rows - self.kernel @ np.linalg.solve(
                self.kernel + (excess + 2 * level) * np.eye(count), self.rows
            )
            excess = np.sum(residual**2) / self.rows.size
        self.regulariser = excess + 2 * level
        self.solved = np.linalg.inv(self.kernel + self.regulariser * np.eye(count))

    def kernel_of(self, encoded: Any) -> Any:
        difference = encoded[:, None, :] - self.encoded[None, :, :]
        return np.exp(-np.einsum("abi,ij,abj->ab", difference, self.inverse, difference) / (2 * self.n))

    def weights(self, points: Any) -> Any:
        """Memberships h, shape (m, N): before they are divided by their sum."""
        return self.kernel_of(np.asarray(points, dtype=float) @ self.encoder.T) @ self.solved

    def image(self, points: Any) -> Any:
        weights = self.weights(points)
        return weights @ self.rows / weights.sum(axis=1, keepdims=True)
