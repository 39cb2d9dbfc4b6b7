"""Pages are tested with a real application on a home of their own; nothing is replaced."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, local_script_runner
from streamlit.testing.v1.element_tree import FileUploader

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from driving import LABELLED, open_app, started, wait_for_run  # noqa: E402 - after the path to the pages is known

from pages.server.uploads import incoming  # noqa: E402
from pages.ui.session import application  # noqa: E402
from synth import worker  # noqa: E402
from synth.jobs import processes  # noqa: E402
from synth.system.settings import Settings  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def one_server() -> Iterator[None]:
    """Find components and compile screens once, as one server does for all its visitors; AppTest would every time."""
    compiled, known = ScriptCache.get_bytecode, ScriptCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        patch.setattr(ScriptCache, "get_bytecode", lambda _, path: compiled(known, path))
        patch.setattr(local_script_runner, "require_widgets_deltas", ended)
        yield


def ended(runner: local_script_runner.LocalScriptRunner, timeout: float) -> None:
    """Wait for the end of a screen's run; AppTest looks every millisecond, through all that the screen has sent."""
    runner._script_thread.join(timeout)
    if not runner.script_stopped():
        runner.request_stop()
        raise RuntimeError(f"the screen ran longer than {timeout} seconds")


@pytest.fixture(autouse=True)
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give every test a fresh home and a server where app.py has run once, and give the logs back as they were."""
    folder = tmp_path / "home"
    use(folder, monkeypatch, warm="cold" not in request.node.name)
    made = logging.getLogRecordFactory()
    yield folder
    logging.setLogRecordFactory(made)


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Carry one run to its report; tests work on copies of its home. Returns the home, the table and the run.

    What its noise is, is known, as that of every test here is: what tests read from its report does not change.
    """
    folder = tmp_path_factory.mktemp("finished") / "home"
    with pytest.MonkeyPatch.context() as patch:
        use(folder, patch)
        work_in_this_process(patch)
        app = started(LABELLED)
        assert wait_for_run(app) == "reported"
        held = app.session_state["draft"]
        application().close()
    return folder, held["table_id"], held["run_id"]


@pytest.fixture
def finished(finished_home: tuple[Path, str, str], home: Path) -> AppTest:
    """Return an application, opened again by its address, whose run has its report."""
    folder, table_id, run_id = finished_home
    shutil.copytree(folder, home)
    app = open_app()
    app.query_params["table"] = table_id
    app.query_params["run"] = run_id
    return app.run()


@pytest.fixture
def worker_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carry work out in the process of the test, with its known randomness, before the page that starts it is drawn."""
    work_in_this_process(monkeypatch)


@pytest.fixture
def work_to_do(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], int]]:
    """Start no worker: what one would do waits here until the test does it, with its known randomness."""
    waiting: list[Callable[[], int]] = []

    def start(command: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, float]:
        waiting.append(partial(worker.main, [command[-1]], settings=Settings.from_environment(environment)))
        return os.getpid(), processes.birth_of(os.getpid())

    monkeypatch.setattr(processes, "start", start)
    return waiting


def work_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Have no worker started: its ``main`` is called where one would be."""

    def start(command: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, float]:
        worker.main([command[-1]], settings=Settings.from_environment(environment))
        return os.getpid(), 0.0

    patch.setattr(processes, "start", start)


def use(folder: Path, patch: pytest.MonkeyPatch, *, warm: bool = True) -> None:
    """Work on a home; ``warm`` behaves as a server on which app.py has run once, which AppTest forgets every time."""
    patch.setenv("HERMITAGE_HOME", str(folder))
    patch.delenv("DATABASE_URL", raising=False)
    patch.setenv("OMP_NUM_THREADS", "1")
    original = PagesManager.__init__

    def made(self: PagesManager, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        PagesManager.uses_pages_directory = False

    if warm:
        patch.setattr(PagesManager, "__init__", made)
    # The server stands between a browser and Streamlit; without one, files come in the way they do there.
    patch.setattr(FileUploader, "upload", arriving)


def arriving(self: FileUploader, filename: str, content: bytes, mime_type: str = "text/plain") -> FileUploader:
    """Upload a file as the server does: encrypted into the incoming files, with a ticket for Streamlit."""
    arrival = incoming().arrive("test session id", str(uuid4()))
    arrival.write(content)
    return self.set_value((filename, arrival.finish(), mime_type))
