"""The engine of one machine: a detached process for each piece of work, a queue of runs, and no daemon."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synth.jobs import processes
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED, Ledger
from synth.store import ChargeState, Store, Work, WorkKind, WorkState
from synth.system.machine import MACHINE_GPUS, available_gpus, cores, this_host
from synth.vault.kept_answers import answers_path, forget_answers, sweep_answers

__all__ = ["GOES_ON", "MOST_ATTEMPTS", "WORKER_COMMAND", "LocalEngine", "goes_on", "put_back"]

WORKER_COMMAND = (sys.executable, "-m", "synth.worker")

LEASE_BEATS = 4
"""Heartbeats that a worker on another machine may miss before it counts as dead."""

START_SECONDS = 60.0
"""How long a slot may be assigned before its process has started."""

CANCEL_SECONDS = 10.0
"""How long a worker may take to stop after it was cancelled before it is killed."""

MOST_ATTEMPTS = 3
"""Most workers that one run gets, one after another."""

GOES_ON = "It was paid for: ask for the same preview again, which costs nothing more and continues where it stopped."
"""What happens to a preview that stopped after it had spent."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class LocalEngine:
    """Runs background work on this machine: starts it, watches it, stops it, and notices when it dies.

    It tends all work whenever it is used: on every start, on cancel, on every query of a state, and at the end of every
    worker. All engines over the same store see the same work, so nothing is lost when the app restarts. Runs wait in a
    queue for a slot; other work starts immediately.

    A dead worker is recognised by its (number, birth). A run whose charge was spent and whose answers are kept goes
    back into the queue, and another worker continues from them (:func:`put_back`); otherwise the work fails, and the
    charge of a run or a finding stays spent if it was spent. How long something has not changed is measured on this
    process's own clock, and only while it is watched: neither a change of the system time nor an unavailable database
    makes a worker look dead.

    Parameters
    ----------
    store : Store
    command : sequence of str
        Command that is run with the job's id as its last argument.
    gpus : sequence of str, optional
        Names of the GPUs to assign; by default all of this machine.
    clock : callable
        Monotonic seconds; a test passes its own.
    """

    def __init__(
        self,
        store: Store,
        *,
        command: Sequence[str] = WORKER_COMMAND,
        gpus: Sequence[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._settings = store.settings
        self._ledger = Ledger(store)
        self._command = tuple(command)
        self._gpus = tuple(available_gpus() if gpus is None else gpus)
        self._watch = _Watch(clock, most=self._settings.heartbeat_seconds)
        self._slots = max(1, self._settings.job_slots)
        self._host = this_host()

    def submit(self, job_id: str, *, gpus: int = 0, cpus: int = 0) -> str:
        """Put a planned run into the queue, start it if a slot is free, and return its handle.

        Parameters
        ----------
        job_id : str
            The run's id.
        gpus : int
            1 to compute on a GPU if this machine has one; 0 for the CPU.
        cpus : int
            Threads; 0 for an equal share of the machine.
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
        # Look first, since taking a run locks the store and this happens every second.
        while self._store.work.waiting() and (run_to_start := self._next()) is not None:
            self._start(run_to_start)

    def recover(self) -> None:
        """Tend the queue after a restart of the app, and free the reservations of runs that will never start."""
        self.tend()
        self._ledger.recover()
        unfinished = {run.id for run in self._store.runs.all() if not run.is_finished}
        unfinished |= {work.id for work in self._store.work.of_kind(WorkKind.PREVIEW) if goes_on(self._store, work)}
        sweep_answers(self._settings.home, unfinished)

    def _next(self) -> Work | None:
        return self._store.work.take(host=self._host, slots=self._slots, gpus=self._gpus)

    def _start(self, work: Work) -> None:
        try:
            pid, born = processes.start((*self._command, work.id), environment=self._environment(work))
        except OSError:
            self._end(work, "The worker could not be started.")
            return
        self._store.work.note_process(work.id, pid=pid, pid_created=born)

    def _environment(self, work: Work) -> dict[str, str]:
        common = {**os.environ, "HERMITAGE_HOME": str(self._settings.home), "DATABASE_URL": self._settings.database_url}
        if work.kind is not WorkKind.RUN:
            return common  # it checks by itself what the machine has free
        threads = str(work.cpus or self._settings.threads or max(1, cores() // self._slots))
        return {
            **common,
            **dict.fromkeys(THREAD_VARIABLES, threads),
            "HERMITAGE_JOB_SLOTS": str(self._slots),
            "HERMITAGE_THREADS": threads,
            MACHINE_GPUS: ",".join(self._gpus),
            "CUDA_VISIBLE_DEVICES": work.gpu or "",
        }

    def _is_lost(self, work: Work) -> bool:
        if work.cancel_requested is not None and work.kind is not WorkKind.RUN:
            if work.host == self._host and work.pid is not None and work.pid_created is not None:
                processes.kill(work.pid, work.pid_created)
            return True
        if work.host != self._host:
            return self._watch.unchanged(work.id, work.heartbeat) > LEASE_BEATS * self._settings.heartbeat_seconds
        if work.pid is None or work.pid_created is None:
            return self._watch.unchanged(work.id, work.started) > START_SECONDS
        if not processes.is_alive(work.pid, work.pid_created):
            return True
        if work.cancel_requested is None:
            return False
        if self._watch.unchanged(work.id, work.cancel_requested) > CANCEL_SECONDS:
            processes.kill(work.pid, work.pid_created)
            return True
        return False

    def _close_lost(self, work: Work) -> None:
        current = self._still(work)
        if current is not None and current.cancel_requested is None:
            if put_back(self._store, current, same_device=current.attempts == 1):
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

    Only on the worker's machine, since no other can know that it is lost. A run is continued at most twice, and only if
    its budget is spent, its answers are kept here, and it was in the queue, unlike a run that ``synth run`` executes
    itself.

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
    if run.host != this_host() or run.place is None or run.attempts >= MOST_ATTEMPTS:
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
