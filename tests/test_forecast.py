"""A forecast is what the session really does: same noise by column and by pair, under both relations."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from candidates import candidate_of

from synth.errors import ConfigError
from synth.generators import GENERATORS, GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, OneHot
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.reports.code_tables import coarse_bins, coarse_size
from synth.reports.forecast import PlannedSession, budget_parts, forecast, one_way_noise, smallest_epsilon
from synth.reports.holdout import PREDICTION_QUERY, holdout_tables, planned_question
from synth.reports.measured import EVALUATION_QUERY, evaluation_question, measured_tables
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, Weight
from synth.services.planning import forecast_lines

COLUMNS = (
    NumberColumn("age", 0, 99, 1, missing=True),
    NumberColumn("income", 0, 99_999, 1, weight=Weight.HIGH, fallback=0),
    CategoryColumn("region", ("n", "s", "e", "w"), weight=Weight.LOW, fallback="n"),
    CategoryColumn("class", ("a", "b", "c"), fallback="a"),
)


def config_of(
    columns: tuple = COLUMNS, *, rows_per_unit: int = 1, row_count: str = "public", **changes: object
) -> RunConfig:
    schema = Schema(columns, unit=PrivacyUnit(rows_per_unit=rows_per_unit), row_count=row_count)  # type: ignore[arg-type]
    settings = {"account": "a", "epsilon": 1.0, "rows": 100, "delta": 1e-6, "people_at_most": 10_000}
    return RunConfig(schema=schema, **settings | {"generator": "independent"} | changes)  # type: ignore[arg-type]


def session_of(config: RunConfig, *, rows: int = 50) -> tuple[PrivateSession, dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    codes = {column.name: random.integers(column.size, size=rows) for column in config.schema.modelled}
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    return PrivateSession(PrivateTable.from_codes(config.schema, codes), budget), codes


SITUATIONS = [(1, "public"), (1, "private"), (3, "public"), (3, "private")]


@pytest.mark.parametrize("generator", ["independent", "independent-by-class", "dp-merf"])
@pytest.mark.parametrize(("rows_per_unit", "row_count"), SITUATIONS)
def test_the_plan_is_what_the_session_does(rows_per_unit: int, row_count: str, generator: str) -> None:
    config = config_of(rows_per_unit=rows_per_unit, row_count=row_count, generator=generator, label="class")
    shares = {part.name: part.share for part in budget_parts(config)}
    assert sum(shares.values()) == pytest.approx(1)
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6, neighbours=config.schema.neighbours)
    task = GeneratorTask(schema=config.schema, label="class", seed=0, device="cpu")
    real, _ = session_of(config)
    planned = PlannedSession(config.schema, budget, rows=50)
    if "row count" in shares:
        real.count_rows(share=shares["row count"])
        assert forecast(config).row_count_std == real.receipts[0].noise_scale
    for session in (real, planned):
        if "row count" in shares and session is planned:
            session.noisy_sum(Constant(), share=shares["row count"], query="number of rows", source="number of rows")
        if "evaluation" in shares:
            question = evaluation_question(config.schema)
            session.noisy_sum(question, share=shares["evaluation"], query=EVALUATION_QUERY, source="report")
        if GENERATORS[generator].measures_one_ways:
            make(generator, task, {}).fit(session.sub_session(session.remaining_share), NullProgress())
    for mine, theirs in zip(planned.sums, real.sums, strict=True):
        ours = replace(mine.receipt, private=True, assumptions=theirs.receipt.assumptions)
        assert ours == theirs.receipt
    found = {cell.columns: cell.noise_std for cell in forecast(config).columns}
    best: dict[tuple[str, ...], float] = {}
    for table in measured_tables(real.sums):
        for axis, name in enumerate(table.columns):
            noise = table.noise_std * math.sqrt(table.counts.size / table.counts.shape[axis])
            best[name,] = min(noise, best.get((name,), math.inf))
    assert found == best
    assert set(found) == {(name,) for name in config.schema.names}


def test_the_noise_of_200_draws_is_the_forecast_by_column_and_by_pair() -> None:
    # At least 32 cells a table: 6,400 draws know a standard deviation to 0.9 %, so that 5 % is beyond chance.
    region = CategoryColumn("region", tuple(map(str, range(60))))
    config = config_of((*COLUMNS[:2], region), generator="dp-merf", evaluation_share=0.4)
    expected = forecast(config)
    by_column = {cell.columns: cell.noise_std for cell in expected.columns}
    by_pair = {cell.columns: cell.noise_std for cell in expected.pairs}
    errors: dict[tuple[str, ...], list[np.ndarray]] = {}
    bins = {column.name: coarse_bins(column) for column in config.schema.modelled}
    pairs = list(itertools.combinations(config.schema.names, 2))
    for _ in range(200):
        session, codes = session_of(config)
        session.noisy_sum(evaluation_question(config.schema), share=0.4, query=EVALUATION_QUERY, source="report")
        for table in measured_tables(session.sums):
            (name,) = table.columns
            exact = np.bincount(table.bins[0][codes[name]], minlength=len(table.counts))
            errors.setdefault(table.columns, []).append(table.counts - exact)
        # All pairs together take the whole budget; each is a question of its own.
        session, codes = session_of(config)
        for pair in pairs:
            question = OneHot(pair, tuple(bins[name] for name in pair), tuple(bins[name].size for name in pair))
            value = session.noisy_sum(question, share=1 / len(pairs), query=str(pair), source="test").value
            exact = np.zeros(question.shape)
            np.add.at(exact, tuple(bins[name][codes[name]] for name in pair), 1)
            errors.setdefault(pair, []).append((value - exact).reshape(-1))
    for columns, found in errors.items():
        measured = float(np.concatenate(found).std())
        assert measured == pytest.approx((by_column | by_pair)[columns], rel=0.05), columns


@pytest.mark.parametrize("of", ["columns", "pairs"])
@pytest.mark.parametrize("generator", ["independent", "independent-by-class", "dp-merf"])
@pytest.mark.parametrize("wanted", [4.0, 30.0, 200.0])
def test_the_smallest_epsilon_inverts_the_forecast(generator: str, of: str, wanted: float) -> None:
    config = config_of(generator=generator, label="class", row_count="private")
    epsilon = smallest_epsilon(config, wanted, of=of)  # type: ignore[arg-type]

    def widest(epsilon: float) -> float:
        found = forecast(replace(config, epsilon=epsilon))
        return max(cell.range95 for cell in (found.columns if of == "columns" else found.pairs))

    assert widest(epsilon) <= wanted
    assert widest(0.995 * epsilon) > wanted


def test_numbers_of_the_published_table() -> None:
    # Ten one-way tables of ten cells, add or remove one person, epsilon 1, delta 1e-6.
    columns = tuple(CategoryColumn(f"c{place}", tuple(map(str, range(10)))) for place in range(10))
    config = config_of(columns, row_count="private", people_at_most=1000, holdout=0.0)
    found = forecast(config)
    without_count = math.sqrt(1 - 0.02)
    assert found.columns[0].noise_std * without_count == pytest.approx(13.4, abs=0.05)
    assert found.columns[0].moved * without_count == pytest.approx(0.053, abs=0.0006)
    first = next(iter(found.pairs))
    assert first.noise_std == pytest.approx(28.3, abs=0.05)
    assert first.moved == pytest.approx(1.13, abs=0.005)
    assert not first.usable
    assert found.columns[0].usable
    assert len(found.pairs) == 45
    assert first.basis == "if measured"
    assert found.columns[0].basis == "generator"
    promise = found.promise
    assert promise.odds == pytest.approx(math.e)
    assert (promise.even, promise.rare) == (pytest.approx(0.731, abs=5e-4), pytest.approx(0.0267, abs=5e-4))
    # Upper bounds of 0.4621, 0.0942 and 0.0183, rounded up.
    assert (promise.advantage, promise.noise_advantage, promise.noise_caught) == (0.463, 0.095, 0.019)


def test_public_bins_are_counted_without_making_them() -> None:
    for column in (*COLUMNS, NumberColumn("short", 0, 5, 1), CategoryColumn("only", ("a",), missing=True)):
        assert coarse_size(column) == coarse_bins(column).count


def test_a_high_weight_gets_less_noise_from_the_control() -> None:
    found = {cell.columns[0]: cell.noise_std for cell in forecast(config_of()).columns}
    assert found["income"] < found["age"] < found["region"]
    assert forecast(config_of()).trustworthy == pytest.approx(10 * found["region"])


def test_the_control_noise_is_that_of_equal_one_way_tables() -> None:
    config = config_of()
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6, neighbours=config.schema.neighbours)
    assert one_way_noise(config) == pytest.approx(math.sqrt(2 * 4 / budget.mu_squared), rel=1e-3)


def test_a_plan_ends_where_the_rows_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chooser(GENERATORS["independent"].model):  # type: ignore[misc, valid-type]
        def fit(self, session: AnswerSource, progress: Progress) -> Chooser:
            question = OneHot(("class",), (None,), (3,))
            session.noisy_sum(question, share=0.25, query="first", source="test")
            session.noisy_max([candidate_of(("class",), np.zeros(3))], share=0.25, query="choice", source="test")
            raise AssertionError("a planned session makes no private choice")

    monkeypatch.setitem(GENERATORS, "independent", replace(GENERATORS["independent"], made_by=Chooser))
    found = forecast(config_of())
    assert [cell.columns for cell in found.columns] == [("class",)]
    assert found.columns[0].noise_std > forecast(config_of(epsilon=2.0)).columns[0].noise_std


def test_what_cannot_be_reached_is_said() -> None:
    with pytest.raises(ConfigError, match="Not even epsilon 100"):
        smallest_epsilon(config_of(), 1e-3)
    with pytest.raises(ConfigError, match="positive number of rows"):
        smallest_epsilon(config_of(), 0.0)
    with pytest.raises(ConfigError, match="measures no such counts"):
        smallest_epsilon(config_of(generator="dp-merf", evaluation_share=0.0), 10.0)
    assert forecast(config_of(generator="dp-merf", evaluation_share=0.0)).column_range is None


@pytest.mark.parametrize(
    "columns",
    [
        (CategoryColumn("only", ("a",)),),
        (CategoryColumn("only", ("a",)), CategoryColumn("second", ("b",))),
        tuple(NumberColumn(f"c{place}", 0, 9999, 1) for place in range(200)),
        (CategoryColumn("label", tuple(map(str, range(60)))), NumberColumn("x", 0, 1, 1)),
    ],
    ids=["one cell", "two constants", "200 wide columns", "sixty classes"],
)
@pytest.mark.parametrize("generator", ["independent", "independent-by-class", "dp-merf"])
def test_edge_tables(columns: tuple, generator: str) -> None:
    config = config_of(columns, generator=generator, label=columns[0].name)
    if not GENERATORS[generator].needs.are_met(config.schema, config.label):
        with pytest.raises(ConfigError, match="needs a label of at least two values"):
            forecast(config)
        return
    found = forecast(config)
    assert len(found.columns) == len(columns)
    assert len(found.pairs) == math.comb(len(columns), 2)
    assert all(math.isfinite(cell.noise_std) and cell.noise_std > 0 for cell in (*found.columns, *found.pairs))


def test_every_question_of_a_fixed_schedule_has_its_part() -> None:
    found = forecast(config_of(generator="kahm", label="class"))
    names = [part.name for part in found.parts]
    assert names == ["one-way tables", "class sizes and sums", "pairs of coordinates", "pairs of directions by class"]
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)
    assert all(part.share > 0 for part in found.parts)
    assert {cell.columns for cell in found.columns} == {(name,) for name in config_of().schema.names}


@pytest.mark.parametrize(("rows_per_unit", "row_count"), SITUATIONS)
def test_predictions_are_a_part_of_the_plan_and_cost_what_the_session_charges(
    rows_per_unit: int, row_count: str
) -> None:
    config = config_of(
        rows_per_unit=rows_per_unit,
        row_count=row_count,
        label="class",
        groups=("region", "income", "class"),
        prediction_share=0.1,
    )
    shares = {part.name: part.share for part in budget_parts(config)}
    assert shares["predictions"] == 0.1
    assert sum(shares.values()) == pytest.approx(1)
    told = forecast(config).prediction
    assert told is not None
    codes = {column.name: np.zeros(50, np.int64) for column in config.schema.modelled}
    train, held = (
        PrivateTable.from_codes(config.schema, codes, account_key=bytes(32), holdout=config.holdout, part=part)
        for part in ("train", "holdout")
    )
    session = PrivateSession(train, PrivacyBudget(1.0, 1e-6, config.schema.neighbours)).holdout_session(held, share=0.1)
    release = session.noisy_sum(planned_question(config), share=1.0, query=PREDICTION_QUERY, source="report")
    tables = holdout_tables([release])
    assert tables is not None
    assert told.noise_std == tables.noise_std
    assert told.groups == (("region", 4, tables.groups[0][2]),)  # a number has too many values, the label is no group
    assert tables.groups[0][2] == pytest.approx(release.noise_std / math.sqrt(0.5), rel=1e-6)
    # Three classes by four bins: the accuracy adds up twelve counts.
    assert told.bins == 12
    assert told.accuracy_std == pytest.approx(told.noise_std * math.sqrt(12) / 2000)


def test_shares_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="prediction_share leave nothing"):
        budget_parts(config_of(generator="dp-merf", label="class", evaluation_share=0.5, prediction_share=0.5))


@pytest.mark.parametrize(
    ("changes", "rows", "sentence"),
    [
        (
            {"holdout": 0.0},
            10_000,
            "Shares of rows refer to 10,000 rows: the declared upper bound of 10,000 (unit: person). With fewer units "
            "they are larger in proportion.",
        ),
        (
            {"rows_per_unit": 6, "row_count": "private"},
            8_000,
            "Shares of rows refer to 8,000 rows: the declared upper bound of 10,000 (unit: person), one row each, less "
            "the 20% held out. With fewer units they are larger in proportion; with up to 6 rows each, smaller by up "
            "to that factor.",
        ),
    ],
    ids=["one row each", "several rows and a hold-out"],
)
def test_shares_say_which_rows_they_refer_to(changes: dict, rows: int, sentence: str) -> None:
    found = forecast(config_of(**changes))
    assert found.rows_sentence == sentence
    assert found.rows == pytest.approx(rows)
    cell = found.columns[0]
    half_of_all_errors = cell.cells * cell.noise_std * math.sqrt(2 / math.pi) / 2
    assert cell.moved * rows == pytest.approx(half_of_all_errors)


def test_shares_grow_in_proportion_where_there_are_fewer_units() -> None:
    many, few = (forecast(config_of(people_at_most=people)) for people in (10_000, 1_000))
    assert few.columns[0].moved == pytest.approx(10 * many.columns[0].moved)


def test_the_share_that_is_printed_never_exceeds_all_rows() -> None:
    # The sum of the errors of all counts is no distance: of 45 pairs at this budget it is 113 % of the rows.
    config = config_of(row_count="private", people_at_most=30, epsilon=0.3)
    found = forecast(config)
    assert max(cell.moved for cell in found.pairs) > 1
    lines = forecast_lines(config)
    assert not any("total variation" in line or "distance" in line for line in lines)
    shares = [float(share) for line in lines for share in re.findall(r"([0-9.]+)%", line)]
    assert all(0 <= share <= 100 for share in shares)
    assert sum("no usable signal" in line for line in lines) == sum(
        not cell.usable for cell in (*found.columns, *found.pairs)
    )
