"""What names alone propose: whole words, and the word behind each proposal."""

from __future__ import annotations

import pytest

from synth.schema.guesses import fate_of, guess_by_name, kind_by_name, reason_of, step_by_name, with_step


@pytest.mark.parametrize(
    ("name", "kind", "word"),
    [
        ("name", "identifier", "name"), ("first_name", "identifier", "name"), ("Customer Name", "identifier", "name"),
        ("patientId", "identifier", "id"), ("id_number", "identifier", "id"), ("email", "identifier", "email"),
        ("doctor_notes", "drop", "notes"), ("visit_date", "date", "date"), ("created_at", "date", "at"),
        ("is_active", "yes_no", "is"), ("former smoker", "yes_no", "smoker"), ("capital-gain", "number", "gain"),
        ("sex", "category", "sex"),
    ],
)  # fmt: skip
def test_a_guess_names_its_word(name: str, kind: str, word: str) -> None:
    assert guess_by_name(name) == (kind, word)
    assert kind_by_name(name) == kind


@pytest.mark.parametrize(
    "name",
    ["division_name", "department_name", "class_name_", "chol", "paid", "idle", "kidney", "surgery", "", "\u202e"],
)
def test_parts_of_words_say_nothing_of_a_person(name: str) -> None:
    guess = guess_by_name(name)
    assert guess is None or guess.kind not in {"identifier", "drop"}


def test_what_would_be_dropped_or_replaced_has_its_reason() -> None:
    assert fate_of("person_id", "identifier") == "replaced by fresh ids, because of the word 'id'"
    assert fate_of("chol", "drop") == "dropped, because most of its cells differ"
    assert fate_of("age", "number") is None
    assert reason_of("notes", "drop") == "because of the word 'notes'"


def test_a_step_is_told_by_names_that_count_and_by_no_other() -> None:
    assert [step_by_name(name) for name in ("age", "n_children", "miles", "temperature")] == ["1", "1", "", ""]
    assert with_step("{type: number, step: }", "age") == "{type: number, step: 1}"
    assert with_step("{type: number, step: }", "miles") == "{type: number, step: }"
