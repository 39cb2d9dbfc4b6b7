"""What codebooks say becomes a declaration; what they leave open stays open, and what is not understood is said."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from golden_bundles import golden
from sheets import ods, ods_row, xlsx, xlsx_row
from timing import require_within

from synth.dictionaries import DICTIONARY_ENDINGS, describe_columns, line_of, open_facts, read_dictionary
from synth.dictionaries.values import values_in
from synth.errors import ConfigError, InputError
from synth.limits import DOCUMENT_BYTES
from synth.schema import ModelledColumn, config_of_text, parse_column
from synth.schema.documents import read_mapping

WIDE = """A survey of 2025,,,,,
,,,,,
Variable;Type;Valid range;Values;Missing codes;Description
age;integer;0-120;;999;Age in years
sex;integer;;"1=male; 2=female; 9=missing";;
smokes;;;yes/no;;
bmi;float;10 to 80;;;
income;number;0 \u2013 500,000;;-1;
band;;;"0-17; 18-64; 65+";;
opinion;ordinal;1-5;;;
born;date;1900-01-01 to 2020-12-31;;;
remark;string;;;;
open;numeric;;"1, 2, etc.";;
kind;widget;;;;
"""


def bodies(name: str, text: str | bytes, names: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    found = read_dictionary(name, text.encode() if isinstance(text, str) else text, names=names)
    return {column.name: dict(column.body) for column in found.columns}


def test_one_line_a_column() -> None:
    found = bodies("codebook.csv", WIDE)

    assert found["age"] == {
        "type": "number", "low": "0", "high": "120", "step": "1", "special": ["999"], "fallback": "999",
        "description": "Age in years",
    }  # fmt: skip
    assert found["sex"] == {
        "type": "category",
        "values": ["1", "2", "9"],
        "labels": {"1": "male", "2": "female", "9": "missing"},
        "fallback": "9",
    }
    assert found["smokes"] == {"type": "yes_no", "yes": "yes", "no": "no"}
    assert found["income"]["high"] == "500000"
    assert found["income"]["special"] == ["-1"]
    assert found["band"]["values"] == ["0-17", "18-64", "65+"]
    assert found["opinion"] == {"type": "category", "values": ["1", "2", "3", "4", "5"], "ordered": True}
    assert found["born"] == {"type": "date", "low": "1900-01-01", "high": "2020-12-31"}


def test_nothing_stands_for_a_fact_that_is_not_said() -> None:
    found = bodies("codebook.csv", WIDE)

    assert "step" not in found["bmi"], "a decimal's step is asked"
    assert open_facts(found["bmi"]) == ["step"]
    assert found["remark"] == {}, "a text may be a category, an identifier or free text"
    assert open_facts(found["open"]) == ["lowest", "highest", "step"]
    assert not {"missing", "fallback"} & found["bmi"].keys(), "what an empty cell becomes is asked"


def test_what_is_not_understood_is_said_in_a_sentence_each() -> None:
    left = {column.name: column.left for column in read_dictionary("codebook.csv", WIDE.encode()).columns}

    assert "the list of values is not complete" in left["open"][0]
    assert "the kind 'widget' is not known" in left["kind"][0]
    assert "'string' only says how it is stored. Say whether it is a category, an id or free text." in left["remark"][0]
    assert sum(map(len, left.values())) == 3


def test_one_line_a_value() -> None:
    found = bodies(
        "codes.csv",
        "variable,code,label\nsex,1,Male\n,2,Female\nschool,0,none\nschool,1,primary\nschool,9,not available\n",
    )

    assert found["sex"] == {"type": "category", "values": ["1", "2"], "labels": {"1": "Male", "2": "Female"}}
    assert found["school"]["values"] == ["0", "1", "9"]
    assert found["school"]["fallback"] == "9"


def test_other_languages_and_decimal_commas() -> None:
    found = bodies(
        "codebuch.csv",
        "Variable;Typ;Minimum;Maximum;Nachkommastellen;Ausprägungen;Fehlende Werte\n"
        "Gewicht;Zahl;0,5;250,5;1;;\nGeschlecht;kategorial;;;;1=weiblich, 2=männlich, 3=divers;-9\n".encode("latin-1"),
    )

    assert found["Gewicht"] == {"type": "number", "low": "0.5", "high": "250.5", "step": "0.1"}
    assert found["Geschlecht"]["labels"] == {"1": "weiblich", "2": "männlich", "3": "divers"}
    assert bodies(
        "d.csv", "Nom de la variable;Type;Modalités\nfumeur;;oui; non\n".replace("oui; non", '"oui; non"')
    ) == {"fumeur": {"type": "yes_no", "yes": "oui", "no": "non"}}


def test_choices_as_redcap_writes_them() -> None:
    found = bodies(
        "redcap.csv",
        '"Variable / Field Name","Form Name","Field Type","Choices, Calculations, OR Slider Labels"\n'
        'sex,demo,radio,"0, Female | 1, Male"\n',
    )

    assert found["sex"] == {"type": "category", "values": ["0", "1"], "labels": {"0": "Female", "1": "Male"}}


def test_a_paste_without_a_header_is_told_by_the_names_of_the_table() -> None:
    pasted = "age\tnumber\t0\t120\t1\nsex\tcategory\t\t\t\tm, f\n"

    assert bodies("pasted.tsv", pasted, ("age", "sex"))["sex"] == {"type": "category", "values": ["m", "f"]}
    with pytest.raises(ConfigError, match="No line of this dictionary says what its columns hold"):
        read_dictionary("pasted.tsv", pasted.encode())


def test_truth_values_written_as_numbers_with_a_point() -> None:
    found = bodies("c.csv", "name;type;values\na;yes/no;1.0, 0.0\nb;binary;1, 2\n")

    assert found["a"] == {"type": "yes_no", "yes": "1.0", "no": "0.0"}
    assert open_facts(found["b"]) == ["word for yes", "word for no"]


def test_a_workbook_says_the_same_as_its_cells_as_text() -> None:
    table = [line.split(";") for line in "variable;type;range\nage;integer;0-120\nheight;float;30-250".splitlines()]

    book = xlsx("".join(map(xlsx_row, table)))

    assert bodies("codebook.xlsx", book) == bodies("codebook.csv", "\n".join(map(";".join, table)))
    assert bodies("codebook.ods", ods("".join(map(ods_row, table)))) == bodies("codebook.xlsx", book)
    for broken in (b"PK", book[:-200]):
        with pytest.raises(InputError):
            read_dictionary("codebook.xlsx", broken)


def rows(text: str) -> str:
    return "".join(xlsx_row(line.split(";")) for line in text.splitlines())


def test_where_every_value_of_a_number_is_listed_its_places_are_as_few_as_they_can_be() -> None:
    found = bodies(
        "c.csv", "name;type;values\ndose;number;0, 10, 20\nrate;decimal;0.1, 0.25, 0.4\nodd;integer;1, 2, 5\n"
    )
    assert found["dose"] == {"type": "number", "low": "0", "high": "20", "step": "10"}
    assert (found["rate"]["step"], found["odd"]["step"]) == ("0.15", "1")
    column = parse_column("dose", {**found["dose"], "missing": True})
    assert isinstance(column, ModelledColumn)
    assert column.texts() == ["0", "10", "20", ""]


def test_of_a_workbook_with_several_sheets_each_says_what_those_before_it_leave_open() -> None:
    variables = rows("variable;type;range\nage;integer;0-120\nsex;category;\nward;category;")
    values = rows("variable;code;label\nsex;1;male\nsex;2;female\nage;999;refused\nage;998;not asked")
    book = xlsx(
        rows("About;this codebook\nMade;by hand"),
        sheets={"Variables": "visible", "Values": "visible"},
        rows_of={"Variables": variables, "Values": values},
    )
    found = read_dictionary("codebook.xlsx", book)
    told = {column.name: column.body for column in found.columns}
    assert told["sex"]["values"] == ["1", "2"]
    assert told["sex"]["labels"] == {"1": "male", "2": "female"}
    assert (told["age"]["type"], told["age"]["low"], told["age"]["high"]) == ("number", "0", "120")
    assert told["ward"] == {"type": "category"}
    assert "Its sheet 'People' describes no columns." in found.left
    alone = xlsx(rows("About;this codebook"), sheets={"Notes": "visible"})
    with pytest.raises(ConfigError, match="No line of this dictionary says what its columns hold"):
        read_dictionary("codebook.xlsx", alone)


def test_the_schema_of_a_sealed_bundle_is_a_dictionary() -> None:
    bundle = golden("independent")
    found = read_dictionary("last-year.zip", bundle.read_bytes())
    with zipfile.ZipFile(bundle) as opened:
        sealed = json.loads(opened.read("schema.json"))
    assert [{"name": column.name, **column.body} for column in found.columns] == sealed["columns"]
    assert not any(open_facts(column.body) for column in found.columns)
    # What was found privately in it is public in it, and is taken as what it is there.
    town = read_dictionary("found.zip", golden("found").read_bytes())
    assert town.columns


def test_a_list_that_breaks_its_line_is_not_half_taken() -> None:
    found = read_dictionary("c.csv", b"name;values;missing\nsex;1=m; 2=f; 9=missing;\n").columns[0]

    assert found.body == {}
    assert "more cells than the header" in found.left[0]


def test_frictionless() -> None:
    fields = [
        {"name": "n", "type": "integer", "constraints": {"minimum": 0, "maximum": 9, "required": True}},
        {"name": "b", "type": "string", "categories": [{"value": "N", "label": "no"}, {"value": "?", "label": "open"}]},
        {"name": "d", "type": "date", "format": "%d/%m/%Y", "constraints": {"minimum": "2020-01-01"}},
        {"name": "t", "type": "boolean", "trueValues": ["J"], "falseValues": ["N"]},
        {"name": "s", "type": "string"},
    ]
    package = {"resources": [{"schema": {"fields": fields}}, {"schema": {"fields": [{"name": "other"}]}}]}

    found = bodies("datapackage.json", json.dumps(package), ("n", "b"))

    assert found["n"] == {"type": "number", "low": "0", "high": "9", "step": "1"}
    assert found["b"]["labels"] == {"N": "no", "?": "open"}
    assert found["b"]["missing"] is True, "the standard: a cell that is not required may be empty"
    assert found["d"] == {"type": "date", "low": "2020-01-01", "pattern": "%d/%m/%Y", "missing": True}
    assert (found["t"]["yes"], found["t"]["no"]) == ("J", "N")
    assert "type" not in found["s"]


def test_the_names_file_of_a_repository() -> None:
    found = read_dictionary("a.names", b"| said\n>50K, <=50K.\n\nage: continuous.\nsex: Female, Male.\nid: ignore.\n")

    assert [(column.name, column.body.get("type")) for column in found.columns] == [
        ("age", "number"), ("sex", "category"), ("id", "drop"), ("class", "category"),
    ]  # fmt: skip
    assert "low" not in found.columns[0].body
    # A line of its data may end with a full stop: ">50K." is the class >50K.
    described = parse_column("class", {**found.columns[3].body, "missing": True})
    assert isinstance(described, ModelledColumn)
    assert described.spellings(trim=None, typed=False)[">50K."] == 0


def test_a_configuration_gives_its_columns_and_says_which_it_cannot() -> None:
    found = read_dictionary("old.yaml", b"columns: {a: {type: number, low: 0, high: 5}, b: {type: number}}")

    assert found.columns[0].body["high"] == 5
    assert found.columns[1].body == {}
    assert "low is missing" in found.columns[1].left[0]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("table.pdf", b"", "not a known kind of data dictionary"),
        ("d.csv", b"a,b\n1,2\n", "No line of this dictionary"),
        ("d.csv", b"", "No line of this dictionary"),
        ("d.csv", b"x" * (DOCUMENT_BYTES + 1), "more than 5,000,000 bytes"),
        ("d.csv", b"name,type\n", "describes no column"),
        ("d.json", b"[1]", "must be a JSON object"),
        ("d.json", b"[" * 100_000, "not valid JSON"),
        ("d.yaml", b"[1]", "must be a mapping"),
        ("d.json", b'{"a": 1}', "describes no columns"),
        ("d.json", b'{"resources": [{"path": "a.csv"}]}', "No resource of this data package contains its schema"),
        ("d.yaml", b"\xff", "not UTF-8 text"),
        ("d.names", b"a, b.\n", "describes no column"),
        ("d.zip", b"PK", "not a bundle whose schema can be read"),
    ],
)
def test_what_is_no_dictionary_is_refused_in_a_sentence(name: str, data: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_dictionary(name, data)


def test_every_ending_is_said_where_none_fits() -> None:
    with pytest.raises(ConfigError) as refusal:
        read_dictionary("x", b"")
    assert all(ending in str(refusal.value) for ending in set(DICTIONARY_ENDINGS) - {"yml", "txt", "tab", "xlsm"})


def test_dictionaries_fill_what_is_open_and_are_matched_by_names_alone() -> None:
    first = read_dictionary("a.csv", b"name,type\nAge,integer\nheight cm,float\nabsent,float\n")
    second = read_dictionary("b.csv", b"name,min,max,step\nage,0,120,5\nheight_cm,30,250,1\n")

    known = describe_columns(["age", "height_cm", "x"], [first, second])

    assert known.columns["age"].body == {"type": "number", "low": "0", "high": "120", "step": "1"}
    assert known.columns["height_cm"].body["high"] == "250"
    assert known.columns["age"].source == "declared from a data dictionary: a table of columns"
    assert "x" not in known.columns
    assert known.notes == ("Ignored, as they are not in the table: absent.",)


@pytest.mark.parametrize("name", bodies("codebook.csv", WIDE))
def test_a_written_line_is_read_as_it_was_understood(name: str) -> None:
    body = bodies("codebook.csv", WIDE)[name]

    line = line_of(body, empty=True)

    if open_facts(body):
        assert "# to fill in: " in line
    else:
        read = read_mapping(f"{name}: {line}")[name]
        said = body if {"missing", "fallback"} & body.keys() else {**body, "missing": True}
        assert parse_column(name, read) == parse_column(name, said)


def test_what_a_dictionary_gave_stands_in_a_configuration() -> None:
    text = "account: a\nunit: {protects: person, rows_per_unit: 1}\nrow_count: private\npeople_at_most: 10\n"
    lines = "".join(
        f"  {name}: {line_of(body, empty=True)}\n"
        for name, body in bodies("c.csv", WIDE).items()
        if not open_facts(body)
    )

    config = config_of_text(f"{text}budget: {{epsilon: 1}}\nrows: 5\ncolumns:\n{lines}")

    assert config.schema.modelled_column("sex").shown_texts() == ["male", "female", "missing"]


@pytest.mark.parametrize(
    "text", ["(" * 4000, '"' * 4001, " ".join("a1" * 1300), "1" + "," * 4000, "a" + " " * 4000 + "b", "1,000" * 800]
)
def test_a_long_cell_takes_no_longer_than_its_length(text: str) -> None:
    require_within(2, lambda: values_in(text))


DOCUMENTS = {
    "a.csv": WIDE.encode(),
    "a.names": b"| said\n>50K, <=50K.\n\nage: continuous.\nsex: Female, Male.\nid: ignore.\n",
    "a.json": b'{"fields": [{"name": "n", "type": "integer", "constraints": {"minimum": 0, "enum": [1, 2]}}, '
    b'{"name": "d", "type": "date", "format": "%d/%m/%Y", "categories": ["x", {"value": "N", "label": "no"}]}]}',
    "a.yaml": b"columns: {a: {type: number, low: 0, high: 5}, b: {type: category, values: [x, y]}}",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_whatever_is_given_is_understood_or_refused_in_a_sentence(name: str) -> None:
    random = np.random.default_rng(17)
    pieces = [b"\xff", b"\0", b'"', b";", b"=", b"..", b"-", b"1e999", b"\xc2\xb2", b"\n", b"\t", b"{", b"["]
    for _ in range(300):
        data = bytearray(DOCUMENTS[name])
        for place in random.integers(0, len(data), random.integers(1, 6)):
            data[place : place + int(random.integers(0, 4))] = pieces[random.integers(len(pieces))]
        with suppress(InputError):
            for column in read_dictionary(name, bytes(data)).columns:
                assert column.said
                line_of(column.body)
