"""A real server on a home of its own, a real browser, and one walk from a file to a sealed release, for all tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from canaries import CANARIES
from serving import OWN_NAMES, Server, started_server
from walking import CODEBOOK, Walker, small_table, walk_to_bundle

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
MISSING = "no Chromium found: install it with 'apt-get install -y chromium' or 'python -m playwright install chromium'"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start as the container does, on every address, with names of its own."""
    folder = tmp_path_factory.mktemp("server")
    # Screens may read databases that lie beside its home.
    variables = {"HERMITAGE_DATABASES": str(folder / "databases"), "HERMITAGE_HOSTS": ", ".join(OWN_NAMES)}
    with started_server(folder, "--server.address", "0.0.0.0", variables=variables) as started:  # noqa: S104 - as asked
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


QUIET_COLUMN = "quietremark"


@dataclass(frozen=True)
class Walk:
    """A walk from a file with canaries to a downloaded bundle, at the end of which the browser still stands.

    Attributes
    ----------
    walker : Walker
        Who walked; its page shows the sealed release.
    other : Walker
        A second session, open meanwhile.
    asked : list of str
        Every address that the walker's page asked for something.
    table, codebook, bundle : Path
        The files uploaded, and the bundle downloaded.
    """

    walker: Walker
    other: Walker
    asked: list[str]
    table: Path
    codebook: Path
    bundle: Path


@pytest.fixture(scope="session")
def walk(server: Server, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    table, codebook = small_table(folder, "quiet-heron-7731.csv", first=CANARIES), folder / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account="canary-survey"), encoding="utf-8")
    for path in (table, codebook):  # a name of a column that no screen has
        path.write_text(path.read_text(encoding="utf-8").replace("remark", QUIET_COLUMN), encoding="utf-8")
    walker, other = Walker(browser, server.address), Walker(browser, server.address)
    asked: list[str] = []
    walker.page.on("request", lambda request: asked.append(request.url))
    other.open()
    bundle = walk_to_bundle(walker, table, codebook, "canary-survey", folder / "bundle.zip")
    yield Walk(walker, other, asked, table, codebook, bundle)
    walker.close()
    other.close()
