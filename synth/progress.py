"""How a long computation reports its progress, and learns that it should stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from synth.errors import ConfigError, DiskFullError, RunCancelledError

__all__ = [
    "OWNER_PHASE",
    "NullProgress",
    "OnStep",
    "Progress",
    "ProgressSink",
    "StoredProgress",
    "TellsOwner",
    "unwatched",
]

OnStep = Callable[[int, int], None]
"""Told now and then how many steps are done, and of how many; may raise to stop."""

OWNER_PHASE = "Reporting to the owner"
"""The last phase of a run. Its bundle is sealed by then and holds, and is kept if the run is stopped."""

UPDATE_SECONDS = 0.5
AWAY_SECONDS = 5.0
"""Wait after a failed write, so that an unavailable database does not delay the work."""

MAXIMUM_LOSSES = 256


class Progress(Protocol):
    """Interface to which a service or a generator reports.

    Phases, steps and their number must depend only on the configuration and on noisy answers. A loss may be reported
    only if it is post-processing, that is, computed from noisy answers.
    """

    def phase(self, name: str) -> None:
        """Begin a phase; its steps count from 0."""
        ...

    def step(self, k: int, of: int) -> None:
        """Report that ``k`` of ``of`` steps are done; raise RunCancelledError if the run was cancelled."""
        ...

    def loss(self, value: float) -> None:
        """Report one post-processing loss."""
        ...

    def check_cancelled(self) -> None:
        """Raise RunCancelledError if the run was cancelled."""
        ...


@runtime_checkable
class TellsOwner(Protocol):
    """Progress that only the owner sees, so it may also show phases that depend on exact rows."""

    def owner_phase(self, name: str) -> None:
        """Begin a phase of the owner's report."""
        ...


def unwatched(k: int, of: int) -> None:
    """Do nothing: nobody watches these steps."""


class NullProgress:
    """Progress that is not shown and cannot be cancelled."""

    def phase(self, name: str) -> None:
        """Do nothing."""

    def step(self, k: int, of: int) -> None:
        """Do nothing."""

    def loss(self, value: float) -> None:
        """Do nothing."""

    def check_cancelled(self) -> None:
        """Do nothing."""


class ProgressSink(Protocol):
    """Where progress is stored: the table of work."""

    def note_progress(self, work_id: str, *, phase: str, step: int, steps: int, losses: Sequence[float]) -> bool:
        """Record progress; return whether the work should continue."""
        ...


class StoredProgress:
    """Progress written to the work's row, at most twice a second, so that it costs little.

    Parameters
    ----------
    sink : ProgressSink
    work_id : str
    interval : float
        Minimum seconds between two writes; a new phase is always written.
    clock : callable
        Monotonic seconds; a test passes its own.
    """

    def __init__(
        self,
        sink: ProgressSink,
        work_id: str,
        *,
        interval: float = UPDATE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._work_id = work_id
        self._interval = interval
        self._clock = clock
        self._written = -float("inf")
        self._phase, self._step, self._steps = "", 0, 0
        self._losses: list[float] = []
        self._stride, self._skipped = 1, 0

    def phase(self, name: str) -> None:
        """Begin a phase and write it immediately."""
        self._phase, self._step, self._steps = name, 0, 0
        self._write()

    def step(self, k: int, of: int) -> None:
        """Note a step, and write it if the last write is long enough ago."""
        self._step, self._steps = k, of
        self.check_cancelled()

    def loss(self, value: float) -> None:
        """Note a loss; of a long curve every second, fourth, ... point is kept, so that the row stays small."""
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._losses.append(float(value))
        if len(self._losses) >= MAXIMUM_LOSSES:
            self._losses = self._losses[1::2]
            self._stride *= 2

    def check_cancelled(self) -> None:
        """Write progress if the last write is long enough ago, and stop if the run was cancelled."""
        if self._clock() - self._written >= self._interval:
            self._write()

    def _write(self) -> None:
        self._written = self._clock()
        try:
            goes_on = self._sink.note_progress(
                self._work_id, phase=self._phase, step=self._step, steps=self._steps, losses=self._losses
            )
        except (ConfigError, DiskFullError):
            self._written += AWAY_SECONDS
            return  # an unavailable database is no reason to lose a charged run
        if not goes_on:
            raise RunCancelledError("The run was cancelled.")
