"""A run tried out before it is charged: on the two smallest tables there are, made up from what is declared.

One row, and none: written as the format says, read, encoded, asked, fitted, sampled, repaired by the rules, written,
reported, sealed and checked by the code of the run itself. What fails for declared reasons fails here, in one sentence
and before anything is spent; and since a run on no row at all ends in a bundle, no row decides whether a bundle comes.

The noise is that of a session of its own, on rows that are about nobody: nothing of it is seen by the session of the
run. What is sealed carries the signature of a key that is thrown away, beside another key that it does not fit: a
bundle of a trial that is found somewhere never passes a check. It lies in a folder that is deleted: at the end, or by
the next start where the trial was killed.

Not tried: more than a few rows to make and more than a step or two of training, so neither the memory nor the time
that they take, nor whether a long training with a large learning rate stays finite.
"""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections.abc import Sequence
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
from synth.schema import Column, RunConfig, Schema, TableFormat
from synth.services.incidents import record_incident
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.system.disk import locked
from synth.system.packages import missing_package
from synth.system.settings import Settings
from synth.vault.keys import ThrowawayKey

__all__ = ["PHASE", "made_up_file", "sweep_trials", "try_out"]

PHASE = "Trying out"
"""What a run is doing meanwhile."""

TRIALS = "trials"
"""Where in the home their folders lie."""

NOT_PRIVATE = "NOT PRIVATE: made of rows that are about nobody, to try a description out before it is charged."

_ROWS = 20
"""Rows made at most."""

_SKIPPED = 100
"""Lines that are skipped at the top at most."""


def try_out(config: RunConfig, settings: Settings, progress: Progress, *, sealing: Sealing | None = None) -> None:
    """Carry a configuration from made-up bytes to a checked bundle, twice, and leave nothing behind.

    Parameters
    ----------
    config : RunConfig
        What is to be run; its tables are not looked at.
    settings : Settings
        Where the folder of the trial lies while it lasts.
    progress : Progress
        Asked whether somebody stopped the run.
    sealing : Sealing, optional
        Notes and names of files of the run: what must not stand in a bundle is looked for in that of the trial too. Its
        key and its ledger are not used.

    Raises
    ------
    SynthError
        What would stop the run after its charge, in one sentence.
    """
    few = _short(replace(config.published(), rows=min(config.rows, _ROWS)))
    home = settings.home / TRIALS
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(home, alone=False):
        _try_out_in(Path(tempfile.mkdtemp(dir=home)), few, progress, sealing=sealing)


def sweep_trials(settings: Settings) -> None:
    """Delete what trials left that were killed; while one is at work nothing is deleted."""
    home = settings.home / TRIALS
    if not home.is_dir():
        return
    with locked(home, alone=True) as is_alone:
        if is_alone:
            for folder in home.iterdir():
                shutil.rmtree(folder, ignore_errors=True)


def _try_out_in(folder: Path, few: RunConfig, progress: Progress, *, sealing: Sealing | None) -> None:
    """Try a shortened configuration out in a folder of its own, which is gone afterwards."""
    try:
        # What is made up has the declared names from the beginning.
        form = replace(few.format, skip_rows=min(few.format.skip_rows, _SKIPPED), rename=())
        made_up = made_up_file(few.schema, form)
        tables = PrivateTable.open_smallest(
            lambda: io.BytesIO(made_up), few.schema, form, holdout=few.holdout, undeclared=few.undeclared
        )
        for train, holdout in tables:
            _carried_through(few, train, holdout, folder, sealing or Sealing(signer=ThrowawayKey()), progress)
    except RunCancelledError:
        raise
    except SynthError as error:
        raise type(error)(f"Tried out on made-up rows: {error}") from None
    except Exception as error:
        lack = missing_package(error)
        if lack is not None:
            raise lack from None
        incident = record_incident(error)
        raise JobError(
            f"Tried out on made-up rows, this configuration stops the program (incident {incident}). Try another "
            "generator, or leave columns out until it passes."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _short(config: RunConfig) -> RunConfig:
    """Return the configuration with less training: its length changes no question."""
    card = describe(config.generator)
    given = {field.name: field.default for field in option_fields(card.options)} | dict(config.options)
    short = {name: min(most, int(str(given[name]))) for name, most in card.short_training.items()}
    return replace(config, options={**config.options, **short})


def _carried_through(
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
    problems = [failure for failure in check(sealed.path).failures if failure != unfit]
    if unfit is None:
        raise VerificationError("The bundle of a trial passes for a real one.")
    if problems:
        raise VerificationError(
            f"The bundle would not pass its own check: {problems[0]} Declare less (fewer places or categories), or "
            "choose another generator."
        )


def made_up_file(schema: Schema, form: TableFormat) -> bytes:
    """Write two rows as a format says: one of missing cells, and one that is as declared.

    A text where the names of columns can be written as one, else Parquet, where the format leaves that open.
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
    """Return the text of a cell that is as declared: the first that any text file can hold."""
    return next(filter(_is_plain, column.examples(_ROWS)), "")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _text(names: Sequence[str], cells: Sequence[tuple[str, str]], form: TableFormat) -> bytes | None:
    """Return the rows as delimited text, or None where a name cannot be written so."""
    if form.header and any("\r" in name or "\0" in name or ("\n" in name and not form.newlines) for name in names):
        return None
    separator = form.separator if form.separator != "auto" else "\t" if form.kind == "tsv" else ","
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows(_rows(names, cells, form))
    try:
        return buffer.getvalue().encode(form.codec)
    except UnicodeError:
        return None


def _rows(names: Sequence[str], cells: Sequence[tuple[str, str]], form: TableFormat) -> list[list[str]]:
    """Return all rows of the file: those that are passed over, the names, in whichever line they are, and the cells."""
    blank = [""] * len(names)
    header = [blank] * form.header_rows if form.header else []
    if header:
        header[(form.names_from or form.header_rows) - 1] = list(names)
    return [["passed over"]] * form.skip_rows + header + [list(row) for row in zip(*cells, strict=True)]


class _QuietProgress:
    """Progress of a trial: nothing is said of its phases and steps, and a run that was stopped ends it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def phase(self, name: str) -> None:
        """Ask whether to go on."""
        self._progress.check_cancelled()

    def step(self, k: int, of: int) -> None:
        """Ask whether to go on."""
        self._progress.check_cancelled()

    def loss(self, value: float) -> None:
        """Say nothing."""

    def check_cancelled(self) -> None:
        """Ask whether to go on."""
        self._progress.check_cancelled()
