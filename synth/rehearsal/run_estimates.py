"""Estimates from a finished run, at its owner's wish: worked out in the background from the bundle, and kept with it.

They read what may be published and nothing else, so they cost nothing and go on when the private rows are gone.
"""

from __future__ import annotations

import json
from pathlib import Path

from synth.errors import ConfigError, JobError
from synth.jobs import LocalEngine
from synth.progress import Progress
from synth.rehearsal.estimating import REPLICATES, Estimates, estimate
from synth.rehearsal.questions import read_question
from synth.services import run_folder
from synth.services.installation import Installation
from synth.services.intake import SINGLE_USER
from synth.store import Work, WorkKind, WorkState

__all__ = ["RunEstimates", "carry_out"]

_MOST_KEPT = 50
_LONGEST = 2000
"""Signs of a question; who types more has pasted something else."""


class RunEstimates:
    """What was estimated from the runs of one installation.

    Parameters
    ----------
    installation : Installation
    engine : LocalEngine
        Starts, follows and stops the work.
    """

    def __init__(self, installation: Installation, engine: LocalEngine) -> None:
        self._installation, self._engine = installation, engine

    def ask(self, run_id: str, question: str) -> None:
        """Start answering a question, in a process of its own; nothing is charged: nothing private is read.

        Raises
        ------
        ConfigError
            If it is no question about the columns of the run.
        JobError
            If the run has no report yet, released a model, or is being asked already.
        """
        question = question.strip()
        if not question:
            raise ConfigError("Type what to estimate, for example: mean COLUMN, or share of CONDITION.")
        if len(question) > _LONGEST:
            raise ConfigError(f"A question has at most {_LONGEST:,} signs, this one has {len(question):,}.")
        config = self._installation.config_of(run_id)
        if config.is_model:
            raise JobError("This run released a model and made no rows, so there is nothing to estimate from.")
        read_question(question, config.schema)
        if not self._bundle(run_id).exists():
            raise JobError("This run has no report yet. Wait until it has ended.")
        self._engine.begin(WorkKind.ESTIMATE, run_id, asked=json.dumps(question), owner=SINGLE_USER)

    def standing(self, run_id: str) -> Work | None:
        """Return where answering stands, or None where nothing was asked."""
        return self._engine.standing(WorkKind.ESTIMATE, run_id)

    def cancel(self, run_id: str) -> None:
        """Stop it; earlier answers stay."""
        self._engine.stop(WorkKind.ESTIMATE, run_id)

    def answers(self, run_id: str) -> tuple[Estimates, ...]:
        """Return what was estimated, the newest first."""
        path = self._path(run_id)
        kept = run_folder.read_json(path)["estimates"] if path.exists() else []
        return tuple(map(Estimates.from_dict, kept))

    def carry_out(self, work_id: str, progress: Progress) -> None:
        """Do the work of :meth:`ask` in this process."""
        work = self._installation.store.work[work_id]
        (found,) = estimate(
            self._bundle(work.subject), json.loads(str(work.asked)), replicates=REPLICATES, progress=progress
        )
        others = [one for one in self.answers(work.subject) if one.question != found.question]
        kept = [one.to_dict() for one in (found, *others)][:_MOST_KEPT]
        run_folder.write_owner_json(self._path(work.subject), {"estimates": kept})
        self._installation.store.work.advance(work_id, WorkState.REPORTED)

    def _bundle(self, run_id: str) -> Path:
        return self._installation.folder(run_id) / "bundle.zip"

    def _path(self, run_id: str) -> Path:
        return self._installation.folder(run_id) / "owner" / "estimates.json"


def carry_out(installation: Installation, work_id: str, progress: Progress) -> None:
    """Estimate what was asked for."""
    RunEstimates(installation, LocalEngine(installation.store)).carry_out(work_id, progress)
