"""Pages are tested with a real application on a home of their own; nothing is replaced."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.runtime.pages_manager import PagesManager

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(autouse=True)
def warm_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run behave as on a server where app.py has run once; AppTest forgets that before each of them."""
    if "cold" in request.node.name:
        return
    original = PagesManager.__init__

    def made(self: PagesManager, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        PagesManager.uses_pages_directory = False

    monkeypatch.setattr(PagesManager, "__init__", made)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give every test a fresh home, and give the logs back as they were."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HERMITAGE_HOME", str(folder))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = logging.getLogRecordFactory()
    yield folder
    logging.setLogRecordFactory(made)
