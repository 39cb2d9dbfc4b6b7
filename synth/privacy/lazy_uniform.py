"""A uniform number with as many bits as a comparison needs: where exactness is decided when float64 cannot."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["LazyUniform", "WordSource"]


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
        """Tell whether the number is below exp(-numerator/denominator), exactly.

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
    if smallest > bits:  # exp(-bits) < 2^-bits: nothing but zero is left, and exp of a huge number would be slow
        return 0, 1
    size = Decimal(2**bits)
    exact = Context(prec=4 * digits)
    low = exact.multiply(down.next_minus(down.exp(largest.copy_negate())), size)
    high = exact.multiply(up.next_plus(up.exp(smallest.copy_negate())), size)
    return math.floor(low), math.ceil(high)
