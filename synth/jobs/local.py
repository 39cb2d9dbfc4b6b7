"""The engine of one machine: a detached process for each piece of work, a queue of runs, and no daemon of its own."""

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

__all__ = ["MOST_ATTEMPTS", "WORKER_COMMAND", "LocalEngine", "put_back"]

WORKER_COMMAND = (sys.executable, "-m", "synth.worker")

LEASE_BEATS = 4
"""Heartbeats that a worker on another machine may miss before it is taken for dead."""

START_SECONDS = 60.0
"""How long a slot may be taken without a process, between the row and the start."""

CANCEL_SECONDS = 10.0
"""How long a worker may take to notice that it is cancelled before it is killed."""

MOST_ATTEMPTS = 3
"""Workers that one run is given, one after the other."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class LocalEngine:
    """Does background work on this machine: starts it, follows it, stops it, and finds out that it died.

    It looks after all work whenever it is used: on every start, on cancel, on every question where work stands, and at
    the end of every worker. Any engine over the same store sees the same work, so nothing is lost when the app
    restarts. Runs wait in a queue for a slot; other work begins at once.

    A worker that died is noticed by its (number, birth). A run that had spent its charge and kept its answers goes back
    into the queue and another worker goes on from them (:func:`put_back`); else the work fails, and the charge of a run
    or a finding stays spent if it was spent. How long something has not changed is counted on this process's own clock
    and only while it is watched: neither a clock that is set nor a database that was away makes a worker look dead.

    Parameters
    ----------
    store : Store
    command : sequence of str
        What is run with the job's id as last argument.
    gpus : sequence of str, optional
        Names of the GPUs to hand out; by default what this machine has.
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
        """Put a planned run into the queue, start it if there is room, and return its handle.

        Parameters
        ----------
        job_id : str
            The run's id.
        gpus : int
            1 to compute on a GPU where this machine has one; 0 to stay on the CPU.
        cpus : int
            Threads; 0 for an equal part of the machine.
        """
        self._store.work.put(job_id, gpus=gpus, cpus=cpus)
        self.tend()
        return job_id

    def begin(self, kind: WorkKind, subject: str, *, asked: str, owner: str, work_id: str | None = None) -> str:
        """Start work that is not a run, in a process of its own, and return its handle.

        Parameters
        ----------
        kind : WorkKind
        subject : str
            What is worked on; there is one piece of work of a kind on each.
        asked : str
            What the worker needs to know, as JSON.
        owner : str
            Who asks.
        work_id : str, optional
            Under which it was charged; by default a new one.

        Raises
        ------
        JobError
            If it is being worked on already.
        """
        self.tend()
        work = self._store.work.begin(kind, subject, asked=asked, owner=owner, host=self._host, work_id=work_id)
        self._start(work)
        return work.id

    def standing(self, kind: WorkKind, subject: str) -> Work | None:
        """Return the latest work of a kind on a subject, after tending, or None where there was none."""
        self.tend()
        return self._store.work.about(kind, subject)

    def stop(self, kind: WorkKind, subject: str) -> None:
        """Stop the work of a kind on a subject, if there is any; what was there before stays as it was."""
        work = self.standing(kind, subject)
        if work is not None and work.is_active:
            self.cancel(work.id)

    def state(self, handle: str) -> WorkState:
        """Return where work stands, after tending."""
        self.tend()
        return self._store.work[handle].state

    def cancel(self, handle: str) -> WorkState:
        """Stop work: a run that waits ends and its budget is freed; one that works is asked to stop.

        The budget of one that works stays spent once it has become spent; until then it is freed as well. The process
        of work that is not a run is ended at once, and what it was charged settled.
        """
        waiting = (WorkState.PLANNED, WorkState.QUEUED)
        # A run that waits to go on has spent its budget already.
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
        """Close the work whose worker died, and start queued runs while there is room."""
        active = self._store.work.active()
        self._watch.forget_all_but({work.id for work in active})
        for work in active:
            if self._is_lost(work):
                self._close_lost(work)
        # Looked up first, since taking a run locks the store and this is asked every second.
        while self._store.work.waiting() and (run_to_start := self._next()) is not None:
            self._start(run_to_start)

    def recover(self) -> None:
        """Tend the queue after a restart of the app, and free the reservations of runs that will never begin."""
        self.tend()
        self._ledger.recover()
        unfinished = {run.id for run in self._store.runs.all() if not run.is_finished}
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
            return common  # it looks itself at what the machine has free
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
            # Another server or worker may have put it back just before: then it goes on, and nothing ends it.
            current = self._still(work)
        if current is None:
            return
        if any(charge.state is ChargeState.RELEASED for charge in self._ledger.charges_of(current.id)):
            # What a finding found was released just before its worker died.
            self._store.work.move(current.id, WorkState.REPORTED)
        elif current.cancel_requested is not None:
            self._end(current, f"The {current.kind} was cancelled.", WorkState.CANCELLED)
        elif current.attempts >= MOST_ATTEMPTS:
            words = f"The worker stopped without a word {current.attempts} times, for example because memory ran out."
            self._end(current, words)
        else:
            self._end(current, "The worker stopped without a word, for example because memory ran out.")

    def _still(self, work: Work) -> Work | None:
        """Return work as it is now, unless it has ended, or gone on with another worker, since it was read."""
        current = self._store.work.find(work.id)
        if current is None or not current.is_active:
            return None
        return current if (current.attempts, current.pid) == (work.attempts, work.pid) else None

    def _end(self, work: Work, message: str, state: WorkState = WorkState.FAILED) -> None:
        if work.kind.is_charged:
            message = f"{message} {self._settled(work)}"
        elif state is WorkState.FAILED:
            message = f"{message} Start it again."
        self._store.work.move(work.id, state, message=message)
        forget_answers(self._settings.home, work.id)

    def _settled(self, run: Work) -> str:
        """Settle the charge of a run that is about to end, and return what becomes of it.

        Before the end is noted: if this process dies in between, the next one finds the run still open and repeats it.
        """
        charges = self._ledger.settle(run.id) or self._ledger.charges_of(run.id)
        if any(charge.state is ChargeState.FAILED_SPENT for charge in charges):
            return f"{STAYED_SPENT} It is not started again by itself; a new {run.kind} is charged anew."
        return f"{WAS_FREED} Start a new {run.kind}."


def put_back(store: Store, run: Work, *, same_device: bool) -> bool:
    """Let a run whose worker is gone go on from its kept answers, if it can; return whether it will.

    Only on the machine that the worker was on: no other can know that it is gone. A run does not go on more than twice,
    nor where its budget is not spent or its answers are not here, nor where nobody put it into the queue, as when
    ``synth run`` works on it itself.

    Parameters
    ----------
    store : Store
    run : Work
        As it was when its worker was found to be gone.
    same_device : bool
        Whether it may have a graphics card again. The card may be what stopped it; but questions that follow from what
        was fitted may differ in their last bits on the processor, and then the run cannot go on there. So a worker that
        was killed is given one more try on the card, and one that the card failed is not.
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
    """For how long values have stayed as they are, in seconds of a monotonic clock.

    Between two looks at most ``most`` seconds count: while nobody looked, or the database did not answer, a value could
    not be seen to change.
    """

    def __init__(self, clock: Callable[[], float], *, most: float) -> None:
        self._clock, self._most = clock, most
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def unchanged(self, name: str, value: object) -> float:
        """Note a value and return for how many seconds it was seen to stay the same."""
        moment = self._clock()
        with self._lock:
            before = self._seen.get(name)
            if before is None or before.value != value:
                before = _Seen(value, moment, 0.0)
            passed = min(max(0.0, moment - before.last), self._most)
            self._seen[name] = _Seen(value, moment, before.seconds + passed)
            return self._seen[name].seconds

    def forget_all_but(self, names: set[str]) -> None:
        """Forget what is not watched any more."""
        with self._lock:
            self._seen = {name: seen for name, seen in self._seen.items() if name in names}
