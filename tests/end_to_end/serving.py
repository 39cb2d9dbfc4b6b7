"""Starting a server for a test, and where it runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OWN_NAMES", "ROOT", "Server", "started_server", "wait_for_health"]

ROOT = Path(__file__).resolve().parents[2]
OWN_NAMES = ("synth.example.org", "10.9.8.7")
"""Of the server that most tests share, besides those that every server has."""


@dataclass(frozen=True)
class Server:
    """Where the application runs, and the three places where nothing of a table may be found in clear."""

    address: str
    home: Path
    temporary: Path
    log: Path
    pid: int

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.address.rpartition(":")[2])


@contextmanager
def started_server(
    folder: Path,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    port: int | None = None,
    module: Sequence[str] | None = None,
) -> Iterator[Server]:
    """Start the application with a home and a folder for temporary files of its own; stop it at the end of the block.

    After a server that was killed another one may be started in the same folder.

    Parameters
    ----------
    folder : Path
    arguments : str
        More of the command line.
    variables : mapping, optional
        More of the environment.
    port : int, optional
        By default a free one.
    module : sequence of str, optional
        What starts it with its port, instead of ``synth app``.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    environment |= {"HERMITAGE_HOME": str(folder / "home"), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    environment |= variables or {}
    log = folder / "server.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *(module or starting(port)), *arguments],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_health(f"http://127.0.0.1:{port}", process)
        yield Server(f"http://127.0.0.1:{port}", folder / "home", temporary, log, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=600)


def starting(port: int) -> list[str]:
    """Return the module that starts the application, and its arguments; those of the server may follow."""
    return ["synth", "app", "--no-browser", "--port", str(port), "--"]


def wait_for_health(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers that it is up."""
    for _ in range(1200):
        if process.poll() is not None:
            raise RuntimeError("the server stopped before it answered")
        # Any unknown path answers 200 with the page: only the body tells that the server is up.
        with (
            suppress(OSError),  # nobody answers yet
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer,  # noqa: S310 - our own server
        ):
            if answer.read() == b"ok":
                return
        time.sleep(0.25)
    raise RuntimeError("the server did not answer within five minutes")
