"""Check the bundle of a run again that could not check it, and let the run go on to its report if it holds.

Nothing is asked of the rows and nothing is charged: the charge of the run is still open, as that of any run between its
seal and its release.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from uuid import uuid4

from synth.bundle.archive import open_archive
from synth.bundle.certificate import certificate_of
from synth.bundle.verify import Limits, Outcome
from synth.errors import JobError, SynthError
from synth.ledger.ledger import STAYED_SPENT
from synth.progress import Progress
from synth.services import run_folder
from synth.services.installation import Installation
from synth.services.own_check import checked, require_passed
from synth.services.pipeline import PhaseTimer
from synth.services.runs import CHECKING, report_to_owner
from synth.store import ChargeState, Run, TableState, WorkState

__all__ = ["carry_out", "check_again", "require_unchecked"]


def check_again(
    installation: Installation, run_id: str, progress: Progress, *, limits: Limits, owner_report: bool = True
) -> None:
    """Check the kept bundle of an unchecked run; if it holds, the run is reported and can be released.

    Parameters
    ----------
    installation : Installation
    run_id : str
    progress : Progress
    limits : Limits
    owner_report : bool
        Compare with the private rows, if they are still stored.

    Raises
    ------
    UncheckedError
        If it could not be checked with these limits either; nothing has changed.
    JobError
        If it does not hold: the run has failed, and its charge is settled. Also if the run is not unchecked, or its
        bundle is missing or another one.
    """
    run, config = installation.store.runs[run_id], installation.config_of(run_id)
    folder = installation.folder(run_id)
    kept = require_unchecked(run, folder)
    _require_own(installation, run, kept)
    timer = PhaseTimer(progress)
    timer.phase(CHECKING)
    verdict = checked(installation, kept, limits)
    try:
        require_passed(installation, run_id, verdict)
    except JobError as fault:
        if verdict.outcome is Outcome.FAILS:
            _fail(installation, run_id, fault)
        raise
    _publish(kept, folder)
    stored = run.table_id is not None and installation.store.tables[run.table_id].state is TableState.STORED
    report_to_owner(installation, run, config, timer, device=run.device or "cpu", owner_report=owner_report and stored)
    # Last, so that a check that was interrupted can be repeated.
    installation.store.work.advance(run_id, WorkState.REPORTED)
    kept.unlink(missing_ok=True)


def carry_out(installation: Installation, work_id: str, progress: Progress) -> None:
    """Check a bundle again, as it was requested."""
    work = installation.store.work[work_id]
    check_again(installation, work.subject, progress, limits=Limits(**json.loads(str(work.asked))))
    installation.store.work.advance(work_id, WorkState.REPORTED)


def require_unchecked(run: Run, folder: Path) -> Path:
    """Return the kept bundle of an unchecked run.

    Raises
    ------
    JobError
        If the run is not unchecked, or its bundle is missing.
    """
    kept = folder / "owner" / run_folder.UNRELEASED
    if run.state is not WorkState.UNCHECKED:
        raise JobError(f"This run is {run.state}: only one whose own check could not be completed is checked again.")
    if not kept.is_file():
        raise JobError(
            f"The bundle of this run, {kept.name}, is missing from {kept.parent}. Put it back, for example from a "
            "backup."
        )
    return kept


def _require_own(installation: Installation, run: Run, kept: Path) -> None:
    """Refuse a file that is no longer what this run sealed: that is no fault of the program, and can be mended."""
    charges = [charge for charge in installation.ledger.charges_of(run.id) if charge.state is ChargeState.SPENT]
    try:
        with open_archive(kept) as archive:
            stated = certificate_of(archive, installation.keys.public_key_pem).ledger
    except SynthError:
        stated = {}
    if not any(stated == {"charges": charge.position, "head": charge.digest} for charge in charges):
        raise JobError(
            f"The file {kept} is damaged, or is the bundle of another run. Put back that of this run, for example from "
            "a backup."
        )


def _fail(installation: Installation, run_id: str, fault: SynthError) -> None:
    if installation.store.work.move(
        run_id, WorkState.FAILED, message=f"{fault} {STAYED_SPENT}", only_from=(WorkState.UNCHECKED,)
    ):
        installation.ledger.settle(run_id)


def _publish(kept: Path, folder: Path) -> None:
    """Write the bundle, and the files in it that are also kept beside it; each is whole as soon as it is there."""
    draft = folder / f"bundle.{uuid4().hex}"
    try:
        with open_archive(kept) as archive:
            for name in {*run_folder.publishable(archive.members)} & {*archive.members}:
                with archive.open(name) as packed, draft.open("wb") as stream:
                    shutil.copyfileobj(packed, stream)
                draft.replace(folder / name)
        shutil.copyfile(kept, draft)
        draft.replace(folder / "bundle.zip")
    finally:
        draft.unlink(missing_ok=True)
