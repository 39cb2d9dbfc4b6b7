"""Presets stand in one file as data: every one can be used, says its source, and is proposed by names alone."""

from __future__ import annotations

import pytest

from synth.dictionaries import chosen_presets, describe_columns
from synth.errors import SchemaError
from synth.schema import Preset, parse_column, preset_called, preset_for, presets


@pytest.mark.parametrize("preset", presets().values(), ids=presets())
def test_every_preset_declares_a_column_and_says_where_it_is_from(preset: Preset) -> None:
    body = preset.body("500000" if preset.asks else None)

    assert parse_column("x", body).to_mapping() == body
    assert preset.source
    assert preset.domain_source.startswith(f"declared from preset: {preset.title}; ")
    assert preset_called(preset.title) is preset_called(preset.key) is preset


def test_lists_of_the_world_are_whole() -> None:
    two, three = (presets()[key].column["values"] for key in ("country-2", "country-3"))

    assert len(set(two)) == len(set(three)) == 249
    assert {"NO", "ON", "GB", "DE"} & set(two) == {"NO", "GB", "DE"}
    assert set(presets()["country-eu"].column["values"]) < set(two)
    assert len(presets()["us-state"].column["values"]) == len(presets()["us-state-names"].column["values"]) == 51


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Patient_Age", "age"), ("age", "age"), ("Alter", "age"), ("age_group", None), ("village", None),
        ("pct_homeless", "percent"), ("country_code", "country-2"), ("dob", "birth-months"), ("income", "money"),
        ("average", None), ("day_of_week", "weekday"), ("month", "month"), ("storage", None), ("ageless", None),
    ],
)  # fmt: skip
def test_a_preset_is_proposed_by_whole_words_of_a_name(name: str, key: str | None) -> None:
    found = preset_for(name)
    assert (None if found is None else found.key) == key


def test_money_asks_its_highest_and_takes_a_step_that_people_write() -> None:
    with pytest.raises(SchemaError, match="needs its highest value"):
        presets()["money"].body()
    for wrong in ("-5", "nan", "much"):
        with pytest.raises(SchemaError):
            presets()["money"].body(wrong)
    assert presets()["money"].body("500,000")["step"] == 1
    assert presets()["money"].body("300")["step"] == 0.01


def test_a_command_names_presets_by_the_columns_they_are_for() -> None:
    known = describe_columns(["a", "b", "c"], [], chosen_presets(["age=a, b", "money:300=c"]))

    assert known.columns["b"].body["high"] == 120
    assert known.columns["c"].body["high"] == 300
    for wrong in ("age", "age=", "nothing=a"):
        with pytest.raises(SchemaError):
            chosen_presets([wrong])
    with pytest.raises(SchemaError, match="no column 'd'"):
        describe_columns(["a"], [], chosen_presets(["age=d"]))
