"""Responsibilities: what they are, that a row's add up to at most 1, how far two rows lie apart, what is refused."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixture_by_hand import responsibilities
from pretended_card import pretended_card
from questions import random_responsibilities, small_codes, small_schema

from synth.errors import PrivacyError
from synth.generators.mixture.dp_mixture import MixtureState
from synth.privacy import counting
from synth.privacy.answers import check_fits, sensitivity_of_sum
from synth.privacy.counting import CountMemory, PrivateRows
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack, exact_sum
from synth.privacy.more import responsibilities as module
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import SCORE_BITS, SHARE_BITS, Responsibilities
from synth.schema import PrivacyUnit

LABEL = OneHot(("outcome",), (None,), (2,))
REGION = OneHot(("region",), (None,), (4,))
WHOLE = 2**SHARE_BITS


def whole_logarithms(proportions: np.ndarray) -> np.ndarray:
    return np.rint(np.log2(proportions) * 2**SCORE_BITS).astype(np.int32)


def test_they_are_those_of_bayes_rule() -> None:
    random = np.random.default_rng(3)
    weights, ages, regions = (
        random.dirichlet(np.ones(5)),
        random.dirichlet(np.ones(12), 5),
        random.dirichlet(np.ones(4), 5),
    )
    tables = tuple(whole_logarithms(one).T[None] for one in (ages, regions))
    found = Responsibilities(("age", "region"), (None, None), tables, whole_logarithms(weights)[None])
    codes = small_codes(500)
    none = np.zeros((5, 0))
    expected = responsibilities(
        np.zeros((500, 0)),
        np.stack([codes["age"], codes["region"]], axis=1),
        MixtureState(weights, none, none, (ages, regions)),
    )
    np.testing.assert_allclose(found.evaluate(codes), expected, atol=1e-3)


def test_no_entry_of_the_table_of_powers_lies_near_a_tie() -> None:
    powers = [2**module.POWER_BITS * 2 ** (-place / 2**SCORE_BITS) for place in range(2**SCORE_BITS)]
    assert min(abs(one % 1 - 0.5) for one in powers) > 1e-5
    assert module._powers().tolist() == [round(one) for one in powers]


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40))
def test_those_of_a_row_add_up_to_one_but_for_truncation(scores: list[int]) -> None:
    shares = module._shares(np.array([scores]))[0]
    assert shares.min() >= 0
    assert WHOLE - len(scores) <= shares.sum() <= WHOLE
    if len(scores) == 1:
        assert shares.tolist() == [WHOLE]


def step_of(shares: Responsibilities, *maps: FeatureMap) -> Product:
    length = math.sqrt(len(maps))
    return Product((LABEL, shares, Stack(maps, (1 / length - 1e-9,) * len(maps))))


def added_by(question: FeatureMap, row: dict[str, int]) -> np.ndarray:
    rows = PrivateRows(lambda name: np.array([row[name]]), 1)
    return exact_sum(question.blocks(), rows, half_bits=18) * 2.0**-36


CERTAIN = Responsibilities(
    ("region",),
    (None,),
    (np.tile((np.eye(4)[:, :3] - 1)[None] * 60 * 2**SCORE_BITS, (2, 1, 1)).astype(np.int32),),
    np.zeros((2, 3), dtype=np.int32),
    LABEL,
)
"""Whose component the region decides."""


def test_the_bound_is_met_and_no_row_moves_a_sum_further() -> None:
    counted = step_of(CERTAIN, Constant(), REGION)
    signed = step_of(CERTAIN, Lookup("age", np.linspace(-1, 1, 12)[:, None]), REGION)
    codes = small_codes(60, seed=2)
    rows = [{name: int(column[place]) for name, column in codes.items()} for place in range(60)]
    for question, apart in ((counted, math.sqrt(2)), (signed, 2.0)):
        added = [added_by(question, row) for row in rows]
        bound = question.bound(half_bits=18)
        longest = max(float(np.linalg.norm(one)) for one in added)
        farthest = max(float(np.linalg.norm(one - other)) for one in added for other in added)
        assert longest <= bound.norm <= 1
        assert bound.norm == pytest.approx(longest, rel=1e-5)
        assert farthest <= bound.diameter <= apart
    assert counted.bound(half_bits=18).diameter == pytest.approx(math.sqrt(2), rel=1e-6)


@pytest.mark.parametrize("components", [1, 2, 40])
def test_the_bound_does_not_grow_with_components_or_classes(components: int) -> None:
    """The noise of a step is that of the vector t by itself, times what the neighbouring relation asks."""
    shares = random_responsibilities(components=components, by=LABEL)
    question = step_of(shares, Constant(), REGION, OneHot(("age",), (None,), (12,)))
    for row_count, factor in (("private", 1.0), ("public", math.sqrt(2))):
        once = sensitivity_of_sum(question, small_schema(row_count), half_bits=18)
        assert once == pytest.approx(factor, rel=1e-6)
        several = sensitivity_of_sum(question, small_schema(row_count, PrivacyUnit(rows_per_unit=3)), half_bits=18)
        assert several == pytest.approx(3 * factor, rel=1e-6)


def test_a_single_component_has_all_of_every_row() -> None:
    alone = random_responsibilities(components=1)
    assert (alone.evaluate(small_codes(50)) == 1.0).all()
    assert alone.bound(half_bits=18).diameter == 0.0


def test_two_mixtures_never_share_what_was_computed() -> None:
    shares = random_responsibilities(by=LABEL)
    moved = [table.copy() for table in shares.tables]
    moved[1][1, 2, 0] += 1
    others = [
        dataclasses.replace(shares, tables=tuple(moved)),
        dataclasses.replace(shares, weights=shares.weights + 1),
        dataclasses.replace(shares, columns=("age", "income", "region"), bins=(shares.bins[0], shares.bins[2], None),
                            tables=(shares.tables[0], shares.tables[2], shares.tables[1])),
        dataclasses.replace(shares, by=OneHot(("region",), (np.arange(4) // 2,), (4,))),
    ]  # fmt: skip
    assert len({one.key for one in (shares, *others)}) == 5
    assert not any(shares.is_same(one) for one in others)
    pair = Stack((shares, others[0]), (0.6, 0.6))
    codes = small_codes(30)
    rows = PrivateRows(codes.__getitem__, 30)
    np.testing.assert_allclose(
        exact_sum(pair.blocks(), rows, half_bits=18) * 2.0**-36, pair.evaluate(codes).sum(axis=0), atol=1e-3
    )


WRONG: dict[str, dict[str, Any]] = {
    "a column twice": {"columns": ("age", "age", "income")},
    "a column too many": {"columns": ("age", "region", "income", "outcome")},
    "bins beyond the table": {"bins": (np.arange(12), None, np.arange(301) // 30)},
    "weights of another class": {"weights": np.zeros((2, 3), dtype=int)},
    "weights that are no table": {"weights": np.zeros(3, dtype=int)},
    "numbers that are not whole": {"weights": np.zeros((1, 3))},
    "more components in a table": {"tables": tuple(np.zeros((1, size, 4), dtype=int) for size in (3, 4, 11))},
    "no components": {"weights": np.zeros((1, 0), dtype=int)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_parts_that_do_not_fit_are_refused(wrong: str) -> None:
    with pytest.raises(PrivacyError):
        dataclasses.replace(random_responsibilities(), **WRONG[wrong])


def test_they_are_multiplied_by_counts_and_by_one_lookup_alone() -> None:
    shares = random_responsibilities()
    age, income = Lookup("age", np.ones((12, 1))), Lookup("income", np.ones((301, 1)))
    fourier = Fourier(("age",), (np.arange(12),), np.ones((2, 1), dtype=int))
    for factors in ((shares, shares), (age, shares), (shares, age, income), (shares, fourier)):
        with pytest.raises(PrivacyError, match="multiplied"):
            Product(factors).blocks()


def test_a_map_of_another_table_is_refused() -> None:
    check_fits(random_responsibilities(by=LABEL), small_schema())
    other = Responsibilities(("region",), (None,), (np.zeros((1, 5, 2), dtype=int),), np.zeros((1, 2), dtype=int))
    with pytest.raises(PrivacyError, match="'region', which has 4"):
        check_fits(other, small_schema())
    by = OneHot(("outcome",), (None,), (3,))
    with pytest.raises(PrivacyError, match="'outcome', which has 2"):
        check_fits(random_responsibilities(by=by), small_schema())


# On a graphics card: the same whole numbers


def of_two_mixtures() -> list[Product]:
    random = np.random.default_rng(5)
    questions = []
    ages, incomes = (
        Lookup("age", random.normal(size=(12, 2)) / 8, None),
        OneHot(("income",), (np.arange(301) // 30,), (301,)),
    )
    for seed, by in ((0, None), (1, LABEL)):
        shares = random_responsibilities(seed, components=5, by=by)
        questions.append(step_of(shares, Constant(), REGION, ages, incomes))
        questions.append(Product((shares, Stack((Constant(), incomes), (0.7, 0.7)))))
    return questions


@pytest.mark.parametrize(("remembers", "places", "entries"), [(True, 2**20, 2**25), (False, 1, 150)])
def test_a_card_adds_up_the_same_whole_numbers(
    remembers: bool, places: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CARD_ENTRIES", entries)
    monkeypatch.setattr(module, "CARD_PLACES", places)
    codes = small_codes(211)
    rows = PrivateRows(codes.__getitem__, 211, CountMemory() if remembers else None)
    questions = of_two_mixtures()
    here = [exact_sum(one.blocks(), rows, half_bits=18).tolist() for one in questions]
    with pretended_card(monkeypatch) as traffic:
        there = [exact_sum(one.blocks(), rows, half_bits=18, device="cuda").tolist() for one in questions]
    assert there == here
    assert traffic.operations > 0
    assert any(here[0])


PLANTED: dict[str, tuple[str, Any]] = {
    "sums in float32": ("_by_cell_on_card", lambda right, *args: (right(*args) + 1).astype(np.float32) - 1),
    "the class of a row forgotten": (
        "_index_on_card",
        lambda right, rows, memory, axes, *args: right(rows, memory, axes, *args) * (axes != LABEL.axes),
    ),
    "shares of another mixture": (
        "_shares_on_card",
        lambda right, shares, *args: right(replace(shares, weights=shares.weights // 2), *args),
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_fault_on_a_card_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = PLANTED[planted]
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: wrong(right, *args))
    codes = small_codes(2000)
    rows = PrivateRows(codes.__getitem__, 2000, CountMemory())
    question = step_of(random_responsibilities(components=5, by=LABEL), Constant(), REGION)
    here = exact_sum(question.blocks(), rows, half_bits=18)
    with pretended_card(monkeypatch):
        assert exact_sum(question.blocks(), rows, half_bits=18, device="cuda").tolist() != here.tolist()


def test_a_card_is_given_each_column_once_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, asked = small_codes(50), []

    def column(name: str) -> np.ndarray:
        asked.append(name)
        return codes[name]

    rows = PrivateRows(column, 50, CountMemory())
    with pretended_card(monkeypatch) as traffic:
        uploads = []
        for seed in (0, 1, 2):
            question = step_of(random_responsibilities(seed, by=LABEL), Constant(), REGION)
            exact_sum(question.blocks(), rows, half_bits=18, device="cuda")
            uploads.append(traffic.uploads)
    assert sorted(asked) == ["age", "income", "outcome", "region"]
    assert uploads[2] - uploads[1] == 2  # the mixture: its tables and its weights


def test_a_card_keeps_what_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = small_codes(211)
    rows = PrivateRows(codes.__getitem__, 211, CountMemory())
    question = step_of(random_responsibilities(by=LABEL), Constant(), REGION)
    here = exact_sum(question.blocks(), rows, half_bits=18).tolist()
    for room in (0, 300, 3000):
        monkeypatch.setattr(counting, "MOST_ON_CARD", room)
        memory = CountMemory()
        with pretended_card(monkeypatch):
            kept = exact_sum(question.blocks(), replace(rows, memory=memory), half_bits=18, device="cuda")
        assert kept.tolist() == here
        assert sum(one.nbytes for _, one in memory._on_card.values()) == memory._bytes <= room
