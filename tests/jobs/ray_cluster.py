"""A real Ray of one machine for a test, with the cards it is told to have."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from synth.jobs.ray_jobs import ENDED

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 300.0


def free_ports(most: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(most)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class RayCluster:
    """A head that asks for a token, whose processes this test may kill.

    Parameters
    ----------
    environment : dict
        Of the machines of the cluster: what an administrator would set there.
    """

    def __init__(self, environment: dict[str, str], *, cpus: int = 4, gpus: int = 1) -> None:
        program = Path(sys.executable).with_name("ray")
        if not program.exists():
            pytest.skip("no Ray here; install it with: pip install '.[ray]'")
        self.directory = Path(tempfile.mkdtemp(prefix="hermitage-ray-"))
        self.token = self.directory / "token"
        self.token.write_text(secrets.token_hex(16))
        self.token.chmod(0o600)
        self.client_environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token)}
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.client_environment, **environment}
        port, self._dashboard, *others = free_ports(6)
        names = (
            "dashboard-agent-listen-port",
            "dashboard-agent-grpc-port",
            "metrics-export-port",
            "runtime-env-agent-port",
        )
        self._command = [
            str(program), "start", "--head", "--block", "--disable-usage-stats", f"--port={port}",
            "--dashboard-host=127.0.0.1", f"--dashboard-port={self._dashboard}", f"--num-cpus={cpus}",
            f"--num-gpus={gpus}", "--object-store-memory=80000000", f"--temp-dir={self.directory}/t",
            *(f"--{name}={port}" for name, port in zip(names, others, strict=True)),
        ]  # fmt: skip
        self._head: psutil.Popen | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._dashboard}"

    def start(self) -> None:
        """Start the head, and wait until it has done a job."""
        nowhere = subprocess.DEVNULL
        self._head = psutil.Popen(
            self._command,
            env=self._environment,
            cwd=self.directory,
            start_new_session=True,
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
        )
        try:
            end = time.monotonic() + PATIENCE_SECONDS
            while not self._does_a_job():
                assert time.monotonic() < end, "Ray does not start"
        except BaseException:
            self.close()
            raise

    def _does_a_job(self) -> bool:
        name = f"first-{time.monotonic_ns()}"
        if self.ask("POST", "/api/jobs/", {"submission_id": name, "entrypoint": "true"}) is None:
            time.sleep(0.5)
            return False
        while (job := self.job(name)) is not None and job["status"] not in ENDED:
            time.sleep(0.2)
        return job is not None and bool(job["status"] == "SUCCEEDED")

    def crash(self) -> None:
        """Kill what Ray itself consists of, and none of its jobs."""
        assert self._head is not None
        for process in [*self._head.children(), self._head]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._head.wait()

    def close(self) -> None:
        """End everything that this cluster started."""
        assert self._head is not None
        everything = []
        with contextlib.suppress(psutil.NoSuchProcess):
            everything = [*self._head.children(recursive=True), self._head]
        for process in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(everything, timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def end_jobs(self) -> None:
        """End what a test left, before its database is emptied: at its end a worker tends the queue that it finds."""
        end = time.monotonic() + PATIENCE_SECONDS
        while left := [job for job in self.ask("GET", "/api/jobs/") if job["status"] not in ENDED]:
            for job in left:
                self.ask("POST", f"/api/jobs/{job['submission_id']}/stop")
            assert time.monotonic() < end, "Ray does not end a job"
            time.sleep(0.2)

    def ask(self, method: str, path: str, request: object = None) -> Any:
        """Return what the dashboard answers; None if it does not."""
        connection = http.client.HTTPConnection("127.0.0.1", self._dashboard, timeout=60)
        try:
            header = {"Authorization": f"Bearer {self.token.read_text()}"}
            connection.request(method, path, body=None if request is None else json.dumps(request), headers=header)
            answer = connection.getresponse()
            content = answer.read()
            return json.loads(content) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def job(self, name: str) -> dict[str, Any] | None:
        return self.ask("GET", f"/api/jobs/{name}")

    def jobs_of(self, run_id: str) -> list[dict[str, Any]]:
        return [job for job in self.ask("GET", "/api/jobs/") if run_id in str(job["submission_id"])]
