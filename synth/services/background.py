"""Long work beside runs, in a process of its own: followed and stopped through a file.

The file holds where the work stands and no number that it finds; whoever may read the owner's folder may read it.
Nothing here is charged.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from synth.errors import JobError, RunCancelledError, SynthError
from synth.jobs import processes
from synth.progress import Progress
from synth.services import run_folder
from synth.services.incidents import own_error, record_incident
from synth.system.settings import Settings

__all__ = ["Work", "WorkView"]

_COMMAND = (sys.executable, "-m", "synth.worker")
_START_SECONDS = 60.0
_WRITE_SECONDS = 0.5

State = Literal["running", "ended", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class WorkView:
    """Where a piece of work stands: phase, step of steps, and a sentence where it failed."""

    state: State
    phase: str = ""
    step: int = 0
    of: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work.

    Attributes
    ----------
    file : Path
        Where it notes how it stands; the folder exists.
    arguments : tuple of str
        With which a worker is started for it.
    busy, died : str
        What is said where it goes on already, and where its process died.
    """

    file: Path
    arguments: tuple[str, ...]
    busy: str
    died: str

    def start(self, settings: Settings) -> None:
        """Start it in a process of its own.

        Raises
        ------
        JobError
            If it is going on already.
        """
        self.check_idle()
        self._note({"state": "running", "phase": "Starting", **_moment()})
        environment = {**os.environ, "HERMITAGE_HOME": str(settings.home), "DATABASE_URL": settings.database_url}
        try:
            processes.start((*_COMMAND, *self.arguments), environment=environment)
        except OSError:
            self._note({"state": "failed", "message": "The process could not be started."})

    def check_idle(self) -> None:
        """Refuse what is going on already.

        Raises
        ------
        JobError
            In the words of ``busy``.
        """
        now = self.standing()
        if now is not None and now.state == "running":
            raise JobError(self.busy)

    def standing(self) -> WorkView | None:
        """Return where it stands, or None where it was never started; a process that died has failed."""
        body = self._noted()
        if body is None:
            return None
        if body.get("state") == "running" and not _is_going_on(body):
            return WorkView("failed", message=self.died)
        return WorkView(
            body["state"],
            phase=str(body.get("phase", "")),
            step=int(body.get("step", 0)),
            of=int(body.get("of", 0)),
            message=str(body.get("message", "")),
        )

    def cancel(self) -> None:
        """Stop it; what was there before stays as it was."""
        body = self._noted()
        if body is None or body.get("state") != "running":
            return
        if "pid" in body:
            processes.kill(int(body["pid"]), float(body["born"]))
        self._note({"state": "cancelled"})

    def carry_out(self, work: Callable[[Progress], None]) -> int:
        """Do the work in this process and return its exit code; how it ended stands in the file."""
        if (self._noted() or {}).get("state") == "cancelled":
            # Stopped before this process could say which one it is.
            return RunCancelledError.exit_code
        try:
            work(_Noted(self._note))
        except SynthError as error:
            self._note({"state": "failed", "message": str(error)})
            return error.exit_code
        except Exception as error:
            full = own_error(error)
            words = str(full) if full is not None else f"Something went wrong (incident {record_incident(error)})."
            self._note({"state": "failed", "message": words})
            return SynthError.exit_code
        self._note({"state": "ended"})
        return 0

    def _note(self, body: dict[str, Any]) -> None:
        run_folder.write_owner_json(self.file, body)

    def _noted(self) -> dict[str, Any] | None:
        try:
            body = json.loads(self.file.read_bytes())
        except (OSError, ValueError):
            return None
        known = isinstance(body, dict) and body.get("state") in {"running", "ended", "failed", "cancelled"}
        return body if known else None


def _is_going_on(body: dict[str, Any]) -> bool:
    if "pid" in body:
        return processes.is_alive(int(body["pid"]), float(body["born"]))
    begun = _moment()
    same_boot = body.get("boot") == begun["boot"]
    return same_boot and begun["since"] - float(body.get("since", 0.0)) < _START_SECONDS


def _moment() -> dict[str, float]:
    """Return the present moment, for every process until the machine starts again; no clock that is set moves it."""
    return {"since": time.monotonic(), "boot": processes.boot()}


class _Noted:
    """Progress written to the file, at most twice a second."""

    def __init__(self, note: Callable[[dict[str, Any]], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._note, self._clock = note, clock
        self._identity = {"pid": os.getpid(), "born": processes.birth_of(os.getpid())}
        self._phase, self._written = "Reading", -float("inf")
        self.step(0, 0)

    def phase(self, name: str) -> None:
        """Note the phase at once."""
        self._phase, self._written = name, -float("inf")
        self.step(0, 0)

    def step(self, k: int, of: int) -> None:
        """Note a step, when the last note is long enough ago."""
        if self._clock() - self._written >= _WRITE_SECONDS:
            self._written = self._clock()
            self._note({"state": "running", "phase": self._phase, "step": k, "of": of, **self._identity})

    def loss(self, value: float) -> None:
        """Do nothing: such work is not followed by a loss."""

    def check_cancelled(self) -> None:
        """Do nothing: whoever cancels ends the process."""
