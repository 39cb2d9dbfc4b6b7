"""What one row contributes to a sum, in whole grid steps: written out number by number, one operation at a time.

Whole numbers of Python where the definition is whole, else scalars in IEEE float64 in the order that the definition
has; a second way to the same numbers, which knows no blocks.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from gradients_by_hand import prediction_by_hand
from questions import walked

from synth.privacy.feature_maps import Block, FeatureMap, OneHot
from synth.privacy.more.forests import Forest, Guess
from synth.privacy.more.fourier import Fourier, step_values
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.responsibilities import Responsibilities
from synth.privacy.more.row_moments import RowMoments

__all__ = ["contribution", "sides_of"]


def contribution(feature_map: FeatureMap, row: dict[str, int], half_bits: int) -> np.ndarray:
    """One row's features in steps of 2^-(2 half_bits), shape (dimension,), whole numbers of Python."""
    found = np.zeros(feature_map.dimension, dtype=object)
    for block in feature_map.blocks():
        found[block.places] = _of_block(block, row, half_bits)
    return found


def _of_block(block: Block, codes: dict[str, int], half_bits: int) -> list[int]:
    """One block of one row's features in whole grid steps, written out number by number in rational arithmetic."""
    step = 2 ** (2 * half_bits)
    maps, weight = block.map.maps, block.weight
    tables = [one for one in maps if isinstance(one, Lookup)]
    whole = [one for one in maps if isinstance(one, Fourier | RowMoments | Losses)]
    mixtures = [one for one in maps if isinstance(one, Responsibilities)]
    if mixtures:
        shares = responsibilities_of(mixtures[0], codes)
        entries = [Fraction(1)]
        for table in tables:
            row = table.table[codes[table.column] if table.bins is None else table.bins[codes[table.column]]]
            entries = [Fraction(one) for one in row.tolist()]
        rounded = math.trunc if tables else math.floor
        numbers = [share * rounded(entry * Fraction(weight) * step / 2**18) for share in shares for entry in entries]
    elif whole and isinstance(whole[0], Fourier):
        scale = math.floor(Fraction(weight) * Fraction(whole[0].scale) * step / 4096)
        numbers = [scale * wave for wave in _waves(whole[0], codes)]
    elif whole and isinstance(whole[0], RowMoments):
        numbers = _powers(whole[0], weight, codes, half_bits - 6)
    elif whole and isinstance(whole[0], Losses):
        loss = _loss(whole[0], codes)
        numbers = [math.trunc(loss * weight * step), math.trunc((1 - loss) * weight * step)]
    elif len(tables) > 1:
        sides = []
        for side, factor in zip(sides_of(tables), (weight, 1.0), strict=True):
            features = [1.0]
            for table in side:
                row = table.table[codes[table.column] if table.bins is None else table.bins[codes[table.column]]]
                features = [one * other for one in features for other in row.tolist()]
            sides.append([round(feature * (factor * 2**half_bits)) for feature in features])
        numbers = [left * right for left in sides[0] for right in sides[1]]
    elif tables:
        table = tables[0]
        row = table.table[codes[table.column] if table.bins is None else table.bins[codes[table.column]]]
        numbers = [math.trunc(entry * weight * step) for entry in row.tolist()]
    else:
        numbers = [math.floor(Fraction(weight) * step)]
    # The one-hot factors put these numbers into one cell each; the maps' order decides where that stands.
    answer = []
    axes = [one for one in maps if not isinstance(one, OneHot | Guess)]
    widths = [one.dimension for one in axes] or [1]
    for place in np.ndindex(*[one.dimension for one in maps]):
        inside, at = True, []
        for one, index in zip(maps, place, strict=True):
            if isinstance(one, OneHot):
                cell = 0
                for name, bins, size in zip(one.columns, one.bins, one.shape, strict=True):
                    cell = cell * size + int(codes[name] if bins is None else bins[codes[name]])
                inside = inside and cell == index
            elif isinstance(one, Guess):
                inside = inside and bin_by_hand(one, codes) == index
            else:
                at.append(index)
        answer.append(numbers[np.ravel_multi_index(at, widths) if at else 0] if inside else 0)
    return answer


def bin_by_hand(guess: Guess, codes: dict[str, int]) -> int:
    """One row's guess and bin of confidence, with the whole numbers of Python."""
    if isinstance(guess, Forest):
        return walked(guess, codes)
    assert isinstance(guess, LinearGuess)
    scores = [prediction_by_hand(guess.features, one.tolist(), codes) for one in guess.parameters]
    scores = scores if len(scores) > 1 else [0, *scores]
    most, second = sorted(scores, reverse=True)[:2]
    found = scores.index(most)
    return found * guess.shape[1] + sum((most - second) >> 20 > edge for edge in guess.edges[found].tolist())


def _waves(fourier: Fourier, codes: dict[str, int]) -> list[int]:
    """Cosines, then sines, of one row in whole steps of 2^-12."""
    angles = [
        sum(
            int(places[codes[name]]) * turn
            for name, places, turn in zip(fourier.columns, fourier.positions, frequency, strict=True)
        )
        for frequency in fourier.frequencies.tolist()
    ]
    return [int(table[angle % 4096]) for table in step_values() for angle in angles]


def responsibilities_of(mixture: Responsibilities, codes: dict[str, int]) -> list[int]:
    """One row's responsibilities in steps of 2^-18, with the whole numbers of Python."""
    cell = 0
    if mixture.by is not None:
        for name, bins, size in zip(mixture.by.columns, mixture.by.bins, mixture.by.shape, strict=True):
            cell = cell * size + int(codes[name] if bins is None else bins[codes[name]])
    scores = mixture.weights[cell].tolist()
    for name, bins, table in zip(mixture.columns, mixture.bins, mixture.tables, strict=True):
        added = table[cell, codes[name] if bins is None else bins[codes[name]]].tolist()
        scores = [one + other for one, other in zip(scores, added, strict=True)]
    likely = []
    for score in scores:
        halvings, rest = divmod(max(scores) - score, 4096)
        likely.append(round(2**30 * 2 ** (-rest / 4096)) // 2 ** min(halvings, 40))
    return [one * 2**18 // sum(likely) for one in likely]


def sides_of(tables: list[Lookup]) -> tuple[list[Lookup], list[Lookup]]:
    """Cut tables in two where their two outer products together have the fewest features; the first such place."""
    widths = [table.dimension for table in tables]
    together = {cut: math.prod(widths[:cut]) + math.prod(widths[cut:]) for cut in range(1, len(tables))}
    cut = min(together, key=together.__getitem__)
    return tables[:cut], tables[cut:]


def _loss(losses: Losses, codes: dict[str, int]) -> float:
    """The loss of one row, a multiple of 2^-14, in rational arithmetic."""
    target, parameters = losses.target, losses.parameters.tolist()
    numbers = [round(Fraction(entry) * 2**36) for entry in target.table[:, 0].tolist()]
    code = codes[target.column]
    if isinstance(losses.features, Forest):
        found = round(Fraction(parameters[walked(losses.features, codes)]) * 2**36)
    else:
        found = prediction_by_hand(losses.features, parameters, codes)
    found = min(max(found, min(numbers)), max(numbers))
    error = abs(found - numbers[code if target.bins is None else int(target.bins[code])]) // 2**20
    widest = -(-(max(numbers) - min(numbers)) // 2**20)
    return math.floor(Fraction(error**2 * 2**14, widest**2) + Fraction(1, 2)) / 2**14


def _powers(moments: RowMoments, weight: float, codes: dict[str, int], bits: int) -> list[int]:
    """One row's powers in whole grid steps: whole numbers up to the clip, then one operation at a time."""
    vector = []
    for table in moments.tables:
        code = codes[table.column] if table.bins is None else int(table.bins[codes[table.column]])
        vector += [round(entry * 2**16) for entry in table.table[code].tolist()]
    if moments.waves is not None:
        vector += [
            math.trunc(wave * (moments.waves.scale * 2.0**16 / 2.0**12)) for wave in _waves(moments.waves, codes)
        ]
    if moments.offsets is not None:
        cell = 0 if moments.offset_of is None else codes[moments.offset_of.columns[0]]
        vector = [one - round(other * 2**16) for one, other in zip(vector, moments.offsets[cell].tolist(), strict=True)]
    scale = 2**16
    if moments.projection is not None:
        scale *= 2**18
        columns = np.rint(moments.projection * 2**18).astype(int).T.tolist()
        vector = [sum(one * other for one, other in zip(vector, column, strict=True)) for column in columns]
    entries = [one * (1.0 / (moments.clip * scale)) for one in vector]
    length = max(1.0, math.sqrt(functools.reduce(lambda total, entry: total + entry * entry, entries, 0.0)))
    whole = [math.trunc(entry * ((1 - 2.0**-30) * 2.0**bits) / length) for entry in entries]
    constant, linear, quadratic = (weight * own for own in moments.weights)
    numbers = [4**bits * math.floor(constant * 4096)] if constant else []
    numbers += [one * 2**bits * math.floor(linear * 4096) for one in whole] if linear else []
    for place, one in enumerate(whole if quadratic else []):
        numbers.append(one * one * math.floor(quadratic * 4096))
        numbers += [one * other * math.floor(math.sqrt(2) * quadratic * 4096) for other in whole[place + 1 :]]
    return numbers
