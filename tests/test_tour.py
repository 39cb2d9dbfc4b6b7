"""The tour of examples/tour.ipynb, and what its document prints, run from top to bottom in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from printed import blocks

ROOT = Path(__file__).resolve().parents[1]
CELLS = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


@pytest.mark.thorough
def test_the_tour_runs_from_top_to_bottom(tmp_path: Path) -> None:
    program = tmp_path / "tour.py"
    printed = blocks("docs/python-and-command-line.md", "python")
    program.write_text("\n".join([*CODE, "assert len(release.table_) == 3_000", *printed]), encoding="utf-8")
    environment = os.environ | {"HERMITAGE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    run = [sys.executable, str(program)]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Promised: epsilon = 1.99998" in done.stdout
    assert "\nTrue\n{'type': 'number', 'low': 30, " in done.stdout
    assert done.stdout.endswith("300 of 300 cells read as numbers\n")


def test_the_tour_shows_what_came_out_and_no_place_of_a_machine() -> None:
    assert all(cell["outputs"] for cell in CELLS if cell["cell_type"] == "code" and "".join(cell["source"])[-1] == ")")
    assert "/home/" not in json.dumps(CELLS)
    assert "/tmp/" not in json.dumps(CELLS)
