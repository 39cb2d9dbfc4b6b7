"""Membership inference as evidence: each attack beside guessing and under its proven ceiling.

On private rows every number is for the owner only, and an attack above its ceiling is a warning: a release that stopped
because of private rows would itself reveal something about them. On public rows the numbers are safe, and it is an
error. Nothing here says "safe": an attack that fails shows what the guarantee predicts, and proves nothing beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from uuid import uuid4

from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable, UnitRows
from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import Bars, Figure, Meaning, Series, Table
from synth.reports.membership.attacks import ATTACKS, Attack
from synth.reports.membership.inference import FALSE_POSITIVE, FEWEST_UNITS, AttackResult, Estimate, Sides, run_attacks
from synth.reports.report import StandInPart
from synth.reports.risk_bounds import ProvenCeiling
from synth.reports.wording import number_text
from synth.schema import Schema, people_asked

__all__ = [
    "NOTHING_STOPPED",
    "ceiling_words",
    "figures_of",
    "nothing_attacked",
    "numbers_of",
    "owner_attacks",
    "people_words",
    "public_attacks",
    "too_few_words",
]

Kind = TypeVar("Kind", OwnerOnlyEvidence, SafeEvidence)

NOTHING_STOPPED = (
    "Nothing was stopped, because a release that stops on account of private rows would reveal something about them. "
    "Whether to release is your decision; find the cause first."
)
"""What the owner is told when an attack on private rows did better than the proof allows."""

_DECLARE = (
    "No rows were held out, so there are no people to compare with. Declare 'holdout: 0.2' in the configuration of the "
    "next run: a fifth of the units is then held out from every generator."
)


def owner_attacks(
    train: UnitRows,
    holdout: UnitRows | None,
    released: CodeTable,
    schema: Schema,
    ceiling: ProvenCeiling,
    *,
    share: float,
    seed: int,
    attacks: Sequence[Attack] = ATTACKS,
    device: str = "cpu",
    on_step: OnStep = unwatched,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Attack a release, with the private rows available.

    Parameters
    ----------
    train, holdout : UnitRows
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
    device : {"cpu", "cuda"}
        Where distances are computed; no number depends on it.
    on_step : callable
        Called with (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``attacks.<name>.area`` and ``attacks.<name>.caught`` for each attack, ``attacks.reached`` with the pictures,
        ``attacks.people``; ``attacks.warning`` where the proof was exceeded; ``attacks.none`` if nothing was attacked.
    """
    if holdout is None:
        return nothing_attacked(_DECLARE)
    sides = Sides.draw(train, holdout, neighbours=schema.neighbours, share=share, seed=seed)
    if not sides.enough or not len(released[0]):
        return nothing_attacked(too_few_words(sides))
    results = run_attacks(sides, released, schema, ceiling, seed=seed, attacks=attacks, device=device, on_step=on_step)
    numbers = _numbers(OwnerOnlyEvidence, results, ceiling)
    figures = figures_of(results, ceiling, "real")
    whom = _whom(OwnerOnlyEvidence, sides, schema, ceiling, figures)
    return (*_warnings(results, schema), *numbers, *whom)


def public_attacks(
    train: UnitRows,
    holdout: UnitRows,
    released: CodeTable,
    schema: Schema,
    ceiling: ProvenCeiling,
    *,
    share: float,
    seed: int,
    attacks: Sequence[Attack] = ATTACKS,
    among: int = 1,
    device: str = "cpu",
    on_step: OnStep = unwatched,
) -> StandInPart:
    """Attack a release that was made from public, planted or stand-in rows; the caller has to stop the release.

    Parameters
    ----------
    train, holdout, released, schema, ceiling, share, seed, attacks, device, on_step
        As in :func:`owner_attacks`; no row is private.
    among : int
        As in :func:`synth.reports.membership.inference.run_attacks`.

    Returns
    -------
    StandInPart
        With the ids of :func:`owner_attacks`, and the attacks that did better than the proof allows: wrongly with a
        chance of at most 1e-4 over all of them, and over all reports that are made together.
    """
    sides = Sides.draw(train, holdout, neighbours=schema.neighbours, share=share, seed=seed)
    if not sides.enough or not len(released[0]):
        few = SafeEvidence(id="attacks.none", title="Attacks", value=None, sentence=too_few_words(sides))
        return StandInPart((few,))
    results = run_attacks(
        sides, released, schema, ceiling, seed=seed, attacks=attacks, among=among, device=device, on_step=on_step
    )
    figures = figures_of(results, ceiling, "stand_in")
    whom = _whom(SafeEvidence, sides, schema, ceiling, figures, before="Rows of a public stand-in. ")
    exceeded = tuple(one.attack.title for one in results if one.is_exceeded)
    return StandInPart((*_numbers(SafeEvidence, results, ceiling), *whom), exceeded)


def nothing_attacked(reason: str) -> tuple[OwnerOnlyEvidence, ...]:
    """Return the evidence of a report without attacks: the reason, in one sentence."""
    return (OwnerOnlyEvidence(id="attacks.none", title="Attacks", value=None, sentence=reason),)


def _numbers(kind: type[Kind], results: Sequence[AttackResult], ceiling: ProvenCeiling) -> list[Kind]:
    """Return both measures of every attack."""
    return [
        kind(
            id=f"attacks.{one.attack.name}.{measure}",
            title=title,
            value=value,
            unit=unit,
            sentence=sentence,
        )
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
) -> tuple[Kind, Kind]:
    """Say how many units were attacked, and draw what every attack reached under the ceiling."""
    people = kind(
        id="attacks.people",
        title="People attacked",
        value=sum(sides.sizes),
        unit="units",
        sentence=f"{before}{people_words(sides, schema)}",
    )
    reached = kind(
        id="attacks.reached",
        title="What each attack reached",
        value=None,
        sentence=f"{before}{ceiling_words(ceiling)}",
        figures=figures,
    )
    return people, reached


def _warnings(results: Sequence[AttackResult], schema: Schema) -> list[OwnerOnlyEvidence]:
    exceeded = [one.attack.title for one in results if one.is_exceeded]
    if not exceeded:
        return []
    sentence = (
        f"{', '.join(exceeded)}: better than chance and the proof together allow. One in 10,000 honest reports "
        f"gives this warning by mistake. Either the program has a bug, or a declaration is wrong: what one "
        f"{schema.unit.protects} is, its ids, or how many rows it has. {NOTHING_STOPPED}"
    )
    return [
        OwnerOnlyEvidence(
            id="attacks.warning",
            title="Warning: an attack did better than the proof allows",
            # Nothing is logged, because the success of an attack on private rows depends on these rows.
            value=uuid4().hex[:8],
            unit="incident",
            sentence=sentence,
        )
    ]


# In words and pictures ----------------------------------------------------------------------------------------------


_GUESSING = 0.5
_CAUGHT = "Share of members recognised while at most one non-member in 100 is taken for a member."


def numbers_of(one: AttackResult, ceiling: ProvenCeiling) -> list[tuple[str, str, str, float, str]]:
    """Return (name, title, unit, value, sentence) of each number of an attack."""
    area = _verdict(one.area, beaten=one.area.low > _GUESSING, most=ceiling.area, exceeded=one.is_exceeded)
    knows = f"Besides the released rows the attacker knows: {one.attack.knows[0].lower()}{one.attack.knows[1:]}"
    most = ceiling.caught(FALSE_POSITIVE)
    caught = _verdict(one.caught, beaten=one.caught.value > one.null_caught[1], most=most, exceeded=one.is_exceeded)
    by = f"Caught by {one.attack.title[0].lower()}{one.attack.title[1:]}"
    return [
        ("area", one.attack.title, "ROC AUC", one.area.value, " ".join(filter(None, (area, knows, one.attack.caveat)))),
        ("caught", by, "of members", one.caught.value, f"{_CAUGHT} {caught}"),
        *((extra.name, extra.title, extra.unit, extra.value, extra.sentence) for extra in one.extras),
    ]


def _verdict(estimate: Estimate, *, beaten: bool, most: float, exceeded: bool) -> str:
    interval = f"95 % interval {_short(estimate.low)} to {_short(estimate.high)}"
    if not beaten:
        return (
            f"This attack did not beat guessing ({interval}). That is what the guarantee predicts; it is not extra "
            "proof."
        )
    if exceeded:
        return f"This attack did better than the proof allows: at most {number_text(most)} ({interval})."
    if most == 1:
        return f"This attack beat guessing ({interval}). The promise does not limit attacks on membership."
    if estimate.value > most:
        return (
            f"This attack lies above its proven ceiling of {number_text(most)} ({interval}). The test behind the "
            "warning, which errs in one of 10,000 honest reports, does not confirm it: attack more units to find out."
        )
    return (
        f"This attack beat guessing by less than the guarantee allows, at most {number_text(most)} ({interval}). "
        "Of attacks that know nothing, one in forty looks like this by chance."
    )


def figures_of(results: Sequence[AttackResult], ceiling: ProvenCeiling, meaning: Meaning) -> tuple[Figure, ...]:
    """Return pictures and tables of both measures: attacks beside guessing and under the ceiling."""
    measures = (
        (
            "How well members are told apart from non-members",
            "ROC AUC",
            _GUESSING,
            ceiling.area,
            [(r.area, r.null_area, r.area.low > _GUESSING) for r in results],
        ),
        (
            "Members caught at one false alarm in 100",
            "share of members",
            FALSE_POSITIVE,
            ceiling.caught(FALSE_POSITIVE),
            [(r.caught, r.null_caught, r.caught.value > r.null_caught[1]) for r in results],
        ),
    )
    names = tuple(one.attack.title for one in results)
    figures: list[Figure] = []
    for title, unit, guess, most, found in measures:
        values = tuple(estimate.value for estimate, *_ in found)
        above = tuple(estimate.high - estimate.value for estimate, *_ in found)
        below = tuple(estimate.value - estimate.low for estimate, *_ in found)
        series = (
            Series("attack, 95 % interval", meaning, values, above, below),
            Series("guessing", "floor", (guess,) * len(names)),
            Series("proven ceiling", "ceiling", (most,) * len(names)),
        )
        header = ("attack", unit, "95 % from", "to", "guessing from", "to (95 %)", "ceiling")
        rows = tuple(
            (name, estimate.value, estimate.low, estimate.high, *null, most)
            for name, (estimate, null, _) in zip(names, found, strict=True)
        )
        seen = f"{title}: at most {_short(max(values))}; guessing gets {_short(guess)}"
        beating = sum(beaten for *_, beaten in found)
        judged = f"{beating:,} of {len(found):,} attacks beat guessing; the proof allows up to {_short(most)}."
        if any(one.is_exceeded for one in results):
            judged = "Not good: an attack did better than the proof allows."
        elif not beating:
            judged = "Good: no attack beats guessing by more than chance."
        figures += [
            Bars(seen, unit, names, series, subtitle=judged),
            Table(f"{title}: the 95 % interval of every attack", header, rows, judged),
        ]
    return tuple(figures)


def people_words(sides: Sides, schema: Schema) -> str:
    """Say which units were attacked."""
    members, others = sides.sizes
    known = len(sides.reference.numbers)
    unit = schema.unit.protects
    scored = f"Of one {unit}'s rows the one with the highest score counts."
    if people_asked(schema) is not None:
        scored = f"Each {unit} is attacked as a whole: by what belongs to the {unit}, one of their rows and the next."
    words = (
        f"{members:,} units that were trained on and {others:,} that were held out, drawn by the public seed; an "
        f"attacker may know {known:,} more that were held out. {scored}"
    )
    if sides.capped:
        words += " There are more units; the number attacked is limited so that the report does not take long."
    if schema.unit.id_column is None:
        words += f" Without an id column every row counts as one {schema.unit.protects}."
    return words


def too_few_words(sides: Sides) -> str:
    """Say why there is no verdict."""
    members, others = sides.sizes
    return (
        f"No verdict: {members:,} trained-on and {others:,} held-out units could be compared, and fewer than "
        f"{FEWEST_UNITS} on either side say nothing about an attack. A larger hold-out helps only where the table is "
        "large enough to spare it."
    )


def ceiling_words(ceiling: ProvenCeiling) -> str:
    """Explain the ceiling."""
    if not ceiling.is_about_units:
        return "Nothing is proven about who was in the table, because this release promises to hide single cells only."
    return (
        f"The ceiling follows from the promise, epsilon {ceiling.epsilon:g} at delta {ceiling.delta:g}, which the "
        "receipts keep; it is the same before a run, for its shadow models and in its rehearsal. Attacks that do no "
        "better than guessing prove nothing: another attack may do better, though above the ceiling only by chance."
    )


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 or value > 0.995 else f"{value:.2f}"
