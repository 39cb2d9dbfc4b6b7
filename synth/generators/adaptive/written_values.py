"""Draw values inside bins as people write them, where the answers allow it; post-processing, and bins keep their mass.

- Tails end where the mass ends, and not where a wide declared range does (``with_tails``).
- Codes are as rounded as they were counted (``with_round_values``).
- Numbers with few values get only these, if the answers allow it (``few_values``). Through noise alone, a column with
  five densities would have about one row in a hundred at other values. The available answers decide whether these rows
  exist. Values are identified by places of one code that are clear on their own and, in clear places of several codes,
  by the remainders of codes. Then three answers each say how many rows are elsewhere: the counts of places, of
  remainders, and of classes of rounding. The column has no other values if none of them exceeds its noise, nothing else
  stands out, and the noise is so small that at most a few per cent of the rows outside the fullest value can be
  elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import FAINT, ColumnBins
from synth.generators.code_chances import CodeChances, codes_of_classes
from synth.generators.one_way_marginals import OneWayMarginal
from synth.generators.round_values import REMAINDERS, RoundCounts, class_factors, single_values

__all__ = ["FewValues", "as_written", "few_values", "with_round_values", "with_tails"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

_CLEAR_PLACE = 10.0
"""Rows from which a place is clear on its own, in units of the noise of a count that got a column's whole share: three
standard deviations if a tenth of the share goes to single places."""

_FEWEST_BROAD = 3
"""Fewest bins of several places with which the first and last one can be compared with their neighbours."""

_TAIL = 3.0
"""Shape of the tails: between those of incomes and exponential tails."""

_SHAPE = 0.5
"""Standard deviation of what lies beyond a place in the last bin, relative to that, if only a tail's shape is known."""

_CLEAR_TAIL = 1.0
"""Standard deviations from which there is clearly more mass far out."""

_MOST_VALUES = 32
"""Maximum number of values. A single value is never concluded: noise that hides a second one is no proof."""

_NAMED = 5.0
"""Standard deviations from which a place or a remainder identifies a value: of thousands, none does by chance."""

_STANDS_OUT = 4.5
"""Standard deviations from which anything else stands out: of six thousand cells, one does by chance in one of fifty
cases."""

_EXPLAINED = 2.0
"""Standard deviations up to which a sum is attributed to noise."""

_MOST_ELSEWHERE = 0.04
"""Maximum share of the rows outside the fullest value that may be elsewhere, two standard deviations above the count.
With more noise than that, nothing is concluded. In columns that are nearly all zero, the other values are what matters:
a faint tail is not cut off because it is small relative to all rows."""

_LEAST = 1e-12

_ONLY = 1e12
"""Factor by which an identified code is more likely than others in its place: those are never drawn."""


def as_written(bins: ColumnBins, one_way: OneWayMarginal, counted: RoundCounts | None, rows: float) -> ColumnBins:
    """Return bins of the same mass with values inside them as people write them, where the answers allow it.

    For a number with few values, bins without any of them are drawn as the nearest bin that has one.

    Parameters
    ----------
    bins : ColumnBins
    one_way : OneWayMarginal
    counted : RoundCounts, optional
        Of the same column.
    rows : float
        Known or estimated number of rows.
    """
    if counted is None or not counted.counts.any():
        # A plan's answers say nothing.
        return with_tails(bins, one_way)
    few = few_values(one_way.everywhere, counted)
    if few is not None:
        return _only(bins, few, counted)
    return with_round_values(with_tails(bins, one_way), counted, rows, one_way.cell_std)


def with_tails(bins: ColumnBins, one_way: OneWayMarginal) -> ColumnBins:
    """Return bins of the same mass whose first and last bin do not reach farther than their neighbours suggest.

    Mass that noise leaves undecided is spread evenly, which makes a tail as long as a wide declared range. So, counted
    from its inner edge, an outermost bin gets at least as much mass as a Lomax distribution of shape 3, whose density
    at the edge continues that of the two neighbouring bins. Such a tail is heavy enough for incomes. If the counts show
    clearly that there is more mass far out, the bin is left as it is.

    Parameters
    ----------
    bins : ColumnBins
    one_way : OneWayMarginal
        The counts from which the bins were made.
    """
    levels, masses = bins.grid.levels, bins.expected
    of_place = bins.bin_of_place[:levels]
    starts = np.flatnonzero(np.diff(of_place, prepend=-1))
    ends = np.append(starts[1:], levels)
    # Single places are spikes, which say nothing about a density.
    broad = np.flatnonzero((ends - starts > 1) & (masses[of_place[starts]] > FAINT))
    if len(broad) < _FEWEST_BROAD:
        return bins
    proportions = bins.proportions.copy()
    first = bins.grid.first[starts[broad]].astype(np.float64)
    last = (bins.grid.first + bins.grid.width)[ends[broad] - 1].astype(np.float64)
    held = masses[of_place[starts[broad]]]
    for outer, beside, before, edges in ((-1, -2, -3, first), (0, 1, 2, last)):
        fall = math.log1p((held[beside] + held[before]) / held[outer]) / abs(edges[before] - edges[outer])
        width = last[beside] - first[beside]
        at_edge = held[beside] / width * math.exp(-fall * width / 2)
        places = np.arange(starts[broad[outer]], ends[broad[outer]])
        places = places if outer else places[::-1]
        reach = np.cumsum(bins.grid.width[places])
        inner = 1.0 - (1.0 + at_edge / held[outer] * reach / _TAIL) ** -_TAIL
        proportions[places] = _held_in(bins, one_way, places, inner / inner[-1])
    return replace(bins, proportions=proportions)


def _held_in(bins: ColumnBins, one_way: OneWayMarginal, places: Whole, least: Vector) -> Vector:
    """Return the mass of places from the inside out: shares up to each that the counts and the tail agree on.

    At the places beyond which the tail has a half, a quarter, ... of the bin, the share beyond is the average of the
    tail's and the counted one by inverse variance, with half of itself as the tail's standard deviation; a count that
    is clearly larger stays.
    """
    now = bins.proportions[places]
    whole, rows = float(now.sum()), max(float(bins.table.sum()), 1.0)
    if whole <= 0:
        return now
    halvings = range(1, max(int(math.log2(max(whole * rows, 2.0))), 1) + 1)
    cuts = np.unique([int(np.searchsorted(least, 1.0 - 0.5**k)) for k in halvings])
    cuts = cuts[cuts < len(places) - 1]
    if not len(cuts):
        return now
    tail = 1.0 - least[cuts]
    weights = np.zeros((one_way.grid.size, len(cuts)))
    weights[places] = np.arange(len(places))[:, None] > cuts
    counted = (one_way.counts @ weights) / (whole * rows)
    noise = one_way.variances_of_sums(weights) / (whole * rows) ** 2
    known = (tail * noise + counted * (_SHAPE * tail) ** 2) / (noise + (_SHAPE * tail) ** 2)
    clear = counted - tail > _CLEAR_TAIL * np.sqrt(noise)
    known = np.where(clear, counted, known)
    known = np.minimum.accumulate(np.clip(known, 0.0, 1.0))
    made = np.zeros(len(places))
    shape = np.diff(least, prepend=0.0)
    edges = [0, *(cuts + 1).tolist(), len(places)]
    # The inner half keeps its counted shape, as heaps there are not spread, and so does what is clearly far out.
    as_counted = [True, *clear.tolist()]
    parts = -np.diff(known, prepend=1.0, append=0.0)
    for part, counts_tell, (start, end) in zip(parts, as_counted, pairwise(edges), strict=True):
        inside = now[start:end] if counts_tell and now[start:end].sum() > 0 else shape[start:end] + _LEAST
        made[start:end] = part * inside / inside.sum()
    return made * whole


def with_round_values(bins: ColumnBins, counted: RoundCounts, rows: float, cell_std: float) -> ColumnBins:
    """Return bins of the same mass in which codes are as rounded as they were counted.

    Places of one code that are clear on their own stay as they are.

    Parameters
    ----------
    bins : ColumnBins
    counted : RoundCounts
        Of the same column.
    rows : float
        Known or estimated number of rows.
    cell_std : float
        That of the column's one-way marginal, in rows.
    """
    levels, kinds = bins.grid.levels, len(counted.counts)
    first, width, bin_of_place = bins.grid.first[:levels], bins.grid.width[:levels], bins.bin_of_place[:levels]
    proportions = bins.proportions.copy()
    single, chances = single_values(counted, first, width, proportions[:levels] * rows)
    # The mass of each place by class: its codes are alike, but for single ones.
    held = codes_of_classes(counted.classes, np.append(first, counted.classes.size))
    held = np.pad(held, ((0, 0), (0, kinds - held.shape[1])))
    np.add.at(held, (np.searchsorted(first, single, side="right") - 1, counted.classes[single]), chances - 1.0)
    held *= (proportions[:levels] / held.sum(axis=1))[:, None]
    clear = (width == 1) & (proportions[:levels] * rows > _CLEAR_PLACE * cell_std)
    outside = np.where(clear, held.sum(axis=1), held[:, 0])
    known = held[clear].sum(axis=0) * rows
    known[0] += float(outside[~clear].sum()) * rows
    held[clear] = 0.0
    held[:, 0] = outside
    # A bin keeps its rows by magnitude too: noise in a class of larger numbers would move rows of the last bin there.
    longest = int(counted.magnitudes.max()) + 1
    of_held = bin_of_place[:, None] * longest + counted.magnitudes
    masses = np.zeros((bins.size * longest, kinds))
    np.add.at(masses, (of_held, np.arange(kinds)), held)
    factors = class_factors(replace(counted, counts=counted.counts - known), masses, rows=rows)
    if (factors == 1.0).all() and not len(single):
        return bins
    # Codes outside all classes keep their mass, and so does the rest of every bin.
    before, after = masses[:, 1:].sum(axis=1), masses[:, 1:] @ factors[1:]
    scale = np.divide(before, after, out=np.ones_like(before), where=after > 0)
    proportions[:levels] = outside + (scale[of_held] * held * factors)[:, 1:].sum(axis=1)
    classes = counted.classes
    return replace(bins, proportions=proportions, chances=CodeChances(classes, factors, single, chances, counted.fine))


@dataclass(frozen=True, slots=True, eq=False)
class FewValues:
    """The only values of a number.

    Attributes
    ----------
    codes : array of shape (values,), int64
        Ascending.
    places : array of shape (values,), int64
        Place of each.
    counts : array of shape (values,)
        Noisy rows of each, positive.
    """

    codes: Whole
    places: Whole
    counts: Vector


def few_values(one_way: OneWayMarginal, counted: RoundCounts) -> FewValues | None:
    """Return the only values of a number, or None if the answers leave room for others.

    Parameters
    ----------
    one_way : OneWayMarginal
    counted : RoundCounts
        Of the same column.
    """
    named = _clear_places(one_way)
    found = None if named is None else _values(one_way, counted, named)
    return None if found is None or not _are_all(found, one_way, counted) else found


def _only(bins: ColumnBins, few: FewValues, counted: RoundCounts) -> ColumnBins:
    """Return bins that give only identified values on the grid: each its own, or the one nearest to its middle."""
    grid, levels = bins.grid, bins.grid.levels
    ordered = bins.bin_of_place[:levels]
    of_place = np.bincount(few.places, weights=few.counts, minlength=levels)
    of_bin = np.bincount(ordered, weights=of_place, minlength=bins.size)
    held = np.bincount(ordered, weights=bins.proportions[:levels], minlength=bins.size)
    has_named = of_bin[ordered] > 0
    # A bin without any mass would be filled evenly.
    inside = of_place * np.maximum(held, _LEAST)[ordered] / np.where(has_named, of_bin[ordered], 1.0)
    proportions = bins.proportions.copy()
    proportions[:levels] = np.where(has_named, inside, proportions[:levels])

    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = np.append(starts[1:], levels) - 1
    middles = (grid.first[starts] + grid.first[ends] + grid.width[ends] - 1) / 2
    nearest = np.abs(middles[:, None] - few.codes).argmin(axis=1)
    drawn_as = np.arange(bins.size, dtype=np.int32)
    numbers = ordered[starts]
    drawn_as[numbers] = np.where(of_bin[numbers] > 0, numbers, ordered[few.places[nearest]])
    several = grid.width[few.places] > 1
    chances = CodeChances(
        counted.classes,
        np.ones(len(counted.counts)),
        few.codes[several],
        _ONLY * (few.counts / of_place[few.places])[several],
        counted.fine,
    )
    return replace(bins, proportions=proportions, chances=chances if several.any() else None, drawn_as=drawn_as)


def _clear_places(one_way: OneWayMarginal) -> Whole | None:
    """Return the ordered places that are clear on their own, if they are few and no other one stands out."""
    counts = one_way.counts[: one_way.grid.levels]
    fullest = np.argsort(-counts, kind="stable")[: _MOST_VALUES + 1]
    groups = np.full(one_way.grid.size, len(fullest))
    groups[fullest] = np.arange(len(fullest))
    noise = np.sqrt(one_way.variances_of(groups, len(fullest) + 1))[:-1]
    clear = counts[fullest] > _NAMED * noise
    # Zero and both ends stand alone, and have less noise than other places.
    others = np.delete(counts, fullest[clear])
    few = 2 <= int(clear.sum()) < len(fullest) and float(others.max()) <= _STANDS_OUT * float(noise.max())
    few = few and bool((counts[fullest[~clear]] <= _STANDS_OUT * noise[~clear]).all())
    return np.sort(fullest[clear]) if few else None


def _values(one_way: OneWayMarginal, counted: RoundCounts, named: Whole) -> FewValues | None:
    """Return the codes in the clear places, if each place has one."""
    grid = one_way.grid
    if int(grid.width[named].max()) == 1:
        return FewValues(grid.first[named], named, one_way.counts[named])
    if counted.remainders is None:
        return None
    clear = np.flatnonzero(counted.remainders > _NAMED * counted.noise_std)
    codes, places = [], []
    for place in named.tolist():
        inside = np.arange(grid.first[place], grid.first[place] + grid.width[place])
        if len(inside) > 1:
            inside = inside[np.isin(inside % REMAINDERS, clear) & (counted.classes[inside] != 0)]
        codes.append(inside)
        places.append(np.full(len(inside), place))
    found = FewValues(np.concatenate(codes), np.concatenate(places), np.ones(0))
    inside = found.codes[counted.classes[found.codes] != 0] % REMAINDERS
    # A place without an identified code, a remainder shared by two codes, or one without a code: other values exist.
    if (
        len(np.unique(found.places)) < len(named)
        or len(np.unique(inside)) < len(inside)
        or not np.isin(clear, inside).all()
    ):
        return None
    others = np.delete(counted.remainders, inside)
    if float(others.max()) > _STANDS_OUT * counted.noise_std:
        return None
    alone = grid.width[found.places] == 1
    rows = np.where(alone, one_way.counts[found.places], counted.remainders[found.codes % REMAINDERS])
    return replace(found, counts=rows)


def _are_all(found: FewValues, one_way: OneWayMarginal, counted: RoundCounts) -> bool:
    """Whether every answer alone leaves no more rows elsewhere than its noise explains."""
    own = np.zeros(len(counted.counts), dtype=bool)
    own[0] = own[counted.classes[found.codes]] = True
    if float(counted.counts[~own].max(initial=0.0)) > _STANDS_OUT * counted.noise_std:
        return False
    answers = _elsewhere(found, one_way, counted, own)
    if any(rows > _EXPLAINED * math.sqrt(variance) for rows, variance in answers):
        return False
    # The first answer sees all other rows, including those inside clear places.
    rows, variance = answers[0]
    most = max(rows, 0.0) + _EXPLAINED * math.sqrt(variance)
    beside = float(one_way.counts[: one_way.grid.levels].sum() - found.counts.max())
    return most <= _MOST_ELSEWHERE * beside


def _elsewhere(
    found: FewValues, one_way: OneWayMarginal, counted: RoundCounts, own: NDArray[np.bool_]
) -> list[tuple[float, float]]:
    """Return the rows on the grid without an identified value, by each answer, with the variance of its noise.

    The first answer is that of remainders if they identified values, else that of places; the others see less. ``own``
    are the classes of identified values, and class 0.
    """
    grid, noise = one_way.grid, counted.noise_std**2
    unnamed = np.setdiff1d(np.arange(grid.levels), found.places)
    answers = [(float(one_way.counts[unnamed].sum()), _variance(one_way, unnamed))]
    # Codes outside all classes stand alone in a place.
    inside = np.flatnonzero(counted.classes[grid.first[: grid.levels]] != 0)
    whole, variance = float(one_way.counts[inside].sum()), _variance(one_way, inside)
    if counted.remainders is not None and int(grid.width[found.places].max()) > 1:
        remainders = found.codes[counted.classes[found.codes] != 0] % REMAINDERS
        answers.insert(0, (whole - float(counted.remainders[remainders].sum()), variance + len(remainders) * noise))
    others = counted.counts[~own]
    if len(others):
        # All rows except those of own classes, and those of the other classes, averaged by inverse variance.
        left = whole - float(counted.counts[own][1:].sum())
        one, other = 1.0 / (variance + (int(own.sum()) - 1) * noise), 1.0 / (len(others) * noise)
        answers.append(((left * one + float(others.sum()) * other) / (one + other), 1.0 / (one + other)))
    return answers


def _variance(one_way: OneWayMarginal, places: Whole) -> float:
    groups = np.zeros(one_way.grid.size, dtype=np.int64)
    groups[places] = 1
    return float(one_way.variances_of(groups, 2)[1])
