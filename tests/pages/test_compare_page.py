"""Compare: two runs of one account side by side, under what both cost; one run is not enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
from driving import errors, go, texts, wait_for_run
from streamlit.testing.v1 import AppTest

from pages.ui.session import application


def test_one_run_cannot_be_compared(finished: AppTest) -> None:
    assert "You need two finished runs about the same people" in texts(go(finished, "compare"))


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_two_runs_stand_side_by_side_under_their_cost(finished: AppTest) -> None:
    held = finished.session_state["draft"]
    service = application()
    first = held["run_id"]
    config = replace(service.config_of(first), epsilon=0.5, label=None, groups=(), holdout=0.0)
    second = service.start(config, table_id=held["table_id"])
    finished.session_state["draft"]["run_id"] = second
    assert wait_for_run(finished) == "reported"
    app = go(finished, "compare")
    assert not errors(app)
    words = texts(app)
    assert "You are choosing between 2 runs. The people in this table have paid for both" in words
    assert "safe to publish" in words
    table = app.table[-1].value
    names = [name for name in table.columns if name.startswith("independent, epsilon")]
    assert len(names) == 2
    noise = table[table["number"] == "Standard error of a count, rows"]
    assert float(noise[names[0]].iloc[0]) > float(noise[names[1]].iloc[0])
    made = table[table["number"].str.startswith("Synthetic rows")]
    assert list(made[names].iloc[0]) == ["100", "100"]
    chart = app.get("plotly_chart")[0]
    assert "The same numbers are in the table below." in chart.proto.alt
    # A third run: letters stand in the table, and are said above it.
    config = replace(config, epsilon=0.25)
    finished.session_state["draft"]["run_id"] = service.start(config, table_id=held["table_id"])
    assert wait_for_run(finished) == "reported"
    app = go(finished, "compare")
    app.multiselect[0].set_value(app.multiselect[0].options).run()
    assert not errors(app)
    assert list(app.table[-1].value)[1:4] == ["A", "B", "C"]
    assert "A: independent, epsilon 0.25 (" in texts(app)
    app.multiselect[0].set_value([app.multiselect[0].options[0]]).run()
    assert "Choose at least two runs" in texts(app)
