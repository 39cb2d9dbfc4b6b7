r"""What the DP EM algorithms cost (Wang 2020, Algorithms 1-3): the paper's noise, and the least that keeps the promise.

All d T releases of a run have Gaussian noise of one size on answers that one row moves by at most the sensitivity, also
when later ones depend on earlier: together they are one mu-GDP Gaussian, mu = sqrt(d T) sensitivity / noise. The paper
converts by zero-concentrated differential privacy and spends a thousandth of its delta; the exact curve (Balle 2018)
needs a quarter to a third less noise. These are formulas for figures and forecasts, of continuous noise; a release is
accounted for by :mod:`synth.privacy.accounting`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from synth.errors import InputError
from synth.privacy.accounting import log_delta
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED

__all__ = ["TruncationSetting", "clipped_noise_std", "gaussian_mu", "local_noise_std", "local_scale"]


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

    def sensitivity(self, *, replace_one: bool = True) -> float:
        """Return how far one row moves one coordinate of the mean; half as far where it is added or removed."""
        return (2 if replace_one else 1) * LARGEST_TRUNCATED * self.scale / self.n

    @property
    def published_noise_std(self) -> float:
        r"""Return the first form of sigma in eq. 16, :math:`\sigma^2 = 16 s^2 d T / (9 n^2 \tilde\varepsilon^2)`.

        The second form printed beside it, :math:`4 d T \tau / (9 n \beta^2 \tilde\varepsilon)`, does not follow from
        the s of line 1: its variance is larger by a factor of log(d / zeta).
        """
        return 4 * self.scale * math.sqrt(self.d * self.steps) / (3 * self.n * self.epsilon_tilde)

    def mu(self, noise_std: float, *, replace_one: bool = True) -> float:
        """Return the mu of a whole run with this noise."""
        return math.sqrt(self.d * self.steps) * self.sensitivity(replace_one=replace_one) / noise_std

    def exact_noise_std(self, *, replace_one: bool = True) -> float:
        """Return the least noise that keeps a whole run within the budget, by the exact curve."""
        releases = math.sqrt(self.d * self.steps)
        return releases * self.sensitivity(replace_one=replace_one) / gaussian_mu(self.epsilon, self.delta)


def clipped_noise_std(
    clip_norm: float, *, n: int, steps: int, epsilon: float, delta: float, replace_one: bool = True
) -> float:
    """Return the least noise of Algorithm 1 on every coordinate of the mean gradient; the paper leaves c open."""
    if not (math.isfinite(clip_norm) and clip_norm > 0 and n >= 1 and steps >= 1):
        raise InputError("clip_norm must be positive and finite, n and steps at least 1.")
    return float((2 if replace_one else 1) * clip_norm / n * math.sqrt(steps) / gaussian_mu(epsilon, delta))


def local_scale(*, n: int, epsilon: float, delta: float, tau: float, zeta: float) -> float:
    r"""Return s of Theorem 8, :math:`n^{1/4} \sqrt{\varepsilon\tau} / (\log(1/\zeta) \log^{1/4}(1/\delta))`."""
    _require_budget(epsilon, delta)
    return math.sqrt(math.sqrt(n) * epsilon * tau / math.sqrt(math.log(1 / delta))) / math.log(1 / zeta)


def local_noise_std(scale: float, *, epsilon: float, delta: float) -> float:
    """Return the least noise that each user adds in the local model, where any value may stand for any other."""
    return 2 * LARGEST_TRUNCATED * scale / gaussian_mu(epsilon, delta)


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
