"""Kernel sum-of-squares densities of the numbers, by class, fitted to one noisy mean embedding (Muzellec 2021)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from synth.errors import InputError
from synth.generators.coarse_grid import coarse_grid, stairs
from synth.generators.groups import numbers_and_groups
from synth.generators.protocol import Card, Fact, Generator, GeneratorTask, Picture, State
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.generators.sums_of_squares import CARD, FEW_ROWS, KernelSosOptions
from synth.models.simplex import project_to_simplex
from synth.models.sos_density import SumOfSquares, fourier_features, interval_products, sample_clipped
from synth.models.sos_estimation import fit_smoothest, herd, sobol_pool
from synth.privacy.answers import AnswerSource, NoisyAnswer, RowCount
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.fourier import STEPS_PER_TURN, Fourier, Positions, angle_steps
from synth.privacy.more.products import Product
from synth.progress import Progress
from synth.schema import ModelledColumn
from synth.system.machine import resolved_device

__all__ = ["KernelSos"]

Vector = NDArray[np.float64]
Codes = NDArray[np.int64]

QUERY = "mean embedding"

_POSITIONS = 255
"""A declared range is mapped to the integers 0 ... 255, so that the private pass computes angles exactly."""

_LENGTHS = {2: (0.1, 0.25), 4: (0.12, 0.25, 0.5), 6: (0.15, 0.3, 0.6)}
"""Length scales that the frequencies use in turn, by the largest number of numbers in the table."""

_BANDWIDTHS = (0.06, 0.09, 0.14, 0.2)
"""The choices of ``auto``, as fractions of a range; see :func:`_bandwidths`."""

_COUNT_SHARE = 0.05
"""Part of the squared norm for counting the rows of every group, if they are not known."""

_LEAST_SUPPORT = 20

_PADDING = 0.5
"""Rows are drawn from the box of declared ranges, widened by this on every side, and clipped."""

_SENTENCE = "Share of these rows in each cell by the fitted density, which follows from noisy answers alone."

_PLACES, _PAIRS, _CLASSES = 24, 6, 8
"""Cells along a side of a picture; most pictures of pairs over all rows; most of the first pair by class."""


@dataclass(frozen=True, slots=True, eq=False)
class _Density:
    """The fit of one group.

    Attributes
    ----------
    sums : SumOfSquares
        Density of the numbers that are on their grids in this group, scaled to [0, 1].
    misfit, floor : float
        Squared distance of its embedding from the released one, and its expectation from noise alone.
    """

    sums: SumOfSquares
    misfit: float
    floor: float


def _bandwidths(support: int, columns: int) -> tuple[float, ...]:
    """Return the bandwidths that this many support points can support; they follow from declared numbers alone.

    A kernel narrower than half the distance from a point to its nearest neighbour leaves holes between points. An
    embedding does not see them, as they are finer than its length scales: the less noise there is, the narrower the
    kernel that fits best, and the worse the density. The distance is that of random points on a cube without edges, as
    the density is not known yet.
    """
    ball = math.pi ** (columns / 2) / math.gamma(columns / 2 + 1)
    nearest = math.gamma(1 + 1 / columns) / (support * ball) ** (1 / columns)
    return tuple(one for one in _BANDWIDTHS if one >= nearest / 2) or (max(_BANDWIDTHS),)


class KernelSos(Generator):
    r"""A kernel sum-of-squares density for every group of rows, fitted to one noisy mean embedding.

    Rows are grouped by the label and by every cell that is not a number on its grid (special values, missing cells,
    categories). One question: Fourier features of the numbers, of length 1 for any row, by group, and the number of
    rows of every group if it is not known. Support points, bandwidth and coefficients follow from the answer and from
    public seeds. A cell that is not on its grid has position 0, so that the embedding of its group is that of the other
    numbers.

    A group's embedding is shrunk towards that of all groups with the same numbers, by the share of the distance that
    its noise explains (James and Stein's rule, positive part).

    Notes
    -----
    Differs from the paper, which is not private and publishes support points that are rows: here they are chosen from
    a public pool by kernel herding on the noisy embedding, and the density is fitted to that embedding.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: KernelSosOptions) -> None:
        self._task, self._options = task, options
        self._numbers, self._axes = numbers_and_groups(task.schema, task.label, CARD.needs.groups)
        self._groups = math.prod(axis.size for axis in self._axes)
        self._map = _fourier(self._numbers, options.features, task.seed)
        self._probabilities: Vector | None = None
        self._rows: Vector = np.zeros(self._groups)
        self._densities: dict[int, _Density] = {}

    # Asking

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Release one mean embedding by group, and fit a density to each."""
        resolved_device(self._task.device)  # refuses a missing device before anything is spent
        progress.phase("Measuring")
        question = self._question()
        answer = session.noisy_sum(
            question, share=session.remaining_share, query=QUERY, source=f"generator {self.card.name}"
        )
        progress.phase("Fitting")
        self._rows, sums, noise_std = self._counted(answer, session.rows)
        self._probabilities = project_to_simplex(self._rows / max(float(self._rows.sum()), 1.0))
        groups = [g for g in range(self._groups) if self._probabilities[g] > 0 and self._on_grid(g)]
        # Groups with the same numbers follow each other: they share a pool, and a pool is large.
        for places, alike in itertools.groupby(sorted(groups, key=self._on_grid), key=self._on_grid):
            pool = sobol_pool(len(places))
            features = fourier_features(pool, self._radians[:, places])
            for group in alike:
                progress.check_cancelled()
                progress.step(len(self._densities), len(groups))
                embedding, noise = self._embedding(group, sums, noise_std)
                support = pool[herd(features, embedding, points=self._support)]
                self._densities[group] = self._fitted(support, self._radians[:, places], embedding, noise)
        progress.step(len(groups), max(len(groups), 1))
        return self

    def _question(self) -> FeatureMap:
        """Return the features of a row: Fourier features, and 1 if rows have to be counted, by group."""
        features: FeatureMap = self._map
        if self._counts_rows:
            features = Stack((Constant(), features), (math.sqrt(_COUNT_SHARE), math.sqrt(1.0 - _COUNT_SHARE)))
        axes = tuple(OneHot((axis.column.name,), (axis.bins,), (axis.column.size,)) for axis in self._axes)
        return Product((*axes, features)) if axes else features

    @property
    def _counts_rows(self) -> bool:
        """Whether the rows of groups are counted; a single group needs no count if the number of rows is public."""
        return self._groups > 1 or not self._task.schema.rows_are_public

    def _counted(self, answer: NoisyAnswer, rows: RowCount) -> tuple[Vector, Vector, float]:
        """Return the rows of every group, the sums of its features, and the noise on these."""
        values = np.asarray(answer.value, dtype=np.float64).reshape(self._groups, -1)
        if not self._counts_rows:
            return np.array([max(rows.value, 1.0)]), values, answer.noise_std
        counted = self._question()
        stack = counted.factors[-1] if isinstance(counted, Product) else counted
        weights = stack.weights if isinstance(stack, Stack) else (1.0, 1.0)
        counts = values[:, 0] / weights[0]
        variance = (answer.noise_std / weights[0]) ** 2
        # The total is known more accurately than the counts, or exactly: they share the difference.
        counts += (rows.value - counts.sum()) * variance / (self._groups * variance + rows.noise_std**2)
        return np.asarray(np.maximum(counts, 0.0)), values[:, 1:] / weights[1], answer.noise_std / weights[1]

    # Fitting

    def _embedding(self, group: int, sums: Vector, noise_std: float) -> tuple[Vector, float]:
        """Return a group's mean features and their noise, shrunk towards those of the groups with the same numbers."""
        counts = np.maximum(self._rows, 1.0)
        own, noise = sums[group] / counts[group], noise_std / counts[group]
        alike = [g for g in range(self._groups) if self._on_grid(g) == self._on_grid(group)]
        if len(alike) == 1:
            return own, float(noise)
        pooled = sums[alike].sum(axis=0) / counts[alike].sum()
        apart = own - pooled
        kept = max(0.0, 1.0 - apart.size * noise**2 / max(float(apart @ apart), 1e-300))
        shared = noise_std * math.sqrt(len(alike)) / counts[alike].sum()
        return pooled + kept * apart, math.sqrt((kept * noise) ** 2 + ((1.0 - kept) * shared) ** 2)

    @property
    def _support(self) -> int:
        """Number of support points of a group."""
        return max(_LEAST_SUPPORT, round(self._options.support / math.sqrt(self._groups)))

    def _fitted(self, support: Vector, frequencies: Vector, embedding: Vector, noise_std: float) -> _Density:
        given = self._options.bandwidth
        found = fit_smoothest(
            support,
            frequencies,
            embedding,
            noise_std=noise_std,
            bandwidths=_bandwidths(*support.shape) if given == "auto" else (float(given),),
            steps=self._options.steps,
        )
        return _Density(found.density, found.misfit, embedding.size * noise_std**2)

    @property
    def _radians(self) -> Vector:
        """The frequencies of the question, in radians per range."""
        return np.asarray(self._map.frequencies * (2 * math.pi * _POSITIONS / STEPS_PER_TURN), dtype=np.float64)

    def _on_grid(self, group: int) -> tuple[int, ...]:
        """Return which numbers are on their grids in a group."""
        beside = {
            axis.column.name for axis, cell in zip(self._axes, self._cells(group), strict=True) if axis.is_off(cell)
        }
        return tuple(place for place, column in enumerate(self._numbers) if column.name not in beside)

    def _cells(self, group: int) -> tuple[int, ...]:
        """Return the cell of every axis."""
        return tuple(map(int, np.unravel_index(group, [axis.size for axis in self._axes]))) if self._axes else ()

    # Drawing

    def sample(self, n_rows: int, seed: int) -> Codes:
        """Draw rows group by group, in proportion to the groups' shares."""
        check_rows(n_rows)
        random = random_source(seed)
        place_of = {name: place for place, name in enumerate(self._task.schema.names)}
        codes = np.zeros((n_rows, len(place_of)), dtype=np.int64)
        start = 0
        for group, count in enumerate(rounded_counts(self._chances, n_rows, random).tolist()):
            rows = slice(start, start + count)
            start += count
            if group in self._densities and count:
                drawn = sample_clipped(self._densities[group].sums, count, random, padding=_PADDING)
                for place, values in zip(self._on_grid(group), drawn.T, strict=True):
                    column = self._numbers[place]
                    codes[rows, place_of[column.name]] = np.rint(values * (column.levels - 1))
            for axis, cell in zip(self._axes, self._cells(group), strict=True):
                if axis.is_off(cell):
                    codes[rows, place_of[axis.column.name]] = axis.code(cell)
        return codes[random.permutation(n_rows)]

    @property
    def _chances(self) -> Vector:
        if self._probabilities is None:
            raise InputError(f"This {self.card.name} generator has not been fitted.")
        return self._probabilities

    # Saving

    def state(self) -> State:
        """Return the groups' shares, and the density of each."""
        found: dict[str, NDArray[Any]] = {"probabilities": self._chances.copy(), "rows": self._rows.copy()}
        for group, one in self._densities.items():
            found[f"points.{group}"] = one.sums.points.copy()
            found[f"coefficients.{group}"] = one.sums.coefficients.copy()
            found[f"fit.{group}"] = np.array([one.sums.bandwidth, one.misfit, one.floor])
        return found

    @classmethod
    def from_state(cls, task: GeneratorTask, options: KernelSosOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        made = cls(task, options)
        made._probabilities, made._rows = state["probabilities"].copy(), state["rows"].copy()
        for group in range(made._groups):
            if f"fit.{group}" in state:
                bandwidth, misfit, floor = state[f"fit.{group}"].tolist()
                sums = SumOfSquares(state[f"points.{group}"].copy(), state[f"coefficients.{group}"].copy(), bandwidth)
                made._densities[group] = _Density(sums, misfit, floor)
        return made

    # Reporting

    def facts(self) -> tuple[Fact, ...]:
        """Return the result of the fit for every group."""
        inside = 0.0
        rows: list[tuple[float | int | str, ...]] = []
        for group, one in self._densities.items():
            d = one.sums.points.shape[1]
            mass = one.sums.box_mass(np.zeros(d), np.ones(d))
            with threadpool_limits(1):
                values = np.linalg.eigvalsh(one.sums.coefficients)
            inside += float(self._chances[group]) * mass
            rank = int((values > 1e-6 * values[-1]).sum())
            share, *others = map(_short, (float(self._chances[group]), mass, one.misfit, one.floor))
            rows.append((self._name(group), share, one.sums.bandwidth, rank, *others))
        shares = math.fsum(float(self._chances[group]) for group in self._densities)
        few = sum(0 < self._rows[group] < FEW_ROWS for group in self._densities)
        warning = f" Groups with fewer than {FEW_ROWS} rows by the noisy counts: {few}." if few else ""
        return (
            Fact(
                "density",
                "Share of the density inside the declared ranges",
                _short(inside / shares if shares else 1.0),
                "Rows that are drawn outside are clipped to the bounds. A misfit far above the noise means that the "
                f"rows have more structure than this density can show.{warning}",
                ("group", "share of rows", "bandwidth", "rank", "inside", "misfit", "noise"),
                tuple(rows),
            ),
        )

    def pictures(self) -> tuple[Picture, ...]:
        """Return the density as heat maps: pairs of numbers over all rows, then the first pair by class."""
        if self._probabilities is None or not self._densities:
            return ()
        return tuple(self._maps()) if len(self._numbers) > 1 else self._lines()

    def _maps(self) -> Iterator[Picture]:
        pairs = [(a, b) for b in range(len(self._numbers)) for a in range(b)][:_PAIRS]
        everything = tuple(self._densities)
        for a, b in pairs:
            yield from self._map_of(everything, a, b, f"density_{a}_{b}", "")
        if self._groups > 1:
            for group in everything[:_CLASSES]:
                yield from self._map_of((group,), 0, 1, f"density_of_{group}", f" where {self._name(group)}")

    def _map_of(self, groups: tuple[int, ...], a: int, b: int, name: str, which: str) -> Iterator[Picture]:
        """Yield the heat map of two numbers over some groups, if both are on their grids in any of them."""
        shown = [group for group in groups if {a, b} <= set(self._on_grid(group))]
        mass = sum((self._chances[g] * self._pair_mass(g, a, b) for g in shown), np.zeros(()))
        if not shown or not float(mass.sum()) > 0:
            return
        (across, columns), (up, rows) = (self._axis_of(place) for place in (a, b))
        yield Picture(
            name=name,
            title=f"Density of {across} and {up}{which}",
            sentence=_SENTENCE,
            kind="heat_map",
            across=across,
            up=up,
            unit="% of these rows",
            columns=columns,
            rows=rows,
            values=tuple(tuple(_short(100 * value) for value in line) for line in (mass / mass.sum()).T.tolist()),
        )

    def _lines(self) -> tuple[Picture, ...]:
        """Return the density of the only number, a row of cells for each class."""
        across, columns = self._axis_of(0)
        groups = tuple(self._densities)[:_PLACES]
        shares = [self._mass(group, 0) for group in groups]
        values = tuple(tuple(_short(100 * part) for part in (one / one.sum()).tolist()) for one in shares)
        return (
            Picture(
                name="density",
                title=f"Density of {across}",
                sentence=_SENTENCE,
                kind="heat_map",
                across=across,
                up="group",
                unit="% of these rows",
                columns=columns,
                rows=tuple(map(self._name, groups)),
                values=values,
            ),
        )

    def _pair_mass(self, group: int, a: int, b: int) -> Vector:
        """Return the mass of every cell of two numbers, shape (cells of a, cells of b)."""
        sums = self._densities[group].sums
        matrix = sums.coefficients * self._others(group, {a, b})
        along, up = (self._cell_products(group, place).reshape(-1, matrix.size) for place in (a, b))
        with threadpool_limits(1):
            return np.asarray(np.maximum((along * matrix.reshape(-1)) @ up.T, 0.0))

    def _mass(self, group: int, a: int) -> Vector:
        matrix = self._densities[group].sums.coefficients * self._others(group, {a})
        return np.asarray(np.maximum((self._cell_products(group, a) * matrix).sum(axis=(1, 2)), 0.0))

    def _others(self, group: int, shown: set[int]) -> Vector:
        """Return the products of kernels, integrated over all numbers that are not shown."""
        sums = self._densities[group].sums
        found = np.ones(sums.coefficients.shape)
        for position, place in enumerate(self._on_grid(group)):
            if place not in shown:
                found *= interval_products(sums.points[:, position], -_PADDING, 1 + _PADDING, bandwidth=sums.bandwidth)
        return found

    def _cell_products(self, group: int, place: int) -> Vector:
        """Return the integrals over every cell of one number; the outer cells reach to the ends of the padded box."""
        sums, column = self._densities[group].sums, self._numbers[place]
        first = coarse_grid(column, grid=_PLACES, atoms=1).first[: min(column.levels, _PLACES)]
        edges = [-_PADDING, *((first[1:] - 0.5) / (column.levels - 1)).tolist(), 1 + _PADDING]
        points = sums.points[:, self._on_grid(group).index(place)]
        cells = itertools.pairwise(edges)
        return np.stack([interval_products(points, low, high, bandwidth=sums.bandwidth) for low, high in cells])

    def _axis_of(self, place: int) -> tuple[str, tuple[float | str, ...]]:
        """Return a number's name, and the value in the middle of each of its cells."""
        column = self._numbers[place]
        grid = coarse_grid(column, grid=_PLACES, atoms=1)
        middles = (grid.first + (grid.width - 1) // 2)[: grid.levels]
        return column.name, tuple(map(_number, column.texts(middles)))

    def _name(self, group: int) -> str:
        """Return a group in words."""
        cells = zip(self._axes, self._cells(group), strict=True)
        return ", ".join(axis.words(cell) for axis, cell in cells) or "all rows"


def _fourier(numbers: tuple[ModelledColumn, ...], features: int, seed: int) -> Fourier:
    """Return the feature map: frequencies of a Gaussian kernel at several length scales, from a public seed."""
    d = len(numbers)
    pairs = max((features or (600 if d <= 2 else 1000)) // 2, 1)
    lengths = next(lengths for most, lengths in _LENGTHS.items() if d <= most)
    normal = np.random.default_rng([seed, d]).standard_normal((pairs, d))
    frequencies = normal / np.resize(lengths, pairs)[:, None]
    names = tuple(column.name for column in numbers)
    return Fourier(names, tuple(map(_positions, numbers)), angle_steps(frequencies / _POSITIONS))


def _positions(column: ModelledColumn) -> Positions:
    """Return the position of every code; a code that is not on the grid is at 0, where no frequency sees it."""
    last = column.levels - 1
    places, widths = stairs(lambda code: np.rint(_POSITIONS * code / last).astype(int), column.levels)
    return Positions.of_runs(np.append(places, 0), np.append(widths, column.size - column.levels))


def _short(value: float) -> float:
    """Round a number to four digits, as a picture or a table shows it."""
    return float(f"{value:.4g}")


def _number(text: str) -> float | str:
    """Return a text as a number if it is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text
