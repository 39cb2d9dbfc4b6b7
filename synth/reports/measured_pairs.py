"""Measured pairs as pictures that may be published: which the synthetic rows get wrong, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

from synth.reports.charts import MAXIMUM_HEAT_MAP_SIDE, Bars, Figure, HeatMap, Series
from synth.reports.compared import ComparedTable
from synth.reports.evidence import SafeEvidence

__all__ = ["pair_map"]

_MOST_BARS = 30
_UNIT = "total variation"


def pair_map(compared: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    """Draw the pairs that were measured, from noisy counts and synthetic rows alone.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables beside synthetic rows; those of one column fill the diagonal.

    Returns
    -------
    tuple of SafeEvidence
        ``marginals.2.map``, or nothing where no pair was measured.
    """
    pairs = sorted((one for one in compared if len(one.columns) == 2), key=lambda one: -one.distance)
    if not pairs:
        return ()
    unclear = sum(one.distance <= one.error for one in pairs)
    sentence = (
        "Synthetic rows against the noisy counts of the pairs that were measured; empty squares were not. "
        f"{unclear:,} of {len(pairs):,} lie within the range that privacy noise alone makes (95 %)."
    )
    singles = [one for one in compared if len(one.columns) == 1]
    return (
        SafeEvidence(
            id="marginals.2.map",
            title="Which pairs differ",
            value=None,
            unit=_UNIT,
            sentence=sentence,
            figures=(*_square(pairs, singles), _bars(pairs)),
        ),
    )


def _square(pairs: Sequence[ComparedTable], singles: Sequence[ComparedTable]) -> tuple[Figure, ...]:
    """Draw a square over the columns of the worst pairs; two columns alone are one bar and need none."""
    shown: list[str] = []
    for pair in pairs:
        new = [name for name in pair.columns if name not in shown]
        if len(shown) + len(new) <= MAXIMUM_HEAT_MAP_SIDE:
            shown += new
    if len(shown) < 3:
        return ()
    distances = {frozenset(one.columns): one.distance for one in (*pairs, *singles)}
    names = tuple(name for name in (one.columns[0] for one in singles) if name in shown)
    names += tuple(name for name in shown if name not in names)
    values = tuple(tuple(distances.get(frozenset((left, right))) for right in names) for left in names)
    return (HeatMap("Measured pairs; the diagonal is each column by itself", _UNIT, names, values),)


def _bars(pairs: Sequence[ComparedTable]) -> Bars:
    drawn = pairs[:_MOST_BARS]
    series = (
        Series(
            "synthetic rows",
            "synthetic",
            tuple(one.distance for one in drawn),
            tuple(one.error for one in drawn),
        ),
        Series("independent control", "control", tuple(one.control_distance for one in drawn)),
        Series("what noise alone makes", "floor", tuple(min(one.expected_noise, 1.0) for one in drawn)),
    )
    which = "The measured pairs" if len(drawn) == len(pairs) else f"The {len(drawn)} measured pairs that differ most"
    return Bars(
        f"{which}, with the range of privacy noise", _UNIT, tuple(" + ".join(one.columns) for one in drawn), series
    )
