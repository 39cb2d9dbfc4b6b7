"""The shadow-model attack after a run: in a process of its own, followed and stopped through a file.

Nothing is charged: the shadow runs stay in the process, and what the attack came to is for the owner alone.
"""

from __future__ import annotations

from synth.errors import JobError
from synth.progress import Progress
from synth.reports.shadow_models import USUAL_RUNS
from synth.services import run_folder
from synth.services.background import Work, WorkView
from synth.services.installation import Installation
from synth.store import PATIENCE_SECONDS
from synth.system.settings import Settings

__all__ = ["cancel_shadowing", "expected_minutes", "shadow_in_background", "shadowing", "work_on_shadows"]


def shadow_in_background(settings: Settings, run_id: str, runs: int = USUAL_RUNS) -> None:
    """Start the attack in a process of its own.

    Raises
    ------
    JobError
        If it is going on already.
    """
    _work(settings, run_id, runs).start(settings)


def shadowing(settings: Settings, run_id: str) -> WorkView | None:
    """Return where the attack stands, or None where it was never started."""
    return _work(settings, run_id).standing()


def cancel_shadowing(settings: Settings, run_id: str) -> None:
    """Stop the attack; the report stays as it was."""
    _work(settings, run_id).cancel()


def expected_minutes(settings: Settings, run_id: str, runs: int = USUAL_RUNS) -> int | None:
    """Return about how many minutes the attack takes, from the times of the run; None where they are unknown."""
    try:
        seconds = run_folder.read_json(run_folder.of(settings, run_id) / "owner" / "timings.json")["seconds"]
        return max(1, round(runs * sum(float(seconds[part]) for part in ("measure", "fit", "sample")) / 60))
    except (JobError, KeyError, TypeError, ValueError):
        return None


def work_on_shadows(settings: Settings, run_id: str, runs: int) -> int:
    """Do the work in this process and return its exit code; how it ended stands in the file."""

    def work(progress: Progress) -> None:
        from synth.services.reports import renew_shadows  # imported late: it loads every generator

        with Installation.open(settings, patience=PATIENCE_SECONDS) as installation:
            run, config = installation.store.runs[run_id], installation.config_of(run_id)
            folder = run_folder.of(settings, run_id)
            renew_shadows(config, run, folder, vault=installation.vault, progress=progress, runs=runs)

    return _work(settings, run_id, runs).carry_out(work)


def _work(settings: Settings, run_id: str, runs: int = USUAL_RUNS) -> Work:
    return Work(
        run_folder.of(settings, run_id) / "owner" / "shadowing.json",
        (run_id, "--shadow-models", str(runs)),
        busy="The shadow models are being trained already. Wait for them, or stop them first.",
        died="The shadow models stopped before their end. Start them again.",
    )
