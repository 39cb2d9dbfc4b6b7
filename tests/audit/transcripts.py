"""Transcripts: every question a generator asks, its noisy answer, and the exact whole numbers behind it.

The session is a black box here. Its noise is known to the test, so the exact numbers are the answer less the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from recorded_noise import RecordedNoise
from worlds import World

from synth.privacy.answers import AnswerSource, NoisyAnswer, RowCount
from synth.privacy.feature_maps import Constant, FeatureMap
from synth.privacy.more.gradients import NoisyGradient, UnitQuestion
from synth.privacy.more.training_steps import NoisySteps, PublicTraining, StepsQuestion
from synth.privacy.receipt import Receipt
from synth.privacy.selection import AnyCandidate, Candidate, Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable

SUMS = (NoisyAnswer, NoisyGradient, NoisySteps)
"""Answers that are whole numbers, plus Gaussian noise."""

Asker = Callable[[AnswerSource], Any]
"""Asks a session everything it wants to know, and returns what it made of the answers."""


class TappedNoise:
    """Known noise that keeps what it drew and the scores it was shown: NOT PRIVATE."""

    private = False

    def __init__(self, key: int | None) -> None:
        self._noise = RecordedNoise(key)
        self.draws: list[np.ndarray] = []
        self.variances: list[int] = []
        self.scores: list[np.ndarray] = []
        self.rates: list[tuple[int, int]] = []
        self.samples: list[tuple[int, int, np.ndarray]] = []
        """Of how many things, at which rate, and which were drawn."""

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        self.draws.append(self._noise.gaussian(variance, size))
        self.variances.append(variance)
        return self.draws[-1].copy()

    def laplace(self, scale: int, size: int) -> np.ndarray:
        raise AssertionError("no question of the session draws Laplace noise")

    def choose(self, scores: np.ndarray, *, numerator: int, denominator: int) -> int:
        self.scores.append(scores.copy())
        self.rates.append((numerator, denominator))
        return self._noise.choose(scores, numerator=numerator, denominator=denominator)

    def sample(self, size: int, *, rate: int) -> np.ndarray:
        self.samples.append((size, rate, self._noise.sample(size, rate=rate)))
        return self.samples[-1][2].copy()


def values_of(answer: NoisyAnswer | NoisyGradient | NoisySteps) -> np.ndarray:
    """All noisy numbers of an answer, in units of the answer; of a training, step after step."""
    if isinstance(answer, NoisySteps):
        return answer.whole.reshape(-1) * answer.receipt.grid
    return answer.value.reshape(-1)


class Told:
    """A training that comes by points which are written down already, whatever the answers are."""

    def __init__(self, points: Sequence[np.ndarray]) -> None:
        self.points, self.taken = points, 0

    def at(self) -> np.ndarray:
        return self.points[self.taken]

    def move(self, step: np.ndarray) -> None:
        self.taken += 1


class Followed:
    """A training whose points are written down; it may be told the answers of an earlier run instead of these."""

    def __init__(self, training: PublicTraining, earlier: NoisySteps | None = None) -> None:
        self.training, self.earlier = training, earlier
        self.points: list[np.ndarray] = []

    @property
    def taken(self) -> int:
        return self.training.taken

    def at(self) -> np.ndarray:
        self.points.append(self.training.at().copy())
        return self.points[-1].copy()

    def move(self, step: np.ndarray) -> None:
        if self.earlier is not None:
            step = self.earlier.whole[self.taken] * self.earlier.receipt.grid
        self.training.move(step)


@dataclass
class Answered:
    """One question as it was asked and answered; ``whole`` are the exact sums or scores in grid steps."""

    question: FeatureMap | UnitQuestion | StepsQuestion | tuple[AnyCandidate, ...]
    share: float
    query: str
    receipt: Receipt
    whole: np.ndarray
    answer: NoisyAnswer | NoisyGradient | NoisySteps | Selection


@dataclass
class Transcript:
    """All answers of one run, in order, and the number of rows it was told."""

    answered: list[Answered] = field(default_factory=list)
    rows: list[RowCount] = field(default_factory=list)


class Recording:
    """An answer source that passes questions on and writes down what came back."""

    def __init__(self, session: PrivateSession, noise: TappedNoise, transcript: Transcript) -> None:
        self.session, self.noise, self.transcript = session, noise, transcript
        self.schema, self.budget, self.neighbours = session.schema, session.budget, session.neighbours

    @property
    def remaining_share(self) -> float:
        return self.session.remaining_share

    @property
    def rows(self) -> RowCount:
        told = self.session.rows
        assert told.public == self.schema.rows_are_public, "the number of rows is told although it is private"
        if not told.public:
            counted = self.transcript.answered[0].answer
            assert told == RowCount(max(float(counted.value[0]), 1.0), counted.noise_std, public=False)
        self.transcript.rows.append(told)
        return self._heard_rows(told)

    def count_rows(self, *, share: float) -> NoisyAnswer:
        return self._sum(Constant(), self.session.count_rows(share=share), share)

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        answer = self.session.noisy_sum(feature_map, share=share, query=query, source=source)
        return self._sum(answer.feature_map, answer, share)

    def noisy_gradient(self, question: UnitQuestion, *, share: float, query: str, source: str) -> NoisyGradient:
        answer = self.session.noisy_gradient(question, share=share, query=query, source=source)
        return self._sum(answer.question, answer, share)

    def noisy_steps(self, question: StepsQuestion, *, share: float, query: str, source: str) -> NoisySteps:
        followed = self._followed(question.training)
        asked, before = replace(question, training=followed), len(self.noise.draws)
        answer = self.session.noisy_steps(asked, share=share, query=query, source=source)
        # The noise of all steps is that of one answer.
        draws, variances = self.noise.draws[before:], set(self.noise.variances[before:])
        assert len(draws) == question.steps, "noise was not drawn for every step"
        assert len(variances) == 1, "steps have different noise"
        self.noise.draws[before:], self.noise.variances[before:] = [np.concatenate(draws)], list(variances)
        return self._sum(replace(asked, training=Told(followed.points)), answer, share)

    def _followed(self, training: PublicTraining) -> Followed:
        return Followed(training)

    def noisy_max(self, candidates: Sequence[AnyCandidate], *, share: float, query: str, source: str) -> Selection:
        chosen = self.session.noisy_max(candidates, share=share, query=query, source=source)
        seen = sum(isinstance(one.answer, Selection) for one in self.transcript.answered)
        assert len(self.noise.scores) == seen + 1, "a choice was made without noise"
        answered = Answered(tuple(candidates), share, query, chosen.receipt, self.noise.scores[-1], chosen)
        self.transcript.answered.append(answered)
        return self._heard(answered)

    def sub_session(self, share: float) -> Recording:
        return type(self)(self.session.sub_session(share), self.noise, self.transcript)

    def _sum(self, question: Any, release: Any, share: float) -> Any:
        steps = values_of(release) / release.receipt.grid
        assert (steps == np.rint(steps)).all(), "an answer is not on its grid"
        draws = self.noise.draws[-1]
        assert draws.size == steps.size, "noise was not drawn for this answer, and only for it"
        whole = steps.astype(np.int64) - draws
        answered = Answered(question, share, release.receipt.query, release.receipt, whole, release)
        self.transcript.answered.append(answered)
        return self._heard(answered)

    def _heard(self, answered: Answered) -> Any:
        return answered.answer

    def _heard_rows(self, rows: RowCount) -> RowCount:
        return rows


class Replaying(Recording):
    """Passes questions on, but answers as an earlier transcript does, after checking that the question is the same."""

    earlier: Transcript

    def sub_session(self, share: float) -> Replaying:
        part = Replaying(self.session.sub_session(share), self.noise, self.transcript)
        part.earlier = self.earlier
        return part

    def _followed(self, training: PublicTraining) -> Followed:
        place = len(self.transcript.answered)
        assert place < len(self.earlier.answered), "a question was asked that depends on more than the answers"
        earlier = self.earlier.answered[place].answer
        assert isinstance(earlier, NoisySteps), f"question {place} depends on more than the answers"
        return Followed(training, earlier)

    def _heard(self, answered: Answered) -> Any:
        place = len(self.transcript.answered) - 1
        assert place < len(self.earlier.answered), "a question was asked that depends on more than the answers"
        before = self.earlier.answered[place]
        assert same_question(before, answered), f"question {place} depends on more than the answers"
        assert before.receipt == answered.receipt, f"the receipt of question {place} depends on the rows"
        return before.answer

    def _heard_rows(self, rows: RowCount) -> RowCount:
        before = self.earlier.rows[len(self.transcript.rows) - 1]
        if before.public:
            assert before == rows, "the number of rows is called public and differs between neighbours"
        return before


def same_question(one: Answered, other: Answered) -> bool:
    if (one.share, one.query) != (other.share, other.query):
        return False
    if isinstance(one.question, tuple):
        return len(one.question) == len(other.question) and all(
            same_candidate(first, second) for first, second in zip(one.question, other.question, strict=True)
        )
    if isinstance(one.question, StepsQuestion):
        if not isinstance(other.question, StepsQuestion):
            return False
        points = [question.training.points for question in (one.question, other.question)]
        same = len(points[0]) == len(points[1]) and all(map(np.array_equal, *points))
        return same and one.question.digest() == other.question.digest()
    if isinstance(one.question, UnitQuestion):
        return isinstance(other.question, UnitQuestion) and one.question.digest() == other.question.digest()
    return one.question.is_same(other.question)


def same_candidate(one: AnyCandidate, other: AnyCandidate) -> bool:
    alike = type(one) is type(other) and one.columns == other.columns and one.one_hot.is_same(other.one_hot)
    if isinstance(one, Candidate) and isinstance(other, Candidate):
        alike &= (one.weight, one.penalty) == (other.weight, other.penalty) and np.array_equal(one.table, other.table)
    return alike


def asked_again(source: Any, question: Any, *, share: float, query: str = "again") -> Any:
    """Ask a session what an earlier one was asked; steps at the points where they were taken."""
    if isinstance(question, StepsQuestion):
        asked = replace(question, training=Told(question.training.points))
        return source.noisy_steps(asked, share=share, query=query, source="audit")
    ask = source.noisy_gradient if isinstance(question, UnitQuestion) else source.noisy_sum
    return ask(question, share=share, query=query, source="audit")


def start(world: World, table: PrivateTable, noise: object, *, device: str = "cpu") -> PrivateSession:
    return PrivateSession(table, world.budget, noise=noise, device=device)


def record(
    ask: Asker, world: World, table: PrivateTable, *, key: int | None = 1, device: str = "cpu"
) -> tuple[Transcript, Any, PrivateSession, TappedNoise]:
    """Run ``ask`` on a table with known noise."""
    noise, transcript = TappedNoise(key), Transcript()
    session = start(world, table, noise, device=device)
    made = run(ask, Recording(session, noise, transcript))
    return transcript, made, session, noise


def replay(
    ask: Asker, world: World, table: PrivateTable, earlier: Transcript, *, device: str = "cpu"
) -> tuple[Transcript, Any]:
    """Run ``ask`` on another table and let it hear the earlier answers."""
    noise, transcript = TappedNoise(2), Transcript()
    source = Replaying(start(world, table, noise, device=device), noise, transcript)
    source.earlier = earlier
    made = run(ask, source)
    assert len(transcript.answered) == len(earlier.answered), "fewer questions were asked of the neighbour"
    return transcript, made


def run(ask: Asker, source: Recording) -> Any:
    """Do what a run does: count rows where that is private, then hand the rest of the budget over."""
    if source.schema.rows_are_public:
        return ask(source)
    source.count_rows(share=0.05)
    return ask(source.sub_session(0.95))
