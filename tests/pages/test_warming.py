"""What is frozen before the first page, and what is still collected afterwards; each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def told(script: str) -> Any:
    """Run a script in a new process; return the JSON of its last line."""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.thorough
def test_a_view_of_a_page_finds_the_libraries_frozen(tmp_path: Path) -> None:
    found = told(
        "import gc, json, os\n"
        f"os.environ['HERMITAGE_HOME'] = {str(tmp_path)!r}\n"
        "from streamlit.testing.v1 import AppTest\n"
        "view = AppTest.from_file('app.py', default_timeout=300).run()\n"
        "print(json.dumps([gc.get_freeze_count(), len(gc.get_objects()), [held.value for held in view.title]]))"
    )
    frozen, looked_through, titles = found
    assert titles
    assert frozen > 200_000
    assert looked_through < frozen / 4


@pytest.mark.thorough
def test_it_happens_once_and_what_comes_later_is_collected() -> None:
    found = told(
        "import gc, json, sys, threading, weakref\n"
        "from pages.server.serving import warm_up\n"
        "loaded = 'torch' in sys.modules\n"
        "callers = [threading.Thread(target=warm_up) for _ in range(4)]\n"
        "[caller.start() for caller in callers]\n"
        "[caller.join() for caller in callers]\n"
        "before = gc.get_freeze_count()\n"
        "class Session: pass\n"
        "session = Session(); session.itself = session; gone = weakref.ref(session)\n"
        "warm_up()\n"
        "del session\n"
        "gc.collect(2)\n"
        "print(json.dumps({'now': 'pages.report' in sys.modules,\n"
        "    'more': gc.get_freeze_count() - before, 'gone': gone() is None}))"
    )
    assert found["now"]
    assert found["more"] <= 0
    assert found["gone"]


@pytest.mark.thorough
def test_a_collection_costs_next_to_nothing_afterwards() -> None:
    found = told(
        "import gc, json, time\n"
        "def cost():\n"
        "    began = time.process_time(); gc.collect(2); return time.process_time() - began\n"
        "import importlib, pkgutil, pages\n"
        "for held in pkgutil.walk_packages(pages.__path__, 'pages.'):\n"
        "    importlib.import_module(held.name)\n"
        "before = min(cost() for _ in range(3))\n"
        "from pages.server.serving import warm_up\n"
        "warm_up()\n"
        "print(json.dumps([before, min(cost() for _ in range(3))]))"
    )
    before, after = found
    assert after < before / 20
