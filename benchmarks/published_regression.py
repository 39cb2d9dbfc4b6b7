r"""Private random-feature regression as published (Liao 2024, Algorithm 1), and what it is compared with. NOT private.

Research code on plain arrays, to reproduce figures and to attack them. No generator, session or service uses it, and a
test of the house rules holds that. Nothing here has an epsilon; ``epsilon`` below is what the paper would claim.

Why Algorithm 1 keeps no promise:

- its sensitivity (Lemma 6) bounds the sum of two solutions' lengths with some probability over *random* rows; a
  sensitivity must hold for all neighbours, and with two near-equal rows of different labels there is none;
- it asks for labels of length 1 altogether; labels of the public code have a length of 10 to 20;
- the public code divides features by sqrt(N / 2) and keeps the sensitivity of features that are not divided: its noise
  is too small by that factor, which is where an error that falls with N comes from;
- ranges of columns and the length of the labels are taken from the rows and paid for by nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "claimed_noise_std",
    "claimed_sensitivity",
    "code_features",
    "cosine_features",
    "gamma_noise",
    "gaussian_noise",
    "kaczmarz",
    "least_norm",
    "prediction_noise_variance",
    "sgd",
    "sgd_noise_std",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def cosine_features(x: Matrix, frequencies: Matrix, phases: Vector) -> Matrix:
    r"""Return cos(<w, x> + b), unscaled, as in section 2.2 of the paper; frequencies of shape (N, d)."""
    return np.asarray(np.cos(x @ frequencies.T + phases))


def least_norm(features: Matrix, labels: Vector) -> Vector:
    r"""Return the shortest of the coefficients that fit best (Liao 2024, eq. 3), by the pseudo-inverse."""
    return np.asarray(np.linalg.pinv(features) @ labels)


def kaczmarz(features: Matrix, labels: Vector, random: np.random.Generator, *, steps: int) -> Vector:
    r"""Return coefficients after some steps of the randomised Kaczmarz method from 0 (Strohmer 2009).

    .. math:: c \leftarrow c + \frac{y_i - \langle a_i, c \rangle}{|a_i|^2} a_i

    with i uniform. It tends to the minimum-norm interpolant where there is one; the paper takes one step for each row.
    """
    found, lengths = np.zeros(features.shape[1]), (features**2).sum(axis=1)
    for row in random.integers(0, len(features), size=steps).tolist():
        found += (labels[row] - features[row] @ found) / lengths[row] * features[row]
    return found


def claimed_sensitivity(features: int, *, eta: float = 3 / 8) -> float:
    """Return Delta of Algorithm 1, 2 / sqrt(N (1 - 2 eta)); with eta = 3/8, 4 / sqrt(N)."""
    return 2 / math.sqrt(features * (1 - 2 * eta))


def claimed_noise_std(features: int, *, epsilon: float, delta: float, eta: float = 3 / 8) -> float:
    """Return sigma of Algorithm 1; the formula is that of the classical Gaussian mechanism, for epsilon below 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) * claimed_sensitivity(features, eta=eta) / epsilon


def prediction_noise_variance(*, epsilon: float, delta: float, eta: float = 3 / 8) -> float:
    """Return the noise of a prediction by Algorithm 1, in units of the labels' length: it does not fall with N."""
    return 8 * math.log(1.25 / delta) / ((1 - 2 * eta) * epsilon**2)


def gaussian_noise(features: int, random: np.random.Generator, *, epsilon: float, delta: float) -> Vector:
    """Draw what Algorithm 1 adds to the coefficients."""
    return claimed_noise_std(features, epsilon=epsilon, delta=delta) * random.standard_normal(features)


def gamma_noise(features: int, random: np.random.Generator, *, epsilon: float) -> Vector:
    """Draw the noise of Chaudhuri 2011 as the paper compares with it: a Gamma length, a uniform direction."""
    direction = random.standard_normal(features)
    length = random.gamma(features, claimed_sensitivity(features) / epsilon)
    return length * direction / np.linalg.norm(direction)


def sgd(features: Matrix, labels: Vector, random: np.random.Generator, *, steps: int, rate: float) -> Vector:
    """Return the coefficients of one-row stochastic gradient descent from 0 (the paper's second baseline)."""
    found = np.zeros(features.shape[1])
    for row in random.integers(0, len(features), size=steps).tolist():
        found -= rate * (features[row] @ found - labels[row]) * features[row]
    return found


def sgd_noise_std(rows: int, *, steps: int, rate: float, epsilon: float, delta: float) -> float:
    r"""Return the noise that the public code adds to the last iterate.

    .. math:: \sqrt{2 \log(2.5/\delta)} \cdot 4 e \eta^2 (1 + \sqrt{\eta T})^2
        \frac{T}{m} (1 + C) \left(1 + \frac{T (1 + C)}{m}\right) / \varepsilon

    with C the larger of x and sqrt(x), x = 3 m log(2 m / delta) / T.
    """
    x = 3 * rows * math.log(2 * rows / delta) / steps
    often = 1 + max(x, math.sqrt(x))
    spread = (
        4 * math.e * rate**2 * (1 + math.sqrt(rate * steps)) ** 2 * steps * often * (1 + steps * often / rows) / rows
    )
    return math.sqrt(2 * math.log(2.5 / delta)) * spread / epsilon


def code_features(x: Matrix, frequencies: Matrix, phases: Vector) -> Matrix:
    """Return the features of the public code: cosines times sqrt(2 / N), which is not what the noise is made for."""
    return math.sqrt(2 / len(frequencies)) * cosine_features(x, frequencies, phases)
