"""Two tables that belong together on the pages: how both come in, what is settled by that, and what is asked."""

from __future__ import annotations

import random
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from driving import errors, go, open_app, texts, upload_table, uploader, wait_for_run
from streamlit.testing.v1 import AppTest

from pages.server.uploads import incoming
from pages.ui.draft import as_files, config_of
from pages.ui.session import application
from synth.bundle.verify import verify
from synth.schema import LinkedTables, config_to_yaml, parse_config

DRAW = random.Random(11)
PATIENTS = "patient,sex,born\n" + "".join(f"P{who:03},{'fm'[who % 2]},{1940 + who % 60}\n" for who in range(90))
VISITS = "patient,visited,ward\nnobody,2024-05-05,a\n" + "".join(
    f"P{who:03},2024-{1 + 2 * visit:02}-{DRAW.randrange(10, 28)},{'abc'[DRAW.randrange(3)]}\n"
    for who in range(90)
    for visit in range(who % 4)
)
TABLES = LinkedTables("patients", "visits", "patient")
CODEBOOK = """
tables: {patients: , visits: , key: patient}
account: clinic
unit: {protects: patient, rows_per_unit: 3, same_in_all_rows: [sex, born], ordered_by: visited}
row_count: private
people_at_most: 1000
budget: {epsilon: 2.0}
generator: {name: independent, options: {}}
people: 60
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  born: {type: number, low: 1930, high: 2020, step: 1, fallback: 1930}
  visited: {type: date, low: 2024-01-01, high: 2024-12-31, step: day, fallback: 2024-01-01}
  ward: {type: category, values: [a, b, c], missing: true}
"""


def with_first(content: str = PATIENTS, name: str = "patients.csv") -> AppTest:
    """Return 1 Upload with the first of two tables."""
    return upload_table(open_app(), content.encode(), name=name)


def with_second(app: AppTest, content: str = VISITS, name: str = "visits.csv") -> AppTest:
    uploader(app, "second").upload(name, content.encode(), "text/csv")
    return app.run()


def joined(*, codebook: str | None = CODEBOOK) -> AppTest:
    """Return 1 Upload with both tables, described by a codebook."""
    app = with_second(with_first())
    app.button(key="join-tables").click().run()
    if codebook is not None:
        uploader(app, "codebook").upload("codebook.yaml", codebook.encode(), "application/yaml")
        app.run()
    return app


def held(app: AppTest) -> dict[str, Any]:
    return dict(app.session_state["draft"])


def labels(app: AppTest) -> set[str]:
    return {one.label for one in (*app.radio, *app.pills, *app.selectbox, *app.number_input)}


def test_two_files_become_one_stored_table_whose_answers_are_settled() -> None:
    app = with_first()
    assert "Do these people have rows in a second table? For example visits of patients" in texts(app)
    first = held(app)["table_id"]
    app = with_second(app)
    assert not errors(app)
    assert "visits.csv is here, encrypted." in texts(app).replace("*", "")
    assert (app.text_input(key="second-first-name").value, app.text_input(key="second-second-name").value) == (
        "patients",
        "visits",
    )
    assert app.selectbox(key="second-key").value == "patient"
    app.button(key="join-tables").click().run()
    assert not errors(app)
    [table] = application().intake.tables()
    assert table.table_id == held(app)["table_id"] != first
    assert table.name == "patients and visits"
    words = texts(app)
    assert "Both are stored as one table, joined, encrypted." in words
    assert "Columns of patients, names only:** `patient`, `sex`, `born`" in words
    assert "Columns of visits, names only:** `patient`, `visited`, `ward`" in words
    assert "_merge" not in words
    assert [row["name"] for row in held(app)["columns"]] == ["patient", "sex", "born", "visited", "ward"]
    assert held(app)["id_column"] == "patient"
    assert incoming().waiting("test session id") == 0


def with_people(app: AppTest) -> AppTest:
    """Return 2 Describe, with the questions about the patients answered."""
    go(app, "describe").radio(key="field:protects-choice").set_value("other").run()
    app.text_input(key="field:protects-other").set_value("patient").run()
    app.pills(key="field:rows-choice").set_value("3").run()
    app.radio(key="field:row_count").set_value("private").run()
    return app.number_input(key="field:people_at_most").set_value(1000).run()


def test_describe_asks_only_what_two_tables_leave_open() -> None:
    app = with_people(joined(codebook=None))
    assert not errors(app)
    rows = app.pills(key="field:rows-choice")
    assert rows.label == "At most how many rows can one patient have in visits?"
    assert "1" not in rows.options
    asked, words = labels(app), texts(app)
    assert "Which column says in what order rows of visits come?" in asked
    assert not asked & {
        "Should each synthetic patient have several rows too?",
        "Which columns belong to the patient?",
        "Which column identifies whose row it is?",
    }
    assert "Columns of patients belong to the patient: sex and born." in words
    assert "patient, the key of both tables, says whose row it is." in words
    assert app.selectbox(key="field:ordered_by").options == ["no order", "visited", "ward"]
    app.button(key="look-at-rows").click().run()
    assert not errors(app)
    app.button(key="looked-all").click().run()
    said = {row["name"]: row for row in held(app)["columns"]}
    assert not any(row["missing"] for row in said.values()), "who has no visit has no visit with empty cells"
    config = config_of(app.session_state["draft"])
    assert config.schema.tables == TABLES
    assert config.schema.unit.same_in_all_rows == ("sex", "born")
    assert [column.name for column in config.schema.columns][-1] == "_merge"
    assert [column.name for column in config.schema.declared] == ["patient", "sex", "born", "visited", "ward"]


def test_what_is_downloaded_reads_two_files_and_describes_the_next_two() -> None:
    app = joined()
    config = config_of(app.session_state["draft"])
    assert (config.schema.tables, config.rows, config.by_people) == (TABLES, 60, True)
    assert config.format.kind == "parquet"
    text = config_to_yaml(as_files(app.session_state["draft"], config).published())
    again = parse_config(yaml.safe_load(text))
    assert again.format.kind == "auto"
    assert again.schema == config.schema
    assert again.table_files is None
    # A codebook may come before the second table, and before the first.
    app = with_first()
    uploader(app, "codebook").upload("codebook.yaml", text.encode(), "application/yaml")
    app.run()
    assert "Columns of 'visits' are filled in once you add that table below." in texts(app)
    with_second(app).button(key="join-tables").click().run()
    assert config_of(app.session_state["draft"]) == config


def test_two_tables_that_were_joined_before_are_two_tables_by_their_description() -> None:
    lines = ["patient,sex,born,visited,ward,_merge", "P1,f,1950,2024-01-10,a,both", "P2,m,1960,,,left_only"]
    app = upload_table(open_app(), ("\n".join(lines) + "\n").encode())
    uploader(app, "codebook").upload("codebook.yaml", CODEBOOK.encode(), "application/yaml")
    app.run()
    config = config_of(app.session_state["draft"])
    assert (config.schema.tables, config.format.kind) == (TABLES, "auto")
    assert config.schema.unit.same_in_all_rows == ("sex", "born")


def test_a_draft_of_two_tables_comes_back_with_its_address() -> None:
    app = joined()
    before = config_of(app.session_state["draft"])
    again = open_app()
    again.query_params["table"] = held(app)["table_id"]
    again.run()
    assert config_of(again.session_state["draft"]) == before
    assert "Columns of visits, names only" in texts(go(again, "upload"))


def test_what_cannot_be_joined_is_refused_in_a_sentence_and_nothing_is_lost() -> None:
    app = with_first()
    first = held(app)["table_id"]
    app = with_second(app, VISITS.replace("patient,", "person,", 1))
    assert "No column has the same name in both tables." in errors(app)[0]
    app.button(key="forget-second").click().run()
    app = with_second(app, VISITS.replace("ward\n", "born\n", 1))
    assert app.selectbox(key="second-key").value is None, "two columns are shared"
    assert app.button(key="join-tables").disabled
    app.selectbox(key="second-key").set_value("patient").run()
    app.button(key="join-tables").click().run()
    assert errors(app) == [
        "Both 'patients' and 'visits' have a column 'born'. Rename it in one of the files: only the key has the same "
        "name in both."
    ]
    assert "visits.csv is here, encrypted." in texts(app).replace("*", "")
    app.text_input(key="second-second-name").set_value("Patients").run()
    assert app.button(key="join-tables").disabled
    assert "both tables have the same name" in texts(app)
    app.button(key="forget-second").click().run()
    assert incoming().waiting("test session id") == 0
    assert [table.table_id for table in application().intake.tables()] == [first]
    assert held(app)["tables"] is None


def test_a_model_is_not_offered_for_two_tables_and_a_number_of_people_is_asked_for() -> None:
    app = go(joined(), "describe")
    assert not errors(app)
    app.button(key="continue-budget").click().run()
    app = go(app, "models")
    assert "A model looks at the rows of one table" in texts(app)
    assert not [button for button in app.button if str(button.key).startswith("choose-")]
    app = go(app, "generate")
    assert not errors(app)
    assert "What to count" not in labels(app)
    assert "Patients to make (a public number)" in labels(app)
    assert "Each is one row of patients, with up to 3 rows of visits, or none." in texts(app)
    app = go(app, "rehearse")
    assert not errors(app)
    assert "Two tables are rehearsed on simulated rows" in texts(app)


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial", "worker_here")
def test_two_tables_go_from_two_files_to_a_sealed_bundle_of_two_tables() -> None:
    app = go(joined(), "describe")
    app.button(key="continue-budget").click().run()
    app = go(go(app, "budget"), "generate")
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    assert not errors(app)
    assert wait_for_run(app) == "reported"
    run_id = held(app)["run_id"]
    config = application().config_of(run_id)
    assert config.schema.tables == TABLES
    assert not errors(go(app, "report"))
    assert not errors(go(app, "release"))
    bundle = application().folder(run_id) / "bundle.zip"
    with ZipFile(bundle) as archive:
        patients, visits = (archive.read(f"{name}.csv").decode().splitlines() for name in ("patients", "visits"))
    assert patients[0] == "patient,sex,born"
    assert visits[0] == "patient,visited,ward"
    made = {line.partition(",")[0] for line in patients[1:]}
    assert len(made) == len(patients) - 1 == 60
    assert {line.partition(",")[0] for line in visits[1:]} < made, "some have no visit"
    assert verify(bundle).ok


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial", "worker_here")
def test_columns_of_two_tables_are_found_privately_and_released() -> None:
    app = with_people(joined(codebook=None))
    app.session_state["draft"]["epsilon"] = 200.0
    app.run()
    app.session_state["find-epsilon"] = 100.0
    app.run().button(key="find-privately").click().run()
    app.run()
    found = {row["name"]: row["role"] for row in held(app)["columns"]}
    assert set(found) == {"patient", "sex", "born", "visited", "ward"}
    assert (found["sex"], found["ward"]) == ("category", "category")
    app.button(key="together-from-names").click().run()
    app.button(key="continue-budget").click().run()
    assert not errors(app)
    app = go(app, "generate")
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    assert wait_for_run(app) == "reported", errors(app)
    config = application().config_of(held(app)["run_id"])
    assert config.schema.tables == TABLES
    assert config.found is not None
    assert verify(application().folder(held(app)["run_id"]) / "bundle.zip").ok
