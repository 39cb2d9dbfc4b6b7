"""Background work of all kinds in one table: what was asked, which process does it, its progress, and how it ended.

The row is the only record of a piece of work. It contains none of the results.
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
from synth.store.engine import Transactions, patient, remembered
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
    """Kind of work; its subject says on what."""

    RUN = "run"
    """The run with that id; it waits in a queue, and its charge is settled by how it ends."""

    REHEARSAL = "rehearsal"
    """A configuration on public or simulated rows, by its digest."""

    GRID = "grid"
    """Several rehearsals, by the digest of what they share."""

    REPORT = "report"
    """A part of the owner's report, by the run's id and the name of the part."""

    ESTIMATE = "estimate"
    """Population estimates from the bundle of a finished run, by the run's id."""

    CHECK = "check"
    """The check of a sealed bundle that its run could not complete, by the run's id; nothing is charged."""

    FINDING = "finding"
    """A finding about the open columns of a table, by the table's id; charged under the id of the work."""

    PREVIEW = "preview"
    """A preview of columns of a table, by its own id, under which it is charged."""

    @property
    def is_charged(self) -> bool:
        """Whether the ledger has a charge under the id of such work, settled by how it ends."""
        return self in (WorkKind.RUN, WorkKind.FINDING, WorkKind.PREVIEW)


class WorkState(StrEnum):
    """State of work; only runs are ever planned, queued, measured, unchecked or released."""

    PLANNED = "planned"
    QUEUED = "queued"
    RUNNING = "running"
    MEASURED = "measured"
    UNCHECKED = "unchecked"
    REPORTED = "reported"
    RELEASED = "released"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_STATES = (WorkState.RUNNING, WorkState.MEASURED)
"""States in which a process is working."""

FINISHED_STATES = (
    WorkState.UNCHECKED,
    WorkState.REPORTED,
    WorkState.RELEASED,
    WorkState.FAILED,
    WorkState.CANCELLED,
)
"""States in which no process is working or will be."""

SOURCES: Mapping[WorkState, tuple[WorkState, ...]] = MappingProxyType(
    {
        WorkState.QUEUED: (WorkState.PLANNED,),
        WorkState.RUNNING: (WorkState.PLANNED, WorkState.QUEUED),
        WorkState.MEASURED: (WorkState.RUNNING,),
        # Sealed, but its own check could not be completed; a later check decides.
        WorkState.UNCHECKED: ACTIVE_STATES,
        WorkState.REPORTED: (*ACTIVE_STATES, WorkState.UNCHECKED),
        WorkState.RELEASED: (WorkState.REPORTED,),
        WorkState.FAILED: (WorkState.PLANNED, WorkState.QUEUED, *ACTIVE_STATES, WorkState.UNCHECKED),
        WorkState.CANCELLED: (WorkState.PLANNED, WorkState.QUEUED, *ACTIVE_STATES),
    }
)
"""States from which each state can be reached; none leads back, so nothing starts twice.

Only :meth:`WorkTable.put_back` returns an unfinished run to the queue, to be continued.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One piece of work.

    ``asked`` is the request as JSON; a run has its configuration instead. ``owner`` asked for it. ``step`` counts up to
    ``steps``; both follow from the request alone. ``losses`` are post-processing losses only. ``gpu`` is the device
    that the engine gave the worker. ``claimed`` becomes true when a worker begins, and false again when the worker is
    lost and the run is put back into the queue; ``attempts`` counts the workers. ``pid_created`` distinguishes the
    worker from other processes with its number (:func:`synth.jobs.processes.birth_of`).
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
        """Whether a process is working on it."""
        return self.state in ACTIVE_STATES

    @property
    def went_on(self) -> bool:
        """Whether it was continued after a worker had stopped."""
        return self.attempts > 1

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.state in FINISHED_STATES


WORK = Table(
    "work",
    METADATA,
    # The id of the run, or a new one each time other work is started.
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
    # If several processes start the same work at once, one succeeds.
    Index("ix_work_subject", "kind", "subject", unique=True),
)

QUEUE_LOCK = 0x51554555
"""Key of the PostgreSQL advisory lock for assigning slots one at a time; SQLite has only one writer."""

OF_A_WORKER = ("pid", "pid_created", "gpu", "heartbeat", "started")


class WorkTable:
    """The rows of ``work``: each is given to one worker, and to another only if that one is lost.

    Runs wait in a queue; other work starts immediately, once for each subject.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @remembered
    def find(self, work_id: str) -> Work | None:
        """Return work, or None if there is none with this id."""
        return next(iter(self._where(WORK.c.id == work_id)), None)

    def __getitem__(self, work_id: str) -> Work:
        work = self.find(work_id)
        if work is None:
            raise JobError("There is no such work, or it was started again.")
        return work

    @remembered
    def about(self, kind: WorkKind, subject: str) -> Work | None:
        """Return the latest work of a kind on a subject, or None."""
        return next(iter(self._where(WORK.c.kind == kind, WORK.c.subject == subject)), None)

    @remembered
    def of_kind(self, kind: WorkKind) -> tuple[Work, ...]:
        """Return all work of a kind that is recorded, in whatever state."""
        return self._where(WORK.c.kind == kind)

    @remembered
    def active(self) -> tuple[Work, ...]:
        """Return the work that processes are doing, on any machine."""
        return self._where(WORK.c.state.in_(ACTIVE_STATES))

    @remembered
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
        """Record work that starts immediately, in place of ended work on this subject, under a new or a given id.

        Raises
        ------
        JobError
            If there is unfinished work of this kind on it; of several simultaneous requests one succeeds.
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
                raise JobError("This is already in progress. Wait for it, or stop it first.") from None
        return work

    @patient
    def put(self, run_id: str, *, gpus: int, cpus: int) -> None:
        """Append a planned run to the queue.

        Raises
        ------
        JobError
            If the run was already submitted.
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
                raise JobError("This run was already submitted. Look it up in the list of runs.")

    @patient
    def take(self, *, host: str, slots: int, gpus: Sequence[str]) -> Work | None:
        """Assign a slot on this machine to the first queued run that may start, and mark it running.

        Parameters
        ----------
        host : str
            Name of this machine; slots are counted per machine. A run that was put back stays on its machine.
        slots : int
            Most runs at a time here; other work takes no slot.
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
        """Record the process that was started for work, unless it has already recorded itself."""
        self._change(WORK.c.id == work_id, WORK.c.pid.is_(None), pid=pid, pid_created=pid_created)

    @patient
    def claim(self, work_id: str, *, host: str, pid: int, pid_created: float) -> Work:
        """Claim work as its only worker.

        Raises
        ------
        JobError
            If another worker has claimed it, or it was stopped.
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
                # Already counted if an engine assigned it.
                attempts=case((WORK.c.state == WorkState.RUNNING, WORK.c.attempts), else_=WORK.c.attempts + 1),
                host=host,
                pid=pid,
                pid_created=pid_created,
                heartbeat=now(),
                started=now(),
            )
        if taken is None:
            raise JobError("This run was already executed or stopped; a run is never executed twice.")
        return taken

    # Continuing -------------------------------------------------------------------------------------------------------

    def put_back(self, run: Work, *, gpus: int) -> bool:
        """Put a run whose worker is lost back in its place in the queue; return whether that worker still had it.

        It keeps its machine, which alone knows that the worker is lost.

        Parameters
        ----------
        run : Work
            As it was when its worker was found to be lost.
        gpus : int
            GPUs that it asks for from now on.
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
        """Count one more attempt by the process that has a run and continues it itself."""
        self._change(
            WORK.c.id == run_id,
            WORK.c.state.in_(ACTIVE_STATES),
            state=WorkState.RUNNING,
            attempts=WORK.c.attempts + 1,
        )

    def beat(self, work_id: str) -> bool:
        """Renew the worker's lease, without waiting; return whether the work is still active."""
        return self._change(WORK.c.id == work_id, WORK.c.state.in_(ACTIVE_STATES), wait=False, heartbeat=now())

    def note_progress(self, work_id: str, *, phase: str, step: int, steps: int, losses: Sequence[float]) -> bool:
        """Record the progress of work; return whether its worker should continue (False: cancelled or ended).

        Does not wait for a database that is unavailable: the work continues meanwhile.
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
        """Move work to a state, if that can follow the current one; return whether it moved.

        Parameters
        ----------
        work_id : str
        state : WorkState
        message : str
            One sentence for the owner; never the text of another library's exception.
        incident_id : str, optional
        only_from : sequence of WorkState, optional
            Move only from these states; by default from every state that can lead to ``state``.
        """
        sources = SOURCES[state] if only_from is None else [s for s in only_from if s in SOURCES[state]]
        values: dict[str, Any] = {"state": state, "message": message}
        if incident_id is not None:
            values["incident_id"] = incident_id
        if state in FINISHED_STATES:
            values["finished"] = now()
        return self._change(WORK.c.id == work_id, WORK.c.state.in_(sources), **values)

    def advance(self, work_id: str, state: WorkState, *, message: str = "") -> None:
        """Move work to a state, as its worker.

        Raises
        ------
        JobError
            If it was stopped meanwhile; the worker then stops too.
        """
        if not self.move(work_id, state, message=message):
            raise JobError(f"The run is {self[work_id].state} and cannot become {state}.")

    @patient
    def request_cancel(self, work_id: str) -> None:
        """Ask the worker to stop at its next step."""
        not_yet = WORK.c.cancel_requested.is_(None)
        self._change(WORK.c.id == work_id, WORK.c.state.in_(ACTIVE_STATES), not_yet, cancel_requested=now())

    def forget_all_but_runs(self) -> None:
        """Delete all work but runs: its results are not in a backup."""
        self._transactions.write(delete(WORK).where(WORK.c.kind != WorkKind.RUN))

    def _change(self, *where: ColumnElement[bool], wait: bool = True, **values: Any) -> bool:
        """Change the one row that meets the conditions; return whether there was one."""
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
    """Change the one row that meets the conditions, and return the changed row; None if there is none."""
    changed = connection.execute(update(WORK).where(*where).values(**values).returning(WORK))
    row = changed.mappings().one_or_none()
    return None if row is None else Work(**row)
