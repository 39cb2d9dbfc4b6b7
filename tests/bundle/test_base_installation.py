"""``pip install .`` and nothing more: what works without the packages that only extras bring, and what says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from golden_bundles import PUBLIC_KEY, golden

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
from importlib.machinery import PathFinder

MISSING = {"torch", "streamlit", "starlette", "uvicorn", "plotly", "xgboost", "sdmetrics", "psycopg"}
found = PathFinder.find_spec

def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in MISSING else found(name, path, target)

PathFinder.find_spec = classmethod(find_spec)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder in which every process of Python, and its children, find no package of an extra."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT, encoding="utf-8")
    return tmp_path


def synth(base: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(base), str(ROOT)]),
        "HERMITAGE_HOME": str(base / "home"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "synth", *arguments]
    return subprocess.run(command, cwd=base, env=environment, capture_output=True, text=True, check=False)


def test_the_packages_are_really_missing(base: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(base)}
    done = subprocess.run([sys.executable, "-c", "import torch"], env=environment, capture_output=True, check=False)
    assert b"No module named 'torch'" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["dp-hp-adaptive", "dp-hp-adaptive-several-rows", "independent", "independent-by-class"]
)
def test_bundles_of_counts_are_verified(base: Path, name: str) -> None:
    done = synth(base, "verify", str(golden(name)), "--public-key", str(PUBLIC_KEY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All checks passed. What they leave out is listed above." in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["dp-hp", "dp-merf-no-label", "kahm"])
def test_what_needs_more_is_named_and_not_judged(base: Path, name: str) -> None:
    done = synth(base, "verify", str(golden(name)))
    assert done.returncode == 6, done.stdout + done.stderr
    lacks = [line for line in done.stdout.splitlines() if line.startswith("NOT CHECKED")]
    needed = "NOT CHECKED: The contents of the model file. This needs PyTorch, which is not installed here."
    assert any(lack.startswith(needed) for lack in lacks)
    assert all("pip install '.[neural]'" in lack for lack in lacks)
    assert "FAILED" not in done.stdout
    assert done.stdout.splitlines()[-1] == "Nothing wrong was found, but not everything could be checked here."


@pytest.mark.thorough
def test_a_bundle_is_replayed(base: Path) -> None:
    done = synth(base, "replay", str(golden("independent")), "--out", "again")
    assert "synthetic.csv is the certified one, byte for byte." in done.stdout, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [("--help",), ("generators",), ("ledger",), ("account", "--heads")])
def test_commands_that_make_no_rows_work(base: Path, arguments: tuple[str, ...]) -> None:
    done = synth(base, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_a_generator_that_needs_an_extra_says_so_before_anything_is_spent(base: Path) -> None:
    assert synth(base, "demo", "demo").returncode == 0
    done = synth(base, "run", "demo/demonstration.yaml", "--generator", "dp-merf", "--out", "release")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("synth: This needs PyTorch, which is not installed here.")
    assert synth(base, "ledger").stdout == "Nothing spent yet.\n"
