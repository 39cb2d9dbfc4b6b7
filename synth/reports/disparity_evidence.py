"""Predictions by declared group as evidence: risks beside their anchors, the excessive risk gap, and who pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.reports.charts import Bars, Cell, Figure, Series, Table
from synth.reports.disparity import FEWEST_ROWS, Excess, GroupRisks, excessive_risk, losing_groups
from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence
from synth.reports.prediction_problem import MEANINGS, SOURCES, Predictions, TrainedOn

__all__ = ["predictions_by_group"]

Kind = TypeVar("Kind", bound=OwnerOnlyEvidence | SafeEvidence)

_MOST_GROUPS = 40
_DRAWN: tuple[TrainedOn, ...] = ("synthetic", "real", "control")
_MOST_NAMED = 10


def predictions_by_group(kind: type[Kind], found: Predictions, *, suffix: str) -> tuple[Kind, ...]:
    """Say for every declared group what learning from synthetic rows costs it.

    Parameters
    ----------
    kind : type
        Owner only, or safe where the test rows are public.
    found : Predictions
    suffix : str
        Ends every sentence.

    Returns
    -------
    tuple of evidence
        ``downstream.groups.<column>``: the largest excessive risk gap among groups of 30 test rows and more, with the
        risks of all groups as a picture and as tables; None where no two groups can be told apart.
    """
    risk = "share of wrong classes" if found.kind == "classes" else "squared error, declared range as 1"
    score = "accuracy" if found.kind == "classes" else f"mean absolute error, {found.unit}"
    return tuple(
        _of_column(kind, name, risks, found.group_scores[name], risk, score, suffix)
        for name, risks in found.groups.items()
    )


def _of_column(
    kind: type[Kind],
    name: str,
    found: GroupRisks,
    scores: Mapping[TrainedOn, NDArray[np.float64]],
    risk: str,
    score: str,
    suffix: str,
) -> Kind:
    made, control = excessive_risk(found, "synthetic"), excessive_risk(found, "control")
    judged = found.judged
    largest = int(judged[np.argmax(made.gap[judged])]) if len(judged) else None
    return kind(
        id=f"downstream.groups.{name}",
        title=f"Largest excessive risk gap by {name}",
        value=None if largest is None else float(made.gap[largest]),
        error=None if largest is None else float(made.apart_error[largest]),
        unit=risk,
        sentence=_sentence(name, found, made, largest) + suffix,
        figures=_figures(name, found, made, control, scores, risk, score),
    )


def _sentence(name: str, found: GroupRisks, made: Excess, largest: int | None) -> str:
    what = (
        "Excessive risk: how much more predictors err on real rows after learning from synthetic rows than after "
        f"learning from real rows; {made.overall:+.3g} ± {made.overall_error:.2g} over all rows. The gap of a group is "
        "how far its own lies from that. "
    )
    if largest is None:
        return f"{what}No two groups of '{name}' with {FEWEST_ROWS} test rows or more: nothing can be compared."
    losing = losing_groups(found, made)
    others = f" and {len(losing) - _MOST_NAMED} more" if len(losing) > _MOST_NAMED else ""
    who = (
        "With these synthetic rows, groups that lose more than all rows do, beyond chance of the test rows: "
        f"{', '.join(losing[:_MOST_NAMED])}{others}. "
        if losing
        else "No group loses more than all rows do, beyond chance of the test rows. "
    )
    small = int(((found.rows > 0) & (found.rows < FEWEST_ROWS)).sum())
    unjudged = f" {small} groups of fewer than {FEWEST_ROWS} test rows are listed and not judged." if small else ""
    return (
        f"{what}{who}The largest gap is that of {found.labels[largest]}. Its range covers 95 % over all "
        f"{len(found.judged)} judged groups together, for another draw of test rows and other trainings; another "
        f"release would differ by more.{unjudged}"
    )


def _figures(
    name: str,
    found: GroupRisks,
    made: Excess,
    control: Excess,
    scores: Mapping[TrainedOn, NDArray[np.float64]],
    risk: str,
    score: str,
) -> tuple[Figure, ...]:
    largest = np.argsort(-found.rows, kind="stable")[:_MOST_GROUPS]
    shown = [int(place) for place in np.sort(largest) if found.rows[place] > 0]
    labels = tuple(found.labels[place] for place in shown)
    some = "" if len(shown) == int((found.rows > 0).sum()) else f", the {len(shown)} largest groups"
    risks = {one: found.risk(one) for one in _DRAWN}
    # The whisker is that of the excess: the distance between two bars is what the report is about.
    errors = {"synthetic": made.error, "control": control.error}
    bars = Bars(
        f"Risk by {name}{some}",
        risk,
        labels,
        tuple(
            Series(
                SOURCES[one],
                MEANINGS[one],
                tuple(float(risks[one][1 + place]) for place in shown),
                tuple(float(errors[one][place]) for place in shown) if one in errors else None,
            )
            for one in _DRAWN
        ),
    )
    excess: list[tuple[Cell, ...]] = [
        (
            "all rows", int(found.rows.sum()), *(float(risks[one][0]) for one in _DRAWN),
            made.overall, made.overall_error, None, None, control.overall, None,
        )
    ]  # fmt: skip
    excess += [
        (
            found.labels[place], int(found.rows[place]), *(float(risks[one][1 + place]) for one in _DRAWN),
            float(made.risk[place]), float(made.error[place]), float(made.gap[place]), float(made.apart_error[place]),
            float(control.risk[place]), float(control.gap[place]),
        )
        for place in shown
    ]  # fmt: skip
    header = (
        name, "test rows", *(f"risk, {SOURCES[one]}" for one in _DRAWN), "excess", "± excess", "gap", "± gap",
        "excess, the control", "gap, the control",
    )  # fmt: skip
    trained = list(scores)
    reached: list[tuple[Cell, ...]] = [
        (found.labels[place], int(found.rows[place]), *(float(scores[one][place]) for one in trained))
        for place in shown
    ]
    return (
        bars,
        Table(f"Excessive risk by {name}{some} ({risk})", header, tuple(excess)),
        Table(
            f"{score[0].upper()}{score[1:]}, by {name}{some}",
            (name, "test rows", *(SOURCES[one] for one in trained)),
            tuple(reached),
        ),
    )
