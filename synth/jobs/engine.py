"""The seam between the program and whatever runs its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from synth.store import RunState

__all__ = ["Capacity", "JobEngine"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What an engine can do at once, and what it does now. ``threads`` is CPU threads per job."""

    slots: int
    busy: int
    waiting: int
    gpus: int
    threads: int


class JobEngine(Protocol):
    """Four calls; every engine runs ``python -m synth.worker JOB_ID`` and none runs a job twice."""

    def submit(self, job_id: str, *, gpus: int = 0, cpus: int = 0) -> str:
        """Hand in a planned run and return its handle.

        Parameters
        ----------
        job_id : str
            The run's id.
        gpus : int
            1 to compute on a GPU where this machine has one; 0 to stay on the CPU.
        cpus : int
            Threads; 0 for an equal part of the machine.
        """
        ...

    def state(self, handle: str) -> RunState:
        """Return where the run stands, after looking whether its worker still lives."""
        ...

    def cancel(self, handle: str) -> RunState:
        """Stop a run; its budget is freed unless it had become spent. Safe to repeat."""
        ...

    def capacity(self) -> Capacity:
        """Return how much of the engine is taken."""
        ...
