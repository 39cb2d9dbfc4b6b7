"""Where privacy noise comes from: a key from the operating system that cannot be set, seen or kept.

``SystemNoise`` is the only noise the product uses. Its AES-256 key is drawn from the operating system, lives inside the
cipher object only, and is drawn anew in every process: a forked child never repeats its parent's noise.

The samplers are exact: nothing here rounds a probability. A coin that shows heads with probability exp(-x) compares a
uniform number U with exp(-x); U is known to 64 bits, exp(-x) to about 2^-46 in float64, and only when the two lie
within 2^-40 of each other is the comparison made again in rational arithmetic with as many further bits of U as it
takes (:class:`LazyUniform`).

Sources: Canonne 2020, algorithms 2 and 3 (keys in ``docs/references.md``); proof notes in
``docs/proofs/samplers.md``.
"""

from __future__ import annotations

import math
import os
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import ClassVar, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from synth.errors import PrivacyError

__all__ = [
    "MAXIMUM_SCALE",
    "SAMPLING_BITS",
    "CipherStream",
    "LazyUniform",
    "NoiseSource",
    "SystemNoise",
    "WordSource",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_choice",
    "poisson_sample",
    "random_order",
    "randomised_response",
]

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

MAXIMUM_SCALE = 2**46
"""Largest Laplace scale, in grid units: magnitudes stay below 2^53, where float64 still holds every integer."""

MAXIMUM_SCORE = 2**61
"""Largest magnitude of a selection score, so that a difference of two fits in int64."""

DOUBT = 2.0**-40
"""A closer comparison is decided in exact arithmetic; float64 has an error below 2^-46 here."""

SAMPLING_BITS = 32
"""Probabilities of a sample are whole multiples of 2^-32."""

_UNIT = 2.0**-64
_BLOCK = 2**14
_LOW_63_BITS = np.uint64(2**63 - 1)


class WordSource(Protocol):
    """A stream of independent uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words, each uniform on 0 .. 2^64 - 1."""
        ...


class LazyUniform:
    """A real number uniform on [0, 1) of which more bits are drawn only when a comparison needs them.

    Parameters
    ----------
    word : int
        The first 64 bits after the point.
    source : WordSource
        Where further bits come from.
    """

    __slots__ = ("_bits", "_source", "_value")

    def __init__(self, word: int, source: WordSource) -> None:
        self._value, self._bits, self._source = word, 64, source

    def below_exp(self, numerator: int, denominator: int) -> bool:
        """Return whether the number is below exp(-numerator/denominator), exactly.

        Parameters
        ----------
        numerator : int
            At least 0.
        denominator : int
            At least 1.
        """
        if numerator == 0:
            return True
        while True:
            low, high = _bounds_of_exp(numerator, denominator, self._bits)
            if self._value + 1 <= low:
                return True
            if self._value >= high:
                return False
            self._value = (self._value << 64) | int(self._source.words(1)[0])
            self._bits += 64


def _bounds_of_exp(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Return integers around exp(-numerator/denominator) * 2^bits, at most two apart.

    ``decimal`` rounds division in the direction asked for and ``exp`` to the nearest digit, so the true value lies
    within one unit in the last place of what it prints.
    """
    digits = bits // 3 + 12
    down, up = Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)
    smallest, largest = (context.divide(Decimal(numerator), Decimal(denominator)) for context in (down, up))
    if smallest > bits:  # exp(-bits) < 2^-bits: only zero is left, and exp of a huge number would be slow
        return 0, 1
    size = Decimal(2**bits)
    exact = Context(prec=4 * digits)
    low = exact.multiply(down.next_minus(down.exp(largest.copy_negate())), size)
    high = exact.multiply(up.next_plus(up.exp(smallest.copy_negate())), size)
    return math.floor(low), math.ceil(high)


def discrete_laplace(source: WordSource, scale: int, size: int, *, doubt: float = DOUBT) -> Integers:
    r"""Draw from the discrete Laplace law, P(y) proportional to exp(-abs(y)/t), exactly (Canonne 2020, algorithm 2).

    Parameters
    ----------
    source : WordSource
        The random bits.
    scale : int
        t, in grid units; from 1 to 2^46.
    size : int
        How many draws.
    doubt : float
        Comparisons closer than this are made exactly; the law does not depend on it.

    Returns
    -------
    int64 array of shape (size,), in grid units

    Raises
    ------
    PrivacyError
        If ``scale`` is out of range.
    """
    if not 1 <= scale <= MAXIMUM_SCALE:
        raise PrivacyError(f"The scale of discrete Laplace noise must lie between 1 and 2^46 grid units, got {scale}.")
    return _rejection(source, scale, None, size, doubt)


def discrete_gaussian(source: WordSource, variance: int, size: int, *, doubt: float = DOUBT) -> Integers:
    r"""Draw from the discrete Gaussian law, P(y) proportional to exp(-y^2/(2 n)), exactly (Canonne 2020, algorithm 3).

    Parameters
    ----------
    source : WordSource
        The random bits.
    variance : int
        n, in squared grid units; from 1 to (2^46 - 1)^2.
    size : int
        How many draws.
    doubt : float
        Comparisons closer than this are made exactly; the law does not depend on it.

    Returns
    -------
    int64 array of shape (size,), in grid units

    Raises
    ------
    PrivacyError
        If ``variance`` is out of range.
    """
    if variance < 1 or math.isqrt(variance) + 1 > MAXIMUM_SCALE:
        raise PrivacyError(
            f"The variance of discrete Gaussian noise must lie between 1 and (2^46 - 1)^2, got {variance}."
        )
    return _rejection(source, math.isqrt(variance) + 1, variance, size, doubt)


def _rejection(source: WordSource, scale: int, variance: int | None, size: int, doubt: float) -> Integers:
    """Fill ``size`` places with accepted proposals; ``variance`` None keeps the Laplace law of the proposals."""
    result = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        wanted = min(_BLOCK, 2 * (size - filled) + 64)
        accepted = _accepted(source, scale, variance, wanted, doubt)[: size - filled]
        result[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return result


def _accepted(source: WordSource, scale: int, variance: int | None, count: int, doubt: float) -> Integers:
    """Make ``count`` proposals and return those accepted, in order.

    With t the scale, a proposal is a sign, U uniform on 0 .. t - 1 and V with P(V >= k) = exp(-k); its magnitude is
    Y = U + t V. One coin exp(-x) does both rejections of the paper: x = U/t gives the Laplace law, the further
    (Y - n/t)^2 / (2 n) the Gaussian one. "Minus zero" is always rejected.
    """
    first, second, third = source.words(3 * count).reshape(3, count)
    negative = first > _LOW_63_BITS
    remainder, unbiased = _uniform(first, scale)
    multiple = _geometric(source, second, doubt)
    magnitude = remainder + multiple * scale
    accept, unsure = _coins(third, _exponent(remainder, magnitude, scale, variance), doubt)
    for index in np.flatnonzero(unsure):
        accept[index] = LazyUniform(int(third[index]), source).below_exp(
            *_exact_exponent(int(remainder[index]), int(magnitude[index]), scale, variance)
        )
    accept &= unbiased & ~(negative & (magnitude == 0))
    return np.where(negative, -magnitude, magnitude)[accept]


def _uniform(words: Words, bound: int) -> tuple[Integers, Flags]:
    """Return remainders modulo ``bound`` of the low 63 bits, and which of them may be used.

    The last, incomplete run of remainders would favour the small ones; its words are refused.
    """
    low_bits = (words & _LOW_63_BITS).view(np.int64)
    quotient = low_bits // bound
    return low_bits - quotient * bound, quotient < 2**63 // bound


def _exponent(remainder: Integers, magnitude: Integers, scale: int, variance: int | None) -> NDArray[np.float64]:
    """Return x of ``_accepted`` in float64; exp(-x) has an error below 2^-46 (``docs/proofs/samplers.md``)."""
    exponent = remainder / scale
    if variance is not None:
        exponent += (magnitude - variance / scale) ** 2 / float(2 * variance)
    return exponent


def _exact_exponent(remainder: int, magnitude: int, scale: int, variance: int | None) -> tuple[int, int]:
    """Return x of ``_accepted`` as a fraction: U/t + (Y - n/t)^2/(2 n) = (2 n t U + (t Y - n)^2) / (2 n t^2)."""
    if variance is None:
        return remainder, scale
    numerator = 2 * variance * scale * remainder + (scale * magnitude - variance) ** 2
    return numerator, 2 * variance * scale**2


def _geometric(source: WordSource, words: Words, doubt: float) -> Integers:
    """Return V with P(V >= k) = exp(-k): the whole part of -log U, decided again exactly near a whole number."""
    level = -np.log((words.astype(np.float64) + 0.5) * _UNIT)
    result = np.floor(level).astype(np.int64)
    # below 2^-23 the unknown bits after the 64th move the logarithm by more than 2^-41
    unsure = (np.abs(level - np.rint(level)) < doubt) | (words < 2**41)
    for index in np.flatnonzero(unsure):
        uniform = LazyUniform(int(words[index]), source)
        multiple = 0
        while uniform.below_exp(multiple + 1, 1):
            multiple += 1
        result[index] = multiple
    return result


def _coins(words: Words, exponent: NDArray[np.float64], doubt: float) -> tuple[Flags, Flags]:
    """Compare uniforms with exp(-exponent); return (heads, too close to call)."""
    distance = np.exp(-exponent) - words.astype(np.float64) * _UNIT
    return distance > 0, np.abs(distance) < doubt


def exponential_choice(
    source: WordSource, scores: Integers, *, numerator: int, denominator: int, doubt: float = DOUBT
) -> int:
    r"""Choose index i with probability proportional to exp((numerator/denominator) * scores[i]), exactly.

    Indices are proposed uniformly *with replacement* and kept with probability exp(-(numerator/denominator) * gap),
    where gap is the distance to the best score. Without replacement this would be permute-and-flip, another law.

    Parameters
    ----------
    source : WordSource
        The random bits.
    scores : int64 array of shape (n_candidates,), magnitudes at most 2^61
    numerator, denominator : int
        The rational parameter; both at least 1.
    doubt : float
        Comparisons closer than this are made exactly; the law does not depend on it.

    Raises
    ------
    PrivacyError
        If there is no candidate, a score is too large, or the parameter is not a positive fraction in float64's range.
    """
    gaps = _gaps(scores)
    ratio = _ratio(numerator, denominator)
    block = min(_BLOCK, 4 * gaps.size + 16)
    while True:
        first, second = source.words(2 * block).reshape(2, block)
        index, unbiased = _uniform(first, gaps.size)
        accept, unsure = _coins(second, np.multiply(gaps[index], ratio, dtype=np.float64), doubt)
        for place in np.flatnonzero(unsure):
            gap = int(gaps[index[place]])
            accept[place] = LazyUniform(int(second[place]), source).below_exp(numerator * gap, denominator)
        kept = np.flatnonzero(accept & unbiased)
        if kept.size:
            return int(index[kept[0]])


def _gaps(scores: Integers) -> Integers:
    """Return the distance of every score to the best one."""
    if scores.ndim != 1 or scores.size == 0 or scores.dtype != np.int64:
        raise PrivacyError("A selection needs a one-dimensional int64 array with at least one score.")
    if int(scores.max()) > MAXIMUM_SCORE or int(scores.min()) < -MAXIMUM_SCORE:
        raise PrivacyError("Selection scores must lie between -2^61 and 2^61. Measure them on a coarser grid.")
    gaps: Integers = scores.max() - scores
    return gaps


def _ratio(numerator: int, denominator: int) -> float:
    """Return the parameter of a selection as a float, refusing what float64 cannot hold well."""
    if numerator < 1 or denominator < 1:
        raise PrivacyError(f"The parameter of a selection must be a positive fraction, got {numerator}/{denominator}.")
    if not -900 < numerator.bit_length() - denominator.bit_length() < 900:
        raise PrivacyError("The parameter of a selection must lie between 2^-900 and 2^900.")
    return numerator / denominator


def randomised_response(
    source: WordSource, values: Integers, *, classes: int, numerator: int, denominator: int, doubt: float = DOUBT
) -> Integers:
    r"""Answer with each value, or another of the classes, exactly: weight 1 for the value, exp(-e) for each other one.

    Classes are proposed uniformly; the value itself is always kept, another one with probability exp(-e). The number of
    proposals does not depend on the values.

    Parameters
    ----------
    source : WordSource
        The random bits.
    values : int64 array of shape (size,), from 0 to classes - 1
    classes : int
        How many there are; at least 1.
    numerator, denominator : int
        The rational parameter e; both at least 1.
    doubt : float
        Comparisons closer than this are made exactly; the law does not depend on it.

    Returns
    -------
    int64 array of shape (size,)

    Raises
    ------
    PrivacyError
        If a value is no class, or the parameter is not a positive fraction in float64's range.
    """
    ratio = _ratio(numerator, denominator)
    if classes < 1 or (values.size and not (int(values.min()) >= 0 and int(values.max()) < classes)):
        raise PrivacyError(f"Every value of a randomised response must be one of {classes} classes.")
    answers = np.empty(values.size, dtype=np.int64)
    for start in range(0, values.size, _BLOCK):
        waiting = np.arange(start, min(start + _BLOCK, values.size))
        while waiting.size:
            first, second = source.words(2 * waiting.size).reshape(2, waiting.size)
            proposed, unbiased = _uniform(first, classes)
            own = proposed == values[waiting]
            accept, unsure = _coins(second, np.full(waiting.size, ratio), doubt)
            for place in np.flatnonzero(unsure & ~own):
                accept[place] = LazyUniform(int(second[place]), source).below_exp(numerator, denominator)
            kept = (accept | own) & unbiased
            answers[waiting[kept]] = proposed[kept]
            waiting = waiting[~kept]
    return answers


def random_order(source: WordSource, size: int) -> Integers:
    """Draw an order of ``size`` things, all equally likely: that of random words, drawn anew while two are equal.

    Returns
    -------
    int64 array of shape (size,): which thing comes first, second, ...
    """
    while True:
        words = source.words(size)
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return order.astype(np.int64)


def poisson_sample(source: WordSource, size: int, *, rate: int) -> Integers:
    """Choose each of ``size`` things by itself, with probability exactly rate / 2^32.

    Parameters
    ----------
    source : WordSource
        The random bits.
    size : int
        How many things there are.
    rate : int
        From 1 to 2^32.

    Returns
    -------
    int64 array of shape (number of chosen things,): which, in increasing order

    Raises
    ------
    PrivacyError
        If ``rate`` is out of range.
    """
    if not 1 <= rate <= 2**SAMPLING_BITS:
        raise PrivacyError(f"A sample needs a rate from 1 to 2^{SAMPLING_BITS}, in 2^-{SAMPLING_BITS}, got {rate}.")
    halves = source.words((size + 1) // 2).view(np.uint32)[:size]
    return np.flatnonzero(halves <= np.uint32(rate - 1)).astype(np.int64)


class NoiseSource(Protocol):
    """The noise that a session draws when it answers a question; nothing else in the program draws privacy noise."""

    @property
    def private(self) -> bool:
        """False for a source whose noise could be known; receipts of such noise never enter a bundle."""
        ...

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        """Draw ``size`` independent discrete Gaussians of integer ``variance``, in grid units."""
        ...

    def laplace(self, scale: int, size: int) -> NDArray[np.int64]:
        """Draw ``size`` independent discrete Laplace numbers of integer ``scale``, in grid units."""
        ...

    def choose(self, scores: NDArray[np.int64], *, numerator: int, denominator: int) -> int:
        """Choose an index with probability proportional to exp((numerator/denominator) * score)."""
        ...

    def respond(
        self, values: NDArray[np.int64], *, classes: int, numerator: int, denominator: int
    ) -> NDArray[np.int64]:
        """Answer with each value or, with weight exp(-numerator/denominator), each other class."""
        ...

    def order(self, size: int) -> NDArray[np.int64]:
        """Draw an order of ``size`` things, all equally likely."""
        ...

    def sample(self, size: int, *, rate: int) -> NDArray[np.int64]:
        """Choose each of ``size`` things by itself with probability rate / 2^32; return the chosen ones, in order."""
        ...


_WORD_BYTES = 8
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class CipherStream:
    """Uniform 64-bit words: the keystream of AES-256 in counter mode under a key drawn here and kept nowhere."""

    __slots__ = ("_encryptor", "_process")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._process = (os.getpid(), _forks)
        self._encryptor = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words; a forked process draws its own key first."""
        if self._process != (os.getpid(), _forks):
            self._renew()
        return np.frombuffer(self._encryptor.update(bytes(_WORD_BYTES * count)), dtype=np.uint64)

    def __repr__(self) -> str:
        return "CipherStream()"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A noise source cannot be copied, pickled or sent to another process; make a new one there.")


class SystemNoise:
    """Exact discrete noise keyed by the operating system; takes no argument, so no key can be chosen."""

    __slots__ = ("_stream",)

    private: ClassVar[bool] = True

    def __init__(self) -> None:
        self._stream = CipherStream()

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        """Draw discrete Gaussian noise, as :func:`discrete_gaussian` does."""
        return discrete_gaussian(self._stream, variance, size)

    def laplace(self, scale: int, size: int) -> NDArray[np.int64]:
        """Draw discrete Laplace noise, as :func:`discrete_laplace` does."""
        return discrete_laplace(self._stream, scale, size)

    def choose(self, scores: NDArray[np.int64], *, numerator: int, denominator: int) -> int:
        """Choose an index by the exponential mechanism, as :func:`exponential_choice` does."""
        return exponential_choice(self._stream, scores, numerator=numerator, denominator=denominator)

    def respond(
        self, values: NDArray[np.int64], *, classes: int, numerator: int, denominator: int
    ) -> NDArray[np.int64]:
        """Randomise labels, as :func:`randomised_response` does."""
        return randomised_response(self._stream, values, classes=classes, numerator=numerator, denominator=denominator)

    def order(self, size: int) -> NDArray[np.int64]:
        """Draw an order of ``size`` things, as :func:`random_order` does."""
        return random_order(self._stream, size)

    def sample(self, size: int, *, rate: int) -> NDArray[np.int64]:
        """Draw a Poisson sample, as :func:`poisson_sample` does."""
        return poisson_sample(self._stream, size, rate=rate)

    def __repr__(self) -> str:
        return "SystemNoise()"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A noise source cannot be copied, pickled or sent to another process; make a new one there.")
