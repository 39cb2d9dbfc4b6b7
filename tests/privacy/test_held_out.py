"""Questions about the hold-out: answered by its own rows, paid from the same budget, marked on the receipt."""

from __future__ import annotations

import numpy as np
import pytest
from questions import SIZES, small_codes, small_schema
from recorded_noise import RecordedNoise

from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.feature_maps import Constant, OneHot
from synth.privacy.receipt import Part, Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import PrivacyUnit, Schema

REGION = OneHot(("region",), (None,), (4,))
KEY = b"the key of an account in a test!"


def both(schema: Schema, n_rows: int = 400) -> dict[Part, PrivateTable]:
    codes = small_codes(n_rows)
    ids = [f"person {row // schema.unit.rows_per_unit}" for row in range(n_rows)] if schema.unit.id_column else None
    return {
        part: PrivateTable.from_codes(schema, codes, unit_ids=ids, account_key=KEY, holdout=0.25, part=part)
        for part in ("train", "holdout")
    }


def session_on(table: PrivateTable, noise: object = None) -> PrivateSession:
    budget = PrivacyBudget(1.0, 1e-5, table.schema.neighbours)
    return PrivateSession(table, budget, noise=noise or RecordedNoise(None))


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_the_hold_out_answers_with_its_own_rows(row_count: str) -> None:
    tables = both(small_schema(row_count))
    session = session_on(tables["train"])
    held = session.holdout_session(tables["holdout"], share=0.2)
    for asked, part in ((session, "train"), (held, "holdout")):
        # The same question of both parts: nothing that was counted on one side is remembered for the other.
        release = asked.noisy_sum(REGION, share=0.2, query=f"regions of {part}", source="test")
        expected = np.bincount(tables[part]._column("region"), minlength=4)
        np.testing.assert_array_equal(release.value, expected)
        assert release.receipt.part == part
    assert session.receipts == held.receipts
    assert not np.array_equal(session.sums[0].value, session.sums[1].value)


def test_costs_of_both_parts_add_up_to_the_budget() -> None:
    tables = both(small_schema())
    session = session_on(tables["train"], RecordedNoise(3))
    held = session.holdout_session(tables["holdout"], share=0.25)
    held.noisy_sum(REGION, share=1.0, query="held out", source="test")
    with pytest.raises(BudgetExceededError):
        held.noisy_sum(REGION, share=0.1, query="one more", source="test")
    with pytest.raises(BudgetExceededError):
        session.noisy_sum(REGION, share=0.8, query="too much", source="test")
    session.noisy_sum(REGION, share=session.remaining_share, query="trained on", source="test")
    first, second = session.receipts
    assert first.mu_squared_units * 3 == pytest.approx(second.mu_squared_units, rel=1e-6)
    private = [Receipt.from_dict({**receipt.to_dict(), "private": True}) for receipt in session.receipts]
    assert epsilon_of_receipts(private, 1e-5) == pytest.approx(1.0, rel=1e-3)
    assert epsilon_of_receipts(private[1:], 1e-5) < 0.9, "the hold-out's cost is a part of the whole"


def test_a_unit_of_several_rows_counts_as_often_in_the_hold_out() -> None:
    schema = small_schema("private", PrivacyUnit(rows_per_unit=3, id_column=None))
    tables = both(schema)
    session = session_on(tables["train"])
    held = session.holdout_session(tables["holdout"], share=0.5)
    assert held.noisy_sum(REGION, share=1.0, query="q", source="test").receipt.sensitivity == pytest.approx(3.0)


def test_a_private_number_of_held_out_rows_is_not_that_of_the_training_part() -> None:
    tables = both(small_schema("private"))
    session = session_on(tables["train"])
    session.count_rows(share=0.1)
    held = session.holdout_session(tables["holdout"], share=0.5)
    assert session.rows.value == tables["train"]._rows
    with pytest.raises(PrivacyError, match="has not been measured"):
        _ = held.rows


def test_what_is_no_hold_out_of_this_table_is_refused() -> None:
    tables = both(small_schema())
    other = both(small_schema("private"))
    session = session_on(tables["train"])
    for wrong in (tables["train"], other["holdout"]):
        with pytest.raises(PrivacyError, match="hold-out of the same table"):
            session.holdout_session(wrong, share=0.5)
    with pytest.raises(PrivacyError, match="hold-out of the same table"):
        session_on(tables["holdout"]).holdout_session(tables["holdout"], share=0.5)
    assert session.remaining_share == 1.0


def test_an_empty_hold_out_is_answered_like_any_other() -> None:
    schema = small_schema("private")
    codes = {name: np.zeros(2, np.int64) for name in SIZES}
    parts = [
        PrivateTable.from_codes(schema, codes, account_key=KEY, holdout=1e-9, part=part)
        for part in ("train", "holdout")
    ]
    held = session_on(parts[0]).holdout_session(parts[1], share=0.5)
    assert held.noisy_sum(Constant(), share=1.0, query="q", source="test").value.tolist() == [0.0]


def test_a_receipt_names_the_part_only_where_it_is_the_hold_out() -> None:
    tables = both(small_schema())
    session = session_on(tables["train"])
    session.holdout_session(tables["holdout"], share=0.5).noisy_sum(REGION, share=1.0, query="held out", source="test")
    session.noisy_sum(REGION, share=0.2, query="trained on", source="test")
    first, second = (receipt.to_dict() for receipt in session.receipts)
    assert first["part"] == "holdout"
    assert "part" not in second
    assert [Receipt.from_dict(one).part for one in (first, second)] == ["holdout", "train"]
    with pytest.raises(PrivacyError):
        Receipt.from_dict({**first, "part": "elsewhere"})
