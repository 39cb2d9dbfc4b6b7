"""Runs: their configurations and tables. The progress of a run is in the table of work, under its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import Column, Connection, ForeignKey, Select, Table, Text, insert, or_, select, update

from synth.errors import JobError
from synth.store.engine import Transactions, patient, remembered
from synth.store.layout import IDENTITY, METADATA, now, row_values
from synth.store.work import FINISHED_STATES, WORK, Work, WorkKind, WorkState

__all__ = ["Run", "Runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Work):
    """One run.

    ``config`` is its configuration as JSON, without paths; its steps follow from it. ``device`` is where it computed.
    """

    account_id: str
    table_id: str | None = None
    test_table_id: str | None = None
    config: str
    device: str | None = None


RUNS = Table(
    "runs",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("table_id", IDENTITY, ForeignKey("tables.id")),
    Column("test_table_id", IDENTITY, ForeignKey("tables.id")),
    Column("config", Text, nullable=False),
    Column("device", Text),
)


class Runs:
    """The rows of ``runs``, each with its work."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def add(
        self,
        *,
        account_id: str,
        config: str,
        owner: str,
        table_id: str | None = None,
        test_table_id: str | None = None,
    ) -> Run:
        """Plan a run; nothing happens until it is submitted to an engine or claimed by a worker."""
        with self._transactions.writing() as connection:
            return _add(
                connection,
                WorkState.PLANNED,
                account_id=account_id,
                config=config,
                owner=owner,
                table_id=table_id,
                test_table_id=test_table_id,
            )

    def enter(self, connection: Connection, *, account_id: str, config: str, owner: str) -> Run:
        """Record a run that was released before this database knew of it, inside the caller's transaction."""
        return _add(
            connection,
            WorkState.RELEASED,
            account_id=account_id,
            config=config,
            owner=owner,
            message="Entered from its certificate.",
            claimed=True,
            attempts=1,
            finished=now(),
        )

    @remembered
    def find(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        return next(iter(self._where(RUNS.c.id == run_id)), None)

    def __getitem__(self, run_id: str) -> Run:
        run = self.find(run_id)
        if run is None:
            raise JobError("There is no such run. Choose one from the list of runs.")
        return run

    @remembered
    def all(self) -> tuple[Run, ...]:
        """Return all runs, oldest first."""
        return self._where()

    @remembered
    def of_account(self, account_id: str) -> tuple[Run, ...]:
        """Return the account's runs, oldest first."""
        return self._where(RUNS.c.account_id == account_id)

    @remembered
    def of_table(self, table_id: str) -> tuple[Run, ...]:
        """Return the runs of a table, oldest first."""
        return self._where(RUNS.c.table_id == table_id)

    def configs(self, connection: Connection, account_id: str) -> dict[str, str]:
        """Return the configurations of an account's runs, by id, inside the caller's transaction."""
        query = select(RUNS.c.id, RUNS.c.config).where(RUNS.c.account_id == account_id)
        return {run_id: config for run_id, config in connection.execute(query)}

    @remembered
    def needing_table(self, table_id: str) -> tuple[Run, ...]:
        """Return the unfinished runs that read this table."""
        uses = or_(RUNS.c.table_id == table_id, RUNS.c.test_table_id == table_id)
        return self._where(uses, WORK.c.state.not_in(FINISHED_STATES))

    def _where(self, *conditions: Any) -> tuple[Run, ...]:
        # Within one second the places in the queue give the order; runs not yet in the queue come last.
        query = _RUNS.where(*conditions).order_by(WORK.c.created, WORK.c.place.is_(None), WORK.c.place, RUNS.c.id)
        return self._transactions.read(query, Run)

    def note_device(self, run_id: str, device: str) -> None:
        """Record where the run computes: ``cpu`` or ``cuda``."""
        self._transactions.write(update(RUNS).where(RUNS.c.id == run_id).values(device=device))


_OWN = [column for column in RUNS.columns if column.name != "id"]
_RUNS: Select[Any] = select(WORK, *_OWN).select_from(WORK.join(RUNS, RUNS.c.id == WORK.c.id))


def _add(connection: Connection, state: WorkState, **values: Any) -> Run:
    run_id = str(uuid4())
    run = Run(id=run_id, kind=WorkKind.RUN, subject=run_id, state=state, created=now(), **values)
    for table in (WORK, RUNS):
        row = {name: value for name, value in row_values(run).items() if name in table.columns}
        connection.execute(insert(table).values(**row))
    return run
