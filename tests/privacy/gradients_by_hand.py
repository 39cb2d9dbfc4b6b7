"""What one unit adds to a clipped gradient, written out number by number: whole numbers of Python up to the clip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from synth.privacy.feature_maps import Block, Constant, FeatureMap, OneHot
from synth.privacy.more.fourier import Fourier, step_values
from synth.privacy.more.gradients import GradientQuestion
from synth.privacy.more.lookups import Lookup

__all__ = ["prediction_by_hand", "row_by_hand", "unit_by_hand"]

Row = dict[str, int]


def unit_by_hand(question: GradientQuestion, rows: Sequence[Row], *, rows_each: int = 1) -> list[int]:
    """What a unit with these rows adds, in steps of 2^-24 of the clip norm."""
    total = [sum(entries) for entries in zip(*(row_by_hand(question, row) for row in rows), strict=True)]
    entries = [float(entry) * (1.0 / (question.clip * 2.0**32)) for entry in total]
    square = 0.0
    for entry in entries:
        square += entry * entry
    length = max(1.0, math.sqrt(square))
    whole = [math.trunc(entry * ((1 - 2.0**-30) * 2.0**24) / length) for entry in entries]
    return [math.trunc(Fraction(one, rows_each)) for one in whole]


def row_by_hand(question: GradientQuestion, row: Row) -> list[int]:
    """What one row adds before the clip, in steps of 2^-32."""
    features = [0] * question.features.dimension
    for block in question.features.blocks():
        for place, number in zip(block.places.tolist(), _features(block, row), strict=True):
            features[place] = number
    parameters = [round(Fraction(one) * 2**20) for one in question.parameters.tolist()]
    width = len(features)
    predictions = [
        sum(one * other for one, other in zip(features, parameters[start : start + width], strict=True))
        for start in range(0, len(parameters), width)
    ]
    slopes = _slopes(question, predictions, row[question.target.column])
    return [slope * feature for slope in slopes for feature in features]


def _features(block: Block, row: Row) -> list[int]:
    one, weight = block.map, block.weight
    if isinstance(one, Lookup):
        entries = one.table[row[one.column] if one.bins is None else int(one.bins[row[one.column]])]
        return [math.trunc(Fraction(entry) * Fraction(weight) * 2**16) for entry in entries.tolist()]
    if isinstance(one, Fourier):
        cosines, sines = step_values()
        angles = [
            sum(
                int(places[row[name]]) * turn
                for name, places, turn in zip(one.columns, one.positions, turns, strict=True)
            )
            for turns in one.frequencies.tolist()
        ]
        factor = weight * 2.0**16 * one.scale / 2.0**12
        return [math.trunc(float(table[angle % 4096]) * factor) for table in (cosines, sines) for angle in angles]
    number = math.floor(Fraction(weight) * 2**16)
    if isinstance(one, Constant):
        return [number]
    assert isinstance(one, OneHot)
    cells = [
        row[name] if bins is None else int(bins[row[name]]) for name, bins in zip(one.columns, one.bins, strict=True)
    ]
    cell = int(np.ravel_multi_index(cells, one.shape))
    return [number if place == cell else 0 for place in range(one.dimension)]


def _slopes(question: GradientQuestion, predictions: list[int], code: int) -> list[int]:
    bins = question.target.bins
    entries = question.target.table[code if bins is None else bins[code]].tolist()
    wanted = [round(Fraction(entry) * 2**36) for entry in entries]
    if question.loss != "softmax":
        return [_slope(question.loss, *one) for one in zip(predictions, wanted, strict=True)]
    points = [math.floor(Fraction(one - max(predictions), 2**26) + Fraction(1, 2)) for one in predictions]
    parts = [round(2**20 * math.exp(max(point, -(2**14)) / 2**10)) for point in points]
    shares = [math.trunc(float(part * 2**16) / float(sum(parts))) for part in parts]
    return [share - math.trunc(Fraction(one, 2**20)) for share, one in zip(shares, wanted, strict=True)]


def _slope(loss: str, prediction: int, wanted: int) -> int:
    if loss == "logistic":
        point = math.floor(Fraction(prediction, 2**26) + Fraction(1, 2))
        point = min(max(point, -(2**14)), 2**14)
        return round(2**16 / (1 + math.exp(-point / 2**10))) - math.trunc(Fraction(wanted, 2**20))
    slope = math.trunc(Fraction(prediction - wanted, 2**20))
    return min(max(slope, -6553), 6553) if loss == "huber" else slope


def prediction_by_hand(features: FeatureMap, parameters: Sequence[float], row: Row) -> int:
    """What a linear model of such features predicts for one row, in steps of 2^-36."""
    return sum(
        number * round(Fraction(parameters[place]) * 2**20)
        for block in features.blocks()
        for place, number in zip(block.places.tolist(), _features(block, row), strict=True)
    )
