r"""What a run of steps costs whose every step draws the units it reads: the Poisson-subsampled Gaussian mechanism.

Each of T steps takes every unit with chance q, independently, and releases the sum of the bounded vectors of those it
took with Gaussian noise of z times the bound. Adding or removing one unit is at most as visible as telling
N(0, z^2)^T from ((1 - q) N(0, z^2) + q N(1, z^2))^T, in either direction (Zhu 2022).

No mu covers such a run at every epsilon: its farthest tail is that of the run that reads everybody, times q^T. A run
therefore costs a mu *and* an additive delta d: at every epsilon, and in both directions,

.. math:: \delta_{run}(\varepsilon) \le d + (1 - d)\, \delta_\mu(\varepsilon),

the curve of "with chance d tell everything, else be mu-GDP". Squares of mu and additive deltas add up with those of
other answers. The run's curve comes from its privacy loss distribution on a grid, with every rounding upwards:

- losses between two grid points are split among both so that the two laws keep their masses (the chords of
  Doroshenko 2022, which lie above the curve);
- the law is tilted by exp(theta l) before its T-fold convolution by a Fourier transform, with several theta, so that
  the part of it that decides delta is never small; what lies above the window is bounded by Chernoff's inequality;
- bounds on every rounding of float64 are added: :func:`_power_error` for the transforms.

The proofs are in ``docs/proofs/sampled-runs.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from synth.errors import PrivacyError

__all__ = [
    "LARGEST_STEPS",
    "SAMPLING_DELTA_PART",
    "LossTooLargeError",
    "SampledRun",
    "epsilon_of_sampled_run",
    "mu_of_sampled_run",
    "noise_multiplier_of",
    "require_additive",
]

SAMPLING_DELTA_PART = 2.0**-6
"""Part of a budget's delta that sampled runs may add: all other answers need less than .1 % more noise, and the run
less than 8 % more than with the best part (``benchmarks/sampled_runs.py parts``)."""

LARGEST_STEPS = 10**6
SMALLEST_RATE = 2.0**-30
SMALLEST_MULTIPLIER, LARGEST_MULTIPLIER = 2.0**-4, 2.0**14
LARGEST_LOSS = 600.0
"""Largest total loss that is followed: exp(loss) has to be a float."""

POINTS = (2**14, 2**17)
"""Fewest and most points of the grid of the total loss."""

FINENESS = 64.0
"""Points of the grid in one standard deviation of one step's loss, where the most points allow it."""

TAIL_PART = 2.0**-6
"""Part of the additive delta that each of four tails may take: one step's and the run's, each cut in two directions."""

ROOM = 1.5
"""The window reaches so many times as far as the largest total loss that is not cut off, if that can be."""

TILTS = 6
PARTS_OF_TILT = (0.5, 0.8, 0.95)
"""Tilts for equally spaced losses, and parts of the first: each tilt is accurate around the loss that it makes the
mean."""

DIGITS = 14
"""Binary digits of mu and of a noise multiplier, rounded up: another processor's last bits seldom change the result."""

FLOAT = 2.0**-53
_SMALLEST_DELTA = 1e-100
_COARSE = 64
"""The search for mu looks at every 64th grid point; the mu that is returned is checked at all of them."""

_SMALLEST_MU, _LARGEST_MU = 2.0**-40, 64.0

_WRAPPED = 1e-9
"""Chance of the losses that may fall below the window, and wrap around to its top, where nothing is tilted."""

_PHI_ERROR = 2.0**-40
"""Relative error of scipy's Phi, at most, as far out as tails are cut."""

_TOO_LARGE = (
    "Such a run costs too much to promise anything. Use a larger noise multiplier, a lower sampling rate or fewer "
    "steps."
)

Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class SampledRun:
    """A run of Gaussian releases, each of the units that a step draws; two tables differ by one added or removed unit.

    Parameters
    ----------
    rate : float
        Chance q of a unit to be taken, in each step independently; above 0, at most 1.
    steps : int
        Number of steps T.
    noise_multiplier : float
        Standard deviation of a step's noise over the bound on the norm of one unit's vector.

    Raises
    ------
    PrivacyError
        If a number is out of its range.
    """

    rate: float
    steps: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        _require_rate_and_steps(self.rate, self.steps)
        if not SMALLEST_MULTIPLIER <= self.noise_multiplier <= LARGEST_MULTIPLIER:
            raise PrivacyError(
                f"A noise multiplier must lie between {SMALLEST_MULTIPLIER:g} and {LARGEST_MULTIPLIER:g}, "
                f"got {self.noise_multiplier}."
            )


class _Step(NamedTuple):
    """One step's loss on grid points ``first``, ``first + 1``, ...: masses, the mass at infinity, and a shift.

    The true loss is covered by the one on the grid plus ``shift``.
    """

    first: int
    masses: Reals
    infinite: float
    shift: float


class _Curve(NamedTuple):
    """Upper bounds on a run's delta, in both directions, at losses ``places * step + shift``; chords hold between."""

    losses: Reals
    step: float
    deltas: Reals


class _Window(NamedTuple):
    """Where the total loss is followed: points ``first`` to ``first + points - 1``, times ``step``.

    ``tilts`` are those of the direction in which the unit is removed, and of the one in which it is added.
    """

    step: float
    first: int
    points: int
    tilts: tuple[tuple[float, ...], tuple[float, ...]]


@lru_cache(maxsize=1024)
def mu_of_sampled_run(run: SampledRun, *, additive_delta: float) -> float:
    """Return the least mu, rounded up to 14 binary digits, that covers a run together with ``additive_delta``.

    Parameters
    ----------
    run : SampledRun
    additive_delta : float
        From 1e-100 to 1/2. The run's delta is at most ``additive_delta + (1 - additive_delta) * delta_mu`` at every
        epsilon, in both directions.

    Raises
    ------
    PrivacyError
        If ``additive_delta`` is out of range, or the run's total loss is too large for the grid.
    """
    require_additive(additive_delta)
    if run.rate == 1:
        return _rounded_up(math.sqrt(run.steps) / run.noise_multiplier * (1 + 8 * FLOAT))
    curve = _curve(run, additive_delta)
    # From where on the additive delta is enough no mu is needed; ``_curve`` leaves tails far below it.
    last = int(np.searchsorted(-curve.deltas, -additive_delta))
    losses, deltas = curve.losses[: last + 1], curve.deltas[: last + 1]

    def covers(mu: float, every: int = 1) -> bool:
        return _is_covered(losses, deltas, curve.step, mu, additive_delta, every=every)

    upper = min(_typical_mu(run), _LARGEST_MU)
    while not covers(upper, _COARSE):
        if upper > _LARGEST_MU:
            raise LossTooLargeError(_TOO_LARGE)
        upper *= 2
    lower = upper / 2
    while covers(lower, _COARSE) and lower > _SMALLEST_MU:
        lower, upper = lower / 2, lower
    while upper - lower > 2.0 ** -(DIGITS + 4) * upper:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if covers(middle, _COARSE) else (middle, upper)
    mu = _rounded_up(upper)
    while not covers(mu):
        mu = _rounded_up(math.nextafter(mu, math.inf))
    return mu


@lru_cache(maxsize=256)
def epsilon_of_sampled_run(run: SampledRun, delta: float) -> float:
    """Return a run's own epsilon at ``delta``, rounded up: without a mu, for comparison with other accountants.

    Raises
    ------
    PrivacyError
        As :func:`mu_of_sampled_run`.
    """
    require_additive(delta)
    curve = _curve(run, delta / 16)
    place = int(np.searchsorted(-curve.deltas, -delta))
    if place == 0:
        return 0.0
    # The curve is at most linear in exp(loss) between two points.
    above, below = float(curve.deltas[place - 1]), float(curve.deltas[place])
    part = (above - delta) / (above - below)
    return max(float(curve.losses[place - 1]) + math.log1p(part * math.expm1(curve.step)), 0.0)


@lru_cache(maxsize=256)
def noise_multiplier_of(rate: float, steps: int, *, mu_squared: float, additive_delta: float) -> float:
    """Return the least noise multiplier, up to a relative 2^-10, with which a run costs at most ``mu_squared``.

    Raises
    ------
    PrivacyError
        If a number is out of range, or no noise multiplier up to 2^14 is enough.
    """
    if not (math.isfinite(mu_squared) and mu_squared > 0):
        raise PrivacyError(f"mu squared must be positive and finite, got {mu_squared}.")
    require_additive(additive_delta)
    _require_rate_and_steps(rate, steps)

    def excess(multiplier: float) -> float:
        """Return the logarithm of mu^2 over what is allowed: at most 0 where the noise is enough."""
        try:
            mu = mu_of_sampled_run(SampledRun(rate, steps, multiplier), additive_delta=additive_delta)
        except LossTooLargeError:
            return math.inf
        return math.log(mu**2 / mu_squared)

    little, enough = (0.0, math.inf), (math.inf, -math.inf)
    multiplier = _typical_multiplier(rate, steps, math.sqrt(mu_squared))
    while enough[0] > little[0] * (1 + 2.0**-10):
        multiplier = _rounded_up(min(max(multiplier, SMALLEST_MULTIPLIER), LARGEST_MULTIPLIER))
        over = excess(multiplier)
        if over <= 0:
            enough = (multiplier, over)
        else:
            little = (multiplier, over)
        if over > 0 and multiplier == LARGEST_MULTIPLIER:
            raise PrivacyError(
                f"No noise multiplier up to {LARGEST_MULTIPLIER:g} keeps {steps:,} steps at a sampling rate of "
                f"{rate:g} within mu squared {mu_squared:g}. Allow more, or take fewer steps."
            )
        if over <= 0 and multiplier == SMALLEST_MULTIPLIER:
            break
        multiplier = _next_multiplier(little, enough)
    return enough[0]


def _next_multiplier(little: tuple[float, float], enough: tuple[float, float]) -> float:
    """Return where to look next, from the closest multipliers of too little and of enough noise."""
    if enough[0] == math.inf:
        return little[0] * math.exp(min(little[1] / 2 * 1.01 + 2.0**-12, 1.0))
    if little[0] == 0.0:
        # mu falls at least as fast as the noise grows
        return enough[0] * math.exp(max(enough[1] / 2, -1.0) * 1.01 - 2.0**-12)
    if little[1] == math.inf:
        return math.sqrt(little[0] * enough[0])
    part = little[1] / (little[1] - enough[1])
    ratio = math.log(enough[0] / little[0])
    # A little beyond the straight line on the side that is farther, so that both ends move in.
    beyond = 2.0**-12 if part < 0.5 else -(2.0**-12)
    return little[0] * math.exp(min(max(part * ratio + beyond, 0.02 * ratio), 0.98 * ratio))


class LossTooLargeError(PrivacyError):
    """A run costs too much for its promise to mean anything."""


def _typical_mu(run: SampledRun) -> float:
    """Return the mu of many steps of little loss each (Dong 2022, corollary 5.4); searches start there."""
    return run.rate * math.sqrt(run.steps * math.expm1(run.noise_multiplier**-2))


def _typical_multiplier(rate: float, steps: int, mu: float) -> float:
    """Return the noise multiplier of which this is the typical mu."""
    return 1 / math.sqrt(math.log1p((mu / rate) ** 2 / steps))


def _rounded_up(value: float) -> float:
    """Round up to ``DIGITS`` binary digits."""
    mantissa, exponent = math.frexp(value)
    return float(math.ldexp(math.ceil(mantissa * 2**DIGITS), exponent - DIGITS))


def _require_rate_and_steps(rate: float, steps: int) -> None:
    if not SMALLEST_RATE <= rate <= 1:
        raise PrivacyError(f"A sampling rate must be above 0 (at least 2^-30) and at most 1, got {rate}.")
    if not 1 <= steps <= LARGEST_STEPS:
        raise PrivacyError(f"A run must have 1 to {LARGEST_STEPS:,} steps, got {steps}.")


def require_additive(delta: float) -> None:
    """Refuse a delta for which the curve of a run is not calculated."""
    if not _SMALLEST_DELTA <= delta <= 0.5:
        raise PrivacyError(f"The delta of a sampled run must lie between 1e-100 and 0.5, got {delta}.")


def _is_covered(losses: Reals, deltas: Reals, step: float, mu: float, additive_delta: float, *, every: int) -> bool:
    """Whether chords between ``deltas`` lie below what a mu and an additive delta cover, between every so many points.

    delta_mu is convex in exp(epsilon), so it lies above its tangent in the middle of two grid points; a chord whose
    ends are below the tangent is below it altogether.
    """
    left = np.arange(0, losses.size - 1, every)
    middle = losses[left] + step / 2
    curve, slope = _gaussian_curve(mu, middle)
    begin = additive_delta + (1 - additive_delta) * (curve - slope * math.expm1(-step / 2))
    end = additive_delta + (1 - additive_delta) * (curve - slope * math.expm1(step / 2))
    return bool(np.all(deltas[left] <= begin) and np.all(deltas[left + 1] <= end))


def _gaussian_curve(mu: float, epsilons: Reals) -> tuple[Reals, Reals]:
    """Return delta of a mu-GDP Gaussian at every epsilon, rounded down, and exp(epsilon) times minus its slope there.

    The slope is by exp(epsilon): delta = Phi(a) - t and t = exp(epsilon) Phi(b), as in ``accounting.log_delta``.
    """
    upper, lower = -epsilons / mu + mu / 2, -epsilons / mu - mu / 2
    second = np.exp(epsilons + log_ndtr(lower))
    with np.errstate(all="ignore"):
        ratio = np.where(upper > 0, second / ndtr(upper), erfcx(-lower / math.sqrt(2)) / erfcx(-upper / math.sqrt(2)))
    first = ndtr(upper)
    return first * np.maximum(1 - ratio - 2.0**-48 * (1 + ratio), 0.0), second


# The curve of a run


@lru_cache(maxsize=8)
def _curve(run: SampledRun, allowed: float) -> _Curve:
    """Return the larger of the two directions' curves; its tails add less than a quarter of ``allowed``."""
    window = _window(run, allowed * TAIL_PART)
    width = window.points * window.step
    steps = [
        _step(run, window.step, tail=allowed * TAIL_PART / run.steps, lowest=-width, removed=removed)
        for removed in (True, False)
    ]
    shift = run.steps * max(step.shift for step in steps)
    # The shift alone makes the curve begin below 0; what is true of losses below 0 follows from those above.
    before = math.ceil(shift / window.step) + 1
    if before >= -window.first:
        raise PrivacyError(
            f"A run of {run.steps:,} steps with a sampling rate of {run.rate:g} and a noise multiplier of "
            f"{run.noise_multiplier:g} costs too little to be measured. Use less noise."
        )
    both = [_deltas(step, run.steps, window, tilts, before) for step, tilts in zip(steps, window.tilts, strict=True)]
    deltas = np.maximum(*both)
    if not deltas[-1] <= allowed:
        raise LossTooLargeError(_TOO_LARGE)
    losses = np.arange(-before, deltas.size - before) * window.step + shift
    return _Curve(np.asarray(losses, np.float64), window.step, np.minimum.accumulate(deltas))


def _window(run: SampledRun, tail: float) -> _Window:
    """Choose grid and tilts by a quadrature of one step's loss; nothing that is promised depends on them."""
    reach = _reach(tail / run.steps)
    places = np.linspace(-reach, 1 / run.noise_multiplier + reach, 2001) * run.noise_multiplier
    none, one = (np.exp(-0.5 * ((places - centre) / run.noise_multiplier) ** 2) for centre in (0, 1))
    none, one = none / none.sum(), one / one.sum()
    losses = _loss(places, run)
    laws = (((1 - run.rate) * none + run.rate * one, losses), (none, -losses))
    spread = max(math.sqrt(float(weights @ values**2) - float(weights @ values) ** 2) for weights, values in laws)
    thetas = np.geomspace(1e-4, 1e3, 141) / (spread * math.sqrt(run.steps))
    lowest, highest, tilts = 0.0, 0.0, []
    for weights, values in laws:
        upward = run.steps * _log_moments(weights, values, thetas)
        highest = max(highest, float(np.min((upward - math.log(tail)) / thetas)))
        downward = run.steps * _log_moments(weights, -values, thetas)
        lowest = min(lowest, -float(np.min((downward - math.log(_WRAPPED)) / thetas)))
        means = np.gradient(upward, thetas)
        tilts.append(means)
    if not highest < LARGEST_LOSS:
        raise LossTooLargeError(_TOO_LARGE)
    # What lies above the window wraps around to its bottom, and tilting back makes it large there: room is left.
    top = min(ROOM * highest, LARGEST_LOSS)
    wanted = (top - lowest) * FINENESS / spread
    points = 2 ** math.ceil(math.log2(min(max(wanted, POINTS[0]), POINTS[1])))
    # Room for the points below 0 that the shift of the losses needs.
    step = (top - lowest) / (points - 2 * _COARSE)
    removed, added = (_tilts(thetas, means, highest) for means in tilts)
    return _Window(step, math.floor(lowest / step) - _COARSE, points, (removed, added))


def _tilts(thetas: Reals, means: Reals, highest: float) -> tuple[float, ...]:
    """Return no tilt, those that make losses up to the highest the mean, and a few below the first of these."""
    upper = [float(np.interp(target, means, thetas)) for target in np.linspace(0, highest, TILTS)[1:]]
    return (0.0, *(part * upper[0] for part in PARTS_OF_TILT), *upper)


def _reach(tail: float) -> float:
    """Return how many standard deviations leave out at most this chance."""
    return -float(ndtri(tail))


def _log_moments(weights: Reals, values: Reals, thetas: Reals) -> Reals:
    """Return log E exp(theta L) for each theta."""
    kept = weights > 0
    exponents = values[kept, None] * thetas + np.log(weights[kept, None])
    largest = exponents.max(axis=0)
    return np.asarray(largest + np.log(np.exp(exponents - largest).sum(axis=0)))


def _loss(places: Reals, run: SampledRun) -> Reals:
    """Return log((1 - q) + q exp((2 x - 1) / (2 z^2))) at the places x, with few roundings."""
    exponents = (places - 0.5) / run.noise_multiplier**2
    plain = (exponents <= 1) & (run.rate <= 0.5)
    left_out = math.log1p(-run.rate) if run.rate < 1 else -math.inf
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.where(
            plain, np.log1p(run.rate * np.expm1(exponents)), np.logaddexp(left_out, math.log(run.rate) + exponents)
        )


def _place(losses: Reals, run: SampledRun) -> Reals:
    """Return the place x of each loss; minus infinity for those that are never reached."""
    with np.errstate(divide="ignore"):
        inner = np.maximum(np.expm1(losses) / run.rate, -1.0)
        return run.noise_multiplier**2 * np.log1p(inner) + 0.5


def _step(run: SampledRun, step: float, *, tail: float, lowest: float, removed: bool) -> _Step:
    """Put one step's loss on the grid, every rounding upwards; ``removed`` is the direction from with to without.

    Parameters
    ----------
    run : SampledRun
    step : float
        Of the grid.
    tail : float
        Chance of the losses, at most, that become infinite.
    lowest : float
        Losses below become this one.
    """
    rate, z = run.rate, run.noise_multiplier
    ends = _loss(np.array([-_reach(tail) * z, 1 + _reach(tail) * z]), run)
    bottom, top = ends if removed else -ends[::-1]
    first, last = math.floor(max(bottom, lowest) / step), math.ceil(top / step)
    losses = np.arange(first, last + 1) * step
    places = _place(losses if removed else -losses, run)
    shift = _misplaced(places, losses if removed else -losses, run)
    without, without_error = _between(places / z)
    with_unit, with_error = _between((places - 1) / z)
    lower = losses[:-1]
    signed = lower if removed else -lower
    # The law without the unit is r, that with it (1 - q) r + q s. The numerator of a cell's part at its upper end is
    # q s - r (q + exp(l) - 1), or the negative of it; it is small, so its error counts.
    factor = rate + np.expm1(signed)
    numerator = rate * with_unit - without * factor
    error = rate * with_error + np.abs(factor) * without_error
    error += 8 * FLOAT * (rate * with_unit + without * (rate + np.abs(np.expm1(signed))))
    if removed:
        whole = (1 - rate) * (without + without_error) + rate * (with_unit + with_error)
        numerator = numerator + error + shift * without * np.exp(lower)
    else:
        whole = without + without_error
        numerator = np.exp(lower) * (error - numerator + shift * ((1 - rate) * without + rate * with_unit))
    whole = whole * (1 + 8 * FLOAT)
    upper = np.clip(numerator / -math.expm1(-step), 0.0, whole)
    masses = np.zeros(losses.size)
    masses[1:] += upper
    masses[:-1] += whole - upper
    if removed:
        below = (1 - rate) * ndtr(places[0] / z) + rate * ndtr((places[0] - 1) / z)
        above = (1 - rate) * ndtr(-places[-1] / z) + rate * ndtr((1 - places[-1]) / z)
    else:
        below, above = ndtr(-places[0] / z), ndtr(places[-1] / z)
    masses[0] += below * (1 + _PHI_ERROR)
    return _Step(first, masses, float(above) * (1 + _PHI_ERROR), shift)


def _misplaced(places: Reals, losses: Reals, run: SampledRun) -> float:
    """Bound how far the losses at these places are from those that the grid says."""
    known = np.isfinite(places)
    exponents = (places[known] - 0.5) / run.noise_multiplier**2
    true = _loss(places[known], run)
    weight = np.exp(np.minimum(math.log(run.rate) + exponents - true, 0.0))
    rounding = np.abs(true) + run.rate + weight * (1 + np.abs(exponents) - math.log(run.rate))
    return float(np.max(np.abs(true - losses[known]) + 16 * FLOAT * rounding, initial=0.0))


def _between(places: Reals) -> tuple[Reals, Reals]:
    """Return the masses of N(0, 1) between neighbouring places, and bounds on their errors; places rise or fall."""
    left, right = ndtr(places), ndtr(-places)
    # Of two differences, the one of the smaller numbers has more true digits.
    use_right = places[:-1] + places[1:] > 0
    masses = np.where(use_right, right[:-1] - right[1:], left[1:] - left[:-1])
    with np.errstate(invalid="ignore"):
        relative = np.nan_to_num(4 * FLOAT * (2 + places**2), nan=0.0, posinf=0.0)
    of_left, of_right = relative * left, relative * right
    errors = np.where(use_right, of_right[:-1] + of_right[1:], of_left[:-1] + of_left[1:])
    return np.abs(masses), errors


def _deltas(step: _Step, steps: int, window: _Window, tilts: tuple[float, ...], before: int) -> Reals:
    """Return upper bounds on delta at grid points ``-before`` and above: the least that any tilt proves."""
    places = step.first + np.arange(step.masses.size)
    with np.errstate(divide="ignore"):
        log_masses = np.log(step.masses)
    count = window.first + window.points + before
    losses = (np.arange(count) - before) * window.step
    best, outside = np.ones(count), 1.0
    for theta in tilts:
        exponents = log_masses + theta * window.step * places
        largest = float(exponents.max())
        weights = np.exp(exponents - largest)
        log_moment = largest + math.log(float(weights.sum()))
        weights /= weights.sum()
        total = np.bincount(places % window.points, weights, window.points).astype(np.float64)
        spectrum = rfft(total)
        power = _power(spectrum, steps)
        tilted = np.maximum(irfft(power, window.points), 0.0) + _power_error(total, spectrum, power, steps)
        inside = np.roll(tilted, -(window.first % window.points))[-before - window.first :]
        back = steps * log_moment - theta * losses
        outside = min(outside, math.exp(min(back[-1] - theta * window.step, 0.0)))
        with np.errstate(over="ignore"):
            above = np.cumsum((inside * np.exp(np.minimum(back, 700.0)))[::-1])[::-1]
            rest = np.cumsum((above * np.exp(-losses))[::-1])[::-1]
            found = np.exp(losses) * math.expm1(window.step) * np.append(rest[1:], 0.0)
        finite = exponents[np.isfinite(exponents)]
        rounding = 8 * FLOAT * (steps * (8 + float(np.abs(finite).max())) + window.points + 1400)
        best = np.minimum(best, found * (1 + rounding))
    return np.minimum(best + (steps * step.infinite + outside) * (1 + _PHI_ERROR), 1.0)


def _power(spectrum: Complexes, exponent: int) -> Complexes:
    """Return a power by repeated squaring: at most ``exponent`` - 1 relative errors of sqrt(5) 2^-53 (Brent 2007)."""
    result, square = np.ones_like(spectrum), spectrum
    while exponent > 1:
        if exponent & 1:
            result = result * square
        square, exponent = square * square, exponent >> 1
    return result * square


def _power_error(total: Reals, spectrum: Complexes, power: Complexes, steps: int) -> float:
    """Bound the error of every weight of a T-fold convolution by the Fourier transform.

    A transform of n numbers errs by at most 7 log2(n) 2^-53 of their length, in length (Higham 2002, theorem 24.2).
    Every factor of the power carries that of the first transform; the inverse adds its own.
    """
    points = total.size
    transform = 7 * math.log2(points) * FLOAT
    first = transform * float(np.linalg.norm(total)) * math.sqrt(points)
    largest = np.abs(spectrum) + first
    moduli = np.exp((steps - 1) * np.log(largest))
    # The spectrum of real numbers is symmetric: the other half has the same length.
    by_first = steps * first * math.sqrt(2) * float(np.linalg.norm(moduli))
    by_products = steps * 3 * FLOAT * 2 * float(moduli @ largest)
    by_inverse = transform * math.sqrt(2) * float(np.linalg.norm(power)) / math.sqrt(points)
    return 1.01 * ((by_first + by_products) / points + by_inverse)
