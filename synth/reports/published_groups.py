"""How small a group can be until noise hides an error in its shares: from the known noise alone, publishable."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synth.reports.charts import Cell, Table
from synth.reports.compared import BAR, ComparedTable
from synth.reports.evidence import SafeEvidence
from synth.reports.labels import bin_labels
from synth.schema import Schema

__all__ = ["smallest_groups"]

_POINTS = (1, 2, 5, 10, 20)
_HEADLINE = 5
_MOST_NAMED = 20


def smallest_groups(
    compared: Sequence[ComparedTable], schema: Schema, groups: Sequence[str]
) -> tuple[SafeEvidence, ...]:
    """Say from which size of a group on an error of so many points in one of its shares is above the noise.

    A share p of a group is a count of the group together with another column, divided by the size n of the group. Noise
    of deviation s on the count and t on the size makes an error of deviation sqrt(s^2 + p^2 t^2) / n to first order.
    As p is at most 1, errors of x lie above the noise (95 %) where n >= 1.96 sqrt(s^2 + t^2) / x. Declared facts, the
    law of the noise and noisy sizes enter, and nothing else.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables.
    schema : Schema
        The declared columns.
    groups : sequence of str
        The columns that tell groups apart.

    Returns
    -------
    tuple of SafeEvidence
        ``groups.smallest.<column>`` for every column of ``groups``, without a value where it was not measured by
        itself, or not together with another column.

    Notes
    -----
    Where the size is a sum that the count is part of, the two errors have a positive covariance, which makes the error
    of their ratio smaller: the bound stays.
    """
    singles = {one.columns[0]: one for one in compared if len(one.columns) == 1}
    found = []
    for name in groups:
        joint = [one for one in compared if len(one.columns) == 2 and name in one.columns]
        size = singles.get(name)
        if size is None or not joint:
            found.append(_unmeasured(name))
        else:
            found.append(_of_column(name, size, joint, bin_labels(schema.modelled_column(name), size.bins[0])))
    return tuple(found)


def _unmeasured(name: str) -> SafeEvidence:
    return SafeEvidence(
        id=f"groups.smallest.{name}",
        title=f"Smallest group of {name} to trust",
        value=None,
        unit="rows",
        sentence=f"'{name}' was not measured together with another column: what synthetic rows say about single groups "
        "of it is the model's guess, whatever the size of the group.",
    )


def _of_column(name: str, size: ComparedTable, joint: Sequence[ComparedTable], labels: Sequence[str]) -> SafeEvidence:
    of_size = float(size.noise_std.max())
    partners = sorted(
        ((_needed(one, of_size), next(other for other in one.columns if other != name)) for one in joint),
        key=lambda pair: pair[0],
    )
    typical = partners[len(partners) // 2][0]
    least = typical / _HEADLINE
    small = [label for label, count in zip(labels, size.measured.reshape(-1), strict=True) if count < least]
    more = f" and {len(small) - _MOST_NAMED} more" if len(small) > _MOST_NAMED else ""
    sentence = (
        f"In a typical table measured together with '{name}' ({len(partners)} of them) an error of {_HEADLINE} points "
        f"in a share of a group is above the noise (95 %) for groups of {math.ceil(least):,} rows or more. "
    )
    sentence += (
        f"By their noisy sizes these are smaller: {', '.join(small[:_MOST_NAMED])}{more}. "
        if small
        else "By their noisy sizes all groups are that large. "
    )
    sentence += "What the generator's model misses comes on top."
    rows: list[tuple[Cell, ...]] = [
        (other, *(math.ceil(needed / points) for points in _POINTS)) for needed, other in partners
    ]
    header = ("together with", *(f"{points} points" for points in _POINTS))
    return SafeEvidence(
        id=f"groups.smallest.{name}",
        title=f"Smallest group of {name} to trust",
        value=math.ceil(least),
        unit="rows",
        sentence=sentence,
        figures=(
            Table(f"Rows a group of {name} needs for an error of its shares to be above noise", header, tuple(rows)),
        ),
    )


def _needed(one: ComparedTable, of_size: float) -> float:
    """Return the rows a group needs for one point (a hundredth) of error."""
    return 100 * BAR * math.hypot(float(one.noise_std.max()), of_size)
