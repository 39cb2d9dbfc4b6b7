"""What findings and previews share: work on a table that is charged by itself, before a release.

Both go the same way. Whatever could be refused is refused first, and the table is read to its end as it will be asked
about; then the budget is reserved and the work begins. Its process spends the reservation before it reads a row, asks,
keeps what was answered in a folder of its own, and concludes. What each of them asks and keeps, and what becomes of it
after it was stopped, is its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self
from uuid import uuid4

from synth.errors import ApprovalRequiredError, BudgetExceededError, JobError, TableError
from synth.jobs import Engine
from synth.ledger.rulings import Role
from synth.ledger.spending import Cost, CostOf
from synth.privacy.accounting import PrivacyBudget
from synth.schema import RunConfig, Schema, TableFormat, config_to_mapping, parse_format, parse_schema
from synth.services.access import ITSELF, Access, use_case
from synth.services.approvals import limit_by_policy, require_without_approval
from synth.services.installation import Installation
from synth.services.intake import Intake, Reading
from synth.services.planning import ledger_refusal
from synth.store import Charge, ChargeState, TableState, Work, WorkKind, WorkState

__all__ = ["Beside", "EarlyCharges", "EarlyTask", "asking_only", "charge_of", "conclude", "task_of"]

_DECLARED = ("columns", "unit", "row_count", "number_of_units", "people")
_ASKED = ("account", *_DECLARED, "undeclared", "format")


def asking_only(config: RunConfig, schema: Schema) -> RunConfig:
    """Return a configuration of another schema, without what is about the release alone."""
    return replace(config.of_rows(schema), domain_source={}, found=None)


def task_of(config: RunConfig, schema: Schema, budget: PrivacyBudget, table_id: str) -> str:
    """Return what is asked of a table, as JSON; the ledger compares its account, unit and budget before they are spent.

    Parameters
    ----------
    config : RunConfig
        The planned release.
    schema : Schema
        What is asked about.
    budget : PrivacyBudget
    table_id : str
    """
    mapping = config_to_mapping(asking_only(config, schema).published())
    asked = {name: mapping[name] for name in _ASKED if name in mapping}
    spent = {"epsilon": float(budget.epsilon), "delta": float(budget.delta)}
    return json.dumps({**asked, "budget": spent, "table": table_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyTask:
    """What a piece of work was asked, read back in the process that does it.

    Attributes
    ----------
    text : str
        As :func:`task_of` wrote it.
    account, account_id : str
        The people who are charged, by name and by id.
    table_id : str
    schema : Schema
    form : TableFormat
    undeclared : {"refuse", "drop"}
    epsilon, delta : float
    """

    text: str
    account: str
    account_id: str
    table_id: str
    schema: Schema
    form: TableFormat
    undeclared: Literal["refuse", "drop"]
    epsilon: float
    delta: float

    @classmethod
    def of(cls, installation: Installation, work: Work) -> Self:
        """Read the task of a piece of work.

        Raises
        ------
        TableError
            If its table was deleted.
        """
        said: Mapping[str, Any] = json.loads(str(work.asked))
        table = installation.store.tables[str(said["table"])]
        if table.state is not TableState.STORED:
            raise TableError(f"The table of this {work.kind} was deleted. Upload it again.")
        return cls(
            text=str(work.asked),
            account=str(said["account"]),
            account_id=table.account_id,
            table_id=table.id,
            schema=parse_schema({name: said[name] for name in _DECLARED if name in said}),
            form=parse_format(said["format"]),
            undeclared=said["undeclared"],
            epsilon=float(said["budget"]["epsilon"]),
            delta=float(said["budget"]["delta"]),
        )


class Beside(NamedTuple):
    """What is spent on the same people before and after a charge, and why it would be refused, in one sentence."""

    epsilon_before: float
    epsilon_after: float
    refusal: str | None


class EarlyCharges:
    """The findings, or the previews, of one installation.

    Parameters
    ----------
    installation : Installation
    engine : Engine
        Runs them in the background.
    intake : Intake
        Reads a table to its end before anything is charged.
    """

    kind: ClassVar[WorkKind]
    purpose: ClassVar[str]
    """Shown in the ledger."""

    def __init__(self, installation: Installation, engine: Engine, intake: Intake, *, access: Access = ITSELF) -> None:
        self._installation, self._engine, self._intake, self.access = installation, engine, intake, access

    def _require_policy(self, budget: PrivacyBudget, cost_of: CostOf) -> None:
        cost = cost_of(budget.epsilon, budget.delta, budget.neighbours)
        require_without_approval(self._installation.roles.policy(), budget, cost, f"a {self.kind}")

    @use_case(Role.OWNER, about="subject")
    def standing(self, subject: str) -> Work | None:
        """Return the latest work on a subject of :class:`synth.store.WorkKind`, after tending, or None."""
        return self._engine.standing(self.kind, subject)

    @use_case(Role.OWNER, about="subject")
    def cancel(self, subject: str) -> None:
        """Stop the work on a subject: a reservation that was not spent yet is freed, what was spent stays spent."""
        self._engine.stop(self.kind, subject)

    def _beside(self, config: RunConfig, budget: PrivacyBudget, *, cost_of: CostOf = Cost.of_budget) -> Beside:
        """Return what the account of a configuration would have spent with a budget; nothing is written."""
        account, ledger = self._installation.store.accounts.named(config.account), self._installation.ledger
        found = Beside(0.0, budget.epsilon, None)
        if account is not None:
            found = Beside(
                ledger.spent(account.id).epsilon,
                ledger.after(account.id, budget, cost_of=cost_of).epsilon,
                ledger_refusal(config, account, budget, ledger, cost_of),
            )
        try:
            self._require_policy(budget, cost_of)
        except ApprovalRequiredError as error:
            return found._replace(refusal=str(error))
        return found

    def _charge(
        self,
        config: RunConfig,
        budget: PrivacyBudget,
        *,
        refusal: str | None,
        task: str,
        read_as: RunConfig,
        looked_for: str,
        table_id: str,
        reading: Reading,
        begin: Callable[[str], None],
        cost_of: CostOf = Cost.of_budget,
    ) -> str:
        """Reserve a budget and begin the work that will spend it; return its id, under which it is charged.

        Parameters
        ----------
        config : RunConfig
            The planned release, of the people who are charged.
        budget : PrivacyBudget
        refusal : str, optional
            Why it cannot start, as said beforehand.
        task : str
            As :func:`task_of` returns it.
        read_as : RunConfig
            How the table is read to its end first.
        looked_for : str
            What the owner is told of that reading is recorded as a look for this configuration, as JSON.
        table_id : str
        reading : Reading
        begin : callable
            Begins the work with this id. If it fails, nothing stays charged.
        cost_of : callable, optional
            What the budget costs, if not all of it is spent on noise.

        Raises
        ------
        SynthError
            If it is refused, or the table cannot be read; nothing is charged.
        """
        store, ledger = self._installation.store, self._installation.ledger
        self._require_policy(budget, cost_of)
        account, _ = store.accounts.ensure(
            config.account, config.schema.neighbours, config.schema.unit, self.access.owner
        )
        limit_by_policy(ledger, account, self._installation.roles.policy())
        if refusal is not None:
            raise BudgetExceededError(refusal)
        read = self._intake.check(table_id, account.id, read_as, asked=looked_for, reading=reading)
        self._installation.vault.check_ledger(account.id)
        reading.pass_on(read)
        work_id = str(uuid4())
        charge = ledger.reserve(
            account.id, work_id, budget, purpose=self.purpose, who=self.access.name, config=task, cost_of=cost_of
        )
        try:
            begin(work_id)
        except BaseException:
            ledger.fail(charge)
            raise
        return work_id

    def _begin_work(self, subject: str, task: str, *, work_id: str, start: bool) -> None:
        """Record work on a subject, to be claimed by this process or, with ``start``, done by another one."""
        self._engine.begin(self.kind, subject, asked=task, owner=self.access.name, work_id=work_id, start=start)


# In the worker --------------------------------------------------------------------------------------------------------


def charge_of(installation: Installation, work: Work, account_id: str, *states: ChargeState) -> Charge:
    """Return the charge of a piece of work to an account, in one of some states.

    Raises
    ------
    JobError
        If there is not exactly one.
    """
    charges = [charge for charge in installation.ledger.charges_of(work.id) if charge.state in states]
    if len(charges) != 1 or charges[0].account_id != account_id:
        raise JobError(f"Nothing is reserved for this {work.kind}. Start a new one.")
    return charges[0]


def conclude(installation: Installation, work: Work, charge: Charge, identity: str) -> None:
    """Record that a spent charge led to what was kept, by which certificates name it, and that the work has ended."""
    installation.ledger.release(charge, identity)
    installation.store.work.advance(work.id, WorkState.REPORTED)
