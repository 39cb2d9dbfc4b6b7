"""A run checks the bundle that it seals before it announces a release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import synth
from synth.bundle import remaking
from synth.bundle.verify import Outcome, verify
from synth.cli.local import run_locally
from synth.errors import JobError
from synth.schema import parse_config
from synth.services import run_folder, runs

CONFIG = {
    "account": "own check",
    "unit": {"protects": "person", "rows_per_unit": 1},
    "row_count": "private",
    "people_at_most": 1000,
    "budget": {"epsilon": 2.0, "delta": 1e-6},
    "holdout": 0,
    "generator": {"name": "independent"},
    "rows": 50,
    "columns": {"age": {"type": "number", "low": 0, "high": 99, "step": 1, "fallback": 0}},
}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(runs, "verify", verify)  # in a confined process, as the product does
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "\n".join(str(20 + k % 40) for k in range(200)) + "\n", encoding="utf-8")
    return path


def test_a_release_holds_for_a_stranger_with_the_same_limits(table: Path, tmp_path: Path) -> None:
    result = run_locally(parse_config(CONFIG), tmp_path / "out", table=table, owner_report=False)
    assert verify(result.bundle, wait_seconds=600.0).outcome is Outcome.HOLDS
    assert not list((tmp_path / "home" / "runs").rglob(run_folder.UNRELEASED))


def test_a_bundle_that_does_not_hold_is_no_release_and_keeps_its_answers(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that is planted where the rows are written, after the trial: the check draws other ones."""
    written = runs.seal_release

    def faulty(config, fitted, folder, **how):  # type: ignore[no-untyped-def]
        fitted.codes[0, 0] = (fitted.codes[0, 0] + 1) % 100
        return written(config, fitted, folder, **how)

    monkeypatch.setattr(runs, "seal_release", faulty)
    with pytest.raises(JobError, match=r"did not pass its own check, so nothing was released \(incident [0-9a-f]{8}\)"):
        run_locally(parse_config(CONFIG), tmp_path / "out", table=table, owner_report=False)
    (kept,) = (tmp_path / "home" / "runs").rglob(run_folder.UNRELEASED)
    assert kept.parent.name == "owner"
    assert not list((tmp_path / "home" / "runs").rglob("bundle.zip"))
    assert not (tmp_path / "out" / "bundle.zip").exists()
    assert verify(kept, quick=True, wait_seconds=600.0).outcome is Outcome.HOLDS, "its answers can be fitted again"
    with pytest.raises(JobError):
        run_locally(parse_config(CONFIG), tmp_path / "out2", table=table, owner_report=False)


def test_a_check_that_cannot_be_completed_is_no_release_either(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        runs, "verify", lambda path, key, **how: verify(path, key, memory_bytes=2**20, wait_seconds=600.0)
    )
    with pytest.raises(JobError, match="could not be checked"):
        run_locally(parse_config(CONFIG), tmp_path / "out", table=table, owner_report=False)


def test_the_distance_that_other_versions_may_explain_is_stated() -> None:
    assert remaking.MOST_DISTANCE == 0.02


@pytest.mark.thorough
def test_a_run_on_several_threads_is_made_again_on_one(tmp_path: Path) -> None:
    """Nobody sets a number of threads: products of matrices must not depend on it."""
    random = np.random.default_rng(4)
    cause = random.random(3000)
    names = [f"c{place}" for place in range(12)]
    codes = np.array([np.floor(6 * (0.6 * cause + 0.4 * random.random(3000))) for _ in names], dtype=int).T
    lines = [",".join(names), *(",".join(f"v{code}" for code in row) for row in codes)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    columns = {name: {"type": "category", "values": [f"v{code}" for code in range(6)], "other": True} for name in names}
    config = CONFIG | {"generator": {"name": "kahm"}, "rows": 3000, "people_at_most": 10_000, "columns": columns}
    (tmp_path / "c.yaml").write_text(json.dumps(config | {"table": "t.csv"}), encoding="utf-8")
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in threads}
    environment |= {"HERMITAGE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(synth.__file__).parents[1])}
    command = [sys.executable, "-m", "synth", "run", "c.yaml", "--out", "out", "--no-owner-report"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "out" / "bundle.zip", refit=True, wait_seconds=600.0).outcome is Outcome.HOLDS
