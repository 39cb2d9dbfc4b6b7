r"""What receipts are worth: one currency, mu^2, and its exchange into (epsilon, delta).

A mechanism is mu-GDP when telling two neighbouring tables apart is at least as hard as telling N(0, 1) from N(mu, 1)
(Dong 2022). Squares of mu add, also when later questions are chosen by earlier answers and a filter stops
at a cap (Smith 2022). Every cost becomes a mu, sums are kept in whole units, and the exact curve of the
Gaussian mechanism (Balle 2018, equation 6) turns the sum into epsilon and delta.

Noise on a grid is not quite Gaussian. With c the sum of 6 d / n over releases of d coordinates and integer variance n,
and D the coordinates altogether, a promise (epsilon, delta) of Gaussians becomes, for every tail t >= 12
(``docs/proofs/discretisation-slack.md``),

.. math:: (\varepsilon + 2 c_t,\; e^{c_t} \delta + 4 D \Phi(-t) e^{\varepsilon + c_t}), \quad c_t = c\, (t / 12)^2.

Only ``dp_bank.get_eps_ana_gaussian`` is called of autodp. Forbidden:
``ana_gaussian_mech`` and ``ana_gaussian_calibrator`` (true delta up to 2228 times the target outside epsilon <= 10,
delta >= 1e-10), ``get_approxDP`` of ``ComposeAFA`` (returns a negative epsilon), ``eps_delta_calibrator`` (may
overshoot), ``gaussian_mech`` (31 % too much noise), ``AmplificationBySampling_pld`` (broken on current scipy).

Every epsilon that is *stated* comes from autodp. What a budget allows is calculated by another formula
(:func:`log_delta`), and each checks the other: a mistake in either shows as a budget that is overspent or left over.
A release can therefore begin before autodp is loaded, which takes longer than many fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, log_ndtr

from synth.errors import PrivacyError
from synth.privacy.costs import MU_UNIT, mu_squared_of, total_up, units_of
from synth.privacy.more.cells import changes_of_cells, pure_epsilon_of, row_epsilon
from synth.privacy.receipt import GAUSSIAN, Receipt, require_honest
from synth.schema import Neighbours

__all__ = [
    "COORDINATE_ALLOWANCE",
    "SLACK_ALLOWANCE",
    "PrivacyBudget",
    "epsilon_of",
    "epsilon_of_receipts",
    "log_delta",
    "mu_beside",
    "mu_of_budget",
    "units_left_beside",
    "worth_for_a_row",
]

SLACK_ALLOWANCE = 1e-5
"""Discretisation cost c that a budget sets aside for all releases together."""

COORDINATE_ALLOWANCE = 10**9
"""Noisy coordinates that a budget sets aside the Gaussian tails of."""

_TAILS = (12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0)
"""Where the tails are cut, in standard deviations; 12 or more is valid, larger values suit large epsilon."""

_TAIL_PART = 1e-6
"""Part of delta that the tails may take before a farther cut is tried."""

_ADDED_BEFORE_SLACK = 1.001
"""Factor on additive deltas: e^c_t <= exp(9e-5), c_t at the farthest tail, over 1 - ``_TAIL_PART``."""

_PURE_RANGE = (1e-6, 1000.0)
"""Pure epsilons that can be spent in units of 2^-40: enough of them for a question, and exact as a float."""

_MARGIN = 1e-9
"""Relative margin of searches, always on the safe side."""

_ROOT_ERROR = 1e-11
"""Error of autodp's search for epsilon, absolute below 1 and relative above."""

_NEXT_TO_ONE = 1 - 2.0**-53
"""Largest ratio below 1: where both terms are equal up to rounding, delta is rounded up, not to 0."""


def epsilon_of(
    mu_squared: float, delta: float, *, slack: float = 0.0, coordinates: int = 0, additive_delta: float = 0.0
) -> float:
    """Return the epsilon stated at ``delta`` for Gaussian releases of total ``mu_squared``.

    Parameters
    ----------
    mu_squared : float
        Sum of squares of mu; at least 0.
    delta : float
        Strictly between 0 and 1.
    slack, coordinates, additive_delta
        Sums over the releases: c, noisy coordinates (0 with a slack means ``COORDINATE_ALLOWANCE``), deltas that are
        added.

    Returns
    -------
    float, at least 0; infinity when no epsilon is true at this delta
    """
    _require_curve(mu_squared, slack, coordinates, additive_delta)
    _require_delta(delta)
    part = 1 - _TAIL_PART if coordinates else 1.0
    for cost, log_tail in _cuts(slack, coordinates):
        left = delta * part * _exp(-cost) - additive_delta
        if left <= 0:
            continue
        of_gaussian = _gaussian_epsilon(mu_squared, left)
        if log_tail + of_gaussian + cost <= math.log(delta * _TAIL_PART):
            return of_gaussian + 2 * cost
    return math.inf


@lru_cache(maxsize=1024)
def mu_of_budget(epsilon: float, delta: float) -> float:
    """Return the largest mu that keeps Gaussian releases within (epsilon, delta), allowances included.

    The allowances are ``SLACK_ALLOWANCE`` and ``COORDINATE_ALLOWANCE``; the result lies on the safe side:
    ``epsilon_of(mu**2, delta, slack=SLACK_ALLOWANCE, coordinates=COORDINATE_ALLOWANCE)`` never exceeds ``epsilon``.
    The curve is :func:`log_delta`; the epsilon that is stated of what was spent comes from autodp.

    Raises
    ------
    PrivacyError
        If ``epsilon`` is not positive and finite, ``delta`` not strictly between 0 and 1, or the allowances alone
        take the whole budget.
    """
    _require_budget(epsilon, delta)
    cuts = tuple(_cuts(SLACK_ALLOWANCE, COORDINATE_ALLOWANCE))
    if not delta * _TAIL_PART:  # too small for a float, and so for a logarithm
        raise _unaffordable(epsilon, delta, cuts)

    def fits(mu: float) -> bool:
        return any(_is_within(mu, epsilon, delta, cut) for cut in cuts)

    lower = 1.0
    while not fits(lower):
        lower /= 2
        if lower < 2**-40:
            raise _unaffordable(epsilon, delta, cuts)
    upper = 2 * lower
    while fits(upper):
        upper *= 2
    while upper - lower > _MARGIN / 8 * lower:
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if fits(middle) else (lower, middle)
    return lower * (1 - _MARGIN)


def _unaffordable(epsilon: float, delta: float, cuts: Iterable[tuple[float, float]]) -> PrivacyError:
    """Say which of the two numbers noise on a grid cannot keep, and in which direction to change it."""
    # Above this the cut-off tails alone exceed delta, however large the noise: see ``epsilon_of``.
    largest = max(math.log(delta) + math.log(_TAIL_PART) - log_tail + cost for cost, log_tail in cuts)
    if largest < 1:
        return PrivacyError(f"delta {delta:g} is too small for noise on a grid. Choose delta of at least 1e-100.")
    if epsilon > largest:
        return PrivacyError(
            f"epsilon {epsilon:g} with delta {delta:g} is too large to account for, and would promise nothing. Choose "
            f"epsilon of at most {math.floor(largest)}."
        )
    return PrivacyError(
        f"epsilon {epsilon:g} with delta {delta:g} is too small for noise on a grid. Choose epsilon of at least 0.001."
    )


@dataclass(frozen=True, slots=True)
class PrivacyBudget:
    """The largest (epsilon, delta) that may be spent under one neighbouring relation.

    With a delta of 0 it is spent as pure epsilon, which adds: on sums with Laplace noise and on private choices.

    Raises
    ------
    PrivacyError
        If ``epsilon`` is not positive and finite, or ``delta`` is not at least 0 and below 1; or at a delta of 0, if
        ``epsilon`` is below 1e-6 or above 1000.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours

    def __post_init__(self) -> None:
        _require_budget(self.epsilon, self.delta or 0.5)
        if not isinstance(self.neighbours, Neighbours):
            raise PrivacyError("neighbours must be Neighbours.ADD_REMOVE, Neighbours.REPLACE or Neighbours.CELL.")
        if self.delta == 0 and self.epsilon < _PURE_RANGE[0]:
            raise PrivacyError(
                f"epsilon {self.epsilon:g} with delta 0 is too small for noise on a grid. Choose epsilon of at least "
                "0.001."
            )
        if self.delta == 0 and self.epsilon > _PURE_RANGE[1]:
            raise PrivacyError(
                f"epsilon {self.epsilon:g} with delta 0 is too large to account for, and would promise nothing. Choose "
                f"epsilon of at most {_PURE_RANGE[1]:g}."
            )

    @property
    def is_pure(self) -> bool:
        """Whether it is spent as pure epsilon: delta is 0, or noise hides single cells."""
        return self.delta == 0 or self.neighbours is Neighbours.CELL

    @property
    def mu_squared(self) -> float:
        """Square of the mu of one Gaussian release that spends all of it, after the discretisation allowance."""
        return mu_of_budget(self.epsilon, self.delta) ** 2

    @property
    def units(self) -> int:
        """The whole budget in units of its currency, rounded down: 2^-40 of mu^2, or of pure epsilon."""
        return math.floor((self.epsilon if self.is_pure else self.mu_squared) / MU_UNIT)

    def epsilon_of_share(self, share: float) -> float:
        """Return the epsilon that a share of it would cost by itself.

        Examples
        --------
        Halves of a budget cost more than half its epsilon, as shares are of squared mu:

        >>> round(PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE).epsilon_of_share(0.5), 3)
        0.689
        """
        if self.is_pure:
            return self.epsilon * share
        return epsilon_of(self.mu_squared * share, self.delta)


def mu_beside(epsilon: float, delta: float, additive_delta: float) -> float:
    """Return the largest mu that keeps answers that also add ``additive_delta`` within (epsilon, delta).

    As :func:`mu_of_budget`, which it is where nothing is added: ``epsilon_of(mu**2, delta, slack=SLACK_ALLOWANCE,
    coordinates=COORDINATE_ALLOWANCE, additive_delta=additive_delta)`` never exceeds ``epsilon``.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    additive_delta : float
        At least 0: the sum of the additive deltas.

    Raises
    ------
    PrivacyError
        As :func:`mu_of_budget`, and if the additive delta leaves nothing of delta.
    """
    if not (math.isfinite(additive_delta) and additive_delta >= 0):
        raise PrivacyError(f"additive delta must be finite and at least 0, got {additive_delta}.")
    _require_budget(epsilon, delta)
    left = delta - additive_delta * _ADDED_BEFORE_SLACK
    if left <= 0:
        raise PrivacyError(f"An additive delta of {additive_delta:g} leaves nothing of delta {delta:g}.")
    return mu_of_budget(epsilon, left)


def units_left_beside(budget: PrivacyBudget, additive_delta: float) -> int:
    """Return the most units of mu^2 that a budget holds beside answers that add ``additive_delta``, rounded down.

    What the additive delta itself costs is ``budget.units`` less this.

    Raises
    ------
    PrivacyError
        As :func:`mu_beside`, and if the budget is spent as pure epsilon.
    """
    if budget.is_pure:
        raise PrivacyError("A budget that is spent as pure epsilon has no part for an additive delta.")
    return math.floor(mu_beside(budget.epsilon, budget.delta, additive_delta) ** 2 / MU_UNIT)


def epsilon_of_receipts(receipts: Iterable[Receipt], delta: float, budgets: Iterable[PrivacyBudget] = ()) -> float:
    """Return the epsilon that receipts of one run add up to at ``delta``; what a certificate states.

    No receipt is believed about its own cost, which must be at least what its sensitivity, noise and grid amount to.

    Parameters
    ----------
    receipts : iterable of Receipt
        All under one neighbouring relation.
    delta : float
        At least 0 and below 1; at 0, only what was paid for in pure epsilon alone has a finite one.
    budgets : iterable of PrivacyBudget
        Other charges, each counted as if all of it was spent; of the same relation, which hides whole units, and none
        of them pure.

    Returns
    -------
    float; 0 without receipts, infinity when one was made with known noise or no epsilon is true at this delta

    Raises
    ------
    PrivacyError
        If relations are mixed or a receipt understates its cost.
    """
    paid, beside = tuple(receipts), tuple(budgets)
    if len({receipt.neighbours for receipt in paid} | {budget.neighbours for budget in beside}) > 1:
        raise PrivacyError("Receipts of two neighbouring relations cannot be added. Keep one relation per account.")
    if any(budget.is_pure for budget in beside):
        raise PrivacyError("A budget that is spent as pure epsilon cannot be added to receipts as a whole.")
    for receipt in paid:
        require_honest(receipt)
    _require_delta(delta or 0.5)
    if not all(receipt.private for receipt in paid):
        return math.inf
    of_pure = pure_epsilon_of(sum(receipt.pure_units for receipt in paid))
    if delta == 0:
        in_part = any(receipt.mu_squared_units or receipt.additive_delta for receipt in paid)
        return math.inf if beside or in_part else of_pure
    units = [units_of(budget.mu_squared) for budget in beside]
    of_curve = epsilon_of(
        mu_squared_of(sum(units) + sum(receipt.mu_squared_units for receipt in paid)),
        delta,
        slack=total_up([SLACK_ALLOWANCE] * len(beside) + [receipt.slack for receipt in paid]),
        coordinates=COORDINATE_ALLOWANCE * len(beside)
        + sum(receipt.dimension for receipt in paid if receipt.mechanism in GAUSSIAN),
        additive_delta=total_up(receipt.additive_delta for receipt in paid),
    )
    return of_curve + of_pure


def worth_for_a_row(receipts: Iterable[Receipt], delta: float) -> float | None:
    """Return the epsilon at ``delta`` that receipts are worth for a whole row; None where they protect rows already.

    Parameters
    ----------
    receipts : iterable of Receipt
        All of one run; only noise on single cells counts here.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float, rounded up; for a row with the same public label
    """
    changes: dict[float, int] = {}
    for receipt in receipts:
        if receipt.mechanism == "discrete_laplace" and receipt.neighbours is Neighbours.CELL:
            for epsilon, count in changes_of_cells(receipt.cells, numbers=receipt.dimension):
                changes[epsilon] = changes.get(epsilon, 0) + count
    return row_epsilon(tuple(sorted(changes.items())), delta) if changes else None


def _cuts(slack: float, coordinates: int) -> Iterator[tuple[float, float]]:
    """Yield (c_t, logarithm of 4 D Phi(-t)) for each t at which the tails may be cut."""
    if slack == 0 and coordinates == 0:
        yield 0.0, -math.inf
        return
    for tail in _TAILS:
        yield (
            slack * (tail / _TAILS[0]) ** 2,
            math.log(4 * (coordinates or COORDINATE_ALLOWANCE)) + float(log_ndtr(-tail)),
        )


def log_delta(mu: float, epsilon: float) -> float:
    r"""Return the logarithm of the delta of a mu-GDP Gaussian at ``epsilon`` (Balle 2018, theorem 8).

    .. math:: \delta = \Phi(a) - e^\varepsilon \Phi(b), \quad a, b = -\varepsilon / \mu \pm \mu / 2

    Parameters
    ----------
    mu : float
        Positive.
    epsilon : float
        At least 0.

    Returns
    -------
    float, at most 0

    Notes
    -----
    As :math:`e^{-a^2/2} = e^{\varepsilon - b^2/2}`, the ratio of the two terms is that of two scaled complementary
    error functions: nothing large cancels, however far out the tails are.
    """
    upper, lower = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    if upper > 0:
        # The first term is at least one half: the plain form loses nothing, and the scaled one would overflow.
        log_ratio = epsilon + float(log_ndtr(lower)) - float(log_ndtr(upper))
        return float(log_ndtr(upper)) + math.log1p(-min(math.exp(log_ratio), _NEXT_TO_ONE))
    ratio = float(erfcx(-lower / math.sqrt(2.0)) / erfcx(-upper / math.sqrt(2.0)))
    return float(log_ndtr(upper)) + math.log1p(-min(ratio, _NEXT_TO_ONE))


def _is_within(mu: float, epsilon: float, delta: float, cut: tuple[float, float]) -> bool:
    """Whether ``epsilon_of`` states at most ``epsilon`` for a Gaussian of ``mu`` whose tails are cut at ``cut``."""
    cost, log_tail = cut
    of_gaussian = epsilon - 2 * cost
    of_gaussian -= 2 * _ROOT_ERROR * max(1.0, of_gaussian)
    if of_gaussian <= 0 or log_tail + epsilon - cost > math.log(delta * _TAIL_PART):
        return False
    return log_delta(mu, of_gaussian) + 2 * _oracle_error(mu) <= math.log(delta * (1 - _TAIL_PART)) - cost


@lru_cache(maxsize=1)
def _autodp() -> Callable[[float, float], float]:
    """Return the only function used of autodp: epsilon of a Gaussian, by its noise for a sensitivity of 1 and delta."""
    # autodp's other modules fail on a circular import unless this one comes first
    from autodp import rdp_acct  # noqa: F401

    # isort: split
    from autodp import dp_bank

    epsilon_of_gaussian: Callable[[float, float], float] = dp_bank.get_eps_ana_gaussian
    return epsilon_of_gaussian


def _gaussian_epsilon(mu_squared: float, delta: float) -> float:
    """Return epsilon of a mu-GDP Gaussian at ``delta``, rounded up."""
    if mu_squared == 0:
        return 0.0
    mu = math.sqrt(mu_squared)
    with np.errstate(all="ignore"):
        root = float(_autodp()(1 / mu, delta * math.exp(-_oracle_error(mu))))
    return root + _ROOT_ERROR * max(1.0, root) if root > 0 else 0.0


def _oracle_error(mu: float) -> float:
    """Bound the error of log delta in either curve, as tests measure it against 60 digits: mu from 1e-6 to 100."""
    return 1e-12 + 2e-13 / mu + 1e-14 * mu


def _exp(exponent: float) -> float:
    """Return exp without overflow; numbers this large are only ever compared with 1."""
    return math.exp(min(exponent, 700.0))


def _require_budget(epsilon: float, delta: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PrivacyError(f"epsilon must be positive and finite, got {epsilon}.")
    _require_delta(delta)


def _require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise PrivacyError(f"delta must lie strictly between 0 and 1, got {delta}.")


def _require_curve(mu_squared: float, slack: float, coordinates: int, additive_delta: float) -> None:
    named = {"mu squared": mu_squared, "slack": slack, "coordinates": coordinates, "additive delta": additive_delta}
    for name, value in named.items():
        if not (math.isfinite(value) and value >= 0):
            raise PrivacyError(f"{name} must be finite and at least 0, got {value}.")
