"""Alpha-way marginals against the private rows: exact, and for the owner's eyes only.

Beside every distance stand two others over the same sets of columns: the independent control, drawn from one-way tables
with as much noise as this run's budget buys, and the floor, a bootstrap of the private rows of the same size. A table
below the floor would be closer to the rows than another draw of the same people.
"""

from __future__ import annotations

from collections.abc import Callable

from synth.reports.anchors import Anchored
from synth.reports.charts import HeatMap
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.reports.marginals import AlphaWay, MarginalComparison, compare_marginals

__all__ = ["owner_marginals"]

_HEADINGS = ("synthetic", "independent", "floor")
_UNIT = "total variation"


def owner_marginals(
    tables: Anchored,
    *,
    limit: int = 1000,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare synthetic with private rows.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    limit : int
        Most sets of columns for each alpha; a seeded sample is taken where there are more.
    on_step : callable, optional
        Told (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        For each alpha: ``marginals.<alpha>.mean``, ``.independent``, ``.floor`` and ``.worst``, each also with
        ``coarse_`` in front for at most 32 public bins; ``.evaluated`` and ``.of``; for pairs ``marginals.2.map``.
    """
    found: list[OwnerOnlyEvidence] = []
    for place, prefix in enumerate(("", "coarse_")):
        comparison = compare_marginals(
            tables.tables,
            tables.schema,
            coarse=bool(prefix),
            limit=limit,
            seed=tables.seed,
            on_step=_half(on_step, place),
        )
        found += _evidence(comparison, prefix)
    return tuple(found)


def _half(on_step: Callable[[int, int], None] | None, place: int) -> Callable[[int, int], None] | None:
    if on_step is None:
        return None
    return lambda done, total: on_step(done + place * total, 2 * total)


def _evidence(comparison: MarginalComparison, prefix: str) -> list[OwnerOnlyEvidence]:
    found = []
    for alpha, way in comparison.by_alpha.items():
        found += _of_alpha(alpha, way, prefix)
    if comparison.pairs is not None and not prefix:
        found.append(_map(comparison.pairs))
    return found


def _of_alpha(alpha: int, way: AlphaWay, prefix: str) -> list[OwnerOnlyEvidence]:
    bins = "at most 32 public bins for numbers and dates" if prefix else "one bin per declared code"
    sets = "columns" if alpha == 1 else f"sets of {alpha} columns"
    mean, control, floor = way.means
    worst = way.worst(_HEADINGS)

    def number(name: str, title: str, value: float | int | None, sentence: str, unit: str = _UNIT) -> OwnerOnlyEvidence:
        return OwnerOnlyEvidence(
            id=f"marginals.{alpha}.{prefix}{name}",
            title=title,
            value=value,
            unit=unit,
            sentence=f"{sentence} {OWNER_ONLY_SENTENCE}",
            figures=(worst,) if name == "worst" else (),
        )

    coverage = way.subsets.sentence
    largest = float(way.distances[:, 0].max()) if len(way.distances) else None
    found = [
        number("mean", f"Mean distance over {sets}", mean, f"Synthetic against private rows, {bins}. {coverage}"),
        number("independent", "For the independent control", control, "Unrelated columns, this run's noise."),
        number("floor", "For a bootstrap", floor, "Another draw of the same private rows, of the same size."),
        number("worst", f"Worst {sets}", largest, f"{bins.capitalize()}."),
    ]
    if not prefix:
        found.append(number("evaluated", f"{sets.capitalize()} compared", len(way.distances), coverage, sets))
        found.append(number("of", f"{sets.capitalize()} there are", way.subsets.of, coverage, sets))
    return found


def _map(pairs: HeatMap) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(
        id="marginals.2.map",
        title="Which pairs differ",
        value=None,
        unit=_UNIT,
        sentence=f"Synthetic against private rows. {OWNER_ONLY_SENTENCE}",
        figures=(pairs,),
    )
