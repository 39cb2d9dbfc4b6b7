"""One run, in a process of its own: ``python -m synth.worker JOB_ID``.

With ``--predictions all``, ``--shadow-models N`` or what else reports make at the owner's wish it adds to the owner's
report of a finished run instead; with ``--rehearsal`` it rehearses on a stand-in.

It takes the run, which no other worker has, works, and leaves the outcome in the run's row. Whatever goes wrong, the
row holds a sentence of ours or an incident id, never the text of a foreign exception, and the charge is settled by what
was spent; where memory or the device failed, the run goes back into the queue and goes on from its kept answers.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from synth.errors import JobError, RunCancelledError, SynthError
from synth.jobs import LocalEngine
from synth.jobs.local import WORKER_COMMAND, put_back
from synth.jobs.processes import birth_of
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED, Ledger
from synth.progress import Progress, StoredProgress
from synth.reports.registry import renewals
from synth.reports.report import Renewal
from synth.services import run_folder
from synth.services.incidents import code_location, own_error, record_incident
from synth.services.installation import Installation
from synth.store import PATIENCE_SECONDS, ChargeState, EventKind, RunState, Store
from synth.system.machine import is_lack_of_means, this_host
from synth.system.settings import Settings

__all__ = ["Execute", "main"]

INTERNAL_ERROR = 70
LACK_OF_MEANS = 75
"""Memory or the device failed; another worker goes on."""


class Execute(Protocol):
    """What a worker does with a run: the service, or a stand-in of a test."""

    def __call__(self, run_id: str, *, settings: Settings, progress: Progress) -> None:
        """Carry the run from its charge to its report."""
        ...


def main(
    arguments: Sequence[str] | None = None,
    *,
    execute: Execute | None = None,
    settings: Settings | None = None,
    command: Sequence[str] = WORKER_COMMAND,
) -> int:
    """Work on one run and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line; by default the process's own.
    execute : callable, optional
        By default the run service.
    settings : Settings, optional
        By default read from the environment.
    command : sequence of str
        With which the next worker is started when this one ends.
    """
    parser = argparse.ArgumentParser(prog="python -m synth.worker", description="Work on one run.")
    parser.add_argument("job_id")
    for renewal in renewals():
        parser.add_argument(f"--{renewal.name}", dest=renewal.name, metavar="AMOUNT", help="of a finished run, again")
    parser.add_argument("--rehearsal", action="store_true", help="the job is a rehearsal")
    parsed = parser.parse_args(arguments)
    job_id = parsed.job_id
    _forbid_core_dumps()
    for renewal in renewals():
        amount = getattr(parsed, renewal.name)
        if amount is not None:
            return _renew(settings or Settings.from_environment(), job_id, renewal, amount)
    if parsed.rehearsal:
        return _rehearse(settings or Settings.from_environment(), job_id)
    try:
        with Store(settings or Settings.from_environment(), patience=PATIENCE_SECONDS) as store:
            store.queue.claim(job_id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))
            exit_code = _work(store, job_id, execute or _run_service())
            LocalEngine(store, command=command).tend()
            return exit_code
    except SynthError as error:
        return error.exit_code
    except Exception as error:
        record_incident(error)
        return INTERNAL_ERROR


def _renew(settings: Settings, run_id: str, renewal: Renewal, amount: str) -> int:
    from synth.services.reports import carry_out_renewal  # imported late: it loads every generator

    return carry_out_renewal(settings, run_id, renewal, amount)


def _rehearse(settings: Settings, digest: str) -> int:
    from synth.rehearsal.rehearsals import Rehearsals  # imported late: it loads every generator

    with Installation.open(settings, patience=PATIENCE_SECONDS) as installation:
        return Rehearsals(installation).carry_out(digest)


def _work(store: Store, run_id: str, execute: Execute) -> int:
    try:
        with _heartbeat(store, run_id):
            execute(run_id, settings=store.settings, progress=StoredProgress(store.runs, run_id))
        if store.runs[run_id].is_active:
            raise JobError("The run ended without a result.")
    except (RunCancelledError, KeyboardInterrupt):
        return _stop(store, run_id, RunState.CANCELLED, "The run was cancelled.", RunCancelledError.exit_code)
    except SynthError as error:
        return _stop(store, run_id, RunState.FAILED, str(error), error.exit_code)
    except BaseException as error:
        full = own_error(error, store.settings.home)
        if full is not None:
            return _stop(store, run_id, RunState.FAILED, str(full), full.exit_code)
        if is_lack_of_means(error) and put_back(store, store.runs[run_id], same_device=False):
            return LACK_OF_MEANS
        # The message of a library may quote a cell: only the type and the place in the code are kept.
        incident = record_incident(error)
        detail = {"incident": incident, "type": type(error).__name__, "where": code_location(error)}
        store.events.add(EventKind.INCIDENT, run_id=run_id, detail=detail)
        message = f"Something went wrong inside the program (incident {incident})."
        return _stop(store, run_id, RunState.FAILED, message, INTERNAL_ERROR, incident_id=incident)
    return 0


def _stop(
    store: Store, run_id: str, state: RunState, message: str, exit_code: int, *, incident_id: str | None = None
) -> int:
    if not store.runs[run_id].is_active:
        return exit_code  # it was ended meanwhile, and what it was charged settled
    run_folder.clear(store.settings, run_id)
    charges = Ledger(store).settle(run_id)
    spent = any(charge.state is ChargeState.FAILED_SPENT for charge in charges)
    consequence = STAYED_SPENT if spent else WAS_FREED if charges else ""
    store.runs.move(run_id, state, message=f"{message} {consequence}".rstrip(), incident_id=incident_id)
    return exit_code


@contextmanager
def _heartbeat(store: Store, run_id: str) -> Iterator[None]:
    """Renew the lease while the work goes on, from a thread, since one step may take longer than a lease."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(store.settings.heartbeat_seconds):
            try:
                store.queue.beat(run_id)
            except SynthError:
                continue  # a database that is away for a moment; the next beat tries again

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _run_service() -> Execute:
    from synth.services.runs import execute  # imported late: it loads every generator

    return execute


def _forbid_core_dumps() -> None:
    # A core dump would hold the rows in clear.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
