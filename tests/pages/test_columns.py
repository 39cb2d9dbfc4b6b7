"""The rows of the description table: guesses, presets, lists, and the exact words of every refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.ui.column_rows import (
    errors_of_rows,
    guess_role,
    is_proposed,
    join_list,
    mapping_of_row,
    new_row,
    notes_of_rows,
    pasted_beside,
    row_of_mapping,
    split_list,
    state_of,
)
from pages.ui.dictionaries import taken_row
from synth.schema import Preset, parse_column, presets


def row(name: str = "age", **fields: object) -> dict[str, object]:
    return {**new_row(name, "number"), "role": "number", **fields}


@pytest.mark.parametrize(
    ("name", "kind", "role"),
    [
        ("age", "number", "number"),
        ("region", "category", "category"),
        ("patient_id", "identifier", "identifier (replaced)"),
        ("notes", "drop", "text (dropped)"),
        ("chol", "drop", "leave out"),
        ("visit_date", "date", "date"),
        ("smoker", "yes_no", "yes/no"),
        ("division_name", "", ""),
    ],
)
def test_roles_are_proposed_by_kinds(name: str, kind: str, role: str) -> None:
    assert guess_role(name, kind) == role


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("first_name", "identifier", "replaced by fresh ids, because of the word 'name'"),
        ("notes", "drop", "dropped, because of the word 'notes'"),
        ("chol", "drop", "dropped, because most of its cells differ"),
    ],
)
def test_nothing_is_dropped_or_replaced_by_a_guess_that_nobody_accepted(name: str, kind: str, sentence: str) -> None:
    guessed = new_row(name, kind)
    assert is_proposed(guessed)
    (problem,) = errors_of_rows([guessed])
    assert problem == f"'{name}' would be {sentence}. Accept that above the table, or choose another role."
    assert notes_of_rows([guessed]) == []
    accepted = {**guessed, "proposed": ""}
    assert errors_of_rows([accepted]) == []
    assert not state_of(accepted).is_open


def test_a_line_that_was_found_privately_bears_a_mark() -> None:
    filled = {**new_row("age", "number"), "low": "0", "high": "9", "missing": True}
    assert state_of(filled, "found privately, epsilon 0.1").words == "● found"
    assert state_of({**filled, "low": ""}, "found privately, epsilon 0.1").words == "○ limits"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"low": "0", "high": "9", "missing": True}, "● ready"),
        ({}, "○ limits, step"),
        ({"low": "0", "high": "9", "step": ""}, "○ step"),
        ({"low": "0", "high": "9"}, "○ empty cells"),
        ({"low": "9", "high": "0", "missing": True}, "✕ check"),
        ({"role": ""}, "○ role"),
        ({"role": "identifier (replaced)"}, "↻ replaced"),
        ({"role": "leave out"}, "⊘ dropped"),
        ({"role": "leave out", "proposed": "dropped, because"}, "○ drop?"),
    ],
)
def test_what_a_line_lacks_stands_beside_it(fields: dict[str, object], words: str) -> None:
    step = "" if words == "○ limits, step" else "1"
    assert state_of(row("miles", **{"step": step, **fields})).words == words


def test_a_step_is_asked_where_the_name_does_not_say_it() -> None:
    assert (new_row("age", "number")["step"], new_row("miles", "number")["step"]) == ("1", "")
    (problem,) = errors_of_rows([row("miles", low="0", high="9.5", missing=True)])
    assert problem.startswith("'miles' needs its step: 1 for whole numbers, 0.1 or 0.01 for decimals.")
    # A configuration without a step means what it meant.
    declared = parse_column("miles", {"type": "number", "low": 0, "high": 9, "missing": True})
    assert row_of_mapping("miles", declared.to_mapping())["step"] == "1"


def pasted(cells: tuple[str, ...], block: list[tuple[str, ...]]) -> list[tuple[dict[str, object], dict[str, object]]]:
    before = [new_row(f"c{place}", "") for place in range(len(block))]
    return [(one, {**one, **dict(zip(cells, line, strict=True))}) for one, line in zip(before, block, strict=True)]


NUMBERS = [("number", "0", str(10 * place), "1") for place in range(1, 5)]


@pytest.mark.parametrize(
    ("cells", "block", "side", "belongs", "stands"),
    [
        (("low", "high", "step", "categories"), NUMBERS, "right", "Role", "Lowest"),
        (("low", "high"), [line[2:] for line in NUMBERS], "left", "Highest", "Lowest"),
        (("low", "high"), [("2020-12-31", "day")] * 3, "left", "Highest", "Lowest"),
        (("high", "step", "categories"), [line[1:] for line in NUMBERS], "right", "Lowest", "Highest"),
        (("low", "high"), [("category", "a, b"), ("category", "c, d"), ("category", "e, f")], None, "", ""),
    ],
)
def test_a_block_that_stands_one_column_off_is_one_sentence(
    cells: tuple[str, ...], block: list[tuple[str, ...]], side: str | None, belongs: str, stands: str
) -> None:
    changed = pasted(cells, block)
    known = [({**before, "role": "number"}, {**after, "role": "number"}) for before, after in changed]
    if side is None:
        assert pasted_beside(changed) is None
        return
    if "day" not in block[0]:
        assert pasted_beside(known) == pasted_beside(changed), "whether roles are known or open"
    assert pasted_beside(changed) == (
        f"The pasted block seems to be one column too far {side}: what belongs under '{belongs}' is under '{stands}'."
    )


def test_a_block_in_its_place_is_no_mistake() -> None:
    assert pasted_beside(pasted(("role", "low", "high", "step"), NUMBERS)) is None
    assert pasted_beside(pasted(("role", "low"), [line[:2] for line in NUMBERS[:2]])) is None


def test_a_new_row_has_no_bounds_and_no_categories() -> None:
    fresh = new_row("age", "number")
    assert (fresh["low"], fresh["high"], fresh["categories"]) == ("", "", "")


@given(st.lists(st.text(alphabet="abc ,\"'é", min_size=1).map(str.strip).filter(bool), min_size=1, max_size=6))
def test_lists_survive_being_written_and_read(values: list[str]) -> None:
    assert split_list(join_list(values)) == values


@pytest.mark.parametrize("preset", presets().values(), ids=presets())
def test_every_preset_declares_a_usable_column(preset: Preset) -> None:
    filled = taken_row(new_row("x", "category"), preset.body("500" if preset.asks else None))
    # What no preset can know is asked: whether cells may be empty, or what one that cannot be read becomes.
    (asked,) = errors_of_rows([filled]) or ["" if filled["other"] else "nothing was asked"]
    assert not asked or "needs a value for cells that cannot be read" in asked
    assert errors_of_rows([{**filled, "missing": True}]) == []


def test_what_a_dictionary_leaves_open_stays_as_it_was_typed() -> None:
    typed = {**new_row("x", "number"), "low": "1", "step": "0.5", "fallback": "3", "weight": "high"}

    taken = taken_row(typed, {"type": "number", "high": "9"})

    assert {key: taken[key] for key in ("low", "high", "step", "fallback", "weight")} == {
        "low": "1", "high": "9", "step": "0.5", "fallback": "3", "weight": "high",
    }  # fmt: skip
    assert taken_row(typed, {"low": "0"})["low"] == "0"
    assert taken_row(new_row("x", ""), {"low": "0"}) == new_row("x", "")
    coded = taken_row(typed, {"type": "category", "values": ["N", "Y"], "labels": {"N": "no"}, "missing": True})
    assert (coded["low"], coded["categories"], coded["missing"]) == ("", "N, Y", True)
    assert mapping_of_row(coded)["labels"] == {"N": "no"}


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
            "'smoker': a yes/no column needs two words, yes first and then no.",
        ),
        (row("day", role="date", low="2021-01-01", high="2020-01-01"),
         "Highest must be larger than lowest (day: 2021-01-01, 2020-01-01)."),
    ],
)  # fmt: skip
def test_refusals_in_their_exact_words(bad: dict[str, object], sentence: str) -> None:
    assert errors_of_rows([bad]) == [sentence]


def test_a_category_without_values_is_refused() -> None:
    assert errors_of_rows([row("region", role="category")]) == [
        "'region' needs its categories. Type them with commas between them, or choose a preset."
    ]


def test_a_date_without_limits_is_refused() -> None:
    assert errors_of_rows([row("visited", role="date", low="2020-01-01")]) == [
        "'visited' needs an earliest and a latest date, for example 2020-01-01 and 2025-12-31."
    ]


def test_an_identifier_by_name_may_be_a_declared_category() -> None:
    assert errors_of_rows([row("region_id", role="category", categories="1, 2, 3", other=True)]) == []


def test_free_text_is_announced() -> None:
    assert notes_of_rows([row("notes", role="text (dropped)")]) == [
        "'notes' is free text, which cannot be released here; it will be dropped."
    ]


def test_thousands_may_be_written() -> None:
    assert errors_of_rows([row("income", low="0", high="500,000", step="100", fallback="10,000")]) == []
