"""The modes of KAHM on Generate: honest labels, what noise will do beforehand, and a cell-level run to its end."""

from __future__ import annotations

import pytest
from driving import CODEBOOK, described, errors, go, texts, wait_for_run
from streamlit.testing.v1 import AppTest
from toy_family import CARDS

from pages.ui.session import application
from synth.generators import GENERATORS
from synth.generators.kahm import MODES, PAPER_REFUSAL

CHOICE = "field:mode"


@pytest.fixture
def chosen() -> AppTest:
    """Return Generate with KAHM chosen."""
    app = go(described(), "generate")
    app.button(key="choose-kahm").click().run()
    assert not app.exception
    return app


@pytest.mark.thorough
def test_every_mode_says_what_it_hides_and_what_not(chosen: AppTest) -> None:
    radio = chosen.radio(key=CHOICE)
    assert radio.value == "record"
    assert list(radio.options) == [mode.title for mode in MODES]
    captions = " ".join(radio.proto.captions)
    for mode in MODES:
        assert mode.promise in captions
        assert mode.beware.split(".")[0] in captions
    assert "field:option:kahm:mode" not in {str(box.key) for box in chosen.selectbox}


@pytest.mark.thorough
def test_row_noise_is_known_before_it_is_spent(chosen: AppTest) -> None:
    chosen.radio(key=CHOICE).set_value("rows").run()
    assert chosen.session_state["draft"]["options"] == {"mode": "rows"}
    assert not errors(chosen)
    noise = next(frame.value for frame in chosen.table if "column" in frame.value.columns)
    assert list(noise["column"]) == ["age", "region", "smoker"]
    assert "In 3 of 3 columns the noise is wider than the column's whole range." in texts(chosen)
    assert chosen.button(key="spend").label == "Spend 1.00 and generate"


@pytest.mark.thorough
def test_the_cell_level_states_the_epsilon_of_a_row(chosen: AppTest) -> None:
    chosen.radio(key=CHOICE).set_value("cell").run()
    assert chosen.session_state["draft"]["protection"] == "cell"
    assert not errors(chosen)
    words = texts(chosen)
    assert "Protects ONE CELL" in words
    (metric,) = chosen.metric
    assert metric.label == "Equivalent for replacing a whole row"
    whole = float(metric.value.removeprefix("ε = "))
    assert 2 < whole < 3.1  # three columns at epsilon 1 each: below the plain sum, far above one
    assert "The epsilon you enter, 1.00, is for one cell." in words
    chosen.slider(key="field:cell_change").set_value(0.5).run()
    (metric,) = chosen.metric
    assert float(metric.value.removeprefix("ε = ")) > whole, "half the protected change is noise halved"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["rows", "cell"])
@pytest.mark.parametrize(
    ("declared", "instead"),
    [("rows_per_unit: 1", "rows_per_unit: 6"), ("row_count: public\nnumber_of_units: 200", "row_count: private")],
    ids=["several rows of one", "private number of rows"],
)
def test_rows_are_not_let_out_where_their_number_would_tell(mode: str, declared: str, instead: str) -> None:
    app = go(described(CODEBOOK.replace(declared, instead)), "generate")
    app.button(key="choose-kahm").click().run()
    assert "spend" in {str(button.key) for button in app.button}
    app.radio(key=CHOICE).set_value(mode).run()
    (error,) = errors(app)
    assert "Declare both on 2 Describe if they are true, or choose 'Record level (central)'." in error
    assert "spend" not in {str(button.key) for button in app.button}
    app.radio(key=CHOICE).set_value("record").run()
    assert not errors(app)


@pytest.mark.thorough
def test_another_generator_protects_rows_again(chosen: AppTest) -> None:
    chosen.radio(key=CHOICE).set_value("cell").run()
    chosen.button(key="choose-independent").click().run()
    assert chosen.session_state["draft"]["protection"] == "record"
    assert chosen.session_state["draft"]["options"] == {}
    assert not errors(chosen)


@pytest.mark.thorough
def test_the_paper_is_explained_and_cannot_be_spent_on(chosen: AppTest) -> None:
    chosen.radio(key=CHOICE).set_value("paper").run()
    (error,) = errors(chosen)
    assert PAPER_REFUSAL.replace("`", "") in error.replace("\\", "")
    assert "spend" not in {str(button.key) for button in chosen.button}


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_a_cell_level_run_goes_to_its_report_in_an_account_of_its_own(chosen: AppTest) -> None:
    chosen.radio(key=CHOICE).set_value("cell").run()
    chosen.button(key="spend").click().run()
    chosen.button(key="confirm-spend").click().run()
    assert wait_for_run(chosen) == "reported"
    go(chosen, "report")
    assert not errors(chosen)
    assert not chosen.exception
    (of_row,) = [metric for metric in chosen.metric if metric.label == "Epsilon for a whole row"]
    assert 2 < float(of_row.value) < 3.002  # below the plain sum of three columns, but for its rounding up
    assert "For ONE CELL of the table" in texts(chosen)
    row_worth = str(of_row.value)
    go(chosen, "release")
    assert f"ε = 1.00 for one cell, ε = {row_worth} for a whole row" in texts(chosen)
    go(chosen, "ledger")
    (entries,) = [frame.value for frame in chosen.table if "purpose" in frame.value.columns]
    assert set(entries["hides"]) == {"one cell"}
    assert set(entries["epsilon for a whole row"]) == {row_worth}
    assert f"are at most {row_worth} at delta 1e-06; a changed label has no protection." in texts(chosen)
    go(chosen, "generate")
    (runs,) = [frame.value for frame in chosen.table if "generator or model" in frame.value.columns]
    assert list(runs["epsilon for a whole row"]) == [row_worth]
    assert f"kahm, ε = 1.00 for one cell ({row_worth} for a whole row)" in texts(chosen)
    # The same people now have a cell-level account: a record-level run is refused before anything is spent.
    spent = application().account("survey").epsilon_spent
    assert spent == pytest.approx(1.0, abs=1e-6)
    go(chosen, "generate")
    chosen.button(key="another").click().run()
    chosen.button(key="choose-independent").click().run()
    assert any("one_cell" in error or "one cell" in error for error in errors(chosen))
    assert application().account("survey").epsilon_spent == spent


@pytest.mark.thorough
def test_many_categories_lead_to_another_generator() -> None:
    app = described()
    held = app.session_state["draft"]
    region = next(row for row in held["columns"] if row["role"] == "category")
    held["columns"] += [{**region, "name": f"region {number}"} for number in range(2)]
    go(app, "generate")
    app.button(key="choose-kahm").click().run()
    assert "This table has 3 category columns." in texts(app)


@pytest.mark.thorough
def test_the_modes_of_any_generator_are_offered_by_what_they_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATORS, "toy", CARDS[0])
    app = go(described(), "generate")
    app.button(key="choose-toy").click().run()
    assert not app.exception
    assert list(app.radio(key=CHOICE).options) == ["Plain", "Shy"]
    assert "Any other generator is better." in texts(app)
    assert app.number_input(key="field:option:toy:flatness").value == 0.5
    app.radio(key=CHOICE).set_value("shy").run()
    assert app.session_state["draft"]["options"] == {"mode": "shy"}
