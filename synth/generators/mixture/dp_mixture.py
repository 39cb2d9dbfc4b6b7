"""dp-mixture: a mixture of products for each class of the label, by EM on one noisy sum a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.coarse_grid import CoarseGrid, coarse_grid
from synth.generators.mixture import CARD, MixtureOptions
from synth.generators.protocol import Card, Fact, Generator, GeneratorTask, Picture, State
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.generators.stacked import column_weights
from synth.models.mixture import LEAST_PROBABILITY, Mixture
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.bins import Bins
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import SCORE_BITS, Responsibilities
from synth.progress import Progress
from synth.schema import ModelledColumn

__all__ = ["DpMixture", "MixtureState", "components_and_steps", "maximise"]

MOST_CLASSES = 20
"""A label with more classes is treated like any other column."""

FINE_BINS = 256
"""Levels of a number that is modelled by a mean and a variance."""

ENOUGH = 60.0
"""Rows of an average component, in units of the noise that a count would have in a single step."""

SPARE = 2
"""Components in the first steps for each one that is kept: the smaller half of them is dropped."""

STEPS_WITH_SPARE = 2

OF_NUMBER, OF_SQUARE = 1.0, 2.0
"""Factors of x and of x^2 - 1/2 before noise."""

LEAST_VARIANCE = 4e-4
"""Least variance of a number within a component, where half its declared range is 1."""

LOWEST_SCORE = -60 * 2**SCORE_BITS
"""Smallest logarithm of a proportion or a density, in integer steps; it keeps sums within the range of a map."""

_MOST_DRAWN = 40
"""Most columns, and most kinds of row, in the picture."""

_MOST_LISTED = 200

_MOST_DISTINCTIONS = 3
"""Columns that are reported for a component."""


def components_and_steps(noise: float, rows_per_class: float) -> tuple[int, int]:
    """Return the number of components of a class and of steps; a function of public or released numbers alone.

    Parameters
    ----------
    noise : float
        Of a count, in rows, if all of the budget went into one step.
    rows_per_class : float

    Notes
    -----
    Wang et al. leave both open. A component is worth its noise if it has ``ENOUGH`` times as many rows.
    """
    for components, steps in ((8, 10), (4, 8)):
        if rows_per_class >= components * ENOUGH * noise:
            return components, steps
    return 1, 1


@dataclass(frozen=True, slots=True, eq=False)
class MixtureState:
    """A mixture whose components are products of their columns: Gaussians for numbers, tables for categories.

    Attributes
    ----------
    weights : array of shape (K,)
    means, variances : arrays of shape (K, d)
        Of numbers within [-1, 1]; d may be 0, which leaves latent classes.
    proportions : tuple of arrays of shape (K, categories)
        One for each column of categories.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    proportions: tuple[NDArray[np.float64], ...]


def maximise(
    sizes: NDArray[np.float64],
    numbers: NDArray[np.float64],
    squares: NDArray[np.float64],
    counts: Sequence[NDArray[np.float64]],
    *,
    least_size: float = 0.0,
) -> MixtureState:
    """Return the mixture that follows from noisy sums of responsibilities, made proper.

    Counts are projected onto proportions; means are clipped to [-1, 1] and variances to [``LEAST_VARIANCE``, 1]; a
    component whose size is at most ``least_size`` is dropped: its weight is 0, unless that holds for all.

    Parameters
    ----------
    sizes : array of shape (K,)
        Sums of responsibilities.
    numbers, squares : arrays of shape (K, d)
        Sums of responsibilities times x, and times x^2 - 1/2, so that they lie around 0.
    counts : sequence of arrays of shape (K, categories)
    least_size : float
        Such as the noise of a size.
    """
    kept = sizes > max(least_size, 0.0)
    if not kept.any():
        kept = sizes == sizes.max()
    rows = np.maximum(sizes, 1.0)[:, None]
    means = np.clip(numbers / rows, -1.0, 1.0)
    variances = np.clip(squares / rows + 0.5 - means**2, LEAST_VARIANCE, 1.0)
    weights = np.where(kept, np.maximum(sizes, 0.0), 0.0)
    weights = weights / weights.sum() if weights.sum() > 0 else kept / kept.sum()
    return MixtureState(weights, means, variances, tuple(project_to_simplex(one / rows) for one in counts))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A column as the mixture models it: its levels, and for a Gaussian their positions in [-1, 1].

    ``groups`` are what is counted: every level, or the grid as a whole and every other level.
    """

    column: ModelledColumn
    places: CoarseGrid
    positions: NDArray[np.float64] | None

    @classmethod
    def of(cls, column: ModelledColumn, options: MixtureOptions) -> Self:
        if options.numbers == "bins" or not column.levels or column.is_categorical:
            return cls(column, _places(column, options.bins), None)
        places = coarse_grid(column, grid=FINE_BINS, atoms=column.size)
        middles = np.linspace(-1.0, 1.0, places.levels) if places.levels > 1 else np.zeros(1)
        return cls(column, places, middles)

    @property
    def groups(self) -> NDArray[np.int32]:
        """Group of every level, shape (levels,)."""
        if self.positions is None:
            return np.arange(self.places.size, dtype=np.int32)
        return np.concatenate(
            [np.zeros(self.places.levels, dtype=np.int32), 1 + np.arange(self.places.atoms, dtype=np.int32)]
        )

    def questions(self, weight: float) -> Iterator[tuple[FeatureMap, float]]:
        """Yield the column's counts and sums, with weights whose squares are shares of that of ``weight``."""
        name, size, bins = self.column.name, self.column.size, self.places.bins
        groups = int(self.groups.max()) + 1
        counted = groups > 1
        if counted:
            own = Bins.of_codes(self.groups) if bins is None else bins.merged(self.groups)
            yield OneHot((name,), (own,), (size,)), weight
        if self.positions is not None:
            moments = np.zeros((self.places.size, 2))
            x = self.positions
            moments[: x.size] = np.stack([OF_NUMBER * x, OF_SQUARE * (x * x - 0.5)], axis=1) / _LONGEST
            yield Lookup(name, moments, bins), weight * _LONGEST

    def scores(self, state: MixtureState, place: int, number: int) -> NDArray[np.float64]:
        """Return logarithms to base 2, up to a constant, shape (levels, components).

        ``place`` and ``number`` are the indices of the column among the state's tables and numbers.
        """
        groups = np.maximum(state.proportions[place], LEAST_PROBABILITY)[:, self.groups]
        scores = np.log(groups)
        if self.positions is not None:
            mean, variance = state.means[:, [number]], state.variances[:, [number]]
            scores[:, : self.positions.size] -= (self.positions - mean) ** 2 / (2 * variance) + np.log(variance) / 2
        return np.asarray(scores.T / math.log(2))

    def probabilities(self, state: MixtureState, place: int, number: int) -> NDArray[np.float64]:
        """Return the proportions of the levels in every component, shape (components, levels)."""
        groups = state.proportions[place]
        if self.positions is None:
            return groups
        bell = -((self.positions - state.means[:, [number]]) ** 2) / (2 * state.variances[:, [number]])
        bell = np.exp(bell - bell.max(axis=1, keepdims=True))
        return np.concatenate([groups[:, :1] * bell / bell.sum(axis=1, keepdims=True), groups[:, 1:]], axis=1)


_LONGEST = math.sqrt(OF_NUMBER**2 + OF_SQUARE**2 / 4)


def _places(column: ModelledColumn, bins: int) -> CoarseGrid:
    """Return equal parts of the grid, with zero separate if it is on the grid, and a level for every other code."""
    equal = coarse_grid(column, grid=bins, atoms=column.size)
    zero = column.code_near_zero
    if column.levels <= bins or column.scale.unit or not column.scale.low <= 0.0 <= column.scale.high:
        return equal
    first = np.unique(np.append(equal.first, [zero, zero + 1]))
    first = first[first < column.size]
    levels = int((first < column.levels).sum())
    return CoarseGrid(levels, len(first) - levels, first, np.diff(np.append(first, column.size)))


class DpMixture(Generator):
    r"""Mixtures of products, one for each class of the label, fitted by EM with one noisy sum in each step.

    A step asks for onehot(label) x r x t: t is a 1 and an indicator of each column's level, and r are the
    responsibilities of all components of the class, which add up to at most 1. So the sum changes by at most the
    length of t, however many components and classes there are. Late steps are averaged: their answers are about
    nearly the same responsibilities, and the average has less noise than any of them.

    Notes
    -----
    Differs from DP-EM (Park 2017; Wang 2020, Algorithm 3): one sensitivity for all statistics of a step; averages of
    late steps (as in Delyon 1999); twice as many components at first as are kept.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: MixtureOptions) -> None:
        self._task, self._options = task, options
        schema = task.schema
        self._label = None if task.label is None else schema.names.index(task.label)
        if self._label is not None and schema.modelled[self._label].size > MOST_CLASSES:
            self._label = None
        self._parts = tuple(_Part.of(one, options) for d, one in enumerate(schema.modelled) if d != self._label)
        self._classes: NDArray[np.float64] = np.ones(1)
        self._mixtures: tuple[Mixture, ...] = ()

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Count the classes, then take noisy steps of EM."""
        fit = _Fit(self._task, self._options, session, self._parts, self._by)
        if self._by is not None:
            progress.phase("Counting classes")
            self._classes = fit.classes(self._by)
        progress.phase("Finding kinds of row")
        self._mixtures = fit.mixtures(progress)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows whose counts follow classes and components to within one row, and codes evenly within levels."""
        check_rows(n_rows)
        if not self._mixtures:
            raise InputError("This generator has not been fitted yet.")
        random = random_source(seed)
        counts = rounded_counts(self._classes, n_rows, random)
        places = np.concatenate(
            [one.sample(int(count), random) for one, count in zip(self._mixtures, counts, strict=True)]
        )
        drawn = [part.places.codes(places[:, d], random.random(n_rows)) for d, part in enumerate(self._parts)]
        if self._label is not None:
            drawn.insert(self._label, np.repeat(np.arange(len(counts)), counts))
        return np.stack(drawn, axis=1)[random.permutation(n_rows)]

    def state(self) -> State:
        """Return the classes' proportions and every class's mixture."""
        if not self._mixtures:
            raise InputError("This generator has not been fitted yet.")
        mixtures = {
            f"mixture.{place}.{name}": array.copy()
            for place, one in enumerate(self._mixtures)
            for name, array in one.state().items()
        }
        return {"classes": self._classes.copy(), **mixtures}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: MixtureOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        made = cls(task, options)
        made._classes = state["classes"].astype(np.float64)
        made._mixtures = tuple(
            Mixture.from_state(
                made._sizes,
                {name: state[f"mixture.{place}.{name}"].astype(np.float64) for name in ("weights", "probabilities")},
            )
            for place in range(len(made._classes))
        )
        return made

    def facts(self) -> tuple[Fact, ...]:
        """Return the components, their sizes, and what distinguishes each from its class."""
        rows = tuple(
            (self._class_name(c), k + 1, round(float(self._classes[c] * one.weights[k]), 4), self._distinctions(one, k))
            for c, one in enumerate(self._mixtures)
            for k in np.argsort(-one.weights, kind="stable").tolist()
        )
        kinds = Fact(
            "kinds",
            "Kinds of row",
            len(rows),
            "Within a kind, columns are drawn independently. The shares of rows follow from noisy answers.",
            ("class", "kind", "share of rows", "what it has more of than its class"),
            rows[:_MOST_LISTED],
        )
        if self._options.numbers == "bins":
            return (kinds,)
        warning = "Numbers are Gaussian within a kind: spikes, limits and long tails are smoothed away."
        return (kinds, Fact("numbers", "Numbers", "Gaussian components", warning))

    def pictures(self) -> tuple[Picture, ...]:
        """Return which columns distinguish the kinds of row: the most distinctive columns, and the largest kinds."""
        if not self._mixtures or not self._parts:
            return ()
        apart = np.concatenate(
            [np.stack([_apart(one, d) for d in range(len(self._parts))], axis=1) for one in self._mixtures]
        )
        shares = np.concatenate([size * one.weights for size, one in zip(self._classes, self._mixtures, strict=True)])
        names = [
            f"{self._class_name(c)} {k + 1}".strip()
            for c, one in enumerate(self._mixtures)
            for k in range(one.weights.size)
        ]
        columns = np.sort(np.argsort(-(shares @ apart), kind="stable")[:_MOST_DRAWN])
        kinds = np.sort(np.argsort(-shares, kind="stable")[:_MOST_DRAWN])
        return (
            Picture(
                name="kinds",
                title="What distinguishes kinds of row",
                kind="heat_map",
                across="column",
                up="class and kind",
                sentence="Total variation between the values of a kind and of its class: 0 if they are alike, at "
                "most 1.",
                unit="total variation",
                columns=tuple(self._parts[d].column.name for d in columns),
                rows=tuple(names[k] for k in kinds),
                values=tuple(tuple(round(float(one), 4) for one in apart[k, columns]) for k in kinds),
            ),
        )

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(part.places.size for part in self._parts)

    @property
    def _by(self) -> OneHot | None:
        if self._label is None:
            return None
        column = self._task.schema.modelled[self._label]
        return OneHot((column.name,), (None,), (column.size,))

    def _class_name(self, place: int) -> str:
        if self._label is None:
            return ""
        return self._task.schema.modelled[self._label].texts([place], missing="missing")[0]

    def _distinctions(self, mixture: Mixture, component: int) -> str:
        """Name the levels that a component has most in excess of its class, one for each column."""
        found = []
        for d in range(len(self._parts)):
            more = mixture.column(d)[component] - mixture.weights @ mixture.column(d)
            place = int(more.argmax())
            found.append((float(more[place]), d, place))
        chosen = [one for one in sorted(found, key=lambda one: (-one[0], one[1]))[:_MOST_DISTINCTIONS] if one[0] > 0]
        return "; ".join(
            f"{self._parts[d].column.name} {self._place_name(self._parts[d], place)} (+{100 * more:.0f} points)"
            for more, d, place in chosen
        )

    @staticmethod
    def _place_name(part: _Part, place: int) -> str:
        first = int(part.places.first[place])
        last = first + int(part.places.width[place]) - 1
        low, high = part.column.texts([first, last], missing="missing")
        return low if first == last else f"{low} to {high}"


class _Fit:
    """One fit: what is declared, and the answers so far."""

    def __init__(
        self,
        task: GeneratorTask,
        options: MixtureOptions,
        session: AnswerSource,
        parts: tuple[_Part, ...],
        by: OneHot | None,
    ) -> None:
        self._options, self._session, self._parts, self._by = options, session, parts, by
        self._random = random_source(task.seed)
        self._source = f"generator {CARD.name}"
        self._n_classes = 1 if by is None else by.dimension
        self._question, self._weights = self._asked()
        self._components, self._steps = self._decided()

    def classes(self, by: OneHot) -> NDArray[np.float64]:
        """Count the classes of the label; shape (classes,), sum 1."""
        share = self._options.class_share * self._session.remaining_share
        answer = self._session.noisy_sum(by, share=share, query="classes", source=self._source)
        return project_to_simplex(answer.value / max(self._session.rows.value, 1.0))

    def mixtures(self, progress: Progress) -> tuple[Mixture, ...]:
        """Ask for the sums of every step and return the mixture of every class."""
        each = self._session.remaining_share / self._steps
        spare = STEPS_WITH_SPARE if self._components > 1 and self._steps > 2 * STEPS_WITH_SPARE else 0
        components = self._components * SPARE if spare else self._components
        states = [self._start(components) for _ in range(self._n_classes)]
        late = max(self._steps // 2, spare)
        sums, averaged = np.zeros(0), 0
        for step in range(self._steps):
            progress.step(step + 1, self._steps)
            answer = self._session.noisy_sum(
                self._step_question(states),
                share=each if step + 1 < self._steps else self._session.remaining_share,
                query=f"step {step + 1}",
                source=self._source,
            )
            now = np.asarray(answer.value).reshape(self._n_classes, components, -1) / self._weights
            averaged = averaged + 1 if step > late else 1
            sums = now if averaged == 1 else sums + (now - sums) / averaged
            noise = answer.noise_std / float(self._weights[0]) / math.sqrt(averaged)
            states = [self._maximised(sums[c], noise) for c in range(self._n_classes)]
            if step + 1 == spare:
                components = self._components
                states = [_largest(one, components) for one in states]
        return tuple(map(self._mixture, states))

    def _decided(self) -> tuple[int, int]:
        """Return components and steps: from the options, or by the public rule."""
        schema = self._session.schema
        unit = between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), schema)
        noise = unit / math.sqrt(self._session.budget.mu_squared) / float(self._weights[0])
        by_rule = components_and_steps(noise, self._session.rows.value / self._n_classes)
        components = self._options.components or (by_rule[0] if self._parts else 1)
        steps = self._options.steps or (by_rule[1] if components == by_rule[0] else 1 if components == 1 else 10)
        return components, steps

    def _asked(self) -> tuple[Stack, NDArray[np.float64]]:
        """Return the vector t that is multiplied by a row's responsibilities, and the weight of each of its entries."""
        columns = tuple(part.column for part in self._parts)
        importance = np.array(column_weights(columns)) * math.sqrt(len(columns)) if columns else np.zeros(0)
        found: list[tuple[FeatureMap, float]] = [(Constant(), 1.0)]
        for part, weight in zip(self._parts, importance.tolist(), strict=True):
            found += part.questions(weight)
        maps, weights = zip(*found, strict=True)
        length = math.sqrt(math.fsum(weight * weight for weight in weights)) * (1 + 1e-9)
        stack = Stack(tuple(maps), tuple(weight / length for weight in weights))
        return stack, np.repeat(stack.weights, [one.dimension for one in maps])

    def _start(self, components: int) -> MixtureState:
        """Return random proportions from a public seed."""
        numbers = sum(part.positions is not None for part in self._parts)
        return MixtureState(
            np.full(components, 1.0 / components),
            self._random.uniform(-1.0, 1.0, (components, numbers)),
            np.full((components, numbers), 0.25),
            tuple(self._random.dirichlet(np.ones(int(part.groups.max()) + 1), components) for part in self._parts),
        )

    def _step_question(self, states: list[MixtureState]) -> Product:
        weights = np.stack([np.log2(np.maximum(one.weights, LEAST_PROBABILITY)) for one in states])
        tables, number = [], 0
        for place, part in enumerate(self._parts):
            tables.append(_whole(np.stack([part.scores(one, place, number) for one in states])))
            number += part.positions is not None
        shares = Responsibilities(
            tuple(part.column.name for part in self._parts),
            tuple(part.places.bins for part in self._parts),
            tuple(tables),
            _whole(weights),
            self._by,
        )
        return Product((shares, self._question) if self._by is None else (self._by, shares, self._question))

    def _maximised(self, sums: NDArray[np.float64], noise: float) -> MixtureState:
        """Return the mixture that follows from the sums of one class, shape (components, entries of t)."""
        sizes, start = sums[:, 0], 1
        counts, numbers, squares = [], [], []
        for part in self._parts:
            groups = int(part.groups.max()) + 1
            counts.append(sums[:, start : start + groups] if groups > 1 else sizes[:, None])
            start += groups if groups > 1 else 0
            if part.positions is not None:
                numbers.append(sums[:, start] * (_LONGEST / OF_NUMBER))
                squares.append(sums[:, start + 1] * (_LONGEST / OF_SQUARE))
                start += 2
        none = np.zeros((0, len(sizes)))
        return maximise(sizes, np.array(numbers or none).T, np.array(squares or none).T, counts, least_size=noise)

    def _mixture(self, state: MixtureState) -> Mixture:
        kept = state.weights > 0
        tables, number = [], 0
        for place, part in enumerate(self._parts):
            tables.append(part.probabilities(state, place, number)[kept])
            number += part.positions is not None
        sizes = tuple(part.places.size for part in self._parts)
        probabilities = np.concatenate(tables, axis=1) if tables else np.zeros((int(kept.sum()), 0))
        return Mixture(sizes, state.weights[kept] / state.weights[kept].sum(), np.ascontiguousarray(probabilities))


def _apart(mixture: Mixture, position: int) -> NDArray[np.float64]:
    """Return the total variation between every component's column and that of all, shape (components,)."""
    column = mixture.column(position)
    return np.asarray(np.abs(column - mixture.weights @ column).sum(axis=1) / 2)


def _largest(state: MixtureState, components: int) -> MixtureState:
    """Return the largest components alone."""
    chosen = np.argsort(-state.weights, kind="stable")[:components]
    weights = state.weights[chosen]
    return MixtureState(
        weights / weights.sum(),
        state.means[chosen],
        state.variances[chosen],
        tuple(one[chosen] for one in state.proportions),
    )


def _whole(scores: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return logarithms in integer steps, clipped at a lowest score."""
    steps = np.rint(scores * 2**SCORE_BITS)
    return np.asarray(np.clip(steps, LOWEST_SCORE, -LOWEST_SCORE), dtype=np.int32)
