"""What an account has spent, and what still fits under its cap.

Amounts are stored and added as integers. Exact composition (:mod:`synth.privacy.accounting`) turns them into epsilon;
it holds even if later questions depend on earlier answers, with a cap on the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from operator import add

from synth.errors import BudgetExceededError, InputError
from synth.privacy.accounting import COORDINATE_ALLOWANCE, SLACK_ALLOWANCE, PrivacyBudget, epsilon_of, mu_beside
from synth.privacy.costs import mu_squared_of, units_of
from synth.privacy.more.cells import pure_epsilon_of, pure_units_of
from synth.schema import Neighbours
from synth.store import Account, Charge, ChargeState

__all__ = [
    "AMOUNTS",
    "FINE_UNIT",
    "Cost",
    "CostOf",
    "Spent",
    "checked_cap",
    "fine_units_of",
    "largest_fit",
    "over_cap_error",
    "stays_within_cap",
]

FINE_UNIT = 2.0**-60
"""Slack and additive delta are whole multiples of this, rounded up."""


def fine_units_of(amount: float) -> int:
    """Return a slack or an additive delta in whole units of 2^-60, rounded up."""
    return math.ceil(amount / FINE_UNIT)


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of privacy loss as integers: units of 2^-40 of mu^2 and of pure epsilon, of 2^-60 of slack and delta.

    ``charges`` is how many charges were added; each was rounded up by less than one unit.
    """

    mu_squared_units: int = 0
    slack_units: int = 0
    coordinates: int = 0
    additive_delta_units: int = 0
    charges: int = 0
    pure_units: int = 0

    @classmethod
    def of_budget(cls, epsilon: float, delta: float, neighbours: Neighbours, *, additive_delta: float = 0.0) -> Cost:
        """Return the cost of a run that may spend all of (epsilon, delta), including discretisation allowances.

        Noise on single cells is pure and needs no allowance: its cost is epsilon itself, as is that of a budget whose
        delta is 0. Of delta, sampled runs may add ``additive_delta``, beside which less of mu is left.
        """
        if PrivacyBudget(epsilon, delta, neighbours).is_pure:
            return cls(pure_units=pure_units_of(epsilon), charges=1)
        return cls(
            mu_squared_units=units_of(mu_beside(epsilon, delta, additive_delta) ** 2),
            additive_delta_units=fine_units_of(additive_delta),
            slack_units=fine_units_of(SLACK_ALLOWANCE),
            coordinates=COORDINATE_ALLOWANCE,
            charges=1,
        )

    @classmethod
    def of_charges(cls, charges: Iterable[Charge]) -> Cost:
        """Return the sum of all charges but the freed ones, which do not count."""
        total = cls()
        for charge in charges:
            if charge.state is not ChargeState.FREED:
                total += cls(**{name: getattr(charge, name) for name in AMOUNTS}, charges=1)
        return total

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, astuple(self), astuple(other)))

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon of this cost at ``delta``; 0 without a cost, infinity if no epsilon holds."""
        return self._epsilon(delta)

    def delta_of_total(self, largest: float) -> float:
        """Return the delta at which a total without a cap is stated: the largest charged, or more if that is too small.

        The added deltas of several findings are soon more than the delta of each.
        """
        return max(largest, 2 * self.additive_delta_units * FINE_UNIT)

    def fits(self, *, epsilon: float, delta: float) -> bool:
        """Whether this cost stays within a cap.

        The last unit of each charge is rounding and is subtracted again: otherwise a small budget equal to the cap
        would be refused for 2^-40 of mu^2, or of epsilon, that no mechanism spends.
        """
        return self._epsilon(delta, rounding=self.charges) <= epsilon

    def _epsilon(self, delta: float, *, rounding: int = 0) -> float:
        if self.charges == 0:
            return 0.0
        if not any((self.mu_squared_units, self.slack_units, self.coordinates, self.additive_delta_units)):
            of_curve = 0.0  # at any delta, 0 included
        elif delta == 0:
            of_curve = math.inf
        else:
            of_curve = _epsilon_of_units(
                max(0, self.mu_squared_units - rounding),
                delta,
                self.slack_units,
                self.coordinates,
                self.additive_delta_units,
            )
        # Basic composition: (e, d)-DP and pure e'-DP together are (e + e', d)-DP.
        return of_curve + pure_epsilon_of(max(0, self.pure_units - rounding))


@lru_cache(maxsize=1024)
def _epsilon_of_units(mu_squared: int, delta: float, slack: int, coordinates: int, additive_delta: int) -> float:
    """Return the epsilon of these units; a page asks for the same totals again and again."""
    return epsilon_of(
        mu_squared_of(mu_squared),
        delta,
        slack=slack * FINE_UNIT,
        coordinates=coordinates,
        additive_delta=additive_delta * FINE_UNIT,
    )


AMOUNTS = tuple(field.name for field in fields(Cost) if field.name != "charges")
"""Names of the amounts of a cost, which a charge has too."""

CostOf = Callable[[float, float, Neighbours], Cost]
"""Returns the cost of an epsilon and a delta under a neighbouring relation."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one account has spent, in full.

    ``epsilon`` is the exact (tight) total at ``delta``; ``simple_epsilon`` is the plain sum of what was asked for.
    ``charges`` counts the charges that make up the total, ``releases`` those that led to a release.
    """

    cost: Cost
    epsilon: float
    delta: float
    simple_epsilon: float
    charges: int
    releases: int
    epsilon_cap: float | None
    delta_cap: float | None

    @classmethod
    def of(
        cls,
        account: Account,
        charges: Iterable[Charge],
        *,
        delta: float | None = None,
        extra: PrivacyBudget | None = None,
        cost_of: CostOf = Cost.of_budget,
    ) -> Spent:
        """Add up an account's charges, and one more budget if it is given.

        Parameters
        ----------
        account : Account
        charges : iterable of Charge
            The latest row of each.
        delta : float, optional
            At which the exact total is stated; by default the cap's, or :meth:`Cost.delta_of_total` without a cap.
        extra : PrivacyBudget, optional
        cost_of : callable, optional
            What it costs, if not all of it is spent on noise.
        """
        counted = [charge for charge in charges if charge.state is not ChargeState.FREED]
        asked = [(charge.epsilon, charge.delta) for charge in counted]
        cost = Cost.of_charges(counted)
        if extra is not None:
            asked.append((extra.epsilon, extra.delta))
            cost += cost_of(extra.epsilon, extra.delta, extra.neighbours)
        at = delta or account.delta_cap or cost.delta_of_total(max((d for _, d in asked), default=0.0))
        return cls(
            cost=cost,
            epsilon=cost.epsilon(at),
            delta=at,
            simple_epsilon=math.fsum(e for e, _ in asked),
            charges=len(asked),
            releases=sum(charge.state is ChargeState.RELEASED for charge in counted),
            epsilon_cap=account.epsilon_cap,
            delta_cap=account.delta_cap,
        )


def checked_cap(epsilon: float | None, delta: float | None) -> dict[str, float | None]:
    """Return a cap as the body of a decision, after checking it.

    Raises
    ------
    InputError
        If one number is missing or out of range.
    """
    if (epsilon is None) != (delta is None):
        raise InputError("A cap needs both numbers. Give --epsilon-cap and --delta-cap.")
    if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"The epsilon cap must be positive and finite, got {epsilon:g}.")
    if delta is not None and not 0 < delta < 1:
        raise InputError(f"The delta cap must be more than 0 and less than 1, got {delta:g}.")
    return {name: None if value is None else float(value) for name, value in (("epsilon", epsilon), ("delta", delta))}


def stays_within_cap(account: Account, total: Cost) -> bool:
    """Whether an account may have spent this much; always true without a cap."""
    if account.epsilon_cap is None or account.delta_cap is None:
        return True
    return total.fits(epsilon=account.epsilon_cap, delta=account.delta_cap)


def over_cap_error(
    account: Account, before: Cost, budget: PrivacyBudget, cost_of: CostOf = Cost.of_budget
) -> BudgetExceededError:
    """Return the error for a budget over the cap: the total it would reach, the cap, and what would fit."""
    if account.epsilon_cap is None or account.delta_cap is None:
        raise ValueError("An account without a cap refuses no budget.")
    total = (before + cost_of(budget.epsilon, budget.delta, budget.neighbours)).epsilon(account.delta_cap)
    reached = f"bring the total to {_rounded_up(total)}" if math.isfinite(total) else "break the limit on delta"
    fit = largest_fit(account, before, budget, cost_of)
    remedy = (
        f"Use {fit:.2f} or less, or ask for a higher limit."
        if fit is not None
        else "Nothing more fits; ask for a higher limit."
    )
    return BudgetExceededError(
        f"This would {reached}. The limit for account '{account.name}' is {account.epsilon_cap:.2f} "
        f"at delta {account.delta_cap:g}. {remedy}"
    )


def largest_fit(
    account: Account, before: Cost, budget: PrivacyBudget, cost_of: CostOf = Cost.of_budget
) -> float | None:
    """Return the largest epsilon in steps of 0.01 that still fits, or None when not even 0.01 does.

    Parameters
    ----------
    account : Account
        Without a cap the whole budget fits.
    before : Cost
        What is already spent.
    budget : PrivacyBudget
        Its epsilon is the largest to consider, at its delta and neighbouring relation.
    cost_of : callable
        Returns the cost of an epsilon at a delta under a neighbouring relation.
    """
    cap, cap_delta = account.epsilon_cap, account.delta_cap
    if cap is None or cap_delta is None:
        return budget.epsilon

    def fits(hundredths: int) -> bool:
        one = cost_of(hundredths / 100, budget.delta, budget.neighbours)
        return (before + one).fits(epsilon=cap, delta=cap_delta)

    low, high = 0, math.floor(budget.epsilon * 100)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low / 100 if low else None


def _rounded_up(epsilon: float) -> str:
    # Rounded up, so that the sentence never says "4.00, the limit is 4.00".
    return f"{math.ceil(epsilon * 100) / 100:.2f}"
