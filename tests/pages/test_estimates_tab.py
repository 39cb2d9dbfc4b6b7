"""The tab of estimates: a question is answered by a worker from the bundle alone, and the answer stays with the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from driving import errors, texts
from streamlit.testing.v1 import AppTest
from test_groups_tab import opened

from pages.ui.session import application
from synth.reports.estimates import suggested_questions
from synth.schema import parse_config
from synth.store import WorkKind, WorkState

pytestmark = pytest.mark.usefixtures("worker_here")

TAB = "● Estimates"


def asked(app: AppTest, question: str) -> AppTest:
    app.text_input(key="estimate-of").set_value(question)
    (button,) = (one for one in app.button if one.label == "Estimate")
    return button.click().run()


def run_of(app: AppTest) -> str:
    return str(app.session_state["draft"]["run_id"])


def questions(app: AppTest) -> list[str]:
    return [one.question for one in application().estimates.answers(run_of(app))]


@pytest.mark.thorough
def test_answers_come_from_the_bundle_alone_and_stay(finished: AppTest) -> None:
    app = opened(finished, TAB)
    run_id = run_of(app)
    # The rows, and with them all that is private, are gone.
    application().intake.delete_table(app.session_state["draft"]["table_id"])
    shutil.rmtree(application().settings.home / "vault")
    app = asked(app, "mean age by region")
    assert errors(app) == []
    work = application().store.work.about(WorkKind.ESTIMATE, run_id)
    assert work is not None
    assert (work.state, work.message) == (WorkState.REPORTED, "")
    (answer,) = application().estimates.answers(run_id)
    assert [one.group for one in answer.numbers] == [("north",), ("south",)]
    (table,) = [one.value for one in app.table if "estimate" in one.value.columns]
    assert list(table.columns) == ["region", "estimate", "95 % from", "to", "rows"]
    assert table["region"].tolist() == ["north", "south"]
    # Nothing is charged for it.
    assert len(application().ledger.charges_of(run_id)) == 1

    app = asked(app, "table of region")
    app = asked(app, "mean age by region")
    assert questions(app) == ["mean age by region", "table of region"], "asked again, it stands once, and first"
    again = opened(finished, "● At a glance")
    again = opened(again, TAB)
    assert [one.label for one in again.expander if one.label in questions(app)] == questions(app)


@pytest.mark.thorough
def test_means_have_intervals_and_unknown_relations_none(finished: AppTest) -> None:
    app = asked(opened(finished, TAB), "mean age")
    (one,) = application().estimates.answers(run_of(app))[0].numbers
    assert one.low < one.value < one.high
    assert "twenty" in texts(app)
    app = asked(app, "regression of age on region")
    answer = application().estimates.answers(run_of(app))[0]
    assert answer.unknown == (("age", "region", "not measured"),)
    assert "age and region: not measured; treat as unknown." in texts(app)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("", "Type what to estimate"),
        ("average age", "This question is not understood. Ask for: mean COLUMN"),
        ("mean wage", "The bundle has no column 'wage'"),
        ("x" * 3000, "A question has at most 2,000 characters"),
    ],
)
def test_what_is_no_question_is_refused_in_one_sentence(finished: AppTest, question: str, words: str) -> None:
    app = asked(opened(finished, TAB), question)
    (error,) = errors(app)
    assert words in error
    assert application().store.work.about(WorkKind.ESTIMATE, run_of(app)) is None


@pytest.mark.thorough
def test_every_example_can_be_asked(finished: AppTest) -> None:
    app = opened(finished, TAB)
    config = application().config_of(run_of(app))
    examples = suggested_questions(config)
    assert len(examples) == 5
    for example in examples:
        application().estimates.ask(run_of(app), example)
    assert questions(app) == list(reversed(examples))


@pytest.mark.thorough
def test_what_is_kept_is_readable_by_its_owner_alone_and_valid_json(finished: AppTest) -> None:
    app = asked(opened(finished, TAB), "share of age > 119")
    path = Path(application().folder(run_of(app))) / "owner" / "estimates.json"
    assert path.stat().st_mode & 0o077 == 0
    json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_names_with_a_blank_stand_in_quotation_marks() -> None:
    config = parse_config(
        {
            "account": "survey",
            "unit": {"protects": "person", "rows_per_unit": 3},
            "row_count": "private",
            "people_at_most": 1000,
            "budget": {"epsilon": 1.0},
            "generator": {"name": "independent"},
            "rows": 10,
            "columns": {
                "net worth": {"type": "number", "low": 0, "high": 9, "step": 1, "fallback": 0},
                "by": {"type": "category", "values": ["a", "b"], "fallback": "a"},
            },
        }
    )
    assert suggested_questions(config)[2] == 'mean "net worth" by by'
