"""Hermitage: turn a private table into synthetic rows that can be shared.

``synth demo demo`` writes a simulated table and its configuration; then, from Python:

>>> import synth
>>> config = synth.load_config("demo/demonstration.yaml")  # doctest: +SKIP
>>> result = synth.run(config, "release")  # doctest: +SKIP
>>> synth.verify(result.bundle).ok  # doctest: +SKIP
True

For rows in memory, :class:`synth.Release` takes a DataFrame and returns one.

Every failure raises a :class:`synth.errors.SynthError`. Its message is short, says what to do, and never quotes a cell.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth.services.incidents import in_own_words
from synth.system.paths import path_of
from synth.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from synth.bundle.predicting import Predictions
    from synth.bundle.replay import Replay
    from synth.bundle.verify import Verdict
    from synth.cli.local import RunResult
    from synth.cli.release import Release
    from synth.errors import NotAsDeclaredError, NotAsDeclaredWarning, SameTableWarning, SynthError
    from synth.rehearsal.estimating import Estimates
    from synth.schema import RunConfig, Schema
    from synth.services.intake import Reading
    from synth.services.recognition import Recognised

__all__ = [
    "Estimates",
    "NotAsDeclaredError",
    "NotAsDeclaredWarning",
    "Predictions",
    "Recognised",
    "Release",
    "Replay",
    "RunConfig",
    "RunResult",
    "SameTableWarning",
    "Schema",
    "SynthError",
    "Verdict",
    "__version__",
    "answers",
    "check_again",
    "draft_schema",
    "estimate",
    "find",
    "load_config",
    "load_schema",
    "look",
    "predict",
    "preview",
    "replay",
    "rows_as_declared",
    "run",
    "verify",
]

_TYPES = {
    "Estimates": "synth.rehearsal.estimating",
    "NotAsDeclaredError": "synth.errors",
    "NotAsDeclaredWarning": "synth.errors",
    "Predictions": "synth.bundle.predicting",
    "Recognised": "synth.services.recognition",
    "Release": "synth.cli.release",
    "Replay": "synth.bundle.replay",
    "RunConfig": "synth.schema",
    "RunResult": "synth.cli.local",
    "SameTableWarning": "synth.errors",
    "Schema": "synth.schema",
    "SynthError": "synth.errors",
    "Verdict": "synth.bundle.verify",
}
"""Where the types of the functions below are defined; loaded on demand, because some load large libraries."""


def __getattr__(name: str) -> Any:
    if name not in _TYPES:
        raise AttributeError(f"module 'synth' has no attribute '{name}'")
    return getattr(importlib.import_module(_TYPES[name]), name)


def load_config(path: str | Path, table: object = None) -> RunConfig:
    """Read a configuration file; see :func:`synth.cli.loading.load_config`."""
    from synth.cli.loading import load_config as load

    return in_own_words(load, path, table)


def load_schema(path: str | Path, table: object = None) -> Schema:
    """Read what a file declares about a table; see :func:`synth.cli.loading.load_schema`."""
    from synth.cli.loading import load_schema as load

    return in_own_words(load, path, table)


def draft_schema(frame: object, *, look_for: str | None = None) -> dict[str, Any]:
    """Draft the schema of a DataFrame from the names of its columns; see :func:`synth.cli.frames.draft_schema`.

    With ``look_for``, the account of the people the rows are about, columns are proposed from the rows as by
    :func:`look`: only the questions about people are open then.
    """
    from synth.cli.frames import draft_schema as draft
    from synth.cli.looking import schema_after_look

    drafted = in_own_words(draft, frame)
    return drafted if look_for is None else {**drafted, **schema_after_look(look(frame, account=look_for), frame)}


def look(table: object, *, account: str, format: Mapping[str, Any] | None = None) -> Recognised:
    """Propose how a table is written and what its columns are; the look at its rows is recorded with the account.

    Parameters
    ----------
    table : path or pandas.DataFrame
    account : str
        The people the rows are about.
    format : mapping, optional
        What is known of the format of a file, with the keys of a configuration.

    Returns
    -------
    Recognised
        ``form`` is the format, ``proposals`` and ``columns`` say what was found and why. It is for the owner alone.
    """
    from synth.cli.looking import look_at
    from synth.schema import parse_format

    return in_own_words(lambda: look_at(table, account, None if format is None else parse_format(format)))


def find(
    config: str | Path,
    out: str | Path | None = None,
    *,
    table: str | Path | None = None,
    epsilon: float | None = None,
    look: bool = True,
    as_declared: bool = False,
) -> RunConfig:
    """Find privately what a configuration file leaves open, and load the completed file; see ``synth find``.

    The completed file is ``out``, or a new file beside ``config``; see :func:`synth.cli.finding.find_locally`.
    ``look`` and ``as_declared`` are those of :func:`run`.
    """
    from synth.cli.finding import find_locally

    reading = _reading(look, as_declared)
    return load_config(in_own_words(find_locally, config, out, table=table, epsilon=epsilon, reading=reading))


def preview(
    config: RunConfig,
    columns: Sequence[str],
    *,
    epsilon: float | None = None,
    anew: bool = False,
    table: str | Path | None = None,
    look: bool = True,
    as_declared: bool = False,
) -> pd.DataFrame:
    """Count some columns with noise before a release of them is paid for; see ``synth preview``.

    Parameters
    ----------
    config : RunConfig
        The planned release; only the chosen columns need to be described.
    columns : sequence of str
    epsilon : float, optional
        What to spend, by default a twentieth of the configuration's epsilon. It is charged to the account, and later
        releases state it together with their own budget.
    anew : bool
        Charge it again. Otherwise the same preview of the same people costs nothing again, and gives the same counts.
    table : path, optional
        The private table, instead of ``config.table``.
    look, as_declared : bool
        As in :func:`run`, of the chosen columns.

    Returns
    -------
    pandas.DataFrame
        One line for each count, as from :func:`answers`.

    Raises
    ------
    BudgetExceededError
        If the account's cap would be exceeded.
    """
    from synth.cli.previewing import preview_locally

    def previewed() -> pd.DataFrame:
        reading = _reading(look, as_declared)
        return preview_locally(config, columns, epsilon=epsilon, anew=anew, table=table, reading=reading).counts.frame

    return in_own_words(previewed)


def run(
    config: RunConfig,
    out: str | Path,
    *,
    table: str | Path | None = None,
    tables: Mapping[str, Any] | None = None,
    look: bool = True,
    as_declared: bool = False,
) -> RunResult:
    """Make a table or fit a model, and seal its bundle in ``out``; see :func:`synth.cli.local.run_locally`.

    Parameters
    ----------
    config : RunConfig
    out : path
    table : path, optional
        The private table, instead of ``config.table``.
    tables : mapping of str to path or pandas.DataFrame, optional
        Two private tables that belong together, by their names under ``tables`` in the configuration.
    look : bool
        Be told, before anything is charged, what is not as declared in the table. The look is recorded: a later run
        with another configuration was chosen after it.
    as_declared : bool
        Go on even if most lines, or most cells of a column, are not as declared.

    Raises
    ------
    NotAsDeclaredError
        If most would be lost, and ``as_declared`` is not set.

    Warns
    -----
    SameTableWarning
        If the same table was taken in under another account; nothing is charged before.
    NotAsDeclaredWarning
        If more than a twentieth of the lines or of a column's cells is not as declared; nothing is charged before.
    """
    from synth.cli.local import run_locally

    return in_own_words(run_locally, config, out, table=table, tables=tables, reading=_reading(look, as_declared))


def _reading(look: bool, as_declared: bool) -> Reading:
    from synth.cli.received import warn_of_losses
    from synth.services.intake import Reading

    return Reading(look, as_declared, warn_of_losses)


def check_again(run_id: str, out: str | Path | None = None, *, memory: float = 1.0, seconds: float = 60.0) -> RunResult:
    """Check the bundle of a run that could not check it, and release it if it holds; nothing is charged.

    :class:`synth.errors.UncheckedError` has the ``run_id``; see :func:`synth.cli.local.check_again_locally`.
    """
    from synth.cli.local import check_again_locally

    return in_own_words(check_again_locally, run_id, out, memory=memory, seconds=seconds)


def verify(path: str | Path, public_key: str | Path | None = None, *, refit: bool = False) -> Verdict:
    """Check a bundle, a zip or a folder; see :func:`synth.bundle.verify.verify`."""
    from synth.bundle.verify import verify as check

    return in_own_words(lambda: check(path_of(path, "the bundle"), public_key, refit=refit))


def replay(path: str | Path, out: str | Path, public_key: str | Path | None = None, *, refit: bool = False) -> Replay:
    """Make the table of a bundle again in the empty folder ``out``; see :func:`synth.bundle.replay.replay`."""
    from synth.bundle.replay import replay as again
    from synth.cli.files import empty_folder

    def replayed() -> Replay:
        bundle, folder = path_of(path, "the bundle"), empty_folder(out, force=False)
        return again(bundle, folder, refit=refit, public_key=public_key)

    return in_own_words(replayed)


def predict(path: str | Path, table: str | Path) -> Predictions:
    """Predict the label of rows with the model of a bundle; see :func:`synth.bundle.predicting.predict`."""
    from synth.bundle.predicting import predict as predicted

    return in_own_words(lambda: predicted(path_of(path, "the bundle"), path_of(table, "the table")))


def rows_as_declared(path: str | Path, *, table: str | None = None) -> bytes:
    """Return the rows of a bundle in the format of its private table; see :mod:`synth.bundle.as_declared`.

    Where two tables belong together, ``table`` names one of them.
    """
    from synth.bundle.as_declared import rows_as_declared as written

    return in_own_words(lambda: written(path_of(path, "the bundle"), table=table))


def answers(path: str | Path, questions: Sequence[str] = (), public_key: str | Path | None = None) -> pd.DataFrame:
    """Return every noisy count of a bundle with its error, one line for each; see ``synth answers``.

    Parameters
    ----------
    path : path
        The bundle.
    questions : sequence of str, optional
        Only these, each named as in the result or by its columns, such as "age,income".
    public_key : path, optional
        PEM of the signer that is expected.

    Returns
    -------
    pandas.DataFrame
        Its columns are those of :meth:`synth.reports.counted.Counts.write_csv`.

    Raises
    ------
    InputError
        If the bundle holds no such count; the message says what it holds instead.
    """
    from synth.bundle.counted import counts_of_bundle

    return in_own_words(lambda: counts_of_bundle(path_of(path, "the bundle"), public_key).only(questions).frame)


def estimate(path: str | Path, question: str, *, replicates: int = 20) -> Estimates:
    """Estimate numbers from a bundle, with intervals; see :func:`synth.rehearsal.estimating.estimate`."""
    from synth.rehearsal.estimating import estimate as estimated

    return in_own_words(lambda: estimated(path_of(path, "the bundle"), question, replicates=replicates)[0])
