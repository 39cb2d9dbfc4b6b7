"""What the ledger and the reader refuse although nobody may get that far: the last question before each step."""

from __future__ import annotations

import json

import numpy as np
import pytest

from synth.errors import AlreadyEnteredError, InputError, LedgerError, PrivacyError, TableError
from synth.ledger.charging import OTHER_THAN_RESERVED
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.reading import reader
from synth.schema import CategoryColumn, Neighbours, NumberColumn, PrivacyUnit
from synth.store import Account, Charge, ChargeState, DecisionKind, Store

CONFIG = {
    "account": "city survey",
    "budget": {"epsilon": 1.0, "delta": 1e-6},
    "unit": {"protects": "person", "rows_per_unit": 1},
    "row_count": "public",
}
BUDGET = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def reserve(ledger: Ledger, store: Store, of: Account, **changes: object) -> Charge:
    run = store.runs.add(account_id=of.id, config=json.dumps(CONFIG | changes), owner="owner")
    neighbours = Neighbours.CELL if changes.get("protection") == "cell" else Neighbours.REPLACE
    return ledger.reserve(of.id, run.id, PrivacyBudget(1.0, 1e-6, neighbours), purpose="a run")


@pytest.mark.parametrize(
    "change",
    [
        {"account": "another"},
        {"budget": {"epsilon": 2.0, "delta": 1e-6}},
        {"budget": {"epsilon": 1.0, "delta": 1e-5}},
        {"unit": {"protects": "person", "rows_per_unit": 2}},
        {"unit": {"protects": "person", "rows_per_unit": 1, "id_column": "pid"}},
        {"row_count": "private"},
        {"protection": "cell"},
    ],
)
def test_a_configuration_that_was_changed_after_the_reservation_is_not_carried_out(
    ledger: Ledger, store: Store, account: Account, change: dict[str, object]
) -> None:
    charge = reserve(ledger, store, account)
    with pytest.raises(LedgerError, match=OTHER_THAN_RESERVED[:30]):
        ledger.spend(charge, config=json.dumps(CONFIG | change))
    assert ledger.charges_of(charge.run_id)[0].state is ChargeState.RESERVED
    assert ledger.spend(charge, config=json.dumps(CONFIG)).state is ChargeState.SPENT


def test_other_cells_than_those_reserved_for_are_not_hidden(ledger: Ledger, store: Store) -> None:
    cells = store.accounts.ensure("cells", Neighbours.CELL, PrivacyUnit())[0]
    own = {"account": "cells", "protection": "cell", "label": "town"}
    charge = reserve(ledger, store, cells, **own)
    with pytest.raises(LedgerError, match=OTHER_THAN_RESERVED[:30]):
        ledger.spend(charge, config=json.dumps(CONFIG | own | {"label": "sex"}))
    assert ledger.spend(charge, config=json.dumps(CONFIG | own)).state is ChargeState.SPENT


@pytest.mark.parametrize(
    ("epsilon", "delta", "sentence"),
    [
        (1.0, None, "needs both numbers"),
        (None, 1e-6, "needs both numbers"),
        (0.0, 1e-6, "must be positive and finite"),
        (float("inf"), 1e-6, "must be positive and finite"),
        (1.0, 1.0, "must be more than 0 and less than 1"),
        (1.0, 0.0, "must be more than 0 and less than 1"),
    ],
)
def test_a_cap_is_two_numbers_within_their_ranges(
    ledger: Ledger, account: Account, epsilon: float | None, delta: float | None, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        ledger.set_cap(account.id, epsilon=epsilon, delta=delta)


def test_what_nobody_knows_after_a_restore_counts_as_spent(ledger: Ledger, store: Store, account: Account) -> None:
    reserved, spent = (reserve(ledger, store, account) for _ in range(2))
    spent, released = ledger.spend(spent), ledger.release(ledger.spend(reserve(ledger, store, account)), "certificate")
    states = [ledger.count_as_spent(charge).state for charge in (reserved, spent, released)]
    assert states == [ChargeState.FAILED_SPENT, ChargeState.FAILED_SPENT, ChargeState.RELEASED]
    assert ledger.spent(account.id).charges == 3


def test_a_release_that_was_lost_is_entered_once_whatever_stops_the_account(
    ledger: Ledger, store: Store, account: Account
) -> None:
    charge = ledger.release(ledger.spend(reserve(ledger, store, account)), "first")
    ledger.freeze(account.id, because="for the test")
    entered = ledger.enter_certificate(
        account.id, BUDGET, certificate_id="second", who="owner", config=json.dumps(CONFIG)
    )
    assert entered.state is ChargeState.RELEASED
    assert ledger.spent(account.id).charges == 2
    for identity, place in (("second", None), ("first", None), ("third", (charge.position, charge.digest))):
        with pytest.raises(AlreadyEnteredError, match="already in the ledger"):
            ledger.enter_certificate(account.id, BUDGET, certificate_id=identity, who="owner", charged_at=place)
    with pytest.raises(PrivacyError):
        ledger.enter_certificate(
            account.id, PrivacyBudget(1.0, 1e-6, Neighbours.CELL), certificate_id="fourth", who="owner"
        )


def test_a_lost_release_of_cells_brings_the_cells_that_it_hides(ledger: Ledger, store: Store) -> None:
    cells = store.accounts.ensure("cells", Neighbours.CELL, PrivacyUnit())[0]
    config = json.dumps(CONFIG | {"account": "cells", "protection": "cell", "label": "town"})
    budget = PrivacyBudget(1.0, 1e-6, Neighbours.CELL)
    ledger.enter_certificate(cells.id, budget, certificate_id="first", who="owner", config=config)
    assert DecisionKind.CELLS in [decision.kind for decision in ledger.chain(cells.id).decisions]
    with pytest.raises(PrivacyError, match="protect other cells"):
        reserve(ledger, store, cells, account="cells", protection="cell", label="sex")


# The reading process meets strangers' bytes, so what it answers is not believed either. ------------------------------

COLUMNS = (NumberColumn("age", 0, 9, 1), CategoryColumn("town", ("a", "b", "c")))


def batch(rows: int, *codes: list[int], hashes: bytes = b"") -> bytes:
    return rows.to_bytes(8, "little") + b"".join(np.array(one, dtype=np.uint8).tobytes() for one in codes) + hashes


@pytest.mark.parametrize(
    "body",
    [batch(2, [1, 10], [0, 1], hashes=bytes(32)), batch(2, [1, 2], [0, 1], hashes=bytes(31)), batch(2, [1, 2], [0])],
    ids=["a code beyond its column", "half a hash", "too few codes"],
)
def test_codes_that_no_reader_sends_are_not_taken(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever it says, the caller says that the file is damaged
        reader._Collected(COLUMNS, with_hashes=True).add(body)


@pytest.mark.parametrize("told", [3, 1])
def test_a_reader_that_counts_other_rows_than_it_sent_has_not_read_to_the_end(told: int) -> None:
    collected = reader._Collected(COLUMNS, with_hashes=False)
    collected.add(batch(2, [1, 2], [0, 1]))
    with pytest.raises(TableError, match="could not be read to its end"):
        collected.table({"rows": told, "lines": [0, 0], "counts": {}})
