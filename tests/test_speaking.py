"""How far something is, on a terminal and elsewhere."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from synth.cli.speaking import Bars, Lines, SpokenProgress, on_terminal, time_left
from synth.services.course import Course


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_each_phase_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with on_terminal() as shown:
        assert type(shown) is Lines
        progress = SpokenProgress(shown)
        progress.phase("Fitting")
        progress.step(3, 4)
        shown("A warning with a \u202e in it.")
    captured = capsys.readouterr()
    assert captured.err.startswith("Fitting ...\nA warning with a ")
    assert "U+202E" in captured.err
    assert captured.err.count("\n") == 2
    assert captured.out == ""


def test_on_a_terminal_each_phase_is_a_bar_that_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    console: Any = pytest.importorskip("rich.console")
    written, seconds = Terminal(), [0.0]
    with Bars(console.Console(file=written, force_terminal=True, width=100), clock=lambda: seconds[0]) as bars:
        bars.step(1, 2)  # of no phase yet
        bars.phase("Fitting [red]")
        seconds[0] = 10.0
        bars.step(1, 4)
        bars._bars.refresh()  # as it does ten times a second
        bars("Memory failed.")
        seconds[0] = 30.0
        bars.step(3, 4)
        bars._bars.refresh()
        bars.phase("Sampling")
    said = written.getvalue()
    for part in ("Fitting [red]", "about 30 s left of this", "about 10 s left of this", "Memory failed.", "Sampling"):
        assert part in said, part
    monkeypatch.setattr(sys, "stderr", Terminal())
    with on_terminal() as shown:
        assert isinstance(shown, Bars)


def test_the_bars_of_a_run_say_what_is_left_of_the_whole_run_between_steps_too() -> None:
    console: Any = pytest.importorskip("rich.console")
    written, seconds = Terminal(), [0.0]
    with Bars(console.Console(file=written, force_terminal=True, width=100), clock=lambda: seconds[0]) as bars:
        bars.follow(Course(columns=15, rows=10_000))
        bars.phase("Trying out")
        for moment, phase in ((2.0, "Counting columns"), (4.0, "Sampling"), (5.0, "owner only: Attacking")):
            seconds[0] = moment
            bars.phase(phase)
            bars._bars.refresh()
        seconds[0] = 16.0
        bars._bars.refresh()
    said = written.getvalue()
    assert said.index("at least about 25 s left") < said.index("about 20 s left") < said.index("about 10 s left")


@pytest.mark.parametrize(
    ("seconds", "k", "of", "left"),
    [
        (0.5, 1, 2, ""),
        (10, 0, 5, ""),
        (10, 5, 5, ""),
        (10, 1, 2, "about 10 s left of this"),
        (60, 1, 3, "about 2 min left of this"),
    ],
)
def test_what_is_left_is_told_by_the_pace_so_far(seconds: float, k: int, of: int, left: str) -> None:
    assert time_left(seconds, k, of) == left
