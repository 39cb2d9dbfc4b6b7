"""Encode columns as coordinates after they were counted, and decode drawn vectors.

A table with many numbers is treated as one signal (pixels, spectra), as in ``row_encoding``. In a table with few
numbers each number is replaced by its rank among the rows, from -1 to 1, from the noisy one-way marginal; so spikes and
tails have the weight of their rows. Drawn vectors are mapped back in the same way: ranks through the column's counted
distribution, and categories so that each class has its expected frequencies. All of it is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators.coarse_grid import CoarseGrid
from synth.generators.one_way_marginals import OneWayMarginal
from synth.generators.row_encoding import INDICATOR, ColumnEncoding
from synth.models.simplex import project_to_simplex
from synth.privacy.bins import Bins, pieces
from synth.privacy.more.lookups import Lookup
from synth.schema import ModelledColumn

__all__ = ["CalibratedColumn"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

_QUANTILES = np.linspace(0.0, 1.0, 257)

_SWEEPS, _ROUNDS = 12, 60

_MOST_EXACT = 64
"""Most choices whose biases are set one after another."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedColumn:
    """One column's coordinates and how to decode them.

    Attributes
    ----------
    base : ColumnEncoding
        Where the coordinates are; the first is the number's, if the column has a grid.
    grid : CoarseGrid
        The finest cells in which the column was counted.
    proportions : array of shape (levels,)
        Estimated share of the rows in each.
    ranked : bool
        Whether the number's coordinate is its rank.
    quantiles : array of shape (257,)
        Evenly spaced quantiles of a drawn rank.
    biases : array of shape (k, choices)
        Added to the scores in every class before the best choice is taken.
    """

    base: ColumnEncoding
    grid: CoarseGrid
    proportions: Vector
    ranked: bool
    quantiles: Vector
    biases: Vector

    @classmethod
    def of(cls, one_way: OneWayMarginal, start: int, *, ranked: bool) -> Self:
        """Lay out a column as it was counted; nothing is calibrated yet."""
        base = ColumnEncoding(one_way.column, start)
        ranked = ranked and one_way.column.levels > 1
        return cls(base, one_way.grid, one_way.proportions, ranked, 2 * _QUANTILES - 1, np.zeros((1, 1)))

    @property
    def column(self) -> ModelledColumn:
        """The declared column."""
        return self.base.column

    @property
    def atoms(self) -> int:
        """Number of codes that are not on a grid."""
        return self.column.size - self.column.levels

    @property
    def is_calibrated_by_draws(self) -> bool:
        """Whether decoding depends on draws: true except for a plain number."""
        return self.ranked or self.atoms > 0

    @property
    def table(self) -> Lookup:
        """The vector of every code, for the private session."""
        if not self.ranked:
            return self.base.table
        levels = self.grid.levels
        rows = np.zeros((levels + self.atoms, self.base.width))
        rows[:levels, 0] = self._ranks()
        rows[levels:, 1:] = INDICATOR * np.eye(self.atoms)
        widths = np.append(self.grid.width[:levels], np.ones(self.atoms, dtype=np.int64))
        return Lookup(self.column.name, rows, Bins.of_runs(np.arange(levels + self.atoms), widths))

    @property
    def moments(self) -> tuple[Vector, Vector]:
        """Estimated mean and variance of every coordinate, each of shape (width,)."""
        table, per_code = self.table, self.proportions / self.grid.width
        places, rows = (one or Bins.of_codes(np.arange(self.column.size)) for one in (self.grid.bins, table.bins))
        mass = np.zeros(len(table.table))
        for first, last, (place, row) in pieces(0, self.column.size, places, rows):
            np.add.at(mass, row, per_code[place] * (last - first + 1))
        mean = mass @ table.table
        return mean, np.maximum(mass @ table.table**2 - mean**2, 0.0)

    def calibrated(self, drawn: Vector, classes: Whole, weights: Vector, means: Vector) -> Self:
        """Calibrate decoding so that draws like these get the column's distribution.

        Parameters
        ----------
        drawn : array of shape (n_draws, p)
            Whole vectors.
        classes : array of shape (n_draws,)
        weights : array of shape (k,)
            Share of the rows in every class.
        means : array of shape (k, p)
            Means of the classes, from which the frequencies of choices follow.
        """
        drawn, means = drawn[:, self.base.coordinates], means[:, self.base.coordinates]
        if not self.is_calibrated_by_draws:
            return self
        scores = self._scores(drawn)
        wanted = self._frequencies(means)
        biases = np.stack([_biases(scores[classes == place], one) for place, one in enumerate(wanted)])
        made = replace(self, biases=biases)
        return made.with_quantiles(drawn, classes, weights) if self.ranked else made

    def with_quantiles(self, own: Vector, classes: Whole, weights: Vector) -> Self:
        """Learn the distribution of the drawn rank, from draws on the grid, with classes weighted by their shares.

        Parameters
        ----------
        own : array of shape (n_draws, width)
            The column's coordinates.
        classes : array of shape (n_draws,)
        weights : array of shape (k,)
        """
        on_grid = self._chosen(own, classes) < 0
        mass = (weights / np.maximum(np.bincount(classes, minlength=len(weights)), 1))[classes] * on_grid
        order = np.argsort(own[:, 0], kind="stable")
        below = np.cumsum(mass[order]) - mass[order] / 2
        if mass.sum() <= 0:
            return self
        return replace(self, quantiles=np.interp(_QUANTILES, below / mass.sum(), own[order, 0]))

    def decode(self, vectors: Vector, classes: Whole, random: np.random.Generator) -> Whole:
        """Return the code of every row.

        Parameters
        ----------
        vectors : array of shape (n_rows, p)
            Whole vectors.
        classes : array of shape (n_rows,)
        random : Generator
            Draws a code within a level.

        Returns
        -------
        array of shape (n_rows,), int64
        """
        own = vectors[:, self.base.coordinates]
        chosen = self._chosen(own, classes)
        if not self.column.levels:
            return chosen
        codes = np.where(chosen >= 0, self.column.levels + chosen, self._on_grid(own[:, 0], random))
        return np.asarray(codes, dtype=np.int64)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that decoding needs beyond the schema."""
        return {
            "ranked": np.array([int(self.ranked)]),
            "proportions": self.proportions.copy(),
            "quantiles": self.quantiles.copy(),
            "biases": self.biases.copy(),
        }

    @classmethod
    def from_state(
        cls, column: ModelledColumn, start: int, grid: CoarseGrid, state: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Rebuild what :meth:`state` returned."""
        proportions, quantiles, biases = (
            state[name].astype(np.float64) for name in ("proportions", "quantiles", "biases")
        )
        return cls(ColumnEncoding(column, start), grid, proportions, bool(state["ranked"][0]), quantiles, biases)

    def _ranks(self) -> Vector:
        """Return the rank of every level of the grid, from -1 to 1, shape (levels,)."""
        masses = self.proportions[: self.grid.levels]
        total = float(masses.sum())
        if total <= 0:
            return np.linspace(-1.0, 1.0, len(masses))
        return (2 * np.cumsum(masses) - masses) / total - 1.0

    def _scores(self, own: Vector) -> Vector:
        """Return the scores of the choices: a category's codes; for a number its grid, at 0, and its other codes."""
        if not self.column.levels:
            return own
        return np.concatenate([np.zeros((len(own), 1)), own[:, 1:] / INDICATOR], axis=1)

    def _frequencies(self, means: Vector) -> Vector:
        scores = self._scores(means)
        if self.column.levels:
            scores[:, 0] = 1.0 - scores[:, 1:].sum(axis=1)
        return project_to_simplex(scores)

    def _chosen(self, own: Vector, classes: Whole) -> Whole:
        """Return the chosen code of a category, or of the codes that are not on a grid; -1 is the grid."""
        if not self.atoms:
            return np.full(len(own), -1, dtype=np.int64)
        biases = self.biases[classes] if len(self.biases) > 1 else self.biases
        best = np.asarray(np.argmax(self._scores(own) + biases, axis=1), dtype=np.int64)
        return best - 1 if self.column.levels else best

    def _on_grid(self, values: Vector, random: np.random.Generator) -> Whole:
        if not self.ranked:
            levels = self.column.levels
            return np.asarray(np.rint(np.clip(values, 0.0, 1.0) * (levels - 1)), dtype=np.int64)
        upper = np.cumsum(self.proportions[: self.grid.levels])
        ranks = np.interp(values, self.quantiles, _QUANTILES) * upper[-1]
        places = np.minimum(np.searchsorted(upper, ranks, side="left"), len(upper) - 1)
        return self.grid.codes(places, random.random(len(values)))


def _biases(scores: Vector, wanted: Vector) -> Vector:
    """Return biases of scores with which the choices have given frequencies, as closely as these draws allow.

    One choice after another gets the bias at which it wins with its frequency against the current others, several times
    over. Longer lists are adjusted together, in decreasing steps, which is less exact.

    Parameters
    ----------
    scores : array of shape (n_draws, choices)
    wanted : array of shape (choices,), not negative, sum 1
    """
    choices = len(wanted)
    if choices < 2 or not len(scores):
        return np.zeros(choices)
    if choices > _MOST_EXACT:
        return _biases_of_long_lists(scores, wanted)
    biases = np.where(wanted > 0, 0.0, -1e6)
    for place in np.tile(np.argsort(wanted, kind="stable"), _SWEEPS):
        if wanted[place] > 0:
            against = scores + biases
            against[:, place] = -np.inf
            needed = against.max(axis=1) - scores[:, place]
            biases[place] = float(np.quantile(needed, wanted[place]))
    return biases


def _biases_of_long_lists(scores: Vector, wanted: Vector) -> Vector:
    biases = np.zeros(len(wanted))
    least = 0.5 / len(scores)
    spread = max(float(scores.std(axis=0).max()), 1e-6)
    for number in range(_ROUNDS):
        found = np.bincount(np.argmax(scores + biases, axis=1), minlength=len(wanted)) / len(scores)
        biases += spread / (1.0 + number / 8) * np.log((wanted + least) / (found + least))
    return biases
