"""Rows for regressions: moments are asked for with their part of the budget, and the rows agree with them."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.errors import ConfigError
from synth.generators.adaptive import PURPOSE, regression
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.models.pool import TiltedPool
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema
from synth.schema.columns.base import Weight

SLOPES = np.array([0.5, -0.3, 0.0, 0.4])


def follows(n_rows: int, *, left_out: bool = False) -> tuple[Schema, dict[str, np.ndarray]]:
    """A number that follows three others and a class; one of the numbers is heavy in its tail."""
    random = np.random.default_rng(3)
    group = random.choice(3, n_rows, p=[0.6, 0.39, 0.01])
    x = random.normal(size=(n_rows, 3)) + 0.5 * (group == 1)[:, None]
    y = np.column_stack([x, group == 1]) @ SLOPES + 0.7 * random.normal(size=n_rows)
    numbers = np.clip(np.rint(100 * np.column_stack([x, y]) + 500), 0, 1000).astype(np.int64)
    weight = Weight.LOW if left_out else Weight.NORMAL
    columns = tuple(
        NumberColumn(name, 0, 1000, 1, fallback=0, weight=weight if name == "x2" else Weight.NORMAL)
        for name in ("x0", "x1", "x2", "y")
    )
    listed = CategoryColumn("group", ("a", "b", "rare"), fallback="a")
    codes = dict(zip(("x0", "x1", "x2", "y"), numbers.T, strict=True)) | {"group": group}
    return Schema((*columns, listed), row_count="public"), codes


def slopes(numbers: np.ndarray, group: np.ndarray) -> np.ndarray:
    z = (numbers - numbers.mean(axis=0)) / 100.0
    design = np.column_stack([z[:, :3], group == 1, np.ones(len(z))])
    return np.linalg.lstsq(design, z[:, 3], rcond=None)[0][:4]


def fit(opened: PrivateSession | RecordedSession, **options: object) -> DpHpAdaptive:
    made = generators.make(DpHpAdaptive.card.name, task(opened.schema, None), options)
    return made.fit(opened, NullProgress())


@pytest.fixture(scope="module")
def fitted() -> dict[str, tuple[PrivateSession, DpHpAdaptive]]:
    found = {}
    for purpose in ("balanced", "regression"):
        opened = session(*follows(4000), epsilon=2.0, noise_key=1)
        found[purpose] = opened, fit(opened, purpose=purpose)
    return found


@pytest.mark.thorough
def test_a_regression_on_the_rows_finds_what_it_finds_on_the_real_ones(fitted) -> None:
    _, codes = follows(4000)
    real = slopes(np.column_stack([codes[name] for name in ("x0", "x1", "x2", "y")]), codes["group"])
    off = {}
    for purpose, (_, made) in fitted.items():
        rows = made.sample(4000, seed=2)
        off[purpose] = np.abs(slopes(rows[:, :4], rows[:, 4]) - real).max()
    # Two standard errors of a slope in 4,000 rows are .022.
    assert off["regression"] < 0.06
    assert off["balanced"] > 2 * off["regression"]


@pytest.mark.thorough
def test_moments_get_their_part_of_the_budget_and_nothing_is_left(fitted) -> None:
    opened, _ = fitted["regression"]
    total = sum(receipt.units for receipt in opened.receipts)
    (moments,) = [receipt for receipt in opened.receipts if receipt.query == "moments of all columns"]
    assert moments.units / total == pytest.approx(0.4, abs=1e-6)
    assert opened.remaining_share < 1e-8
    assert not [one for one in fitted["balanced"][0].receipts if one.query.startswith("moments")]


def test_a_rare_class_has_no_coordinate_and_the_largest_stands_behind_the_others(fitted) -> None:
    asked = [one.feature_map for one in fitted["regression"][0].sums if isinstance(one.feature_map, RowMoments)][-1]
    assert [table.column for table in asked.tables] == ["x0", "x1", "x2", "y", "group"]
    assert [table.dimension for table in asked.tables] == [1, 1, 1, 1, 1]
    b, others = asked.tables[-1].table[1, 0], asked.tables[-1].table[[0, 2], 0]
    assert b > 0 > others[0] == others[1]


def test_a_number_is_moved_to_four_standard_deviations_and_special_values_are_numbers() -> None:
    random = np.random.default_rng(0)
    paid = np.where(random.random(5000) < 0.5, 0, random.integers(1, 1001, 5000))
    far = np.where(random.random(5000) < 0.001, 1000, random.integers(0, 11, 5000))
    # Codes of special values and of missing stand behind the grid's.
    codes = {"paid": np.where(paid == 0, 1000, paid - 1), "far": far, "z": random.integers(0, 11, 5000)}
    schema = Schema(
        (
            NumberColumn("paid", 1, 1000, 1, special=(0.0,), missing=True),
            NumberColumn("far", 0, 1000, 1, fallback=0),
            NumberColumn("z", 0, 10, 1, fallback=0),
        ),
        row_count="public",
    )
    opened = session(schema, codes, epsilon=20.0, noise_key=1)
    fit(opened, purpose="regression")
    asked = [one.feature_map for one in opened.sums if isinstance(one.feature_map, RowMoments)][-1]
    vectors = [
        table.table[:, 0] if table.bins is None else table.table[table.bins.plain(), 0] for table in asked.tables
    ]
    scaled = [one / np.abs(vectors[1]).max() * regression._FARTHEST for one in vectors]
    assert scaled[1].max() == regression._FARTHEST
    assert scaled[1][1000] == regression._FARTHEST
    # A special value beyond the limits says nothing of the number, and neither does a gap: both are at the mean.
    assert scaled[0][1000] == pytest.approx(0.0, abs=0.05)
    assert scaled[0][1001] == pytest.approx(0.0, abs=0.05)


@pytest.mark.thorough
def test_columns_of_low_importance_are_left_out() -> None:
    opened = session(*follows(4000, left_out=True), epsilon=2.0, noise_key=1)
    fit(opened, purpose="regression")
    asked = [one.feature_map for one in opened.sums if isinstance(one.feature_map, RowMoments)][-1]
    assert [table.column for table in asked.tables] == ["x0", "x1", "y", "group"]


@pytest.mark.thorough
def test_rows_come_again_from_what_is_kept_and_from_recorded_answers(fitted) -> None:
    opened, made = fitted["regression"]
    assert isinstance(made._model, TiltedPool)
    rows = made.sample(500, seed=5)
    again = DpHpAdaptive.from_state(task(opened.schema, None), made._options, made.state())
    assert (again.sample(500, seed=5) == rows).all()
    recorded = RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers)
    assert (fit(recorded, purpose="regression").sample(500, seed=5) == rows).all()


def test_a_table_of_one_column_has_no_moments() -> None:
    schema, codes = follows(2000)
    one = Schema(schema.columns[:1], row_count="public")
    opened = session(one, {"x0": codes["x0"]}, epsilon=2.0, noise_key=1)
    assert fit(opened, purpose="regression").sample(50, seed=1).shape == (50, 1)


@pytest.mark.parametrize("n_rows", [0, 1, 40, 3000])
def test_where_no_two_columns_are_known_to_vary_the_budget_counts_columns(n_rows: int) -> None:
    """Of no rows, of few whose classes noise hides, and of many of which one column alone varies."""
    random = np.random.default_rng(8)
    codes = {
        "a": random.integers(0, 11, n_rows),
        "b": np.zeros(n_rows, int) if n_rows > 1000 else random.integers(0, 3, n_rows),
        "c": np.zeros(n_rows, int) if n_rows > 1000 else random.integers(0, 2, n_rows),
    }
    columns = (
        NumberColumn("a", 0, 10, 1, fallback=0),
        CategoryColumn("b", ("p", "q", "r"), fallback="p"),
        CategoryColumn("c", ("s", "t"), fallback="s"),
    )
    opened = session(Schema(columns, row_count="private"), codes, epsilon=1.0, noise_key=1)
    made = fit(opened, purpose="regression")
    assert opened.remaining_share < 1e-8
    assert opened.receipts[-1].query.startswith(("moments of all columns", "one-way tables again"))
    again = fit(
        RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers), purpose="regression"
    )
    np.testing.assert_array_equal(made.sample(50, seed=1), again.sample(50, seed=1))


@pytest.mark.thorough
def test_of_a_regression_that_is_named_only_its_columns_are_asked_about() -> None:
    opened = session(*follows(4000, left_out=True), epsilon=2.0, noise_key=1)
    made = fit(opened, purpose="regression of y on x0, x2")
    asked = [one.feature_map for one in opened.sums if isinstance(one.feature_map, RowMoments)][-1]
    # Also a column of low importance, once it is named.
    assert [table.column for table in asked.tables] == ["x0", "x2", "y"]
    whole = session(*follows(4000), epsilon=2.0, noise_key=1)
    fit(whole, purpose="regression")
    alone, among = (
        next(one for one in each.receipts if one.query == "moments of all columns") for each in (opened, whole)
    )
    assert alone.units == pytest.approx(among.units, rel=1e-6)
    assert made.sample(50, seed=1).shape == (50, 5)


@pytest.mark.parametrize(
    ("purpose", "words"),
    [
        ("regresion", "option 'purpose' must be one of balanced, prediction, marginals, regression, or 'regression of"),
        ("regression of wage on x0", "does not name an outcome in the table"),
        ("regression of y on wage", "there is no column 'wage'. Columns to choose from: x0, x1, x2, y, group"),
        ("regression of y on y", "name an outcome and at least one other column"),
        ("regression of y on ", "name an outcome and at least one other column"),
        ("regression of y", "does not name an outcome in the table"),
        ("regression of y on x0,x2", "has one form only. Write: regression of y on x0, x2."),
        ("regression of y on x0,   x2 ", "Write: regression of y on x0, x2."),
        ("regression of y on \u2003x0, x2", "Write: regression of y on x0, x2."),
        ('regression of y on "x0", x2', "Write: regression of y on x0, x2."),
        (1, "purpose must be text"),
    ],
)
def test_what_names_no_regression_is_refused_in_one_sentence(purpose: object, words: str) -> None:
    schema, _ = follows(10)
    with pytest.raises(ConfigError, match=words) as refused:
        generators.make(DpHpAdaptive.card.name, task(schema, None), {"purpose": purpose})
    assert "\n" not in str(refused.value)


def test_names_with_commas_and_quotation_marks_come_back() -> None:
    names = ["net, gross", 'the "best"', "age on entry", "age", "entry on leave"]
    for outcome in names:
        others = [name for name in names if name != outcome]
        assert PURPOSE.columns(PURPOSE.written(outcome, others), names) == (outcome, *others)
    assert PURPOSE.columns("regression", names) == ()
