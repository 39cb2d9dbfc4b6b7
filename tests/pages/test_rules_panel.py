"""Rules between columns on the page Describe: built in words, proposed by names, refused beside the rule."""

from __future__ import annotations

import pytest
from driving import CODEBOOK, described, errors, go, texts
from streamlit.testing.v1 import AppTest


def opened() -> AppTest:
    return go(described(CODEBOOK), "describe")


def test_a_rule_is_built_in_words_kept_and_deleted() -> None:
    app = opened()
    app.selectbox(key="rule-kind").set_value("If one condition holds, another follows").run()
    app.selectbox(key="rule-if-name:0").set_value("age").run()
    app.selectbox(key="rule-if-word:0").set_value("is less than").run()
    app.text_input(key="rule-if-value:0").set_value("30").run()
    app.selectbox(key="rule-then-name:0").set_value("region").run()
    app.multiselect(key="rule-then-values:0").set_value(["north"]).run()
    assert "if age < 30 then region in (north)" in texts(app)
    app.button(key="rule-add").click().run()
    assert app.session_state["draft"]["rules"] == ["if age < 30 then region in (north)"]
    assert app.selectbox(key="rule-if-name:1").value is None
    app.button(key="rule-delete:0").click().run()
    assert app.session_state["draft"]["rules"] == []


@pytest.mark.thorough
def test_what_cannot_be_kept_is_said_beside_the_rule_and_keeps_nobody_from_typing_on() -> None:
    app = opened()
    app.selectbox(key="rule-kind").set_value("Type the rule yourself").run()
    app.text_input(key="rule-typed:0").set_value("age > 500").run()
    (problem,) = errors(app)
    assert problem.startswith("No row can keep 'age > 500' within the declared columns.")
    assert app.button(key="rule-add").disabled
    app.text_input(key="rule-typed:0").set_value("if region = nroth then age > 3").run()
    (problem,) = errors(app)
    assert "It has: north" in problem


@pytest.mark.thorough
def test_a_rule_that_no_longer_fits_keeps_the_page_and_is_not_lost() -> None:
    app = opened()
    app.session_state["draft"]["rules"] = ["agee >= 18"]
    app.run()
    (problem,) = errors(app)
    assert "Did you mean 'age'?" in problem
    app.button(key="continue-budget").click().run()
    assert not app.session_state["draft"]["described"]
    assert app.session_state["draft"]["rules"] == ["agee >= 18"]
