"""What a unit adds to a step of a critic's training, written out number by number: whole numbers of Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from synth.privacy.more.critics import Critic, CriticLoss

__all__ = ["Terms", "length_by_hand", "terms_by_hand", "unit_by_hand", "weights_by_hand"]

Terms = list[tuple[list[int], list[int]]]
"""Layer by layer the numbers that it reads, in steps of 2^-16, and the slopes of its outputs, in steps of 2^-24."""

Layers = list[tuple[list[list[int]], list[int]]]

MARGIN = 1 - 2.0**-30


def weights_by_hand(critic: Critic, weights: Sequence[float]) -> Layers:
    """Matrices and constants in steps of 2^-16; what is larger than 8 is cut off."""
    whole = [round(Fraction(min(max(weight, -8.0), 8.0)) * 2**16) for weight in weights]
    found, start = [], 0
    for out, into in critic.shapes:
        matrix = [whole[start + row * into : start + (row + 1) * into] for row in range(out)]
        start += out * into
        found.append((matrix, whole[start : start + out]))
        start += out
    assert start == len(whole)
    return found


def terms_by_hand(layers: Layers, row: Sequence[int], loss: CriticLoss) -> Terms:
    """What one row's gradient is made of; the row in steps of 2^-16."""
    numbers, leaks = [list(row)], []
    for matrix, constants in layers[:-1]:
        sums = [_output(weights, numbers[-1], constant) for weights, constant in zip(matrix, constants, strict=True)]
        leaky = [one if one > 0 else _shifted(one, 2) for one in sums]
        cut = [abs(one) > 16 * 2**16 for one in leaky]
        leaks.append([0 if far else (4 if one > 0 else 1) for one, far in zip(sums, cut, strict=True)])
        numbers.append([min(max(one, -16 * 2**16), 16 * 2**16) for one in leaky])
    ((last,), (constant,)) = layers[-1]
    slopes = [[_slope(_output(last, numbers[-1], constant), loss)]]
    for (matrix, _), quarters in zip(reversed(layers[1:]), reversed(leaks), strict=True):
        back = [
            _shifted(sum(weights[place] * slope for weights, slope in zip(matrix, slopes[0], strict=True)), 16)
            for place in range(len(quarters))
        ]
        through = [_shifted(slope * leak, 2) for slope, leak in zip(back, quarters, strict=True)]
        slopes.insert(0, [min(max(one, -4 * 2**24), 4 * 2**24) for one in through])
    return list(zip(numbers, slopes, strict=True))


def length_by_hand(terms: Terms) -> float:
    """The length of a row's gradient, its squares added up by halves."""
    total = 0.0
    for numbers, slopes in terms:
        of_numbers = _by_halves([(one * 2.0**-16) ** 2 for one in numbers])
        total += _by_halves([(one * 2.0**-24) ** 2 for one in slopes]) * (of_numbers + 1.0)
    return math.sqrt(total)


def unit_by_hand(
    critic: Critic,
    weights: Sequence[float],
    rows: Sequence[Sequence[int]],
    loss: CriticLoss,
    *,
    clip: float,
    several: bool = False,
) -> list[int]:
    """What a unit with these rows adds, in steps of 2^-24 of the clip norm.

    ``several`` says whether a unit may have several rows, however many this one has.
    """
    layers = weights_by_hand(critic, weights)
    terms = [terms_by_hand(layers, row, loss) for row in rows]
    lengths = [length_by_hand(one) for one in terms]
    (length,) = {sum(math.ceil(one * (2.0**20 / MARGIN)) for one in lengths) * 2.0**-20} if several else lengths
    factor = MARGIN / max(length, clip)
    total = [0] * critic.size
    for one in terms:
        added: list[int] = []
        for numbers, slopes in one:
            kept = [math.trunc(slope * 2.0**-10 * factor) for slope in slopes]
            read = [_shifted(number, 6) for number in numbers]
            added += [slope * number for slope in kept for number in read]
            added += [slope * 2**10 for slope in kept]
        total = [entry + more for entry, more in zip(total, added, strict=True)]
    return total


def _output(weights: Sequence[int], numbers: Sequence[int], constant: int) -> int:
    products = sum(weight * number for weight, number in zip(weights, numbers, strict=True))
    return _shifted(products + constant * 2**16, 16)


def _shifted(number: int, bits: int) -> int:
    """A whole number divided by a power of 2, towards zero."""
    return -(-number >> bits) if number < 0 else number >> bits


def _slope(score: int, loss: CriticLoss) -> int:
    if loss == "wasserstein":
        return -(2**24)
    point = min(max(math.floor(Fraction(score, 2**6) + Fraction(1, 2)), -(2**14)), 2**14)
    return (round(2**16 / (1 + math.exp(-point / 2**10))) - 2**16) * 2**8


def _by_halves(squares: Sequence[float]) -> float:
    while len(squares) > 1:
        half = math.ceil(len(squares) / 2)
        squares = [
            one + squares[half + place] if half + place < len(squares) else one
            for place, one in enumerate(squares[:half])
        ]
    return squares[0]
