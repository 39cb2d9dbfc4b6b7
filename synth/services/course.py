"""The course of a run as somebody watches it: its steps, the share that is done, and about how long it still takes.

One source for the page of a run and for the bars of the command line. It is told what is public about a run, its
phases and the clock, and nothing of rows: a fit that counts its steps says its own pace; what comes after it takes what
it took on tables of this size (``_seconds``), as many times longer as this machine was slower so far.
"""

from __future__ import annotations

import math

__all__ = ["OWNER_PHASE", "Course"]

OWNER_PHASE = "Reporting to the owner"

_STAGES = {
    "": "try",
    "Trying": "try",
    "Reading": "read",
    "Sampling": "make",
    "Predicting": "make",
    "Writing": "seal",
    "Reporting": "seal",
    "Sealing": "seal",
    OWNER_PHASE: "owner",
}
"""Step of a run by its phase, or by the first word of it; phases of a generator's own belong to its fit."""

_OWNERS = "owner only:"
"""How phases of the owner's report begin where they are named at all."""

_START = 3.0
"""Seconds that a worker may take to start and to load what it needs, whatever the table."""

_PACE_AFTER = 2.0
"""Seconds after which the pace of counted steps says something."""

_SLOWEST = 30.0


class Course:
    """The course of one run, for one who watches it: its clock only goes on.

    Parameters
    ----------
    columns, rows : int
        Columns that are modelled, and rows to make (none where a model is released); both are public.
    owner_report : bool
        Whether the owner's report is made at the end.
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
        """Note where the run is so many seconds after it began."""
        stage = self.stage_of(phase)
        if stage != self._stage:
            if stage == "fit" and self._stage in {"try", "read"}:
                before = self._expected["try"] + self._expected["read"]
                self._slower = min(max((seconds - _START) / before, 1.0), _SLOWEST)
            # Of a step that was under way when somebody began to watch nobody knows when it began.
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
        """Return which of its steps a phase belongs to."""
        whole = phase == OWNER_PHASE or phase.startswith(_OWNERS)
        stage = "owner" if whole else _STAGES.get(phase.partition(" ")[0], "fit")
        return stage if stage in self.stages else "fit"

    def place_of(self, phase: str) -> int:
        """Return which step that is, from 1 on."""
        return self.stages.index(self.stage_of(phase)) + 1

    @property
    def share(self) -> float:
        """The share that is done, by the clock; it never goes back."""
        return self._share

    @property
    def left(self) -> str:
        """About how long the whole run still takes, in words; "at least" where a step does not say its pace."""
        if self._stage in {"", "try"}:
            return ""
        known, ahead = self._ahead()
        if self._stage == "owner" and not ahead:
            return "longer than usual; when it ends cannot be told" if self._watched else "when it ends cannot be told"
        return f"{'about' if known else 'at least about'} {_rounded(ahead)} left" if ahead else ""

    def _ahead(self) -> tuple[bool, float]:
        """Return the seconds ahead, and whether every step of them is known."""
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
    """Return what each step takes on one quiet core, in seconds, by what is public: fitted to runs, right by half.

    The fit is what differs most between generators: its number moves the bar alone and is never told.
    """
    cells = columns * rows
    return {
        "try": 0.4 + 0.02 * columns,
        "read": 0.3 + 1.3e-7 * cells,
        "fit": 0.03 * columns + 1.5e-6 * cells,
        "make": 0.02 + 4e-8 * cells,
        "seal": 0.1 + 0.006 * columns + 5e-7 * cells,
        # Scores and comparisons, predictions, attacks: they look at a sample where there are many rows.
        "owner": 5.0 + 0.6 * columns + 4e-5 * columns * min(rows, 100_000),
    }


def _rounded(seconds: float) -> str:
    """Write a time with the digits that mean something."""
    if seconds > 90:
        return f"{math.ceil(seconds / 60)} min"
    return f"{5 * max(math.ceil(seconds / 5), 1)} s"
