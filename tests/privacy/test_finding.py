"""Columns found privately: what a cell is coded as, what is asked, and the public rule that concludes from answers."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from found_worlds import KEY, OPEN, WORLDS, as_csv, ordinary
from hypothesis import given
from hypothesis import strategies as st
from reading_here import read_all_here
from recorded_noise import RecordedNoise

from synth.errors import PrivacyError, SchemaError
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import AnswerT, NoisyAnswer
from synth.privacy.costs import between_neighbours
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.finding import (
    find,
    finding_budget,
    foreseen,
    key_delta,
    open_schema,
    open_table,
)
from synth.privacy.more.found_columns import FoundColumn, columns_found, open_columns
from synth.privacy.more.found_values import FoundValues, ValuesQuestion, bound_of_row
from synth.privacy.more.together import epsilon_together, reference_of
from synth.privacy.questions import Allowance, Answer
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DropColumn,
    FindColumn,
    FoundReference,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    TableFormat,
    Weight,
    parse_column,
    schema_from_document,
    schema_to_document,
    undeclared_facts,
)
from synth.schema.columns.base import CellCounts
from synth.schema.columns.find import DATE_EDGES, MOST_DECIMALS, NUMBER_EDGES, CellKind
from synth.schema.encoding import encode_cells, encode_column
from synth.services.finding import cost_of_finding

COLUMN = FindColumn("x")
NOISE = 3.0


def kind_and_bin(*cells: object, column: FindColumn = COLUMN) -> list[tuple[int, int, int]]:
    codes = encode_column(column, pa.array(list(cells)), missing=("", "?"))
    tables = (column.kinds(), column.number_bins(), column.date_bins())
    return list(zip(*(table[codes].tolist() for table in tables), strict=True))


# What a cell is -------------------------------------------------------------------------------------------------------


NUMBERS = {"7": 0, "-3.0": 0, "1e3": 0, "0.5": 1, "-12.25": 2, "1.000001": 6, "3.14159265358979": 6, "inf": 0}
DATES = {"2024-02-29": CellKind.DATE, "2024-02-29 10:00": CellKind.DATE, "20240229": 0, "2024-02-30": CellKind.TEXT}
REST = {"12kg": CellKind.TEXT, "": CellKind.MISSING, " ? ": CellKind.MISSING}


@pytest.mark.parametrize(("cell", "kind"), [*NUMBERS.items(), *DATES.items(), *REST.items()])
def test_a_cell_is_of_one_kind(cell: str, kind: int) -> None:
    assert kind_and_bin(cell)[0][0] == kind


@given(st.floats(allow_nan=False))
def test_a_number_lies_in_its_bin(value: float) -> None:
    (_, place, date), *_ = kind_and_bin(value)
    low, high = NUMBER_EDGES[place], NUMBER_EDGES[place + 1]
    # The end that is nearer to zero belongs to the bin.
    assert (low < value <= high or value == low == -np.inf) if value < 0 else low <= value < high or value == np.inf
    assert date == len(DATE_EDGES) + 1


def test_small_whole_numbers_have_a_bin_each() -> None:
    places = [place for _, place, _ in kind_and_bin(*range(-19, 20))]
    assert len(set(places)) == 39
    assert places == sorted(places)


@given(st.integers(-(10**9), 10**9), st.integers(0, MOST_DECIMALS - 1))
def test_decimals_are_those_of_the_shortest_text(whole: int, places: int) -> None:
    text = f"{whole / 10**places:.{places}f}"
    expected = len(text.rstrip("0").partition(".")[2]) if places else 0
    assert kind_and_bin(text)[0][0] == expected
    assert kind_and_bin(float(text))[0][0] == expected


def test_a_date_lies_in_its_month_as_it_is_declared_to_be_written() -> None:
    british = FindColumn("x", pattern="%d/%m/%Y")
    cells = ("03/04/2021", "1799-12-31", "2200-01-01", datetime.date(1800, 1, 1))
    places = [kind_and_bin(cell, column=british)[0][2] for cell in cells]
    assert DATE_EDGES[places[0] - 1] == datetime.date(2021, 4, 1)
    assert places[1:] == [0, len(DATE_EDGES), 1]
    assert kind_and_bin("03/04/2021")[0][0] == CellKind.TEXT


def test_the_code_of_a_cell_follows_from_that_cell() -> None:
    cells = ["7", "", "0.25", "2024-01-05", "word", "1e-7", "-19"]
    together = encode_column(COLUMN, pa.array(cells * 5))
    alone = np.concatenate([encode_column(COLUMN, pa.array([cell])) for cell in cells])
    np.testing.assert_array_equal(together, np.tile(alone, 5))
    assert encode_cells(COLUMN, pa.array(cells)).counts == CellCounts(missing=1)


# How it is declared ---------------------------------------------------------------------------------------------------


def test_an_open_column_is_declared_and_kept() -> None:
    column = parse_column("seen", {"type": "find", "pattern": "%d.%m.%Y", "weight": "high"})
    assert column == FindColumn("seen", pattern="%d.%m.%Y", weight=Weight.HIGH)
    schema = Schema((column, FindColumn("age"), NumberColumn("x", 0, 1)), row_count="private")
    assert schema_from_document(schema_to_document(schema)) == schema
    assert open_columns(schema) == ("seen", "age")
    with pytest.raises(SchemaError, match=r"unknown key 'low'"):
        parse_column("seen", {"type": "find", "low": 3})


def test_a_table_with_open_columns_cannot_be_run() -> None:
    schema = Schema(tuple(FindColumn(f"x{place}") for place in range(7)), row_count="private")
    assert undeclared_facts(schema) == (
        "'x0', 'x1', 'x2', 'x3', 'x4' and 2 more are not described yet. Describe them, or find them privately."
    )


def test_what_is_described_is_not_read_again() -> None:
    schema = Schema(
        (FindColumn("a"), NumberColumn("b", 0, 1, fallback=0.0), CategoryColumn("c", ("x",), other=True)),
        row_count="private",
    )
    assert open_schema(schema).columns == (FindColumn("a"), DropColumn("b"), DropColumn("c"))
    with pytest.raises(PrivacyError, match="described already"):
        foreseen(Schema((NumberColumn("b", 0, 1),)), 1.0, 1e-6)


# What is asked --------------------------------------------------------------------------------------------------------


def test_a_finding_costs_what_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)
    for name, usual in WORLDS.items():
        world = replace(usual, epsilon=8.0)
        session = world.session(as_csv(ordinary(400, world.rows_per_unit)), RecordedNoise(1))
        found = find(session, delta_key=key_delta(world.delta))
        assert columns_found(session.schema, session.answers) == found, name
        assert session.remaining_share < 1e-9
        stated = epsilon_of_receipts([replace(one, private=True) for one in session.receipts], world.delta)
        assert 0.98 * world.epsilon < stated <= world.epsilon
        assert {one.part for one in session.receipts} == {"train"}
        # The threshold that was foreseen is for texts in every column; with fewer it is lower.
        said = foreseen(session.schema, world.epsilon, world.delta)
        asked = [one for one in session.answers if isinstance(one, FoundValues)]
        largest = max(one.threshold * one.receipt.grid for one in asked)
        assert largest <= said.least_rows < 1.5 * largest


def test_codes_cost_no_more_than_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)
    written = ("428", "414", "250.83", "V45", "V57", "E888", "786", "401", "486", "276")
    for name, usual in WORLDS.items():
        world = replace(usual, epsilon=40.0)
        people = ordinary(400, world.rows_per_unit)
        coded = [line | {"income": written[place % 10]} for place, line in enumerate(people)]
        session = world.session(as_csv(coded), RecordedNoise(1))
        found = {one.name: one for one in find(session, delta_key=key_delta(world.delta))}
        assert found["income"].column == CategoryColumn("income", tuple(sorted(written)), other=True), name
        assert session.remaining_share < 1e-9
        stated = epsilon_of_receipts([replace(one, private=True) for one in session.receipts], world.delta)
        assert stated <= world.epsilon
        # Six things of five columns: what is lost is what was foreseen, but for the sixth.
        (values,) = (one for one in session.answers if isinstance(one, FoundValues))
        said = foreseen(session.schema, world.epsilon, world.delta)
        assert values.threshold * values.receipt.grid <= said.least_rows * (6 / 5) ** 0.5


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("world", WORLDS)
def test_what_is_lost_is_foreseen_from_public_facts(epsilon: float, world: str) -> None:
    schema = replace(WORLDS[world].schema)
    said = foreseen(schema, epsilon, 1e-7)
    assert said.least_rows > WORLDS[world].rows_per_unit
    more = foreseen(replace(schema, columns=(*schema.columns, FindColumn("more"))), epsilon, 1e-7)
    less = foreseen(schema, 1.5 * epsilon, 1e-7)
    assert more.least_rows > said.least_rows > less.least_rows
    assert more.kind_rows > said.kind_rows > less.kind_rows


def test_half_of_delta_is_for_noise() -> None:
    budget = finding_budget(0.1, 1e-7, WORLDS["replace one"].schema.neighbours)
    assert (budget.delta, key_delta(1e-7)) == (5e-8, 0.49 * 1e-7)


@pytest.mark.parametrize("world", WORLDS)
def test_a_finding_is_charged_for_its_noise_and_for_what_it_adds_to_delta(world: str) -> None:
    cost = cost_of_finding(1.0, 1e-6, WORLDS[world].schema.neighbours)
    # To 60 digits: mu^2 of a Gaussian with delta 5e-7 at epsilon 1, and 0.49e-6 in units of 2^-60, rounded up.
    assert cost.mu_squared_units * 2.0**-40 == pytest.approx(0.0524808273, rel=1e-4)
    assert cost.additive_delta_units == 564_931_537_258
    # The epsilon of that Gaussian at 0.51e-6; and of three of them at 3e-6, of which they add 1.47e-6.
    assert cost.epsilon(1e-6) == pytest.approx(0.99902499, rel=1e-5)
    assert (cost + cost + cost).epsilon(3e-6) == pytest.approx(1.71328418, rel=1e-4)


def test_what_a_configuration_says_of_a_finding_adds_up_by_hand() -> None:
    added = {"a": 0.5, "b": 0.125, "c": 0.25}
    receipts = tuple(replace(receipt(query), additive_delta=delta, slack=2 * delta) for query, delta in added.items())
    said = reference_of("0" * 64, 1.0, 0.9, receipts)
    assert (said.mu_squared_units, said.coordinates) == (3, 3)
    assert (said.slack, said.additive_delta) == (math.nextafter(1.75, 2), math.nextafter(0.875, 1))


def test_a_run_and_its_finding_are_stated_together_by_hand() -> None:
    told = FoundReference("0" * 64, 1.0, 1e-5, mu_squared_units=2**36, slack=0.0, coordinates=1, additive_delta=4e-6)
    config = RunConfig(
        schema=SCHEMA, account="a", epsilon=2.0, delta=1e-5, people_at_most=100, rows=1, generator="independent"
    )
    # To 60 digits: a Gaussian with delta 1e-5 at epsilon 2, and one with a square of mu of 1/16, at 6e-6.
    assert epsilon_together(replace(config, found=told)) == pytest.approx(2.33185454, rel=1e-4)
    assert epsilon_together(config) == 2.0


def test_the_number_of_units_is_declared_where_it_is_public() -> None:
    schema = Schema((FindColumn("a"),), row_count="public")
    with pytest.raises(PrivacyError, match="number_of_units"):
        open_table(lambda: pytest.fail("nothing is read"), "t", schema, TableFormat(), account_key=KEY)


# The rule -------------------------------------------------------------------------------------------------------------


SCHEMA = Schema((FindColumn("x", weight=Weight.HIGH),), PrivacyUnit("person"), row_count="private")


class _Given:
    """Answers with the counts that a test wants to be found, without noise but with the word that there is some."""

    schema = SCHEMA

    def __init__(self, cells: list[object], values: dict[str, float] | None = None) -> None:
        self.codes = encode_column(COLUMN, pa.array(list(map(str, cells))))
        self.values = values or {}
        self.answers: list[Answer] = []
        self.shares: list[float] = []

    def noisy_sum(self, one_hot: OneHot, *, share: float, query: str, source: str) -> NoisyAnswer:
        self.shares.append(share)
        counts = one_hot.evaluate({"x": self.codes}).sum(axis=0)
        return self._kept(NoisyAnswer(receipt(query), counts, one_hot))

    def ask(self, question: ValuesQuestion, *, share: float, query: str, source: str) -> FoundValues:
        self.shares.append(share)
        values = tuple(("x", text, round(rows * 2**24)) for text, rows in sorted(self.values.items()))
        return self._kept(FoundValues(receipt(query), question, 0, values))

    def _kept(self, answer: AnswerT) -> AnswerT:
        self.answers.append(answer)
        return answer


def receipt(query: str) -> Receipt:
    return Receipt(
        sequence=0,
        query=query,
        mechanism="discrete_gaussian",
        source="find",
        neighbours=SCHEMA.neighbours,
        protects="person",
        rows_per_unit=1,
        sensitivity=1.0,
        noise_scale=NOISE,
        dimension=1,
        grid=2.0**-24,
        mu_squared_units=1,
        slack=0.0,
    )


def concluded(cells: list[object], values: dict[str, float] | None = None) -> FoundColumn:
    asked = _Given(cells, values)
    (found,) = find(asked, delta_key=1e-7)
    assert columns_found(SCHEMA, asked.answers) == (found,)
    return found


def test_whole_numbers_have_whole_bounds() -> None:
    found = concluded([*range(17, 90)] * 40)
    assert found.kind == "integer"
    assert found.column == NumberColumn("x", 15, 90, 1, missing=True, weight=Weight.HIGH)
    assert found.said.startswith("Whole numbers from 15 to 90 (17 to 89 stand out from noise; the range is wider by")


def test_bounds_are_drawn_where_cells_can_be_told_from_noise() -> None:
    few = round(NOISE)
    found = concluded([*range(1, 9)] * 100 + [10**6] * few + [-5] * few)
    assert found.column == NumberColumn("x", 0, 8, 1, missing=True, weight=Weight.HIGH)
    # Two in each bin are less than the noise of one bin, and are found as a whole.
    spread = np.geomspace(10, 10**6, 250).round().tolist()
    wide = concluded([*[0] * 2000, *map(int, spread)]).column
    assert isinstance(wide, NumberColumn)
    assert (wide.low, wide.high >= 5 * 10**4) == (0, True)


def test_a_negative_end_and_one_value() -> None:
    far = [place for place in range(-100, -3) for _ in range(20)]
    assert concluded(far).column == NumberColumn("x", -110, 0, 1, missing=True, weight=Weight.HIGH)
    assert concluded([4] * 200).column == NumberColumn("x", 0, 5, 1, missing=True, weight=Weight.HIGH)
    assert concluded([0] * 200).column == NumberColumn("x", 0, 1, 1, missing=True, weight=Weight.HIGH)


def test_a_number_that_many_cells_are_keeps_a_code_of_its_own() -> None:
    gains = [*[0] * 900, *[7] * 100, *[2] * 30, *range(100, 5000, 10)]
    assert concluded(gains).column == NumberColumn(
        "x", 0, 5000, 1, special=(0.0, 7.0), missing=True, weight=Weight.HIGH
    )
    # Where every place has a code of its own anyway there is nothing to keep.
    few = concluded([*[0] * 900, *range(20)]).column
    assert isinstance(few, NumberColumn)
    assert few.special == ()


def test_decimals_say_the_step() -> None:
    found = concluded([f"{value / 100:.2f}" for value in range(100, 1000)] * 2)
    assert found.kind == "decimal"
    assert found.column == NumberColumn("x", 1, 10, 0.01, missing=True, weight=Weight.HIGH)
    exact = concluded(list(np.random.default_rng(0).uniform(0.2, 0.9, 2000))).column
    assert isinstance(exact, NumberColumn)
    assert exact.step <= 1e-4 * (exact.high - exact.low)
    large = concluded([f"{value * 10**7}.5" for value in range(100, 1000)]).column
    assert isinstance(large, NumberColumn)
    assert large.levels <= 2**18 + 2


def test_dates_are_bounded_by_whole_years() -> None:
    cells = [f"20{year:02}-{month:02}-15" for year in range(10, 20) for month in range(1, 13)] * 30
    found = concluded(cells)
    low, high = datetime.date(2008, 1, 1), datetime.date(2021, 12, 31)
    assert found.column == DateColumn("x", low, high, missing=True, weight=Weight.HIGH)
    last = concluded(["2199-11-30"] * 2000).column
    assert isinstance(last, DateColumn)
    assert last.high == datetime.date(2199, 12, 31)


def test_most_cells_decide_the_kind() -> None:
    assert concluded([1, 2, 3, 4] * 100 + ["n/a"] * 50).kind == "integer"
    assert concluded([1, 2, 3, 4] * 50 + ["n/a"] * 200, {"n/a": 200}).kind == "text"
    assert concluded([""] * 500).kind == "nothing"
    assert concluded(["a"] * 3).column == DropColumn("x")


def test_values_are_categories_and_the_rest_is_other() -> None:
    found = concluded(["a"] * 300 + ["b"] * 200 + ["c"] * 20, {"b": 203.5, "a": 297.25})
    assert found.column == CategoryColumn("x", ("a", "b"), other=True, weight=Weight.HIGH)
    assert found.lost == pytest.approx(520 - 500.75)
    assert "2 values" in found.said
    missing = concluded(["a"] * 300 + [""] * 100, {"a": 300}).column
    assert missing == CategoryColumn("x", ("a",), other=True, missing=True, weight=Weight.HIGH)


def test_values_are_listed_in_an_order_that_follows_from_them_and_not_from_their_counts() -> None:
    values = {">10": 250.0, "9": 900.0, "<1": 300.0, "10": 200.0, "1": 400.0}
    for counts in (values, dict(zip(values, reversed(values.values()), strict=True))):
        found = concluded(["text"] * 2050, counts).column
        assert isinstance(found, CategoryColumn)
        assert found.values == ("<1", "1", "9", "10", ">10")


def test_ids_and_free_text_are_left_out() -> None:
    for values in ({}, {"only one by chance": 15.0}):
        found = concluded([f"id {place}" for place in range(2000)], values)
        assert found.column == DropColumn("x")
        assert "left out" in found.said


DIAGNOSES = {"428": 400.0, "414": 300.0, "250.83": 90.0, "V45": 80.0, "V57": 60.0, "E888": 50.0, "786": 120.0}


def cells_of(values: dict[str, float]) -> list[object]:
    return [text for text, rows in values.items() for _ in range(round(rows))]


def test_codes_that_are_written_like_numbers_come_back_as_they_are_written() -> None:
    codes = concluded(cells_of(DIAGNOSES), DIAGNOSES)
    assert codes.kind == "text"
    in_order = ("250.83", "414", "428", "786", "E888", "V45", "V57")
    assert codes.column == CategoryColumn("x", in_order, other=True, weight=Weight.HIGH)
    assert codes.said.startswith("Codes, most of which look like numbers: 7 values")


def test_a_list_that_does_not_hold_most_codes_is_none_and_whole_numbers_stay_whole() -> None:
    few = {text: rows for text, rows in DIAGNOSES.items() if rows < 100}
    kept = concluded(cells_of(DIAGNOSES), few)
    assert kept.kind == "integer"
    assert kept.said.endswith("are outside this range or are not numbers. The few values with decimals are rounded.")
    assert kept.column == NumberColumn("x", 250, 800, 1, missing=True, weight=Weight.HIGH)


@pytest.mark.parametrize("words", [{"unknown": 60.0}, {"unknown": 60.0, "refused": 40.0}])
def test_a_word_or_two_among_numbers_are_no_codes(words: dict[str, float]) -> None:
    ages = {str(age): 30.0 for age in range(20, 60)} | words
    found = concluded(cells_of(ages), ages)
    assert found.column == NumberColumn("x", 20, 60, 1, missing=True, weight=Weight.HIGH)
    assert sum(words.values()) <= found.lost <= sum(words.values()) + 0.02 * 1200


def test_decimals_stay_where_most_numbers_have_some() -> None:
    cells = [f"{value / 10}" for value in range(300, 700)] * 3 + ["n/a"] * 90
    assert concluded(cells, {"n/a": 90.0}).column == NumberColumn("x", 30, 70, 0.1, missing=True, weight=Weight.HIGH)


def test_of_numbers_that_may_be_codes_two_things_are_asked_within_the_same_budget() -> None:
    asked = _Given(cells_of(DIAGNOSES), DIAGNOSES)
    find(asked, delta_key=1e-7)
    queries = ["kind of 'x'", "bounds of 'x'", "rough bounds of 'x'", "values of 1 column"]
    assert [one.query for one in asked.answers] == queries
    assert sum(asked.shares) == pytest.approx(1.0)
    with pytest.raises(PrivacyError, match="lack the values"):
        columns_found(SCHEMA, asked.answers[:3])


def test_two_values_that_print_alike_are_one() -> None:
    found = concluded(["=a"] * 300 + ["'=a"] * 100, {"=a": 300, "'=a": 100}).column
    assert found == CategoryColumn("x", ("=a",), other=True, weight=Weight.HIGH)


def test_answers_of_something_else_are_refused() -> None:
    asked = _Given(["a"] * 300, {"a": 300})
    find(asked, delta_key=1e-7)
    kind, values = asked.answers
    for answers in ([kind], [values], [replace(kind, value=np.zeros(3)), values]):
        with pytest.raises(PrivacyError):
            columns_found(SCHEMA, answers)
    other = replace(values, question=ValuesQuestion(("y",), 1e-7))
    with pytest.raises(PrivacyError, match="lack the values"):
        columns_found(SCHEMA, [kind, other])


def test_neighbours_conclude_from_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noisy answers give the same columns, whatever the rows were."""
    read_all_here(monkeypatch)
    world = WORLDS["add or remove"]
    lines = ordinary(60)
    session = world.session(as_csv(lines), RecordedNoise(3))
    find(session, delta_key=1e-7)
    assert {one.query for one in session.answers} >= {f"kind of '{name}'" for name in OPEN}
    assert isinstance(session, PrivateSession)
    assert "said" not in repr(columns_found(session.schema, session.answers)).replace("said=", "")


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_foreseen_is_what_is_planned_where_every_column_holds_texts(world: str) -> None:
    schema, delta = WORLDS[world].schema, 1e-7
    budget = finding_budget(1.0, delta, schema.neighbours)
    question = ValuesQuestion(open_columns(schema), key_delta(delta))
    allowed = Allowance(
        schema, budget, math.floor(0.8 * budget.units), 1e-5, lambda row: between_neighbours(row, schema)
    )
    plan = question.plan(allowed)
    said = foreseen(schema, 1.0, delta)
    assert said.least_rows == math.ceil(plan.threshold * plan.gaussian.grid)
    # Kinds have a fifth of the budget, which is shared between the columns; five standard deviations are clear.
    of_values = plan.gaussian.noise_std / between_neighbours(bound_of_row(len(question.columns)), schema)
    of_kinds = 2 * of_values * between_neighbours(bound_of_row(1), schema) * len(question.columns) ** 0.5
    assert said.kind_rows == pytest.approx(5 * of_kinds, abs=1.1)
