"""DP-SGD: which units a step reads, what each of them adds, what all steps cost, and what anybody may hear of it."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from choosing import each_once
from devices import DEVICES
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pretended_card import pretended_card
from questions import small_codes, small_schema
from recorded_noise import NoiseCall, RecordedNoise
from scipy import stats
from trained_here import ChosenSamples, Walk, step_by_hand

from synth.bundle.answers import ENTRIES, ArrayFile, from_description
from synth.bundle.recorded_session import RecordedSession
from synth.errors import BudgetExceededError, JobError, PrivacyError, SchemaError
from synth.privacy import noise as noise_module
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.answers import RowCount
from synth.privacy.costs import between_neighbours
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import OneHot
from synth.privacy.more import sampled_gradients
from synth.privacy.more.critics import CRITIC_LOSSES
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.sampled_gradients import SampledGradients
from synth.privacy.more.sampled_runs import SAMPLING_DELTA_PART
from synth.privacy.more.training_steps import NoisySteps, StepsPlan
from synth.privacy.noise import SystemNoise, poisson_sample
from synth.privacy.questions import Allowance
from synth.privacy.receipt import Receipt, misstated, require_honest
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reports.forecast import PlannedSession
from synth.schema import IdentifierColumn, Neighbours, PrivacyUnit, Schema
from synth.vault.kept_answers import AnswerFile

KEY = b"an account's key, 32 bytes long!"
WHOLE = 2**32
"""A rate of 1."""

FEW = 24
ROWS = small_codes(FEW, seed=6)

TABLES = (
    Lookup("age", np.random.default_rng(2).normal(size=(4, 3)), np.arange(12) // 3),
    Lookup("region", np.eye(4)),
    Lookup("income", np.linspace(-1, 1, 301)[:, None]),
)


def question_of(**changes: Any) -> SampledGradients:
    said: dict[str, Any] = {
        "tables": TABLES,
        "hidden": (4, 3),
        "loss": "logistic",
        "clip": 0.125,
        "rate": WHOLE // 8,
        "steps": 3,
    }
    return SampledGradients(**said | changes)


def trained(question: SampledGradients, **how: Any) -> tuple[SampledGradients, Walk]:
    """The same question with a training that has not begun."""
    walk = Walk(np.random.default_rng(5).normal(size=question.dimension), **how)
    return dataclasses.replace(question, training=walk), walk


def schema_of(row_count: str = "private", rows_per_unit: int = 1, *, ids: bool = False, **changes: Any) -> Schema:
    unit = PrivacyUnit("person", rows_per_unit=rows_per_unit, id_column="person" if ids else None)
    known = (IdentifierColumn("person"),) if ids else ()
    return Schema((*known, *small_schema().columns), unit=unit, row_count=row_count, **changes)  # type: ignore[arg-type]


WORLDS = {
    "a row each": schema_of(),
    "a row each, ids": schema_of(ids=True),
    "up to 3 rows": schema_of(rows_per_unit=3, ids=True),
}


def table_of(schema: Schema, n_rows: int = FEW, *, units: int = 9, seed: int = 1) -> PrivateTable:
    chosen = np.random.default_rng(seed).integers(0, FEW, n_rows)
    ids = None
    if schema.unit.id_column is not None:
        ids = [f"p{place % units if schema.unit.rows_per_unit > 1 else place}" for place in range(n_rows)]
    codes = {name: column[chosen] for name, column in ROWS.items()}
    return PrivateTable.from_codes(schema, codes, unit_ids=ids, account_key=KEY)


def session_on(
    table: PrivateTable, *, noise: Any = None, epsilon: float = 1.0, delta: float = 1e-5, kept: Any = None
) -> PrivateSession:
    budget = PrivacyBudget(epsilon, delta, table.schema.neighbours)
    return PrivateSession(table, budget, noise=RecordedNoise(3) if noise is None else noise, kept=kept)


def ask(session: Any, question: SampledGradients, share: float = 1.0, query: str = "steps") -> NoisySteps:
    return session.noisy_steps(question, share=share, query=query, source="test")  # type: ignore[no-any-return]


@cache
def plan() -> StepsPlan:
    """Some noise."""
    budget = PrivacyBudget(1.0, 1e-5, Neighbours.ADD_REMOVE)
    between = lambda bound: between_neighbours(bound, WORLDS["a row each"])  # noqa: E731
    return question_of().plan(Allowance(WORLDS["a row each"], budget, budget.units, 1e-4, between))


def exact_step(
    question: SampledGradients,
    chosen: NDArray[np.int64],
    units: NDArray[np.int64] | None,
    drawn: Callable[[int, int], Any],
    weights: NDArray[np.float64],
    *,
    device: str = "cpu",
) -> NDArray[np.int64]:
    """The exact answer of one step on the table of these rows, in steps of 2^-24 of the clip norm."""
    rows = PrivateRows(lambda name: ROWS[name][chosen], len(chosen), units=units)
    found = question.of_rows(plan(), rows, ChosenSamples(drawn), device=device)(0, weights)
    shift = 2 * plan().gaussian.half_bits - 24
    assert not (found & ((1 << shift) - 1)).any()
    return found >> shift


def row_of(place: int) -> dict[str, int]:
    return {name: int(column[place]) for name, column in ROWS.items()}


# The law of a sample


class Told:
    """A stream of words that a test chooses."""

    def __init__(self, words: list[int]) -> None:
        self._words = np.array(words, dtype=np.uint64)
        self.asked = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        found, self._words = self._words[:count], self._words[count:]
        self.asked += count
        return found.copy()


def as_words(halves: list[int]) -> Told:
    padded = halves + [0] * (len(halves) % 2)
    return Told([low + (high << 32) for low, high in zip(padded[::2], padded[1::2], strict=True)])


@pytest.mark.parametrize("rate", [1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1, 2**32])
def test_a_thing_is_drawn_exactly_where_its_32_bits_are_below_the_rate(rate: int) -> None:
    """So of the 2^32 values, all equally likely, as many draw it as the rate says: no probability is rounded."""
    near = [0, 1, 2, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, rate - 1, min(rate, 2**32 - 1)]
    for size in range(len(near) + 1):
        source = as_words(near[:size])
        found = poisson_sample(source, size, rate=rate)
        assert found.tolist() == [place for place in range(size) if near[place] < rate]
        assert (found.dtype, source.asked) == (np.int64, (size + 1) // 2)


@pytest.mark.parametrize("rate", [0, -1, 2**32 + 1])
def test_a_rate_out_of_range_is_refused(rate: int) -> None:
    with pytest.raises(PrivacyError, match=r"a rate from 1 to 2\^32"):
        poisson_sample(as_words([0, 0]), 2, rate=rate)


@pytest.mark.parametrize("rate", [WHOLE // 64, WHOLE // 3, WHOLE - WHOLE // 10])
def test_samples_have_binomial_sizes_and_draw_everybody_alike_and_independently(rate: int) -> None:
    """With known words; a rate that is a tenth larger, or half as far from 1, fails the same test."""
    noise, size, times = RecordedNoise(11), 101, 4000
    drawn = np.zeros((times, size), dtype=bool)
    for row in drawn:
        row[noise.sample(size, rate=rate)] = True
    p = rate / WHOLE
    for assumed, accepted in ((p, True), (min(p * 1.1, (1 + p) / 2), False)):
        assert (stats.binomtest(int(drawn.sum()), times * size, assumed).pvalue > 1e-6) == accepted
    each = (drawn.sum(axis=0) - times * p) / math.sqrt(times * p * (1 - p))
    assert stats.chi2.sf(float(each @ each), size) > 1e-4
    sizes = (drawn.sum(axis=1) - size * p) ** 2 / (size * p * (1 - p))
    assert abs(float(sizes.mean()) - 1) < 0.12  # samples of one size have no variance
    for away in (1, 2, 51):  # the halves of one word, of two, and far apart
        both = int((drawn[:, away:] & drawn[:, :-away]).sum())
        n_pairs = times * (size - away)
        assert stats.binomtest(both, n_pairs, p * p).pvalue > 1e-6
    again = int((drawn[1:] & drawn[:-1]).sum())
    assert stats.binomtest(again, (times - 1) * size, p * p).pvalue > 1e-6


def test_a_rate_of_1_draws_everybody_and_the_least_one_nearly_nobody() -> None:
    noise = RecordedNoise(12)
    assert noise.sample(1001, rate=WHOLE).tolist() == list(range(1001))
    assert noise.sample(100_000, rate=1).tolist() == []
    assert noise.sample(0, rate=WHOLE // 2).tolist() == []


# Where a sample comes from


def test_no_seed_of_a_replay_touches_a_sample() -> None:
    """The product's own noise, with every seed set alike: two samples of 4,096 things are never the same."""
    found = []
    for _ in range(2):
        random.seed(7)
        np.random.seed(7)  # noqa: NPY002
        torch.manual_seed(7)
        found.append(SystemNoise().sample(4096, rate=WHOLE // 2).tolist())
    assert found[0] != found[1]


def test_units_are_drawn_by_the_key_of_the_noise_and_by_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training takes place though every generator of pseudo-random numbers is out of order."""

    def refuse(*given: Any, **named: Any) -> Any:
        raise AssertionError("something else than the key of the noise was asked for random numbers")

    question, walk = trained(question_of())
    for module, names in {
        np.random: ("default_rng", "random", "rand", "randint", "choice", "permutation"),
        torch: ("rand", "randint", "randperm", "multinomial", "bernoulli", "normal", "randn"),
        random: ("random", "sample", "choice", "shuffle", "getrandbits"),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    asked = []
    right = noise_module.CipherStream.words
    monkeypatch.setattr(
        noise_module.CipherStream, "words", lambda self, count: asked.append(count) or right(self, count)
    )
    table = PrivateTable.from_codes(WORLDS["a row each"], ROWS, account_key=KEY)
    ask(session_on(table, noise=SystemNoise()), question)
    assert walk.taken == 3
    assert asked.count(FEW // 2) == 3  # one word for two units, at every step


@pytest.mark.parametrize("world", WORLDS)
def test_at_every_step_a_new_sample_of_units_is_asked_for(world: str) -> None:
    """Of all units, not of rows; then noise for every number of a step, and nothing else."""
    noise = RecordedNoise(4)
    table = table_of(WORLDS[world])
    question, walk = trained(question_of(steps=6, rate=WHOLE // 3))
    answer = ask(session_on(table, noise=noise), question)
    n_units = 9 if world == "up to 3 rows" else FEW
    assert [call.kind for call in noise.calls] == ["sample", "gaussian"] * 6
    samples = noise.calls[::2]
    assert {(call.parameter, call.size) for call in samples} == {(WHOLE // 3, n_units)}
    assert len({call.drawn for call in samples}) == 6
    (drawn,) = {call for call in noise.calls[1::2]}
    assert drawn == NoiseCall("gaussian", drawn.parameter, question.dimension)
    assert math.sqrt(drawn.parameter) * answer.receipt.grid == pytest.approx(answer.receipt.noise_scale, rel=1e-12)
    np.testing.assert_array_equal(np.array(walk.told), answer.whole * answer.receipt.grid)


# What a unit adds

UNITS = st.lists(st.lists(st.integers(0, FEW - 1), min_size=1, max_size=3), max_size=7)


def laid_out(
    units: list[list[int]], order: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of units one after the other, or in another order, and the number of the unit of each."""
    chosen = np.array([place for unit in units for place in unit], dtype=np.int64)
    numbers = np.repeat(np.arange(len(units)), [len(unit) for unit in units]).astype(np.int64)
    return (chosen, numbers) if order is None else (chosen[order], numbers[order])


def check_units(device: str = "cpu") -> None:
    """Whole units are read, each adds what it adds alone, and all rows of nobody else."""

    @settings(max_examples=40)
    @given(UNITS, st.data(), st.sampled_from(CRITIC_LOSSES), st.sampled_from([1, 2, 2**14]))
    def one_step(units: list[list[int]], data: st.DataObject, loss: Any, block: int) -> None:
        drawn = sorted(data.draw(st.sets(st.integers(0, len(units) - 1)))) if units else []
        question = question_of(loss=loss)
        weights = np.random.default_rng(len(units)).normal(scale=2.0, size=question.dimension)
        n_rows = sum(map(len, units))
        order = np.array(data.draw(st.permutations(range(n_rows))), dtype=np.int64)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampled_gradients, "BLOCK_ROWS", block)
            found = exact_step(question, *laid_out(units, order), lambda step, size: drawn, weights, device=device)
        wanted = [[row_of(place) for place in units[one]] for one in drawn]
        assert found.tolist() == step_by_hand(question, weights.tolist(), wanted, several=True)

    one_step()


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_adds_up_what_the_drawn_units_add_by_hand(device: str) -> None:
    check_units(device)


def test_on_a_card_a_step_is_the_same_and_fetches_its_sum_and_lengths_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none, a pretended one: weights and rows go there, a sum and the lengths of rows come back."""
    question = question_of(clip=0.25)
    weights = np.random.default_rng(3).normal(size=question.dimension)
    chosen, units = np.arange(FEW), np.arange(FEW) // 2
    here = exact_step(question, chosen, units, lambda step, size: range(size), weights)
    with pretended_card(monkeypatch) as traffic:
        there = exact_step(question, chosen, units, lambda step, size: range(size), weights, device="cuda")
    np.testing.assert_array_equal(there, here)
    assert traffic.operations > 20
    assert traffic.downloads == 2


def test_rows_that_are_units_add_what_they_add_by_hand() -> None:
    for loss in CRITIC_LOSSES:
        question = question_of(loss=loss)
        weights = np.random.default_rng(3).normal(size=question.dimension)
        for drawn in ([], [0], [5, 7, 23], list(range(FEW))):
            found = exact_step(question, np.arange(FEW), None, lambda step, size, drawn=drawn: drawn, weights)
            wanted = [[row_of(place)] for place in drawn]
            assert found.tolist() == step_by_hand(question, weights.tolist(), wanted, several=False)


def check_neighbours() -> None:
    """One unit more changes a step by at most the clip norm, and not at all where it was not drawn."""

    @settings(max_examples=60)
    @given(UNITS, st.lists(st.integers(0, FEW - 1), min_size=1, max_size=3), st.data(), st.sampled_from([1, 2, 2**14]))
    def one_more(units: list[list[int]], more: list[int], data: st.DataObject, block: int) -> None:
        place = data.draw(st.integers(0, len(units)))
        others = data.draw(st.sets(st.integers(0, len(units) - 1))) if units else set()
        longer = [*units[:place], more, *units[place:]]
        shifted = {one + (one >= place) for one in others}
        question = question_of(clip=data.draw(st.sampled_from([2.0**-20, 0.125, 4.0])))
        weights = np.random.default_rng(len(units)).normal(scale=3.0, size=question.dimension)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampled_gradients, "BLOCK_ROWS", block)
            before, without, with_it = (
                exact_step(question, *laid_out(table), lambda step, size, drawn=drawn: sorted(drawn), weights)
                for table, drawn in ((units, others), (longer, shifted), (longer, shifted | {place}))
            )
        np.testing.assert_array_equal(before, without)
        change = with_it - before
        assert sum(int(entry) ** 2 for entry in change) <= 2**48
        own = step_by_hand(question, weights.tolist(), [[row_of(one) for one in more]], several=True)
        assert change.tolist() == own

    one_more()


def test_one_unit_more_changes_a_step_by_at_most_the_clip_norm_and_only_where_it_is_drawn() -> None:
    check_neighbours()


def test_one_unit_more_changes_a_whole_training_only_from_the_first_step_in_which_it_is_drawn() -> None:
    """Noise and the samples of all others alike: until then both trainings hear the same."""
    units = [[place] for place in range(12)]
    question = question_of(steps=4)
    for first in range(4):
        told = []
        for table in (units, [*units, [13]]):
            asked, walk = trained(question)
            chosen, numbers = laid_out(table)
            drawn = lambda step, size, first=first: [1, 4, *([12] if step >= first and size == 13 else [])]  # noqa: E731
            rows = PrivateRows(lambda name, chosen=chosen: ROWS[name][chosen], len(chosen), units=numbers)
            asked.draw(plan(), rows, ChosenSamples(drawn), device="cpu")
            told.append(np.array(walk.told))
        same = (told[0] == told[1]).all(axis=1)
        assert same.tolist() == [step < first for step in range(4)]
        assert np.linalg.norm(told[0][first] - told[1][first]) <= 1.0


@pytest.mark.parametrize("world", WORLDS)
def test_a_session_reads_whole_units_of_the_declared_table(world: str) -> None:
    """From a session's own table: every step is what the rows of the units in its sample add, at the weights before."""
    schema = WORLDS[world]
    table = table_of(schema)
    question, walk = trained(question_of(steps=4, rate=WHOLE // 2))

    class NoNoise(RecordedNoise):
        def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
            super().gaussian(variance, size)
            return np.zeros(size, dtype=np.int64)

    noise = NoNoise(8)
    answer = ask(session_on(table, noise=noise), question)
    numbers = np.arange(table._rows) if table._units is None else table._units
    rows: dict[int, list[dict[str, int]]] = {}
    for place, number in enumerate(numbers.tolist()):
        own = {name: int(table._column(name)[place]) for name in schema.names if name != "person"}
        rows.setdefault(number, []).append(own)
    units = [rows[number] for number in sorted(rows)]
    assert (max(map(len, units)) > 1) == (schema.unit.rows_per_unit > 1)
    shift = 2 * round(-math.log2(answer.receipt.grid) / 2) - 24
    for call, point, step in zip(noise.calls[::2], walk.points, answer.whole, strict=True):
        wanted = step_by_hand(
            question, point.tolist(), [units[one] for one in call.drawn], several=schema.unit.rows_per_unit > 1
        )
        assert (step >> shift).tolist() == wanted


def test_a_table_of_nobody_adds_nothing() -> None:
    question = question_of()
    weights = np.ones(question.dimension)
    for units in (None, np.zeros(0, dtype=np.int64)):
        found = exact_step(question, np.zeros(0, dtype=np.int64), units, lambda step, size: range(size), weights)
        assert not found.any()


# Refusals, before anything is charged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables": ()}, "lookups of at least one column, each column once"),
        ({"tables": (TABLES[0], TABLES[0])}, "each column once"),
        ({"tables": (OneHot(("region",), (None,), (4,)),)}, "What a critic reads are lookups"),
        ({"hidden": ()}, "1 to 4 hidden layers of 1 to 128"),
        ({"hidden": (200,)}, "1 to 4 hidden layers of 1 to 128"),
        ({"loss": "hinge"}, "must be one of logistic, wasserstein, got 'hinge'"),
        ({"clip": 0.0}, "clip norm of a gradient must lie between"),
        ({"clip": -1.0}, "clip norm of a gradient must lie between"),
        ({"clip": 2.0**20 * 1.01}, "clip norm of a gradient must lie between"),
        ({"clip": math.nan}, "clip norm of a gradient must lie between"),
        ({"rate": 0}, r"with a probability of at least 2\^-30 and at most 1"),
        ({"rate": WHOLE + 1}, r"with a probability of at least 2\^-30 and at most 1"),
        ({"steps": 0}, "from 1 to 100,000 steps, got 0"),
        ({"steps": 100_001}, "from 1 to 100,000 steps, got 100,001"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PrivacyError, match=message):
        question_of(**changes)


def test_a_lookup_that_could_do_anything_is_refused() -> None:
    class Other(Lookup):
        """Looks up what it likes."""

    with pytest.raises(PrivacyError, match="What a critic reads are lookups"):
        question_of(tables=(Other("age", np.eye(12)),))


REFUSED: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "one unit in place of another": (schema_of("public"), {}, "declare 'row_count: private', or choose another"),
    "rows that nothing holds together": (schema_of(rows_per_unit=3), {}, "needs an id column where one person may"),
    "very many rows": (schema_of(rows_per_unit=2**16 + 1, ids=True), {}, "units of at most 65,536 rows"),
    "another table": (schema_of(), {"tables": (Lookup("age", np.eye(11)),)}, "codes of 'age'"),
    "no such column": (schema_of(), {"tables": (Lookup("wages", np.eye(11)),)}, "no column called 'wages'"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_what_cannot_be_asked_of_a_table_is_refused_and_costs_nothing(refused: str) -> None:
    schema, changes, message = REFUSED[refused]
    noise = RecordedNoise(1)
    session = session_on(table_of(schema), noise=noise)
    question, walk = trained(question_of(**changes))
    with pytest.raises((PrivacyError, SchemaError), match=message):
        ask(session, question)
    assert (session.remaining_share, session.receipts, noise.calls, walk.points) == (1.0, (), [], [])


def test_single_cells_are_not_protected_by_samples() -> None:
    with pytest.raises(PrivacyError, match="only noisy rows"):
        question_of().check(schema_of("public", protection="cell"))


def test_a_share_that_is_too_small_is_refused_and_costs_nothing() -> None:
    noise = RecordedNoise(1)
    session = session_on(table_of(WORLDS["a row each"]), noise=noise)
    with pytest.raises(PrivacyError, match="share of a training on samples is too small; give it more of the budget"):
        ask(session, trained(question_of())[0], share=1e-4)
    session.noisy_sum(OneHot(("region",), (None,), (4,)), share=0.5, query="a", source="test")
    with pytest.raises(BudgetExceededError):
        ask(session, trained(question_of())[0], share=0.6)
    assert len(session.receipts) == 1
    assert {call.kind for call in noise.calls} == {"gaussian"}


def test_more_numbers_than_a_run_may_ask_for_are_refused() -> None:
    session = session_on(table_of(WORLDS["a row each"]))
    with pytest.raises(PrivacyError, match=r"noisy numbers altogether|No grid carries the noise"):
        ask(session, trained(question_of(hidden=(128, 128), steps=100_000, rate=WHOLE))[0])
    assert session.receipts == ()
    assert session.remaining_share == 1.0


def test_without_a_training_or_with_one_that_has_begun_no_row_is_read() -> None:
    for question in (question_of(), trained(question_of())[0]):
        if question.training is not None:
            question.training.move(np.zeros(question.dimension))
        noise = RecordedNoise(1)
        with pytest.raises(PrivacyError, match="together with a training that has not begun"):
            ask(session_on(table_of(WORLDS["a row each"]), noise=noise), question)
        assert noise.calls == []


def test_a_session_answers_no_subclass_of_the_question() -> None:
    class Other(SampledGradients):
        """Takes other steps."""

    other = Other(TABLES, (3,), "logistic", 1.0, WHOLE // 8, 2, Walk(np.zeros(40)))
    session = session_on(table_of(WORLDS["a row each"]))
    with pytest.raises(PrivacyError, match="closed set"):
        ask(session, other)
    assert session.remaining_share == 1.0


# What it costs

SETTINGS = each_once(
    (0.05, 1.0, 8.0),
    (1e-9, 1e-5),
    ((WHOLE // 1000, 400), (WHOLE // 20, 60), (WHOLE // 2, 3), (WHOLE, 1), (WHOLE, 25)),
)


@pytest.mark.parametrize(("epsilon", "delta", "sampled"), SETTINGS)
def test_receipts_are_honest_and_stay_within_the_budget(epsilon: float, delta: float, sampled: tuple[int, int]) -> None:
    """And use it: what is left over is the margin of the accounting, not a part of the budget."""
    rate, steps = sampled
    session = PlannedSession(
        WORLDS["a row each"], PrivacyBudget(epsilon, delta, Neighbours.ADD_REMOVE), rows=float(FEW)
    )
    (receipt,) = ask(session, question_of(rate=rate, steps=steps)).receipts
    true = dataclasses.replace(receipt, private=True)
    require_honest(true)
    assert not list(misstated(true))
    assert (true.mechanism, true.sensitivity) == ("sampled_gaussian", 1.0)
    assert (true.sampling_rate, true.steps) == (rate / WHOLE, steps)
    assert true.dimension == steps * question_of().dimension
    assert 0.97 * epsilon <= epsilon_of_receipts([true], delta) <= epsilon
    assert 0 < true.additive_delta <= delta * SAMPLING_DELTA_PART
    variance = (true.noise_scale / true.grid) ** 2
    assert variance == pytest.approx(round(variance), rel=1e-12)


def check_together(first: float, trainings: int) -> None:
    """Another question, and several trainings after one another, stay within one budget however it is shared."""
    session = session_on(table_of(WORLDS["a row each"]))
    cells = OneHot(("region",), (None,), (4,))
    session.noisy_sum(cells, share=first / 2, query="before", source="test")
    for number in range(trainings):
        share = (1 - first) / trainings
        ask(session, trained(question_of(rate=WHOLE // 10, steps=2))[0], share=share, query=f"training {number}")
    session.noisy_sum(cells, share=session.remaining_share, query="after", source="test")
    receipts = [dataclasses.replace(receipt, private=True) for receipt in session.receipts]
    assert 0.97 <= epsilon_of_receipts(receipts, 1e-5) <= 1.0
    with pytest.raises(PrivacyError):
        session.noisy_sum(cells, share=2.0**-30, query="one more", source="test")


@pytest.mark.parametrize(
    ("first", "trainings"), [(0.5, 1), (0.1, 2), pytest.param(0.05, 6, marks=pytest.mark.thorough)]
)
def test_trainings_and_other_questions_stay_within_one_budget(first: float, trainings: int) -> None:
    check_together(first, trainings)


def test_so_many_trainings_that_nothing_of_delta_is_left_are_refused() -> None:
    """Each sets a part of delta aside: before all of it is gone there is no share that pays for the next."""
    many = round(1 / SAMPLING_DELTA_PART) + 1
    session = session_on(table_of(WORLDS["a row each"]))

    def ask_many() -> None:
        for number in range(many):
            ask(session, trained(question_of(rate=WHOLE, steps=1))[0], share=1 / many, query=f"training {number}")

    with pytest.raises(PrivacyError, match=r"give it more of the budget|leaves nothing of delta"):
        ask_many()
    assert sum(receipt.additive_delta for receipt in session.receipts) < 1e-5


def test_a_part_of_a_session_pays_from_its_own_share() -> None:
    whole = session_on(table_of(WORLDS["a row each"]))
    part = whole.sub_session(0.5)
    receipt = ask(part, trained(question_of())[0]).receipt
    assert part.remaining_share == 0.0
    assert whole.remaining_share == pytest.approx(0.5)
    assert receipt.mu_squared_units < whole.budget.units / 2


def test_a_smaller_rate_fewer_steps_or_a_larger_share_need_less_noise() -> None:
    def noise_of(share: float = 0.5, **changes: Any) -> float:
        session = PlannedSession(WORLDS["a row each"], PrivacyBudget(1.0, 1e-5, Neighbours.ADD_REMOVE), rows=24.0)
        return ask(session, question_of(**{"steps": 40, **changes}), share=share).receipt.noise_scale

    most = noise_of()
    for less in (noise_of(rate=WHOLE // 9), noise_of(steps=36), noise_of(share=0.55)):
        assert less < most
    # The clip norm is the unit of the answer, and the loss is not asked what it costs.
    assert {noise_of(clip=4.0), noise_of(loss="wasserstein"), noise_of(clip=2.0**-20)} == {most}


# What anybody hears


def test_an_answer_says_nothing_of_how_many_rows_there_are_or_were_drawn() -> None:
    """Of tables of very different sizes everything but the noisy numbers is the same, to the last character."""
    said = []
    for n_rows in (3, 2000):
        table = table_of(WORLDS["a row each"], n_rows)
        answer = ask(session_on(table), trained(question_of())[0])
        arrays = ArrayFile()
        written = ENTRIES[NoisySteps].to_json(answer, 0, arrays)
        said.append(json.dumps(written, sort_keys=True))
        assert answer.whole.shape == (3, question_of().dimension)
        assert {field.name for field in dataclasses.fields(answer)} == {"receipt", "question", "whole"}
    assert said[0] == said[1]
    assert "2000" not in said[0]


def test_nothing_private_stays_on_what_a_training_or_an_answer_holds() -> None:
    question, walk = trained(question_of())
    answer = ask(session_on(table_of(WORLDS["a row each"])), question)
    assert set(vars(walk)) == {"_weights", "_rate", "_stops", "points", "told"}
    with pytest.raises(ValueError, match="read-only"):
        answer.whole[0, 0] = 1
    assert "training" not in repr(question)


# Digests and files


def changed() -> Iterator[SampledGradients]:
    """Questions that differ in one thing each."""
    other = Lookup("income", np.linspace(-1, 1.0001, 301)[:, None])
    yield question_of(tables=(*TABLES[:2], other))
    yield question_of(tables=TABLES[::-1])
    yield question_of(tables=TABLES[:2])
    yield question_of(hidden=(3, 4))
    yield question_of(hidden=(4,))
    yield question_of(loss="wasserstein")
    yield question_of(clip=0.125 * (1 + 2.0**-52))
    yield question_of(rate=WHOLE // 8 + 1)
    yield question_of(steps=4)


def check_digests() -> None:
    digests = [question_of().digest(), *(one.digest() for one in changed())]
    assert len(set(digests)) == len(digests)
    # What learns from the steps is no part of what is asked.
    assert trained(question_of())[0].digest() == digests[0]


def test_a_digest_covers_everything_that_is_asked() -> None:
    check_digests()
    fields = {field.name for field in dataclasses.fields(SampledGradients)}
    assert fields == {"tables", "hidden", "loss", "clip", "rate", "steps", "training"}, "change it in one more way"


def test_a_question_and_its_answer_are_written_and_read_back_bit_for_bit() -> None:
    answer = ask(session_on(table_of(WORLDS["a row each"])), trained(question_of(clip=1 / 3))[0])
    arrays = ArrayFile()
    entry = ENTRIES[NoisySteps]
    said = json.loads(json.dumps(entry.to_json(answer, 7, arrays)))
    again = entry.from_json(said, arrays.by_name)
    assert again.question.digest() == answer.question.digest()
    assert again.question.training is None
    assert again.receipt == answer.receipt
    np.testing.assert_array_equal(again.whole, answer.whole)
    for one in (question_of(), *changed()):
        written, tables = one.to_json("question", {})
        inner = lambda said, tables=tables: from_description(said, tables)  # noqa: E731
        assert SampledGradients.from_json(json.loads(json.dumps(written)), tables, inner).digest() == one.digest()


# Crashes


class Untouched(RecordedNoise):
    """Noise that nobody may draw: everything has to come from kept answers."""

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        raise AssertionError("noise was drawn although the answer is kept")

    def sample(self, size: int, *, rate: int) -> NDArray[np.int64]:
        raise AssertionError("units were drawn although the answer is kept")


def kept_in(path: Path, *, begin: bool = False) -> AnswerFile:
    file = AnswerFile(path, key=KEY, run_id="6f1f9a0e-0f6b-4f5c-9d1c-0c9a4f5d3b11")
    if begin:
        file.begin({"config": "c"})
    else:
        assert file.go_on() == {"config": "c"}
    return file


def test_after_a_crash_a_kept_training_is_repeated_without_rows(tmp_path: Path) -> None:
    path, table = tmp_path / "answers", table_of(WORLDS["up to 3 rows"])
    with kept_in(path, begin=True) as file:
        question, walk = trained(question_of())
        first = ask(session_on(table, kept=file), question)
    with kept_in(path) as file:
        question, again = trained(question_of())
        session = session_on(table, noise=Untouched(1), kept=file)
        session._table._columns.clear()
        second = ask(session, question)
        assert again.told == []
        second.train(again)
        file.require_all_repeated()
    assert second.receipt == first.receipt
    np.testing.assert_array_equal(second.whole, first.whole)
    np.testing.assert_array_equal(np.array(again.told), np.array(walk.told))
    # Once it has learned from all steps it learns from none of them again.
    second.train(again)
    first.train(walk)
    assert again.taken == walk.taken == 3


def test_a_training_that_was_broken_off_leaves_nothing_and_is_drawn_anew(tmp_path: Path) -> None:
    """Nothing of its steps was kept or heard; the next try asks for other samples, and the receipt is that of one."""
    path, table = tmp_path / "answers", table_of(WORLDS["a row each"])
    receipts: list[Receipt] = []
    sizes = []
    with kept_in(path, begin=True) as file:
        question, walk = trained(question_of(), stops=1)
        broken = RecordedNoise(1)
        session = session_on(table, noise=broken, kept=file)
        sizes.append(path.stat().st_size)
        with pytest.raises(KeyboardInterrupt):
            ask(session, question)
        sizes.append(path.stat().st_size)
        assert session.receipts == ()
        assert session.answers == ()
        assert session.remaining_share == 0.0  # what it was allowed is gone in this session
    assert sizes[0] == sizes[1]
    with kept_in(path) as file:
        question, walk = trained(question_of())
        noise = RecordedNoise(2)
        session = session_on(table, noise=noise, kept=file)
        ask(session, question)
        receipts += session.receipts
    assert len(receipts) == 1
    assert walk.taken == 3
    assert noise.calls[0].drawn != broken.calls[0].drawn


def test_a_kept_training_is_no_answer_to_another_question(tmp_path: Path) -> None:
    for number, other in enumerate(changed()):
        path, table = tmp_path / f"{number}", table_of(WORLDS["a row each"])
        with kept_in(path, begin=True) as file:
            ask(session_on(table, kept=file), trained(question_of())[0])
        with kept_in(path) as file, pytest.raises(JobError):
            ask(session_on(table, noise=Untouched(1), kept=file), trained(other)[0])


# Replay and forecast


def recorded(session: PrivateSession) -> RecordedSession:
    return RecordedSession(
        session.schema, session.budget, rows=RowCount(float(FEW), 0.0, public=False), answers=session.answers
    )


def check_replay() -> None:
    """A recorded training is repeated to the question that it was given to, and to no other."""
    session = session_on(table_of(WORLDS["a row each"]))
    first = ask(session, trained(question_of())[0], share=0.5)
    again = recorded(session)
    question, walk = trained(question_of())
    found = ask(again, question, share=0.5)
    found.train(walk)
    assert walk.taken == 3
    np.testing.assert_array_equal(found.whole, first.whole)
    differences = [one for one in again.repeated.differences if "private" not in one]
    assert not differences, differences
    for other in changed():
        with pytest.raises(PrivacyError, match="asked about other columns or with other settings"):
            ask(recorded(session), trained(other)[0], share=0.5)


def test_a_recorded_training_is_repeated_to_its_own_question_alone() -> None:
    check_replay()


def test_a_recorded_training_with_another_share_is_found_different() -> None:
    session = session_on(table_of(WORLDS["a row each"]))
    ask(session, trained(question_of())[0], share=0.5)
    again = recorded(session)
    ask(again, trained(question_of())[0], share=0.6)
    assert any(
        "than the generator's question and its share of the budget give" in one for one in again.repeated.differences
    )


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_what_is_foreseen_is_what_is_charged(share: float) -> None:
    session = session_on(table_of(WORLDS["a row each"]))
    planned = PlannedSession(session.schema, session.budget, rows=float(FEW))
    foreseen, found = ask(planned, question_of(), share=share), ask(session, trained(question_of())[0], share=share)
    assert foreseen.receipt == found.receipt
    assert planned.remaining_share == session.remaining_share
    assert not foreseen.whole.any()
    assert foreseen.whole.shape == found.whole.shape
