"""As good as which random sub-sample: read from the private rows, for the owner's eyes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from synth.reports.anchors import Anchored
from synth.reports.charts import Cell, Table
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.reports.subsample import SubsampleScale, subsample_scale

__all__ = ["owner_subsample"]

_WAYS = {1: "single columns", 2: "pairs of columns", 3: "sets of three columns"}
_TABLES = ("synthetic rows", "independent control", "bootstrap")


def owner_subsample(
    tables: Anchored,
    *,
    limit: int = 300,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Say which random sub-sample of the private rows is as near to them as the synthetic rows are.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    limit : int
        Most sets of columns of each size; a seeded sample is taken where there are more.
    on_step : callable, optional
        Told (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``fidelity.subsample.<1, 2 or 3>`` for as many columns as there are, and ``fidelity.subsample.distances``;
        nothing where there is one row.
    """
    scales: dict[int, SubsampleScale] = {}
    others = (tables.synthetic, tables.control, tables.floor)
    for done, alpha in enumerate(_WAYS, start=1):
        scale = subsample_scale(tables.real, others, tables.schema, alpha=alpha, limit=limit, seed=tables.seed)
        if scale is not None:
            scales[alpha] = scale
        if on_step is not None:
            on_step(done, len(_WAYS))
    found = [_evidence(alpha, scale) for alpha, scale in scales.items()]
    return (*found, _distances(scales)) if found else ()


def _evidence(alpha: int, scale: SubsampleScale) -> OwnerOnlyEvidence:
    place, control, floor = scale.places
    smallest = 100 * scale.sizes[0] / scale.n_rows
    sentence = (
        f"Over {_WAYS[alpha]} the synthetic rows are as near to the private rows as a random sub-sample of "
        f"{_words(place, smallest)} of these rows. The independent control: {_words(control, smallest)}; a bootstrap "
        f"of all rows: {_words(floor, smallest)}. {scale.subsets.sentence}"
    )
    return OwnerOnlyEvidence(
        id=f"fidelity.subsample.{alpha}",
        title=f"As good as a sub-sample: {_WAYS[alpha]}",
        value=smallest if place is None else place,
        unit="% of rows",
        sentence=f"{sentence} {OWNER_ONLY_SENTENCE}",
    )


def _distances(scales: Mapping[int, SubsampleScale]) -> OwnerOnlyEvidence:
    first = next(iter(scales.values()))
    rows: list[tuple[Cell, ...]] = [
        (f"{100 * size / first.n_rows:.3g} % ({size:,} rows)", *(scale.distances[place] for scale in scales.values()))
        for place, size in enumerate(first.sizes)
    ]
    rows += [(name, *(scale.means[place] for scale in scales.values())) for place, name in enumerate(_TABLES)]
    table = Table("Mean distance from the private rows", ("table", *(_WAYS[alpha] for alpha in scales)), tuple(rows))
    return OwnerOnlyEvidence(
        id="fidelity.subsample.distances",
        title="Random sub-samples beside the tables",
        value=None,
        unit="total variation",
        sentence="Numbers and dates in at most 32 public bins; three seeded sub-samples of each size. "
        f"{OWNER_ONLY_SENTENCE}",
        figures=(table,),
    )


def _words(place: float | None, smallest: float) -> str:
    return f"less than {smallest:.2g} %" if place is None else f"{place:.2g} %"
