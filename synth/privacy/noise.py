"""Where privacy noise comes from: a key of the operating system that nobody can set, see or keep.

``SystemNoise`` is the only noise the product uses. Its AES-256 key is drawn from the operating system, lives inside the
cipher object only, and is drawn anew in every process: a forked child never repeats its parent's noise.
"""

from __future__ import annotations

import os
from typing import ClassVar, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.samplers import (
    discrete_gaussian,
    discrete_laplace,
    exponential_choice,
    random_order,
    randomised_response,
)

__all__ = ["CipherStream", "NoiseSource", "SystemNoise"]

_WORD_BYTES = 8
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class NoiseSource(Protocol):
    """What a session asks for when it answers a question; nothing else in the program draws privacy noise."""

    @property
    def private(self) -> bool:
        """False for a source whose noise somebody could know; receipts of such noise never enter a bundle."""
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
        """Draw an order of ``size`` things, all orders alike."""
        ...


class CipherStream:
    """Uniform 64-bit words: the keystream of AES-256 in counter mode under a key drawn here and kept nowhere."""

    __slots__ = ("_encryptor", "_process")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._process = (os.getpid(), _forks)
        self._encryptor = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words; a process that was forked off draws a key of its own first."""
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
        """Draw discrete Gaussian noise (see ``samplers.discrete_gaussian``).

        Parameters
        ----------
        variance : int
            In squared grid units, from 1 to (2^46 - 1)^2.
        size : int
            How many draws.

        Returns
        -------
        int64 array of shape (size,), in grid units
        """
        return discrete_gaussian(self._stream, variance, size)

    def laplace(self, scale: int, size: int) -> NDArray[np.int64]:
        """Draw discrete Laplace noise (see ``samplers.discrete_laplace``).

        Parameters
        ----------
        scale : int
            In grid units, from 1 to 2^46.
        size : int
            How many draws.

        Returns
        -------
        int64 array of shape (size,), in grid units
        """
        return discrete_laplace(self._stream, scale, size)

    def choose(self, scores: NDArray[np.int64], *, numerator: int, denominator: int) -> int:
        """Select by the exponential mechanism (see ``samplers.exponential_choice``).

        Parameters
        ----------
        scores : int64 array of shape (n_candidates,)
        numerator, denominator : int
            Index i has weight exp((numerator/denominator) * scores[i]).

        Returns
        -------
        int, the chosen index
        """
        return exponential_choice(self._stream, scores, numerator=numerator, denominator=denominator)

    def respond(
        self, values: NDArray[np.int64], *, classes: int, numerator: int, denominator: int
    ) -> NDArray[np.int64]:
        """Randomise labels (see ``samplers.randomised_response``).

        Parameters
        ----------
        values : int64 array of shape (size,), from 0 to classes - 1
        classes : int
        numerator, denominator : int
            Each class but the value's own has weight exp(-numerator/denominator), the value's own weight 1.

        Returns
        -------
        int64 array of shape (size,)
        """
        return randomised_response(self._stream, values, classes=classes, numerator=numerator, denominator=denominator)

    def order(self, size: int) -> NDArray[np.int64]:
        """Draw an order of ``size`` things (see ``samplers.random_order``)."""
        return random_order(self._stream, size)

    def __repr__(self) -> str:
        return "SystemNoise()"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A noise source cannot be copied, pickled or sent to another process; make a new one there.")
