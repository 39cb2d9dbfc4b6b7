"""A run whose bundle could not be checked: the page says so, and checks it again."""

from __future__ import annotations

import io

import pytest
from driving import errors, go, started, texts, wait_for_run
from streamlit.testing.v1 import AppTest

from pages.ui.session import application
from synth.bundle.verify import Findings, State, verdict_of
from synth.services import own_check
from synth.store import ChargeState, WorkKind, WorkState

pytestmark = pytest.mark.usefixtures("worker_here")


def stopped() -> object:
    """Return the verdict of a check that lacked memory."""
    findings = Findings()
    findings.end("the table", State.NOT_CHECKED, "That needs more memory. If you trust its source, allow more.")
    return verdict_of(findings, key_given=True)


@pytest.fixture
def unchecked(home: object, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    with monkeypatch.context() as patch:
        patch.setattr(own_check, "verify", lambda *_, **__: stopped())
        app = started()
        assert wait_for_run(app, "unchecked") == "unchecked"
    return app.run()


def charges(app: AppTest) -> list[ChargeState]:
    return [charge.state for charge in application().ledger.charges_of(app.session_state["draft"]["run_id"])]


@pytest.mark.usefixtures("without_trial")
def test_it_is_checked_again_and_goes_on_to_its_report(unchecked: AppTest) -> None:
    app, run_id = unchecked, unchecked.session_state["draft"]["run_id"]
    words = texts(app)
    assert "is sealed, but could not be checked here" in words
    assert "That needs more memory." in words
    assert "Do not run again" in words
    assert charges(app) == [ChargeState.SPENT]
    assert "The bundle of this run is not checked yet." in texts(go(app, "release"))

    go(app, "generate")
    app.number_input(key="check-memory").set_value(2.0).run()
    app.button(key="check-again").click().run()
    assert not errors(app)
    assert application().run(run_id).state == "reported"
    assert application().owner_report(run_id) is not None, "its rows are still stored"
    work = application().store.work.about(WorkKind.CHECK, run_id)
    assert work is not None
    assert (work.state, work.asked) == (WorkState.REPORTED, '{"memory": 2.0, "seconds": 600.0}')
    assert "The report is ready." in texts(app)

    go(app, "release")
    for position in range(3):
        app.checkbox(key=f"attest-{position}").check()
    app.text_input(key="attested-by").set_value("A. Owner").run()
    app.button(key="seal").click().run()
    assert charges(app) == [ChargeState.RELEASED]
    assert application().verify(io.BytesIO(application().bundle(run_id))).ok


@pytest.mark.usefixtures("without_trial")
def test_a_check_that_stops_again_says_so_and_changes_nothing(
    unchecked: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, run_id = unchecked, unchecked.session_state["draft"]["run_id"]
    monkeypatch.setattr(own_check, "verify", lambda *_, **__: stopped())
    app.button(key="check-again").click().run()
    (error,) = errors(app)
    assert "could not be checked here" in error
    assert application().run(run_id).state == "unchecked"
    assert charges(app) == [ChargeState.SPENT]
    assert not app.button(key="check-again").disabled
