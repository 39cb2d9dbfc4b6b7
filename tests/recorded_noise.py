"""A noise source for tests: known noise, every request written down, and marked NOT PRIVATE.

It stands with the tests, so that nothing of the product can import it; no setting or environment variable selects it,
and every receipt made with it carries ``private=False``, which a certificate refuses.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from synth.privacy.noise import (
    discrete_gaussian,
    discrete_laplace,
    exponential_choice,
    poisson_sample,
    random_order,
    randomised_response,
)

__all__ = ["NoiseCall", "RecordedNoise"]


@dataclass(frozen=True, slots=True)
class NoiseCall:
    """One request for noise.

    ``parameter`` is the variance (gaussian), the scale (laplace), the number of things (order) or the pair numerator,
    denominator (choose, respond), the rate in steps of 2^-32 (sample); ``size`` the number of draws, of candidates or
    of things; ``scores`` what a selection was given; ``drawn`` what a sample holds.
    """

    kind: Literal["gaussian", "laplace", "choose", "respond", "order", "sample"]
    parameter: int | tuple[int, int]
    size: int
    scores: tuple[int, ...] = ()
    drawn: tuple[int, ...] = ()


class _KnownStream:
    """A keystream under a key that a test chose."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: int) -> None:
        secret = hashlib.sha256(b"not private" + key.to_bytes(16, "little")).digest()
        self._encryptor = Cipher(algorithms.AES256(secret), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words."""
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype=np.uint64)


class RecordedNoise:
    """Known noise that records every request: NOT PRIVATE.

    Parameters
    ----------
    key : int or None
        Seeds the noise; None draws no noise at all (zeros, the first best candidate, true labels, rows as they lie,
        samples of everybody).
    """

    private: ClassVar[bool] = False

    def __init__(self, key: int | None = 0) -> None:
        self.calls: list[NoiseCall] = []
        self._stream = None if key is None else _KnownStream(key)

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        """Draw known discrete Gaussian noise, or zeros."""
        self.calls.append(NoiseCall("gaussian", variance, size))
        return np.zeros(size, np.int64) if self._stream is None else discrete_gaussian(self._stream, variance, size)

    def laplace(self, scale: int, size: int) -> NDArray[np.int64]:
        """Draw known discrete Laplace noise, or zeros."""
        self.calls.append(NoiseCall("laplace", scale, size))
        return np.zeros(size, np.int64) if self._stream is None else discrete_laplace(self._stream, scale, size)

    def choose(self, scores: NDArray[np.int64], *, numerator: int, denominator: int) -> int:
        """Choose by known noise, or the first of the best."""
        self.calls.append(NoiseCall("choose", (numerator, denominator), scores.size, tuple(scores.tolist())))
        if self._stream is None:
            return int(scores.argmax())
        return exponential_choice(self._stream, scores, numerator=numerator, denominator=denominator)

    def respond(
        self, values: NDArray[np.int64], *, classes: int, numerator: int, denominator: int
    ) -> NDArray[np.int64]:
        """Randomise labels by known noise, or not at all."""
        self.calls.append(NoiseCall("respond", (numerator, denominator), values.size))
        if self._stream is None:
            return values.copy()
        return randomised_response(self._stream, values, classes=classes, numerator=numerator, denominator=denominator)

    def order(self, size: int) -> NDArray[np.int64]:
        """Draw a known order, or leave things as they lie."""
        self.calls.append(NoiseCall("order", size, size))
        return np.arange(size) if self._stream is None else random_order(self._stream, size)

    def sample(self, size: int, *, rate: int) -> NDArray[np.int64]:
        """Draw a known sample, or everybody."""
        drawn = np.arange(size) if self._stream is None else poisson_sample(self._stream, size, rate=rate)
        self.calls.append(NoiseCall("sample", rate, size, drawn=tuple(drawn.tolist())))
        return drawn

    def __repr__(self) -> str:
        return "RecordedNoise(NOT PRIVATE)"
