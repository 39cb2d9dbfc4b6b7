"""The rows of the description table: guesses, presets, lists, and the exact words of every refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.ui.column_rows import (
    PRESETS,
    apply_preset,
    errors_of_rows,
    guess_role,
    join_list,
    mapping_of_row,
    new_row,
    notes_of_rows,
    row_of_mapping,
    split_list,
)
from synth.schema import parse_column


def row(name: str = "age", **fields: object) -> dict[str, object]:
    return {**new_row(name, "number"), "role": "number", **fields}


@pytest.mark.parametrize(
    ("name", "kind", "role"),
    [
        ("age", "number", "number"),
        ("region", "category", "category"),
        ("patient_id", "number", "identifier (replaced)"),
        ("PatientId", "category", "identifier (replaced)"),
        ("paid", "category", "category"),
        ("first_name", "category", "identifier (replaced)"),
        ("product_name", "category", "category"),
        ("notes", "category", "text (dropped)"),
        ("visit_date", "category", "date"),
        ("smoker", "yes_no", "yes/no"),
    ],
)
def test_roles_are_guessed_from_names_and_types(name: str, kind: str, role: str) -> None:
    assert guess_role(name, kind) == role


def test_a_new_row_has_no_bounds_and_no_categories() -> None:
    fresh = new_row("age", "number")
    assert (fresh["low"], fresh["high"], fresh["categories"]) == ("", "", "")


@given(st.lists(st.text(alphabet="abc ,\"'é", min_size=1).map(str.strip).filter(bool), min_size=1, max_size=6))
def test_lists_survive_being_written_and_read(values: list[str]) -> None:
    assert split_list(join_list(values)) == values


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_declares_a_usable_column(preset: str) -> None:
    filled = apply_preset(new_row("x", "category"), preset)
    # What no preset can know is asked: whether cells may be empty, or what one that cannot be read becomes.
    (asked,) = errors_of_rows([filled]) or ["" if filled["other"] else "nothing was asked"]
    assert not asked or "needs a place for a cell that cannot be read" in asked
    assert errors_of_rows([{**filled, "missing": True}]) == []


@pytest.mark.parametrize(
    "body",
    [
        {"type": "number", "low": "0", "high": "99999", "step": "1", "special": ["0"], "weight": "high"},
        {"type": "category", "values": ["a", "b, c"], "other": True, "missing": True, "aliases": {"A": "a"}},
        {"type": "yes_no", "yes": "ja", "no": "nein"},
        {"type": "date", "low": "2020-01-01", "high": "2025-12-31", "step": "month", "pattern": "%d.%m.%Y"},
        {"type": "identifier"},
        {"type": "drop"},
    ],
)
def test_a_column_survives_the_table(body: dict[str, object]) -> None:
    declared = parse_column("x", body)
    again = parse_column("x", mapping_of_row(row_of_mapping("x", declared.to_mapping())))
    assert again == declared


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            row("income"),
            "'income' needs a lowest and a highest value. Choose limits you would be happy to print, for example 0 "
            "and 500,000. Values outside are moved to the limit.",
        ),
        (row("age", low="120", high="18"), "Highest must be larger than lowest (age: 120, 18)."),
        (
            row("patient_id", low="0", high="9"),
            "'patient_id' looks like an identifier by its name. Mark it as identifier or leave it out.",
        ),
        (row("age", low="0", high="many"), "'age': high must be a number."),
        (row("age", role=""), "'age' needs a role. Choose one, or 'leave out'."),
        (
            row("smoker", role="yes/no", categories="yes"),
            "'smoker': a yes/no column needs two words, first yes and then no.",
        ),
        (row("day", role="date", low="2021-01-01", high="2020-01-01"),
         "Highest must be larger than lowest (day: 2021-01-01, 2020-01-01)."),
    ],
)  # fmt: skip
def test_refusals_in_their_exact_words(bad: dict[str, object], sentence: str) -> None:
    assert errors_of_rows([bad]) == [sentence]


def test_a_category_without_values_is_refused() -> None:
    assert errors_of_rows([row("region", role="category")]) == [
        "'region' needs its categories. Type them with commas between, or fill them from a preset."
    ]


def test_a_date_without_limits_is_refused() -> None:
    assert errors_of_rows([row("visited", role="date", low="2020-01-01")]) == [
        "'visited' needs an earliest and a latest date, for example 2020-01-01 and 2025-12-31."
    ]


def test_an_identifier_by_name_may_be_a_declared_category() -> None:
    assert errors_of_rows([row("region_id", role="category", categories="1, 2, 3", other=True)]) == []


def test_free_text_is_announced() -> None:
    assert notes_of_rows([row("notes", role="text (dropped)")]) == [
        "'notes' is free text. Free text cannot be released here; it will be dropped."
    ]


def test_thousands_may_be_written() -> None:
    assert errors_of_rows([row("income", low="0", high="500,000", fallback="10,000")]) == []
