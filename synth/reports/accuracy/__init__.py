"""Accuracy you can expect: which counts can be trusted, from the known noise alone, and what was forecast."""

from __future__ import annotations

from collections.abc import Sequence

from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Cell, Table
from synth.reports.measured import BAR, ComparedTable
from synth.reports.panels import Badge, Cards, Folded, ForecastDetails, Panel, Words
from synth.reports.report import ACCURACY, PaidAnswers, Report, Screen, Section, Shown

__all__ = ["REPORT", "expected_accuracy"]

_TRUSTED = 0.1
_MOST_TABLES = 100


def expected_accuracy(compared: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    """Say how large a count must be to be known to within 10 %, and below which size it is noise.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables.

    Returns
    -------
    tuple of SafeEvidence
        ``accuracy.trust`` and ``accuracy.columns`` where a column was measured, and ``accuracy.joint`` where several
        were measured together.
    """
    singles = [one for one in compared if len(one.columns) == 1]
    joint = [one for one in compared if len(one.columns) > 1]
    return (*(_of_columns(singles) if singles else ()), *(_of_joint(joint) if joint else ()))


def _of_columns(singles: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    noise, of = max(float(one.noise_std.max()) for one in singles), singles[0].counted
    least, nothing = noise / _TRUSTED, BAR * noise
    return (
        SafeEvidence(
            id="accuracy.trust",
            title="Smallest count to trust",
            value=least,
            unit=of,
            sentence=f"Measured counts above about {least:,.0f} {of} have a standard error below 10 %; treat counts "
            f"below {nothing:,.0f} as noise. The error of the generator's model comes on top.",
        ),
        SafeEvidence(
            id="accuracy.columns",
            title="Standard error of a count",
            value=noise,
            unit=of,
            sentence="The largest of all columns.",
            figures=(_errors("a single column", "column", singles, trusted=least),),
        ),
    )


def _of_joint(joint: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    best = sorted(joint, key=lambda one: float(one.noise_std.max()))
    least = float(best[len(best) // 2].noise_std.max()) / _TRUSTED
    shown = best[:_MOST_TABLES]
    which = "several columns"
    which += "" if len(shown) == len(best) else f", in the {len(shown)} most accurate of {len(best)} tables"
    return (
        SafeEvidence(
            id="accuracy.joint",
            title="Smallest joint count to trust",
            value=least,
            unit=joint[0].counted,
            sentence=f"For a typical measured table; treat counts below {BAR * _TRUSTED * least:,.0f} as noise. "
            "Combinations that were not measured are the model's guess.",
            figures=(_errors(which, "columns", shown, trusted=least),),
        ),
    )


def _errors(which: str, heading: str, compared: Sequence[ComparedTable], *, trusted: float) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in compared:
        worst = float(one.noise_std.max())
        rows.append((one.words, one.measured.size, worst, BAR * worst, worst / _TRUSTED))
    of, most = compared[0].counted, BAR * max(float(one.noise_std.max()) for one in compared)
    title = f"Noise changes a count of {which} by up to {most:,.0f} {of} (95 %)"
    header = (heading, "cells", "standard error", "± (95 %)", "trust above")
    return Table(title, header, tuple(rows), f"Good for counts above {trusted:,.0f} {of}.")


# The report ---------------------------------------------------------------------------------------------------------


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    return expected_accuracy(answers.fine)


def _known(shown: Shown) -> list[Panel]:
    return [Badge("safe"), Cards(shown.public_of("accuracy"), key="accuracy")]


def _forecast(shown: Shown) -> list[Panel]:
    where = "of 'At a glance'" if shown.config.is_model else "above"
    words = f"Forecast from the declaration alone. The numbers {where} were computed from the answers of this run."
    return [Folded("Forecast before the run", [Words(words, "note"), ForecastDetails()])]


REPORT = Report(
    id="accuracy",
    title="Accuracy you can expect",
    sections={"accuracy": Section("Accuracy you can expect")},
    public=_public,
    screens=(Screen(ACCURACY, _known), Screen(ACCURACY, _forecast, place=2, of_models=lambda config: True)),
)
