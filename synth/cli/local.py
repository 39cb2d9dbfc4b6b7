"""A run in this process, from a file to a folder: what ``synth run`` and ``synth.run`` do."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth.application import Application
from synth.bundle.certificate import ROW_EPSILON
from synth.bundle.verify import Limits
from synth.cli.files import empty_folder, new_file
from synth.cli.finding import check_what_is_described
from synth.cli.frames import frame_of_table
from synth.cli.linked import with_tables
from synth.cli.received import Rows, as_stored, closing, kept_reading, received, require_rows
from synth.cli.speaking import Say, SpokenProgress, StoredAndSpokenProgress
from synth.errors import DiskFullError, InputError, JobError
from synth.jobs.processes import birth_of
from synth.names import shown
from synth.progress import Progress
from synth.rehearsal.grid import Grid, GridRehearsal
from synth.rehearsal.rehearsals import OpenStandIn, Rehearsal, Rehearsals
from synth.rehearsal.simulation import Simulation, simulated_table
from synth.reports.registry import renewals
from synth.schema import RunConfig, default_delta
from synth.services import run_folder
from synth.services.checking_again import check_again
from synth.services.course import Course
from synth.services.databases import as_read_from_source
from synth.services.intake import Reading
from synth.services.pipeline import copy_outputs
from synth.services.planning import check_config
from synth.services.reports import build_owner_report, renew
from synth.services.runs import carry_out
from synth.services.table_paths import open_table
from synth.services.views import cell_words, row_worth_words
from synth.store import ChargeState, TableState
from synth.system.disk import naming_full_disk
from synth.system.machine import is_lack_of_means, require_device, this_host
from synth.system.paths import path_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunResult", "check_again_locally", "owner_report_again", "rehearse_locally", "run_locally"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left in its folder, and what it cost."""

    folder: Path
    run_id: str
    epsilon: float
    delta: float
    certificate_id: str
    lines: tuple[str, ...]
    losses: tuple[str, ...] = ()
    """What was not as declared in the private table; for the owner only."""
    table_names: tuple[str, ...] = ()
    """Where two tables belong together, what they are called."""

    @property
    def bundle(self) -> Path:
        """The sealed bundle."""
        return self.folder / "bundle.zip"

    @property
    def table(self) -> pd.DataFrame:
        """The synthetic rows; a released model has none. Of two tables, both joined."""
        return frame_of_table(self.table_file)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Where two tables belong together, both synthetic ones by their names; their keys fit."""
        if not self.table_names:
            raise InputError("There are no two tables: the release is of a single one, or of a model.")
        return {name: frame_of_table(self.folder / f"{name}.parquet") for name in self.table_names}

    @property
    def table_file(self) -> Path:
        """The Parquet file of the synthetic rows; a released model has none."""
        path = self.folder / "synthetic.parquet"
        if not path.exists():
            raise InputError("There is no table: the release is of a model, or its rows were moved away.")
        return path


def run_locally(
    config: RunConfig,
    out: str | Path | None,
    *,
    table: str | Path | None = None,
    tables: Mapping[str, Any] | None = None,
    rows: Rows | None = None,
    password: str | None = None,
    find: Callable[[RunConfig], RunConfig] | None = None,
    first: bool = False,
    keep_table: bool = False,
    owner_report: bool = True,
    force: bool = False,
    reading: Reading | None = None,
    say: Say | None = None,
    warn: Say | None = None,
) -> RunResult:
    """Take in a table, make the synthetic one, and write everything into ``out``.

    Parameters
    ----------
    config : RunConfig
        What to run.
    out : path, optional
        A new or empty folder; without it, the files stay in the run's folder in the home of the installation.
    table : path, optional
        The private table, instead of ``config.table``.
    tables : mapping of str to path or pandas.DataFrame, optional
        The two private tables that belong together, by what they are called, instead of those in the configuration.
    rows : binary file, or tuple of two, optional
        The private table itself, or both, in the format of ``config.format``, instead of a path.
    password : str, optional
        The password of the database in ``config.source``; it is not stored.
    find : callable, optional
        Fills the open columns, once everything else has been checked.
    first : bool
        Refuse a table that was taken in before, under another account.
    keep_table : bool
        Keep the encrypted copy of the table; otherwise it is always deleted at the end.
    owner_report : bool
        Compare with the private rows and write ``owner/report.json``.
    force : bool
        Write into a folder that is not empty.
    say : callable, optional
        Called with one line for every phase.
    reading : Reading, optional
        What the owner is told, before anything is charged, of what is not as declared in the table; by default Python
        warns with a :class:`synth.NotAsDeclaredWarning`. It is recorded as a look at the rows: a later run with another
        configuration was chosen after it.
    warn : callable, optional
        Called, before anything is charged, if the same table was taken in under another account; by default Python
        warns with a :class:`synth.SameTableWarning`.

    Raises
    ------
    InputError
        If an argument cannot be used; nothing is charged.
    NotAsDeclaredError
        If most lines, or most cells of a column, are not as declared; nothing is charged.
    BudgetExceededError
        If the account's cap would be exceeded.
    PrivacyError
        If ``first`` is set and the table was taken in before.
    """
    if not isinstance(config, RunConfig):
        raise InputError("The configuration must come from synth.load_config. Load it from its file first.")
    if table is not None:
        config = replace(config, table=str(path_of(table, "the table")), source=None)
    if tables is not None:
        config, rows = with_tables(config, tables)
    require_rows(config, rows)
    config = as_read_from_source(config)
    for given, what in (
        (config.table, "the table"),
        (config.test_table, "the test table"),
        *((one, "a table") for one in config.table_files or ()),
    ):
        if given is not None:
            path_of(given, what)
    # Before the table is taken in, so that a run that cannot start leaves nothing behind.
    (check_config if find is None else check_what_is_described)(config)
    require_device(config.device)
    folder = None if out is None else empty_folder(out, force=force)
    tell = say or (lambda line: None)
    if find is not None:
        config = find(config)
        check_config(config)
    with (
        _opened_for(as_stored(config, rows)) as application,
        received(
            application, config, rows, password=password, first=first, keep=keep_table, say=tell, warn=warn
        ) as stored,
    ):
        if application.account(config.account).epsilon_cap is None:
            tell(
                f"The account '{config.account}' has no cap. To set one, use synth account NAME --epsilon-cap E "
                "--delta-cap D."
            )
        people = config.schema.number_of_units or config.people_at_most or 0
        if config.delta * people >= 1:
            tell(
                f"Delta {config.delta:g} is not below 1 / {people:,}: with so large a delta a release may contain "
                f"somebody's row as it is. Use {default_delta(people):g} or less."
            )
        losses: list[str] = []
        run = application.reserve(
            as_stored(config, rows), table_id=stored[0], test_table_id=stored[1], reading=kept_reading(reading, losses)
        )
        with closing(application, run.id):
            application.store.work.claim(run.id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))
            course = Course(columns=len(config.schema.modelled), rows=config.rows, owner_report=owner_report)
            told = StoredAndSpokenProgress(application.store.work, run.id, tell, course)
            if not _ran(application, run.id, told, owner_report=owner_report, say=tell):
                tell("Memory or the graphics card failed. The run continues on the CPU, from the answers that it kept.")
                application.store.work.count_attempt(run.id)
                carry_out(application.installation, run.id, told, owner_report=owner_report)
        return replace(_deliver(application, run.id, folder, owner_report=owner_report), losses=tuple(losses))


@contextmanager
def _opened_for(config: RunConfig) -> Iterator[Application]:
    """Open the installation for a run, and ask for the approval that it needs before its table is taken in."""
    with Application.for_local_user() as application:
        application.require_approval(config)
        yield application


def check_again_locally(
    run_id: str,
    out: str | Path | None,
    *,
    memory: float | None = None,
    seconds: float | None = None,
    force: bool = False,
    say: Say | None = None,
) -> RunResult:
    """Check the bundle of a run again whose own check could not be completed; release it if it holds.

    Nothing is charged.

    Parameters
    ----------
    run_id : str
        The id of the run, as its message and the ledger name it.
    out : path, optional
        A new or empty folder; without it, the files stay in the run's folder in the home of the installation.
    memory, seconds : float, optional
        What the check may use: gibibytes and seconds of processor time; by default 1 and 60.
    force : bool
        Write into a folder that is not empty.
    say : callable, optional
        Called with one line for every phase.

    Raises
    ------
    InputError
        If an argument cannot be used.
    UncheckedError
        If it could not be checked with these limits either; nothing has changed.
    JobError
        If it does not hold, and so is never released; or if this is not an unchecked run.
    """
    limits = Limits(**{name: given for name, given in (("memory", memory), ("seconds", seconds)) if given is not None})
    folder = None if out is None else empty_folder(out, force=force)
    with Application.for_local_user() as application:
        application.store.be_patient()
        run = application.store.runs.find(str(run_id))
        if run is None:
            raise InputError(f"There is no run '{shown(str(run_id))}' here. synth ledger names every run.")
        check_again(application.installation, run.id, SpokenProgress(say or (lambda line: None)), limits=limits)
        return _deliver(application, run.id, folder, owner_report=True)


def owner_report_again(folder: str | Path, *, say: Say, **options: str | bool | int | None) -> Path:
    """Build the owner-only report of a finished run whose table was kept.

    Parameters
    ----------
    folder : path
        The folder that ``synth run`` wrote.
    say : callable
        Called with one line for every phase.
    **options
        Options of the reports; :func:`synth.reports.registry.options_of_reports` lists them.

    Raises
    ------
    InputError
        If an option cannot be used.
    JobError
        If the folder contains no run, or its table was deleted.
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
    run_id = run_folder.run_in(target)
    with Application.for_local_user() as application:
        run = application.store.runs[run_id]
        if run.table_id is None or application.store.tables[run.table_id].state is not TableState.STORED:
            raise JobError("The private table of this run was deleted. Use --keep-table with the next run.")
        config = application.config_of(run.id)
        if config.is_model and not asked:
            raise InputError(
                "This run released a model. Its only owner's report says what privacy costs each group: add --reruns."
            )
        source = application.folder(run.id)
        application.ledger.note_owner_view(run.account_id, run_id=run.id, who=application.access.name, what="report")
        progress = SpokenProgress(say)
        if build_owner_report(application.installation, run, config, progress, options=options) is None:
            raise JobError("There are no private rows to compare with.")
        for renewal, amount in asked.items():
            renew(application.installation, run.id, progress, renewal=renewal, amount=amount)
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
        The path of a public table with the columns of the configuration, or how to simulate rows from what is
        declared.
    grid : Grid, optional
        Rehearse this grid instead of the configuration itself.
    out : path, optional
        A new file for the report, as JSON.
    say : callable
        Called with one line for every phase, and for every cell of a grid once it is done.

    Returns
    -------
    Rehearsal or GridRehearsal
        After Ctrl-C, the grid as far as it came.

    Raises
    ------
    InputError
        If the file exists, or the stand-in cannot be used.
    """
    if out is not None:
        out = new_file(out)
    if isinstance(stand_in, Simulation):
        rows = simulated_table(stand_in, config.schema)
    else:
        with open_table(stand_in, config.format) as (_, stream):
            rows = stream.read()
    how = {"simulated": isinstance(stand_in, Simulation)}
    with Application.for_local_user() as application:
        rehearsals, spoken = application.rehearsals, SpokenProgress(say)
        found: Rehearsal | GridRehearsal
        if grid is None:
            found = rehearsals.rehearse(config, lambda: io.BytesIO(rows), spoken, **how)
        else:
            found = _rehearse_grid(rehearsals, config, grid, lambda: io.BytesIO(rows), say=say, **how)
        if out is not None:
            report = rehearsals.report(config, grid=grid is not None)
            out.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return found


def _rehearse_grid(
    rehearsals: Rehearsals, config: RunConfig, grid: Grid, open_rows: OpenStandIn, *, say: Say, simulated: bool
) -> GridRehearsal:
    """Rehearse a grid and say each cell as it comes; Ctrl-C ends it with the cells that are done."""
    latest: list[GridRehearsal] = []

    def watch(found: GridRehearsal) -> None:
        latest[:] = [found]
        say(f"{found.done} of {found.of}: {found.latest}")

    for sentence in grid.left_out:
        say(sentence)
    try:
        return rehearsals.rehearse_grid(config, grid, open_rows, SpokenProgress(say), simulated=simulated, watch=watch)
    except KeyboardInterrupt:
        if not latest:
            raise
        return latest[0]


def _ran(application: Application, run_id: str, progress: Progress, *, owner_report: bool, say: Say) -> bool:
    """Run; return False if memory or the device failed after the budget was spent.

    It is a function of its own so that the failed attempt leaves memory before the run continues.
    """
    try:
        carry_out(application.installation, run_id, progress, owner_report=owner_report, say=say)
    except Exception as error:
        charges = application.ledger.charges_of(run_id)
        if not is_lack_of_means(error) or not any(charge.state is ChargeState.SPENT for charge in charges):
            raise
        return False
    return True


def _deliver(application: Application, run_id: str, out: Path | None, *, owner_report: bool) -> RunResult:
    source = application.folder(run_id)
    folder = out or source
    identity = application.release(run_id, attestations=("run from the command line or Python",), attested_by="owner")
    reported = not owner_report or (source / "owner" / "report.json").exists()
    if owner_report and reported:
        # The file can be read at any moment, so the report counts as read.
        run = application.store.runs[run_id]
        application.ledger.note_owner_view(run.account_id, run_id=run_id, who=application.access.name, what="report")
    try:
        with naming_full_disk(folder):
            if out is not None:
                _copy_out(source, out)
    except DiskFullError as error:
        raise DiskFullError(
            f"{error} Do not run again, which would be charged again: the release is complete, and its files are in "
            f"{source}."
        ) from None
    except OSError:
        raise InputError(
            f"Nothing can be written to '{folder.name}'. Do not run again, which would be charged again: the "
            f"release is complete, and its files are in {source}."
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
    linked = application.config_of(run_id).schema.tables
    names = () if linked is None else (linked.first, linked.second)
    if names:
        made = f"{made}, its two tables to {' and '.join(f'{name}.csv' for name in names)} beside it,"
    lines = (
        f"Wrote {made} and the bundle to {folder / 'bundle.zip'}.",
        f"epsilon {certificate['epsilon']:.6g}{row_worth_words(worth)}, delta {certificate['delta']:g}; "
        f"certificate {identity}.",
        *_kept(folder),
        *(() if reported else ("There is no owner's report: it was stopped, or failed. The release is complete.",)),
        f"Account '{view.name}': epsilon {view.epsilon_spent:.4g}{cell_words(worth)}{view.at_delta} spent in total.",
    )
    return RunResult(folder, run_id, certificate["epsilon"], certificate["delta"], identity, lines, table_names=names)


def _kept(folder: Path) -> Iterator[str]:
    """Yield a line about the relations between columns that were not kept."""
    said = json.loads((folder / "report.json").read_bytes())["evidence"]
    told = {entry["id"]: entry["value"] for entry in said if entry["id"].startswith("relations.")}
    unknown = [
        f"{told[f'relations.{name}unknown']:,} of {told[f'relations.{name}of']:,} {words}"
        for name, words in (("", "pairs of columns"), ("next_", "pairs of a column and one of the next row"))
        if told.get(f"relations.{name}unknown")
    ]
    if unknown:
        yield (
            f"Treat {' and '.join(unknown)} as unknown: they were not measured, or noise hides them (report.html, "
            "'What was not kept')."
        )


def _copy_out(source: Path, folder: Path) -> None:
    certified = run_folder.read_json(source / "certificate.json")["files"]
    copy_outputs(source, folder, run_folder.publishable(certified))
    (folder / "owner").mkdir(mode=0o700, exist_ok=True)
    (folder / "owner").chmod(0o700)
    names = [name for name in ("report.json", "timings.json", "run.json") if (source / "owner" / name).exists()]
    copy_outputs(source / "owner", folder / "owner", names)
    for name in names:
        (folder / "owner" / name).chmod(0o600)
