"""The owner-only report: exact numbers about synthetic and private rows, in a file for the owner only.

This is the only service that opens exact rows for reports (a test lists it). Each report has its own folder; a fault in
one becomes an incident and never stops a run that is sealed and paid for.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from synth.bundle.certificate import certificate_from_dict
from synth.bundle.model_file import ModelCard, model_from_bytes, restored_model
from synth.bundle.table_files import read_table, read_units
from synth.errors import JobError, RunCancelledError, TableError
from synth.estimators import DrawnRows, rows_as_asked
from synth.generators.protocol import ReleasedModel
from synth.privacy.receipt import Receipt
from synth.privacy.table import PrivateTable
from synth.progress import OWNER_PHASE, NullProgress, Progress
from synth.reports.code_tables import CodeTable, UnitRows
from synth.reports.document import owner_document
from synth.reports.evidence import OwnerOnlyEvidence, evidence_from_dict
from synth.reports.forecast import one_way_noise
from synth.reports.owner_view import OwnerPart, OwnerView
from synth.reports.registry import renewal_called, renewals, reports
from synth.reports.report import OwnerRows, Remade, Renewal, Report, StandInPart, TestRows
from synth.schema import RunConfig
from synth.services import run_folder
from synth.services.incidents import record_incident
from synth.services.installation import Installation
from synth.services.pipeline import fit_and_sample, fit_and_sample_together, fits_together
from synth.services.run_folder import read_json, write_owner_json
from synth.store import Run, WorkState
from synth.system.machine import cores
from synth.system.packages import missing_package
from synth.system.settings import Settings
from synth.vault.vault import Vault

__all__ = [
    "build_owner_report",
    "carry_out",
    "exact_numbers",
    "free_threads",
    "open_stand_in",
    "owner_rows",
    "renew",
    "renewal_minutes",
    "renewal_subject",
    "rows_of_part",
    "stand_in_parts",
]

LITTLE_NOISE = 300.0
"""Epsilon of a fit that represents one without noise: at delta 1e-5, its noise is a 77th of that at epsilon 1."""

_TESTS: tuple[tuple[OwnerPart, str], ...] = (
    ("test", "the test table"),
    ("holdout", "the hold-out: real rows the generator never saw"),
)


def build_owner_report(
    installation: Installation,
    run: Run,
    config: RunConfig,
    progress: Progress,
    *,
    options: Mapping[str, Any] | None = None,
) -> Path | None:
    """Compare the synthetic rows of a run with its private rows, and write ``owner/report.json`` (mode 0600).

    Parameters
    ----------
    installation : Installation
    run : Run
    config : RunConfig
        The configuration of the run; it may name another device.
    progress : Progress
    options : mapping, optional
        Options of the reports, by name; by default, only what does not delay a run.

    Returns
    -------
    Path, or None if the private table has no rows to compare with
    """
    folder = installation.folder(run.id)
    evidence: list[OwnerOnlyEvidence] = []
    if not config.is_model:  # its parts are made only at the owner's request
        rows = _rows(installation, run, config)
        if rows is None:
            return None
        evidence += _owner_parts(rows, options or {}, progress)
    path = folder / "owner" / "report.json"
    if path.exists():
        # Parts made at the owner's request took long and are still valid, unless they were made again just now.
        made = {entry.id for entry in evidence}
        kept = tuple(one.prefix for one in renewals() if not any(name.startswith(one.prefix) for name in made))
        evidence += [entry for entry in _reported(folder) if entry.id.startswith(kept)]
    write_owner_json(path, owner_document(evidence))
    return path


def renew(installation: Installation, run_id: str, progress: Progress, *, renewal: Renewal, amount: str) -> None:
    """Make a part of the owner's report at the owner's request, and replace the old part.

    Parameters
    ----------
    installation : Installation
    run_id : str
    progress : Progress
    renewal : Renewal
        Which part.
    amount : str
        How much of it.

    Raises
    ------
    JobError
        If the run has no report, its rows were deleted, or it made no rows and the part needs some.
    """
    run, config, folder = installation.store.runs[run_id], installation.config_of(run_id), installation.folder(run_id)
    if config.is_model and not renewal.of_models:
        raise JobError(f"This run released a model and made no rows, so none can be {renewal.done} from.")
    if run.device == "cpu":
        config = replace(config, device="cpu")  # repetitions compute where the run did
    try:
        rows = _rows(installation, run, config)
    except TableError:
        rows = None
    if rows is None:
        raise JobError(
            f"The rows of this run were deleted, so nothing can be {renewal.done} again. Upload the table anew."
        )
    evidence = _guarded(renewal, partial(renewal.make, rows, amount, progress))
    # Read now, because making the part took time.
    kept = [entry for entry in _reported(folder) if not entry.id.startswith(renewal.prefix)]
    write_owner_json(folder / "owner" / "report.json", owner_document([*kept, *evidence]))


def renewal_subject(run_id: str, renewal: Renewal) -> str:
    """Return the subject of the work on a part of the report of a run."""
    return f"{run_id} {renewal.name}"


def carry_out(installation: Installation, work_id: str, progress: Progress) -> None:
    """Make a part of a report, as it was requested."""
    work = installation.store.work[work_id]
    run_id, name = work.subject.split(" ")
    amount = json.loads(str(work.asked))
    renew(installation, run_id, _Share(progress), renewal=renewal_called(name), amount=amount)
    installation.store.work.advance(work_id, WorkState.REPORTED)


class _Share:
    """Progress that stores only the share that is done, as phases and numbers of steps may depend on exact rows."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        progress.phase(OWNER_PHASE)

    def phase(self, name: str) -> None:
        """Do nothing."""
        self.check_cancelled()

    def step(self, k: int, of: int) -> None:
        """Store the share in hundredths."""
        self._progress.step(100 * k // max(of, 1), 100)

    def loss(self, value: float) -> None:
        """Do nothing."""

    def check_cancelled(self) -> None:
        """Pass the check on."""
        self._progress.check_cancelled()


def renewal_minutes(settings: Settings, run_id: str, renewal: Renewal) -> int | None:
    """Return about how many minutes it takes, from the times of the run, or None if they are unknown."""
    if renewal.minutes is None:
        return None
    try:
        seconds = read_json(run_folder.of(settings, run_id) / "owner" / "timings.json")["seconds"]
        return renewal.minutes({part: float(value) for part, value in seconds.items()})
    except (JobError, KeyError, TypeError, ValueError, AttributeError):
        return None


def exact_numbers(rows: OwnerRows, progress: Progress) -> tuple[OwnerOnlyEvidence, ...]:
    """Compute on public rows what every report says about private rows, in its quick form.

    Reports that work differently on public rows are left out (:func:`stand_in_parts`).
    """
    return tuple(_owner_parts(rows, {}, progress, on_stand_in=True))


def stand_in_parts(rows: OwnerRows, progress: Progress, *, among: int = 1) -> StandInPart:
    """Compute what reports say only about public rows: the attacks, and which did better than the proof allows.

    Parameters
    ----------
    rows : OwnerRows
        Public rows, some of them held out.
    progress : Progress
    among : int
        The number of rehearsals in one grid; they share the chance of a false alarm.
    """
    parts = [report.stand_in(rows, among, progress) for report in reports() if report.stand_in is not None]
    return StandInPart(
        tuple(entry for part in parts for entry in part.evidence),
        tuple(name for part in parts for name in part.exceeded),
    )


def open_stand_in(config: RunConfig, open_rows: Callable[[], BinaryIO], key: bytes) -> OwnerView:
    """Open rows that were declared public, in the way private rows are opened.

    Parameters
    ----------
    config : RunConfig
    open_rows : callable
        Opens the file.
    key : bytes
        Decides which units are held out; 32 bytes.

    Raises
    ------
    TableError
        If they cannot be read as declared, or there are none.
    """
    view = OwnerView.open(
        open_rows,
        "stand-in",
        config.schema,
        config.format,
        account_key=key,
        holdout=config.holdout,
        undeclared=config.undeclared,
    )
    if view.rows("train") == 0:
        raise TableError("The stand-in has no rows. Choose a table with rows.")
    return view


def rows_of_part(view: OwnerView, part: OwnerPart) -> UnitRows:
    """Return the rows of a part as codes, column by column, and their units."""
    return UnitRows([view.column(name, part) for name in view.schema.names], view.units(part))


def free_threads(wanted: int = 0) -> int:
    """Return how many trainings to run at once: the number of idle processors, at least one.

    Parameters
    ----------
    wanted : int
        A configured number; 0 looks at the machine.
    """
    if wanted > 0:
        return wanted
    try:
        # This process itself adds about one to the load.
        others = max(0, round(os.getloadavg()[0]) - 1)
    except OSError:
        others = 0
    return max(1, cores() - others)


def _owner_parts(
    rows: OwnerRows, options: Mapping[str, Any], progress: Progress, *, on_stand_in: bool = False
) -> Iterator[OwnerOnlyEvidence]:
    """Yield what every report computes from exact rows."""
    for report in reports():
        owner = report.owner
        if owner is not None and not (on_stand_in and report.stand_in is not None):
            yield from _guarded(report, partial(owner, rows, options, progress))


def _guarded(part: Report | Renewal, make: Callable[[], Sequence[OwnerOnlyEvidence]]) -> Sequence[OwnerOnlyEvidence]:
    """Make evidence; a fault becomes a sentence if the report has one, because the run is sealed and paid for."""
    try:
        return make()
    except RunCancelledError:
        raise
    except Exception as error:
        if part.failed is None:
            raise
        lack = missing_package(error)
        reason = f"{part.fault} (incident {record_incident(error)})." if lack is None else str(lack)
        return (part.failed(reason),)


def _rows(installation: Installation, run: Run, config: RunConfig) -> OwnerRows | None:
    """Open what reports may read of a run, or return None if it has no rows to compare with."""
    if run.table_id is None:
        return None
    folder = installation.folder(run.id)
    certificate = read_json(folder / "certificate.json")
    view, test_problem = _opened(config, run, installation.vault)
    if view.rows("train") == 0:
        return None
    # Column by column with small types: millions of rows as one matrix of int64 would need gigabytes.
    drawn = None if config.is_model else _made(folder / "synthetic.csv", config)
    synthetic = [] if drawn is None else list(rows_as_asked(drawn, config).T)
    receipts = certificate_from_dict(certificate).all_receipts
    threads = installation.settings.threads
    rows = owner_rows(config, view, synthetic, receipts, test_problem=test_problem, threads=threads)
    rows = _with_people(rows, view, drawn)
    if config.is_model:
        return replace(rows, released=_released(folder), refit=partial(_refitted, config))
    return replace(rows, remake=partial(_remade, config), remakes_together=fits_together(config))


def _made(path: Path, config: RunConfig) -> DrawnRows:
    """Return the synthetic rows of a run."""
    return DrawnRows(read_table(path, config.schema), units=read_units(path, config.schema))


def _with_people(rows: OwnerRows, view: OwnerView, drawn: DrawnRows | None) -> OwnerRows:
    """Add all rows of people who are kept whole, for the one report that is about them."""
    if view.of_people is None or drawn is None or drawn.units is None:
        return rows
    columns, units = view.of_people
    private = UnitRows(list(columns.values()), units)
    return replace(rows, of_people=private, synthetic_of_people=UnitRows(list(drawn.codes.T), drawn.units))


def _released(folder: Path) -> ReleasedModel:
    """Return the model that a run released."""
    with zipfile.ZipFile(folder / "bundle.zip") as archive:
        return restored_model(*model_from_bytes(archive.read("model.safetensors")))


def owner_rows(
    config: RunConfig,
    view: OwnerView,
    synthetic: CodeTable,
    receipts: tuple[Receipt, ...],
    *,
    test_problem: str | None = None,
    threads: int = 0,
) -> OwnerRows:
    """Return what reports may read of a run: private rows, or a stand-in that was declared public.

    Parameters
    ----------
    config : RunConfig
    view : OwnerView
        The rows, at least one to train on.
    synthetic : CodeTable
        The synthetic rows as codes, column by column.
    receipts : tuple of Receipt
        The receipts of the run that made them.
    test_problem : str, optional
        Why the test table could not be read.
    threads : int
        Trainings at once; 0 looks at the machine.
    """
    tests = [
        TestRows(rows_of_part(view, part), words) for part, words in _TESTS if part in view.parts and view.rows(part)
    ]
    asked = config.asked
    return OwnerRows(
        config=asked,
        train=rows_of_part(view, "train"),
        holdout=rows_of_part(view, "holdout") if "holdout" in view.parts else None,
        test=tests[0] if tests else None,
        test_problem=test_problem,
        synthetic=synthetic,
        receipts=receipts,
        control_noise=one_way_noise(asked),
        reading=view.reading,
        threads=free_threads(threads),
    )


def _opened(config: RunConfig, run: Run, vault: Vault) -> tuple[OwnerView, str | None]:
    """Open the rows, and the test table if it can be read; a bad test table must not cost a run its report."""

    def opened(test_table_id: str | None) -> OwnerView:
        return OwnerView.open(
            vault.of_account(run.account_id),
            str(run.table_id),
            config.schema,
            config.format,
            account_key=vault.split_key(run.account_id),
            holdout=config.holdout,
            test_table_id=test_table_id,
            test_form=config.test_format,
            undeclared=config.undeclared,
            rules=config.constraints,
        )

    if run.test_table_id is None:
        return opened(None), None
    try:
        return opened(run.test_table_id), None
    except TableError as error:
        return opened(None), f"The test table could not be used: {error}"


def _table_of(config: RunConfig, rows: UnitRows) -> PrivateTable:
    """Return rows of a view as the table that a run gets."""
    schema = config.asked.schema
    codes = dict(zip(schema.names, rows.codes, strict=True))
    # The view has capped the rows of every unit already, so this keeps all of them.
    units = None if schema.unit.id_column is None else rows.units.tolist()
    # The attack draws which rows are in, so the declared number does not apply.
    return PrivateTable.from_codes(replace(schema, number_of_units=None), codes, unit_ids=units)


def _remade(config: RunConfig, several: Sequence[UnitRows]) -> list[Remade]:
    """Run a configuration again on other private rows, for an attack that then discards the results."""
    tables = [_table_of(config, rows) for rows in several]
    measured = fit_and_sample_together([config] * len(tables), tables, NullProgress())
    return [Remade(list(one.as_asked(config).T), one.receipts) for one in measured]


def _refitted(config: RunConfig, rows: UnitRows, *, like: ReleasedModel | None = None) -> ReleasedModel:
    """Fit the model of a configuration again, for numbers that only the owner sees.

    The program has no noise that could be switched off; "without noise" means the largest epsilon that it accounts for.
    """
    if like is not None:
        options = {**config.options, **like.settled()}
        config = replace(config, epsilon=max(config.epsilon, LITTLE_NOISE), options=options)
    measured = fit_and_sample(config, _table_of(config, rows), NullProgress(), predict=False)
    return restored_model(ModelCard.of(config), measured.state)


def _reported(folder: Path) -> list[OwnerOnlyEvidence]:
    body = read_json(folder / "owner" / "report.json")
    found = [evidence_from_dict(entry) for entry in body["evidence"]]
    return [entry for entry in found if isinstance(entry, OwnerOnlyEvidence)]
