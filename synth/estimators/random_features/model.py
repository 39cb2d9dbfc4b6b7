"""Private regression and classification as released models: features of columns, and the report of a fit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.estimators.random_features import CARDS, ClassifierOptions, RegressionOptions
from synth.estimators.random_features.fitting import (
    EVEN_ROWS,
    FREQUENCIES,
    LEVEL_95,
    MOST_CLASSES,
    POSITIONS,
    Fit,
    Intervals,
    Mechanism,
    RowFeatures,
    by_descent,
    by_ridge,
    chosen_features,
    expected_noise,
    mean_of_target,
    probabilities,
    steps_of,
    target_of_classes,
)
from synth.generators.coarse_grid import CoarseGrid, coarse_grid, stairs
from synth.generators.protocol import Card, Fact, GeneratorTask, Picture, ReleasedModel, State, Trace
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, Stack, binned
from synth.privacy.more.forests import even_edges
from synth.privacy.more.fourier import STEPS_PER_TURN, Fourier, Positions, angle_steps
from synth.privacy.more.gradients import Loss
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses, within_reach
from synth.privacy.questions import Answer
from synth.progress import Progress
from synth.schema import ModelledColumn

__all__ = ["PrivateClassifier", "PrivateRegression"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

PLACES, ATOMS = 4096, 256
"""Most levels of a number, and most other values of it or values of a category, that are distinguished."""

LABEL_PLACES = 2**16
"""Values of a label that its errors are told by; of a longer range neighbours share a place."""

PHASES = 64
"""Categories that the angles of Fourier features distinguish; with more, categories this far apart share a position."""

ALIKE = math.exp(-1)
"""Similarity of two categories for Fourier features; that of two corners of a box for a Gaussian kernel."""

PICTURED = 6
"""Most numbers whose effect is drawn."""

LINEAR = (
    "the constant; for each number its coefficient times what 'times' says, numbers cut off at their bounds; for each "
    "other value its coefficient; added up"
)

ONE_ACCOUNTING = (
    "The only accounting is the exact curve of the Gaussian mechanism: that of the random-feature paper is for another "
    "mechanism, and its sensitivity does not hold."
)


@dataclass(frozen=True, slots=True, eq=False)
class _Coded:
    """A column as the features use it: its codes in groups, and the vector of each group."""

    column: ModelledColumn
    grid: CoarseGrid

    @classmethod
    def of(cls, column: ModelledColumn) -> Self:
        return cls(column, coarse_grid(column, grid=PLACES, atoms=ATOMS))

    @property
    def is_number(self) -> bool:
        return self.column.levels > 0

    @property
    def middles(self) -> Vector:
        """Positions of the grid's groups in the declared range, from -1 to 1."""
        grid, last = self.grid, max(self.column.levels - 1, 1)
        middles = grid.first[: grid.levels] + (grid.width[: grid.levels] - 1) / 2
        return np.asarray(2 * middles / last - 1 if self.column.levels > 1 else 0 * middles)

    @property
    def table(self) -> Lookup:
        """For a number: its position, and an indicator of each other value. For a category: a corner of a simplex."""
        atoms = self.grid.atoms
        if not self.is_number:
            corners = np.eye(atoms) - 1 / atoms
            return Lookup(self.column.name, corners / math.sqrt(max(1 - 1 / atoms, 0.5)), self.grid.bins)
        rows = np.zeros((self.grid.size, 1 + atoms))
        rows[: self.grid.levels, 0] = self.middles
        rows[self.grid.levels :, 1:] = np.eye(atoms)
        return Lookup(self.column.name, rows, self.grid.bins)

    @property
    def positions(self) -> Positions:
        """Position of every code for angles: numbers in their range, other values below it, categories in a circle."""
        beside = np.arange(self.column.size - self.column.levels)
        if not self.is_number:
            return Positions.of_codes(beside % PHASES)
        levels = self.column.levels
        places, widths = stairs(lambda code: code * POSITIONS // levels, levels)
        others = -2 * POSITIONS * (1 + beside % PHASES)
        return Positions.of_runs(np.append(places, others), np.append(widths, np.ones(len(others), dtype=np.int64)))

    def radians(self, random: np.random.Generator) -> Vector:
        """Draw the angle from one position to the next; public."""
        normal, turns, same = random.normal(size=(3, FREQUENCIES))[0], *random.random((2, FREQUENCIES))
        if self.is_number:
            return np.asarray(normal / (POSITIONS - 1))
        return np.asarray(np.where(same < ALIKE, 0.0, 2 * math.pi * turns))

    def beside(self) -> list[tuple[str, int]]:
        """Return the values that are not levels of a grid, and the group of each."""
        codes = np.arange(self.column.levels, self.column.size)
        texts = dict(zip(codes.tolist(), self.column.texts(codes, missing="(missing)"), strict=True))
        groups = binned(codes, self.grid.bins)
        return list(zip(texts.values(), np.asarray(groups).tolist(), strict=True))


class _Model(ReleasedModel):
    """The common part of both models: features of declared columns, and how a fit is saved, reported and drawn."""

    _loss: Loss
    _mechanism: Mechanism = "gradient"
    _intervals: Intervals = "bound"
    _mean = 0.0
    _width = 1.0
    """What a score of 1 means."""
    _scored: str
    """What the noise is added to, in words."""
    _drawn: str
    """Label of the vertical axis of a picture."""

    def __init__(self, task: GeneratorTask, options: Any) -> None:
        if task.label is None:
            raise ConfigError(f"model '{self.card.name}' needs a label: the column to predict.")
        self._task, self._options, self._label = task, options, task.schema.modelled_column(task.label)
        self._coded = tuple(_Coded.of(column) for column in task.schema.modelled if column.name != task.label)
        self._check_label()

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask the questions of the mechanism, and fit; only the questions read rows."""
        progress.phase("Measuring")
        rows, epsilon = session.rows, session.budget.epsilon
        self._rows, self._rows_are_public = max(rows.value, 1.0), rows.public
        kind = chosen_features(
            self._options.features,
            mechanism=self._mechanism,
            epsilon=epsilon,
            n_rows=self._rows,
            columns=len(self._coded),
        )
        self._features = self._features_of(kind)
        self._steps = self._options.steps or steps_of(epsilon, self._rows)
        self._expected = expected_noise(
            self._features,
            session.budget,
            mechanism=self._mechanism,
            loss=self._loss,
            steps=self._steps,
            n_rows=self._rows,
            intervals=self._intervals,
        )
        self._fit = self._fit_to(session)
        return self

    @abstractmethod
    def _check_label(self) -> None:
        """Refuse a label that cannot be predicted, and set what follows from it and the options."""

    @abstractmethod
    def _fit_to(self, session: AnswerSource) -> Fit: ...

    @property
    def _source(self) -> str:
        return f"model {self.card.name}"

    def _features_of(self, kind: Literal["linear", "fourier"]) -> RowFeatures:
        if kind == "linear":
            return RowFeatures(tuple(coded.table for coded in self._coded))
        random = np.random.default_rng(self._task.seed)
        frequencies = np.stack([angle_steps(coded.radians(random)) for coded in self._coded], axis=1)
        names = tuple(coded.column.name for coded in self._coded)
        return RowFeatures((), Fourier(names, tuple(coded.positions for coded in self._coded), frequencies))

    def state(self) -> State:
        """Return coefficients, the covariance of their noise, and the numbers of the document."""
        numbers = [self._rows, self._rows_are_public, self._features.waves is not None, self._steps, self._expected]
        return {
            "coefficients": self._fit.coefficients,
            "covariance": self._fit.covariance,
            "numbers": np.array([*numbers, self._fit.exact, self._mean], dtype=np.float64),
        }

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Restore the model; it predicts and reports the same."""
        made = cls(task, options)
        rows, public, waves, steps, expected, exact, mean = state["numbers"].tolist()
        made._rows, made._rows_are_public, made._steps, made._expected = rows, bool(public), int(steps), expected
        made._features, made._mean = made._features_of("fourier" if waves else "linear"), mean
        made._fit = Fit(state["coefficients"], state["covariance"], bool(exact))
        return made

    def settled(self) -> dict[str, Any]:
        """Return the features and the number of steps, which depend on the budget unless they are given."""
        return {"features": "linear" if self._features.waves is None else "fourier", "steps": self._steps}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed to be public besides the declarations."""
        if self._task.schema.rows_are_public:
            return ("The number of rows is public: replacing one row by another is hidden.",)
        return ()

    def _scores(self, codes: NDArray[np.int64]) -> Matrix:
        by_name = dict(zip(self._task.schema.names, codes.T, strict=True))
        return np.asarray(self._features.map.evaluate(by_name) @ self._fit.coefficients.T)

    # Report

    def document(self) -> dict[str, Any]:
        """Return how a row is encoded, the coefficients, and the effect of the noise on them."""
        document: dict[str, Any] = {
            **self._prediction(),
            "rows": _short(self._rows),
            "rows_are": "public" if self._rows_are_public else "released with noise",
            "noise_of_a_prediction": {
                "root_mean_square": _short(self._width * self._expected),
                "of": "rows that fill their declared ranges evenly and independently; worked out before any was read",
            },
        }
        if self._features.waves is not None:
            return document | self._document_of_waves(self._features.waves)
        return document | {
            "intervals": self._fit.covers,
            "terms": self._terms(),
        }

    @abstractmethod
    def _prediction(self) -> dict[str, Any]:
        """Return what is predicted, and by what formula."""

    @property
    def _centre(self) -> float:
        """The prediction if all terms are 0."""
        return 0.0

    def _terms(self) -> list[dict[str, Any]]:
        """Return every term of a linear score: its values by class, with intervals."""
        weight, width = self._features.weight, self._width
        size = self._fit.covariance.shape[0]
        terms = [{"term": "constant", **self._with_interval(_unit(size, size - 1) * weight * width, self._centre)}]
        start = 0
        for coded, table in zip(self._coded, self._features.tables, strict=True):
            inside = slice(start, start + table.dimension)
            start += table.dimension
            name, scale = coded.column.name, coded.column.scale
            if coded.is_number:
                reach = max(coded.column.levels - 1, 1) * scale.step / 2
                centre = scale.low + reach
                of_one = _unit(size, inside.start) * (weight * width / reach)
                terms.append({"term": name, "times": f"number - {_short(centre)!r}", **self._with_interval(of_one)})
            for text, group in coded.beside():
                of_value = np.zeros(size)
                of_value[inside] = weight * width * table.table[group]
                terms.append({"term": name, "value": text, **self._with_interval(of_value)})
        return terms

    def _with_interval(self, direction: Vector, shift: float = 0.0) -> dict[str, Any]:
        half = LEVEL_95 * math.sqrt(float(direction @ self._fit.covariance @ direction))
        found = shift + self._fit.coefficients @ direction
        values = {
            "coefficient": [_short(one) for one in found],
            "from": [_short(one - half) for one in found],
            "to": [_short(one + half) for one in found],
        }
        return {name: one[0] if len(one) == 1 else one for name, one in values.items()}

    def _document_of_waves(self, waves: Fourier) -> dict[str, Any]:
        columns = []
        for coded, positions in zip(self._coded, waves.positions, strict=True):
            own: dict[str, Any] = {"column": coded.column.name}
            if coded.is_number:
                scale = coded.column.scale
                own["position"] = (
                    f"floor({POSITIONS} * place / {coded.column.levels}), "
                    f"place = round((number - {_short(scale.low)!r}) / {_short(scale.step)!r})"
                )
            codes = np.arange(coded.column.levels, coded.column.size)
            texts = coded.column.texts(codes, missing="(missing)")
            own["positions"] = dict(zip(texts, positions[codes].tolist(), strict=True))
            columns.append(own)
        half = LEVEL_95 * math.sqrt(float(np.diag(self._fit.covariance).max()))
        return {
            "columns": columns,
            "frequencies": waves.frequencies.tolist(),
            "angle": f"2 pi / {STEPS_PER_TURN} * (a row of frequencies, times the positions of the columns, added up)",
            "features": f"the cosine of every angle, then the sine of every angle, times {waves.scale!r}",
            "coefficients": [[_short(one) for one in row] for row in self._fit.coefficients.tolist()],
            "half_of_an_interval": _short(half),
            "intervals": self._fit.covers,
        }

    def _noise(self, known: str) -> Fact:
        return Fact(
            "noise",
            "Noise of a prediction",
            _short(self._width * self._expected, 4),
            f"Root mean square of the noise in {self._scored}, for rows that fill their declared ranges evenly. Known "
            f"before any row is read, from epsilon, {len(self._coded)} columns and {self._rows:,.0f} rows ({known}).",
        )

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        """Return the noise of a prediction, computed as in a fit on rows, and the accounting."""
        noise = self._noise("public" if self._task.schema.rows_are_public else "declared; a fit measures their number")
        return (replace(noise, sentence=f"{noise.sentence} {ONE_ACCOUNTING}"),)

    def facts(self) -> tuple[Fact, ...]:
        """Return the noise of a prediction, and the terms of a linear score."""
        noise = self._noise("public" if self._rows_are_public else "released with noise")
        if self._features.waves is not None or len(self._fit.coefficients) > 1:
            return (noise,)
        terms = [
            (
                str(one["term"]),
                str(one.get("value", one.get("times", ""))),
                *(one[key] for key in ("coefficient", "from", "to")),
            )
            for one in self._terms()
        ]
        header = ("term", "of", "coefficient", "95 % from", "95 % to")
        coefficients = Fact(
            "coefficients", "Coefficients", len(terms), self._fit.covers, header, tuple(terms), ranges=True
        )
        return (noise, coefficients)

    def pictures(self) -> tuple[Picture, ...]:
        """Return how the prediction depends on each number, with the others at the middle of their range."""
        numbers = [coded for coded in self._coded if coded.column.levels > 1][:PICTURED]
        if not numbers or len(self._fit.coefficients) > 1:
            return ()
        traces = []
        for coded in numbers:
            places = np.unique(np.linspace(0, coded.column.levels - 1, 33).round().astype(np.int64))
            codes = np.tile([column.levels // 2 for column in self._task.schema.modelled], (len(places), 1))
            codes[:, self._task.schema.names.index(coded.column.name)] = places
            predicted = self.predict(codes)
            up = predicted if predicted.ndim == 1 else predicted[:, 1]
            across = places / (coded.column.levels - 1)
            traces.append(Trace(coded.column.name, tuple(across.tolist()), tuple(up.tolist())))
        return (
            Picture(
                name="effects",
                title=f"How '{self._label.name}' depends on each number",
                sentence="The other numbers are at the middle of their range, other columns at their first value.",
                kind="lines",
                across="from the lower to the upper declared bound",
                up=self._drawn,
                traces=tuple(traces),
            ),
        )


class PrivateRegression(_Model):
    """Predict a number or a date from the other columns, by a noisy descent or ridge regression.

    Parameters
    ----------
    task : GeneratorTask
    options : RegressionOptions

    Raises
    ------
    ConfigError
        If the label is not a number or a date.
    """

    card: ClassVar[Card] = CARDS[0]
    _options: RegressionOptions

    def _check_label(self) -> None:
        if self._label.levels < 2:
            raise ConfigError(
                f"model '{self.card.name}' predicts a number or a date, and '{self._label.name}' is neither; choose "
                f"model '{CARDS[1].name}'."
            )
        if self._options.mechanism == "ridge" and self._options.loss != "squared":
            raise ConfigError(f"model '{self.card.name}': mechanism ridge only has squared loss; leave the loss out.")
        self._intervals = self._options.intervals
        if self._intervals == "measured" and self._task.schema.unit.rows_per_unit > 1:
            raise ConfigError(
                f"model '{self.card.name}': intervals measured needs one row for each "
                f"{self._task.schema.unit.protects}; if several rows are clipped together, only the bound holds. "
                "Choose intervals bound."
            )

        self._mechanism, self._loss = self._options.mechanism, self._options.loss
        self._low = self._label.scale.low
        self._width = (self._label.levels - 1) * self._label.scale.step
        self._scored, self._drawn = f"'{self._label.name}'", self._label.name

    def _fit_to(self, session: AnswerSource) -> Fit:
        label = _Coded(self._label, coarse_grid(self._label, grid=PLACES, atoms=1))
        steps, bins = label.middles / 2, label.grid.bins

        def target(found: Vector) -> Lookup:
            # A value that is not on the grid counts as the middle, and as the mean once that is known.
            return Lookup(self._label.name, np.append(found, np.zeros(label.grid.atoms))[:, None], bins)

        self._mean = mean_of_target(session, target(steps), n_rows=self._rows, source=self._source)
        rest = target(np.clip(steps - self._mean, -0.5, 0.5))
        if self._mechanism == "ridge":
            return by_ridge(session, self._features, rest, source=self._source)
        return by_descent(
            session,
            self._features,
            rest,
            loss=self._loss,
            steps=self._steps,
            n_rows=self._rows,
            source=self._source,
            intervals=self._intervals,
        )

    def predict(self, codes: NDArray[np.int64]) -> Vector:
        """Return the number, or the position of the date, for every row; within the declared bounds."""
        found = np.clip(self._scores(codes)[:, 0] + self._mean, -0.5, 0.5) + 0.5
        return np.asarray(self._low + self._width * found)

    def predictor(self, bins: int) -> Losses:
        """Return the squared errors of its predictions, in units of the declared range."""
        grid = coarse_grid(self._label, grid=LABEL_PLACES, atoms=self._label.size)
        middles, last = grid.first[: grid.levels] + (grid.width[: grid.levels] - 1) / 2, self._label.levels - 1
        places = np.zeros(grid.size)
        places[: grid.levels] = np.where(middles == last, 0.5, middles * (1.0 / last) - 0.5)
        features = Stack((self._features.map, Constant()), (0.5, 0.5))
        parameters = within_reach(features, 2 * np.append(self._fit.coefficients[0], self._mean)[None])[0]
        return Losses(features, parameters, Lookup(self._label.name, places[:, None], grid.bins))

    @property
    def _centre(self) -> float:
        return self._low + self._width * (0.5 + self._mean)

    def _prediction(self) -> dict[str, Any]:
        waves = self._features.waves is not None
        formula = (
            f"{_short(self._centre)!r} + {_short(self._width)!r} * (coefficients times features, added up)"
            if waves
            else LINEAR
        )
        return {
            "predicts": self._label.name,
            "bounds": [_short(self._low), _short(self._low + self._width)],
            "prediction": f"{formula}; then cut off at 'bounds'",
        }


class PrivateClassifier(_Model):
    """Predict the probabilities of a column's values from the others, by logistic regression along a noisy descent.

    Parameters
    ----------
    task : GeneratorTask
    options : ClassifierOptions

    Raises
    ------
    ConfigError
        If the label has too many values.
    """

    card: ClassVar[Card] = CARDS[1]
    _options: ClassifierOptions

    def _check_label(self) -> None:
        if self._label.size > MOST_CLASSES:
            raise ConfigError(
                f"model '{self.card.name}' predicts at most {MOST_CLASSES} values, and '{self._label.name}' has "
                f"{self._label.size:,}; choose a coarser step, or model '{CARDS[0].name}' for a number."
            )

        self._loss, self._target = target_of_classes(self._label.name, self._label.size)
        self._classes = self._label.texts(missing="(missing)")
        two = len(self._classes) == 2
        self._scored = f"the log odds of '{self._classes[1]}'" if two else "the score of a value"
        self._drawn = f"chance of '{self._classes[-1]}'"

    def _fit_to(self, session: AnswerSource) -> Fit:
        return by_descent(
            session,
            self._features,
            self._target,
            loss=self._loss,
            steps=self._steps,
            n_rows=self._rows,
            source=self._source,
        )

    def predict(self, codes: NDArray[np.int64]) -> Matrix:
        """Return the probability of each of the label's codes; shape (n_rows, size)."""
        scores = self._scores(codes)
        return probabilities(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predictor(self, bins: int) -> LinearGuess:
        """Return the guess of the likeliest value that is not missing; bins of confidence are from even rows."""
        known = self._label.size - (self._label.missing_code is not None)
        scores = within_reach(self._features.map, self._fit.coefficients[:known])
        plain = LinearGuess(self._features.map, scores, np.zeros((known, 0), np.int32))
        codes = self._features.even_codes(EVEN_ROWS)
        edges = even_edges(*plain.guesses(codes.__getitem__, EVEN_ROWS), n_classes=known, bins=bins)
        return replace(plain, edges=edges)

    def _prediction(self) -> dict[str, Any]:
        waves = self._features.waves is not None
        of_row = "coefficients times features, added up" if waves else LINEAR
        two = len(self._classes) == 2
        return {
            "predicts": self._label.name,
            "classes": self._classes,
            "score": of_row + ("" if two else "; one for each of 'classes', in order"),
            "prediction": (
                "1 / (1 + exp(-score)) is the chance of the second class"
                if two
                else "exp(score), divided by the sum of these over all classes, is the chance of a class"
            ),
        }


def _unit(size: int, place: int) -> Vector:
    return np.asarray(np.eye(1, size, place)[0])


def _short(number: float, digits: int = 10) -> float:
    """Round a number to the digits that are printed; last bits may differ between machines."""
    return float(f"{float(number):.{digits}g}")
