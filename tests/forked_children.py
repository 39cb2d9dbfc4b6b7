"""Confined processes and workers for tests without the wait for their imports: each is forked from one that has them.

A release starts a fresh interpreter for every table that is read, every bundle that is checked and every run, and most
of what a small one costs is its imports. Here one process for each module, and each environment of confined ones,
imports it, as such an interpreter does, and waits; what is asked for is a fork of it that goes on as ``python -m
module``, or ``python script`` of a worker in this folder, would, with the same limits.
What tests/conftest.py calls started anew, servers, workers and command lines start theirs as a release does.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["ForkedChildren"]

_MOST_BYTES = 2**17

_WORK = (
    *("synth.services.runs", "synth.services.finding", "synth.services.reports", "synth.rehearsal.rehearsals"),
    "synth.services.checking_again",
    *("autodp.rdp_acct", "torch._dynamo", "pandas"),
)
_ALWAYS_LATER = ("pydantic.dataclasses", "pydantic.type_adapter", "dateutil.relativedelta")
_LATER = {
    "synth.bundle.checks": ("autodp.rdp_acct", "autodp.dp_bank", "torch"),
    "synth.worker": (*_WORK, "scipy.stats", "sdmetrics.reports", "sklearn.ensemble", "sklearn.linear_model"),
    "stopping_worker.py": _WORK,
}
"""What a module or script imports while it works: each of them, and by its name."""

_HERE = Path(__file__).resolve().parent


class ForkedChild:
    """What the program uses of a :class:`subprocess.Popen`."""

    def __init__(self, server: socket.socket, wanted: Mapping[str, Any], *, is_heard: bool) -> None:
        self._status, status = os.pipe()
        if is_heard:
            (questions, stdin), (stdout, answers) = os.pipe(), os.pipe()
            self.stdin, self.stdout = io.FileIO(stdin, "wb"), io.FileIO(stdout, "rb")
        else:
            questions, answers = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        told = json.dumps({**wanted, "folder": os.getcwd()}).encode()
        socket.send_fds(server, [told], [questions, answers, status])
        for descriptor in (questions, answers, status):
            os.close(descriptor)
        number, handles, _, _ = socket.recv_fds(server, _MOST_BYTES, 1)
        (self._handle,) = handles
        self.pid = int(number)
        self.returncode: int | None = None
        self._telling = threading.Lock()

    def __del__(self) -> None:
        """Let go of it only now: another thread may be asking while one is told how it ended."""
        for descriptor in (self._status, self._handle):
            os.close(descriptor)

    def poll(self) -> int | None:
        """Return how it ended, None where it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return how."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._status, select.POLLIN)
            if not ended.poll(None if timeout is None else 1000 * timeout):
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0.0)
            with self._telling:
                if self.returncode is None:
                    self.returncode = int(os.read(self._status, _MOST_BYTES))
        return self.returncode

    def kill(self) -> None:
        """Kill it, and no other process that has got its number."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)


class ForkedChildren:
    """Stands where ``synth.system.confined`` and ``synth.jobs.processes`` look for ``subprocess``.

    Attributes
    ----------
    are_started_anew : bool
        Whether the next ones are started as a release starts them.
    """

    PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

    def __init__(self) -> None:
        self.are_started_anew = False
        self._lock = threading.Lock()
        self._servers: dict[tuple[object, ...], tuple[socket.socket, subprocess.Popen[bytes]]] = {}

    def Popen(self, command: list[str], *, env: dict[str, str], **options: Any) -> Any:
        """Start ``python -P -m module arguments``, ``python -m synth.worker work`` or ``python a_worker.py work``."""
        wanted: dict[str, Any] = {"environment": env, "session": options.get("start_new_session", False)}
        with self._lock:
            match command:
                case _ if self.are_started_anew or options.get("pass_fds"):  # memory is shared with no fork
                    pass
                case [_, "-P", "-m", module, *arguments] if module.startswith("synth."):
                    server = self._server_of(module, env, (module, *sorted(env.items())))
                    return ForkedChild(server, {**wanted, "arguments": arguments}, is_heard=True)
                case [_, "-m", "synth.worker", *arguments]:
                    server = self._server_of("synth.worker", env, ("synth.worker",))
                    return ForkedChild(server, {**wanted, "arguments": arguments}, is_heard=False)
                case [_, script, *arguments] if script.endswith("_worker.py") and Path(script).is_relative_to(_HERE):
                    server = self._server_of(script, env, (script,))
                    return ForkedChild(server, {**wanted, "arguments": arguments}, is_heard=False)
        return subprocess.Popen(command, env=env, **options)

    def _server_of(self, module: str, environment: dict[str, str], name: tuple[object, ...]) -> socket.socket:
        if name not in self._servers:
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                process = subprocess.Popen(
                    [sys.executable, "-P", __file__, str(there.fileno()), module],
                    env=environment,
                    pass_fds=[there.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            self._servers[name] = here, process
        return self._servers[name][0]

    def close(self) -> None:
        """End what waits to be forked."""
        for channel, process in self._servers.values():
            channel.close()
            process.wait()
        self._servers.clear()


# In the process that is forked ----------------------------------------------------------------------------------------


def _prepare_to_read_columns() -> None:
    """Have pydantic make what reads each type of column: that takes longer than reading a small table."""
    from synth.errors import SchemaError
    from synth.schema.columns import COLUMN_TYPES, parse_column

    for kind in COLUMN_TYPES:
        with suppress(SchemaError):  # of a type that needs more keys than this one
            parse_column("any", {"type": kind})


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for everything that is asked for; return what was asked for in each fork, None at the end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in waiting.poll()]
        if woken in ready:
            os.read(woken, _MOST_BYTES)
            _tell_how_they_ended(statuses)
        if channel.fileno() not in ready:
            continue
        told, (*streams, status), _, _ = _received(channel)
        if not told:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for place, stream in enumerate(streams):
                os.dup2(stream, place)
            for descriptor in (woken, wake, status, *streams, *statuses.values()):
                os.close(descriptor)
            channel.close()
            return dict(json.loads(told))
        for stream in streams:
            os.close(stream)
        statuses[pid] = status
        handle = os.pidfd_open(pid)
        socket.send_fds(channel, [str(pid).encode()], [handle])
        os.close(handle)


def _received(channel: socket.socket) -> tuple[bytes, list[int], int, Any]:
    told, descriptors, flags, address = socket.recv_fds(channel, _MOST_BYTES, 3)
    return told, descriptors or [-1], flags, address


def _tell_how_they_ended(statuses: dict[int, int]) -> None:
    while statuses:
        pid, ended = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        status = statuses.pop(pid)
        with suppress(BrokenPipeError):
            os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
        os.close(status)


def main(descriptor: int, module: str) -> None:
    """Import a module, or what a script imports, and go on as it in every process that is asked for."""
    is_script = module.endswith(".py")
    if is_script:
        sys.path.insert(0, str(Path(module).parent))
        runpy.run_path(module, run_name="imported")
    for name in (*(() if is_script else (module,)), *_ALWAYS_LATER, *_LATER.get(Path(module).name, ())):
        importlib.import_module(name)
    _prepare_to_read_columns()
    gc.freeze()
    asked = _serve(socket.socket(fileno=descriptor))
    if asked is None:
        return
    if asked["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    # The first ones remember what lay below them.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)), encoding="utf-8")
    sys.argv = [module, *asked["arguments"]]
    if is_script:
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
