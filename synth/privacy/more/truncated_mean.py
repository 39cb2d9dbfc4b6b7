r"""The soft truncation of the DP EM paper (Wang 2020, eq. 8-12, appendix D), in a form that keeps its bound.

Numbers are divided by a scale s, multiplied by 1 + noise, truncated by phi, averaged over the noise exactly, and scaled
back. No number moves the mean by more than s 2 sqrt(2) / (3 n), however large it is: that is the sensitivity.

The paper's closed form (eq. 12) subtracts numbers of the size of x^3: at x = 1e8 s it returns 6.7e7 s where the bound
is 0.94 s, so that one outlier moves the mean at will and the noise hides nothing. Here it is used up to 3 s, where
little cancels; beyond, the same expectation is integrated numerically; and whatever comes out is cut at the bound.

The constants of Algorithms 2 and 3, and the mu of continuous noise, are formulas for forecasts; a release is accounted
for by :mod:`synth.privacy.accounting`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from synth.errors import InputError
from synth.privacy.accounting import log_delta
from synth.privacy.more.row_maps import exponential

__all__ = [
    "LARGEST_TRUNCATED",
    "TruncationSetting",
    "correction",
    "expected_truncation",
    "gaussian_mu",
    "smoothed_truncation",
]

LARGEST_TRUNCATED = 2 * math.sqrt(2) / 3
"""The largest value of phi, and of its expectation under any noise."""

_EDGE = math.sqrt(2)
"""Where phi becomes flat."""

_CLOSED_FORM_UP_TO = 3.0
"""The closed form loses at most two digits up to here."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def correction(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return C-hat of appendix D, T1 to T5: what eq. 12 adds for the tails where phi is flat.

    Parameters
    ----------
    a : array
        Numbers in units of the scale.
    b : array of the same shape, positive
        Standard deviations of their noise.
    """
    v_minus, v_plus = (_EDGE - a) / b, (_EDGE + a) / b
    f_minus, f_plus = ndtr(-v_minus), ndtr(-v_plus)
    e_minus, e_plus = exponential(-(v_minus**2) / 2), exponential(-(v_plus**2) / 2)
    root = math.sqrt(2 * math.pi)
    t1 = LARGEST_TRUNCATED * (f_minus - f_plus)
    t2 = -_cubic(a) * (f_minus + f_plus)
    t3 = b / root * (1 - a**2 / 2) * (e_plus - e_minus)
    t4 = a * b**2 / 2 * (f_plus + f_minus + (v_plus * e_plus + v_minus * e_minus) / root)
    t5 = b * b * b / (6 * root) * ((2 + v_minus**2) * e_minus - (2 + v_plus**2) * e_plus)
    return np.asarray(t1 + t2 + t3 + t4 + t5)


def expected_truncation(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the expectation of phi(a + b Z) for standard normal Z by the paper's closed form (eq. 12).

    .. math:: a (1 - b^2 / 2) - a^3 / 6 + \hat C(a, b)

    Only for numbers of a few units: terms of size a^3 cancel, and far out only rounding is left of them.
    """
    return np.asarray(_cubic(a) - a * b**2 / 2 + correction(a, b))


def smoothed_truncation(x: NDArray[np.float64], *, precision: float) -> NDArray[np.float64]:
    r"""Return the expectation of phi(x (1 + Z / sqrt(beta))) for standard normal Z, for any number (eq. 11).

    Parameters
    ----------
    x : array of any shape
        Numbers in units of the scale. Infinite ones count as the limit, and NaN as 0.
    precision : float, positive
        beta: one over the variance of the multiplied noise.

    Returns
    -------
    array of the same shape, within plus and minus ``LARGEST_TRUNCATED`` always
        A number's result does not depend on the others.

    Raises
    ------
    InputError
        If ``precision`` is not positive and finite.
    """
    if not (math.isfinite(precision) and precision > 0):
        raise InputError(f"precision must be positive and finite, got {precision}.")
    x = np.asarray(x, dtype=np.float64)
    # Beyond 1e100 the limit is reached to the last digit, and squares would overflow.
    size = np.clip(np.nan_to_num(np.abs(x), nan=0.0), 0.0, 1e100)
    tiny, far = size < 1e-100, size > _CLOSED_FORM_UP_TO
    inside = np.where(tiny | far, 1.0, size)
    # Of tiny numbers only the first term is left, and the closed form would divide by them.
    found = np.where(tiny, size, expected_truncation(inside, inside / math.sqrt(precision)))
    if far.any():
        found[far] = _integrated(size[far], precision)
    return np.asarray(np.sign(np.nan_to_num(x)) * np.clip(found, -LARGEST_TRUNCATED, LARGEST_TRUNCATED))


def _integrated(size: NDArray[np.float64], precision: float) -> NDArray[np.float64]:
    """Return the same expectation for sizes above the closed form's: both flat tails, and quadrature between them."""
    root = math.sqrt(precision)
    # Standard scores of the edges; written so that nothing overflows.
    upper, lower = root * (_EDGE / size - 1), root * (-_EDGE / size - 1)
    found = LARGEST_TRUNCATED * (ndtr(-upper) - ndtr(lower))
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        place = _EDGE * node
        score = root * (place / size - 1)
        density = exponential(-(score**2) / 2) * (root / (math.sqrt(2 * math.pi) * size))
        found = found + _EDGE * weight * _cubic(place) * density
    return np.asarray(found)


def _cubic(x: NDArray[np.float64] | float) -> Any:
    return x - x * x * x / 6


@dataclass(frozen=True, slots=True)
class TruncationSetting:
    r"""The constants of Algorithms 2 and 3 (line 1), and what follows from them.

    .. math:: \tilde\varepsilon = \sqrt{\log(1/\delta) + \varepsilon} - \sqrt{\log(1/\delta)}, \quad
        s = \frac{\sqrt{n \tau \tilde\varepsilon}}{2 \log(d / \zeta)}, \quad \beta = \sqrt{\log(d / \zeta)}

    where every symbol is an attribute.

    Attributes
    ----------
    n : int
        Rows; a public number.
    d : int
        Length of the gradient.
    epsilon, delta : float
    tau : float
        Assumed bound on the second moment of every coordinate of the gradient. Utility alone depends on it, but it must
        not be computed from the rows.
    zeta : float
        Failure probability of the error bound.
    steps : int
        T.
    """

    n: int
    d: int
    epsilon: float
    delta: float
    tau: float
    zeta: float
    steps: int

    def __post_init__(self) -> None:
        if min(self.n, self.d, self.steps) < 1:
            raise InputError("n, d and steps must be at least 1.")
        _require_budget(self.epsilon, self.delta)
        if not (math.isfinite(self.tau) and self.tau > 0 and 0 < self.zeta < 1):
            raise InputError(f"tau must be positive and zeta strictly between 0 and 1, got {self.tau} and {self.zeta}.")

    @property
    def epsilon_tilde(self) -> float:
        """The square root of rho of the whole run."""
        digits = math.log(1 / self.delta)
        return math.sqrt(digits + self.epsilon) - math.sqrt(digits)

    @property
    def scale(self) -> float:
        """s, where numbers are truncated."""
        return math.sqrt(self.n * self.tau * self.epsilon_tilde) / (2 * math.log(self.d / self.zeta))

    @property
    def precision(self) -> float:
        """beta, one over the variance of the noise that is multiplied and averaged out."""
        return math.sqrt(math.log(self.d / self.zeta))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu at which continuous Gaussian noise has exactly this delta (Balle 2018), to 13 digits.

    Raises
    ------
    InputError
        If ``epsilon`` is not positive and finite or ``delta`` not strictly between 0 and 1.
    """
    _require_budget(epsilon, delta)
    lower, upper = -30.0, 10.0
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if log_delta(math.exp(middle), epsilon) > math.log(delta) else (middle, upper)
    return math.exp(lower)


def _require_budget(epsilon: float, delta: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
        raise InputError(
            f"epsilon must be positive and finite and delta strictly between 0 and 1, got {epsilon} and {delta}."
        )
