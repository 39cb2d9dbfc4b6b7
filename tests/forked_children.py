"""Confined processes for tests without the wait for their imports: each is forked from one that has its module.

A release starts a fresh interpreter for every table that is read and every bundle that is checked, and most of what a
small one costs is its imports. Here one process for each module and environment imports it, as such an interpreter
does, and waits; what is asked for is a fork of it that goes on as ``python -m module`` would, with the same limits.
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
from contextlib import suppress
from typing import Any

__all__ = ["ForkedChildren"]

_MOST_BYTES = 2**16

_LATER = {"synth.bundle.checks": ("autodp.rdp_acct", "torch")}
"""What a module imports while it works, by the module."""


class ForkedChild:
    """What :class:`synth.system.confined.Confined` uses of a :class:`subprocess.Popen`."""

    def __init__(self, server: socket.socket, arguments: list[str]) -> None:
        (questions, stdin), (stdout, answers), (self._status, status) = os.pipe(), os.pipe(), os.pipe()
        told = json.dumps({"arguments": arguments, "folder": os.getcwd()}).encode()
        socket.send_fds(server, [told], [questions, answers, status])
        for descriptor in (questions, answers, status):
            os.close(descriptor)
        number, handles, _, _ = socket.recv_fds(server, _MOST_BYTES, 1)
        (self._handle,) = handles
        self.pid = int(number)
        self.returncode: int | None = None
        self.stdin = io.FileIO(stdin, "wb")
        self.stdout = io.FileIO(stdout, "rb")

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
            self.returncode = int(os.read(self._status, _MOST_BYTES))
            os.close(self._status)
            os.close(self._handle)
        return self.returncode

    def kill(self) -> None:
        """Kill it, and no other process that has got its number."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)


class ForkedChildren:
    """Stands where ``synth.system.confined`` looks for ``subprocess``.

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
        """Start ``python -P -m module arguments``."""
        module, *arguments = command[3:]
        if self.are_started_anew or not module.startswith("synth."):
            return subprocess.Popen(command, env=env, **options)
        with self._lock:
            return ForkedChild(self._server_of(module, env), arguments)

    def _server_of(self, module: str, environment: dict[str, str]) -> socket.socket:
        name = (module, *sorted(environment.items()))
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
    """Import a module, and go on as it in every process that is asked for."""
    for name in (module, *_LATER.get(module, ())):
        importlib.import_module(name)
    gc.freeze()
    asked = _serve(socket.socket(fileno=descriptor))
    if asked is None:
        return
    os.chdir(asked["folder"])
    # The first ones remember what lay below them.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)), encoding="utf-8")
    sys.argv = [module, *asked["arguments"]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
