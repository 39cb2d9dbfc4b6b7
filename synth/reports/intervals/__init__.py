"""Numbers to quote: means, quantiles, shares and cross-tables of the synthetic rows, each with a 95 % interval."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.names import visible
from synth.privacy.bins import Bins
from synth.reports.code_tables import bin_labels
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Cell, Table
from synth.reports.interval_estimates import (
    SummedNumber,
    SummedTable,
    known_values,
    mean_interval,
    quantile_places,
    quotable,
    share_interval,
    summed_numbers,
    summed_tables,
    values_of_pieces,
)
from synth.reports.measured import ComparedTable, within
from synth.reports.panels import Folded, Heading, Listing, Option, Panel, Pick, Words
from synth.reports.report import ACCURACY, PaidAnswers, Report, Screen, Section, Shown
from synth.reports.wording import who_counts
from synth.schema import ModelledColumn, RunConfig, asked_schema, column_title

__all__ = ["REPORT", "EstimatedNumber", "column_numbers", "cross_table", "group_numbers"]

Codes = NDArray[np.int64]

_PARTS = {0.1: "10 % below", 0.25: "25 % below", 0.5: "median", 0.75: "75 % below", 0.9: "90 % below"}
_SHARE = "share "
_MEAN, _TOTAL = "mean", "total of the private rows"
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
class _KnownBins:
    """The bins of a column that hold known values, in the order of the values, with the lowest and highest of each.

    ``bins`` are all of them; ``rank`` is the rank of each of these, or the number of bins with known values where it
    has none.
    """

    bins: Bins
    places: NDArray[np.intp]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rank: NDArray[np.intp]

    @classmethod
    def of(cls, column: ModelledColumn, bins: Bins) -> _KnownBins | None:
        """Return them; None if a bin holds both values and missing cells, or none holds a value."""
        low, high = np.full(bins.count, math.inf), np.full(bins.count, -math.inf)
        known = np.zeros(bins.count)
        for lowest, highest, codes, (own,) in values_of_pieces(column, bins):
            told = np.isfinite(lowest)
            np.minimum.at(low, own[told], lowest[told])
            np.maximum.at(high, own[told], highest[told])
            known += np.bincount(own[told], codes[told], bins.count)
        places = np.flatnonzero(known)
        if not len(places) or (known[places] < bins.widths[places]).any():
            return None
        places = places[np.lexsort((places, high[places], low[places]))]
        rank = np.full(bins.count, len(places))
        rank[places] = np.arange(len(places))
        return cls(bins, places, low[places], high[places], rank)

    def centres(
        self, codes: Codes, values: NDArray[np.float64], rows: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the mean of the synthetic rows in every bin, or its middle where there are none; shape (bins,).

        ``codes`` have these ``values``, and so many ``rows`` each; one by default.
        """
        ranks = self.rank[self.bins[codes]]
        own = np.bincount(ranks, rows, len(self.low) + 1)[:-1]
        sums = np.bincount(ranks, values if rows is None else values * rows, len(self.low) + 1)[:-1]
        return np.where(own > 0, sums / np.maximum(own, 1.0), (self.low + self.high) / 2)

    def mean_interval(
        self, counts: NDArray[np.float64], noise_std: NDArray[np.float64], centres: NDArray[np.float64], k: int
    ) -> tuple[float, float]:
        """Return the ends of the interval of a mean, within the values; the arrays are of shape (bins,)."""
        low, high = mean_interval(counts, noise_std, centres, self.high - self.low, rows_per_unit=k)
        return max(low, float(self.low.min())), min(high, float(self.high.max()))


def column_numbers(
    compared: Sequence[ComparedTable],
    column: ModelledColumn,
    codes: Codes,
    config: RunConfig,
    summed: SummedNumber | None = None,
) -> list[EstimatedNumber]:
    """Return the numbers of one column, with their intervals.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables, in the bins in which they were measured.
    column : ModelledColumn
    codes : array of shape (synthetic rows,)
    config : RunConfig
    summed : SummedNumber, optional
        The noisy sum of a number.

    Returns
    -------
    list of EstimatedNumber
        The mean of a number, and its total in the private table if it was added up; quantiles of ordered values, and
        the share of missing ones where they may be missing; for other columns the shares of the values that are most
        frequent. Empty if the column was not counted.

    Notes
    -----
    Of all measured tables that contain the column, with the other columns summed, the one with the shortest interval is
    used. A bin of several values is placed at the mean of the synthetic rows in it. Where in the bin the population's
    rows lie was not measured: their mean there is assumed to be anywhere between its ends, with variance
    (high - low)^2 / 12 for the share of rows in the bin. A quantile reaches to the ends of its bins. If the number was
    added up, its mean has the interval of the sum; if noise hides how far out its rows lie, that of its own counts.
    """
    tables = summed_tables(compared, column.name)
    if not tables:
        return []
    rows, k = compared[0].rows, config.schema.unit.rows_per_unit

    def share(table: SummedTable, label: str, place: int, made: int) -> EstimatedNumber:
        mine = made / len(codes)
        ends = share_interval(float(table.counts[place]), float(table.noise[place]), rows, rows_per_unit=k)
        return EstimatedNumber(f"{_SHARE}{label}", mine, *ends)

    if column.levels:
        values = _KnownValues.of(column, codes)
        each = [list(_ordered(column, values, table, k)) for table in tables]
        found = [min(same, key=_width) for same in zip(*filter(None, each), strict=True)]
        alone = [SummedTable.of(one, column.name) for one in compared if one.columns == (column.name,)]
        if found and summed is not None and alone:
            # In bins of a larger table the last one may be so wide that its mean is unknown.
            ends = summed.intervals(column, alone[0], codes, compared[0].rows, k=k)
            counted = next(_ordered(column, values, alone[0], k), found[0])
            found[0] = counted if ends is None else EstimatedNumber(_MEAN, counted.synthetic, *ends[0])
            made = float(np.nansum(known_values(column, codes))) * compared[0].rows.value / len(codes)
            found[1:1] = [] if ends is None else [EstimatedNumber(_TOTAL, made, *ends[1])]
        code = column.size - 1
        made = int(np.count_nonzero(codes == code))
        bins = [(table, table.bins[0], int(table.bins[0][code])) for table in tables]
        missing = [share(table, "missing", last, made) for table, own, last in bins if own.widths[last] == 1]
        return [*found, *([min(missing, key=_width)] if column.missing and missing else [])]
    best = tables[0]
    labels = bin_labels(column, best.bins[0])
    rows_of = np.bincount(best.bins[0][codes], minlength=best.bins[0].count)
    order = np.argsort(-rows_of, kind="stable")[:_MOST_VALUES]
    return [share(best, labels[place], place, int(rows_of[place])) for place in sorted(order.tolist())]


def _width(one: EstimatedNumber) -> float:
    return one.high - one.low if math.isfinite(one.low) else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class _KnownValues:
    """The values of synthetic rows that have one: each ``code`` once, in the order of the ``values``, with its rows."""

    codes: Codes
    values: NDArray[np.float64]
    rows: NDArray[np.float64]
    mean: float

    @classmethod
    def of(cls, column: ModelledColumn, codes: Codes) -> _KnownValues:
        own, rows = np.unique(codes, return_counts=True)
        values = known_values(column, own)
        told = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
        own, values, counts = own[told], values[told], rows[told].astype(np.float64)
        return cls(own, values, counts, float(counts @ values / counts.sum()) if len(own) else math.nan)

    def quantile(self, part: float) -> float:
        """Return the least value that a part of the rows does not exceed."""
        below = np.cumsum(self.rows) / self.rows.sum()
        return float(self.values[np.searchsorted(below, part - 1e-12)])


def _ordered(column: ModelledColumn, made: _KnownValues, table: SummedTable, k: int) -> Iterator[EstimatedNumber]:
    known = _KnownBins.of(column, table.bins[0])
    if known is None or not len(made.values):
        return
    counts, noise = table.counts[known.places], table.noise[known.places]
    if column.is_summable:
        low, high = known.mean_interval(counts, noise, known.centres(made.codes, made.values, made.rows), k)
        yield EstimatedNumber(_MEAN, made.mean, low, high)
    ends = quantile_places(counts, noise, list(_PARTS), rows_per_unit=k)
    for (part, name), places in zip(_PARTS.items(), ends, strict=True):
        low, high = (math.nan, math.nan) if places is None else (known.low[places[0]], known.high[places[1]])
        yield EstimatedNumber(name, made.quantile(part), float(low), float(high))


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
    known = _KnownBins.of(column, table.bins[1])
    if known is None:
        return []
    cells, group_of = known_values(column, codes[:, 0]), table.bins[0][codes[:, 1]]
    told = np.isfinite(cells)
    centre = known.centres(codes[told, 0], cells[told])
    labels = bin_labels(group, table.bins[0])
    order = np.argsort(-table.counts.sum(axis=1), kind="stable")[:_MOST_GROUPS]
    found = []
    for place in sorted(order.tolist()):
        counts, noise = table.counts[place, known.places], table.noise[place, known.places]
        ends = known.mean_interval(counts, noise, centre, config.schema.unit.rows_per_unit)
        mine = cells[(group_of == place) & told]
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
    titles = {name: column_title(schema, name) for name in schema.names}
    codes = dict(zip(schema.names, (np.asarray(own, dtype=np.int64) for own in answers.codes), strict=True))
    found: list[SafeEvidence] = []
    told, sums = quotable(schema), summed_numbers(answers.releases)
    for column in told[:_MOST_COLUMNS]:
        numbers, words = (
            column_numbers(answers.fine, column, codes[column.name], config, sums.get(column.name)),
            titles[column.name],
        )
        found += _evidence("column", column.name, words, words, numbers, column)
    for group in map(schema.modelled_column, config.groups):
        others = (own for own in told if own is not group and (own.is_summable or own.kind == "yes_no"))
        for column in others:
            rows = np.column_stack([codes[column.name], codes[group.name]])
            numbers = group_numbers(answers.fine, column, group, rows, config)
            what = "mean" if column.levels else "share of"
            words = f"{what} {titles[column.name]} by {group.name}"
            found += _evidence("groups", f"{what} {column.name} by {group.name}", words, group.name, numbers, column)
    first = [config.label, *config.groups]
    tables = within(answers.coarse, [column.name for column in told])
    pairs = [one for one in tables if len(one.columns) == 2 and one.measured.size <= _MOST_CELLS]
    pairs.sort(key=lambda one: not set(one.columns) & set(first))
    for one in pairs[:_MOST_TABLES]:
        numbers = cross_table(one, [schema.modelled_column(name) for name in one.columns], config)
        name, words = " and ".join(one.columns), " and ".join(one.titles)
        found += _evidence("pair", name, words, ", ".join(one.titles), numbers, None)
    return found


def _evidence(
    sort: str,
    name: str,
    words: str,
    heading: str,
    numbers: Sequence[EstimatedNumber],
    column: ModelledColumn | None,
) -> Iterator[SafeEvidence]:
    if not numbers:
        return
    inside = sum(one.inside for one in numbers)
    told = sum(math.isfinite(one.low) for one in numbers)
    title = f"{words}: {inside:,} of {told:,} synthetic numbers lie within their intervals"
    rows = tuple((one.name, *_cells(one, column)) for one in numbers)
    yield SafeEvidence(
        id=f"{_SECTION}.{sort}.{name}",
        title=visible(words),
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
        found = [_code_of(column, value) for value in values]
        return [None if code is None else column.texts([code])[0] for code in found]
    if one.high > one.low:
        digits = 2 - math.floor(math.log10(one.high - one.low))
        # Rounded outwards, so that no interval is shorter in print.
        unit = 10.0**-digits
        ends = [math.floor(one.low / unit + 1e-9) * unit, math.ceil(one.high / unit - 1e-9) * unit]
        values = [round(value, max(digits, 0)) for value in [one.synthetic, *ends]]
    return [value if math.isfinite(value) else None for value in values]


def _code_of(column: ModelledColumn, value: float) -> int | None:
    """Return the code of a value of the column, a special one before one of the grid; None if it has none."""
    beside = np.arange(column.levels, column.size)
    special = beside[column.comparable_at(beside) == value]
    if len(special):
        return int(special[-1])
    place = bisect.bisect_left(range(column.levels), value, key=lambda level: column.grid_at(np.array([level]))[0])
    return place if place < column.levels and column.grid_at(np.array([place]))[0] == value else None


# The screen ---------------------------------------------------------------------------------------------------------


_SENTENCE = (
    "The private rows are a sample of a population. With 95 % confidence the population's number lies between these "
    "ends, which are computed from the noisy counts and allow for both noise and sampling. If the synthetic number "
    "lies outside, quote the interval. The mean of a number with many values follows from its noisy sum, in which rows "
    "count up to a point that the noisy counts gave: it is assumed that at four times that distance from the median at "
    "most an eighth as many rows lie. A total is that of the private rows, without sampling."
)
_MORE = "For other numbers, see the Estimates tab."


def _panels(shown: Shown) -> list[Panel]:
    by_sort: dict[str, list[Option]] = {sort: [] for sort in _SORTS}
    for entry in shown.public_of(_SECTION):
        _, sort, name = entry.id.split(".", 2)
        tables = [figure for figure in entry.figures if isinstance(figure, Table)]
        listed = [Listing(table, f"{_SECTION}-{sort}-{name}") for table in tables]
        by_sort[sort].append(Option(name, entry.title, listed))
    if not by_sort["column"]:
        return []
    schema, words = shown.config.schema, _SENTENCE
    if asked_schema(schema).unit.rows_per_unit > 1:
        words += " Rows of one unit are assumed to be alike."
    words = " ".join(filter(None, (words, who_counts(schema))))
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
