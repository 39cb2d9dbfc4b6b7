"""Predicting again after a run, with every predictor: in a process of its own, followed and stopped through a file.

Nothing is charged: exact answers for the owner cost no epsilon. The file holds where the work stands and no number of
the report; whoever may read the owner's folder may read it.
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

from synth.config import Settings
from synth.errors import JobError, SynthError
from synth.jobs import processes
from synth.reports.prediction_problem import Choice
from synth.services import run_folder
from synth.services.incidents import record_incident

__all__ = ["PredictingView", "cancel_predicting", "predict_in_background", "predicting", "work_on_predictions"]

_FILE = "predicting.json"
_COMMAND = (sys.executable, "-m", "synth.worker")
_START_SECONDS = 60.0
_WRITE_SECONDS = 0.5

State = Literal["running", "ended", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class PredictingView:
    """Where predicting again stands: phase, step of steps, and a sentence where it failed."""

    state: State
    phase: str = ""
    step: int = 0
    of: int = 0
    message: str = ""


def predict_in_background(settings: Settings, run_id: str, choice: Choice) -> None:
    """Start predicting in a process of its own.

    Raises
    ------
    JobError
        If it is going on already.
    """
    now = predicting(settings, run_id)
    if now is not None and now.state == "running":
        raise JobError("The predictors are being trained already. Wait for them, or stop them first.")
    _note(settings, run_id, {"state": "running", "phase": "Starting", "since": time.time()})
    environment = {**os.environ, "HERMITAGE_HOME": str(settings.home), "DATABASE_URL": settings.database_url}
    try:
        processes.start((*_COMMAND, run_id, "--predictions", choice), environment=environment)
    except OSError:
        _note(settings, run_id, {"state": "failed", "message": "The process could not be started."})


def predicting(settings: Settings, run_id: str) -> PredictingView | None:
    """Return where predicting stands, or None where it was never started; a process that died has failed."""
    body = _noted(settings, run_id)
    if body is None:
        return None
    if body.get("state") == "running" and not _is_going_on(body):
        return PredictingView("failed", message="The predictors stopped before their end. Start them again.")
    return PredictingView(
        body["state"],
        phase=str(body.get("phase", "")),
        step=int(body.get("step", 0)),
        of=int(body.get("of", 0)),
        message=str(body.get("message", "")),
    )


def cancel_predicting(settings: Settings, run_id: str) -> None:
    """Stop predicting; the report stays as it was."""
    body = _noted(settings, run_id)
    if body is None or body.get("state") != "running":
        return
    if "pid" in body:
        processes.kill(int(body["pid"]), float(body["born"]))
    _note(settings, run_id, {"state": "cancelled"})


def work_on_predictions(settings: Settings, run_id: str, choice: Choice) -> int:
    """Do the work in this process and return its exit code; how it ended stands in the file."""
    from synth.services.application import Application  # imported late: it loads every generator
    from synth.services.reports import downstream_options, renew_predictions

    progress = _Noted(settings, run_id)
    try:
        with Application(settings) as application:
            run, config = application.store.runs[run_id], application.config_of(run_id)
            options = downstream_options(choice, threads=settings.threads)
            folder = run_folder.of(settings, run_id)
            renew_predictions(config, run, folder, vault=application.vault, progress=progress, downstream=options)
    except SynthError as error:
        _note(settings, run_id, {"state": "failed", "message": str(error)})
        return error.exit_code
    except Exception as error:
        incident = record_incident(error)
        _note(settings, run_id, {"state": "failed", "message": f"Something went wrong (incident {incident})."})
        return SynthError.exit_code
    _note(settings, run_id, {"state": "ended"})
    return 0


def _is_going_on(body: dict[str, Any]) -> bool:
    if "pid" in body:
        return processes.is_alive(int(body["pid"]), float(body["born"]))
    return time.time() - float(body.get("since", 0.0)) < _START_SECONDS


def _file(settings: Settings, run_id: str) -> Path:
    return run_folder.of(settings, run_id) / "owner" / _FILE


def _note(settings: Settings, run_id: str, body: dict[str, Any]) -> None:
    run_folder.write_owner_json(_file(settings, run_id), body)


def _noted(settings: Settings, run_id: str) -> dict[str, Any] | None:
    try:
        body = json.loads(_file(settings, run_id).read_bytes())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) and body.get("state") in {"running", "ended", "failed", "cancelled"} else None


class _Noted:
    """Progress written to the file, at most twice a second."""

    def __init__(self, settings: Settings, run_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._run_id, self._clock = settings, run_id, clock
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
            where = {"state": "running", "phase": self._phase, "step": k, "of": of}
            _note(self._settings, self._run_id, {**where, **self._identity})

    def loss(self, value: float) -> None:
        """Do nothing: predictors are not followed by a loss."""

    def check_cancelled(self) -> None:
        """Do nothing: whoever cancels ends the process."""
