"""The owner-only report: exact numbers about synthetic and private rows, written where only the owner reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from synth.bundle.table_files import read_table
from synth.errors import JobError, RunCancelledError, TableError
from synth.progress import Progress
from synth.reports.anchors import Anchored, anchored
from synth.reports.control import owner_control
from synth.reports.counting import CodeTable
from synth.reports.document import owner_document
from synth.reports.evidence import OwnerOnlyEvidence, evidence_from_dict
from synth.reports.forecast import one_way_noise
from synth.reports.group_marginals import owner_group_marginals
from synth.reports.owner_fidelity import owner_fidelity
from synth.reports.owner_marginals import owner_marginals
from synth.reports.owner_reading import owner_reading
from synth.reports.owner_subsample import owner_subsample
from synth.reports.owner_view import OwnerPart, OwnerView
from synth.reports.prediction_problem import Choice, DownstreamOptions, Problem
from synth.reports.shadow_evidence import SHADOW_PREFIX
from synth.schema import RunConfig
from synth.services.attacks import attack_run, attack_with_shadows
from synth.services.incidents import record_incident
from synth.services.run_folder import read_json, write_owner_json
from synth.store import Run
from synth.system.machine import cores
from synth.system.packages import missing_package
from synth.vault.vault import Vault

__all__ = [
    "build_owner_report",
    "downstream_options",
    "exact_numbers",
    "free_threads",
    "open_stand_in",
    "renew_predictions",
    "renew_shadows",
]

_LARGEST_CONTROL = 100_000
_TESTS: tuple[tuple[OwnerPart, str], ...] = (
    ("test", "the test table"),
    ("holdout", "the hold-out: real rows the generator never saw"),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What both reports read: the private rows, and the synthetic ones as codes, column by column."""

    view: OwnerView
    synthetic: CodeTable
    test_problem: str | None


def build_owner_report(
    config: RunConfig,
    run: Run,
    folder: Path,
    *,
    vault: Vault,
    progress: Progress,
    downstream: DownstreamOptions | None = None,
) -> Path | None:
    """Compare a run's synthetic rows with its private rows and write ``owner/report.json`` (mode 0600).

    Parameters
    ----------
    config, run, folder
        The run and the folder of its files.
    vault : Vault
        Where the tables are.
    progress : Progress
    downstream : DownstreamOptions, optional
        How much is predicted; by default what does not hold a run up.

    Returns
    -------
    Path, or None where the private table has no rows to compare with
    """
    rows = _rows(config, run, folder, vault)
    if rows is None:
        return None
    evidence = [
        *_against_rows(config, rows, progress),
        *_predictions(config, rows, downstream or downstream_options("quick"), progress),
        *attack_run(config, rows.view, rows.synthetic, folder, progress),
    ]
    if (folder / "owner" / "report.json").exists():
        # What shadow models came to took long and is as true as before.
        evidence += [entry for entry in _reported(folder) if entry.id.startswith(SHADOW_PREFIX)]
    path = folder / "owner" / "report.json"
    write_owner_json(path, owner_document(evidence))
    return path


def renew_predictions(
    config: RunConfig, run: Run, folder: Path, *, vault: Vault, progress: Progress, downstream: DownstreamOptions
) -> None:
    """Predict again and put the new numbers into an owner's report in place of the old ones.

    Raises
    ------
    JobError
        If the run has no report, or its rows were deleted.
    """
    rows = _rows_still(config, run, folder, vault, "predicted")
    _put(folder, "downstream.", _predictions(config, rows, downstream, progress))


def renew_shadows(config: RunConfig, run: Run, folder: Path, *, vault: Vault, progress: Progress, runs: int) -> None:
    """Attack with shadow models and put what that came to into an owner's report in place of what was there.

    Raises
    ------
    JobError
        If the run has no report, or its rows were deleted.
    """
    rows = _rows_still(config, run, folder, vault, "attacked")
    _put(folder, SHADOW_PREFIX, attack_with_shadows(config, rows.view, progress, runs=runs))


def _rows_still(config: RunConfig, run: Run, folder: Path, vault: Vault, done: str) -> _Rows:
    try:
        rows = _rows(config, run, folder, vault)
    except TableError:
        rows = None
    if rows is None:
        raise JobError(f"The rows of this run were deleted, so nothing can be {done} again. Upload the table anew.")
    return rows


def _put(folder: Path, prefix: str, evidence: Sequence[OwnerOnlyEvidence]) -> None:
    """Put evidence in place of what begins with the same words, in the report as it is by now."""
    kept = [entry for entry in _reported(folder) if not entry.id.startswith(prefix)]
    write_owner_json(folder / "owner" / "report.json", owner_document([*kept, *evidence]))


def _reported(folder: Path) -> list[OwnerOnlyEvidence]:
    body = read_json(folder / "owner" / "report.json")
    found = [evidence_from_dict(entry) for entry in body["evidence"]]
    return [entry for entry in found if isinstance(entry, OwnerOnlyEvidence)]


def open_stand_in(config: RunConfig, open_rows: Callable[[], BinaryIO], key: bytes) -> OwnerView:
    """Open rows that somebody declared public, as private ones are opened.

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
        raise TableError("The stand-in has no rows. Send the whole table.")
    return view


def exact_numbers(
    config: RunConfig, view: OwnerView, synthetic: CodeTable, progress: Progress
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare synthetic rows with exact ones and predict the label, quickly; attacks are not among it.

    Parameters
    ----------
    config : RunConfig
    view : OwnerView
        At least one row to train on.
    synthetic : CodeTable
        Codes, column by column.
    progress : Progress
    """
    rows = _Rows(view, synthetic, None)
    return (
        *_against_rows(config, rows, progress),
        *_predictions(config, rows, downstream_options("quick"), progress),
    )


def downstream_options(choice: Choice, *, hard_labels: bool = False, threads: int = 0) -> DownstreamOptions:
    """Return how much is predicted: quickly, in every run, or with all predictors, when the owner asks for it.

    Parameters
    ----------
    choice : {"quick", "all"}
        Three predictors trained twice on up to 10,000 rows, or all trained three times on up to 20,000.
    hard_labels : bool
        Areas under curves from predicted classes.
    threads : int
        Trainings at once; 0 looks at the machine.
    """
    if choice == "all":
        return DownstreamOptions.thorough(hard_labels=hard_labels, threads=free_threads(threads))
    return DownstreamOptions(hard_labels=hard_labels, threads=free_threads(threads))


def free_threads(wanted: int = 0) -> int:
    """Return how many trainings to run at once: the processors that others leave free, at least one.

    Parameters
    ----------
    wanted : int
        A number that somebody set; 0 looks at the machine.
    """
    if wanted > 0:
        return wanted
    try:
        # This process itself is about one of those that keep the machine busy.
        others = max(0, round(os.getloadavg()[0]) - 1)
    except OSError:
        others = 0
    return max(1, cores() - others)


def _rows(config: RunConfig, run: Run, folder: Path, vault: Vault) -> _Rows | None:
    if run.table_id is None:
        return None
    _require_same_split(config, folder)
    view, test_problem = _opened(config, run, vault)
    if view.rows("train") == 0:
        return None
    # Column by column, as small as they are: millions of rows as one matrix of int64 would need gigabytes.
    synthetic = np.asarray(read_table(folder / "synthetic.csv", config.schema))
    return _Rows(view, list(synthetic.T), test_problem)


def _require_same_split(config: RunConfig, folder: Path) -> None:
    """Refuse a run that was split by other rules: rows it learned from would be called held out.

    Raises
    ------
    JobError
        If somebody was held out by a version before 0.2.0.
    """
    made_by = read_json(folder / "certificate.json")["versions"].get("hermitage")
    if config.holdout > 0 and made_by == "0.1.0":
        raise JobError(
            "This run was made by version 0.1.0, which held other rows out. Its owner's report cannot be made again; "
            "make a new run."
        )


def _opened(config: RunConfig, run: Run, vault: Vault) -> tuple[OwnerView, str | None]:
    """Open the rows, and the test table where it can still be read; a bad one must not cost a run its report."""

    def opened(test_table_id: str | None) -> OwnerView:
        return OwnerView.open(
            vault,
            str(run.table_id),
            config.schema,
            config.format,
            account_key=vault.split_key(run.account_id),
            holdout=config.holdout,
            test_table_id=test_table_id,
            test_form=config.test_format,
            undeclared=config.undeclared,
        )

    if run.test_table_id is None:
        return opened(None), None
    try:
        return opened(run.test_table_id), None
    except TableError as error:
        return opened(None), f"The test table could not be used: {error}"


def _against_rows(config: RunConfig, rows: _Rows, progress: Progress) -> tuple[OwnerOnlyEvidence, ...]:
    """Everything that compares the two tables with each other, beside the same control and floor."""
    train, noise = _part(rows.view, "train"), one_way_noise(config)
    tables = anchored(train, rows.synthetic, config.schema, control_noise=noise, seed=config.seed)
    progress.phase("Comparing sets of columns")
    marginals = owner_marginals(tables, on_step=progress.step)
    progress.phase("Comparing distributions")
    fidelity = owner_fidelity(tables, on_step=progress.step)
    progress.phase("Comparing with sub-samples")
    subsample = owner_subsample(tables, on_step=progress.step)
    groups: tuple[OwnerOnlyEvidence, ...] = ()
    if config.groups:
        progress.phase("Comparing groups")
        groups = owner_group_marginals(tables, config.groups, on_step=progress.step)
    progress.phase("Scoring")
    read = owner_reading(rows.view.reading, config.schema)
    return (*read, *marginals, *subsample, *fidelity, *groups, *_scores(tables))


def _scores(tables: Anchored) -> tuple[OwnerOnlyEvidence, ...]:
    # Imported late, as for the predictions.
    from synth.reports.quality_scores import no_scores, owner_scores

    try:
        return owner_scores(tables)
    except Exception as error:
        # A library of others: what it cannot score must not cost the owner a report.
        lack = missing_package(error)
        if lack is not None:
            return (no_scores(str(lack)),)
        incident = record_incident(error)
        return (no_scores(f"SDMetrics could not score this table (incident {incident})."),)


def _predictions(
    config: RunConfig, rows: _Rows, options: DownstreamOptions, progress: Progress
) -> tuple[OwnerOnlyEvidence, ...]:
    # Imported late: a run without an owner's report need not load a library of predictors.
    from synth.reports.downstream_evidence import nothing_predicted, owner_downstream

    if config.label is None:
        return (nothing_predicted("No label is declared. Name the column to predict under 'label:'."),)
    parts = [(part, words) for part, words in _TESTS if part in rows.view.parts and rows.view.rows(part)]
    if not parts:
        reason = rows.test_problem or "There are no real rows to test on: no hold-out and no test table."
        return (nothing_predicted(reason),)
    part, words = parts[0]
    if rows.test_problem is not None:
        words = f"{words} ({rows.test_problem})"
    train = _part(rows.view, "train")
    n_control = min(len(rows.synthetic[0]), _LARGEST_CONTROL)
    control = owner_control(train, config.schema, one_way_noise(config), n_rows=n_control, seed=config.seed)
    problem = Problem(
        schema=config.schema,
        label=config.label,
        tables={"synthetic": rows.synthetic, "real": train, "control": control},
        test=_part(rows.view, part),
        test_units=rows.view.units(part),
        groups=config.groups,
        seed=config.seed,
    )
    try:
        return owner_downstream(problem, options, progress, tested_on=words)
    except RunCancelledError:
        raise
    except Exception as error:
        # The bundle is sealed and paid for: a library that fails on odd rows must not turn the run into a failed one.
        incident = record_incident(error)
        return (nothing_predicted(f"The predictions failed inside the program (incident {incident})."),)


def _part(view: OwnerView, part: OwnerPart) -> CodeTable:
    return [view.column(name, part) for name in view.schema.names]
