"""A real server on a home of its own, and a real browser; one of each for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import ROOT, Server

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
MISSING = "no Chromium found: install it with 'apt-get install -y chromium' or 'python -m playwright install chromium'"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    temporary = folder / "tmp"
    temporary.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    environment |= {"HERMITAGE_HOME": str(folder / "home"), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "streamlit",
                "run",
                "app.py",
                "--server.headless",
                "true",
                "--server.port",
                str(port),
            ],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_health(f"http://127.0.0.1:{port}", process)
        yield Server(f"http://127.0.0.1:{port}", folder / "home", temporary, log, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        own = engine.chromium.executable_path
        if found is None and not Path(own).exists():
            pytest.skip(MISSING)
        running = engine.chromium.launch(executable_path=found or own, args=FLAGS)
        yield running
        running.close()


def _wait_for_health(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        if process.poll() is not None:
            raise RuntimeError("the server stopped before it answered")
        try:
            # Any unknown path answers 200 with the page: only the body tells that the server is up.
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:  # noqa: S310 - our own server
                if answer.read() == b"ok":
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.25)
    raise RuntimeError("the server did not answer within a minute")
