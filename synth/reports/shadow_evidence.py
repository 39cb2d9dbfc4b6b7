"""The shadow-model attack as evidence for the owner: beside guessing and under its proven ceiling."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from synth.reports.attack_words import ceiling_words, figures_of, numbers_of
from synth.reports.attacks import ATTACKS
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.reports.membership import FEWEST_UNITS, INCIDENT_LEVEL, AttackResult, judged
from synth.reports.proven_ceiling import ProvenCeiling
from synth.reports.shadow_models import ShadowScores
from synth.schema import Neighbours, Schema

__all__ = ["SHADOW_PREFIX", "no_shadows", "shadow_evidence"]

SHADOW_PREFIX = "attacks.shadow."


class _ShadowModels:
    name: ClassVar[str] = "shadow"
    title: ClassVar[str] = "Shadow models"
    knows: ClassVar[str] = (
        "The whole table but whether the person is in it, the configuration, and runs with and without the person."
    )
    caveat: ClassVar[str] = "Only the most exposed are attacked."


def shadow_evidence(
    scores: ShadowScores, schema: Schema, *, epsilon: float, delta: float, seed: int
) -> tuple[OwnerOnlyEvidence, ...]:
    """Say how well the attack told runs with a unit from runs without it.

    Parameters
    ----------
    scores : ShadowScores
    schema : Schema
    epsilon, delta : float
        What every run promises.
    seed : int
        Public.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``attacks.shadow.area``, ``.caught``, ``.people`` and ``.reached`` with the pictures; ``.warning`` where the
        proof was exceeded; ``.none`` alone where there are too few runs for a verdict.
    """
    sizes = len(scores.members), len(scores.non_members)
    if min(sizes) < FEWEST_UNITS:
        return no_shadows(
            f"No verdict: {scores.targets} units in {scores.runs - scores.runs // 2} runs are {sizes[0]} times in and "
            f"{sizes[1]} times out, and fewer than {FEWEST_UNITS} of either say nothing. Ask for more shadow models."
        )
    ceiling = ProvenCeiling(epsilon, delta, scores.receipts)
    level = INCIDENT_LEVEL / (len(ATTACKS) + 1)
    result = judged(
        _ShadowModels(), scores.members, scores.non_members, ceiling, level=level, seed=seed, own_coins=True
    )
    numbers = [
        _entry(measure, title, f"{_spoken(measure)}{sentence}", value=value, unit=unit)
        for measure, title, unit, value, sentence in numbers_of(result, ceiling)
    ]
    people = _entry("people", "Runs with and without the most exposed", _people(scores, schema), value=scores.runs)
    reached = _entry(
        "reached",
        "What shadow models reached",
        ceiling_words(ceiling),
        figures=figures_of([result], ceiling, "real"),
    )
    return (*_warning(result), *numbers, people, reached)


def no_shadows(reason: str) -> tuple[OwnerOnlyEvidence, ...]:
    """Return the evidence of an attack that was asked for and not made: the reason, in one sentence."""
    return (_entry("none", "Shadow models", reason),)


def _spoken(measure: str) -> str:
    return "Of a run with the person and one without: how often the first scores higher. " if measure == "area" else ""


def _people(scores: ShadowScores, schema: Schema) -> str:
    other = "someone else in its place" if schema.neighbours is Neighbours.REPLACE else "left out"
    return (
        f"{scores.runs} runs of this configuration with fresh noise, which nobody sees and nothing is charged for. The "
        f"{scores.targets} units whose rows are farthest from everybody else's were each in a run, or {other}, by a "
        f"coin; the attacker learned from {scores.runs // 2} runs and guessed the coins of the others. These units "
        f"were chosen for standing out: as a rule less can be told about any other {schema.unit.protects}."
    )


def _warning(result: AttackResult) -> tuple[OwnerOnlyEvidence, ...]:
    if not result.is_exceeded:
        return ()
    sentence = (
        "More than chance and the proof together allow, with one false alarm in 10,000 honest reports. The program has "
        "a bug: noise, sensitivity or cost is wrong for this configuration. Nothing was stopped, because a release "
        "that stops on private rows tells something of them. Whether to release is your decision; find out first."
    )
    # Nothing is logged: that an attack on private rows succeeded is read from these rows.
    return (
        _entry(
            "warning",
            "Warning: shadow models did better than the proof allows",
            sentence,
            value=uuid4().hex[:8],
            unit="incident",
        ),
    )


def _entry(name: str, title: str, sentence: str, **rest: object) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(
        id=f"{SHADOW_PREFIX}{name}",
        title=title,
        sentence=f"{sentence} {OWNER_ONLY_SENTENCE}",
        **({"value": None} | rest),  # type: ignore[arg-type]
    )
