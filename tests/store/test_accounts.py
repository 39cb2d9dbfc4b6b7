from __future__ import annotations

import pytest

from synth.errors import InputError, PrivacyError
from synth.ledger.ledger import Ledger
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, Store, display_name


def test_an_account_is_found_by_its_normal_name(store: Store, account: Account) -> None:
    again, is_new = store.accounts.ensure("  city\tsurvey ", Neighbours.REPLACE, PrivacyUnit())
    assert (again, is_new) == (account, False)


def test_an_open_account_is_decided_once(store: Store) -> None:
    opened = store.accounts.open("people")
    assert opened.neighbours is None
    decided, is_new = store.accounts.ensure("people", Neighbours.ADD_REMOVE, PrivacyUnit(protects="household"))
    assert (decided.id, is_new, decided.neighbours) == (opened.id, True, Neighbours.ADD_REMOVE)
    assert store.accounts.open("people") == decided


def test_the_neighbouring_relation_is_never_mixed(store: Store, account: Account) -> None:
    with pytest.raises(PrivacyError, match="row_count: public"):
        store.accounts.ensure(account.name, Neighbours.ADD_REMOVE, PrivacyUnit())


def test_the_protected_unit_is_never_mixed(store: Store, account: Account) -> None:
    with pytest.raises(PrivacyError, match="protects one person; this table protects one household"):
        store.accounts.ensure(account.name, Neighbours.REPLACE, PrivacyUnit(protects="household"))


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, None), (None, 1e-6), (0.0, 1e-6), (float("nan"), 1e-6), (1.0, 0.0), (1.0, 1.0)]
)
def test_a_cap_is_two_sensible_numbers_or_none(
    store: Store, account: Account, epsilon: float | None, delta: float | None
) -> None:
    with pytest.raises(InputError, match="cap"):
        Ledger(store).set_cap(account.id, epsilon=epsilon, delta=delta)
    assert store.accounts[account.id].epsilon_cap is None


def test_a_cap_is_set_and_lifted(store: Store, account: Account) -> None:
    assert Ledger(store).set_cap(account.id, epsilon=4.0, delta=1e-6).epsilon_cap == 4.0
    assert Ledger(store).set_cap(account.id, epsilon=None, delta=None) == account


def test_an_unknown_account_is_a_sentence(store: Store) -> None:
    with pytest.raises(InputError, match="no such account"):
        store.accounts["00000000-0000-0000-0000-000000000000"]


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("  a \n b  ", "a b"),
        ("ﬁle\u202ename.csv", "file name.csv"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("x" * 500, "x" * 120),
    ],
)
def test_names_have_one_normal_form(typed: str, shown: str) -> None:
    assert display_name(typed, what="The table", cut=True) == shown


def test_a_long_name_is_cut_only_where_nothing_is_told_apart_by_it() -> None:
    assert display_name("x" * 120, what="The account") == "x" * 120
    with pytest.raises(InputError, match="The account has a name of 121 characters; at most 120 are allowed"):
        display_name("x" * 121, what="The account")


@pytest.mark.parametrize("typed", ["", "  ", "\u200b\n"])
def test_a_name_needs_something_to_read(typed: str) -> None:
    with pytest.raises(InputError, match="has no name"):
        display_name(typed, what="The table")
