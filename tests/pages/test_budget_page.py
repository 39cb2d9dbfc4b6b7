"""3 Budget: what the browser is given to answer with, what is unfolded, the parts add up, and refusals in their words.

How the slider and the box behave is walked in a browser: tests/end_to_end/test_browser.py.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from driving import CODEBOOK, LABELLED, described, errors, go, texts
from streamlit.testing.v1 import AppTest

from pages.budget import attack_figure
from pages.ui.draft import config_of
from pages.ui.forecast import PLACES
from pages.ui.session import application
from synth.privacy.accounting import epsilon_of, mu_of_budget
from synth.rehearsal.grid import GridCell, GridRehearsal
from synth.rehearsal.rehearsals import _REPORT, _digest
from synth.reports.evidence import SafeEvidence, evidence_to_dict
from synth.reports.expected import CellForecast, promise_of
from synth.schema import config_to_mapping

FOUND_FOR = {
    "epsilon": 0.1, "delta": 1e-7, "mu_squared_units": 10, "slack": 0.0, "coordinates": 1, "additive_delta": 0.0,
}  # fmt: skip


def set_epsilon(app: AppTest, epsilon: float) -> AppTest:
    app.session_state["draft"]["epsilon"] = epsilon
    return app.run()


def unfold(app: AppTest, name: str) -> AppTest:
    """Open one of the details; what is folded is not drawn."""
    app.session_state[f"budget-{name}"] = True
    return app.run()


def dialled(app: AppTest) -> dict[str, Any]:
    """Return what the browser is given to answer with."""
    (mounted,) = app.get("bidi_component")
    return dict(json.loads(mounted.proto.json))


@pytest.mark.thorough
def test_the_panel_says_the_numbers_of_the_design() -> None:
    app = unfold(described(), "attacks")
    words = texts(app)
    assert "change their odds by at most \N{MULTIPLICATION SIGN}2.72 (ε = 1)." in words
    assert (
        "A belief of 50 in 100 can rise to at most 74 in 100, and one of 1 in 100 to at most 2.7 in 100, except with a "
        "chance of about δ." in words
    )
    assert "An attacker allowed one false alarm in 100 catches at most 2.8 in 100 real members" in words
    assert "the best advantage over guessing is 46.3 %" in words


@pytest.mark.thorough
def test_every_ceiling_is_one_number_on_the_page() -> None:
    app = unfold(described(), "attacks")
    words = texts(app)
    (chart,) = [plot for plot in app.get("plotly_chart") if "promise-chart" in plot.proto.id]
    anything = next(t for t in json.loads(chart.proto.spec)["data"] if t["name"] == "any method meeting this promise")
    caught, advantage = anything["x"]
    assert list(anything["text"]) == [f"{caught:g} %", f"{advantage:g} %"]
    assert f"catches at most {caught:g} in 100 real members" in words
    assert f"the best advantage over guessing is {advantage:g} %." in words
    twins = [table.value for table in app.table if "this release's noise" in table.value.columns]
    assert all(list(twin["any method meeting this promise"]) == list(anything["text"]) for twin in twins)
    # No bound is printed smaller than it is.
    assert caught >= 100 * 0.01 * math.e
    assert advantage >= 100 * math.tanh(0.5)


@pytest.mark.thorough
def test_a_place_of_the_slider_says_what_the_accountant_says() -> None:
    given = dialled(described())
    places = [promise[0] for promise in given["promises"]]
    assert places == list(PLACES)
    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (0.05, 20.0)
    assert max(right / left for left, right in itertools.pairwise(places)) < 1.026, "a move is a small one"
    for epsilon, odds, even, any_method, noise in given["promises"]:
        told = promise_of(epsilon, 1e-6)
        # No bound is printed smaller than it is.
        if odds.startswith("\N{MULTIPLICATION SIGN}"):
            assert float(odds[1:].replace(",", "")) >= math.exp(epsilon) * (1 - 1e-9)
        else:
            assert epsilon > math.log(1e6)
        assert even == "almost certain" or int(even.split(":")[0]) >= 100 * told.even - 1e-6
        assert 100 >= any_method >= 100 * told.advantage - 1e-6
        assert any_method >= noise >= 100 * told.noise_advantage - 1e-6


@pytest.mark.thorough
def test_huge_odds_are_said_in_words() -> None:
    app = unfold(set_epsilon(described(), 50.0), "attacks")
    assert dialled(app)["here"][1] == "more than a million times"
    words = texts(app)
    assert "can change their odds by more than a million times (ε = 50)." in words
    assert "000,000" not in words


@pytest.mark.thorough
def test_what_is_drawn_over_epsilon_is_the_forecast() -> None:
    app = set_epsilon(described(), 0.777)
    given, plan = dialled(app), application().plan(config_of(app.session_state["draft"]))
    here = given["at"].index(0.777)
    columns, pairs = given["lines"]
    assert columns["values"][here] == plan.forecast.column_range
    assert pairs["values"][here] == plan.forecast.pair_range
    of = plan.forecast.columns[given["column"]]
    assert given["shape"]["noise"][here] == of.noise_std
    assert columns["values"] == sorted(columns["values"], reverse=True)
    # Composed, and not added up.
    assert 0.777 < given["again"][here] < 2 * 0.777
    assert given["again"][here] == pytest.approx(epsilon_of(2 * mu_of_budget(0.777, 1e-6) ** 2, 1e-6), rel=1e-3)


@pytest.mark.thorough
def test_nothing_stands_in_for_a_number_of_rows_that_nobody_said() -> None:
    assert dialled(described())["rows"] == {
        "public": 200,
        "typed": None,
        "looked": None,
        "measured": 0.8,
        "counted": "rows",
    }
    app = described(PRIVATE)
    assert dialled(app)["rows"]["public"] is dialled(app)["rows"]["typed"] is dialled(app)["rows"]["looked"] is None
    app.session_state["draft"]["about_rows"] = 5000
    app.run()
    assert dialled(app)["rows"]["typed"] == 5000
    # It is for this screen, and no part of what is declared.
    config = config_of(app.session_state["draft"])
    assert "5000" not in json.dumps(config_to_mapping(config))


@pytest.mark.thorough
def test_a_look_at_the_number_of_rows_is_recorded_and_kept_out_of_what_is_declared() -> None:
    app = described(PRIVATE)
    assert application().account("survey").notes == ()
    take_move(app, {"epsilon": 0.5, "rows": 190, "column": 1, "look": True})
    given = dialled(app)
    assert (given["epsilon"], given["column"]) == (0.5, 1)
    assert given["rows"] == {"public": None, "typed": 190, "looked": 200, "measured": 0.8, "counted": "rows"}
    (note,) = application().account("survey").notes
    assert (
        "the certificate of a later run with a different configuration will say that it was chosen after looking"
        in note
    )
    # The number that was read comes back from the browser, and is not kept beside what was typed.
    take_move(app, {"epsilon": 0.5, "rows": 200, "column": 1, "look": False})
    assert app.session_state["draft"]["about_rows"] is None
    assert "200" not in json.dumps(config_to_mapping(config_of(app.session_state["draft"])))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "moved",
    [{"epsilon": 0}, {"epsilon": 1000.0}, {"epsilon": "2"}, {"rows": -5}, {"rows": "many"}, {"column": "a"}, {}],
)
def test_what_no_slider_sends_changes_nothing(moved: dict[str, Any]) -> None:
    app = described(PRIVATE)
    take_move(app, {"epsilon": 1.0, "rows": None, "column": 0, "look": False} | moved)
    assert not errors(app)
    held = app.session_state["draft"]
    assert (held["epsilon"], held["about_rows"]) == (1.0, None)


def take_move(app: AppTest, moved: dict[str, Any]) -> None:
    """Send what the browser sends after a move."""
    (mounted,) = app.get("bidi_component")
    states = app._tree.get_widget_states()
    states.widgets.add(id=mounted.proto.id, json_value=json.dumps({"moved": moved}))
    app._run(states)


@pytest.mark.thorough
def test_a_rehearsed_grid_is_drawn_over_epsilon() -> None:
    app = described(LABELLED)
    assert dialled(app)["accuracy"] is None
    cells = [
        GridCell(
            generator=name,
            epsilon=epsilon,
            seed=seed,
            pairs=0.1,
            floor=0.1,
            measure="ROC AUC",
            predicted=predicted,
            real=0.8,
            attack="",
            area=None,
            ceiling=None,
            seconds=1.0,
        )
        for name, epsilon, seed, predicted in (
            ("independent", 2.0, 0, 0.7),
            ("independent", 1.0, 0, 0.5),
            ("independent", 1.0, 1, 0.6),
            ("another", 1.0, 0, 0.9),
            ("independent", 4.0, 0, None),
        )
    ]
    found = GridRehearsal(tuple(cells), len(cells), "smoker", "simulated")
    config = config_of(app.session_state["draft"])
    application().rehearsals._keep(config, found, grid=True)
    assert dialled(app.run())["accuracy"] == {
        "measure": "ROC AUC",
        "generator": "independent",
        "points": [[1.0, pytest.approx(0.55)], [2.0, 0.7]],
        "real": pytest.approx(0.8),
    }


@pytest.mark.thorough
def test_a_single_rehearsal_is_a_point_of_the_same_curve() -> None:
    app = described(LABELLED)
    rehearsals, config = application().rehearsals, config_of(app.session_state["draft"])

    def rehearsed(epsilon: float, score: float) -> None:
        numbers = {"synthetic": score, "real": 0.8}
        evidence = [
            SafeEvidence(id=f"downstream.{source}.roc_auc", title="", value=value) for source, value in numbers.items()
        ]
        path = rehearsals._root() / _digest(replace(config, epsilon=epsilon), grid=False) / _REPORT
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"evidence": [evidence_to_dict(one) for one in evidence]}), encoding="utf-8")

    rehearsed(0.5, 0.6)
    assert dialled(app.run())["accuracy"] == {
        "measure": "ROC AUC",
        "generator": "independent",
        "points": [[0.5, 0.6]],
        "real": pytest.approx(0.8),
    }
    rehearsed(config.epsilon, 0.7)
    assert dialled(app.run())["accuracy"]["points"] == [[0.5, 0.6], [config.epsilon, 0.7]]


@pytest.mark.thorough
def test_the_forecast_moves_with_the_slider_and_reads_no_row() -> None:
    from pages.ui.session import application

    app = unfold(described(), "attacks")
    # The rows are gone from the store's disk: what the page says comes from declared facts alone.
    before = texts(app)
    for path in application().settings.home.rglob("*"):
        if path.is_file() and "table" in path.parent.name:
            path.unlink()
    set_epsilon(app, 4.0)
    after = texts(app)
    assert before != after
    assert not errors(app)
    assert error_line(before) != error_line(after)


def error_line(words: str) -> str:
    return next(line for line in words.splitlines() if line.startswith("**Error.**"))


@pytest.mark.thorough
def test_delta_follows_the_rule_until_it_is_chosen() -> None:
    app = unfold(described(), "attacks")
    assert (
        "δ: By how much any probability may exceed what epsilon allows. Keep it far below 1 / (number of people)."
        in texts(app)
    )
    assert app.session_state["draft"]["delta"] is None
    app.checkbox(key="field:own-delta").set_value(True).run()
    app.selectbox(key="field:delta-choice").set_value(1e-8).run()
    assert app.session_state["draft"]["delta"] == 1e-8


@pytest.mark.thorough
def test_a_delta_of_0_can_be_chosen_and_taken_back() -> None:
    """With a generator that cannot keep it, the page says which can, and the choice stays within reach."""
    app = unfold(described(), "attacks")
    app.session_state["draft"]["generator"] = "dp-hp-adaptive"
    app.checkbox(key="field:own-delta").set_value(True).run()
    app.selectbox(key="field:delta-choice").set_value(0.0).run()
    (said,) = errors(app)
    assert "asks more than counts and private choices" in said
    assert "Choose independent, independent-by-class or privbayes (4 Generate)" in said
    app.selectbox(key="field:delta-choice").set_value(1e-6).run()
    assert not errors(app)
    app.selectbox(key="field:delta-choice").set_value(0.0).run()
    app.session_state["draft"]["generator"] = "independent"
    app.session_state["draft"]["options"] = {}
    unfold(app, "attacks")
    assert not errors(app)
    assert "chance of about" not in texts(app)
    assert dialled(app)["but"] == ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"protection": "cell", "cell_change": 1.0}, "the promise about one cell has no delta"),
        ({"found": {"digest": "0" * 64} | FOUND_FOR}, "found or previewed privately has a delta above 0"),
    ],
)
def test_a_delta_of_0_that_cannot_be_kept_can_be_taken_back(chosen: dict[str, Any], words: str) -> None:
    app = unfold(described(), "attacks")
    app.checkbox(key="field:own-delta").set_value(True).run()
    app.selectbox(key="field:delta-choice").set_value(0.0).run()
    app.session_state["draft"].update(chosen)
    app.run()
    assert any(words in said for said in errors(app)), errors(app)
    app.selectbox(key="field:delta-choice").set_value(1e-6).run()
    app.run()
    assert not any(words in said for said in errors(app)), errors(app)


@pytest.mark.thorough
def test_a_share_for_predictions_is_left_out_at_a_delta_of_0() -> None:
    app = described(LABELLED + "holdout: 0.2\nprediction_share: 0.1\n")
    app.session_state["draft"]["delta"] = 0.0
    app = unfold(app, "parts")
    assert not errors(app)
    assert "cannot be paid for with a delta of 0" in texts(app)
    assert app.number_input(key="field:prediction_share").disabled
    app.session_state["draft"]["delta"] = None
    app.run()
    assert app.number_input(key="field:prediction_share").value == 0.1


@pytest.mark.thorough
def test_a_weak_promise_is_called_weak() -> None:
    app = set_epsilon(described(), 8.0)
    assert "At ε = 8 the promise is weak: see 'What it buys'." in texts(app)


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.1, 0.25, 0.5])
def test_nothing_negative_is_said_about_a_small_epsilon(epsilon: float) -> None:
    app = set_epsilon(described(), epsilon)
    assert not app.warning
    assert not app.error


@pytest.mark.thorough
def test_a_limit_that_would_be_passed_is_named() -> None:
    from pages.ui.session import application

    app = described()
    application().set_cap("survey", 0.5, 1e-6)
    app.run()
    (error,) = errors(app)
    assert error.startswith("This would bring the total to ")
    assert "is 0.50" in error
    assert app.button(key="continue-generate").disabled
    set_epsilon(app, 0.5)
    assert not errors(app)
    assert not app.button(key="continue-generate").disabled


@pytest.mark.thorough
def test_the_ledger_box_says_what_has_been_spent() -> None:
    words = texts(described())
    assert "Spent on these people so far: **0.00** in 0 charges. After this release: **1.00**" in words
    assert "; simple sum 1.00." in words


@pytest.mark.thorough
def test_the_parts_add_up_to_the_whole() -> None:
    app = unfold(described(), "parts")
    frame = next(table.value for table in app.table if "share of the budget" in table.value.columns)
    shares = list(frame["share of the budget"])
    assert frame["part"].iloc[-1] == "total"
    assert shares[-1] == pytest.approx(100.0)
    assert sum(shares[:-1]) == pytest.approx(100.0, abs=1e-6)


PUBLIC_NUMBER = "row_count: public\nnumber_of_units: 200\n"
PRIVATE = CODEBOOK.replace(PUBLIC_NUMBER, "row_count: private\n")


@pytest.mark.thorough
def test_the_page_says_how_poor_the_rows_will_be_for_the_declared_bound_and_for_fewer() -> None:
    expected = (
        "Shares of rows refer to {rows} rows: the declared upper bound of {people} (unit: person), less the 20% held "
        "out. With fewer units they are larger in proportion."
    )
    moved = {}
    for people in (10_000, 100):
        app = unfold(described(PRIVATE.replace("people_at_most: 10000", f"people_at_most: {people}")), "errors")
        assert expected.format(rows=f"{0.8 * people:,.0f}", people=f"{people:,}") in texts(app)
        (frame,) = [table.value for table in app.table if "rows that noise moves" in table.value.columns][:1]
        moved[people] = dict(zip(frame["table"], frame["rows that noise moves"], strict=True))
    assert (
        "Shares of rows refer to 160 rows: the declared number of 200 (unit: person), less the 20% held out."
        in texts(unfold(described(CODEBOOK), "errors"))
    )
    # A bound that nobody declared would have hidden that a hundred people leave nothing to see.
    assert moved[100]["age"] == "no usable signal"
    assert float(moved[10_000]["age"].rstrip("%")) < 5


@pytest.mark.thorough
def test_shares_refer_to_the_rows_that_somebody_said_there_are() -> None:
    app = unfold(described(PRIVATE), "errors")
    app.session_state["draft"]["about_rows"] = 500
    app.run()
    assert "Shares are of the 400 rows that are measured, from the number you gave." in texts(app)
    (frame,) = [table.value for table in app.table if "rows that noise moves" in table.value.columns][:1]
    plan = application().plan(config_of(app.session_state["draft"]))
    (age,) = (cell for cell in plan.forecast.columns if cell.columns == ("age",))
    said = dict(zip(frame["table"], frame["rows that noise moves"], strict=True))["age"]
    assert said == CellForecast.of(("age",), age.cells, age.noise_std, 400.0, age.basis).moved_words


@pytest.mark.thorough
def test_the_smallest_epsilon_for_an_error() -> None:
    app = unfold(unfold(described(), "accuracy"), "attacks")
    app.number_input(key="wanted-error").set_value(60.0).run()
    app.button(key="use-smallest").click().run()
    chosen = app.session_state["draft"]["epsilon"]
    assert chosen != 1.0
    assert not errors(app)
    line = error_line(texts(go(app, "budget")))
    assert "±" in line


@pytest.mark.thorough
def test_the_chart_has_two_ceilings_and_an_alternative_text() -> None:
    app = unfold(described(), "attacks")
    (chart,) = [plot for plot in app.get("plotly_chart") if "promise-chart" in plot.proto.id]
    traces = json.loads(chart.proto.spec)["data"]
    assert [trace["name"] for trace in traces] == ["any method meeting this promise", "this release's noise"]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_noise_of_the_release_never_exceeds_what_any_method_may(epsilon: float) -> None:
    from synth.reports.expected import promise_of

    made, _ = attack_figure(promise_of(epsilon, 1e-6))
    anything, this = made.data
    assert all(below <= above + 1e-9 for below, above in zip(this.x, anything.x, strict=True))


@pytest.mark.thorough
def test_predictions_on_the_hold_out_can_be_paid_for() -> None:
    app = unfold(described(LABELLED.replace(PUBLIC_NUMBER, "row_count: private\n")), "parts")
    assert "Predictions cannot be paid for" not in texts(app)
    app.number_input(key="field:prediction_share").set_value(0.1).run()
    assert not errors(app)
    words = texts(app)
    assert "2,000 held-out rows (of one row for each of 10,000 units): standard error of the accuracy" in words
    assert "by region: in a group of" in words
    (parts,) = [frame.value for frame in app.table if "question" in frame.value.columns]
    share = parts.set_index("part")["share of the budget"]
    assert share["predictions"] == pytest.approx(10.0)
    assert share["total"] == pytest.approx(100.0)


@pytest.mark.thorough
def test_without_a_label_predictions_cannot_be_paid_for_and_the_page_says_why() -> None:
    app = unfold(described(), "parts")
    assert app.number_input(key="field:prediction_share").disabled
    assert "Predictions cannot be paid for: no label is declared." in texts(app)
    # A share from before the label was taken away is passed over.
    app.session_state["draft"]["prediction_share"] = 0.2
    go(app, "budget")
    assert not errors(app)
    assert "predictions" not in set(app.table[-1].value.get("part", ()))


@pytest.mark.thorough
def test_what_the_rows_are_for_is_one_choice() -> None:
    def asked(app: AppTest) -> Any:
        found = [one for one in app.radio if one.label == "What are the rows for?"]
        return found[0] if found else None

    app = described(LABELLED.replace("independent", "dp-hp-adaptive"))
    assert asked(app).value == "balanced"
    assert len(asked(app).options) == 4
    app = asked(app).set_value("regression").run()
    assert not errors(app)
    assert config_of(app.session_state["draft"]).options == {"purpose": "regression"}
    # Somebody who knows the regression names it; a reload keeps what was named.
    assert app.multiselect(key="budget-predictors:None").disabled
    app = app.selectbox(key="budget-outcome").set_value("age").run()
    assert config_of(app.session_state["draft"]).options == {"purpose": "regression"}
    app = app.multiselect(key="budget-predictors:age").set_value(["region", "smoker"]).run()
    named = {"purpose": "regression of age on region, smoker"}
    assert config_of(app.session_state["draft"]).options == named
    assert not errors(app)
    app = go(go(app, "generate"), "budget")
    assert config_of(app.session_state["draft"]).options == named
    assert (asked(app).value, app.selectbox(key="budget-outcome").value) == ("regression", "age")
    app = app.selectbox(key="budget-outcome").set_value(None).run()
    assert config_of(app.session_state["draft"]).options == {"purpose": "regression"}
    app = asked(app).set_value("balanced").run()
    assert config_of(app.session_state["draft"]).options == {}
    # Without a label there is nothing to predict; and no choice where a generator knows of none.
    unlabelled = described(CODEBOOK.replace("independent", "dp-hp-adaptive"))
    assert asked(unlabelled).options == ["A bit of everything", "Regressions"]
    assert asked(described(LABELLED)) is None
