"""Predicting again after a run, with every predictor: in a process of its own, followed and stopped through a file.

Nothing is charged: exact answers for the owner cost no epsilon.
"""

from __future__ import annotations

from synth.progress import Progress
from synth.reports.prediction_problem import Choice
from synth.services import run_folder
from synth.services.background import Work, WorkView
from synth.services.installation import Installation
from synth.store import PATIENCE_SECONDS
from synth.system.settings import Settings

__all__ = ["cancel_predicting", "predict_in_background", "predicting", "work_on_predictions"]


def predict_in_background(settings: Settings, run_id: str, choice: Choice) -> None:
    """Start predicting in a process of its own.

    Raises
    ------
    JobError
        If it is going on already.
    """
    _work(settings, run_id, choice).start(settings)


def predicting(settings: Settings, run_id: str) -> WorkView | None:
    """Return where predicting stands, or None where it was never started."""
    return _work(settings, run_id).standing()


def cancel_predicting(settings: Settings, run_id: str) -> None:
    """Stop predicting; the report stays as it was."""
    _work(settings, run_id).cancel()


def work_on_predictions(settings: Settings, run_id: str, choice: Choice) -> int:
    """Do the work in this process and return its exit code; how it ended stands in the file."""

    def work(progress: Progress) -> None:
        from synth.services.reports import (  # imported late: it loads every generator
            downstream_options,
            renew_predictions,
        )

        with Installation.open(settings, patience=PATIENCE_SECONDS) as installation:
            run, config = installation.store.runs[run_id], installation.config_of(run_id)
            options = downstream_options(choice, threads=settings.threads)
            folder = run_folder.of(settings, run_id)
            renew_predictions(config, run, folder, vault=installation.vault, progress=progress, downstream=options)

    return _work(settings, run_id, choice).carry_out(work)


def _work(settings: Settings, run_id: str, choice: Choice = "all") -> Work:
    return Work(
        run_folder.of(settings, run_id) / "owner" / "predicting.json",
        (run_id, "--predictions", choice),
        busy="The predictors are being trained already. Wait for them, or stop them first.",
        died="The predictors stopped before their end. Start them again.",
    )
