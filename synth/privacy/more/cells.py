r"""Accounts of single cells: what noise on them costs, and what it gives a whole row.

Where one cell is hidden, noise is paid for in pure epsilon, which adds: a mu of pure epsilon 1 would be worth more than
epsilon 1 at any usual delta. For a whole row k cells may all change, and epsilon is stated at a delta.

Laplace noise of scale b on a number that moves by s gives the pair N, N + s with s / b = e. Its privacy loss lies in
[-e, e], and its curve is delta(t) = 1 - exp((t - e) / 2) there. Cells have independent noise, so the losses of a row
add (Kairouz 2017). The sum's law is calculated by a Fourier transform on a grid, with every rounding upwards:

- a curve is replaced by its chords between grid points, which lie above it because delta is convex in exp(t)
  (Doroshenko 2022); chords are the curve of a law on grid points;
- the law is tilted by exp(theta t) first, so that the part of it that decides delta is not small, and what falls
  outside the window is bounded by Chernoff's inequality and added to delta;
- an error bound of the transforms is added as well.

Proofs, and why numbers that move together by at most l1 and one by one by at most ``largest`` are covered by l1 /
largest numbers that move by ``largest`` each: ``docs/proofs/noisy-rows.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from synth.errors import PrivacyError
from synth.privacy.costs import MU_UNIT, mu_of_pure, mu_squared_of, units_of

__all__ = [
    "CellNoise",
    "changes_of_cells",
    "pure_epsilon_of",
    "pure_units_of",
    "pure_units_of_cells",
    "row_epsilon",
    "row_epsilon_of_cells",
    "units_of_cells",
]

POINTS = 2**17
"""Points of the grid of the sum's law."""

DEVIATIONS = 14.0
"""Half the width of the window, in standard deviations of the tilted law."""

WIDE = 0.05
"""Least half width of the window, as a part of the plain sum of all epsilons: sums of few numbers need it."""

STEEPEST = 200.0
"""Most that a tilt may change a weight by, as an exponent, over the smallest half of a window."""

PASSES, TOLERANCE = 40, 1e-5
"""How often the window is moved to the epsilon that was found, and the relative gain at which this ends."""

MARGIN = 1e-9
"""Relative margin over the last bits of float64 sums, on delta and on epsilon."""

FLOAT = 2.0**-53
SMALLEST_TILT, LARGEST_TILT, TILT_DIGITS = 1e-6, 1e6, 1e-3

Change = tuple[float, int]
"""Epsilon of one noisy number, and how many such numbers change with a row."""

Reals = NDArray[np.float64]


class CellNoise(NamedTuple):
    """Laplace noise of one column's cells, all in grid steps.

    ``l1`` is the largest L1 change of a cell's numbers that the promise for one cell covers; ``row_l1`` and
    ``row_largest`` are the largest L1 change and the largest change of one number when the cell may change altogether,
    as it does with its row; ``scale`` is that of the noise on each number.
    """

    l1: int
    row_l1: int
    row_largest: int
    scale: int

    @property
    def is_noise(self) -> bool:
        """Whether the four numbers can be those of noise."""
        return self.row_l1 >= self.l1 >= 0 and self.row_l1 >= self.row_largest >= 0 and self.scale >= 1

    @classmethod
    def of_json(cls, value: Any) -> Self | None:
        """Return the noise that a list of four whole numbers states; None where it is none."""
        whole = isinstance(value, list) and all(type(number) is int for number in value)
        return cls(*value) if whole and len(value) == len(cls._fields) else None


def pure_units_of(epsilon: float) -> int:
    """Return a pure epsilon in whole units of 2^-40, rounded up."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise PrivacyError(f"A pure epsilon must be finite and at least 0, got {epsilon}.")
    return math.ceil(Fraction(epsilon) / Fraction(MU_UNIT))


def pure_epsilon_of(units: int) -> float:
    """Return whole units of 2^-40 as a pure epsilon; never below the true value."""
    return mu_squared_of(units)


def units_of_cells(cells: Iterable[CellNoise]) -> int:
    """Return the cost, in units of mu^2, of Laplace noise on every cell of a row that may change wholly."""
    return sum(units_of(mu_of_pure(math.nextafter(l1 / scale, math.inf)) ** 2) for l1, _, _, scale in cells if l1)


def pure_units_of_cells(cells: Iterable[CellNoise]) -> int:
    """Return the pure epsilon, in units of 2^-40, of Laplace noise on cells of which one may change.

    It moves the numbers of one column, so the most expensive column is the cost of them all.
    """
    return max(math.ceil(Fraction(l1, scale) / Fraction(MU_UNIT)) for l1, _, _, scale in cells)


@dataclass(frozen=True, slots=True)
class _Law:
    """The tilted law of one number's loss on grid points first, first + 1, ...: weights, and the logarithm of M."""

    first: int
    weights: Reals
    log_moment: float


def row_epsilon_of_cells(cells: Sequence[CellNoise], delta: float, *, numbers: int) -> float:
    """Return epsilon at ``delta`` for replacing a row whose cells have this noise; 0 where none of them can change."""
    return row_epsilon(tuple(sorted(changes_of_cells(cells, numbers=numbers))), delta)


def changes_of_cells(cells: Sequence[CellNoise], *, numbers: int) -> tuple[Change, ...]:
    """Return changes of continuous Laplace noise that cover those of noisy cells on a grid.

    Parameters
    ----------
    cells : sequence of CellNoise
        Every column's noise; with its row a cell may change completely, even where the promise for one cell covers
        smaller changes.
    numbers : int
        Numbers of a row.

    Notes
    -----
    Noise on a grid of scale t steps is covered by continuous noise with an epsilon larger by 1 / (4 t^2).
    """
    found: dict[float, int] = {}
    for _, l1, largest, scale in cells:
        if l1 == 0:
            continue
        finer = 1 / (4 * scale**2)
        most, left = largest / scale + finer, l1 / scale + numbers * finer
        whole = math.floor(left / most)
        for epsilon, count in ((most, whole), (left - whole * most, 1)):
            if count and epsilon > 0:
                rounded = _rounded_up(epsilon)
                found[rounded] = found.get(rounded, 0) + count
    return tuple(found.items())


def _rounded_up(epsilon: float) -> float:
    """Round up to 16 binary digits, so that columns of nearly the same noise are one kind of number."""
    mantissa, exponent = math.frexp(epsilon)
    return math.ldexp(math.ceil(mantissa * 2**16 * (1 + MARGIN)), exponent - 16)


@lru_cache(maxsize=256)
def row_epsilon(changes: tuple[Change, ...], delta: float) -> float:
    """Return an upper bound, tight to about four digits, on epsilon at ``delta`` when all the numbers change.

    Parameters
    ----------
    changes : tuple of (float, int)
        Epsilon of a noisy number, and how many there are of it.
    delta : float
        From 0 to below 1; 0 gives the plain sum.

    Raises
    ------
    PrivacyError
        If an epsilon or a number of them is not positive, or delta is out of range.
    """
    if not all(math.isfinite(epsilon) and epsilon > 0 and count >= 1 for epsilon, count in changes):
        raise PrivacyError("Every change of a row needs a positive epsilon and a number of at least 1.")
    if not 0 <= delta < 1:
        raise PrivacyError(f"delta must be at least 0 and below 1, got {delta}.")
    total = math.fsum(epsilon * count for epsilon, count in changes) * (1 + MARGIN)
    if delta == 0 or not changes:
        return total
    found, centre = total, _chernoff(changes, delta)
    for _ in range(PASSES):
        # The first window is centred on Chernoff's bound, every later one on the epsilon found before.
        before, found = found, min(found, _searched(changes, delta, centre))
        centre = found
        if found > before * (1 - TOLERANCE):
            break
    return float(found)


def _chernoff(changes: Sequence[Change], delta: float) -> float:
    """Return the epsilon that Chernoff's inequality proves: min over theta of (log M - log delta) / theta."""
    grid = np.geomspace(SMALLEST_TILT, LARGEST_TILT, 481)
    bounds = [(_log_moments(changes, theta) - math.log(delta)) / theta for theta in grid]
    return max(float(min(bounds)), 0.0)


def _searched(changes: Sequence[Change], delta: float, centre: float) -> float:
    """Return the least epsilon within a window around ``centre`` whose delta is small enough."""
    total = math.fsum(epsilon * count for epsilon, count in changes)
    # A steeper tilt than the window can show would put all weight on its last points.
    theta = min(_tilt(changes, centre), STEEPEST / (WIDE * total))
    half = max(DEVIATIONS * math.sqrt(_spread(changes, theta)), WIDE * total)
    low, high = centre - half, min(centre + half, total * (1 + WIDE))
    # A single number's law has to fit on the grid too.
    step = max((high - low) / POINTS, 4 * max(epsilon for epsilon, _ in changes) / POINTS)
    first = math.floor(low / step)
    curve = _Curve.of(changes, theta=theta, step=step, first=first)
    worst, best = first + 1, first + POINTS - 1
    if curve.delta(best * step) > delta:
        return math.inf
    while best - worst > 1:
        middle = (worst + best) // 2
        worst, best = (worst, middle) if curve.delta(middle * step) <= delta else (middle, best)
    return max(best * step, 0.0) * (1 + MARGIN)


@dataclass(frozen=True, slots=True)
class _Curve:
    """The sum's tilted law on a window of grid points, and what has to be added to any delta read from it."""

    theta: float
    step: float
    first: int
    weights: Reals
    log_moment: float
    error: float
    outside: float

    @classmethod
    def of(cls, changes: Sequence[Change], *, theta: float, step: float, first: int) -> _Curve:
        spectrum = np.ones(POINTS // 2 + 1, dtype=np.complex128)
        log_moment, start, error, last = 0.0, 0, 0.0, 0
        for epsilon, count in changes:
            law = _law(epsilon, theta=theta, step=step)
            wrapped = np.bincount(np.arange(law.weights.size) % POINTS, weights=law.weights, minlength=POINTS)
            spectrum *= rfft(wrapped) ** count
            log_moment += count * law.log_moment
            start += count * law.first
            last += count * (law.first + law.weights.size - 1)
            # A transform of n numbers errs by at most 7 log2(n) 2^-53 of their length, in length (Higham 2002, 24.2).
            error += count * float(np.linalg.norm(wrapped))
        weights = np.roll(irfft(spectrum, POINTS), (start - first) % POINTS)
        error = (error + 1) * 7 * math.log2(POINTS) * FLOAT * math.sqrt(POINTS)
        end = (first + POINTS - 1) * step
        outside = 0.0 if last <= first + POINTS - 1 else _above(changes, theta, step, end)
        return cls(theta, step, first, np.maximum(weights, 0.0), log_moment, error, outside)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at an epsilon of the window."""
        losses = (self.first + np.arange(POINTS)) * self.step
        above = losses > epsilon
        # One exponent, so that no factor of it underflows: where tilting back is steep, the error makes delta large.
        back = np.exp(np.minimum(self.log_moment - self.theta * losses[above], 700.0))
        inside = float(((self.weights[above] + self.error) * back * -np.expm1(epsilon - losses[above])).sum())
        return (inside + self.outside) * (1 + MARGIN)


def _law(epsilon: float, *, theta: float, step: float) -> _Law:
    """Put the chords of one number's curve on the grid, tilt the law and scale it to weights of sum 1."""
    last = math.ceil(epsilon / step)
    places = np.arange(-last - 1, last + 2) * step
    curve = np.where(places < -epsilon, -np.expm1(places), -np.expm1((np.minimum(places, epsilon) - epsilon) / 2))
    changes = np.diff(curve)
    # Where chords of slopes a and b (in exp(t)) meet at t there is a mass of exp(t) (b - a).
    masses = changes[1:] / math.expm1(step) + changes[:-1] / math.expm1(-step)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(masses, 0.0)) + theta * places[1:-1]
    log_moment = float(np.logaddexp.reduce(logs))
    return _Law(-last, np.exp(logs - log_moment), log_moment)


def _above(changes: Sequence[Change], theta: float, step: float, end: float) -> float:
    """Bound the untilted mass beyond the window by Chernoff's inequality, with a few tilts."""
    bounds = []
    for tilt in (theta, 1.5 * theta, 2 * theta, 4 * theta):
        log_moment = math.fsum(count * _law(epsilon, theta=tilt, step=step).log_moment for epsilon, count in changes)
        bounds.append(log_moment - tilt * end)
    return math.exp(min(min(bounds), 0.0))


def _log_moments(changes: Sequence[Change], theta: float) -> float:
    return math.fsum(count * _log_moment(epsilon, theta) for epsilon, count in changes)


def _log_moment(epsilon: float, theta: float) -> float:
    """Return log E exp(theta L) of one number's loss L, less the rounding of a few float64 operations."""
    rate = theta + 0.5
    # exp(theta e) [1/2 + exp(-(1 + 2 theta) e)/2 + (1 - exp(-2 rate e)) / (4 rate)]
    drop = math.exp(-2 * rate * epsilon)
    return theta * epsilon + math.log(0.5 + drop / 2 + (1 - drop) / (4 * rate))


def _mean(changes: Sequence[Change], theta: float) -> float:
    width = 1e-4 * theta
    return (_log_moments(changes, theta + width) - _log_moments(changes, theta - width)) / (2 * width)


def _spread(changes: Sequence[Change], theta: float) -> float:
    """Return the approximate variance of the tilted sum: it only determines the width of the window."""
    width = 1e-2 * theta
    return abs(_mean(changes, theta + width) - _mean(changes, theta - width)) / (2 * width)


def _tilt(changes: Sequence[Change], mean: float) -> float:
    """Return the tilt whose law has this mean, within the range of tilts; any tilt gives a valid bound."""

    def gap(log_theta: float) -> float:
        return _mean(changes, math.exp(log_theta)) - mean

    low, high = math.log(SMALLEST_TILT), math.log(LARGEST_TILT)
    while high - low > TILT_DIGITS:
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) < 0 else (low, middle)
    return math.exp(high)
