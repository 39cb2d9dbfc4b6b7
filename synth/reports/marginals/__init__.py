"""Marginals: how far the joint counts of one to four columns are from those of the private rows, exact or noisy.

Every exact distance is shown beside two others over the same sets of columns: the independent control, drawn from
one-way tables with as much noise as this run's budget buys, and the floor, a bootstrap of the private rows of the same
size. A table below the floor would be closer to the rows than a fresh sample of the same people.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.generators import CONTROL
from synth.names import visible
from synth.progress import OnStep, Progress, unwatched
from synth.reports.code_tables import ALPHAS, AlphaWay, MarginalComparison, bin_labels, compare_marginals, sets_of
from synth.reports.controls import Anchored
from synth.reports.evidence import Evidence, OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import MAXIMUM_HEAT_MAP_SIDE, MAXIMUM_POINTS, Bars, Figure, HeatMap, Series, Table
from synth.reports.measured import BAR, ComparedTable, within
from synth.reports.panels import Badge, Cards, Choice, Folded, Heading, Listing, Option, Panel, Part, Pick, Words
from synth.reports.report import COLUMNS, OWNER_ONLY, OwnerRows, PaidAnswers, Report, Screen, Section, Shown
from synth.reports.wording import beside_anchors, beyond_noise, closeness_words, in_hundred, who_counts
from synth.schema import ModelledColumn, Schema, declared_part

__all__ = ["REPORT", "owner_marginals", "pair_map", "published_marginals"]

_WORST = 10
_UNIT = "total variation"
_PICTURES = 60


def published_marginals(
    fine: Sequence[ComparedTable], coarse: Sequence[ComparedTable], schema: Schema
) -> tuple[SafeEvidence, ...]:
    """Compare synthetic rows with the paid noisy counts.

    Parameters
    ----------
    fine, coarse : sequence of ComparedTable
        Measured tables beside synthetic rows, in measured bins and in at most 32 public bins; those of other columns
        are left out.
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
    fine, coarse = (within(tables, schema.names) for tables in (fine, coarse))
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
    sets = sets_of(alpha)
    sentence = f"{measured:,} of {of:,} {sets} were measured with noise."
    found = [
        SafeEvidence(id=f"marginals.{alpha}.{name}", title=title, value=value, unit=sets, sentence=sentence)
        for name, title, value in (("evaluated", "Measured", measured), ("of", "In all", of))
    ]
    if not measured:
        sentence = f"No {sets} were measured, so nothing can be published about them without spending more budget."
        title = f"Mean distance over {sets}"
        found.append(SafeEvidence(id=f"marginals.{alpha}.mean", title=title, value=None, unit=_UNIT, sentence=sentence))
    return found


def _summary(alpha: int, compared: Sequence[ComparedTable], prefix: str, of: int) -> list[SafeEvidence]:
    sets = sets_of(alpha)
    bins = "Numbers and dates in at most 32 public bins." if prefix else "One bin for each measured count."
    worst = sorted(compared, key=lambda one: -one.distance)[:_WORST]
    rows = tuple(
        (one.words, one.distance, one.error, one.control_distance, min(one.expected_noise, 1.0)) for one in worst
    )
    header = ("columns", "synthetic", "error", CONTROL, "noise")
    table = Table(_farthest(worst[0], len(compared), sets), header, rows, _beyond_noise(compared))

    def number(name: str, title: str, value: float, sentence: str, error: float | None = None) -> SafeEvidence:
        figures = (table,) if name == "worst" else ()
        identity = f"marginals.{alpha}.{prefix}{name}"
        return SafeEvidence(
            id=identity, title=title, value=value, error=error, unit=_UNIT, sentence=sentence, figures=figures
        )

    mean, error, control = (
        fmean([getattr(one, name) for one in compared]) for name in ("distance", "error", "control_distance")
    )
    noise = fmean([min(one.expected_noise, 1.0) for one in compared])
    some = "" if len(compared) == of else f" Mean over the {len(compared):,} of {of:,} {sets} that were measured."
    return [
        number("mean", f"Mean distance over {sets}", mean, f"{bins}{some}", error),
        number(CONTROL, "Independent control", control, "Unrelated columns, drawn from these noisy counts."),
        number("noise", "Distance due to noise alone", noise, "A smaller distance cannot be told from zero."),
        number("worst", f"Largest distance among {sets}", worst[0].distance, bins, worst[0].error),
    ]


def _farthest(one: ComparedTable, of: int, sets: str) -> str:
    return f"{one.words}: {in_hundred(one.distance, one.counted)} out of place, the largest of {of:,} {sets}"


def _beyond_noise(compared: Sequence[ComparedTable]) -> str:
    clear = sum(one.distance > one.error for one in compared)
    return beyond_noise(clear, len(compared), noise=max(one.error for one in compared))


def _column(one: ComparedTable, column: ModelledColumn, *, picture: bool) -> SafeEvidence:
    labels = bin_labels(column, one.bins[0])
    figures: tuple[Figure, ...] = ()
    if picture and len(labels) <= MAXIMUM_POINTS:
        measured = Series("noisy counts", "measured", _floats(one.measured), _floats(BAR * one.noise_std))
        made = Series("synthetic rows", "synthetic", _floats(one.synthetic))
        title = f"{column.name}: {in_hundred(one.distance, one.counted)} out of place"
        figures = (Bars(title, one.counted, labels, (made, measured), subtitle=_beyond_noise([one])),)
    return SafeEvidence(
        id=f"columns.{column.name}.distance",
        title=f"Column {column.name}",
        value=one.distance,
        error=one.error,
        unit=_UNIT,
        figures=figures,
    )


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(values.tolist())


# Against the private rows -------------------------------------------------------------------------------------------


def owner_marginals(
    tables: Anchored,
    *,
    limit: int = 1000,
    on_step: OnStep = unwatched,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare synthetic with private rows.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    limit : int
        Most sets of columns for each alpha; a seeded sample is taken where there are more.
    on_step : callable, optional
        Called with (done, total); may raise to stop.

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
        for alpha, way in comparison.by_alpha.items():
            found += _of_alpha(alpha, way, prefix, tables.schema.unit.counted)
        if not prefix and len(tables.schema.names) > 1:
            found.append(_map(comparison, tables.schema.unit.counted))
    return tuple(found)


def _half(on_step: OnStep, place: int) -> OnStep:
    return lambda done, total: on_step(done + place * total, 2 * total)


def _of_alpha(alpha: int, way: AlphaWay, prefix: str, counted: str) -> list[OwnerOnlyEvidence]:
    bins = "Numbers and dates in at most 32 public bins." if prefix else "One bin for each declared value."
    sets = sets_of(alpha)
    mean, control, floor = way.means
    largest = float(way.distances[:, 0].max()) if len(way.distances) else None
    rows, title, judged = way.worst, f"No {sets} to compare", ""
    if largest is not None and control is not None and floor is not None:
        title = (
            f"{rows[0][0]}: {in_hundred(largest, counted)} out of place, the largest of {len(way.distances):,} {sets}"
        )
        judged = beside_anchors(mean or 0.0, control=None if alpha == 1 else control, floor=floor)
    worst = Table(title, ("columns", "synthetic", CONTROL, "floor"), tuple(rows), judged)

    def number(name: str, title: str, value: float | int | None, sentence: str, unit: str = _UNIT) -> OwnerOnlyEvidence:
        return OwnerOnlyEvidence(
            id=f"marginals.{alpha}.{prefix}{name}",
            title=title,
            value=value,
            unit=unit,
            sentence=sentence,
            figures=(worst,) if name == "worst" else (),
        )

    coverage = way.subsets.sentence
    found = [
        number(
            "mean", f"Mean distance over {sets}", mean, f"Synthetic rows compared with private rows. {bins} {coverage}"
        ),
        number(CONTROL, "Independent control", control, "Unrelated columns with this run's noise."),
        number("floor", "Bootstrap of the private rows", floor, "A random resample of the private rows."),
        number("worst", f"Largest distance among {sets}", largest, bins),
    ]
    if not prefix:
        found.append(number("evaluated", f"{sets.capitalize()} compared", len(way.distances), coverage, sets))
        found.append(number("of", f"{sets.capitalize()} in all", way.subsets.of, coverage, sets))
    return found


def _map(comparison: MarginalComparison, counted: str) -> OwnerOnlyEvidence:
    mean, control, floor = (value or 0.0 for value in comparison.by_alpha[2].means)
    title = f"On average a pair has {in_hundred(mean, counted)} out of place; the diagonal shows each column by itself"
    return OwnerOnlyEvidence(
        id="marginals.2.map",
        title="Which pairs differ",
        value=None,
        unit=_UNIT,
        sentence="Synthetic rows compared with the private rows.",
        figures=(comparison.pairs(title, beside_anchors(mean, control=control, floor=floor)),),
    )


# Pairs as pictures --------------------------------------------------------------------------------------------------


_MOST_BARS = 30


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
    sentence = f"{unclear:,} of {len(pairs):,} pairs lie within the 95 % range of the privacy noise."
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
    """Draw a square over the columns of the worst pairs; two columns are a single bar and need none."""
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
    mean = fmean([pair.distance for pair in pairs])
    apart = in_hundred(mean, pairs[0].counted)
    title = f"On average a measured pair has {apart} out of place; the diagonal shows each column by itself"
    return (HeatMap(title, _UNIT, names, values, _beyond_noise(pairs)),)


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
        Series("noise alone", "floor", tuple(min(one.expected_noise, 1.0) for one in drawn)),
    )
    nearer = sum(one.distance < one.control_distance for one in drawn)
    of = f"{len(drawn):,}" if len(drawn) == len(pairs) else f"the {len(drawn):,} that differ most"
    return Bars(
        _farthest(pairs[0], len(pairs), "measured pairs"),
        _UNIT,
        tuple(one.words for one in drawn),
        series,
        subtitle=f"{nearer:,} of {of} are closer than unrelated columns.",
    )


# The report ---------------------------------------------------------------------------------------------------------


_SECTION, _SINGLE = "marginals", "columns"
_DISTANCE = ".distance"
_ALPHAS = ("1", "2", "3", "4")
_WAYS = {"1": "single", "2": "pairs", "3": "three", "4": "four"}
_GRAINS = {"coarse_": "at most 32 bins per column", "": "every declared value"}
_COMPARED = "Synthetic rows compared with the noisy counts that were paid for; ± is the 95 % range of their noise."
_TOGETHER = (
    "How many columns are compared in one table. More columns show more of how they depend on each other, and more "
    "noise."
)
_GRAIN = (
    "Whether numbers and dates are compared in a few wide bins, or value by value, where chance alone makes a "
    "difference."
)
_MOVED = "share of rows to move (total variation)"
_RANGE = "± range of the privacy noise (95 %)"


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    if answers.rows is None:
        return ()
    return published_marginals(answers.fine, answers.coarse, declared_part(answers.config.schema))


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    progress.phase("Comparing sets of columns")
    return owner_marginals(rows.tables, on_step=progress.step)


def _by_columns(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Group the numbers by how many columns are compared, with the worst sets as rows."""
    marginals: dict[str, dict[str, Any]] = {alpha: {} for alpha in _ALPHAS}
    for entry in evidence:
        section, _, rest = entry.id.partition(".")
        alpha, _, name = rest.partition(".")
        if section == _SECTION and alpha in marginals and name and "." not in name:
            tables = [figure for figure in entry.figures if isinstance(figure, Table)]
            worst = tables[0] if tables and name.endswith("worst") else None
            marginals[alpha][name] = entry.value if worst is None else _rows(worst)
    return marginals


def _rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


# The screens --------------------------------------------------------------------------------------------------------


def _public_panels(shown: Shown) -> list[Panel]:
    singles = [entry for entry in shown.public_of(_SINGLE) if entry.id.endswith(_DISTANCE)]
    return [
        Words(
            " ".join(filter(None, (_COMPARED, who_counts(shown.config.schema)))),
            "note",
        ),
        Heading("Single columns"),
        *_each_column(singles),
        *_together(shown.public_of(_SECTION), key="ways"),
    ]


def _exact_panels(shown: Shown) -> list[Panel]:
    return [Part("sets", "Sets of columns", _together(shown.exact_of(_SECTION), key="owner-ways"))]


def _each_column(entries: Sequence[Evidence]) -> list[Panel]:
    """List the distances of all columns, the largest first, and show one of them."""
    if not entries:
        return [Words("No single column was measured in this run, so none can be compared in public.")]
    names = [entry.id.removeprefix(f"{_SINGLE}.").removesuffix(_DISTANCE) for entry in entries]
    ordered = sorted(zip(names, entries, strict=True), key=lambda pair: -_value(pair[1]))
    table = Table(
        "Distance of every column",
        ("column", _MOVED, _RANGE),
        tuple((name, _value(entry), entry.error) for name, entry in ordered),
    )
    options = [Option(name, visible(name), [Cards([entry], key=f"column-{name}")]) for name, entry in ordered]
    return [
        Badge(entries[0].kind),
        Pick("Look at one column; the first differs most", "look-at-column", options),
        Folded("Distance of every column", [Listing(table, "column-distances", {_MOVED: "%.3f", _RANGE: "%.3f"})]),
    ]


def _together(entries: Sequence[Evidence], *, key: str) -> list[Panel]:
    """Show the distances over a chosen number of columns, beside the independent control and the floor."""
    if not entries:
        return [Words("No columns were compared together.")]
    ways = sorted({entry.id.split(".")[1] for entry in entries})
    options = [Option(way, _WAYS[way], [_grains(entries, way, key=key)]) for way in ways]
    return [Choice("Columns together", f"{key}-alpha", options, _TOGETHER)]


def _grains(entries: Sequence[Evidence], way: str, *, key: str) -> Choice:
    of_way = {entry.id.split(".", 2)[2]: entry for entry in entries if entry.id.split(".")[1] == way}
    options = []
    for grain, words in _GRAINS.items():
        if not any(name.startswith("coarse_") == bool(grain) for name in of_way):
            continue
        shown = {
            name.removeprefix("coarse_"): entry
            for name, entry in of_way.items()
            if name.startswith("coarse_") == bool(grain) or name == "map"
        }
        compared = shown.pop("evaluated", None)
        shown.pop("of", None)
        panel: Panel = Cards(list(shown.values()), key=f"{key}-{way}-{grain}")
        if all(entry.value is None and name != "map" for name, entry in shown.items()):
            panel = Words("Nothing was compared." if compared is None else compared.sentence)
        options.append(Option(grain, words, [*_verdict(shown, int(way)), panel]))
    return Choice("Values", f"{key}-grain", options, _GRAIN)


def _verdict(shown: Mapping[str, Evidence], alpha: int) -> list[Panel]:
    """Say whether the distance is good, if the effect of noise alone is known; single columns have no relations."""
    if alpha == 1 or any(name not in shown or shown[name].value is None for name in ("mean", "noise", CONTROL)):
        return []
    ours, noise, control = (_value(shown[name]) for name in ("mean", "noise", CONTROL))
    words = closeness_words(ours, shown["mean"].error or 0.0, noise=noise, control=control)
    return [Words(f"**{words}**", "paragraph")]


def _value(entry: Evidence) -> float:
    return float(entry.value) if isinstance(entry.value, int | float) else 0.0


REPORT = Report(
    id="marginals",
    title="Sets of columns",
    sections={_SECTION: Section("Sets of columns"), _SINGLE: Section("Single columns")},
    public=_public,
    owner=_owner,
    summary=_by_columns,
    screens=(Screen(COLUMNS, _public_panels), Screen(OWNER_ONLY, _exact_panels, exact=True)),
    compared=("marginals.2.mean", "marginals.1.mean"),
    spoken=re.compile(r"marginals\.[123]\.coarse_(mean|control)"),
)
