"""gs-wgan: what its network is taught, that nothing but noisy numbers teaches it, and that it can start again."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest
import torch
from choosing import few
from simulated import COLUMNS, FAST, dependent_codes, fitted, schema, session, task

from synth.bundle.recorded_session import RecordedSession
from synth.errors import RunCancelledError, SynthError
from synth.generators import make
from synth.generators.adversarial.training import CriticRows
from synth.generators.gs_wgan.gs_wgan import GsWgan, TurnTraining
from synth.generators.row_network import HIDDEN, OutputHeads
from synth.privacy.answers import of_kind
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.private_critics import PrivateCritic
from synth.privacy.more.training_steps import NoisySteps
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema

QUICK = FAST["gs-wgan"]


def training_of(declared: Schema, *, rows: int = 8, steps: int = 30, rate: float = 0.01, seed: int = 0) -> TurnTraining:
    layout = OutputHeads(declared, None)
    read = CriticRows.of(layout, None)
    return TurnTraining(layout, read, rows=rows, clip=1.0, steps=steps, rate=rate, seed=seed, progress=NullProgress())


def test_critics_are_shown_rows_as_they_would_be_published() -> None:
    """Each category is one code, a number is on its grid or one of its atoms; as private rows are shown."""
    declared = schema()
    read = CriticRows.of(OutputHeads(declared, None), None)
    shown = training_of(declared).at()
    assert shown.shape[1] == read.width
    start = 0
    for table in read.tables:
        own = shown[:, start : start + table.dimension]
        start += table.dimension
        if table.dimension == 1:
            assert (np.abs(own) <= 1).all()
        elif COLUMNS[table.column].levels <= 32:
            assert np.array_equal(np.sort(own)[:, -2:], np.tile([0.0, 1.0], (len(own), 1)))
        else:
            assert np.allclose(own[:, 1:].max(axis=1), math.sqrt(0.5))
            assert np.array_equal((own[:, 1:] > 0).sum(axis=1), np.ones(len(own)))
            assert not own[own[:, 1] == 0, 0].any()


@pytest.mark.parametrize("goal", ["b", "c"])
def test_the_network_goes_where_gradients_point(goal: str) -> None:
    declared = Schema((CategoryColumn("letter", ("a", "b", "c")), NumberColumn("size", 0, 999, 1)))
    training = training_of(declared, steps=100)
    place = ["a", "b", "c"].index(goal)
    for _ in range(100):
        towards = np.zeros((8, 4))
        towards[:, place], towards[:, 3] = 1.0, -1.0
        training.move(towards.reshape(-1))
    shown = training.at()
    assert shown[:, place].mean() > 0.95
    assert shown[:, 3].mean() < -0.8


def test_only_answered_rows_teach() -> None:
    """No gradient, no step: nothing else moves the network."""
    training = training_of(schema("region", "age"))
    before = training.network.weights.clone()
    for _ in range(3):
        training.move(np.zeros(8 * training._width))
    assert torch.equal(training.network.weights, before)


def test_it_learns_from_critics_where_noise_is_small() -> None:
    """Without noise the shares of categories come out; with noise and epsilon of 0.01 nothing does."""
    declared, codes = schema("smoker", "outcome", row_count="private"), dependent_codes(1500)
    options = {"parts": 1, "turns": 60, "batch_size": 32, "critic_steps": 10, "learning_rate": 0.01}

    def distance(epsilon: float, noise_key: int | None) -> float:
        opened = session(declared, codes, epsilon=epsilon, noise_key=noise_key)
        rows = make("gs-wgan", task(declared), options).fit(opened, NullProgress()).sample(2000, 0)
        shares = [
            np.abs(np.bincount(rows[:, d], minlength=3) / 2000 - np.bincount(codes[name], minlength=3) / 1500).sum() / 2
            for d, name in enumerate(declared.names)
        ]
        return float(np.mean(shares))

    learned, noise = distance(1.0, None), distance(0.01, 3)
    assert learned < 0.12
    assert noise > 2 * learned


def test_recorded_answers_make_the_same_network_and_no_row_is_read() -> None:
    declared = schema(row_count="private")
    first, opened = fitted("gs-wgan", declared)
    again = make("gs-wgan", task(declared), QUICK)
    again.fit(RecordedSession(declared, opened.budget, rows=opened.rows, answers=opened.answers), NullProgress())
    for name, array in first.state().items():
        np.testing.assert_array_equal(array, again.state()[name])
    np.testing.assert_array_equal(first.sample(50, 1), again.sample(50, 1))


def test_the_state_has_the_network_and_nothing_of_a_critic() -> None:
    made, opened = fitted("gs-wgan")
    layout = OutputHeads(schema(), None)
    assert {name: array.size for name, array in made.state().items()} == {
        "probabilities": 1,
        "weights": made.network.size(classes=1, outputs=layout.outputs),
        "noise": 1,
        "diverged": 1,
    }
    (answer,) = of_kind(opened.answers, NoisySteps)
    # Of all that it holds, that the network holds too, or that an answer does, nothing is a critic.
    text = pickle.dumps([made.state(), answer.whole, answer.receipt])
    assert PrivateCritic.__name__.encode() not in text


def test_every_turn_is_one_answer_and_all_are_one_question() -> None:
    made, opened = fitted("gs-wgan")
    (answer,) = of_kind(opened.answers, NoisySteps)
    question = answer.question
    assert isinstance(question, CriticTurns)
    assert (question.parts, question.steps, question.rows) == (5, 6, 8)
    assert answer.whole.shape == (6, 8 * question.width)
    assert opened.receipts[-1].source == "generator gs-wgan"
    assert opened.remaining_share < 1e-9
    assert made.facts()[0].value == pytest.approx(
        answer.receipt.noise_scale * math.sqrt(8 * question.width) / 8, rel=1e-12
    )


@pytest.mark.parametrize(
    ("declared", "parts"), [(None, 1000), (100_000, 1000), (20_000, 1000), (19_999, 999), (100, 5), (19, 1)]
)
def test_the_number_of_parts_follows_from_what_is_declared(declared: int | None, parts: int) -> None:
    known = dataclasses.replace(schema(), number_of_units=declared)
    made = make("gs-wgan", task(known), {"batch_size": 8})
    assert isinstance(made, GsWgan)
    assert made._question(None).parts == parts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"parts": 51}, "51 parts are more than the 50 people"),
        ({"batch_size": 64}, "64 synthetic rows in a turn are more than the 50 people"),
        ({"clip": 0.0}, "clip"),
        ({"turns": 100_000, "batch_size": 50}, "can be released"),
        ({"parts": -1}, "parts"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_before_any_question(options: dict[str, float], said: str) -> None:
    known = dataclasses.replace(schema(), number_of_units=50)
    with pytest.raises(SynthError, match=said) as refused:
        make("gs-wgan", task(known), options)
    assert "\n" not in str(refused.value)


def test_a_training_that_diverges_completes_and_says_so() -> None:
    declared = schema("region", "age")
    training = training_of(declared, steps=5, rate=1e30)
    first = training.network.weights.clone()
    for _ in range(5):
        shown = training.at()
        assert np.isfinite(shown).all()
        training.move(np.ones(8 * shown.shape[1]))
    assert training.diverged
    assert torch.equal(training.network.weights, first)
    made, _ = fitted("gs-wgan")
    state = {**made.state(), "diverged": np.array([True])}
    again = GsWgan.from_state(task(schema()), made._options, state)
    assert [fact.name for fact in again.facts()] == ["noise", "diverged"]
    assert [fact.name for fact in made.facts()] == ["noise"]


def test_no_number_that_follows_from_an_answer_is_shown_before_it_is_kept() -> None:
    """A run that stops draws its noisy turns again, so its owner has not seen what the first ones led to."""

    class Told(NullProgress):
        def __init__(self) -> None:
            self.said: list[object] = []

        def step(self, done: int, of: int) -> None:
            self.said.append((done, of))

        def loss(self, value: float) -> None:
            raise AssertionError("a loss was shown")

    told = Told()
    declared = schema(row_count="private")
    make("gs-wgan", task(declared), QUICK).fit(session(declared, dependent_codes(200)), told)
    assert told.said == [(turn, 6) for turn in range(1, 7)]


def test_a_run_can_be_stopped_between_turns() -> None:
    class Stopped(NullProgress):
        def check_cancelled(self) -> None:
            raise RunCancelledError("stopped")

    declared = schema(row_count="private")
    opened = session(declared, dependent_codes(200))
    with pytest.raises(RunCancelledError):
        make("gs-wgan", task(declared), QUICK).fit(opened, Stopped())
    assert opened.remaining_share < 1e-9  # a charge is never refunded


@pytest.mark.parametrize("name", few(["dp-gan", "dp-cgan", "gs-wgan"], kept=["gs-wgan"]))
def test_a_network_that_draws_one_row_over_and_over_says_so(name: str) -> None:
    """Its constants alone decide, and are far apart: whatever is drawn, the row is the same."""
    made, _ = fitted(name)
    assert [fact.name for fact in made.facts()] == ["noise"]
    made.network.third[:, :HIDDEN] = 0.0
    assert [fact.name for fact in made.facts()] == ["noise"], "rows still differ"
    made.network.third[:, HIDDEN:] *= 1000.0
    assert [fact.name for fact in made.facts()] == ["noise", "diverged"]
