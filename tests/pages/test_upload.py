"""1 Upload: the question about people, every refusal in its words, and a file that leaves the memory."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from driving import (
    CODEBOOK,
    TABLE,
    declare_people,
    edit,
    errors,
    go,
    new_people,
    open_app,
    texts,
    upload_table,
    uploader,
)
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from typed_files import statistical

from pages.server.uploads import incoming
from pages.ui.draft import config_of
from pages.ui.session import application
from synth.schema import parse_format
from synth.store import EventKind

CANARY = "NHS-999-123"


def nested() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"age": [1], "address": [{"street": CANARY}]}), buffer)
    return buffer.getvalue()


def test_a_file_waits_until_it_is_said_whose_it_is() -> None:
    app = go(open_app(), "upload")
    uploader(app, "table").upload("survey.csv", TABLE.encode(), "text/csv")
    app.run()
    assert "survey.csv is here, encrypted. Say below whose table it is." in texts(app).replace("*", "")
    assert incoming().waiting("test session id") == 1
    assert not application().account_names(), "no account is opened by a file"
    app.text_input(key="field:account").set_value("survey").run()
    assert "Stored, encrypted. The upload has been removed from memory." in texts(app)
    assert incoming().waiting("test session id") == 0
    # Where people are in the ledger already, a second file waits until it is said whether they are the same.
    app.button(key="another-table").click().run()
    assert app.radio(key="field:people").value is None
    uploader(app, "table").upload("newer.csv", TABLE.encode() + b"40,north,yes\n", "text/csv")
    app.run()
    assert app.session_state["draft"]["table_id"] is None
    app.radio(key="field:people").set_value("survey").run()
    assert "Stored, encrypted. The upload has been removed from memory." in texts(app)
    assert application().account_names() == ["survey"]


def test_a_stored_table_shows_names_and_numbers_but_no_cell() -> None:
    app = upload_table(open_app(), f"age,region\n33,{CANARY}\n44,south\n".encode())
    words = texts(app)
    assert "Stored, encrypted. The upload has been removed from memory." in words
    assert "survey.csv" in words
    assert "Columns 2" in words
    assert "Rows 2" in words
    assert "Not published unless you say so in step 2." in words
    assert "`age`" in words
    assert "`region`" in words
    assert CANARY not in words
    assert not app.exception


@pytest.mark.thorough
def test_names_that_were_given_to_columns_are_changed_and_the_table_is_read_by_them() -> None:
    app = upload_table(open_app(), b"age,,income,income\n34,7,1200,7\n")
    fields = {str(one.label): one for one in app.text_input if "given-name:" in str(one.key)}
    assert {label: one.value for label, one in fields.items()} == {
        "Column 2 of the file": "column_2",
        "Column 4 of the file": "income_2",
    }
    fields["Column 2 of the file"].set_value("income").run()
    app.button(key="use-names").click().run()
    assert "Two columns are called 'income'. Give each column its own name." in errors(app)
    for label, name in (("Column 2 of the file", "visits"), ("Column 4 of the file", "pension")):
        next(one for one in app.text_input if one.label == label).set_value(name).run()
    app.button(key="use-names").click().run()
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["age", "visits", "income", "pension"]
    # A second change is one of the name in the file, and a codebook without names does not take them back.
    next(one for one in app.text_input if one.label == "Column 2 of the file").set_value("stays").run()
    app.button(key="use-names").click().run()
    assert app.session_state["draft"]["format"]["rename"] == {"column_2": "stays", "income_2": "pension"}
    columns = "".join(
        f"  {name}: {{type: number, low: 0, high: 9000, step: 1, fallback: 0}}\n"
        for name in ("age", "stays", "income", "pension")
    )
    codebook = CODEBOOK.partition("columns:")[0] + "columns:\n" + columns
    uploader(app, "codebook").upload("codebook.yaml", codebook.encode(), "application/yaml")
    app.run()
    config = config_of(app.session_state["draft"])
    held = app.session_state["draft"]
    application().reserve(config, table_id=held["table_id"])
    assert [column.name for column in application().intake.table(held["table_id"]).columns] == list(config.schema.names)


def test_names_that_deceive_are_told_before_they_are_described() -> None:
    app = upload_table(open_app(), "age,\u0430ge,we\u202eight\n33,1,2\n44,2,3\n".encode())
    words = texts(app)
    assert "The columns 'age' and '⟨U+0430⟩ge' look the same." in words
    assert "The column name 'we⟨U+202E⟩ight' is not what it looks like: U+202E Right-to-left override." in words
    assert "\u202e" not in words
    declare_people(go(app, "describe"))
    shown = app.get("arrow_data_frame") or app.dataframe
    assert not app.exception
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["age", "\u0430ge", "we\u202eight"]
    assert list(shown[0].value["name"]) == ["age", "⟨U+0430⟩ge", "we⟨U+202E⟩ight"]


@pytest.mark.thorough
def test_of_many_odd_names_and_open_columns_the_first_are_told() -> None:
    names = ["n\u0430me" + str(place) for place in range(300)]
    app = upload_table(open_app(), f"{','.join(names)}\n{','.join('1' * 300)}\n".encode())
    assert len(app.warning) == 21
    assert "280 more warnings of this kind." in app.warning[20].value
    declare_people(go(app, "describe"))
    app.button(key="continue-budget").click().run()
    (sentence,) = errors(app)
    lines = sentence.splitlines()
    assert len(lines) == 52
    assert lines[0] == "Before you continue:"
    assert lines[51].endswith(" more")


def test_a_name_of_60000_digits_is_refused_in_one_sentence() -> None:
    app = upload_table(open_app(), f"age,{'9' * 60_000}\n33,1\n".encode())
    (sentence,) = errors(app)
    assert "The name of column 2 has 60,000 characters; at most 256 are allowed." in sentence
    assert "999" not in sentence
    assert not app.exception


def test_a_codebook_of_aliases_is_refused_in_one_sentence() -> None:
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "codebook").upload("codebook.yaml", b"account: &a [x]\nrules: [*a, *a]\n", "application/yaml")
    app.run()
    assert "Line 1 of the configuration has an anchor or an alias" in " ".join(errors(app))
    assert not app.exception


def test_the_upload_leaves_the_memory_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[str] = []
    original = MemoryUploadedFileManager.remove_session_files

    def watched(self: Any, session_id: str) -> None:
        cleared.append(session_id)
        original(self, session_id)

    monkeypatch.setattr(MemoryUploadedFileManager, "remove_session_files", watched)
    app = upload_table(open_app(), TABLE.encode())
    assert cleared
    held = [value for value in app.session_state.to_dict().values() if isinstance(value, io.IOBase)]
    assert held == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (f"47,region,\n1,a,{CANARY}\n", "Column 3 has no name. Give every column a name in the first row."),
        (f"47,region,region\n1,{CANARY},2\n", "Columns 2 and 3 have the same name."),
        (f"1,{CANARY}\n2,{CANARY}\n", "The first line looks like a row, not like column names"),
        (nested(), "'address' holds lists, records or maps."),
        ("", "The file is empty."),
        ("age,region\n", "The table has a header but no rows."),
    ],
    ids=["no name", "twice", "no header", "nested", "empty", "no rows"],
)
def test_refusals_in_their_words(content: str | bytes, sentence: str) -> None:
    data = content.encode() if isinstance(content, str) else content
    app = upload_table(open_app(), data, "t.parquet" if data[:4] == b"PAR1" else "t.csv")
    (error,) = errors(app)
    assert error.startswith(sentence), error
    assert CANARY not in texts(app)
    assert app.session_state["draft"]["table_id"] is None
    assert not app.exception


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"2,{CANARY},c\n".encode(), None),
        (f'2,"{CANARY}\n'.encode(), None),
        (f"2,{CANARY}".encode() + b"\xff\n", None),
        (b"\n", None),
    ],
    ids=["ragged", "open quotation mark", "bytes of another encoding", "blank"],
)
def test_no_line_is_a_reason_to_refuse_a_table(line: bytes, said: str | None) -> None:
    app = upload_table(open_app(), b"age,region\n1,a\n" + line + b"3,b\n", "t.csv")
    assert errors(app) == []
    assert app.session_state["draft"]["table_id"] is not None
    assert CANARY not in texts(app)
    assert said is None or said in texts(app)
    # The number of rows is marked, and so is what else is said of them.
    marks = [one for one in app.markdown if one.value.startswith(":orange-badge[") and "owner only" in one.value]
    assert len(marks) == (1 if said is None else 2)
    assert not app.exception


def test_a_table_over_the_limit_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_MAXIMUM_UPLOAD_MIB", "1")
    app = go(open_app(), "upload")
    new_people(app, "survey")
    assert "at most 1 MB" in uploader(app, "table").label
    assert "synth run" in texts(app)


def test_the_format_reaches_the_reader() -> None:
    app = go(open_app(), "upload")
    new_people(app, "survey")
    app.checkbox(key="field:format-has-header").set_value(False).run()
    app.text_area(key="field:format-names").set_value("age\nregion").run()
    app.selectbox(key="field:format-separator").set_value(";").run()
    uploader(app, "table").upload("t.csv", b"33;north\n44;south\n", "text/csv")
    app.run()
    assert errors(app) == []
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["age", "region"]


LATIN = f"âge;région\n33;{CANARY}\n44;south\n".encode("latin-1")


def looks() -> list[str]:
    store = application().store
    accounts = store.accounts.all()
    return [event.detail["what"] for one in accounts for event in store.events.of_account(one.id, EventKind.OWNER_VIEW)]


def test_an_encoding_is_proposed_from_the_header_alone_and_used_at_a_click() -> None:
    app = go(open_app(), "upload")
    uploader(app, "table").upload("enquête.csv", LATIN, "text/csv")
    app.run()
    assert "enquête.csv is here, encrypted. It seems to be written like this:" in texts(app).replace("*", "")
    assert "Encoding: Western Europe, Windows (cp1252). The bytes of the first line are not UTF-8" in texts(
        app
    ).replace("*", "")
    assert incoming().waiting("test session id") == 1
    app.text_input(key="field:account").set_value("survey").run()
    assert app.session_state["draft"]["table_id"] is None, "its owner has not said yet that it is written so"
    app.button(key="use-format").click().run()
    assert errors(app) == []
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["âge", "région"]
    assert app.session_state["draft"]["format"]["encoding"] == "cp1252"
    assert incoming().waiting("test session id") == 0
    assert "file kept" not in app.session_state
    assert looks() == []


def test_after_a_refused_format_the_file_is_still_there_and_only_the_format_is_asked_anew() -> None:
    app = upload_table(open_app(), LATIN, name="enquête.csv")
    # Not what is proposed, but what the form says.
    app.button(key="read-again").click().run()
    assert errors(app)[0].startswith("The first line is not UTF-8. Its bytes read as Western Europe, Windows (cp1252).")
    assert "enquête.csv is here, encrypted. Correct the file format below" in texts(app).replace("*", "")
    assert incoming().waiting("test session id") == 1
    app.selectbox(key="field:format-encoding").set_value("latin-1").run()
    app.button(key="read-again").click().run()
    assert errors(app) == []
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["âge", "région"]
    assert incoming().waiting("test session id") == 0
    assert "file kept" not in app.session_state


def test_names_that_look_like_a_row_are_names_at_a_click_of_their_owner() -> None:
    rows = "".join(f"{place % 7},{place % 5}\n" for place in range(60))
    app = upload_table(open_app(), f"2019,2020\n{rows}".encode())
    assert errors(app)[0].startswith("The first line looks like a row, not like column names")
    app.button(key="names-first").click().run()
    assert errors(app) == []
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["2019", "2020"]
    assert looks() == []


def test_a_format_that_only_the_rows_show_is_proposed_after_a_recorded_look() -> None:
    lines = [f"{18 + place % 60};{('north', 'south')[place % 2]};{place % 9},5" for place in range(60)]
    app = upload_table(open_app(), "\n".join([*lines, ""]).encode())
    assert errors(app)[0].startswith("The first line looks like a row, not like column names")
    assert looks() == []
    app.button(key="look-at-format").click().run()
    assert looks() == ["format and columns"]
    assert "Header: none." in texts(app).replace("*", "")
    assert "Decimal sign: comma." in texts(app).replace("*", "")
    app.button(key="use-format").click().run()
    assert errors(app) == []
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["column_1", "column_2", "column_3"]
    # What the same look says of the columns is on the next page; the rows are not looked at again.
    declare_people(go(app, "describe"))
    assert "Proposed from your rows" in texts(app)
    app.button(key="looked-all").click().run()
    assert errors(app) == []
    assert app.session_state["draft"]["described"]
    assert looks() == ["format and columns"]


def test_a_file_that_is_kept_can_be_forgotten() -> None:
    app = upload_table(open_app(), f"1,{CANARY}\n2,{CANARY}\n".encode())
    app.button(key="forget-kept").click().run()
    assert incoming().waiting("test session id") == 0
    assert not [one for one in app.button if one.key == "read-again"]


@pytest.mark.thorough
def test_the_format_of_a_codebook_reaches_the_reader() -> None:
    written = 'format: {header: false, separator: ";", strip: true, skip_rows: 1, names: [age, region, smoker]}'
    app = go(open_app(), "upload")
    new_people(app, "survey")
    codebook = f"{written}\n{CODEBOOK}".encode()
    uploader(app, "codebook").upload("codebook.yaml", codebook, "application/yaml")
    app.run()
    assert errors(app) == []
    assert app.checkbox(key="field:format-has-header").value is False
    uploader(app, "table").upload("t.csv", b"# a survey\n33; north; yes\n44; south; no\n", "text/csv")
    app.run()
    assert errors(app) == []
    assert [row["name"] for row in app.session_state["draft"]["columns"]] == ["age", "region", "smoker"]
    assert app.session_state["draft"]["format"]["strip"] is True
    go(app, "describe")
    app.button(key="continue-budget").click().run()
    assert errors(app) == []


def test_the_same_people_keep_their_account() -> None:
    app = upload_table(open_app(), TABLE.encode())
    app.button(key="another-table").click().run()
    assert "survey" in app.radio(key="field:people").options
    app.radio(key="field:people").set_value("survey").run()
    uploader(app, "table").upload("newer.csv", TABLE.encode() + b"40,north,yes\n", "text/csv")
    app.run()
    assert app.session_state["draft"]["account"] == "survey"


def test_a_new_name_says_that_the_people_are_new() -> None:
    app = upload_table(open_app(), TABLE.encode())
    app.button(key="another-table").click().run()
    uploader(app, "table").upload("others.csv", TABLE.encode() + b"40,north,yes\n", "text/csv")
    app.run()
    assert app.session_state["draft"]["table_id"] is None, "nothing is answered by a default"
    app.text_input(key="field:account").set_value("others").run()
    assert app.session_state["draft"]["account"] == "others"
    assert application().account_names() == ["others", "survey"]
    app.button(key="another-table").click().run()
    assert app.radio(key="field:people").value is None


def test_the_same_table_under_another_account_is_a_warning() -> None:
    app = upload_table(open_app(), TABLE.encode())
    app.button(key="another-table").click().run()
    new_people(app, "others")
    uploader(app, "table").upload("again.csv", TABLE.encode(), "text/csv")
    app.run()
    assert any("under the account survey" in str(warning.value) for warning in app.warning)


def test_what_a_file_of_spss_says_about_its_columns_is_offered() -> None:
    table = pd.DataFrame({"sex": [1.0, 2.0, 1.0], "age": [33.0, 44.0, 55.0]})
    said = {"column_labels": {"age": "Age in years"}, "variable_value_labels": {"sex": {1: "male", 2: "female"}}}
    app = upload_table(open_app(), statistical("sav", table, **said), name="survey.sav")
    assert "Stored, encrypted." in texts(app)
    declare_people(go(app, "describe"))
    assert "Understood 2 of your 2 columns." in texts(app)
    app.button(key="dictionary-take").click().run()
    rows = {row["name"]: row for row in app.session_state["draft"]["columns"]}
    sex = rows["sex"]
    assert (sex["role"], sex["categories"], sex["missing"]) == ("category", "male, female", True)
    assert (rows["age"]["low"], rows["age"]["description"]) == ("", "Age in years")
    source = app.session_state["draft"]["domain_source"]
    assert source == {"sex": "declared from a data dictionary: the file itself"}, "no bound of age comes from the file"
    app.checkbox(key="description-cells").check().run()
    edit(app, sex={"description": "Sex at birth"}, age={"role": "number", "low": "0", "high": "99", "missing": True})
    assert app.session_state["draft"]["domain_source"] == source, "nor does another word change where values come from"
    config = config_of(app.session_state["draft"])
    assert config.schema.meanings == {"sex": "Sex at birth", "age": "Age in years"}


def test_a_text_with_fixed_positions_and_codes_instead_of_labels() -> None:
    app = go(open_app(), "upload")
    new_people(app, "survey")
    app.checkbox(key="field:format-has-header").uncheck().run()
    app.text_area(key="field:format-positions").set_value("age 1-2\n home town 4-8").run()
    app.checkbox(key="field:format-labels").uncheck().run()
    form = parse_format(app.session_state["draft"]["format"])
    assert (form.fields, form.labels) == ((("age", 1, 2), ("home town", 4, 8)), False)
    uploader(app, "table").upload("survey.txt", b"33 north\n44 south\n", "text/plain")
    app.run()
    assert "`home town`" in texts(app)
    assert "Rows 2" in texts(app)


def test_a_codebook_fills_the_description() -> None:
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "codebook").upload("c.yaml", CODEBOOK.encode(), "application/yaml")
    app.run()
    draft = app.session_state["draft"]
    assert {row["name"]: row["role"] for row in draft["columns"]} == {
        "age": "number",
        "region": "category",
        "smoker": "yes/no",
    }
    assert draft["protects"] == "person"
    assert "The description has been filled in from the file." in texts(app)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"account: x\nbudget: {epsilon: 1}\nrows: 5\ncolumnz: {}\n", "unknown key 'columnz'."),
        (b"\xff\xfe", "This does not look like UTF-8 text. Save it as UTF-8."),
        (b"a: [", "The configuration is not valid YAML"),
    ],
)
def test_a_codebook_that_cannot_be_used(text: bytes, sentence: str) -> None:
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "codebook").upload("c.yaml", text, "application/yaml")
    app.run()
    (error,) = errors(app)
    assert error.startswith(sentence)


def test_a_test_table_is_stored_beside_the_table() -> None:
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "test").upload("test.csv", TABLE.encode() + b"40,north,yes\n", "text/csv")
    app.run()
    draft = app.session_state["draft"]
    assert draft["test_table_id"] not in {None, draft["table_id"]}
    assert "A test table is stored." in texts(app)


def test_a_test_table_that_cannot_be_read_is_refused_in_words() -> None:
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "test").upload("test.csv", b"47,age,age\n1,2,3\n", "text/csv")
    app.run()
    (error,) = errors(app)
    assert error.startswith("Columns 2 and 3 have the same name.")


def test_a_table_can_be_deleted_now() -> None:
    app = upload_table(open_app(), TABLE.encode())
    app.button(key="delete-table").click().run()
    assert app.session_state["draft"]["table_id"] is None
    assert "Whose table is it?" in texts(app)


def test_a_deleted_table_is_asked_for_again() -> None:
    from pages.ui.session import application

    app = upload_table(open_app(), TABLE.encode())
    application().intake.delete_table(app.session_state["draft"]["table_id"])
    go(app, "describe")
    assert "No table is open. Upload one, or try the demo table." in texts(app)


def test_a_reload_finds_the_table_again() -> None:
    app = upload_table(open_app(), TABLE.encode())
    table_id = app.query_params["table"]
    again = open_app()
    again.query_params["table"] = table_id
    go(again, "upload")
    assert again.session_state["draft"]["table_id"] == app.session_state["draft"]["table_id"]
    assert "survey.csv" in texts(again)
