"""The load benchmark: its visitors go the whole way on a real server, and what is lost is told."""

from __future__ import annotations

import argparse
import concurrent.futures
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import load


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark in a thread of its own: the browser of other tests keeps an event loop in this one."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as apart:
        return apart.submit(load.measured, given, frozen=True).result()


@pytest.mark.slow
def test_two_visitors_go_the_whole_way_and_one_of_them_makes_a_release() -> None:
    given = argparse.Namespace(sessions=2, jobs=1, think=0.0, arrive=0.0, minutes=5.0, wait=0, browser=False)
    found = measured(given)
    assert found["lost"] == []
    assert found["runs"] == 1
    assert found["pages"] >= 2 * len(load.actions(load.WAY)) + len(load.actions(load.RUN)) - 1


@pytest.mark.thorough
def test_an_action_that_leads_elsewhere_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "WAY", "open    Another screen than the one that opens")
    given = argparse.Namespace(sessions=1, jobs=0, think=0.0, arrive=0.0, minutes=5.0, wait=0, browser=False)
    with pytest.raises(RuntimeError, match=r"saw .'Turn a private table"):
        measured(given)


@pytest.mark.parametrize("wrong", [["--sessions", "101"], ["--jobs", "101"], ["--minutes", "21"], ["--minutes", "0"]])
def test_it_is_bounded(wrong: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["load.py", *wrong])
    with pytest.raises(SystemExit):
        load.main()
    assert "at most 100 sessions and 20 minutes" in capsys.readouterr().err
