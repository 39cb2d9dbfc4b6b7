"""Fidelity beyond tables of counts, against the private rows: exact, and for the owner's eyes only.

Numbers and dates as distributions, missing cells, and how pairs of columns belong together. Beside each number stand
the independent control and the floor, a bootstrap of the private rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from synth.reports.anchors import Anchored
from synth.reports.associations import Associations
from synth.reports.charts import MAXIMUM_HEAT_MAP_SIDE, Bars, Cell, Figure, HeatMap, Series, Table
from synth.reports.distributions import (
    PERCENTS,
    ScaleDistance,
    apart_codes,
    compare_scales,
    moved_text,
    ordered_places,
    quantiles,
    scale_unit,
    scale_values,
)
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence, Value
from synth.reports.subsets import choose_subsets
from synth.schema import ModelledColumn, Schema

__all__ = ["owner_fidelity"]

_MOST_LINES = 100
_MOST_PICTURES = 60
_WORST = 10
_RANGE = "part of the declared range"
_ANCHORS = ("synthetic", "independent", "floor")


def owner_fidelity(
    tables: Anchored,
    *,
    limit: int = 1000,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare distributions, missing cells and associations of synthetic and private rows.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    limit : int
        Most pairs of columns; a seeded sample is taken where there are more.
    on_step : callable, optional
        Told (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        Where there are numbers or dates ``fidelity.ks``, ``.wasserstein``, ``.scales`` and ``.quantiles.<name>``;
        ``fidelity.apart`` and ``.apart_cells`` where cells may be missing or special; where there are two columns
        ``fidelity.associations``, ``.associations_independent``, ``.associations_floor``, ``.associations_worst`` and
        ``.associations_map``.
    """
    return (
        *_scales(tables, tables.schema),
        *_apart(tables, tables.schema),
        *_associations(tables, tables.schema, limit=limit, seed=tables.seed, on_step=on_step),
    )


def _number(
    name: str, title: str, value: Value, unit: str, sentence: str, figures: tuple[Figure, ...] = ()
) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(
        id=f"fidelity.{name}",
        title=title,
        value=value,
        unit=unit,
        sentence=f"{sentence} {OWNER_ONLY_SENTENCE}",
        figures=figures,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _scales(tables: Anchored, schema: Schema) -> list[OwnerOnlyEvidence]:
    columns = schema.modelled
    compared: dict[int, tuple[ScaleDistance, ...]] = {}
    places = ordered_places(columns)
    for place in places:
        real, *others = (table[place] for table in tables.tables)
        found = [compare_scales(columns[place], real, other) for other in others]
        if found[0] is not None:
            # Where noise leaves an anchor without any value, it says as little as can be.
            compared[place] = tuple(one or ScaleDistance(1.0, 1.0) for one in found)
    if not compared:
        return []
    some = "" if len(compared) == len(places) else f" {len(places) - len(compared)} more have no value to compare."
    over = f"Over {len(compared):,} numbers and dates, rows with a value alone.{some}"
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
    header = ("column", *(f"KS, {name}" for name in _ANCHORS), *(f"moved, {name}" for name in _ANCHORS))
    title = "Numbers and dates as distributions"
    title += "" if len(shown) == len(ranked) else f": the {len(shown)} that differ most"
    table = Table(title, (*header, "in units"), tuple(rows))
    ks, control, floor = (_mean([compared[place][index].ks for place in compared]) for index in range(3))
    moved = [_mean([compared[place][index].wasserstein for place in compared]) for index in range(3)]
    beside = f"The independent control: {control:.3g}; a bootstrap of the private rows: {floor:.3g}."
    return [
        _number(
            "ks",
            "Kolmogorov-Smirnov distance",
            ks,
            "share of rows",
            f"The largest difference between shares of rows up to a value, mean over columns. {over} {beside}",
        ),
        _number(
            "wasserstein",
            "Wasserstein distance",
            moved[0],
            _RANGE,
            "How far a row has to be moved on average, mean over columns. "
            f"The independent control: {moved[1]:.3g}; a bootstrap: {moved[2]:.3g}.",
        ),
        _number(
            "scales",
            "Column by column",
            None,
            "",
            "KS is the Kolmogorov-Smirnov distance; moved is the Wasserstein distance, in parts of the declared range "
            "and, for the synthetic rows, in units.",
            (table,),
        ),
        *(_quantiles(columns[place], tables, place) for place in ranked[:_MOST_PICTURES]),
    ]


def _quantiles(column: ModelledColumn, tables: Anchored, place: int) -> OwnerOnlyEvidence:
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
    figure = Bars(f"{column.name}: the value that a part of the rows stays below", unit, percents, tuple(series), True)
    return _number(
        f"quantiles.{column.name}",
        f"Quantiles of {column.name}",
        None,
        unit,
        "Where the lines lie on each other, the distributions agree.",
        (figure,),
    )


def _apart(tables: Anchored, schema: Schema) -> list[OwnerOnlyEvidence]:
    lines: list[tuple[str, str, tuple[float, ...]]] = []
    for place, column in enumerate(schema.modelled):
        for code, name in apart_codes(column):
            shares = tuple(float((table[place] == code).mean()) for table in tables.tables)
            lines.append((column.name, name, shares))
    if not lines:
        return []
    apart = [abs(shares[1] - shares[0]) for _, _, shares in lines]
    ranked = sorted(range(len(lines)), key=lambda which: -apart[which])[:_MOST_LINES]
    rows: list[tuple[Cell, ...]] = [(lines[which][0], lines[which][1], *lines[which][2]) for which in ranked]
    title = "Share of rows that are missing or special, by column"
    title += "" if len(ranked) == len(lines) else f": the {len(ranked)} that differ most"
    return [
        _number(
            "apart",
            "Difference of missing cells and special values",
            _mean(apart),
            "share of rows",
            f"How often a cell is missing or has a special value, by how much that differs. Mean over {len(lines):,}.",
        ),
        _number(
            "apart_cells",
            "Missing cells and special values",
            None,
            "",
            "Synthetic beside private rows.",
            (Table(title, ("column", "cell", "private", *_ANCHORS), tuple(rows)),),
        ),
    ]


def _associations(
    tables: Anchored, schema: Schema, *, limit: int, seed: int, on_step: Callable[[int, int], None] | None
) -> list[OwnerOnlyEvidence]:
    subsets = choose_subsets(len(schema.names), 2, limit=limit, seed=seed)
    pairs = [(left, right) for left, right in subsets.chosen]
    if not pairs:
        return []
    each = [Associations(table, schema) for table in tables.tables]
    found = [
        one.of(pairs, on_step=None if on_step is None else _part(on_step, place)) for place, one in enumerate(each)
    ]
    apart = [[abs(ours - real) for ours, real in zip(other, found[0], strict=True)] for other in found[1:]]
    names = schema.names
    ranked = sorted(range(len(pairs)), key=lambda place: -apart[0][place])
    rows: list[tuple[Cell, ...]] = [
        (" + ".join(names[place] for place in pairs[which]), *(one[which] for one in found))
        for which in ranked[:_WORST]
    ]
    worst = Table(f"The {len(rows)} pairs that differ most", ("columns", "private", *_ANCHORS), tuple(rows))
    unit = "difference of association"
    shown = _shown([pairs[which] for which in ranked])
    return [
        _number(
            "associations",
            "Mean error of associations",
            _mean(apart[0]),
            unit,
            "Correlation of two numbers or dates, correlation ratio of a number and a category, Cramer's V of two "
            f"categories; by how much they differ from the private rows. {subsets.sentence}",
        ),
        _number("associations_independent", "For the independent control", _mean(apart[1]), unit, "Unrelated columns."),
        _number("associations_floor", "For a bootstrap", _mean(apart[2]), unit, "Another draw of the same rows."),
        _number("associations_worst", "Where they differ most", None, unit, "Synthetic beside private rows.", (worst,)),
        _number(
            "associations_map",
            "Which associations differ",
            None,
            unit,
            "Synthetic against private rows.",
            (_heat_map(shown, names, each),),
        ),
    ]


def _part(on_step: Callable[[int, int], None], place: int) -> Callable[[int, int], None]:
    return lambda done, total: on_step(done + place * total, 4 * total)


def _shown(ranked: Sequence[tuple[int, int]]) -> list[int]:
    """Return the columns of the pairs that differ most, as many as a heat map holds, in order."""
    shown: set[int] = set()
    for pair in ranked:
        if len(shown | set(pair)) <= MAXIMUM_HEAT_MAP_SIDE:
            shown |= set(pair)
    return sorted(shown)


def _heat_map(shown: Sequence[int], names: Sequence[str], each: Sequence[Associations]) -> HeatMap:
    pairs = [(left, right) for left in shown for right in shown if left < right]
    differences = [abs(ours - real) for real, ours in zip(each[0].of(pairs), each[1].of(pairs), strict=True)]
    found = dict(zip(pairs, differences, strict=True))
    values = tuple(
        tuple(None if left == right else found[min(left, right), max(left, right)] for right in shown) for left in shown
    )
    return HeatMap(
        "How much associations differ", "difference of association", tuple(names[place] for place in shown), values
    )
