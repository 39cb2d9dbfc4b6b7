"""Planted bugs in private critics and their turns; noticed by critics at their worst, or by a whole generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from askers import CRITICS
from faults import fault
from sampled_faults import trainings_not_charged

from synth.generators.gs_wgan.gs_wgan import GsWgan
from synth.privacy import table
from synth.privacy.more import critic_turns
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.training_steps import StepsQuestion

CRITIC_FAULTS: dict[str, str] = {}
"""Which asker notices each."""


def critic_fault(name: str, asker: str = CRITICS) -> Any:
    CRITIC_FAULTS[name] = asker
    return fault(name)


@critic_fault("the mean of a turn's gradients clipped and not each")
def _(patch: pytest.MonkeyPatch) -> None:
    def clipped(gradients: np.ndarray, clip: float) -> np.ndarray:
        # As long as the mean would allow them to be: each is scaled by what the mean is too long by.
        short = min(1.0, clip * len(gradients) / float(np.linalg.norm(gradients.mean(axis=0))))
        return np.trunc(gradients * (short / clip) * 2**24).astype(np.int64).reshape(-1)

    patch.setattr(critic_turns, "clipped_gradients", clipped)


@critic_fault("gradients of critics not clipped")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        critic_turns, "clipped_gradients", lambda gradients, clip: np.trunc(gradients * 2**24).astype(np.int64).ravel()
    )


@critic_fault("every critic learns from all rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = critic_turns.divided

    def everyone(keyed: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        order, _ = right(keyed, parts)
        return np.tile(order, parts), np.arange(1, parts + 1) * len(order)

    patch.setattr(critic_turns, "divided", everyone)


@critic_fault("parts by the replay seed and the place of a row")
def _(patch: pytest.MonkeyPatch) -> None:
    right = critic_turns.divided

    def by_place(keyed: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        return right(np.random.default_rng(4).integers(0, 2**64, keyed.shape, dtype=np.uint64), parts)

    patch.setattr(critic_turns, "divided", by_place)


@critic_fault("parts of equal sizes")
def _(patch: pytest.MonkeyPatch) -> None:
    def even(keyed: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        order = np.lexsort((keyed[:, 1], keyed[:, 0]))
        return order, np.arange(1, parts + 1) * len(order) // parts

    patch.setattr(critic_turns, "divided", even)


@critic_fault("rows of an id in several parts")
def _(patch: pytest.MonkeyPatch) -> None:
    right = table.divided_by

    def apart(unit_hashes: np.ndarray, *, account_key: bytes) -> np.ndarray:
        _, occurrence = table.units_and_occurrences(unit_hashes)
        return right(unit_hashes, account_key=account_key) ^ (occurrence.astype(np.uint64) << np.uint64(61))[:, None]

    patch.setattr(table, "divided_by", apart)


@critic_fault("a sensitivity of critics without the 2")
def _(patch: pytest.MonkeyPatch) -> None:
    right = CriticTurns.sensitivity
    patch.setattr(CriticTurns, "sensitivity", lambda self, schema: right(self, schema) / 2)


@critic_fault("a replaced unit pays for one part")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(critic_turns, "parts_touched", lambda schema, parts: 1)


@critic_fault("turns of one part not counted")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(critic_turns, "turns_paid", lambda turns, parts, touched: touched)


@critic_fault("as though critics were drawn at random")
def _(patch: pytest.MonkeyPatch) -> None:
    right = critic_turns.turns_paid
    patch.setattr(critic_turns, "turns_paid", lambda turns, parts, touched: right(turns, parts, touched) / parts)


@critic_fault("noise in the first turn alone")
def _(patch: pytest.MonkeyPatch) -> None:
    right = StepsQuestion.draw

    def draw(self: CriticTurns, plan: Any, rows: Any, noise: Any, *, device: str) -> Any:
        class Once:
            private, spent = noise.private, False

            def gaussian(self, variance: int, size: int) -> np.ndarray:
                drawn = noise.gaussian(variance, size)
                self.spent, spent = True, self.spent
                return 0 * drawn if spent else drawn

        return right(self, plan, rows, Once(), device=device)

    patch.setattr(StepsQuestion, "draw", draw)


def critics_of_a_fit(patch: pytest.MonkeyPatch, keep: Callable[[GsWgan, Any], None]) -> None:
    """Hand the critics of every fit to something that keeps a part of them."""
    held: list[Any] = []
    of_rows, fit = CriticTurns.of_rows, GsWgan.fit

    def kept(self: CriticTurns, *given: Any, **named: Any) -> Any:
        held.append(of_rows(self, *given, **named))
        return held[-1]

    def fitted(self: GsWgan, session: Any, progress: Any) -> GsWgan:
        fit(self, session, progress)
        keep(self, held[-1])
        return self

    patch.setattr(CriticTurns, "of_rows", kept)
    patch.setattr(GsWgan, "fit", fitted)


@critic_fault("a critic in the state of a generator", "gs-wgan")
def _(patch: pytest.MonkeyPatch) -> None:
    state = GsWgan.state

    def keep(made: GsWgan, turns: Any) -> None:
        made.critics = np.concatenate([turns._critics[part]._weights.numpy() for part in sorted(turns._critics)])

    critics_of_a_fit(patch, keep)
    patch.setattr(GsWgan, "state", lambda self: {**state(self), "critics": self.critics})


@critic_fault("a critic kept beside the network", "gs-wgan")
def _(patch: pytest.MonkeyPatch) -> None:
    critics_of_a_fit(patch, lambda made, turns: setattr(made, "critics", turns))


critic_fault("turns not charged")(trainings_not_charged)


@critic_fault("a generator led by exact gradients", "gs-wgan")
def _(patch: pytest.MonkeyPatch) -> None:
    right = StepsQuestion.draw

    def draw(self: CriticTurns, plan: Any, rows: Any, noise: Any, *, device: str) -> Any:
        training, exact = self.training, []
        of_rows = type(self).of_rows

        def watched(question: CriticTurns, *given: Any, **named: Any) -> Any:
            take = of_rows(question, *given, **named)

            def taken(number: int, at: np.ndarray) -> np.ndarray:
                exact.append(take(number, at))
                return exact[-1]

            return taken

        inner = training.training
        move = inner.move
        inner.move = lambda step: move(exact[-1] * plan.gaussian.grid)
        with pytest.MonkeyPatch.context() as watching:
            watching.setattr(type(self), "of_rows", watched)
            return right(self, plan, rows, noise, device=device)

    patch.setattr(StepsQuestion, "draw", draw)
