"""What the noise allows to say of groups in public: how large one has to be, and how well each size is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synth.reports.code_tables import bin_labels
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Cell, Table
from synth.reports.measured import BAR, ComparedTable
from synth.reports.wording import listed
from synth.schema import Schema

__all__ = ["group_accuracy", "smallest_groups"]

_DOUBTFUL = 0.2
_MOST_LISTED = 200
_POINTS = (1, 2, 5, 10, 20)
_HEADLINE = 5
_MOST_NAMED = 20


def smallest_groups(
    compared: Sequence[ComparedTable], schema: Schema, groups: Sequence[str]
) -> tuple[SafeEvidence, ...]:
    """Say how large a group must be for noise to change its shares by at most so many points.

    A share p of a group is a count of the group together with another column, divided by the size n of the group. Noise
    with standard deviation s on the count and t on the size gives an error with deviation sqrt(s^2 + p^2 t^2) / n to
    first order. As p is at most 1, the error is at most x (95 %) if n >= 1.96 sqrt(s^2 + t^2) / x. Only declared facts,
    the distribution of the noise and noisy sizes enter.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables.
    schema : Schema
        The declared columns.
    groups : sequence of str
        The columns that define groups.

    Returns
    -------
    tuple of SafeEvidence
        ``groups.smallest.<column>`` for every column of ``groups``, without a value if it was not measured by itself
        or not together with another column.

    Notes
    -----
    If the count is part of the size, the two errors have a positive covariance, which makes the error of their ratio
    smaller, so the bound still holds.
    """
    singles = {one.columns[0]: one for one in compared if len(one.columns) == 1}
    found = []
    for name in groups:
        joint = [one for one in compared if len(one.columns) == 2 and name in one.columns]
        size = singles.get(name)
        if size is None or not joint:
            found.append(_unmeasured(name, schema.unit.counted))
        else:
            found.append(_of_column(name, size, joint, bin_labels(schema.modelled_column(name), size.bins[0])))
    return tuple(found)


def _unmeasured(name: str, of: str) -> SafeEvidence:
    return SafeEvidence(
        id=f"groups.smallest.{name}",
        title=f"Smallest group of {name} to trust",
        value=None,
        unit=of,
        sentence=f"'{name}' was not measured together with another column, so what the synthetic rows say about its "
        "groups is the model's guess, whatever their size.",
    )


def _of_column(name: str, size: ComparedTable, joint: Sequence[ComparedTable], labels: Sequence[str]) -> SafeEvidence:
    of_size = float(size.noise_std.max())
    partners = sorted(
        (
            (
                _needed(one, of_size),
                next(title for other, title in zip(one.columns, one.titles, strict=True) if other != name),
            )
            for one in joint
        ),
        key=lambda pair: pair[0],
    )
    typical = partners[len(partners) // 2][0]
    least = typical / _HEADLINE
    small = [label for label, count in zip(labels, size.measured.reshape(-1), strict=True) if count < least]
    sentence = (
        f"In a typical measured table with '{name}' ({len(partners)} of them), noise changes a share within a group by "
        f"less than {_HEADLINE} percentage points (95 %) if the group has {math.ceil(least):,} {size.counted} or more. "
    )
    sentence += (
        f"According to the noisy counts, these groups are smaller: {listed(small, _MOST_NAMED)}. "
        if small
        else "According to the noisy counts, all groups are that large. "
    )
    sentence += "The error of the generator's model comes on top."
    rows: list[tuple[Cell, ...]] = [
        (other, *(math.ceil(needed / points) for points in _POINTS)) for needed, other in partners
    ]
    header = ("together with", *(f"± {points} points" for points in _POINTS))
    return SafeEvidence(
        id=f"groups.smallest.{name}",
        title=f"Smallest group of {name} to trust",
        value=math.ceil(least),
        unit=size.counted,
        sentence=sentence,
        figures=(
            Table(
                f"A group of {name} needs {math.ceil(least):,} {size.counted} for shares within {_HEADLINE} points",
                header,
                tuple(rows),
                f"Not good for {len(small):,} of {len(labels):,} groups: they are smaller."
                if small
                else "Good: all groups are that large.",
            ),
        ),
    )


def _needed(one: ComparedTable, of_size: float) -> float:
    """Return how many rows a group needs for an error of one point (a hundredth)."""
    return 100 * BAR * math.hypot(float(one.noise_std.max()), of_size)


def group_accuracy(
    compared: Sequence[ComparedTable], schema: Schema, groups: Sequence[str]
) -> tuple[SafeEvidence, ...]:
    """Say for every declared group how well its size is known, and name those with an error above 20 %.

    Returns
    -------
    tuple of SafeEvidence
        ``groups.<column>`` for each column of ``groups`` that was measured.
    """
    by_column = {one.columns[0]: one for one in compared if len(one.columns) == 1}
    found = []
    for name in groups:
        one = by_column.get(name)
        if one is not None and one.measured.size <= _MOST_LISTED:
            found.append(_groups(one, bin_labels(schema.modelled_column(name), one.bins[0])))
    return tuple(found)


def _groups(one: ComparedTable, labels: Sequence[str]) -> SafeEvidence:
    name = one.columns[0]
    # A noisy count of 0 or less has no relative error and counts as unknown.
    relative = one.noise_std / np.maximum(one.measured, 1e-9)
    relative[one.measured <= 0] = np.inf
    doubtful = [label for label, error in zip(labels, relative, strict=True) if error > _DOUBTFUL]
    rows = tuple(
        (label, float(count), BAR * float(noise), float(error) if np.isfinite(error) else None)
        for label, count, noise, error in zip(labels, one.measured, one.noise_std, relative, strict=True)
    )
    title = f"The size of {len(doubtful):,} of {len(labels):,} groups of {name} is uncertain by more than a fifth"
    judged = (
        "Not good: what the synthetic rows say about them is mostly noise." if doubtful else "Good: all can be used."
    )
    sentence = f"Groups of '{name}' whose count has a relative standard error above 20 %"
    noise = "What the synthetic rows say about them is mostly noise."
    sentence += f": {', '.join(doubtful)}. {noise}" if doubtful else ": none."
    return SafeEvidence(
        id=f"groups.{name}",
        title=f"Small groups of {name}",
        value=len(doubtful),
        unit=f"of {len(labels)} groups",
        sentence=sentence,
        figures=(Table(title, ("group", "noisy count", "± (95 %)", "relative standard error"), rows, judged),),
    )
