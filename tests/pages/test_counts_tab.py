"""The tab of noisy counts: one table at a time as a picture, and all of them to download once the release is sealed."""

from __future__ import annotations

import io

import pandas as pd
from driving import errors, texts
from streamlit.testing.v1 import AppTest
from test_groups_tab import opened

import synth
from pages.ui.charts import table_figure
from pages.ui.session import application
from synth.reports.counted import Counts

TAB = "● Counts"


def counts_of(app: AppTest) -> Counts:
    return application().counts(str(app.session_state["draft"]["run_id"]))


def test_a_table_of_counts_is_drawn_and_all_are_offered_when_sealed(finished: AppTest) -> None:
    app = opened(finished, TAB)
    assert errors(app) == []
    found = counts_of(app)
    places = [place for place, table in enumerate(found.tables) if len(table.columns) == 1]
    for place in places[:2]:
        app = app.selectbox(key="counts-of").set_value(place).run()
        assert errors(app) == []
        shown = [one.value for one in app.table if "noisy counts" in one.value.columns]
        assert len(shown[0]) == found.tables[place].counts.size
        assert "with 95 % probability" in texts(app)
    run_id = str(app.session_state["draft"]["run_id"])
    bundle = application().folder(run_id) / "bundle.zip"
    read = pd.read_csv(io.StringIO(found.csv)).fillna("")
    pd.testing.assert_frame_equal(read, synth.answers(bundle).fillna(""), check_dtype=False)
    assert len(application().ledger.charges_of(run_id)) == 1, "nothing is charged for it"


def test_a_cross_table_is_a_heat_map_whose_cells_are_named_letter_for_letter() -> None:
    figure = table_figure(("a", "b<i>"), (("x", "x"), ("1", "<b>2</b>", "3")), [[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]])
    (trace,) = figure.data
    assert [list(row) for row in trace.z] == [[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]]
    assert "<b>" not in str(trace.text)
    assert figure.layout.yaxis.ticktext == ("x", "x"), "two bins may have one name"
