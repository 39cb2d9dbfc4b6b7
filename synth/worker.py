"""One piece of work in a separate process: ``python -m synth.worker JOB_ID``.

It claims the work, which no other worker has, does it, and records the outcome in its row. If something goes wrong, the
row gets one of our own sentences or an incident id, never the text of another library's exception. The charge of a run
is settled by what was spent; if memory or the device failed, the run goes back into the queue and is continued from its
kept answers.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from synth.errors import JobError, RunCancelledError, SynthError
from synth.jobs import engine_of
from synth.jobs.engine import GOES_ON, WORKER_COMMAND, goes_on, put_back
from synth.jobs.processes import birth_of
from synth.jobs.ray_jobs import require_home
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED, Ledger
from synth.progress import Progress, StoredProgress
from synth.services import run_folder
from synth.services.incidents import code_location, own_error, record_incident
from synth.services.installation import Installation
from synth.store import PATIENCE_SECONDS, ChargeState, EventKind, Store, WorkKind, WorkState
from synth.system.machine import is_lack_of_means, this_host
from synth.system.settings import Settings

__all__ = ["Execute", "main"]

INTERNAL_ERROR = 70
LACK_OF_MEANS = 75
"""Memory or the device failed; another worker continues."""


class Execute(Protocol):
    """What a worker does: the service for its kind of work, or a replacement in a test."""

    def __call__(self, work_id: str, /, *, settings: Settings, progress: Progress) -> None:
        """Do the work, and record it as reported."""
        ...


def main(
    arguments: Sequence[str] | None = None,
    *,
    execute: Execute | None = None,
    settings: Settings | None = None,
    command: Sequence[str] = WORKER_COMMAND,
) -> int:
    """Do one piece of work and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line; by default the process's own.
    execute : callable, optional
        By default the service for its kind.
    settings : Settings, optional
        By default read from the environment.
    command : sequence of str
        Command that starts the next worker when this one ends.
    """
    parser = argparse.ArgumentParser(prog="python -m synth.worker", description="Do one piece of work.")
    parser.add_argument("job_id")
    job_id = parser.parse_args(arguments).job_id
    _forbid_core_dumps()
    try:
        settings = settings or Settings.from_environment()
        if settings.ray:
            require_home(settings)
        with Store(settings, patience=PATIENCE_SECONDS) as store:
            engine = engine_of(store, command=command)
            store.work.claim(job_id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))
            exit_code = _work(store, job_id, execute or _carry_out)
            engine.tend()
            return exit_code
    except SynthError as error:
        return error.exit_code
    except Exception as error:
        record_incident(error)
        return INTERNAL_ERROR


def _work(store: Store, work_id: str, execute: Execute) -> int:
    work = store.work[work_id]
    try:
        with _heartbeat(store, work_id):
            execute(work_id, settings=store.settings, progress=StoredProgress(store.work, work_id))
        if store.work[work_id].is_active:
            raise JobError(f"The {work.kind} ended without a result.")
    except (RunCancelledError, KeyboardInterrupt):
        words = f"The {work.kind} was cancelled."
        return _stop(store, work_id, WorkState.CANCELLED, words, RunCancelledError.exit_code)
    except SynthError as error:
        return _stop(store, work_id, WorkState.FAILED, str(error), error.exit_code)
    except BaseException as error:
        full = own_error(error, store.settings.home)
        if full is not None:
            return _stop(store, work_id, WorkState.FAILED, str(full), full.exit_code)
        if is_lack_of_means(error) and put_back(store, store.work[work_id], same_device=False):
            return LACK_OF_MEANS
        # The message of a library may quote a cell: only the type and the place in the code are kept.
        incident = record_incident(error)
        detail = {"incident": incident, "type": type(error).__name__, "where": code_location(error)}
        store.events.add(EventKind.INCIDENT, run_id=work_id if work.kind is WorkKind.RUN else None, detail=detail)
        message = f"Something went wrong inside the program (incident {incident})."
        return _stop(store, work_id, WorkState.FAILED, message, INTERNAL_ERROR, incident_id=incident)
    return 0


def _stop(
    store: Store, work_id: str, state: WorkState, message: str, exit_code: int, *, incident_id: str | None = None
) -> int:
    work = store.work.find(work_id)
    if work is None or not work.is_active:
        return exit_code  # it was ended meanwhile, and its charge settled
    if goes_on(store, work):
        message = f"{message} {GOES_ON}"
    elif work.kind.is_charged:
        run_folder.clear(store.settings, work_id)
        charges = Ledger(store).settle(work_id)
        spent = any(charge.state is ChargeState.FAILED_SPENT for charge in charges)
        message = f"{message} {STAYED_SPENT if spent else WAS_FREED if charges else ''}".rstrip()
    store.work.move(work_id, state, message=message, incident_id=incident_id)
    return exit_code


@contextmanager
def _heartbeat(store: Store, work_id: str) -> Iterator[None]:
    """Renew the lease during the work, from a thread, since one step may take longer than a lease."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(store.settings.heartbeat_seconds):
            try:
                store.work.beat(work_id)
            except SynthError:
                continue  # the database is unavailable for a moment; the next beat tries again

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


_SERVICES = {
    WorkKind.RUN: "synth.services.runs",
    WorkKind.CHECK: "synth.services.checking_again",
    WorkKind.FINDING: "synth.services.finding",
    WorkKind.PREVIEW: "synth.services.previewing",
    WorkKind.REPORT: "synth.services.reports",
    WorkKind.ESTIMATE: "synth.rehearsal.run_estimates",
    WorkKind.REHEARSAL: "synth.rehearsal.rehearsals",
    WorkKind.GRID: "synth.rehearsal.rehearsals",
}
"""The module whose ``carry_out`` does a kind of work; imported late, since each loads all generators."""


def _carry_out(work_id: str, *, settings: Settings, progress: Progress) -> None:
    """Do a piece of work by the service for its kind."""
    with Installation.open(settings, patience=PATIENCE_SECONDS) as installation:
        service = importlib.import_module(_SERVICES[installation.store.work[work_id].kind])
        service.carry_out(installation, work_id, progress)


def _forbid_core_dumps() -> None:
    # A core dump would contain the rows in plain text.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
