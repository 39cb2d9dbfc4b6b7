"""3 Budget, preview: the error is said before the charge, histograms are drawn after it, the release states both."""

from __future__ import annotations

import os

import pytest
from driving import described, errors, go, texts
from streamlit.testing.v1 import AppTest

from pages.ui.draft import config_of
from pages.ui.session import application
from synth.jobs.processes import birth_of
from synth.progress import NullProgress
from synth.services.previewing import carry_out
from synth.system.machine import this_host


def unfolded(app: AppTest) -> AppTest:
    app = go(app, "budget")
    app.session_state["budget-preview"] = True
    return app.run()


def charged(app: AppTest) -> list[tuple[float, str]]:
    account = application().store.accounts.named(app.session_state["draft"]["account"])
    return (
        [] if account is None else [(one.epsilon, one.state.value) for one in application().ledger.current(account.id)]
    )


def test_a_preview_is_offered_with_its_error_drawn_and_stated() -> None:
    app = unfolded(described())
    assert errors(app) == []
    config = config_of(app.session_state["draft"])
    name = config.schema.names[0]
    app = app.multiselect(key="preview-columns").set_value([name]).run()
    app = app.number_input(key="preview-epsilon").set_value(0.1).run()
    plan = application().previews.plan(config, [name], epsilon=0.1)
    assert f"{name}: counts within ±{plan.foreseen[0].error:,.3g} rows" in texts(app)
    assert "Preview (spends 0.10)" in [one.label for one in app.button]
    assert charged(app) == [], "nothing is spent by looking at the offer"

    table_id = app.session_state["draft"]["table_id"]
    work_id = application().previews.reserve(config, [name], table_id=table_id, epsilon=0.1, delta=plan.delta)
    pid = os.getpid()
    application().store.work.claim(work_id, host=this_host(), pid=pid, pid_created=birth_of(pid))
    app = app.run()
    assert "Stop (what was spent stays spent)" in [one.label for one in app.button]
    preview = carry_out(application().installation, work_id, NullProgress())
    app = app.run()
    assert errors(app) == []
    assert charged(app) == [(0.1, "released")]
    assert f"Preview of {name} at ε = 0.10" in texts(app)
    shown = [one.value for one in app.table if "noisy counts" in one.value.columns]
    assert len(shown[0]) == preview.counts.tables[0].counts.size
    # What the release will state includes it, here and above.
    assert "Previews of these people were charged before (ε = 0.10)" in texts(app)
    app = app.multiselect(key="preview-columns").set_value([name]).run()
    app = app.number_input(key="preview-epsilon").set_value(0.1).run()
    assert "This preview was paid for on" in texts(app)
    assert "Show it again" in [one.label for one in app.button]


@pytest.mark.thorough
def test_what_cannot_be_previewed_is_said_and_charged_nothing() -> None:
    app = described()
    app.session_state["draft"]["epsilon"] = 0.01
    app = unfolded(app)
    config = config_of(app.session_state["draft"])
    app = app.multiselect(key="preview-columns").set_value(list(config.schema.names)).run()
    app = app.number_input(key="preview-epsilon").set_value(0.001).run()
    assert "the preview would show nothing" in texts(app)
    assert not [one for one in app.button if one.label.startswith("Preview (spends")]
    assert charged(app) == []
