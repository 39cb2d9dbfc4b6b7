"""Try out a run before it is charged, on the two smallest possible tables, simulated from what is declared.

The tables have one row and no row. They are written in the declared format, read, encoded, queried, fitted, sampled,
repaired by the rules, written, reported, sealed and checked by the code of the run itself. Whatever fails because of
the declarations fails here, with one sentence and before anything is spent. And because a run without any row ends in
a bundle, no row decides whether there will be one.

The noise comes from a separate session on simulated rows, which the session of the run never sees. The bundle is signed
with a throwaway key and contains another public key, so the bundle of a trial never passes a check. It is in a folder
that is deleted at the end or, if the trial was killed, at the next start.

Not tried out: making more than a few rows, and more than a step or two of training. So this shows neither their memory
and time, nor whether a long training with a large learning rate stays finite.
"""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from synth.bundle.certificate import signature_problem
from synth.bundle.checks import check
from synth.errors import JobError, RunCancelledError, SynthError, VerificationError
from synth.estimators import describe
from synth.generators.options import option_fields
from synth.privacy.table import PrivateTable
from synth.progress import Progress
from synth.reading.more.ods import write_ods
from synth.reading.more.xlsx import write_xlsx
from synth.schema import STATISTICAL_KINDS, Column, RunConfig, Schema, TableFormat
from synth.schema.written import FileKind
from synth.services.incidents import record_incident
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.system.disk import locked
from synth.system.packages import missing_package
from synth.system.settings import Settings
from synth.vault.keys import ThrowawayKey

__all__ = ["PHASE", "simulated_file", "sweep_trials", "try_out"]

PHASE = "Trying out"
"""The phase of the run."""

TRIALS = "trials"
"""The folder for trials in the home."""

NOT_PRIVATE = "NOT PRIVATE: made from simulated rows, to try out a configuration before it is charged."

_ROWS = 20
"""The most rows that are made."""

_WRITABLE: Mapping[str, FileKind] = {
    **dict.fromkeys(("xls", "xlsb"), "xlsx"),
    **dict.fromkeys(("arrow", *STATISTICAL_KINDS), "parquet"),
}
"""Kinds of files that are only read here, and what is written in their place."""

_SKIPPED = 100
"""The most lines that are skipped at the top."""


def try_out(config: RunConfig, settings: Settings, progress: Progress, *, sealing: Sealing | None = None) -> None:
    """Run a configuration twice, from simulated bytes to a checked bundle, and leave nothing behind.

    Parameters
    ----------
    config : RunConfig
        What is to be run; its tables are not read.
    settings : Settings
        Where the folder of the trial is, while it lasts.
    progress : Progress
        Checked for whether the run was stopped.
    sealing : Sealing, optional
        Notes and file names of the run, so that names that must not leak are also searched for here. Its key and ledger
        are not used.

    Raises
    ------
    SynthError
        What would stop the run after its charge.
    """
    few = _short(replace(config.published(), rows=min(config.rows, _ROWS)))
    home = settings.home / TRIALS
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(home, alone=False):
        _try_out_in(Path(tempfile.mkdtemp(dir=home)), few, progress, sealing=sealing)


def sweep_trials(settings: Settings) -> None:
    """Delete what killed trials left, unless a trial is running."""
    home = settings.home / TRIALS
    if not home.is_dir():
        return
    with locked(home, alone=True) as is_alone:
        if is_alone:
            for folder in home.iterdir():
                shutil.rmtree(folder, ignore_errors=True)


def _try_out_in(folder: Path, few: RunConfig, progress: Progress, *, sealing: Sealing | None) -> None:
    """Try out a shortened configuration in a folder of its own, and remove the folder."""
    try:
        # The simulated rows have the declared names, so nothing is renamed.
        kind = _WRITABLE.get(few.format.kind, few.format.kind)
        form = replace(few.format, skip_rows=min(few.format.skip_rows, _SKIPPED), rename=(), kind=kind)
        simulated = simulated_file(few.schema, form)
        tables = PrivateTable.open_smallest(
            lambda: io.BytesIO(simulated), few.schema, form, holdout=few.holdout, undeclared=few.undeclared
        )
        for train, holdout in tables:
            _run_once(few, train, holdout, folder, sealing or Sealing(signer=ThrowawayKey()), progress)
    except RunCancelledError:
        raise
    except SynthError as error:
        raise type(error)(f"Tried out on simulated rows: {error}") from None
    except Exception as error:
        lack = missing_package(error)
        if lack is not None:
            raise lack from None
        incident = record_incident(error)
        raise JobError(
            f"Tried out on simulated rows, this configuration stops the program (incident {incident}). Try another "
            "generator, or leave columns out until it passes."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _short(config: RunConfig) -> RunConfig:
    """Return the configuration with less training, which changes no question."""
    card = describe(config.generator)
    given = {field.name: field.default for field in option_fields(card.options)} | dict(config.options)
    # Nought leaves the number to the generator, which would train as long as the run does.
    short = {name: min(most, int(str(given[name])) or most) for name, most in card.short_training.items()}
    return replace(config, options={**config.options, **short})


def _run_once(
    config: RunConfig, train: PrivateTable, holdout: PrivateTable, folder: Path, sealing: Sealing, progress: Progress
) -> None:
    """Ask, fit, sample, write, seal and check one table."""
    quiet, signer = _QuietProgress(progress), ThrowawayKey()
    fitted = fit_and_sample(config, train, quiet, holdout=holdout if config.prediction_share else None)
    tried = replace(
        sealing, signer=signer, notes=(NOT_PRIVATE, *sealing.notes), ledger={"charges": 1, "head": "0" * 64}
    )
    sealed = seal_release(config, fitted, folder, sealing=tried, progress=quiet)
    certificate = sealed.certificate_json
    unfit = signature_problem(certificate, signer.sign(certificate), signer.public_key_pem, None)
    found = check(sealed.path)
    own = (unfit or "", NOT_PRIVATE)
    problems = [one for one in (*found.failures, *found.not_checked) if not (unfit and one.endswith(own))]
    if unfit is None:
        raise VerificationError("The bundle of a trial passes for a real one.")
    if problems:
        raise VerificationError(
            f"The bundle would not pass its own check: {problems[0]} Declare fewer levels or categories, or choose "
            "another generator."
        )


def simulated_file(schema: Schema, form: TableFormat) -> bytes:
    """Write two rows in a format: one of missing cells, and one as declared.

    If the format leaves that open, they are text, or Parquet if the names of columns cannot be written as text.
    """
    missing = form.missing[0] if form.missing else ""
    columns = {column.name: (missing, _cell(column)) for column in schema.columns}
    names = list(columns) if form.header or form.kind == "parquet" else list(form.names or ())
    write_workbook = {"xlsx": write_xlsx, "ods": write_ods}.get(form.kind)
    cells = [columns.get(name, (missing, missing)) for name in names]
    if write_workbook is not None:
        return write_workbook(_rows(names, cells, form), form.sheet or "Table")
    text = _text(names, cells, form)
    if form.kind == "parquet" or (text is None and form.kind == "auto" and form.header):
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({name: pa.array(list(of)) for name, of in columns.items()}), buffer)
        return buffer.getvalue()
    return text or b""


def _cell(column: Column) -> str:
    """Return the text of a declared cell: the first that any text file can contain."""
    return next((text for text in column.examples(_ROWS) if text.isascii() and text.isprintable()), "")


def _text(names: Sequence[str], cells: Sequence[tuple[str, str]], form: TableFormat) -> bytes | None:
    """Return the rows as delimited text, or None if a name cannot be written so."""
    if form.header and any("\r" in name or "\0" in name or ("\n" in name and not form.newlines) for name in names):
        return None
    separator = form.separator if form.separator != "auto" else "\t" if form.kind == "tsv" else ","
    buffer = io.StringIO()
    if form.fields:
        buffer.writelines(f"{_placed(row, form)}\n" for row in _rows(names, cells, form))
    else:
        csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(_rows(names, cells, form))
    try:
        return buffer.getvalue().encode(form.codec)
    except UnicodeError:
        return None


def _placed(row: Sequence[str], form: TableFormat) -> str:
    """Return a line with its cells at their positions, cut where they are longer."""
    line = [" "] * max(last for _, _, last in form.fields)
    for cell, (_, first, last) in zip(row, form.fields, strict=False):
        line[first - 1 : last] = cell.ljust(last - first + 1)[: last - first + 1]
    return "".join(line)


def _rows(names: Sequence[str], cells: Sequence[tuple[str, str]], form: TableFormat) -> list[list[str]]:
    """Return all rows of the file: those to skip, the header rows, and the cells."""
    blank = [""] * len(names)
    header = [blank] * form.header_rows if form.header else []
    if header:
        header[(form.names_from or form.header_rows) - 1] = list(names)
    return [["skipped"]] * form.skip_rows + header + [list(row) for row in zip(*cells, strict=True)]


class _QuietProgress:
    """Progress of a trial: it shows no phases and steps, and ends if the run was stopped."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def phase(self, name: str) -> None:
        """Check whether to continue."""
        self._progress.check_cancelled()

    def step(self, k: int, of: int) -> None:
        """Check whether to continue."""
        self._progress.check_cancelled()

    def loss(self, value: float) -> None:
        """Do nothing."""

    def check_cancelled(self) -> None:
        """Check whether to continue."""
        self._progress.check_cancelled()
