"""The tab of groups: the noise first, then what each group loses; and where groups are declared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from driving import BEFORE_A_CHARGE, LABELLED, described, errors, go, looked_at, texts
from streamlit.testing.v1 import AppTest

from pages.ui.evidence import OWNER_ONLY_NOTE
from synth.reports.evidence import ChargedEvidence, evidence_to_dict
from synth.reports.figures import Table

TAB = "○ Groups"


def opened(app: AppTest, tab: str = TAB) -> AppTest:
    go(app, "report")
    app.session_state["report-tab"] = tab
    app.run()
    assert not errors(app)
    return app


@pytest.mark.thorough
def test_what_groups_lose_stands_below_what_noise_allows(finished: AppTest) -> None:
    app = opened(finished)
    words = texts(app)
    for title in (
        "Smallest group of region to trust",
        OWNER_ONLY_NOTE,
        "No two groups of region are large enough to compare",
        "Largest error of a group of region, above that of all rows",
    ):
        assert title in words
    risks, distances = app.get("plotly_chart")
    names = [[trace["name"] for trace in json.loads(plot.proto.spec)["data"]] for plot in (risks, distances)]
    assert names == [
        ["synthetic rows", "real rows", "independent control"],
        ["synthetic rows", "independent control", "two bootstraps"],
    ]
    assert all("The same numbers are in the table below." in plot.proto.alt for plot in (risks, distances))


@pytest.mark.thorough
def test_runs_with_fresh_noise_are_offered(finished: AppTest) -> None:
    app = opened(finished)
    assert "Who pays for privacy, on average over runs" in texts(app)
    assert app.button(key="reruns").label == "Run 10 more times"


@pytest.mark.thorough
def test_what_was_paid_for_by_group_stands_here_alone(finished: AppTest, home: Path) -> None:
    path = home / "runs" / finished.session_state["draft"]["run_id"] / "report.json"
    document = json.loads(path.read_text())
    table = Table("Predictions by region", ("region", "rows (noisy)", "mean squared error"), (("north", 41.0, 0.02),))
    title = "Widest gap in mean squared error between groups of region"
    paid = {"value": 0.01, "error": 0.002, "epsilon": 0.2, "receipts": (0,)}
    entries = [
        ChargedEvidence(id="predictions.mse", title="Mean squared error, synthetic rows", **paid),
        ChargedEvidence(id="predictions.groups.region", title=title, figures=(table,), **paid),
    ]
    document["evidence"] += [evidence_to_dict(entry) for entry in entries]
    path.write_text(json.dumps(document))
    words = texts(opened(finished))
    assert "Paid for: predictions by group" in words
    assert title in words
    assert title not in texts(opened(finished, "○ Prediction"))


@pytest.mark.thorough
def test_groups_are_shown_once(finished: AppTest) -> None:
    for tab in ("○ Prediction", "○ Owner only"):
        assert "of region" not in texts(opened(finished, tab))


@pytest.mark.thorough
def test_without_groups_nothing_is_looked_at(finished: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.ui.session import application

    known = type(application()).config_of
    monkeypatch.setattr(type(application()), "config_of", lambda self, run: replace(known(self, run), groups=()))
    assert "No groups are declared" in texts(opened(finished))
    assert looked_at() == {BEFORE_A_CHARGE}


@pytest.mark.thorough
def test_groups_are_chosen_where_the_table_is_described() -> None:
    app = go(described(), "describe")
    chosen = app.pills(key="field:groups")
    assert chosen.options == ["age", "region", "smoker"]
    chosen.set_value(["region"]).run()
    assert app.session_state["draft"]["groups"] == ["region"]
    assert not errors(app)


@pytest.mark.thorough
def test_groups_of_a_wide_table_are_named_in_its_codebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ui.people.MOST_PILLS", 2)
    app = go(described(LABELLED), "describe")
    assert "Columns to compare by group: region. For a table this wide" in texts(app)
    assert app.session_state["draft"]["groups"] == ["region"]
    assert not errors(app)
