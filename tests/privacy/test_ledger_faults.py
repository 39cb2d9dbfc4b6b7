"""Faults planted in the ledger, each of which a test of it has to notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import test_ledger

from synth.ledger import chain, ledger, notes
from synth.ledger.chain import Chain
from synth.ledger.ledger import Ledger
from synth.ledger.spending import Cost
from synth.store import Account, DecisionKind, Store

Plant = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[Ledger, Store, Account, pytest.MonkeyPatch], None]

FAULTS: dict[str, tuple[Plant, Check]] = {}


def fault(name: str, check: Check) -> Callable[[Plant], Plant]:
    def named(plant: Plant) -> Plant:
        FAULTS[name] = (plant, check)
        return plant

    return named


def three_charges(own: Ledger, account: Account) -> Account:
    own.release(own.spend(test_ledger.reserve(own, account, 1.0, "a")), "certificate")
    own.spend(test_ledger.reserve(own, account, 0.5, "b"))
    own.free(test_ledger.reserve(own, account, 0.25, "c"))
    return account


def no_key(own: Ledger, store: Store, account: Account, _: pytest.MonkeyPatch) -> None:
    test_ledger.test_whoever_has_no_key_cannot_make_a_chain_that_is_whole(own, store, three_charges(own, account))


def changed(statement: str) -> Check:
    where = test_ledger.CHANGED_ACCOUNTS[statement]

    def check(own: Ledger, store: Store, account: Account, _: pytest.MonkeyPatch) -> None:
        test_ledger.test_changing_the_account_behind_its_charges_is_found(
            own, store, three_charges(own, account), statement, where
        )

    return check


def another_unit(own: Ledger, store: Store, _: Account, __: pytest.MonkeyPatch) -> None:
    first, second = test_ledger.unit("person", 4, "pid"), test_ledger.unit("person", 1, "vid")
    test_ledger.test_another_unit_is_refused_inside_the_charge(own, store, first, second, "all rows of one pid")


def deleted_mark(own: Ledger, store: Store, account: Account, _: pytest.MonkeyPatch) -> None:
    test_ledger.test_a_deleted_mark_is_noticed_and_stops_the_account(own, store, account)


def earlier_limit(own: Ledger, store: Store, account: Account, _: pytest.MonkeyPatch) -> None:
    test_ledger.test_an_earlier_limit_does_not_come_back(own, store, account)


def thawed(own: Ledger, store: Store, account: Account, _: pytest.MonkeyPatch) -> None:
    test_ledger.test_a_frozen_account_cannot_be_thawed_in_the_database(own, store, account)


def unknown_marks(own: Ledger, store: Store, account: Account, _: pytest.MonkeyPatch) -> None:
    test_ledger.test_marks_of_accounts_that_the_database_does_not_know_refuse_to_start(own, store, account)


def looks(own: Ledger, store: Store, account: Account, patch: pytest.MonkeyPatch) -> None:
    test_ledger.test_only_a_run_that_differs_from_one_that_was_looked_at_was_chosen_after_looking(
        own, store, account, patch
    )


def deltas(own: Ledger, _: Store, account: Account, __: pytest.MonkeyPatch) -> None:
    test_ledger.test_deltas_of_charges_add_up_by_hand(own, account)


def capped_delta(own: Ledger, _: Store, account: Account, __: pytest.MonkeyPatch) -> None:
    test_ledger.test_deltas_alone_reach_a_cap(own, account)


@fault("a chain without a key", no_key)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chain, "keyed", lambda key, facts, own=chain.keyed: own(b"", facts))


@fault("a limit of the database believed", changed("UPDATE accounts SET epsilon_cap = 100"))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chain, "_check_account", lambda found: None)


@fault("limits left out of the chain", earlier_limit)
def _(patch: pytest.MonkeyPatch) -> None:
    decide = Ledger._decide

    def without_limits(
        self: Ledger, connection: Any, found: Chain, kind: DecisionKind, body: Any, *, who: str
    ) -> Chain:
        return found if kind is DecisionKind.CAP else decide(self, connection, found, kind, body, who=who)

    patch.setattr(Ledger, "_decide", without_limits)
    patch.setattr(chain, "_check_account", lambda found: None)


@fault("a unit of the database believed", changed("UPDATE accounts SET rows_per_unit = 9"))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chain, "_check_account", lambda found: None)


@fault("the unit not compared in the transaction that charges", another_unit)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "check_same_promise", lambda account, neighbours, unit: None)


@fault("a deleted mark made anew", deleted_mark)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "_require_mark", lambda self, found: self._marks.set(found.head))


@fault("a mark that is ahead not compared", earlier_limit)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chain, "holds", lambda self, seen: True)


@fault("a freeze that the database alone keeps", thawed)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chain, "frozen", property(lambda self: self.account.frozen))


@fault("marks of unknown accounts ignored", unknown_marks)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger.Marks, "accounts", lambda self: ())


@fault("every look counted, whatever was run", looks)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(notes, "_chosen", lambda asked: object())
    patch.setattr(notes, "_planned", lambda run, config, findings: set())


@fault("the largest delta of charges", deltas)
@fault("the largest delta of charges under a cap", capped_delta)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Cost.__add__

    def add(self: Cost, other: Cost) -> Cost:
        largest = max(self.additive_delta_units, other.additive_delta_units)
        return replace(right(self, other), additive_delta_units=largest)

    patch.setattr(Cost, "__add__", add)


@fault("charges without what they add to delta", deltas)
@fault("charges without what they add to delta under a cap", capped_delta)
def _(patch: pytest.MonkeyPatch) -> None:
    right = ledger.reservation
    patch.setattr(
        ledger, "reservation", lambda *asked, **named: replace(right(*asked, **named), additive_delta_units=0)
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed(name: str, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = FAULTS[name]
    with pytest.MonkeyPatch.context() as planted:
        plant(planted)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(Ledger(store), store, account, monkeypatch)


@pytest.mark.parametrize("name", FAULTS)
def test_without_the_fault_the_same_check_passes(
    name: str, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[name][1](Ledger(store), store, account, monkeypatch)
