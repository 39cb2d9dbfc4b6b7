"""The tab of what was not kept: how many pairs are unknown first, one column at a time, and the map of all pairs."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest
from test_groups_tab import opened

from pages.ui.charts import heat_map_figure, table_of
from synth.reports.figures import HeatMap

TAB = "● What was not kept"


@pytest.mark.thorough
def test_the_warning_comes_first_and_every_column_can_be_asked_for(finished: AppTest) -> None:
    app = opened(finished, TAB)
    assert any("pairs to treat as unknown" in heading.value for heading in app.header)
    columns = app.selectbox(key="relations-of-column")
    before = [words.value for words in app.markdown]
    columns.select(columns.options[1]).run()
    after = [words.value for words in app.markdown]
    assert before != after
    assert any(words.startswith("Not measured: ") for words in after)


def test_a_map_of_words_names_its_shades() -> None:
    states = ("measured alone", "drowned")
    square = HeatMap("m", "not measured", ("a", "b"), ((None, 1.0), (1.0, None)), states=states)
    spec = json.loads(heat_map_figure(square).to_json())
    (trace,) = spec["data"]
    assert trace["colorbar"]["ticktext"] == list(states)
    assert trace["text"][0] == ["not measured", "drowned"]
    assert table_of(square).to_numpy().tolist() == [["a + b", "drowned"]]
