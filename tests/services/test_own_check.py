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
from synth.application import Application
from synth.bundle import remaking
from synth.bundle.verify import Outcome, verify
from synth.cli import main
from synth.cli.local import check_again_locally, run_locally
from synth.errors import InputError, JobError, UncheckedError
from synth.ledger.backup import back_up, restore
from synth.schema import parse_config
from synth.services import checking_again, own_check, pipeline, run_folder, runs
from synth.store import ChargeState, WorkState
from synth.system.settings import Settings

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
    monkeypatch.setattr(own_check, "verify", verify)  # in a confined process, as the product does
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "\n".join(str(20 + k % 40) for k in range(200)) + "\n", encoding="utf-8")
    return path


def test_a_release_holds_for_a_stranger_with_the_same_limits(table: Path, tmp_path: Path) -> None:
    result = run_locally(parse_config(CONFIG), tmp_path / "out", table=table, owner_report=False)
    assert verify(result.bundle).outcome is Outcome.HOLDS
    assert not list((tmp_path / "home" / "runs").rglob(run_folder.UNRELEASED))


def plant_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault where the rows are written, after the trial: the check draws other ones."""
    written = runs.seal_release

    def faulty(config, fitted, folder, **how):  # type: ignore[no-untyped-def]
        fitted.codes[0, 0] = (fitted.codes[0, 0] + 1) % 100
        return written(config, fitted, folder, **how)

    monkeypatch.setattr(runs, "seal_release", faulty)


def without_room_for_cuda(patch: pytest.MonkeyPatch) -> None:
    """Take away what a check has besides where PyTorch is built for CUDA: it is enough for a bundle of no network."""
    patch.setattr("synth.bundle.verify.cuda_library_bytes", lambda: 0)


def unchecked(table: Path, out: Path) -> str:
    """Carry a run to its seal, allow its check too little memory, and return the id of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_check, "verify", lambda path, key, **how: verify(path, key, memory_bytes=2**20))
        without_room_for_cuda(patch)
        with pytest.raises(UncheckedError, match="is sealed, but could not be checked here") as refusal:
            run_locally(parse_config(CONFIG), out, table=table, owner_report=False)
    return refusal.value.run_id


def state_of(run_id: str) -> tuple[WorkState, list[ChargeState], float]:
    with Application.from_environment() as application:
        charges = application.ledger.charges_of(run_id)
        spent = application.account("own check").epsilon_spent
        return application.store.runs[run_id].state, [charge.state for charge in charges], round(spent, 6)


def kept_of(run_id: str) -> Path:
    return run_folder.of(Settings.from_environment(), run_id) / "owner" / run_folder.UNRELEASED


@pytest.mark.usefixtures("without_trial")
def test_a_bundle_that_does_not_hold_is_no_release_and_keeps_its_answers(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plant_other_rows(monkeypatch)
    with pytest.raises(JobError, match=r"does not hold in its own check.*\(incident [0-9a-f]{8}\)") as refusal:
        run_locally(parse_config(CONFIG), tmp_path / "out", table=table, owner_report=False)
    (kept,) = (tmp_path / "home" / "runs").rglob(run_folder.UNRELEASED)
    run_id = kept.parents[1].name
    assert kept.parent.name == "owner"
    told = (kept.parent / run_folder.INCIDENT).read_text()
    assert told.splitlines()[0].split()[1].rstrip(",") in str(refusal.value), "the incident in the message"
    assert "FAILED: synthetic.csv does not follow" in told
    assert "VerificationError at own_check.py:" in caplog.text
    assert not list((tmp_path / "home" / "runs").rglob("bundle.zip"))
    assert not (tmp_path / "out" / "bundle.zip").exists()
    assert state_of(run_id) == (WorkState.FAILED, [ChargeState.FAILED_SPENT], 2.0)
    assert verify(kept, quick=True).outcome is Outcome.HOLDS, "its answers can be fitted again"
    with pytest.raises(JobError, match="This run is failed: only one whose own check could not be completed"):
        check_again_locally(run_id, tmp_path / "again")
    with pytest.raises(JobError):
        run_locally(parse_config(CONFIG), tmp_path / "out2", table=table, owner_report=False)


@pytest.mark.usefixtures("without_trial")
def test_a_check_that_could_not_be_completed_is_done_later_and_releases_once(table: Path, tmp_path: Path) -> None:
    run_id = unchecked(table, tmp_path / "out")
    assert state_of(run_id) == (WorkState.UNCHECKED, [ChargeState.SPENT], 2.0)
    folder = kept_of(run_id).parents[1]
    there = {path.name for path in folder.rglob("*") if path.is_file()}
    assert there == {run_folder.UNRELEASED, run_folder.DEVICE}, "also no answers"
    assert not (tmp_path / "out" / "bundle.zip").exists()
    with Application.from_environment() as application:
        with pytest.raises(JobError, match="not released yet"):
            application.bundle(run_id)
        with pytest.raises(JobError, match="no report yet"):
            application.release(run_id, attestations=(), attested_by="owner")
    sealed = kept_of(run_id).read_bytes()

    result = check_again_locally(run_id, tmp_path / "again")
    assert result.bundle.read_bytes() == sealed
    assert synth.verify(result.bundle).ok
    assert sorted(path.name for path in result.folder.iterdir()) == [
        "bundle.zip",
        "certificate.json",
        "owner",
        "report.json",
        "synthetic.csv",
        "synthetic.parquet",
    ]
    assert not kept_of(run_id).exists()
    assert state_of(run_id) == (WorkState.RELEASED, [ChargeState.RELEASED], 2.0)
    with Application.from_environment() as application:
        assert [row.state for row in application.ledger_rows()] == ["reserved", "spent", "released"]
    with pytest.raises(JobError, match="This run is released"):
        check_again_locally(run_id, tmp_path / "once more")


@pytest.mark.usefixtures("without_trial")
def test_a_check_with_too_little_changes_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = unchecked(table, tmp_path / "out")
    with monkeypatch.context() as patch:
        without_room_for_cuda(patch)
        code = main(["check-again", run_id, "--out", str(tmp_path / "less"), "--memory", "0.001"])
    assert code == UncheckedError.exit_code == 6
    words = capsys.readouterr().err
    assert f"synth check-again {run_id} --out DIR" in words
    assert "synth verify" not in words
    assert state_of(run_id) == (WorkState.UNCHECKED, [ChargeState.SPENT], 2.0)
    with pytest.raises(InputError, match="The limits of a check must be positive"):
        synth.check_again(run_id, memory=float("inf"))
    with pytest.raises(InputError, match="There is no run 'no run' here"):
        synth.check_again("no run")

    # A process that ends after the check, but before the run is reported, leaves it to be repeated.
    def ends(*_: object, **__: object) -> None:
        raise JobError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(checking_again, "report_to_owner", ends)
        with pytest.raises(JobError, match="planted"):
            check_again_locally(run_id, tmp_path / "ended")
    assert state_of(run_id) == (WorkState.UNCHECKED, [ChargeState.SPENT], 2.0)
    assert main(["check-again", run_id, "--out", str(tmp_path / "more")]) == 0
    assert state_of(run_id) == (WorkState.RELEASED, [ChargeState.RELEASED], 2.0)


@pytest.mark.usefixtures("without_trial")
def test_what_then_does_not_hold_is_never_released(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_other_rows(monkeypatch)
    run_id = unchecked(table, tmp_path / "out")
    with pytest.raises(JobError, match="so nothing is released"):
        check_again_locally(run_id, tmp_path / "again")
    assert state_of(run_id) == (WorkState.FAILED, [ChargeState.FAILED_SPENT], 2.0)
    there = {path.name for path in kept_of(run_id).parent.iterdir()}
    assert there == {run_folder.UNRELEASED, run_folder.INCIDENT, run_folder.DEVICE}
    assert not (kept_of(run_id).parents[1] / "bundle.zip").exists()
    with pytest.raises(JobError, match="This run is failed"):
        check_again_locally(run_id, tmp_path / "once more")


@pytest.mark.usefixtures("without_trial")
def test_a_program_that_was_changed_meanwhile_is_named(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that began with another source: what then differs is no proof, and no machine is to blame."""
    plant_other_rows(monkeypatch)
    sealed, now = runs.seal_release, pipeline.current_versions()

    def upgraded(*given, **how):  # type: ignore[no-untyped-def]
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "current_versions", lambda: {**now, "source": "0" * 32})
            return sealed(*given, **how)

    monkeypatch.setattr(runs, "seal_release", upgraded)
    with pytest.raises(UncheckedError, match=f"changed after the run had begun: it ran with source {'0' * 32}") as told:
        run_locally(parse_config(CONFIG), tmp_path / "out", table=table, owner_report=False)
    assert "Put those back, and check it again" in str(told.value)
    assert state_of(told.value.run_id) == (WorkState.UNCHECKED, [ChargeState.SPENT], 2.0)


@pytest.mark.usefixtures("without_trial")
def test_the_bundle_of_another_run_is_not_released_as_this_one(table: Path, tmp_path: Path) -> None:
    one, other = unchecked(table, tmp_path / "out"), unchecked(table, tmp_path / "out2")
    mine = kept_of(one).read_bytes()
    for wrong in (kept_of(other).read_bytes(), mine[:-100], mine.replace(b"age\n", b"ago\n", 1), b""):
        kept_of(one).write_bytes(wrong)
        with pytest.raises(JobError, match="is damaged, or is the bundle of another run"):
            check_again_locally(one, tmp_path / "again")
    assert state_of(one) == (WorkState.UNCHECKED, [ChargeState.SPENT], state_of(one)[2])
    kept_of(one).unlink()
    with pytest.raises(JobError, match=r"unreleased\.zip, is missing"):
        check_again_locally(one, tmp_path / "again")
    kept_of(one).write_bytes(mine)
    assert check_again_locally(one, tmp_path / "again").bundle.read_bytes() == mine


@pytest.mark.usefixtures("without_trial")
def test_an_unchecked_run_is_in_a_backup(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = unchecked(table, tmp_path / "out")
    back_up(Settings.from_environment(), tmp_path / "backup")
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "new home"))
    restore(Settings.from_environment(), tmp_path / "backup")
    assert state_of(run_id) == (WorkState.UNCHECKED, [ChargeState.SPENT], 2.0)
    assert main(["account", "own check", "--accept"]) == 0
    assert synth.verify(check_again_locally(run_id, tmp_path / "again").bundle).ok


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
    assert verify(tmp_path / "out" / "bundle.zip", refit=True).outcome is Outcome.HOLDS
