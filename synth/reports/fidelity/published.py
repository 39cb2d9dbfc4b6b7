"""Distributions and missing cells that may be published: synthetic rows compared with noisy counts already paid for.

The range of a number follows from the known noise alone. For a distance between shares of rows up to a value: let F be
the true cumulative share of the n rows on the scale, W the sum of the noise over the first bins, and V over the rest.
The noisy share differs from F by ((1 - F) W - F V) / (n + W + V), a mixture of the two, so by at most the larger of
max |W| and max |V| over the noisy total. By Levy's inequality each maximum exceeds x with at most twice the chance
that the sum over all bins does (Ledoux 1991, proposition 2.3: the terms are independent and symmetric). The cost of
moving rows is at most the length of the scale times that difference, so the same range holds for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from synth.privacy.bins import Bins, pieces
from synth.reports.evidence import SafeEvidence
from synth.reports.fidelity.distances import ScaleDistance, apart_codes, moved_text, scale_distance
from synth.reports.figures import Cell, Table
from synth.reports.measured import BAR, ComparedTable, within
from synth.reports.wording import beyond_noise, in_hundred, short_text
from synth.schema import ModelledColumn, Schema

__all__ = ["farthest_apart", "farthest_scale", "published_fidelity"]

_MOST_LINES = 100
_TWO_MAXIMA = 2.497705
"""A normal error is larger than so many standard deviations with a chance of 0.05 / 4: Levy doubles it, twice."""


def published_fidelity(compared: Sequence[ComparedTable], schema: Schema) -> tuple[SafeEvidence, ...]:
    """Report how distributions and missing cells compare with the paid noisy counts.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables beside synthetic rows; those of one column are used.
    schema : Schema
        The declared columns.

    Returns
    -------
    tuple of SafeEvidence
        ``fidelity.ks``, ``.wasserstein`` and ``.scales`` where a number or date was measured in the order of its scale
        (the first alone and without a value where noise hides everything); ``fidelity.apart`` and ``.apart_cells``
        where missing cells or special values were measured by themselves.
    """
    mine = within(compared, schema.names)
    singles = [(schema.modelled_column(one.columns[0]), one) for one in mine if len(one.columns) == 1]
    return (*_scales(singles), *_apart(singles))


def _scales(singles: Sequence[tuple[ModelledColumn, ComparedTable]]) -> list[SafeEvidence]:
    found: list[tuple[ModelledColumn, ScaleDistance, float]] = []
    ordered = [(column, one, places) for column, one in singles if (places := _places(column, one.bins[0])) is not None]
    for column, one, places in ordered:
        told = _distance(one, places)
        if told is not None:
            found.append((column, *told))
    if not found:
        return [_hidden(len(ordered))] if ordered else []
    hidden = len(ordered) - len(found)
    some = f" Noise hides it for {hidden:,} more." if hidden else ""
    found.sort(key=lambda entry: -entry[1].ks)
    shown = found[:_MOST_LINES]
    rows: list[tuple[Cell, ...]] = [
        (column.name, distance.ks, distance.wasserstein, error, moved_text(column, distance.wasserstein))
        for column, distance, error in shown
    ]
    clear = sum(distance.ks > error for _, distance, error in found)
    header = ("column", "KS", "Wasserstein", "± of both (95 %)", "Wasserstein, in units")
    judged = beyond_noise(clear, len(found), noise=max(error for _, _, error in found))
    table = Table(farthest_scale(found[0][0], found[0][1]), header, tuple(rows), judged)
    error = fmean([error for _, _, error in found])
    return [
        SafeEvidence(
            id="fidelity.ks",
            title="Kolmogorov-Smirnov distance",
            value=fmean([distance.ks for _, distance, _ in found]),
            error=error,
            unit=f"share of {singles[0][1].counted}",
            sentence="The largest difference between the two cumulative distributions, at the edges of measured bins, "
            f"over rows that have a value; mean over {len(found):,} number and date columns.{some}",
        ),
        SafeEvidence(
            id="fidelity.wasserstein",
            title="Wasserstein distance",
            value=fmean([distance.wasserstein for _, distance, _ in found]),
            error=error,
            unit="fraction of the declared range",
            sentence="How far a row has to be moved on average to turn one distribution into the other, with each row "
            "in the middle of its bin.",
        ),
        SafeEvidence(
            id="fidelity.scales",
            title="Column by column",
            value=None,
            sentence="The Kolmogorov-Smirnov (KS) and the Wasserstein distance of each column.",
            figures=(table,),
        ),
    ]


def _hidden(columns: int) -> SafeEvidence:
    return SafeEvidence(
        id="fidelity.ks",
        title="Kolmogorov-Smirnov distance",
        value=None,
        sentence="Privacy noise hides how the rows are distributed, so nothing can be said in public about the "
        f"distributions of the {columns:,} number and date columns that were measured.",
    )


def _distance(one: ComparedTable, places: NDArray[np.float64]) -> tuple[ScaleDistance, float] | None:
    """Return the distances of one column with their error, or None if noise hides them."""
    kept = slice(0, len(places))
    measured, synthetic = one.measured[kept], one.synthetic[kept]
    spread = math.sqrt(float((one.noise_std[kept] ** 2).sum()))
    total = float(measured.sum())
    # With so few rows on the scale, the noisy total itself might be close to 0.
    if total <= 2 * _TWO_MAXIMA * spread or not synthetic.any():
        return None
    distance = scale_distance(places, synthetic, measured)
    capped = ScaleDistance(min(distance.ks, 1.0), min(distance.wasserstein, 1.0))
    return capped, min(_TWO_MAXIMA * spread / total, 1.0)


def _places(column: ModelledColumn, bins: Bins) -> NDArray[np.float64] | None:
    """Return the middle of every bin of the grid, in [0, 1]; None if bins do not follow the scale."""
    if not column.levels:
        return None
    sums, sizes, before = np.zeros(bins.count), np.zeros(bins.count), 0
    for first, last, (own,) in pieces(0, column.levels, bins):
        if (np.diff(own, prepend=before) < 0).any():
            return None
        before = int(own[-1])
        sums += np.bincount(own, weights=(first + last) / 2 * (last - first + 1), minlength=bins.count)
        sizes += np.bincount(own, weights=last - first + 1, minlength=bins.count)
    n_bins = before + 1
    others = bins[np.arange(column.levels, column.size)]
    if not sizes[:n_bins].all() or (others < n_bins).any():
        return None
    return np.asarray(sums[:n_bins] / sizes[:n_bins] / max(column.levels - 1, 1))


def _apart(singles: Sequence[tuple[ModelledColumn, ComparedTable]]) -> list[SafeEvidence]:
    lines: list[tuple[str, str, float, float, float]] = []
    for column, one in singles:
        rows = one.rows.value
        of_rows = BAR * one.rows.noise_std / rows
        in_bin = one.bins[0].widths
        for code, name in apart_codes(column):
            place = int(one.bins[0][code])
            if in_bin[place] == 1:
                error = min(BAR * float(one.noise_std[place]) / rows + of_rows, 1.0)
                shares = (float(counts[place]) / rows for counts in (one.synthetic, one.measured))
                lines.append((column.name, name, *shares, error))  # type: ignore[arg-type]
    if not lines:
        return []
    lines.sort(key=lambda line: -abs(line[2] - line[3]))
    clear = sum(abs(made - noisy) > error for _, _, made, noisy, error in lines)
    of = singles[0][1].counted
    title = farthest_apart(*lines[0][:4], of, beside="the noisy counts")
    header = ("column", "cell", "synthetic", "noisy", "error")
    judged = beyond_noise(clear, len(lines), noise=max(line[4] for line in lines))
    table = Table(title, header, tuple(lines[:_MOST_LINES]), judged)
    return [
        SafeEvidence(
            id="fidelity.apart",
            title="Difference in missing cells and special values",
            value=fmean([abs(line[2] - line[3]) for line in lines]),
            error=fmean([line[4] for line in lines]),
            unit=f"share of {of}",
            sentence=f"Mean over the {len(lines):,} such values that were counted separately.",
        ),
        SafeEvidence(
            id="fidelity.apart_cells",
            title="Missing cells and special values",
            value=None,
            sentence="Every share that was counted separately.",
            figures=(table,),
        ),
    ]


def farthest_scale(column: ModelledColumn, distance: ScaleDistance) -> str:
    """Say which number or date column differs most, in its cumulative shares."""
    points = short_text(100 * distance.ks)
    return f"{column.name} differs most: its cumulative shares differ by up to {points} points"


def farthest_apart(column: str, cell: str, made: float, real: float, of: str, *, beside: str) -> str:
    """Say which missing cells or special values differ most."""
    # A noisy share may be negative.
    there = short_text(100 * max(real, 0.0))
    return f"{column}, {cell}: {in_hundred(made, of)}, against {there} in {beside}; the largest difference"
