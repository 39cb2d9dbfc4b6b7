"""What each group loses in the predictions of one run: risks, their anchors, and the excessive risk gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from synth.reports.code_tables import FEWEST_ROWS
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Bars, Cell, Figure, Series, Table
from synth.reports.prediction.disparity import (
    Excess,
    GroupRisks,
    excessive_risk,
    losing_groups,
)
from synth.reports.prediction.problem import (
    MEANINGS,
    SOURCES,
    Predictions,
    TrainedOn,
)

__all__ = [
    "RISKS",
    "gap_evidence",
    "group_table",
    "largest_gap",
    "losing_words",
    "predictions_by_group",
    "risk_bars",
    "risk_column",
    "seen_of",
    "shown_groups",
    "unjudged_words",
]

_MOST_GROUPS = 40
_DRAWN: tuple[TrainedOn, ...] = ("synthetic", "real", "control")
_MOST_NAMED = 10
RISKS = {"classes": "share of wrong predictions", "number": "squared error, declared range as 1"}


def predictions_by_group(found: Predictions) -> tuple[OwnerOnlyEvidence, ...]:
    """Say what learning from synthetic rows costs every declared group.

    Parameters
    ----------
    found : Predictions

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``downstream.groups.<column>``: the largest excessive risk gap among groups of 30 test rows and more, with the
        risks of all groups as a picture and as tables; None where no two groups can be compared.
    """
    score = "accuracy" if found.kind == "classes" else f"mean absolute error, {found.unit}"
    entries = []
    for name, risks in found.groups.items():
        made = excessive_risk(risks, "synthetic")
        entries.append(
            gap_evidence(
                f"downstream.groups.{name}",
                f"Largest excessive risk gap by {name}",
                risks,
                made,
                risk=RISKS[found.kind],
                sentence=_sentence(name, risks, made),
                figures=_figures(name, risks, made, found.group_scores[name], RISKS[found.kind], score),
            )
        )
    return tuple(entries)


def gap_evidence(
    name: str,
    title: str,
    found: GroupRisks,
    made: Excess,
    *,
    risk: str,
    sentence: str,
    figures: tuple[Figure, ...],
) -> OwnerOnlyEvidence:
    """Return the largest gap among the judged groups, as evidence."""
    largest = largest_gap(found, made)
    return OwnerOnlyEvidence(
        id=name,
        title=title,
        value=None if largest is None else float(made.gap[largest]),
        error=None if largest is None else float(made.apart_error[largest]),
        unit=risk,
        sentence=sentence,
        figures=figures,
    )


def _sentence(name: str, found: GroupRisks, made: Excess) -> str:
    largest = largest_gap(found, made)
    what = (
        "Excessive risk: how much more predictors err on real rows after learning from synthetic rows than after "
        f"learning from real rows; {made.overall:+.3g} ± {made.overall_error:.2g} over all rows. The gap of a group is "
        "the distance of its own excessive risk from that. "
    )
    if largest is None:
        return f"{what}Fewer than two groups of '{name}' have {FEWEST_ROWS} test rows or more, so nothing is compared."
    who, unjudged = losing_words(found, made, chance="chance in the test rows explains"), unjudged_words(found)
    return (
        f"{what}{who}The largest gap is that of {found.labels[largest]}. The 95 % ranges hold for all "
        f"{len(found.judged)} judged groups together and cover another draw of test rows and repeated training; "
        f"another release could differ by more.{unjudged}"
    )


def largest_gap(found: GroupRisks, made: Excess) -> int | None:
    """Return the index of the judged group with the largest gap, or None where none is judged."""
    return int(found.judged[np.argmax(made.gap[found.judged])]) if len(found.judged) else None


def losing_words(found: GroupRisks, made: Excess, *, chance: str) -> str:
    """Say which groups lose more than all rows together."""
    losing = losing_groups(found, made)
    others = f" and {len(losing) - _MOST_NAMED} more" if len(losing) > _MOST_NAMED else ""
    return (
        f"These groups lose more than the rows as a whole, by more than {chance}: "
        f"{', '.join(losing[:_MOST_NAMED])}{others}. "
        if losing
        else f"No group loses more than the rows as a whole by more than {chance}. "
    )


def unjudged_words(found: GroupRisks) -> str:
    """Say how many groups are too small to be judged."""
    small = int(((found.rows > 0) & (found.rows < FEWEST_ROWS)).sum())
    return f" {small} groups of fewer than {FEWEST_ROWS} test rows are listed but not judged." if small else ""


def shown_groups(found: GroupRisks) -> tuple[list[int], str]:
    """Return the indices of the groups that are listed, and a note where these are not all."""
    largest = np.argsort(-found.rows, kind="stable")[:_MOST_GROUPS]
    shown = [int(place) for place in np.sort(largest) if found.rows[place] > 0]
    return shown, "" if len(shown) == int((found.rows > 0).sum()) else f", the {len(shown)} largest groups"


def _figures(
    name: str,
    found: GroupRisks,
    made: Excess,
    scores: Mapping[TrainedOn, NDArray[np.float64]],
    risk: str,
    score: str,
) -> tuple[Figure, ...]:
    shown, some = shown_groups(found)
    control = excessive_risk(found, "control")
    seen = seen_of(name, found, made, some)
    columns = [
        *(risk_column(found, one, f"risk, {SOURCES[one]}") for one in _DRAWN),
        ("excess", made.overall, made.risk),
        ("± excess", made.overall_error, made.error),
        ("gap", None, made.gap),
        ("± gap", None, made.apart_error),
        ("excess, control", control.overall, control.risk),
        ("gap, control", None, control.gap),
    ]
    reached: list[tuple[Cell, ...]] = [
        (found.labels[place], int(found.rows[place]), *(float(of[place]) for of in scores.values())) for place in shown
    ]
    return (
        risk_bars(seen, risk, found, shown, {"synthetic": made, "real": None, "control": control}),
        group_table(seen, name, found, shown, columns),
        Table(
            f"{score[0].upper()}{score[1:]} of {len(shown):,} groups of {name}",
            (name, "test rows", *(SOURCES[one] for one in scores)),
            tuple(reached),
        ),
    )


_Column = tuple[str, float | None, NDArray[np.float64]]
"""Its heading, its value for all rows, and its values for every group."""


def risk_column(found: GroupRisks, trained_on: TrainedOn, heading: str) -> _Column:
    """Return the risks after one kind of training, as a column."""
    risk = found.risk(trained_on)
    return heading, float(risk[0]), risk[1:]


def group_table(
    seen: tuple[str, str], name: str, found: GroupRisks, shown: Sequence[int], columns: Sequence[_Column]
) -> Table:
    """Return a table of all rows, and of the groups that are listed."""
    rows: list[tuple[Cell, ...]] = [("all rows", int(found.rows.sum()), *(of_all for _, of_all, _ in columns))]
    rows += [
        (found.labels[place], int(found.rows[place]), *(float(of[place]) for _, _, of in columns)) for place in shown
    ]
    title, judged = seen
    return Table(title, (name, "test rows", *(heading for heading, _, _ in columns)), tuple(rows), judged)


def seen_of(name: str, found: GroupRisks, made: Excess, some: str) -> tuple[str, str]:
    """Say which group pays most for privacy, and whether any pays more than chance explains."""
    largest = largest_gap(found, made)
    if largest is None:
        return f"No two groups of {name} are large enough to compare{some}", ""
    losing = len(losing_groups(found, made))
    judged = f"Not good for {losing:,} of them: they lose more than all rows, by more than chance explains."
    return (
        f"Risk changes most for {found.labels[largest]} of {name}: {made.risk[largest]:+.2g} against real rows{some}",
        judged if losing else "Good: chance alone may be the reason.",
    )


def risk_bars(
    seen: tuple[str, str],
    risk: str,
    found: GroupRisks,
    shown: Sequence[int],
    sources: Mapping[TrainedOn, Excess | None],
    names: Mapping[TrainedOn, str] = SOURCES,
) -> Bars:
    """Draw risks; whiskers are those of the excess, because the report is about the distance between two bars."""
    title, judged = seen
    return Bars(
        title,
        risk,
        tuple(found.labels[place] for place in shown),
        tuple(
            Series(
                names[one],
                MEANINGS[one],
                tuple(float(found.risk(one)[1 + place]) for place in shown),
                None if excess is None else tuple(float(excess.error[place]) for place in shown),
            )
            for one, excess in sources.items()
        ),
        subtitle=judged,
    )
