"""4 Generate to 6 Release and the ledger, with a real worker: spending, following, reading, sealing, downloading."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from driving import (
    BEFORE_A_CHARGE,
    CODEBOOK,
    LABELLED,
    badges,
    described,
    errors,
    go,
    looked_at,
    open_app,
    started,
    texts,
    wait_for_run,
)
from golden_bundles import golden
from streamlit.testing.v1 import AppTest

from pages.ui.evidence import BADGES, OWNER_ONLY_NOTE
from synth.bundle.archive import canonical_json, zip_of
from synth.progress import OWNER_PHASE
from synth.services.views import RunView

TABS = (
    "● At a glance",
    "● Columns and pairs",
    "● What was not kept",
    "● Accuracy you can expect",
    "● Estimates",
    "○ Prediction",
    "○ Groups",
    "○ Attacks",
    "○ Owner only",
)


@pytest.mark.thorough
def test_spending_asks_again_and_says_what_it_costs() -> None:
    app = go(described(), "generate")
    assert app.button(key="spend").label == "Spend 1.00 and generate"
    app.button(key="spend").click().run()
    words = texts(app)
    assert "This will spend ε = 1.00, δ = 1e-06 from 'survey'. Spending cannot be undone" in words
    assert app.button(key="confirm-spend").label == "Spend 1.00 and generate"
    assert app.session_state["draft"]["run_id"] is None


@pytest.mark.thorough
def test_the_form_is_drawn_from_the_options_of_the_generator() -> None:
    from synth.generators import options_of

    app = go(described(), "generate")
    for field in options_of("independent"):
        assert f"field:option:independent:{field.name}" in {str(widget.key) for widget in app.number_input}
    app.number_input(key="field:option:independent:bins").set_value(16).run()
    assert app.session_state["draft"]["options"] == {"bins": 16}
    app.number_input(key="field:option:independent:bins").set_value(32).run()
    assert app.session_state["draft"]["options"] == {}


@pytest.mark.thorough
def test_an_option_out_of_range_is_refused_in_words() -> None:
    app = go(described(), "generate")
    app.number_input(key="field:option:independent:bins").set_value(0).run()
    (error,) = errors(app)
    assert "option 'bins' must lie between 1 and 4096, got 0." in error


def test_the_default_is_chosen_by_its_card_and_checks_what_is_typed() -> None:
    app = go(described(), "generate")
    app.button(key="choose-dp-hp-adaptive").click().run()
    assert not app.exception
    assert not errors(app)
    assert "choose-dp-hp-adaptive" not in {str(button.key) for button in app.button}
    assert app.selectbox(key="field:option:dp-hp-adaptive:model").options == ["auto", "field", "mixture"]
    app.number_input(key="field:option:dp-hp-adaptive:bins").set_value(1).run()
    (error,) = errors(app)
    assert "option 'bins' must lie between 2 and 256, got 1." in error
    app.number_input(key="field:option:dp-hp-adaptive:bins").set_value(32).run()
    app.selectbox(key="field:option:dp-hp-adaptive:model").set_value("mixture").run()
    assert app.session_state["draft"]["options"] == {"model": "mixture"}
    assert not errors(app)


@pytest.mark.thorough
def test_every_generator_has_a_card() -> None:
    from synth.generators import cards

    app = go(described(), "generate")
    words = texts(app)
    for card in cards():
        assert f"**{card.title}**" in words
        assert card.loses_where in words


@pytest.mark.thorough
def test_a_card_says_what_is_missing_and_the_run_cannot_start_without_it() -> None:
    from pages.ui.session import application

    app = go(described(), "generate")
    needs = "Needs a label of at least two values and at least 2 columns to learn."
    assert f"{needs} Declare it on 2 Describe first." in texts(app)
    assert app.button(key="choose-independent-by-class").disabled
    # Chosen before the label was taken away: every page refuses in one sentence, and nothing is charged.
    app.session_state["draft"]["generator"] = "independent-by-class"
    for page in ("generate", "budget"):
        go(app, page)
        (error,) = errors(app)
        assert error.startswith("generator 'independent-by-class' needs a label of at least two values")
        assert "spend" not in {str(button.key) for button in app.button}
    assert application().ledger_rows() == []
    with_label = go(described(LABELLED), "generate")
    assert not with_label.button(key="choose-independent-by-class").disabled
    assert needs in texts(with_label)
    assert f"{needs} Declare it on 2 Describe first." not in texts(with_label)


@pytest.mark.thorough
def test_a_run_is_followed_and_found_again() -> None:
    app = started()
    run_id = app.session_state["draft"]["run_id"]
    assert "You can close this page. The run continues; find it under Generate → Runs." in texts(app) \
        or "The report is ready." in texts(app)  # fmt: skip
    again = open_app()
    again.query_params["run"] = run_id
    go(again, "generate")
    assert again.session_state["draft"]["run_id"] == run_id
    wait_for_run(again)
    go(again, "generate")
    assert "The report is ready." in texts(again)
    assert not again.exception


@pytest.mark.thorough
def test_a_run_whose_worker_stopped_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.ui.session import application
    from synth.system.machine import this_host

    app = go(described(), "generate")
    # No worker is started here: this test gives the run away and takes it back.
    monkeypatch.setattr(type(application().engine), "tend", lambda self: None)
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    sentence = "Its worker stopped; it continued from the answers it had."
    queue, run_id = application().store.work, app.session_state["draft"]["run_id"]
    queue.take(host=this_host(), slots=1, gpus=())
    application().ledger.spend(application().ledger.charges_of(run_id)[0])
    run = queue.claim(run_id, host=this_host(), pid=1, pid_created=1.0)
    assert sentence not in texts(go(app, "generate"))
    assert queue.put_back(run, gpus=0)
    waiting = "Its worker stopped. It will continue from the answers it had as soon as a slot is free."
    assert waiting in texts(go(app, "generate"))
    queue.take(host=this_host(), slots=1, gpus=())
    queue.claim(run_id, host=this_host(), pid=1, pid_created=1.0)
    assert sentence in texts(go(app, "generate"))
    assert app.button(key="cancel-run").label == "Stop the run (the 1.00 stays spent)"
    assert "The table was read, so 1.00 stays spent. Nothing made so far is kept." in texts(app)
    # Once the bundle is sealed, it is kept.
    queue.note_progress(run_id, phase=OWNER_PHASE, step=0, steps=0, losses=())
    go(app, "generate")
    assert "The synthetic table and its certificate are kept. Only your own report is left out." in texts(app)
    assert "Nothing made so far is kept." not in texts(app)
    assert app.button(key="cancel-run").label == "Finish without my report"


@pytest.mark.thorough
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a graphics card")
def test_a_graphics_card_that_is_not_there_is_refused_before_anything_is_spent() -> None:
    from pages.ui.session import application

    app = go(described(), "generate")
    app.session_state["draft"]["device"] = "cuda"
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    assert any("no CUDA device was found. Use auto or cpu." in error for error in errors(app))
    assert application().ledger_rows() == []
    assert not application().store.runs.all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ((), "this machine has no GPU"),
        (("0",), "The CPU fits `independent`, which a GPU would not speed up"),
    ],
)
def test_which_device_will_compute_is_said_before_anything_is_spent(
    gpus: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pages.ui.fitting.available_gpus", lambda: gpus)
    app = go(described(), "generate")
    assert said in texts(app)
    app.session_state["draft"]["device"] = "cpu"
    assert "The run uses the CPU, as you chose." in texts(go(app, "generate"))


@pytest.mark.thorough
def test_the_page_of_a_run_says_which_device_it_got_and_why(finished: AppTest) -> None:
    from pages.ui.session import application

    run = application().run(finished.session_state["draft"]["run_id"])
    told = texts(go(finished, "generate"))
    assert f"on the {'CPU' if run.device == 'cpu' else 'GPU'}" in told
    assert application().device_reason(run.run_id) in told
    kept = application().folder(run.run_id) / "owner" / "device.json"
    words = "CPU: 8 s; the GPU would take 9 s (predicted)."
    kept.write_text(json.dumps({"device": "cpu", "why": words}))
    assert words in texts(go(finished, "generate"))
    kept.write_text("{")
    assert words not in texts(go(finished, "generate"))


@pytest.mark.thorough
def test_a_waiting_run_can_be_cancelled_and_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.ui.session import application

    app = go(described(), "generate")
    # No place is free: the run waits.
    monkeypatch.setattr(type(application().engine), "tend", lambda self: None)
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    assert app.button(key="cancel-run").label == "Cancel (the 1.00 is freed unless it is spent first)"
    assert "Nothing has been read yet: 1.00 is freed unless it is spent first." in texts(app)
    app.button(key="cancel-run").click().run()
    go(app, "generate")
    assert "Its budget had not been spent, so it was freed." in texts(app)
    assert "epsilon spent: 0.00" in texts(app)
    assert [row.state for row in application().ledger_rows()] == ["reserved", "freed"]


def view(phase: str, step: int = 0, of: int = 0, *, rows: int = 10, run_id: str = "run") -> RunView:
    """Return where a run stands."""
    return RunView(
        *(run_id, "people", "table", "independent", 1.0, 1e-6, rows, "running", phase, step, of, None, None, "cpu", ()),
        created=datetime.now(UTC),
        elapsed_seconds=3,
        columns=15,
    )


def test_one_bar_goes_through_the_whole_run_and_says_what_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.ui import running

    monkeypatch.setattr(running.st, "session_state", {})
    told = [
        *(view("Trying out"), view("Reading"), view("Counting columns", 1, 2), view("Fitting"), view("Fitting", 3, 4)),
        *(view("Sampling"), view("Predicting from synthetic rows"), view("Writing"), view("Reporting", 1, 1)),
        view("Reporting to the owner"),
    ]
    courses = [running.course_of(one) for one in told]
    assert len({id(course) for course in courses}) == 1, "one course for one run"
    assert [courses[0].place_of(one.phase) for one in told] == [1, 2, 3, 3, 3, 4, 4, 5, 5, 6]
    assert running.phase_words(told[2], courses[0]) == "Step 3 of 6: Counting columns, 1 of 2"
    assert courses[0].left == "about 15 s left"
    model = view("Sealing", rows=0, run_id="model")
    assert running.phase_words(model, running.course_of(model)) == "Step 4 of 4: Sealing"


@pytest.mark.thorough
def test_a_failed_run_says_that_the_budget_stays_spent(home: Path) -> None:
    app = go(described(), "generate")
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    # The table was read before the run was queued, and its worker tries made-up rows out before it opens it.
    (table,) = (home / "vault").glob("*.table")
    body = bytearray(table.read_bytes())
    body[len(body) // 2] ^= 1
    table.write_bytes(body)
    assert wait_for_run(app) == "failed"
    go(app, "generate")
    assert errors(app)
    assert "The 1.00 stays spent." in texts(app)
    assert "epsilon spent: 1.00" in texts(app)
    go(app, "report")
    assert "This run stopped before it had a report." in texts(app)


def test_the_report_badges_every_number(finished: AppTest) -> None:
    app = go(finished, "report")
    for tab in TABS:
        app.session_state["report-tab"] = tab
        app.run()
        assert not errors(app)
        # One badge for all numbers of a section that are of one kind.
        shown = {"safe"} if tab.startswith("●") else {"owner_only"}
        assert badges(app) == shown | ({"safe"} if "Groups" in tab else set()), tab
    assert OWNER_ONLY_NOTE in texts(app)


def test_the_first_screen_answers_before_anything_exact_is_looked_at(finished: AppTest) -> None:
    from pages.ui.session import application

    app = go(finished, "report")
    shown = "".join(element.proto.body for element in app.get("html"))
    for words in (
        "<b>Good for</b>",
        "<b>Not for</b>",
        "<b>Safe</b>",
        "ot measured: pairs of columns, predicting smoker",
        'alt="Attacks',
    ):
        assert words in shown
    rows = application().first_rows(app.session_state["draft"]["run_id"])
    assert len(rows) == 11
    assert "".join(f"<td>{cell}</td>" for cell in rows[10]) in shown
    assert looked_at() == {BEFORE_A_CHARGE}
    app.button(key="read-on").click().run()
    assert app.session_state["report-tab"] == TABS[1]
    assert not errors(app)


def test_exact_numbers_are_looked_at_only_when_their_tab_is_opened(finished: AppTest) -> None:
    from pages.ui.session import application

    app = go(finished, "report")
    assert OWNER_ONLY_NOTE not in texts(app)
    assert looked_at() == {BEFORE_A_CHARGE}
    app.session_state["report-tab"] = TABS[-1]
    app.run()
    assert OWNER_ONLY_NOTE in texts(app)
    assert "report" in looked_at()
    assert "looked at exact numbers of its private rows" in " ".join(application().account("survey").notes)


@pytest.mark.thorough
def test_no_picture_has_more_than_two_hundred_points(finished: AppTest) -> None:
    plots = []
    for page in ("budget", "generate"):
        plots += go(finished, page).get("plotly_chart")
    app = go(finished, "report")
    for tab in TABS:
        app.session_state["report-tab"] = tab
        plots += app.run().get("plotly_chart")
    assert len(plots) >= 3
    for plot in plots:
        for trace in json.loads(plot.proto.spec)["data"]:
            for axis in ("x", "y"):
                values = trace.get(axis)
                length = len(values) if isinstance(values, list) else 0
                assert length <= 200
        assert plot.proto.alt


@pytest.mark.usefixtures("without_trial")
@pytest.mark.usefixtures("worker_here")
def test_what_was_taken_from_the_rows_is_said_before_it_is_paid_for_and_before_it_is_sealed() -> None:
    app = described(CODEBOOK + "domain_source: {age: read from the private rows}\n")
    assert "Taken from the rows: the ranges and categories of age. The promise does not cover them" in texts(app)
    go(app, "generate")
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    assert wait_for_run(app) == "reported"
    go(app, "release")
    assert app.checkbox(key="attest-1").label == (
        "What I declared public was typed from public knowledge, without looking at the rows, apart from the ranges "
        "and categories of age, which I took from the rows."
    )


def test_a_release_needs_every_attestation_and_a_name(finished: AppTest) -> None:
    app = go(finished, "release")
    assert app.button(key="seal").disabled
    assert not app.get("download_button") or all("bundle" not in str(b.proto.id) for b in app.get("download_button"))
    for position in range(3):
        app.checkbox(key=f"attest-{position}").check()
    app.run()
    assert app.button(key="seal").disabled
    app.text_input(key="attested-by").set_value("A. Owner").run()
    assert not app.button(key="seal").disabled


@pytest.mark.thorough
def test_a_sealed_release_can_be_downloaded_and_verified(finished: AppTest) -> None:
    from pages.ui.session import application

    assert [button.proto.disabled for button in go(finished, "report").get("download_button")] == [True, True]
    app = seal(finished)
    run_id = app.session_state["draft"]["run_id"]
    assert "Sealed and signed." in texts(app)
    assert [button.proto.disabled for button in go(app, "report").get("download_button")] == [False, False]
    # The table of these tests has no identifiers, so none are said to be made.
    assert "identifiers" not in texts(go(app, "release"))
    assert "identifiers" not in texts(go(app, "report"))
    data = application().bundle(run_id)
    assert zipfile.ZipFile(io.BytesIO(data)).read("synthetic.csv") == application().rows(run_id)
    start = go(open_app(), "start")
    start.file_uploader[0].upload("bundle.zip", data, "application/zip")
    start.run()
    assert "Everything matches the certificate. What was checked, and what was not, is listed below." in texts(start)


def test_a_received_bundle_is_checked_against_the_key_of_its_owner(finished: AppTest) -> None:
    from pages.ui.session import application

    app = seal(finished)
    data = application().bundle(app.session_state["draft"]["run_id"])
    for given, words in (
        ("", "Signer not checked"),
        (application().keys.public_key_pem.decode(), "Everything matches the certificate"),
        (golden_key(), "was not signed with the key that you gave"),
        ("no key", "the public key that you gave is not an Ed25519 key"),
    ):
        start = go(open_app(), "start")
        start.text_area(key="verify-key").set_value(given).run()
        start.file_uploader[0].upload("bundle.zip", data, "application/zip")
        start.run()
        assert words in texts(start)
        assert ("Signer not checked" in texts(start)) == (given == "")


def golden_key() -> str:
    """Return another owner's key."""
    with zipfile.ZipFile(golden("independent")) as archive:
        return archive.read("public-key.pem").decode()


def test_a_changed_bundle_is_found_out(finished: AppTest) -> None:
    from pages.ui.session import application

    app = seal(finished)
    data = application().bundle(app.session_state["draft"]["run_id"])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["synthetic.csv"] = members["synthetic.csv"].replace(b"north", b"South", 1)
    changed = b"".join(zip_of(members, attributes=stat.S_IFREG | 0o644))
    start = go(open_app(), "start")
    start.file_uploader[0].upload("bundle.zip", changed, "application/zip")
    start.run()
    assert "This bundle does not match its certificate, or cannot be read." in texts(start)
    assert "synthetic.csv is not the certified file: its hash differs." in texts(start)


def test_something_that_is_no_bundle_is_said_to_be_none() -> None:
    start = go(open_app(), "start")
    start.file_uploader[0].upload("bundle.zip", b"not a zip", "application/zip")
    start.run()
    assert "This bundle does not match its certificate, or cannot be read." in texts(start)
    assert not start.exception


def test_a_bundle_that_cannot_be_checked_here_is_no_forgery() -> None:
    with zipfile.ZipFile(golden("independent")) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["certificate.json"])
    document |= {"version": 99, "versions": document["versions"] | {"hermitage": "9.0.0"}}
    members["certificate.json"] = canonical_json(document)
    later = b"".join(zip_of(members, attributes=stat.S_IFREG | 0o644))
    start = go(open_app(), "start")
    start.file_uploader[0].upload("bundle.zip", later, "application/zip")
    start.run()
    assert "Nothing wrong was found, but not everything could be checked here." in texts(start)
    assert "The bundle was made by version 9.0.0 of this program" in texts(start)
    assert not start.error


def test_an_unreleased_bundle_is_refused(finished: AppTest) -> None:
    from pages.ui.session import application
    from synth.errors import JobError

    with pytest.raises(JobError, match="not released yet"):
        application().bundle(finished.session_state["draft"]["run_id"])
    with pytest.raises(JobError, match="not released yet"):
        application().rows(finished.session_state["draft"]["run_id"])


def test_the_ledger_shows_the_charge(finished: AppTest) -> None:
    app = go(finished, "ledger")
    assert all("hides" not in frame.value.columns for frame in app.table), "nobody protects cells here"
    frame = next(table.value for table in app.table if "purpose" in table.value.columns)
    assert list(frame["state"]) == ["reserved", "spent"]
    assert set(frame["epsilon"]) == {1.0}
    assert "Every chain of entries is complete and matches its mark" in texts(app)
    app.selectbox(key="limit-account").set_value("survey")
    app.number_input(key="limit-epsilon").set_value(1.2)
    app.button(key="FormSubmitter:limit-Set limit").click().run()
    go(app, "budget")
    (error,) = errors(app)
    assert "is 1.20" in error


def test_the_header_says_how_much_is_left(finished: AppTest) -> None:
    from pages.ui.session import application

    application().set_cap("survey", 4.0, 1e-6)
    words = texts(go(finished, "start"))
    assert "Protects one person contributing one row" in words
    assert "epsilon left: 3.00 of 4.00" in words
    assert all(text in words for text, _, _ in BADGES.values())


def seal(app: AppTest) -> AppTest:
    go(app, "release")
    for position in range(3):
        app.checkbox(key=f"attest-{position}").check()
    app.text_input(key="attested-by").set_value("A. Owner").run()
    app.button(key="seal").click().run()
    assert not errors(app)
    return app
