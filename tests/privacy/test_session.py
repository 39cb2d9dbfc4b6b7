"""The questions: what is answered, what it costs, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from candidates import candidate_of
from choosing import each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import every_kind_of_map, small_codes, small_schema
from recorded_noise import RecordedNoise
from scipy import stats

from synth.bundle.recorded_session import RecordedSession
from synth.errors import BudgetExceededError, ConfigError, PrivacyError, SchemaError
from synth.privacy.accounting import SLACK_ALLOWANCE, PrivacyBudget, epsilon_of_receipts
from synth.privacy.answers import GaussianPlan, NoisySum, RowCount
from synth.privacy.costs import _variance, mu_of_exponential, units_of
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.noise import SystemNoise
from synth.privacy.receipt import Receipt, require_honest
from synth.privacy.selection import Candidate
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours, PrivacyUnit, Schema

MAPS = every_kind_of_map()
REGION = OneHot(("region",), (None,), (4,))


def budget_for(schema: Schema, epsilon: float = 1.0, delta: float = 1e-5) -> PrivacyBudget:
    return PrivacyBudget(epsilon, delta, schema.neighbours)


def session_on(
    codes: dict[str, np.ndarray] | None = None,
    *,
    schema: Schema | None = None,
    noise: object | None = None,
    epsilon: float = 1.0,
) -> PrivateSession:
    schema = schema or small_schema()
    table = PrivateTable.from_codes(schema, codes or small_codes(400))
    return PrivateSession(table, budget_for(schema, epsilon), noise=noise)


def ask(session: PrivateSession, feature_map: FeatureMap = REGION, share: float = 1.0, query: str = "q") -> object:
    return session.noisy_sum(feature_map, share=share, query=query, source="test")


class Unreadable:
    """A table whose rows nobody may touch."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"rows were read: {name}")


# Answers


@pytest.mark.parametrize(("row_count", "kind"), each_once(["public", "private"], MAPS, others=pytest.mark.slow))
def test_without_noise_the_answer_is_the_sum(kind: str, row_count: str) -> None:
    codes = small_codes(200)
    session = session_on(codes, schema=small_schema(row_count), noise=RecordedNoise(None))
    release = ask(session, MAPS[kind])
    assert release.value.shape == MAPS[kind].shape
    expected = np.zeros(MAPS[kind].dimension)
    for row in range(200):
        expected += MAPS[kind].evaluate({name: column[row : row + 1] for name, column in codes.items()})[0]
    np.testing.assert_allclose(release.value.reshape(-1), expected, atol=200 * 1e-5)


@pytest.mark.parametrize("kind", MAPS)
def test_noise_is_what_the_receipt_says(kind: str) -> None:
    noise = RecordedNoise(7)
    session = session_on(noise=noise)
    release, receipt = ask(session, MAPS[kind]), session.receipts[0]
    assert [(call.kind, call.size) for call in noise.calls] == [("gaussian", MAPS[kind].dimension)]
    assert receipt.noise_scale == pytest.approx(math.sqrt(noise.calls[0].parameter) * receipt.grid, rel=1e-12)
    assert receipt.noise_scale <= math.sqrt(Fraction(noise.calls[0].parameter)) * receipt.grid
    assert receipt.dimension == MAPS[kind].dimension
    assert release.noise_std == receipt.noise_scale
    assert receipt.slack <= SLACK_ALLOWANCE
    require_honest(receipt)


def test_right_noise_is_accepted_and_wrong_noise_is_not() -> None:
    wide = OneHot(("age", "income"), (None, None), (12, 301))
    codes = small_codes(400)
    exact = np.zeros((12, 301))
    np.add.at(exact, (codes["age"], codes["income"]), 1)
    releases = [ask(session_on(codes, noise=SystemNoise()), wide) for _ in range(4)]
    noise = np.concatenate([(release.value - exact).reshape(-1) / release.noise_std for release in releases])
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    for wrong in (0.7, 1.3):
        assert stats.kstest(noise / wrong, "norm").pvalue < 1e-6


def test_two_questions_never_share_noise() -> None:
    session = session_on(noise=SystemNoise())
    first, second = (ask(session, MAPS["joint one-hot"], 0.5, name).value for name in ("a", "b"))
    assert (first != second).all()


@pytest.mark.parametrize(
    ("row_count", "rows_per_unit", "one_hot", "constant", "fourier"),
    [
        ("private", 1, 1.0, 1.0, 1.0),
        ("private", 3, 3.0, 3.0, 3.0),
        ("public", 1, math.sqrt(2), 2.0**-6, 2.0),  # a public number of rows has nothing to hide
        ("public", 3, 3 * math.sqrt(2), 3.0, 6.0),  # the number of people is public, that of rows is not
    ],
)
def test_sensitivities(row_count: str, rows_per_unit: int, one_hot: float, constant: float, fourier: float) -> None:
    schema = small_schema(row_count, PrivacyUnit(rows_per_unit=rows_per_unit))
    session = session_on(schema=schema, noise=RecordedNoise(None)).sub_session(1.0)
    for name, feature_map, expected in (
        ("one-hot", REGION, one_hot),
        ("constant", Constant(), constant),
        ("fourier", MAPS["fourier"], fourier),
    ):
        receipt = ask(session, feature_map, 0.25, name).receipt
        assert receipt.sensitivity == pytest.approx(expected, rel=1e-3)
        assert receipt.sensitivity >= expected or name == "fourier"
        assert receipt.rows_per_unit == rows_per_unit
        assert receipt.neighbours is schema.neighbours


# What it costs


@pytest.mark.parametrize("row_count", ["public", "private"])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 8.0, 50.0])
def test_a_session_that_spends_everything_stays_within_its_budget(row_count: str, epsilon: float) -> None:
    session = session_on(schema=small_schema(row_count), noise=SystemNoise(), epsilon=epsilon)
    for place in range(9):
        ask(session, MAPS[list(MAPS)[place]], 0.1, f"q{place}")
    session.noisy_max([candidate_of(("region",), np.zeros(4))], share=0.1, query="best", source="test")
    spent = epsilon_of_receipts(session.receipts, 1e-5)
    assert spent <= epsilon
    assert spent >= 0.995 * epsilon
    assert session.remaining_share == pytest.approx(0, abs=1e-6)
    assert [receipt.sequence for receipt in session.receipts] == list(range(10))


def test_overspending_is_refused_before_a_row_is_read() -> None:
    schema = small_schema()
    session = PrivateSession(Unreadable(schema), budget_for(schema))
    part = session.sub_session(0.75)
    with pytest.raises(BudgetExceededError, match=r"0\.26"):
        session.noisy_sum(REGION, share=0.26, query="q", source="test")
    with pytest.raises(BudgetExceededError):
        session.noisy_max([candidate_of(("region",), np.zeros(4))], share=0.26, query="q", source="test")
    with pytest.raises(BudgetExceededError):
        session.sub_session(0.26)
    with pytest.raises(AssertionError, match="rows were read"):
        part.noisy_sum(REGION, share=1.0, query="q", source="test")
    # Nothing is given back, whatever happened after the charge.
    assert part.remaining_share == 0
    with pytest.raises(BudgetExceededError):
        part.noisy_sum(REGION, share=0.01, query="r", source="test")


def test_a_refused_question_costs_nothing() -> None:
    schema = small_schema()
    session = PrivateSession(Unreadable(schema), budget_for(schema))
    for bad in (Lookup("income", np.eye(3)), OneHot(("age",), (None,), (5,)), MAPS["fourier"].positions):
        with pytest.raises(PrivacyError):
            session.noisy_sum(bad, share=0.5, query="q", source="test")
    with pytest.raises(SchemaError):
        session.noisy_sum(Lookup("name", np.eye(3)), share=0.5, query="q", source="test")
    for share in (0.0, -1.0, 1.5, math.nan, 1e-30):
        with pytest.raises(PrivacyError):
            session.noisy_sum(REGION, share=share, query="q", source="test")
    with pytest.raises(PrivacyError, match="at least one candidate"):
        session.noisy_max([], share=0.5, query="q", source="test")
    assert session.remaining_share == 1.0
    assert session.receipts == ()


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30))
@settings(deadline=None, max_examples=50)
def test_shares_never_add_up_to_more_than_the_budget(weights: list[float]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    session = session_on(noise=RecordedNoise(None))
    for place, share in enumerate(shares[:-1]):
        ask(session, REGION, share, f"q{place}")
    ask(session, REGION, session.remaining_share, "last")
    assert sum(receipt.mu_squared_units for receipt in session.receipts) <= units_of(session.budget.mu_squared)
    assert epsilon_of_receipts(_as_private(session), 1e-5) <= 1.0


def _as_private(session: PrivateSession) -> list[Receipt]:
    return [dataclasses.replace(receipt, private=True) for receipt in session.receipts]


def test_parts_share_receipts_and_answers_but_not_budgets() -> None:
    session = session_on(noise=RecordedNoise(None))
    first, second = session.sub_session(0.5), session.sub_session(0.25)
    a = ask(first, share=1.0, query="a")
    b = ask(second, share=0.5, query="b")
    assert (first.remaining_share, second.remaining_share, session.remaining_share) == pytest.approx((0, 0.5, 0.25))
    assert session.receipts == first.receipts == second.receipts == (a.receipt, b.receipt)
    assert session.sums == (a, b)
    assert a.receipt.mu_squared_units == pytest.approx(4 * b.receipt.mu_squared_units, rel=1e-6)
    with pytest.raises(PrivacyError, match="asked before"):
        ask(session, share=0.1, query="a")


def test_known_noise_marks_every_receipt() -> None:
    session = session_on(noise=RecordedNoise(1))
    ask(session, share=0.5)
    session.noisy_max([candidate_of(("region",), np.zeros(4))], share=0.5, query="best", source="test")
    assert [receipt.private for receipt in session.receipts] == [False, False]
    assert epsilon_of_receipts(session.receipts, 1e-5) == math.inf
    assert ask(session_on()).receipt.private


def test_a_declared_cap_is_an_assumption_and_an_enforced_one_is_not() -> None:
    receipt = ask(session_on(noise=RecordedNoise(None))).receipt
    assert receipt.assumptions == (
        "No person has more than one row: declared by the owner, not enforced, as no id column is declared.",
    )


def test_too_many_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.privacy.session.COORDINATE_ALLOWANCE", 6)
    session = session_on(noise=RecordedNoise(None))
    ask(session, REGION, 0.5, "a")
    with pytest.raises(PrivacyError, match="at most 6 noisy numbers"):
        ask(session, REGION, 0.5, "b")
    assert session.remaining_share == pytest.approx(0.5)


def test_noise_that_no_grid_carries_is_refused() -> None:
    schema = small_schema("private", PrivacyUnit(rows_per_unit=500))
    session = session_on(schema=schema, epsilon=0.01, noise=RecordedNoise(None))
    with pytest.raises(PrivacyError, match="No grid carries"):
        ask(session, REGION, 1e-7)
    assert session.remaining_share == 1.0


@given(st.floats(2.0**-6, 1e4), st.integers(1, 2**50), st.sampled_from([12, 18]))
def test_planned_noise_never_costs_more_than_it_may(sensitivity: float, units: int, half_bits: int) -> None:
    variance = _variance(sensitivity * 4.0**half_bits, units)
    plan = GaussianPlan(half_bits, sensitivity, variance, 0.0)
    assert plan.units <= units
    assert plan.units >= (units - 1) * (1 - 1e-6) or variance == 1


def test_products_take_a_coarser_grid_where_the_noise_is_large() -> None:
    session = session_on(
        schema=small_schema("private", PrivacyUnit(rows_per_unit=50)), noise=SystemNoise(), epsilon=0.02
    )
    receipt = ask(session, MAPS["wide product"], 0.01).receipt
    assert receipt.grid > 2.0**-36
    assert receipt.noise_scale > 2**12


# The number of rows


def test_a_public_number_of_rows_is_exact() -> None:
    assert session_on(small_codes(123)).rows == RowCount(123.0, 0.0, public=True)


@pytest.mark.parametrize("schema", [small_schema("private"), small_schema("public", PrivacyUnit(rows_per_unit=2))])
def test_a_private_number_of_rows_has_to_be_measured(schema: Schema) -> None:
    session = session_on(small_codes(123), schema=schema, noise=RecordedNoise(None))
    with pytest.raises(PrivacyError, match="count_rows"):
        _ = session.rows
    release = session.count_rows(share=0.1)
    assert session.sub_session(0.5).rows == RowCount(123.0, release.noise_std, public=False)
    with pytest.raises(PrivacyError, match="asked before"):
        session.count_rows(share=0.1)


def test_a_measured_number_of_rows_is_never_below_one() -> None:
    session = session_on(small_codes(0), schema=small_schema("private"), noise=RecordedNoise(None))
    session.count_rows(share=0.1)
    assert session.rows.value == 1.0


# Selection


def scores_by_hand(candidates: list[Candidate], codes: dict[str, np.ndarray]) -> list[float]:
    largest = max(candidate.weight for candidate in candidates)
    found = []
    for candidate in candidates:
        counts = np.zeros(candidate.table.shape)
        for row in range(len(codes["age"])):
            cell = tuple(
                int(codes[name][row] if bins is None else bins[codes[name][row]])
                for name, bins in zip(candidate.columns, candidate.one_hot.bins, strict=True)
            )
            counts[cell] += 1
        distance = np.abs(counts - candidate.table).sum()
        found.append(candidate.weight / largest * distance - candidate.penalty / largest)
    return found


CANDIDATES = [
    candidate_of(("age", "region"), np.full((12, 4), 3.25), weight=2.0, penalty=10.0),
    candidate_of(("region",), np.array([40.0, 60.0, 30.0, 20.0]), weight=1.0),
    candidate_of(
        ("income", "outcome"), np.full((4, 2), 17.5), bins=(np.arange(301) // 76, None), weight=0.5, penalty=-3.0
    ),
]


def test_scores_are_the_sessions_own() -> None:
    codes, noise = small_codes(150), RecordedNoise(None)
    selection = session_on(codes, noise=noise).noisy_max(CANDIDATES, share=0.5, query="best", source="test")
    found = np.array(noise.calls[0].scores) * selection.receipt.grid
    np.testing.assert_allclose(found, scores_by_hand(CANDIDATES, codes), atol=1e-3, rtol=0)
    assert selection.index == int(found.argmax())
    assert selection.candidate is CANDIDATES[selection.index]


@pytest.mark.parametrize(("row_count", "factor"), [("private", 1), ("public", 2)])
@pytest.mark.parametrize("rows_per_unit", [1, 4])
def test_selection_costs_what_its_parameter_is_worth(row_count: str, factor: int, rows_per_unit: int) -> None:
    noise = RecordedNoise(None)
    session = session_on(schema=small_schema(row_count, PrivacyUnit(rows_per_unit=rows_per_unit)), noise=noise)
    receipt = session.noisy_max(CANDIDATES, share=0.5, query="best", source="test").receipt
    assert receipt.mechanism == "exponential"
    assert receipt.sensitivity == factor * rows_per_unit
    assert receipt.dimension == 3
    assert receipt.mu_squared_units == units_of(mu_of_exponential(receipt.noise_scale) ** 2)
    assert receipt.mu_squared_units == pytest.approx(0.5 * units_of(session.budget.mu_squared), rel=1e-6)
    # weight exp(e * score / (2 * sensitivity)), scores in whole steps
    numerator, denominator = noise.calls[0].parameter
    rate = Fraction(receipt.noise_scale) * Fraction(receipt.grid) / (2 * Fraction(receipt.sensitivity))
    assert Fraction(numerator, denominator) == rate


def test_the_law_of_a_selection() -> None:
    # Three candidates whose scores are known; the frequencies must be those of the exponential law and of no other.
    schema = small_schema("private")
    codes = {name: np.zeros(10, np.int64) for name in ("age", "region", "income", "outcome")}
    table = PrivateTable.from_codes(schema, codes)
    tables = [np.array([10.0 - gap, 0, 0, 0]) for gap in (0, 2, 4)]
    candidates = [candidate_of(("region",), one) for one in tables]
    counts, draws = np.zeros(3), 4000
    for _ in range(draws):
        session = PrivateSession(table, budget_for(schema, 2.0))
        chosen = session.noisy_max(candidates, share=1.0, query="best", source="test")
        counts[chosen.index] += 1
    parameter = chosen.receipt.noise_scale
    weights = np.exp(parameter * np.array([0, 2, 4]) / 2)
    assert stats.chisquare(counts, draws * weights / weights.sum()).pvalue > 1e-6
    for wrong in (parameter, parameter / 4):  # e for e/2, and the replace-one factor where it does not belong
        other = np.exp(wrong * np.array([0, 2, 4]))
        assert stats.chisquare(counts, draws * other / other.sum()).pvalue < 1e-6


def test_candidates_that_mean_nothing_are_refused() -> None:
    for make, words in (
        (lambda: candidate_of(("region",), np.zeros((4, 1))), "shape"),
        (lambda: candidate_of(("region",), np.array([np.nan] * 4)), "finite"),
        (lambda: candidate_of(("region",), np.full(4, 1e12)), "2\\^36"),
        (lambda: candidate_of(("region",), np.zeros(4), weight=0.0), "positive"),
        (lambda: candidate_of(("region",), np.zeros(4), penalty=math.inf), "finite"),
    ):
        with pytest.raises(PrivacyError, match=words):
            make()
    with pytest.raises(PrivacyError, match="codes of 'region'"):
        session_on().noisy_max([candidate_of(("region",), np.zeros(3))], share=0.5, query="q", source="test")


def test_nothing_but_the_known_questions_is_answered() -> None:
    """A class made from a question could hand the rows themselves out as its answer."""

    class Curious(NoisySum):
        __slots__ = ()

        def draw(self, plan: Any, rows: Any, noise: Any, *, device: str) -> Any:
            return (rows.column("age").astype(np.int64),)

    class Wider(OneHot):
        __slots__ = ()

        def sums_by_cell(self, weight: float, rows: Any, cells: Any, **named: Any) -> Any:
            return rows.column("age").astype(np.int64)

    schema = small_schema()
    session = PrivateSession(Unreadable(schema), budget_for(schema))
    with pytest.raises(PrivacyError, match="closed set"):
        session.ask(Curious(REGION), share=0.1, query="q", source="test")
    for inside in (
        Wider(("region",), (None,), (4,)),
        Stack((Wider(("region",), (None,), (4,)),), (1.0,)),
        Product((REGION, Wider(("outcome",), (None,), (2,)))),
    ):
        with pytest.raises(PrivacyError, match="must be a feature map"):
            session.noisy_sum(inside, share=0.1, query="q", source="test")
    assert session.remaining_share == 1.0


# Opaque


def test_a_session_gives_no_rows_away() -> None:
    session = session_on(small_codes(5))
    assert repr(session) == (
        "PrivateSession(PrivacyBudget(epsilon=1.0, delta=1e-05, neighbours=<Neighbours.REPLACE: 'replace_one'>), "
        "remaining_share=1)"
    )
    assert {name for name in dir(session) if not name.startswith("_")} == {
        *("schema", "budget", "neighbours", "rows", "remaining_share", "receipts", "answers", "sums"),
        *("ask", "count_rows", "noisy_sum", "noisy_max", "noisy_gradient", "noisy_steps", "perturb_rows"),
        *("sub_session", "holdout_session"),
    }
    assert not hasattr(session, "__dict__")
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError):
            spread(session)


def test_answers_are_read_only_and_hold_no_session() -> None:
    release = ask(session_on(noise=RecordedNoise(None)))
    with pytest.raises(ValueError, match="read-only"):
        release.value[0] = 1.0


def test_two_relations_are_never_mixed() -> None:
    schema = small_schema("private")
    table = PrivateTable.from_codes(schema, small_codes(5))
    with pytest.raises(PrivacyError, match="use the same for both"):
        PrivateSession(table, PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE))
    assert PrivateSession(table, budget_for(schema), device="auto").remaining_share == 1.0
    with pytest.raises(ConfigError, match="auto, cpu or cuda"):
        PrivateSession(table, budget_for(schema), device="tpu")


# Recorded answers


def test_a_recorded_session_repeats_answers_and_knows_no_others() -> None:
    session = session_on(noise=RecordedNoise(3))
    release = ask(session, share=0.5)
    selection = session.noisy_max(CANDIDATES, share=0.5, query="best", source="test")
    again = RecordedSession(session.schema, session.budget, rows=session.rows, answers=session.answers)
    assert again.noisy_sum(REGION, share=0.5, query="q", source="another") is release
    part = again.sub_session(0.5)
    assert (part.rows, part.remaining_share) == (session.rows, 1.0)
    chosen = part.noisy_max(CANDIDATES, share=0.25, query="best", source="another")
    assert (chosen.index, chosen.receipt) == (selection.index, selection.receipt)
    # What remains is what remained of the earlier session after the same questions.
    assert (again.neighbours, again.rows, again.remaining_share) == (session.neighbours, session.rows, 0.0)
    assert part.remaining_share == pytest.approx(0.75, abs=1e-9), "whole units are spent, as by the session itself"
    for query, feature_map, words in (
        ("other", REGION, "never asked"),
        ("q", Stack((REGION,), (1.0,)), "another feature map"),
    ):
        with pytest.raises(PrivacyError, match=words):
            again.noisy_sum(feature_map, share=0.5, query=query, source="test")
    with pytest.raises(PrivacyError, match="never asked"):
        again.noisy_max(CANDIDATES, share=0.5, query="q", source="test")
    with pytest.raises(PrivacyError, match="other candidates"):
        again.noisy_max(CANDIDATES[:2], share=0.5, query="best", source="test")
