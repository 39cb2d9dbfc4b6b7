"""The ledger: what has been spent on a group of people, in rows that are only ever appended.

A charge is *reserved* (one transaction that holds the account and checks its cap), then *spent* (durable before any
row is read), then *released* or *failed-spent*. Only a reservation that never became spent is *freed*; nothing else is
given back, because an answer cannot be taken back. A process that dies leaves its charge where it was, which counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import Connection

from synth.errors import LedgerError
from synth.privacy import chain
from synth.privacy.budget import PrivacyBudget
from synth.privacy.cell_accounts import Cells, require_same_cells
from synth.privacy.chain import LedgerHead
from synth.privacy.charging import charge_in, latest_rows, require_open, require_same_neighbours, reservation
from synth.privacy.spending import Cost, Spent, largest_fit, over_cap_error, stays_within_cap
from synth.schema import Neighbours
from synth.store import Account, Charge, ChargeState, EventKind, RunState, Store, now

__all__ = ["CHOSEN_AFTER_LOOKING", "SEEN_ELSEWHERE", "Ledger", "LedgerHead", "Spent"]

CHOSEN_AFTER_LOOKING = "chosen after looking at private rows; the choice itself is not covered by epsilon"
SEEN_ELSEWHERE = "the same table was also taken in under another account; the two totals concern the same people"

UNSTARTED_RESERVATION = timedelta(hours=1)
"""How long a reservation may wait for a run that was never handed to an engine, before it is taken for abandoned."""


class Ledger:
    """Reserve, spend and account for privacy loss, per account.

    Every method that writes does so in one transaction that holds the account, and first verifies its hash chain.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def reserve(self, account_id: str, run_id: str, budget: PrivacyBudget, *, purpose: str, who: str = "") -> Charge:
        """Set a budget aside for a run.

        Parameters
        ----------
        account_id : str
        run_id : str
            The run (or other action) that will spend it.
        budget : PrivacyBudget
            All of it is charged, spent by the run or not.
        purpose : str
            Shown in the ledger; never a value from rows.
        who : str
            Name of the person who asked.

        Raises
        ------
        BudgetExceededError
            If the account's cap would be exceeded.
        PrivacyError
            If the budget speaks of another neighbouring relation than the account, or hides one cell and the run hides
            other cells than an earlier one.
        LedgerError
            If the account is frozen or its chain is broken, or a budget that hides one cell is for no planned run.
        """
        cost = Cost.of_budget(budget.epsilon, budget.delta, budget.neighbours)
        with self._store.writing() as connection:
            account, charges = self._locked(connection, account_id)
            require_open(account)
            require_same_neighbours(account, budget)
            if budget.neighbours is Neighbours.CELL:
                configs = self._store.runs.configs(connection, account_id)
                if run_id not in configs:
                    raise LedgerError("A budget that hides one cell is for a planned run, which says which cells.")
                require_same_cells(account, Cells.of_config(configs[run_id]), _cells_charged(charges, configs))
            before = Cost.of_charges(latest_rows(charges))
            if stays_within_cap(account, before + cost):
                return self._append(
                    connection, account, charges, reservation(account, run_id, budget, cost, purpose=purpose, who=who)
                )
        # Worked out after the transaction: saying what would fit takes longer than others should wait.
        raise over_cap_error(account, before, budget)

    def check_same_cells(self, account_id: str, config: str) -> None:
        """Refuse, before anything is reserved, what :meth:`reserve` would refuse of a run with this configuration.

        Raises
        ------
        PrivacyError
            If an earlier run of the account hides other cells.
        """
        with self._store.reading() as connection:
            account = self._store.accounts.read(connection, account_id)
            charges = self._store.charges.of_account(connection, account_id)
            configs = self._store.runs.configs(connection, account_id)
        require_same_cells(account, Cells.of_config(config), _cells_charged(charges, configs))

    def spend(self, charge: Charge) -> Charge:
        """Make a reservation final. Once this returns, the charge survives a crash or a power cut.

        Raises
        ------
        LedgerError
            If the charge is not reserved (spent before, or freed), or the account was frozen meanwhile.
        """
        return self._step(charge, ChargeState.SPENT, must_be_open=True)

    def release(self, charge: Charge, certificate_id: str) -> Charge:
        """Record that a spent charge led to a release."""
        return self._step(charge, ChargeState.RELEASED, certificate_id=certificate_id)

    def enter_certificate(self, account_id: str, budget: PrivacyBudget, *, certificate_id: str, who: str) -> Charge:
        """Record a release that the ledger has lost, from its certificate; neither a cap nor a freeze stops a fact.

        Raises
        ------
        LedgerError
            If the certificate is in the ledger already, or the chain is broken.
        """
        cost = Cost.of_budget(budget.epsilon, budget.delta, budget.neighbours)
        with self._store.writing() as connection:
            account, charges = self._locked(connection, account_id)
            require_same_neighbours(account, budget)
            if any(charge.certificate_id == certificate_id for charge in charges):
                raise LedgerError("This certificate is in the ledger already. Enter only those that are missing.")
            purpose = "entered from its certificate"
            charge = reservation(account, certificate_id, budget, cost, purpose=purpose, who=who)
            for state in (ChargeState.RESERVED, ChargeState.SPENT, ChargeState.RELEASED):
                known = certificate_id if state is ChargeState.RELEASED else None
                charge = self._append(connection, account, charges, replace(charge, state=state, certificate_id=known))
                charges = (*charges, charge)
        return charge

    def free(self, charge: Charge) -> Charge:
        """Give back a reservation that never became spent.

        Raises
        ------
        LedgerError
            If the charge was spent: the rows may have been read.
        """
        return self._step(charge, ChargeState.FREED)

    def fail(self, charge: Charge) -> Charge:
        """End the charge of a run that stopped: a spent one stays spent, one that never was is freed."""
        with self._store.writing() as connection:
            account, charges = self._locked(connection, charge.account_id)
            latest = charge_in(account, charges, charge.charge_id)
            end = {ChargeState.RESERVED: ChargeState.FREED, ChargeState.SPENT: ChargeState.FAILED_SPENT}
            if latest.state not in end:
                return latest
            return self._append(connection, account, charges, replace(latest, state=end[latest.state]))

    def settle(self, run_id: str) -> tuple[Charge, ...]:
        """End every open charge of a run that will not go on, and return them; safe to repeat."""
        return tuple(self.fail(charge) for charge in self.charges_of(run_id) if chain.SUCCESSORS[charge.state])

    def recover(self) -> tuple[Charge, ...]:
        """Free the reservations of runs that will never spend them, after a crash; spent charges are left alone.

        Returns
        -------
        tuple of Charge
            The freed ones.
        """
        freed = []
        for account in self._store.accounts.all():
            for charge in self.current(account.id):
                if charge.state is ChargeState.RESERVED and self._is_abandoned(charge):
                    freed.append(self.free(charge))
        return tuple(freed)

    def _is_abandoned(self, charge: Charge) -> bool:
        run = self._store.runs.find(charge.run_id)
        if run is not None and run.state is not RunState.PLANNED:
            return run.is_finished
        return now() - charge.time > UNSTARTED_RESERVATION

    def rows(self, account_id: str) -> tuple[Charge, ...]:
        """Return every row of an account's ledger, in order, without checking it."""
        with self._store.reading() as connection:
            return self._store.charges.of_account(connection, account_id)

    def current(self, account_id: str) -> tuple[Charge, ...]:
        """Return the latest row of each charge of an account, oldest charge first."""
        return latest_rows(self.rows(account_id))

    def charges_of(self, run_id: str) -> tuple[Charge, ...]:
        """Return the latest row of each charge of a run."""
        return latest_rows(self._store.charges.of_run(run_id))

    def spent(self, account_id: str, *, delta: float | None = None) -> Spent:
        """Return what an account has spent.

        Parameters
        ----------
        account_id : str
        delta : float, optional
            At which the exact total is stated; by default the cap's, without a cap the largest delta charged.
        """
        with self._store.reading() as connection:
            account = self._store.accounts.read(connection, account_id)
            charges = latest_rows(self._store.charges.of_account(connection, account_id))
        return Spent.of(account, charges, delta=delta)

    def after(self, account_id: str, budget: PrivacyBudget) -> Spent:
        """Return what the account will have spent once this budget is charged as well; nothing is written."""
        with self._store.reading() as connection:
            account = self._store.accounts.read(connection, account_id)
            charges = latest_rows(self._store.charges.of_account(connection, account_id))
        return Spent.of(account, charges, extra=budget)

    def largest_epsilon(self, account_id: str, *, delta: float, at_most: float = 100.0) -> float | None:
        """Return the largest epsilon, in steps of 0.01, that still fits under the cap; None when nothing does."""
        account = self._store.accounts[account_id]
        before, neighbours = Cost.of_charges(self.current(account_id)), account.neighbours or Neighbours.REPLACE
        return largest_fit(account, before, delta=delta, at_most=at_most, neighbours=neighbours)

    def head(self, account_id: str) -> LedgerHead:
        """Return the account's row count and last digest, for certificates and table headers.

        Raises
        ------
        LedgerError
            If the chain is broken.
        """
        with self._store.reading() as connection:
            return self.verified_head(connection, account_id)

    def verified_head(self, connection: Connection, account_id: str) -> LedgerHead:
        """Return the account's head inside the caller's transaction, after checking its chain."""
        account = self._store.accounts.read(connection, account_id)
        return chain.verify(account, self._store.charges.of_account(connection, account_id))

    def verify_chain(self, account_id: str | None = None) -> None:
        """Check one account's chain, or every one.

        Raises
        ------
        LedgerError
            Naming the account and the first row that was altered.
        """
        accounts = self._store.accounts.all() if account_id is None else (self._store.accounts[account_id],)
        for account in accounts:
            chain.verify(account, self.rows(account.id))

    def note_owner_view(self, account_id: str, *, run_id: str | None, who: str, what: str) -> None:
        """Record that somebody looked at owner-only numbers: every later certificate of the account says so."""
        self._store.events.add(
            EventKind.OWNER_VIEW, account_id=account_id, run_id=run_id, who=who, detail={"what": what}
        )

    def notes(self, account_id: str) -> tuple[str, ...]:
        """Return the sentences that a certificate made now has to carry."""
        notes = []
        if self._store.events.of_account(account_id, EventKind.OWNER_VIEW):
            notes.append(CHOSEN_AFTER_LOOKING)
        if self._store.events.of_account(account_id, EventKind.SAME_TABLE):
            notes.append(SEEN_ELSEWHERE)
        return tuple(notes)

    def _locked(self, connection: Connection, account_id: str) -> tuple[Account, tuple[Charge, ...]]:
        account = self._store.accounts.lock(connection, account_id)
        charges = self._store.charges.of_account(connection, account_id)
        chain.verify(account, charges)
        return account, charges

    def _step(
        self, charge: Charge, state: ChargeState, *, certificate_id: str | None = None, must_be_open: bool = False
    ) -> Charge:
        with self._store.writing() as connection:
            account, charges = self._locked(connection, charge.account_id)
            if must_be_open:
                require_open(account)
            latest = charge_in(account, charges, charge.charge_id)
            if state not in chain.SUCCESSORS[latest.state]:
                raise LedgerError(f"This charge is {latest.state} and cannot become {state}. Start a new run.")
            return self._append(
                connection, account, charges, replace(latest, state=state, certificate_id=certificate_id)
            )

    def _append(self, connection: Connection, account: Account, charges: Sequence[Charge], charge: Charge) -> Charge:
        row = chain.link(replace(charge, time=now()), chain.head_of(account, charges))
        self._store.charges.append(connection, row)
        return row


def _cells_charged(charges: Sequence[Charge], configs: Mapping[str, str]) -> list[Cells]:
    """Return what each run hides that holds or spent a charge; a release entered from its certificate has no run."""
    held = {charge.run_id for charge in latest_rows(charges) if charge.state is not ChargeState.FREED}
    return [Cells.of_config(configs[run]) for run in sorted(held) if run in configs]
