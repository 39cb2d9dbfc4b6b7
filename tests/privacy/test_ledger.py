"""The ledger: it never exceeds a cap, never forgets, never gives back what was spent, and shows tampering."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import mpmath
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from synth.errors import BudgetExceededError, LedgerError, PrivacyError
from synth.ledger import chain
from synth.ledger import ledger as ledger_module
from synth.ledger.ledger import Ledger
from synth.ledger.notes import CHOSEN_AFTER_LOOKING, LOOKED_AT
from synth.ledger.spending import FINE_UNIT, Cost, fine_units_of
from synth.privacy.accounting import COORDINATE_ALLOWANCE, SLACK_ALLOWANCE, PrivacyBudget, mu_of_budget
from synth.privacy.costs import MU_UNIT
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, Charge, ChargeState, DecisionKind, Store, WorkState, promise_of_config
from synth.system.settings import Settings

PROCESSES = Path(__file__).with_name("ledger_processes.py")


def budget(epsilon: float = 1.0, delta: float = 1e-6, neighbours: Neighbours = Neighbours.REPLACE) -> PrivacyBudget:
    return PrivacyBudget(epsilon, delta, neighbours)


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def reserve(ledger: Ledger, account: Account, epsilon: float = 1.0, run_id: str = "run") -> Charge:
    return ledger.reserve(account.id, run_id, budget(epsilon), purpose="a run", who="owner")


def reserve_cells(ledger: Ledger, store: Store, account: Account, **config: object) -> Charge:
    run = store.runs.add(account_id=account.id, config=json.dumps({"protection": "cell", **config}), owner="owner")
    return ledger.reserve(account.id, run.id, budget(neighbours=Neighbours.CELL), purpose="a run")


# --- states -------------------------------------------------------------------------------------------------------


def test_a_charge_is_reserved_then_spent_then_released(ledger: Ledger, account: Account) -> None:
    charge = ledger.release(ledger.spend(reserve(ledger, account)), "certificate 7")
    assert [row.state for row in ledger.rows(account.id)] == ["reserved", "spent", "released"]
    assert ledger.current(account.id) == ledger.charges_of("run") == (charge,)
    assert charge.certificate_id == "certificate 7"
    assert (charge.position, charge.purpose, charge.who) == (3, "a run", "owner")


@pytest.mark.parametrize("state", list(ChargeState))
def test_only_the_steps_that_exist_are_taken(ledger: Ledger, account: Account, state: ChargeState) -> None:
    charge = reserve(ledger, account)
    if state in {ChargeState.SPENT, ChargeState.RELEASED, ChargeState.FAILED_SPENT}:
        charge = ledger.spend(charge)
    if state is ChargeState.RELEASED:
        charge = ledger.release(charge, "certificate")
    if state is ChargeState.FAILED_SPENT:
        charge = ledger.fail(charge)
    if state is ChargeState.FREED:
        charge = ledger.free(charge)
    assert charge.state is state

    allowed = {ChargeState.RESERVED: {"spend", "free"}, ChargeState.SPENT: {"release"}}.get(state, set())
    for step in {"spend", "free", "release"} - allowed:
        with pytest.raises(LedgerError, match=f"is {state} and cannot become"):
            getattr(ledger, step)(charge, *(["certificate"] if step == "release" else []))
    assert ledger.current(account.id) == (charge,)


def test_a_total_of_findings_alone_is_stated_at_a_delta_that_holds_it(ledger: Ledger, account: Account) -> None:
    cost = replace(Cost.of_budget(0.1, 5e-8, Neighbours.REPLACE), additive_delta_units=fine_units_of(0.49e-7))
    for place in range(5):
        ledger.reserve(account.id, f"finding {place}", budget(0.1, 1e-7), purpose="a finding", cost_of=lambda *_: cost)
        spent = ledger.spent(account.id)
        assert spent.delta == max(1e-7, 2 * (place + 1) * cost.additive_delta_units * FINE_UNIT)
        assert 0 < spent.epsilon < 0.1 * (place + 1)


def test_deltas_of_charges_add_up_by_hand(ledger: Ledger, account: Account) -> None:
    # Half of mu^2 twice is 1, and a Gaussian of mu 1 has delta 0.126936737506644 at epsilon 1.
    cost, delta = Cost(mu_squared_units=2**39, additive_delta_units=2**55, charges=1), 0.126936737506644 + 2 * 2**-5
    for name in ("one", "another"):
        ledger.reserve(account.id, name, budget(1.0, delta), purpose="a finding", cost_of=lambda *_: cost)
    spent = ledger.spent(account.id)
    assert spent.cost.additive_delta_units == 2**56
    assert spent.delta == delta
    assert spent.epsilon == pytest.approx(1.0, rel=1e-9)


def test_deltas_alone_reach_a_cap(ledger: Ledger, account: Account) -> None:
    ledger.set_cap(account.id, epsilon=4.0, delta=2**-20)
    cost = Cost(mu_squared_units=1, additive_delta_units=2**38, charges=1)  # of which four are 2^-20
    for name in ("one", "two", "three"):
        ledger.reserve(account.id, name, budget(0.1, 2**-22), purpose="a finding", cost_of=lambda *_: cost)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(account.id, "four", budget(0.1, 2**-22), purpose="a finding", cost_of=lambda *_: cost)


def test_a_stale_copy_of_a_charge_cannot_be_spent_twice(ledger: Ledger, account: Account) -> None:
    reserved = reserve(ledger, account)
    ledger.spend(reserved)
    with pytest.raises(LedgerError):
        ledger.spend(reserved)
    with pytest.raises(LedgerError):
        ledger.free(reserved)


def test_a_run_that_stops_keeps_what_it_spent_and_frees_what_it_did_not(ledger: Ledger, account: Account) -> None:
    ledger.spend(reserve(ledger, account))
    reserve(ledger, account)
    ended = ledger.settle("run")
    assert [charge.state for charge in ended] == [ChargeState.FAILED_SPENT, ChargeState.FREED]
    assert ledger.settle("run") == ()
    assert ledger.spent(account.id).charges == 1


def test_what_was_freed_does_not_count_and_everything_else_does(ledger: Ledger, account: Account) -> None:
    ledger.free(reserve(ledger, account, 4.0))
    assert ledger.spent(account.id).epsilon == 0
    reserve(ledger, account, 1.0)
    ledger.spend(reserve(ledger, account, 1.0))
    ledger.fail(ledger.spend(reserve(ledger, account, 1.0)))
    ledger.release(ledger.spend(reserve(ledger, account, 1.0)), "certificate")
    spent = ledger.spent(account.id)
    assert (spent.charges, spent.releases, spent.simple_epsilon) == (4, 1, 4.0)


def test_an_unknown_charge_is_refused(ledger: Ledger, store: Store, account: Account) -> None:
    charge = reserve(ledger, account)
    other = store.accounts.ensure("others", Neighbours.REPLACE, PrivacyUnit())[0]
    with pytest.raises(LedgerError, match="does not have this charge"):
        ledger.spend(replace(charge, account_id=other.id))


# --- neighbours, freezing -----------------------------------------------------------------------------------------


def test_neighbouring_relations_are_never_mixed(ledger: Ledger, account: Account) -> None:
    with pytest.raises(PrivacyError, match="cannot be added"):
        ledger.reserve(account.id, "run", budget(neighbours=Neighbours.ADD_REMOVE), purpose="a run")


def test_an_account_that_nobody_described_cannot_be_charged(ledger: Ledger, store: Store) -> None:
    with pytest.raises(PrivacyError, match="Describe its table first"):
        reserve(ledger, store.accounts.open("somebody"))


def test_a_frozen_account_neither_reserves_nor_spends(ledger: Ledger, store: Store, account: Account) -> None:
    charge = reserve(ledger, account)
    ledger.freeze(account.id, because="test")
    with pytest.raises(LedgerError, match="frozen"):
        reserve(ledger, account)
    with pytest.raises(LedgerError, match="frozen"):
        ledger.spend(charge)
    assert ledger.free(charge).state is ChargeState.FREED
    ledger.thaw(account.id, who="owner")
    reserve(ledger, account)


# --- amounts ------------------------------------------------------------------------------------------------------


def exact_epsilon(mu_squared: object, delta: float) -> mpmath.mpf:
    """Epsilon of a Gaussian release (Balle and Wang 2018, theorem 8) in 50 digits, by bisection."""
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.mpf(mu_squared))
        curve = lambda e: mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)  # noqa: E731
        low, high = mpmath.mpf(0), mpmath.mpf(200)
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if curve(middle) > delta else (low, middle)
        return high


def test_the_tight_total_is_the_exact_composition(ledger: Ledger, store: Store, account: Account) -> None:
    ledger.set_cap(account.id, epsilon=4.0, delta=1e-6)
    for epsilon in (1.0, 0.5, 0.25):
        reserve(ledger, account, epsilon)
    spent = ledger.spent(account.id)
    mu_squared = sum(mu_of_budget(epsilon, 1e-6) ** 2 for epsilon in (1.0, 0.5, 0.25))
    expected = float(exact_epsilon(mu_squared, 1e-6)) + 2 * 3 * SLACK_ALLOWANCE
    assert spent.epsilon == pytest.approx(expected, rel=1e-5)  # the rest is the allowance for tails
    assert spent.epsilon >= expected * (1 - 1e-9)
    assert (spent.simple_epsilon, spent.delta) == (1.75, 1e-6)


def test_amounts_are_integers_rounded_up() -> None:
    cost = Cost.of_budget(1.0, 1e-6, Neighbours.REPLACE)
    for value in (cost.mu_squared_units, cost.slack_units, cost.coordinates, cost.additive_delta_units):
        assert isinstance(value, int)
    exact = mu_of_budget(1.0, 1e-6) ** 2 / MU_UNIT
    assert 0 <= cost.mu_squared_units - exact < 1
    assert 0 <= cost.slack_units * FINE_UNIT - SLACK_ALLOWANCE < 2 * FINE_UNIT
    assert cost.coordinates == COORDINATE_ALLOWANCE
    assert fine_units_of(0.0) == 0
    assert fine_units_of(FINE_UNIT / 3) == 1


def test_amounts_survive_the_database_exactly(ledger: Ledger, account: Account) -> None:
    epsilon, delta = math.pi / 3, 1e-6 / 7
    charge = ledger.reserve(account.id, "run", budget(epsilon, delta), purpose="a run")
    assert ledger.current(account.id) == (charge,)
    assert (charge.epsilon, charge.delta) == (epsilon, delta)


def test_many_large_charges_do_not_overflow(ledger: Ledger, account: Account) -> None:
    for _ in range(5):
        reserve(ledger, account, 100.0)
    assert math.isfinite(ledger.spent(account.id).epsilon)


# --- caps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-6, 1e-9])
def test_one_charge_of_exactly_the_cap_fits(epsilon: float, delta: float) -> None:
    cost = Cost.of_budget(epsilon, delta, Neighbours.REPLACE)
    assert cost.fits(epsilon=epsilon, delta=delta)
    assert not (cost + Cost.of_budget(0.01, delta, Neighbours.REPLACE)).fits(epsilon=epsilon, delta=delta)
    assert not Cost.of_budget(epsilon * 1.0001, delta, Neighbours.REPLACE).fits(epsilon=epsilon, delta=delta)


def test_a_budget_over_the_cap_is_refused_and_the_sentence_helps(
    ledger: Ledger, store: Store, account: Account
) -> None:
    ledger.set_cap(account.id, epsilon=4.0, delta=1e-6)
    reserve(ledger, account, 2.0)
    with pytest.raises(BudgetExceededError) as caught:
        reserve(ledger, account, 4.0)
    sentence = str(caught.value)
    assert sentence.startswith("This would bring the total to 4.6")
    assert "The limit for account 'city survey' is 4.00 at delta 1e-06." in sentence
    fit = float(sentence.split("Use ")[1].split(" or less")[0])
    with pytest.raises(BudgetExceededError):
        reserve(ledger, account, fit + 0.01)
    reserve(ledger, account, fit)
    assert ledger.spent(account.id).epsilon <= 4.0


def test_a_full_account_says_that_nothing_fits(ledger: Ledger, store: Store, account: Account) -> None:
    ledger.set_cap(account.id, epsilon=1.0, delta=1e-6)
    reserve(ledger, account, 1.0)
    with pytest.raises(BudgetExceededError, match="Nothing more fits; ask for a higher limit"):
        reserve(ledger, account, 0.5)


def test_a_first_request_above_the_cap_is_told_the_cap(ledger: Ledger, store: Store, account: Account) -> None:
    ledger.set_cap(account.id, epsilon=4.0, delta=1e-6)
    with pytest.raises(BudgetExceededError, match=r"total to 4\.50\. .* Use 4\.00 or less"):
        reserve(ledger, account, 4.5)


def test_a_cap_on_delta_that_tails_alone_exceed_is_refused(ledger: Ledger, store: Store, account: Account) -> None:
    ledger.set_cap(account.id, epsilon=4.0, delta=1e-300)
    with pytest.raises(BudgetExceededError, match="limit"):
        reserve(ledger, account, 1.0)


def test_failed_runs_count_towards_the_cap_and_freed_ones_do_not(
    ledger: Ledger, store: Store, account: Account
) -> None:
    ledger.set_cap(account.id, epsilon=1.0, delta=1e-6)
    ledger.free(reserve(ledger, account, 1.0))
    ledger.fail(ledger.spend(reserve(ledger, account, 1.0)))
    with pytest.raises(BudgetExceededError):
        reserve(ledger, account, 0.01)


def test_looking_ahead_writes_nothing_and_is_right(ledger: Ledger, account: Account) -> None:
    reserve(ledger, account, 1.0)
    ahead = ledger.after(account.id, budget(1.0))
    assert ledger.head(account.id).count == 1
    reserve(ledger, account, 1.0)
    assert ledger.spent(account.id) == ahead
    assert ahead.epsilon == pytest.approx(1.4546, abs=1e-3)  # 1.44 without the allowance; the simple sum is 2


def test_without_a_cap_everything_fits(ledger: Ledger, account: Account) -> None:
    reserve(ledger, account, 50.0)
    reserve(ledger, account, 50.0)
    spent = ledger.spent(account.id)
    assert spent.epsilon > 50
    assert spent.epsilon_cap is None


# --- the chain ----------------------------------------------------------------------------------------------------


def without_triggers(store: Store, statement: str, **values: object) -> None:
    """Change the ledger as somebody with the database's password could."""
    with store.writing() as connection:
        if connection.dialect.name == "sqlite":
            names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
            for name in names:
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            for table in ("charges", "decisions", "accounts"):
                connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER ALL"))
        connection.execute(text(statement), values)


@pytest.fixture
def three_charges(ledger: Ledger, account: Account) -> Account:
    ledger.release(ledger.spend(reserve(ledger, account, 1.0, "a")), "certificate")
    ledger.spend(reserve(ledger, account, 0.5, "b"))
    ledger.free(reserve(ledger, account, 0.25, "c"))
    return account


TAMPERING = {
    "cheaper": "UPDATE charges SET mu_squared_units = mu_squared_units - 1 WHERE position = :row",
    "no slack": "UPDATE charges SET slack_units = 0 WHERE position = :row",
    "no coordinates": "UPDATE charges SET coordinates = 0 WHERE position = :row",
    "other delta": "UPDATE charges SET additive_delta_units = 5 WHERE position = :row",
    "asked for less": "UPDATE charges SET epsilon = epsilon / 2 WHERE position = :row",
    "other state": "UPDATE charges SET state = 'failed-spent' WHERE position = :row",
    "other run": "UPDATE charges SET run_id = 'x' WHERE position = :row",
    "other person": "UPDATE charges SET who = 'x' WHERE position = :row",
    "other purpose": "UPDATE charges SET purpose = 'x' WHERE position = :row",
    "other time": "UPDATE charges SET time = time - 1 WHERE position = :row",
    "other certificate": "UPDATE charges SET certificate_id = 'x' WHERE position = :row",
    "other neighbours": "UPDATE charges SET neighbours = 'add_remove' WHERE position = :row",
    "other accountant": "UPDATE charges SET accountant = 'x' WHERE position = :row",
    "other digest": "UPDATE charges SET digest = previous WHERE position = :row",
    "other link": "UPDATE charges SET previous = digest WHERE position = :row",
    "other charge": "UPDATE charges SET charge_id = 'x' WHERE position = :row",
}


@pytest.mark.parametrize(
    ("statement", "row"),
    [*((statement, 4) for statement in TAMPERING.values()), *((TAMPERING["cheaper"], row) for row in (1, 7))],
    ids=[*TAMPERING, "first row", "last row"],
)
def test_tampering_with_any_row_is_found(
    ledger: Ledger, store: Store, three_charges: Account, statement: str, row: int
) -> None:
    ledger.heads()
    without_triggers(store, statement, row=row)
    with pytest.raises(LedgerError, match=f"'city survey' was altered at row {row}"):
        ledger.heads()
    for action in (
        lambda: ledger.head(three_charges.id),
        lambda: reserve(ledger, three_charges),
        lambda: ledger.settle("b"),
    ):
        with pytest.raises(LedgerError, match="altered"):
            action()


@pytest.mark.parametrize("row", [1, 4, 6])
def test_removing_a_row_is_found(ledger: Ledger, store: Store, three_charges: Account, row: int) -> None:
    without_triggers(store, "DELETE FROM charges WHERE position = :row", row=row)
    with pytest.raises(LedgerError, match=f"altered at row {row}"):
        ledger.chain(three_charges.id)
    without_triggers(store, "UPDATE charges SET position = position - 1 WHERE position > :row", row=row)
    with pytest.raises(LedgerError, match=f"altered at row {row}"):
        ledger.chain(three_charges.id)


@pytest.mark.parametrize("run_id", ["a", "b"])
def test_removing_a_whole_charge_is_found(ledger: Ledger, store: Store, three_charges: Account, run_id: str) -> None:
    without_triggers(store, "DELETE FROM charges WHERE run_id = :run_id", run_id=run_id)
    with pytest.raises(LedgerError, match=f"altered at row {1 if run_id == 'a' else 4}"):
        ledger.chain(three_charges.id)


CHANGED_ACCOUNTS = {
    "UPDATE accounts SET neighbours = 'add_remove'": "in its protected unit",
    "UPDATE accounts SET protects = 'household'": "in its protected unit",
    "UPDATE accounts SET rows_per_unit = 9": "in its protected unit",
    "UPDATE accounts SET id_column = 'vid', rows_per_unit = NULL": "in its protected unit",
    "UPDATE accounts SET epsilon_cap = 100": "in its limit",
    "UPDATE accounts SET epsilon_cap = NULL, delta_cap = NULL": "in its limit",
    "UPDATE accounts SET name = 'others'": "at decision 1",
    "UPDATE decisions SET body = '{\"delta\": 1e-06, \"epsilon\": 100.0}' WHERE kind = 'cap'": "at decision 2",
    "UPDATE decisions SET who = 'x' WHERE kind = 'cap'": "at decision 2",
    "UPDATE decisions SET kind = 'thawed' WHERE kind = 'cap'": "at decision 2",
    "UPDATE decisions SET kind = 'x' WHERE kind = 'cap'": "beyond reading",
    "UPDATE charges SET state = 'x' WHERE position = 1": "beyond reading",
    "UPDATE decisions SET charges = 99 WHERE kind = 'cap'": "at row",
    "DELETE FROM decisions WHERE kind = 'unit'": "at row 1",
    "DELETE FROM decisions": "at row 1",
}


@pytest.mark.parametrize(("statement", "where"), CHANGED_ACCOUNTS.items(), ids=[*CHANGED_ACCOUNTS])
def test_changing_the_account_behind_its_charges_is_found(
    ledger: Ledger, store: Store, three_charges: Account, statement: str, where: str
) -> None:
    ledger.set_cap(three_charges.id, epsilon=4.0, delta=1e-6, who="owner")
    ledger.spend(reserve(ledger, three_charges, 0.5, "d"))
    ledger.heads()
    without_triggers(store, statement)
    with pytest.raises(LedgerError, match=f"altered {where}"):
        ledger.heads()
    with pytest.raises(LedgerError, match="altered"):
        reserve(ledger, three_charges)
    Ledger(store)  # opening it again takes nothing over
    with pytest.raises(LedgerError, match="altered"):
        ledger.heads()


def test_an_earlier_limit_does_not_come_back(ledger: Ledger, store: Store, account: Account) -> None:
    """Removing the last decision and giving the account its limit of before leaves a whole chain: the mark tells."""
    ledger.set_cap(account.id, epsilon=8.0, delta=1e-6)
    ledger.set_cap(account.id, epsilon=1.0, delta=1e-6)
    without_triggers(store, "DELETE FROM decisions WHERE number = 2")
    without_triggers(store, "UPDATE accounts SET epsilon_cap = 8")
    ledger.chain(account.id)
    with pytest.raises(LedgerError, match="lacks charges that were already spent, or was altered"):
        ledger.check_whole(account.id)
    with pytest.raises(LedgerError, match="frozen"):
        reserve(ledger, account)


def test_whoever_has_no_key_cannot_make_a_chain_that_is_whole(
    ledger: Ledger, store: Store, three_charges: Account
) -> None:
    """With the code, the database and another installation's key a cheaper history is written; it does not verify."""
    stranger = os.urandom(32)
    own = ledger.chain(three_charges.id)
    forged = chain.verify(three_charges, (), (), stranger)
    forged = forged.with_decision(DecisionKind.UNIT, own.decisions[0].body, who="")
    for charge in own.charges:
        forged = forged.with_charge(replace(charge, mu_squared_units=1))
    assert chain.verify(three_charges, forged.charges, forged.decisions, stranger).was_spent
    with pytest.raises(LedgerError, match="altered"):
        chain.verify(three_charges, forged.charges, forged.decisions, own.key)


def test_a_forged_step_with_right_digests_is_found(ledger: Ledger, account: Account) -> None:
    """Whoever recomputes the digests still cannot give back what was spent, or make a charge cheaper on its way."""
    spent = ledger.spend(reserve(ledger, account))
    own = ledger.chain(account.id)
    for forged in (
        replace(spent, state=ChargeState.FREED),
        replace(spent, state=ChargeState.RELEASED, mu_squared_units=0),
    ):
        with pytest.raises(LedgerError, match="altered at row 3"):
            chain.verify(account, own.with_charge(forged).charges, own.decisions, own.key)


def test_a_row_out_of_turn_is_refused_by_the_database(ledger: Ledger, store: Store, account: Account) -> None:
    charge = reserve(ledger, account)
    with pytest.raises(DBAPIError), store.writing() as connection:
        store.charges.append(connection, replace(charge, state=ChargeState.FREED))
    ledger.heads()


def test_the_head_moves_with_every_row(ledger: Ledger, account: Account) -> None:
    heads = [ledger.head(account.id)]
    charge = reserve(ledger, account)
    heads.append(ledger.head(account.id))
    ledger.spend(charge)
    heads.append(ledger.head(account.id))
    assert [head.count for head in heads] == [0, 1, 2]
    assert len({head.digest for head in heads}) == 3
    assert heads[2].digest == ledger.rows(account.id)[-1].digest


# --- recovery -----------------------------------------------------------------------------------------------------


def test_reservations_of_ended_runs_are_freed_and_nothing_else(ledger: Ledger, store: Store, account: Account) -> None:
    runs = [store.runs.add(account_id=account.id, config="{}", owner="owner") for _ in range(3)]
    ended, spent, waiting = (reserve(ledger, account, run_id=run.id) for run in runs)
    ledger.spend(spent)
    store.work.move(runs[0].id, WorkState.FAILED)
    store.work.move(runs[1].id, WorkState.FAILED)
    freed = ledger.recover()
    assert [charge.charge_id for charge in freed] == [ended.charge_id]
    assert [charge.state for charge in ledger.current(account.id)] == ["freed", "spent", "reserved"]
    assert waiting.state is ChargeState.RESERVED


def test_a_reservation_whose_run_was_never_handed_in_is_freed_later(
    ledger: Ledger, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.runs.add(account_id=account.id, config="{}", owner="owner")
    reserve(ledger, account, run_id=run.id)
    reserve(ledger, account, run_id="no run at all")
    assert ledger.recover() == ()
    later = ledger_module.now() + timedelta(hours=2)
    monkeypatch.setattr(ledger_module, "now", lambda: later)
    assert len(ledger.recover()) == 2


# --- notes --------------------------------------------------------------------------------------------------------


def planned(
    store: Store, ledger: Ledger, account: Account, monkeypatch: pytest.MonkeyPatch, *, at: int, **config: object
) -> str:
    """Plan and charge a run at a moment, in seconds."""
    moment = datetime.fromtimestamp(1_000_000_000 + at, UTC)
    monkeypatch.setattr("synth.store.runs.now", lambda: moment)
    run = store.runs.add(account_id=account.id, config=json.dumps(config), owner="owner")
    reserve(ledger, account, 0.1, run.id)
    return run.id


def look(ledger: Ledger, account: Account, run_id: str | None, monkeypatch: pytest.MonkeyPatch, *, at: int) -> None:
    monkeypatch.setattr("synth.store.entries.now", lambda: datetime.fromtimestamp(1_000_000_000 + at, UTC))
    ledger.note_owner_view(account.id, run_id=run_id, who="owner", what="report")


def test_only_a_run_that_differs_from_one_that_was_looked_at_was_chosen_after_looking(
    ledger: Ledger, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = functools.partial(planned, store, ledger, account, monkeypatch)
    first = plan(at=0, rows=100)
    before = plan(at=5, rows=200)
    look(ledger, account, first, monkeypatch, at=10)
    assert ledger.notes(account.id, run_id=first) == ()
    assert ledger.notes(account.id) == (LOOKED_AT,)
    again = plan(at=20, rows=100)
    assert ledger.notes(account.id) == (LOOKED_AT,)
    other = plan(at=30, rows=300)
    chosen = {run: ledger.notes(account.id, run_id=run) for run in (first, before, again, other)}
    assert chosen == {first: (), before: (), again: (), other: (CHOSEN_AFTER_LOOKING,)}
    assert ledger.notes(account.id) == (CHOSEN_AFTER_LOOKING,)
    look(ledger, account, other, monkeypatch, at=40)
    assert ledger.notes(account.id, run_id=plan(at=50, rows=100)) == (CHOSEN_AFTER_LOOKING,), "it came after another"


def test_a_look_in_the_same_second_and_a_look_at_an_unknown_run_count(
    ledger: Ledger, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = functools.partial(planned, store, ledger, account, monkeypatch)
    first = plan(at=0, rows=100)
    look(ledger, account, first, monkeypatch, at=10)
    assert ledger.notes(account.id, run_id=plan(at=10, rows=200)) == (CHOSEN_AFTER_LOOKING,)
    other = store.accounts.ensure("others", Neighbours.REPLACE, PrivacyUnit())[0]
    look(ledger, other, None, monkeypatch, at=0)
    assert ledger.notes(other.id, run_id=planned(store, ledger, other, monkeypatch, at=1)) == (CHOSEN_AFTER_LOOKING,)


def test_a_run_that_was_freed_was_no_choice(
    ledger: Ledger, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(ledger, account, planned(store, ledger, account, monkeypatch, at=0, rows=1), monkeypatch, at=1)
    other = planned(store, ledger, account, monkeypatch, at=2, rows=2)
    ledger.settle(other)
    assert ledger.notes(account.id) == (LOOKED_AT,)


# --- one unit -----------------------------------------------------------------------------------------------------


def unit(protects: str = "person", rows_per_unit: int = 1, id_column: str | None = None) -> dict[str, object]:
    return {"unit": {"protects": protects, "rows_per_unit": rows_per_unit, "id_column": id_column}}


def reserve_for(ledger: Ledger, store: Store, account: Account, declared: dict[str, object]) -> Charge:
    run = store.runs.add(account_id=account.id, config=json.dumps(declared), owner="owner")
    return ledger.reserve(account.id, run.id, budget(0.1), purpose="a run")


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (unit(), unit(rows_per_unit=4), "one person with one row; this run protects one person with up to 4 rows"),
        (unit(rows_per_unit=4), unit(), "one person with up to 4 rows; this run protects one person with one row"),
        (unit(), unit(id_column="pid"), "one person with one row; this run protects all rows of one pid"),
        (
            unit("person", 4, "pid"),
            unit("person", 1, "vid"),
            "all rows of one pid; this run protects all rows of one vid",
        ),
        (unit("person", 4, "pid"), unit("person", 4), "all rows of one pid; this run protects one person with up to 4"),
        (unit(), unit("household"), "protects one person; this table protects one household"),
        (unit(), {**unit(), "row_count": "private"}, "public number of rows"),
        (unit(), {**unit(), "protection": "cell"}, "protects whole rows"),
    ],
)
def test_another_unit_is_refused_inside_the_charge(
    ledger: Ledger, store: Store, first: dict[str, object], second: dict[str, object], words: str
) -> None:
    neighbours, declared = promise_of_config(json.dumps(first))
    account = store.accounts.ensure("people", neighbours, declared)[0]
    reserve_for(ledger, store, account, first)
    with pytest.raises(PrivacyError, match=words) as refusal:
        reserve_for(ledger, store, account, second)
    assert "\n" not in str(refusal.value)
    assert "account" in str(refusal.value)
    assert len(ledger.rows(account.id)) == 1
    reserve_for(ledger, store, account, first)
    assert ledger.spent(account.id).charges == 2


def test_with_an_id_column_another_cap_on_rows_adds_up(ledger: Ledger, store: Store) -> None:
    account = store.accounts.ensure("people", Neighbours.REPLACE, PrivacyUnit("patient", 4, "pid"))[0]
    for rows in (4, 1, 9):
        reserve_for(ledger, store, account, unit("patient", rows, "pid"))
    assert store.accounts[account.id].sentence == "Protects one patient: all rows of one pid"
    assert ledger.spent(account.id).charges == 3


def test_the_unit_is_the_first_entry_of_the_chain(ledger: Ledger, store: Store, account: Account) -> None:
    reserve(ledger, account)
    (first,) = ledger.chain(account.id).decisions
    assert (first.kind, first.charges) == (DecisionKind.UNIT, 0)
    assert dict(first.body) == {
        "neighbours": "replace_one",
        "protects": "person",
        "id_column": None,
        "rows_per_unit": 1,
    }


# --- cells --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cells(store: Store) -> Account:
    return store.accounts.ensure("cells", Neighbours.CELL, PrivacyUnit())[0]


def ranged(low: float, high: float) -> dict[str, object]:
    return {"cell_change": 0.1, "columns": {"age": {"type": "number", "low": low, "high": high, "step": 1}}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"label": "town"}, {"label": "sex"}, id="another label"),
        pytest.param({"label": "town"}, {}, id="no label"),
        pytest.param({}, {"cell_change": 0.5}, id="another change"),
        pytest.param(ranged(0, 100), ranged(0, 50), id="a part of another range"),
    ],
)
def test_a_charge_for_other_cells_is_refused_and_freeing_the_first_allows_it(
    ledger: Ledger, store: Store, cells: Account, first: dict[str, object], second: dict[str, object]
) -> None:
    charge = reserve_cells(ledger, store, cells, **first)
    reserve_cells(ledger, store, cells, **first)
    with pytest.raises(PrivacyError, match="protect other cells"):
        reserve_cells(ledger, store, cells, **second)
    with pytest.raises(PrivacyError, match="protect other cells"):
        ledger.check_hidden(cells.id, json.dumps(second))
    assert len(ledger.rows(cells.id)) == 2
    for own in ledger.current(cells.id):
        ledger.free(own)
    assert ledger.charges_of(charge.run_id)[0].state is ChargeState.FREED
    ledger.spend(reserve_cells(ledger, store, cells, **second))
    with pytest.raises(PrivacyError, match="protect other cells"):
        reserve_cells(ledger, store, cells, **first)


def test_other_ranges_are_the_same_cells_where_every_change_is_hidden_or_the_column_is_another(
    ledger: Ledger, store: Store, cells: Account
) -> None:
    whole = store.accounts.ensure("whole cells", Neighbours.CELL, PrivacyUnit())[0]
    for high in (50, 100):
        reserve_cells(ledger, store, whole, **{**ranged(0, high), "cell_change": 1.0})
    reserve_cells(ledger, store, cells, **ranged(0, 100))
    wage = {"wage": {"type": "number", "low": 0, "high": 9, "step": 1}, "town": {"type": "category"}}
    reserve_cells(ledger, store, cells, cell_change=0.1, columns=wage)
    assert ledger.spent(cells.id).charges == 2


def test_a_configuration_edited_afterwards_does_not_let_other_cells_in(
    ledger: Ledger, store: Store, cells: Account
) -> None:
    own = reserve_cells(ledger, store, cells, label="town", **ranged(0, 100))
    edited = json.dumps({"protection": "cell", "label": "sex", **ranged(0, 50)})
    with store.writing() as connection:
        connection.execute(text("UPDATE runs SET config = :config"), {"config": edited})
    with pytest.raises(PrivacyError, match="protect other cells"):
        ledger.check_hidden(cells.id, edited)
    with pytest.raises(PrivacyError, match="protect other cells"):
        reserve_cells(ledger, store, cells, label="sex", **ranged(0, 50))
    reserve_cells(ledger, store, cells, label="town", **ranged(0, 100))
    ledger.free(own)


def test_a_charge_for_cells_is_for_a_planned_run(ledger: Ledger, cells: Account) -> None:
    with pytest.raises(LedgerError, match="planned run"):
        ledger.reserve(cells.id, "no such run", budget(neighbours=Neighbours.CELL), purpose="a run")
    assert ledger.rows(cells.id) == ()


def test_a_charge_says_in_which_currency_it_was_worked_out(ledger: Ledger, account: Account) -> None:
    of_mu, pure = (
        ledger.reserve(account.id, name, budget(0.5, d), purpose="a run") for name, d in (("a", 1e-6), ("b", 0.0))
    )
    assert of_mu.accountant.startswith("mu^2, autodp ")
    assert (pure.accountant, pure.mu_squared_units, pure.pure_units) == ("pure epsilon", 0, 2**39)
    spent = ledger.spent(account.id)
    assert (spent.epsilon, spent.delta) == (pytest.approx(1.0, rel=1e-4), 1e-6)


# --- processes ----------------------------------------------------------------------------------------------------


def run_processes(task: str, settings: Settings, account: Account, first: int, second: int) -> list[str]:
    arguments = [task, str(settings.home), settings.database_url, account.id, str(first), str(second)]
    subprocess.run([sys.executable, str(PROCESSES), *arguments], check=True, timeout=600)
    noted = settings.home / {"race": "granted", "die": "opened"}.get(task, task)
    return noted.read_text(encoding="ascii").split()


@pytest.mark.parametrize(("cap", "attempts"), [(1.0, 13), pytest.param(4.0, 100, marks=pytest.mark.slow)])
def test_racing_processes_are_granted_exactly_what_fits(
    ledger: Ledger, store: Store, settings: Settings, account: Account, cap: float, attempts: int
) -> None:
    ledger.set_cap(account.id, epsilon=cap, delta=1e-6)
    fits = 0
    total = Cost()
    while (total := total + Cost.of_budget(0.25, 1e-6, Neighbours.REPLACE)).fits(epsilon=cap, delta=1e-6):
        fits += 1
    granted = run_processes("race", settings, account, 4, attempts)
    assert 10 <= fits < 4 * attempts
    assert len(granted) == fits
    assert {charge.charge_id for charge in ledger.current(account.id)} == set(granted)
    assert {charge.state for charge in ledger.current(account.id)} == {ChargeState.SPENT}
    assert ledger.spent(account.id).epsilon <= cap
    ledger.heads()


def test_racing_runs_of_other_labels_never_share_an_account_of_cells(
    ledger: Ledger, settings: Settings, account: Account
) -> None:
    granted = [line.split(":") for line in run_processes("labels", settings, account, 3, 8)]
    labels = {identity: {label for own, label in granted if own == identity} for identity, _ in granted}
    assert len(labels) == 8
    assert all(len(found) == 1 for found in labels.values())
    for identity in labels:
        assert ledger.spent(identity).charges == 1


def test_killing_the_spender_at_random_never_loses_a_charge(
    ledger: Ledger, settings: Settings, account: Account
) -> None:
    opened = run_processes("die", settings, account, 20, 5)
    ledger.heads()
    states = {charge.charge_id: charge.state for charge in ledger.current(account.id)}
    counted = {ChargeState.SPENT, ChargeState.RELEASED}
    assert len(opened) >= 5  # the test would prove nothing had no process got so far
    assert all(states[charge_id] in counted for charge_id in opened)
    assert sum(state is not ChargeState.FREED for state in states.values()) == ledger.spent(account.id).charges
    assert ledger.spent(account.id).charges >= len(opened)
    ledger.check_whole(account.id)  # wherever it was killed, mark and chain still vouch for each other


def test_pure_epsilon_is_in_the_chain(ledger: Ledger, store: Store) -> None:
    cells = store.accounts.ensure("cells", Neighbours.CELL, PrivacyUnit())[0]
    charge = reserve_cells(ledger, store, cells)
    assert charge.pure_units == 2**40
    own = ledger.chain(cells.id)
    for units in (0, 2**39):
        with pytest.raises(LedgerError, match="altered at row 1"):
            chain.verify(cells, [replace(charge, pure_units=units)], own.decisions, own.key)


# --- marks --------------------------------------------------------------------------------------------------------


def mark_of(store: Store, account: Account) -> Path:
    return store.settings.home / "vault" / f"{account.id}.mark"


def test_a_mark_is_there_before_the_first_charge_is_spent(ledger: Ledger, store: Store, account: Account) -> None:
    charge = reserve(ledger, account)
    assert not mark_of(store, account).exists()
    ledger.spend(charge)
    assert mark_of(store, account).exists()
    ledger.check_whole(account.id)


def test_a_deleted_mark_is_noticed_and_stops_the_account(ledger: Ledger, store: Store, account: Account) -> None:
    ledger.spend(reserve(ledger, account))
    waiting = reserve(ledger, account)
    mark_of(store, account).unlink()
    with pytest.raises(LedgerError, match="mark of account 'city survey' is missing"):
        ledger.spend(waiting)
    with pytest.raises(LedgerError, match="mark of account 'city survey' is missing"):
        ledger.check_whole(account.id)
    with pytest.raises(LedgerError, match="frozen"):
        reserve(ledger, account)
    ledger.set_cap(account.id, epsilon=9.0, delta=1e-6)
    assert not mark_of(store, account).exists(), "a new limit does not vouch for the ledger"


def test_a_frozen_account_cannot_be_thawed_in_the_database(ledger: Ledger, store: Store, account: Account) -> None:
    ledger.freeze(account.id, because="restored")
    without_triggers(store, "UPDATE accounts SET frozen = FALSE")
    with pytest.raises(LedgerError, match="frozen"):
        reserve(ledger, account)


def test_marks_of_accounts_that_the_database_does_not_know_refuse_to_start(
    ledger: Ledger, store: Store, account: Account
) -> None:
    ledger.check_marks()
    ledger.spend(reserve(ledger, account))
    ledger.check_marks()
    for table in ("charges", "decisions", "accounts"):
        without_triggers(store, f"DELETE FROM {table}")  # noqa: S608 - names from the line above
    with pytest.raises(LedgerError, match="has records of spending on 1 account that is not in the database"):
        ledger.check_marks()


@pytest.mark.thorough
def test_racing_runs_of_other_units_never_share_an_account(
    ledger: Ledger, store: Store, settings: Settings, account: Account
) -> None:
    granted = [line.split(":") for line in run_processes("units", settings, account, 3, 8)]
    units = {identity: {rows for own, rows in granted if own == identity} for identity, _ in granted}
    assert len(units) == 8
    for identity, found in units.items():
        assert found == {str(store.accounts[identity].rows_per_unit)}
        assert ledger.spent(identity).charges == 1


@pytest.mark.thorough
def test_processes_that_spend_and_check_at_once_raise_no_false_alarm(
    ledger: Ledger, settings: Settings, account: Account
) -> None:
    spent = run_processes("vouch", settings, account, 3, 8)
    assert len(spent) == 24
    assert ledger.spent(account.id).charges == 24
    assert not ledger.chain(account.id).frozen
    ledger.check_whole(account.id)
