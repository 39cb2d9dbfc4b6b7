"""How much privacy loss an owner allows, and for which change of the table."""

from __future__ import annotations

import math
from dataclasses import dataclass

from synth.errors import PrivacyError
from synth.privacy.accounting import MU_UNIT, epsilon_of, mu_of_budget
from synth.schema import Neighbours

__all__ = ["PrivacyBudget"]


@dataclass(frozen=True, slots=True)
class PrivacyBudget:
    """The largest (epsilon, delta) that may be spent under one neighbouring relation.

    Raises
    ------
    PrivacyError
        If ``epsilon`` is not positive and finite, or ``delta`` is not strictly between 0 and 1.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise PrivacyError(f"epsilon must be positive and finite, got {self.epsilon}.")
        if not 0 < self.delta < 1:
            raise PrivacyError(f"delta must lie strictly between 0 and 1, got {self.delta}.")
        if not isinstance(self.neighbours, Neighbours):
            raise PrivacyError("neighbours must be Neighbours.ADD_REMOVE, Neighbours.REPLACE or Neighbours.CELL.")

    @property
    def mu_squared(self) -> float:
        """Square of the mu of one Gaussian release that spends all of it, after the discretisation allowance."""
        return mu_of_budget(self.epsilon, self.delta) ** 2

    @property
    def units(self) -> int:
        """All of it in whole units of the relation's currency, rounded down: 2^-40 of mu^2, or of a cell's epsilon."""
        return math.floor((self.epsilon if self.neighbours is Neighbours.CELL else self.mu_squared) / MU_UNIT)

    def epsilon_of_share(self, share: float) -> float:
        """Return the epsilon that a share of it would cost alone."""
        if self.neighbours is Neighbours.CELL:
            return self.epsilon * share
        return epsilon_of(self.mu_squared * share, self.delta)
