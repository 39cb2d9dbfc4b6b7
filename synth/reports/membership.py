"""Membership inference: who is attacked, what every attack scores, and what its score comes to.

Members are units that were trained on, non-members units that were held out; a unit's score is the largest of its rows.
Half of the held-out units are what an attacker may know of other people, so they are attacked by nobody. A unit is
never on two sides.

Members and non-members are drawn so that, of the units attacked, each is as likely one as the other, independently of
the rest where the split was by coins and with equal numbers where it was exact. So the split itself is the random
experiment that the test against the ceiling needs (:mod:`synth.reports.proven_ceiling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.reports.attack_scene import Attack, AttackScene, Described, Extra
from synth.reports.attack_statistics import (
    Estimate,
    estimate_area,
    estimate_caught,
    null_ranges,
)
from synth.reports.attacks import ATTACKS
from synth.reports.counting import CodeTable
from synth.reports.proven_ceiling import ProvenCeiling
from synth.schema import Neighbours, Schema

__all__ = [
    "FALSE_POSITIVE",
    "FEWEST_UNITS",
    "INCIDENT_LEVEL",
    "AttackResult",
    "Sides",
    "UnitRows",
    "judged",
    "run_attacks",
]

FALSE_POSITIVE = 0.01
"""One false alarm in 100: the rate at which a true-positive rate is quoted."""

FEWEST_UNITS = 50
"""With fewer units on either side there is no verdict."""

INCIDENT_LEVEL = 1e-4
"""Chance that an honest release is accused, over all attacks together, shadow models among them."""

_MOST_UNITS = 5000
_MOST_CELLS = 250_000
"""Cells of attacked rows, so that wide tables are attacked in the same time."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitRows:
    """Rows and whose they are.

    ``codes`` holds one array of shape (n_rows,) per modelled column, ``units`` has shape (n_rows,).
    """

    codes: CodeTable
    units: NDArray[np.int64]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Every unit once, in order."""
        return np.unique(self.units)

    def of(self, units: NDArray[np.int64]) -> UnitRows:
        """Return the rows of some units."""
        kept = np.isin(self.units, units)
        return UnitRows([codes[kept] for codes in self.codes], self.units[kept])

    def highest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest score of each unit."""
        units, place = np.unique(self.units, return_inverse=True)
        found = np.full(len(units), -np.inf)
        np.maximum.at(found, place, scores)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Who is attacked, and what attackers may know of others.

    Attributes
    ----------
    members, non_members, reference : UnitRows
        No unit is in two of them.
    capped : bool
        Whether there were more units than are attacked.
    """

    members: UnitRows
    non_members: UnitRows
    reference: UnitRows
    capped: bool = False

    @classmethod
    def draw(
        cls,
        train: UnitRows,
        held_out: UnitRows,
        *,
        neighbours: Neighbours,
        share: float,
        seed: int,
        most: int = _MOST_UNITS,
    ) -> Self:
        """Draw the sides by a public seed.

        Parameters
        ----------
        train, held_out : UnitRows
            The parts of the split.
        neighbours : Neighbours
            Add/remove: each unit was held out by its own coin, and is drawn by one. Else equal numbers are drawn.
        share : float
            Declared part of the units that was held out, in (0, 1).
        seed : int
        most : int
            Most units of each side.
        """
        random = np.random.default_rng([seed, 7])
        seen, unseen = random.permutation(train.numbers), random.permutation(held_out.numbers)
        each = -(-(len(train.units) + len(held_out.units)) // max(1, len(seen) + len(unseen)))
        most = max(1, min(most, _MOST_CELLS // (2 * len(train.codes) * max(1, each))))
        if neighbours is not Neighbours.ADD_REMOVE:
            known, others = np.split(unseen, [len(unseen) // 2])
            size = min(len(others), len(seen), most)
            capped = size < min(len(others), len(seen))
            return cls(train.of(seen[:size]), held_out.of(others[:size]), held_out.of(known), capped)
        tossed = random.random(len(unseen)) < 0.5
        known, others = unseen[tossed], unseen[~tossed]
        # A unit is trained on with chance 1 - share and attacked as a non-member with chance share / 2.
        odds = share / 2 / (1 - share)
        seen = seen[random.random(len(seen)) < min(1.0, odds)]
        others = others[random.random(len(others)) < min(1.0, 1 / odds)]
        # Dropped without a look at the side, so that every unit left is still as likely on either.
        kept = random.permutation(len(seen) + len(others))[: 2 * most]
        members, non_members = seen[kept[kept < len(seen)]], others[kept[kept >= len(seen)] - len(seen)]
        capped = len(kept) < len(seen) + len(others)
        return cls(train.of(members), held_out.of(non_members), held_out.of(known), capped)

    @property
    def sizes(self) -> tuple[int, int]:
        """Units among members and non-members."""
        return len(self.members.numbers), len(self.non_members.numbers)

    @property
    def enough(self) -> bool:
        """Whether there are units enough for a verdict, and somebody to know of."""
        return min(self.sizes) >= FEWEST_UNITS and len(self.reference.units) > 0


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What one attack came to.

    Attributes
    ----------
    area : Estimate
        ROC AUC.
    caught : Estimate
        True-positive rate at one false alarm in 100.
    null_area, null_caught : (float, float)
        Where 95 % of them lie when nobody can tell.
    is_exceeded : bool
        Whether it did better than the proof allows, beyond what chance makes.
    extras : tuple of Extra
        Further numbers that come with it.
    """

    name: str
    title: str
    knows: str
    caveat: str
    area: Estimate
    caught: Estimate
    null_area: tuple[float, float]
    null_caught: tuple[float, float]
    is_exceeded: bool
    extras: tuple[Extra, ...] = ()


def run_attacks(
    sides: Sides,
    released: CodeTable,
    schema: Schema,
    ceiling: ProvenCeiling,
    *,
    seed: int,
    attacks: Sequence[Attack] = ATTACKS,
    among: int = 1,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[AttackResult, ...]:
    """Run every attack on the same units.

    Parameters
    ----------
    sides : Sides
        With enough units.
    released : CodeTable
        The synthetic rows, codes in ``schema.names`` order.
    schema : Schema
    ceiling : ProvenCeiling
        What the run's receipts prove.
    seed : int
        Public.
    attacks : sequence of Attack
    among : int
        How many such reports are made together; they share the chance of a false alarm.
    on_step : callable, optional
        Told (done, total) after each attack and inside; may raise to stop.

    Returns
    -------
    tuple of AttackResult, in the order of ``attacks``
    """
    scene = AttackScene(schema, released, sides.reference.codes, seed)
    targets = [np.concatenate(pair) for pair in zip(sides.members.codes, sides.non_members.codes, strict=True)]
    n_members = len(sides.members.units)
    results = []
    for place, attack in enumerate(attacks):
        scores = attack.score(targets, scene, on_step=_part(on_step, place, len(attacks)))
        found = sides.members.highest(scores[:n_members]), sides.non_members.highest(scores[n_members:])
        extras = attack.extras(*found, seed=seed)
        # One part of the level is kept for shadow models, which may be tried later.
        level = INCIDENT_LEVEL / (len(attacks) + 1) / among
        results.append(judged(attack, *found, ceiling, level=level, seed=seed, extras=extras))
    if on_step is not None:
        on_step(1, 1)
    return tuple(results)


def judged(
    attack: Described,
    members: NDArray[np.float64],
    non_members: NDArray[np.float64],
    ceiling: ProvenCeiling,
    *,
    level: float,
    seed: int,
    extras: tuple[Extra, ...] = (),
    own_coins: bool = False,
) -> AttackResult:
    """Return what scores come to: both measures with intervals and nulls, and whether the proof was exceeded.

    Parameters
    ----------
    attack : Described
        Names the attack.
    members, non_members : arrays of shape (n,) and (m,)
        At least two each; larger is more like a member.
    ceiling : ProvenCeiling
    level : float
        Chance that an honest release is accused by this attack.
    seed : int
        Public.
    extras : tuple of Extra
    own_coins : bool
        As in :meth:`ProvenCeiling.is_exceeded`.
    """
    null_area, null_caught = null_ranges(members, non_members, FALSE_POSITIVE, seed=seed)
    return AttackResult(
        name=attack.name,
        title=attack.title,
        knows=attack.knows,
        caveat=attack.caveat,
        area=estimate_area(members, non_members),
        caught=estimate_caught(members, non_members, FALSE_POSITIVE, seed=seed),
        null_area=null_area,
        null_caught=null_caught,
        is_exceeded=ceiling.is_exceeded(members, non_members, level=level, seed=seed, own_coins=own_coins),
        extras=extras,
    )


def _part(on_step: Callable[[int, int], None] | None, place: int, of: int) -> Callable[[int, int], Any] | None:
    if on_step is None:
        return None
    return lambda done, total: on_step(place * total + done, of * total)
