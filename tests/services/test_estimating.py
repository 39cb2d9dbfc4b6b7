"""Estimates from a sealed bundle alone: what can be asked, what is unknown, and intervals that know of the noise."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from golden_bundles import GOLDEN, golden

import synth
from synth.cli.commands import main
from synth.errors import ConfigError
from synth.models.joint_model import MarkovRandomFieldFitter
from synth.privacy.bins import Bins
from synth.rehearsal import estimating
from synth.rehearsal.estimating import Estimates, estimate
from synth.rehearsal.questions import read_question
from synth.rehearsal.resolution import Resolution
from synth.reports.measured import MeasuredTable
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DateStep,
    NumberColumn,
    PrivacyUnit,
    Schema,
    YesNoColumn,
    coded_conditions,
)

# The installation that sealed it, with its vault and its ledger, is gone: nothing but this file is left of it.
BUNDLE = golden("dp-hp-adaptive")

SCHEMA = Schema(
    (
        NumberColumn("income", 0, 100, 1, special=(999.0,), missing=True),
        NumberColumn("net worth", 0, 100, 1),
        DateColumn("seen", date(2020, 1, 1), date(2020, 12, 31), DateStep.MONTH),
        CategoryColumn("region", ("north", "south"), missing=True),
        YesNoColumn("smoker"),
    )
)
CODES = {
    "income": np.array([10, 20, 102, 30, 40]),
    "net worth": np.array([10, 10, 10, 50, 60]),
    "seen": np.array([0, 1, 2, 3, 11]),
    "region": np.array([0, 1, 0, 2, 1]),
    "smoker": np.array([0, 1, 1, 0, 1]),
}


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarkovRandomFieldFitter, "first_steps", 3)
        patch.setattr(MarkovRandomFieldFitter, "last_steps", 10)
        yield


def asked(question: str, **more: Any) -> Estimates:
    (found,) = estimate(BUNDLE, question, replicates=5, **more)
    return found


def test_questions_are_read_outside_quotation_marks() -> None:
    schema = Schema(
        (NumberColumn("paid by us", 0, 9, 1), CategoryColumn("where", (" by ", "x")), YesNoColumn("smoker"))
    )
    found = read_question('  Quantile 0.9 of "paid by us" BY "where",smoker\nWhere "where" = \' by \' ', schema)
    assert (found.kind, found.part, found.column, found.by) == ("quantile", 0.9, "paid by us", ("where", "smoker"))
    assert found.where is not None
    many = " by " * 100_000
    with pytest.raises(ConfigError, match="no column"):
        read_question(f"mean x {many}", schema)


def holds(text: str) -> list[tuple[bool, bool]]:
    where = read_question(f"share of {text}", SCHEMA).share
    assert where is not None
    yes, no = coded_conditions.holds(where, {column.name: column for column in SCHEMA.modelled}, CODES)
    return list(zip(yes.tolist(), no.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("income >= 20", "NY?YY"),
        ("income BETWEEN 15 AND 35", "NY?YN"),
        ("income IN (10, 40) OR smoker = 'yes'", "YYYNY"),
        ("income IS NULL", "NNYNN"),
        ("NOT income >= 20", "YN?NN"),
        ("region = 'north' AND income < 15", "YN?NN"),
        ("seen >= '2020-03-01'", "NNYYY"),
        ("region <> 'north'", "NYN?Y"),
        ("smoker = TRUE", "NYYNY"),
        ('"net worth" > income', "NN?YY"),
    ],
)
def test_of_a_missing_cell_a_condition_neither_holds_nor_fails(text: str, held: str) -> None:
    words = {(True, False): "Y", (False, True): "N", (False, False): "?"}
    assert "".join(words[one] for one in holds(text)) == held


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("average income", "This question is not understood. Ask for: mean COLUMN"),
        ("mean earnings", "The bundle has no column 'earnings'. Its columns: income"),
        ("mean region", "'region' is not a number"),
        ("quantile 1.5 of income", "lies between 0 and 1"),
        ("mean income by net worth", "Groups must be by categories"),
        ("table of region by region", "is named twice"),
        ("share of region > 'north'", "have no order"),
        ("share of region = 'nroth'", "no value 'nroth'. Its values: north, south"),
        ("share of region LIKE 'n%'", "LIKE is not supported in estimates"),
        ("share of income >", "a constant is missing"),
        ("regression of income", "Write a regression as: regression of COLUMN on COLUMN"),
        ("regression of income on smoker by region", "Write a regression as: regression of COLUMN on COLUMN"),
        ("regression of region on income", "Name one: regression of region = 'VALUE'"),
        ("regression of income on income", "A column of the regression is named twice"),
        ("regression of income on smoker, smoker", "A column of the regression is named twice"),
        ("regression of income on wealth", "no column 'wealth'"),
        ("share of income = 'ten'", "'income' is compared with a value it cannot have"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(text: str, words: str) -> None:
    rows = np.stack([CODES[name] for name in SCHEMA.names], axis=1)
    with pytest.raises(ConfigError) as refused:
        estimating._Asked.of(read_question(text, SCHEMA), SCHEMA).estimated(rows)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_list_is_no_question() -> None:
    with pytest.raises(ConfigError, match="A question is a text, such as"):
        estimate(BUNDLE, ["mean age"])  # type: ignore[arg-type]


def test_numbers_are_those_of_the_released_rows(tmp_path: Path) -> None:
    synth.replay(BUNDLE, tmp_path / "again")
    with (tmp_path / "again" / "synthetic.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    ages = [float(row["age"]) for row in rows if row["age"]]
    questions = ("mean age", "median of age where ward = 'north'", "table of ward by outcome")
    first, second, table = estimate(BUNDLE, *questions, replicates=0)
    (mean,) = first.numbers
    assert (mean.value, mean.rows) == (pytest.approx(np.mean(ages)), len(ages))
    assert np.isnan(mean.low)
    (median,) = second.numbers
    own = [float(row["age"]) for row in rows if row["age"] and row["ward"] == "north"]
    assert (median.value, median.rows) == (np.median(own), len(own))
    assert table.names == ("outcome", "ward")
    for one in table.numbers:
        mine = [row for row in rows if row["outcome"] == ("" if one.group[0] == "missing" else one.group[0])]
        if mine and one.group[1] in ("north", "south"):  # spreadsheets might compute others, which are written apart
            assert one.value == pytest.approx(np.mean([row["ward"] == one.group[1] for row in mine]))


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_a_regression_is_that_of_a_library(kind: str) -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    random = np.random.default_rng(5)
    codes = {
        "income": random.integers(0, 101, 3000),
        "net worth": random.integers(0, 101, 3000),
        "seen": random.integers(0, 12, 3000),
        "region": random.integers(0, 3, 3000),
        "smoker": random.integers(0, 2, 3000),
    }
    codes["smoker"] = (random.random(3000) < 1 / (1 + np.exp(2 - 0.04 * codes["income"]))).astype(int)
    codes["net worth"] = np.clip(codes["income"] // 2 + 10 * codes["smoker"] + random.integers(0, 30, 3000), 0, 100)
    full = codes["region"] < 2
    income, south = codes["income"][full], codes["region"][full] == 1
    wealth, smoker = codes["net worth"][full], codes["smoker"][full]
    if kind == "linear":
        text, x = 'regression of "net worth" on income, region, smoker', np.column_stack([income, south, smoker])
        library = LinearRegression().fit(x, wealth)
        expected, words = [library.intercept_, *library.coef_], ["constant", "income", "region = south", "smoker = yes"]
    else:
        text, x = "regression of smoker on income, region where income >= 0", np.column_stack([income, south])
        library = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x, smoker)
        expected, words = [library.intercept_[0], *library.coef_[0]], ["constant", "income", "region = south"]
    asked = estimating._Asked.of(read_question(text, SCHEMA), SCHEMA)
    rows = np.stack([codes[name] for name in SCHEMA.names], axis=1)
    found, counts = asked.estimated(rows)
    assert [one for (one,) in asked.words] == words
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert set(counts) == {full.sum()}


def test_what_rows_cannot_tell_is_not_told() -> None:
    def coefficients(text: str, **changed: np.ndarray) -> np.ndarray:
        random = np.random.default_rng(6)
        codes = {column.name: random.integers(0, column.n_values, 500) for column in SCHEMA.modelled} | changed
        rows = np.stack([codes[name] for name in SCHEMA.names], axis=1)
        return estimating._Asked.of(read_question(text, SCHEMA), SCHEMA).estimated(rows)[0]

    incomes = np.arange(500) % 100
    alone = coefficients("regression of income on region", region=np.zeros(500, int))
    assert np.isfinite(alone[0])
    assert np.isnan(alone[1]), "a value that no row has"
    told = coefficients("regression of smoker on income", income=incomes, smoker=(incomes > 50).astype(int))
    assert np.isnan(told).all(), "an outcome that is told without fail"
    twice = coefficients('regression of seen on income, "net worth"', **{"income": incomes, "net worth": incomes})
    assert np.isnan(twice).all(), "predictors of which one follows from the other"


def test_an_interval_of_a_quantile_is_where_the_shares_are_far_enough_apart() -> None:
    """Incomes of 0 to 99, each as often: ten points of the level are ten places."""
    codes = np.stack([np.arange(1000) % column.n_values for column in SCHEMA.modelled], axis=1)
    codes[:, 0] = np.arange(1000) % 100
    question = estimating._Asked.of(read_question("quantile 0.3 of income", SCHEMA), SCHEMA)
    released, _ = question.estimated(codes)
    np.testing.assert_allclose(question.compared(codes, np.array([30.0]), {}), 0.305)
    said = np.array([[[one]] * 2 for one in (0.55, 0.60, 0.65, 0.58, 0.62)])
    off = said - 0.5
    far = 2.7764 * np.sqrt(1.2) * off[:, 0].std(ddof=1)
    low, high = question.interval(codes, released, said, np.array([0.5]), {})
    np.testing.assert_allclose([low[0], high[0]], [100 * (0.4 - far), 100 * (0.4 + far)], atol=1.01)
    # Beyond the last row there is nothing: the end is that of the rows.
    low, high = question.interval(codes, released, said + 0.9, np.array([0.5]), {})
    assert high[0] == 99


def in_tens(zeros: int = 0, *, summed: bool = False) -> tuple[np.ndarray, dict[str, Resolution]]:
    """Incomes of 0 to 99, counted in tens, spread evenly in each, as a release spreads them; more in the first ten."""
    incomes = np.concatenate([np.arange(1000) % 100, np.arange(zeros) % 10])
    codes = np.stack([np.arange(len(incomes)) % column.n_values for column in SCHEMA.modelled], axis=1)
    codes[:, 0] = incomes
    income = SCHEMA.modelled_column("income")
    bins = Bins.of_codes(np.append(np.arange(101) // 10, [11, 12]))
    table = MeasuredTable(("income",), (bins,), np.zeros(13), 1.0, "tens")
    found = Resolution.of(income, [table], codes[:, 0], summed=summed)
    assert found is not None
    return codes, {"income": found}


@pytest.mark.parametrize(
    ("comparison", "divided"),
    [
        ("income = 0", True),
        ("income <> 9", True),
        ("income < 0", False),
        ("income < 1", True),
        ("income >= 10", False),
        ("income <= 9", False),
        ("income > 8", True),
        ("income BETWEEN 10 AND 95", False),
        ("income BETWEEN 5 AND 95", True),
        ("income IN (40, 3)", True),
        ("income = 999", False),
        ("NOT (region = 'north' OR income = 4)", True),
        ('income > "net worth"', False),
        ("income IS NULL", False),
    ],
)
def test_which_comparisons_divide_a_range_that_was_counted_as_a_whole(comparison: str, divided: bool) -> None:
    codes, known = in_tens(9000)
    asked = estimating._Asked.of(read_question(f"share of {comparison}", SCHEMA), SCHEMA)
    assert (asked.divided(codes, known) > 0.5) == divided
    assert asked.divided(codes, {}) == 0


def test_places_of_rows_that_are_spread_as_smoothly_as_their_neighbours_are_known() -> None:
    codes, known = in_tens()
    for text in ("share of income < 55", "median income", "mean income"):
        asked = estimating._Asked.of(read_question(text, SCHEMA), SCHEMA)
        assert asked.unplaced(codes, known) < 0.02
    assert Resolution.of(SCHEMA.modelled_column("region"), [], codes[:, 3]) is None
    assert Resolution.of(SCHEMA.modelled_column("income"), [], codes[:, 0]) is None


@pytest.mark.parametrize(
    ("question", "low", "high"),
    [
        ("share of income = 0", 0.0, 0.91),
        ("share of income > 0", 0.09, 1.0),
        ("share of income >= 10", 0.09, 0.09),
        ("share of smoker = 'yes' where income >= 5", 0.09 * 0.5, 1 - 0.09 * 0.5),
        ("mean income", 4.95, 4.95 + 0.91 * 9),
        ("median income", 0, 9),
        ("quantile 0.95 of income", 49, 51),
    ],
)
def test_an_interval_allows_for_any_place_in_a_range_that_was_counted_as_a_whole(
    question: str, low: float, high: float
) -> None:
    """Nine tenths of the rows are in the first ten, and may all be zeros; there is no noise."""
    codes, known = in_tens(9000)
    asked = estimating._Asked.of(read_question(question, SCHEMA), SCHEMA)
    released, _ = asked.estimated(codes)
    compared = asked.compared(codes, released, known)
    ends = asked.interval(codes, released, np.tile(compared, (5, 1, 1)), compared, known)
    np.testing.assert_allclose(np.ravel(ends), [low, high], atol=0.02 * max(1.0, high))
    compared = asked.compared(codes, released, {})
    without = asked.interval(codes, released, np.tile(compared, (5, 1, 1)), compared, {})
    assert without[1] - without[0] <= 1, "all of the width is due to places"


def test_a_mean_that_has_a_noisy_sum_is_known_wherever_rows_lie() -> None:
    codes, known = in_tens(9000, summed=True)
    asked = estimating._Asked.of(read_question("mean income", SCHEMA), SCHEMA)
    released, _ = asked.estimated(codes)
    compared = asked.compared(codes, released, known)
    low, high = asked.interval(codes, released, np.tile(compared, (5, 1, 1)), compared, known)
    assert low == pytest.approx(released)
    assert high == pytest.approx(released)


def test_many_zeros_in_one_bin_are_within_the_interval_of_a_bundle(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    incomes = np.where(random.random(1500) < 0.8, 0, random.integers(1, 30_001, 1500))
    (tmp_path / "table.csv").write_text("income\n" + "".join(f"{one}\n" for one in incomes), encoding="utf-8")
    config = {
        "account": "incomes",
        "unit": {"protects": "person", "rows_per_unit": 1},
        "row_count": "private",
        "people_at_most": 5000,
        "budget": {"epsilon": 20.0, "delta": 1e-6},
        "generator": {"name": "independent"},
        "rows": 1500,
        "columns": {"income": {"type": "number", "low": 0, "high": 30_000, "step": 1, "fallback": 0}},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
        run = synth.run(synth.load_config(tmp_path / "run.yaml"), tmp_path / "release", table=tmp_path / "table.csv")
    asked = ("share of income = 0", "median income", "mean income where income > 100", "share of income >= 15000")
    zeros, middle, rich, half = estimate(run.bundle, *asked, replicates=5)
    for found, truth in ((zeros, np.mean(incomes == 0)), (middle, 0.0)):
        (one,) = found.numbers
        assert one.low - 0.01 <= truth <= one.high + 0.01
        assert one.value != pytest.approx(truth, abs=0.3)
        assert 0.7 < found.unplaced < 0.9
        assert "of the rows lie close together in a range that was counted as a whole" in found.lines[-1]
        assert "The intervals allow for any place." in found.lines[-1]
    assert rich.replicates == 0
    assert np.isnan(rich.numbers[0].low)
    assert "Treat the number as unknown." in rich.lines[-1]
    (one,) = half.numbers
    assert one.high - one.low < 0.2
    assert not any("close together" in line for line in half.lines)
    assert Estimates.from_dict(zeros.to_dict()) == zeros


def test_intervals_of_coefficients() -> None:
    found = asked("regression of ward = 'north' on outcome where age >= 0")
    assert found.names == ("coefficient",)
    assert found.numbers[0].group == ("constant",)
    if not found.unknown:
        assert any(one.high > one.low for one in found.numbers)


@pytest.mark.thorough
def test_intervals_know_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def widths(found: Estimates) -> np.ndarray:
        assert found.replicates == 5
        assert "5 second releases" in found.lines[-1]
        return np.array([one.high - one.low for one in found.numbers if one.rows])

    question = "table of ward"
    assert (widths(asked(question)) > 0).all()
    right = estimating.fit_and_sample

    def at(epsilon: float) -> np.ndarray:
        def with_noise(config: Any, *arguments: Any, **named: Any) -> Any:
            return right(replace(config, epsilon=epsilon, rows=100_000), *arguments, **named)

        monkeypatch.setattr(estimating, "fit_and_sample", with_noise)
        return widths(asked(question))

    # The noise of the kept bundle plays no part in the comparison.
    assert at(100.0).mean() < 0.8 * at(0.2).mean()


@pytest.mark.thorough
def test_intervals_know_of_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, an interval of a share is as wide as that of as many rows drawn one by one."""
    right, seen = estimating.fit_and_sample, []

    def without_noise(config: Any, table: Any, *arguments: Any, **named: Any) -> Any:
        seen.append(table._rows)
        return right(replace(config, epsilon=100.0, rows=100_000), table, *arguments, **named)

    monkeypatch.setattr(estimating, "fit_and_sample", without_noise)
    (found,) = estimate(BUNDLE, "share of ward = 'north'", replicates=12)
    (one,) = found.numbers
    (n,) = set(seen)
    expected = 2 * 2.2 * np.sqrt(one.value * (1 - one.value) / n)
    assert 0.5 * expected < one.high - one.low < 2 * expected


@pytest.mark.thorough
def test_rows_of_one_unit_are_taken_to_be_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there are four times fewer of them to learn from, and an interval without noise is twice as wide."""
    opened, seen = estimating.saved_generator, []

    def without_error(config: Any, table: Any, *arguments: Any, **named: Any) -> Any:
        seen.append(np.stack(list(table._columns.values()), axis=1))
        return SimpleNamespace(codes=seen[-1])

    def of_several(bundle: Any) -> Any:
        fitted, config, answers, rows = opened(bundle)
        schema = replace(config.schema, unit=PrivacyUnit("patient", 4), row_count="private", number_of_units=None)
        return fitted, replace(config, schema=schema), answers, rows

    # Rows are drawn by public seeds, so that the widths are the same in every run.
    monkeypatch.setattr(estimating, "fit_and_sample", without_error)
    (alone,) = estimate(BUNDLE, "share of ward = 'north'", replicates=200)[0].numbers
    monkeypatch.setattr(estimating, "saved_generator", of_several)
    found = estimate(BUNDLE, "share of ward = 'north'", replicates=200)[0]
    (alike,) = found.numbers
    assert 1.6 < (alike.high - alike.low) / (alone.high - alone.low) < 2.5
    assert "The rows of one unit are assumed to be alike" in found.lines[-1]
    assert (seen[-1][:4] == seen[-1][0]).all()


@pytest.mark.thorough
@pytest.mark.parametrize("public", [False, True])
def test_second_releases_of_a_run_that_paid_for_predictions(
    public: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They set the share of the predictions aside, so that the generator has as much noise as in the run."""
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    rows = "".join(f"{number % 50},{'ab'[number % 2]}\n" for number in range(400))
    (tmp_path / "table.csv").write_text("age,ward\n" + rows, encoding="utf-8")
    config = {
        "account": "clinic",
        "unit": {"protects": "person", "rows_per_unit": 1},
        **({"row_count": "public", "number_of_units": 400} if public else {"row_count": "private"}),
        "people_at_most": 1000,
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "generator": {"name": "independent"},
        "rows": 400,
        "label": "ward",
        "prediction_share": 0.4,
        "columns": {
            "age": {"type": "number", "low": 0, "high": 49, "step": 1, "fallback": 0},
            "ward": {"type": "category", "values": ["a", "b"], "fallback": "a"},
        },
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config), encoding="utf-8")
    run = synth.run(synth.load_config(tmp_path / "run.yaml"), tmp_path / "release", table=tmp_path / "table.csv")
    right, noises = estimating.fit_and_sample, []

    def watched(*arguments: Any, **named: Any) -> Any:
        noises.append(right(*arguments, **named).receipts)
        return right(*arguments, **named)

    monkeypatch.setattr(estimating, "fit_and_sample", watched)
    (one,) = estimate(run.bundle, "mean age", replicates=5)[0].numbers
    assert one.low < one.value < one.high
    sealed = json.loads(zipfile.ZipFile(run.bundle).read("certificate.json"))["receipts"]
    of_run = [receipt["noise_scale"] for receipt in sealed if not receipt["query"].startswith("predictions")]
    assert len(of_run) == len(sealed) - 1
    assert [[receipt.noise_scale for receipt in receipts] for receipts in noises] == [of_run] * 5


def test_pairs_that_were_not_measured_get_no_interval() -> None:
    # This generator asks for no pairs, whatever the noise.
    (found,) = estimate(golden("independent"), "mean age by ward", replicates=5)
    assert found.unknown == (("age", "ward", "not measured"),)
    assert found.replicates == 0
    assert all(np.isnan(one.low) for one in found.numbers)
    assert "age and ward: not measured; treat as unknown." in found.lines


@pytest.mark.thorough
def test_from_the_command_line_and_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "estimates.csv"
    assert main(["estimate", str(BUNDLE), "share of ward = 'north'", "--replicates", "5", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "95 % intervals for noise and sampling together" in said
    assert out.read_text(encoding="utf-8").startswith("question,estimate,low,high,rows\n")
    table = synth.estimate(BUNDLE, "table of ward", replicates=0).table
    assert list(table.columns) == ["ward", "estimate", "low", "high", "rows"]
    assert table["estimate"].sum() == pytest.approx(1.0)
    assert main(["estimate", str(BUNDLE), "mean ward"]) == 2
    assert main(["estimate", str(BUNDLE), "mean age", "--replicates", "2"]) == 2
    assert "Intervals need at least 5 second releases" in capsys.readouterr().err


def test_a_bundle_of_a_model_has_no_rows_to_estimate_from() -> None:
    model = golden(next(name for name in GOLDEN if "regression" in name))
    with pytest.raises(ConfigError, match="draws no rows"):
        estimate(model, "mean age", replicates=0)
