"""Alpha-way marginals against the private rows: exact, and for the owner's eyes only.

Beside every distance stand two others over the same sets of columns: the independent control, drawn from one-way tables
with as much noise as this run's budget buys, and the floor, a bootstrap of the private rows of the same size. A table
below the floor would be closer to the rows than another draw of the same people.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from synth.reports.charts import HeatMap
from synth.reports.control import owner_control
from synth.reports.counting import CodeTable
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.reports.marginals import AlphaWay, MarginalComparison, compare_marginals
from synth.schema import Schema

__all__ = ["owner_marginals"]

_MAXIMUM_ROWS = 100_000
_HEADINGS = ("synthetic", "independent", "floor")
_UNIT = "total variation"


def owner_marginals(
    private: CodeTable,
    synthetic: CodeTable,
    schema: Schema,
    *,
    control_noise: float,
    limit: int = 1000,
    seed: int = 0,
    maximum_rows: int = _MAXIMUM_ROWS,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare synthetic with private rows.

    Parameters
    ----------
    private, synthetic : CodeTable
        Codes in ``schema.names`` order, one array per column; at least one row each.
    schema : Schema
        The declared columns.
    control_noise : float
        Standard deviation, in rows, of the noise on every cell of the control's one-way tables: what the whole budget
        of the run would buy (``synth.forecast.one_way_noise``).
    limit : int
        Most sets of columns for each alpha; a seeded sample is taken where there are more.
    seed : int
        Public; draws samples, control and bootstrap.
    maximum_rows : int
        Of larger tables a seeded sample of this many rows is compared.
    on_step : callable, optional
        Told (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        For each alpha: ``marginals.<alpha>.mean``, ``.independent``, ``.floor`` and ``.worst``, each also with
        ``coarse_`` in front for at most 32 public bins; ``.evaluated`` and ``.of``; for pairs ``marginals.2.map``.
    """
    random = np.random.default_rng([seed, 1])
    real = _at_most(private, maximum_rows, random)
    made = _at_most(synthetic, maximum_rows, random)
    control = owner_control(private, schema, control_noise, n_rows=len(made[0]), seed=seed)
    drawn = random.integers(len(real[0]), size=len(made[0]))
    floor = [codes[drawn] for codes in real]
    tables = [real, made, control, floor]
    found: list[OwnerOnlyEvidence] = []
    for place, prefix in enumerate(("", "coarse_")):
        comparison = compare_marginals(
            tables, schema, coarse=bool(prefix), limit=limit, seed=seed, on_step=_half(on_step, place)
        )
        found += _evidence(comparison, prefix)
    return tuple(found)


def _at_most(table: CodeTable, rows: int, random: np.random.Generator) -> CodeTable:
    if len(table[0]) <= rows:
        return [codes.astype(np.int64) for codes in table]
    kept = np.sort(random.choice(len(table[0]), size=rows, replace=False))
    return [codes[kept].astype(np.int64) for codes in table]


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
