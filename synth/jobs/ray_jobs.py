"""The engine of several machines: runs are jobs of a Ray cluster, which has their queue and gives out CPUs and GPUs.

A job is the worker's command with the id of its run, and nothing else passes through Ray: this program is not imported
by Ray's processes, stores no object there, and writes nothing to its logs. Screens and other short work stay on the
machine that asked for them, as :class:`LocalWorkers`.

The name of a job follows from its run and attempt, so a job that was submitted by a server that then died is found, and
the same attempt is never submitted twice. Ray is never asked to repeat a job. If it has lost its table of jobs, or does
not answer, the heartbeat of a worker tells whether it lives.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from synth.errors import ClusterAwayError, ConfigError, JobError
from synth.jobs.engine import THREAD_VARIABLES, WORKER_COMMAND, Capacity, Engine, WorkerState
from synth.jobs.local import LocalWorkers
from synth.store import Store, Work, WorkKind
from synth.system.settings import Settings

__all__ = ["RayClient", "RayEngine", "RayWorkers", "require_home"]

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
"""How long Ray may take to be reached, and for one answer, before it counts as unavailable."""

PAUSE_SECONDS = 15.0
"""How long Ray is not asked again after it did not answer."""

ENDED = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})

NEVER_STARTED = frozenset({"JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "JOB_SUPERVISOR_ACTOR_DIED"})
"""Ways in which a job ends although its command may never have started: it waited too long, or lost its machine."""

NOT_TAKEN = (
    "A machine of the cluster started the worker, but it could not take the run. Check that DATABASE_URL there names "
    "the database of this installation, that HERMITAGE_HOME is there under the same path, and that this version of "
    "Hermitage is installed there at the same place."
)

_LOG = logging.getLogger(__name__)


def require_home(settings: Settings) -> None:
    """Refuse to work on a machine that does not see the shared home, where a new one would be made instead.

    Raises
    ------
    ConfigError
        If the home has no keys.
    """
    if not (settings.home / "keys").is_dir():
        raise ConfigError(
            "HERMITAGE_HOME on this machine is not the home of the installation: it has no keys. Mount the shared "
            "folder under the same path on every machine."
        )


@dataclass(frozen=True, slots=True)
class _Job:
    """What Ray says of one job."""

    status: str
    error_type: str

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


class RayClient:
    """Ray's documented interface for jobs over HTTP.

    Ray's own client waits without end for a head that does not answer, and takes its address from ``RAY_ADDRESS``,
    which every job has.

    Parameters
    ----------
    address : str
        ``http://host:port`` of the dashboard of the cluster.
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, address: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._address, self._clock = address, clock
        self._silent_until = -1.0
        self._lock = threading.Lock()

    def job(self, name: str) -> _Job | None:
        """Return what Ray says of a job, or None if it knows none of this name."""
        status, body = self._ask("GET", f"/api/jobs/{name}")
        if status == http.client.NOT_FOUND:
            return None
        found = self._parsed(status, body)
        return _Job(str(found.get("status")), str(found.get("error_type") or ""))

    def submit(self, name: str, command: str, *, cpus: int, gpus: int, environment: Mapping[str, str]) -> None:
        """Submit a job; without effect if there is one of this name."""
        request = {
            "submission_id": name,
            "entrypoint": command,
            "entrypoint_num_cpus": cpus,
            "entrypoint_num_gpus": gpus,
            "runtime_env": {"env_vars": dict(environment)},
        }
        status, _ = self._ask("POST", "/api/jobs/", request)
        # Of two servers that submit it at once, one gets an error.
        if status != http.client.OK and self.job(name) is None:
            raise self._away(f"refused a job (status {status})")

    def stop(self, name: str) -> None:
        """Ask for the end of a job, if there is one; it is killed if it does not end within seconds."""
        self._ask("POST", f"/api/jobs/{name}/stop")

    def delete(self, name: str) -> None:
        """Forget a job that has ended; without effect on others."""
        self._ask("DELETE", f"/api/jobs/{name}")

    def machines(self) -> list[Mapping[str, float]]:
        """Return the resources of each machine, by name."""
        found = self._parsed(*self._ask("GET", "/api/v0/nodes"))
        try:
            nodes = found["data"]["result"]["result"]
            return [dict(node["resources_total"]) for node in nodes if node["state"] == "ALIVE"]
        except (KeyError, TypeError):
            raise self._away("gave an answer that is not understood") from None

    def _ask(self, method: str, path: str, request: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer.

        Raises
        ------
        ClusterAwayError
            If there is none, or Ray refuses the token. Nothing of what Ray answered is quoted.
        """
        with self._lock:
            if self._clock() < self._silent_until:
                raise self._error("does not answer")
        parts = urlsplit(self._address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(str(parts.hostname), parts.port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(ANSWER_SECONDS)
            body = None if request is None else json.dumps(request)
            connection.request(method, path, body=body, headers={"Content-Type": "application/json", **_token()})
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            raise self._away("does not answer") from None
        finally:
            connection.close()
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            raise self._away(
                "does not accept the token of this process", "Set RAY_AUTH_TOKEN_PATH to a file with the cluster's."
            )
        return status, content

    def _parsed(self, status: int, body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body) if status == http.client.OK else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._away(f"gave an answer that is not understood (status {status})")
        return found

    def _away(self, what: str, mend: str = "") -> ClusterAwayError:
        """Return the error, and ask nothing for a while."""
        _LOG.warning("The Ray cluster %s.", what)
        with self._lock:
            self._silent_until = self._clock() + PAUSE_SECONDS
        return self._error(what, mend)

    def _error(self, what: str, mend: str = "") -> ClusterAwayError:
        mend = mend or "Check that the cluster runs and that HERMITAGE_RAY names its dashboard, then try again."
        return ClusterAwayError(
            f"The Ray cluster at {self._address} {what}. Runs in the queue wait for it; nothing new is reserved. {mend}"
        )


def _token() -> dict[str, str]:
    """Return the header with the cluster's token, from the variables and the file in which Ray itself looks for it."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return {}
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    if not token:
        path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
        try:
            token = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return {}
    return {"Authorization": f"Bearer {token.strip()}"}


class RayWorkers:
    """Jobs of a Ray cluster for runs, and processes of this machine for all other work.

    Parameters
    ----------
    store : Store
        On PostgreSQL.
    local : LocalWorkers
        For what is not a run of the queue.
    client : RayClient
    command : sequence of str
        Command that is run with the run's id as its last argument, under this path on every machine.
    """

    def __init__(
        self, store: Store, local: LocalWorkers, client: RayClient, *, command: Sequence[str] = WORKER_COMMAND
    ) -> None:
        self._store, self._settings = store, store.settings
        self._local, self._client = local, client
        self._command = tuple(command)

    def capacity(self) -> Capacity:
        """Return the GPUs of the cluster, and the share of one slot in the cores of its smallest machine."""
        machines = self._client.machines()
        cores = [int(machine["CPU"]) for machine in machines if machine.get("CPU", 0) >= 1]
        share = min(cores, default=1) // max(1, self._settings.job_slots)
        gpus = sum(int(machine.get("GPU", 0)) for machine in machines)
        return Capacity(gpus=gpus, threads=self._settings.threads or max(1, share))

    def due(self) -> Iterator[Work]:
        """Yield every queued run: Ray gives out what there is."""
        yield from self._store.work.waiting()

    def submit(self, work: Work) -> None:
        """Submit a run, unless this attempt was submitted before; while Ray is away it waits in the queue."""
        if work.kind is not WorkKind.RUN:
            self._local.submit(work)
            return
        name = _name(work)
        try:
            job = self._client.job(name)
            if job is not None and job.has_ended:
                # Its worker would have claimed the run first, and this attempt would have another number.
                if job.error_type not in NEVER_STARTED:
                    raise JobError(NOT_TAKEN)
                self._client.delete(name)
                job = None
            if job is None:
                self._post(name, work)
        except ClusterAwayError:
            return

    def state(self, work: Work) -> WorkerState:
        """Return what Ray says of the worker; UNKNOWN if it says nothing."""
        if not _is_job(work):
            return self._local.state(work)
        try:
            job = self._client.job(_name(work))
        except ClusterAwayError:
            return WorkerState.UNKNOWN
        if job is None:
            return WorkerState.UNKNOWN  # a new head does not know the jobs of the old one
        return WorkerState.DEAD if job.has_ended else WorkerState.ALIVE

    def cancel(self, work: Work) -> bool:
        """Have Ray end the worker; it is gone when Ray says so."""
        if not _is_job(work):
            return self._local.cancel(work)
        self.withdraw(work)
        return False

    def withdraw(self, work: Work) -> None:
        """Have Ray end the job; if Ray is away, the worker finds that its run was cancelled."""
        try:
            self._client.stop(_name(work))
        except ClusterAwayError:
            return

    def sees_the_end(self, work: Work) -> bool:
        """Whether the run was in the queue: all machines share its answers and the lock that one worker has on them."""
        return _is_job(work) or self._local.sees_the_end(work)

    def _post(self, name: str, run: Work) -> None:
        there = self.capacity()
        threads = run.cpus or there.threads
        gpus = run.gpus if there.gpus else 0
        environment = {
            "HERMITAGE_HOME": str(self._settings.home),
            "HERMITAGE_RAY": self._settings.ray,
            "HERMITAGE_JOB_SLOTS": str(max(1, self._settings.job_slots)),
            "HERMITAGE_THREADS": str(threads),
            **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        }
        if not gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        # Ray keeps what a job prints, and a library's warning may quote a cell.
        command = f"exec {shlex.join((*self._command, run.id))} </dev/null >/dev/null 2>&1"
        self._client.submit(name, command, cpus=threads, gpus=gpus, environment=environment)


def _name(run: Work) -> str:
    """Return the name of the job of a run's present attempt or, while it waits, of its next one."""
    attempt = run.attempts if run.is_active else run.attempts + 1
    return f"hermitage-{run.id}-{attempt}"


def _is_job(work: Work) -> bool:
    """Whether active work is a job; a run without a place in the queue is executed by ``synth run`` itself."""
    return work.kind is WorkKind.RUN and work.place is not None


class RayEngine(Engine):
    """Runs background work on the machines of a Ray cluster.

    Parameters
    ----------
    store : Store
    command : sequence of str
        Command of a worker, under this path on every machine.
    clock : callable
        Monotonic seconds; a test passes its own.
    """

    def __init__(
        self, store: Store, *, command: Sequence[str] = WORKER_COMMAND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        client = RayClient(store.settings.ray, clock=clock)
        local = LocalWorkers(store, command=command)
        super().__init__(store, RayWorkers(store, local, client, command=command), clock=clock)
