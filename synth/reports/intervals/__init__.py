"""Numbers to quote: means, quantiles, shares and cross-tables of the synthetic rows, each with a 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.names import visible
from synth.reports.code_tables import bin_labels
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Cell, Table
from synth.reports.interval_estimates import (
    SummedTable,
    known_values,
    mean_interval,
    quantile_places,
    share_interval,
    summed_tables,
)
from synth.reports.measured import ComparedTable
from synth.reports.panels import Folded, Heading, Listing, Option, Panel, Pick, Words
from synth.reports.report import ACCURACY, PaidAnswers, Report, Screen, Section, Shown
from synth.schema import ModelledColumn, RunConfig

__all__ = ["REPORT", "EstimatedNumber", "column_numbers", "cross_table", "group_numbers"]

Codes = NDArray[np.int64]

_PARTS = {0.1: "10 % below", 0.25: "25 % below", 0.5: "median", 0.75: "75 % below", 0.9: "90 % below"}
_SHARE = "share "
_MOST_VALUES = 20
_MOST_COLUMNS = 100
_MOST_GROUPS = 12
_MOST_CELLS = 60
_MOST_TABLES = 20


@dataclass(frozen=True, slots=True)
class EstimatedNumber:
    """A number of the synthetic rows, and the interval for that of the population.

    Attributes
    ----------
    name : str
        What it is.
    synthetic : float
        Of the synthetic rows, in units of the column; for a share from 0 to 1. NaN where no row has a value.
    low, high : float
        Ends of the 95 % interval, from the noisy counts; NaN where noise leaves none.
    """

    name: str
    synthetic: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the number of the synthetic rows lies in the interval."""
        return self.low <= self.synthetic <= self.high


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """The bins of a column that hold known values, in the order of the values, with the lowest and highest of each.

    ``rank_of_code`` is the rank of a code's bin, or the number of bins where no value is known; shape (size,).
    """

    places: NDArray[np.intp]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rank_of_code: NDArray[np.intp]

    @classmethod
    def of(cls, values: NDArray[np.float64], bins: NDArray[np.int32]) -> _Bins | None:
        """Return them, given the value of every code; None if a bin holds both values and missing cells."""
        found = []
        for place in range(int(bins.max()) + 1):
            own = np.flatnonzero(bins == place)
            known = own[np.isfinite(values[own])]
            if 0 < len(known) < len(own):
                return None
            if len(known):
                found.append((float(values[known].min()), float(values[known].max()), place))
        found.sort()
        low, high, places = (np.array(own) for own in zip(*found, strict=True))
        rank_of_place = np.full(int(bins.max()) + 1, len(found))
        rank_of_place[places] = np.arange(len(found))
        return cls(places, low, high, rank_of_place[bins])

    def centres(self, values: NDArray[np.float64], made: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of the synthetic rows in every bin, or its middle where there are none; shape (bins,).

        ``made`` counts synthetic rows by code.
        """
        rows = np.where(np.isfinite(values), made, 0.0)
        own = np.bincount(self.rank_of_code, rows, len(self.low) + 1)[:-1]
        sums = np.bincount(self.rank_of_code, rows * np.nan_to_num(values), len(self.low) + 1)[:-1]
        return np.where(own > 0, sums / np.maximum(own, 1.0), (self.low + self.high) / 2)

    def mean_interval(
        self, counts: NDArray[np.float64], noise_std: NDArray[np.float64], centres: NDArray[np.float64], k: int
    ) -> tuple[float, float]:
        """Return the ends of the interval of a mean, within the values; the arrays are of shape (bins,)."""
        low, high = mean_interval(counts, noise_std, centres, self.high - self.low, rows_per_unit=k)
        return max(low, float(self.low.min())), min(high, float(self.high.max()))


def column_numbers(
    compared: Sequence[ComparedTable], column: ModelledColumn, codes: Codes, config: RunConfig
) -> list[EstimatedNumber]:
    """Return the numbers of one column, with their intervals.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables, in the bins in which they were measured.
    column : ModelledColumn
    codes : array of shape (synthetic rows,)
    config : RunConfig

    Returns
    -------
    list of EstimatedNumber
        The mean of a number; quantiles of ordered values, and the share of missing ones where they may be missing; for
        other columns the shares of the values that are most frequent. Empty if the column was not counted.

    Notes
    -----
    Of all measured tables that contain the column, with the other columns summed, the one with the shortest interval is
    used. A bin of several values is placed at the mean of the synthetic rows in it. Where in the bin the population's
    rows lie was not measured: their mean there is assumed to be anywhere between its ends, with variance
    (high - low)^2 / 12 for the share of rows in the bin. A quantile reaches to the ends of its bins.
    """
    tables = summed_tables(compared, column.name)
    if not tables:
        return []
    rows, k = compared[0].rows, config.schema.unit.rows_per_unit
    made = np.bincount(codes, minlength=column.size).astype(np.float64)

    def share(table: SummedTable, label: str, place: int) -> EstimatedNumber:
        mine = float(made[table.bins[0] == place].sum() / made.sum())
        ends = share_interval(float(table.counts[place]), float(table.noise[place]), rows, rows_per_unit=k)
        return EstimatedNumber(f"{_SHARE}{label}", mine, *ends)

    if column.levels:
        each = [list(_ordered(column, made, table, k)) for table in tables]
        found = [min(same, key=_width) for same in zip(*filter(None, each), strict=True)]
        bins = [(table, table.bins[0], table.bins[0][-1]) for table in tables]
        missing = [share(table, "missing", int(last)) for table, own, last in bins if (own == last).sum() == 1]
        return [*found, *([min(missing, key=_width)] if column.missing and missing else [])]
    best = tables[0]
    labels = bin_labels(column, best.bins[0])
    order = np.argsort(-np.bincount(best.bins[0], made), kind="stable")[:_MOST_VALUES]
    return [share(best, labels[place], place) for place in sorted(order.tolist())]


def _width(one: EstimatedNumber) -> float:
    return one.high - one.low if math.isfinite(one.low) else math.inf


def _ordered(
    column: ModelledColumn, made: NDArray[np.float64], table: SummedTable, k: int
) -> Iterator[EstimatedNumber]:
    values = known_values(column)
    known = _Bins.of(values, table.bins[0])
    rows = np.where(np.isfinite(values), made, 0.0)
    if known is None or not rows.sum():
        return
    counts, noise = table.counts[known.places], table.noise[known.places]
    if column.is_summable:
        low, high = known.mean_interval(counts, noise, known.centres(values, made), k)
        yield EstimatedNumber("mean", float((rows * np.nan_to_num(values)).sum() / rows.sum()), low, high)
    by_value = np.argsort(values, kind="stable")
    by_value = by_value[np.isfinite(values[by_value])]
    below = np.cumsum(rows[by_value]) / rows.sum()
    ends = quantile_places(counts, noise, list(_PARTS), rows_per_unit=k)
    for (part, name), places in zip(_PARTS.items(), ends, strict=True):
        mine = float(values[by_value[np.searchsorted(below, part - 1e-12)]])
        low, high = (math.nan, math.nan) if places is None else (known.low[places[0]], known.high[places[1]])
        yield EstimatedNumber(name, mine, float(low), float(high))


def group_numbers(
    compared: Sequence[ComparedTable], column: ModelledColumn, group: ModelledColumn, codes: Codes, config: RunConfig
) -> list[EstimatedNumber]:
    """Return the mean, or the share of yes, of a column within the largest groups.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables.
    column, group : ModelledColumn
    codes : array of shape (synthetic rows, 2)
        Of the column and of the group.
    config : RunConfig

    Returns
    -------
    list of EstimatedNumber
        Empty if the two were not counted together. Bins are treated as in :func:`column_numbers`.
    """
    table = next(iter(summed_tables(compared, group.name, column.name)), None)
    if table is None:
        return []
    values = known_values(column)
    known = _Bins.of(values, table.bins[1])
    if known is None:
        return []
    centre = known.centres(values, np.bincount(codes[:, 0], minlength=column.size).astype(np.float64))
    cells, group_of = values[codes[:, 0]], table.bins[0][codes[:, 1]]
    labels = bin_labels(group, table.bins[0])
    order = np.argsort(-table.counts.sum(axis=1), kind="stable")[:_MOST_GROUPS]
    found = []
    for place in sorted(order.tolist()):
        counts, noise = table.counts[place, known.places], table.noise[place, known.places]
        ends = known.mean_interval(counts, noise, centre, config.schema.unit.rows_per_unit)
        mine = cells[(group_of == place) & np.isfinite(cells)]
        found.append(EstimatedNumber(labels[place], float(mine.mean()) if len(mine) else math.nan, *ends))
    return found


def cross_table(one: ComparedTable, columns: Sequence[ModelledColumn], config: RunConfig) -> list[EstimatedNumber]:
    """Return the share of all rows in every cell of a measured table of two columns."""
    first, second = (bin_labels(column, bins) for column, bins in zip(columns, one.bins, strict=True))
    k = config.schema.unit.rows_per_unit
    made = one.synthetic / max(float(one.synthetic.sum()), 1e-300)
    found = []
    for left, right in np.ndindex(one.measured.shape):
        count, noise = float(one.measured[left, right]), float(one.noise_std[left, right])
        ends = share_interval(count, noise, one.rows, rows_per_unit=k)
        found.append(EstimatedNumber(f"{first[left]}, {second[right]}", float(made[left, right]), *ends))
    return found


# The report ---------------------------------------------------------------------------------------------------------


_SECTION = "intervals"
_HEADER = ("synthetic rows", "95 % from", "to")
_SORTS = ("column", "groups", "pair")


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    config, schema = answers.config, answers.config.schema
    if config.is_model or answers.rows is None:
        return ()
    codes = dict(zip(schema.names, (np.asarray(own, dtype=np.int64) for own in answers.codes), strict=True))
    found: list[SafeEvidence] = []
    for column in schema.modelled[:_MOST_COLUMNS]:
        numbers = column_numbers(answers.fine, column, codes[column.name], config)
        found += _evidence("column", column.name, column.name, numbers, column)
    for group in map(schema.modelled_column, config.groups):
        others = (own for own in schema.modelled if own is not group and (own.is_summable or own.kind == "yes_no"))
        for column in others:
            rows = np.column_stack([codes[column.name], codes[group.name]])
            numbers = group_numbers(answers.fine, column, group, rows, config)
            what = "mean" if column.levels else "share of"
            found += _evidence("groups", f"{what} {column.name} by {group.name}", group.name, numbers, column)
    first = [config.label, *config.groups]
    pairs = [one for one in answers.coarse if len(one.columns) == 2 and one.measured.size <= _MOST_CELLS]
    pairs.sort(key=lambda one: not set(one.columns) & set(first))
    for one in pairs[:_MOST_TABLES]:
        numbers = cross_table(one, [schema.modelled_column(name) for name in one.columns], config)
        found += _evidence("pair", " and ".join(one.columns), ", ".join(one.columns), numbers, None)
    return found


def _evidence(
    sort: str, name: str, heading: str, numbers: Sequence[EstimatedNumber], column: ModelledColumn | None
) -> Iterator[SafeEvidence]:
    if not numbers:
        return
    inside = sum(one.inside for one in numbers)
    told = sum(math.isfinite(one.low) for one in numbers)
    title = f"{name}: {inside:,} of {told:,} synthetic numbers lie within their intervals"
    rows = tuple((one.name, *_cells(one, column)) for one in numbers)
    yield SafeEvidence(
        id=f"{_SECTION}.{sort}.{name}",
        title=visible(name),
        value=inside,
        unit=f"of {told} within their intervals",
        figures=(Table(title, (heading, *_HEADER), rows),),
    )


def _cells(one: EstimatedNumber, column: ModelledColumn | None) -> list[Cell]:
    """Return a number and its ends with as many digits as the interval justifies; dates and times as text."""
    values = [one.synthetic, one.low, one.high]
    if column is not None and column.levels and not column.is_summable:
        if one.name.startswith(_SHARE):
            return [f"{value:.3g}" for value in values]
        own = {value: code for code, value in enumerate(column.comparable_values().tolist())}
        return [column.texts([own[value]])[0] if value in own else None for value in values]
    if one.high > one.low:
        digits = 2 - math.floor(math.log10(one.high - one.low))
        # Rounded outwards, so that no interval is shorter in print.
        unit = 10.0**-digits
        ends = [math.floor(one.low / unit + 1e-9) * unit, math.ceil(one.high / unit - 1e-9) * unit]
        values = [round(value, max(digits, 0)) for value in [one.synthetic, *ends]]
    return [value if math.isfinite(value) else None for value in values]


# The screen ---------------------------------------------------------------------------------------------------------


_SENTENCE = (
    "The private rows are a sample of a population. With 95 % confidence the population's number lies between these "
    "ends, which are computed from the noisy counts and allow for both noise and sampling. If the synthetic number "
    "lies outside, quote the interval."
)
_MORE = "For other numbers, see the Estimates tab."


def _panels(shown: Shown) -> list[Panel]:
    by_sort: dict[str, list[Option]] = {sort: [] for sort in _SORTS}
    for entry in shown.public_of(_SECTION):
        _, sort, name = entry.id.split(".", 2)
        tables = [figure for figure in entry.figures if isinstance(figure, Table)]
        listed = [Listing(table, f"{_SECTION}-{sort}-{name}") for table in tables]
        by_sort[sort].append(Option(name, visible(name), listed))
    if not by_sort["column"]:
        return []
    words = _SENTENCE
    if shown.config.schema.unit.rows_per_unit > 1:
        words += " Rows of one unit are assumed to be alike."
    panels: list[Panel] = [Heading("Numbers to quote"), Words(words, "note")]
    panels.append(Pick("Look at one column", f"{_SECTION}-column", by_sort["column"]))
    for sort, title in (("groups", "Inside groups"), ("pair", "Two columns together")):
        if by_sort[sort]:
            panels.append(Folded(title, [Pick("Look at one table", f"{_SECTION}-{sort}", by_sort[sort])]))
    return [*panels, Words(_MORE, "note")]


REPORT = Report(
    id="intervals",
    title="Numbers to quote",
    sections={_SECTION: Section("Numbers to quote")},
    public=_public,
    screens=(Screen(ACCURACY, _panels, place=1),),
)
