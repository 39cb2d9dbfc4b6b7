from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from synth.errors import ConfigError, RunCancelledError
from synth.progress import MAXIMUM_LOSSES, NullProgress, Progress, StoredProgress


class Sink:
    """Remembers what was written; says stop when told to."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, int, int, tuple[float, ...]]] = []
        self.goes_on = True

    def note_progress(self, run_id: str, *, phase: str, step: int, steps: int, losses: Sequence[float]) -> bool:
        self.notes.append((phase, step, steps, tuple(losses)))
        return self.goes_on


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_steps_are_written_at_most_twice_a_second() -> None:
    sink, clock = Sink(), Clock()
    progress = StoredProgress(sink, "run", clock=clock)
    progress.phase("Fitting")
    for step in range(1000):
        clock.seconds = step / 100
        progress.step(step, 1000)
    assert 18 <= len(sink.notes) <= 21
    assert sink.notes[0] == ("Fitting", 0, 0, ())
    assert sink.notes[-1][0] == "Fitting"


def test_every_phase_is_written() -> None:
    sink = Sink()
    progress = StoredProgress(sink, "run", clock=Clock())
    for name in ("Checks", "Measuring", "Fitting"):
        progress.phase(name)
    assert [note[0] for note in sink.notes] == ["Checks", "Measuring", "Fitting"]


def test_a_cancelled_run_stops_at_the_next_write() -> None:
    sink, clock = Sink(), Clock()
    progress = StoredProgress(sink, "run", clock=clock)
    progress.phase("Fitting")
    sink.goes_on = False
    progress.step(1, 9)
    clock.seconds = 1.0
    with pytest.raises(RunCancelledError):
        progress.check_cancelled()


def test_a_database_that_is_away_stops_no_run() -> None:
    class Away:
        def note_progress(self, run_id: str, *, phase: str, step: int, steps: int, losses: Sequence[float]) -> bool:
            raise ConfigError("The database cannot be reached.")

    progress = StoredProgress(Away(), "run")
    progress.phase("Fitting")
    progress.step(1, 2)


@pytest.mark.parametrize("losses", [3, MAXIMUM_LOSSES - 1, MAXIMUM_LOSSES, 10_000])
def test_a_long_loss_curve_stays_small_and_in_order(losses: int) -> None:
    sink, clock = Sink(), Clock()
    progress = StoredProgress(sink, "run", clock=clock)
    for value in range(losses):
        progress.loss(float(value))
    clock.seconds = 1.0
    progress.step(losses, losses)
    curve = sink.notes[-1][3]
    assert len(curve) == losses if losses < MAXIMUM_LOSSES else MAXIMUM_LOSSES / 2 <= len(curve) <= MAXIMUM_LOSSES
    assert list(curve) == sorted(set(curve))
    gaps = {later - earlier for earlier, later in pairwise(curve)}
    assert len(gaps) <= 1  # evenly spaced


def test_nobody_needs_to_watch() -> None:
    progress: Progress = NullProgress()
    progress.phase("Fitting")
    progress.step(1, 2)
    progress.loss(0.5)
    progress.check_cancelled()
