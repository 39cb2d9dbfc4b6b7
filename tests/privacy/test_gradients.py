"""Clipped gradients: what a unit adds is its own, to the last bit, and never too long; what one costs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from choosing import each_once
from devices import DEVICES
from gradients_by_hand import row_by_hand, unit_by_hand
from hypothesis import given, settings
from hypothesis import strategies as st
from models_reference import reference
from planted_in_units import planted_in
from questions import SIZES, random_forest, small_codes, small_schema
from recorded_noise import RecordedNoise
from sums_of_units import SumsOfUnits, plan_of

from synth.bundle.recorded_session import RecordedSession
from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy import costs
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import RowCount
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more import gradients, linear_predictions
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.gradients import LOSSES, GradientQuestion, NoisyGradient, sum_of_gradients
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import IdentifierColumn, PrivacyUnit, Schema

KEY = b"an account's key, 32 bytes long!"
BLOCKS = (1, 7, 4096)
CLIP = 0.25


def linear_features(seed: int = 3) -> Stack:
    """A constant, numbers as they are, coarse cells of two columns, and a table with a row longer than 1."""
    rng = np.random.default_rng(seed)
    income = np.stack([np.linspace(-0.5, 0.5, 301), np.linspace(0, 1, 301) ** 2], axis=1)
    ages = np.concatenate([rng.normal(size=(11, 3)), [[1e9, -1e9, 1.0]]])
    cells = OneHot(("region", "age"), (None, np.arange(12) // 6), (4, 12))
    return Stack((Constant(), Lookup("income", income), Lookup("age", ages), cells), (0.4, 0.5, 0.5, 0.3))


def fourier_features(seed: int = 4) -> Stack:
    rng = np.random.default_rng(seed)
    fourier = Fourier(("age", "income"), (np.arange(12), np.arange(301)), rng.integers(-2048, 2048, (9, 2)))
    return Stack((fourier, Constant()), (0.9, 0.3))


FEATURES = {"linear": linear_features(), "fourier": fourier_features(), "numbers": Lookup("age", np.eye(12)[:, :5])}
TARGETS = {
    "squared": Lookup("income", np.linspace(-0.5, 0.5, 301)[:, None]),
    "huber": Lookup("income", np.linspace(-0.1, 0.3, 31)[:, None], np.arange(301) // 10 % 31),
    "logistic": Lookup("outcome", np.array([[0.0], [1.0]])),
    "softmax": Lookup("region", np.eye(3), np.array([0, 1, 2, 1])),
}


def question_of(features: str, loss: str, *, clip: float = CLIP, scale: float = 1.0, seed: int = 5) -> GradientQuestion:
    made, target = FEATURES[features], TARGETS[loss]
    parameters = scale * np.random.default_rng(seed).normal(size=made.dimension * target.dimension)
    return GradientQuestion(made, target, loss, parameters, clip)  # type: ignore[arg-type]


# Parameters far out make every unit longer than the clip norm, those near 0 with a large norm make none so.
QUESTIONS = {
    f"{features}, {loss}, {how}": question_of(features, loss, clip=clip, scale=scale)
    for features in FEATURES
    for loss in LOSSES
    for how, clip, scale in (("clipped", 2.0**-8, 30.0), ("as it is", 64.0, 0.3), ("some clipped", CLIP, 1.0))
    # Of several classes, which take longest, one of each.
    if loss != "softmax" or (features, how) in zip(FEATURES, ("as it is", "some clipped", "clipped"), strict=True)
}


def row_of(codes: dict[str, np.ndarray], place: int) -> dict[str, int]:
    return {name: int(column[place]) for name, column in codes.items()}


ROWS = small_codes(24, seed=6)


@functools.cache
def alone(kind: str) -> np.ndarray:
    """What each of a few rows adds as a unit of its own, by hand."""
    return np.array([unit_by_hand(QUESTIONS[kind], [row_of(ROWS, place)]) for place in range(24)])


ASKED = SumsOfUnits(QUESTIONS, ROWS, alone, unit_by_hand)
summed, check_rows, check_units = ASKED.summed, ASKED.check_rows, ASKED.check_units


# What a unit adds


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_row_alone_adds_what_is_worked_out_by_hand(kind: str, device: str) -> None:
    for place in range(24):
        found = summed(QUESTIONS[kind], np.array([place]), device=device)
        np.testing.assert_array_equal(found, alone(kind)[place])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kind", "n_rows"), each_once(QUESTIONS, [*BLOCKS, 4103]))
def test_in_a_table_of_any_size_and_order_every_row_adds_the_same(kind: str, n_rows: int, device: str) -> None:
    check_rows(kind, n_rows, seed=n_rows, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kind", "block"), each_once(QUESTIONS, [1, 3, 40]))
def test_units_are_worked_on_in_blocks_of_any_size(
    kind: str, block: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "BLOCK_ENTRIES", block * QUESTIONS[kind].dimension)
    check_rows(kind, 303, seed=block, device=device)
    check_units(kind, 60, seed=block, device=device)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_one_more_unit_anywhere_changes_a_sum_by_what_it_adds(kind: str) -> None:
    places = st.integers(0, 23)

    @settings(max_examples=8)  # of each of thirty questions
    @given(
        st.lists(st.tuples(places, st.integers(0, 5)), max_size=30), st.lists(places, min_size=1, max_size=3), st.data()
    )
    def one_more(table: list[tuple[int, int]], rows: list[int], data: st.DataObject) -> None:
        more = table.copy()
        for place in rows:
            more.insert(data.draw(st.integers(0, len(more))), (place, 9))
        before, after = (
            summed(QUESTIONS[kind], *np.array(rows, dtype=np.int64).reshape(-1, 2).T) for rows in (table, more)
        )
        own = unit_by_hand(QUESTIONS[kind], [row_of(ROWS, place) for place in rows])
        np.testing.assert_array_equal(after - before, own)

    one_more()


def test_as_many_threads_and_as_little_precision_elsewhere_change_nothing() -> None:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for kind in QUESTIONS:
                if kind.endswith("some clipped"):
                    check_rows(kind, 4103, seed=3)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


def longest(whole: np.ndarray) -> int:
    """The squared length of whole numbers, as a whole number of Python."""
    return sum(int(entry) ** 2 for entry in whole)


def check_lengths(kind: str) -> None:
    """Units of one row, of many alike, of rows against one another: none is longer than the clip norm."""
    question = QUESTIONS[kind]
    for place in range(24):
        for several in (1, 2, 1000):
            own = summed(question, np.full(several, place), np.zeros(several, dtype=np.int64))
            assert longest(own) <= 2**48
    assert longest(summed(question, np.arange(24), np.zeros(24, dtype=np.int64))) <= 2**48


@pytest.mark.parametrize("kind", QUESTIONS)
def test_no_unit_adds_more_than_the_clip_norm(kind: str) -> None:
    check_lengths(kind)


def test_lengths_are_kept_however_far_out_parameters_are_and_however_small_the_clip_norm_is() -> None:
    for clip in (2.0**-20, 0.1, 1 / 3):
        for scale in (1e-6, 1.0, 300.0):
            question = question_of("linear", "squared", clip=clip, scale=scale)
            for place in range(24):
                own = summed(question, np.array([place, place]), np.zeros(2, dtype=np.int64))
                assert longest(own) <= 2**48
                assert scale < 1 or clip > 1e-3 or longest(own) >= 2**48 * 0.999


def test_a_row_that_no_id_tells_apart_has_its_part_of_the_clip_norm() -> None:
    question = QUESTIONS["linear, squared, clipped"]
    for place in range(24):
        own = summed(question, np.array([place]), rows_each=3)
        assert own.tolist() == unit_by_hand(question, [row_of(ROWS, place)], rows_each=3)
        assert 9 * longest(own) <= 2**48


def test_rows_that_do_not_say_whose_they_are_are_refused_where_they_should() -> None:
    question = QUESTIONS["linear, squared, clipped"]
    rows = PrivateRows(ROWS.__getitem__, 24)
    with pytest.raises(PrivacyError, match="whose they are"):
        sum_of_gradients(question, plan_of(question, by_unit=True), rows)
    # One row is one unit, whoever's it is; tables of one row and of none are tried out before a run.
    for place, own in ((0, alone("linear, squared, clipped")[0]), (24, np.zeros(question.features.dimension))):
        few = PrivateRows(lambda name, place=place: ROWS[name][place : place + 1], int(place < 24))
        np.testing.assert_array_equal(sum_of_gradients(question, plan_of(question, by_unit=True), few), own)


def test_on_a_finer_grid_the_same_vectors_are_added_up() -> None:
    question = QUESTIONS["linear, squared, some clipped"]
    rows = PrivateRows(ROWS.__getitem__, 24)
    plan = plan_of(question)
    for half_bits in gradients.GRIDS:
        finer = dataclasses.replace(plan, gaussian=dataclasses.replace(plan.gaussian, half_bits=half_bits))
        found = sum_of_gradients(question, finer, rows)
        assert (found / 2.0 ** (2 * half_bits)).tolist() == (
            alone("linear, squared, some clipped").sum(axis=0) / 2**24
        ).tolist()


@pytest.mark.thorough
def test_the_largest_unit_with_the_largest_slopes_leaves_no_whole_number_behind() -> None:
    """As many rows as a unit may have, each with the largest prediction: sums of 2^62 steps, of either sign."""
    for sign in (1.0, -1.0):
        far = Lookup("age", np.array([[0.0], [1.0]]), np.arange(12) % 2)
        parameters = np.array([sign * linear_predictions.LARGEST_PREDICTION])
        question = GradientQuestion(far, Lookup("income", np.full((301, 1), -sign)), "squared", parameters, 2.0**20)
        place = int(np.flatnonzero(ROWS["age"] % 2)[0])
        row = row_of(ROWS, place)
        assert row_by_hand(question, row) == [int(sign) * (2**30 + 2**16) * 2**16]
        n_rows = gradients.MOST_ROWS
        added = gradients._added_by_unit(
            torch.full((1, n_rows), float(row_by_hand(question, row)[0]), dtype=torch.float64), np.array([n_rows])
        )
        assert added.tolist() == [[sign * (2**62 + 2**48)]]
        own = summed(question, np.full(n_rows, place), np.zeros(n_rows, dtype=np.int64))
        assert own.tolist() == unit_by_hand(question, [row] * n_rows)


# What it means


VALUES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "squared": lambda p, y: (p - y) ** 2 / 2,
    "logistic": lambda p, y: np.logaddexp(0, p) - y * p,
    "huber": lambda p, y: np.where(np.abs(p - y) < 0.1, (p - y) ** 2 / 2, 0.1 * np.abs(p - y) - 0.005),
    "softmax": lambda p, y: np.logaddexp.reduce(p, axis=1, keepdims=True) - (y * p).sum(axis=1, keepdims=True),
}


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_added_up_is_the_gradient_of_the_loss(features: str, loss: str) -> None:
    """By finite differences of the loss's value, on features as maps show them; grids are the whole difference."""
    question = question_of(features, loss, clip=2.0**10)
    shown = question.features.evaluate(ROWS)
    wanted = question.target.evaluate(ROWS)
    ahead, behind = (
        [
            VALUES[loss](shown @ (question.parameters + step).reshape(len(wanted.T), -1).T, wanted).sum()
            for step in sign * 1e-5 * np.eye(question.dimension)
        ]
        for sign in (1, -1)
    )
    found = summed(question, np.arange(24)) * (question.clip / 2**24)
    np.testing.assert_allclose(found, (np.array(ahead) - behind) / 2e-5, atol=24 * 1.5e-3)


def test_the_logistic_function_is_the_same_on_every_machine() -> None:
    """Nothing that is rounded lies so near to a half that an error of a library's exponential would show."""
    points = np.arange(-(2**14), 2**14 + 1) / 2**10
    exact = 2**16 / (1 + np.exp(-points))
    assert gradients._logistic_steps().tolist() == np.rint(exact).tolist()
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 1e-6
    assert gradients._logistic_steps()[[0, 2**14, 2**15]].tolist() == [0, 2**15, 2**16]
    falling = 2**20 * np.exp(points[: 2**14 + 1])
    assert gradients._exponential_steps().tolist() == np.rint(falling).tolist()
    assert np.abs(falling - np.floor(falling) - 0.5).min() > 1e-6
    assert gradients._exponential_steps()[[0, 2**14]].tolist() == [0, 2**20]


def test_probabilities_of_classes_stay_shares_however_far_out_parameters_are() -> None:
    """The largest class holds a whole exponential, so nothing is divided by 0; shares add up to 1 or a little less."""
    one = Lookup("age", np.ones((12, 1)))
    for far in ([0.0, 0.0, 0.0], [2.0**14, -(2.0**14), 0.0], [15.0, 0.0, -1e-3]):
        question = GradientQuestion(one, TARGETS["softmax"], "softmax", np.array(far), 1.0)
        for place in range(24):
            row = row_of(ROWS, place)
            added = np.array(row_by_hand(question, row)) / 2.0**32
            shares = added + TARGETS["softmax"].evaluate({"region": np.array([row["region"]])})[0]
            exact = np.exp(np.array(far) - max(far))
            np.testing.assert_allclose(shares, exact / exact.sum(), atol=1e-3)
            assert 1 - 3 / 2**16 <= shares.sum() <= 1


# Sessions


def schema_of(row_count: str, rows_per_unit: int, *, ids: bool) -> Schema:
    unit = PrivacyUnit("person", rows_per_unit=rows_per_unit, id_column="person" if ids else None)
    known = (IdentifierColumn("person"),) if ids else ()
    return Schema((*known, *small_schema().columns), unit=unit, row_count=row_count)  # type: ignore[arg-type]


WORLDS = {
    f"{row_count}, {rows_per_unit} rows, {'ids' if ids else 'no ids'}": schema_of(row_count, rows_per_unit, ids=ids)
    for row_count in ("public", "private")
    for rows_per_unit in (1, 3)
    for ids in (True, False)
}


def session_on(
    schema: Schema, chosen: list[int], people: list[str], *, key: int | None = None, holdout: float = 0.0
) -> PrivateSession:
    codes = {name: column[np.array(chosen, dtype=np.int64)] for name, column in ROWS.items()}
    ids = people if schema.unit.id_column else None
    table = PrivateTable.from_codes(schema, codes, unit_ids=ids, account_key=KEY, holdout=holdout)
    return PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(key))


def ask(session: PrivateSession, question: GradientQuestion, share: float = 1.0, query: str = "q") -> NoisyGradient:
    return session.noisy_gradient(question, share=share, query=query, source="test")


def check_sensitivity(world: str, kind: str) -> None:
    """One unit of as many rows as it may have, against nobody or against another: by at most what the receipt says."""
    schema = WORLDS[world]
    several = schema.unit.rows_per_unit
    others = [(place, f"person {place // several}") for place in range(5 * several)]
    for place in range(24):
        new = [((place + step) % 24, "somebody") for step in range(several)]
        alike = [(place, "somebody")] * several
        gone = [(23 - place, "somebody else")] * several if schema.row_count == "public" else []
        for brought in (new, alike):
            before, after = (
                ask(session_on(schema, *map(list, zip(*rows, strict=True))), QUESTIONS[kind])
                for rows in ([*others, *gone], [*brought, *others])
            )
            assert before.receipt == after.receipt
            moved = np.linalg.norm(before.value - after.value)
            assert moved <= before.receipt.sensitivity


@pytest.mark.parametrize(
    ("world", "kind"), each_once(WORLDS, ["linear, squared, clipped", "fourier, logistic, some clipped"])
)
def test_one_unit_moves_an_answer_by_the_clip_norm_or_twice_that(world: str, kind: str) -> None:
    check_sensitivity(world, kind)


def check_receipt(world: str) -> None:
    """The sensitivity is 1 or 2 in units of the clip norm, whatever a unit's rows are; noise and cost follow."""
    schema, question = WORLDS[world], QUESTIONS["linear, squared, clipped"]
    answer = ask(session_on(schema, [0, 1], ["a", "b"], key=1), question)
    receipt = answer.receipt
    assert receipt.sensitivity == (2.0 if schema.row_count == "public" else 1.0)
    mu = math.sqrt(PrivacyBudget(1.0, 1e-5, schema.neighbours).units * 2.0**-40)
    assert receipt.noise_scale == pytest.approx(receipt.sensitivity / mu, rel=1e-6)
    assert answer.noise_std == receipt.noise_scale * question.clip
    np.testing.assert_array_equal(answer.gradient, answer.value * question.clip)
    assert receipt.dimension == question.features.dimension
    assert (answer.value / receipt.grid == np.rint(answer.value / receipt.grid)).all()


@pytest.mark.parametrize("world", WORLDS)
def test_a_receipt_states_the_clip_norm_or_twice_that(world: str) -> None:
    check_receipt(world)


@pytest.mark.parametrize("world", WORLDS)
def test_a_session_clips_what_its_table_says_belongs_together(world: str) -> None:
    schema, question = WORLDS[world], QUESTIONS["linear, squared, some clipped"]
    several = schema.unit.rows_per_unit
    chosen, people = list(range(12)), [f"person {place % (12 // several)}" for place in range(12)]
    answer = ask(session_on(schema, chosen, people), question)
    rows = [row_of(ROWS, place) for place in chosen]
    if schema.unit.id_column and several > 1:
        units = [[row for row, person in zip(rows, people, strict=True) if person == one] for one in set(people)]
    else:
        units = [[row] for row in rows]
    each = several if schema.unit.id_column is None else 1
    expected = np.sum([unit_by_hand(question, unit, rows_each=each) for unit in units], axis=0)
    np.testing.assert_array_equal(answer.value * 2**24, expected)


def test_rows_above_the_cap_add_nothing_and_held_out_units_neither() -> None:
    schema, question = WORLDS["private, 3 rows, ids"], QUESTIONS["linear, squared, some clipped"]
    people = [f"person {place % 6}" for place in range(24)]  # four rows each, of which three are kept
    whole = session_on(schema, list(range(24)), people)
    units = whole._table._units
    assert units is not None
    assert np.bincount(units).tolist() == [3] * 6
    parts = [
        PrivateTable.from_codes(schema, ROWS, unit_ids=people, account_key=KEY, holdout=0.5, part=part)  # type: ignore[arg-type]
        for part in ("train", "holdout")
    ]
    found = [
        ask(PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(None)), question)
        if table.part == "train"
        else ask(_held_out(parts), question, query="held out")
        for table in parts
    ]
    assert all(0 < table._rows < 18 for table in parts)
    np.testing.assert_array_equal(found[0].value + found[1].value, ask(whole, question).value)


def _held_out(parts: list[PrivateTable]) -> PrivateSession:
    budget = PrivacyBudget(1.0, 1e-5, parts[0].schema.neighbours)
    return PrivateSession(parts[0], budget, noise=RecordedNoise(None)).holdout_session(parts[1], share=0.5)


def check_charges() -> None:
    """Every step of a descent is paid for: thirty of them spend the budget, and there is no thirty-first."""
    session = session_on(WORLDS["public, 1 rows, no ids"], list(range(24)), [], key=2)
    question = question_of("numbers", "squared")
    for step in range(30):
        assert session.remaining_share == pytest.approx(1 - step / 30, abs=1e-6)
        answer = ask(session, question, 1 / 30, f"step {step}")
        question = dataclasses.replace(question, parameters=question.parameters - answer.gradient / 24)
    assert sum(receipt.units for receipt in session.receipts) == pytest.approx(session.budget.units, rel=1e-6)
    with pytest.raises(BudgetExceededError):
        ask(session, question, 1 / 30, "one more")


def test_every_step_of_a_descent_is_charged() -> None:
    check_charges()


@pytest.mark.parametrize(("stated", "multiplier"), reference("certified_regression")["ana_sigma"].items())
def test_noise_is_that_of_one_gaussian_release_times_the_root_of_the_steps(stated: str, multiplier: float) -> None:
    """Against reference values of the least noise of one release; allowances for the grid are the difference."""
    epsilon, delta = (float(number) for number in stated.split("_"))
    schema = WORLDS["private, 3 rows, ids"]
    for steps in (1, 30):
        table = PrivateTable.from_codes(schema, ROWS, unit_ids=[0] * 24)
        session = PrivateSession(table, PrivacyBudget(epsilon, delta, schema.neighbours), noise=RecordedNoise(1))
        receipt = ask(session, question_of("numbers", "squared"), 1 / steps).receipt
        assert 1 <= receipt.noise_scale / (multiplier * math.sqrt(steps)) < 1 + 5e-4


# Replay


def changed(question: GradientQuestion) -> Iterator[GradientQuestion]:
    """Questions that differ from this one in one thing each."""
    parameters = question.parameters.copy()
    parameters[-1] += 2.0**-20
    yield dataclasses.replace(question, parameters=parameters)
    yield dataclasses.replace(question, clip=question.clip * (1 + 1e-15))
    yield dataclasses.replace(question, loss="huber")
    yield dataclasses.replace(question, target=Lookup("income", np.linspace(-0.5, 0.5001, 301)[:, None]))
    yield dataclasses.replace(question, features=linear_features(seed=8))


def check_replay() -> None:
    """An answer is repeated to the question that it was given to, and to no other."""
    question = QUESTIONS["linear, squared, some clipped"]
    session = session_on(small_schema(), list(range(24)), [], key=3)
    answer = ask(session, question)
    recorded = RecordedSession(
        session.schema, session.budget, rows=RowCount(24, 0.0, public=True), answers=session.answers
    )
    # What is below the grid of the parameters is no other question.
    near = dataclasses.replace(question, parameters=question.parameters + 2.0**-23)
    assert ask(recorded, near) is answer  # type: ignore[arg-type]
    for other in changed(question):
        with pytest.raises(PrivacyError, match="other parameters"):
            ask(recorded, other)  # type: ignore[arg-type]


def test_a_gradient_at_wrong_parameters_is_not_repeated() -> None:
    check_replay()


def check_digests() -> None:
    question = QUESTIONS["linear, squared, some clipped"]
    digests = [one.digest() for one in (question, *changed(question))]
    assert len(set(digests)) == len(digests)
    assert dataclasses.replace(question).digest() == digests[0]


def test_a_digest_covers_everything_that_is_asked() -> None:
    check_digests()


def test_what_is_planned_does_not_depend_on_where_a_gradient_is_taken() -> None:
    question = QUESTIONS["linear, squared, some clipped"]
    answer = ask(session_on(small_schema(), list(range(24)), [], key=3), question)
    foreseen = question.foreseen(answer.receipts, plan_of(question))
    assert foreseen.value.tolist() == [0.0] * question.features.dimension
    assert foreseen.receipt == answer.receipt


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": np.zeros(4)}, "5 finite parameters"),
        ({"parameters": np.full(5, np.nan)}, "5 finite parameters"),
        ({"parameters": np.full(5, np.inf)}, "5 finite parameters"),
        ({"parameters": np.full(5, 1e300)}, "could reach"),
        ({"parameters": np.full(5, 2.0**14)}, "could reach"),
        ({"clip": 0.0}, "clip norm"),
        ({"clip": 2.0**21}, "clip norm"),
        ({"clip": math.nan}, "clip norm"),
        ({"loss": "hinge"}, "must be one of squared, logistic, huber, softmax"),
        ({"loss": "softmax"}, "at least two numbers per code"),
        ({"loss": "softmax", "target": Lookup("income", np.full((301, 2), -0.1))}, "between 0 and 1"),
        ({"loss": "softmax", "target": Lookup("income", np.zeros((301, 2)))}, "10 finite parameters"),
        ({"target": Constant()}, "must be a lookup"),
        ({"target": Lookup("income", np.zeros((301, 2)))}, "one number per code"),
        ({"loss": "logistic"}, "between 0 and 1"),
        ({"features": Product((Lookup("age", np.eye(12)[:, :5]), Constant()))}, "made of Constant, Lookup"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    question = question_of("numbers", "squared")
    with pytest.raises(PrivacyError, match=message):
        dataclasses.replace(question, **changes)


def test_features_of_no_known_class_are_refused() -> None:
    class Told(Lookup):
        """A lookup that could do anything."""

    for features in (Told("age", np.eye(12)[:, :5]), Stack((Constant(), Told("age", np.eye(12)[:, :4])), (0.5, 0.5))):
        with pytest.raises(PrivacyError, match="made of Constant, Lookup"):
            GradientQuestion(features, TARGETS["squared"], "squared", np.zeros(5), 1.0)
    with pytest.raises(PrivacyError, match="made of Constant, Lookup"):
        GradientQuestion(random_forest(), TARGETS["squared"], "squared", np.zeros(6), 1.0)


def test_a_question_made_for_another_table_costs_nothing() -> None:
    session = session_on(small_schema(), list(range(24)), [])
    short = Lookup("age", np.eye(11)[:, :5])
    for changes in (
        {"features": short},
        {"features": Stack((short,), (1.0,))},
        {"target": Lookup("age", np.zeros((3, 1)))},
    ):
        with pytest.raises(PrivacyError, match="codes of 'age'"):
            ask(session, dataclasses.replace(question_of("numbers", "squared"), **changes))
    assert session.remaining_share == 1.0


def test_one_cell_and_units_of_very_many_rows_are_refused() -> None:
    question = question_of("numbers", "squared")
    with pytest.raises(PrivacyError, match="only noisy rows"):
        question.check(dataclasses.replace(small_schema(), protection="cell"))
    with pytest.raises(PrivacyError, match="at most 65,536 rows"):
        question.check(small_schema(unit=PrivacyUnit(rows_per_unit=2**16 + 1)))


def test_parameters_are_kept_on_their_grid_and_cannot_be_written_to() -> None:
    question = question_of("numbers", "squared")
    assert (question.parameters * 2**20 == np.rint(question.parameters * 2**20)).all()
    with pytest.raises(ValueError, match="read-only"):
        question.parameters[0] = 1.0
    assert "-0." not in repr(dataclasses.replace(question, parameters=np.full(5, -1e-9)).parameters)


# Planted bugs


def plant_no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "clipped_columns", lambda vectors, bits: vectors.mul_(2.0**bits).trunc_())


def plant_twice_the_clip_norm(patch: pytest.MonkeyPatch) -> None:
    right = gradients.clipped_columns
    patch.setattr(gradients, "clipped_columns", lambda vectors, bits: right(vectors.div_(2), bits).mul_(2))


def plant_each_number_clipped_by_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        gradients, "clipped_columns", lambda vectors, bits: vectors.clamp_(-1.0, 1.0).mul_(2.0**bits).trunc_()
    )


def plant_rounded_to_nearest(patch: pytest.MonkeyPatch) -> None:
    def clipped(vectors: torch.Tensor, bits: int) -> torch.Tensor:
        return vectors.div_(vectors.square().sum(dim=0).sqrt().clamp_(min=1.0)).mul_(2.0**bits).round_()

    patch.setattr(gradients, "clipped_columns", clipped)


def plant_blocks_clipped(patch: pytest.MonkeyPatch) -> None:
    def clipped(vectors: torch.Tensor, bits: int) -> torch.Tensor:
        return vectors.div_(vectors.square().sum(dim=0).sqrt().max().clamp_(min=1.0)).mul_(2.0**bits).trunc_()

    patch.setattr(gradients, "clipped_columns", clipped)


def plant_rows_clipped_instead_of_units(patch: pytest.MonkeyPatch) -> None:
    right, clip = gradients._row_gradients, gradients.clipped_columns

    def clipped(question: GradientQuestion, *given: Any) -> torch.Tensor:
        found = right(question, *given).div_(question.clip * 2.0**32)
        return clip(found, 24).mul_(question.clip * 2.0**8)

    patch.setattr(gradients, "_row_gradients", clipped)
    patch.setattr(gradients, "clipped_columns", lambda vectors, bits: vectors.mul_(2.0**bits).trunc_())


def plant_units_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = gradients.units_in_order
    patch.setattr(gradients, "units_in_order", lambda rows, by_unit: right(rows, by_unit=False))


def plant_rows_of_a_unit_averaged(patch: pytest.MonkeyPatch) -> None:
    right = gradients._added_by_unit
    patch.setattr(
        gradients, "_added_by_unit", lambda rows, sizes: right(rows, sizes).div_(torch.from_numpy(sizes)).trunc_()
    )


def plant_a_gradient_at_wrong_parameters(patch: pytest.MonkeyPatch) -> None:
    right = gradients._row_gradients
    patch.setattr(
        gradients,
        "_row_gradients",
        lambda question, *given: right(dataclasses.replace(question, parameters=0 * question.parameters), *given),
    )


def plant_answers_repeated_at_wrong_parameters(patch: pytest.MonkeyPatch) -> None:
    right = GradientQuestion._same_as
    patch.setattr(
        GradientQuestion,
        "_same_as",
        lambda self, other: right(self, dataclasses.replace(other, parameters=self.parameters)),
    )


def plant_the_factor_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "between_neighbours", lambda unit, schema, rows: costs.between_neighbours(unit, schema))


def plant_rows_without_ids_clipped_like_units(patch: pytest.MonkeyPatch) -> None:
    right = GradientQuestion.plan
    patch.setattr(
        GradientQuestion, "plan", lambda self, allowed: dataclasses.replace(right(self, allowed), rows_each=1)
    )


def plant_predictions_in_float32(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "mv", lambda rows, parameters: (rows.float() @ parameters.float()).double())


def plant_features_centred_by_their_block(patch: pytest.MonkeyPatch) -> None:
    right = linear_predictions.FeatureBlock.of_rows

    def of_rows(self: Any, *given: Any) -> torch.Tensor:
        found = right(self, *given)
        return found - found.mean(dim=1, keepdim=True).trunc()

    patch.setattr(linear_predictions.FeatureBlock, "of_rows", of_rows)


def plant_an_exponential_of_rows(patch: pytest.MonkeyPatch) -> None:
    right = gradients._slopes

    def slopes(loss: str, predictions: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        if loss != "softmax":
            return right(loss, predictions, wanted)
        exact = torch.softmax((predictions / 2.0**36).float(), dim=0).double() - wanted / 2.0**36
        return exact.mul_(2.0**16).round_()

    patch.setattr(gradients, "_slopes", slopes)


def plant_shares_of_a_block(patch: pytest.MonkeyPatch) -> None:
    """The largest prediction of the rows beside one another is taken off each class."""
    right = gradients._slopes

    def slopes(loss: str, predictions: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        beside = predictions.max(dim=1, keepdim=True).values if loss == "softmax" else 0.0
        return right(loss, predictions - beside, wanted)

    patch.setattr(gradients, "_slopes", slopes)


def plant_each_class_clipped_by_itself(patch: pytest.MonkeyPatch) -> None:
    right = gradients.clipped_columns

    def clipped(vectors: torch.Tensor, bits: int) -> torch.Tensor:
        return torch.cat([right(part.clone(), bits) for part in vectors.chunk(3)])

    patch.setattr(gradients, "clipped_columns", clipped)


def plant_a_logistic_function_of_rows(patch: pytest.MonkeyPatch) -> None:
    right = gradients._slopes

    def slopes(loss: str, predictions: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        if loss != "logistic":
            return right(loss, predictions, wanted)
        exact = torch.sigmoid((predictions / 2.0**36).float()).double() - wanted / 2.0**36
        return exact.mul_(2.0**16).round_()

    patch.setattr(gradients, "_slopes", slopes)


PLANTED = planted_in(globals())


def checks() -> Iterator[Callable[[], None]]:
    yield from (check_charges, check_replay, check_digests)  # the quickest first
    for world in WORLDS:
        yield lambda world=world: check_receipt(world)
    yield from (functools.partial(check_rows, kind, 60) for kind in QUESTIONS)
    yield from (functools.partial(check_units, kind, 40) for kind in QUESTIONS)
    yield from (functools.partial(check_sensitivity, world, "linear, squared, clipped") for world in WORLDS)
    yield from (functools.partial(check_lengths, kind) for kind in QUESTIONS)


def noticed(check: Callable[[], None]) -> bool:
    try:
        check()
    except (AssertionError, PrivacyError, pytest.fail.Exception):
        return True
    return False


def test_nothing_is_noticed_without_a_bug() -> None:
    assert not any(map(noticed, checks()))


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in QUESTIONS:
        alone(kind)  # by hand, before anything is broken
    PLANTED[planted](monkeypatch)
    assert any(map(noticed, checks())), f"nobody notices: {planted}"


def test_what_is_added_before_the_clip_is_whole() -> None:
    question = QUESTIONS["fourier, squared, as it is"]
    parts = [linear_predictions.FeatureBlock.of(block) for block in question.features.blocks()]
    found = gradients._row_gradients(question, parts, {name: ROWS[name] for name in SIZES}, "cpu")
    assert found.T.tolist() == [row_by_hand(question, row_of(ROWS, place)) for place in range(24)]
