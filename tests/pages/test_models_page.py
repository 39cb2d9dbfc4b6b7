"""Private models: a model is chosen by its card, its target and columns; what it asks is known before it is charged."""

from __future__ import annotations

import io
import json

import pytest
from driving import described, errors, go, texts, wait_for_run
from streamlit.testing.v1 import AppTest
from toy_models import CARDS

from pages.ui.draft import config_of, fill_from_config, new_draft, take_table
from pages.ui.session import application
from synth.estimators import MODELS, describe, model_cards
from synth.generators.options import option_fields
from synth.schema import config_to_mapping


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy-line", CARDS[0])


@pytest.fixture
def chosen() -> AppTest:
    """Return the page with the toy and a target chosen."""
    app = go(described(), "models")
    app.button(key="choose-toy-line").click().run()
    app.selectbox(key="field:model_label").set_value("age").run()
    assert not app.exception
    return app


@pytest.mark.thorough
def test_a_card_says_what_a_model_is_for_and_nothing_is_spent_without_a_target() -> None:
    app = go(described(), "models")
    assert CARDS[0].title in texts(app)
    assert CARDS[0].loses_where in texts(app)
    assert "spend" not in {str(button.key) for button in app.button}
    app.button(key="choose-toy-line").click().run()
    assert "Choose the column to predict." in texts(app)
    assert "spend" not in {str(button.key) for button in app.button}
    go(app, "budget")
    assert not errors(app), "the other screens go on speaking of rows"


@pytest.mark.thorough
@pytest.mark.parametrize("name", [card.name for card in model_cards()])
def test_every_model_can_be_chosen_and_its_options_are_explained(name: str) -> None:
    fields = option_fields(describe(name).options)
    assert all(field.help for field in fields)
    app = go(described(), "models")
    app.button(key=f"choose-{name}").click().run()
    assert not errors(app)
    assert not app.exception
    if describe(name).needs.label:
        app.selectbox(key="field:model_label").set_value("smoker" if "classifier" in name else "age").run()
    # Every refusal is one sentence of a model's own, and never an incident.
    assert not [error for error in errors(app) if f"'{name}'" not in error]


@pytest.mark.thorough
def test_what_it_asks_costs_and_assumes_is_known_beforehand(chosen: AppTest) -> None:
    assert not errors(chosen)
    (parts,) = [frame.value for frame in chosen.table if "part" in frame.value.columns]
    assert list(parts["part"]) == ["gradient, 4 times", "total"]
    assert parts["share of the budget"].iloc[0] == pytest.approx(100)
    assert [metric.value for metric in chosen.metric if metric.label == "Noise of a gradient"] == ["16.9"]
    assert "Steps of 2 were chosen without looking at the rows." in texts(chosen)
    assert chosen.button(key="spend").label == "Spend 1.00 and fit"
    chosen.number_input(key="field:option:toy-line:steps").set_value(2).run()
    (parts,) = [frame.value for frame in chosen.table if "part" in frame.value.columns]
    assert parts["part"].iloc[0] == "gradient, 2 times"
    assert application().accounts() == [] or application().account("survey").epsilon_spent == 0


@pytest.mark.thorough
def test_an_option_out_of_range_is_refused_in_words_and_nothing_can_be_spent(chosen: AppTest) -> None:
    chosen.number_input(key="field:option:toy-line:steps").set_value(51).run()
    assert any("'steps' must lie between 1 and 50, got 51" in error for error in errors(chosen))
    assert "spend" not in {str(button.key) for button in chosen.button}


@pytest.mark.thorough
def test_predictions_of_a_model_can_be_paid_for_and_survive_its_configuration(chosen: AppTest) -> None:
    chosen.number_input(key="field:model_prediction_share").set_value(0.2).run()
    assert not errors(chosen)
    (parts,) = [frame.value for frame in chosen.table if "part" in frame.value.columns]
    assert "predictions" in set(parts["part"])
    assert "20% of the people are held out for this" in texts(chosen)
    assert "standard error of the mean squared error" in texts(chosen)
    config = config_of(chosen.session_state["draft"])
    assert (config.prediction_share, config.holdout) == (0.2, 0.2)
    draft = new_draft()
    take_table(draft, "t", "survey", [(name, "category") for name in ("age", "region", "smoker")])
    fill_from_config(draft, config)
    assert config_to_mapping(config_of(draft)) == config_to_mapping(config)
    # Of a label that it cannot be paid for the share is passed over, and the page says why.
    chosen.selectbox(key="field:model_label").set_value("smoker").run()
    assert chosen.number_input(key="field:model_prediction_share").disabled
    assert "it is declared as a list of values" in texts(chosen)
    assert config_of(chosen.session_state["draft"]).holdout == 0.0


@pytest.mark.thorough
def test_columns_that_are_not_chosen_are_left_out(chosen: AppTest) -> None:
    chosen.button_group(key="field:model_columns").set_value(["smoker"]).run()
    assert not errors(chosen)
    config = config_of(chosen.session_state["draft"])
    assert config.schema.names == ("age", "smoker")
    assert (config.generator, config.label, config.rows, config.holdout) == ("toy-line", "age", 0, 0.0)


@pytest.mark.thorough
def test_the_page_of_the_budget_speaks_of_the_model(chosen: AppTest) -> None:
    go(chosen, "budget")
    assert not errors(chosen)
    assert "Expected error of the model" in {place.label for place in chosen.expander}
    chosen.session_state["budget-errors"] = True
    chosen.run()
    assert [metric.value for metric in chosen.metric if metric.label == "Noise of a gradient"] == ["16.9"]
    (mounted,) = chosen.get("bidi_component")
    given = json.loads(mounted.proto.json)
    (line,) = given["lines"]
    assert (line["name"], line["rows"]) == ("Noise of a gradient", False)
    assert line["values"][given["at"].index(1.0)] == pytest.approx(16.9, abs=0.05)
    assert "continue-models" in {str(button.key) for button in chosen.button}
    assert "field:evaluation_share" not in {str(box.key) for box in chosen.number_input}
    go(chosen, "generate")
    go(chosen, "budget")
    labels = " ".join(place.label for place in chosen.expander)
    assert "Expected error of counts" in labels, "whoever looks at generators makes rows"


@pytest.mark.thorough
def test_a_model_is_rehearsed_by_itself_and_the_page_says_why(chosen: AppTest) -> None:
    go(chosen, "rehearse")
    assert not errors(chosen)
    assert "There is no grid for a model: it compares tables." in texts(chosen)
    assert "rehearsal-what" not in {str(box.key) for box in chosen.get("button_group")}
    assert "continue-models" in {str(button.key) for button in chosen.button}


@pytest.mark.thorough
def test_the_draft_of_a_model_survives_its_configuration(chosen: AppTest) -> None:
    config = config_of(chosen.session_state["draft"])
    draft = new_draft()
    take_table(draft, "t", "survey", [(name, "category") for name in ("age", "region", "smoker")])
    rows_before = draft["rows"]
    fill_from_config(draft, config)
    assert config_to_mapping(config_of(draft)) == config_to_mapping(config)
    assert draft["rows"] == rows_before


@pytest.mark.thorough
@pytest.mark.usefixtures("worker_here")
def test_a_model_goes_from_its_card_to_a_download() -> None:
    app = go(described(), "models")
    app.button(key="choose-gaussian-mixture").click().run()
    assert not errors(app)
    app.button(key="spend").click().run()
    assert "even if you do not like the model" in texts(app)
    app.button(key="confirm-spend").click().run()
    assert wait_for_run(app) == "reported", application().run(app.session_state["draft"]["run_id"]).message
    go(app, "report")
    assert not errors(app)
    assert not app.exception
    words = texts(app)
    assert [tab.label for tab in app.tabs[:2]] == ["● At a glance", "● Accuracy you can expect"]
    assert not [tab for tab in app.tabs if tab.label.startswith("○")], "nothing compares rows"
    assert "Model gaussian-mixture" in words
    assert "Assumed to be public" in words
    (coefficients,) = [frame.value for frame in app.table if "From" in frame.value.columns]
    assert list(coefficients["Column"]) == ["age"]
    (relative,) = [frame.value for frame in app.table if "coefficients, range ±" in frame.value.columns]
    (low, high), value = coefficients[["From", "To"]].iloc[0], coefficients["Coefficient"].iloc[0]
    assert relative["coefficients"].iloc[0] == pytest.approx(value / ((high - low) / 2), rel=1e-3)
    go(app, "release")
    words = texts(app)
    assert "Labelled as a private model" in words
    assert "Synthetic rows" not in words
    assert app.checkbox(key="attest-2").label == "I may share a model with this promise."
    for place in range(3):
        app.checkbox(key=f"attest-{place}").check()
    app.text_input(key="attested-by").set_value("A. Owner").run()
    app.button(key="seal").click().run()
    assert not errors(app)
    run_id = app.session_state["draft"]["run_id"]
    assert json.loads(application().model(run_id))["model"] == "gaussian-mixture"
    assert application().verify(io.BytesIO(application().bundle(run_id))).ok
    go(app, "compare")
    assert "Runs that made a model are not listed: only tables are compared here." in texts(app)
    go(app, "generate")
    (runs,) = [frame.value for frame in app.table if "generator or model" in frame.value.columns]
    assert runs["generator or model"].iloc[0] == "gaussian-mixture"
