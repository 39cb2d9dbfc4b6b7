"""What the README and other documents print is run as it is printed, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def blocks(document: str, language: str) -> list[str]:
    """Return the blocks of a document that its fences say are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder in which ``.venv/bin/synth`` is this checkout's command line."""
    command = tmp_path / ".venv" / "bin" / "synth"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m synth "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return tmp_path


def run(command: list[str], folder: Path) -> None:
    environment = os.environ | {"HERMITAGE_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_quickstart_of_the_readme_runs(folder: Path) -> None:
    (shell,), (python,) = blocks("README.md", "sh"), blocks("README.md", "python")
    run(["bash", "-euc", shell], folder)
    run([sys.executable, "-c", python], folder)
    tables = [folder / name / "synthetic.csv" for name in ("release", "again", "second-release")]
    first, again, second = (table.read_bytes() for table in tables)
    assert first == again
    assert first != second


@pytest.mark.parametrize("document", ["docs/adding-a-generator.md", "docs/kahm.md"])
def test_the_python_of_a_document_runs_from_top_to_bottom(document: str, folder: Path) -> None:
    parts = blocks(document, "python")
    assert parts
    program = folder / "program.py"  # a file, as options take their help from their source
    program.write_text("\n".join(parts), encoding="utf-8")
    run([sys.executable, str(program)], folder)
