"""What the numbers of a membership attack mean, in words and pictures.

No word of safety: an attack that fails shows what the guarantee predicts, and proves nothing beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.reports.attack_statistics import Estimate
from synth.reports.charts import Bars, Figure, Meaning, Series, Table
from synth.reports.drawing import number_text
from synth.reports.membership import FALSE_POSITIVE, FEWEST_UNITS, AttackResult, Sides
from synth.reports.proven_ceiling import ProvenCeiling
from synth.schema import Schema

__all__ = ["ceiling_words", "figures_of", "numbers_of", "people_words", "too_few_words"]

_CAUGHT = "Members called so while at most one non-member in 100 is."


def numbers_of(one: AttackResult, ceiling: ProvenCeiling) -> list[tuple[str, str, str, float, str]]:
    """Return (name, title, unit, value, sentence) of each number of an attack."""
    area = _verdict(one.area, beaten=one.area.low > 0.5, most=ceiling.area, exceeded=one.is_exceeded)
    knows = f"The attacker knows beside the released rows: {one.knows[0].lower()}{one.knows[1:]}"
    most = ceiling.caught(FALSE_POSITIVE)
    caught = _verdict(one.caught, beaten=one.caught.value > one.null_caught[1], most=most, exceeded=one.is_exceeded)
    by = f"Caught by {one.title[0].lower()}{one.title[1:]}"
    return [
        ("area", one.title, "ROC AUC", one.area.value, " ".join(filter(None, (area, knows, one.caveat)))),
        (
            "caught",
            by,
            "of members",
            one.caught.value,
            f"{_CAUGHT} {caught}",
        ),
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
        return f"This attack beat guessing ({interval}). What is promised allows any attack on membership to succeed."
    if estimate.value > most:
        return (
            f"This attack lies above its proven ceiling of {number_text(most)} ({interval}), but the test behind the "
            "warning, which errs in one of 10,000 honest reports, does not accuse: look again with more."
        )
    return (
        f"This attack beat guessing ({interval}), by less than the guarantee allows: at most {number_text(most)}. "
        "Of attacks that know nothing, one in forty looks like this by chance."
    )


def figures_of(results: Sequence[AttackResult], ceiling: ProvenCeiling, meaning: Meaning) -> tuple[Figure, ...]:
    """Return pictures and tables of both measures: attacks beside guessing and under the ceiling."""
    measures = (
        ("How well members are told apart", "ROC AUC", 0.5, ceiling.area, [(r.area, r.null_area) for r in results]),
        (
            "Members caught at one false alarm in 100",
            "share of members",
            FALSE_POSITIVE,
            ceiling.caught(FALSE_POSITIVE),
            [(r.caught, r.null_caught) for r in results],
        ),
    )
    names = tuple(one.title for one in results)
    figures: list[Figure] = []
    for title, unit, guess, most, found in measures:
        values = tuple(estimate.value for estimate, _ in found)
        above = tuple(estimate.high - estimate.value for estimate, _ in found)
        below = tuple(estimate.value - estimate.low for estimate, _ in found)
        series = (
            Series("attack, 95 % interval", meaning, values, above, below),
            Series("guessing", "floor", (guess,) * len(names)),
            Series("proven ceiling", "ceiling", (most,) * len(names)),
        )
        header = ("attack", unit, "95 % from", "to", "guessing from", "to (95 %)", "ceiling")
        rows = tuple(
            (name, estimate.value, estimate.low, estimate.high, *null, most)
            for name, (estimate, null) in zip(names, found, strict=True)
        )
        figures += [Bars(title, unit, names, series), Table(f"{title}: intervals", header, rows)]
    return tuple(figures)


def people_words(sides: Sides, schema: Schema) -> str:
    """Say who was attacked."""
    members, others = sides.sizes
    known = len(sides.reference.numbers)
    words = (
        f"{members:,} units that were trained on and {others:,} that were held out; an attacker may know {known:,} "
        f"more of these. Drawn by the public seed; of one {schema.unit.protects}'s rows the one with the highest "
        "score counts."
    )
    if sides.capped:
        words += " There are more; so many are attacked to keep the report short."
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
    """Say where the ceiling comes from."""
    if not ceiling.is_about_units:
        return "Nothing is proven about who was in the table: the promise of this release is about single cells."
    return (
        f"The ceiling follows from the promise, epsilon {ceiling.epsilon:g} at delta {ceiling.delta:g}, which the "
        "receipts keep; it is the same before a run, for its shadow models and in its rehearsal. Attacks that guess "
        "prove nothing: one that was not tried may do better, though above the ceiling only by chance."
    )


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 or value > 0.995 else f"{value:.2f}"
