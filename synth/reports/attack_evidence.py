"""Membership inference as evidence: each attack beside guessing and under its proven ceiling.

On private rows every number is for the owner only, and an attack above its ceiling is a warning: a release that stopped
because of private rows would itself tell something of them. On public rows the numbers are safe, and it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from synth.reports.attack_scene import Attack
from synth.reports.attack_words import (
    ceiling_words,
    figures_of,
    numbers_of,
    people_words,
    too_few_words,
)
from synth.reports.attacks import ATTACKS
from synth.reports.charts import Figure
from synth.reports.counting import CodeTable
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence, SafeEvidence
from synth.reports.membership import AttackResult, Sides, UnitRows, run_attacks
from synth.reports.proven_ceiling import ProvenCeiling
from synth.schema import Schema

__all__ = ["PublicAttacks", "nothing_attacked", "owner_attacks", "public_attacks"]

Kind = TypeVar("Kind", OwnerOnlyEvidence, SafeEvidence)

_DECLARE = (
    "No rows were held out, so there are no people to compare with. Declare 'holdout: 0.2' in the configuration of the "
    "next run: a fifth of the units is then kept from every generator."
)


def owner_attacks(
    train: UnitRows,
    held_out: UnitRows | None,
    released: CodeTable,
    schema: Schema,
    ceiling: ProvenCeiling,
    *,
    share: float,
    seed: int,
    attacks: Sequence[Attack] = ATTACKS,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Attack a release with the private rows in hand.

    Parameters
    ----------
    train, held_out : UnitRows
        The two sides of the split; None where nothing was held out.
    released : CodeTable
        The synthetic rows, codes in ``schema.names`` order.
    schema : Schema
    ceiling : ProvenCeiling
        What the certificate promises and its receipts prove.
    share : float
        Declared part of the units that was held out.
    seed : int
        Public.
    attacks : sequence of Attack
    on_step : callable, optional
        Told (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``attacks.<name>.area`` and ``attacks.<name>.caught`` for each attack, ``attacks.reached`` with the pictures,
        ``attacks.people``; ``attacks.warning`` where the proof was exceeded; ``attacks.none`` where nothing was done.
    """
    if held_out is None:
        return nothing_attacked(_DECLARE)
    sides = Sides.draw(train, held_out, neighbours=schema.neighbours, share=share, seed=seed)
    if not sides.enough or not len(released[0]):
        return nothing_attacked(too_few_words(sides))
    results = run_attacks(sides, released, schema, ceiling, seed=seed, attacks=attacks, on_step=on_step)
    numbers = _numbers(OwnerOnlyEvidence, results, ceiling, after=f" {OWNER_ONLY_SENTENCE}")
    figures = figures_of(results, ceiling, "real")
    whom = _whom(OwnerOnlyEvidence, sides, schema, ceiling, figures, after=f" {OWNER_ONLY_SENTENCE}")
    return (*_warnings(results, schema), *numbers, *whom)


@dataclass(frozen=True, slots=True)
class PublicAttacks:
    """What attacks on public rows came to, and the titles of those that did better than the proof allows."""

    evidence: tuple[SafeEvidence, ...]
    exceeded: tuple[str, ...] = ()


def public_attacks(
    train: UnitRows,
    held_out: UnitRows,
    released: CodeTable,
    schema: Schema,
    ceiling: ProvenCeiling,
    *,
    share: float,
    seed: int,
    attacks: Sequence[Attack] = ATTACKS,
    among: int = 1,
    on_step: Callable[[int, int], None] | None = None,
) -> PublicAttacks:
    """Attack a release that was made from public, planted or stand-in rows; whoever asked has to stop the release.

    Parameters
    ----------
    train, held_out, released, schema, ceiling, share, seed, attacks, on_step
        As in :func:`owner_attacks`; no row is private.
    among : int
        As in :func:`synth.reports.membership.run_attacks`.

    Returns
    -------
    PublicAttacks
        With the ids of :func:`owner_attacks`, and the attacks that did better than the proof allows: wrongly with a
        chance of at most 1e-4 over all of them, and over all reports that are made together.
    """
    sides = Sides.draw(train, held_out, neighbours=schema.neighbours, share=share, seed=seed)
    if not sides.enough or not len(released[0]):
        few = SafeEvidence(id="attacks.none", title="Attacks", value=None, sentence=too_few_words(sides))
        return PublicAttacks((few,))
    results = run_attacks(sides, released, schema, ceiling, seed=seed, attacks=attacks, among=among, on_step=on_step)
    figures = figures_of(results, ceiling, "stand_in")
    whom = _whom(SafeEvidence, sides, schema, ceiling, figures, before="Public rows that stand in. ")
    exceeded = tuple(one.title for one in results if one.is_exceeded)
    return PublicAttacks((*_numbers(SafeEvidence, results, ceiling), *whom), exceeded)


def nothing_attacked(reason: str) -> tuple[OwnerOnlyEvidence, ...]:
    """Return the evidence of a report without attacks: the reason, in one sentence."""
    return (OwnerOnlyEvidence(id="attacks.none", title="Attacks", value=None, sentence=reason),)


def _numbers(
    kind: type[Kind], results: Sequence[AttackResult], ceiling: ProvenCeiling, *, after: str = ""
) -> list[Kind]:
    """Return both measures of every attack."""
    return [
        kind(id=f"attacks.{one.name}.{measure}", title=title, value=value, unit=unit, sentence=f"{sentence}{after}")
        for one in results
        for measure, title, unit, value, sentence in numbers_of(one, ceiling)
    ]


def _whom(
    kind: type[Kind],
    sides: Sides,
    schema: Schema,
    ceiling: ProvenCeiling,
    figures: tuple[Figure, ...],
    *,
    before: str = "",
    after: str = "",
) -> tuple[Kind, Kind]:
    """Say how many were attacked, and draw what every attack reached under the ceiling."""
    people = kind(
        id="attacks.people",
        title="People attacked",
        value=sum(sides.sizes),
        unit="units",
        sentence=f"{before}{people_words(sides, schema)}{after}",
    )
    reached = kind(
        id="attacks.reached",
        title="What each attack reached",
        value=None,
        sentence=f"{before}{ceiling_words(ceiling)}{after}",
        figures=figures,
    )
    return people, reached


def _warnings(results: Sequence[AttackResult], schema: Schema) -> list[OwnerOnlyEvidence]:
    exceeded = [one.title for one in results if one.is_exceeded]
    if not exceeded:
        return []
    sentence = (
        f"{', '.join(exceeded)}: more than chance and the proof together allow, with one false alarm in 10,000 honest "
        f"reports. Either the program has a bug, or what is declared is not so: the {schema.unit.protects} as a unit, "
        "its ids, its rows. Nothing was stopped, because a release that stops on private rows tells something of them. "
        "Whether to release is your decision; find out first."
    )
    return [
        OwnerOnlyEvidence(
            id="attacks.warning",
            title="Warning: an attack did better than the proof allows",
            value=_any_id(),
            unit="incident",
            sentence=f"{sentence} {OWNER_ONLY_SENTENCE}",
        )
    ]


def _any_id() -> str:
    # Nothing is logged: that an attack on private rows succeeded is read from these rows.
    return uuid4().hex[:8]
