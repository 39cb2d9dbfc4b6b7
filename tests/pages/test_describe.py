"""2 Describe: nothing preselected, every refusal in its words, presets, the meter, and the description as a file."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from driving import (
    CODEBOOK,
    TABLE,
    declare_people,
    described,
    edit,
    errors,
    go,
    open_app,
    texts,
    upload_table,
    uploader,
)
from streamlit.testing.v1 import AppTest

from pages.ui.draft import config_of, most_people
from pages.ui.session import application
from synth.schema import TimeColumn, TimeStep
from synth.store import EventKind
from synth.store.entries import Event

LOOK = EventKind.OWNER_VIEW


def with_columns(header: str) -> AppTest:
    """Return a table whose people are declared, at its columns."""
    return declare_people(with_nothing_said(header))


def with_nothing_said(header: str) -> AppTest:
    names = header.split(",")
    return go(upload_table(open_app(), f"{header}\n{','.join('1' for _ in names)}\n".encode()), "describe")


def test_nothing_is_preselected_and_the_people_come_first() -> None:
    app = with_nothing_said("age,region")
    assert app.radio(key="field:protects-choice").value is None
    assert app.pills(key="field:rows-choice").value is None
    assert app.radio(key="field:row_count").value is None
    assert app.number_input(key="field:people_at_most").value is None
    rows = app.session_state["draft"]["columns"]
    assert all(not row["low"] and not row["high"] and not row["categories"] for row in rows)
    assert (
        "Declare what anyone could know without looking at this table. Everything you type here will be published."
        in texts(app)
    )
    assert not app.data_editor
    assert "Next: Say who you are protecting. The columns come after that." in texts(app)
    declare_people(app)
    assert len(app.data_editor) == 1


def test_every_sentence_is_about_what_stands_on_the_page_now() -> None:
    """After each answer the next question is the first that is open; nothing is asked that is not shown."""
    app = with_nothing_said("age,region")
    for step, left in (
        (lambda: app.radio(key="field:protects-choice").set_value("person"), "how many rows one person can have"),
        (lambda: app.pills(key="field:rows-choice").set_value("1"), "whether their number is public"),
        (lambda: app.radio(key="field:row_count").set_value("public"), "how many people there are"),
    ):
        step().run()
        assert left in next(words for words in texts(app).splitlines() if "Next:" in words)
    assert "Protects one person contributing one row" in texts(app).splitlines()[0], "the header has heard of it too"
    app.number_input(key="field:number_of_units").set_value(60_000).run()
    words = texts(app)
    assert "how many there are" not in words
    assert "Find 2 undescribed columns privately (spends 0.10)" in [button.label for button in app.button]
    # What is typed into the table is known above it in the same run.
    edit(app, region={"role": "category", "categories": "north, south", "other": True})
    assert "Find 1 undescribed column privately (spends 0.10)" in [button.label for button in app.button]


def test_going_on_too_early_names_everything_that_is_missing() -> None:
    app = with_nothing_said("age,region")
    app.button(key="continue-budget").click().run()
    (found,) = errors(app)
    assert "- Say who you are protecting." in found
    assert "- Say how many rows one person can have at most." in found
    assert "- Say whether their number is public." in found
    assert "- Give a public upper bound on how many there are (unit: person)." in found
    assert "- 'age' needs a lowest and a highest value." in found
    assert not app.session_state["draft"]["described"]


@pytest.mark.parametrize(
    ("name", "cells", "sentence"),
    [
        (
            "income",
            {"role": "number"},
            "'income' needs a lowest and a highest value. Choose limits you would be happy to print, for example 0 and "
            "500,000. Values outside are moved to the limit.",
        ),
        ("age", {"role": "number", "low": "120", "high": "18"}, "Highest must be larger than lowest (age: 120, 18)."),
        (
            "patient_id",
            {"role": "number", "low": "0", "high": "9"},
            "'patient_id' looks like an identifier by its name. Mark it as identifier or leave it out.",
        ),
    ],
)
def test_refusals_in_their_words(name: str, cells: dict[str, str], sentence: str) -> None:
    app = with_columns(name)
    edit(app, **{name: cells})
    app.button(key="continue-budget").click().run()
    assert errors(app) == [f"Before you continue:\n- {sentence}"]


@pytest.mark.thorough
def test_free_text_is_announced() -> None:
    app = with_columns("age,notes")
    assert "notes would be dropped, because of the word 'notes'." in texts(app)
    app.button(key="accept:1").click().run()
    assert "'notes' is free text, which cannot be released here; it will be dropped." in texts(app)


@pytest.mark.thorough
def test_several_rows_without_a_column_of_ids() -> None:
    app = with_columns("age,who")
    app.pills(key="field:rows-choice").set_value("another number").run()
    app.number_input(key="field:rows_per_unit").set_value(4).run()
    assert (
        "Without such a column the limit cannot be enforced: the guarantee holds only if this number is true."
        in texts(app)
    )
    assert "Protects one person contributing up to 4 rows." in texts(app)
    app.pills(key="field:whose").set_value("who").run()
    assert "Enforced: at most 4 rows per person are kept, chosen at random." in texts(app)
    roles = {row["name"]: row["role"] for row in app.session_state["draft"]["columns"]}
    assert roles["who"] == "identifier (replaced)"


@pytest.mark.thorough
def test_another_unit_can_be_named() -> None:
    app = with_nothing_said("age")
    app.radio(key="field:protects-choice").set_value("other").run()
    app.text_input(key="field:protects-other").set_value("ship").run()
    app.pills(key="field:rows-choice").set_value("1").run()
    assert "Protects one ship contributing one row." in texts(app)


@pytest.mark.thorough
def test_a_preset_fills_columns_and_says_so() -> None:
    app = with_columns("age,weekday")
    app.segmented_control(key="way").set_value("Use public presets").run()
    app.multiselect(key="preset-columns").set_value(["age"]).run()
    app.selectbox(key="preset-kind").set_value("age").run()
    app.button(key="preset-fill").click().run()
    row = next(row for row in app.session_state["draft"]["columns"] if row["name"] == "age")
    assert (row["role"], row["low"], row["high"]) == ("number", "0", "120")
    assert "age declared from preset: age in years 0-120" in texts(app)


@pytest.mark.thorough
def test_presets_are_offered_by_names_and_money_asks_its_highest() -> None:
    app = with_columns("age,weekday,income")
    app.segmented_control(key="way").set_value("Use public presets").run()
    assert "Suggested by name: age: age in years 0-120; weekday: weekday 1-7 (Monday is 1)." in texts(app)
    app.button(key="preset-proposed").click().run()
    rows = {row["name"]: row for row in app.session_state["draft"]["columns"]}
    assert (rows["age"]["high"], rows["weekday"]["extra"]["labels"]["7"]) == ("120", "Sunday")
    app.multiselect(key="preset-columns").set_value(["income"]).run()
    app.selectbox(key="preset-kind").set_value("money").run()
    assert app.button(key="preset-fill").disabled
    app.text_input(key="preset-highest").set_value("much").run()
    app.button(key="preset-fill").click().run()
    assert "The highest value must be a number." in errors(app)
    app.text_input(key="preset-highest").set_value("90,000").run()
    app.button(key="preset-fill").click().run()
    row = next(row for row in app.session_state["draft"]["columns"] if row["name"] == "income")
    assert (row["high"], row["step"], row["special"]) == ("90000", "1", "0")


@pytest.mark.thorough
def test_a_dictionary_is_shown_line_by_line_before_it_is_taken() -> None:
    app = with_columns("age,sex,region")
    app.segmented_control(key="way").set_value("Use a data dictionary").run()
    codebook = b"variable;type;range;values\nage;integer;0-110;\nsex;int;;1=male, 2=female\nheight;float;;\n"
    uploader(app, "dictionary").upload("codebook.csv", codebook, "text/csv")
    app.run()
    assert "Understood 2 of your 3 columns. Nothing is filled in yet." in texts(app).replace("*", "")
    assert "Ignored, as they are not in the table: height." in texts(app)
    assert app.session_state["draft"]["columns"][0]["high"] == ""
    app.button(key="dictionary-take").click().run()
    rows = {row["name"]: row for row in app.session_state["draft"]["columns"]}
    assert (rows["age"]["low"], rows["age"]["high"], rows["age"]["step"]) == ("0", "110", "1")
    assert (rows["sex"]["role"], rows["sex"]["categories"]) == ("category", "1, 2")
    assert rows["sex"]["extra"]["labels"] == {"1": "male", "2": "female"}
    assert app.session_state["draft"]["domain_source"]["sex"] == "declared from a data dictionary: a table of columns"
    assert app.session_state["draft"]["dictionary"] is None


@pytest.mark.thorough
def test_cells_are_pasted_without_a_header_and_a_refusal_loses_nothing() -> None:
    app = with_columns("age,sex")
    app.segmented_control(key="way").set_value("Use a data dictionary").run()
    app.text_area(key="dictionary-pasted").set_value("a\tb\nc\td").run()
    app.button(key="dictionary-read").click().run()
    assert "No line of this dictionary says what its columns hold" in errors(app)[0]
    assert app.text_area(key="dictionary-pasted").value == "a\tb\nc\td"
    app.text_area(key="dictionary-pasted").set_value("age\tnumber\t0\t120\t1\nsex\tcategory\t\t\t\tm, f").run()
    app.button(key="dictionary-read").click().run()
    app.button(key="dictionary-leave").click().run()
    assert [row["high"] for row in app.session_state["draft"]["columns"]] == ["", ""]


@pytest.mark.thorough
def test_edits_survive_leaving_the_page() -> None:
    app = edit(with_columns("age,region"), age={"low": "0", "high": "99"})
    go(app, "upload")
    go(app, "describe")
    row = next(row for row in app.session_state["draft"]["columns"] if row["name"] == "age")
    assert (row["low"], row["high"]) == ("0", "99")
    shown = app.data_editor[0].value
    assert shown.loc[shown["name"] == "age", "high"].item() == "99"


def test_the_meter_warns_of_a_category_with_too_many_values() -> None:
    app = with_columns("job,county")
    many = ", ".join(f"j{number}" for number in range(1900))
    some = ", ".join(f"c{number}" for number in range(1100))
    edit(app, job={"role": "category", "categories": many}, county={"role": "category", "categories": some})
    assert (
        "job has 1,900 categories. Group it (for example by first digit), or leave it out. Keeping it needs about "
        "2.1 million cells for pairs." in texts(app)
    )
    assert "Cells in the largest 2-way table 2,090,000" in texts(app)


@pytest.mark.thorough
def test_a_complete_description_goes_on() -> None:
    app = described()
    assert app.session_state["draft"]["described"]
    assert not errors(app)


@pytest.mark.thorough
def test_an_edit_that_breaks_the_description_closes_the_way() -> None:
    app = go(described(), "describe")
    edit(app, age={"high": ""})
    assert not app.session_state["draft"]["described"]
    go(app, "generate")
    assert "The table is not described yet. Declare first what is public about it." in texts(app)


@pytest.mark.thorough
def test_the_description_comes_back_as_the_same_configuration() -> None:
    from pages.ui.draft import config_of
    from synth.schema import config_to_yaml, parse_config
    from synth.schema.documents import read_mapping

    app = described()
    config = config_of(app.session_state["draft"])
    assert parse_config(read_mapping(config_to_yaml(config))) == config


def test_the_codebook_does_not_bring_its_own_account() -> None:
    app = upload_table(open_app(), TABLE.encode())
    other = CODEBOOK.replace("account: survey", "account: somebody-else")
    uploader(app, "codebook").upload("c.yaml", other.encode(), "application/yaml")
    app.run()
    assert app.session_state["draft"]["account"] == "survey"


@pytest.mark.thorough
def test_an_absurd_domain_is_refused_with_the_columns_named() -> None:
    app = with_columns("street,job,smoker")
    values = ", ".join(f"v{place}" for place in range(6000))
    edit(
        app,
        street={"role": "category", "categories": values, "missing": True},
        job={"role": "category", "categories": values, "other": True},
        smoker={"role": "yes/no", "categories": "yes, no", "fallback": "no"},
    )
    # It is said at once, beside the meter; going on is refused with the same sentence.
    (found,) = errors(app)
    assert found.startswith("'street' (6,001 values) and 'job' (6,001 values) are too wide to be counted together")
    assert "group them" in found
    app.button(key="continue-budget").click().run()
    assert errors(app) == [found, f"Before you continue:\n- {found}"]
    assert not app.session_state["draft"]["described"]
    edit(
        app,
        street={"role": "leave out"},
        job={"role": "category", "categories": values, "other": True},
        smoker={"role": "yes/no", "fallback": "no"},
    )
    assert errors(app) == []


@pytest.mark.thorough
def test_a_public_number_is_asked_once_and_stands_for_the_bound() -> None:
    app = with_nothing_said("age,region")
    app.pills(key="field:rows-choice").set_value("1").run()
    app.radio(key="field:row_count").set_value("public").run()
    assert "field:people_at_most" not in {box.key for box in app.number_input}
    app.button(key="continue-budget").click().run()
    assert "- Say how many people there are, as their number is public." in errors(app)[0]
    app.number_input(key="field:number_of_units").set_value(321).run()
    held = app.session_state["draft"]
    assert (held["number_of_units"], most_people(held)) == (321, 321)
    app.radio(key="field:row_count").set_value("private").run()
    assert "field:number_of_units" not in {box.key for box in app.number_input}


def line_of(place: int) -> str:
    region = "rare" if place == 7 else ("north", "south")[place % 2]
    day = f"{1 + place % 12:02d}"
    return f"{18 + place % 60},{region},{place / 8},{day}.{day}.2024"


ROWS = "\n".join(["age,quux,frob,when", *map(line_of, range(240)), ""])


def looked_at() -> AppTest:
    app = declare_people(go(upload_table(open_app(), ROWS.encode()), "describe"))
    return app.button(key="look-at-rows").click().run()


def test_a_look_is_recorded_and_fills_nothing_in_before_it_is_confirmed(home: Path) -> None:
    app = looked_at()
    assert [event.detail["what"] for event in looks()] == ["format and columns"]
    assert "Proposed from your rows; nothing is filled in yet." in texts(app).replace("*", "")
    rows = {row["name"]: row for row in app.session_state["draft"]["columns"]}
    assert (rows["quux"]["role"], rows["age"]["high"], app.session_state["draft"]["domain_source"]) == ("", "", {})
    assert b"north" not in (home / "hermitage.sqlite").read_bytes()
    (proposed,) = (table.value for table in app.data_editor if "why" in table.value.columns)
    assert list(proposed["name"]) == ["age", "quux", "frob", "when"]
    assert not proposed["take"].any()
    app.button(key="looked-leave").click().run()
    assert "Proposed from your rows" not in texts(app)


def test_confirmed_lines_are_marked_as_taken_from_the_rows_also_after_an_edit() -> None:
    app = looked_at()
    # 05.05. is the same either way round; only its owner knows which it is.
    asked = next(radio for radio in app.radio if radio.key == "recognised:dates")
    assert app.button(key="looked-all").disabled
    asked.set_value(asked.options and ("%d.%m.%Y",)).run()
    lines = f"looked-lines:{app.session_state['looked-round']}"
    app.session_state[lines] = {"edited_rows": {0: {"take": True}}, "added_rows": [], "deleted_rows": []}
    app.run()
    app.button(key="looked-take").click().run()
    held = app.session_state["draft"]
    assert held["domain_source"] == {"age": "read from the private rows"}
    assert held["format"]["dates"] == ["%d.%m.%Y"]
    edit(app, age={"high": "110"})
    assert held["domain_source"] == {"age": "read from the private rows"}
    assert "Taken from the rows: the ranges and categories of age." in texts(app)
    app.button(key="looked-all").click().run()
    held = app.session_state["draft"]
    assert held["described"]
    assert config_of(held).read_columns == ("age", "quux", "frob", "when")
    assert cells_of(app, "quux") == "north, south"


def test_a_look_that_finds_other_names_reads_the_table_by_them_once_that_is_confirmed() -> None:
    titled = "\n".join(["The city; a survey of 2024", "", ROWS.replace(",", ";")])
    app = upload_table(open_app(), titled.encode())
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["The city", "a survey of 2024"]
    declare_people(go(app, "describe"))
    app.button(key="look-at-rows").click().run()
    assert "Lines above the table: 1." in texts(app).replace("*", "")
    next(radio for radio in app.radio if radio.key == "recognised:dates").set_value(("%m.%d.%Y",)).run()
    app.button(key="looked-all").click().run()
    held = app.session_state["draft"]
    assert [row["name"] for row in held["columns"]] == ["age", "quux", "frob", "when"]
    assert held["described"]
    assert [column.name for column in application().intake.table(held["table_id"]).columns] == list(
        config_of(held).schema.names
    )


def cells_of(app: AppTest, name: str) -> str:
    return str(next(row["categories"] for row in app.session_state["draft"]["columns"] if row["name"] == name))


def looks() -> list[Event]:
    store = application().store
    return [event for account in store.accounts.all() for event in store.events.of_account(account.id, LOOK)]


@pytest.mark.thorough
def test_columns_without_a_place_for_odd_cells_can_all_be_marked_at_once() -> None:
    app = with_columns("age,quux")
    edit(
        app,
        age={"role": "number", "low": "0", "high": "99"},
        quux={"role": "category", "categories": "a, b", "other": True},
    )
    app.button(key="continue-budget").click().run()
    assert errors(app) == [
        "Before you continue:\n- 'age' needs a value for cells that cannot be read. Tick 'Empty', or type one under "
        "'Unreadable'."
    ]
    app.button(key="tick-empty").click().run()
    assert {row["name"]: row["missing"] for row in app.session_state["draft"]["columns"]} == {
        "age": True,
        "quux": False,
    }
    assert errors(app) == []


@pytest.mark.thorough
def test_a_number_may_be_the_column_to_predict() -> None:
    app = described(CODEBOOK + "label: age\nholdout: 0.4\nprediction_share: 0.3\n")
    assert app.session_state["draft"]["label"] == "age"
    app.session_state["budget-parts"] = True
    assert "standard error of the mean squared error (declared range as 1)" in texts(app.run())
    go(app, "describe")
    assert app.selectbox(key="field:label").options == ["none", "age", "region", "smoker"]


WRITTEN = """
format: {decimal: ",", thousands: ".", units: [€]}
columns:
  pay: {type: number, low: 0, high: 90000, step: 0.5, fallback: 0}
  born: {type: date, low: 1950-01-01, high: 2010-12-31, pattern: "%d/%m/%Y", missing: true}
  smoker: {type: yes_no, yes: J, no: N, missing: true}
  town: {type: category, values: [north, south], other: true, aliases: {nth: north}}
"""


def fold(app: AppTest) -> list[list[str]]:
    """Return what the fold of invented cells shows."""
    return [list(line) for table in app.table for line in table.value.to_numpy().astype(str)]


def test_notations_are_shown_on_cells_invented_from_the_declaration() -> None:
    app = upload_table(open_app(), b"pay;born;smoker;town\n987654;never;secret;cells\n")
    head = CODEBOOK.partition("columns:")[0]
    uploader(app, "codebook").upload("codebook.yaml", f"{head}{WRITTEN}".encode(), "application/yaml")
    app.run()
    go(app, "describe")
    assert fold(app) == [
        ["pay", "45.000,0 €", "45000.0"],
        ["pay", "90.000,0 €", "90000.0"],
        ["born", "25/07/1980", "1980-07-25"],
        ["smoker", "J", "yes"],
        ["smoker", "N", "no"],
        ["town", "nth", "north"],
    ]
    assert "Invented cells, made from what you declared, not from any row:" in texts(app)


@pytest.mark.thorough
def test_cells_as_programs_write_them_need_no_invented_ones() -> None:
    assert "Invented cells" not in texts(go(described(), "describe"))


@pytest.mark.thorough
def test_a_column_is_given_a_notation_of_its_own_on_the_page() -> None:
    app = go(described(CODEBOOK.replace("low: 0, high: 120", "low: 0, high: 12000")), "describe")
    asked = app.multiselect(key="notation-columns")
    assert asked.options == ["age"]
    asked.set_value(["age"]).run()
    for field, value in (("decimal", ","), ("thousands", ","), ("units", "years, y")):
        widget = next(one for one in (*app.selectbox, *app.text_input) if f"notation-{field}:" in str(one.key))
        widget.set_value(value).run()
    # Two signs that are one are refused where they are chosen, and nothing can be written so.
    assert "are both ','. Give two different signs." in errors(app)[0]
    assert app.button(key="notation-use").disabled
    next(one for one in app.selectbox if "notation-thousands:" in str(one.key)).set_value(".").run()
    assert "1.234,5 years is read as 1234.5" in texts(app)
    app.button(key="notation-use").click().run()
    declared = next(row for row in app.session_state["draft"]["columns"] if row["name"] == "age")
    assert declared["extra"] == {"decimal": ",", "thousands": ".", "units": ["years", "y"]}
    assert fold(app)[0] == ["age", "6.000 years", "6000"]
    app.button(key="continue-budget").click().run()
    assert app.session_state["draft"]["described"]


@pytest.mark.thorough
def test_categories_are_said_to_be_listed_in_order() -> None:
    app = go(described(), "describe")
    next(one for one in app.multiselect if "ordered-columns" in str(one.key)).set_value(["region"]).run()
    (row,) = (row for row in app.session_state["draft"]["columns"] if row["name"] == "region")
    assert row["extra"] == {"ordered": True}
    next(one for one in app.multiselect if "ordered-columns" in str(one.key)).set_value([]).run()
    (row,) = (row for row in app.session_state["draft"]["columns"] if row["name"] == "region")
    assert row["extra"] == {}


@pytest.mark.thorough
def test_times_in_the_cells_of_dates_get_lines_of_their_own() -> None:
    app = upload_table(open_app(), b"came;age\n2024-03-01 14:35;40\n")
    head = CODEBOOK.partition("columns:")[0]
    columns = """columns:
  came: {type: date, low: 2024-01-01, high: 2024-12-31, missing: true}
  age: {type: number, low: 0, high: 120, step: 1, fallback: 40}
"""
    uploader(app, "codebook").upload("codebook.yaml", f"{head}{columns}".encode(), "application/yaml")
    go(app.run(), "describe")

    def asked() -> Any:
        return next(one for one in app.multiselect if "dates-with-times" in str(one.key))

    asked().set_value(["came"]).run()
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["came", "came time", "age"]
    edit(app, **{"came time": {"low": "06:00", "step": "quarter"}})
    app.button(key="continue-budget").click().run()
    assert app.session_state["draft"]["described"]
    declared = config_of(app.session_state["draft"]).schema["came time"]
    assert declared == TimeColumn(
        "came time", datetime.time(6), datetime.time(23, 59), TimeStep.QUARTER, of="came", missing=True
    )
    # Where the change of one cell is hidden, one cell is not two columns; that is said before anything is spent.
    go(app, "describe")
    app.session_state["draft"]["protection"] = "cell"
    app.button(key="continue-budget").click().run()
    assert "'came time' is read from the cells of 'came', so one cell would be two values" in errors(app)[0]
    app.session_state["draft"]["protection"] = "record"
    asked().set_value([]).run()
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["came", "age"]
