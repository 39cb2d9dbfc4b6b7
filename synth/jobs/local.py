"""The engine of one machine: a detached process for each piece of work, a queue of runs, and no daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from synth.errors import JobError
from synth.jobs import processes
from synth.jobs.engine import THREAD_VARIABLES, WORKER_COMMAND, Capacity, Engine, WorkerState
from synth.store import Store, Work, WorkKind
from synth.system.machine import MACHINE_GPUS, available_gpus, cores, this_host

__all__ = ["LocalEngine", "LocalWorkers"]


class LocalWorkers:
    """Processes of this machine, which are recognised by their (number, birth).

    Runs take slots, and those that ask for one the lowest free GPU; other work takes none. The worker of another
    machine shows itself by its heartbeat only.

    Parameters
    ----------
    store : Store
    command : sequence of str
        Command that is run with the job's id as its last argument.
    gpus : sequence of str, optional
        Names of the GPUs to assign; by default all of this machine.
    """

    def __init__(
        self, store: Store, *, command: Sequence[str] = WORKER_COMMAND, gpus: Sequence[str] | None = None
    ) -> None:
        self._store, self._settings = store, store.settings
        self._command = tuple(command)
        self._gpus = tuple(available_gpus() if gpus is None else gpus)
        self._slots = max(1, self._settings.job_slots)
        self._host = this_host()

    def capacity(self) -> Capacity:
        """Return the GPUs of this machine, and an equal share of its cores for each slot."""
        return Capacity(gpus=len(self._gpus), threads=self._settings.threads or max(1, cores() // self._slots))

    def due(self) -> Iterator[Work]:
        """Assign slots to queued runs, one by one, while any are free."""
        # Look first, since taking a run locks the store and this happens every second.
        while self._store.work.waiting():
            run = self._store.work.take(host=self._host, slots=self._slots, gpus=self._gpus)
            if run is None:
                return
            yield run

    def submit(self, work: Work) -> None:
        """Start a process, and record it."""
        try:
            pid, born = processes.start((*self._command, work.id), environment=self._environment(work))
        except OSError:
            raise JobError("The worker could not be started.") from None
        self._store.work.note_process(work.id, pid=pid, pid_created=born)

    def state(self, work: Work) -> WorkerState:
        """Return whether the process still runs; of another machine's it is unknown."""
        if work.host != self._host:
            return WorkerState.UNKNOWN
        if work.pid is None or work.pid_created is None:
            return WorkerState.STARTING
        return WorkerState.ALIVE if processes.is_alive(work.pid, work.pid_created) else WorkerState.DEAD

    def cancel(self, work: Work) -> bool:
        """Kill the process and its children, if they are on this machine."""
        if work.host == self._host and work.pid is not None and work.pid_created is not None:
            processes.kill(work.pid, work.pid_created)
            return True
        return False

    def withdraw(self, work: Work) -> None:
        """Do nothing: a run that waits has no process."""

    def sees_the_end(self, work: Work) -> bool:
        """Whether the worker was on this machine, since no other can know that it is gone."""
        return work.host == self._host

    def _environment(self, work: Work) -> dict[str, str]:
        common = {
            **os.environ,
            "HERMITAGE_HOME": str(self._settings.home),
            "DATABASE_URL": self._settings.database_url,
            "HERMITAGE_RAY": self._settings.ray,  # at its end it tends the queue of this engine
        }
        if work.kind is not WorkKind.RUN:
            return common  # it checks by itself what the machine has free
        threads = str(work.cpus or self.capacity().threads)
        return {
            **common,
            **dict.fromkeys(THREAD_VARIABLES, threads),
            "HERMITAGE_JOB_SLOTS": str(self._slots),
            "HERMITAGE_THREADS": threads,
            MACHINE_GPUS: ",".join(self._gpus),
            "CUDA_VISIBLE_DEVICES": work.gpu or "",
        }


class LocalEngine(Engine):
    """Runs background work in processes of this machine.

    Parameters
    ----------
    store : Store
    command, gpus
        As :class:`LocalWorkers` takes them.
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
        super().__init__(store, LocalWorkers(store, command=command, gpus=gpus), clock=clock)
