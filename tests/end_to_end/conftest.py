"""A real server on a home of its own, and a real browser; one of each for all tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Server, started_server

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
MISSING = "no Chromium found: install it with 'apt-get install -y chromium' or 'python -m playwright install chromium'"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    # Screens may read databases that lie beside its home.
    with started_server(folder, variables={"HERMITAGE_DATABASES": str(folder / "databases")}) as started:
        yield started


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
