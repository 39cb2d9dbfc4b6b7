"""The tab of exact numbers, one part at a time, and the publishable distributions beside the marginals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driving import badges, errors, go, texts
from streamlit.testing.v1 import AppTest

TAB = "○ Owner only"


def opened(app: AppTest, part: str) -> AppTest:
    go(app, "report")
    app.session_state["report-tab"] = TAB
    app.session_state["owner-part"] = part
    app.run()
    assert not errors(app)
    return app


@pytest.mark.thorough
def test_every_part_is_shown_below_the_plainest_number(finished: AppTest) -> None:
    for part, word in (
        ("sets", "Mean distance over single columns"),
        ("scales", "Kolmogorov-Smirnov distance"),
        ("associations", "Mean error of associations"),
        ("scores", "SDMetrics quality score"),
    ):
        app = opened(finished, part)
        assert "Accuracy as a sub-sample: pairs of columns" in texts(app)
        assert word in texts(app)
        assert badges(app) == {"owner_only"}


@pytest.mark.thorough
def test_quantiles_are_lines_with_a_table_twin(finished: AppTest) -> None:
    app = opened(finished, "scales")
    assert app.selectbox(key="owner-scales-quantiles").options == ["age"]
    (plot,) = app.get("plotly_chart")
    traces = json.loads(plot.proto.spec)["data"]
    assert [trace["name"] for trace in traces] == ["synthetic rows", "private rows"]
    assert {trace["mode"] for trace in traces} == {"lines"}
    assert {len(trace["x"]) for trace in traces} == {99}
    assert "The same numbers are in the table below." in plot.proto.alt


def test_a_report_from_before_shows_what_it_has(finished: AppTest, home: Path) -> None:
    path = home / "runs" / finished.session_state["draft"]["run_id"] / "owner" / "report.json"
    body = json.loads(path.read_text())
    body["evidence"] = [entry for entry in body["evidence"] if not entry["id"].startswith("fidelity.")]
    path.write_text(json.dumps(body))
    app = opened(finished, "associations")
    assert "Mean distance over single columns" in texts(app)
    assert "sub-sample" not in texts(app)


@pytest.mark.thorough
def test_publishable_distributions_stand_beside_the_marginals(finished: AppTest, home: Path) -> None:
    path = home / "runs" / finished.session_state["draft"]["run_id"] / "report.json"
    (told,) = (entry for entry in json.loads(path.read_text())["evidence"] if entry["id"] == "fidelity.ks")
    app = go(finished, "report")
    app.session_state["report-tab"] = "● Columns and pairs"
    app.run()
    assert not errors(app)
    assert "Kolmogorov-Smirnov distance" in texts(app)
    # 200 rows in 121 places at epsilon 1: whether this run's noise hides them, its report says.
    assert told["sentence"] in texts(app)
    app.session_state["report-tab"] = "● Accuracy you can expect"
    app.run()
    assert "Kolmogorov-Smirnov distance" not in texts(app)
