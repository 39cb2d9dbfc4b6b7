"""Whole people on the pages: what belongs to a patient, in what order rows come, and how many people to make."""

from __future__ import annotations

import random

from driving import errors, go, open_app, texts, upload_table, uploader
from streamlit.testing.v1 import AppTest

from pages.ui.draft import config_of
from synth.generators import cards
from synth.schema import READ_FROM_ROWS

DRAW = random.Random(7)


def line(patient: int, visit: int) -> str:
    day, score = DRAW.randrange(10, 28), DRAW.randrange(9)
    return f"P{patient:03},{'fm'[patient % 2]},{patient % 3},2024-{1 + 2 * visit:02}-{day},{score}\n"


LINES = [line(patient, visit) for patient in range(60) for visit in range(1 + patient % 4)]
TABLE = "patient,sex,blood,visited,score\n" + "".join(LINES)
COLUMNS = """
account: survey
unit: {protects: patient, rows_per_unit: 4, id_column: patient}
row_count: private
people_at_most: 1000
budget: {epsilon: 1.0}
generator: {name: independent, options: {}}
rows: 100
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  blood: {type: category, values: ["0", "1", "2"], fallback: "0"}
  visited: {type: date, low: 2024-01-01, high: 2024-12-31, step: day, fallback: 2024-01-01}
  score: {type: number, low: 0, high: 8, step: 1, fallback: 0}
"""


def with_people(*, described: bool = True) -> AppTest:
    """Return 2 Describe of a table whose patients have several rows."""
    app = upload_table(open_app(), TABLE.encode())
    if described:
        uploader(app, "codebook").upload("columns.yaml", COLUMNS.encode(), "application/yaml")
        return go(app.run(), "describe")
    go(app, "describe").radio(key="field:protects-choice").set_value("other").run()
    app.text_input(key="field:protects-other").set_value("patient").run()
    app.pills(key="field:rows-choice").set_value("another number").run()
    app.number_input(key="field:rows_per_unit").set_value(4).run()
    app.pills(key="field:whose").set_value("patient").run()
    app.radio(key="field:row_count").set_value("private").run()
    return app.number_input(key="field:people_at_most").set_value(1000).run()


def labels(app: AppTest) -> set[str]:
    return {one.label for one in (*app.radio, *app.pills, *app.selectbox)}


def held(app: AppTest) -> dict[str, object]:
    return dict(app.session_state["draft"])


def test_what_belongs_to_a_patient_is_asked_in_the_owners_words_and_proposed_by_names() -> None:
    app = with_people(described=False)
    assert not errors(app)
    assert labels(app) >= {
        "Should each synthetic patient have several rows too?",
        "Which columns belong to the patient?",
        "Which column says in what order the rows come?",
    }
    assert (held(app)["same_in_all_rows"], held(app)["ordered_by"]) == ([], None), "nothing is filled in"
    assert "By their names: sex belongs to the patient; the order of rows is that of visited." in texts(app)
    app.button(key="together-from-names").click().run()
    assert (held(app)["same_in_all_rows"], held(app)["ordered_by"]) == (["sex"], "visited")
    assert app.pills(key="field:same_in_all_rows").value == ["sex"]
    assert "visited" not in app.pills(key="field:same_in_all_rows").options
    assert "are kept, the first in their order." in texts(app)
    app.radio(key="field:kept_together").set_value("separate_rows").run()
    assert "Which columns belong to the patient?" not in labels(app)
    assert "are kept, chosen at random." in texts(app)


def test_what_only_rows_show_is_marked_as_taken_from_them() -> None:
    app = with_people(described=False)
    app.button(key="look-at-rows").click().run()
    assert "Seen in your rows (45 ids with several rows among the first 150 rows): sex and blood belong" in texts(app)
    app.button(key="together-from-rows").click().run()
    assert held(app)["same_in_all_rows"] == ["sex", "blood"]
    assert held(app)["domain_source"] == {"blood": READ_FROM_ROWS}, "the names suggest the others"


def test_people_or_rows_are_asked_for() -> None:
    app = with_people()
    app.button(key="together-from-names").click().run()
    config = config_of(app.session_state["draft"])
    assert (config.schema.people, config.by_people, config.rows) == ("whole", False, 100)
    assert (config.schema.unit.same_in_all_rows, config.schema.unit.ordered_by) == (("sex",), "visited")
    app.button(key="continue-budget").click().run()
    app = go(app, "generate")
    assert not errors(app)
    assert all(card.keeps_people in texts(app) for card in cards())
    assert app.button(key="choose-kernel-sos").disabled, "it cannot be asked about a row and the next"
    app.radio(key="field:by_people").set_value(True).run()
    app.number_input(key="field:rows").set_value(40).run()
    assert app.number_input(key="field:rows").label == "Patients to make (a public number)"
    config = config_of(app.session_state["draft"])
    assert (config.by_people, config.rows) == (True, 40)
    app = go(app, "describe")
    app.radio(key="field:kept_together").set_value("separate_rows").run()
    config = config_of(app.session_state["draft"])
    assert (config.schema.people, config.by_people, config.rows) == ("separate_rows", False, 40)
    assert config.schema.unit.same_in_all_rows == ()
    app = go(app, "generate")
    assert app.number_input(key="field:rows").label == "Rows to make (a public number)"
    assert not any(card.keeps_people in texts(app) for card in cards())


def test_rules_may_be_about_the_number_of_rows_and_the_next_row() -> None:
    app = with_people()
    app.pills(key="field:same_in_all_rows").set_value(["sex", "blood"]).run()
    assert "Once you say above in what order the rows come" in texts(app)
    app.selectbox(key="field:ordered_by").set_value("visited").run()
    assert "Rules may also name 'count', how many rows a patient has: count <= 3." in texts(app)
    assert "next.visited - visited <= 30, a difference (in days between dates" in texts(app)
    app.selectbox(key="rule-kind").set_value("One column is never smaller or larger, earlier or later, than another")
    app.run()
    app.selectbox(key="rule-left:0").set_value("next.score").run()
    app.selectbox(key="rule-right:0").set_value("score").run()
    app.button(key="rule-add").click().run()
    app.selectbox(key="rule-kind").set_value("Type the rule yourself").run()
    app.text_input(key="rule-typed:1").set_value("next.sex = f").run()
    (problem,) = errors(app)
    assert problem == "'next.sex = f' names 'next.sex', but 'sex' is the same in all rows of one patient. Write 'sex'."
    app.text_input(key="rule-typed:1").set_value("next.visited - visited <= 60").run()
    app.button(key="rule-add").click().run()
    assert not errors(app)
    config = config_of(held(app))
    assert config.constraints == ("next.score >= score", "next.visited - visited <= 60")
    app.radio(key="field:kept_together").set_value("separate_rows").run()
    assert "but rows are not kept together here" in errors(app)[0]
