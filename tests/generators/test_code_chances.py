"""Chances of codes by class: sums over long grids, page by page, are those of every code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from synth.errors import InputError
from synth.generators.code_chances import MOST_SINGLE, CodeChances, codes_of_classes
from synth.generators.round_values import round_classes
from synth.privacy.bins import Bins
from synth.schema import NumberColumn

NOTHING = np.zeros(0, dtype=np.int64)

SHORT = round_classes(NumberColumn("income", 0, 40_000, 1))[0]
LONG = round_classes(NumberColumn("income", -70_321, 301_017, 1))[0]
RUNS = Bins.of_runs([0, 3, 1, 0, 2], [1, 99_999, 7, 50_000, 3])


@pytest.mark.parametrize("classes", [SHORT, LONG, RUNS], ids=["codes", "pages", "runs"])
def test_sums_of_chances_are_those_of_every_code(classes: Bins) -> None:
    random = np.random.default_rng(4)
    factors = random.uniform(0.1, 40.0, classes.count)
    chances = CodeChances(classes, factors, NOTHING, np.ones(0), fine=True)
    each = factors[classes.plain()]
    np.testing.assert_array_equal(chances.between(0, classes.size), each)
    added = np.concatenate([[0.0], np.cumsum(each)])
    codes = np.concatenate([[0, classes.size], random.integers(0, classes.size + 1, 500)])
    np.testing.assert_allclose(chances.before(codes), added[codes], rtol=1e-9)
    wanted = random.integers(0, classes.size, 500)
    sums = added[wanted] + random.uniform(0.01, 0.99, 500) * each[wanted]
    np.testing.assert_array_equal(chances.code_at(sums), wanted)


@pytest.mark.parametrize("classes", [SHORT, LONG, RUNS], ids=["codes", "pages", "runs"])
def test_codes_of_a_class_between_edges_are_counted(classes: Bins) -> None:
    random = np.random.default_rng(5)
    edges = np.unique(np.concatenate([[0, 1, 10_000, classes.size], random.integers(0, classes.size, 60)]))
    found = codes_of_classes(classes, edges)
    each = classes.plain()
    for place, (start, end) in enumerate(itertools.pairwise(edges)):
        np.testing.assert_array_equal(found[place], np.bincount(each[start:end], minlength=classes.count))


def test_single_codes_are_more_likely_on_short_grids_alone() -> None:
    single, chances = np.array([7, 1000]), np.array([50.0, 3.0])
    made = CodeChances(SHORT, np.ones(SHORT.count), single, chances, fine=True)
    each = np.ones(SHORT.size)
    each[single] = chances
    np.testing.assert_array_equal(made.between(5, 1500), each[5:1500])
    np.testing.assert_allclose(made.before(np.array([8, SHORT.size])), [each[:8].sum(), each.sum()])
    assert LONG.size > MOST_SINGLE
    with pytest.raises(InputError, match="long grid"):
        CodeChances(LONG, np.ones(LONG.count), single, chances, fine=True)
