"""The course of a run while someone watches it: its steps, the share that is done, and about how long is left.

The page of a run and the bars of the command line both use it. It knows what is public about a run, its phases and the
clock, and nothing about rows. A fit that counts its steps sets its own pace; each later step takes as long as on tables
of this size (``_seconds``), times how much slower this machine has been so far.
"""

from __future__ import annotations

import math

from synth.progress import OWNER_PHASE

__all__ = ["Course"]

_STAGES = {
    "": "try",
    "Trying": "try",
    "Reading": "read",
    "Sampling": "make",
    "Predicting": "make",
    "Writing": "seal",
    "Reporting": "seal",
    "Sealing": "seal",
    "Checking": "seal",
    OWNER_PHASE: "owner",
}
"""The step of a run by its phase, or by the first word of the phase; other phases are those of a generator's fit."""

_OWNERS = "owner only:"
"""The beginning of the phases of the owner's report, where they are named."""

_START = 3.0
"""Seconds that a worker may take to start and load its libraries, whatever the table."""

_PACE_AFTER = 2.0
"""Seconds after which the pace of counted steps is informative."""

_SLOWEST = 30.0


class Course:
    """The course of one run, for someone who watches it; its clock never goes back.

    Parameters
    ----------
    columns, rows : int
        Columns that are modelled, and rows to make (none if a model is released); both are public.
    owner_report : bool
        Whether the run ends with the owner's report.
    """

    def __init__(self, *, columns: int, rows: int, owner_report: bool = True) -> None:
        with_owner = ("owner",) if owner_report and rows else ()
        self.stages: tuple[str, ...] = ("try", "read", "fit", *(("make",) if rows else ()), "seal", *with_owner)
        self._expected = _seconds(columns, rows)
        self._stage, self._phase = "", ""
        self._now = self._stage_began = 0.0
        self._watched = False
        self._slower = 1.0
        self._first_step: tuple[float, int] | None = None
        self._left_of_phase: float | None = None
        self._share = 0.0

    def tell(self, seconds: float, phase: str, step: int = 0, of: int = 0) -> None:
        """Record the phase and step of the run, so many seconds after it began."""
        stage = self.stage_of(phase)
        if stage != self._stage:
            if stage == "fit" and self._stage in {"try", "read"}:
                before = self._expected["try"] + self._expected["read"]
                self._slower = min(max((seconds - _START) / before, 1.0), _SLOWEST)
            # Nobody knows when a step began that was in progress when someone started to watch.
            self._watched = bool(self._stage) or stage == "try"
            self._stage, self._stage_began = stage, seconds
        if phase != self._phase:
            self._phase, self._first_step, self._left_of_phase = phase, None, None
        self._now = seconds
        if of:
            first = self._first_step = self._first_step or (seconds, step)
            if seconds - first[0] >= _PACE_AFTER and step > first[1]:
                self._left_of_phase = (seconds - first[0]) * max(of - step, 0) / (step - first[1])
        known, ahead = self._ahead()
        ahead += 0.0 if known else self._expected["fit"] * self._slower
        self._share = max(self._share, self._now / max(self._now + ahead, 1e-9))

    def stage_of(self, phase: str) -> str:
        """Return the step that a phase belongs to."""
        whole = phase == OWNER_PHASE or phase.startswith(_OWNERS)
        stage = "owner" if whole else _STAGES.get(phase.partition(" ")[0], "fit")
        return stage if stage in self.stages else "fit"

    def place_of(self, phase: str) -> int:
        """Return the number of that step, from 1."""
        return self.stages.index(self.stage_of(phase)) + 1

    @property
    def share(self) -> float:
        """The share of the time that is done; it never decreases."""
        return self._share

    @property
    def left(self) -> str:
        """About how long the whole run will still take, in words; "at least" if the pace of a step is unknown."""
        if self._stage in {"", "try"}:
            return ""
        known, ahead = self._ahead()
        if self._stage == "owner" and not ahead:
            return "longer than usual; the time left is unknown" if self._watched else "the time left is unknown"
        return f"{'about' if known else 'at least about'} {_rounded(ahead)} left" if ahead else ""

    def _ahead(self) -> tuple[bool, float]:
        """Return the seconds left, and whether they are known for every step."""
        if not self._stage:
            return False, 0.0
        place = self.stages.index(self._stage)
        later = self._slower * sum(self._expected[stage] for stage in self.stages[place + 1 :] if stage != "fit")
        if self._stage == "fit":
            return self._left_of_phase is not None, later + (self._left_of_phase or 0.0)
        this = self._slower * self._expected[self._stage]
        gone = self._now - self._stage_began if self._watched else this
        return "fit" not in self.stages[place + 1 :], later + max(this - gone, 0.0)


def _seconds(columns: int, rows: int) -> dict[str, float]:
    """Return the seconds of each step on one idle core, from what is public: fitted to runs, right to about half.

    The fit differs most between generators: its number only moves the bar and is never shown.
    """
    cells = columns * rows
    return {
        "try": 0.4 + 0.02 * columns,
        "read": 0.3 + 1.3e-7 * cells,
        "fit": 0.03 * columns + 1.5e-6 * cells,
        "make": 0.02 + 4e-8 * cells,
        # With the check of the bundle in a process of its own.
        "seal": 1.5 + 0.006 * columns + 5e-7 * cells,
        # Scores, comparisons, predictions and attacks, which use a sample of a large table.
        "owner": 5.0 + 0.6 * columns + 4e-5 * columns * min(rows, 100_000),
    }


def _rounded(seconds: float) -> str:
    """Write a time with as many digits as are meaningful."""
    if seconds > 90:
        return f"{math.ceil(seconds / 60)} min"
    return f"{5 * max(math.ceil(seconds / 5), 1)} s"
