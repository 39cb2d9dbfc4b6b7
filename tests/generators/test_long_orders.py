"""Orders of long columns: what is counted and drawn without arrays as long as the declared range, and at what cost."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from synth.generators.adaptive import regression
from synth.generators.adaptive.code_masses import SummedMasses, summed_masses
from synth.generators.adaptive.orders import Order
from synth.generators.coarse_grid import coarse_grid
from synth.generators.code_chances import CodeChances
from synth.generators.round_values import round_classes
from synth.schema import DateColumn, DateStep, ModelledColumn, NumberColumn

FIRST = datetime.date(1950, 1, 1)
LAST = datetime.date(2049, 12, 31)

PAIRS: list[tuple[ModelledColumn, ModelledColumn]] = [
    (NumberColumn("a", 0, 399, 1), NumberColumn("b", -20, 419, 1, missing=True)),
    (NumberColumn("a", 0, 12, 1, special=(40.0, -7.0), missing=True), NumberColumn("b", 2, 17, 0.5)),
    (NumberColumn("a", 0.1, 700, 0.01, missing=True), NumberColumn("b", 5, 900, 0.1)),
    (NumberColumn("a", 0, 150_000, 1, special=(-1.0, 99.5)), NumberColumn("b", 17, 90_000, 1, missing=True)),
    (NumberColumn("a", 3, 400_002, 1), NumberColumn("b", 0, 1_500_000, 0.25, missing=True)),
    (NumberColumn("a", -2_000_000, -5, 1, missing=True), NumberColumn("b", 0, 50, 2)),
    (NumberColumn("a", 0.05, 30_000, 0.05), NumberColumn("b", 0, 30_000, 0.1, special=(40_000.0,))),
    (DateColumn("a", FIRST, LAST), DateColumn("b", datetime.date(1948, 2, 1), LAST, missing=True)),
    (DateColumn("a", FIRST, LAST, step=DateStep.MONTH), DateColumn("b", FIRST, LAST, step=DateStep.YEAR)),
    (DateColumn("a", datetime.date(1, 1, 1), LAST), DateColumn("b", FIRST, LAST, step=DateStep.MONTH, missing=True)),
]
"""Whole numbers, decimals and dates; short, longer than a page, and so long that several steps are one."""


def whole_arrays(one: ModelledColumn, other: ModelledColumn) -> list[np.ndarray]:
    """Steps of all codes of two columns, by their definition."""
    values = [one.comparable_values(), other.comparable_values()]
    known = np.concatenate([own[np.isfinite(own)] for own in values])
    least, most = float(known.min()), float(known.max())
    step = min(float(np.diff(own[: column.levels]).min()) for own, column in zip(values, (one, other), strict=True))
    while (most - least) / step > 2**20:
        step *= 2.0
    return [
        np.where(np.isfinite(own), np.floor((np.nan_to_num(own) - least) / step + 1e-9), -1).astype(np.int64)
        for own in values
    ]


@pytest.mark.four_cases
@pytest.mark.parametrize("pair", PAIRS)
def test_steps_are_those_of_whole_arrays(pair: tuple[ModelledColumn, ModelledColumn]) -> None:
    order, truly = Order.between(pair, 0, 1), whole_arrays(*pair)
    assert order.reach == max(map(np.max, truly))
    for column, steps, every in zip(pair, order.places, truly, strict=True):
        np.testing.assert_array_equal(steps.of(np.arange(column.size)), every)
        asked = np.arange(-3, 2 * order.reach + 3)
        np.testing.assert_array_equal(steps.first_from(asked), np.searchsorted(every[: column.levels], asked))


@pytest.mark.four_cases
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("both", [False, True])
def test_the_question_adds_up_to_the_steps_of_every_code(
    pair: tuple[ModelledColumn, ModelledColumn], both: bool
) -> None:
    order = Order.between(pair, 0, 1, both=both)
    question, truly = order.question(), whole_arrays(*pair)
    far = (2 * order.reach + 2, 4 * order.reach + 4)
    random = np.random.default_rng(3)
    ends = [np.array([0, column.levels - 1, column.size - 1]) for column in pair]
    beside = np.array(list(itertools.product(*ends))).T
    codes = [
        np.concatenate([random.integers(0, column.size, 20_000), own]) for column, own in zip(pair, beside, strict=True)
    ]
    steps = [np.where(every < 0, beyond, every)[own] for every, beyond, own in zip(truly, far, codes, strict=True)]
    apart = steps[1] - steps[0]
    guessed, confidence = question.guesses({"a": codes[0], "b": codes[1]}.__getitem__, len(apart))
    np.testing.assert_array_equal(guessed, apart > 0)
    np.testing.assert_array_equal(confidence, np.abs(apart))


def by_code(first: np.ndarray, width: np.ndarray, places: np.ndarray, chances: CodeChances | None) -> np.ndarray:
    """Masses of all codes, added up one by one."""
    codes = int(width.sum())
    each = np.ones(codes) if chances is None else chances.between(0, codes)
    masses = each * np.repeat(places / np.add.reduceat(each, first), width)
    return np.concatenate([[0.0], np.cumsum(masses)])


def chances_of(column: NumberColumn) -> CodeChances:
    classes, _, _ = round_classes(column)
    factors = np.random.default_rng(2).gamma(0.4, 1.0, classes.count) + 1e-3
    return CodeChances(classes, factors, np.empty(0, np.int64), np.empty(0), True)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("levels", [500, 60_000, 300_000])
def test_masses_are_those_added_up_code_by_code(levels: int, rounded: bool) -> None:
    column = NumberColumn("a", 0, levels - 1, 1)
    grid = coarse_grid(column, grid=200, atoms=1)
    random = np.random.default_rng(levels)
    places = random.gamma(0.3, 1.0, grid.levels) * (random.random(grid.levels) < 0.8)
    places /= places.sum()
    chances = chances_of(column) if rounded else None
    added = by_code(grid.first, grid.width, places, chances)
    masses: SummedMasses = summed_masses(grid.first, grid.width, places, chances)
    same: Callable[..., None] = np.testing.assert_array_equal if levels < 2**16 else near
    codes = np.unique(np.concatenate([random.integers(0, levels + 1, 5000), grid.first, [levels]]))
    same(masses.before(codes), added[codes])
    same(masses.between(codes[:-1], codes[1:]), added[codes[1:]] - added[codes[:-1]])
    assert (masses.between(codes[:-1], codes[1:]) >= 0).all()
    sums = random.random(5000)
    # Where a sum falls between two codes by less than rounding, either is right.
    clear = np.abs(added[np.searchsorted(added, sums)] - sums) > 1e-12
    clear &= np.abs(added[np.searchsorted(added, sums) - 1] - sums) > 1e-12
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(masses.code_at(sums)[clear], (np.searchsorted(added, sums, "right") - 1)[clear])


def near(found: Sequence[float], truly: Sequence[float]) -> None:
    np.testing.assert_allclose(found, truly, rtol=0, atol=1e-12)


@pytest.mark.parametrize("levels", [5000, 300_000])
def test_the_mean_of_every_place_is_that_of_all_its_values(levels: int) -> None:
    column = NumberColumn("a", 0.5, 0.5 + (levels - 1) * 0.3, 0.3, special=(-1.0,), missing=True)
    grid = coarse_grid(column, grid=7, atoms=9)
    parts = regression._parts_of(grid.width)
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(grid.size))
    whole = np.add.reduceat(column.comparable_values(), grid.first) / grid.width
    np.testing.assert_array_equal(regression._means(column, grid), whole)


def test_long_columns_are_told_apart_in_little_memory_and_space() -> None:
    """The tables of a question hold a few pages, not an entry for each of 16.7 million codes."""
    top = 2**24 - 1
    order = Order.between((NumberColumn("a", 0, top, 1), NumberColumn("b", 7, top, 1, missing=True)), 0, 1)
    arrays: dict[str, np.ndarray] = {}
    order.question().to_json("question", arrays)
    assert sum(array.nbytes for array in arrays.values()) < 2**20
    assert sum(steps.first_at.nbytes for steps in order.places) <= 2 * 8 * (2**20 + 2)
