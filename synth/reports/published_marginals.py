"""Marginals that may be published, as evidence: by column, by pair where measured, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth.reports.charts import MAXIMUM_POINTS, Bars, Figure, Series, Table
from synth.reports.compared import BAR, ComparedTable
from synth.reports.evidence import SafeEvidence
from synth.reports.labels import bin_labels
from synth.reports.marginals import ALPHAS
from synth.reports.measured_pairs import pair_map
from synth.schema import ModelledColumn, Schema

__all__ = ["published_marginals"]

_WORST = 10
_UNIT = "total variation"
_PICTURES = 60
_AGAINST = "Synthetic rows against the noisy counts; the error is the range caused by privacy noise (95 %)."


def published_marginals(
    fine: Sequence[ComparedTable], coarse: Sequence[ComparedTable], schema: Schema
) -> tuple[SafeEvidence, ...]:
    """Report how synthetic rows compare with the paid noisy counts.

    Parameters
    ----------
    fine, coarse : sequence of ComparedTable
        Measured tables beside synthetic rows, in measured bins and in at most 32 public bins.
    schema : Schema
        The declared columns.

    Returns
    -------
    tuple of SafeEvidence
        For each alpha ``marginals.<alpha>.mean``, ``.evaluated`` and ``.of``; where something was measured also
        ``.independent``, ``.noise`` and ``.worst``, and ``.coarse_mean`` and so on where public bins are coarser than
        the measured ones; ``marginals.2.map`` where pairs were measured; ``columns.<name>.distance`` with its picture.
    """
    found: list[SafeEvidence] = []
    for alpha in ALPHAS:
        of = math.comb(len(schema.names), alpha)
        mine = [one for one in fine if len(one.columns) == alpha]
        found += _coverage(alpha, len(mine), of)
        if mine:
            found += _summary(alpha, mine, "", of)
        merged = [one for one in coarse if len(one.columns) == alpha]
        if any(one.measured.size < other.measured.size for one, other in zip(merged, mine, strict=True)):
            found += _summary(alpha, merged, "coarse_", of)
    singles = [one for one in coarse if len(one.columns) == 1]
    drawn = sorted(singles, key=lambda one: -one.distance)[:_PICTURES]
    found += pair_map(coarse)
    return (*found, *(_column(one, schema.modelled_column(one.columns[0]), picture=one in drawn) for one in singles))


def _coverage(alpha: int, measured: int, of: int) -> list[SafeEvidence]:
    sets = _sets(alpha)
    sentence = f"{measured:,} of {of:,} {sets} were measured with noise."
    found = [
        SafeEvidence(id=f"marginals.{alpha}.{name}", title=title, value=value, unit=sets, sentence=sentence)
        for name, title, value in (("evaluated", "Measured", measured), ("of", "There are", of))
    ]
    if not measured:
        sentence = f"No {sets} were measured: nothing can be published about them without spending more."
        title = f"Mean distance over {sets}"
        found.append(SafeEvidence(id=f"marginals.{alpha}.mean", title=title, value=None, unit=_UNIT, sentence=sentence))
    return found


def _sets(alpha: int) -> str:
    return "columns" if alpha == 1 else f"sets of {alpha} columns"


def _summary(alpha: int, compared: Sequence[ComparedTable], prefix: str, of: int) -> list[SafeEvidence]:
    sets = _sets(alpha)
    bins = "At most 32 public bins for numbers and dates." if prefix else "One bin for every measured count."
    worst = sorted(compared, key=lambda one: -one.distance)[:_WORST]
    rows = tuple(
        (" + ".join(one.columns), one.distance, one.error, one.control_distance, min(one.expected_noise, 1.0))
        for one in worst
    )
    table = Table(f"The {len(worst)} worst {sets}", ("columns", "synthetic", "error", "independent", "noise"), rows)

    def number(name: str, title: str, value: float, sentence: str, error: float | None = None) -> SafeEvidence:
        figures = (table,) if name == "worst" else ()
        identity = f"marginals.{alpha}.{prefix}{name}"
        return SafeEvidence(
            id=identity, title=title, value=value, error=error, unit=_UNIT, sentence=sentence, figures=figures
        )

    mean, error, control = (
        _mean([getattr(one, name) for one in compared]) for name in ("distance", "error", "control_distance")
    )
    noise = _mean([min(one.expected_noise, 1.0) for one in compared])
    some = "" if len(compared) == of else f" Over the {len(compared):,} of {of:,} {sets} that were measured."
    return [
        number("mean", f"Mean distance over {sets}", mean, f"{_AGAINST} {bins}{some}", error),
        number("independent", "For the independent control", control, "Unrelated columns from the same noisy counts."),
        number("noise", "What noise alone makes", noise, "A distance near this one cannot be told from zero."),
        number("worst", f"Worst {sets}", worst[0].distance, f"{_AGAINST} {bins}", worst[0].error),
    ]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _column(one: ComparedTable, column: ModelledColumn, *, picture: bool) -> SafeEvidence:
    labels = bin_labels(column, one.bins[0])
    figures: tuple[Figure, ...] = ()
    if picture and len(labels) <= MAXIMUM_POINTS:
        measured = Series("noisy counts", "measured", _floats(one.measured), _floats(BAR * one.noise_std))
        made = Series("synthetic rows", "synthetic", _floats(one.synthetic))
        figures = (Bars(f"{column.name}: synthetic and noisy counts", "rows", labels, (made, measured)),)
    return SafeEvidence(
        id=f"columns.{column.name}.distance",
        title=f"Column {column.name}",
        value=one.distance,
        error=one.error,
        unit=_UNIT,
        sentence=f"{_AGAINST} Standard error of a count: {float(one.noise_std.max()):,.1f} rows.",
        figures=figures,
    )


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(values.tolist())
