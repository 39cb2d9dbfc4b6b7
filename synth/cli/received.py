"""Tables that a command takes in and deletes again, and work of this process whose charge is always settled.

Whatever takes a table in, a run, a finding or a DataFrame, does so here. If the same table was taken in under another
account, the caller is told here: on the command line as a line, from Python as a :class:`SameTableWarning`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Literal

from synth.application import Application
from synth.cli.speaking import Say
from synth.errors import InputError, NotAsDeclaredWarning, PrivacyError, RunCancelledError, SameTableWarning, SynthError
from synth.jobs.engine import GOES_ON, goes_on
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED
from synth.schema import RunConfig, TableFormat
from synth.services import run_folder
from synth.services.incidents import own_error, record_incident
from synth.services.intake import Reading, Stage
from synth.services.linked import as_joined
from synth.services.table_paths import open_table, size_of
from synth.services.views import ReceivedTable
from synth.store import ChargeState, WorkState
from synth.system.settings import size_text

__all__ = [
    "SPENDS_AGAIN",
    "Once",
    "Rows",
    "as_stored",
    "closing",
    "kept_reading",
    "received",
    "require_rows",
    "warn_caller",
    "warn_of_losses",
]

Rows = BinaryIO | tuple[BinaryIO, BinaryIO]
"""Private rows in memory: one table, or two that belong together."""

SPENDS_AGAIN = (
    "Another fit to the same rows would spend again without anyone adding it up. Name the people they are about, "
    'for example account="city-survey-2026".'
)

_FRAME_NAME = "table in memory"
"""The name of a table that came from memory."""

_Kind = Literal["table", "test"]

_OURS = Path(__file__).parents[1]


def warn_caller(sentence: str, kind: type[Warning] = SameTableWarning) -> None:
    """Warn about a table, at the line outside this program that led here."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, kind, stacklevel=level)


def warn_of_losses(sentence: str) -> None:
    """Warn about what is not as declared in a table, at the line outside this program that led here."""
    warn_caller(sentence, NotAsDeclaredWarning)


def _is_ours(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(_OURS) or frame.f_globals.get("__name__") == "contextlib"


class Once:
    """Passes each sentence on a single time: a run that finds first takes its table in twice."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def by(self, say: Say) -> Say:
        """Return what passes a sentence on by ``say``, if it was not passed on before."""

        def say_once(sentence: str) -> None:
            if sentence not in self._said:
                self._said.add(sentence)
                say(sentence)

        return say_once


def kept_reading(reading: Reading | None, kept: list[str] | None = None) -> Reading:
    """Return a reading before a charge that also keeps what it tells; by default one that warns as Python does."""
    asked = reading or Reading(tell=warn_of_losses)

    def tell(sentence: str) -> None:
        if kept is not None:
            kept.append(sentence)
        if asked.tell is not None:
            asked.tell(sentence)

    return replace(asked, tell=tell)


def require_rows(config: RunConfig, rows: Rows | None) -> None:
    """Refuse a run about whose private rows nothing is said, or that would read two tables as one.

    Raises
    ------
    InputError
    """
    tables = config.schema.tables
    if rows is None and not config.names_rows:
        where = "'table:'" if tables is None else "both files under 'tables:'"
        raise InputError(f"No table is named. Write {where} in the configuration, or use --table.")
    if isinstance(rows, tuple) and tables is None:
        raise InputError("Two tables are given, and the configuration has no 'tables:' that says how they belong.")


def as_stored(config: RunConfig, rows: Rows | None) -> RunConfig:
    """Return the configuration as it reads the table that :func:`received` stores."""
    return as_joined(config) if isinstance(rows, tuple) or config.table_files is not None else config


@contextmanager
def received(
    application: Application,
    config: RunConfig,
    rows: Rows | None,
    *,
    password: str | None = None,
    first: bool = False,
    keep: bool,
    say: Say | None = None,
    warn: Say | None = None,
) -> Iterator[tuple[str, str | None]]:
    """Take in the table and the test table, and delete them at the end.

    ``say`` is told what is odd about their lines; ``warn``, by default :func:`warn_caller`, that the same table was
    taken in under another account. Nothing is charged yet.

    Raises
    ------
    PrivacyError
        If ``first`` is set and the table was taken in before, under another account.
    """
    taken: list[ReceivedTable] = []
    try:
        if isinstance(rows, tuple):
            taken.append(_joined(application, config, rows))
        elif rows is not None:
            taken.append(_taken(application, config, rows, _FRAME_NAME, "table"))
        elif config.table_files is not None:
            paths = config.table_files
            with open_table(paths[0], config.format) as (_, file), open_table(paths[1], config.format) as (_, other):
                taken.append(_joined(application, config, (file, other)))
        elif config.source is not None:
            taken.append(application.intake.receive_from(config.source, password, config.account, config.format))
        else:
            taken.append(_receive(application, config, str(config.table), "table", say))
        if config.test_table is not None:
            taken.append(_receive(application, config, config.test_table, "test", say))
        if first and taken[0].same_table:
            raise PrivacyError(SPENDS_AGAIN)
        for one in taken:
            for said in filter(None, (one.warning, one.caution)):
                if say is not None:
                    say(said)
            if one.same_table:
                (warn or warn_caller)(one.same_table)
        yield taken[0].table_id, taken[1].table_id if len(taken) > 1 else None
    finally:
        with ExitStack() as deleting:  # all of them, even if deleting one fails
            for one in () if keep else taken:
                deleting.callback(application.vault.delete, one.table_id, who=application.access.name)


def _receive(
    application: Application, config: RunConfig, path: str, kind: _Kind, say: Say | None = None
) -> ReceivedTable:
    with open_table(path, _form_of(config, kind)) as (name, stream):
        watch = None if say is None else _telling(say, size_of(stream))
        return _taken(application, config, stream, name, kind, watch)


def _joined(application: Application, config: RunConfig, files: tuple[BinaryIO, BinaryIO]) -> ReceivedTable:
    if config.schema.tables is None:
        raise ValueError
    return application.intake.receive_linked(
        files,
        config.schema.tables,
        account=config.account,
        table_format=config.format,
        declared=config.schema.columns,
        undeclared=config.undeclared,
    )


def _telling(say: Say, size: int | None) -> Callable[[Stage, int], None] | None:
    """Return what tells at every tenth how much of a large table is read, then encrypted; None for a smaller one."""
    if size is None or size < TOLD_BYTES:
        return None
    told, at = 0, "read"

    def watch(stage: Stage, done: int) -> None:
        nonlocal told, at
        if stage != at:
            told, at = 0, stage
        tenths = 10 * done // size
        if tenths > told:
            told = tenths
            say(f"{10 * tenths} % of the table is {stage} ({size_text(done)}).")

    return watch


TOLD_BYTES = 2**28
"""Of tables from this size on it is told how much is read, then encrypted."""


def _taken(
    application: Application,
    config: RunConfig,
    stream: BinaryIO,
    name: str,
    kind: _Kind,
    watch: Callable[[Stage, int], None] | None = None,
) -> ReceivedTable:
    form = _form_of(config, kind)
    return application.intake.receive(
        stream,
        account=config.account,
        name=name,
        table_format=form,
        kind=kind,
        declared=config.schema.columns,
        undeclared=config.undeclared,
        watch=watch,
    )


def _form_of(config: RunConfig, kind: _Kind) -> TableFormat:
    return config.format if kind == "table" else config.test_format or config.format


@contextmanager
def closing(application: Application, run_id: str) -> Iterator[None]:
    """End the run and settle its charge, however the work ends; from here on, wait for a slow database.

    A run whose sealed bundle could not be checked has ended already, and its charge stays open until it is.
    """
    application.store.be_patient()
    try:
        yield
    except BaseException as error:
        ended = application.store.work.find(run_id)
        if ended is not None and ended.state is WorkState.UNCHECKED:
            raise
        cancelled = isinstance(error, RunCancelledError | KeyboardInterrupt)
        keeps = ended is not None and goes_on(application.store, ended)
        if not keeps:
            run_folder.clear(application.settings, run_id)
        charges = () if keeps else application.ledger.settle(run_id)
        fate = STAYED_SPENT if any(charge.state is ChargeState.FAILED_SPENT for charge in charges) else WAS_FREED
        error = own_error(error, application.settings.home) or error
        known = isinstance(error, SynthError)
        incident = None if known or cancelled else record_incident(error)
        message = str(error) if known else "The run was cancelled." if cancelled else "Something went wrong."
        state = WorkState.CANCELLED if cancelled else WorkState.FAILED
        words = f"{message} {GOES_ON}" if keeps else f"{message} {fate}" if charges else message
        application.store.work.move(run_id, state, message=words, incident_id=incident)
        if isinstance(error, KeyboardInterrupt):
            error = KeyboardInterrupt(words)  # which says what became of the budget
        raise error from None
