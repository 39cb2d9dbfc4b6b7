"""The ledger: what has been spent on a group of people, in append-only rows.

A charge is *reserved* (in one transaction that locks the account, compares its unit and checks its cap), then *spent*
(durable before any row is read), then *released* or *failed-spent*. Only a reservation that was never spent is *freed*;
nothing else is returned, because an answer cannot be taken back. If a process dies, its charge stays as it is and
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from synth.errors import AlreadyEnteredError, InputError, LedgerError
from synth.ledger import chain
from synth.ledger.chain import Chain
from synth.ledger.charging import (
    Approval,
    HiddenCells,
    answers_of_requests,
    approval_for,
    cells_charged,
    charge_in,
    latest_rows,
    next_row,
    require_approval,
    require_as_reserved,
    require_open,
    require_same_cells,
    require_same_neighbours,
    reservation,
    use_of,
)
from synth.ledger.heads import Marks, no_mark
from synth.ledger.notes import asked_digest, notes_of
from synth.ledger.spending import Cost, CostOf, Spent, checked_cap, over_cap_error, stays_within_cap
from synth.names import numbered
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours
from synth.store import (
    Account,
    Charge,
    ChargeState,
    DecisionKind,
    EventKind,
    LedgerHead,
    Store,
    WorkState,
    check_same_promise,
    now,
    patient,
    promise_of_config,
    remembered,
)
from synth.vault.keys import Keys, load_keys

__all__ = ["SPENT_OR_FREED", "STAYED_SPENT", "WAS_FREED", "Ledger", "Spent"]

SPENT_OR_FREED = "Only a reservation that was never spent is freed; what was spent stays spent."
"""What happens to a budget, as all screens and commands say it."""

STAYED_SPENT = "Its budget had already been spent, so it stays spent."
WAS_FREED = "Its budget had not been spent, so it was freed."
"""What happened to the budget of a run that stopped."""

UNSTARTED_RESERVATION = timedelta(hours=1)
"""How long a reservation may wait for a run to be submitted before it counts as abandoned."""


class Ledger:
    """Reserve, spend and account for privacy loss, per account.

    Every method that writes does so in one transaction that locks the account, and first checks its chain.

    Parameters
    ----------
    store : Store
    keys : Keys, optional
        The installation's; by default those of the store's home.
    """

    def __init__(self, store: Store, keys: Keys | None = None) -> None:
        self._store = store
        self._transactions = store.transactions
        own = load_keys(store.settings.home) if keys is None else keys
        self._key = own.ledger_key
        self._marks = Marks(store.settings.home / "vault", own.master)

    @patient
    def reserve(
        self,
        account_id: str,
        run_id: str,
        budget: PrivacyBudget,
        *,
        purpose: str,
        who: str = "",
        config: str | None = None,
        cost_of: CostOf = Cost.of_budget,
        approval: Approval | None = None,
    ) -> Charge:
        """Set a budget aside for a run, or for what is charged as a run is.

        Parameters
        ----------
        account_id : str
        run_id : str
            What will spend it. The unit of the planned run, or of ``config``, is compared in the same transaction;
            otherwise the account's unit is charged for.
        budget : PrivacyBudget
            All of it is charged, whether the run spends it or not.
        purpose : str
            Shown in the ledger; never a value from rows.
        who : str
            Name of the person who asked.
        config : str, optional
            What is asked for, as JSON, if it is not a planned run.
        cost_of : callable, optional
            What the budget costs, if not all of it is spent on noise.
        approval : Approval, optional
            What a second person has to have approved, of a planned run; the charge uses it.

        Raises
        ------
        ApprovalRequiredError
            If nobody has, or that approval was used.
        BudgetExceededError
            If the account's cap would be exceeded.
        PrivacyError
            If the budget has a different neighbouring relation from the account, the run protects a different unit, or
            it protects other cells than an earlier run did.
        LedgerError
            If the account is frozen or its chain is broken, or a budget for single cells is not for a planned run.
        """
        cost = cost_of(budget.epsilon, budget.delta, budget.neighbours)
        with self._store.writing() as connection:
            found = self._locked(connection, account_id)
            require_open(found)
            configs = self._store.runs.configs(connection, account_id)
            if approval is not None:
                require_approval(found, approval, configs[run_id])
            found = self._for_one_unit(connection, found, budget, configs.get(run_id, config))
            if budget.neighbours is Neighbours.CELL:
                if run_id not in configs:
                    raise LedgerError("A budget that protects one cell needs a planned run, which says which cells.")
                cells = HiddenCells.of_config(configs[run_id])
                require_same_cells(found.account, cells, cells_charged(found))
                # In the chain, because a configuration could be edited in the database.
                found = self._decide(connection, found, DecisionKind.CELLS, cells.to_body(run_id), who="")
            before = Cost.of_charges(latest_rows(found.charges))
            if stays_within_cap(found.account, before + cost):
                if approval is not None:
                    use = use_of(approval.request, configs[run_id], run_id)
                    found = self._decide(connection, found, DecisionKind.USED, use, who=who)
                charge = reservation(found.account, run_id, budget, cost, purpose=purpose, who=who)
                return self._append(connection, found, charge).charges[-1]
            account = found.account
        # After the transaction: computing what would fit takes longer than others should wait.
        raise over_cap_error(account, before, budget, cost_of)

    def _for_one_unit(self, connection: Connection, found: Chain, budget: PrivacyBudget, config: str | None) -> Chain:
        """Compare the unit of a run with that of the account, and record it before the first charge."""
        account = found.account
        if config is not None:
            neighbours, unit = promise_of_config(config)
            check_same_promise(account, neighbours, unit)
            account = self._store.accounts.settle_promise(connection, account, neighbours, unit)
        require_same_neighbours(account, budget)
        if not account.has_unit:
            raise LedgerError(
                f"The unit that the account '{account.name}' protects is not fixed. Use a new account for this run."
            )
        if found.has_unit:
            return found
        return self._decide(
            connection, replace(found, account=account), DecisionKind.UNIT, chain.unit_facts(account), who=""
        )

    @patient
    def check_hidden(self, account_id: str, config: str) -> None:
        """Refuse, before anything is reserved, a configuration that protects other cells than an earlier one did."""
        with self._store.reading() as connection:
            found = self._read(connection, self._store.accounts.read(connection, account_id))
        require_same_cells(found.account, HiddenCells.of_config(config), cells_charged(found))

    @patient
    def spend(self, charge: Charge, *, config: str | None = None) -> Charge:
        """Make a reservation final. Once this returns, the charge survives a crash or a power cut.

        Parameters
        ----------
        charge : Charge
        config : str, optional
            The configuration that is about to run, as JSON; it must still be the one that was reserved for.

        Raises
        ------
        LedgerError
            If the charge is not reserved (already spent, or freed), the account was frozen meanwhile, its mark is
            missing, or the configuration has a different budget, unit or account, or protects other cells.
        """
        with self._store.writing() as connection:
            found = self._locked(connection, charge.account_id)
            require_open(found)
            latest = next_row(found, charge, ChargeState.SPENT)
            if config is not None:
                require_as_reserved(found, latest, config)
            self._require_mark(found)
            return self._append(connection, found, latest).charges[-1]

    def release(self, charge: Charge, certificate_id: str) -> Charge:
        """Record that a spent charge led to a release."""
        return self._step(charge, ChargeState.RELEASED, certificate_id=certificate_id)

    @patient
    def enter_certificate(
        self,
        account_id: str,
        budget: PrivacyBudget,
        *,
        certificate_id: str,
        who: str,
        config: str | None = None,
        charged_at: tuple[int, str] | None = None,
        cost_of: CostOf = Cost.of_budget,
        run_id: str | None = None,
        purpose: str = "entered from its certificate",
    ) -> Charge:
        """Record a release that the ledger has lost, from its certificate; neither a cap nor a freeze stops a fact.

        Parameters
        ----------
        account_id : str
        budget : PrivacyBudget
            What the run was charged.
        certificate_id, who : str
        cost_of, run_id, purpose : optional
            As in :meth:`reserve`.
        config : str, optional
            The run's configuration as JSON, from which it is recorded as a released run; by default only the
            certificate is, and the protected cells are unknown.
        charged_at : (int, str), optional
            Position and digest of its charge, as the certificate states them: if the chain has that entry, nothing is
            missing.

        Raises
        ------
        PrivacyError
            If the certificate protects a different unit from the account.
        AlreadyEnteredError
            If the certificate is in the ledger already.
        LedgerError
            If the chain is broken.
        """
        cost = cost_of(budget.epsilon, budget.delta, budget.neighbours)
        with self._store.writing() as connection:
            found = self._locked(connection, account_id)
            if not found.was_spent and self._marks.of(account_id) is None:
                self._marks.set(found.head)
            known = {(charge.position, charge.digest) for charge in found.charges}
            if charged_at in known or any(charge.certificate_id == certificate_id for charge in found.charges):
                raise AlreadyEnteredError(
                    "This certificate is already in the ledger. Enter only those that are missing."
                )
            found = self._for_one_unit(connection, found, budget, config)
            run_id = run_id or certificate_id
            if config is not None:
                run_id = self._store.runs.enter(connection, account_id=account_id, config=config, owner=who).id
                approved = approval_for(found, config)
                if approved is not None:
                    use = use_of(approved, config, run_id)
                    found = self._decide(connection, found, DecisionKind.USED, use, who=who)
                if budget.neighbours is Neighbours.CELL:
                    cells = HiddenCells.of_config(config).to_body(run_id)
                    found = self._decide(connection, found, DecisionKind.CELLS, cells, who=who)
            charge = reservation(found.account, run_id, budget, cost, purpose=purpose, who=who)
            for state in (ChargeState.RESERVED, ChargeState.SPENT, ChargeState.RELEASED):
                identity = certificate_id if state is ChargeState.RELEASED else None
                found = self._append(connection, found, replace(charge, state=state, certificate_id=identity))
        return found.charges[-1]

    def free(self, charge: Charge) -> Charge:
        """Free a reservation that was never spent.

        Raises
        ------
        LedgerError
            If the charge was spent: the rows may have been read.
        """
        return self._step(charge, ChargeState.FREED)

    def fail(self, charge: Charge) -> Charge:
        """End the charge of a run that stopped: a spent charge stays spent, any other is freed."""
        end = {ChargeState.RESERVED: (ChargeState.FREED,), ChargeState.SPENT: (ChargeState.FAILED_SPENT,)}
        return self._end(charge, end)

    def count_as_spent(self, charge: Charge) -> Charge:
        """End a charge after a restore: it may have been spent since the backup, so it counts."""
        last = ChargeState.FAILED_SPENT
        return self._end(charge, {ChargeState.RESERVED: (ChargeState.SPENT, last), ChargeState.SPENT: (last,)})

    def settle(self, run_id: str) -> tuple[Charge, ...]:
        """End every open charge of a run that will not continue, and return them; safe to repeat."""
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
            # An altered ledger raises, which must not stop the others from being recovered.
            with suppress(LedgerError):
                for charge in self.current(account.id):
                    if charge.state is ChargeState.RESERVED and self._is_abandoned(charge):
                        freed.append(self.free(charge))
        return tuple(freed)

    def _is_abandoned(self, charge: Charge) -> bool:
        run = self._store.runs.find(charge.run_id)
        if run is not None and run.state is not WorkState.PLANNED:
            return run.is_finished
        return now() - charge.time > UNSTARTED_RESERVATION

    # Limits and freezing --------------------------------------------------------------------------------------------

    @patient
    def set_cap(self, account_id: str, *, epsilon: float | None, delta: float | None, who: str = "") -> Account:
        """Set or remove the cap, as an entry of the chain. A cap below what is spent only refuses further charges.

        Parameters
        ----------
        account_id : str
        epsilon, delta : float or None
            Both positive, or both None for no cap; ``delta`` below 1.
        who : str
            Name of the person who asked.
        """
        cap = checked_cap(epsilon, delta)
        with self._store.writing() as connection:
            found = self._decide(connection, self._locked(connection, account_id), DecisionKind.CAP, cap, who=who)
            # A mark that is ahead of the chain is never overwritten.
            marked = self._marks.of(account_id)
            was_whole = marked is None or found.holds(marked)
            account = self._store.accounts.note(
                connection, account_id, epsilon_cap=cap["epsilon"], delta_cap=cap["delta"]
            )
        if was_whole and (marked is not None or not found.was_spent):
            self.mark(account_id)
        return account

    @patient
    def note_request(self, account_id: str, body: Mapping[str, Any], *, who: str) -> None:
        """Enter what somebody asks a second person to approve; nothing is reserved."""
        with self._store.writing() as connection:
            self._decide(connection, self._locked(connection, account_id), DecisionKind.ASKED, body, who=who)

    @patient
    def answer_request(self, account_id: str, kind: DecisionKind, body: Mapping[str, Any], *, who: str) -> None:
        """Enter the approval or the refusal of a request, which is answered once, whoever else answers it meanwhile.

        Raises
        ------
        InputError
            If it was answered before.
        """
        with self._store.writing() as connection:
            found = self._locked(connection, account_id)
            before = answers_of_requests(found).get(str(body["request"]))
            if before is not None:
                raise InputError(f"Request {body['request']} was decided already: {before.kind} by {before.who}.")
            self._decide(connection, found, kind, body, who=who)

    @patient
    def hand_over(self, account_id: str, owner: str, *, who: str) -> Account:
        """Give an account, with its tables and runs, to another owner."""
        with self._store.writing() as connection:
            found = self._locked(connection, account_id)
            body = {"owner": owner, "before": found.account.owner}
            self._decide(connection, found, DecisionKind.OWNER, body, who=who)
            return self._store.accounts.note(connection, account_id, owner=owner)

    @patient
    def freeze(self, account_id: str, *, because: str, who: str = "") -> None:
        """Refuse all new charges on the account until :meth:`thaw`; safe to repeat."""
        with self._store.writing() as connection:
            found = self._locked(connection, account_id)
            if found.frozen:
                return
            self._decide(connection, found, DecisionKind.FROZEN, {"because": because}, who=who)
            self._store.accounts.note(connection, account_id, frozen=True)
        self._store.events.add(EventKind.FROZEN, account_id=account_id, who=who, detail={"because": because})

    @patient
    def thaw(self, account_id: str, *, who: str) -> None:
        """Allow charges again; who did it is recorded in the chain and as an event."""
        with self._store.writing() as connection:
            self._decide(connection, self._locked(connection, account_id), DecisionKind.THAWED, {}, who=who)
            self._store.accounts.note(connection, account_id, frozen=False)
        self._store.events.add(EventKind.THAWED, account_id=account_id, who=who)

    # The database and the marks ---------------------------------------------------------------

    @patient
    def mark(self, account_id: str) -> LedgerHead:
        """Write the account's current head into its mark, and return it."""
        with self._store.writing() as connection:
            # The account's lock keeps a slower process from writing an older head over a newer one.
            self._store.accounts.lock(connection, account_id)
            return self.mark_in(connection, account_id)

    def mark_in(self, connection: Connection, account_id: str) -> LedgerHead:
        """Do the same inside the caller's transaction, which has locked the account."""
        head = self.verified_head(connection, account_id)
        self._marks.set(head)
        return head

    def check_marks(self) -> None:
        """Refuse to continue if the vault has marks of accounts that the database does not know.

        Raises
        ------
        LedgerError
            With the number of such accounts.
        """
        marked = self._marks.accounts()  # first: an account is in the database before it is marked
        unknown = set(marked) - {account.id for account in self._store.accounts.all()}
        if unknown:
            are = "is" if len(unknown) == 1 else "are"
            raise LedgerError(
                f"The vault in {self._store.settings.home} has records of spending on "
                f"{numbered(len(unknown), 'account')} that {are} not in the database: the database was deleted, or is "
                "an older or a different one. Restore it (synth restore), or set DATABASE_URL to the right one."
            )

    def check_whole(self, account_id: str, seen: Iterable[LedgerHead] = ()) -> None:
        """Refuse to continue if the ledger lacks entries that a mark or a table's header records; freeze the account.

        Raises
        ------
        LedgerError
            If the ledger is behind or altered, or the mark of spent charges is missing.
        """
        for error in self.check_all({account_id: seen}):
            raise error

    def check_all(self, seen: Mapping[str, Iterable[LedgerHead]]) -> tuple[LedgerError, ...]:
        """Return what :meth:`check_whole` would refuse of several accounts, which are read together."""
        refused, marks = [], dict[str, LedgerHead | None]()
        # Read the marks first: rows that another process appends meanwhile must not look like missing ones.
        for account_id in seen:
            try:
                marks[account_id] = self._marks.of(account_id)
            except LedgerError as error:
                self.freeze(account_id, because="altered mark")
                refused.append(error)
        chains = self.chains(tuple(marks))
        for account_id, found in chains.items():
            mark = marks[account_id]
            try:
                if isinstance(found, LedgerError):
                    raise found
                self._check_whole(found, mark, seen[account_id])
            except LedgerError as error:
                refused.append(error)
        return tuple(refused)

    def _check_whole(self, found: Chain, mark: LedgerHead | None, seen: Iterable[LedgerHead]) -> None:
        account_id, name = found.account.id, found.account.name
        if not all(found.holds(head) for head in (*seen, *(() if mark is None else (mark,)))):
            self.freeze(account_id, because="behind")
            raise LedgerError(
                f"The ledger of account '{name}' lacks charges that were already spent, or was altered. Its tables "
                "stay closed. Restore the latest ledger, or enter the later certificates and accept it (Admin page)."
            )
        # A mark is written before the first charge is spent: if that happened meanwhile, the mark exists now.
        if mark is None and found.was_spent and self._marks.of(account_id) is None:
            self.freeze(account_id, because="no mark")
            raise LedgerError(no_mark(found.account))

    def _require_mark(self, found: Chain) -> None:
        if self._marks.of(found.account.id) is not None:
            return
        if found.was_spent:
            raise LedgerError(no_mark(found.account))
        # Before the first charge is spent, so that from then on a missing mark means a deleted one.
        self._marks.set(found.links[-1])

    # Reading --------------------------------------------------------------------------------------------------------

    def rows(self, account_id: str) -> tuple[Charge, ...]:
        """Return all rows of an account's ledger, in order, without checking the chain."""
        return self.rows_of((account_id,))[account_id]

    @remembered
    @patient
    def rows_of(self, account_ids: tuple[str, ...]) -> dict[str, tuple[Charge, ...]]:
        """Return all rows of several accounts, as :meth:`rows`."""
        with self._store.reading() as connection:
            return self._store.charges.of_accounts(connection, account_ids)

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
            At which the exact total is stated; by default the cap's, or without a cap the largest delta charged.
        """
        return Spent.of(self._store.accounts[account_id], self.current(account_id), delta=delta)

    def after(self, account_id: str, budget: PrivacyBudget, *, cost_of: CostOf = Cost.of_budget) -> Spent:
        """Return what the account would have spent after this budget (see :meth:`reserve`); nothing is written."""
        return Spent.of(self._store.accounts[account_id], self.current(account_id), extra=budget, cost_of=cost_of)

    @remembered
    @patient
    def chain(self, account_id: str) -> Chain:
        """Return the account's chain, checked.

        Raises
        ------
        LedgerError
            With the account and the first altered entry.
        """
        with self._store.reading() as connection:
            return self._read(connection, self._store.accounts.read(connection, account_id))

    @remembered
    @patient
    def chains(self, account_ids: tuple[str, ...]) -> dict[str, Chain | LedgerError]:
        """Return the chain of each account, checked, or what is wrong with it."""
        with self._store.reading() as connection:
            return self._read_all(connection, self._store.accounts.several(connection, account_ids))

    def head(self, account_id: str) -> LedgerHead:
        """Return the head of the account's chain, for table headers and marks.

        Raises
        ------
        LedgerError
            If the chain is broken.
        """
        return self.chain(account_id).head

    def verified_head(self, connection: Connection, account_id: str) -> LedgerHead:
        """Return the account's head inside the caller's transaction, after checking its chain."""
        return self._read(connection, self._store.accounts.read(connection, account_id)).head

    def heads(self) -> tuple[tuple[LedgerHead, str], ...]:
        """Return the head of every account's chain, with the account's name.

        Raises
        ------
        LedgerError
            With the first account whose chain is broken, and its first altered entry.
        """
        return tuple((self.head(account.id), account.name) for account in self._store.accounts.all())

    # Looks and notes ------------------------------------------------------------------------------------------------

    def note_owner_view(self, account_id: str, *, run_id: str | None, who: str, what: str) -> None:
        """Record a look at owner-only numbers of a run, for the certificates of later, different runs."""
        self._store.events.add(
            EventKind.OWNER_VIEW, account_id=account_id, run_id=run_id, who=who, detail={"what": what}
        )

    def note_reading(self, account_id: str, *, asked: str, who: str) -> None:
        """Record that the owner was told, before a charge, how much of a table is not as declared.

        Parameters
        ----------
        account_id : str
        asked : str
            What was going to be charged, as JSON. A run of the same configuration is not chosen after this look.
        who : str
        """
        detail = {"what": "what is not as declared", "config": asked_digest(asked)}
        self._store.events.add(EventKind.OWNER_VIEW, account_id=account_id, run_id=None, who=who, detail=detail)

    def notes(self, account_id: str, *, run_id: str | None = None) -> tuple[str, ...]:
        """Return the sentences that the certificate of a run must have, or those about the whole account.

        Parameters
        ----------
        account_id : str
        run_id : str, optional
            The run that is certified; by default all charged runs of the account.
        """
        charges = self.current(account_id)
        charged = {charge.run_id for charge in charges if charge.state is not ChargeState.FREED}
        asked = {charge.certificate_id: self._store.work.find(charge.run_id) for charge in charges}
        return notes_of(
            self._store,
            account_id,
            certified=charged if run_id is None else {run_id},
            of_one=run_id is not None,
            findings={name: work.asked for name, work in asked.items() if name and work is not None and work.asked},
        )

    # Writing --------------------------------------------------------------------------------------------------------

    def _locked(self, connection: Connection, account_id: str) -> Chain:
        return self._read(connection, self._store.accounts.lock(connection, account_id))

    def _read(self, connection: Connection, account: Account) -> Chain:
        found = self._read_all(connection, [account])[account.id]
        if isinstance(found, LedgerError):
            raise found
        return found

    def _read_all(self, connection: Connection, accounts: Sequence[Account]) -> dict[str, Chain | LedgerError]:
        names = [account.id for account in accounts]
        try:
            charges = self._store.charges.of_accounts(connection, names)
            decisions = self._store.decisions.of_accounts(connection, names)
        except (ValueError, TypeError):  # a state, kind or body that no version has written
            if len(accounts) == 1:
                return {names[0]: chain.altered(accounts[0], "beyond reading")}
            return {name: found for one in accounts for name, found in self._read_all(connection, [one]).items()}
        read: dict[str, Chain | LedgerError] = {}
        for account in accounts:
            try:
                read[account.id] = chain.verify(account, charges[account.id], decisions[account.id], self._key)
            except LedgerError as error:
                read[account.id] = error
        return read

    @patient
    def _step(self, charge: Charge, state: ChargeState, *, certificate_id: str | None = None) -> Charge:
        with self._store.writing() as connection:
            found = self._locked(connection, charge.account_id)
            row = replace(next_row(found, charge, state), certificate_id=certificate_id)
            return self._append(connection, found, row).charges[-1]

    @patient
    def _end(self, charge: Charge, end: Mapping[ChargeState, Sequence[ChargeState]]) -> Charge:
        with self._store.writing() as connection:
            found = self._locked(connection, charge.account_id)
            latest = charge_in(found.account, found.charges, charge.charge_id)
            for state in end.get(latest.state, ()):
                if state is ChargeState.SPENT:
                    self._require_mark(found)
                found = self._append(connection, found, replace(latest, state=state))
                latest = found.charges[-1]
            return latest

    def _append(self, connection: Connection, found: Chain, charge: Charge) -> Chain:
        following = found.with_charge(charge)
        self._store.charges.append(connection, following.charges[-1])
        return following

    def _decide(
        self, connection: Connection, found: Chain, kind: DecisionKind, body: Mapping[str, Any], *, who: str
    ) -> Chain:
        following = found.with_decision(kind, body, who=who)
        self._store.decisions.append(connection, following.decisions[-1])
        return following
