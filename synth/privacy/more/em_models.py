r"""The three models of the DP EM paper (Wang 2020, section 3, appendix C): what every row adds to an E-step.

Each has one unknown vector beta, of length d, and a known noise. Rows come as one table of numbers. What a row adds,
its gradient of q or its statistic f, is calculated column by column, so that it is the same to the last bit whatever
the other rows: a question of clipped sums can be made of it.

None of the three E-steps is printed in the paper as it follows from the model, and both forms are here. The weights of
eq. 23 and eq. 24 lack a factor 2 in the exponent (the log odds of two Gaussians at beta and -beta are 2 <beta, y> /
sigma^2), so what they fit is pulled towards 0 where the groups overlap. Eq. 27 takes the identity for the second
moments of missing covariates, which holds on average and at the true beta only, so a step may lower the likelihood or
run away. With ``as_printed=False`` gradients are those of the likelihood, times sigma^2, and no step of EM lowers it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.more.row_maps import logistic, squared_norms, weighted_sums

__all__ = ["MODELS", "GaussianPair", "MissingCovariates", "Model", "RegressionPair"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GaussianPair:
    r"""Two Gaussians of equal weight around beta and -beta (GMM, eq. 4): y = z beta + v with a hidden sign z.

    Attributes
    ----------
    noise_std : float, positive
        sigma, of every coordinate of v.
    as_printed : bool
        With half the log odds, as in eq. 23.
    """

    noise_std: float
    as_printed: bool = True

    def __post_init__(self) -> None:
        _require_noise(self.noise_std)

    def statistics(self, rows: Matrix, beta: Vector) -> Matrix:
        r"""Return f_i = (2 w - 1) y_i, whose mean is the next beta of EM (appendix I).

        Parameters
        ----------
        rows : array of shape (n, d)
            y.
        beta : array of shape (d,)
        """
        return _signs(weighted_sums(rows, beta), self)[:, None] * rows

    def gradients(self, rows: Matrix, beta: Vector) -> Matrix:
        r"""Return (2 w - 1) y - beta for every row (eq. 23), shape (n, d)."""
        return self.statistics(rows, beta) - beta


@dataclass(frozen=True, slots=True)
class RegressionPair:
    r"""Two regressions of equal weight, beta and -beta (MRM, eq. 5): y = z <beta, x> + v with a hidden sign z.

    Attributes
    ----------
    noise_std : float, positive
        sigma, of v.
    as_printed : bool
        With half the log odds, as in eq. 24.
    """

    noise_std: float
    as_printed: bool = True

    def __post_init__(self) -> None:
        _require_noise(self.noise_std)

    def gradients(self, rows: Matrix, beta: Vector) -> Matrix:
        r"""Return (2 w - 1) y x - x <x, beta> for every row (eq. 24).

        Parameters
        ----------
        rows : array of shape (n, d + 1)
            x, then y.
        beta : array of shape (d,)
        """
        x, y = rows[:, :-1], rows[:, -1]
        fitted = weighted_sums(x, beta)
        return (_signs(y * fitted, self) * y - fitted)[:, None] * x


@dataclass(frozen=True, slots=True)
class MissingCovariates:
    r"""Linear regression whose covariates are standard normal and partly missing (RMC, eq. 6).

    Attributes
    ----------
    noise_std : float, positive
        sigma, of the label.
    as_printed : bool
        With the identity for second moments of missing covariates, as in eq. 27; else with conditional moments.
    """

    noise_std: float
    as_printed: bool = True

    def __post_init__(self) -> None:
        _require_noise(self.noise_std)

    def gradients(self, rows: Matrix, beta: Vector) -> Matrix:
        r"""Return y m - K beta for every row (eq. 25-27), without forming K.

        Parameters
        ----------
        rows : array of shape (n, 2 d + 1)
            x, then which of them are seen (1 or 0), then y. Entries of x that are not seen do not matter.
        beta : array of shape (d,)
        """
        moments = self._expected(rows, beta)
        m, hidden = moments.mean, moments.hidden_beta
        along = weighted_sums(m, np.broadcast_to(beta, m.shape))
        hidden_along = weighted_sums(m, hidden)
        # K beta = D beta + m <m, beta> - ((1-z) m) <(1-z) m, beta> as printed.
        product = hidden * moments.hidden_scale[:, None] + m * along[:, None]
        if self.as_printed:
            product = product - np.where(moments.seen, 0.0, m) * hidden_along[:, None]
        return rows[:, -1:] * m - product

    def _expected(self, rows: Matrix, beta: Vector) -> _Expected:
        d = beta.size
        if rows.shape[1] != 2 * d + 1:
            raise InputError(f"rows must have {2 * d + 1} columns for beta of length {d}, got {rows.shape[1]}.")
        seen, y = rows[:, d : 2 * d] != 0, rows[:, -1]
        seen_x = np.where(seen, rows[:, :d], 0.0)
        hidden_beta = np.where(seen, 0.0, beta)
        residual = y - weighted_sums(seen_x, beta)
        length = squared_norms(hidden_beta)
        variance = self.noise_std**2 + length
        mean = seen_x + (residual / variance)[:, None] * hidden_beta
        scale = np.ones(len(rows)) if self.as_printed else 1 - length / variance
        return _Expected(seen, mean, hidden_beta, scale)


Model = GaussianPair | RegressionPair | MissingCovariates

MODELS: dict[str, type[Model]] = {
    "gaussian-pair": GaussianPair,
    "regression-pair": RegressionPair,
    "missing-covariates": MissingCovariates,
}
"""The models, by their names in a bundle."""


@dataclass(frozen=True, slots=True, eq=False)
class _Expected:
    """What an E-step of missing covariates knows of every row."""

    seen: NDArray[np.bool_]
    mean: Matrix
    """m (eq. 26): x where seen, its conditional mean where not."""
    hidden_beta: Matrix
    """beta where nothing is seen, 0 elsewhere."""
    hidden_scale: Vector
    """What the conditional covariance of missing covariates makes of beta, as a multiple of it."""


def _signs(products: Vector, model: GaussianPair | RegressionPair) -> Vector:
    """Return 2 w - 1, the expected sign, from <beta, y> or y <beta, x>; odd, so that no sign is preferred."""
    odds = np.abs(products) * ((1 if model.as_printed else 2) / model.noise_std**2)
    return np.sign(products) * (2 * logistic(odds) - 1)


def _require_noise(noise_std: float) -> None:
    if not (math.isfinite(noise_std) and noise_std > 0):
        raise InputError(f"noise_std must be positive and finite, got {noise_std}.")
