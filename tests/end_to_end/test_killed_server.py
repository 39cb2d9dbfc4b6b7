"""The server is killed at random moments of uploads, runs and seals; what another one finds on the same home."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import Server, started_server
from visiting import RUN, SEAL, WAY, Action, Visitor, actions, visitor_of
from walking import CODEBOOK, small_table

from synth.application import Application
from synth.errors import JobError
from synth.store import Run, TableState, WorkState
from synth.system.settings import Settings
from synth.vault.kept_answers import AnswerFile, answers_path

SEED = 20261122
KILLS = 20
CANARY = "canary-7741-cell"
LONGEST = {"upload": 4.0, "run": 16.0, "seal": 0.1}
"""Seconds within which a server is killed after its work has begun: about as long as the work takes."""
UPLOAD_SECONDS = 1.5
ROWS = {"upload": 30_000, "run": 600}
"""More than a mebibyte where the upload is what is killed, which a form parser would write to a file."""

SPENT = {"spent", "released", "failed-spent"}
ENDED = {WorkState.REPORTED, WorkState.RELEASED, WorkState.FAILED, WorkState.PLANNED, WorkState.CANCELLED}

pytestmark = [pytest.mark.audit, pytest.mark.timeout(2400)]


@dataclass(frozen=True)
class Kill:
    """What is at work, how many seconds after its beginning the kill comes, and whether workers die as well."""

    kind: str
    seconds: float
    everything: bool


def kills() -> list[Kill]:
    """Return the kills in order; seals come after runs that may have given something to seal."""
    chance = random.Random(SEED)
    kinds = ["run", "upload", "run", "seal", "upload"] * (KILLS // 5)
    return [Kill(kind, chance.uniform(0, LONGEST[kind]), chance.random() < 0.5) for kind in kinds]


@dataclass
class House:
    """The folder that every server runs in, and what was seen there so far."""

    folder: Path
    visitors: int = 0
    spent: float = 0.0
    charges: dict[str, list[str]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    in_time: Counter[str] = field(default_factory=Counter)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def application(self) -> Application:
        """Open the home without tending it: what goes on there is the server's doing."""
        return Application(Settings(home=self.home, database_url=f"sqlite:///{self.home / 'hermitage.sqlite'}"))

    def new_account(self, kind: str) -> str:
        """Write the files of one more visitor, and return the name of their people."""
        self.visitors += 1
        account = f"people-{self.visitors:02d}"
        table = small_table(self.folder, f"{account}.csv", rows=ROWS[kind])
        table.write_text(table.read_text(encoding="utf-8").replace("made up", CANARY), encoding="utf-8")
        return account


# What visitors do -----------------------------------------------------------------------------------------------------


async def killed(server: Server, kill: Kill, *work: Coroutine[Any, Any, None]) -> bool:
    """Kill a server while visitors are at work; return whether it came before they had finished."""
    tasks = [asyncio.create_task(one) for one in work]
    await asyncio.sleep(kill.seconds)
    in_time = not all(task.done() for task in tasks)
    stop(server, everything=kill.everything)
    await asyncio.gather(*tasks, return_exceptions=True)  # their connections broke
    return in_time


def stop(server: Server, *, everything: bool) -> None:
    """Kill the server, at a stroke with all that it had started, or alone: then its readers end by themselves."""
    process = psutil.Process(server.pid)
    children = [child for child in process.children(recursive=True) if alive(child)]
    # A worker has a session of its own, and goes on without the server.
    readers = [child for child in children if os.getsid(child.pid) != child.pid and child.ppid() == server.pid]
    process.send_signal(signal.SIGKILL)
    for child in children if everything else ():
        with suppress(psutil.NoSuchProcess):
            child.send_signal(signal.SIGKILL)
    eventually(lambda: not any(alive(reader) for reader in readers), "a process that read a table outlives its server")


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def do(visitor: Visitor, house: House, lines: list[Action]) -> None:
    for line in lines:
        await visitor.perform(line, house.folder)


async def upload(server: Server, house: House, kill: Kill) -> bool:
    way = actions(WAY, house.new_account("upload"))
    (place,) = (number for number, line in enumerate(way) if line.words.startswith("Table ="))
    async with visitor_of(server.port) as visitor:
        await do(visitor, house, way[:place])
        visitor.upload_seconds = UPLOAD_SECONDS
        return await killed(server, kill, do(visitor, house, way[place : place + 1]))


async def run(server: Server, house: House, kill: Kill) -> bool:
    """Start two runs, of which one waits for the other, and kill the server meanwhile."""
    async with visitor_of(server.port) as first, visitor_of(server.port) as second:
        both = [(visitor, house.new_account("run")) for visitor in (first, second)]
        await asyncio.gather(*(do(visitor, house, actions(WAY, account)) for visitor, account in both))
        following = actions(RUN)[:3]
        return await killed(server, kill, *(do(visitor, house, following) for visitor, _ in both))


async def seal(server: Server, house: House, kill: Kill) -> bool:
    async with visitor_of(server.port) as visitor:
        await visitor.rerun()
        with house.application() as application:
            reported = [found for found in application.store.runs.all() if found.state is WorkState.REPORTED]
            if not reported:  # every run so far was killed before it gave anything
                await do(visitor, house, actions(WAY, house.new_account("run")) + actions(RUN)[:3])
                reported = [found for found in application.store.runs.all() if found.state is WorkState.REPORTED]
        visitor.query = f"run={reported[0].id}"
        await visitor.rerun(page=visitor.pages["6 Release"])
        lines = actions(SEAL)
        await do(visitor, house, lines[:-1])
        return await killed(server, kill, do(visitor, house, lines[-1:]))


KINDS = {"upload": upload, "run": run, "seal": seal}


# What is looked at ----------------------------------------------------------------------------------------------------


def eventually(condition: Callable[[], bool], words: str) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(words)


def clear_bytes(house: House) -> str:
    # In a process of its own: reading a database's file in this one would drop SQLite's locks on it.
    places = [str(house.home), str(house.folder / "tmp")]
    return subprocess.run(["grep", "-rlaF", CANARY, *places], capture_output=True, text=True, check=False).stdout


def answered(house: House, application: Application, run_id: str) -> bool:
    """Whether a run's kept answers hold one: noise was drawn for it."""
    copy = house.folder / "copied-answers"
    try:
        shutil.copyfile(answers_path(house.home, run_id), copy)
        with AnswerFile(copy, key=application.keys.answers_key(run_id), run_id=run_id) as answers:
            answers.go_on()
            return answers.remaining > 0
    except (FileNotFoundError, JobError):
        return False  # gone, since the run has ended, or not begun
    finally:
        copy.unlink(missing_ok=True)


def look_at_once(house: House) -> None:
    """Look at what the kill left, before anybody tidies up."""
    assert clear_bytes(house) == ""
    with house.application() as application:
        for found in application.store.runs.all():
            if answered(house, application, found.id):
                house.answered.add(found.id)
                states = {charge.state.value for charge in application.ledger.charges_of(found.id)}
                assert states & SPENT, "an answer was given before its charge was spent"


def look_after_a_start(house: House) -> None:
    """Look at what the next server has made of it, with nobody on any page."""
    with house.application() as application:
        store = application.store
        eventually(lambda: not (store.work.active() or store.work.waiting()), "the queue does not go on")
        application.ledger.heads()
        charges: dict[str, list[str]] = {}
        spent = 0.0
        for account in store.accounts.all():
            application.vault.check_ledger(account.id)
            spent += application.account(account.name).epsilon_spent
        runs = store.runs.all()
        for found in runs:
            charges[found.id] = [charge.state.value for charge in application.ledger.charges_of(found.id)]
        assert {found.id for found in house.runs} <= {found.id for found in runs}, "a run is gone"
        assert {run_id for run_id, states in house.charges.items() if SPENT & set(states)} <= {
            run_id for run_id, states in charges.items() if SPENT & set(states)
        }, "a charge is gone"
        assert spent >= house.spent - 1e-9, "less is spent than before"
        for found in runs:
            of_run = charges[found.id]
            assert found.state in ENDED, found
            assert len(of_run) == 1 or (found.state is WorkState.PLANNED and of_run == []), (found, of_run)
            if found.state in {WorkState.REPORTED, WorkState.RELEASED} or found.id in house.answered:
                assert of_run[0] in SPENT, (found, of_run)
            if found.state is WorkState.RELEASED:
                assert of_run == ["released"], found
                assert len(application.bundle(found.id)) > 0
            assert not answers_path(house.home, found.id).exists(), "answers are kept of a run that has ended"
        stored = set()
        for account in store.accounts.all():
            for table in store.tables.of_account(account.id):
                if table.state is not TableState.STORED:
                    continue
                stored.add(table.id)
                with application.vault.open(table.id) as stream:
                    assert stream.read() == (house.folder / table.name).read_bytes(), "a half table is listed"
        eventually(
            lambda: {path.stem for path in (house.home / "vault").glob("*.table")} == stored, "files without a row"
        )
        house.runs, house.charges, house.spent = runs, charges, spent
    for place in (house.home / "incoming", house.folder / "tmp"):
        assert sorted(place.glob("*")) == []  # which is empty as well where nobody has made the folder yet
    # While a run is tried out nothing is swept there; then the server's next round does it.
    eventually(lambda: not list((house.home / "trials").glob("*")), "a trial that was killed is not swept")


def test_a_killed_server_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    house = House(tmp_path)
    (tmp_path / "codebook.yaml").write_text(CODEBOOK.format(account="people"), encoding="utf-8")
    done = []
    for kill in kills():
        with started_server(tmp_path) as server:
            look_after_a_start(house)
            house.in_time[kill.kind] += asyncio.run(KINDS[kill.kind](server, house, kill))
        done.append(kill)
        look_at_once(house)
    with started_server(tmp_path) as server:
        look_after_a_start(house)
        asyncio.run(whole_way(server, house))
    assert clear_bytes(house) == ""
    with capsys.disabled():
        kinds = ", ".join(
            f"{number} of {kind}s ({house.in_time[kind]} before the work was done)"
            for kind, number in Counter(kill.kind for kill in done).items()
        )
        everything = sum(kill.everything for kill in done)
        states = Counter(found.state.value for found in house.runs)
        went_on = sum(found.attempts > 1 for found in house.runs)
        ended = ", ".join(f"{number} {state}" for state, number in states.items())
        sys.stdout.write(
            f"\n{len(done)} kills (seed {SEED}): {kinds}; {everything} took the workers with them; nothing lost, "
            f"nothing under-counted: {len(house.runs)} runs ({ended}; {went_on} went on from their answers), epsilon "
            f"{house.spent:.3g} spent\n"
        )


async def whole_way(server: Server, house: House) -> None:
    async with visitor_of(server.port) as visitor:
        await do(visitor, house, actions(WAY, house.new_account("run")) + actions(RUN))
