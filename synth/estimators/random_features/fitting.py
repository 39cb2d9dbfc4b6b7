r"""Fits of linear and Fourier features to noisy answers, and the effect of the known noise on their coefficients.

A row's features have length at most 1. There are two mechanisms: a descent along noisy clipped gradients, and ridge
regression from the noisy second moments of features and target, which are one vector per row. Everything besides the
questions follows from answers and declarations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, FeatureMap, Stack
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.gradients import GradientQuestion, Loss
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import within_reach
from synth.privacy.more.row_maps import logistic
from synth.privacy.more.row_moments import RowMoments
from synth.schema import Neighbours

__all__ = [
    "DESCENTS",
    "FREQUENCIES",
    "LEVEL_95",
    "MOST_CLASSES",
    "POSITIONS",
    "TOO_FEW",
    "Descent",
    "Features",
    "Fit",
    "Intervals",
    "Mechanism",
    "RowFeatures",
    "averaged_descent",
    "by_descent",
    "by_ridge",
    "chosen_features",
    "expected_noise",
    "mean_of_target",
    "noise_of_average",
    "probabilities",
    "ridge_of_moments",
    "steps_of",
    "target_of_classes",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

Mechanism = Literal["gradient", "ridge"]
Features = Literal["auto", "linear", "fourier"]

Intervals = Literal["bound", "measured"]

MEAN_SHARE = 0.1
"""Share of mu^2 for the mean of the target."""

MOMENTS_SHARE = 0.1
"""Share of mu^2 for second moments, if the intervals of a descent are measured."""

LIKELY = 64
"""Number of second moments drawn around the noisy ones, with a public seed, as they follow from an answer."""

FEW_ROWS, MANY_COLUMNS = 4000, 40
"""Below this epsilon times rows, and above this many columns, linear features lose least. Above it noise is the smaller
error of a descent of thirty steps, so it takes a hundred."""

TOO_FEW = 200
"""Below this epsilon times rows hardly any model is better than the mean."""

FREQUENCIES, POSITIONS = 40, 128
"""Frequencies of Fourier features, and the levels of a range that their angles distinguish."""

MOST_CLASSES = 50
"""Most classes: each has its own coefficients, in one clipped vector."""

EVEN_ROWS = 4096
"""Simulated rows for which the noise is predicted."""

LEVEL_95 = 1.959963984540054
"""Standard deviations to either side that contain 95 % of a Gaussian."""


@dataclass(frozen=True, slots=True)
class Descent:
    """Step and clip norm of a descent: public constants, for targets from -1/2 to 1/2, or probabilities."""

    rate: float
    clip: float
    curvature: float
    """Largest second derivative of the loss."""

    def rate_of(self, features: RowFeatures) -> float:
        """Return the step for some features.

        Fourier features have length 1 and are nearly equal for similar rows, so the second moment of a direction may be
        nearly 1, and twice the step would overshoot. Linear features point in enough directions.
        """
        return self.rate / 2 if features.waves is not None else self.rate


DESCENTS: dict[Loss, Descent] = {
    "squared": Descent(4.0, 0.25, 1.0),
    "huber": Descent(4.0, 0.1, 1.0),
    "logistic": Descent(16.0, 0.5, 0.25),
    "softmax": Descent(8.0, 0.5, 0.5),
}
"""By loss. The slopes of Huber's loss are at most 0.1, so no gradient is longer."""


@dataclass(frozen=True, slots=True, eq=False)
class RowFeatures:
    """The features of a row of codes.

    Attributes
    ----------
    tables : tuple of Lookup
        Linear features: vectors of length at most 1, one for each column; a constant follows them.
    waves : Fourier, optional
        Fourier features, instead of the linear ones.
    """

    tables: tuple[Lookup, ...]
    waves: Fourier | None = None

    @property
    def weight(self) -> float:
        """Factor of linear features that bounds their total length by 1."""
        return 1 / math.sqrt(len(self.tables) + 1)

    @property
    def map(self) -> FeatureMap:
        """The features as one map, of length at most 1."""
        if self.waves is not None:
            return self.waves
        return Stack((*self.tables, Constant()), (self.weight,) * (len(self.tables) + 1))

    def even_codes(self, count: int) -> dict[str, NDArray[np.int64]]:
        """Draw public rows with uniform and independent codes in every column; the same every time."""
        random = np.random.default_rng(0)
        sizes = dict(size for one in (*self.tables, *filter(None, (self.waves,))) for size in one.code_sizes)
        return {name: random.integers(0, size, count) for name, size in sizes.items()}

    def moments(self, target: Lookup) -> tuple[RowMoments, NDArray[np.int64]]:
        """Return the products of features and a target from -1/2 to 1/2 as one vector, and the index of each in it.

        The indices are in the order of ``map``, that of the target last.
        """
        clip, products = math.sqrt(1.25), (0.0, 0.0, 1.0)
        if self.waves is not None:
            order = np.append(np.arange(1, self.waves.dimension + 1), 0)
            return RowMoments((target,), clip, products, waves=self.waves), order
        first, *others = (Lookup(one.column, one.table * self.weight, one.bins) for one in self.tables)
        # The constant follows the first column.
        constant = np.full((len(first.table), 1), self.weight)
        first = Lookup(first.column, np.concatenate([first.table, constant], axis=1), first.bins)
        width = sum(one.dimension for one in (first, *others))
        at = first.dimension - 1
        order = np.concatenate([np.delete(np.arange(width), at), [at, width]])
        return RowMoments((first, *others, target), clip, products), order


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Coefficients, and the distribution of the noise in them.

    Attributes
    ----------
    coefficients : array of shape (classes, features)
        One row, except for a softmax loss.
    covariance : array of shape (features, features)
        Of the noise in each row; for a descent without measured second moments it is a bound for any rows.
    exact : bool
        Whether the covariance is an estimate rather than a bound.
    """

    coefficients: Matrix
    covariance: Matrix
    exact: bool

    @property
    def interval(self) -> tuple[Matrix, Matrix]:
        """Interval with the coefficients of the same fit without noise: 95 % coverage, for a bound at least 95 %."""
        half = LEVEL_95 * np.sqrt(np.diag(self.covariance))
        return self.coefficients - half, self.coefficients + half

    @property
    def covers(self) -> str:
        """A sentence about the coverage of an interval."""
        return (
            f"The interval holds with {'about' if self.exact else 'at least'} 95 % what the same fit of the same rows "
            "would have found without noise. It is made from the known noise alone: it says nothing of other rows "
            "(sampling error), of clipped gradients, or of a penalty."
        ) + ("" if self.exact else " Its width is an upper bound.")


def chosen_features(
    features: Features, *, mechanism: Mechanism, epsilon: float, n_rows: float, columns: int
) -> Literal["linear", "fourier"]:
    """Return the features that are used, by a public rule based on declared and noisy numbers alone."""
    if features != "auto":
        return features
    if mechanism == "ridge":
        return "linear"  # noise of second moments grows with the square of the number of features
    return "linear" if epsilon * n_rows < FEW_ROWS or columns > MANY_COLUMNS else "fourier"


def steps_of(epsilon: float, n_rows: float) -> int:
    """Return the number of steps of a descent, based on declared and noisy numbers alone."""
    if epsilon * n_rows >= FEW_ROWS:
        return 100
    return 10 if epsilon < 0.3 else 30


def mean_of_target(session: AnswerSource, target: Lookup, *, n_rows: float, source: str) -> float:
    """Ask for the mean of a target from -1/2 to 1/2, with a tenth of the remaining budget.

    Parameters
    ----------
    session : AnswerSource
    target : Lookup
    n_rows : float
        Public or released.
    source : str

    Returns
    -------
    float
        From -1/2 to 1/2.
    """
    share = MEAN_SHARE * session.remaining_share
    answer = session.noisy_sum(target, share=share, query="mean of labels", source=source)
    return float(np.clip(answer.value[0] / n_rows, -0.5, 0.5))


def target_of_classes(column: str, classes: int) -> tuple[Loss, Lookup]:
    """Return the loss and the target for classes 0, 1, ... of a column; with two, the second is enough."""
    if classes == 2:
        return "logistic", Lookup(column, np.array([[0.0], [1.0]]))
    return "softmax", Lookup(column, np.eye(classes))


def probabilities(scores: Matrix) -> Matrix:
    """Return class probabilities from log odds of the second class, shape (n,), or from scores, shape (n, classes)."""
    if scores.ndim == 1:
        second = logistic(scores)
        return np.stack([1 - second, second], axis=1)
    parts = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


def by_descent(
    session: AnswerSource,
    features: RowFeatures,
    target: Lookup,
    *,
    loss: Loss,
    steps: int,
    n_rows: float,
    source: str,
    intervals: Intervals = "bound",
) -> Fit:
    """Spend the remaining budget on noisy gradients, and descend along them from 0.

    Parameters
    ----------
    session : AnswerSource
    features : RowFeatures
    target : Lookup
        In the form that a question takes.
    loss : {"squared", "huber", "logistic", "softmax"}
    steps : int
    n_rows : float
        Public or released; gradients are divided by it.
    source : str
    intervals : {"bound", "measured"}
        "measured", for linear features and a loss of numbers: a tenth of the remaining budget is spent on second
        moments first.
    """
    of_loss, of_row = DESCENTS[loss], features.map
    asked, std = 0, 0.0
    measured = intervals == "measured" and features.waves is None
    if measured:
        share = MOMENTS_SHARE * session.remaining_share
        moments, error = _second_moments(session, features, target, share=share, source=source)

    def mean_gradient(at: Vector) -> Vector:
        nonlocal asked, std
        question = GradientQuestion(of_row, target, loss, at, of_loss.clip)
        share = session.remaining_share / (steps - asked)
        asked += 1
        answer = session.noisy_gradient(question, share=share, query=f"gradient {asked}", source=source)
        std = answer.noise_std / n_rows
        return np.asarray(answer.gradient / n_rows)

    width = of_row.dimension * target.dimension
    rate = of_loss.rate_of(features)

    def reachable(at: Vector) -> Vector:
        return within_reach(of_row, at.reshape(target.dimension, -1)).reshape(-1)

    found = averaged_descent(mean_gradient, features=width, rate=rate, steps=steps, kept=reachable)
    if measured:
        seen = np.append(found, -1.0)
        rms = math.sqrt(max(float(seen @ moments @ seen) / n_rows, 0.0))
        # The share of the curvature that is left after clipping slopes, if errors are Gaussian: at most this, as a
        # row's slope is not clipped earlier than here.
        kept = math.erf(of_loss.clip / (rms * math.sqrt(2))) if rms > 0 else 1.0
        scale = kept / n_rows
        covariance = _measured_noise(moments[:-1, :-1] * scale, error * scale, rate=rate, steps=steps, std=std)
        return Fit(found[None], covariance, exact=True)
    variance = noise_of_average(np.zeros(1), rate=rate, steps=steps, std=std)[0]
    return Fit(found.reshape(target.dimension, -1), variance * np.eye(of_row.dimension), exact=False)


def _measured_noise(curvature: Matrix, error: float, *, rate: float, steps: int, std: float) -> Matrix:
    """Return the covariance of a descent's noise, given its curvature with an error.

    The result is an average over curvatures drawn from the distribution of the error. A true curvature is never
    negative. For a negative draw the variance is mirrored at that of curvature 0, so that the average is right if the
    curvature is 0. No direction has a larger variance than at curvature 0.

    Parameters
    ----------
    curvature : array of shape (features, features)
    error : float
        Standard deviation of the noise on the diagonal; off the diagonal the variance is half.
    rate, steps, std
        As in :func:`noise_of_average`.
    """
    random, size = np.random.default_rng(0), len(curvature)
    most = noise_of_average(np.zeros(1), rate=rate, steps=steps, std=std)[0]
    covariance = np.zeros_like(curvature)
    for _ in range(LIKELY):
        drawn = random.normal(size=(size, size))
        values, vectors = np.linalg.eigh(curvature + error / 2 * (drawn + drawn.T))
        sizes = np.minimum(np.abs(values), 2 / rate)
        variance = noise_of_average(sizes, rate=rate, steps=steps, std=std)
        covariance += (vectors * np.where(values < 0, 2 * most - variance, variance)) @ vectors.T / LIKELY
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.minimum(values, most)) @ vectors.T)


def noise_of_average(curvatures: Vector, *, rate: float, steps: int, std: float) -> Vector:
    r"""Return the variance of the average of a descent's later iterates along directions of given curvature.

    .. math:: \eta^2 s^2 \sum_t \Big( \frac{1}{m} \sum_{k \ge t,\, k \in \text{last } m} (1 - \eta h)^{k - t} \Big)^2

    where eta is ``rate``, s is ``std``, the standard deviation of the noise in every number of a mean gradient, and h
    is a curvature. It is largest at h = 0, if eta h is at most 2: a gradient pulls back the noise of earlier steps,
    whatever the rows are. For Fourier features that holds for all rows; for linear features unless nearly all rows are
    in one corner of their declared bounds.
    """
    first = steps // 2
    decay = 1 - rate * np.asarray(curvatures, dtype=np.float64)
    variance = np.zeros_like(decay)
    for step in range(steps):
        kept = sum(decay ** (later - step) for later in range(max(first, step), steps))
        variance += (rate * std * kept / (steps - first)) ** 2
    return variance


def by_ridge(session: AnswerSource, features: RowFeatures, target: Lookup, *, source: str) -> Fit:
    r"""Spend the remaining budget on the second moments of features and target, and solve.

    The penalty follows from the noise alone. The noise moves the coefficients by :math:`G (e - E c)`, with E the noise
    of the moments of features, e that of their products with the target, c the coefficients without it and G the
    inverse in the solution; off the diagonal noise has half the variance s^2, so its covariance is
    :math:`\tfrac{s^2}{2} G ((1 + |c|^2) I + c c^T) G`. The expected contribution of the noise is subtracted from the
    squared length of the coefficients.
    """
    share = session.remaining_share
    moments, noise = _second_moments(session, features, target, share=share, source=source)
    width = len(moments) - 1
    penalty = 0.5 * noise * math.sqrt(2 * width)
    found = ridge_of_moments(moments[:-1, :-1], moments[:-1, -1], penalty=penalty)
    values, vectors = np.linalg.eigh(moments[:-1, :-1])
    inverse = (vectors / (np.maximum(values, 0.0) + penalty)) @ vectors.T
    length, added = float(found @ found), noise**2 / 2 * float(np.sum(inverse * inverse))
    without = max(length - added, 0.0) / (1 + added)
    along = np.outer(found, found) * (min(without / length, 1.0) if length > 0 else 0.0)
    spread = (1 + without) * np.eye(width) + along
    covariance = noise**2 / 2 * inverse @ spread @ inverse
    return Fit(found[None], (covariance + covariance.T) / 2, exact=True)


def ridge_of_moments(moments: Matrix, products: Vector, *, penalty: float) -> Vector:
    r"""Return (S + lambda I)^-1 v for second moments that may be noisy: negative eigenvalues of S count as 0.

    Parameters
    ----------
    moments : array of shape (p, p)
        S: the sum of a a^T, symmetric.
    products : array of shape (p,)
        v: the sum of y a.
    penalty : float, positive
        lambda; public.
    """
    values, vectors = np.linalg.eigh(moments)
    return np.asarray(vectors @ ((vectors.T @ products) / (np.maximum(values, 0.0) + penalty)))


def _second_moments(
    session: AnswerSource, features: RowFeatures, target: Lookup, *, share: float, source: str
) -> tuple[Matrix, float]:
    """Ask for the sums over rows of the products of features and target, the target last.

    Returns
    -------
    (array of shape (features + 1, features + 1), float)
        The second is the standard deviation of the noise on the diagonal; off the diagonal the variance is half.
    """
    question, order = features.moments(target)
    answer = session.noisy_sum(question, share=share, query="second moments", source=source)
    sums = answer.value / question.factors * question.clip**2
    moments = np.zeros((question.length, question.length))
    upper = np.triu_indices(question.length)
    moments[upper] = moments[upper[1], upper[0]] = sums
    return moments[np.ix_(order, order)], float(answer.noise_std) * question.clip**2


def expected_noise(
    features: RowFeatures,
    budget: PrivacyBudget,
    *,
    mechanism: Mechanism,
    loss: Loss,
    steps: int,
    n_rows: float,
    intervals: Intervals = "bound",
) -> float:
    """Predict the noise of a prediction before any row is read: its root mean square, for targets of width 1.

    It is exact to first order for rows with uniform and independent codes in every column; for a softmax loss it is the
    noise of one class's score.

    Parameters
    ----------
    features : RowFeatures
    budget : PrivacyBudget
        The fit spends all of it, except for the mean of the target.
    mechanism : {"gradient", "ridge"}
    loss : {"squared", "huber", "logistic", "softmax"}
    steps : int
    n_rows : float
        Declared, or released.
    intervals : {"bound", "measured"}
    """
    seen = features.map.evaluate(features.even_codes(EVEN_ROWS))
    lengths = np.linalg.eigvalsh(seen.T @ seen / EVEN_ROWS).clip(min=0.0)
    replaced = budget.neighbours is not Neighbours.ADD_REMOVE
    mu = math.sqrt(budget.mu_squared * ((1 - MEAN_SHARE) if loss in ("squared", "huber") else 1))
    if mechanism == "ridge":
        noise = 1.25 * (math.sqrt(2) if replaced else 1) / mu
        inverse = 1 / (n_rows * lengths + 0.5 * noise * math.sqrt(2 * len(lengths)))
        return math.sqrt(float(lengths @ inverse**2) * noise**2 / 2)
    if intervals == "measured" and features.waves is None:
        mu *= math.sqrt(1 - MOMENTS_SHARE)
    used = DESCENTS[loss]
    std = (2 if replaced else 1) * used.clip * math.sqrt(steps) / mu / n_rows
    found = noise_of_average(used.curvature * lengths, rate=used.rate_of(features), steps=steps, std=std)
    return math.sqrt(float(lengths @ found))


def averaged_descent(
    ask: Callable[[Vector], Vector],
    *,
    features: int,
    rate: float,
    steps: int,
    kept: Callable[[Vector], Vector] = lambda coefficients: coefficients,
) -> Vector:
    """Descend along mean gradients from 0, and average the later half of the iterates.

    Parameters
    ----------
    ask : callable
        The mean gradient at some coefficients, exact or noisy, over a public number of rows.
    features : int
        p.
    rate : float
        eta.
    steps : int
        T, at least 1.
    kept : callable
        Moves coefficients to where gradients can be asked for; noise may lead outside.

    Returns
    -------
    array of shape (p,)
        The average of the last ceil(T / 2) iterates.
    """
    now, total = np.zeros(features), np.zeros(features)
    for step in range(steps):
        now = kept(now - rate * ask(now))
        if step >= steps // 2:
            total += now
    return total / (steps - steps // 2)
