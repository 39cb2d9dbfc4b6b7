"""The draft and the configuration it makes."""

from __future__ import annotations

import json

import pytest

from pages.ui.draft import config_of, fill_from_config, missing_answers, new_draft, take_table
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


def filled() -> dict[str, object]:
    draft = new_draft()
    take_table(draft, "t", "city-survey", [(n, "category") for n in ("house", "age", "region", "smoker", "note")])
    fill_from_config(draft, parse_config(read_mapping(CONFIGURATION)))
    return draft


def test_nothing_about_people_is_preselected() -> None:
    draft = new_draft()
    asked = ("protects", "rows_per_unit", "row_count", "people_at_most")
    assert [draft[key] for key in asked] == [None] * 4
    assert missing_answers(draft) == [
        "Say whom you are protecting.",
        "Say how many rows one person can have at most.",
        "Say whether it is public how many there are.",
        "Say how many there are at most (person): a public upper bound.",
    ]


def test_an_unanswered_draft_makes_no_configuration() -> None:
    with pytest.raises(SynthError, match="whom you are protecting"):
        config_of(new_draft())


def test_a_configuration_survives_the_draft() -> None:
    expected = config_to_mapping(parse_config(read_mapping(CONFIGURATION)))
    made = config_to_mapping(config_of(filled()))
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
