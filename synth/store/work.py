"""Background work of every kind in one table: what was asked, who does it, how far it has come, and how it ended.

A row is the only truth about a piece of work. It holds no number that the work finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    Select,
    String,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from synth.errors import JobError
from synth.store.engine import Transactions, patient
from synth.store.layout import IDENTITY, METADATA, Json, Moment, Named, now, row_values

__all__ = [
    "ACTIVE_STATES",
    "FINISHED_STATES",
    "SOURCES",
    "Work",
    "WorkKind",
    "WorkState",
    "WorkTable",
]


class WorkKind(StrEnum):
    """What is worked on; the subject of the work says which."""

    RUN = "run"
    """The run of that id; it waits for a place, and its charge follows how it ends."""

    REHEARSAL = "rehearsal"
    """A configuration on rows that are nobody's, by its digest."""

    GRID = "grid"
    """Several of those, by the digest of what they share."""

    REPORT = "report"
    """A part of an owner's report, by the run's id and the part's name."""

    ESTIMATE = "estimate"
    """Numbers of the population from a finished run, by the run's id; from its bundle alone."""

    FINDING = "finding"
    """What is found privately of the open columns of a table, by the table's id; charged under the work's own id."""

    @property
    def is_charged(self) -> bool:
        """Whether a charge of the ledger bears the id of such work, and follows how it ends."""
        return self in (WorkKind.RUN, WorkKind.FINDING)


class WorkState(StrEnum):
    """How far work has come; what is not a run is never planned, measured or released, and does not wait."""

    PLANNED = "planned"
    QUEUED = "queued"
    RUNNING = "running"
    MEASURED = "measured"
    REPORTED = "reported"
    RELEASED = "released"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_STATES = (WorkState.RUNNING, WorkState.MEASURED)
"""States in which a process is at work."""

FINISHED_STATES = (WorkState.REPORTED, WorkState.RELEASED, WorkState.FAILED, WorkState.CANCELLED)
"""States in which no process is at work, and none will be."""

SOURCES: Mapping[WorkState, tuple[WorkState, ...]] = MappingProxyType(
    {
        WorkState.QUEUED: (WorkState.PLANNED,),
        WorkState.RUNNING: (WorkState.PLANNED, WorkState.QUEUED),
        WorkState.MEASURED: (WorkState.RUNNING,),
        WorkState.REPORTED: (WorkState.RUNNING, WorkState.MEASURED),
        WorkState.RELEASED: (WorkState.REPORTED,),
        WorkState.FAILED: (WorkState.PLANNED, WorkState.QUEUED, *ACTIVE_STATES),
        WorkState.CANCELLED: (WorkState.PLANNED, WorkState.QUEUED, *ACTIVE_STATES),
    }
)
"""States from which each state may be reached; nothing leads back, so nothing starts twice.

Only :meth:`WorkTable.put_back` takes a run that has not ended back into the queue, to go on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One piece of work.

    ``asked`` is what it was started with, as JSON; what a run is asked stands in its configuration. ``owner`` asked for
    it. ``step`` counts to ``steps``; both follow from what was asked alone. ``losses`` holds post-processing losses
    only. ``gpu`` is the device that the engine handed to the worker. ``claimed`` turns true when a worker begins, and
    false again when that worker is gone and a run was put back into the queue; ``attempts`` counts the workers.
    ``pid_created`` tells the worker's process from others with its number (:func:`synth.jobs.processes.birth_of`).
    """

    id: str
    kind: WorkKind
    subject: str
    asked: str | None = None
    owner: str
    state: WorkState
    phase: str = ""
    step: int = 0
    steps: int = 0
    losses: tuple[float, ...] = ()
    message: str = ""
    incident_id: str | None = None
    cancel_requested: datetime | None = None
    gpus: int = 0
    cpus: int = 0
    place: int | None = None
    host: str | None = None
    pid: int | None = None
    pid_created: float | None = None
    claimed: bool = False
    attempts: int = 0
    heartbeat: datetime | None = None
    gpu: str | None = None
    created: datetime
    started: datetime | None = None
    finished: datetime | None = None

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


WORK = Table(
    "work",
    METADATA,
    # That of the run, where it is one; else a new one each time that the work is started.
    Column("id", IDENTITY, primary_key=True),
    Column("kind", Named(WorkKind, 10), nullable=False),
    Column("subject", String(120), nullable=False),
    Column("asked", Text),
    Column("owner", String(120), nullable=False),
    Column("state", Named(WorkState, 10), nullable=False, index=True),
    Column("phase", Text, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("losses", Json, nullable=False),
    Column("message", Text, nullable=False),
    Column("incident_id", String(16)),
    Column("cancel_requested", Moment),
    Column("gpus", Integer, nullable=False),
    Column("cpus", Integer, nullable=False),
    Column("place", BigInteger),
    Column("host", Text),
    Column("pid", BigInteger),
    Column("pid_created", Double),
    Column("claimed", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("heartbeat", Moment),
    Column("gpu", Text),
    Column("created", Moment, nullable=False),
    Column("started", Moment),
    Column("finished", Moment),
    # Of several processes that start the same work at once, one does.
    Index("ix_work_subject", "kind", "subject", unique=True),
)

QUEUE_LOCK = 0x51554555
"""Key of the PostgreSQL advisory lock under which slots are handed out one at a time; SQLite has one writer anyway."""

OF_A_WORKER = ("pid", "pid_created", "gpu", "heartbeat", "started")


class WorkTable:
    """The rows of ``work``: each is given to one worker, and to another only when that one is gone.

    Runs wait in a queue; everything else begins at once, once for each subject.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def find(self, work_id: str) -> Work | None:
        """Return work, or None where there is none of this id, or it was begun anew."""
        return next(iter(self._where(WORK.c.id == work_id)), None)

    def __getitem__(self, work_id: str) -> Work:
        work = self.find(work_id)
        if work is None:
            raise JobError("There is no such work, or it was started anew.")
        return work

    def about(self, kind: WorkKind, subject: str) -> Work | None:
        """Return the latest work of a kind on a subject, or None."""
        return next(iter(self._where(WORK.c.kind == kind, WORK.c.subject == subject)), None)

    def active(self) -> tuple[Work, ...]:
        """Return what processes work on, on any machine."""
        return self._where(WORK.c.state.in_(ACTIVE_STATES))

    def waiting(self) -> tuple[Work, ...]:
        """Return the queued runs, next first."""
        return self._where(WORK.c.state == WorkState.QUEUED)

    def _where(self, *conditions: ColumnElement[bool]) -> tuple[Work, ...]:
        return self._transactions.read(_query(conditions), Work)

    # Beginning ------------------------------------------------------------------------------------------------------

    @patient
    def begin(
        self, kind: WorkKind, subject: str, *, asked: str, owner: str, host: str, work_id: str | None = None
    ) -> Work:
        """Record work that begins at once, in place of what ended about this subject, under a new id or a given one.

        Raises
        ------
        JobError
            If there is work of this kind on it that has not ended: of several who ask at once one is heard.
        """
        work = Work(
            id=str(uuid4()) if work_id is None else work_id,
            kind=kind,
            subject=subject,
            asked=asked,
            owner=owner,
            state=WorkState.RUNNING,
            host=host,
            attempts=1,
            created=now(),
            started=now(),
            heartbeat=now(),
        )
        with self._transactions.writing() as connection:
            connection.execute(
                delete(WORK).where(WORK.c.kind == kind, WORK.c.subject == subject, WORK.c.state.in_(FINISHED_STATES))
            )
            try:
                connection.execute(insert(WORK).values(**row_values(work)))
            except IntegrityError:
                raise JobError("This is being worked on already. Wait for it, or stop it first.") from None
        return work

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
            last = connection.execute(select(func.coalesce(func.max(WORK.c.place), 0))).scalar_one()
            moved = connection.execute(
                update(WORK)
                .where(WORK.c.id == run_id, WORK.c.state == WorkState.PLANNED)
                .values(state=WorkState.QUEUED, place=last + 1, gpus=gpus, cpus=cpus)
            )
            if moved.rowcount != 1:
                raise JobError("This run was already handed in. Look it up in the list of runs.")

    @patient
    def take(self, *, host: str, slots: int, gpus: Sequence[str]) -> Work | None:
        """Give the first queued run that may start a slot on this machine, and mark it running.

        Parameters
        ----------
        host : str
            Name of this machine; slots are counted per machine. A run that was put back goes on where it began.
        slots : int
            Runs that may work here at once; other work takes no slot.
        gpus : sequence of str
            This machine's GPUs, lowest first; a run that wants one waits while all are taken.
        """
        with self._transactions.writing() as connection:
            _lock(connection)
            is_run = WORK.c.kind == WorkKind.RUN
            here = _select(connection, is_run, WORK.c.state.in_(ACTIVE_STATES), WORK.c.host == host)
            if len(here) >= slots:
                return None
            free = [gpu for gpu in gpus if gpu not in {run.gpu for run in here}]
            for run in _select(connection, WORK.c.state == WorkState.QUEUED):
                if run.host not in (None, host) or (run.gpus and gpus and not free):
                    continue
                return _changed(
                    connection,
                    WORK.c.id == run.id,
                    state=WorkState.RUNNING,
                    host=host,
                    gpu=free[0] if run.gpus and free else None,
                    attempts=WORK.c.attempts + 1,
                    started=now(),
                    heartbeat=now(),
                )
        return None

    @patient
    def note_process(self, work_id: str, *, pid: int, pid_created: float) -> None:
        """Record the process that was started for some work, unless it has already recorded itself."""
        self._change(WORK.c.id == work_id, WORK.c.pid.is_(None), pid=pid, pid_created=pid_created)

    @patient
    def claim(self, work_id: str, *, host: str, pid: int, pid_created: float) -> Work:
        """Take work as its one worker.

        Raises
        ------
        JobError
            If another worker has it, had it, or it was stopped: nothing has two workers.
        """
        claimable = WORK.c.state.in_([WorkState.PLANNED, WorkState.QUEUED, WorkState.RUNNING])
        with self._transactions.writing() as connection:
            taken = _changed(
                connection,
                WORK.c.id == work_id,
                WORK.c.claimed.is_(False),
                claimable,
                state=WorkState.RUNNING,
                claimed=True,
                # Counted when the engine gave it to a worker, where an engine did.
                attempts=case((WORK.c.state == WorkState.RUNNING, WORK.c.attempts), else_=WORK.c.attempts + 1),
                host=host,
                pid=pid,
                pid_created=pid_created,
                heartbeat=now(),
                started=now(),
            )
        if taken is None:
            raise JobError("This run has already been worked on or was stopped; a run is never executed twice.")
        return taken

    # Going on -------------------------------------------------------------------------------------------------------

    def put_back(self, run: Work, *, gpus: int) -> bool:
        """Put a run whose worker is gone back to its place in the queue; return whether it was still that worker's.

        It keeps its machine, which alone knows that the worker is gone.

        Parameters
        ----------
        run : Work
            As it was when its worker was found to be gone.
        gpus : int
            GPUs that it wants from now on.
        """
        nobodys: dict[str, Any] = dict.fromkeys(OF_A_WORKER)
        return self._change(
            WORK.c.id == run.id,
            WORK.c.state.in_(ACTIVE_STATES),
            WORK.c.attempts == run.attempts,
            WORK.c.cancel_requested.is_(None),
            state=WorkState.QUEUED,
            claimed=False,
            gpus=gpus,
            **nobodys,
        )

    def count_attempt(self, run_id: str) -> None:
        """Count one more attempt of the process that holds a run and goes on with it itself."""
        self._change(
            WORK.c.id == run_id,
            WORK.c.state.in_(ACTIVE_STATES),
            state=WorkState.RUNNING,
            attempts=WORK.c.attempts + 1,
        )

    def beat(self, work_id: str) -> bool:
        """Renew the worker's lease, without waiting; return whether the work is still its own."""
        return self._change(WORK.c.id == work_id, WORK.c.state.in_(ACTIVE_STATES), wait=False, heartbeat=now())

    def note_progress(self, work_id: str, *, phase: str, step: int, steps: int, losses: Sequence[float]) -> bool:
        """Record how far work is; return whether its worker should go on (False: cancelled or taken away).

        A database that is away is not waited for: the work goes on meanwhile.
        """
        with self._transactions.writing(wait=False) as connection:
            found = (WORK.c.id == work_id, WORK.c.state.in_(ACTIVE_STATES))
            values = {"phase": phase, "step": step, "steps": steps, "losses": losses, "heartbeat": now()}
            noted = _changed(connection, *found, **values)
            return noted is not None and noted.cancel_requested is None

    # Ending ---------------------------------------------------------------------------------------------------------

    @patient
    def move(
        self,
        work_id: str,
        state: WorkState,
        *,
        message: str = "",
        incident_id: str | None = None,
        only_from: Sequence[WorkState] | None = None,
    ) -> bool:
        """Bring work to a state, if it may go there from where it is; return whether it moved.

        Parameters
        ----------
        work_id : str
        state : WorkState
        message : str
            One sentence for the owner; never the text of a foreign exception.
        incident_id : str, optional
        only_from : sequence of WorkState, optional
            Move only from these states; by default from every state that may lead to ``state``.
        """
        sources = SOURCES[state] if only_from is None else [s for s in only_from if s in SOURCES[state]]
        values: dict[str, Any] = {"state": state, "message": message}
        if incident_id is not None:
            values["incident_id"] = incident_id
        if state in FINISHED_STATES:
            values["finished"] = now()
        return self._change(WORK.c.id == work_id, WORK.c.state.in_(sources), **values)

    def advance(self, work_id: str, state: WorkState, *, message: str = "") -> None:
        """Bring work to a state, as the worker that holds it.

        Raises
        ------
        JobError
            If it was stopped meanwhile, so that the worker stops too.
        """
        if not self.move(work_id, state, message=message):
            raise JobError(f"The run is {self[work_id].state} and cannot become {state}.")

    @patient
    def request_cancel(self, work_id: str) -> None:
        """Ask the worker to stop at its next step."""
        not_yet = WORK.c.cancel_requested.is_(None)
        self._change(WORK.c.id == work_id, WORK.c.state.in_(ACTIVE_STATES), not_yet, cancel_requested=now())

    def forget_all_but_runs(self) -> None:
        """Forget work that nothing else in the database knows of: what it made is not in a backup."""
        self._transactions.write(delete(WORK).where(WORK.c.kind != WorkKind.RUN))

    def _change(self, *where: ColumnElement[bool], wait: bool = True, **values: Any) -> bool:
        """Change the one row that the conditions name; return whether there was one."""
        with self._transactions.writing(wait=wait) as connection:
            return connection.execute(update(WORK).where(*where).values(**values)).rowcount == 1


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": QUEUE_LOCK})


def _select(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[Work, ...]:
    return tuple(Work(**row) for row in connection.execute(_query(conditions)).mappings())


def _query(conditions: Iterable[ColumnElement[bool]]) -> Select[Any]:
    return select(WORK).where(*conditions).order_by(WORK.c.place)


def _changed(connection: Connection, *where: ColumnElement[bool], **values: Any) -> Work | None:
    """Change the one row that the conditions name, and return it as it is then; None where there is none."""
    changed = connection.execute(update(WORK).where(*where).values(**values).returning(WORK))
    row = changed.mappings().one_or_none()
    return None if row is None else Work(**row)
