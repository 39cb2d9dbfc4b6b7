"""Layer K: what goes on after its process was lost hears what was heard, asks only what is left, and pays for all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from askers import asker
from transcripts import SUMS, TappedNoise, values_of
from worlds import World, ordinary_rows

from synth.errors import JobError
from synth.jobs import engine
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import of_kind
from synth.privacy.feature_maps import Constant
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.receipt import Receipt
from synth.privacy.selection import Selection
from synth.privacy.session import PrivateSession
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Store
from synth.system.machine import this_host
from synth.system.settings import Settings
from synth.vault import kept_answers
from synth.vault.kept_answers import AnswerFile, answers_path

KEY = bytes(32)
RUN = "0a4b3d55-7a0e-4d34-a1f5-2a4d6f4c8e01"
LITTLE = 1e-3


class Heard:
    """One run's session, the part of it that its generator was given, and what it heard."""

    def __init__(self, name: str, world: World, file: AnswerFile, key: int) -> None:
        self.noise = TappedNoise(key)
        table = world.table(ordinary_rows(30, world.rows_per_unit))
        self.session = PrivateSession(table, world.budget, noise=self.noise, kept=file)
        ask = asker(name, world.schema)
        if not world.schema.rows_are_public:
            self.session.count_rows(share=0.05)
        self.part = self.session.sub_session(self.session.remaining_share)
        ask(self.part)

    @property
    def answers(self) -> list[tuple[Receipt, Any]]:
        """Every receipt with its answer as bytes, in the order of the questions."""
        answers = self.session.answers
        sums = {one.receipts[0].sequence: values_of(one).tobytes() for one in answers if isinstance(one, SUMS)}
        choices = {one.receipt.sequence: one.index for one in of_kind(answers, Selection)}
        return [(receipt, (sums | choices)[receipt.sequence]) for receipt in self.session.receipts]

    @property
    def drawn(self) -> int:
        """How often noise was drawn."""
        return len(self.noise.draws) + len(self.noise.scores)

    def needed(self, kept: int = 0) -> int:
        """How often noise is drawn for the answers behind those that are kept: for each, or for each of its steps."""
        answers = self.session.answers[kept:]
        return sum(one.question.steps if isinstance(one, NoisySteps) else 1 for one in answers)


def opened(path: Path, run_id: str = RUN) -> AnswerFile:
    return AnswerFile(path, key=KEY, run_id=run_id)


def begun(path: Path, run_id: str = RUN) -> AnswerFile:
    file = opened(path, run_id)
    file.begin({})
    return file


def going_on(name: str, world: World, folder: Path) -> None:
    """Stop a run after none, some and all of its answers, and let another go on from each place."""
    path = folder / f"{uuid4()}"
    with begun(path) as file:
        first = Heard(name, world, file, key=1)
        ends = [*file._places, file._end]
    assert first.drawn == first.needed()
    whole = path.read_bytes()
    for kept in sorted({0, 1, len(ends) // 2, len(ends) - 1}):
        path.write_bytes(whole[: ends[kept]])
        with opened(path) as file:
            file.go_on()
            second = Heard(name, world, file, key=2)
            file.require_all_repeated()
        assert second.answers[:kept] == first.answers[:kept], "an answer that was heard is heard otherwise"
        assert second.drawn == second.needed(kept), "a question was asked again"
        assert first.part.remaining_share <= LITTLE
        assert 0 <= second.part.remaining_share <= LITTLE, "what was repeated has to cost what it did"
        paid = sum(receipt.mu_squared_units for receipt in second.session.receipts)
        assert paid <= world.budget.units


def kept_before_heard(world: World, folder: Path) -> None:
    """Look at the file at the moment when an answer is handed on."""
    path = folder / f"{uuid4()}"
    with begun(path) as file:
        session = PrivateSession(world.table(ordinary_rows(30, 1)), world.budget, noise=TappedNoise(1), kept=file)
        before = path.stat().st_size
        session.noisy_sum(Constant(), share=0.5, query="first", source="test")
        at_that_moment = path.read_bytes()
    assert len(at_that_moment) > before, "an answer was heard that is not kept"
    path.write_bytes(at_that_moment)
    with opened(path) as file:
        file.go_on()
        assert file.remaining == 1


def only_in_order(world: World, folder: Path) -> None:
    """Ask something else first: it is refused, and nothing is drawn."""
    path = folder / f"{uuid4()}"
    table = world.table(ordinary_rows(30, 1))
    with begun(path) as file:
        session = PrivateSession(table, world.budget, noise=TappedNoise(1), kept=file)
        for query in ("first", "second"):
            session.noisy_sum(Constant(), share=0.3, query=query, source="test")
    for query, share in (("second", 0.3), ("third", 0.3), ("first", 0.4)):
        with opened(path) as file:
            file.go_on()
            noise = TappedNoise(2)
            session = PrivateSession(table, world.budget, noise=noise, kept=file)
            with pytest.raises(JobError):
                session.noisy_sum(Constant(), share=share, query=query, source="test")
            assert not noise.draws


def own_answers_alone(world: World, folder: Path) -> None:
    """Offer the answers of another run, and answers in another order."""
    path = folder / f"{uuid4()}"
    with begun(path) as file:
        Heard("independent", world, file, key=1)
    with pytest.raises(JobError), opened(path, str(uuid4())) as file:
        file.go_on()


def torn_records(world: World, folder: Path) -> None:
    """Cut the last record at many places: it is dropped, and what is whole stays."""
    path = folder / f"{uuid4()}"
    with begun(path) as file:
        Heard("independent", world, file, key=1)
        ends = [*file._places, file._end]
    whole = path.read_bytes()
    for size in range(ends[-2] + 1, ends[-1], 97):
        path.write_bytes(whole[:size])
        with opened(path) as file:
            file.go_on()
            assert file.remaining == len(ends) - 2
        assert path.stat().st_size == ends[-2]


def one_at_a_time(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Open the file of a worker that lives."""
    patch.setattr(kept_answers, "LOCK_SECONDS", 0.1)
    path = folder / f"{uuid4()}"
    with begun(path), pytest.raises(JobError):
        opened(path)


def few_attempts(folder: Path) -> None:
    """Lose one worker after the other."""
    home = folder / f"{uuid4()}"
    with Store(Settings(home=home, database_url=f"sqlite:///{home / 'h.sqlite'}")) as store:
        ledger = Ledger(store)
        account, _ = store.accounts.ensure("town", Neighbours.REPLACE, PrivacyUnit())
        run = store.runs.add(account_id=account.id, config=json.dumps({}), owner="owner")
        budget = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)
        ledger.spend(ledger.reserve(account.id, run.id, budget, purpose="run"))
        path = answers_path(home, run.id)
        path.parent.mkdir(parents=True)
        begun(path, run.id).close()
        store.work.put(run.id, gpus=0, cpus=0)
        given = 0
        while store.work.take(host=this_host(), slots=1, gpus=()) is not None:
            given += 1
            store.work.claim(run.id, host=this_host(), pid=os.getpid(), pid_created=1.0)
            assert given <= 3, "a run is given workers without end"
            if not engine.put_back(store, store.runs[run.id], same_device=False):
                break
        assert given == 3


def every_layer(name: str, world: World, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """Return all of them by name, the cheap ones first."""
    return {
        "K kept before heard": lambda: kept_before_heard(world, folder),
        "K order": lambda: only_in_order(world, folder),
        "K own answers": lambda: own_answers_alone(world, folder),
        "K torn records": lambda: torn_records(world, folder),
        "K one worker": lambda: one_at_a_time(folder, patch),
        "K attempts": lambda: few_attempts(folder),
        "K going on": lambda: going_on(name, world, folder),
    }
