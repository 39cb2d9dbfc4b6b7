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


_NEXT = iter(range(20_000 + 48 * os.getpid() % 12_000, 32_700))
"""Ports below those that the system gives out: no process of Ray is given one of them before another has opened it."""


def free_ports(most: int) -> list[int]:
    return [port for _ in range(most) for port in [next(filter(_is_free, _NEXT))]]


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True


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
        self._port, self._dashboard = free_ports(2)
        self._command = [
            *self._start_command(program, cpus=cpus, gpus=gpus),
            *("--head", f"--port={self._port}", f"--temp-dir={self.directory}/t"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={self._dashboard}"),
        ]
        self._program, self._others = program, list[psutil.Popen]()
        self._head: psutil.Popen | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._dashboard}"

    def start(self) -> None:
        """Start the head, and wait until it has done a job."""
        self._head = self._started(self._command)
        try:
            end = time.monotonic() + PATIENCE_SECONDS
            while not self._does_a_job():
                assert time.monotonic() < end, "Ray does not start"
                assert self._head.poll() is None, "Ray has ended"
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

    def add_machine(self, *, cpus: int) -> psutil.Popen:
        """Start another machine of the cluster, with processors of its own, and wait until the head knows it."""
        before = len(self._machines())
        address = f"--address={self._machines()[0]['node_ip']}:{self._port}"
        machine = self._started([*self._start_command(self._program, cpus=cpus, gpus=0), address])
        self._others.append(machine)
        end = time.monotonic() + PATIENCE_SECONDS
        while len(self._machines()) == before:
            assert time.monotonic() < end, "the machine does not start"
            time.sleep(0.2)
        return machine

    def crash(self, machine: psutil.Popen | None = None) -> None:
        """Kill what Ray itself consists of on a machine, by default on the head, and none of its jobs."""
        machine = machine or self._head
        assert machine is not None
        for process in [*machine.children(), machine]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        machine.wait()

    def close(self) -> None:
        """End everything that this cluster started."""
        assert self._head is not None
        everything: list[psutil.Process] = []
        for machine in (*self._others, self._head):
            with contextlib.suppress(psutil.NoSuchProcess):
                everything += [*machine.children(recursive=True), machine]
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

    def _machines(self) -> list[dict[str, Any]]:
        found = self.ask("GET", "/api/v0/nodes")["data"]["result"]["result"]
        return [machine for machine in found if machine["state"] == "ALIVE"]

    def _start_command(self, program: Path, *, cpus: int, gpus: int) -> list[str]:
        names = (
            *("dashboard-agent-listen-port", "dashboard-agent-grpc-port"),
            *("metrics-export-port", "runtime-env-agent-port"),
        )
        ports = [f"--{name}={port}" for name, port in zip(names, free_ports(4), strict=True)]
        return [
            *(str(program), "start", "--block", "--disable-usage-stats", f"--num-cpus={cpus}", f"--num-gpus={gpus}"),
            *("--object-store-memory=80000000", *ports),
        ]

    def _started(self, command: list[str]) -> psutil.Popen:
        nowhere = subprocess.DEVNULL
        return psutil.Popen(
            command,
            env=self._environment,
            cwd=self.directory,
            start_new_session=True,
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
        )

    def job(self, name: str) -> dict[str, Any] | None:
        return self.ask("GET", f"/api/jobs/{name}")

    def jobs_of(self, run_id: str) -> list[dict[str, Any]]:
        return [job for job in self.ask("GET", "/api/jobs/") if run_id in str(job["submission_id"])]
