"""Tables that a command takes in and deletes again, and work of this process whose charge is always settled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Literal

from synth.application import Application
from synth.cli.files import open_table
from synth.errors import PrivacyError, RunCancelledError, SynthError
from synth.ledger.ledger import STAYED_SPENT, WAS_FREED
from synth.schema import RunConfig, TableFormat
from synth.services import run_folder
from synth.services.incidents import own_error, record_incident
from synth.store import ChargeState, WorkState

__all__ = ["SPENDS_AGAIN", "closing", "received"]

SPENDS_AGAIN = (
    "Another fit to the same rows would spend again without anyone adding it up. Name the people they are about, "
    'for example account="city-survey-2026".'
)

_FRAME_NAME = "table in memory"
"""The name of a table that came from memory."""

_Kind = Literal["table", "test"]


@contextmanager
def received(
    application: Application,
    config: RunConfig,
    rows: BinaryIO | None,
    *,
    password: str | None = None,
    first: bool = False,
    keep: bool,
) -> Iterator[tuple[str, str | None]]:
    """Take in the table and the test table, and delete them at the end.

    Raises
    ------
    PrivacyError
        If ``first`` is set and the table was taken in before, under another account.
    """
    taken: list[str] = []
    try:
        if rows is not None:
            taken.append(_taken(application, config, rows, _FRAME_NAME, "table"))
        elif config.source is not None:
            taken.append(
                application.intake.receive_from(config.source, password, config.account, config.format).table_id
            )
        else:
            taken.append(_receive(application, config, str(config.table), "table"))
        if config.test_table is not None:
            taken.append(_receive(application, config, config.test_table, "test"))
        if first and application.vault.twins(application.store.tables[taken[0]]):
            raise PrivacyError(SPENDS_AGAIN)
        yield taken[0], taken[1] if len(taken) > 1 else None
    finally:
        with ExitStack() as deleting:  # all of them, even if deleting one fails
            for table_id in () if keep else taken:
                deleting.callback(application.vault.delete, table_id, who="owner")


def _receive(application: Application, config: RunConfig, path: str, kind: _Kind) -> str:
    with open_table(path, _form_of(config, kind)) as (name, stream):
        return _taken(application, config, stream, name, kind)


def _taken(application: Application, config: RunConfig, stream: BinaryIO, name: str, kind: _Kind) -> str:
    form = _form_of(config, kind)
    return application.intake.receive(stream, account=config.account, name=name, table_format=form, kind=kind).table_id


def _form_of(config: RunConfig, kind: _Kind) -> TableFormat:
    return config.format if kind == "table" else config.test_format or config.format


@contextmanager
def closing(application: Application, run_id: str) -> Iterator[None]:
    """End the run and settle its charge, however the work ends; from here on, wait for a slow database."""
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
