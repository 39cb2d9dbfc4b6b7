"""Whole people in a configuration, a draft and a DataFrame: what is declared is read back, or refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

import synth
from synth.cli.asking import ask_configuration
from synth.cli.commands import main
from synth.cli.files import draft_configuration
from synth.errors import ConfigError, InputError, SchemaError
from synth.reports.forecast import forecast
from synth.schema import (
    LinkedTables,
    RunConfig,
    config_of_text,
    config_to_yaml,
    parse_schema,
    schema_from_document,
    schema_to_document,
)
from synth.schema.guesses import belongs_to_unit_by_name, order_by_name

WHOLE = "{protects: patient, id_column: patient, rows_per_unit: 6, same_in_all_rows: [sex], ordered_by: visited}"
HEAD = """
account: visits
row_count: private
people_at_most: 10000
budget: {epsilon: 1}
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  visited: {type: date, low: 2022-01-01, high: 2024-12-31, step: day, fallback: 2022-01-01}
  ward: {type: category, values: [heart, children], fallback: heart}
  score: {type: number, low: 0, high: 9, step: 0.5, special: [99, 1.5], fallback: 0}
  note: {type: drop}
"""
NEEDS = (
    "people is a number of people to make, each with their rows. That needs an id_column and a rows_per_unit above 1, "
    "and not 'people: separate_rows'. Otherwise write 'rows'."
)


def said(unit: str = WHOLE, more: str = "rows: 100") -> RunConfig:
    return config_of_text(f"{HEAD}unit: {unit}\n{more}\n")


@pytest.mark.parametrize(
    ("more", "people", "by_people", "made"),
    [
        ("people: 5000", "whole", True, 5000),
        ("rows: 13000", "whole", False, 13000),
        ("rows: 13000\npeople: whole", "whole", False, 13000),
        ("rows: 13000\npeople: separate_rows", "separate_rows", False, 13000),
        ("model: private-classifier\nlabel: ward", "separate_rows", False, 0),
        ("model: private-classifier\nlabel: ward\npeople: separate_rows", "separate_rows", False, 0),
    ],
)
def test_people_or_rows_are_made_and_written_back(more: str, people: str, by_people: bool, made: int) -> None:
    config = said(more=more)
    assert (config.schema.people, config.by_people, config.rows) == (people, by_people, made)
    assert config_of_text(config_to_yaml(config)) == config
    assert config_of_text(config_to_yaml(config.sealed())) == config.sealed()


@pytest.mark.parametrize("unit", ["{protects: patient, rows_per_unit: 6}", "{protects: patient, rows_per_unit: 1}"])
def test_without_an_id_or_with_one_row_each_rows_are_separate(unit: str) -> None:
    assert said(unit).schema.people == "separate_rows"


def unit(**changes: str | None) -> str:
    keys = {**yaml.safe_load(WHOLE), **changes}
    return str(
        yaml.safe_dump({key: value for key, value in keys.items() if value is not None}, default_flow_style=True)
    )


REFUSED = {
    "an unknown column": (unit(same_in_all_rows=["sex", "born"]), "rows: 1", "There is no column called 'born'."),
    "an unknown order": (unit(ordered_by="day"), "rows: 1", "There is no column called 'day'."),
    "a dropped column": (
        unit(same_in_all_rows=["note"]),
        "rows: 1",
        "unit: same_in_all_rows: 'note' is an identifier or dropped. Leave it out.",
    ),
    "the id itself": (
        unit(same_in_all_rows=["patient"]),
        "rows: 1",
        "unit: same_in_all_rows: 'patient' is an identifier or dropped. Leave it out.",
    ),
    "a column twice": (
        unit(same_in_all_rows=["sex", "sex"]),
        "rows: 1",
        "unit: same_in_all_rows names 'sex' twice. Name it once.",
    ),
    "an order without an order": (
        unit(ordered_by="ward"),
        "rows: 1",
        "unit: ordered_by: 'ward' has no order. Name a number, a date or a time.",
    ),
    "an order that is the same": (
        unit(same_in_all_rows=["visited"]),
        "rows: 1",
        "unit: 'visited' cannot give the order of rows and be the same in all of them.",
    ),
    "an order of one row": (
        unit(rows_per_unit=1, same_in_all_rows=None),
        "rows: 1",
        "unit: ordered_by is for several rows of one patient. Declare id_column and a rows_per_unit above 1, or leave "
        "it out.",
    ),
    "an order with a special value among its own": (
        unit(ordered_by="score"),
        "rows: 1",
        "unit: ordered_by: 'score' has a special value that is also one of its range, so its cells do not say where "
        "they come. Take it out of one of the two, or name another column.",
    ),
    "no id": (
        unit(id_column=None),
        "rows: 1",
        "unit: same_in_all_rows is for several rows of one patient. Declare id_column and a rows_per_unit above 1, or "
        "leave it out.",
    ),
    "people and rows": (
        WHOLE,
        "people: 5\nrows: 9",
        "people and rows are both given. Keep the one that you want a number of.",
    ),
    "people of single rows": ("{protects: patient, rows_per_unit: 1}", "people: 5", NEEDS),
    "people without an id": ("{protects: patient, rows_per_unit: 6}", "people: 5", NEEDS),
    "a word": (WHOLE, "people: many", "people must be a number."),
    "nobody": (WHOLE, "people: 0", "people must be between 1 and 50,000,000, got 0."),
    "people of a model": (
        WHOLE,
        "people: 5\nmodel: private-classifier\nlabel: ward",
        "'model' and 'people' are both given, and a model releases no rows. Leave one of them out.",
    ),
    "one text for several": (unit(same_in_all_rows="sex"), "rows: 1", "unit: same_in_all_rows must be a list."),
    "whole people without ids": (
        "{protects: patient, rows_per_unit: 6}",
        "rows: 5\npeople: whole",
        "people: the rows of one patient can be kept together where an id_column says which they are, and "
        "rows_per_unit is above 1.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(case: str) -> None:
    declared, more, sentence = REFUSED[case]
    with pytest.raises(InputError) as refusal:
        said(declared, more)
    assert str(refusal.value) == sentence


TABLES = "tables: {patients: p.csv, visits: v.csv, key: patient}"


def test_two_tables_are_read_and_written_back(tmp_path: Path) -> None:
    config = config_of_text(f"{HEAD}unit: {unit(id_column=None)}\n{TABLES}\npeople: 9\n", base=tmp_path)
    assert config.schema.tables == LinkedTables("patients", "visits", "patient")
    assert (config.schema.unit.id_column, config.schema.people, config.schema.names[-1]) == (
        "patient",
        "whole",
        "_merge",
    )
    assert config.table_files == (str(tmp_path / "p.csv"), str(tmp_path / "v.csv"))
    assert config_of_text(config_to_yaml(config)) == config
    assert config.sealed().table_files is None
    assert config_of_text(config_to_yaml(config.sealed())) == config.sealed()
    assert schema_from_document(schema_to_document(config.schema)) == config.schema


def test_what_belongs_to_the_unit_is_read_from_the_first_table() -> None:
    names = {"p.csv": ["patient", "sex", "note"], "v.csv": ["patient", "visited", "ward"]}
    text = f"{HEAD}unit: {unit(same_in_all_rows=None)}\n{TABLES}\npeople: 9\n"
    config = config_of_text(text, lambda table: names[str(table.path)])
    assert config.schema.unit.same_in_all_rows == ("sex",)
    ward = "  ward: {type: category, values: [heart, children], fallback: heart}\n"
    by_pattern = f"{text.replace(ward, '')}columns_like:\n  - {ward.strip().replace('ward: {', '{like: w*, ')}\n"
    found = config_of_text(by_pattern, lambda table: names[str(table.path)]).schema
    assert (set(found.columns), found.unit) == (set(config.schema.columns), config.schema.unit)


OF_TABLES = {
    "one table": ("tables: {patients: p.csv, key: patient}", "people: 5", "tables must name two files and their key"),
    "no key": ("tables: {patients: p.csv, visits: v.csv}", "people: 5", "tables must name two files and their key"),
    "one path": ("tables: {patients: p.csv, visits: , key: patient}", "people: 5", "one of the two files is blank"),
    "a name": ("tables: {a/b: p.csv, visits: v.csv, key: patient}", "people: 5", "cannot be the name of a table"),
    "one name": ("tables: {visits: p.csv, Visits: v.csv, key: patient}", "people: 5", "both tables have the same name"),
    "a key": ("tables: {patients: p.csv, visits: v.csv, key: ward}", "people: 5", "Declare it as the id_column"),
    "a table": (TABLES + "\ntable: t.csv", "people: 5", "another table is named as well"),
    "a test": (TABLES + "\ntest_table: t.csv", "people: 5", "hold patients out instead"),
    "rows": (TABLES, "rows: 5", "Write 'people: ' and how many patients to make"),
    "separate": (TABLES, "rows: 5\npeople: separate_rows", "neither 'people: separate_rows' nor a model"),
    "a model": (TABLES, "model: private-classifier\nlabel: ward", "neither 'people: separate_rows' nor a model"),
}


@pytest.mark.parametrize("case", OF_TABLES)
def test_two_tables_that_cannot_be_are_refused_in_one_sentence(case: str) -> None:
    tables, more, sentence = OF_TABLES[case]
    with pytest.raises(InputError) as refusal:
        config_of_text(f"{HEAD}unit: {WHOLE}\n{tables}\n{more}\n")
    assert sentence in str(refusal.value)


def test_a_column_of_ones_own_cannot_have_the_name_that_says_the_table() -> None:
    own = HEAD.replace("  ward:", "  _merge: {type: category, values: [a, b], fallback: a}\n  ward:")
    with pytest.raises(InputError, match="Rename yours"):
        config_of_text(f"{own}unit: {WHOLE}\n{TABLES}\npeople: 5\n")


def test_a_mode_that_releases_every_row_by_itself_does_not_keep_people() -> None:
    generator = "generator: {name: kahm, options: {mode: rows}}\nlabel: ward\nrows: 100"
    public = HEAD.replace("row_count: private\npeople_at_most: 10000", "row_count: public\nnumber_of_units: 6000")
    config = config_of_text(f"{public}unit: {WHOLE}\n{generator}\n")
    with pytest.raises(InputError, match="rows_per_unit: 1, or choose mode 'record'"):
        forecast(config)


def test_a_generator_that_cannot_keep_these_people_names_the_way_out() -> None:
    with pytest.raises(ConfigError, match="'people: separate_rows' makes every row a person of its own") as refused:
        forecast(said(more="rows: 100\ngenerator: {name: kernel-sos}"))
    assert "generator 'kernel-sos' needs 1 to 6 numbers or dates" in str(refused.value)
    # That there are more columns than declared is no reason where something else is needed.
    with pytest.raises(ConfigError, match="needs a label of at least two values") as refused:
        forecast(said(more="rows: 100\ngenerator: {name: independent-by-class}"))
    assert "separate_rows" not in str(refused.value)


@pytest.mark.parametrize("generator", ["dp-hp-adaptive", "independent", "kahm"])
def test_a_forecast_counts_people_where_they_are_kept_whole(generator: str) -> None:
    told = forecast(said(more=f"label: ward\nrows: 100\ngenerator: {{name: {generator}}}"))
    assert told.counted == "patients"
    assert told.rows_sentence == (
        "Each patient counts once, however many rows are kept together. Shares of patients refer to 8,000 patients: "
        "the declared upper bound of 10,000 (unit: patient), less the 20% held out. With fewer units they are larger "
        "in proportion."
    )


# Drafts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sex", "Gender", "year_of_birth", "birthDate", "dob", "born", "race", "ethnicity"])
def test_names_of_what_belongs_to_a_person(name: str) -> None:
    assert belongs_to_unit_by_name(name)
    assert order_by_name([name]) is None


@pytest.mark.parametrize("name", ["ward", "cost", "sextant", "embrace", "visited"])
def test_names_of_what_may_differ(name: str) -> None:
    assert not belongs_to_unit_by_name(name)


@pytest.mark.parametrize(
    "name", ["visited", "admitted", "date_of_admission", "event_date", "visit_number", "timestamp"]
)
def test_names_of_what_gives_the_order(name: str) -> None:
    assert order_by_name(["born", "ward", name]) == name


ROWS = [
    (f"P{patient:04}", "fm"[patient % 2], 1940 + patient % 70, f"2024-{1 + 2 * visit:02}-{1 + patient % 28:02}", visit)
    for patient in range(90)
    for visit in range(1 + patient % 4)
]
FRAME = pd.DataFrame(ROWS, columns=["patient", "sex", "start_age", "visited", "again"])
FRAME["patient"] = FRAME["patient"].astype("string")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "visits.csv"
    FRAME.to_csv(path, index=False)
    return path


def uncommented(draft: str) -> str:
    """Take the proposals of a draft, and answer what it leaves open."""
    answers = {
        "  protects:": "  protects: patient",
        "  rows_per_unit:": "  rows_per_unit: 4",
        "  id_column:": "  id_column: patient",
        "  # same_in_all_rows:": "",
        "  # ordered_by:": "",
        "row_count:": "row_count: private",
        "people_at_most:": "people_at_most: 1000",
        "rows:": "people: 50",
    }
    lines = draft.splitlines()
    for place, line in enumerate(lines):
        key = next((key for key in answers if line.startswith(key)), None)
        if key is not None:
            lines[place] = answers[key] or line.replace("# ", "", 1)
    return "\n".join(lines)


def test_a_draft_proposes_by_names_and_after_a_look_by_rows(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_name = draft_configuration(str(table))
    assert '  # same_in_all_rows: ["sex"]  # by the names: ' in by_name
    assert '  # ordered_by: "visited"  # by the names: ' in by_name
    assert main(["schema", str(table), "--look", "--account", "visits"]) == 0
    drafted = capsys.readouterr().out
    several, rows = int((FRAME["patient"].value_counts() > 1).sum()), len(FRAME)
    assert (
        f'["sex", "start_age"]  # as seen in {several} ids with several rows among the first {rows} rows: ' in drafted
    )
    config = config_of_text(uncommented(drafted))
    assert (config.by_people, config.rows) == (True, 50)
    assert config.schema.unit.same_in_all_rows == ("sex", "start_age")
    assert config.schema.unit.ordered_by == "visited"


def test_a_terminal_asks_for_whole_people(table: Path) -> None:
    known = {
        "Account": "visits", "Who are": "patient", "The most rows": "4", "Which column says whose": "patient",
        "Is the number": "n", "The most there": "1000", "How many to make": "40", "sex: type": "category",
        "sex: categories": "f, m", "start_age: type": "number", "start_age: low": "0", "start_age: high": "120",
        "start_age: step": "1", "visited: type": "date", "visited: low": "2024-01-01", "visited: high": "2024-12-31",
        "visited: step": "day", "again: type": "drop",
    }  # fmt: skip
    wrong = {"Which columns belong": iter(["sex, sex"]), "Which column says in": iter(["sex"])}
    asked, told = [], []

    def ask(question: str, default: str) -> str:
        asked.append(question)
        assert len(asked) < 100, (question, told[-1:])
        again = next((answers for key, answers in wrong.items() if question.startswith(key)), iter(()))
        return next(again, next((answer for key, answer in known.items() if question.startswith(key)), default))

    written = ask_configuration(str(table), ask, told.append)
    config = config_of_text(written.read_text())
    assert (config.by_people, config.rows, config.schema.people) == (True, 40, "whole")
    assert (config.schema.unit.same_in_all_rows, config.schema.unit.ordered_by) == (("sex",), "visited")
    assert "Should each synthetic patient have several rows too (y/n)" in asked
    assert "Name each once, or none of them: sex, start_age, visited." in told
    assert "A number, a date or a time gives an order. Name one of: start_age, visited; or none." in told


def test_a_dataframe_and_its_release(table: Path) -> None:
    drafted = synth.draft_schema(FRAME)
    assert drafted["unit"]["same_in_all_rows"] == []
    drafted["unit"] |= {"protects": "patient", "rows_per_unit": 4, "id_column": "patient", "same_in_all_rows": ["sex"]}
    drafted["unit"]["ordered_by"] = "visited"
    drafted["row_count"] = "private"
    drafted["columns"] = {
        "patient": {"type": "identifier"},
        "sex": {"type": "category", "values": ["f", "m"], "fallback": "f"},
        "start_age": {"type": "number", "low": 1900, "high": 2020, "step": 1, "fallback": 1900},
        "visited": {"type": "date", "low": "2024-01-01", "high": "2024-12-31", "step": "day", "missing": True},
        "again": {"type": "drop"},
    }
    assert parse_schema(drafted).people == "whole"
    asked = {"epsilon": 3.0, "generator": "independent", "account": "visits", "people_at_most": 1000}
    rules = ["count <= 3", "next.visited - visited <= 80"]
    release = synth.Release(FRAME, drafted, people=60, rules=rules, **asked).fit(look=False)
    made = release.table_
    assert made.groupby("patient").size().max() == 3
    assert made.dropna(subset="visited").groupby("patient")["visited"].diff().max() <= pd.Timedelta(days=80)
    assert made["patient"].nunique() == 60
    assert len(made[["patient", "sex"]].drop_duplicates()) == 60
    assert made.dropna(subset="visited").groupby("patient")["visited"].is_monotonic_increasing.all()
    assert release.sample(7)["patient"].nunique() == 7
    apart = synth.Release(FRAME, drafted, people="separate_rows", rows=60, **asked).fit(look=False).table_
    assert apart["patient"].nunique() == len(apart) == 60
    with pytest.raises(InputError, match="people and rows are both given"):
        synth.Release(FRAME, drafted, people=60, rows=60, **asked)


def test_options_of_the_command_line_ask_for_people_or_rows(
    table: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "visits.yaml"
    path.write_text(f"{HEAD}unit: {WHOLE}\npeople: 40\n")
    assert main(["run", str(path), "--out", "made", "--rows", "5", "--people", "5"]) == 2
    assert "--people and --rows are both given." in capsys.readouterr().err
    assert main(["forecast", str(path), "--rows", "5"]) == 0
    assert "Each patient counts once" in capsys.readouterr().out


def test_a_column_of_one_value_gives_no_order() -> None:
    narrow = HEAD.replace("high: 9, step: 0.5, special: [99, 1.5]", "high: 0.4, step: 0.5")
    unit = WHOLE.replace("visited", "score")
    with pytest.raises(SchemaError, match=r"^unit: ordered_by: 'score' has one value only, so it gives rows no order"):
        config_of_text(f"{narrow}unit: {unit}\nrows: 100\n")
