"""Estimates from a finished run, at its owner's request: computed in the background from the bundle, and kept.

They read only what may be published, so they cost nothing, and work after the private rows are deleted.
"""

from __future__ import annotations

import json
from pathlib import Path

from synth.errors import ConfigError, JobError
from synth.jobs import Engine, engine_of
from synth.ledger.rulings import Role
from synth.progress import Progress
from synth.rehearsal.estimating import REPLICATES, Estimates, estimate
from synth.rehearsal.questions import read_question
from synth.services import run_folder
from synth.services.access import ITSELF, Access, internal, use_case
from synth.services.installation import Installation
from synth.store import Work, WorkKind, WorkState

__all__ = ["RunEstimates", "carry_out"]

_MOST_KEPT = 50
_LONGEST = 2000
"""The most characters of a question; a longer text was probably pasted by mistake."""


class RunEstimates:
    """The estimates from the runs of one installation.

    Parameters
    ----------
    installation : Installation
    engine : Engine
        Starts, follows and stops the work.
    access : Access
        Who asks; by default the program itself.
    """

    def __init__(self, installation: Installation, engine: Engine, *, access: Access = ITSELF) -> None:
        self._installation, self._engine, self.access = installation, engine, access

    @use_case(Role.OWNER, about="run_id")
    def ask(self, run_id: str, question: str) -> None:
        """Start answering a question in another process; nothing is charged, because nothing private is read.

        Raises
        ------
        ConfigError
            If the question is not understood, or is not about the columns of the run.
        JobError
            If the run has no report yet, released a model, or is answering a question already.
        """
        question = question.strip()
        if not question:
            raise ConfigError("Type what to estimate, for example: mean COLUMN, or share of CONDITION.")
        if len(question) > _LONGEST:
            raise ConfigError(f"A question has at most {_LONGEST:,} characters, and this one has {len(question):,}.")
        config = self._installation.config_of(run_id)
        if config.is_model:
            raise JobError("This run released a model and made no rows, so nothing can be estimated from it.")
        read_question(question, config.schema)
        if not self._bundle(run_id).exists():
            raise JobError("This run has no report yet. Wait until it has finished.")
        self._engine.begin(WorkKind.ESTIMATE, run_id, asked=json.dumps(question), owner=self.access.name)

    @use_case(Role.OWNER, about="run_id")
    def standing(self, run_id: str) -> Work | None:
        """Return the work on the latest question, or None if nothing was asked."""
        return self._engine.standing(WorkKind.ESTIMATE, run_id)

    @use_case(Role.OWNER, about="run_id")
    def cancel(self, run_id: str) -> None:
        """Stop answering; earlier answers stay."""
        self._engine.stop(WorkKind.ESTIMATE, run_id)

    @use_case(Role.OWNER, about="run_id")
    def answers(self, run_id: str) -> tuple[Estimates, ...]:
        """Return all estimates, newest first."""
        path = self._path(run_id)
        kept = run_folder.read_json(path)["estimates"] if path.exists() else []
        return tuple(map(Estimates.from_dict, kept))

    @internal
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
    """Answer the question of a piece of work."""
    RunEstimates(installation, engine_of(installation.store)).carry_out(work_id, progress)
