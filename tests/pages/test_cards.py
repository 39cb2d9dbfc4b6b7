"""A number on a card: short values as a metric, long words in full, never cut off."""

from __future__ import annotations

from driving import errors, texts
from streamlit.testing.v1 import AppTest


def _page() -> None:
    from pages.ui.evidence import number_card
    from synth.reports.evidence import SafeEvidence

    number_card(SafeEvidence(id="a", title="Mode", value="Cell level (as in the paper, repaired)"))
    number_card(SafeEvidence(id="b", title="Synthetic rows", value=1200, unit="rows"))


def test_long_words_stand_in_full_and_numbers_as_metrics() -> None:
    app = AppTest.from_function(_page).run()
    assert not errors(app)
    assert "**Cell level (as in the paper, repaired)**" in texts(app)
    assert "Mode" in texts(app)
    (metric,) = app.metric
    assert (metric.label, metric.value) == ("Synthetic rows", "1,200 rows")


def _pictures() -> None:
    from pages.ui.evidence import cards
    from synth.generators import Picture, Trace
    from synth.reports.evidence import SafeEvidence

    density = Picture(
        name="density",
        title="Density",
        kind="heat_map",
        across="age <b>",
        up="seen",
        columns=(20.0, 30.0),
        rows=("2020-01", "2020-02"),
        values=((0.1, None), (0.3, 0.4)),
    )
    trace = Trace("noisy", (0.0, 2.0), (1.5, -1.0), (0.5, 0.25))
    fit = Picture(name="fit", title="Fit", kind="lines", across="x", up="y", traces=(trace,))
    cards([SafeEvidence(id="picture.a", title="Density", value=None, figures=(density, fit))], key="p")


def test_a_picture_of_a_model_has_a_table_twin() -> None:
    app = AppTest.from_function(_pictures).run()
    assert not errors(app)
    density, fit = (frame.value for frame in app.table)
    assert list(density.columns) == ["seen \\\\ age \\<b\\>", "20", "30"], (
        "letter for letter, though a cell may hold markdown"
    )
    assert density.iloc[1].tolist() == ["2020-02", 0.3, 0.4]
    assert fit.iloc[1].tolist() == ["noisy", 2.0, "-1 ± 0.25"]
