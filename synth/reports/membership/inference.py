"""Membership inference: which units are attacked, the scores of every attack, and what they amount to.

Members are units that were trained on, non-members units that were held out; a unit's score is the largest of its rows.
Half of the held-out units are what an attacker may know of other people, so they are not attacked. A unit is never on
two sides.

Members and non-members are drawn so that, of the units attacked, each is as likely one as the other, independently of
the rest where the split was by coins and with equal numbers where it was exact. So the split itself is the random
experiment that the test against the ceiling needs (:mod:`synth.reports.risk_bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit

from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable, UnitRows
from synth.reports.membership.attacks import ATTACKS, Attack, AttackScene, Described, Extra
from synth.reports.risk_bounds import ProvenCeiling
from synth.schema import Neighbours, Schema

__all__ = [
    "FALSE_POSITIVE",
    "FEWEST_UNITS",
    "INCIDENT_LEVEL",
    "AttackResult",
    "Estimate",
    "Sides",
    "caught_at",
    "estimate_area",
    "estimate_caught",
    "judged",
    "null_ranges",
    "run_attacks",
]

Scores = NDArray[np.float64]

_NORMAL_95 = 1.959963984540054
_RULE_OF_THREE = 1.5
"""With n of n right, 1 - 3 / n is still in a 95 % range, so no interval is narrower than that."""

_DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def estimate_area(members: Scores, non_members: Scores) -> Estimate:
    """Return the ROC AUC with the interval of DeLong 1988, in the fast form of Sun 2014.

    It is the chance that a member's score is above a non-member's, ties counting half.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,), at least two each
        Larger is more like a member.

    Notes
    -----
    Differs from the paper: the interval is symmetric in the logit of the area, which holds better away from 1/2; and
    where perfect scores of a few people leave no spread, it is as wide as none wrong of so many allows.
    """
    from scipy.stats import rankdata  # imported late: it starts slowly

    n, m = len(members), len(non_members)
    together = rankdata(np.concatenate([members, non_members]))
    above = (together[:n] - rankdata(members)) / m
    below = 1 - (together[n:] - rankdata(non_members)) / n
    value = float(above.mean())
    error = math.sqrt(above.var(ddof=1) / n + below.var(ddof=1) / m)
    least = _RULE_OF_THREE / min(n, m)
    if error < least or not 0 < value < 1:
        reach = _NORMAL_95 * max(error, least)
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))
    centre, reach = float(logit(value)), _NORMAL_95 * error / (value * (1 - value))
    return Estimate(value, float(expit(centre - reach)), float(expit(centre + reach)))


def caught_at(members: Scores, non_members: Scores, false_positive: float) -> float:
    """Return the share of members above the lowest threshold that at most a share of non-members is above.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,), at least one each
    false_positive : float
        Largest share of false alarms, in [0, 1).
    """
    place = len(non_members) - 1 - math.floor(false_positive * len(non_members))
    return float((members > np.partition(non_members, place)[place]).mean())


def estimate_caught(members: Scores, non_members: Scores, false_positive: float, *, seed: int) -> Estimate:
    """Return :func:`caught_at` with a 95 % interval.

    The interval is the bootstrap's of members and non-members, widened to the exact one of a share (Clopper-Pearson)
    where few are caught and the bootstrap sees no spread.
    """
    random = np.random.default_rng([seed, 1])
    n, m = len(members), len(non_members)
    value = caught_at(members, non_members, false_positive)
    drawn = [
        caught_at(members[random.integers(n, size=n)], non_members[random.integers(m, size=m)], false_positive)
        for _ in range(_DRAWS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    caught = round(value * n)
    exact_low = float(betaincinv(caught, n - caught + 1, 0.025)) if caught else 0.0
    exact_high = float(betaincinv(caught + 1, n - caught, 0.975)) if caught < n else 1.0
    return Estimate(value, min(low, exact_low), max(high, exact_high))


def null_ranges(
    members: Scores, non_members: Scores, false_positive: float, *, seed: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of 95 % of areas and of shares caught when members are drawn at random: guessing.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,)
    false_positive : float
        Largest share of false alarms, in [0, 1).
    seed : int
        Public.

    Returns
    -------
    (low, high) of :func:`estimate_area` and (low, high) of :func:`caught_at`
    """
    from scipy.stats import rankdata  # imported late: it starts slowly

    random = np.random.default_rng([seed, 2])
    n, m = len(members), len(non_members)
    # Both depend on ranks alone, which do not change.
    ranks = rankdata(np.concatenate([members, non_members]))
    drawn = np.empty((_DRAWS, 2))
    for row in drawn:
        random.shuffle(ranks)
        row[:] = _area_of_ranks(ranks[:n], m), caught_at(ranks[:n], ranks[n:], false_positive)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0).tolist()
    return (low[0], high[0]), (low[1], high[1])


def _area_of_ranks(members: Scores, n_others: int) -> float:
    n = len(members)
    return float((members.sum() - n * (n + 1) / 2) / (n * n_others))


# The units attacked, and the scores of every attack -----------------------------------------------------------------


FALSE_POSITIVE = 0.01
"""One false alarm in 100: the rate at which a true-positive rate is quoted."""

FEWEST_UNITS = 50
"""With fewer units on either side there is no verdict."""

INCIDENT_LEVEL = 1e-4
"""Chance that an honest release is accused, over all attacks together, including shadow models."""

_MOST_UNITS = 5000
_MOST_CELLS = 250_000
"""Cells of attacked rows, so that wide tables are attacked in the same time."""


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """The units attacked, and what attackers may know of others.

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
        holdout: UnitRows,
        *,
        neighbours: Neighbours,
        share: float,
        seed: int,
        most: int = _MOST_UNITS,
    ) -> Self:
        """Draw the sides by a public seed.

        Parameters
        ----------
        train, holdout : UnitRows
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
        seen, unseen = random.permutation(train.numbers), random.permutation(holdout.numbers)
        each = -(-(len(train.units) + len(holdout.units)) // max(1, len(seen) + len(unseen)))
        most = max(1, min(most, _MOST_CELLS // (2 * len(train.codes) * max(1, each))))
        if neighbours is not Neighbours.ADD_REMOVE:
            known, others = np.split(unseen, [len(unseen) // 2])
            size = min(len(others), len(seen), most)
            capped = size < min(len(others), len(seen))
            return cls(train.of(seen[:size]), holdout.of(others[:size]), holdout.of(known), capped)
        tossed = random.random(len(unseen)) < 0.5
        known, others = unseen[tossed], unseen[~tossed]
        # A unit is trained on with chance 1 - share and attacked as a non-member with chance share / 2.
        odds = share / 2 / (1 - share)
        seen = seen[random.random(len(seen)) < min(1.0, odds)]
        others = others[random.random(len(others)) < min(1.0, 1 / odds)]
        # Dropped regardless of the side, so that every remaining unit is still equally likely on either.
        kept = random.permutation(len(seen) + len(others))[: 2 * most]
        members, non_members = seen[kept[kept < len(seen)]], others[kept[kept >= len(seen)] - len(seen)]
        capped = len(kept) < len(seen) + len(others)
        return cls(train.of(members), holdout.of(non_members), holdout.of(known), capped)

    @property
    def sizes(self) -> tuple[int, int]:
        """Units among members and non-members."""
        return len(self.members.numbers), len(self.non_members.numbers)

    @property
    def enough(self) -> bool:
        """Whether there are enough units for a verdict, and at least one that an attacker may know of."""
        return min(self.sizes) >= FEWEST_UNITS and len(self.reference.units) > 0


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The result of one attack.

    Attributes
    ----------
    attack : Described
    area : Estimate
        ROC AUC.
    caught : Estimate
        True-positive rate at one false alarm in 100.
    null_area, null_caught : (float, float)
        The range of 95 % of them under guessing.
    is_exceeded : bool
        Whether it did better than the proof allows, beyond what chance makes.
    extras : tuple of Extra
        Further numbers that come with it.
    """

    attack: Described
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
    device: str = "cpu",
    on_step: OnStep = unwatched,
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
    device : {"cpu", "cuda"}
        Where distances are computed; no result depends on it.
    on_step : callable
        Called with (done, total) during and after each attack; may raise to stop.

    Returns
    -------
    tuple of AttackResult, in the order of ``attacks``
    """
    scene = AttackScene(schema, released, sides.reference.codes, seed, device)
    targets = [np.concatenate(pair) for pair in zip(sides.members.codes, sides.non_members.codes, strict=True)]
    n_members = len(sides.members.units)
    results = []
    for place, attack in enumerate(attacks):

        def part(done: int, total: int, place: int = place) -> None:
            on_step(place * total + done, len(attacks) * total)

        scores = attack.score(targets, scene, on_step=part)
        found = sides.members.highest(scores[:n_members]), sides.non_members.highest(scores[n_members:])
        extras = attack.extras(*found, seed=seed)
        # One part of the level is kept for shadow models, which may be tried later.
        level = INCIDENT_LEVEL / (len(attacks) + 1) / among
        results.append(judged(attack, *found, ceiling, level=level, seed=seed, extras=extras))
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
    """Return the result of scores: both measures with intervals and nulls, and whether the proof was exceeded.

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
        attack=attack,
        area=estimate_area(members, non_members),
        caught=estimate_caught(members, non_members, FALSE_POSITIVE, seed=seed),
        null_area=null_area,
        null_caught=null_caught,
        is_exceeded=ceiling.is_exceeded(members, non_members, level=level, seed=seed, own_coins=own_coins),
        extras=extras,
    )
