"""What an attack on membership is, and what it may know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from synth.reports.counting import CodeTable
from synth.schema import Schema

__all__ = ["Attack", "AttackScene", "Described", "Extra", "seeded_rows"]


@dataclass(frozen=True, slots=True)
class Extra:
    """A further number of an attack: name, title, value, unit and one sentence."""

    name: str
    title: str
    value: float
    unit: str
    sentence: str


@dataclass(frozen=True, slots=True, eq=False)
class AttackScene:
    """What attackers can have.

    Attributes
    ----------
    schema : Schema
        What is public about the table.
    released : CodeTable
        The synthetic rows, at least one.
    reference : CodeTable
        Rows of other people of the same kind, whom nobody trained on; at least one.
    seed : int
        Public.
    """

    schema: Schema
    released: CodeTable
    reference: CodeTable
    seed: int = 0


class Described(Protocol):
    """How an attack is spoken of."""

    name: ClassVar[str]
    title: ClassVar[str]
    knows: ClassVar[str]
    """What the attacker holds beside the released rows and the row in question, in one sentence."""
    caveat: ClassVar[str]
    """A sentence that belongs to the number, or nothing."""


class Attack(Described, Protocol):
    """How one attacker goes about it."""

    def score(
        self, targets: CodeTable, scene: AttackScene, *, on_step: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float64]:
        """Return one score for each row of ``targets``, from that row and the scene alone."""
        ...

    def extras(self, members: NDArray[np.float64], non_members: NDArray[np.float64], *, seed: int) -> tuple[Extra, ...]:
        """Return further numbers that come with the attack, from the scores of both sides."""
        ...


def seeded_rows(rows: CodeTable, most: int, *, seed: int) -> CodeTable:
    """Return the rows, or where there are more than ``most`` a sample of them drawn by a public seed."""
    n_rows = len(rows[0])
    if n_rows <= max(1, most):
        return rows
    kept = np.sort(np.random.default_rng([seed, 6]).choice(n_rows, size=max(1, most), replace=False))
    return [codes[kept] for codes in rows]
