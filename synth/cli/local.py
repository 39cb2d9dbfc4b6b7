"""A run in this process, from a file to a folder: what ``synth run`` and ``synth.run`` do."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from synth.application import Application
from synth.bundle.certificate import ROW_EPSILON
from synth.cli.files import open_table
from synth.errors import DiskFullError, InputError, JobError, RunCancelledError, SynthError
from synth.jobs.processes import birth_of
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED
from synth.progress import Progress, StoredProgress
from synth.rehearsal.grid import Grid, GridRehearsal
from synth.rehearsal.rehearsals import Rehearsal
from synth.rehearsal.simulation import Simulation, simulated_table
from synth.reports.registry import renewals
from synth.schema import RunConfig
from synth.services import run_folder
from synth.services.incidents import own_error, record_incident
from synth.services.pipeline import copy_outputs
from synth.services.planning import check_config
from synth.services.reports import build_owner_report, renew
from synth.services.runs import carry_out
from synth.services.views import cell_words, row_worth_words
from synth.store import ChargeState, TableState, WorkState
from synth.system.disk import naming_full_disk
from synth.system.machine import is_lack_of_means, require_device, this_host
from synth.system.paths import path_of

__all__ = ["RunResult", "empty_folder", "owner_report_again", "rehearse_locally", "run_locally"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left in its folder, and what it cost."""

    folder: Path
    run_id: str
    epsilon: float
    delta: float
    certificate_id: str
    lines: tuple[str, ...]

    @property
    def bundle(self) -> Path:
        """The sealed bundle."""
        return self.folder / "bundle.zip"


def run_locally(
    config: RunConfig,
    out: str | Path,
    *,
    table: str | Path | None = None,
    keep_table: bool = False,
    owner_report: bool = True,
    force: bool = False,
    say: Say | None = None,
) -> RunResult:
    """Take a table in, make the synthetic one, and write everything into ``out``.

    Parameters
    ----------
    config : RunConfig
        What to do.
    out : path
        A new or empty folder.
    table : path, optional
        The private table, instead of ``config.table``.
    keep_table : bool
        Keep the encrypted copy; otherwise it is deleted at the end, whatever happens.
    owner_report : bool
        Compare with the private rows and write ``owner/report.json``.
    force : bool
        Write into a folder that is not empty.
    say : callable, optional
        Told one line for every phase.

    Raises
    ------
    InputError
        If something given cannot be used; nothing is charged then.
    BudgetExceededError
        If the account's cap would be exceeded.
    """
    if not isinstance(config, RunConfig):
        raise InputError("The configuration must be what synth.load_config returns. Load one, and give it here.")
    if table is not None:
        config = replace(config, table=str(path_of(table, "the table")))
    if config.table is None:
        raise InputError("No table is named. Write 'table:' in the configuration, or give --table.")
    for given, what in ((config.table, "the table"), (config.test_table, "the test table")):
        if given is not None:
            path_of(given, what)
    # Before the table is taken in: a run that cannot start leaves nothing behind.
    check_config(config)
    require_device(config.device)
    folder = empty_folder(out, force=force)
    tell = say or (lambda line: None)
    with Application.from_environment() as application, _received(application, config, keep=keep_table) as tables:
        for table_id in filter(None, tables):
            warning = application.table(table_id).warning
            if warning:
                tell(warning)
        if application.account(config.account).epsilon_cap is None:
            tell(
                f"The account '{config.account}' has no cap. Set one: synth account NAME --epsilon-cap E --delta-cap D"
            )
        run = application.reserve(config, table_id=tables[0], test_table_id=tables[1])
        with _closing(application, run.id):
            application.store.work.claim(run.id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))
            told = _StoredAndSpokenProgress(application, run.id, tell)
            if not _carried_out(application, run.id, told, owner_report=owner_report):
                tell("Memory or the graphics card failed. The run goes on from the answers that it kept, on the CPU.")
                application.store.work.count_attempt(run.id)
                carry_out(application.installation, run.id, told, owner_report=owner_report)
        return _deliver(application, run.id, folder, owner_report=owner_report)


def owner_report_again(folder: str | Path, *, say: Say, **options: str | bool | int | None) -> Path:
    """Build the owner-only report of a finished run whose table was kept.

    Parameters
    ----------
    folder : path
        What ``synth run`` wrote.
    say : callable
        Told one line for every phase.
    **options
        What is asked of reports: :func:`synth.reports.registry.options_of_reports` lists it.

    Raises
    ------
    InputError
        If a report cannot do what is asked of it.
    JobError
        If the folder holds no run, or its table was deleted.
    """
    asked = {
        renewal: str(options[renewal.option])
        for renewal in renewals()
        if renewal.option is not None and options.get(renewal.option) is not None
    }
    for renewal, amount in asked.items():
        if renewal.check is not None:
            renewal.check(amount)
    target = path_of(folder, "the run")
    body = run_folder.read_json(target / "owner" / "run.json")
    with Application.from_environment() as application:
        run = application.store.runs[str(body.get("run_id"))]
        if run.table_id is None or application.store.tables[run.table_id].state is not TableState.STORED:
            raise JobError("The private table of this run was deleted. Run again with --keep-table.")
        config = application.config_of(run.id)
        source = application.folder(run.id)
        application.ledger.note_owner_view(run.account_id, run_id=run.id, who="owner", what="report")
        vault, progress, threads = application.vault, _SpokenProgress(say), application.settings.threads
        built = build_owner_report(
            config, run, source, vault=vault, progress=progress, options=options, threads=threads
        )
        if built is None:
            raise JobError("There are no private rows to compare with.")
        for renewal, amount in asked.items():
            renew(
                config,
                run,
                source,
                vault=vault,
                progress=progress,
                renewal=renewal,
                amount=amount,
                threads=threads,
            )
        copy_outputs(source / "owner", target / "owner", ("report.json",))
    (target / "owner" / "report.json").chmod(0o600)
    return target / "owner" / "report.json"


def rehearse_locally(
    config: RunConfig,
    stand_in: str | Simulation,
    *,
    grid: Grid | None = None,
    out: str | Path | None = None,
    say: Say,
) -> Rehearsal | GridRehearsal:
    """Rehearse a configuration on a public table or on simulated rows, and write the report where asked.

    Parameters
    ----------
    config : RunConfig
    stand_in : str or Simulation
        Path of a table that nobody has to protect, with the columns of the configuration; or how rows are simulated
        from what is declared.
    grid : Grid, optional
        Rehearse all of this instead of the configuration itself.
    out : path, optional
        A new file for the report, as JSON.
    say : callable
        Told one line for every phase.

    Raises
    ------
    InputError
        If the file exists, or the stand-in cannot be used.
    """
    if out is not None:
        out = _new_file(out)
    if isinstance(stand_in, Simulation):
        rows = simulated_table(stand_in, config.schema)
    else:
        with open_table(stand_in, config.format) as (_, stream):
            rows = stream.read()
    how = {"simulated": isinstance(stand_in, Simulation)}
    with Application.from_environment() as application:
        rehearsals, spoken = application.rehearsals, _SpokenProgress(say)
        found: Rehearsal | GridRehearsal
        if grid is None:
            found = rehearsals.rehearse(config, lambda: io.BytesIO(rows), spoken, **how)
        else:
            found = rehearsals.rehearse_grid(config, grid, lambda: io.BytesIO(rows), spoken, **how)
        if out is not None:
            report = rehearsals.report(config, grid=grid is not None)
            out.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return found


def _new_file(out: str | Path) -> Path:
    path = path_of(out, "the report")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"There is no folder for the file '{path.name}'. Name one in a folder that exists after --out."
        )
    if path.exists():
        raise InputError(f"The file '{path.name}' exists. Name a new one after --out.")
    return path


def empty_folder(out: str | Path, *, force: bool) -> Path:
    """Return the folder that a user named, after checking that nothing in it would be lost."""
    folder = path_of(out, "the folder")
    if any(parent.is_file() for parent in folder.absolute().parents):
        raise InputError(f"The folder '{folder.name}' would lie inside a file. Name another one after --out.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder.name}' is a file. Name a folder after --out.")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"The folder '{folder.name}' is not empty. Name a new one, or add --force.")
    return folder


@contextmanager
def _received(application: Application, config: RunConfig, *, keep: bool) -> Iterator[tuple[str, str | None]]:
    """Take the table and the test table in, and delete them at the end."""
    taken: list[str] = []
    try:
        taken.append(_receive(application, config, str(config.table), "table"))
        if config.test_table is not None:
            taken.append(_receive(application, config, config.test_table, "test"))
        yield taken[0], taken[1] if len(taken) > 1 else None
    finally:
        with ExitStack() as deleting:  # all of them, though deleting one may fail
            for table_id in () if keep else taken:
                deleting.callback(application.vault.delete, table_id, who="owner")


def _receive(application: Application, config: RunConfig, path: str, kind: str) -> str:
    form = config.format if kind == "table" else config.test_format or config.format
    with open_table(path, form) as (name, stream):
        return application.receive(
            stream, account=config.account, name=name, table_format=form, kind="table" if kind == "table" else "test"
        ).table_id


@contextmanager
def _closing(application: Application, run_id: str) -> Iterator[None]:
    """End the run and settle its charge, however its work ends; from here on the database is waited for."""
    application.store.be_patient()
    try:
        yield
    except BaseException as error:
        cancelled = isinstance(error, RunCancelledError | KeyboardInterrupt)
        run_folder.clear(application.settings, run_id)
        charges = application.ledger.settle(run_id)
        fate = STAYED_SPENT if any(charge.state is ChargeState.FAILED_SPENT for charge in charges) else WAS_FREED
        error = own_error(error, application.settings.home) or error
        known = isinstance(error, SynthError)
        incident = None if known or cancelled else record_incident(error)
        message = str(error) if known else "The run was cancelled." if cancelled else "Something went wrong."
        state = WorkState.CANCELLED if cancelled else WorkState.FAILED
        words = f"{message} {fate}" if charges else message
        application.store.work.move(run_id, state, message=words, incident_id=incident)
        raise error from None


def _carried_out(application: Application, run_id: str, progress: Progress, *, owner_report: bool) -> bool:
    """Carry a run out; return False where memory or the device failed it after its budget was spent.

    A function of its own, so that nothing of the failed attempt is held in memory when the run goes on.
    """
    try:
        carry_out(application.installation, run_id, progress, owner_report=owner_report)
    except Exception as error:
        charges = application.ledger.charges_of(run_id)
        if not is_lack_of_means(error) or not any(charge.state is ChargeState.SPENT for charge in charges):
            raise
        return False
    return True


def _deliver(application: Application, run_id: str, folder: Path, *, owner_report: bool) -> RunResult:
    source = application.folder(run_id)
    identity = application.release(run_id, attestations=("run from the command line or Python",), attested_by="owner")
    if owner_report and (source / "owner" / "report.json").exists():
        # Written where it can be read at any moment, so it counts as read.
        run = application.store.runs[run_id]
        application.ledger.note_owner_view(run.account_id, run_id=run_id, who="owner", what="report")
    try:
        with naming_full_disk(folder):
            _copy_out(source, folder)
    except DiskFullError as error:
        raise DiskFullError(
            f"{error} Do not run again, which would be charged again: the release is finished, and its files are in "
            f"{source}."
        ) from None
    certificate = json.loads((folder / "certificate.json").read_bytes())
    view = application.account(certificate["account"])
    of_row = certificate.get(ROW_EPSILON)
    worth = None if of_row is None else (of_row, certificate["delta"])
    made = (
        f"{certificate['rows']:,} rows to {folder / 'synthetic.csv'}"
        if "rows" in certificate
        else f"the model '{certificate['model']}' to {folder / 'model.json'}"
    )
    lines = (
        f"Wrote {made} and the bundle to {folder / 'bundle.zip'}.",
        f"epsilon {certificate['epsilon']:.6g}{row_worth_words(worth)}, delta {certificate['delta']:g}; "
        f"certificate {identity}.",
        f"Account {view.name}: epsilon {view.epsilon_spent:.4g}{cell_words(worth)} spent in all.",
    )
    return RunResult(folder, run_id, certificate["epsilon"], certificate["delta"], identity, lines)


def _copy_out(source: Path, folder: Path) -> None:
    of_model = (source / "model.json").exists()
    copy_outputs(source, folder, run_folder.PUBLISHABLE_OF_MODEL if of_model else run_folder.PUBLISHABLE)
    (folder / "owner").mkdir(mode=0o700, exist_ok=True)
    (folder / "owner").chmod(0o700)
    names = [name for name in ("report.json", "timings.json", "run.json") if (source / "owner" / name).exists()]
    copy_outputs(source / "owner", folder / "owner", names)
    for name in names:
        (folder / "owner" / name).chmod(0o600)


class _SpokenProgress:
    """Progress as lines of text."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def phase(self, name: str) -> None:
        """Say which phase begins."""
        self._say(f"{name} ...")

    def step(self, k: int, of: int) -> None:
        """Say nothing: steps are for screens."""

    def loss(self, value: float) -> None:
        """Say nothing."""

    def check_cancelled(self) -> None:
        """Nobody but Ctrl-C cancels here."""


class _StoredAndSpokenProgress(StoredProgress):
    """Progress in the store and as lines of text."""

    def __init__(self, application: Application, run_id: str, say: Say) -> None:
        super().__init__(application.store.work, run_id)
        self._say = say

    def phase(self, name: str) -> None:
        """Note the phase and say it."""
        super().phase(name)
        self._say(f"{name} ...")

    def owner_phase(self, name: str) -> None:
        """Say the phase on this terminal, which is the owner's, and note it nowhere."""
        self._say(f"owner only: {name} ...")
