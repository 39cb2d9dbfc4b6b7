"""Turns of private critics: a unit moves those of its own part alone, and by no more than is charged."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import SIZES, small_codes, small_schema
from recorded_noise import RecordedNoise
from torch.utils._python_dispatch import TorchDispatchMode

from synth.bundle.answers import from_description
from synth.errors import PrivacyError
from synth.privacy import table as private_table
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.counting import PrivateRows
from synth.privacy.more import critic_turns
from synth.privacy.more.critic_turns import CriticTurns, clipped_gradients, parts_touched, turns_paid
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.private_critics import PrivateCritic, divided
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.receipt import require_honest
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import IdentifierColumn, Neighbours, PrivacyUnit, Schema

KEY = b"an account's key, 32 bytes long!"
TABLES = (
    Lookup("age", np.linspace(0.0, 1.0, 12)[:, None]),
    Lookup("region", np.eye(4)),
    Lookup("outcome", np.eye(2)),
)
ROWS = small_codes(24, seed=6)
TURNS, PARTS, FAKE_ROWS = 7, 3, 2


def question_of(**changed: Any) -> CriticTurns:
    settings: dict[str, Any] = {"parts": PARTS, "steps": TURNS, "rows": FAKE_ROWS, "clip": 0.5, "learned": 2}
    settings |= {"batch": 4, "rate": 1e-3, "seed": 3, "tables": TABLES}
    return CriticTurns(**(settings | changed))


class Fixed:
    """Hands in the same fake rows whatever the answers are."""

    def __init__(self, width: int = 7, rows: int = 5) -> None:
        self.seen: list[np.ndarray] = []
        self._shape = rows, width

    @property
    def taken(self) -> int:
        return len(self.seen)

    def at(self) -> np.ndarray:
        return np.random.default_rng(self.taken).random(self._shape)

    def move(self, step: np.ndarray) -> None:
        self.seen.append(step.copy())


class Led(Fixed):
    """Hands in fake rows that follow from the noisy answers."""

    def at(self) -> np.ndarray:
        led = sum(self.seen, start=np.zeros(1)).sum()
        return 0.5 + 0.5 * np.sin(led + np.arange(math.prod(self._shape)).reshape(self._shape))


def schema_of(row_count: str, rows_per_unit: int, *, ids: bool) -> Schema:
    unit = PrivacyUnit("person", rows_per_unit=rows_per_unit, id_column="person" if ids else None)
    known = (IdentifierColumn("person"),) if ids else ()
    return Schema((*known, *small_schema().columns), unit=unit, row_count=row_count)  # type: ignore[arg-type]


WORLDS = {
    f"{row_count}, {rows_per_unit} rows, {'ids' if ids else 'no ids'}": schema_of(row_count, rows_per_unit, ids=ids)
    for row_count in ("public", "private")
    for rows_per_unit in (1, 2)
    for ids in (True, False)
}
"""A public number of rows hides another unit in place of one, a private one a unit more or less."""


def session_on(schema: Schema, chosen: list[int], people: list[str], noise: Any = None) -> PrivateSession:
    codes = {name: column[np.array(chosen, dtype=np.int64)] for name, column in ROWS.items()}
    ids = people if schema.unit.id_column else None
    table = PrivateTable.from_codes(schema, codes, unit_ids=ids, account_key=KEY)
    return PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=noise or RecordedNoise(None))


def ask(session: PrivateSession, question: CriticTurns, training: Fixed | None = None) -> NoisySteps:
    asked = dataclasses.replace(question, training=training or Fixed())
    return session.noisy_steps(asked, share=1.0, query="turns", source="test")


Unit = list[int]
"""The rows of one unit, by their places."""


def tables_of(units: dict[str, Unit], places: list[int]) -> tuple[list[int], list[str]]:
    """Mix the rows of units: ``places`` says which row comes next among those left."""
    left = [(row, name) for name, rows in units.items() for row in rows]
    mixed = []
    for place in places:
        if left:
            mixed.append(left.pop(place % len(left)))
    mixed += left
    return [row for row, _ in mixed], [name for _, name in mixed]


def neighbours_of(
    schema: Schema, units: dict[str, Unit], one: Unit, other: Unit, places: list[int], *, name: str = ""
) -> tuple[tuple[list[int], list[str]], tuple[list[int], list[str]]]:
    """Two tables that differ in one unit, whose other rows stand in one order."""
    rows, people = tables_of({**units, f"one{name}": one}, places)
    # The rows of the other unit stand anywhere: at the front.
    front = [] if schema.neighbours is Neighbours.ADD_REMOVE else other
    kept = [(row, who) for row, who in zip(rows, people, strict=True) if who != f"one{name}"]
    after = [*((row, f"other{name}") for row in front), *kept]
    return (rows, people), ([row for row, _ in after], [who for _, who in after])


def moved(schema: Schema, before: Any, after: Any, question: CriticTurns) -> tuple[np.ndarray, NoisySteps]:
    """How far turns moved, in units of C, shape (turns, rows, width), and an answer with its receipt."""
    first, second = (ask(session_on(schema, *one), question) for one in (before, after))
    shape = question.steps, question.rows, question.width
    return ((second.whole - first.whole) * first.receipt.grid).reshape(shape), second


def check_moves(schema: Schema, moves: np.ndarray, answer: NoisySteps, question: CriticTurns) -> None:
    lengths = np.sqrt((moves**2).sum(axis=2))
    assert lengths.max(initial=0.0) <= 2.0
    parts = {turn % question.parts for turn in np.flatnonzero(lengths.any(axis=1)).tolist()}
    assert len(parts) <= parts_touched(schema, question.parts)
    assert math.sqrt((moves**2).sum()) <= answer.receipt.sensitivity


some = st.lists(st.integers(0, 7), min_size=1, max_size=2)  # few different rows, so that many are alike


@pytest.mark.parametrize("world", WORLDS)
def test_a_unit_moves_the_turns_of_its_own_parts_alone_and_by_no_more_than_is_charged(world: str) -> None:
    schema, question = WORLDS[world], question_of()
    most = schema.unit.rows_per_unit

    @settings(max_examples=25)
    @given(st.lists(some, max_size=8), some, some, st.lists(st.integers(0, 20), max_size=16))
    def one_more(units: list[Unit], one: Unit, other: Unit, places: list[int]) -> None:
        named = {f"unit {place}": rows[:most] for place, rows in enumerate(units)}
        tables = neighbours_of(schema, named, one[:most], other[:most], places)
        check_moves(schema, *moved(schema, *tables, question), question)

    one_more()


def flipped(self: Any, number: int, part: int, own: np.ndarray, fake: np.ndarray) -> np.ndarray:
    """The worst critic: another row may turn every gradient round, and they are as long as can be."""
    odd = zlib.crc32(np.sort(self._columns["age"][own]).astype(np.uint8).tobytes()) % 2
    given = np.full((self._question.rows, self._question.width), 1e300 if odd else -1e300)
    given[:, number % 3] = np.inf if odd else -np.inf
    return given


@pytest.mark.parametrize(("turns", "parts"), [(7, 3), (2, 3), (6, 3), (5, 1)])
@pytest.mark.parametrize("world", WORLDS)
def test_the_worst_critics_reach_the_bound_and_do_not_pass_it(
    world: str, turns: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(critic_turns._Turns, "_gradients", flipped)
    schema, question, furthest = WORLDS[world], question_of(steps=turns, parts=parts), 0.0
    most = schema.unit.rows_per_unit
    for seed in range(60):
        rng = np.random.default_rng(seed)
        drawn = [rng.integers(0, 24, most).tolist() for _ in range(8)]
        named = {f"unit {seed} {place}": rows for place, rows in enumerate(drawn[2:])}
        tables = neighbours_of(schema, named, *drawn[:2], rng.integers(0, 9, 9).tolist(), name=f" {seed}")
        moves, answer = moved(schema, *tables, question)
        check_moves(schema, moves, answer, question)
        furthest = max(furthest, math.sqrt((moves**2).sum()) / answer.receipt.sensitivity)
    assert furthest > 0.9999


def test_what_a_unit_pays_for() -> None:
    """Of 7 turns of 3 critics the first has 3, the others 2."""
    paid = {
        "private, 1 rows, no ids": 3,
        "private, 1 rows, ids": 3,
        "private, 2 rows, ids": 3,
        "private, 2 rows, no ids": 5,
        "public, 1 rows, no ids": 5,
        "public, 1 rows, ids": 5,
        "public, 2 rows, ids": 5,
        "public, 2 rows, no ids": 7,
    }
    for world, turns in paid.items():
        answer = ask(session_on(WORLDS[world], [0, 1, 2], ["a", "b", "c"]), question_of())
        receipt = answer.receipt
        assert receipt.sensitivity == pytest.approx(2 * math.sqrt(FAKE_ROWS * turns), rel=1e-12)
        assert receipt.sensitivity >= 2 * math.sqrt(FAKE_ROWS * turns)
        assert (receipt.mechanism, receipt.dimension) == ("discrete_gaussian", TURNS * FAKE_ROWS * 7)
        require_honest(receipt)


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12))
def test_turns_are_counted_as_they_fall(turns: int, parts: int, touched: int) -> None:
    of_part = sorted((sum(turn % parts == part for turn in range(turns)) for part in range(parts)), reverse=True)
    assert turns_paid(turns, parts, min(touched, parts)) == sum(of_part[: min(touched, parts)])


def test_every_turn_has_its_own_noise_of_the_one_scale() -> None:
    noise = RecordedNoise(1)
    answer = ask(session_on(WORLDS["private, 1 rows, no ids"], [0, 1, 2], [], noise), question_of())
    assert [(call.kind, call.size) for call in noise.calls] == [("gaussian", FAKE_ROWS * 7)] * TURNS
    (variance,) = {call.parameter for call in noise.calls}
    assert answer.receipt.noise_scale == pytest.approx(math.sqrt(variance) * answer.receipt.grid, rel=1e-12)  # type: ignore[arg-type]


def test_the_training_is_led_by_noisy_answers_and_by_nothing_else() -> None:
    """What it is given is what is kept; with the kept answers it comes by the same points."""
    led = Led()
    answer = ask(session_on(WORLDS["private, 1 rows, no ids"], [0, 1, 2], [], RecordedNoise(4)), question_of(), led)
    assert np.array_equal(np.array(led.seen), answer.whole * answer.receipt.grid)
    again = Led()
    answer.train(again)
    assert np.array_equal(again.seen, led.seen)
    assert np.array_equal(again.at(), led.at())
    answer.train(led)  # has learned from all of them already
    assert led.taken == TURNS


# Parts


def test_every_row_is_in_one_part_and_rows_of_an_id_are_together() -> None:
    rng = np.random.default_rng(0)
    keyed = rng.integers(0, 2**64, (200, 2), dtype=np.uint64)[rng.integers(0, 200, 999)]
    order, ends = divided(keyed, 11)
    assert sorted(order.tolist()) == list(range(999))
    assert ends[-1] == 999
    starts = [0, *ends[:-1].tolist()]
    of_row = np.empty(999, dtype=int)
    for part, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True)):
        of_row[order[start:end]] = part
    for number in np.unique(keyed[:, 0]):
        together = np.flatnonzero(keyed[:, 0] == number)
        assert len(set(of_row[together])) == 1
        places = [place for place in order.tolist() if place in set(together.tolist())]
        assert places == together.tolist()  # as they stand in the table
    exact = [int(number) * 11 >> 64 for number in keyed[:, 0].tolist()]
    assert of_row.tolist() == exact  # 32 bits decide as 64 do, but at edges that no number of these is near


def test_parts_are_even_and_have_a_key_of_their_own() -> None:
    rows = np.arange(40_000, dtype=np.uint64)
    ids = np.stack([rows, rows], axis=1).view(np.uint8)
    keyed = private_table.divided_by(ids, account_key=KEY)
    counts = np.diff(divided(keyed, 8)[1], prepend=0)
    assert ((counts - 5000) ** 2 / 5000).sum() < 40  # chi-squared with 7 degrees of freedom: p is 1e-6
    other = private_table.divided_by(ids, account_key=b"another")
    assert not np.array_equal(keyed, other)
    held = private_table.holdout_rows(ids, share=0.5, n_units=None, account_key=KEY)
    order, ends = divided(keyed, 2)
    first = np.zeros(len(ids), dtype=bool)
    first[order[: ends[0]]] = True
    assert abs(held[first].mean() - 0.5) < 0.02  # knows nothing of the hold-out


def test_rows_that_do_not_say_whose_they_are_are_refused() -> None:
    question, rows = question_of(training=Fixed()), PrivateRows(ROWS.__getitem__, 24)
    plan = dataclasses.make_dataclass("Plan", ["gaussian"])(None)
    with pytest.raises(PrivacyError, match="whose they are"):
        question.of_rows(plan, rows, RecordedNoise(None), device="cpu")


# Clipped gradients


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5), st.sampled_from([2.0**-20, 1, 1e6]))
def test_no_gradient_is_longer_than_the_clip_norm_whatever_it_is(rows: list[list[float]], clip: float) -> None:
    found = clipped_gradients(np.array(rows), clip).reshape(-1, 3)
    for own, row in zip(found.tolist(), rows, strict=True):
        assert sum(entry**2 for entry in own) <= 2**48
        # Each by itself: what is beside it changes nothing.
        assert clipped_gradients(np.array([row]), clip).tolist() == own


def test_a_short_gradient_is_left_as_it_is_and_a_long_one_keeps_its_direction() -> None:
    found = clipped_gradients(np.array([[0.25, -0.125], [30.0, 40.0], [np.nan, 1.0], [np.inf, -np.inf]]), 1.0) / 2**24
    expected = [0.25, -0.125, 0.6, 0.8, 0.0, 1.0, math.sqrt(0.5), -math.sqrt(0.5)]
    np.testing.assert_allclose(found, expected, atol=2e-7)


# Critics


def double(critic: PrivateCritic) -> PrivateCritic:
    made = PrivateCritic(5, rate=0.1, seed=1)
    made._weights, made._mean, made._square = (
        one.double().clone() for one in (critic._weights, critic._mean, critic._square)
    )
    return made


def test_slopes_are_those_of_the_loss() -> None:
    """Beside torch's own, of float64: score, gradient at a row, and the first step of Adam, in every weight."""
    torch.manual_seed(0)
    critic = double(PrivateCritic(5, rate=0.1, seed=1))
    real, fake, between = torch.rand(6, 5).double(), torch.rand(6, 5).double(), torch.rand(6, 1).double()
    before = critic._weights.clone().requires_grad_()
    first, of_first, second, of_second, last = critic._layers(before)

    def scores(rows: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.leaky_relu(rows @ first.T + of_first, 0.2)
        return torch.nn.functional.leaky_relu(hidden @ second.T + of_second, 0.2) @ last

    def gradients(rows: torch.Tensor) -> torch.Tensor:
        at = rows.clone().requires_grad_()
        (found,) = torch.autograd.grad(scores(at).sum(), at, create_graph=True)
        return found

    torch.testing.assert_close(critic.scores(real), scores(real))
    torch.testing.assert_close(critic.gradients(real), gradients(real))
    lengths = gradients(fake + between * (real - fake)).norm(dim=1)
    loss = scores(fake).mean() - scores(real).mean() + 10.0 * (lengths - 1.0).square().mean()
    loss.backward()
    critic.learn(real, fake, between)
    torch.testing.assert_close(critic._mean, 0.5 * before.grad, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(critic._square, 0.1 * before.grad**2, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(before.detach() - critic._weights, 0.1 * before.grad.sign(), rtol=1e-4, atol=1e-4)


def test_a_critic_learns_to_tell_rows_from_fakes() -> None:
    random = torch.Generator().manual_seed(0)
    critic = PrivateCritic(4, rate=1e-2, seed=0)
    real = torch.rand((64, 4), generator=random) * 0.2 + 0.7
    fake = torch.rand((64, 4), generator=random) * 0.2
    for _ in range(100):
        critic.learn(real, fake, torch.rand((64, 1), generator=random))
    assert float(critic.scores(real).min()) > float(critic.scores(fake).max())
    lengths = critic.gradients(0.5 * (real + fake)).norm(dim=1)
    assert float((lengths - 1.0).abs().max()) < 0.2  # kept near 1 between them
    assert float(critic.gradients(fake).mean()) > 0  # towards the rows


def test_a_part_without_rows_answers_nothing_but_noise() -> None:
    answer = ask(session_on(WORLDS["private, 1 rows, no ids"], [], []), question_of())
    assert not answer.whole.any()


class Lying(TorchDispatchMode):
    """Writes down where the factors of products lie, beside multiples of 64 bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "mm" in str(func) or "mv" in str(func):
            tensors = [one for one in args if isinstance(one, torch.Tensor)]
            self.places.append(tuple(one.untyped_storage().data_ptr() % 64 for one in tensors))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("learned", [1, 40])
def test_factors_of_products_lie_at_the_same_places_whatever_the_heap_is(learned: int) -> None:
    """A library may add in another order where they lie otherwise; small parts and large ones."""
    with Lying() as found:
        ask(session_on(WORLDS["private, 1 rows, no ids"], list(range(24)), []), question_of(learned=learned))
    assert len(found.places) > 100
    assert set(sum(found.places, start=())) == {0}


def test_critics_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PrivateCritic] = []
    right = PrivateCritic.__init__

    def init(self: PrivateCritic, *given: Any, **named: Any) -> None:
        right(self, *given, **named)
        made.append(self)

    monkeypatch.setattr(PrivateCritic, "__init__", init)
    training = Fixed()
    answer = ask(session_on(WORLDS["private, 1 rows, no ids"], list(range(24)), []), question_of(), training)
    assert len(made) == PARTS
    reached, waiting = set(), [answer, training]
    while waiting:
        one = waiting.pop()
        if id(one) in reached or isinstance(one, int | float | str | type):
            continue
        reached.add(id(one))
        names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
        waiting += [getattr(one, name) for name in names if hasattr(one, name)]
        waiting += list(getattr(one, "__dict__", {}).values())
        waiting += list(one) if isinstance(one, list | tuple) else []
    assert not reached & {id(critic) for critic in made}
    for critic in made:
        assert "not shown" in repr(critic)
        for leave in (pickle.dumps, copy.deepcopy):
            with pytest.raises(PrivacyError, match="cannot be copied"):
                leave(critic)


# Bad input


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"clip": 0.0}, "clip norm"),
        ({"clip": math.nan}, "clip norm"),
        ({"parts": 0}, "number of parts"),
        ({"parts": 2**14 + 1}, "number of parts"),
        ({"steps": 0}, "number of turns"),
        ({"rows": 5000}, "synthetic rows of a turn"),
        ({"rows": True}, "synthetic rows of a turn"),
        ({"steps": 2**21}, "can be released"),
        ({"learned": 0}, "steps of a critic"),
        ({"batch": 0}, "batch"),
        ({"rate": 0.0}, "learning rate"),
        ({"seed": -1}, "seed"),
        ({"tables": ()}, "lookups"),
        ({"tables": (TABLES[0], TABLES[0])}, "each column once"),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_a_sentence(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(PrivacyError, match=said) as refused:
        question_of(**changed)
    assert str(refused.value).count("\n") == 0


def test_more_parts_or_fake_rows_than_declared_units_are_refused_before_any_charge() -> None:
    schema = dataclasses.replace(WORLDS["public, 1 rows, no ids"], number_of_units=3)
    for changed, said in (
        ({"parts": 4}, "4 parts are more than the 3 people"),
        ({"rows": 4}, "4 synthetic rows in a turn"),
    ):
        session = session_on(schema, [0, 1, 2], [])
        with pytest.raises(PrivacyError, match=said):
            ask(session, question_of(**changed))
        assert (session.remaining_share, session.receipts) == (1.0, ())


def test_hidden_cells_are_refused_before_any_charge() -> None:
    schema = Schema(small_schema().columns, row_count="public", protection="cell")
    session = session_on(schema, [0, 1, 2], [])
    with pytest.raises(PrivacyError, match="cell"):
        ask(session, question_of())
    assert session.receipts == ()


def test_columns_of_another_table_are_refused_before_any_charge() -> None:
    session = session_on(WORLDS["public, 1 rows, no ids"], [0, 1, 2], [])
    with pytest.raises(PrivacyError, match="make it from this schema"):
        ask(session, question_of(tables=(Lookup("age", np.eye(5)),)))
    assert session.remaining_share == 1.0


@pytest.mark.parametrize(
    ("fake", "said"),
    [(np.zeros((1, 7)), "at least 2"), (np.zeros((5, 6)), "7 numbers"), (np.full((5, 7), np.nan), "between -1 and 1")],
)
def test_fake_rows_of_another_shape_are_refused(fake: np.ndarray, said: str) -> None:
    class Wrong(Fixed):
        def at(self) -> np.ndarray:
            return fake

    with pytest.raises(PrivacyError, match=said):
        ask(session_on(WORLDS["public, 1 rows, no ids"], [0, 1, 2], []), question_of(), Wrong())


# Digest and bundle


@pytest.mark.parametrize(
    "changed",
    [
        *({"parts": 4}, {"steps": 8}, {"rows": 3}, {"clip": 0.25}, {"learned": 3}, {"batch": 5}, {"rate": 0.5}),
        *({"seed": 4}, {"tables": (*TABLES[:2], Lookup("income", np.zeros((SIZES["income"], 2))))}),
    ],
)
def test_two_questions_have_one_digest_only_if_they_are_the_same(changed: dict[str, Any]) -> None:
    assert question_of().digest() == question_of(training=Fixed()).digest()
    assert question_of().digest() != question_of(**changed).digest()
    answer = ask(session_on(WORLDS["public, 1 rows, no ids"], [0, 1, 2], []), question_of())
    assert question_of().again(answer) is answer
    with pytest.raises(PrivacyError, match="other columns or with other settings"):
        question_of(**changed).again(answer)


def test_a_question_is_written_and_read_again() -> None:
    said, arrays = question_of().to_json("question", {})
    read = CriticTurns.from_json(said, arrays, lambda one: from_description(one, arrays))
    assert read.digest() == question_of().digest()
    assert read.training is None


# Planted bugs


def _one_clip_for_all(patch: pytest.MonkeyPatch) -> None:
    right = critic_turns.clipped_gradients

    def clipped(gradients: np.ndarray, clip: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            mean = right(gradients.mean(axis=0, keepdims=True), clip)
        return np.tile(mean * len(gradients), len(gradients))  # the mean is clipped, not each

    patch.setattr(critic_turns, "clipped_gradients", clipped)


def _no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        critic_turns,
        "clipped_gradients",
        lambda gradients, clip: (np.clip(np.nan_to_num(gradients), -2, 2) * 2**24).astype(np.int64).reshape(-1),
    )


def _all_rows(patch: pytest.MonkeyPatch) -> None:
    def everyone(keyed: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        order, _ = divided(keyed, parts)
        return np.tile(order, parts), np.arange(1, parts + 1) * len(order)

    patch.setattr(critic_turns, "divided", everyone)


def _parts_by_place(patch: pytest.MonkeyPatch) -> None:
    right = critic_turns.divided

    def by_place(keyed: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        return right(np.random.default_rng(3).integers(0, 2**64, keyed.shape, dtype=np.uint64), parts)

    patch.setattr(critic_turns, "divided", by_place)


def _half(patch: pytest.MonkeyPatch) -> None:
    right = CriticTurns.sensitivity
    patch.setattr(CriticTurns, "sensitivity", lambda self, schema: right(self, schema) / 2)


def _as_add_remove(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(critic_turns, "parts_touched", lambda schema, parts: 1)


def _one_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(critic_turns, "turns_paid", lambda turns, parts, touched: touched)


def _order_of_the_table(patch: pytest.MonkeyPatch) -> None:
    """Rows alike change places between parts when one more stands before them."""

    def in_order(keyed: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        part = (keyed[:, 0] >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
        order = np.argsort(part, kind="stable")
        return order, np.searchsorted(part[order], np.arange(parts, dtype=np.uint64), side="right")

    patch.setattr(critic_turns, "divided", in_order)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "all gradients of a turn are clipped as one mean": _one_clip_for_all,
    "gradients are not clipped": _no_clip,
    "every critic learns from all rows": _all_rows,
    "parts by the replay seed and the place of a row": _parts_by_place,
    "a sensitivity without the 2": _half,
    "another unit in place of one charged as one less": _as_add_remove,
    "the turns of a part not counted": _one_turn,
    "a part in the order of the table": _order_of_the_table,
}


def caught(worst: bool) -> bool:
    """Whether any of some pairs of neighbours moves further than is charged, or moves what is not its own."""
    with pytest.MonkeyPatch.context() as patch:
        if worst:
            patch.setattr(critic_turns._Turns, "_gradients", flipped)
        for world in ("private, 1 rows, no ids", "public, 1 rows, no ids", "private, 2 rows, ids"):
            schema, question = WORLDS[world], question_of()
            most = schema.unit.rows_per_unit
            for seed in range(30):
                rng = np.random.default_rng(seed)
                drawn = [rng.integers(0, 6, most if place else 1).tolist() for place in range(14)]
                named = {f"unit {seed} {place}": rows for place, rows in enumerate(drawn[2:])}
                tables = neighbours_of(schema, named, *drawn[:2], rng.integers(0, 9, 20).tolist(), name=f" {seed}")
                try:
                    check_moves(schema, *moved(schema, *tables, question), question)
                except AssertionError:
                    return True
    return False


def test_without_a_bug_nothing_is_caught() -> None:
    assert not caught(worst=True)
    assert not caught(worst=False)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    # A critic in the order of the table is told apart by its own arithmetic, the others by the worst critic.
    assert caught(worst=bug != "a part in the order of the table")
