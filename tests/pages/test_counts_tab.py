"""The tab of noisy counts: one table at a time as a picture, and all of them to download once the release is sealed."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from driving import errors, texts
from streamlit.testing.v1 import AppTest
from test_groups_tab import opened

import synth
from pages.ui.charts import bars_figure, table_figure
from pages.ui.session import application
from synth.reports.counted import Counts
from synth.reports.figures import Bars, Series

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


def test_the_last_bin_is_named_on_the_axis_and_long_names_are_cut() -> None:
    names = (*map(str, range(161)), "missing, refused or not known to anybody")
    bars = Bars("systolic", "rows", names, (Series("noisy counts", "measured", (1.0,) * len(names)),))
    for axis in (
        bars_figure(bars).layout.xaxis,
        table_figure(("a", "b"), (("x", "y"), names), np.ones((2, len(names)))).layout.xaxis,
    ):
        assert len(axis.tickvals) == len(axis.ticktext) <= 40
        assert (axis.tickvals[0], axis.ticktext[0]) == (0, "0")
        assert (axis.tickvals[-1], axis.ticktext[-1]) == (161, "missing, refused or not…")
    (trace,) = bars_figure(bars).data
    assert trace.hovertext[-1] == names[-1]
