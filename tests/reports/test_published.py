"""Publishable numbers: right by hand, covered by their bars, and the same when the private table is gone."""

from __future__ import annotations

import datetime
import gc
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from synth.generators.protocol import Fact, Picture, Trace
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import NoisyAnswer, RowCount
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reports.code_tables import bin_labels
from synth.reports.document import published_evidence, published_rows, report_document, report_page
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Table
from synth.reports.measured import BAR, EVALUATION_QUERY, compare_measured, evaluation_question, measured_tables
from synth.reports.wording import number_text, rounded_up
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DropColumn,
    IdentifierColumn,
    Neighbours,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    YesNoColumn,
)

SCHEMA = Schema((CategoryColumn("x", ("a", "b")), CategoryColumn("y", ("c", "d", "e"))))


def release(question: object, value: list[float], *, noise: float, query: str = "q", sequence: int = 0) -> NoisyAnswer:
    receipt = Receipt(
        sequence=sequence,
        query=query,
        mechanism="discrete_gaussian",
        source="test",
        neighbours=Neighbours.REPLACE,
        protects="person",
        rows_per_unit=1,
        sensitivity=math.sqrt(2),
        noise_scale=noise,
        dimension=len(value),
        grid=2.0**-24,
        mu_squared_units=1,
        slack=0.0,
    )
    return NoisyAnswer(receipt, np.array(value), question)


X, Y = OneHot(("x",), (None,), (2,)), OneHot(("y",), (None,), (3,))


def test_tables_are_found_in_stacks_and_products() -> None:
    stack = Stack((X, Y), (0.6, 0.8))
    found = measured_tables([release(stack, [6, 12, 8, 16, 24], noise=2.4)])
    assert [(table.columns, table.counts.tolist()) for table in found] == [
        (("y",), pytest.approx([10, 20, 30], rel=1e-6)),
        (("x",), pytest.approx([10, 20], rel=1e-6)),
    ]
    assert [table.noise_std for table in found] == pytest.approx([3.0, 4.0], rel=1e-6)
    (joint,) = measured_tables([release(Product((X, Y)), [1, 2, 3, 4, 5, 6], noise=1.0)])
    assert joint.columns == ("x", "y")
    assert joint.counts.tolist() == [[1, 2, 3], [4, 5, 6]]
    lookup = Lookup("x", np.eye(2))
    assert measured_tables([release(lookup, [1, 2], noise=1), release(Product((lookup, Y)), [1.0] * 6, noise=1)]) == ()
    assert measured_tables([release(Constant(), [9], noise=1)]) == ()


def test_distances_and_errors_by_hand() -> None:
    # 100 rows: measured 40, 60; synthetic 10 of 20 rows are "a", that is 50, 50 of 100.
    synthetic = [np.repeat([0, 1], 10), np.zeros(20, dtype=int)]
    rows = RowCount(100.0, 0.0, public=True)
    (found,) = compare_measured(synthetic, SCHEMA, [release(X, [40, 60], noise=3.0)], rows)
    assert found.distance == pytest.approx(0.10)
    assert found.synthetic.tolist() == [50, 50]
    # Mean of |noise| is 3 sqrt(2/pi) for each of two cells, halved and divided by 100 rows.
    assert found.expected_noise == pytest.approx(2 * 3 * math.sqrt(2 / math.pi) / 200)
    spread = 3 * math.sqrt(2 * (1 - 2 / math.pi)) / 200
    assert found.error == pytest.approx(found.expected_noise + 1.644854 * spread)


def test_margins_of_a_pair_carry_the_noise_of_all_their_cells() -> None:
    pair = OneHot(("x", "y"), (None, None), (2, 3))
    rows = RowCount(21.0, 0.0, public=True)
    synthetic = [np.array([0, 1]), np.array([0, 2])]
    answer = release(pair, [1, 2, 3, 4, 5, 6], noise=2)
    found = {one.columns: one for one in compare_measured(synthetic, SCHEMA, [answer], rows)}
    assert found["x",].measured.tolist() == [6, 15]
    assert found["y",].noise_std.tolist() == pytest.approx([2 * math.sqrt(2)] * 3)
    assert found["x", "y"].noise_std.tolist() == [[2.0] * 3] * 2
    # A column measured by itself with less noise wins over the margin of a pair.
    both = [answer, release(X, [7, 14], noise=1, query="x", sequence=1)]
    found = {one.columns: one for one in compare_measured(synthetic, SCHEMA, both, rows)}
    assert found["x",].measured.tolist() == [7, 14]
    assert found["y",].measured.tolist() == [5, 7, 9]


def test_a_table_in_other_bins_comes_before_sums_of_a_larger_one() -> None:
    # The margin of the pair has less noise for each count, but tells a and b apart no longer.
    schema = Schema((CategoryColumn("x", ("a", "b", "c")), CategoryColumn("y", ("d", "e"))))
    merged = np.array([0, 0, 1], dtype=np.int32)
    rows = RowCount(21.0, 0.0, public=True)
    answers = [
        release(OneHot(("x",), (None,), (3,)), [5, 7, 9], noise=4),
        release(OneHot(("y", "x"), (None, merged), (2, 3)), [1, 2, 3, 4], noise=1, query="pair", sequence=1),
    ]
    found = {one.columns: one for one in compare_measured([np.array([2]), np.array([0])], schema, answers, rows)}
    assert found["x",].measured.tolist() == [5, 7, 9]
    assert found["y",].noise_std.tolist() == pytest.approx([math.sqrt(2)] * 2)
    assert found["x", "y"].measured.tolist() == [[1, 3], [2, 4]]  # columns as the schema orders them
    assert found["x", "y"].synthetic.tolist() == [[0, 0], [21, 0]]


def test_ranges_of_values_come_before_classes_of_last_digits() -> None:
    # Among many columns the classes of a number's last digits have less noise than its own counts: as on the census.
    schema = Schema((NumberColumn("wage", 0, 99, 1, missing=True),))
    ranges, round_ones = np.append(np.arange(100) // 25, 4), np.append(np.arange(100) % 10 == 0, False)
    answers = [
        release(OneHot(("wage",), (ranges.astype(np.int32),), (101,)), [9, 8, 7, 6, 5], noise=4),
        release(OneHot(("wage",), (round_ones.astype(np.int32),), (101,)), [30, 5], noise=1, query="r", sequence=1),
    ]
    (found,) = compare_measured([np.array([2])], schema, answers, RowCount(35.0, 0.0, public=True))
    assert found.measured.tolist() == [9, 8, 7, 6, 5]


def test_all_sums_of_three_columns_are_compared() -> None:
    schema = Schema(tuple(CategoryColumn(name, ("0", "1")) for name in "xyz"))
    counts = np.arange(8.0).reshape(2, 2, 2)
    answer = release(OneHot(("x", "y", "z"), (None,) * 3, (2,) * 3), counts.reshape(-1).tolist(), noise=3)
    rows = RowCount(28.0, 0.0, public=True)
    found = {one.columns: one for one in compare_measured([np.array([0])] * 3, schema, [answer], rows)}
    assert list(found) == [("x",), ("y",), ("z",), ("x", "y"), ("x", "z"), ("y", "z"), ("x", "y", "z")]
    for columns, one in found.items():
        others = tuple(axis for axis, name in enumerate("xyz") if name not in columns)
        assert one.measured.tolist() == counts.sum(axis=others).tolist()
        assert one.noise_std.reshape(-1).tolist() == pytest.approx(
            [3 * math.sqrt(2 ** len(others))] * one.measured.size
        )


def test_bins_of_codes_far_apart_are_named_by_their_values() -> None:
    column = CategoryColumn("x", tuple("abcdefg"))
    assert bin_labels(column, Bins.of_codes([1, 0, 1, 1, 3, 0, 0])) == ("b, f, g", "a, c, d", "nothing", "e")
    assert bin_labels(column, Bins.of_codes([0, 0, 1, 0, 0, 2, 1])) == ("a, b ... e (4 values)", "c, g", "f")


def test_coarse_bins_merge_measured_ones_and_their_variances() -> None:
    schema = Schema((NumberColumn("age", 0, 63, 1, missing=True),))
    question = OneHot(("age",), (None,), (65,))
    counts = np.arange(65.0)
    rows = RowCount(counts.sum(), 0.0, public=True)
    (found,) = compare_measured(
        [np.arange(65)], schema, [release(question, counts.tolist(), noise=2)], rows, coarse=True
    )
    assert found.measured.tolist() == [*(counts[:64].reshape(32, 2).sum(axis=1)), 64.0]
    assert found.noise_std.tolist() == pytest.approx([2 * math.sqrt(2)] * 32 + [2.0])
    labels = bin_labels(schema.modelled[0], found.bins[0])
    assert (labels[0], labels[31], labels[32]) == ("0 to 1", "62 to 63", "missing")


def simulated(rows_per_unit: int = 1, row_count: str = "public") -> tuple[Schema, dict[str, np.ndarray]]:
    schema = Schema(
        (
            NumberColumn("age", 0, 119, 1, missing=True),
            NumberColumn("income", 0, 1e5, 1),
            CategoryColumn("region", tuple(f"r{place}" for place in range(60))),
            YesNoColumn("smoker"),
            DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2020, 3, 31)),
        ),
        unit=PrivacyUnit(rows_per_unit=rows_per_unit),
        row_count=row_count,  # type: ignore[arg-type]
    )
    random = np.random.default_rng(4)
    cause = random.random(4000)
    codes = {}
    for column in schema.modelled:
        place = (0.6 * cause + 0.4 * random.random(4000)) ** 2
        codes[column.name] = (column.size * place).astype(int)
    return schema, codes


def measured_session(schema: Schema, codes: dict[str, np.ndarray], epsilon: float = 1.0) -> PrivateSession:
    budget = PrivacyBudget(epsilon=epsilon, delta=1e-6, neighbours=schema.neighbours)
    session = PrivateSession(PrivateTable.from_codes(schema, codes), budget)
    if not schema.rows_are_public:
        session.count_rows(share=0.1)
    session.noisy_sum(evaluation_question(schema), share=0.5, query=EVALUATION_QUERY, source="report")
    return session


def config_of(schema: Schema) -> RunConfig:
    return RunConfig(schema=schema, account="a", epsilon=1.0, rows=500, delta=1e-6, people_at_most=5000)


@pytest.mark.parametrize(("rows_per_unit", "row_count"), [(1, "public"), (1, "private"), (3, "private")])
def test_the_bars_of_published_counts_cover_95_percent(rows_per_unit: int, row_count: str) -> None:
    schema, codes = simulated(rows_per_unit, row_count)
    inside = total = 0
    synthetic = [codes[name] for name in schema.names]
    while total < 4000:
        session = measured_session(schema, codes)
        for one in compare_measured(synthetic, schema, session.sums, session.rows):
            (name,) = one.columns
            exact = np.bincount(one.bins[0][codes[name]], minlength=len(one.measured))
            inside += int((np.abs(one.measured - exact) <= BAR * one.noise_std).sum())
            total += len(exact)
    # 93 to 97 %: 5.8 standard errors on either side at 4,000 cells.
    assert 0.93 < inside / total < 0.97


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_error_of_a_distance_covers_the_distance_to_the_rows(epsilon: float) -> None:
    schema, codes = simulated()
    synthetic = [np.random.default_rng(9).permutation(codes[name])[:900] for name in schema.names]
    covered = total = 0
    for _ in range(40):
        session = measured_session(schema, codes, epsilon)
        for one in compare_measured(synthetic, schema, session.sums, session.rows):
            (name,) = one.columns
            exact = np.bincount(one.bins[0][codes[name]], minlength=len(one.measured)) / 4000
            made = np.bincount(one.bins[0][synthetic[schema.names.index(name)]], minlength=len(one.measured)) / 900
            truth = 0.5 * float(np.abs(exact - made).sum())
            covered += abs(one.distance - truth) <= one.error + 1e-12
            total += 1
    assert covered / total >= 0.93


def test_safe_numbers_are_the_same_when_the_private_table_is_gone() -> None:
    schema, codes = simulated()
    session = measured_session(schema, codes)
    random = np.random.default_rng(1)
    made = np.column_stack([random.permutation(codes[name])[:500] for name in schema.names])
    config = config_of(schema)
    before = published_evidence(made, session.sums, config, rows=session.rows)
    releases, rows = session.sums, session.rows
    for name in codes:
        codes[name][:] = 0
    del session
    gc.collect()
    after = published_evidence(made, releases, config, rows=rows)
    assert json.dumps(report_document(before)) == json.dumps(report_document(after))
    assert {type(entry) for entry in after} == {SafeEvidence}


def test_the_report_names_what_is_measured_and_what_to_trust() -> None:
    schema, codes = simulated()
    session = measured_session(schema, codes)
    synthetic = [codes[name] for name in schema.names]
    made = np.column_stack(synthetic)
    evidence = published_evidence(made, session.sums, config_of(schema), rows=session.rows)
    found = {entry.id: entry for entry in evidence}
    assert found["marginals.1.evaluated"].value == 5
    assert found["marginals.2.evaluated"].value == 0
    assert found["marginals.2.mean"].value is None
    assert "without spending more" in found["marginals.2.mean"].sentence
    noise = max(table.noise_std for table in measured_tables(session.sums))
    assert found["accuracy.trust"].value == pytest.approx(10 * noise)
    # The very same rows: nothing but noise is between them.
    mean, error = found["marginals.1.mean"].value, found["marginals.1.mean"].error
    assert isinstance(mean, float)
    assert error is not None
    assert mean < 1.5 * error
    assert found["columns.age.distance"].figures
    document = report_document(evidence)
    assert len(document["marginals"]["1"]["worst"]) == 5
    json.dumps(document, allow_nan=False)


def test_small_groups_are_named_from_noisy_counts_alone() -> None:
    schema = Schema((CategoryColumn("x", ("a", "b", "c")),))
    config = RunConfig(schema=schema, account="a", epsilon=1.0, rows=4, delta=1e-6, people_at_most=5000, groups=("x",))
    answer = release(OneHot(("x",), (None,), (3,)), [100.0, 24.0, -3.0], noise=5.0)
    made = np.zeros((4, 1), dtype=np.int64)
    found = {entry.id: entry for entry in published_evidence(made, [answer], config)}
    assert found["groups.x"].value == 2
    assert "20 %: b, c." in found["groups.x"].sentence
    table = found["groups.x"].figures[0]
    assert table.rows[0][:2] == ("a", 100.0)  # type: ignore[union-attr]
    assert table.rows[2][3] is None  # type: ignore[union-attr]


def test_what_a_generator_says_of_itself_may_be_published() -> None:
    schema, codes = simulated()
    made = np.column_stack([codes[name][:50] for name in schema.names])
    fact = Fact("ridge", "Ridge lambda", 0.25, "One sentence.", ("block", "lambda"), ((1, 0.25), (2, 0.5)))
    found = {entry.id: entry for entry in published_evidence(made, [], config_of(schema), facts=[fact])}
    entry = found["generator.ridge"]
    assert (entry.kind, entry.value, entry.sentence) == ("safe", 0.25, "One sentence.")
    assert entry.figures == (Table("Ridge lambda", ("block", "lambda"), ((1, 0.25), (2, 0.5))),)


def test_what_a_generator_shows_of_itself_may_be_published() -> None:
    schema, codes = simulated()
    made = np.column_stack([codes[name][:50] for name in schema.names])
    picture = Picture(
        name="fit",
        title="Fit",
        sentence="One sentence.",
        kind="points",
        across="x",
        up="y",
        traces=(Trace("centres", (0.0,), (1.0,)),),
    )
    found = {entry.id: entry for entry in published_evidence(made, [], config_of(schema), pictures=[picture])}
    entry = found["picture.fit"]
    assert (entry.kind, entry.title, entry.value, entry.sentence) == ("safe", "Fit", None, "One sentence.")
    assert entry.figures == (replace(picture, sentence=""),)
    assert "<h2>Pictures of the model</h2>" in report_page([entry], heading="Report", promise=())


@pytest.mark.parametrize(
    ("others", "columns", "sentence"),
    [
        ((), 1, "All of them are modelled."),
        ((DropColumn("note"),), 1, "All of them are modelled."),
        ((IdentifierColumn("id"), DropColumn("note")), 2, "Modelled: 1; filled with fresh identifiers: 1."),
    ],
)
def test_identifiers_are_spoken_of_only_where_there_are_any(others: tuple, columns: int, sentence: str) -> None:
    schema = Schema((CategoryColumn("x", ("a", "b")), *others))
    found = {entry.id: entry for entry in published_evidence(np.zeros((4, 1), np.int64), [], config_of(schema))}
    assert (found["overview.columns"].value, found["overview.columns"].sentence) == (columns, sentence)


def test_without_any_answer_there_is_an_overview_and_every_pair_is_unknown() -> None:
    schema, codes = simulated()
    made = np.column_stack([codes[name][:50] for name in schema.names])
    found = published_evidence(made, [], config_of(schema))
    assert {entry.section for entry in found} == {"overview", "relations"}
    values = {entry.id: entry.value for entry in found}
    assert values["relations.unknown"] == values["relations.of"] > 0
    assert published_rows([]) is None


def test_the_number_of_rows_is_read_off_the_paid_answers() -> None:
    schema, codes = simulated(row_count="private")
    session = measured_session(schema, codes)
    assert published_rows(session.sums) == session.rows
    public = measured_session(*simulated())
    found = published_rows(public.sums)
    assert found is not None
    assert abs(found.value - 4000) < 6 * found.noise_std


@pytest.mark.thorough
@pytest.mark.parametrize(
    "columns",
    [
        (CategoryColumn("only", ("a",)),),
        (NumberColumn("a", 0, 2**24 - 1, 1, missing=True), CategoryColumn("b", tuple(map(str, range(60))))),
        tuple(NumberColumn(f"c{place}", 0, 3, 1) for place in range(200)),
    ],
    ids=["one category", "huge range", "200 columns"],
)
def test_edge_tables(columns: tuple) -> None:
    schema = Schema(columns)
    random = np.random.default_rng(0)
    codes = {column.name: random.integers(column.size, size=30) for column in schema.modelled}
    session = measured_session(schema, codes)
    made = np.column_stack([codes[name][:1] for name in schema.names])
    found = published_evidence(made, session.sums, config_of(schema), rows=session.rows)
    json.dumps(report_document(found), allow_nan=False)
    assert len([entry for entry in found if entry.id.endswith(".distance")]) == len(columns)


@pytest.mark.parametrize("bound", [0.0012345, 0.99999, 3.00009, 12.53, 12.5301, 123.45, 99_999.5])
def test_an_upper_bound_is_never_printed_smaller(bound: float) -> None:
    printed = float(number_text(rounded_up(bound)).replace(",", ""))
    assert bound * (1 - 1e-9) <= printed <= bound * 1.01
