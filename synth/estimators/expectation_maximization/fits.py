r"""Private EM, step by step: a question, its noisy answer, the next parameters; then the report.

Rows are in units of a column's spread from its centre, so that constants have the same meaning as in the paper. The
effect of the noise on the coefficients is computed without rows: each step multiplies the effect of earlier steps by
its derivative, and adds its own noise. The derivative is that of the fitted model, on rows that are drawn from it.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.estimators.expectation_maximization import GROUPS, INPUTS, REGRESSIONS, EMOptions
from synth.generators.coarse_grid import coarse_grid
from synth.generators.protocol import Card, Fact, GeneratorTask, Picture, ReleasedModel, State, Trace
from synth.privacy.answers import AnswerSource, of_kind
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Constant, Stack, binned
from synth.privacy.more.em_models import GaussianPair, MissingCovariates, Model, RegressionPair
from synth.privacy.more.em_steps import Bounding, EMStepQuestion
from synth.privacy.more.gradients import LARGEST_CLIP, SMALLEST_CLIP, NoisyGradient
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses, within_reach
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED, TruncationSetting, gaussian_mu
from synth.privacy.questions import Answer
from synth.progress import Progress
from synth.schema import ModelledColumn

__all__ = ["GaussianMixture", "MixtureOfRegressions", "RegressionWithMissingInputs"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SCALING_SHARE = 0.1
MOST_COLUMNS = 32
LARGEST_COEFFICIENT = 1024.0
NARROWEST = 1 / 64
"""Least spread of a column, as a fraction of half its declared range."""

ABOVE_NOISE = 2.0
"""Least variance of a column, in standard deviations of its noise. If values fill a small part of the declared range,
noise alone could make the measured variance far too small; steps would then overshoot and end anywhere. Too large a
spread only makes steps shorter. With this factor the variance is less than half its true value in at most one case in
forty."""

GRID = 2.0**20
"""Centres and spreads are multiples of 2^-20, so that a replay asks the same questions."""

DRAWN_ROWS, APART = 2000, 2.0**-10
WIDTH_95 = 1.959963984540054
MOST_PLACES = 2**16
"""Values of a range that are told apart; of longer ones neighbours share a place, far less than noise apart."""

INTERVALS = (
    "Intervals cover 95 % of the noise alone: they are around the coefficients that the same steps on the same rows "
    "lead to without noise, at the centres and spreads that were measured, if the model fits. How far rows of another "
    "sample would move them is not in them."
)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column as numbers from -1 to 1 over its declared range; 0 for missing.

    ``values`` are those of places, each of them one code where a range has at most ``MOST_PLACES``; ``bins`` say which
    place a code has, and ``missing`` is the code of a missing cell.
    """

    name: str
    values: Vector
    bins: Bins | None
    missing: int
    middle: float
    half: float

    @classmethod
    def of(cls, column: ModelledColumn) -> _Numbers:
        low, high = (float(end) for end in column.grid_at(np.array([0, column.levels - 1])))
        middle, half = (low + high) / 2, (high - low) / 2
        grid = coarse_grid(column, grid=MOST_PLACES, atoms=column.size)
        values = (column.comparable_at(grid.first) + column.comparable_at(grid.first + grid.width - 1)) / 2
        places = np.clip((np.nan_to_num(values, nan=middle) - middle) / half, -1.0, 1.0)
        code = column.missing_code
        return cls(column.name, places, grid.bins, -1 if code is None else code, middle, half)

    def lookup(self, of_places: Matrix) -> Lookup:
        """Return what is looked up for every code, given the numbers of places, shape (places, width)."""
        return Lookup(self.name, of_places, self.bins)

    @property
    def seen(self) -> Vector:
        """1 for every place except that of a missing cell."""
        seen = np.ones(self.values.size)
        if self.missing >= 0:
            seen[binned(np.array([self.missing]), self.bins)] = 0.0
        return seen


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """The result of a fit; the fields are the arrays of the state."""

    path: Matrix
    noise_std: Vector
    """Of every number of the mean gradient, in each step."""
    centre: Vector
    spread: Vector
    seen: Vector
    """Share of each column's cells that are not missing."""
    covariance: Matrix
    """Covariance of the last coefficients from the noise alone."""
    numbers: Vector
    """Rows, the bound, the precision, and the ratio of the paper's noise to that of the exact curve."""

    @property
    def coefficients(self) -> Vector:
        return np.asarray(self.path[-1])

    @property
    def errors(self) -> Vector:
        """Standard deviations of the coefficients."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


class _NoisyEM(ReleasedModel):
    """The common part of the three models: the columns, the steps, and the effect of the noise."""

    _kind: ClassVar[type[Model]]

    def __init__(self, task: GeneratorTask, options: EMOptions) -> None:
        self._task, self._options = task, options
        label = None if self._kind is GaussianPair else task.label
        columns = [column for column in task.schema.modelled if column.is_summable and column.levels > 1]
        numbers = [_Numbers.of(column) for column in columns]
        self._coordinates = [one for one in numbers if one.name != label]
        self._label = next((one for one in numbers if one.name == label), None)
        name, d = f"model '{self.card.name}'", len(self._coordinates)
        if self._kind is not GaussianPair and self._label is None:
            raise ConfigError(f"{name} needs a label that is a number with at least two values.")
        if not 1 <= d <= MOST_COLUMNS:
            raise ConfigError(f"{name} needs 1 to {MOST_COLUMNS} columns of numbers besides the label; there are {d}.")
        if options.algorithm == 3 and self._kind is not GaussianPair:
            raise ConfigError(f"{name} has no algorithm 3: its next step is not a mean over rows. Choose 1 or 2.")
        self._fitted: _Fitted | None = None
        self._ratio = 1.0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed to be public: none of it may be computed from the rows."""
        options = self._options
        sentences = [f"The model's noise, sigma = {options.noise_std:g}, is public knowledge."]
        if options.algorithm == 1:
            sentences.append(f"The clip norm, C = {options.clip_norm:g}, is public knowledge.")
        else:
            sentences.append(f"The second moments of the gradient, tau = {options.tau:g}, are public knowledge.")
        if options.scaling == "declared":
            sentences.append(f"The spread of columns, {options.spread:g} of half their range, is public knowledge.")
        sentences.append(f"The start, of length {options.start:g} in a direction from the seed, is public knowledge.")
        return tuple(sentences)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Measure centre and spread, then take noisy steps."""
        options, d = self._options, len(self._coordinates)
        progress.phase("Measuring")
        rows = max(session.rows.value, 1.0)
        centre, spread, seen = self._scaling(session, rows)
        budget = session.budget
        setting = TruncationSetting(
            round(rows), d, budget.epsilon, budget.delta, options.tau, options.zeta, options.steps
        )
        # The ratio of the paper's noise to that of the exact curve; a forecast needs it before any step.
        self._ratio = gaussian_mu(budget.epsilon, budget.delta) / (math.sqrt(2) * setting.epsilon_tilde)
        clip = options.clip_norm if options.algorithm == 1 else LARGEST_TRUNCATED * setting.scale
        clip, precision = min(max(clip, SMALLEST_CLIP), LARGEST_CLIP), setting.precision
        beta, path, noise = self._start(), [], []
        progress.phase("Fitting")
        for step in range(options.steps):
            question = self._question(beta, centre, spread, clip, precision)
            share = session.remaining_share / (options.steps - step)
            answer = session.noisy_gradient(
                question, share=share, query=f"step {step + 1}", source=f"model {self.card.name}"
            )
            path.append(question.parameters)
            noise.append(answer.noise_std / rows)
            moved = self._moved(question.parameters, answer.gradient / rows)
            beta = np.clip(moved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
            progress.step(step + 1, options.steps)
        found = _Fitted(
            path=np.stack([*path, beta]),
            noise_std=np.array(noise),
            centre=centre,
            spread=spread,
            seen=seen,
            covariance=np.zeros((d, d)),
            numbers=np.array([rows, clip, precision, self._ratio]),
        )
        self._fitted = dataclasses.replace(found, covariance=self._covariance(found))
        return self

    def state(self) -> State:
        """Return the path, the noise and the scales."""
        return {field.name: getattr(self._result, field.name).copy() for field in dataclasses.fields(_Fitted)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Restore a fitted model."""
        made = cls(task, options)
        fields = {field.name: np.array(state[field.name], dtype=np.float64) for field in dataclasses.fields(_Fitted)}
        made._fitted = _Fitted(**fields)
        return made

    def document(self) -> dict[str, Any]:
        """Return coefficients with intervals, in units of spreads and of the columns, and the details of the fit."""
        result, options = self._result, self._options
        rows, clip, precision, _ = result.numbers.tolist()
        low, high = result.coefficients - WIDTH_95 * result.errors, result.coefficients + WIDTH_95 * result.errors
        parts = zip(self._scaled(), result.coefficients, result.errors, low, high, strict=True)
        truncated = {"scale": clip / LARGEST_TRUNCATED, "precision": precision}
        return {
            "equation": self._equation,
            "coefficients": [
                {
                    "column": one.name,
                    "centre": at,
                    "spread": wide,
                    "coefficient": float(beta),
                    "standard_error": float(error),
                    "low": float(least),
                    "high": float(most),
                }
                for (one, at, wide), beta, error, least, most in parts
            ],
            **self._in_own_units(),
            "intervals": INTERVALS,
            "bound": {"norm": clip} if options.algorithm == 1 else {"number": clip, **truncated},
            "rows": rows,
            "path": result.path.tolist(),
            "noise_std": result.noise_std.tolist(),
        }

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        """Return how far the noise of one step moves the coefficients, by both accountings."""
        steps = of_kind(asked, NoisyGradient)
        if not steps:
            return ()
        rate = 1.0 if self._options.algorithm == 3 else self._options.step_size
        error = rate * steps[-1].noise_std / max(rows, 1.0) * math.sqrt(len(self._coordinates))
        return (
            Fact(
                "noise",
                "How far the noise of a step moves the coefficients",
                round(error, 4),
                "A distance in units of spreads; the fit ends at least this far from the result of the same steps "
                "without noise.",
                ("Accounting", "Distance"),
                _by_both(error, self._ratio),
            ),
        )

    def facts(self) -> tuple[Fact, ...]:
        """Return how far the noise moves the coefficients, by both accountings, and the coefficients."""
        result = self._result
        error, ratio = float(np.sqrt(np.trace(result.covariance))), float(result.numbers[3])
        rows = tuple(
            (one.name, round(float(beta), 4), round(float(beta - wide), 4), round(float(beta + wide), 4))
            for one, beta, wide in zip(self._coordinates, result.coefficients, WIDTH_95 * result.errors, strict=True)
        )
        return (
            Fact(
                "noise",
                "How far the noise moves the coefficients",
                round(error, 4),
                "The distance, in units of spreads, to the result of the same steps without noise; the paper's "
                f"accounting of the same budget needs {ratio:.2f} times the noise.",
                ("Accounting", "Distance"),
                _by_both(error, ratio),
            ),
            Fact(
                "coefficients",
                "Coefficients",
                len(rows),
                INTERVALS,
                ("Column", "Coefficient", "From", "To"),
                rows,
                ranges=True,
            ),
        )

    def pictures(self) -> tuple[Picture, ...]:
        """Return pictures of the fit in the columns' own units, and of the path of the coefficients."""
        result = self._result
        steps = tuple(float(step) for step in range(len(result.path)))
        traces = tuple(
            Trace(one.name, steps, tuple(result.path[:, place].tolist()))
            for place, one in enumerate(self._coordinates[:8])
        )
        path = Picture(
            name="path",
            title="Coefficients after each step",
            sentence="Once they no longer move, more steps would only add noise.",
            kind="lines",
            across="step",
            up="coefficient",
            traces=traces,
        )
        return (*self._drawn(), path)

    # Defined by each model

    _equation: ClassVar[str]

    @abstractmethod
    def _in_own_units(self) -> dict[str, Any]:
        """Return the fit in units of the columns."""

    @abstractmethod
    def _drawn(self) -> tuple[Picture, ...]:
        """Draw the fit."""

    @abstractmethod
    def _simulated_rows(self, beta: Vector, seen: Vector, random: np.random.Generator) -> Matrix:
        """Draw rows of the fitted model, in the form of its class."""

    # Steps

    @property
    def _result(self) -> _Fitted:
        if self._fitted is None:
            raise InputError("This model has not been fitted yet.")
        return self._fitted

    @property
    def _columns(self) -> list[_Numbers]:
        return [*self._coordinates, *filter(None, (self._label,))]

    @property
    def _model(self) -> Model:
        return self._kind(self._options.noise_std, as_printed=self._options.e_step == "printed")

    def _start(self) -> Vector:
        direction = np.random.default_rng(self._task.seed).standard_normal(len(self._coordinates))
        return np.asarray(direction * (self._options.start / math.sqrt(float((direction * direction).sum()))))

    def _scaling(self, session: AnswerSource, rows: float) -> tuple[Vector, Vector, Vector]:
        """Return centre and spread of every column, in halves of its range, and the share that is not missing."""
        columns = self._columns
        if self._options.scaling == "declared":
            missing = getattr(self._options, "missing_rate", 0.0)
            seen = np.array([1.0 - missing if one.missing >= 0 else 1.0 for one in columns])
            return np.zeros(len(columns)), np.full(len(columns), self._options.spread), seen
        of_columns = [
            one.lookup(np.stack([np.ones_like(one.values), one.values, one.values**2], 1) * one.seen[:, None] / 2)
            for one in columns
        ]
        weight = 1 / math.sqrt(len(columns))
        answer = session.noisy_sum(
            Stack(tuple(of_columns), (weight,) * len(columns)),
            share=SCALING_SHARE * session.remaining_share,
            query="centre and spread of columns",
            source=f"model {self.card.name}",
        )
        sums = np.asarray(answer.value, dtype=np.float64).reshape(-1, 3) * (2 / weight)
        counts = np.maximum(sums[:, 0], 1.0)
        centre = np.clip(sums[:, 1] / counts, -1.0, 1.0)
        # Noise of the mean square minus the squared mean, both divided by a noisy count.
        error = answer.noise_std * (2 / weight) / counts * np.sqrt(1 + 4 * centre**2 + centre**4)
        least = np.minimum(np.maximum(NARROWEST**2, ABOVE_NOISE * error), 1.0)
        variance = np.clip(sums[:, 2] / counts - centre * centre, least, 1.0)
        spread = np.sqrt(variance)
        return np.rint(centre * GRID) / GRID, np.rint(spread * GRID) / GRID, np.clip(sums[:, 0] / rows, 0.0, 1.0)

    def _question(self, beta: Vector, centre: Vector, spread: Vector, clip: float, precision: float) -> EMStepQuestion:
        options = self._options
        bounding: Bounding = "coordinates" if options.truncation == "clip" else "soft"
        # Halved, as no entry of a lookup may exceed 1; the factor restores it.
        of_columns = [
            one.lookup(((one.values - at) / 2 * one.seen)[:, None])
            for one, at in zip(self._columns, centre, strict=True)
        ]
        return EMStepQuestion(
            model=self._model,
            tables=tuple(of_columns),
            scales=2 / spread,
            parameters=beta,
            clip=clip,
            bounding="norm" if options.algorithm == 1 else bounding,
            precision=precision,
            statistics=options.algorithm == 3,
            hidden=tuple(one.missing for one in self._coordinates) if self._kind is MissingCovariates else (),
        )

    def _moved(self, beta: Vector, mean: Vector) -> Vector:
        """Return the parameters after a step, given the mean over rows."""
        return mean if self._options.algorithm == 3 else beta + self._options.step_size * mean

    def _covariance(self, result: _Fitted) -> Matrix:
        """Return the covariance of the last coefficients from the noise of all steps; from answers alone."""
        import torch

        rows = self._simulated_rows(result.coefficients, result.seen, np.random.default_rng(self._task.seed))
        clip, precision = result.numbers[1:3].tolist()
        d, rate = len(self._coordinates), 1.0 if self._options.algorithm == 3 else self._options.step_size
        asked = self._question(result.coefficients, result.centre, result.spread, clip, precision)

        def led_to(beta: Vector) -> Vector:
            model = asked.model
            with_statistics = asked.statistics and isinstance(model, GaussianPair)
            of_rows = model.statistics(rows, beta) if with_statistics else model.gradients(rows, beta)  # type: ignore[union-attr]
            whole = asked.bounded(torch.from_numpy(np.ascontiguousarray(of_rows.T) * 2.0**32)).numpy()
            return self._moved(beta, whole.sum(axis=1) * (clip / 2.0**24 / len(rows)))

        found = np.zeros((d, d))
        for at, noise in zip(result.path[:-1], result.noise_std, strict=True):
            sides = [[led_to(at + side * one) for side in (APART, -APART)] for one in np.eye(d)]
            slope = np.stack([(more - less) / (2 * APART) for more, less in sides], axis=1)
            found = slope @ found @ slope.T + (rate * noise) ** 2 * np.eye(d)
        return found

    # In the columns' own units

    def _scaled(self) -> list[tuple[_Numbers, float, float]]:
        """Return every coordinate with its centre and its spread in the column's own units."""
        return [self._own(place) for place in range(len(self._coordinates))]

    def _own(self, place: int) -> tuple[_Numbers, float, float]:
        one, result = self._columns[place], self._result
        return one, one.middle + one.half * float(result.centre[place]), one.half * float(result.spread[place])


class GaussianMixture(_NoisyEM):
    """Two groups of equal size around opposite centres."""

    card: ClassVar[Card] = GROUPS
    _kind = GaussianPair
    _equation = (
        "A row in units of spreads from the centre is plus or minus the coefficients, each sign as often as the other, "
        "and noise of standard deviation sigma on every number."
    )

    def _in_own_units(self) -> dict[str, Any]:
        result = self._result
        parts = list(zip(self._scaled(), result.coefficients, result.errors, strict=True))
        return {
            "groups": [
                [
                    {"column": one.name, **_interval(at + sign * wide * float(beta), wide * float(error))}
                    for (one, at, wide), beta, error in parts
                ]
                for sign in (1, -1)
            ]
        }

    def _drawn(self) -> tuple[Picture, ...]:
        if len(self._coordinates) < 2:
            return ()
        first, second = self._scaled()[:2]
        turn = np.linspace(0, 2 * np.pi, 61)
        sigma, beta = self._options.noise_std, self._result.coefficients
        traces = tuple(
            Trace(
                f"{name} group",
                tuple((first[1] + first[2] * (sign * beta[0] + sigma * np.cos(turn))).tolist()),
                tuple((second[1] + second[2] * (sign * beta[1] + sigma * np.sin(turn))).tolist()),
            )
            for name, sign in (("first", 1), ("second", -1))
        )
        return (
            Picture(
                name="groups",
                title="The two groups",
                sentence="One assumed standard deviation around each centre.",
                kind="lines",
                across=first[0].name,
                up=second[0].name,
                traces=traces,
            ),
        )

    def _simulated_rows(self, beta: Vector, seen: Vector, random: np.random.Generator) -> Matrix:
        signs = random.choice([-1.0, 1.0], DRAWN_ROWS)
        noise = self._options.noise_std * random.standard_normal((DRAWN_ROWS, beta.size))
        return np.asarray(signs[:, None] * beta + noise)


class _NoisyLines(_NoisyEM):
    """The common part of the two models with a label: lines over inputs."""

    def _in_own_units(self) -> dict[str, Any]:
        result, (label, level, rise) = self._result, self._own(-1)
        return {
            "label": {"column": label.name, "centre": level, "spread": rise},
            "slopes": [
                {"column": one.name, **_interval(float(beta) * rise / wide, float(error) * rise / wide)}
                for (one, _, wide), beta, error in zip(self._scaled(), result.coefficients, result.errors, strict=True)
            ],
        }

    def _by_line(self, codes: NDArray[np.int64], sign: float) -> Vector:
        """Return the label of every row by one line, within its declared range."""
        result, names = self._result, list(self._task.schema.names)
        found = np.zeros(len(codes))
        for place, one in enumerate(self._coordinates):
            given = codes[:, names.index(one.name)]
            inputs = (one.values - result.centre[place]) / result.spread[place] * one.seen
            found += inputs[binned(given, one.bins)] * result.coefficients[place]
        label, level, rise = self._own(-1)
        return np.clip(level + sign * rise * found, label.middle - label.half, label.middle + label.half)

    def _lines(self, **signs: float) -> tuple[Picture, ...]:
        """Draw lines over the first coordinate, two spreads to either side, with the others at their centres."""
        (first, at, wide), (label, level, rise) = self._own(0), self._own(-1)
        across = np.linspace(-2, 2, 21)
        width = WIDTH_95 * rise * np.abs(across) * float(self._result.errors[0])
        up = rise * across * float(self._result.coefficients[0])
        traces = tuple(
            Trace(
                name, tuple((at + wide * across).tolist()), tuple((level + sign * up).tolist()), tuple(width.tolist())
            )
            for name, sign in signs.items()
        )
        picture = Picture(
            name="lines",
            title="The fit over the first input",
            sentence="Other inputs are at their centres; the ranges come from the noise alone.",
            kind="lines",
            across=first.name,
            up=label.name,
            traces=traces,
        )
        return (picture,)


class MixtureOfRegressions(_NoisyLines):
    """Two opposite regression lines."""

    card: ClassVar[Card] = REGRESSIONS
    _kind = RegressionPair
    _equation = (
        "The label in units of spreads from its centre is plus or minus the sum of coefficients times inputs, each "
        "sign as often as the other, and noise of standard deviation sigma."
    )

    tells_of_a_label = True

    def either(self, codes: NDArray[np.int64]) -> Matrix:
        """Return the label by each of the two lines."""
        return np.stack([self._by_line(codes, 1.0), self._by_line(codes, -1.0)], axis=1)

    def _drawn(self) -> tuple[Picture, ...]:
        return self._lines(one=1.0, other=-1.0)

    def _simulated_rows(self, beta: Vector, seen: Vector, random: np.random.Generator) -> Matrix:
        x, signs = random.standard_normal((DRAWN_ROWS, beta.size)), random.choice([-1.0, 1.0], DRAWN_ROWS)
        noise = self._options.noise_std * random.standard_normal(DRAWN_ROWS)
        return np.column_stack([x, signs * (x * beta).sum(axis=1) + noise])


class RegressionWithMissingInputs(_NoisyLines):
    """A regression line fitted to rows that lack some inputs."""

    card: ClassVar[Card] = INPUTS
    _kind = MissingCovariates
    _equation = (
        "The label in units of spreads from its centre is the sum of coefficients times inputs and noise of standard "
        "deviation sigma; inputs in units of spreads are independent and standard normal, and missing by chance."
    )

    def predict(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the label by the line, with missing inputs at their centres; within the label's declared range."""
        return self._by_line(codes, 1.0)

    def predictor(self, bins: int) -> Losses:
        """Return the squared errors of its predictions, in units of the declared range."""
        result, weight = self._result, 1 / math.sqrt(len(self._columns))
        # Halved, as no entry of a lookup may exceed 1.
        inputs = [
            one.lookup(((one.values - at) / 2 * one.seen)[:, None])
            for one, at in zip(self._coordinates, result.centre[:-1], strict=True)
        ]
        slopes = 2 * result.spread[-1] / result.spread[:-1] * result.coefficients
        features = Stack((*inputs, Constant()), (weight,) * len(self._columns))
        parameters = within_reach(features, np.append(slopes, result.centre[-1])[None] / weight)[0]
        label = self._columns[-1]
        return Losses(features, parameters, label.lookup(label.values[:, None]))

    def _drawn(self) -> tuple[Picture, ...]:
        return self._lines(fit=1.0)

    def _simulated_rows(self, beta: Vector, seen: Vector, random: np.random.Generator) -> Matrix:
        x = random.standard_normal((DRAWN_ROWS, beta.size))
        noise = self._options.noise_std * random.standard_normal(DRAWN_ROWS)
        return np.column_stack([x, random.random(x.shape) < seen[:-1], (x * beta).sum(axis=1) + noise])


def _by_both(error: float, ratio: float) -> tuple[tuple[str, float], ...]:
    """Return an error by the exact curve, and by the paper's accounting, which needs ``ratio`` times the noise."""
    return ("exact curve, used here", round(error, 5)), ("as the paper reckons", round(error * ratio, 5))


def _interval(value: float, error: float) -> dict[str, float]:
    return {"value": value, "low": value - WIDTH_95 * error, "high": value + WIDTH_95 * error}
