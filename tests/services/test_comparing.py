"""Comparing runs of one account: what all of them cost, and what cannot be compared."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from synth.application import Application
from synth.cli import main
from synth.demonstration import CLINIC, write_demonstration
from synth.privacy.accounting import epsilon_of, mu_of_budget
from synth.services.comparing import compared_runs


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Carry two cheap runs about the demonstration's people to their reports."""
    folder = tmp_path_factory.mktemp("comparing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMITAGE_HOME", str(folder / "home"))
        patch.delenv("DATABASE_URL", raising=False)
        _, config = write_demonstration(folder / "demo", CLINIC)
        for name, epsilon in (("first", "1"), ("second", "0.5")):
            words = ["run", str(config), "--generator", "independent", "--epsilon", epsilon, "--no-owner-report"]
            # A look before the first charge would be a note beside the second run.
            assert main([*words, "--no-look", "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture
def home(two_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(two_runs / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return two_runs


@pytest.mark.thorough
def test_the_command_shows_numbers_and_what_both_runs_cost(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(home / "first"), str(home / "second")]) == 0
    words = capsys.readouterr().out
    assert "A: independent, epsilon 1 (" in words
    assert "B: independent, epsilon 0.5 (" in words
    assert "marginals.1.mean" in words
    together = float(re.search(r"paid for both: together epsilon ([0-9.]+) at delta 1e-06", words).group(1))  # type: ignore[union-attr]
    mu_squared = mu_of_budget(1.0, 1e-6) ** 2 + mu_of_budget(0.5, 1e-6) ** 2
    assert together == pytest.approx(epsilon_of(mu_squared, 1e-6), rel=1e-3)
    assert 1.0 < together < 1.5


@pytest.mark.thorough
def test_more_budget_has_less_noise_side_by_side(home: Path) -> None:
    with Application.from_environment() as application:
        second, first = (run.run_id for run in application.runs())
        found = application.compare([first, second])
        spent = application.ledger_rows()
        again = application.compare([first, second])
    noise = next(number for number in found.numbers if number.id == "accuracy.columns")
    assert noise.values[0] is not None
    assert noise.values[1] is not None
    assert noise.values[0] < noise.values[1]
    assert found == again
    with Application.from_environment() as application:
        assert application.ledger_rows() == spent
        assert application.account(CLINIC.account).notes == ()


@pytest.mark.parametrize("case", ["one", "twice", "five", "others", "unfinished"])
def test_what_cannot_be_compared_is_refused_in_one_sentence(home: Path, case: str) -> None:
    with Application.from_environment() as application:
        runs = application.runs()
        given = {
            "one": runs[:1],
            "twice": [runs[0], runs[0]],
            "five": [replace(runs[0], run_id=str(place)) for place in range(5)],
            "others": [runs[0], replace(runs[1], account="others")],
            "unfinished": [runs[0], replace(runs[1], state="running")],
        }[case]
        sentence = {
            "one": "Name 2 to 4 runs to compare, not 1",
            "twice": "named twice",
            "five": "Name 2 to 4 runs to compare, not 5",
            "others": "different people",
            "unfinished": "without a report",
        }[case]
        with pytest.raises(Exception, match=sentence):
            compared_runs(given, [[] for _ in given], ledger=application.ledger)


def test_a_folder_without_a_run_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(home / "first"), str(home / "demo")]) != 0
    assert "run.json" in capsys.readouterr().err
