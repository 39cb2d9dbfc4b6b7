"""Noisy rows: how far a cell or a row moves them, what they cost, what they look like, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from candidates import candidate_of
from recorded_noise import RecordedNoise
from scipy import stats

from synth.bundle.recorded_session import RecordedSession
from synth.errors import BudgetExceededError, PrivacyError, SchemaError
from synth.generators.row_encoding import RowEncoding
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts, worth_for_a_row
from synth.privacy.costs import MU_UNIT, mu_of_pure
from synth.privacy.feature_maps import Constant, OneHot
from synth.privacy.more import perturbed_rows
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.perturbed_rows import MAXIMUM_NUMBERS
from synth.privacy.more.row_sensitivity import cell_bound, whole_table
from synth.privacy.noise import CipherStream, SystemNoise, random_order, randomised_response
from synth.privacy.receipt import Receipt, pure_units_of_receipt, units_of_receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import CategoryColumn, Neighbours, NumberColumn, PrivacyUnit, Schema, YesNoColumn

COLUMNS = (
    NumberColumn("age", 0, 100, 1),
    NumberColumn("gain", 0, 1000, 1, special=(-1.0,), missing=True),
    CategoryColumn("region", ("north", "south", "east", "west"), other=True),
    YesNoColumn("smoker"),
    CategoryColumn("outcome", ("well", "ill", "gone")),
)


def schema_of(protection: str = "record", **named: Any) -> Schema:
    return Schema(COLUMNS, protection=protection, **named)


def codes_of(schema: Schema, n_rows: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {column.name: rng.integers(0, column.size, n_rows) for column in schema.modelled}


def session_on(schema: Schema, codes: dict[str, np.ndarray], *, epsilon: float = 1.0, key: int | None = 0) -> Any:
    budget = PrivacyBudget(epsilon, 1e-5, schema.neighbours)
    return PrivateSession(PrivateTable.from_codes(schema, codes), budget, noise=RecordedNoise(key))


def tables_of(schema: Schema, *, label: str | None = "outcome") -> tuple[Lookup, ...]:
    return RowEncoding.of(schema, [name for name in schema.names if name != label]).tables


def ask(session: Any, **named: Any) -> Any:
    given: dict[str, Any] = {"label": "outcome", "share": 1.0, "query": "rows", "source": "test"}
    given |= named
    if session.schema.protection == "cell":
        given.setdefault("noise", "laplace")
    return session.perturb_rows(given.pop("tables", tables_of(session.schema, label=given["label"])), **given)


# How far a cell moves the numbers


def brute_force(lookup: Lookup, column: Any, bits: int, change: float) -> tuple[int, int, int]:
    """Compare every code with every other, or with those that a change of a number on its grid may lead to."""
    whole = whole_table(lookup, bits)
    rows = whole if lookup.bins is None else whole[lookup.bins.plain()]
    codes = np.arange(column.size)
    found = [0, 0, 0]
    for one in range(column.size):
        both = (one < column.levels) & (codes < column.levels)
        too_far = np.abs(one - codes) > max(1, math.floor(change * (column.levels - 1)))
        gaps = np.abs(rows[~(both & too_far)] - rows[one])
        of_one = gaps.sum(axis=1), gaps.max(axis=1), (gaps**2).sum(axis=1)
        found = [max(a, int(b.max())) for a, b in zip(found, of_one, strict=True)]
    return tuple(found)


@pytest.mark.parametrize("change", [1.0, 0.25, 0.001])
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_bounds_are_those_of_all_pairs_of_codes(column: Any, change: float) -> None:
    lookup = RowEncoding.of(Schema(COLUMNS), [column.name]).tables[0]
    bound = cell_bound(lookup, column, bits=12, change=change)
    assert (bound.l1, bound.largest, bound.squared) == brute_force(lookup, column, 12, change)


def test_bounds_hold_for_any_table() -> None:
    rng = np.random.default_rng(1)
    column = NumberColumn("age", 0, 30, 1, special=(-1.0, -2.0))
    for change in (1.0, 0.3):
        for width in (1, 2, 5):
            lookup = Lookup("age", rng.normal(size=(column.size, width)) / 3)
            bound = cell_bound(lookup, column, bits=14, change=change)
            exact = brute_force(lookup, column, 14, change)
            assert all(a >= b for a, b in zip((bound.l1, bound.largest, bound.squared), exact, strict=True))
            if change == 1.0:
                assert (bound.l1, bound.largest, bound.squared) == exact


def test_a_wide_one_hot_is_bounded_without_its_pairs() -> None:
    wide = CategoryColumn("town", tuple(f"town {place}" for place in range(900)))
    bound = cell_bound(Lookup("town", np.eye(900)), wide, bits=10)
    assert (bound.l1, bound.largest, bound.squared) == (2048, 1024, 2 * 1024**2)


# One cell


def test_one_cell_of_every_column_costs_the_whole_epsilon_and_no_more() -> None:
    schema = schema_of("cell")
    release = ask(session_on(schema, codes_of(schema), epsilon=0.7))
    (receipt,) = release.receipts
    assert receipt.mechanism == "discrete_laplace"
    assert receipt.neighbours is Neighbours.CELL
    assert receipt.mu_squared_units == 0
    assert receipt.pure_units <= 0.7 / MU_UNIT
    for table, cell in zip(release.question.tables, receipt.cells, strict=True):
        bound = cell_bound(table, schema.modelled_column(table.column), bits=round(-math.log2(receipt.grid)))
        assert (bound.l1, bound.l1, bound.largest) == (cell.l1, cell.row_l1, cell.row_largest)
        assert cell.l1 / cell.scale == pytest.approx(0.7, rel=1e-3)
        assert cell.l1 / cell.scale <= 0.7
    assert pure_units_of_receipt(receipt) == receipt.pure_units
    paid = Receipt.from_dict({**receipt.to_dict(), "private": True})
    assert epsilon_of_receipts([paid], 1e-9) == pytest.approx(0.7, rel=1e-3)


def test_a_category_gets_twice_the_noise_of_a_number() -> None:
    schema = schema_of("cell")
    cells = dict(zip(schema.names, ask(session_on(schema, codes_of(schema))).receipt.cells, strict=False))
    assert cells["region"].scale == 2 * cells["age"].scale
    assert cells["region"].l1 == 2 * cells["region"].row_largest


def test_a_smaller_declared_change_needs_less_noise_but_categories_and_missing_cells_do_not() -> None:
    whole, part = (schema_of("cell"), schema_of("cell", cell_change=0.1))
    cells = [
        dict(zip(one.names, ask(session_on(one, codes_of(one))).receipt.cells, strict=False)) for one in (whole, part)
    ]
    grids = [ask(session_on(one, codes_of(one))).receipt.grid for one in (whole, part)]
    ages = [cell["age"].scale * grid for cell, grid in zip(cells, grids, strict=True)]
    assert ages[1] == pytest.approx(0.1 * ages[0], rel=0.01)
    for same in ("region", "gain"):
        assert cells[1][same].scale * grids[1] == pytest.approx(cells[0][same].scale * grids[0], rel=0.01)


def test_a_row_is_worth_more_where_its_cells_are_hidden_only_in_part() -> None:
    # With its row a number may change by its whole range, ten times what is hidden of it: it tells ten times as much.
    whole, part = (schema_of("cell"), schema_of("cell", cell_change=0.1))
    worth = [worth_for_a_row([ask(session_on(one, codes_of(one))).receipt], 1e-6) for one in (whole, part)]
    assert worth[1] > worth[0] + 8.9


def test_labels_are_public_where_one_cell_is_hidden_and_the_receipt_says_so() -> None:
    schema = schema_of("cell")
    codes = codes_of(schema)
    release = ask(session_on(schema, codes))
    assert len(release.receipts) == 1
    np.testing.assert_array_equal(np.bincount(release.labels), np.bincount(codes["outcome"]))
    assert any("'outcome'" in sentence and "public" in sentence for sentence in release.receipt.assumptions)
    without = ask(session_on(schema, codes), label=None)
    assert without.labels is None
    assert len(without.receipt.cells) == 5


def test_shares_are_of_pure_epsilon_and_add() -> None:
    schema = schema_of("cell")
    session = session_on(schema, codes_of(schema))
    ask(session, share=0.25, query="a")
    ask(session, share=0.75, query="b")
    assert sum(receipt.pure_units for receipt in session.receipts) * MU_UNIT == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(BudgetExceededError):
        ask(session, share=0.01, query="c")


def test_sums_choices_and_counts_are_refused_where_one_cell_is_hidden() -> None:
    schema = schema_of("cell")
    session = session_on(schema, codes_of(schema))
    asked = {"share": 0.5, "query": "q", "source": "test"}
    smoker = OneHot(("smoker",), (None,), (2,))
    for question in (
        lambda: session.noisy_sum(smoker, **asked),
        lambda: session.noisy_sum(Constant(), **asked),
        lambda: session.noisy_max([candidate_of(("smoker",), np.zeros(2))], **asked),
        lambda: session.count_rows(share=0.5),
        lambda: ask(session, noise="gaussian"),
    ):
        with pytest.raises(PrivacyError, match=r"noisy rows|Laplace"):
            question()
    assert session.remaining_share == 1.0


@pytest.mark.parametrize(
    "named",
    [
        {"row_count": "private"},
        {"unit": PrivacyUnit(rows_per_unit=2)},
        {"cell_change": 0.0},
        {"cell_change": 1.5},
    ],
    ids=["private count", "several rows", "no change", "more than the range"],
)
def test_one_cell_wants_a_public_number_of_single_rows(named: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        schema_of("cell", **named)


# Whole rows


def test_gaussian_rows_are_scaled_to_one_whole_row() -> None:
    schema = schema_of()
    release = ask(session_on(schema, codes_of(schema)), label=None)
    (receipt,) = release.receipts
    tables = release.question.tables
    squares = [
        brute_force(table, column, round(-math.log2(receipt.grid)), 1.0)[2]
        for table, column in zip(tables, schema.modelled, strict=True)
    ]
    assert receipt.sensitivity == pytest.approx(math.sqrt(sum(squares)) * receipt.grid, rel=1e-9)
    assert receipt.dimension == sum(table.dimension for table in tables) == release.numbers.shape[1]
    assert units_of_receipt(receipt) == receipt.mu_squared_units
    assert receipt.mu_squared_units <= PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE).units
    assert receipt.slack >= 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2 * (1 - 1e-9)


def test_a_label_is_randomised_and_paid_for() -> None:
    schema = schema_of()
    release = ask(session_on(schema, codes_of(schema, 400)), label_share=0.4)
    rows, labels = release.receipts
    whole = PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE).units
    assert (labels.mechanism, labels.dimension, labels.query) == ("randomised_response", 3, "rows: labels")
    assert rows.mu_squared_units == pytest.approx(0.6 * whole, rel=1e-3)
    assert labels.mu_squared_units == pytest.approx(0.4 * whole, rel=1e-3)
    assert rows.mu_squared_units + labels.mu_squared_units <= whole
    assert mu_of_pure(labels.noise_scale) ** 2 == pytest.approx(labels.mu_squared_units * MU_UNIT, rel=1e-6)


def test_laplace_rows_pay_for_every_cell() -> None:
    schema = schema_of()
    (receipt,) = ask(session_on(schema, codes_of(schema)), label=None, noise="laplace").receipts
    assert receipt.pure_units == 0
    paid = sum(mu_of_pure(l1 / scale) ** 2 for l1, _, _, scale in receipt.cells)
    assert paid == pytest.approx(receipt.mu_squared_units * MU_UNIT, rel=1e-6)
    assert receipt.mu_squared_units == pytest.approx(PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE).units, rel=2e-3)


def test_rows_are_refused_where_their_number_is_private() -> None:
    for named in ({"row_count": "private"}, {"unit": PrivacyUnit(rows_per_unit=3)}):
        schema = schema_of(**named)
        session = session_on(schema, codes_of(schema))
        with pytest.raises(PrivacyError, match="number must be public"):
            ask(session)
        assert session.remaining_share == 1.0


def test_too_many_numbers_are_refused_before_anything_is_charged() -> None:
    column = CategoryColumn("town", tuple(f"town {place}" for place in range(1000)))
    schema = Schema((column,))
    n_rows = MAXIMUM_NUMBERS // 1000 + 1
    session = session_on(schema, {"town": np.zeros(n_rows, np.int64)})
    with pytest.raises(PrivacyError, match="at most 134,217,728"):
        ask(session, label=None)
    assert session.remaining_share == 1.0
    assert session.receipts == ()


@pytest.mark.parametrize("protection", ["record", "cell"])
def test_rows_that_are_drawn_piece_by_piece_are_those_drawn_at_once(
    protection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = schema_of(protection)
    codes = codes_of(schema)
    whole = {key: ask(session_on(schema, codes, key=key)) for key in (None, 0)}
    monkeypatch.setattr(perturbed_rows, "PIECE", 50)  # 5 rows of 10 numbers, or less than a column
    for key, expected in whole.items():
        session = session_on(schema, codes, key=key)
        found = ask(session)
        assert [one.to_dict() for one in found.receipts] == [one.to_dict() for one in expected.receipts]
        width = found.numbers.shape[1]
        drawn = [call.size for call in session._noise.calls if call.kind in ("gaussian", "laplace")]
        assert sum(drawn) == 60 * width
        assert max(drawn) <= (50 if protection == "record" else 60 * 5)
        if key is None or protection == "cell":  # Laplace noise is drawn column by column however large a piece is
            assert np.array_equal(found.numbers, expected.numbers)
            assert np.array_equal(found.labels, expected.labels)
        else:
            assert np.unique(found.numbers).size > 0.95 * found.numbers.size
            ratio = found.numbers.std() / expected.numbers.std()
            assert 0.8 < ratio < 1.25


def test_noisy_rows_cannot_be_written_to_and_are_not_copied_again() -> None:
    schema = schema_of("cell")
    release = ask(session_on(schema, codes_of(schema)))
    assert not release.numbers.flags.writeable
    same = perturbed_rows.PerturbedRows(release.receipts, release.question, release.numbers, release.labels)
    assert same.numbers is release.numbers
    given = release.numbers.copy()
    copied = perturbed_rows.PerturbedRows(release.receipts, release.question, given, release.labels)
    given[:] = 0
    assert np.array_equal(copied.numbers, release.numbers)
    some = np.array([4, 1])
    np.testing.assert_array_equal(release.vectors_of(some), release.vectors[some])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"tables": ()}, "at least one column"),
        ({"label": "region", "tables": tables_of(schema_of())}, "label not among them"),
        ({"noise": "uniform"}, "one of gaussian, laplace"),
        ({"label_share": 1.0}, "strictly between 0 and 1"),
        ({"tables": (Lookup("age", np.eye(3)),)}, "expects 3 codes"),
    ],
    ids=["nothing", "label twice", "noise", "label share", "another table"],
)
def test_questions_that_do_not_fit_cost_nothing(named: dict[str, Any], message: str) -> None:
    session = session_on(schema_of(), codes_of(schema_of()))
    with pytest.raises(PrivacyError, match=message):
        ask(session, **named)
    assert session.remaining_share == 1.0


def test_without_noise_the_rows_are_the_rows() -> None:
    schema = schema_of()
    codes = codes_of(schema)
    release = ask(session_on(schema, codes, key=None))
    vectors = RowEncoding.of(schema, [name for name in schema.names if name != "outcome"])
    expected = vectors.encode(np.stack([codes[name] for name in schema.names[:-1]], axis=1))
    assert np.abs(release.vectors - expected).max() <= release.receipt.grid
    np.testing.assert_array_equal(release.labels, codes["outcome"])


def test_the_order_of_rows_is_drawn() -> None:
    schema = schema_of()
    codes = {column.name: np.arange(50) % column.size for column in schema.modelled}
    drawn = [ask(session_on(schema, codes, epsilon=50.0, key=key), label_share=0.9).labels for key in range(40)]
    assert not any(np.array_equal(one, codes["outcome"]) for one in drawn)
    # Where the first row ends up is spread over all places, and differs from draw to draw.
    orders = [random_order(CipherStream(), 50) for _ in range(2000)]
    places = np.bincount([int(np.flatnonzero(order == 0)[0]) for order in orders], minlength=50)
    assert stats.chisquare(places).pvalue > 1e-6
    assert all(np.array_equal(np.sort(order), np.arange(50)) for order in orders[:20])


def test_a_randomised_response_follows_its_law() -> None:
    values = np.repeat(np.arange(4), 5000)
    noise = SystemNoise()
    for numerator, denominator in ((1, 2), (2, 1), (1, 100)):
        answers = noise.respond(values, classes=4, numerator=numerator, denominator=denominator)
        odds = math.exp(-numerator / denominator)
        law = (np.eye(4) + odds * (1 - np.eye(4))) / (1 + 3 * odds)
        for value in range(4):
            counts = np.bincount(answers[values == value], minlength=4)
            assert stats.chisquare(counts, 5000 * law[value]).pvalue > 1e-6
            wrong = (np.eye(4) + odds**2 * (1 - np.eye(4)))[value] / (1 + 3 * odds**2)
            if odds < 0.9:
                assert stats.chisquare(counts, 5000 * wrong).pvalue < 1e-6


def test_responses_decided_exactly_are_the_same_responses() -> None:
    class Words:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(4)

        def words(self, count: int) -> np.ndarray:
            return self.rng.integers(0, 2**64, count, dtype=np.uint64)

    values = np.arange(30) % 3
    asked = {"classes": 3, "numerator": 7, "denominator": 10}
    usual = randomised_response(Words(), values, **asked)
    # With so large a doubt every coin is compared in exact arithmetic; further bits are hardly ever needed.
    exactly = randomised_response(Words(), values, **asked, doubt=2.0)
    np.testing.assert_array_equal(usual, exactly)
    with pytest.raises(PrivacyError, match="one of 2 classes"):
        randomised_response(Words(), values, classes=2, numerator=1, denominator=1)


def test_old_rows_answer_the_same_question_again() -> None:
    schema = schema_of("cell")
    session = session_on(schema, codes_of(schema))
    release = ask(session)
    recorded = RecordedSession(schema, session.budget, rows=session.rows, answers=session.answers)
    assert ask(recorded) is release
    for named in ({"query": "other"}, {"label": None}, {"noise": "gaussian"}):
        with pytest.raises(PrivacyError, match="asked"):
            ask(recorded, **named)
