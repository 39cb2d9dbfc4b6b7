"""The composition root: the one object that the pages and the command line use."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Self

from synth.bundle.as_declared import rows_as_declared
from synth.bundle.counted import counts_of_bundle
from synth.bundle.table_files import linked_files
from synth.bundle.verify import Limits, Verdict, verify
from synth.demonstration import NETWORK, Demonstration, demonstration_bytes, demonstration_config
from synth.errors import ApprovalRequiredError, InputError, JobError, SynthError
from synth.jobs import Engine, engine_of
from synth.ledger.heads import HeadsChecked, check_heads, heads_text
from synth.ledger.notes import SEEN_ELSEWHERE
from synth.ledger.rulings import INSTALLATION, Policy, Role
from synth.names import shown
from synth.privacy.accounting import PrivacyBudget
from synth.rehearsal.rehearsals import Rehearsals
from synth.rehearsal.run_estimates import RunEstimates
from synth.reports.counted import Counts
from synth.reports.evidence import evidence_from_dict
from synth.reports.first_screen import TableRows, first_rows
from synth.reports.registry import renewal_called
from synth.schema import RunConfig, config_to_mapping
from synth.services import run_folder
from synth.services.access import ITSELF, Access, for_everyone, internal, local_user, use_case
from synth.services.approvals import Approvals, Request, limit_by_policy
from synth.services.checking_again import require_unchecked
from synth.services.comparing import Comparison, compared_runs
from synth.services.entering import Entered, enter_bundles, enter_upload
from synth.services.finding import Findings, finding_of, marked
from synth.services.incidents import code_location
from synth.services.installation import Installation
from synth.services.intake import Headers, Intake, Reading
from synth.services.planning import check_config, cost_of_run, plan_run, totals_with_another
from synth.services.previewing import Previews, with_previews
from synth.services.reports import renewal_minutes, renewal_subject
from synth.services.stops import Stops
from synth.services.trying_out import sweep_trials
from synth.services.views import (
    DECIDED_EVENTS,
    AccountView,
    DecisionView,
    LedgerRow,
    Plan,
    ReceivedTable,
    RunView,
    account_view,
    decision_view,
    event_view,
    has_spent,
    ledger_row,
    run_view,
)
from synth.store import (
    Account,
    Charge,
    ChargeState,
    Event,
    EventKind,
    LedgerHead,
    Run,
    TableState,
    Work,
    WorkKind,
    WorkState,
    display_name,
    now,
)
from synth.system.machine import require_device
from synth.system.settings import Settings

__all__ = ["Application"]


_USUAL_READING = Reading()

_OF_INSTALLATION = "users and policy"


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
        self.ledger, self.vault, self.roles = self.installation.ledger, self.installation.vault, self.installation.roles
        self.engine: Engine = engine_of(self.store)
        self._headers: Headers = {}
        self._act_for(ITSELF)

    def _act_for(self, access: Access) -> None:
        self.access = access
        owner = access.owner
        self.drafts, self.begun = self.store.drafts.of(owner), self.store.begun.of(owner)
        self.stops = Stops(self.store, access=access)
        self.approvals = Approvals(self.store, self.ledger, self.roles, access=access)
        self.rehearsals = Rehearsals(self.installation, self.engine, access=access)
        self.estimates = RunEstimates(self.installation, self.engine, access=access)
        self.intake = Intake(self.store, self.vault, self.ledger, access=access, headers=self._headers)
        self.findings = Findings(self.installation, self.engine, self.intake, access=access)
        self.previews = Previews(self.installation, self.engine, self.intake, access=access)

    @for_everyone
    def as_user(self, name: str) -> Application:
        """Return the same application as one user has it: what their roles do not allow is refused.

        Parameters
        ----------
        name : str
            As the login, or the machine, says it; where there is no login, any name.
        """
        user = copy.copy(self)
        access = Access(self.store, self.roles, user=name, login=self.settings.login is not None)
        user._act_for(access)  # noqa: SLF001 - of the same class
        return user

    @classmethod
    @for_everyone
    def from_environment(cls) -> Application:
        """Open the installation that the environment names."""
        application = cls(Settings.from_environment())
        # An account that is refused is frozen, and anyone who uses it sees why.
        application.vault.check_ledgers(account.id for account in application.store.accounts.all())
        application.engine.recover()
        application.purge()
        return application

    @classmethod
    @for_everyone
    def for_local_user(cls) -> Application:
        """Open the same for the account of this machine that runs this program."""
        return cls.from_environment().as_user(local_user())

    @internal
    def purge(self) -> None:
        """Delete what must not be kept any longer: at every start, and every so often while the server runs."""
        self.vault.purge()
        # Drafts that nobody continued are kept as long as a table.
        self.begun.forget_before(now() - timedelta(hours=self.settings.retention_hours))
        self.rehearsals.purge()
        sweep_trials(self.settings)

    @use_case(Role.ADMIN)
    def strays(self) -> tuple[Event, ...]:
        """Return what was removed: files in the vault without a record, and records without their files."""
        return self.store.events.of_kind(EventKind.STRAY_REMOVED)

    @internal
    def close(self) -> None:
        """Close the database."""
        self.installation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # Tables ---------------------------------------------------------------------------------------------------------

    @use_case(Role.OWNER, about="account")
    def note_look(self, account: str, what: str) -> None:
        """Record that the owner of an account looked at private rows outside a run."""
        opened = self.store.accounts.open(account, self.access.owner)
        self.ledger.note_owner_view(opened.id, run_id=None, who=self.access.name, what=what)

    # Accounts and the ledger ----------------------------------------------------------------------------------------

    @use_case(Role.OWNER, Role.AUDITOR, Role.ADMIN)
    def account_names(self, *, frozen: bool = False, own: bool = False) -> list[str]:
        """Return the names of the accounts, or of the frozen or the own ones, without adding up what they spent."""
        found = self.access.own(self.store.accounts.all()) if own else self._accounts()
        return [account.name for account in found if account.frozen or not frozen]

    @use_case(Role.OWNER, Role.AUDITOR, Role.ADMIN)
    def accounts(self) -> list[AccountView]:
        """Return every account with what was spent on it, by name; of an owner, their own."""
        accounts = self._accounts()
        charges = self.ledger.rows_of(tuple(account.id for account in accounts))
        return [self._view_of(account, charges[account.id]) for account in accounts]

    def _view_of(self, account: Account, charges: tuple[Charge, ...]) -> AccountView:
        """Return an account; whether another owner has taken in one of its tables is for whoever sees both."""
        view = account_view(account, charges, self.ledger, self.store)
        if SEEN_ELSEWHERE not in view.notes or self.access.sees_all:
            return view
        events = self.store.events.of_account(account.id, EventKind.SAME_TABLE)
        tables = (self.store.tables[str(event.table_id)] for event in events)
        sharing = {one.account_id for table in tables for one in (table, *self.vault.twins(table))} - {account.id}
        seen = self.access.seen(self.store.accounts[name] for name in sharing)
        return view if seen else replace(view, notes=tuple(note for note in view.notes if note != SEEN_ELSEWHERE))

    def _accounts(self) -> list[Account]:
        return self.access.seen(self.store.accounts.all())

    @use_case(Role.OWNER, Role.AUDITOR, Role.ADMIN, about="name")
    def account(self, name: str) -> AccountView:
        """Return one account.

        Raises
        ------
        InputError
            If there is no such account.
        """
        account = self._account(name)
        return self._view_of(account, self.ledger.rows(account.id))

    @use_case(Role.OWNER, about="name")
    def open_account(self, name: str) -> AccountView:
        """Return the account of this name, opened if there is none, without a cap unless the policy sets one."""
        account = self.store.accounts.open(name, self.access.owner)
        limit_by_policy(self.ledger, account, self.roles.policy())
        return self.account(name)

    @use_case(Role.ADMIN)
    def set_cap(self, name: str, epsilon: float, delta: float) -> AccountView:
        """Set the cap of an account."""
        account = self.store.accounts.open(name)
        self.ledger.set_cap(account.id, epsilon=epsilon, delta=delta, who=self.access.name)
        self.store.events.add(EventKind.CAP, account_id=account.id, who=self.access.name)
        return self.account(name)

    @use_case(Role.ADMIN)
    def hand_over(self, name: str, owner: str) -> None:
        """Give an account, with its tables, drafts and runs, to another owner.

        Raises
        ------
        InputError
            If there is no such account, or no owner of that name.
        """
        account = self._account(name)
        if Role.OWNER not in self.roles.all().get(owner, frozenset()):
            raise InputError(f"'{shown(owner)}' is no owner here. Give that user the role of owner first.")
        self.ledger.hand_over(account.id, owner, who=self.access.name)

    @use_case(Role.ADMIN)
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
        self.vault.accept_ledger(account.id, who=self.access.signed(who))
        return self.account(name)

    def _account(self, name: str) -> Account:
        account = self.store.accounts.named(name)
        if account is None:
            raise InputError(f"There is no account '{name}'. synth ledger lists the accounts.")
        return account

    @use_case(Role.OWNER, Role.AUDITOR, Role.ADMIN)
    def ledger_rows(self, account: str | None = None) -> list[LedgerRow]:
        """Return the rows of the ledger, oldest first, after checking every chain against marks and table headers.

        An owner sees those of their own accounts.
        """
        accounts = [found for found in self._accounts() if account in (None, found.name)]
        for refused in self.vault.check_ledgers(found.id for found in accounts):
            raise refused
        charges = self.ledger.rows_of(tuple(found.id for found in accounts))
        rows = [ledger_row(charge, found.name, self.store) for found in accounts for charge in charges[found.id]]
        return sorted(rows, key=lambda row: (row.time, row.account, row.sequence))

    @use_case(Role.AUDITOR, Role.ADMIN)
    def decisions(self) -> list[DecisionView]:
        """Return every decision, with who made it and when, newest first.

        Those about an account or the whole installation, the rows that were deleted, and the incidents that were
        cleared.
        """
        events = [event for kind in DECIDED_EVENTS for event in self.store.events.of_kind(kind)]
        accounts = self.store.accounts.all()
        names = {account.id: account.name for account in accounts}
        made = [
            decision_view(decision, account.name)
            for account in accounts
            for decision in self.ledger.chain(account.id).decisions
        ]
        made += [decision_view(ruling, "") for ruling in self.roles.rulings()]
        made += [event_view(event, names[event.account_id] if event.account_id else "") for event in events]
        return sorted(made, key=lambda one: one.time, reverse=True)

    # People who use it, and what they may do ------------------------------------------------------------------------

    @use_case(Role.ADMIN)
    def users(self) -> dict[str, frozenset[Role]]:
        """Return the roles of every user who has one, by name."""
        return self.roles.all()

    @use_case(Role.ADMIN)
    def give_roles(self, name: str, roles: Sequence[Role]) -> None:
        """Give a user exactly these roles.

        Raises
        ------
        InputError
            If there is no login, or nobody would be left who can give roles.
        """
        if self.access.is_single_user:
            raise InputError("Set up a login first (HERMITAGE_LOGIN): without one, nobody can be told apart here.")
        given = display_name(name, what="The user")
        others = [user for user, had in self.roles.all().items() if Role.ADMIN in had and user != given]
        if Role.ADMIN not in roles and not others:
            raise InputError("Somebody has to be an administrator. Give the role to somebody else first.")
        self.roles.give(name, roles, who=self.access.name)

    @for_everyone
    def policy(self) -> Policy:
        """Return what this installation allows."""
        return self.roles.policy()

    @use_case(Role.ADMIN)
    def set_policy(self, policy: Policy) -> None:
        """Change what this installation allows, from the next charge on."""
        self.roles.set_policy(policy, who=self.access.name)

    @use_case(Role.OWNER, about="config")
    def ask_approval(self, config: RunConfig) -> Request:
        """Ask a second person to approve a release; errors as :meth:`synth.services.approvals.Approvals.ask`."""
        return self.approvals.ask(self._as_charged(config))

    @use_case(Role.OWNER, about="config")
    def require_approval(self, config: RunConfig) -> None:
        """Ask for the approval of a release that needs one and was not asked for, and refuse it until it is there.

        Raises
        ------
        ApprovalRequiredError
            With the request.
        """
        charged = self._as_charged(config)
        if self.approvals.can_be_asked(charged, after_refusal=False):
            self.approvals.ask(charged)
        self.approvals.require(charged)

    # Runs -----------------------------------------------------------------------------------------------------------

    @use_case(Role.OWNER, about="config")
    def plan(self, config: RunConfig) -> Plan:
        """Plan a run, without reading rows or writing anything."""
        released = self.as_released(config)
        plan = plan_run(released, store=self.store, ledger=self.ledger)
        charged = self._as_charged(config)
        try:
            self.approvals.require(charged)
        except ApprovalRequiredError as error:
            return replace(plan, approval=str(error), can_ask=self.approvals.can_be_asked(charged))
        return plan

    def _as_charged(self, config: RunConfig) -> RunConfig:
        return self.as_released(marked(config, finding_of(self.installation, config)))

    @use_case(Role.OWNER, about="config")
    def as_released(self, config: RunConfig) -> RunConfig:
        """Return a configuration with the previews of its account, which its release will state too."""
        return with_previews(self.installation, config)

    @use_case(Role.OWNER, about="config")
    def totals_with_another(self, config: RunConfig, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Return what would be spent on these people after this release and another one like it, at each epsilon."""
        return totals_with_another(config, epsilons, store=self.store, ledger=self.ledger)

    @use_case(Role.OWNER, about="config")
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
        ApprovalRequiredError
            If a second person has to approve it first, or the policy does not allow it.
        BudgetExceededError
            If the account's cap would be exceeded.
        """
        check_config(config)
        require_device(config.device)
        self.stops.check(config)
        config = self._as_charged(config)
        approval = self.approvals.require(config)
        account, _ = self.store.accounts.ensure(
            config.account, config.schema.neighbours, config.schema.unit, self.access.owner
        )
        limit_by_policy(self.ledger, account, self.roles.policy())
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
            owner=self.access.name,
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
                who=self.access.name,
                cost_of=cost_of_run(config),
                approval=approval,
            )
        except SynthError as error:
            self.store.work.move(run.id, WorkState.CANCELLED, message=str(error))
            raise
        return run

    @use_case(Role.OWNER, about="config")
    def start(
        self, config: RunConfig, *, table_id: str, test_table_id: str | None = None, reading: Reading = _USUAL_READING
    ) -> str:
        """Reserve the budget, queue the run and return its id; errors as :meth:`reserve`, and if nothing can run it."""
        self.engine.capacity()
        run = self.reserve(config, table_id=table_id, test_table_id=test_table_id, reading=reading)
        return self.engine.submit(run.id, gpus=0 if config.device == "cpu" else 1)

    @use_case(Role.OWNER, Role.AUDITOR, about="run_id")
    def run(self, run_id: str) -> RunView:
        """Return the state of a run, after checking that its worker still lives."""
        self.engine.state(run_id)
        return run_view(self.installation, self.store.runs[run_id])

    @use_case(Role.OWNER, Role.AUDITOR)
    def runs(self, account: str | None = None) -> list[RunView]:
        """Return the runs, newest first; an owner sees their own."""
        self.engine.tend()
        views = [run_view(self.installation, run) for run in reversed(self._runs())]
        return [view for view in views if account in (None, view.account)]

    @use_case(Role.OWNER)
    def latest_runs(self, most: int) -> list[RunView]:
        """Return at most so many of the user's runs, newest first."""
        self.engine.tend()
        return [run_view(self.installation, run) for run in reversed(self._runs()[-most:])]

    def _runs(self) -> list[Run]:
        seen = {account.id for account in self._accounts()}
        return [run for run in self.store.runs.all() if run.account_id in seen]

    @use_case(Role.OWNER, about="table_id")
    def latest_run(self, table_id: str) -> str | None:
        """Return the latest run of a table that goes on or has a report; else the latest that spent its budget."""
        runs = self.store.runs.of_table(table_id)
        alive = [run.id for run in runs if run.state not in (WorkState.FAILED, WorkState.CANCELLED)]
        return next(reversed(alive or [run.id for run in runs if has_spent(self.ledger, run.id)]), None)

    @use_case(Role.OWNER, Role.ADMIN, about="run_id")
    def cancel(self, run_id: str) -> None:
        """Stop a run: a reservation that was not spent yet is freed, what was spent stays spent."""
        self.engine.cancel(run_id)

    @use_case(Role.OWNER, Role.AUDITOR, about="run_id")
    def config_of(self, run_id: str) -> RunConfig:
        """Return the configuration of a run."""
        return self.installation.config_of(run_id)

    @use_case(Role.OWNER, about="run_id")
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
        self.engine.begin(WorkKind.CHECK, run_id, asked=json.dumps(asdict(limits)), owner=self.access.name)

    @use_case(Role.OWNER, about="run_id")
    def checking(self, run_id: str) -> Work | None:
        """Return the latest other check of a run, or None if there was none."""
        return self.engine.standing(WorkKind.CHECK, run_id)

    @use_case(Role.OWNER, about="run_id")
    def cancel_check(self, run_id: str) -> None:
        """Stop that check; the run stays unchecked."""
        self.engine.stop(WorkKind.CHECK, run_id)

    # Reports and releases -------------------------------------------------------------------------------------------

    @use_case(Role.OWNER, about="run_id")
    def folder(self, run_id: str) -> Path:
        """Return the folder of a run's files."""
        return self.installation.folder(run_id)

    @use_case(Role.OWNER, about="run_id")
    def device_reason(self, run_id: str) -> str:
        """Return why a run got its device, in one sentence; empty before it has one."""
        with suppress(JobError):
            return str(run_folder.read_json(self.folder(run_id) / "owner" / run_folder.DEVICE).get("why", ""))
        return ""

    @use_case(Role.OWNER, about="run_id")
    def report(self, run_id: str) -> dict[str, Any]:
        """Return the publishable report of a finished run."""
        self._finished(run_id)
        return run_folder.read_json(self.folder(run_id) / "report.json")

    @use_case(Role.OWNER, about="run_id")
    def first_rows(self, run_id: str) -> TableRows:
        """Return the header and the first synthetic rows of a finished run; nothing if it made a model."""
        self._finished(run_id)
        table = self.folder(run_id) / "synthetic.csv"
        if not table.exists():
            return ()
        with table.open("rb") as stream:
            return first_rows(stream)

    @use_case(Role.OWNER)
    def compare(self, run_ids: Sequence[str]) -> Comparison:
        """Put finished runs of one account side by side; errors as :func:`synth.services.comparing.compared_runs`."""
        reports = [self.report(run_id)["evidence"] for run_id in run_ids]
        return compared_runs(
            [self.run(run_id) for run_id in run_ids],
            [[evidence_from_dict(entry) for entry in report] for report in reports],
            ledger=self.ledger,
        )

    @use_case(Role.OWNER, about="run_id")
    def owner_report(self, run_id: str) -> dict[str, Any] | None:
        """Return the owner-only report, or None if there is none; the look is recorded."""
        run = self._finished(run_id)
        path = self.folder(run_id) / "owner" / "report.json"
        if not path.exists():
            return None
        self.vault.check_ledger(run.account_id)  # which says whose account it is, whatever the database says
        self.ledger.note_owner_view(run.account_id, run_id=run_id, who=self.access.name, what="report")
        return run_folder.read_json(path)

    @use_case(Role.OWNER, about="run_id")
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
        self.engine.begin(WorkKind.REPORT, renewal_subject(run_id, renewal), asked=asked, owner=self.access.name)

    @use_case(Role.OWNER, about="run_id")
    def renewal(self, run_id: str, name: str) -> Work | None:
        """Return the work on a part of the report, or None if it was never started."""
        return self.engine.standing(WorkKind.REPORT, renewal_subject(run_id, renewal_called(name)))

    @use_case(Role.OWNER, about="run_id")
    def renewal_minutes(self, run_id: str, name: str) -> int | None:
        """Return about how many minutes it takes, or None if that is unknown."""
        return renewal_minutes(self.settings, run_id, renewal_called(name))

    @use_case(Role.OWNER, about="run_id")
    def cancel_renewal(self, run_id: str, name: str) -> None:
        """Stop that work; the report stays as it was."""
        self.engine.stop(WorkKind.REPORT, renewal_subject(run_id, renewal_called(name)))

    @use_case(Role.OWNER, Role.AUDITOR, about="run_id")
    def certificate(self, run_id: str) -> dict[str, Any]:
        """Return the certificate of a finished run."""
        self._finished(run_id)
        return run_folder.read_json(self.folder(run_id) / "certificate.json")

    @use_case(Role.OWNER, about="run_id")
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
                who=self.access.signed(attested_by),
            )
        self.store.work.move(run_id, WorkState.RELEASED)
        return identity

    @use_case(Role.OWNER, about="run_id")
    def counts(self, run_id: str) -> Counts:
        """Return every noisy count of a finished run, from its bundle."""
        self._finished(run_id)
        return counts_of_bundle(self.folder(run_id) / "bundle.zip")

    @use_case(Role.OWNER, about="run_id")
    def bundle(self, run_id: str) -> bytes:
        """Return the bundle of a released run; whether it may be downloaded is checked again."""
        return self._released(run_id, "bundle.zip")

    @use_case(Role.OWNER, about="run_id")
    def rows(self, run_id: str) -> bytes:
        """Return ``synthetic.csv`` of a released run that made rows; checked as :meth:`bundle`."""
        return self._released(run_id, "synthetic.csv")

    @use_case(Role.OWNER, about="run_id")
    def rows_as_declared(self, run_id: str, table: str | None = None) -> bytes:
        """Return the rows of a released run in the format of the private table; checked as :meth:`bundle`.

        Where two tables belong together, ``table`` names one of them.
        """
        self._released(run_id, "synthetic.csv")
        return rows_as_declared(self.folder(run_id) / "bundle.zip", table=table)

    @use_case(Role.OWNER, about="run_id")
    def linked_file(self, run_id: str, name: str) -> bytes:
        """Return a file of one of two tables of a released run, such as ``visits.csv``; checked as :meth:`bundle`."""
        if name not in linked_files(self.config_of(run_id).schema):
            raise JobError("This run made no such table. Name one of its two tables.")
        return self._released(run_id, name)

    @use_case(Role.OWNER, about="run_id")
    def model(self, run_id: str) -> bytes:
        """Return ``model.json`` of a released run that made a model; checked as :meth:`bundle`."""
        return self._released(run_id, "model.json")

    def _released(self, run_id: str, name: str) -> bytes:
        if self.store.runs[run_id].state is not WorkState.RELEASED:
            raise JobError("This run is not released yet. Read the report and seal the release first.")
        self.stops.check(self.config_of(run_id))
        return (self.folder(run_id) / name).read_bytes()

    @for_everyone
    def verify(self, bundle: BinaryIO, public_key: bytes | None = None) -> Verdict:
        """Check a bundle, and whose key signed it; it is piped to the process that checks it, not written to disk."""
        return verify(bundle, public_key)

    # Keeping the installation in order -----------------------------------------------------------------------------

    @use_case(Role.AUDITOR, Role.ADMIN)
    def heads(self) -> str:
        """Return the head of every ledger, and of the decisions about users and policy, as lines to keep elsewhere."""
        return heads_text([*((head, _OF_INSTALLATION) for head in self.roles.heads()[-1:]), *self.ledger.heads()])

    @use_case(Role.AUDITOR, Role.ADMIN)
    def check_heads(self, text: str) -> HeadsChecked:
        """Compare heads that were kept elsewhere with the ledgers as they are."""

        def links_of(identity: str) -> Sequence[LedgerHead]:
            return self.roles.heads() if identity == INSTALLATION else self.ledger.chain(identity).links

        names = {account.id: account.name for account in self.store.accounts.all()}
        return check_heads(text, names | {INSTALLATION: _OF_INSTALLATION}, links_of)

    @use_case(Role.ADMIN)
    def enter_release(self, bundle: BinaryIO, *, who: str) -> Entered:
        """Enter a release that is missing from a restored ledger.

        Parameters
        ----------
        bundle : binary file
        who : str
            Kept with the ledger.
        """
        return enter_upload(self.installation, bundle, who=self.access.signed(who))

    @use_case(Role.ADMIN)
    def enter_releases(self, paths: Sequence[str | Path]) -> list[Entered]:
        """Enter releases that are missing from a restored ledger, by bundles or by certificates beside them."""
        return enter_bundles(self.installation, paths, who=self.access.name)

    @use_case(Role.ADMIN)
    def incidents(self) -> list[Event]:
        """Return the failures inside the program, newest first: an id, the kind of error and the place in the code."""
        return list(reversed(self.store.events.of_kind(EventKind.INCIDENT)))

    @internal
    def note_incident(self, incident: str, error: BaseException) -> None:
        """Keep an incident for the list of :meth:`incidents`."""
        detail = {"incident": incident, "type": type(error).__name__, "where": code_location(error)}
        self.store.events.add(EventKind.INCIDENT, who=self.access.name, detail=detail)

    @for_everyone
    def public_key(self) -> bytes:
        """Return the public half of the key that signs every bundle, as PEM."""
        return self.keys.public_key_pem

    def _finished(self, run_id: str) -> Run:
        run = self.store.runs[run_id]
        if run.state not in (WorkState.REPORTED, WorkState.RELEASED):
            raise JobError("This run has no report yet. Wait until it has finished.")
        return run

    # Demonstration --------------------------------------------------------------------------------------------------

    @use_case(Role.OWNER)
    def demonstration(self, which: Demonstration = NETWORK) -> tuple[ReceivedTable, RunConfig]:
        """Take in a simulated table, and return it with a configuration that runs."""
        config = demonstration_config(which)
        if self.access.owner is not None:  # every owner has their own
            config = replace(config, account=f"{config.account}, {self.access.owner}")
        table = self.intake.receive(demonstration_bytes(which), account=config.account, name=which.table_name)
        return table, config
