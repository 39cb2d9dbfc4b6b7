"""The queue of runs: who is next, who holds a slot, and whose worker is still breathing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, case, func, or_, select, text, update

from synth.errors import JobError
from synth.store.definitions import RUNS
from synth.store.engine import Transactions, patient
from synth.store.moments import now
from synth.store.runs import ACTIVE_STATES, Run, RunState, run_of

__all__ = ["RunQueue"]

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
