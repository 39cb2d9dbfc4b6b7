"""Differences between groups: which of them are clear of noise, with intervals for noise and sampling together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.reports.code_tables import bin_labels
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Cell, Table
from synth.reports.interval_estimates import SummedTable, bin_values, mean_with_variance, quotable, summed_tables
from synth.reports.measured import BAR, ComparedTable
from synth.reports.panels import Cards, Heading, Panel
from synth.reports.report import GROUPS, PaidAnswers, Report, Screen, Section, Shown
from synth.schema import RunConfig, column_title

__all__ = ["REPORT", "Difference", "differences"]

Vector = NDArray[np.float64]

_MOST_GROUPS = 5
"""Groups, the largest first, that are compared with the largest of all."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean or a share in one group, minus that in another.

    Attributes
    ----------
    column : str
        A number, of which it is the mean, or a yes-or-no column, of which it is the share of yes, as a reader is told.
    group, other : str
    value : float
        In units of the column; for shares from -1 to 1. NaN if the column was not counted together with the group.
    error : float
        Half the width of its 95 % interval; NaN if there is none.
    """

    column: str
    group: str
    other: str
    value: float
    error: float

    @property
    def said(self) -> str:
        """Whether it is clear of noise, in the words of the table."""
        if not math.isfinite(self.value):
            return "not measured" if math.isnan(self.value) else "too few rows"
        return "told" if abs(self.value) > self.error else "not told from noise"


def differences(compared: Sequence[ComparedTable], config: RunConfig, group: str) -> tuple[Difference, ...]:
    """Return differences of means and shares between groups, from noisy tables of counts.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables, in the bins in which they were measured.
    config : RunConfig
    group : str
        The column that defines the groups.

    Returns
    -------
    tuple of Difference
        For every number and every yes-or-no column, the largest group minus each of the next largest.

    Notes
    -----
    Variances are those of :func:`synth.reports.interval_estimates.mean_with_variance`, added up over both groups. The
    value of a bin is that of :func:`synth.reports.interval_estimates.bin_values`, so both groups are assumed to be
    alike within a bin.
    """
    schema = config.schema
    singles = {one.columns[0]: one for one in compared if len(one.columns) == 1}
    if group not in singles:
        return ()
    sizes = singles[group]
    labels = bin_labels(schema.modelled_column(group), sizes.bins[0])
    order = [int(place) for place in np.argsort(-sizes.measured.reshape(-1), kind="stable")[: _MOST_GROUPS + 1]]
    found = []
    for column in quotable(schema):
        if column.name == group or not (column.is_summable or column.kind == "yes_no"):
            continue
        table = next(iter(summed_tables(compared, group, column.name)), None)
        if table is None or column.name not in singles or table.bins[0] != sizes.bins[0]:
            pairs = [(math.nan, math.nan)] * (len(order) - 1)
        else:
            pairs = list(_of_table(table, bin_values(column, singles[column.name], table.bins[1]), order, config))
        for place, (value, error) in zip(order[1:], pairs, strict=True):
            found.append(Difference(column_title(schema, column.name), labels[order[0]], labels[place], value, error))
    return tuple(found)


def _of_table(
    table: SummedTable, values: Vector, order: Sequence[int], config: RunConfig
) -> Iterator[tuple[float, float]]:
    known = np.isfinite(values)
    moments = [
        mean_with_variance(
            table.counts[place, known],
            table.noise[place, known],
            values[known],
            rows_per_unit=config.schema.unit.rows_per_unit,
        )
        for place in order
    ]
    first, variance = moments[0]
    for mean, other in moments[1:]:
        if math.isfinite(first) and math.isfinite(mean):
            yield first - mean, BAR * math.sqrt(variance + other)
        else:
            yield math.inf, math.nan


# The report ---------------------------------------------------------------------------------------------------------


_SECTION = "differences"


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    config = answers.config
    made = ((group, differences(answers.fine, config, group)) for group in config.groups)
    return [_evidence(group, found, config) for group, found in made if found]


def _evidence(group: str, found: Sequence[Difference], config: RunConfig) -> SafeEvidence:
    unknown = list(dict.fromkeys(one.column for one in found if one.said == "not measured"))
    measured = [one for one in found if one.column not in unknown]
    told = sum(one.said == "told" for one in measured)
    title = f"No difference between groups of {group} was measured"
    judged = "Treat what the rows say about them as unknown."
    if measured:
        title = f"{told:,} of {len(measured):,} differences between groups of {group} are clear of noise"
        judged = "Good: all are clear of noise." if told == len(measured) else "Do not report those that are not."
    rows: list[tuple[Cell, ...]] = [
        (
            f"{one.column}: {one.group} less {one.other}",
            one.value if math.isfinite(one.value) else None,
            one.error if math.isfinite(one.error) else None,
            one.said,
        )
        for one in measured
    ]
    rows += [(column, None, None, "not measured") for column in unknown]
    sentence = (
        "Means, and shares of yes, computed from the noisy counts, with 95 % intervals for noise and sampling "
        "together. Where there is no difference, one in 20 still looks like one."
    )
    if config.schema.unit.rows_per_unit > 1:
        sentence += " Rows of one unit are assumed to be alike."
    if unknown:
        sentence += f" Not counted together with {group}, so treat as unknown: {', '.join(unknown)}."
    return SafeEvidence(
        id=f"{_SECTION}.{group}",
        title=f"Differences between groups of {group} that are clear of noise",
        value=told,
        unit=f"of {len(measured)} measured",
        sentence=sentence,
        figures=(Table(title, ("mean, or share of yes", "difference", "± (95 %)", "verdict"), tuple(rows), judged),),
    )


def _panels(shown: Shown) -> list[Panel]:
    found = shown.public_of(_SECTION)
    return [Heading("Differences that are clear of noise"), Cards(found, key="differences")] if found else []


REPORT = Report(
    id="differences",
    title="Differences between groups",
    sections={_SECTION: Section("Differences between groups")},
    public=_public,
    screens=(Screen(GROUPS, _panels),),
)
