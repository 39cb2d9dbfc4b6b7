"""The composition root: the one object that the pages and the command line use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Self

from synth.bundle.as_declared import rows_as_declared
from synth.bundle.counted import counts_of_bundle
from synth.bundle.table_files import linked_files
from synth.bundle.verify import Limits, Verdict, verify
from synth.demonstration import NETWORK, Demonstration, demonstration_bytes, demonstration_config
from synth.errors import InputError, JobError, LedgerError, SynthError
from synth.jobs import LocalEngine
from synth.privacy.accounting import PrivacyBudget
from synth.rehearsal.rehearsals import Rehearsals
from synth.rehearsal.run_estimates import RunEstimates
from synth.reports.counted import Counts
from synth.reports.evidence import evidence_from_dict
from synth.reports.first_screen import TableRows, first_rows
from synth.reports.registry import renewal_called
from synth.schema import RunConfig, config_to_mapping
from synth.services import run_folder
from synth.services.checking_again import require_unchecked
from synth.services.comparing import Comparison, compared_runs
from synth.services.finding import Findings, finding_of, marked
from synth.services.installation import Installation
from synth.services.intake import SINGLE_USER, Intake, Reading
from synth.services.planning import check_config, cost_of_run, plan_run, require_approved, totals_with_another
from synth.services.previewing import Previews, with_previews
from synth.services.reports import renewal_minutes, renewal_subject
from synth.services.stops import Stops
from synth.services.trying_out import sweep_trials
from synth.services.views import (
    AccountView,
    LedgerRow,
    Plan,
    ReceivedTable,
    RunView,
    account_view,
    has_spent,
    ledger_row,
    run_view,
)
from synth.store import Account, ChargeState, Event, EventKind, Run, TableState, Work, WorkKind, WorkState, now
from synth.system.machine import require_device
from synth.system.settings import Settings

__all__ = ["Application"]


_USUAL_READING = Reading()


class Application:
    """Everything a user can do. It holds no rows.

    Parameters
    ----------
    settings : Settings
        Where the state is kept.
    patience : float
        Seconds to wait for a database that does not answer; a screen does not wait.
    """

    def __init__(self, settings: Settings, *, patience: float = 0.0) -> None:
        self.installation = Installation.open(settings, patience=patience)
        self.settings, self.store, self.keys = settings, self.installation.store, self.installation.keys
        self.drafts, self.begun = self.store.drafts, self.store.begun
        self.ledger, self.vault = self.installation.ledger, self.installation.vault
        self.engine = LocalEngine(self.store)
        self.stops = Stops(self.store)
        self.rehearsals = Rehearsals(self.installation, self.engine)
        self.estimates = RunEstimates(self.installation, self.engine)
        self.intake = Intake(self.store, self.vault, self.ledger)
        self.findings = Findings(self.installation, self.engine, self.intake)
        self.previews = Previews(self.installation, self.engine, self.intake)

    @classmethod
    def from_environment(cls) -> Application:
        """Open the installation that the environment names."""
        application = cls(Settings.from_environment())
        for account in application.store.accounts.all():
            with suppress(LedgerError):  # the account is frozen, and anyone who uses it sees why
                application.vault.check_ledger(account.id)
        application.engine.recover()
        application.purge()
        return application

    def purge(self) -> None:
        """Delete what must not be kept any longer: at every start, and every so often while the server runs."""
        self.vault.purge()
        # Drafts that nobody continued are kept as long as a table.
        self.begun.forget_before(now() - timedelta(hours=self.settings.retention_hours))
        self.rehearsals.purge()
        sweep_trials(self.settings)

    def strays(self) -> tuple[Event, ...]:
        """Return what was removed: files in the vault without a record, and records without their files."""
        return self.store.events.of_kind(EventKind.STRAY_REMOVED)

    def close(self) -> None:
        """Close the database."""
        self.installation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # Tables ---------------------------------------------------------------------------------------------------------

    def note_look(self, account: str, what: str) -> None:
        """Record that the owner of an account looked at private rows outside a run."""
        self.ledger.note_owner_view(self.store.accounts.open(account).id, run_id=None, who=SINGLE_USER, what=what)

    # Accounts and the ledger ----------------------------------------------------------------------------------------

    def account_names(self, *, frozen: bool = False) -> list[str]:
        """Return the names of all accounts, or of the frozen ones, in order, without adding up what they spent."""
        return [account.name for account in self.store.accounts.all() if account.frozen or not frozen]

    def accounts(self) -> list[AccountView]:
        """Return every account with what was spent on it, by name."""
        return [account_view(account, self.ledger, self.store) for account in self.store.accounts.all()]

    def account(self, name: str) -> AccountView:
        """Return one account.

        Raises
        ------
        InputError
            If there is no such account.
        """
        return account_view(self._account(name), self.ledger, self.store)

    def open_account(self, name: str) -> AccountView:
        """Return the account of this name, opened without a cap if there is none."""
        return account_view(self.store.accounts.open(name), self.ledger, self.store)

    def set_cap(self, name: str, epsilon: float, delta: float) -> AccountView:
        """Set the cap of an account."""
        account = self.store.accounts.open(name)
        self.ledger.set_cap(account.id, epsilon=epsilon, delta=delta, who=SINGLE_USER)
        self.store.events.add(EventKind.CAP, account_id=account.id, who=SINGLE_USER)
        return self.account(name)

    def accept_ledger(self, name: str, *, who: str) -> AccountView:
        """Accept the ledger of an account as complete, and let the account be charged again.

        Raises
        ------
        InputError
            If there is no such account, or ``who`` is empty.
        LedgerError
            If its chain is broken.
        """
        account = self._account(name)
        if not who.strip():
            raise InputError("Give your name: it is kept with the ledger that you accept.")
        self.vault.accept_ledger(account.id, who=who.strip())
        return self.account(name)

    def _account(self, name: str) -> Account:
        account = self.store.accounts.named(name)
        if account is None:
            raise InputError(f"There is no account '{name}'. synth ledger lists the accounts.")
        return account

    def ledger_rows(self, account: str | None = None) -> list[LedgerRow]:
        """Return the rows of the ledger, oldest first, after checking every chain against marks and table headers."""
        accounts = [found for found in self.store.accounts.all() if account in (None, found.name)]
        for found in accounts:
            self.vault.check_ledger(found.id)
        rows = [
            ledger_row(charge, found.name, self.store) for found in accounts for charge in self.ledger.rows(found.id)
        ]
        return sorted(rows, key=lambda row: (row.time, row.account, row.sequence))

    # Runs -----------------------------------------------------------------------------------------------------------

    def plan(self, config: RunConfig) -> Plan:
        """Plan a run, without reading rows or writing anything."""
        return plan_run(self.as_released(config), store=self.store, ledger=self.ledger)

    def as_released(self, config: RunConfig) -> RunConfig:
        """Return a configuration with the previews of its account, which its release will state too."""
        return with_previews(self.installation, config)

    def totals_with_another(self, config: RunConfig, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Return what would be spent on these people after this release and another one like it, at each epsilon."""
        return totals_with_another(config, epsilons, store=self.store, ledger=self.ledger)

    def reserve(
        self, config: RunConfig, *, table_id: str, test_table_id: str | None = None, reading: Reading = _USUAL_READING
    ) -> Run:
        """Reserve the budget of a run, and record the run as planned.

        Raises
        ------
        NotAsDeclaredError
            If most of the table would be lost, and ``reading`` does not say to go on.
        ConfigError
            If the run needs a graphics card and this machine has none.
        BudgetExceededError
            If the account's cap would be exceeded.
        """
        check_config(config)
        require_device(config.device)
        self.stops.check(config)
        config = self.as_released(marked(config, finding_of(self.installation, config)))
        require_approved(self.settings, config.epsilon)
        account, _ = self.store.accounts.ensure(config.account, config.schema.neighbours, config.schema.unit)
        asked = json.dumps(config_to_mapping(config.published()))
        read = [
            self.intake.check(used, account.id, config, asked=asked, reading=reading)
            for used in filter(None, (table_id, test_table_id))
        ]
        self.vault.check_ledger(account.id)
        reading.pass_on(*read)
        run = self.store.runs.add(
            account_id=account.id,
            config=asked,
            owner=SINGLE_USER,
            table_id=table_id,
            test_table_id=test_table_id,
        )
        budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
        try:
            self.ledger.reserve(
                account.id,
                run.id,
                budget,
                purpose=f"{'private model' if config.is_model else 'synthetic table'} by {config.generator}",
                who=SINGLE_USER,
                cost_of=cost_of_run(config),
            )
        except SynthError as error:
            self.store.work.move(run.id, WorkState.CANCELLED, message=str(error))
            raise
        return run

    def start(
        self, config: RunConfig, *, table_id: str, test_table_id: str | None = None, reading: Reading = _USUAL_READING
    ) -> str:
        """Reserve the budget, queue the run and return its id. Errors as :meth:`reserve`."""
        run = self.reserve(config, table_id=table_id, test_table_id=test_table_id, reading=reading)
        return self.engine.submit(run.id, gpus=0 if config.device == "cpu" else 1)

    def run(self, run_id: str) -> RunView:
        """Return the state of a run, after checking that its worker still lives."""
        self.engine.state(run_id)
        return run_view(self.installation, self.store.runs[run_id])

    def runs(self, account: str | None = None) -> list[RunView]:
        """Return the runs, newest first."""
        self.engine.tend()
        views = [run_view(self.installation, run) for run in reversed(self.store.runs.all())]
        return [view for view in views if account in (None, view.account)]

    def latest_runs(self, most: int) -> list[RunView]:
        """Return at most so many runs, newest first."""
        self.engine.tend()
        return [run_view(self.installation, run) for run in reversed(self.store.runs.all()[-most:])]

    def latest_run(self, table_id: str) -> str | None:
        """Return the latest run of a table that goes on or has a report; else the latest that spent its budget."""
        runs = self.store.runs.of_table(table_id)
        alive = [run.id for run in runs if run.state not in (WorkState.FAILED, WorkState.CANCELLED)]
        return next(reversed(alive or [run.id for run in runs if has_spent(self.ledger, run.id)]), None)

    def cancel(self, run_id: str) -> None:
        """Stop a run: a reservation that was not spent yet is freed, what was spent stays spent."""
        self.engine.cancel(run_id)

    def config_of(self, run_id: str) -> RunConfig:
        """Return the configuration of a run."""
        return self.installation.config_of(run_id)

    def check_again(self, run_id: str, limits: Limits) -> None:
        """Start another check of an unchecked run in another process; if it holds, the run is reported.

        Parameters
        ----------
        run_id : str
        limits : Limits
            What the check may use.

        Raises
        ------
        JobError
            If the run is not unchecked, or is being checked already.
        """
        run = self.store.runs[run_id]
        require_unchecked(run, self.folder(run_id))
        self.engine.begin(WorkKind.CHECK, run_id, asked=json.dumps(asdict(limits)), owner=SINGLE_USER)

    def checking(self, run_id: str) -> Work | None:
        """Return the latest other check of a run, or None if there was none."""
        return self.engine.standing(WorkKind.CHECK, run_id)

    def cancel_check(self, run_id: str) -> None:
        """Stop that check; the run stays unchecked."""
        self.engine.stop(WorkKind.CHECK, run_id)

    # Reports and releases -------------------------------------------------------------------------------------------

    def folder(self, run_id: str) -> Path:
        """Return the folder of a run's files."""
        return self.installation.folder(run_id)

    def device_reason(self, run_id: str) -> str:
        """Return why a run got its device, in one sentence; empty before it has one."""
        with suppress(JobError):
            return str(run_folder.read_json(self.folder(run_id) / "owner" / run_folder.DEVICE).get("why", ""))
        return ""

    def report(self, run_id: str) -> dict[str, Any]:
        """Return the publishable report of a finished run."""
        self._finished(run_id)
        return run_folder.read_json(self.folder(run_id) / "report.json")

    def first_rows(self, run_id: str) -> TableRows:
        """Return the header and the first synthetic rows of a finished run; nothing if it made a model."""
        self._finished(run_id)
        table = self.folder(run_id) / "synthetic.csv"
        if not table.exists():
            return ()
        with table.open("rb") as stream:
            return first_rows(stream)

    def compare(self, run_ids: Sequence[str]) -> Comparison:
        """Put finished runs of one account side by side; errors as :func:`synth.services.comparing.compared_runs`."""
        reports = [self.report(run_id)["evidence"] for run_id in run_ids]
        return compared_runs(
            [self.run(run_id) for run_id in run_ids],
            [[evidence_from_dict(entry) for entry in report] for report in reports],
            ledger=self.ledger,
        )

    def owner_report(self, run_id: str) -> dict[str, Any] | None:
        """Return the owner-only report, or None if there is none; the look is recorded."""
        run = self._finished(run_id)
        path = self.folder(run_id) / "owner" / "report.json"
        if not path.exists():
            return None
        self.ledger.note_owner_view(run.account_id, run_id=run_id, who=SINGLE_USER, what="report")
        return run_folder.read_json(path)

    def renew(self, run_id: str, name: str, amount: str | None = None) -> None:
        """Start making a part of the owner's report in another process; nothing is charged, as nothing is released.

        Parameters
        ----------
        run_id : str
        name : str
            The name of a :class:`synth.reports.report.Renewal`.
        amount : str, optional
            How much of it; the usual amount by default.

        Raises
        ------
        JobError
            If the rows of the run were deleted, or the part is being made already.
        """
        renewal, run = renewal_called(name), self._finished(run_id)
        if run.table_id is None or self.store.tables[run.table_id].state is not TableState.STORED:
            raise JobError(f"The rows of this run were deleted, so nothing can be {renewal.done} again.")
        asked = json.dumps(amount or renewal.usual)
        self.engine.begin(WorkKind.REPORT, renewal_subject(run_id, renewal), asked=asked, owner=SINGLE_USER)

    def renewal(self, run_id: str, name: str) -> Work | None:
        """Return the work on a part of the report, or None if it was never started."""
        return self.engine.standing(WorkKind.REPORT, renewal_subject(run_id, renewal_called(name)))

    def renewal_minutes(self, run_id: str, name: str) -> int | None:
        """Return about how many minutes it takes, or None if that is unknown."""
        return renewal_minutes(self.settings, run_id, renewal_called(name))

    def cancel_renewal(self, run_id: str, name: str) -> None:
        """Stop that work; the report stays as it was."""
        self.engine.stop(WorkKind.REPORT, renewal_subject(run_id, renewal_called(name)))

    def certificate(self, run_id: str) -> dict[str, Any]:
        """Return the certificate of a finished run."""
        self._finished(run_id)
        return run_folder.read_json(self.folder(run_id) / "certificate.json")

    def release(self, run_id: str, *, attestations: tuple[str, ...], attested_by: str) -> str:
        """Allow the download of a run whose report was built, and return the id of the certificate.

        Parameters
        ----------
        run_id : str
        attestations : tuple of str
            The statements that the owner confirmed.
        attested_by : str
            The name of the person who confirmed them.
        """
        run = self._finished(run_id)
        if not attested_by.strip():
            raise JobError("Type your name: a person makes these statements.")
        self.stops.check(self.config_of(run_id))
        identity, digest = run_folder.certificate_id((self.folder(run_id) / "certificate.json").read_bytes())
        # After a crash this may be repeated; the state comes last, so a released run is complete.
        for charge in self.ledger.charges_of(run_id):
            if charge.state is ChargeState.SPENT:
                self.ledger.release(charge, identity)
        if not self.store.releases.of_run(run_id):
            self.store.releases.add(
                run_id=run_id,
                account_id=run.account_id,
                certificate_id=identity,
                certificate_digest=digest,
                attestations={str(place): sentence for place, sentence in enumerate(attestations, start=1)},
                who=attested_by,
            )
        self.store.work.move(run_id, WorkState.RELEASED)
        return identity

    def counts(self, run_id: str) -> Counts:
        """Return every noisy count of a finished run, from its bundle."""
        self._finished(run_id)
        return counts_of_bundle(self.folder(run_id) / "bundle.zip")

    def bundle(self, run_id: str) -> bytes:
        """Return the bundle of a released run; whether it may be downloaded is checked again."""
        return self._released(run_id, "bundle.zip")

    def rows(self, run_id: str) -> bytes:
        """Return ``synthetic.csv`` of a released run that made rows; checked as :meth:`bundle`."""
        return self._released(run_id, "synthetic.csv")

    def rows_as_declared(self, run_id: str, table: str | None = None) -> bytes:
        """Return the rows of a released run in the format of the private table; checked as :meth:`bundle`.

        Where two tables belong together, ``table`` names one of them.
        """
        self._released(run_id, "synthetic.csv")
        return rows_as_declared(self.folder(run_id) / "bundle.zip", table=table)

    def linked_file(self, run_id: str, name: str) -> bytes:
        """Return a file of one of two tables of a released run, such as ``visits.csv``; checked as :meth:`bundle`."""
        if name not in linked_files(self.config_of(run_id).schema):
            raise JobError("This run made no such table. Name one of its two tables.")
        return self._released(run_id, name)

    def model(self, run_id: str) -> bytes:
        """Return ``model.json`` of a released run that made a model; checked as :meth:`bundle`."""
        return self._released(run_id, "model.json")

    def _released(self, run_id: str, name: str) -> bytes:
        if self.store.runs[run_id].state is not WorkState.RELEASED:
            raise JobError("This run is not released yet. Read the report and seal the release first.")
        self.stops.check(self.config_of(run_id))
        return (self.folder(run_id) / name).read_bytes()

    def verify(self, bundle: BinaryIO, public_key: bytes | None = None) -> Verdict:
        """Check a bundle, and whose key signed it; it is piped to the process that checks it, not written to disk."""
        return verify(bundle, public_key)

    def _finished(self, run_id: str) -> Run:
        run = self.store.runs[run_id]
        if run.state not in (WorkState.REPORTED, WorkState.RELEASED):
            raise JobError("This run has no report yet. Wait until it has finished.")
        return run

    # Demonstration --------------------------------------------------------------------------------------------------

    def demonstration(self, which: Demonstration = NETWORK) -> tuple[ReceivedTable, RunConfig]:
        """Take in a simulated table, and return it with a configuration that runs."""
        config = demonstration_config(which)
        table = self.intake.receive(demonstration_bytes(which), account=config.account, name=which.table_name)
        return table, config
