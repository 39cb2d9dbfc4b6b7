"""Marginals that may be published, as evidence: by column, by pair where measured, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth.codes import code_values
from synth.privacy.answers import RowCount
from synth.privacy.receipt import Release
from synth.reports.charts import MAXIMUM_POINTS, Bars, Figure, Series, Table
from synth.reports.compared import BAR, ComparedTable, compare_measured
from synth.reports.counting import CodeTable
from synth.reports.evidence import SafeEvidence
from synth.reports.marginals import ALPHAS
from synth.schema import ModelledColumn, Schema

__all__ = ["bin_labels", "published_marginals"]

_WORST = 10
_UNIT = "total variation"
_RELATIVE_ERROR = 0.1
_PICTURES = 60
_AGAINST = "Synthetic rows against the noisy counts; the error is the range caused by privacy noise (95 %)."


def published_marginals(
    synthetic: CodeTable, schema: Schema, releases: Sequence[Release], rows: RowCount, *, seed: int = 0
) -> tuple[SafeEvidence, ...]:
    """Report how synthetic rows compare with the paid noisy counts.

    Parameters
    ----------
    synthetic : CodeTable
        Codes in ``schema.names`` order, at least one row.
    schema : Schema
        The declared columns.
    releases : sequence of Release
        The paid answers of the run; those that are counts are used.
    rows : RowCount
        Public or measured number of private rows.
    seed : int
        Draws the independent control; public.

    Returns
    -------
    tuple of SafeEvidence
        ``columns.trust``; for each alpha ``marginals.<alpha>.mean``, ``.independent``, ``.noise``, ``.evaluated``,
        ``.of`` and ``.worst``, for alpha 1 and 2 also with ``coarse_`` in front; ``columns.<name>.distance`` with its
        picture.
    """
    fine = compare_measured(synthetic, schema, releases, rows, seed=seed)
    coarse = compare_measured(synthetic, schema, releases, rows, coarse=True, seed=seed)
    found = [] if not fine else [_trust(fine)]
    for alpha in ALPHAS:
        of = math.comb(len(schema.names), alpha)
        found += _summary(alpha, [one for one in fine if len(one.columns) == alpha], of, "")
        if alpha <= 2:
            found += _summary(alpha, [one for one in coarse if len(one.columns) == alpha], of, "coarse_")
    singles = [one for one in coarse if len(one.columns) == 1]
    drawn = sorted(singles, key=lambda one: -one.distance)[:_PICTURES]
    return (*found, *(_column(one, schema.modelled_column(one.columns[0]), picture=one in drawn) for one in singles))


def _summary(alpha: int, compared: Sequence[ComparedTable], of: int, prefix: str) -> list[SafeEvidence]:
    sets = "columns" if alpha == 1 else f"sets of {alpha} columns"
    measured = f"{len(compared):,} of {of:,} {sets} were measured with noise."
    if not compared:
        measured += " About the others nothing can be published without spending more."
    bins = "At most 32 public bins for numbers and dates." if prefix else "One bin for every measured count."
    worst = sorted(compared, key=lambda one: -one.distance)[:_WORST]
    table = Table(
        f"The {len(worst)} worst {sets}",
        ("columns", "synthetic", "error", "independent", "noise"),
        tuple(
            (" + ".join(one.columns), one.distance, one.error, one.control_distance, min(one.expected_noise, 1.0))
            for one in worst
        ),
    )

    def number(name: str, title: str, value: float | None, sentence: str, error: float | None = None) -> SafeEvidence:
        figures = (table,) if name == "worst" else ()
        identity = f"marginals.{alpha}.{prefix}{name}"
        return SafeEvidence(
            id=identity, title=title, value=value, error=error, unit=_UNIT, sentence=sentence, figures=figures
        )

    means = [_mean([getattr(one, name) for one in compared]) for name in ("distance", "error", "control_distance")]
    noise = _mean([min(one.expected_noise, 1.0) for one in compared])
    largest = worst[0].distance if worst else None
    counts = [
        SafeEvidence(id=f"marginals.{alpha}.{prefix}{name}", title=title, value=value, unit=sets, sentence=measured)
        for name, title, value in (("evaluated", "Measured", len(compared)), ("of", "There are", of))
    ]
    return [
        number("mean", f"Mean distance over {sets}", means[0], f"{_AGAINST} {bins} {measured}", means[1]),
        number("independent", "For the independent control", means[2], "Unrelated columns from the same noisy counts."),
        number("noise", "What noise alone makes", noise, "A distance near this one cannot be told from zero."),
        *counts,
        number("worst", f"Worst {sets}", largest, f"{_AGAINST} {bins}", worst[0].error if worst else None),
    ]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _trust(compared: Sequence[ComparedTable]) -> SafeEvidence:
    noise = max(float(one.noise_std.max()) for one in compared if len(one.columns) == 1)
    least, nothing = noise / _RELATIVE_ERROR, BAR * noise
    return SafeEvidence(
        id="columns.trust",
        title="Smallest count to trust",
        value=least,
        unit="rows",
        sentence=f"Trust measured counts above about {least:,.0f} rows; below {nothing:,.0f}, treat them as noise. "
        "Small groups fare worse. Follows from the known noise alone.",
    )


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


def bin_labels(column: ModelledColumn, bins: NDArray[np.int32]) -> tuple[str, ...]:
    """Name every bin by the codes in it: one value, or the first and the last.

    Parameters
    ----------
    column : ModelledColumn
    bins : array of shape (column.size,)
        Bin of every code, ascending over the codes.
    """
    edges = np.searchsorted(bins, np.arange(int(bins.max()) + 2))
    labels = []
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        labels.append(" to ".join(code_values(column, sorted({first, end - 1}), missing="missing")))
    return tuple(labels)
