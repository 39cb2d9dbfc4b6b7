"""What one unit adds to a step of EM, written out number by number with the floats of Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from synth.privacy.more.em_models import GaussianPair, MissingCovariates, Model, RegressionPair
from synth.privacy.more.em_steps import EMStepQuestion, _soft_table
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED

__all__ = ["log_likelihood", "maximised", "row_of_step", "unit_of_step"]

Row = dict[str, int]


def unit_of_step(question: EMStepQuestion, rows: Sequence[Row], *, rows_each: int = 1) -> list[int]:
    """What a unit with these rows adds, in steps of 2^-24 of the bound."""
    total = [sum(entries) for entries in zip(*(row_of_step(question, row) for row in rows), strict=True)]
    entries = [float(entry) * (1.0 / (question.clip * 2.0**32)) for entry in total]
    if question.bounding == "norm":
        square = 0.0
        for entry in entries:
            square += entry * entry
        length = max(1.0, math.sqrt(square))
        whole = [math.trunc(entry * ((1 - 2.0**-30) * 2.0**24) / length) for entry in entries]
    else:
        bounded = [_softly(entry, question) for entry in entries] if question.bounding == "soft" else entries
        whole = [math.trunc(min(max(entry, -1.0), 1.0) * 2.0**24) for entry in bounded]
    return [math.trunc(Fraction(one, rows_each)) for one in whole]


def row_of_step(question: EMStepQuestion, row: Row) -> list[int]:
    """What one row adds before it is bounded, in steps of 2^-32."""
    numbers = []
    for table, scale in zip(question.tables, question.scales.tolist(), strict=True):
        code = row[table.column]
        numbers.append(float(table.table[code if table.bins is None else table.bins[code], 0]) * scale)
    beta = question.parameters.tolist()
    model, printed = question.model, question.model.as_printed
    if isinstance(model, GaussianPair):
        sign = _sign(_dot(numbers, beta), model.noise_std, printed)
        found = [sign * number for number in numbers]
        if not question.statistics:
            found = [one - at for one, at in zip(found, beta, strict=True)]
    elif isinstance(model, RegressionPair):
        *x, y = numbers
        fitted = _dot(x, beta)
        slope = _sign(y * fitted, model.noise_std, printed) * y - fitted
        found = [slope * one for one in x]
    else:
        *x, y = numbers
        missing = [row[table.column] == code for table, code in zip(question.tables, question.hidden, strict=False)]
        found = _of_missing(x, missing, y, beta, model.noise_std, printed)
    return [math.trunc(min(max(one, -(2.0**14)), 2.0**14) * 2.0**32) for one in found]


def _of_missing(
    x: list[float], missing: list[bool], y: float, beta: list[float], noise_std: float, printed: bool
) -> list[float]:
    """Return y m - K beta, K beta = D beta + m <m, beta> - ((1-z) m) <(1-z) m, beta> as printed."""
    x = [0.0 if gone else one for one, gone in zip(x, missing, strict=True)]
    hidden = [at if gone else 0.0 for at, gone in zip(beta, missing, strict=True)]
    length, rest = _dot(hidden, hidden), y - _dot(x, beta)
    variance = noise_std**2 + length
    m = [one + rest / variance * at for one, at in zip(x, hidden, strict=True)]
    scale = 1.0 if printed else 1 - length / variance
    product = [at * scale + one * _dot(m, beta) for at, one in zip(hidden, m, strict=True)]
    if printed:
        product = [
            one - (mean if gone else 0.0) * _dot(m, hidden) for one, mean, gone in zip(product, m, missing, strict=True)
        ]
    return [y * mean - one for mean, one in zip(m, product, strict=True)]


def _dot(one: list[float], other: list[float]) -> float:
    total = 0.0
    for first, second in zip(one, other, strict=True):
        total += first * second
    return total


def _sign(product: float, noise_std: float, printed: bool) -> float:
    odds = abs(product) * ((1 if printed else 2) / noise_std**2)
    return math.copysign(2 * (1.0 / (1.0 + _exponential(-odds))) - 1, product) if product else 0.0


def _exponential(x: float) -> float:
    x = max(x, -700.0)
    power = round(x * (1.0 / math.log(2.0)))  # to even, as IEEE arithmetic rounds
    rest = (x - power * 6.93147180369123816490e-01) - power * 1.90821492927058770002e-10
    found = 1.0 / math.factorial(13)
    for k in range(12, -1, -1):
        found = found * rest + 1.0 / math.factorial(k)
    return math.ldexp(found, power)


def _softly(entry: float, question: EMStepQuestion) -> float:
    size = abs(entry) * LARGEST_TRUNCATED
    place = size / (1.0 + size) * 2.0**14
    below = min(math.floor(place), 2**14 - 1)
    low, high = _soft_table(question.precision)[below : below + 2].tolist()
    return math.copysign(low + (high - low) * (place - below), entry)


def log_likelihood(model: Model, rows: np.ndarray, beta: np.ndarray) -> float:
    """The mean over rows of the logarithm of their density, up to a constant."""
    variance, x, y = model.noise_std**2, rows[:, :-1], rows[:, -1]
    if isinstance(model, MissingCovariates):
        *_, residual, spread = _expected(model, rows, beta)
        return float(-np.mean(residual**2 / spread + np.log(spread)) / 2)
    if isinstance(model, GaussianPair):
        along, squares = rows @ beta, (rows**2).sum(axis=1) + beta @ beta
    else:
        along, squares = y * (x @ beta), y**2 + (x @ beta) ** 2
    return float(np.mean(np.logaddexp(along / variance, -along / variance) - squares / (2 * variance)))


def maximised(model: Model, rows: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The beta that a step of EM ends at whose E-step is taken at ``beta`` (appendix I)."""
    x, y = rows[:, :-1], rows[:, -1]
    if isinstance(model, MissingCovariates):
        seen, mean, hidden, _, spread = _expected(model, rows, beta)
        missing = np.where(seen, 0.0, mean)
        total = mean.T @ mean + np.diag((~seen).sum(axis=0).astype(float))
        total -= missing.T @ missing if model.as_printed else (hidden / spread[:, None]).T @ hidden
        return np.linalg.solve(total, mean.T @ y)
    half = (1 if model.as_printed else 2) / (2 * model.noise_std**2)
    if isinstance(model, GaussianPair):
        return (np.tanh(half * (rows @ beta))[:, None] * rows).mean(axis=0)
    return np.linalg.solve(x.T @ x, x.T @ (np.tanh(half * y * (x @ beta)) * y))


def _expected(model: MissingCovariates, rows: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, ...]:
    """Which covariates are seen, their means, beta where they are not, and the residual of y with its variance."""
    d, y = len(beta), rows[:, -1]
    seen = rows[:, d : 2 * d] != 0
    x, hidden = np.where(seen, rows[:, :d], 0.0), np.where(seen, 0.0, beta)
    residual, spread = y - x @ beta, model.noise_std**2 + (hidden**2).sum(axis=1)
    return seen, x + (residual / spread)[:, None] * hidden, hidden, residual, spread
