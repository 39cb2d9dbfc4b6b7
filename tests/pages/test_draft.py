"""The draft and the configuration it makes."""

from __future__ import annotations

import json

import pytest

from pages.ui.column_rows import errors_of_rows, time_beside, with_times
from pages.ui.draft import (
    body_of,
    config_of,
    fill_from_body,
    fill_from_config,
    missing_answers,
    new_draft,
    rename_columns,
    take_table,
)
from synth.errors import SynthError
from synth.schema import config_to_mapping, parse_config
from synth.schema.documents import read_mapping

CONFIGURATION = """
account: city-survey
unit: {protects: household, rows_per_unit: 4, id_column: house}
row_count: private
people_at_most: 5000
budget: {epsilon: 2.0, delta: 1e-7}
generator: {name: independent, options: {bins: 16}}
rows: 700
label: smoker
seed: 3
columns:
  house: {type: identifier}
  age: {type: number, low: 0, high: 120, step: 1}
  region: {type: category, values: [north, "south, far"], other: true}
  smoker: {type: yes_no, yes: "yes", no: "no", missing: true}
  note: {type: drop}
"""


TOGETHER = "rows_per_unit: 4, id_column: house, same_in_all_rows: [region], ordered_by: age"


def filled(configuration: str = CONFIGURATION) -> dict[str, object]:
    draft = new_draft()
    take_table(draft, "t", "city-survey", [(n, "category") for n in ("house", "age", "region", "smoker", "note")])
    fill_from_config(draft, parse_config(read_mapping(configuration)))
    return draft


def test_nothing_about_people_is_preselected() -> None:
    draft = new_draft()
    asked = ("protects", "rows_per_unit", "row_count", "people_at_most")
    assert [draft[key] for key in asked] == [None] * 4
    assert missing_answers(draft) == [
        "Say who you are protecting.",
        "Say how many rows one person can have at most.",
        "Say whether their number is public.",
        "Give a public upper bound on how many there are (unit: person).",
    ]


def test_an_unanswered_draft_makes_no_configuration() -> None:
    with pytest.raises(SynthError, match="who you are protecting"):
        config_of(new_draft())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rows_per_unit: 4, id_column: house": TOGETHER},
        {"rows_per_unit: 4, id_column: house": TOGETHER, "rows: 700": "people: 300"},
        {"rows: 700": "rows: 700\npeople: separate_rows"},
    ],
)
def test_a_configuration_survives_the_draft(changes: dict[str, str]) -> None:
    configuration = CONFIGURATION
    for before, after in changes.items():
        configuration = configuration.replace(before, after)
    expected = config_to_mapping(parse_config(read_mapping(configuration)))
    made = config_to_mapping(config_of(filled(configuration)))
    assert made == expected


def test_the_draft_holds_plain_values() -> None:
    assert json.loads(json.dumps(filled())) == filled()


def test_columns_that_the_table_lacks_are_named() -> None:
    draft = new_draft()
    take_table(draft, "t", "city-survey", [("age", "number"), ("extra", "number")])
    absent = fill_from_config(draft, parse_config(read_mapping(CONFIGURATION)))
    assert absent == ["house", "region", "smoker", "note"]
    assert [row["name"] for row in draft["columns"]] == ["age", "extra"]


def test_delta_follows_the_declared_number_of_people() -> None:
    draft = filled()
    draft.update(delta=None, people_at_most=10_000_000)
    assert config_of(draft).delta == pytest.approx(1e-8)


TIMED = CONFIGURATION.replace(
    "  age:",
    """  came: {type: date, low: 2024-01-01, high: 2024-12-31, missing: true, pattern: "%d/%m/%Y %H:%M"}
  came at: {type: time, step: quarter, of: came, missing: true, pattern: "%d/%m/%Y %H:%M"}
  age:""",
)
NAMES = ("house", "came", "age", "region", "smoker", "note")


def test_a_time_in_the_cells_of_a_date_has_a_line_though_the_file_has_no_such_column() -> None:
    draft = new_draft()
    take_table(draft, "t", "city-survey", [(name, "category") for name in NAMES])
    config = parse_config(read_mapping(TIMED))
    assert fill_from_config(draft, config) == []
    assert config_to_mapping(config_of(draft)) == config_to_mapping(config)
    assert [row["name"] for row in draft["columns"]][:3] == ["house", "came", "came at"]

    # It is saved with the table, stays when another file with the same column comes, and goes with that column.
    saved, again = json.loads(json.dumps(body_of(draft))), new_draft()
    take_table(again, "t", "city-survey", [(name, "category") for name in NAMES])
    fill_from_body(again, saved)
    assert again["columns"] == draft["columns"]
    take_table(again, "u", "city-survey", [("came", "date"), ("age", "number")])
    assert [row["name"] for row in again["columns"]] == ["came", "came at", "age"]
    rename_columns(again, {"came": "arrived"})
    assert again["columns"][1]["extra"]["of"] == "arrived"
    take_table(again, "u", "city-survey", [("age", "number")])
    assert [row["name"] for row in again["columns"]] == ["age"]
    # Another description without it takes it away.
    fill_from_config(draft, parse_config(read_mapping(CONFIGURATION)))
    assert "came at" not in [row["name"] for row in draft["columns"]]


def test_a_line_for_a_time_is_written_as_its_date_and_stays_a_time() -> None:
    draft = new_draft()
    take_table(draft, "t", "city-survey", [("came", "date"), ("came time", "number")])
    fill_from_config(draft, parse_config(read_mapping(TIMED.replace("came at", "unused"))))
    dates, other = draft["columns"][0], draft["columns"][-1]
    new = time_beside(dates, [dates, other])
    assert (new["name"], new["missing"]) == ("came time 2", True)
    assert new["extra"] == {"of": "came", "pattern": "%d/%m/%Y %H:%M"}
    assert errors_of_rows(with_times([dates], [new])) == []
    assert errors_of_rows([{**new, "role": "number"}]) == [
        "'came time 2' is a time in the cells of 'came': its role must be 'time of day'."
    ]
