"""The page Rehearse: nothing without the declaration, a rehearsal that is followed, and a stop on every later page."""

from __future__ import annotations

import json
import time

import pytest
from driving import CODEBOOK, LABELLED, TABLE, described, errors, go, texts, uploader
from streamlit.testing.v1 import AppTest

from pages.ui.draft import config_of
from pages.ui.session import application
from synth.generators import GENERATORS
from synth.rehearsal.stand_in import REHEARSAL_SENTENCE, SIMULATED_SENTENCE, STAND_IN_SENTENCE
from synth.services.run_folder import write_owner_json
from synth.services.stops import configuration_digest

STAND_IN = "age,region,smoker\n" + "".join(
    f"{20 + number % 50},{('north', 'south')[number % 3 == 0]},{('yes', 'no')[number % 2]}\n" for number in range(300)
)


def rehearsed(app: AppTest, *, grid: bool = False) -> str:
    """Wait until the rehearsal of this draft's configuration, or its grid, has ended."""
    config = config_of(app.session_state["draft"])
    for _ in range(6000):
        view = application().rehearsals.standing(config, grid=grid)
        if view is not None and not view.is_active:
            return view.state + view.message
        time.sleep(0.1)
    raise AssertionError("the rehearsal did not end within ten minutes")


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_a_stand_in_is_declared_rehearsed_on_and_shown() -> None:
    app = go(described(), "rehearse")
    assert REHEARSAL_SENTENCE in texts(app)
    assert "No rehearsal yet. Choose rows below that need no protection. It takes about as long as a run" in texts(app)
    assert uploader(app, "stand-in").proto.disabled
    app.checkbox(key="stand-in-is-public").check().run()
    uploader(app, "stand-in").upload("open.csv", STAND_IN.encode(), "text/csv")
    app.run()
    assert not errors(app)
    assert rehearsed(app) == "reported"
    app = go(app, "rehearse")
    assert not errors(app)
    words = texts(app)
    assert f"{STAND_IN_SENTENCE} {REHEARSAL_SENTENCE}" in words
    assert "with independent at ε = 1, as the run is set now." in words
    assert "● safe to publish" in words
    # 300 rows: 30 and 30 people can be compared, which is too few.
    assert "No verdict" in words
    app.segmented_control(key="rehearsal-part").set_value("marginals").run()
    assert "Mean distance over single columns" in texts(app)
    assert application().account("survey").epsilon_spent == 0
    assert application().account("survey").notes == ()


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_a_grid_is_rehearsed_on_simulated_rows_and_a_cell_is_taken_over() -> None:
    app = go(described(), "rehearse")
    app.segmented_control(key="rehearsal-what").set_value("grid").run()
    assert "No rehearsal yet. Choose rows below that need no protection. Each cell of a grid takes about" in texts(app)
    assert app.multiselect(key="grid-epsilons").value == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert app.multiselect(key="grid-generators").value == ["independent"]
    app.multiselect(key="grid-epsilons").set_value([1.0, 4.0])
    app.number_input(key="grid-seeds").set_value(1).run()
    assert "2 rehearsals, one after the other" in texts(app)
    app.segmented_control(key="rehearsal-rows").set_value("simulated").run()
    assert "Enter only what anyone could know without looking at the table" in texts(app)
    app.number_input(key="simulation-rows").set_value(300)
    app.button(key="rehearse-simulated").click().run()
    assert not errors(app)
    assert rehearsed(app, grid=True) == "reported"
    app = go(app, "rehearse")
    app.segmented_control(key="rehearsal-what").set_value("grid").run()
    assert not errors(app)
    words = texts(app)
    assert f"{SIMULATED_SENTENCE} {REHEARSAL_SENTENCE}" in words
    assert "Distance of pairs of independent: " in words
    (table,) = [frame.value for frame in app.table if "distance of pairs" in frame.value.columns]
    assert list(table["epsilon"]) == [1.0, 4.0]
    app.selectbox(key="grid-choice").set_value("independent, ε = 4").run()
    app.button(key="grid-use").click().run()
    assert app.session_state["draft"]["epsilon"] == 4.0
    assert app.session_state["draft"]["generator"] == "independent"
    # The numbers are of the table, and stay whatever is chosen.
    assert "Distance of pairs of independent: " in texts(app)
    assert go(app, "generate").button(key="spend").label == "Spend 4.00 and generate"
    assert application().account("survey").epsilon_spent == 0


@pytest.mark.thorough
def test_no_grid_at_all_is_said_in_words() -> None:
    app = go(described(), "rehearse")
    app.segmented_control(key="rehearsal-what").set_value("grid").run()
    app.multiselect(key="grid-generators").set_value([]).run()
    assert errors(app) == ["Choose at least one epsilon and one generator."]
    app.multiselect(key="grid-generators").set_value(["independent", "dp-merf", "dp-hp", "kahm"])
    app.number_input(key="grid-seeds").set_value(10).run()
    assert errors(app) == ["A grid of 200 rehearsals is too large. The most is 120."]


@pytest.mark.thorough
def test_the_private_table_itself_is_refused() -> None:
    app = go(described(), "rehearse")
    app.checkbox(key="stand-in-is-public").check().run()
    uploader(app, "stand-in").upload("again.csv", TABLE.encode(), "text/csv")
    app.run()
    (error,) = errors(app)
    assert "a private table of the account 'survey'" in error


@pytest.mark.thorough
def test_a_stop_is_said_and_nothing_can_be_spent() -> None:
    app = described()
    config = config_of(app.session_state["draft"])
    application().stops.record(config, "7f3a0000", "Closest record")
    folder = application().settings.home / "rehearsals" / configuration_digest(config)
    folder.mkdir(parents=True)
    entry = {
        "id": "attacks.none", "kind": "safe", "value": None, "error": None, "unit": "", "title": "Attacks",
        "sentence": "None.", "figures": [],
    }  # fmt: skip
    body = {"incident": "7f3a0000", "sentence": "Stop. An attack did better.", "time": "", "evidence": [entry]}
    write_owner_json(folder / "report.json", body)
    app = go(app, "rehearse")
    assert errors(app) == ["Stop. An attack did better."]
    app = go(app, "generate")
    assert any("incident 7f3a0000" in error for error in errors(app))
    assert app.button(key="spend").disabled
    application().stops.clear("7f3a0000", who="owner", because="mended")
    app = go(app, "rehearse")
    assert not errors(app)
    assert "Incident 7f3a0000 was cleared by owner: mended. Rehearse again." in texts(app)
    app = go(app, "generate")
    assert not app.run().button(key="spend").disabled


@pytest.mark.thorough
def test_a_stopped_run_is_not_sealed(finished: AppTest) -> None:
    app = go(finished, "release")
    assert app.button(key="seal")
    run_id = app.session_state["draft"]["run_id"]
    application().stops.record(application().config_of(run_id), "7f3a0000", "Closest record")
    app = go(app, "release")
    (error,) = errors(app)
    assert "incident 7f3a0000" in error
    assert not [button for button in app.button if button.key == "seal"]
    assert "On a stand-in" not in texts(app)
    report = go(app, "report")
    report.session_state["report-tab"] = "○ Attacks"
    report.run()
    assert "This configuration has not been rehearsed." in texts(report)


@pytest.mark.thorough
def test_the_stop_of_another_budget_is_no_stop() -> None:
    app = described(CODEBOOK.replace("epsilon: 1.0", "epsilon: 2.0"))
    config = config_of(app.session_state["draft"])
    other = json.loads(json.dumps(app.session_state["draft"]))
    other["epsilon"] = 1.0
    application().stops.record(config_of(other), "7f3a0000", "Closest record")
    assert application().plan(config).refusal is None


@pytest.mark.thorough
def test_every_generator_can_be_asked_for_and_those_left_out_are_named() -> None:
    app = go(described(), "rehearse")
    app.segmented_control(key="rehearsal-what").set_value("grid").run()
    app.multiselect(key="grid-generators").set_value(["all"])
    app.number_input(key="grid-seeds").set_value(1)
    app.multiselect(key="grid-epsilons").set_value([1.0]).run()
    assert not errors(app)
    words = texts(app)
    assert "independent-by-class is left out: it needs a label of at least two values" in words
    assert "dp-gan is left out: it needs a private number of rows" in words
    assert f"{len(GENERATORS) - words.count(' is left out: ')} rehearsals, one after the other" in words
    app.multiselect(key="grid-generators").set_value(["all", "dp-hp"]).run()
    assert errors(app) == ["'all' stands for every generator, so name no other beside it."]


@pytest.mark.thorough
def test_the_purpose_of_a_grid_is_asked_where_there_is_a_label() -> None:
    app = go(described(LABELLED), "rehearse")
    app.segmented_control(key="rehearsal-what").set_value("grid").run()
    assert app.segmented_control(key="grid-purpose").value == "prediction"
    app.segmented_control(key="grid-purpose").set_value("counts").run()
    assert not errors(app)


def following(*, shows_steps: bool) -> None:
    """Follow work that ends a step between the drawing of the page and the first look at the bar."""
    from datetime import UTC, datetime

    import streamlit as st

    from pages.ui.running import LongWork, follow_work
    from synth.store import Work, WorkKind, WorkState

    held = st.session_state
    held["drawn"] = held.get("drawn", 0) + 1

    def standing() -> Work:
        held["looks"] = held.get("looks", 0) + 1
        step, state = min(held["looks"], 2), WorkState.RUNNING
        return Work(
            id="1", kind=WorkKind.GRID, subject="", owner="", state=state, step=step, steps=9, created=datetime.now(UTC)
        )

    follow_work(LongWork(standing, lambda: None, "Stop", "rehearsals", shows_steps=shows_steps), stop_key="stop")


@pytest.mark.parametrize("shows_steps", [True, False])
def test_the_page_is_drawn_again_when_a_cell_is_done(*, shows_steps: bool) -> None:
    app = AppTest.from_function(following, kwargs={"shows_steps": shows_steps}, default_timeout=300).run()
    assert not app.exception
    assert app.session_state["drawn"] == (2 if shows_steps else 1)
