"""The life of one run inside a worker: charge, read, measure, fit, sample, report, seal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from synth.errors import JobError, LedgerError, RunCancelledError, SynthError, TableError
from synth.ledger.charging import OTHER_THAN_RESERVED, charge_in, require_as_reserved, require_open
from synth.ledger.notes import WENT_ON, WENT_ON_ELSEWHERE
from synth.privacy.table import PrivateTable
from synth.progress import OWNER_PHASE, Progress
from synth.schema import RunConfig, parse_config
from synth.services import run_folder
from synth.services.access import require_still_owner
from synth.services.devices import CONTINUED_ON_CPU, DeviceChoice, planned_device
from synth.services.finding import finding_of
from synth.services.incidents import record_incident
from synth.services.installation import Installation
from synth.services.own_check import require_check
from synth.services.pipeline import FittedRun, PhaseTimer, Sealing, fit_and_sample, peak_memory_bytes, seal_release
from synth.services.planning import check_config
from synth.services.reports import build_owner_report
from synth.services.stops import Stops
from synth.services.trying_out import PHASE, try_out
from synth.store import Charge, ChargeState, Run, TableState, WorkState
from synth.system.machine import local_processes, resolved_device
from synth.vault.kept_answers import AnswerFile, answers_path

__all__ = ["CHECKING", "carry_out", "report_to_owner"]

CHECKING = "Checking the bundle"
"""The phase in which a sealed bundle is checked."""


def carry_out(
    installation: Installation,
    run_id: str,
    progress: Progress,
    *,
    owner_report: bool = True,
    say: Callable[[str], None] | None = None,
) -> None:
    """Run a claimed run, from its charge to its reports.

    The charge is final before the table is opened, and the bundle is sealed before anything exact is computed. Answers
    are kept until the run is reported. A run whose first worker stopped continues from them, on the CPU if necessary:
    fitting is post-processing of the same answers.

    Where the processor and a card were weighed against each other, ``say`` is told which one the run gets, and why.

    Raises
    ------
    UncheckedError
        If the sealed bundle could not be checked here; the run has ended, unchecked, and its charge stays open.
    SynthError
        What stopped the run; the caller settles the charge.
    """
    store = installation.store
    run = store.runs[run_id]
    config = parse_config(json.loads(run.config))
    timer = PhaseTimer(progress)
    # A rehearsal may have stopped this configuration while the run waited; nothing is charged then.
    Stops(store).check(config)
    # Everything else that can fail because of declarations, including the device, fails here too.
    check_config(config)
    choice = _device_of(run, config, installation.settings.home)
    device = choice.device
    if device == "cpu" and (run.went_on or resolved_device(config.device) == "cuda"):
        config = replace(config, device="cpu")  # for the trial and all repetitions, and as the bundle has to say
    if say is not None and choice.is_weighed:
        say(choice.why)
    if not run.went_on:
        # A run that continues was tried out before its charge.
        timer.phase(PHASE)
        try_out(config, installation.settings, timer, sealing=_sealing(installation, run, config))
    timer.phase("Reading")
    folder = run_folder.make(installation.settings, run_id)
    run_folder.write_owner_json(folder / "owner" / run_folder.DEVICE, {"device": device, "why": choice.why})
    key, path = installation.keys.answers_key(run_id), answers_path(installation.settings.home, run_id)
    with AnswerFile(path, key=key, run_id=run_id) as answers:
        _require_own(store.runs[run_id], run)
        _require_table(installation, run)
        charge, begun_on = _spend(installation, run, answers, device)
        store.runs.note_device(run_id, device)
        train, *held_out = _open(installation, run, config)
        fitted = fit_and_sample(config, train, timer, holdout=next(iter(held_out), None), kept=answers)
        del train, held_out  # and with them the processes that count their rows
        answers.require_all_repeated()
        store.work.advance(run_id, WorkState.MEASURED)
        went_on = (WENT_ON if begun_on == device else WENT_ON_ELSEWHERE,) if run.went_on else ()
        sealing = _sealing(installation, run, config, charge, went_on)
        _seal_and_report(installation, run, config, fitted, sealing, timer, device=device, owner_report=owner_report)
        store.work.advance(run_id, WorkState.REPORTED)
        answers.forget()


def _seal_and_report(
    installation: Installation,
    run: Run,
    config: RunConfig,
    fitted: FittedRun,
    sealing: Sealing,
    timer: PhaseTimer,
    *,
    device: str,
    owner_report: bool,
) -> None:
    folder = run_folder.of(installation.settings, run.id)
    seal_release(config, fitted, folder, sealing=sealing, progress=timer)
    timer.phase(CHECKING)
    require_check(installation, run.id)
    report_to_owner(installation, run, config, timer, device=device, owner_report=owner_report)


def report_to_owner(
    installation: Installation, run: Run, config: RunConfig, timer: PhaseTimer, *, device: str, owner_report: bool
) -> None:
    """Write the owner's files of a run whose bundle is sealed and holds: the report if asked for, times, and its id."""
    folder = installation.folder(run.id)
    if owner_report:
        timer.phase(OWNER_PHASE)
        # Its phases show how many classes are predicted and whether anyone was held out, so they are for the owner.
        timer.hide()
        try:
            build_owner_report(installation, run, config, timer)
        except (RunCancelledError, KeyboardInterrupt):
            # The bundle is paid for and holds: whoever does not wait for the report gives up the report alone.
            timer.phase("Reporting was stopped")
        except SynthError:
            raise
        except Exception as error:
            # The bundle is sealed: how the run ends must not depend on exact rows.
            record_incident(error)
    timer.close()
    seconds = {name.lower().replace(" ", "_"): round(value, 3) for name, value in timer.seconds.items()}
    run_folder.write_owner_json(
        folder / "owner" / "timings.json",
        {
            # Of the last attempt, if the run was continued.
            "seconds": _seconds_by_part(seconds),
            "attempts": run.attempts,
            "peak_memory_bytes": peak_memory_bytes(),
            "device": device,
        },
    )
    run_folder.write_owner_json(
        folder / "owner" / "run.json",
        {"run_id": run.id, "table_id": run.table_id, "test_table_id": run.test_table_id, "state": "reported"},
    )


_PARTS = {
    "checking_the_bundle": "bundle",
    "trying_out": "try",
    "reading": "read",
    "measuring": "measure",
    "fitting": "fit",
    "sampling": "sample",
    "writing": "sample",
    "reporting": "report",
    "reporting_to_the_owner": "report",
    "comparing": "report",
    "scoring": "report",
    "predicting": "report",
    "attacking": "report",
    "sealing": "bundle",
}
"""The part of ``timings.json`` by the phase, or by the first word of a longer phase."""


def _seconds_by_part(phases: dict[str, float]) -> dict[str, float]:
    """Return the seconds of each part of a run, as in ``timings.json``, and their total."""
    parts = dict.fromkeys(("try", "read", "measure", "fit", "sample", "report", "bundle"), 0.0)
    for phase, seconds in phases.items():
        parts[_PARTS.get(phase, _PARTS.get(phase.partition("_")[0], "fit"))] += seconds
    return {name: round(value, 3) for name, value in parts.items()} | {"total": round(sum(phases.values()), 3)}


def _device_of(run: Run, config: RunConfig, home: Path) -> DeviceChoice:
    """Return the device to use: the earlier one for a run that continues, or the CPU if it may not use a card."""
    if not run.went_on:
        return planned_device(config, home, found=resolved_device(config.device))
    # The card may be gone by now, which is no reason to stop.
    if run.device == "cuda" and run.gpus and resolved_device("auto") == "cuda":
        return DeviceChoice("cuda", "The run continues on the GPU, from the answers that were kept.")
    return DeviceChoice(
        "cpu",
        CONTINUED_ON_CPU if run.device == "cuda" else "The run continues on the CPU, from the answers that were kept.",
    )


def _require_own(now: Run, begun: Run) -> None:
    """Refuse a run that was ended, or given to another worker, while this worker waited for its file."""
    if now.is_finished or (now.attempts, now.pid) != (begun.attempts, begun.pid):
        raise JobError(f"The run is {now.state} and no longer belongs to this worker.")


def _require_table(installation: Installation, run: Run) -> None:
    """Refuse, before anything is charged, a run whose rows were deleted since it was planned, or are others'."""
    if run.table_id is None:
        raise JobError("This run has no table. Start a new one.")
    table = installation.store.tables[run.table_id]
    if table.state is not TableState.STORED:
        raise TableError("The table of this run was deleted. Upload it again.")
    if table.account_id != run.account_id:
        raise LedgerError(OTHER_THAN_RESERVED)


def _spend(installation: Installation, run: Run, answers: AnswerFile, device: str) -> tuple[Charge, str]:
    """Spend the reservation of a run, or find that an earlier worker did; also return the device that it began on.

    The configuration must be the one of the reservation and, if the run continues, the one that it began with.
    """
    digest, ledger = hashlib.sha256(run.config.encode()).hexdigest(), installation.ledger
    for charge in ledger.charges_of(run.id):
        if charge.account_id != run.account_id:
            raise LedgerError(OTHER_THAN_RESERVED)
        if charge.state is ChargeState.RESERVED:
            require_still_owner(installation.roles, run.owner)
            answers.begin({"config": digest, "device": device})
            return ledger.spend(charge, config=run.config), device
        if charge.state is ChargeState.SPENT and run.went_on:
            facts = answers.go_on()
            found = ledger.chain(run.account_id)
            require_open(found)
            require_as_reserved(found, charge_in(found.account, found.charges, charge.charge_id), run.config)
            if facts["config"] != digest:
                raise LedgerError(OTHER_THAN_RESERVED)
            return charge, facts["device"]
    raise JobError("Nothing is reserved for this run. Start a new one.")


def _open(installation: Installation, run: Run, config: RunConfig) -> tuple[PrivateTable, ...]:
    """Open the rows to learn from and, if predictions are paid for, the held-out rows."""
    key = installation.vault.split_key(run.account_id)
    return PrivateTable.open(
        installation.vault.of_account(run.account_id),
        str(run.table_id),
        config.schema,
        config.format,
        account_key=key,
        holdout=config.holdout,
        parts=("train", "holdout") if config.prediction_share else ("train",),
        undeclared=config.undeclared,
        processes=local_processes(installation.settings.threads),
    )


def _sealing(
    installation: Installation,
    run: Run,
    config: RunConfig,
    charge: Charge | None = None,
    went_on: tuple[str, ...] = (),
) -> Sealing:
    names = [installation.store.tables[table_id].name for table_id in (run.table_id, run.test_table_id) if table_id]
    return Sealing(
        signer=installation.keys,
        notes=(*installation.ledger.notes(run.account_id, run_id=run.id), *went_on),
        ledger={} if charge is None else {"charges": charge.position, "head": charge.digest},
        file_names=tuple(names),
        finding=finding_of(installation, config),
    )
