"""Steps of private EM: what a unit adds is its own, to the last bit, and never more than its bound; what one costs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from devices import DEVICES
from em_by_hand import row_of_step, unit_of_step
from planted_in_units import planted_in
from questions import small_codes, small_schema
from recorded_noise import RecordedNoise
from sums_of_units import SumsOfUnits

from synth.bundle.answers import ENTRIES
from synth.bundle.recorded_session import RecordedSession
from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy import costs
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import RowCount
from synth.privacy.more import em_models, em_steps, gradients
from synth.privacy.more.em_models import GaussianPair, MissingCovariates, RegressionPair
from synth.privacy.more.em_steps import BOUNDINGS, EMStepQuestion
from synth.privacy.more.gradients import NoisyGradient
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED, expected_truncation, smoothed_truncation
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import IdentifierColumn, PrivacyUnit, Schema

KEY = b"an account's key, 32 bytes long!"

AGES = Lookup("age", np.append(np.linspace(-1, 1, 11), 0.0)[:, None])
INCOMES = Lookup("income", np.linspace(-1, 1, 301)[:, None])
REGIONS = Lookup("region", np.array([[-0.7], [0.1], [0.9], [0.3]]))
BETA = np.array([0.7, -0.4])


def question_of(model: str, bounding: str, how: str = "", clip: float = 0.5) -> EMStepQuestion:
    printed = "printed" in how
    if model == "pair":
        kind, tables, hidden = GaussianPair(0.5, printed), (AGES, INCOMES), ()
    elif model == "regressions":
        kind, tables, hidden = RegressionPair(0.5, printed), (AGES, REGIONS, INCOMES), ()
    else:
        kind, tables, hidden = MissingCovariates(0.5, printed), (AGES, REGIONS, INCOMES), (11, 3)
    return EMStepQuestion(
        model=kind,
        tables=tables,
        scales=np.array([2.0, 3.0, 1.7])[: len(tables)],
        parameters=BETA,
        clip=clip,
        bounding=bounding,  # type: ignore[arg-type]
        precision=1.9,
        statistics="statistics" in how,
        hidden=hidden,
    )


QUESTIONS = {
    f"{model}, {bounding}, {how}": question_of(model, bounding, how, clip)
    for model in ("pair", "regressions", "missing")
    for bounding in BOUNDINGS
    for how, clip in (("printed", 0.5), ("of the likelihood", 2.0), ("statistics", 0.3))
    if model == "pair" or how != "statistics"
}

ROWS = small_codes(24, seed=6)


def row_of(place: int) -> dict[str, int]:
    return {name: int(column[place]) for name, column in ROWS.items()}


@functools.cache
def alone(kind: str) -> np.ndarray:
    """What each of a few rows adds as a unit of its own, by hand."""
    return np.array([unit_of_step(QUESTIONS[kind], [row_of(place)]) for place in range(24)])


ASKED = SumsOfUnits(QUESTIONS, ROWS, alone, unit_of_step)
summed, check_rows, check_units = ASKED.summed, ASKED.check_rows, ASKED.check_units


# What a unit adds


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", QUESTIONS)
def test_in_a_table_of_any_size_and_order_every_row_adds_what_is_worked_out_by_hand(kind: str, device: str) -> None:
    for place in range(24):
        np.testing.assert_array_equal(summed(QUESTIONS[kind], np.array([place]), device=device), alone(kind)[place])
    for n_rows in (7, 4103):
        check_rows(kind, n_rows, seed=n_rows, device=device)


@pytest.mark.parametrize("block", [1, 3, 40])
def test_units_are_worked_on_in_blocks_of_any_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "BLOCK_ENTRIES", 2 * block)
    for kind in QUESTIONS:
        check_rows(kind, 101, seed=block)
        check_units(kind, 60, seed=block)


def check_bounds(kind: str) -> None:
    """Units of one row, of many alike, of rows against one another: none adds more than its bound."""
    question = QUESTIONS[kind]
    for chosen in (*([place] * several for place in range(24) for several in (1, 2, 1000)), list(range(24))):
        own = summed(question, np.array(chosen), np.zeros(len(chosen), dtype=np.int64))
        if question.bounding == "norm":
            assert sum(int(one) ** 2 for one in own) <= 2**48
        assert np.abs(own).max() <= 2**24


@pytest.mark.parametrize("kind", QUESTIONS)
def test_no_unit_adds_more_than_its_bound(kind: str) -> None:
    check_bounds(kind)


def test_a_row_that_no_id_tells_apart_has_its_part_of_the_bound() -> None:
    for kind, question in QUESTIONS.items():
        own = summed(question, np.array([3]), rows_each=3)
        assert own.tolist() == unit_of_step(question, [row_of(3)], rows_each=3), kind


def check_far(bounding: str) -> None:
    """One row at 1e6 times the scale of the truncation, where the printed closed form gives 64 for at most 0.94."""
    far = dataclasses.replace(
        QUESTIONS[f"pair, {bounding}, statistics"], scales=np.full(2, 1024.0), clip=1024 * LARGEST_TRUNCATED / 1e6
    )
    for place in range(24):
        own = summed(far, np.array([place])) / 2**24
        assert np.abs(own).max() <= 1.0
        number = AGES.table[ROWS["age"][place], 0] * 1e6
        if bounding == "soft":
            expected = smoothed_truncation(np.array([abs(number)]), precision=1.9)[0] / LARGEST_TRUNCATED
            assert abs(own[0]) <= expected + 1e-6


@pytest.mark.parametrize("bounding", ["coordinates", "soft"])
def test_a_number_far_out_is_bounded(bounding: str) -> None:
    check_far(bounding)


@pytest.mark.parametrize("bounding", BOUNDINGS)
def test_the_largest_unit_with_the_largest_rows_leaves_no_whole_number_behind(bounding: str) -> None:
    """2^16 rows of 2^14 each, of either sign: 2^62 steps, which int64 holds; the sum keeps its sign."""
    largest = dataclasses.replace(
        QUESTIONS["regressions, norm, printed"],
        scales=np.full(3, 1024.0),
        parameters=np.array([2.0**20, 0.0]),
        clip=2.0**20,
        bounding=bounding,  # type: ignore[arg-type]
    )
    place = int(np.argmax(np.abs(AGES.table[ROWS["age"], 0])))
    row = row_of_step(largest, row_of(place))
    assert abs(row[0]) == 2**46
    own = summed(largest, np.full(2**16, place), np.zeros(2**16, dtype=np.int64))
    assert np.sign(own[0]) == np.sign(row[0])
    assert abs(own[0]) > 0.5 * 2**24


def test_the_soft_truncation_is_that_of_the_paper() -> None:
    numbers = np.concatenate([np.random.default_rng(1).normal(size=5000) * 4, [0.0, 1e6, -1e8, 1e300]])
    for precision in (0.5, 1.5, 2.6):
        found = em_steps._softly(numbers / LARGEST_TRUNCATED, precision) * LARGEST_TRUNCATED
        np.testing.assert_allclose(found, smoothed_truncation(numbers, precision=precision), atol=1e-8)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_rows_add_the_gradients_of_the_model(kind: str) -> None:
    """By the class of the model, in floating point, where no bound bites."""
    question = dataclasses.replace(QUESTIONS[kind], clip=2.0**12, bounding="norm")
    x = [table.table[ROWS[table.column], 0] * scale for table, scale in zip(question.tables, question.scales)]  # noqa: B905
    if question.hidden:
        x[2:2] = [ROWS[name] != code for name, code in zip(("age", "region"), question.hidden, strict=True)]
    rows = np.stack(x, axis=1).astype(np.float64)
    model = question.model
    of_rows = model.statistics if question.statistics else model.gradients  # type: ignore[union-attr]
    expected = of_rows(rows, question.parameters).sum(axis=0)
    found = summed(question, np.arange(24)) / 2**24 * question.clip
    np.testing.assert_allclose(found, expected, atol=24 * 2.0**-11)


# Sessions


def schema_of(row_count: str, rows_per_unit: int, *, ids: bool) -> Schema:
    unit = PrivacyUnit("person", rows_per_unit=rows_per_unit, id_column="person" if ids else None)
    known = (IdentifierColumn("person"),) if ids else ()
    return Schema((*known, *small_schema().columns), unit=unit, row_count=row_count)  # type: ignore[arg-type]


WORLDS = {
    f"{row_count}, {rows_per_unit} rows, {'ids' if ids else 'no ids'}": schema_of(row_count, rows_per_unit, ids=ids)
    for row_count in ("public", "private")
    for rows_per_unit, ids in ((1, False), (3, True), (3, False))
}


def session_on(schema: Schema, chosen: list[int], people: list[str], *, key: int | None = None) -> PrivateSession:
    codes = {name: column[np.array(chosen, dtype=np.int64)] for name, column in ROWS.items()}
    ids = people if schema.unit.id_column else None
    table = PrivateTable.from_codes(schema, codes, unit_ids=ids, account_key=KEY)
    return PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(key))


def ask(session: Any, question: EMStepQuestion, share: float = 1.0, query: str = "q") -> NoisyGradient:
    answer = session.noisy_gradient(question, share=share, query=query, source="test")
    assert isinstance(answer, NoisyGradient)
    return answer


def check_sensitivity(world: str, bounding: str) -> None:
    """One unit against nobody or another: moved by at most what the receipt says, which is what the bound gives."""
    schema, several = WORLDS[world], WORLDS[world].unit.rows_per_unit
    question = dataclasses.replace(QUESTIONS[f"pair, {bounding}, statistics"], clip=2.0**-6)
    bound = 1.0 if bounding == "norm" else math.sqrt(2.0)
    others, moved = [(place, f"person {place // several}") for place in range(5 * several)], []
    for place in range(24):
        brought = [(place, "somebody")] * several
        gone = [(23 - place, "somebody else")] * several if schema.row_count == "public" else []
        before, after = (
            ask(session_on(schema, *map(list, zip(*rows, strict=True))), question)
            for rows in ([*others, *gone], [*brought, *others])
        )
        assert before.receipt == after.receipt
        assert before.receipt.sensitivity == pytest.approx(bound * (2 if schema.row_count == "public" else 1))
        assert np.linalg.norm(before.value - after.value) <= before.receipt.sensitivity
        moved.append(np.linalg.norm(before.value - after.value))
        assert not list(ENTRIES[NoisyGradient].problems(after, schema))
    assert max(moved) > 0.3 * bound


@pytest.mark.parametrize("bounding", BOUNDINGS)
@pytest.mark.parametrize("world", WORLDS)
def test_one_unit_moves_an_answer_by_its_bound_or_twice_that(world: str, bounding: str) -> None:
    check_sensitivity(world, bounding)


def check_charges() -> None:
    session = session_on(WORLDS["public, 1 rows, no ids"], list(range(24)), [], key=2)
    question = QUESTIONS["pair, norm, printed"]
    for step in range(10):
        assert session.remaining_share == pytest.approx(1 - step / 10, abs=1e-6)
        answer = ask(session, question, 1 / 10, f"step {step}")
        question = dataclasses.replace(question, parameters=question.parameters + answer.gradient / 24)
    with pytest.raises(BudgetExceededError):
        ask(session, question, 1 / 10, "one more")


def test_every_step_is_charged() -> None:
    check_charges()


# Replay


def changed(question: EMStepQuestion) -> Iterator[EMStepQuestion]:
    """Questions that differ from this one in one thing each."""
    yield dataclasses.replace(question, parameters=question.parameters + 2.0**-20)
    yield dataclasses.replace(question, clip=question.clip * (1 + 1e-15))
    yield dataclasses.replace(question, model=GaussianPair(0.5, as_printed=False))
    yield dataclasses.replace(question, model=GaussianPair(0.6, as_printed=True))
    yield dataclasses.replace(question, statistics=True)
    yield dataclasses.replace(question, bounding="coordinates")
    yield dataclasses.replace(question, precision=2.0)
    yield dataclasses.replace(question, scales=question.scales * 2)
    yield dataclasses.replace(question, tables=(AGES, REGIONS))


def check_replay() -> None:
    """An answer is repeated to the question that it was given to, and to no other; as is the digest."""
    question = QUESTIONS["pair, norm, printed"]
    session = session_on(small_schema(), list(range(24)), [], key=3)
    answer = ask(session, question)
    recorded = RecordedSession(
        session.schema, session.budget, rows=RowCount(24, 0.0, public=True), answers=session.answers
    )
    assert ask(recorded, dataclasses.replace(question, parameters=question.parameters + 2.0**-23)) is answer
    for other in changed(question):
        with pytest.raises(PrivacyError, match="other parameters"):
            ask(recorded, other)
    digests = [one.digest() for one in (question, *changed(question))]
    assert len(set(digests)) == len(digests)


def test_a_step_at_wrong_parameters_is_not_repeated() -> None:
    check_replay()


@pytest.mark.parametrize("kind", QUESTIONS)
def test_answers_are_written_and_read_back(kind: str) -> None:
    answer = ask(session_on(small_schema(), list(range(24)), [], key=3), QUESTIONS[kind])
    kept: dict[str, np.ndarray] = {}

    class Arrays:
        def put(self, name: str, array: np.ndarray) -> str:
            kept[name] = array
            return name

        def add(self, array: np.ndarray) -> str:
            return self.put(f"array {len(kept)}", array)

    entry = ENTRIES[NoisyGradient]
    found = entry.from_json(entry.to_json(answer, 0, Arrays()), kept)
    assert isinstance(found, NoisyGradient)
    assert found.question.digest() == answer.question.digest()
    assert found.receipt == answer.receipt
    assert found.value.tolist() == answer.value.tolist()


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": np.zeros(3)}, "2 parameters"),
        ({"parameters": np.array([np.nan, 0])}, "2 parameters"),
        ({"parameters": np.array([2.0**21, 0])}, "2 parameters"),
        ({"scales": np.array([0.0, 1])}, "factor above 0"),
        ({"scales": np.array([1.0, 2000])}, "factor above 0"),
        ({"clip": 0.0}, "bound of a step"),
        ({"clip": math.nan}, "bound of a step"),
        ({"bounding": "none"}, "bounded by norm"),
        ({"precision": 0.0}, "bounded by norm"),
        ({"model": GaussianPair(1e-9)}, "noise of a model"),
        ({"model": RegressionPair(0.5), "statistics": True, "tables": (AGES, REGIONS, INCOMES)}, "Only a pair"),
        ({"hidden": (1, 2)}, "code of a missing value"),
        ({"tables": (AGES, AGES)}, "each column once"),
        ({"tables": (AGES, Lookup("income", np.zeros((301, 2))))}, "one number per code"),
        ({"tables": ()}, "at least one coordinate"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    changes = {"scales": np.ones(3), **changes} if len(changes.get("tables", "")) == 3 else changes
    with pytest.raises(PrivacyError, match=message):
        dataclasses.replace(QUESTIONS["pair, norm, printed"], **changes)


def test_a_model_of_no_known_class_is_refused() -> None:
    class Told(GaussianPair):
        """A model that could do anything."""

    with pytest.raises(PrivacyError, match="closed set"):
        dataclasses.replace(QUESTIONS["pair, norm, printed"], model=Told(0.5))


def test_a_question_made_for_another_table_costs_nothing() -> None:
    session = session_on(small_schema(), list(range(24)), [])
    short = dataclasses.replace(QUESTIONS["pair, norm, printed"], tables=(Lookup("age", np.zeros((5, 1))), INCOMES))
    with pytest.raises(PrivacyError, match="codes of 'age'"):
        ask(session, short)
    assert session.remaining_share == 1.0


# Planted bugs


def plant_responsibilities_that_do_not_add_up_to_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(em_models, "_signs", lambda products, model: 1.1 * np.sign(products))


def plant_responsibilities_of_the_block(patch: pytest.MonkeyPatch) -> None:
    right = em_models._signs
    patch.setattr(em_models, "_signs", lambda products, model: right(products - 1e-9 * products.mean(), model))


def plant_a_gradient_at_the_step_before(patch: pytest.MonkeyPatch) -> None:
    right = em_steps._row_vectors
    patch.setattr(
        em_steps,
        "_row_vectors",
        lambda question, rows: right(dataclasses.replace(question, parameters=0 * question.parameters), rows),
    )


def plant_rows_bounded_instead_of_units(patch: pytest.MonkeyPatch) -> None:
    right = EMStepQuestion.bounded
    adds = EMStepQuestion.adds

    def bounded_rows(self: EMStepQuestion, device: str) -> Callable[..., torch.Tensor]:
        of_rows = adds(self, device)
        return lambda codes: right(self, of_rows(codes)).mul_(self.clip * 2.0**8)

    patch.setattr(EMStepQuestion, "adds", bounded_rows)
    patch.setattr(EMStepQuestion, "bounded", lambda self, sums: sums.div_(self.clip * 2.0**8).round_())


def plant_the_truncated_mean_as_printed(patch: pytest.MonkeyPatch) -> None:
    def softly(numbers: np.ndarray, precision: float) -> np.ndarray:
        size = numbers * LARGEST_TRUNCATED
        return expected_truncation(size, np.maximum(np.abs(size), 1e-6) / math.sqrt(precision)) / LARGEST_TRUNCATED

    patch.setattr(em_steps, "_softly", softly)
    patch.setattr(
        em_steps,
        "_bounded_numbers",
        lambda question, sums: torch.from_numpy(
            np.trunc(em_steps._softly(sums.numpy() / (question.clip * 2.0**32), question.precision) * 2.0**24)
        ),
    )


def plant_a_wrong_scale(patch: pytest.MonkeyPatch) -> None:
    right = em_steps._bounded_numbers
    patch.setattr(em_steps, "_bounded_numbers", lambda question, sums: right(question, sums.mul_(0.5)).mul_(2.0))


def plant_no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "clipped_columns", lambda vectors, bits: vectors.mul_(2.0**bits).trunc_())


def plant_the_bound_of_one_coordinate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EMStepQuestion, "unit_bound", costs.Bound(1.0, 2.0))


def plant_answers_repeated_at_wrong_parameters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EMStepQuestion, "_same_as", lambda self, other: True)


def plant_missing_values_read_as_numbers(patch: pytest.MonkeyPatch) -> None:
    right = em_steps._row_vectors

    def seen(question: EMStepQuestion, rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, question.dimension : -1] = 1.0
        return right(question, rows)

    patch.setattr(em_steps, "_row_vectors", seen)


PLANTED = planted_in(globals())


def checks() -> Iterator[Callable[[], None]]:
    """The quickest first."""
    yield from (check_charges, check_replay)
    yield from (functools.partial(check_rows, kind, 60) for kind in QUESTIONS)
    yield from (functools.partial(check_units, kind, 40) for kind in QUESTIONS)
    yield from (functools.partial(check_sensitivity, *where) for where in itertools.product(WORLDS, BOUNDINGS))
    yield from (functools.partial(check_bounds, kind) for kind in QUESTIONS)
    yield lambda: check_far("soft")


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in QUESTIONS:
        alone(kind)  # by hand before anything is planted
    PLANTED[planted](monkeypatch)
    for check in checks():
        try:
            check()
        except (AssertionError, PrivacyError, pytest.fail.Exception):
            return
    pytest.fail(f"nobody notices: {planted}")


def test_the_far_row_tells_the_printed_truncated_mean_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack of the specification: a row at 1e6 scales moves the printed mean by far more than its bound."""
    plant_the_truncated_mean_as_printed(monkeypatch)
    with pytest.raises(AssertionError):
        check_far("soft")


def test_rows_by_hand_are_not_all_nothing() -> None:
    for question in QUESTIONS.values():
        assert any(any(row_of_step(question, row_of(place))) for place in range(24))


def test_a_step_has_at_least_one_coordinate() -> None:
    age = Lookup("age", np.arange(12)[:, None] / 12)
    with pytest.raises(PrivacyError, match="at least one coordinate"):
        EMStepQuestion(GaussianPair(0.5), (), np.zeros(0), np.zeros(0), 0.5)
    # One column is the label of a regression, and nothing is left.
    with pytest.raises(PrivacyError, match="at least one coordinate"):
        EMStepQuestion(RegressionPair(0.5), (age,), np.ones(1), np.zeros(0), 0.5)
    assert EMStepQuestion(GaussianPair(0.5), (age,), np.ones(1), np.zeros(1), 0.5).dimension == 1
