"""Runs: what was asked, how far it has come, and how it ended. The row is the only truth about a job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, case, func, insert, or_, select, text, update

from synth.errors import JobError
from synth.store.engine import Transactions, patient
from synth.store.layout import RUNS, now

__all__ = ["ACTIVE_STATES", "FINISHED_STATES", "Run", "RunQueue", "RunState", "Runs", "run_of"]


class RunState(StrEnum):
    """How far a run has come."""

    PLANNED = "planned"
    QUEUED = "queued"
    RUNNING = "running"
    MEASURED = "measured"
    REPORTED = "reported"
    RELEASED = "released"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_STATES = (RunState.RUNNING, RunState.MEASURED)
"""States in which a process works on the run."""

FINISHED_STATES = (RunState.REPORTED, RunState.RELEASED, RunState.FAILED, RunState.CANCELLED)
"""States in which no process works on the run, and none will."""

SOURCES: Mapping[RunState, tuple[RunState, ...]] = MappingProxyType(
    {
        RunState.QUEUED: (RunState.PLANNED,),
        RunState.RUNNING: (RunState.PLANNED, RunState.QUEUED),
        RunState.MEASURED: (RunState.RUNNING,),
        RunState.REPORTED: (RunState.RUNNING, RunState.MEASURED),
        RunState.RELEASED: (RunState.REPORTED,),
        RunState.FAILED: (RunState.PLANNED, RunState.QUEUED, *ACTIVE_STATES),
        RunState.CANCELLED: (RunState.PLANNED, RunState.QUEUED, *ACTIVE_STATES),
    }
)
"""States from which each state may be reached; nothing leads back, so no run starts twice.

Only :meth:`synth.store.runs.RunQueue.put_back` takes a run that has not ended back into the queue, to go on.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    ``config`` is the run's configuration as JSON, without paths. ``step`` counts to ``steps``; both are public
    (they follow from the configuration). ``losses`` holds post-processing losses only. ``gpu`` is the device the
    engine handed to the worker, ``device`` what the run used. ``claimed`` turns true when a worker begins, and false
    again when that worker is gone and the run was put back into the queue; ``attempts`` counts its workers.
    ``pid_created`` tells the worker's process from others with its number (:func:`synth.jobs.processes.birth_of`).
    """

    id: str
    account_id: str
    table_id: str | None
    test_table_id: str | None
    owner: str
    config: str
    state: RunState
    phase: str
    step: int
    steps: int
    losses: tuple[float, ...]
    message: str
    incident_id: str | None
    cancel_requested: datetime | None
    gpus: int
    cpus: int
    place: int | None
    host: str | None
    pid: int | None
    pid_created: float | None
    claimed: bool
    attempts: int
    heartbeat: datetime | None
    gpu: str | None
    device: str | None
    created: datetime
    started: datetime | None
    finished: datetime | None

    @property
    def is_active(self) -> bool:
        """Whether a process works on it."""
        return self.state in ACTIVE_STATES

    @property
    def went_on(self) -> bool:
        """Whether it goes on, or went on, after a worker of it had stopped."""
        return self.attempts > 1

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.state in FINISHED_STATES


class Runs:
    """The rows of ``runs``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def add(
        self,
        *,
        account_id: str,
        config: str,
        owner: str,
        table_id: str | None = None,
        test_table_id: str | None = None,
    ) -> Run:
        """Plan a run; nothing happens until it is handed to an engine or claimed by a worker."""
        values = _new(account_id=account_id, config=config, owner=owner, state=RunState.PLANNED)
        values |= {"table_id": table_id, "test_table_id": test_table_id}
        with self._transactions.writing() as connection:
            connection.execute(insert(RUNS).values(**values))
        return run_of(values)

    def enter(self, connection: Connection, *, account_id: str, config: str, owner: str) -> Run:
        """Record a run that ended as a release before this database knew of it, inside the caller's transaction."""
        values = _new(account_id=account_id, config=config, owner=owner, state=RunState.RELEASED)
        values |= {"message": "Entered from its certificate.", "claimed": True, "attempts": 1, "finished": now()}
        connection.execute(insert(RUNS).values(**values))
        return run_of(values)

    @patient
    def find(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        with self._transactions.reading() as connection:
            row = connection.execute(select(RUNS).where(RUNS.c.id == run_id)).mappings().one_or_none()
        return None if row is None else run_of(row)

    def __getitem__(self, run_id: str) -> Run:
        run = self.find(run_id)
        if run is None:
            raise JobError("There is no such run. Choose one from the list of runs.")
        return run

    def all(self) -> tuple[Run, ...]:
        """Return every run, oldest first."""
        return self._where()

    def of_account(self, account_id: str) -> tuple[Run, ...]:
        """Return the account's runs, oldest first."""
        return self._where(RUNS.c.account_id == account_id)

    def configs(self, connection: Connection, account_id: str) -> dict[str, str]:
        """Return the configuration of every run of an account, by id, inside the caller's transaction."""
        query = select(RUNS.c.id, RUNS.c.config).where(RUNS.c.account_id == account_id)
        return {run_id: config for run_id, config in connection.execute(query)}

    def of_owner(self, owner: str) -> tuple[Run, ...]:
        """Return one person's runs, oldest first."""
        return self._where(RUNS.c.owner == owner)

    def in_states(self, states: Iterable[RunState]) -> tuple[Run, ...]:
        """Return the runs in any of these states, oldest first."""
        return self._where(RUNS.c.state.in_([state.value for state in states]))

    def needing_table(self, table_id: str) -> tuple[Run, ...]:
        """Return the unfinished runs that read this table."""
        unfinished = [state.value for state in RunState if state not in FINISHED_STATES]
        uses = or_(RUNS.c.table_id == table_id, RUNS.c.test_table_id == table_id)
        return self._where(uses, RUNS.c.state.in_(unfinished))

    @patient
    def _where(self, *conditions: Any) -> tuple[Run, ...]:
        query = select(RUNS).where(*conditions).order_by(RUNS.c.created, RUNS.c.id)
        with self._transactions.reading() as connection:
            return tuple(run_of(row) for row in connection.execute(query).mappings())

    @patient
    def move(
        self,
        run_id: str,
        state: RunState,
        *,
        message: str = "",
        incident_id: str | None = None,
        only_from: Sequence[RunState] | None = None,
    ) -> bool:
        """Bring a run to a state, if it may go there from where it is; return whether it moved.

        Parameters
        ----------
        run_id : str
        state : RunState
        message : str
            One sentence for the owner; never the text of a foreign exception.
        incident_id : str, optional
        only_from : sequence of RunState, optional
            Move only from these states; by default from every state that may lead to ``state``.
        """
        sources = SOURCES[state] if only_from is None else [s for s in only_from if s in SOURCES[state]]
        values: dict[str, Any] = {"state": state.value, "message": message}
        if incident_id is not None:
            values["incident_id"] = incident_id
        if state in FINISHED_STATES:
            values["finished"] = now()
        with self._transactions.writing() as connection:
            moved = connection.execute(
                update(RUNS).where(RUNS.c.id == run_id, RUNS.c.state.in_([s.value for s in sources])).values(**values)
            )
            return moved.rowcount == 1

    def advance(self, run_id: str, state: RunState, *, message: str = "") -> None:
        """Bring a run to a state, as the worker that holds it.

        Raises
        ------
        JobError
            If the run was stopped meanwhile, so that the worker stops too.
        """
        if not self.move(run_id, state, message=message):
            raise JobError(f"The run is {self[run_id].state} and cannot become {state}.")

    def note_device(self, run_id: str, device: str) -> None:
        """Record what the run computes on: ``cpu`` or ``cuda``."""
        self._change(run_id, device=device)

    def note_tables(self, run_id: str, *, table_id: str | None, test_table_id: str | None) -> None:
        """Record which stored tables the run reads."""
        self._change(run_id, table_id=table_id, test_table_id=test_table_id)

    def note_progress(self, run_id: str, *, phase: str, step: int, steps: int, losses: Sequence[float]) -> bool:
        """Record how far the run is; return whether its worker should go on (False: cancelled or taken away).

        A database that is away is not waited for: the work goes on meanwhile.
        """
        with self._transactions.writing(wait=False) as connection:
            connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run_id, RUNS.c.state.in_([state.value for state in ACTIVE_STATES]))
                .values(phase=phase, step=step, steps=steps, losses=json.dumps(list(losses)), heartbeat=now())
            )
            row = connection.execute(select(RUNS).where(RUNS.c.id == run_id)).mappings().one_or_none()
        return row is not None and run_of(row).is_active and row["cancel_requested"] is None

    @patient
    def request_cancel(self, run_id: str) -> Run:
        """Ask the run's worker to stop at its next step."""
        with self._transactions.writing() as connection:
            connection.execute(
                update(RUNS)
                .where(
                    RUNS.c.id == run_id,
                    RUNS.c.state.in_([state.value for state in ACTIVE_STATES]),
                    RUNS.c.cancel_requested.is_(None),
                )
                .values(cancel_requested=now())
            )
        return self[run_id]

    @patient
    def _change(self, run_id: str, /, **values: Any) -> None:
        with self._transactions.writing() as connection:
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**values))


def _new(*, account_id: str, config: str, owner: str, state: RunState) -> dict[str, Any]:
    """Return a run that nobody has worked on, as a database row."""
    return dict.fromkeys(Run.__slots__) | {
        "id": str(uuid4()),
        "account_id": account_id,
        "owner": owner,
        "config": config,
        "state": state.value,
        "phase": "",
        "step": 0,
        "steps": 0,
        "losses": "[]",
        "message": "",
        "gpus": 0,
        "cpus": 0,
        "claimed": False,
        "attempts": 0,
        "created": now(),
    }


def run_of(row: RowMapping | Mapping[str, Any]) -> Run:
    """Build a run from a database row."""
    values = dict(row)
    values["state"] = RunState(values["state"])
    values["losses"] = tuple(json.loads(values["losses"]))
    return Run(**values)


# The queue of runs ----------------------------------------------------------------------------------------------------


QUEUE_LOCK = 0x51554555
"""Key of the PostgreSQL advisory lock under which slots are handed out one at a time; SQLite has one writer anyway."""

ACTIVE = [state.value for state in ACTIVE_STATES]
OF_A_WORKER = ("pid", "pid_created", "gpu", "heartbeat", "started")


class RunQueue:
    """Hands each queued run to one worker, and to another only when that one is gone and the run was put back."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def put(self, run_id: str, *, gpus: int, cpus: int) -> None:
        """Append a planned run to the queue.

        Raises
        ------
        JobError
            If the run was already handed in.
        """
        with self._transactions.writing() as connection:
            _lock(connection)
            last = connection.execute(select(func.coalesce(func.max(RUNS.c.place), 0))).scalar_one()
            moved = connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run_id, RUNS.c.state == RunState.PLANNED.value)
                .values(state=RunState.QUEUED.value, place=last + 1, gpus=gpus, cpus=cpus)
            )
            if moved.rowcount != 1:
                raise JobError("This run was already handed in. Look it up in the list of runs.")

    @patient
    def take(self, *, host: str, slots: int, gpus: Sequence[str]) -> Run | None:
        """Give the first queued run that may start a slot on this machine, and mark it running.

        Parameters
        ----------
        host : str
            Name of this machine; slots are counted per machine. A run that was put back goes on where it began.
        slots : int
            Runs that may work here at once.
        gpus : sequence of str
            This machine's GPUs, lowest first; a run that wants one waits while all are taken.
        """
        with self._transactions.writing() as connection:
            _lock(connection)
            here = [run_of(row) for row in _select(connection, RUNS.c.state.in_(ACTIVE), RUNS.c.host == host)]
            if len(here) >= slots:
                return None
            free = [gpu for gpu in gpus if gpu not in {run.gpu for run in here}]
            for row in _select(connection, RUNS.c.state == RunState.QUEUED.value):
                run = run_of(row)
                if run.host not in (None, host) or (run.gpus and gpus and not free):
                    continue
                gpu = free[0] if run.gpus and free else None
                return _start(connection, run.id, host=host, gpu=gpu)
        return None

    @patient
    def note_process(self, run_id: str, *, pid: int, pid_created: float) -> None:
        """Record the process that was started for a run, unless it has already recorded itself."""
        with self._transactions.writing() as connection:
            connection.execute(
                update(RUNS).where(RUNS.c.id == run_id, RUNS.c.pid.is_(None)).values(pid=pid, pid_created=pid_created)
            )

    @patient
    def claim(self, run_id: str, *, host: str, pid: int, pid_created: float) -> Run:
        """Take a run as its one worker.

        Raises
        ------
        JobError
            If another worker has it, had it, or it was stopped: no run has two workers.
        """
        claimable = or_(
            RUNS.c.state.in_([RunState.PLANNED.value, RunState.QUEUED.value]), RUNS.c.state == RunState.RUNNING.value
        )
        with self._transactions.writing() as connection:
            taken = connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run_id, RUNS.c.claimed.is_(False), claimable)
                .values(
                    state=RunState.RUNNING.value,
                    claimed=True,
                    # Counted when the engine gave it to a worker, where an engine did.
                    attempts=case((RUNS.c.state == RunState.RUNNING.value, RUNS.c.attempts), else_=RUNS.c.attempts + 1),
                    host=host,
                    pid=pid,
                    pid_created=pid_created,
                    heartbeat=now(),
                    started=now(),
                )
            )
            if taken.rowcount != 1:
                raise JobError("This run has already been worked on or was stopped; a run is never executed twice.")
            return run_of(_select(connection, RUNS.c.id == run_id)[0])

    def put_back(self, run: Run, *, gpus: int) -> bool:
        """Put a run whose worker is gone back to its place in the queue; return whether it was still that worker's.

        It keeps its machine, which alone knows that the worker is gone.

        Parameters
        ----------
        run : Run
            As it was when its worker was found to be gone.
        gpus : int
            GPUs that it wants from now on.
        """
        with self._transactions.writing() as connection:
            put = connection.execute(
                update(RUNS)
                .where(
                    RUNS.c.id == run.id,
                    RUNS.c.state.in_(ACTIVE),
                    RUNS.c.attempts == run.attempts,
                    RUNS.c.cancel_requested.is_(None),
                )
                .values(state=RunState.QUEUED.value, claimed=False, gpus=gpus, **dict.fromkeys(OF_A_WORKER))
            )
            return put.rowcount == 1

    def count_attempt(self, run_id: str) -> Run:
        """Count one more attempt of the process that holds a run and goes on with it itself."""
        with self._transactions.writing() as connection:
            connection.execute(
                update(RUNS)
                .where(RUNS.c.id == run_id, RUNS.c.state.in_(ACTIVE))
                .values(state=RunState.RUNNING.value, attempts=RUNS.c.attempts + 1)
            )
            return run_of(_select(connection, RUNS.c.id == run_id)[0])

    def beat(self, run_id: str) -> bool:
        """Renew the worker's lease, without waiting; return whether the run is still its own."""
        with self._transactions.writing(wait=False) as connection:
            renewed = connection.execute(
                update(RUNS).where(RUNS.c.id == run_id, RUNS.c.state.in_(ACTIVE)).values(heartbeat=now())
            )
            return renewed.rowcount == 1

    @patient
    def active(self) -> tuple[Run, ...]:
        """Return the runs that hold a slot on any machine."""
        with self._transactions.reading() as connection:
            return tuple(run_of(row) for row in _select(connection, RUNS.c.state.in_(ACTIVE)))

    @patient
    def waiting(self) -> tuple[Run, ...]:
        """Return the queued runs, next first."""
        with self._transactions.reading() as connection:
            return tuple(run_of(row) for row in _select(connection, RUNS.c.state == RunState.QUEUED.value))


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": QUEUE_LOCK})


def _select(connection: Connection, *conditions: Any) -> Sequence[Any]:
    return connection.execute(select(RUNS).where(*conditions).order_by(RUNS.c.place)).mappings().all()


def _start(connection: Connection, run_id: str, *, host: str, gpu: str | None) -> Run:
    connection.execute(
        update(RUNS)
        .where(RUNS.c.id == run_id)
        .values(
            state=RunState.RUNNING.value,
            host=host,
            gpu=gpu,
            attempts=RUNS.c.attempts + 1,
            started=now(),
            heartbeat=now(),
        )
    )
    return run_of(_select(connection, RUNS.c.id == run_id)[0])
