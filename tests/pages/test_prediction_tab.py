"""The tab of predictions: anchors beside every number, a measure to choose, and training in the background."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driving import BEFORE_A_CHARGE, LABELLED, badges, errors, go, looked_at, started, texts, wait_for_run
from streamlit.testing.v1 import AppTest

from pages.ui.charts import table_of
from pages.ui.evidence import OWNER_ONLY_NOTE
from pages.ui.session import application
from synth.jobs import processes
from synth.reports.evidence import ChargedEvidence, evidence_to_dict
from synth.reports.figures import Table
from synth.store import WorkKind, WorkState
from synth.system.machine import this_host

TAB = "○ Prediction"


def opened(app: AppTest) -> AppTest:
    go(app, "report")
    app.session_state["report-tab"] = TAB
    return app.run()


@pytest.mark.thorough
def test_the_anchors_stand_beside_the_synthetic_rows(finished: AppTest) -> None:
    app = opened(finished)
    assert not errors(app)
    labels = {str(metric.label) for metric in app.metric}
    assert labels >= {
        "ROC AUC, synthetic rows",
        "ROC AUC, real rows",
        "ROC AUC, independent control",
        "ROC AUC, majority class",
    }
    assert OWNER_ONLY_NOTE in texts(app)
    assert "(95 %, chance in test rows and training)" in texts(app)
    assert "(95 %, privacy noise)" not in texts(app)
    assert badges(app) == {"owner_only"}
    (plot,) = app.get("plotly_chart")
    names = [trace["name"] for trace in json.loads(plot.proto.spec)["data"]]
    assert names == ["synthetic rows", "real rows", "independent control", "majority class"]


def test_another_measure_can_be_chosen(finished: AppTest) -> None:
    app = opened(finished)
    app.segmented_control(key="prediction-measure").set_value("macro_f1").run()
    assert any("Macro F1" in str(metric.label) for metric in app.metric)
    assert not any("ROC AUC" in str(metric.label) for metric in app.metric)


def test_looking_is_entered_in_the_ledger(finished: AppTest) -> None:
    assert looked_at() == {BEFORE_A_CHARGE}
    opened(finished)
    assert looked_at() > {BEFORE_A_CHARGE}


def test_the_tab_of_all_other_exact_numbers_does_not_repeat_them(finished: AppTest) -> None:
    app = go(finished, "report")
    app.session_state["report-tab"] = "○ Owner only"
    app.run()
    assert "ROC AUC" not in texts(app)


@pytest.mark.thorough
def test_training_every_predictor_is_followed_and_stopped(finished: AppTest, home: Path) -> None:
    app = opened(finished)
    app.button(key="predictions").click().run()
    assert not errors(app)
    assert app.button(key="stop-predictions").label == "Stop the training"
    run_id = app.session_state["draft"]["run_id"]
    work = application().renewal(run_id, "predictions")
    assert work is not None
    app.run()
    app.button(key="stop-predictions").click().run()
    assert "Stopped. The numbers above are unchanged." in texts(app)
    assert not processes.is_alive(int(work.pid or 0), float(work.pid_created or 0))
    assert app.button(key="predictions")


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_a_run_without_a_label_says_what_is_missing() -> None:
    app = started()
    assert wait_for_run(app) == "reported"
    assert "No label is declared." in texts(opened(app))


@pytest.mark.thorough
def test_rows_that_are_gone_are_said_to_be_gone(finished: AppTest) -> None:
    from pages.ui.session import application

    application().intake.delete_table(finished.session_state["draft"]["table_id"])
    app = opened(finished)
    app.button(key="predictions").click().run()
    (error,) = errors(app)
    assert "The rows of this run were deleted" in error


@pytest.mark.thorough
@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_how_a_training_ended_is_said(finished: AppTest, home: Path, state: str) -> None:
    run_id = finished.session_state["draft"]["run_id"]
    table, subject = application().store.work, f"{run_id} predictions"
    work = table.begin(WorkKind.REPORT, subject, asked=json.dumps("all"), owner="owner", host=this_host())
    table.move(work.id, WorkState(state), message="Something went wrong (incident 7)." * (state == "failed"))
    words = texts(opened(finished))
    assert ("incident 7" in words) == (state == "failed")
    assert ("Stopped." in words) == (state == "cancelled")


@pytest.mark.thorough
def test_what_was_paid_for_stands_apart_from_what_is_exact(finished: AppTest, home: Path) -> None:
    run_id = finished.session_state["draft"]["run_id"]
    path = home / "runs" / run_id / "report.json"
    document = json.loads(path.read_text())
    paid = {"epsilon": 0.2, "receipts": (0,)}
    entries = [
        ChargedEvidence(id="predictions.accuracy", title="Accuracy, synthetic rows", value=0.81, error=0.02, **paid),
        ChargedEvidence(id="predictions.macro_f1", title="Macro F1, synthetic rows", value=0.7, error=0.03, **paid),
        ChargedEvidence(id="predictions.majority_accuracy", title="Accuracy, majority class", value=0.6, **paid),
        ChargedEvidence(id="predictions.rows", title="Test rows", value=41.0, error=4.0, unit="rows", **paid),
    ]
    document["evidence"] += [evidence_to_dict(entry) for entry in entries]
    path.write_text(json.dumps(document))
    app = opened(finished)
    assert not errors(app)
    words = texts(app)
    assert "Paid for: held-out rows, counted with noise" in words
    assert "(95 %, privacy noise)" in words
    shown = badges(app)
    app.segmented_control(key="charged-measure").set_value("accuracy").run()
    labels = [str(metric.label) for metric in app.metric]
    assert {"Accuracy, synthetic rows", "Accuracy, majority class", "ROC AUC, real rows"} <= set(labels)
    assert "Macro F1, synthetic rows" not in labels
    assert shown == {"charged", "owner_only"}
    # Elsewhere they are not shown again.
    go(app, "report")
    app.session_state["report-tab"] = "● Accuracy you can expect"
    app.run()
    assert "Paid for" not in texts(app)
    assert "Accuracy, majority class" not in texts(app)


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_what_was_paid_for_is_drawn_by_group_as_a_run_reports_it() -> None:
    """Nothing is made up here: a run that pays for predictions, and its groups, on the page."""
    app = started(LABELLED.replace("epsilon: 1.0", "epsilon: 20.0") + "holdout: 0.4\nprediction_share: 0.3\n")
    assert wait_for_run(app) == "reported"
    go(app, "report")
    app.session_state["report-tab"] = "○ Groups"
    app.run()
    assert errors(app) == []
    by_region = next(one.value for one in app.table if "Accuracy, ±" in one.value.columns)
    assert list(by_region["region"]) == ["north", "south"]


def test_headings_that_occur_twice_are_told_apart() -> None:
    table = Table("People", ("±", "name", "±", "name", "±"), ((1, "a", 2, "b", 3),))
    assert list(table_of(table).columns) == ["±", "name", "± (2)", "name (2)", "± (3)"]
