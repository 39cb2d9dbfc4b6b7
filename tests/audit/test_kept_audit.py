"""Layer K holds for everybody who asks, and finds each bug that is planted in keeping answers and going on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from askers import DESCENT, HAND_MADE, NAMES
from choosing import each_once
from kept_layers import every_layer, going_on
from worlds import WORLDS

from synth.errors import JobError, PrivacyError
from synth.jobs import engine
from synth.privacy.questions import Asked, Numbers
from synth.privacy.session import PrivateSession
from synth.vault import kept_answers
from synth.vault.kept_answers import AnswerFile

Plant = Callable[[pytest.MonkeyPatch], None]
KEPT_FAULTS: dict[str, Plant] = {}


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        KEPT_FAULTS[name] = plant
        return plant

    return keep


@fault("a kept question is asked again with fresh noise")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._answered

    def answered(self: PrivateSession, question: Any, plan: Any, receipts: Any) -> Numbers:
        kept = self._kept.remaining if isinstance(self._kept, AnswerFile) else 0
        answer = right(self, question, plan, receipts)
        return question.draw(plan, self._rows(), self._noise, device="cpu") if kept else answer

    patch.setattr(PrivateSession, "_answered", answered)


@fault("repeated answers are not charged")
def _(patch: pytest.MonkeyPatch) -> None:
    for name in ("noisy_sum", "noisy_max"):
        right = getattr(PrivateSession, name)

        def asked(self: PrivateSession, *arguments: Any, right: Any = right, **named: Any) -> Any:
            before = self._spent_units
            kept = self._kept.remaining if isinstance(self._kept, AnswerFile) else 0
            answer = right(self, *arguments, **named)
            if kept:
                self._spent_units = before
            return answer

        patch.setattr(PrivateSession, name, asked)


@fault("answers of another run are accepted")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AnswerFile, "_context", lambda self, number, piece: b"%d %d" % (number, piece))


@fault("a torn record is used")
def _(patch: pytest.MonkeyPatch) -> None:
    right = AnswerFile._opened

    def opened(self: AnswerFile, number: int, piece: int, place: int, length: int) -> bytes:
        try:
            return right(self, number, piece, place, length)
        except JobError:
            if kept_answers.os.fstat(self._file).st_size > place + length:
                raise
            return bytes(length)

    patch.setattr(AnswerFile, "_opened", opened)
    patch.setattr(
        AnswerFile,
        "_exists",
        lambda self, number, place: kept_answers.os.fstat(self._file).st_size > place,
    )


@fault("two workers at once")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_answers.fcntl, "flock", lambda file, how: None)


@fault("attempts without end")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "MOST_ATTEMPTS", 10**9)


@fault("an answer is heard before it is kept")
def _(patch: pytest.MonkeyPatch) -> None:
    right, waiting = AnswerFile.keep, list[tuple[Asked, Numbers]]()

    def keep(self: AnswerFile, asked: Asked, answer: Numbers) -> None:
        for one in waiting:
            right(self, *one)
        waiting[:] = [(asked, answer)]

    patch.setattr(AnswerFile, "keep", keep)


@fault("another question than the next is asked of the rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = AnswerFile.repeated

    def repeated(self: AnswerFile, asked: Asked) -> Numbers | None:
        try:
            return right(self, asked)
        except JobError:
            self._stopped, self._next = False, len(self._places)
            return None

    patch.setattr(AnswerFile, "repeated", repeated)


@fault("a question is known by its name alone")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Asked, "to_dict", lambda self: {"receipts": [one.query for one in self.receipts], "digest": self.digest}
    )


@fault("the last kept answer is passed over")
def _(patch: pytest.MonkeyPatch) -> None:
    right = AnswerFile.go_on

    def go_on(self: AnswerFile) -> dict[str, str]:
        facts = right(self)
        if self._places:
            self._end = self._places.pop()
            kept_answers.os.ftruncate(self._file, self._end)
        return facts

    patch.setattr(AnswerFile, "go_on", go_on)


@pytest.mark.parametrize(
    ("name", "world"), each_once([HAND_MADE, DESCENT, "independent", "kahm"], WORLDS, others=pytest.mark.audit)
)
def test_whoever_asks_goes_on(name: str, world: str, tmp_path: Path) -> None:
    going_on(name, WORLDS[world], tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [one for one in NAMES if one not in {HAND_MADE, DESCENT, "independent", "kahm"}])
def test_every_other_generator_goes_on(name: str, tmp_path: Path) -> None:
    going_on(name, WORLDS["add or remove"], tmp_path)


def noticed_by(folder: Path, patch: pytest.MonkeyPatch) -> str | None:
    for layer, check in every_layer(HAND_MADE, WORLDS["replace one"], folder, patch).items():
        try:
            check()
        except (AssertionError, PrivacyError, JobError, pytest.fail.Exception):
            return layer
    return None


@pytest.mark.four_cases
@pytest.mark.parametrize("planted", KEPT_FAULTS)
def test_a_planted_bug_in_going_on_is_noticed(
    planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    KEPT_FAULTS[planted](monkeypatch)
    layer = noticed_by(tmp_path, monkeypatch)
    record_property("layer", layer)
    assert layer is not None, f"nobody notices: {planted}"


def test_nothing_is_noticed_without_a_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert noticed_by(tmp_path, monkeypatch) is None
