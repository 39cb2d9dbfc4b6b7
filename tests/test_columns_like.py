"""Many columns declared at once: by a pattern or a list of names, resolved against a table, sealed in full."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import synth
from synth import limits
from synth.cli.commands import _parser, config_of, main
from synth.dictionaries import read_dictionary
from synth.errors import ConfigError, InputError, SchemaError
from synth.schema import COLUMN_TYPES, FindColumn, NumberColumn, config_of_text, parse_config
from synth.schema.columns_like import columns_in_full
from synth.schema.documents import read_mapping

NAMES = ("age", *(f"q{number}" for number in range(1, 301)), "q7_text")
SCALE = {"type": "number", "low": "1", "high": "5", "step": "1", "missing": True}
CELLS = ",".join(str(1 + place % 5) for place in range(len(NAMES)))
HEAD = """
account: survey
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 1000
budget: {epsilon: 1.0}
rows: 20
generator: {name: independent, options: {}}
"""
SURVEY = """
columns:
  q7_text: {type: drop}
  age: {type: number, low: 0, high: 110, step: 1, missing: true}
columns_like:
  - {like: "q*", except: [q7_text], type: number, low: 1, high: 5, step: 1, missing: true}
"""

FEW = """
columns:
  age: {type: number, low: 0, high: 110, step: 1, missing: true}
columns_like:
  - {like: "q[12]", type: number, low: 1, high: 5, step: 1, missing: true}
undeclared: drop
"""
"""Of the 301 questions two are declared."""


def in_folder(folder: Path, text: str = f"table: survey.csv\n{HEAD}{SURVEY}") -> Path:
    (folder / "survey.csv").write_text(f"{','.join(NAMES)}\n" + f"{CELLS}\n" * 200)
    (folder / "survey.yaml").write_text(text)
    return folder / "survey.yaml"


def full(columns: dict[str, Any] | None, *entries: dict[str, Any], names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    return columns_in_full(columns, list(entries), names)


def test_one_line_declares_three_hundred_columns_in_the_order_of_the_table(tmp_path: Path) -> None:
    config = synth.load_config(in_folder(tmp_path))
    assert [column.name for column in config.schema] == list(NAMES)
    assert {config.schema[f"q{number}"] for number in (1, 7, 300)} == {
        NumberColumn(f"q{number}", 1, 5, 1, missing=True) for number in (1, 7, 300)
    }
    assert config.schema["q7_text"].kind == "drop"
    assert config.schema == synth.load_schema(tmp_path / "survey.yaml")


def test_a_document_without_the_key_opens_no_table(tmp_path: Path) -> None:
    text = f"table: gone.csv\n{HEAD}columns: {{a: {{type: yes_no, missing: true}}}}\n"
    assert synth.load_config(in_folder(tmp_path, text)).schema.names == ("a",)


def test_names_are_listed_and_a_time_follows_the_date_it_is_read_from() -> None:
    names = ("end", "b", "start", "a")
    time = {"type": "time", "step": "hour", "of": "start"}
    assert list(full({"start": {}, "at": time}, {"names": ["a", "b", "end"], **SCALE}, names=names)) == [
        "end", "b", "start", "at", "a",
    ]  # fmt: skip
    assert list(full({"at": time, "start": {}}, {"names": ["a"], **SCALE}, names=names)) == ["at", "start", "a"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("q?", [f"q{number}" for number in range(1, 10)]),
        ("q[12]0", ["q10", "q20"]),
        ("q[!1]00", ["q200", "q300"]),
        ("Q*_text", None),
        ("*_text", ["q7_text"]),
        ("q7", ["q7"]),
        ("[q]7_text", ["q7_text"]),
    ],
)
def test_patterns_are_those_of_file_names(pattern: str, matched: list[str] | None) -> None:
    if matched is None:
        with pytest.raises(ConfigError, match="no column of the table is called like"):
            full(None, {"like": pattern, **SCALE})
    else:
        assert list(full(None, {"like": pattern, **SCALE})) == matched


@pytest.mark.parametrize(
    ("columns", "entries", "sentence"),
    [
        (
            None,
            [{"like": "w*"}],
            "columns_like, entry 1: no column of the table is called like 'w*'. Its columns are 'age', 'q1', 'q2' and "
            "299 more. Correct the pattern, or take the entry out.",
        ),
        (
            None,
            [{"like": "q*"}, {"like": "*5"}],
            "The column 'q5' is declared twice: by the pattern 'q*' and by the pattern '*5'. Declare it once; a "
            "pattern leaves out what is under its 'except'.",
        ),
        (
            {"q7": {}},
            [{"like": "q*"}],
            "The column 'q7' is declared twice: under columns and by the pattern 'q*'. Declare it once; a pattern "
            "leaves out what is under its 'except'.",
        ),
        (
            {"q7": {}},
            [{"names": ["q8", "q7"]}],
            "The column 'q7' is declared twice: under columns and by name in entry 1 of columns_like. Declare it once; "
            "a pattern leaves out what is under its 'except'.",
        ),
        (
            None,
            [{"names": ["q7", "q7"]}],
            "The column 'q7' is declared twice: by name in entry 1 of columns_like and by name in entry 1 of "
            "columns_like. Declare it once; a pattern leaves out what is under its 'except'.",
        ),
        (
            None,
            [{"like": "q*", "except": ["q400"]}],
            "columns_like, entry 1: no column like 'q*' is called like 'q400', which is under 'except'. Take it out "
            "there.",
        ),
        (
            None,
            [{"like": "q*", "except": ["?*"]}],
            "columns_like, entry 1: 'except' leaves out every column like 'q*'. Take the entry out.",
        ),
        (
            None,
            [{"names": ["q1"], "except": ["q2"]}],
            "columns_like, entry 1: 'except' is for a pattern. Leave the columns out of 'names' instead.",
        ),
        (None, [{"names": []}], "columns_like, entry 1: 'names' lists no column. List some, or take the entry out."),
        (
            None,
            [{"type": "drop"}],
            "columns_like, entry 1: give either 'like' with a pattern or 'names' with a list, for example - {like: "
            '"q*", type: number, low: 1, high: 5, step: 1, missing: true}.',
        ),
        (None, [{"like": ["q*"]}], "columns_like, entry 1: like must be a text. Put yes, no, true, false and null in "
         "quotes if you mean the word."),
        (None, [{"names": "q1"}], "columns_like, entry 1: names must be a list of columns."),
        (None, [{"like": "q*", "except": "q1"}], "columns_like, entry 1: except must be a list of patterns."),
        (
            None,
            [{"like": "q" * 257}],
            "columns_like, entry 1: a pattern has 257 characters; at most 256 are allowed.",
        ),
        ([], [{"like": "q*"}], "columns must be a mapping from the name of each column to what is declared of it."),
        (
            None,
            [{"like": "q*", "values": ["a"] * 2000}],
            "columns_like stands for 602,903 keys and values, and at most 500,000 are allowed. Declare fewer "
            "categories, or fewer columns.",
        ),
        (
            None,
            [{"like": f"q{number}"} for number in range(limits.COLUMN_PATTERNS + 1)],
            "columns_like has 101 patterns and entries, and at most 100 are allowed. Use wider patterns, or declare "
            "columns by name.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_one_sentence(columns: Any, entries: list[Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        columns_in_full(columns, entries, NAMES)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("like", ["q*", {"like": "q*"}, ["q*"], None])
def test_the_section_is_a_list_of_mappings(like: Any) -> None:
    with pytest.raises(ConfigError, match=r"^columns_like must be a list of mappings"):
        columns_in_full(None, like, NAMES)


def test_what_is_declared_of_like_columns_is_checked_by_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="'q1': unknown key 'lowest'"):
        synth.load_config(in_folder(tmp_path, f"table: survey.csv\n{HEAD}{SURVEY.replace('low: 1', 'lowest: 1')}"))


def test_no_type_of_column_has_a_key_of_the_entry() -> None:
    keys = {key for kind in (*COLUMN_TYPES.values(), FindColumn) for key in kind.__dataclass_fields__}
    assert not keys & {"like", "except", "names"}


def test_a_pattern_that_would_take_a_regular_expression_ages_takes_none() -> None:
    names = tuple(f"{'a' * 240}{number:04}" for number in range(limits.COLUMNS))
    with pytest.raises(ConfigError, match="no column of the table is called like"):
        full(None, {"like": "*a" * 120 + "b", **SCALE}, names=names)


def test_without_a_table_the_names_of_the_format_are_used() -> None:
    form = "format: {header: false, separator: ';', names: [q1, age, q2]}\n"
    text = HEAD + form + SURVEY.replace(", except: [q7_text]", "").replace("  q7_text: {type: drop}\n", "")
    assert [column.name for column in config_of_text(text).schema] == ["q1", "age", "q2"]
    with pytest.raises(ConfigError, match=r"^columns_like goes by the names of a table, and no table is known here\."):
        config_of_text(HEAD + SURVEY)


def test_where_columns_must_have_names_the_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^columns_like cannot be used here\. Declare every column by name"):
        parse_config(read_mapping(HEAD + SURVEY))


@pytest.mark.usefixtures("without_trial")
def test_a_run_seals_every_column_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    short = in_folder(tmp_path, HEAD + FEW)
    asked = ["--table", str(tmp_path / "survey.csv"), "--out", str(tmp_path / "out"), "--no-owner-report"]
    assert main(["run", str(short), *asked]) == 0
    bundle = tmp_path / "out" / "bundle.zip"
    with zipfile.ZipFile(bundle) as archive:
        sealed = yaml.safe_load(archive.read("config.yaml"))
    assert list(sealed["columns"]) == ["age", "q1", "q2"]
    assert "columns_like" not in sealed
    assert sealed["columns"]["q2"] == {"type": "number", "low": 1.0, "high": 5.0, "step": 1.0, "missing": True}
    assert synth.verify(bundle).ok


def test_names_come_from_the_table_that_an_option_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    config = in_folder(tmp_path, HEAD + FEW)
    (tmp_path / "few.csv").write_text("q2,age,q1\n" + "1,30,5\n" * 50)
    few = str(tmp_path / "few.csv")
    assert main(["forecast", str(config)]) == 2
    assert "and no table is named. Write 'table:' in the configuration, or use --table." in capsys.readouterr().err
    assert main(["forecast", str(config), "--table", few]) == 0
    assert "q1" in capsys.readouterr().out
    parsed = _parser().parse_args(["rehearse", str(config), "--stand-in", few])
    assert config_of(parsed).schema.names == ("q2", "age", "q1")


def test_a_first_line_that_looks_like_a_row_is_refused_and_never_quoted(tmp_path: Path) -> None:
    config = in_folder(tmp_path)
    (tmp_path / "survey.csv").write_text("63,2,secret\n41,3,secret\n")
    with pytest.raises(InputError) as refused:
        synth.load_config(config)
    assert "looks like a row" in str(refused.value)
    assert "secret" not in str(refused.value)


YEARS = "columns_like:\n  - {like: '20[0-9][0-9]', type: number, low: 0, high: 9, step: 1, missing: true}\n"


@pytest.mark.usefixtures("without_trial")
def test_names_that_look_like_a_row_are_names_where_a_pattern_declares_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    config = in_folder(tmp_path, f"table: survey.csv\n{HEAD}{YEARS}")
    (tmp_path / "survey.csv").write_text("2019,2020,2021\n" + "3,4,5\n" * 60)
    assert synth.load_config(config).schema.names == ("2019", "2020", "2021")
    assert main(["run", str(config), "--out", str(tmp_path / "out"), "--no-owner-report"]) == 0
    with zipfile.ZipFile(tmp_path / "out" / "bundle.zip") as archive:
        assert list(yaml.safe_load(archive.read("config.yaml"))["columns"]) == ["2019", "2020", "2021"]


def test_a_first_line_of_which_a_pattern_leaves_a_cell_is_a_row_and_never_quoted(tmp_path: Path) -> None:
    config = in_folder(tmp_path, f"table: survey.csv\n{HEAD}{YEARS}")
    (tmp_path / "survey.csv").write_text("2019,63,2021\n" + "3,4,5\n63,4,5\n" * 60)
    with pytest.raises(InputError, match="looks like a row") as refused:
        synth.load_config(config)
    assert "63" not in str(refused.value)


def test_a_pattern_for_any_name_makes_no_row_a_header(tmp_path: Path) -> None:
    config = in_folder(tmp_path, f"table: survey.csv\n{HEAD}{YEARS.replace('20[0-9][0-9]', '*')}")
    (tmp_path / "survey.csv").write_text("63,2,7\n41,3,8\n")
    with pytest.raises(InputError, match="looks like a row"):
        synth.load_config(config)


def test_a_database_gives_its_names(tmp_path: Path) -> None:
    path = tmp_path / "survey.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE answers ({', '.join(f'{name} INTEGER' for name in NAMES)})")
    source = f"source: {{url: 'sqlite:///{path}', table: answers}}\n"
    assert synth.load_config(in_folder(tmp_path, HEAD + source + SURVEY)).schema == synth.load_schema(
        tmp_path / "survey.yaml", pd.DataFrame(columns=list(NAMES))
    )
    listed = source.replace("table:", "columns: [q3, age, q7_text], table:")
    schema = synth.load_config(in_folder(tmp_path, HEAD + listed + SURVEY)).schema
    assert [column.name for column in schema] == ["q3", "age", "q7_text"]


def test_a_frame_gives_its_names(tmp_path: Path) -> None:
    frame = pd.DataFrame({"q2": [1, 2], "age": [30, 40], "q1": [5, 4]})
    schema = {
        "unit": {"protects": "person", "rows_per_unit": 1},
        "row_count": "private",
        "columns": {"age": {"type": "number", "low": 0, "high": 110, "step": 1, "missing": True}},
        "columns_like": [{"like": "q?", **SCALE}],
    }
    release = synth.Release(frame, schema, people_at_most=1000)
    assert [column.name for column in release._config.schema] == ["q2", "age", "q1"]


def test_what_is_found_is_written_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    open_ones = FEW.replace("number, low: 1, high: 5, step: 1, missing: true", "find")
    config = in_folder(tmp_path, f"table: survey.csv\n{HEAD}{open_ones}")
    found = synth.find(config, epsilon=0.5)
    assert [column.name for column in found.schema] == ["age", "q1", "q2"]
    assert "columns_like" not in yaml.safe_load((tmp_path / "survey-found.yaml").read_text())


def test_the_example_describes_a_survey() -> None:
    names = ["person", "rent", *NAMES, "region", "has_car", "has_garden", "income"]
    config = synth.load_config(Path(__file__).parents[1] / "examples" / "survey.yaml", pd.DataFrame(columns=names))
    assert [column.name for column in config.schema] == names
    kinds = {name: config.schema[name].kind for name in ("q7", "q7_text", "has_car", "income")}
    assert kinds == {"q7": "number", "q7_text": "drop", "has_car": "yes_no", "income": "number"}


def test_a_configuration_with_patterns_is_a_dictionary_of_another_table() -> None:
    dictionary = read_dictionary("last-year.yaml", (HEAD + SURVEY).encode(), names=["q2", "age", "q7_text"])
    assert [column.name for column in dictionary.columns] == ["q2", "age", "q7_text"]
    with pytest.raises(ConfigError, match="no table is known here"):
        read_dictionary("last-year.yaml", (HEAD + SURVEY).encode())


def test_a_dictionary_is_read_with_the_names_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = in_folder(tmp_path)
    assert main(["schema", str(tmp_path / "survey.csv"), "--dictionary", str(config)]) == 0
    drafted = read_mapping(capsys.readouterr().out)
    assert drafted["columns"]["q300"]["high"] == "5"


def drafted(header: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (folder / "table.csv").write_text(f"{header}\n")
    assert main(["schema", str(folder / "table.csv")]) == 0
    return read_mapping(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("names", "entries"),
    [
        ([f"q{number}" for number in range(1, 301)], [{"like": "q*"}]),
        (["quota", *(f"q{number}" for number in range(1, 301))], [{"like": "q[0-9]*"}]),
        (["q1_text", *(f"q{number}" for number in range(1, 6))], [{"names": ["q1", "q2", "q3", "q4", "q5"]}]),
        ([f"wave{number}_x" for number in range(5)], [{"like": "wave*_x"}]),
        ([f"a*{number}" for number in range(5)], [{"like": "a[*]*"}]),
        ([f"q{number}" for number in range(1, 5)], []),
        (["a", "b", "c", "d", "e"], []),
        ([f"q{number}_{part}" for part in range(5) for number in range(5)], [{"like": f"q{n}_*"} for n in range(5)]),
    ],
)
def test_a_draft_asks_once_of_like_columns(
    names: list[str], entries: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = drafted(",".join(names), tmp_path, capsys)
    assert draft.get("columns_like", []) == [{**entry, "type": None} for entry in entries]
    shared = columns_in_full(None, draft["columns_like"], names) if entries else {}
    assert {*draft.get("columns", {}), *shared} == set(names)


def test_a_draft_asks_alone_of_columns_of_which_something_else_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dates = [f"visited_at_{number}" for number in range(5)]
    ages = [f"age_{number}" for number in range(5)]
    draft = drafted(",".join([*dates, *ages, "age_of_mother"]), tmp_path, capsys)
    assert list(draft["columns"]) == [*ages, "age_of_mother"]  # of each age a preset of its own is offered
    assert draft["columns_like"] == [{"like": "visited_at_*", "type": "date", "low": None, "high": None, "step": "day"}]
