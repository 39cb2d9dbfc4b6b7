"""Configurations: what is read, what is refused and in which words."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import pytest

from synth.errors import ConfigError, InputError
from synth.schema import (
    CategoryColumn,
    NumberColumn,
    TableFormat,
    config_to_mapping,
    config_to_yaml,
    default_delta,
    load_config,
    parse_config,
    schema_from_document,
    schema_to_document,
)
from synth.schema.documents import read_mapping
from synth.services.planning import check_config
from synth.system.settings import Settings

ROOT = Path(__file__).resolve().parents[1]

COMPLETE = """
table: patients.csv
format: {separator: auto, header: true, names: null, encoding: utf-8, missing: ["", "NA"], strip: true, skip_rows: 0}
account: city-survey-2026
unit: {protects: person, rows_per_unit: 3, id_column: name}
row_count: private
people_at_most: 100000
budget: {epsilon: 1.0, delta: 1e-6}
holdout: 0.2
test_table: null
generator: {name: dp-hp, options: {order: 10, gamma: 1e-3}}
rows: 20000
label: outcome
groups: [region]
rules: ["end >= start"]
seed: 9007199254740993
device: auto
columns:
  age:     {type: number, low: 0, high: 120, step: 1}
  gain:    {type: number, low: 0, high: 99999, step: 1, special: [0], weight: high}
  weight:  {type: number, low: 20, high: 250, step: 0.5, missing: true}
  region:  {type: category, values: [north, south, 007, 1], other: true}
  smoker:  {type: yes_no, yes: "yes", no: "no"}
  no:      {type: date, low: 2020-01-01, high: 2025-12-31, step: month}
  outcome: {type: category, values: ["none", "mild", "severe"], aliases: {"none.": "none"}}
  name:    {type: identifier}
  notes:   {type: drop}
"""
FACTS = {"people_at_most": "100", "unit": "{protects: person, rows_per_unit: 1}", "row_count": "public"}
SMALL = {"account": "x", "rows": "5", "budget": "{epsilon: 1}"} | FACTS


def lines(declared: dict[str, str], *, but: str = "") -> str:
    """Write keys as a configuration, but for those that another text gives itself."""
    given = {line.partition(":")[0] for line in but.splitlines()} - {"account"}
    return "".join(f"{key}: {value}\n" for key, value in declared.items() if key not in given)


def parse(text: str):
    return parse_config(read_mapping(text))


def test_a_complete_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(COMPLETE)
    config = load_config(tmp_path / "run.yaml")
    assert config.table == str(tmp_path / "patients.csv")
    assert config.delta == 1e-6
    assert config.seed == 9007199254740993
    assert dict(config.options) == {"order": 10, "gamma": 1e-3}
    assert config.schema.sizes == (121, 100_001, 462, 5, 2, 72, 3)
    region = config.schema["region"]
    assert isinstance(region, CategoryColumn)
    assert region.values == ("north", "south", "007", "1")
    weight = config.schema["weight"]
    assert isinstance(weight, NumberColumn)
    assert (weight.decimals, weight.missing_code) == (1, 461)


def test_round_trips() -> None:
    config = parse(COMPLETE)
    assert parse(config_to_yaml(config)) == config
    assert parse_config(json.loads(json.dumps(config_to_mapping(config)))) == config
    assert parse(config_to_yaml(config.published())).table is None


DECLARED = """
account: x
unit: {protects: person, rows_per_unit: 1}
rows: 5
budget: {epsilon: 1}
format: {header: false, separator: ";", newlines: true, skip_rows: 2, names: [a, b, c, d, e]}
row_count: public
number_of_units: 1200
columns:
  a: {type: number, low: 0, high: 9, step: 0.5, special: [99], fallback: 99}
  b: {type: category, values: [north, 007], fallback: 007}
  c: {type: yes_no, yes: "on", no: "off", fallback: "off"}
  d: {type: date, low: 2020-01-01, high: 2025-12-31, step: month, fallback: 2022-05-06}
  e: {type: number, low: 0, high: 9, missing: true}
"""


def test_what_rows_must_not_tell_is_read_and_written() -> None:
    config = parse(DECLARED)
    assert (config.format.newlines, config.format.skip_rows, config.format.separator) == (True, 2, ";")
    assert config.schema.number_of_units == config.people_at_most == 1200
    fallbacks = [column.fallback for column in config.schema.modelled]
    assert fallbacks == [99, "007", "off", datetime.date(2022, 5, 6), None]
    assert parse(config_to_yaml(config)) == config
    assert parse_config(json.loads(json.dumps(config_to_mapping(config)))) == config
    assert schema_from_document(json.loads(json.dumps(schema_to_document(config.schema)))) == config.schema
    check_config(config)
    config.format.check()
    assert len(config.format.assumptions) == 1
    assert replace(config.format, newlines=False).assumptions == ()


def test_what_is_not_declared_is_not_written() -> None:
    # Documents of before are read and written as they were.
    config = parse(lines(SMALL) + "columns: {a: {type: yes_no}}")
    assert (config.schema.number_of_units, config.format.newlines) == (None, False)
    document = schema_to_document(config.schema)
    assert "number_of_units" not in document
    assert "fallback" not in document["columns"][0]
    assert schema_from_document(document) == config.schema


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "number_of_units: 1200\n",
            "people_at_most: 1200\n",
            "The number of persons is declared public but not given",
        ),
        (', fallback: "off"', "", "Say what an empty or unreadable cell becomes in 'c'"),
        (", fallback: 99", "", "in 'a'"),
        (", missing: true", "", "in 'e'"),
        ('separator: ";"', "separator: auto", "needs its separator"),
        ("skip_rows: 2", 'comment: "#"', "'comment' needs a header"),
        ('separator: ";"', 'separator: "é"', "one plain character"),
        ("newlines: true", "newlines: true, encoding: ebcdic", "encoding 'ebcdic' is not supported"),
    ],
)
def test_what_is_left_open_is_read_and_starts_nothing(old: str, new: str, message: str) -> None:
    # Such bundles were made before, so that the document itself is read.
    assert old in DECLARED
    config = parse(DECLARED.replace(old, new))
    with pytest.raises(InputError, match=message) as refusal:
        check_config(config)
    assert "\n" not in str(refusal.value)


def test_several_open_columns_are_named_at_once() -> None:
    columns = ", ".join(f"c{place}: {{type: yes_no}}" for place in range(8))
    config = parse(f"{lines(SMALL)}number_of_units: 3\ncolumns: {{{columns}}}")
    with pytest.raises(InputError, match="in 'c0', 'c1', 'c2', 'c3', 'c4' and 3 more: declare 'missing: true'"):
        check_config(config)


def test_examples_are_read() -> None:
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        # One example has no table, and fits any that has these columns.
        names = ("person", "age", "region", "q1", "q7_text", "has_car", "income", "rent")
        config = load_config(path, lambda table, names=names: names)
        assert parse(config_to_yaml(config)) == config
        check_config(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "columns: {a: {type: yes_no, yes: yes, no: no}}",
            "'a': yes must be in quotes where it says yes, no, true or false",
        ),
        (
            "columns: {a: {type: category, values: [true]}}",
            "'a': values must be in quotes where it says yes, no, true or false",
        ),
        ("columns: {a: {type: category, values: []}}", "'a': values must be a list of categories"),
        ("columns: {a: {type: number, low: 0}}", "'a': high is missing. Choose limits you would be happy to print"),
        ("columns: {a: {type: number, low: 120, high: 18}}", "'a': high must be larger than low"),
        ("columns: {a: {type: number, low: x, high: 18}}", "'a': low must be a number"),
        ("columns: {a: {type: number, low: 0, high: 1, colour: red}}", "'a': unknown key 'colour'"),
        ("columns: {a: {type: number, low: 0, high: 1e10, step: 1}}", "'a' has 10,000,000,001 values"),
        ("columns: {a: {type: text}}", "'a': type must be one of"),
        ("columns: {a: 3}", "'a' needs a mapping"),
        ("columns: {a: {type: date, low: 2020, high: 2021-01-01}}", "'a': low must be a date"),
        ("columns: {a: {type: drop}}", "No column is left to model"),
        ("columns: {}", "columns must be a mapping that declares every column"),
        ("colour: red", "unknown key 'colour'"),
        ("account: y", "A key is given twice (line 7)"),
        ("columns: {a: {type: drop}, a: {type: drop}}", "A key is given twice (line 7)"),
        ("[", "not valid YAML near line"),
        ("unit: {who: me}\ncolumns: {a: {type: drop}}", "unit: unknown key 'who'"),
        (
            "unit: {protects: one, rows_per_unit: 1, id_column: b}\ncolumns: {a: {type: yes_no}}",
            "id_column 'b' is not a declared column",
        ),
        (
            "unit: {protects: one, rows_per_unit: 1, id_column: a}\ncolumns: {a: {type: yes_no}}",
            "must be declared 'type: identifier'",
        ),
        ("seed: -1\ncolumns: {a: {type: yes_no}}", "seed must be a whole number"),
        ("seed: 1.5\ncolumns: {a: {type: yes_no}}", "seed must be a whole number"),
        ("label: b\ncolumns: {a: {type: yes_no}}", "There is no column called 'b'"),
        ("holdout: 1\ncolumns: {a: {type: yes_no}}", "holdout must be at least 0 and below 1"),
        ("row_count: maybe\ncolumns: {a: {type: yes_no}}", "row_count must be public or private"),
        ("format: {header: false}\ncolumns: {a: {type: yes_no}}", "needs 'names'"),
        ("number_of_units: 0.5\ncolumns: {a: {type: yes_no}}", "number_of_units must be a whole number"),
        ("number_of_units: -3\ncolumns: {a: {type: yes_no}}", "number_of_units must be at least 1"),
        ("number_of_units: 0\ncolumns: {a: {type: yes_no}}", "number_of_units must be at least 1"),
        (
            "number_of_units: 9\nrow_count: private\ncolumns: {a: {type: yes_no}}",
            "number_of_units is only for a public number",
        ),
        ("columns: {a: {type: number, low: 0, high: 9, fallback: 10}}", "'a': fallback must lie between low and high"),
        ("columns: {a: {type: number, low: 0, high: 9, fallback: x}}", "'a': fallback must be a number"),
        ("columns: {a: {type: category, values: [b], fallback: c}}", "'a': fallback must be one of"),
        (
            "columns: {a: {type: yes_no, fallback: yes}}",
            "'a': fallback must be in quotes where it says yes, no, true or false",
        ),
        ("columns: {a: {type: date, low: 2020-01-01, high: 2021-01-01, fallback: x}}", "'a': fallback must be a date"),
        ("columns: {a: {type: drop, fallback: 3}}", "'a': unknown key 'fallback'"),
        ("format: {newlines: 3}\ncolumns: {a: {type: yes_no}}", "newlines"),
        ("generator: dp-hp\ncolumns: {a: {type: yes_no}}", "generator must be a mapping"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(lines(SMALL, but=text) + text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("account", None, "account is missing"),
        ("account", "", "account is missing"),
        ("rows", None, "rows is missing"),
        ("rows", "", "rows is missing"),
        ("rows", "0", "rows must be between 1 and"),
        ("budget", None, "budget: epsilon is missing"),
        ("budget", "{epsilon: }", "budget: epsilon is missing"),
        ("budget", "{epsilon: -1}", "epsilon must be positive and finite, got -1"),
        ("budget", "{epsilon: .inf}", "epsilon must be"),
        ("budget", "{epsilon: 1, delta: 2}", "delta must be at least 0 and below 1, got 2"),
        ("people_at_most", None, "people_at_most is missing. Write a public upper bound"),
        ("people_at_most", "", "people_at_most is missing"),
        ("people_at_most", "0", "people_at_most must be at least 1, got 0"),
        ("people_at_most", "many", "people_at_most must be a number"),
        ("unit", None, "unit is missing. Write for example unit: {protects: person"),
        ("unit", "{rows_per_unit: 1}", "unit: protects is missing"),
        ("unit", "{protects: person}", "unit: rows_per_unit is missing"),
        ("row_count", None, "row_count is missing. Write public if"),
        ("row_count", "", "row_count is missing"),
    ],
)
def test_no_default_stands_for_a_fact_that_only_the_owner_knows(key: str, value: str | None, message: str) -> None:
    given = {name: text for name, text in SMALL.items() if name != key} | ({} if value is None else {key: value})
    with pytest.raises(InputError, match=message) as refusal:
        parse(lines(given) + "columns: {a: {type: yes_no}}")
    assert "\n" not in str(refusal.value)
    parse(lines(SMALL) + "columns: {a: {type: yes_no}}")


@pytest.mark.parametrize(
    ("people", "delta"), [(1, 1e-6), (9_000, 1e-6), (100_000, 1e-6), (100_001, 1e-7), (10**6, 1e-7), (10**9, 1e-10)]
)
def test_default_delta_is_far_below_one_over_the_number_of_people(people: int, delta: float) -> None:
    assert default_delta(people) == pytest.approx(delta, rel=1e-12)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'nowhere\.yaml' cannot be read"):
        load_config("nowhere.yaml")


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    settings = Settings.from_environment({"HERMITAGE_HOME": str(tmp_path), "HERMITAGE_RETENTION_HOURS": "2.5"})
    assert settings.home == tmp_path
    assert settings.database_url == f"sqlite:///{tmp_path}/hermitage.sqlite"
    assert settings.retention_hours == 2.5
    with pytest.raises(ConfigError, match="HERMITAGE_JOB_SLOTS"):
        Settings.from_environment({"HERMITAGE_JOB_SLOTS": "many"})


def test_a_table_format_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="names"):
        TableFormat(header=False)
    with pytest.raises(ConfigError, match="separator"):
        TableFormat(separator="ab")


CHARGED = COMPLETE.replace("rows: 20000", "rows: 20000\nprediction_share: 0.05")


def test_a_share_for_predictions_is_read_and_written_and_off_by_default() -> None:
    config = parse(CHARGED)
    assert config.prediction_share == 0.05
    assert parse(config_to_yaml(config)).prediction_share == 0.05
    assert parse(COMPLETE).prediction_share == 0.0
    assert "prediction_share" not in config_to_mapping(parse(COMPLETE))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: outcome", "", "no label is declared"),
        ("holdout: 0.2", "holdout: 0", "nobody is held out"),
        ("holdout: 0.2\ntest_table: null", "holdout: 0\ntest_table: more.csv", "a test_table does not count"),
        ("label: outcome", "label: age", None),
        ("label: outcome", 'label: "no"', None),
        ('["none", "mild", "severe"], aliases: {"none.": "none"}', "[only]", "have 2 to 10 classes, got 1"),
        ("label: outcome", "label: region", None),
        ("[north, south, 007, 1]", str(list("abcdefghijk")), None),
        ("prediction_share: 0.05", "prediction_share: 1", "at least 0 and below 1"),
        ("prediction_share: 0.05", "prediction_share: -0.1", "at least 0 and below 1"),
        ("prediction_share: 0.05", "prediction_share: a", "prediction_share"),
    ],
    ids=[
        *("label", "hold-out", "test table", "number", "date", "one class", "five classes", "another column"),
        *("all of it", "negative", "text"),
    ],
)
def test_predictions_are_charged_only_where_they_can_be(old: str, new: str, message: str | None) -> None:
    text = CHARGED.replace(old, new)
    if message is None:
        assert parse(text).prediction_share == 0.05
        return
    with pytest.raises(InputError, match=message) as refusal:
        parse(text)
    assert "\n" not in str(refusal.value)


def test_predictions_of_too_many_classes_and_of_cells_are_refused() -> None:
    many = COMPLETE.replace("[north, south, 007, 1]", str([f"r{place}" for place in range(10)]))
    many = many.replace("label: outcome", "label: region\nprediction_share: 0.05")
    with pytest.raises(ConfigError, match="2 to 10 classes, got 11"):  # "other" is a class
        parse(many)
    cell = CHARGED.replace("row_count: private", "row_count: public\nprotection: cell")
    cell = cell.replace("rows_per_unit: 3", "rows_per_unit: 1").replace("id_column: name", "id_column: null")
    cell = cell.replace("  name:    {type: identifier}\n", "")
    cell = cell.replace("{name: dp-hp, options: {order: 10, gamma: 1e-3}}", "{name: kahm}")
    with pytest.raises(ConfigError, match="sums cannot be released where one cell is protected"):
        parse(cell)
    parse(cell.replace("prediction_share: 0.05", ""))
