"""A column as a joint model sees it: a few bins, their counts, and how codes are drawn inside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.code_masses import SummedMasses, summed_masses
from synth.generators.coarse_grid import CoarseGrid
from synth.generators.code_chances import CodeChances
from synth.generators.one_way_marginals import OneWayMarginal, fine_grid
from synth.generators.round_values import chances_from_state
from synth.models.marginals import NoisyMarginal
from synth.privacy.bins import Bins
from synth.schema import ModelledColumn

__all__ = ["FAINT", "ColumnBins"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

_LEAST_KEY_BITS = 6
"""Random bits that must fit next to the bin in a 16-bit sorting key; with fewer, values are shuffled instead."""

FAINT = 1e-9
"""Share of the rows below which a bin counts as empty."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBins:
    """The bins of one column.

    Attributes
    ----------
    grid : CoarseGrid
        The finest cells in which the column was counted.
    bin_of_place : array of shape (places,), int32
        Bin of every place; every bin has at least one.
    proportions : array of shape (places,), float64
        Estimated share of the rows in every place; codes inside a bin follow it.
    table : array of shape (bins,), float64
        Noisy counts, in rows, of any sign.
    noise_std : array of shape (bins,), float64
        Standard deviation of the noise of each count, in rows; positive.
    chances : CodeChances, optional
        Relative probabilities of the codes inside a place; all are equally likely if absent.
    drawn_as : array of shape (bins,), int32, optional
        Bin from which the rows of each bin get their codes, if a column has few values and some bins have none.
    """

    grid: CoarseGrid
    bin_of_place: NDArray[np.int32]
    proportions: Vector
    table: Vector
    noise_std: Vector
    chances: CodeChances | None = None
    drawn_as: NDArray[np.int32] | None = None
    _order: Whole = field(init=False, repr=False)
    _inside: Vector = field(init=False, repr=False)
    _ends: Whole = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.bin_of_place, kind="stable")
        ends = np.cumsum(np.bincount(self.bin_of_place, minlength=self.size))
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_ends", ends)
        object.__setattr__(self, "_inside", self._shares_inside(order))

    @classmethod
    def of(cls, one_way: OneWayMarginal, bin_of_place: NDArray[np.int32]) -> Self:
        """Sum a column's counts by bin, and compute the noise of every sum."""
        size = int(bin_of_place.max()) + 1
        variances = one_way.variances_of(bin_of_place.astype(np.int64), size)
        # If the number of rows is public, the total is known exactly, without noise, but a model needs some.
        least = 1e-3 * one_way.cell_std
        return cls(
            grid=one_way.grid,
            bin_of_place=bin_of_place,
            proportions=_near(one_way, bin_of_place, size),
            table=_summed(bin_of_place, one_way.counts, size),
            noise_std=np.maximum(np.sqrt(variances), least),
        )

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.table)

    @property
    def expected(self) -> Vector:
        """Estimated share of the rows in every bin, shape (bins,): not negative, sum 1, more accurate than ``table``.

        The table is unbiased and has a known noise; this estimate is shrunk, strongly if the noise is large.
        """
        return _summed(self.bin_of_place, self.proportions, self.size)

    @property
    def is_identity(self) -> bool:
        """Whether every code is a bin of its own, with the same number."""
        grid = self.grid
        return (
            self.size == grid.size == int(grid.width.sum())
            and bool((self.bin_of_place == np.arange(grid.size)).all())
        )  # fmt: skip

    @property
    def bins(self) -> Bins | None:
        """Bin of every code, or None if the code is the bin; computed on request."""
        return None if self.is_identity else Bins.of_runs(self.bin_of_place, self.grid.width)

    def grouped(self, groups: NDArray[np.integer]) -> Bins:
        """Return the group of every code, given that of every bin, shape (bins,)."""
        return Bins.of_codes(groups) if self.is_identity else Bins.of_runs(groups[self.bin_of_place], self.grid.width)

    def measured(self, position: int) -> NoisyMarginal:
        """Return the expected counts for a joint model, with the root mean square of the noise of ``table``.

        Expected rather than noisy counts, because they halve the error of the model's columns; the stated noise is
        therefore too large rather than too small.
        """
        rows = max(float(self.table.sum()), 1.0)
        return NoisyMarginal((position,), self.expected * rows, float(np.sqrt(np.mean(self.noise_std**2))))

    @property
    def n_codes(self) -> int:
        """Number of codes of the grid."""
        return int(self.grid.width[: self.grid.levels].sum())

    @property
    def ends(self) -> tuple[Whole, Whole]:
        """First code of every bin on the grid, and the one after its last; bins without one are empty."""
        levels = self.grid.levels
        codes = np.concatenate([[0], np.cumsum(self.grid.width[:levels])])
        bins = self.bin_of_place[:levels]  # ascending
        low, high = (codes[np.searchsorted(bins, np.arange(self.size), side=side)] for side in ("left", "right"))
        return low, high

    @property
    def edges(self) -> Whole:
        """First code of every bin of the grid but the first, ascending."""
        levels = self.grid.levels
        return np.asarray(self.grid.first[:levels][1:][np.diff(self.bin_of_place[:levels]) != 0])

    def summed_masses(self) -> SummedMasses:
        """Return the shares of the rows at the codes of the grid, added up in their order; an empty bin is even."""
        levels = self.grid.levels
        width, bins = self.grid.width[:levels], self.bin_of_place[:levels]
        places = np.where(self.expected[bins] > 0, self.proportions[:levels], FAINT * width)
        return summed_masses(self.grid.first[:levels], width, places, self.chances)

    def codes(self, bins: NDArray[np.integer], random: np.random.Generator) -> Whole:
        """Draw a code inside every bin.

        Parameters
        ----------
        bins : array of shape (n_rows,), whole numbers below ``size``
        random : Generator

        Returns
        -------
        array of shape (n_rows,), int64
            In each bin, the number of codes from each place is the floor or ceiling of its expectation. They are
            assigned to the rows of the bin at random, so codes inside a bin are unrelated to anything else.
        """
        if self.is_identity:
            return bins.astype(np.int64)
        rows = np.bincount(bins, minlength=self.size)
        sorted_codes = self._sorted_codes(rows, random)
        codes = np.empty(len(bins), dtype=np.int64)
        free_bits = 16 - max(self.size - 1, 1).bit_length()
        if free_bits < _LEAST_KEY_BITS:
            for start, end in pairwise([0, *np.cumsum(rows).tolist()]):
                random.shuffle(sorted_codes[start:end])
            codes[np.argsort(bins, kind="stable")] = sorted_codes
            return codes
        # Keys of 16 bits are sorted in linear time. Rows with the same key keep their order and get neighbouring
        # values, less than 2^-6 of the bin apart, or 2^-11 with 32 bins: too close to carry information.
        keys = random.integers(0, 2**16, len(bins), dtype=np.uint16)
        keys >>= np.uint16(16 - free_bits)
        keys |= bins.astype(np.uint16) << np.uint16(free_bits)
        codes[np.argsort(keys, kind="stable")] = sorted_codes
        return codes

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that drawing needs beyond the schema and the options."""
        chances = {} if self.chances is None else self.chances.state()
        if self.drawn_as is not None:
            chances["drawn_as"] = self.drawn_as.copy()
        return {
            "bin_of_place": self.bin_of_place.copy(),
            "proportions": self.proportions.copy(),
            "table": self.table.copy(),
            "noise_std": self.noise_std.copy(),
            **chances,
        }

    @classmethod
    def from_state(cls, column: ModelledColumn, state: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild bins that draw the same bytes.

        Raises
        ------
        ValueError
            If the arrays do not fit each other and the column: a forged bin would take memory for all below it.
        """
        grid, table, bin_of_place = fine_grid(column), state["table"], state["bin_of_place"]
        drawn_as = state.get("drawn_as")
        lengths = [len(state[name]) for name in ("bin_of_place", "proportions")]
        if lengths != [grid.size] * 2 or len(state["noise_std"]) != len(table):
            raise ValueError(f"The bins of '{column.name}' do not have the column's places.")
        for places in (bin_of_place, *(() if drawn_as is None else (drawn_as,))):
            if places.min() < 0 or places.max() >= len(table):
                raise ValueError(f"A bin of '{column.name}' is none of its {len(table)}.")
        return cls(
            grid=grid,
            bin_of_place=bin_of_place.astype(np.int32),
            proportions=state["proportions"].astype(np.float64),
            table=table.astype(np.float64),
            noise_std=state["noise_std"].astype(np.float64),
            chances=chances_from_state(column, state) if "factors" in state else None,
            drawn_as=None if drawn_as is None else drawn_as.astype(np.int32),
        )

    def _shares_inside(self, order: Whole) -> Vector:
        """Return, for places in order of their bins, the share of the bin up to and including each."""
        bins = self.bin_of_place[order]
        mass = np.bincount(self.bin_of_place, weights=self.proportions, minlength=self.size)
        width = np.bincount(self.bin_of_place, weights=self.grid.width, minlength=self.size)
        # A bin that is estimated to be empty is filled evenly.
        empty = (mass <= 0)[bins]
        share = np.where(empty, self.grid.width[order] / width[bins], self.proportions[order])
        share = np.where(empty, share, share / np.where(mass > 0, mass, 1.0)[bins])
        summed = np.cumsum(share)
        starts = np.concatenate([[0.0], summed])[np.concatenate([[0], self._ends[:-1]])]
        return np.asarray(np.clip(summed - starts[bins], 0.0, 1.0))

    def _sorted_codes(self, rows: Whole, random: np.random.Generator) -> Whole:
        """Return codes in order of bin and place: ``rows[b]`` of bin b, spread systematically."""
        order, bins = self._order, self.bin_of_place[self._order]
        upper = np.floor(self._inside * rows[bins] + random.random(self.size)[bins]).astype(np.int64)
        upper = np.minimum(upper, rows[bins])
        upper[self._ends - 1] = rows
        counts = np.diff(upper, prepend=0)
        firsts = np.concatenate([[0], self._ends[:-1]])
        counts[firsts] = upper[firsts]
        first, width = self.grid.first[order], self.grid.width[order]
        codes = np.repeat(first, counts)
        if (width > 1).any():
            codes += _spread_inside(counts, first, width, random, self.chances)
        return codes


def _spread_inside(
    counts: Whole, first: Whole, width: Whole, random: np.random.Generator, chances: CodeChances | None
) -> Whole:
    """Return steps from the first code of each place: as many as ``counts``, evenly spaced from a random start.

    With chances of the codes of the grid, steps are evenly spaced in cumulative probability.
    """
    kept = np.flatnonzero(counts)
    counts, first, width = counts[kept], first[kept], width[kept]
    offsets = random.random(len(kept)) - (np.cumsum(counts) - counts)
    inside = np.arange(int(counts.sum()), dtype=np.float64)
    inside += np.repeat(offsets, counts)
    if chances is None:
        inside *= np.repeat(width / counts, counts)
        steps = inside.astype(np.int64)
        return np.minimum(steps, np.repeat(width - 1, counts), out=steps)
    # Codes outside the grid are equally likely.
    levels = chances.classes.size
    ordered = first < levels
    low = np.where(ordered, chances.before(np.minimum(first, levels)), first)
    high = np.where(ordered, chances.before(np.minimum(first + width, levels)), first + width)
    inside *= np.repeat((high - low) / counts, counts)
    inside += np.repeat(low, counts)
    on_grid = np.repeat(ordered, counts)
    steps = np.floor(inside).astype(np.int64)
    steps[on_grid] = chances.code_at(inside[on_grid])
    steps -= np.repeat(first, counts)
    return np.clip(steps, 0, np.repeat(width - 1, counts))


def _near(one_way: OneWayMarginal, bin_of_place: NDArray[np.int32], size: int) -> Vector:
    """Return the shares of places, with next to nothing at the inner edge of every ordered bin that holds no rows.

    A single row drawn evenly in such a bin, up to the end of a wide range, would outweigh all others in a mean.
    """
    levels = one_way.grid.levels
    of_place = bin_of_place[:levels]
    held = _summed(bin_of_place, one_way.proportions, size)
    starts = np.flatnonzero(np.diff(of_place, prepend=-1))
    empty = held[of_place[starts]] <= 0
    if not empty.any():
        return one_way.proportions
    proportions = one_way.proportions.copy()
    fullest = int(np.argmax(proportions[:levels]))
    inner = np.where(starts > fullest, starts, np.append(starts[1:], levels) - 1)
    proportions[inner[empty]] = FAINT**2
    return proportions


def _summed(bins: NDArray[np.int32], values: Vector, size: int) -> Vector:
    return np.bincount(bins, weights=values, minlength=size).astype(np.float64)
