"""A delta of 0: from the bytes of two neighbouring files, what all answers tell apart adds up to at most epsilon.

The loss of a sum is what it really moved, in L1, over the scale of the Laplace noise that was drawn; that of a choice
is worked out from the rate at which scores were weighed, and the bound of the oracle on what one unit moves them.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
from askers import Crowded
from layers import assert_answer_is_sum_plus_noise
from test_bytes_to_answers import as_csv
from transcripts import Answered, Recording, Replaying, TappedNoise, Transcript, run
from worlds import ACCOUNT_KEY, LABEL, World, far_rows, neighbours_of, ordinary_rows
from worlds import WORLDS as SPLIT

from synth.generators import PURE, GeneratorTask, make
from synth.privacy import answers, questions, selection
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.answers import AnswerSource, NoisySum, SumPlan
from synth.privacy.costs import Bound
from synth.privacy.receipt import require_honest
from synth.privacy.selection import SCORE_STEP, ChoicePlan, Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import TableFormat

EPSILON, UNITS = 0.7, 48

WORLDS = {name: dataclasses.replace(world, holdout=0.0) for name, world in SPLIT.items()}
"""Where nobody is held out, whoever is replaced is asked about."""


class TappedLaplace(TappedNoise):
    """Laplace noise as well, written down with its scale."""

    def __init__(self, key: int) -> None:
        super().__init__(key)
        self.scales: list[int] = []

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        raise AssertionError("Gaussian noise is drawn at a delta of 0")

    def laplace(self, scale: int, size: int) -> np.ndarray:
        self.draws.append(self._noise.laplace(scale, size))
        self.scales.append(scale)
        return self.draws[-1].copy()


def asks(name: str, world: World) -> Callable[[AnswerSource], Any]:
    options = {"bins": 6, "parents": 2, "usefulness": 0.1} if name == "privbayes" else {}
    task = GeneratorTask(world.schema, LABEL, seed=0, device="cpu")
    return lambda session: make(name, task, options).fit(Crowded(session), NullProgress())


def opened(world: World, data: bytes) -> PrivateTable:
    number = UNITS if world.row_count == "public" else None
    return PrivateTable.open(
        lambda: io.BytesIO(data),
        "table",
        dataclasses.replace(world.schema, number_of_units=number),
        TableFormat(),
        account_key=ACCOUNT_KEY,
        holdout=world.holdout,
    )[0]


def losses(name: str, world: World) -> tuple[list[float], float]:
    """Return the loss of every answer between two neighbouring files, and the epsilon that receipts compose to."""
    rows = ordinary_rows(UNITS, world.rows_each)
    files = [as_csv(world, some) for some in (rows, neighbours_of(world, rows, far_rows(5)))]
    budget = PrivacyBudget(EPSILON, 0.0, world.schema.neighbours)
    told, heard, noise = [], Transcript(), TappedLaplace(1)
    for data in files:
        table, tapped, transcript = opened(world, data), TappedLaplace(len(told) + 1), Transcript()
        session = PrivateSession(table, budget, noise=tapped)
        source = Replaying(session, tapped, transcript) if told else Recording(session, tapped, transcript)
        source.earlier = heard
        run(asks(name, world), source)
        told.append(transcript)
        if len(told) == 1:
            heard, noise = transcript, tapped
            draws = iter(tapped.draws)
            for answered in transcript.answered:
                if not isinstance(answered.answer, Selection):
                    assert_answer_is_sum_plus_noise(answered, next(draws), table)
    scales, rates, found = iter(noise.scales), iter(noise.rates), []
    for before, after in zip(told[0].answered, told[1].answered, strict=True):
        require_honest(before.receipt)
        if isinstance(before.answer, Selection):
            found.append(loss_of_choice(before, world, next(rates)))
        else:
            assert before.receipt.mechanism == "laplace_sum"
            scale = next(scales)
            assert before.receipt.noise_scale == scale * before.receipt.grid
            found.append(float(np.abs(before.whole - after.whole).sum()) / scale)
    receipts = [answered.receipt for answered in told[0].answered]
    assert sum(receipt.pure_units for receipt in receipts) <= budget.units, "more is charged than the budget"
    assert not any(receipt.mu_squared_units for receipt in receipts)
    stated = sum(receipt.pure_units for receipt in receipts) * 2.0**-40
    assert epsilon_of_receipts(receipts, 0.0) == float("inf"), "known noise is called private"
    return found, stated


def loss_of_choice(answered: Answered, world: World, rate: tuple[int, int]) -> float:
    moved = np.ceil(oracle.sensitivity(answered.question, world) / SCORE_STEP)
    return float(2 * moved * rate[0] / rate[1])


def audited(name: str, world: World) -> list[float]:
    found, stated = losses(name, world)
    assert sum(found) <= stated * (1 + 1e-9), "two neighbours are told apart by more than is stated"
    assert stated <= EPSILON
    assert stated >= 0.98 * EPSILON, "a budget is left unspent"
    return found


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    "name", [one if one == "privbayes" else pytest.param(one, marks=pytest.mark.thorough) for one in PURE]
)
def test_losses_add_up_to_at_most_epsilon(name: str, world: str) -> None:
    found = audited(name, WORLDS[world])
    assert sum(found) > 0.5 * EPSILON, "these neighbours hardly differ, so nothing is tested"
    assert (len(found) > 6) == (name == "privbayes")


def norms_in_l2(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(answers, "l1_bound_of", answers.bound_of)


def a_replaced_row_moves_one_count(patch: pytest.MonkeyPatch) -> None:
    right = answers.l1_bound_of

    def bound(*asked: Any, **named: Any) -> Bound:
        found = right(*asked, **named)
        return Bound(found.norm, found.norm)

    patch.setattr(answers, "l1_bound_of", bound)


def one_row_of_several(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrivateSession, "_between_neighbours", lambda self, row: row.norm)


def half_of_the_noise(patch: pytest.MonkeyPatch) -> None:
    right = NoisySum.draw

    def draw(self: NoisySum, plan: SumPlan, rows: Any, noise: Any, *, device: str) -> Any:
        class Halved:
            def laplace(self, scale: int, size: int) -> np.ndarray:
                return np.asarray(noise.laplace(scale, size) // 2)

        return right(self, plan, rows, Halved(), device=device)  # type: ignore[arg-type]

    patch.setattr(NoisySum, "draw", draw)


def half_of_the_scale(patch: pytest.MonkeyPatch) -> None:
    right = questions.laplace_on_grid
    patch.setattr(questions, "laplace_on_grid", lambda *asked, units: right(*asked, units=2 * units))


def twice_the_rate_of_a_choice(patch: pytest.MonkeyPatch) -> None:
    right = ChoicePlan.rate.fget
    patch.setattr(ChoicePlan, "rate", property(lambda self: 2 * right(self)))


def choices_by_mu(patch: pytest.MonkeyPatch) -> None:
    """A parameter that costs less in mu^2 than as pure epsilon."""
    right = selection.PrivateChoice.plan

    def plan(self: Any, allowed: Any) -> ChoicePlan:
        found = right(self, allowed)
        return ChoicePlan(1.5 * found.parameter, found.sensitivity, found.candidates, found.pure)

    patch.setattr(selection.PrivateChoice, "plan", plan)


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("plant", "world"),
    [
        (norms_in_l2, "add or remove"),
        (a_replaced_row_moves_one_count, "replace one"),
        (one_row_of_several, "add or remove several rows"),
        (half_of_the_noise, "add or remove"),
        (half_of_the_scale, "add or remove"),
        (twice_the_rate_of_a_choice, "replace one"),
        (choices_by_mu, "add or remove"),
    ],
)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited("privbayes", WORLDS[world])
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        audited("privbayes", WORLDS[world])
