"""What a column means, in its owner's words: read in one form, kept in one place, and nothing else depends on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synth.bundle.linter import LeakWords, lint_members
from synth.dictionaries import describe_columns, line_of, read_dictionary
from synth.errors import SchemaError
from synth.limits import DESCRIPTION_CHARACTERS
from synth.privacy.more.finding import open_schema
from synth.schema import COLUMN_TYPES, Schema, parse_column, schema_from_document, schema_to_document
from synth.schema.columns.find import FindColumn
from synth.schema.documents import read_mapping
from synth.services.previewing import previewed_schema

AGE = {"type": "number", "low": 0, "high": 120, "missing": True, "description": " Age in years "}
FORM = {
    "number": {"low": 0, "high": 1},
    "category": {"values": ["a", "b"]},
    "yes_no": {"yes": "y", "no": "n"},
    "date": {"low": "2020-01-01", "high": "2021-01-01"},
    "time": {"step": "hour"},
}


@pytest.mark.parametrize("kind", [*COLUMN_TYPES, "find"])
def test_every_type_of_column_has_one(kind: str) -> None:
    body = {"type": kind, **FORM.get(kind, {})}
    column = parse_column("q1", {**body, "description": "What was asked"})
    assert column.description == "What was asked"
    assert list(column.to_mapping())[-1] == "description"
    assert replace(column, description="") == parse_column("q1", {**body, "description": None})
    assert "description" not in replace(column, description="").to_mapping()


def test_it_is_one_line_with_its_letters_composed() -> None:
    assert parse_column("age", AGE).description == "Age in years"
    assert parse_column("age", {**AGE, "description": "Zu\N{COMBINING DIAERESIS}rich"}).description == "Zürich"
    assert parse_column("age", {**AGE, "description": 2020}).description == "2020"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("a\nb", "must be one line of text"),
        ("a\tb", "must be one line of text"),
        ("a\x00b", "must be one line of text"),
        ("a\u2028b", "must be one line of text"),
        ("x" * (DESCRIPTION_CHARACTERS + 1), "must have at most 1,000 characters, got 1,001"),
        (["a"], "must be a text"),
        (True, "must be a text"),
    ],
)
def test_anything_else_is_refused_by_the_name_of_the_column(said: object, words: str) -> None:
    with pytest.raises(SchemaError, match=f"^'age': description {words}"):
        parse_column("age", {**AGE, "description": said})


def schema(**said: str) -> Schema:
    columns = (
        parse_column("age", {**AGE, "description": said.get("age", "")}),
        FindColumn("town", description=said.get("town", "")),
        parse_column("note", {"type": "drop", "description": said.get("note", "")}),
        parse_column("who", {"type": "identifier", "description": said.get("who", "")}),
    )
    return Schema(columns)


def test_it_is_published_of_the_columns_of_the_table_in_order() -> None:
    described = schema(who="Number of the card", note="Remarks", age="In years")
    assert list(described.meanings.items()) == [("age", "In years"), ("who", "Number of the card")]
    assert schema_from_document(schema_to_document(described)) == described
    assert schema_from_document(schema_to_document(schema())).meanings == {}


def test_what_is_asked_of_rows_does_not_depend_on_it() -> None:
    described = schema(age="In years", town="Of birth", who="Number of the card")
    assert open_schema(described) == open_schema(schema())
    assert previewed_schema(described, ["age"]) == previewed_schema(schema(), ["age"])


def test_words_of_it_are_public() -> None:
    words = LeakWords(names=("anna",))
    held = {"README.txt": b"age: Counted by Anna"}
    assert lint_members(held, schema(), words)
    assert not lint_members(held, schema(age="Counted by Anna"), words)


def test_a_codebook_says_it() -> None:
    book = (
        "variable;type;range;description\n"
        "age;integer;0-110;Age,  in: years {at} [visit]\n"
        f"town;;;{'x' * 1001}\n"
        "county;;;County of birth\n"
    )
    read = read_dictionary("book.csv", book.encode(), names=["age", "town", "county"])
    known = describe_columns(["age", "town", "county"], [read])
    assert known.columns["age"].body["description"] == "Age, in: years {at} [visit]"
    assert known.columns["county"].body == {"description": "County of birth"}
    assert list(known.declared) == ["age"], "where a column is only described, nothing is declared of its values"
    assert known.notes == ("'town': its description must have at most 1,000 characters, got 1,001.",)
    assert read_mapping(f"age: {line_of(known.columns['age'].body)}")["age"]["description"] == (
        "Age, in: years {at} [visit]"
    )


def test_lines_about_values_describe_values() -> None:
    book = b"variable,value,description\nsex,1,male\n,2,female\n"
    (sex,) = read_dictionary("book.csv", book, names=["sex"]).columns
    assert sex.body["labels"] == {"1": "male", "2": "female"}
    assert "description" not in sex.body


def test_a_data_package_says_it() -> None:
    package = b'{"fields": [{"name": "age", "type": "integer", "title": "Age", "description": "Age in years"}]}'
    (age,) = read_dictionary("datapackage.json", package, names=["age"]).columns
    assert age.body["description"] == "Age in years"


def test_a_second_codebook_adds_it_to_a_column_of_another_type() -> None:
    one = read_dictionary("a.csv", b"variable;type;range\nage;integer;0-110\n", names=["age"])
    other = read_dictionary("b.csv", b"variable;type;description\nage;date;Age in years\n", names=["age"])
    body = describe_columns(["age"], [one, other]).columns["age"].body
    assert (body["type"], body["description"]) == ("number", "Age in years")
