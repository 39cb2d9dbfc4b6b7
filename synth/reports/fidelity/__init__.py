"""Fidelity: distributions of numbers and dates, missing cells, associations, and an equally accurate sub-sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from synth.generators import CONTROL
from synth.names import visible
from synth.progress import OnStep, Progress, unwatched
from synth.reports.code_tables import choose_subsets
from synth.reports.controls import Anchored
from synth.reports.evidence import Evidence, OwnerOnlyEvidence, SafeEvidence, Value
from synth.reports.fidelity.distances import (
    PERCENTS,
    Associations,
    ScaleDistance,
    apart_codes,
    compare_scales,
    moved_text,
    ordered_places,
    quantiles,
    scale_unit,
    scale_values,
)
from synth.reports.fidelity.published import farthest_apart, farthest_scale, published_fidelity
from synth.reports.fidelity.subsample import owner_subsample
from synth.reports.figures import MAXIMUM_HEAT_MAP_SIDE, Bars, Cell, Figure, HeatMap, Series, Table
from synth.reports.panels import Cards, Folded, Option, Panel, Part, Pick, Words
from synth.reports.report import COLUMNS, OWNER_ONLY, OwnerRows, PaidAnswers, Report, Screen, Section, Shown
from synth.reports.wording import beside_anchors, short_text
from synth.schema import ModelledColumn, declared_part

__all__ = ["REPORT", "owner_fidelity"]

_MOST_LINES = 100
_MOST_PICTURES = 60
_WORST = 10
_RANGE = "fraction of the declared range"
_ANCHORS = ("synthetic", CONTROL, "floor")
_BESIDE = "Synthetic rows compared with the private rows."


def owner_fidelity(
    tables: Anchored,
    *,
    limit: int = 1000,
    on_step: OnStep = unwatched,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare distributions, missing cells and associations of synthetic and private rows.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    limit : int
        Most pairs of columns; a seeded sample is taken where there are more.
    on_step : callable, optional
        Called with (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        Where there are numbers or dates ``fidelity.ks``, ``.wasserstein``, ``.scales`` and ``.quantiles.<name>``;
        ``fidelity.apart`` and ``.apart_cells`` where cells may be missing or special; where there are two columns
        ``fidelity.associations``, ``.associations_independent``, ``.associations_floor``, ``.associations_worst`` and
        ``.associations_map``.
    """
    return (
        *_scales(tables),
        *_apart(tables),
        *_associations(tables, limit=limit, on_step=on_step),
    )


def _number(
    name: str, title: str, value: Value, unit: str, sentence: str, figures: tuple[Figure, ...] = ()
) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(
        id=f"fidelity.{name}",
        title=title,
        value=value,
        unit=unit,
        sentence=sentence,
        figures=figures,
    )


def _scales(tables: Anchored) -> list[OwnerOnlyEvidence]:
    columns = tables.schema.modelled
    compared: dict[int, tuple[ScaleDistance, ...]] = {}
    places = ordered_places(columns)
    for place in places:
        real, *others = (table[place] for table in tables.tables)
        found = [compare_scales(columns[place], real, other) for other in others]
        if found[0] is not None:
            # Where noise leaves an anchor without any value, it is as far away as possible.
            compared[place] = tuple(one or ScaleDistance(1.0, 1.0) for one in found)
    if not compared:
        return []
    some = "" if len(compared) == len(places) else f" {len(places) - len(compared)} more have no values to compare."
    over = f"Over rows that have a value; mean over {len(compared):,} number and date columns.{some}"
    ranked = sorted(compared, key=lambda place: -compared[place][0].ks)
    shown = ranked[:_MOST_LINES]
    rows: list[tuple[Cell, ...]] = [
        (
            columns[place].name,
            *(one.ks for one in compared[place]),
            *(one.wasserstein for one in compared[place]),
            moved_text(columns[place], compared[place][0].wasserstein),
        )
        for place in shown
    ]
    header = ("column", *(f"KS, {name}" for name in _ANCHORS), *(f"Wasserstein, {name}" for name in _ANCHORS))
    ks, control, floor = (fmean([compared[place][index].ks for place in compared]) for index in range(3))
    title = farthest_scale(columns[ranked[0]], compared[ranked[0]][0])
    judged = beside_anchors(ks, control=None, floor=floor)
    table = Table(title, (*header, "synthetic, in units"), tuple(rows), judged)
    moved = [fmean([compared[place][index].wasserstein for place in compared]) for index in range(3)]
    beside = f"Independent control: {control:.3g}; bootstrap of the private rows: {floor:.3g}."
    return [
        _number(
            "ks",
            "Kolmogorov-Smirnov distance",
            ks,
            f"share of {tables.schema.unit.counted}",
            f"The largest difference between the two cumulative distributions. {over} {beside}",
        ),
        _number(
            "wasserstein",
            "Wasserstein distance",
            moved[0],
            _RANGE,
            "How far a row has to be moved on average to turn one distribution into the other. "
            f"Independent control: {moved[1]:.3g}; bootstrap: {moved[2]:.3g}.",
        ),
        _number(
            "scales",
            "Column by column",
            None,
            "",
            "The Kolmogorov-Smirnov (KS) and the Wasserstein distance of each column.",
            (table,),
        ),
        *(_quantiles(columns[place], tables, place, compared[place]) for place in ranked[:_MOST_PICTURES]),
    ]


def _quantiles(
    column: ModelledColumn, tables: Anchored, place: int, distances: Sequence[ScaleDistance]
) -> OwnerOnlyEvidence:
    series = []
    for name, meaning, table in (
        ("synthetic rows", "synthetic", tables.synthetic),
        ("private rows", "real", tables.real),
    ):
        codes = quantiles(column, table[place])
        if codes is not None:
            series.append(Series(name, meaning, scale_values(column, codes)))  # type: ignore[arg-type]
    _, unit = scale_unit(column)
    unit = f"{unit} after the lowest date" if unit else "value"
    percents = tuple(f"{percent} %" for percent in PERCENTS)
    ours, _, floor = (one.ks for one in distances)
    title = f"{column.name}: cumulative shares differ by up to {short_text(100 * ours)} points"
    judged = beside_anchors(ours, control=None, floor=floor)
    figure = Bars(title, unit, percents, tuple(series), joined=True, subtitle=judged)
    return _number(
        f"quantiles.{column.name}",
        f"Quantiles of {column.name}",
        None,
        unit,
        "The value below which each share of the rows lies; where the lines coincide, the distributions agree.",
        (figure,),
    )


def _apart(tables: Anchored) -> list[OwnerOnlyEvidence]:
    lines: list[tuple[str, str, tuple[float, ...]]] = []
    for place, column in enumerate(tables.schema.modelled):
        for code, name in apart_codes(column):
            shares = tuple(float((table[place] == code).mean()) for table in tables.tables)
            lines.append((column.name, name, shares))
    if not lines:
        return []
    apart = [abs(shares[1] - shares[0]) for _, _, shares in lines]
    ranked = sorted(range(len(lines)), key=lambda which: -apart[which])[:_MOST_LINES]
    rows: list[tuple[Cell, ...]] = [(lines[which][0], lines[which][1], *lines[which][2]) for which in ranked]
    farthest, cell, (real, ours, *_) = lines[ranked[0]]
    of = tables.schema.unit.counted
    title = farthest_apart(farthest, cell, ours, real, of, beside="the private rows")
    floor = fmean([abs(shares[3] - shares[0]) for _, _, shares in lines])
    judged = beside_anchors(fmean(apart), control=None, floor=floor)
    return [
        _number(
            "apart",
            "Difference in missing cells and special values",
            fmean(apart),
            f"share of {of}",
            f"How much the share of {of} with a missing cell or a special value differs; mean over "
            f"{len(lines):,} such values.",
        ),
        _number(
            "apart_cells",
            "Missing cells and special values",
            None,
            "",
            _BESIDE,
            (Table(title, ("column", "cell", "private", *_ANCHORS), tuple(rows), judged),),
        ),
    ]


def _associations(tables: Anchored, *, limit: int, on_step: OnStep) -> list[OwnerOnlyEvidence]:
    names = tables.schema.names
    subsets = choose_subsets(len(names), 2, limit=limit, seed=tables.seed)
    pairs = [(left, right) for left, right in subsets.chosen]
    if not pairs:
        return []
    each = [Associations(table, tables.schema) for table in tables.tables]
    found = [one.of(pairs, on_step=_quarter(on_step, place)) for place, one in enumerate(each)]
    apart = [[abs(ours - real) for ours, real in zip(other, found[0], strict=True)] for other in found[1:]]
    ranked = sorted(range(len(pairs)), key=lambda place: -apart[0][place])
    rows: list[tuple[Cell, ...]] = [
        (" + ".join(names[place] for place in pairs[which]), *(one[which] for one in found))
        for which in ranked[:_WORST]
    ]
    farthest = f"{rows[0][0]}: the association differs by {apart[0][ranked[0]]:.2g}, the most of {len(pairs):,} pairs"
    ours, control, floor = map(fmean, apart)
    judged = beside_anchors(ours, control=control, floor=floor)
    worst = Table(farthest, ("columns", "private", *_ANCHORS), tuple(rows), judged)
    unit = "difference in association"
    shown = _shown([pairs[which] for which in ranked])
    return [
        _number(
            "associations",
            "Mean error of associations",
            ours,
            unit,
            "How much associations differ from those of the private rows: the correlation of two numbers or dates, the "
            f"correlation ratio of a number and a category, Cramer's V of two categories. {subsets.sentence}",
        ),
        _number("associations_independent", "Independent control", control, unit, "Unrelated columns."),
        _number("associations_floor", "Bootstrap", floor, unit, "A random resample of the private rows."),
        _number("associations_worst", "Where associations differ most", None, unit, _BESIDE, (worst,)),
        _number(
            "associations_map",
            "Which associations differ",
            None,
            unit,
            "Synthetic rows compared with the private rows.",
            (_heat_map(farthest, judged, shown, names, each),),
        ),
    ]


def _quarter(on_step: OnStep, place: int) -> OnStep:
    return lambda done, total: on_step(done + place * total, 4 * total)


def _shown(ranked: Sequence[tuple[int, int]]) -> list[int]:
    """Return the columns of the pairs that differ most, as many as fit on a heat map, in order."""
    shown: set[int] = set()
    for pair in ranked:
        if len(shown | set(pair)) <= MAXIMUM_HEAT_MAP_SIDE:
            shown |= set(pair)
    return sorted(shown)


def _heat_map(
    title: str, judged: str, shown: Sequence[int], names: Sequence[str], each: Sequence[Associations]
) -> HeatMap:
    pairs = [(left, right) for left in shown for right in shown if left < right]
    differences = [abs(ours - real) for real, ours in zip(each[0].of(pairs), each[1].of(pairs), strict=True)]
    found = dict(zip(pairs, differences, strict=True))
    values = tuple(
        tuple(None if left == right else found[min(left, right), max(left, right)] for right in shown) for left in shown
    )
    return HeatMap(title, "difference in association", tuple(names[place] for place in shown), values, judged)


# The report ---------------------------------------------------------------------------------------------------------


_SECTION = "fidelity"
_SCALES = ("fidelity.ks", "fidelity.wasserstein", "fidelity.apart", "fidelity.scales", "fidelity.apart_cells")
_QUANTILES = "fidelity.quantiles."
_SUBSAMPLES = "fidelity.subsample."
_ASSOCIATIONS = "fidelity.associations"


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    return published_fidelity(answers.fine, declared_part(answers.config.schema))


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    progress.phase("Comparing with sub-samples")
    subsample = owner_subsample(rows.tables, on_step=progress.step)
    progress.phase("Comparing distributions")
    return (*subsample, *owner_fidelity(rows.tables, on_step=progress.step))


# The screens --------------------------------------------------------------------------------------------------------


def _public_panels(shown: Shown) -> list[Panel]:
    entries = shown.public_of(_SECTION)
    return [Folded("Numbers, dates and missing cells", _distributions(entries, key="scales"))] if entries else []


def _exact_panels(shown: Shown) -> list[Panel]:
    entries = shown.exact_of(_SECTION)
    if not entries:
        return []
    return [
        *_subsamples(entries),
        Part("scales", "Distributions", _distributions(entries, key="owner-scales")),
        Part("associations", "Associations", _pairs(entries)),
    ]


def _subsamples(entries: Sequence[Evidence]) -> list[Panel]:
    """Show which random sub-sample is as accurate, and the distances behind it; folded."""
    found = [entry for entry in entries if entry.id.startswith(_SUBSAMPLES)]
    return [Folded("Which random sub-sample is as close?", [Cards(found, key="owner-subsamples")])] if found else []


def _distributions(entries: Sequence[Evidence], *, key: str) -> list[Panel]:
    """Show the distributions of numbers and dates, one picture at a time, and missing or special cells."""
    shown = [entry for entry in entries if entry.id in _SCALES]
    if not shown:
        return [Words("There are no numbers or dates to compare, and no cells that may be missing.")]
    drawn = {entry.id.removeprefix(_QUANTILES): entry for entry in entries if entry.id.startswith(_QUANTILES)}
    pictures = [
        Option(name, visible(name), [Cards([entry], key=f"{key}-quantiles-{name}")]) for name, entry in drawn.items()
    ]
    cards: list[Panel] = [Cards(shown, key=f"{key}-scales")]
    if not pictures:
        return cards
    return [*cards, Pick("Look at the quantiles of one column", f"{key}-quantiles", pictures)]


def _pairs(entries: Sequence[Evidence]) -> list[Panel]:
    """Show how strongly pairs of columns are associated, compared with the private rows."""
    shown = [entry for entry in entries if entry.id.startswith(_ASSOCIATIONS)]
    if not shown:
        return [Words("There are no pairs of columns to compare.")]
    return [Cards(shown, key="owner-pairs-associations")]


REPORT = Report(
    id="fidelity",
    title="Distributions and associations",
    sections={_SECTION: Section("Numbers, dates and missing cells")},
    public=_public,
    owner=_owner,
    screens=(Screen(COLUMNS, _public_panels), Screen(OWNER_ONLY, _exact_panels, exact=True)),
)
