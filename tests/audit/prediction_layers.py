"""The layers of the audit for predictions on the hold-out: a whole run, with its session replaced by a recorded one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
from layers import assert_answer_is_sum_plus_noise, assert_cost_is_the_budget, assert_law, assert_receipts_are_honest
from recorded_noise import RecordedNoise
from transcripts import Answered, Recording, Replaying, TappedNoise, Transcript, start
from worlds import DELTA, EPSILON, LABEL, Row, World, neighbours_of, ordinary_rows

from synth.bundle.archive import canonical_json
from synth.privacy import accounting
from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import FeatureMap, OneHot
from synth.privacy.more.forests import Forest
from synth.privacy.noise import SystemNoise
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.document import published_evidence, report_document
from synth.reports.holdout import PREDICTION_QUERY
from synth.schema import RunConfig
from synth.services import pipeline
from synth.services.pipeline import FittedRun, fit_and_sample

UNITS = 80
LABELS = (LABEL, "age")
"""What is predicted: a class, and a number that is missing for some."""


class WholeRun:
    """What a run needs of its session beside answers: the hold-out, and everything that was answered."""

    transcript: Transcript
    session: PrivateSession
    noise: TappedNoise

    def holdout_session(self, table: PrivateTable, *, share: float) -> Any:
        view = self.__class__(self.session.holdout_session(table, share=share), self.noise, self.transcript)  # type: ignore[call-arg]
        view.__dict__.update({"earlier": self.earlier} if hasattr(self, "earlier") else {})
        return view

    @property
    def receipts(self) -> tuple[Any, ...]:
        return tuple(one.answer.receipt for one in self.transcript.answered)

    @property
    def answers(self) -> tuple[NoisyAnswer, ...]:
        heard = self.earlier.answered if hasattr(self, "earlier") else self.transcript.answered
        return tuple(one.answer for one in heard if isinstance(one.answer, NoisyAnswer))


class RecordedRun(WholeRun, Recording):
    """A whole run whose questions and answers are written down; both bases already do all of it."""


class ReplayedRun(WholeRun, Replaying):
    def sub_session(self, share: float) -> ReplayedRun:
        part = ReplayedRun(self.session.sub_session(share), self.noise, self.transcript)
        part.earlier = self.earlier
        return part


def config_of(world: World, label: str) -> RunConfig:
    return RunConfig(
        schema=world.schema,
        account="audit",
        epsilon=EPSILON,
        delta=DELTA,
        people_at_most=1000,
        rows=300,
        generator="independent",  # labels that no column tells: trees guess all over their leaves
        label=label,
        groups=("smoker",),
        holdout=world.holdout,
        prediction_share=0.3,
    )


def parts(world: World, rows: list[Row]) -> tuple[PrivateTable, PrivateTable]:
    return world.table(rows, "train"), world.table(rows, "holdout")


def carried_out(
    world: World,
    tables: tuple[PrivateTable, PrivateTable],
    wrap: Callable[[PrivateSession, TappedNoise], Any],
    label: str,
) -> tuple[FittedRun, TappedNoise, PrivateSession]:
    """Do what a run does, with known noise and every answer written down."""
    tapped, made = TappedNoise(1), []

    def session(table: PrivateTable, budget: object, *, device: str, kept: object = None) -> Any:
        made.append(start(world, table, tapped))
        return wrap(made[-1], tapped)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "PrivateSession", session)
        measured = fit_and_sample(config_of(world, label), tables[0], NullProgress(), holdout=tables[1])
    return measured, tapped, made[0]


def recorded(
    world: World, rows: list[Row], label: str = LABEL
) -> tuple[Transcript, FittedRun, TappedNoise, PrivateSession]:
    transcript = Transcript()
    measured, tapped, session = carried_out(
        world, parts(world, rows), lambda session, noise: RecordedRun(session, noise, transcript), label
    )
    return transcript, measured, tapped, session


def replayed(world: World, rows: list[Row], earlier: Transcript, label: str) -> tuple[Transcript, FittedRun]:
    transcript = Transcript()

    def wrap(session: PrivateSession, noise: TappedNoise) -> ReplayedRun:
        run = ReplayedRun(session, noise, transcript)
        run.earlier = earlier
        return run

    measured, _, _ = carried_out(world, parts(world, rows), wrap, label)
    assert len(transcript.answered) == len(earlier.answered), "fewer questions were asked of the neighbour"
    return transcript, measured


def prediction_of(transcript: Transcript) -> Answered:
    (found,) = [one for one in transcript.answered if one.query == PREDICTION_QUERY]
    return found


def forests_of(question: FeatureMap) -> list[Forest]:
    inside = [forest for one in question.inner for forest in forests_of(one)]
    return [question, *inside] if isinstance(question, Forest) else inside


def t0_calibration(world: World, label: str = LABEL) -> None:
    """The hold-out answers for itself, with the noise and at the price that an oracle works out; nobody sees labels."""
    rows = ordinary_rows(UNITS, world.rows_per_unit)
    tables = parts(world, rows)
    transcript, _, tapped, session = recorded(world, rows, label)
    for answered, draws in zip(transcript.answered, tapped.draws, strict=True):
        held = answered.query == PREDICTION_QUERY
        assert answered.receipt.part == ("holdout" if held else "train"), "a receipt names the other part"
        assert_answer_is_sum_plus_noise(answered, draws, tables[held])
    assert_cost_is_the_budget(transcript.answered, [], tapped, world)
    assert_receipts_are_honest(transcript, tapped, world)
    assert session.remaining_share < 1e-3
    forests = forests_of(prediction_of(transcript).question)
    assert forests, "nothing is predicted"
    assert all(label not in forest.columns for forest in forests), "a predictor sees the label"


def t0_parts(world: World) -> None:
    """The same question of both parts is answered by the rows of each."""
    train, held_out = parts(world, ordinary_rows(UNITS, world.rows_per_unit))
    session = start(world, train, RecordedNoise(None))
    held = session.holdout_session(held_out, share=0.5)
    question = OneHot((LABEL, "smoker"), (None, None), (2, 3))
    for place, (asked, table) in enumerate(((session, train), (held, held_out))):
        found = asked.noisy_sum(question, share=0.3, query=f"q{place}", source="audit").value
        codes = [np.asarray(table._column(name)).astype(int) for name in (LABEL, "smoker")]
        expected = np.zeros((2, 3))
        np.add.at(expected, tuple(codes), 1)
        np.testing.assert_array_equal(found, expected, err_msg="a part answers with the rows of the other")


def t1_sensitivity(world: World, brought: list[Row], label: str = LABEL) -> int:
    """With answers forced to be equal, a unit on either side moves an answer by no more than its receipt says.

    Returns
    -------
    int
        Neighbours whose change was seen in the hold-out.
    """
    rows = ordinary_rows(UNITS, world.rows_per_unit)
    earlier, made, _, _ = recorded(world, rows, label)
    seen = 0
    for place in (1, 3, 6, 11, 17, 23, 29, 31):
        # Without ids what a row holds puts it on its side, so that every neighbour brings something else.
        here = [{**row, "visited": f"2024-12-{place:02d}"} for row in brought]
        later, made_again = replayed(
            world, neighbours_of(world, rows, here, place, f"somebody {place}"), earlier, label
        )
        for before, after in zip(earlier.answered, later.answered, strict=True):
            change = (before.whole - after.whole).astype(np.float64) * before.receipt.grid
            distance = float(np.linalg.norm(change))
            assert distance <= before.receipt.sensitivity, (
                f"'{before.query}' moved by {distance:.6g}, its receipt says {before.receipt.sensitivity:.6g}"
            )
        held = prediction_of(earlier).whole, prediction_of(later).whole
        seen += int(not np.array_equal(*held))
        assert np.array_equal(made.codes, made_again.codes), "what was made depends on more than the answers"
    return seen


def t2_noise_law(world: World, coordinates: int = 1500, label: str = LABEL) -> None:
    """Noise of the operating system on the hold-out's counts follows the law that the oracle works out."""
    rows = ordinary_rows(UNITS, world.rows_per_unit)
    question = prediction_of(recorded(world, rows, label)[0]).question
    train, held_out = parts(world, rows)
    residuals: list[np.ndarray] = []
    while sum(one.size for one in residuals) < coordinates:
        noisy, silent = (
            start(world, train, noise)
            .holdout_session(held_out, share=0.3)
            .noisy_sum(question, share=1.0, query="q", source="audit")
            for noise in (SystemNoise(), RecordedNoise(None))
        )
        cost = math.sqrt(noisy.receipt.mu_squared_units * accounting.MU_UNIT)
        claimed = oracle.sensitivity(question, world) / cost
        residuals.append((noisy.value - silent.value).reshape(-1) / claimed)
    noises = np.concatenate(residuals)
    assert_law(noises)
    for wrong in (0.7, 1.3):
        with pytest.raises(AssertionError):
            assert_law(noises * wrong)


def t3_metadata(world: World, brought: list[Row], label: str = LABEL) -> None:
    """With answers forced to be equal, receipts and the whole published report are the same to the last byte."""
    rows = ordinary_rows(UNITS, world.rows_per_unit)
    earlier, made, _, _ = recorded(world, rows, label)
    later, made_again = replayed(world, neighbours_of(world, rows, brought, 11), earlier, label)
    assert [one.receipt.to_dict() for one in earlier.answered] == [one.receipt.to_dict() for one in later.answered]
    reports = []
    for measured in (made, made_again):
        told = dataclasses.replace(measured, answers=tuple(one.answer for one in earlier.answered))
        evidence = published_evidence(told.codes, told.answers, config_of(world, label), rows=earlier.rows[-1])
        reports.append(canonical_json(report_document(evidence)))
    assert reports[0] == reports[1], "the published report depends on an outlier"
    assert (b"predictions.accuracy" if label == LABEL else b"predictions.mse") in reports[0]
