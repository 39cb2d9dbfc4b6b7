"""A run checks the bundle that it sealed as a stranger would, before anyone hears of a release.

There are three outcomes. A bundle that holds is released. One that does not hold is a fault of this program: nothing is
ever released, and what differs is kept for a report. One that could not be checked here, because memory or time ran out
or the program was changed meanwhile, waits for a later check (:mod:`synth.services.checking_again`); its charge stays
open until then.
"""

from __future__ import annotations

from pathlib import Path

from synth.bundle.verify import Limits, Outcome, Verdict, verify
from synth.errors import JobError, UncheckedError, VerificationError
from synth.services import run_folder
from synth.services.incidents import record_incident
from synth.services.installation import Installation
from synth.store import WorkState
from synth.vault.kept_answers import forget_answers

__all__ = ["checked", "require_check", "require_passed"]


def require_check(installation: Installation, run_id: str) -> None:
    """Check the bundle that a run has just sealed, within the limits that a stranger has.

    A bundle that does not pass is kept in the owner's part of the run's folder, so nothing has to be asked again.

    Raises
    ------
    UncheckedError
        If it could not be checked here. The run waits, unchecked, for another check.
    JobError
        If it does not hold.
    """
    folder = installation.folder(run_id)
    verdict = checked(installation, folder / "bundle.zip", Limits())
    if verdict.outcome is not Outcome.HOLDS:
        (folder / "bundle.zip").replace(folder / "owner" / run_folder.UNRELEASED)
        run_folder.withdraw(folder)
    require_passed(installation, run_id, verdict)


def checked(installation: Installation, bundle: Path, limits: Limits) -> Verdict:
    """Check a bundle of this installation, signed by its key, and wait as long as a busy machine needs."""
    return verify(
        bundle,
        installation.keys.public_key_pem,
        memory_bytes=limits.memory_bytes,
        seconds=limits.seconds,
    )


def require_passed(installation: Installation, run_id: str, verdict: Verdict) -> None:
    """End a run whose bundle did not pass its check, or let it wait for another one.

    Raises
    ------
    UncheckedError
        If it could not be checked here; its state and its charge do not change any more until it is.
    JobError
        If it does not hold; the caller settles the charge.
    """
    if verdict.outcome is Outcome.HOLDS:
        return
    if verdict.outcome is Outcome.UNKNOWN:
        unchecked = UncheckedError(_unchecked(run_id, verdict), run_id=run_id)
        installation.store.work.move(run_id, WorkState.UNCHECKED, message=str(unchecked))
        # The bundle holds every answer.
        forget_answers(installation.settings.home, run_id)
        raise unchecked
    fault = VerificationError(next(iter(verdict.json["failures"])))
    incident = record_incident(fault)
    owners = installation.folder(run_id) / "owner"
    with run_folder.private_stream(owners / run_folder.INCIDENT) as stream:
        stream.write("\n".join([f"Incident {incident}, run {run_id}", *verdict.lines, ""]).encode())
    raise JobError(
        f"The bundle of this run does not hold in its own check, which is a fault of this program, so nothing is "
        f"released (incident {incident}): {fault} Report it with {run_folder.INCIDENT}, which says what differs. That "
        f"file and {run_folder.UNRELEASED}, with every noisy answer, are kept in {owners}. Do not run again, which "
        "would be charged again."
    )


def _unchecked(run_id: str, verdict: Verdict) -> str:
    """Return what was missing and how to go on, in words."""
    # What to allow, and where, is said for this command instead.
    reason = next(iter(verdict.json["not_checked"]), "The check stopped.").partition(" If you trust")[0]
    elsewhere = verdict.json.get("elsewhere")
    remedy = (
        f"The program or its packages were changed after the run had begun: it ran with {elsewhere}. Put those back, "
        "and check it again"
        if elsewhere
        else "Check it again with more memory or time, or when the machine is less busy"
    )
    return (
        "The bundle of this run is sealed, but could not be checked here, so it is not released yet. "
        f"{reason} {remedy}: with the button on the page of the run, or synth check-again {run_id} --out DIR "
        "--memory 4 --seconds 600. That costs nothing. Do not run again, which would be charged again."
    )
