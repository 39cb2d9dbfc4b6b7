"""What a kernel affine hull machine reports of itself, and the images it gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["HullImages", "HullReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HullReport:
    """What a fit found.

    Attributes
    ----------
    n_rows, n_columns : int
    n_effective : int
        Principal coordinates in use: n, or less where the rows have less rank.
    regulariser : float
        Lambda of eq. 40, in squared units of the rows; 0 where all rows are 0.
    excess : float
        The fixed point of eq. 41.
    residual : float
        Error of the fixed point relative to lambda.
    condition : float
        Bound on the condition number of the matrix that was factored.
    double_precision : bool
        Whether matrices are float64: asked for, or needed as N / lambda is above 1e5.
    raised : bool
        Whether lambda lay below the rounding of K and was raised to it.
    newton_steps : int
    """

    n_rows: int
    n_columns: int
    n_effective: int
    regulariser: float
    excess: float
    residual: float
    condition: float
    double_precision: bool
    raised: bool
    newton_steps: int


@dataclass(frozen=True, slots=True, eq=False)
class HullImages:
    """Images of points, and which of them are the nearest row because the weights nearly cancelled.

    Attributes
    ----------
    images : Tensor of shape (m, p)
    guarded : Tensor of shape (m,), bool
    """

    images: Tensor
    guarded: Tensor
