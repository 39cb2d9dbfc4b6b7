"""Tables of counts among the paid answers of a run, compared with synthetic rows: what a report may publish.

Every number here is a function of synthetic rows, noisy answers and declared facts, so it costs nothing and does not
need the private table. The error of a distance is the range caused by privacy noise: with 95 % probability the distance
to the private rows themselves is within it (triangle inequality and the known distribution of the noise).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from synth.generators.coarse_grid import coarse_grid
from synth.privacy.answers import NoisyAnswer, RowCount
from synth.privacy.bins import Bins, pieces
from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
from synth.privacy.more.products import Product
from synth.privacy.receipt import SUMS
from synth.reports.code_tables import PUBLIC_BINS, CodeTable, coarse_bins
from synth.reports.controls import OneWay, independent_columns
from synth.schema import ModelledColumn, Schema, column_title

__all__ = [
    "BAR",
    "EVALUATION_QUERY",
    "ComparedTable",
    "MeasuredTable",
    "compare_both_ways",
    "compare_measured",
    "evaluation_question",
    "measured_tables",
    "one_way",
    "tables_of",
    "within",
]

EVALUATION_QUERY = "one-way tables for the report"
_FINEST = 128
"""A declared range with more levels than this is measured for the report in 32 public bins; finer ones are noise."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """A table of noisy counts.

    Attributes
    ----------
    columns : tuple of str
        One to three columns.
    bins : tuple of Bins
        Bin of every code, by column.
    counts : array of shape (bins of the first column, ...)
        Noisy counts, in rows.
    noise_std : float
        Standard deviation of the noise on every count, in rows.
    query : str
        The question it answers.
    """

    columns: tuple[str, ...]
    bins: tuple[Bins, ...]
    counts: NDArray[np.float64]
    noise_std: float
    query: str


def evaluation_question(schema: Schema) -> FeatureMap:
    """Return the one question that a charged evaluation asks: every column's one-way table.

    The columns share it equally. A range of more than 128 levels is counted in 32 public bins.
    """
    parts = tuple(
        one_way(column, grid=PUBLIC_BINS if column.levels > _FINEST else _FINEST) for column in schema.modelled
    )
    return Stack(parts=parts, weights=(1 / math.sqrt(len(parts)),) * len(parts))


def one_way(column: ModelledColumn, *, grid: int) -> OneHot:
    """Return the counts of one column: at most ``grid`` equal parts of a declared range, and every other value alone.

    They follow from what is declared; no row has a part in them.
    """
    places = coarse_grid(column, grid=grid, atoms=max(column.size, 1))
    return OneHot(columns=(column.name,), bins=(places.bins,), sizes=(column.size,))


def measured_tables(releases: Iterable[NoisyAnswer]) -> tuple[MeasuredTable, ...]:
    """Return every table of counts among noisy answers, the least noisy first.

    Stacks and products are searched; maps that are not counts (Fourier, Hermite) are skipped, and so are questions
    about the hold-out, whose rows are not those that synthetic rows are compared with.
    """
    found: list[MeasuredTable] = []
    for release in releases:
        if release.receipt.mechanism in SUMS and release.receipt.part == "train":
            found += tables_of(release)
    return tuple(sorted(found, key=attrgetter("noise_std")))


def tables_of(release: NoisyAnswer) -> Iterator[MeasuredTable]:
    """Yield the tables of counts in one noisy sum, in order; each count has the noise that was added to it."""
    flat = np.asarray(release.value, dtype=np.float64).reshape(-1)
    yield from _tables(release.feature_map, flat, release.noise_std, release.receipt.query)


def _tables(question: object, flat: NDArray[np.float64], noise_std: float, query: str) -> Iterator[MeasuredTable]:
    if isinstance(question, Stack):
        start = 0
        for part, weight in zip(question.parts, question.weights, strict=True):
            piece = flat[start : start + part.dimension]
            start += part.dimension
            yield from _tables(part, piece / weight, noise_std / weight, query)
        return
    leaves = list(question.factors) if isinstance(question, Product) else [question]
    hots = [leaf for leaf in leaves if isinstance(leaf, OneHot)]
    if not hots or len(hots) < len(leaves):
        return
    columns = tuple(column for hot in hots for column in hot.columns)
    if len(set(columns)) == len(columns):
        shape = tuple(size for hot in hots for size in hot.shape)
        bins = tuple(one for hot in hots for one in _explicit_bins(hot))
        yield MeasuredTable(columns, bins, flat.reshape(shape), noise_std, query)


def _explicit_bins(hot: OneHot) -> Sequence[Bins]:
    return [
        Bins.of_codes(np.arange(size)) if one is None else one for size, one in zip(hot.sizes, hot.bins, strict=True)
    ]


# Compared with synthetic rows ---------------------------------------------------------------------------------------


BAR = 1.959964
"""Half the width of a range that covers 95 % of a normal error, in standard deviations."""

_ONE_SIDED = 1.644854
_WIDEST = 3
_MEAN_OF_FOLDED = math.sqrt(2 / math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedTable:
    """One measured table and the same counts of synthetic rows.

    Attributes
    ----------
    columns : tuple of str
    bins : tuple of Bins
        Bin of every code, by column.
    measured, synthetic, control : arrays of shape (bins of the first column, ...)
        Counts in rows of the private table; those of synthetic rows are scaled to its number of rows.
    noise_std : array of the same shape
        Standard deviation of the noise on every measured count, in rows.
    rows : RowCount
        Rows of the private table.
    titles : tuple of str
        What a reader is told that each column is.
    counted : str
        What counts are of: rows, or units that are kept whole.
    """

    columns: tuple[str, ...]
    bins: tuple[Bins, ...]
    measured: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    control: NDArray[np.float64]
    noise_std: NDArray[np.float64]
    rows: RowCount
    titles: tuple[str, ...]
    counted: str = "rows"

    @property
    def words(self) -> str:
        """The columns as a list of sets names them."""
        return " + ".join(self.titles)

    @property
    def distance(self) -> float:
        """Total variation between synthetic and measured counts, at most 1."""
        return self._against(self.synthetic)

    @property
    def control_distance(self) -> float:
        """The same for the independent control."""
        return self._against(self.control)

    @property
    def expected_noise(self) -> float:
        """Average distance caused by noise alone; above 1 nothing can be seen."""
        return _MEAN_OF_FOLDED * float(self.noise_std.sum()) / (2 * self.rows.value)

    @property
    def error(self) -> float:
        """Distance that noise alone does not exceed with 95 % probability."""
        spread = math.sqrt((1 - _MEAN_OF_FOLDED**2) * float((self.noise_std**2).sum())) / (2 * self.rows.value)
        of_rows = BAR * self.rows.noise_std / self.rows.value
        return min(self.expected_noise + _ONE_SIDED * spread + of_rows, 1.0)

    def _against(self, counts: NDArray[np.float64]) -> float:
        return min(float(np.abs(counts - self.measured).sum()) / (2 * self.rows.value), 1.0)


def compare_measured(
    synthetic: CodeTable,
    schema: Schema,
    releases: Sequence[NoisyAnswer],
    rows: RowCount,
    *,
    coarse: bool = False,
    seed: int = 0,
) -> tuple[ComparedTable, ...]:
    """Compare measured tables of one to three columns with synthetic rows, one table for each set of columns.

    It is the least noisy one: a table of just these columns comes before sums of a larger one, unless those have the
    same bins and less noise. Of a single column, ranges of values come before classes of their last digits.

    Parameters
    ----------
    synthetic : CodeTable
        Codes in ``schema.names`` order.
    schema : Schema
        The declared columns.
    releases : sequence of NoisyAnswer
        The paid answers of the run.
    rows : RowCount
        Public or measured number of private rows.
    coarse : bool
        First put numbers and dates into at most 32 public bins, where the measured bins allow it.
    seed : int
        Seed of the control; public.
    """
    return compare_both_ways(synthetic, schema, releases, rows, seed=seed)[int(coarse)]


def compare_both_ways(
    synthetic: CodeTable, schema: Schema, releases: Sequence[NoisyAnswer], rows: RowCount, *, seed: int = 0
) -> tuple[tuple[ComparedTable, ...], tuple[ComparedTable, ...]]:
    """Return the tables of :func:`compare_measured` in their own bins, and in coarse ones; what is alike is shared."""
    place = {name: index for index, name in enumerate(schema.names)}
    tables = _best([_in_order(table, place) for table in measured_tables(releases) if len(table.columns) <= _WIDEST])
    control = _control(tables, schema, len(synthetic[0]), seed)
    public: dict[tuple[str, Bins], Bins] = {}
    fine, coarse = [], []
    for columns, table in sorted(tables.items(), key=lambda one: (len(one[0]), [place[name] for name in one[0]])):
        for known in zip(columns, table.bins, strict=True):
            if known not in public:
                public[known] = _public_bins(schema.modelled_column(known[0]), known[1])
        own = [place[name] for name in columns]
        for bins in dict.fromkeys((table.bins, tuple(public[one] for one in zip(columns, table.bins, strict=True)))):
            measured = _merged(table.counts, table.bins, bins)
            one = ComparedTable(
                columns=columns,
                bins=bins,
                measured=measured,
                synthetic=_scaled_counts(synthetic, own, bins, measured.shape, rows.value),
                control=_scaled_counts(control, own, bins, measured.shape, rows.value),
                noise_std=np.sqrt(_merged(np.full(table.counts.shape, table.noise_std) ** 2, table.bins, bins)),
                rows=rows,
                titles=tuple(column_title(schema, name) for name in columns),
                counted=schema.unit.counted,
            )
            if bins == table.bins:
                fine.append(one)
        coarse.append(one)
    return tuple(fine), tuple(coarse)


def within(compared: Sequence[ComparedTable], names: Sequence[str]) -> list[ComparedTable]:
    """Return the tables that are about some columns alone."""
    return [one for one in compared if set(one.columns) <= set(names)]


def _in_order(table: MeasuredTable, place: Mapping[str, int]) -> MeasuredTable:
    """Return the table with its columns in the order of the schema."""
    axes = sorted(range(len(table.columns)), key=lambda axis: place[table.columns[axis]])
    columns, bins = tuple(table.columns[axis] for axis in axes), tuple(table.bins[axis] for axis in axes)
    return MeasuredTable(columns, bins, table.counts.transpose(axes), table.noise_std, table.query)


def _best(tables: Sequence[MeasuredTable]) -> dict[tuple[str, ...], MeasuredTable]:
    best: dict[tuple[str, ...], MeasuredTable] = {}
    noise = attrgetter("noise_std")
    # Classes of roundness may have less noise, and say nothing about where on its scale a column has its rows.
    for table in sorted(tables, key=lambda one: (len(one.columns) == 1 and not _in_ranges(one.bins[0]), one.noise_std)):
        best.setdefault(table.columns, table)
    for margin in sorted((margin for joint in tables for margin in _margins(joint)), key=noise):
        known = best.setdefault(margin.columns, margin)
        if margin.noise_std < known.noise_std and margin.bins == known.bins:
            best[margin.columns] = margin
    return best


def _in_ranges(bins: Bins) -> bool:
    """Whether bins are ranges of codes, each with a few gaps at most, in which others stand alone."""
    return bins.order is None and bins.table.shape[1] <= 2 * bins.count


def _margins(table: MeasuredTable) -> list[MeasuredTable]:
    """Sum a joint table over some of its columns, in every way; each sum adds the variances of its cells."""
    found = []
    axes = range(len(table.columns))
    for kept in (kept for size in axes[1:] for kept in itertools.combinations(axes, size)):
        others = tuple(axis for axis in axes if axis not in kept)
        noise = table.noise_std * math.sqrt(math.prod(table.counts.shape[axis] for axis in others))
        columns, bins = tuple(table.columns[axis] for axis in kept), tuple(table.bins[axis] for axis in kept)
        found.append(MeasuredTable(columns, bins, table.counts.sum(axis=others), noise, table.query))
    return found


def _control(tables: Mapping[tuple[str, ...], MeasuredTable], schema: Schema, n_rows: int, seed: int) -> CodeTable:
    one_ways = []
    for column in schema.modelled:
        table = tables.get((column.name,))
        if table is None:
            one_ways.append(OneWay(Bins.of_runs([0], [column.size]), np.ones(1)))
        else:
            one_ways.append(OneWay(table.bins[0], table.counts))
    drawn = independent_columns(one_ways, n_rows=n_rows, seed=seed)
    return [column.smallest_codes(codes) for column, codes in zip(schema.modelled, drawn, strict=True)]


def _public_bins(column: ModelledColumn, fine: Bins) -> Bins:
    """Return the public bins of a column, or the measured ones if one of these is not within one public bin."""
    coarse = coarse_bins(column)
    target = _target(fine, coarse)
    within = all((target[own] == wide).all() for _, _, (own, wide) in pieces(0, fine.size, fine, coarse))
    return coarse if within else fine


def _target(fine: Bins, coarse: Bins) -> NDArray[np.int64]:
    """Return the bin that each bin becomes, shape (fine bins,)."""
    target = np.zeros(fine.count, dtype=np.int64)
    for _, _, (own, wide) in pieces(0, fine.size, fine, coarse):
        target[own] = wide
    return target


def _merged(values: NDArray[np.float64], from_bins: Sequence[Bins], to_bins: Sequence[Bins]) -> NDArray[np.float64]:
    """Sum the values of bins that become one bin."""
    for axis, (fine, coarse) in enumerate(zip(from_bins, to_bins, strict=True)):
        if fine == coarse:
            continue
        target = _target(fine, coarse)
        moved = np.moveaxis(values, axis, 0)
        summed = np.zeros((coarse.count, *moved.shape[1:]))
        np.add.at(summed, target, moved)
        values = np.moveaxis(summed, 0, axis)
    return values


def _scaled_counts(
    codes: CodeTable, places: Sequence[int], bins: Sequence[Bins], shape: tuple[int, ...], rows: float
) -> NDArray[np.float64]:
    cells = [one[codes[place]] for place, one in zip(places, bins, strict=True)]
    counts = np.bincount(np.ravel_multi_index(cells, shape), minlength=math.prod(shape)).reshape(shape)
    return np.asarray(counts * (rows / len(codes[0])))
