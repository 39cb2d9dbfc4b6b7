"""What all engines share, and the seam between them.

The row of a piece of work in the store is the only truth about it, and everything that follows from the row is here:
runs wait in a queue, work is cancelled, a run whose worker is lost is put back to continue from its kept answers, and
what ends settles its charge. Nothing here depends on where a worker runs.

What differs is a :class:`Workers`: which queued runs are due, how a worker is started and killed, whether it still
lives, and how much there is to compute with. :mod:`synth.jobs.local` has the processes of one machine,
:mod:`synth.jobs.ray_jobs` the jobs of a Ray cluster. Every worker is ``python -m synth.worker JOB_ID``, and no engine
ever runs work again by itself.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from synth.errors import JobError
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED, Ledger
from synth.progress import OWNER_PHASE
from synth.store import ChargeState, Store, Work, WorkKind, WorkState
from synth.system.machine import this_host
from synth.vault.kept_answers import answers_path, forget_answers, sweep_answers

__all__ = [
    "GOES_ON",
    "MOST_ATTEMPTS",
    "THREAD_VARIABLES",
    "WORKER_COMMAND",
    "Capacity",
    "Engine",
    "WorkerState",
    "Workers",
    "goes_on",
    "put_back",
]

WORKER_COMMAND = (sys.executable, "-m", "synth.worker")

LEASE_BEATS = 4
"""Heartbeats that a worker may miss before it counts as dead, if nothing but its heartbeat tells."""

START_SECONDS = 60.0
"""How long a slot may be assigned before its process has started."""

CANCEL_SECONDS = 10.0
"""How long a worker may take to stop after it was cancelled before it is killed."""

MOST_ATTEMPTS = 3
"""Most workers that one run gets, one after another."""

GOES_ON = "It was paid for: ask for the same preview again, which costs nothing more and continues where it stopped."
"""What happens to a preview that stopped after it had spent."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Environment variables by which libraries read how many threads they may start."""


class WorkerState(Enum):
    """What an engine knows of the worker of active work, apart from its heartbeat."""

    STARTING = auto()
    """It was assigned, and its process has not been seen yet."""

    ALIVE = auto()
    DEAD = auto()

    UNKNOWN = auto()
    """Only its heartbeat can tell."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much there is to compute with: graphics cards in all, and processor threads for each run."""

    gpus: int
    threads: int


class Workers(Protocol):
    """Where workers run. This is all in which engines differ; nothing in it changes how work ends or what it costs."""

    def capacity(self) -> Capacity:
        """Return how much there is.

        Raises
        ------
        SynthError
            If workers cannot be reached, so that nothing should be reserved for new runs.
        """
        ...

    def due(self) -> Iterator[Work]:
        """Yield the queued runs that should get a worker now, each when it is asked for."""
        ...

    def submit(self, work: Work) -> None:
        """Start a worker for work that is due, or has begun; without effect if it has one.

        Raises
        ------
        JobError
            If it cannot start, and will not; one sentence.
        """
        ...

    def state(self, work: Work) -> WorkerState:
        """Return what is known of the worker of active work."""
        ...

    def cancel(self, work: Work) -> bool:
        """Kill the worker; return whether it is known to be gone."""
        ...

    def withdraw(self, work: Work) -> None:
        """Take back a queued run that was cancelled; if its worker starts all the same, it cannot claim the run."""
        ...

    def sees_the_end(self, work: Work) -> bool:
        """Whether another worker may continue a run that is lost, because this engine can know that it is."""
        ...


class Engine:
    """Runs background work: starts it, watches it, stops it, and notices when it dies.

    It tends all work whenever it is used: on every start, on cancel, on every query of a state, and at the end of every
    worker. All engines over the same store see the same work, so nothing is lost when the app restarts. Runs wait in a
    queue; other work starts immediately.

    A run whose worker died, whose charge was spent and whose answers are kept goes back into the queue, and another
    worker continues from them (:func:`put_back`); otherwise the work fails, and the charge of a run or a finding stays
    spent if it was spent. How long something has not changed is measured on this process's own clock, and only while it
    is watched: neither a change of the system time nor an unavailable database makes a worker look dead.

    Parameters
    ----------
    store : Store
    workers : Workers
        Where workers run.
    clock : callable
        Monotonic seconds; a test passes its own.
    """

    def __init__(self, store: Store, workers: Workers, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._settings = store.settings
        self._ledger = Ledger(store)
        self._workers = workers
        self._watch = _Watch(clock, most=self._settings.heartbeat_seconds)
        self._host = this_host()

    def capacity(self) -> Capacity:
        """Return how much there is to compute with; errors as :meth:`Workers.capacity`."""
        return self._workers.capacity()

    def submit(self, job_id: str, *, gpus: int = 0, cpus: int = 0) -> str:
        """Put a planned run into the queue, start it if it is due, and return its handle.

        Parameters
        ----------
        job_id : str
            The run's id.
        gpus : int
            1 to compute on a GPU if there is one; 0 for the CPU.
        cpus : int
            Threads; 0 for as many as :meth:`capacity` says.
        """
        self._store.work.put(job_id, gpus=gpus, cpus=cpus)
        self.tend()
        return job_id

    def begin(
        self,
        kind: WorkKind,
        subject: str,
        *,
        asked: str,
        owner: str,
        work_id: str | None = None,
        start: bool = True,
    ) -> str:
        """Start work that is not a run, in a separate process, and return its handle.

        Parameters
        ----------
        kind : WorkKind
        subject : str
            What the work is on; each subject has at most one piece of work of a kind.
        asked : str
            What the worker needs to know, as JSON.
        owner : str
            Who asks.
        work_id : str, optional
            Id under which it was charged; by default a new one.
        start : bool
            Otherwise it is only recorded, for the caller to claim and to do in this process.

        Raises
        ------
        JobError
            If it is already in progress.
        """
        self.tend()
        work = self._store.work.begin(kind, subject, asked=asked, owner=owner, host=self._host, work_id=work_id)
        if start:
            self._start(work)
        return work.id

    def standing(self, kind: WorkKind, subject: str) -> Work | None:
        """Return the latest work of a kind on a subject, after tending, or None."""
        self.tend()
        return self._store.work.about(kind, subject)

    def stop(self, kind: WorkKind, subject: str) -> None:
        """Stop the work of a kind on a subject, if there is any; earlier results stay."""
        work = self.standing(kind, subject)
        if work is not None and work.is_active:
            self.cancel(work.id)

    def state(self, handle: str) -> WorkState:
        """Return the state of work, after tending."""
        self.tend()
        return self._store.work[handle].state

    def cancel(self, handle: str) -> WorkState:
        """Stop work: a waiting run ends and its budget is freed; a running one is asked to stop.

        The budget of a running one stays spent once it is spent; until then it is freed as well. The process of work
        that is not a run is killed immediately, and its charge settled.
        """
        waiting = (WorkState.PLANNED, WorkState.QUEUED)
        # A run that waits to be continued has already spent its budget.
        began = any(charge.state is ChargeState.SPENT for charge in self._ledger.charges_of(handle))
        message = (
            f"The run was cancelled. {STAYED_SPENT}" if began else f"The run was cancelled before it began. {WAS_FREED}"
        )
        if self._store.work.move(handle, WorkState.CANCELLED, message=message, only_from=waiting):
            self._ledger.settle(handle)
            forget_answers(self._settings.home, handle)
            self._workers.withdraw(self._store.work[handle])
        else:
            self._store.work.request_cancel(handle)
        return self.state(handle)

    def tend(self) -> None:
        """End the work whose worker died, and start queued runs while slots are free."""
        active = self._store.work.active()
        self._watch.forget_all_but({work.id for work in active})
        for work in active:
            if self._is_lost(work):
                self._close_lost(work)
        for run in self._workers.due():
            self._start(run)

    def recover(self) -> None:
        """Tend the queue after a restart of the app, and free the reservations of runs that will never start."""
        self.tend()
        self._ledger.recover()
        unfinished = {run.id for run in self._store.runs.all() if not run.is_finished}
        unfinished |= {work.id for work in self._store.work.of_kind(WorkKind.PREVIEW) if goes_on(self._store, work)}
        sweep_answers(self._settings.home, unfinished)

    def _start(self, work: Work) -> None:
        try:
            self._workers.submit(work)
        except JobError as error:
            # Of a run that waited for its worker, one may have begun, or another engine may have ended it.
            current = self._store.work.find(work.id)
            if current is not None and (current.state, current.attempts) == (work.state, work.attempts):
                self._end(work, str(error))

    def _is_lost(self, work: Work) -> bool:
        if work.cancel_requested is not None and work.kind is not WorkKind.RUN:
            self._workers.cancel(work)
            return True
        state = self._workers.state(work)
        if state is WorkerState.UNKNOWN:
            return self._watch.unchanged(work.id, work.heartbeat) > LEASE_BEATS * self._settings.heartbeat_seconds
        if state is WorkerState.STARTING:
            return self._watch.unchanged(work.id, work.started) > START_SECONDS
        if state is WorkerState.DEAD:
            return True
        if work.cancel_requested is None or work.phase == OWNER_PHASE:
            return False  # what is sealed is kept, so the worker ends the run itself, after the step it is at
        return self._watch.unchanged(work.id, work.cancel_requested) > CANCEL_SECONDS and self._workers.cancel(work)

    def _close_lost(self, work: Work) -> None:
        current = self._still(work)
        if current is not None and current.cancel_requested is None:
            known = self._workers.sees_the_end(current)
            if known and put_back(self._store, current, same_device=current.attempts == 1):
                return
            # Another server or worker may have put it back just before: then it continues and must not be ended.
            current = self._still(work)
        if current is None:
            return
        if any(charge.state is ChargeState.RELEASED for charge in self._ledger.charges_of(current.id)):
            # The finding was released just before its worker died.
            self._store.work.move(current.id, WorkState.REPORTED)
        elif current.cancel_requested is not None:
            self._end(current, f"The {current.kind} was cancelled.", WorkState.CANCELLED)
        elif current.attempts >= MOST_ATTEMPTS:
            words = f"The worker died {current.attempts} times without a message, for example because memory ran out."
            self._end(current, words)
        else:
            self._end(current, "The worker died without a message, for example because memory ran out.")

    def _still(self, work: Work) -> Work | None:
        """Return work as it is now, or None if it has ended or has another worker since it was read."""
        current = self._store.work.find(work.id)
        if current is None or not current.is_active:
            return None
        return current if (current.attempts, current.pid) == (work.attempts, work.pid) else None

    def _end(self, work: Work, message: str, state: WorkState = WorkState.FAILED) -> None:
        if goes_on(self._store, work):
            self._store.work.move(work.id, state, message=f"{message} {GOES_ON}")
            return
        if work.kind.is_charged:
            message = f"{message} {self._settled(work)}"
        elif state is WorkState.FAILED:
            message = f"{message} Start it again."
        self._store.work.move(work.id, state, message=message)
        forget_answers(self._settings.home, work.id)

    def _settled(self, run: Work) -> str:
        """Settle the charge of a run that is about to end, and return what happened to it.

        This comes before the end is recorded: if this process dies in between, the next one finds the run still open
        and repeats it.
        """
        charges = self._ledger.settle(run.id) or self._ledger.charges_of(run.id)
        if any(charge.state is ChargeState.FAILED_SPENT for charge in charges):
            return f"{STAYED_SPENT} It does not restart by itself; a new {run.kind} is charged again."
        return f"{WAS_FREED} Start a new {run.kind}."


def goes_on(store: Store, work: Work) -> bool:
    """Whether work that stopped was paid for and keeps its answers until it is asked for again: only a preview does."""
    if work.kind is not WorkKind.PREVIEW or not answers_path(store.settings.home, work.id).is_file():
        return False
    return any(charge.state is ChargeState.SPENT for charge in Ledger(store).charges_of(work.id))


def put_back(store: Store, run: Work, *, same_device: bool) -> bool:
    """Put a run whose worker is lost back into the queue, to continue from its kept answers; return whether it was.

    The caller knows that the worker is lost. A run is continued at most twice, and only if its budget is spent, its
    answers are kept here, and it was in the queue, unlike a run that ``synth run`` executes itself. Should the worker
    live all the same, it keeps the lock of the answers, and the next one refuses to begin.

    Parameters
    ----------
    store : Store
    run : Work
        As it was when its worker was found to be lost.
    same_device : bool
        Whether it may use a graphics card again. The card may be what stopped it; but questions that depend on a fit
        may differ in their last bits on the processor, and then the run cannot continue there. So a run whose worker
        was killed gets one more try on the card, and one whose card failed does not.
    """
    if run.place is None or run.attempts >= MOST_ATTEMPTS:
        return False
    charges = Ledger(store).charges_of(run.id)
    if not any(charge.state is ChargeState.SPENT for charge in charges):
        return False
    return answers_path(store.settings.home, run.id).is_file() and store.work.put_back(
        run, gpus=run.gpus if same_device else 0
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    value: object
    last: float
    seconds: float


class _Watch:
    """Measures how long values have not changed, in seconds of a monotonic clock.

    At most ``most`` seconds count between two looks: nobody could see a change while nobody looked or the database did
    not answer.
    """

    def __init__(self, clock: Callable[[], float], *, most: float) -> None:
        self._clock, self._most = clock, most
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def unchanged(self, name: str, value: object) -> float:
        """Note a value and return for how many seconds it has been the same."""
        moment = self._clock()
        with self._lock:
            before = self._seen.get(name)
            if before is None or before.value != value:
                before = _Seen(value, moment, 0.0)
            passed = min(max(0.0, moment - before.last), self._most)
            self._seen[name] = _Seen(value, moment, before.seconds + passed)
            return self._seen[name].seconds

    def forget_all_but(self, names: set[str]) -> None:
        """Forget what is no longer watched."""
        with self._lock:
            self._seen = {name: seen for name, seen in self._seen.items() if name in names}
