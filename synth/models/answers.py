"""What a joint model is fitted to, and what it can be asked: noisy tables of counts in, tables and rows out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["JointModel", "Measured"]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A noisy table of counts over some columns.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns, ascending.
    table : array of shape (bins of each column), float64
        Counts with noise, in rows; of any sign.
    noise_std : float
        Standard deviation of the noise of one count, in rows; positive.
    """

    columns: tuple[int, ...]
    table: NDArray[np.float64]
    noise_std: float

    def __post_init__(self) -> None:
        if list(self.columns) != sorted(set(self.columns)) or self.table.ndim != len(self.columns):
            raise ValueError(f"columns must ascend and match the table's axes, got {self.columns}.")
        if not (math.isfinite(self.noise_std) and self.noise_std > 0):
            raise ValueError(f"noise_std must be positive and finite, got {self.noise_std}.")


class JointModel(Protocol):
    """A joint distribution of binned columns, fitted to noisy tables alone."""

    sizes: tuple[int, ...]

    def marginal(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the proportions of a few columns, shape (bins of each), sum 1; columns ascend."""
        ...

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns); counts follow the model by controlled rounding."""
        ...

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything that ``sample`` needs."""
        ...
