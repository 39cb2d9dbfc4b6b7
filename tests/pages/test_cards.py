"""A number on a card: short values as a metric, long words in full, never cut off."""

from __future__ import annotations

from driving import errors, texts
from streamlit.testing.v1 import AppTest


def _page() -> None:
    from pages.ui.evidence import number_card
    from synth.reports import SafeEvidence

    number_card(SafeEvidence(id="a", title="Mode", value="Cell level (as in the paper, repaired)"))
    number_card(SafeEvidence(id="b", title="Synthetic rows", value=1200, unit="rows"))


def test_long_words_stand_in_full_and_numbers_as_metrics() -> None:
    app = AppTest.from_function(_page).run()
    assert not errors(app)
    assert "#### Cell level (as in the paper, repaired)" in texts(app)
    assert "Mode" in texts(app)
    (metric,) = app.metric
    assert (metric.label, metric.value) == ("Synthetic rows", "1,200 rows")
