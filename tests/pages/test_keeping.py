"""What the server does by itself: tables and uploads go when their time is up, with nobody on any page."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from driving import TABLE, errors, go, new_people, open_app, started, texts, upload_table, uploader

from pages.server.serving import Keeper
from pages.server.uploads import incoming
from pages.ui.session import application
from synth.application import Application
from synth.jobs import processes
from synth.store import now
from synth.vault.incoming import RECONNECT_SECONDS


def due() -> Path:
    """Take a table in whose time is up, and return its file."""
    service = application()
    table = service.intake.receive(io.BytesIO(TABLE.encode()), account="survey", name="survey.csv")
    service.store.tables.keep_until(table.table_id, now() - timedelta(seconds=1))
    return service.settings.home / "vault" / f"{table.table_id}.table"


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("not within five minutes")


@pytest.mark.thorough
def test_a_table_is_deleted_by_the_timer_while_the_server_runs() -> None:
    keeper = Keeper(0.01, is_active=lambda session: True)
    keeper.start()
    try:
        for _ in range(2):  # the second comes after a round that found nothing, or the one before
            kept = due()
            eventually(lambda kept=kept: not kept.exists())  # type: ignore[misc]
    finally:
        keeper.stop()


def test_a_round_that_fails_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, failed = due(), []
    purge = Application.purge

    def failing(self: Application) -> None:
        if not failed:
            failed.append(1)
            raise OSError("the database is away")
        purge(self)

    monkeypatch.setattr(Application, "purge", failing)
    keeper = Keeper(0.01, is_active=lambda session: True)
    keeper.start()
    try:
        eventually(lambda: not kept.exists())
    finally:
        keeper.stop()
    assert failed


@pytest.mark.thorough
def test_what_fails_in_every_round_is_one_incident(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(is_active=lambda session: True)
    for expected in (1, 2):  # once more after a round that went well
        with monkeypatch.context() as patched:
            patched.setattr(Application, "purge", lambda self: (home / "nowhere").read_bytes())
            for _ in range(5):
                keeper.round()
        keeper.round()
        assert len([line for line in caplog.messages if line.startswith("incident")]) == expected


@pytest.mark.thorough
def test_the_queue_goes_on_while_nobody_looks() -> None:
    """A worker that died leaves its slot to the next run, with no page open."""
    service = application()
    run_id = started().session_state["draft"]["run_id"]
    for _ in range(6000):
        run = service.store.runs[run_id]
        if run.pid is not None:
            break
        time.sleep(0.05)
    assert run.pid is not None
    assert run.pid_created is not None
    processes.kill(run.pid, run.pid_created)
    keeper = Keeper(0.05, is_active=lambda session: True)
    keeper.start()
    try:
        # Killed before its charge it has failed; killed after it, it goes on.
        eventually(lambda: service.store.runs[run_id].is_finished)
    finally:
        keeper.stop()


def test_the_uploads_of_a_session_without_a_browser_are_forgotten() -> None:
    for session in ("here", "gone"):
        arrival = incoming().arrive(session, "1")
        arrival.finish()
        arrival._waiting.seen -= RECONNECT_SECONDS + 1
    Keeper(is_active=lambda session: session == "here").round()
    assert (incoming().waiting("here"), incoming().waiting("gone")) == (1, 0)


def test_an_upload_that_is_not_kept_any_more_is_asked_for_again() -> None:
    app = go(open_app(), "upload")
    new_people(app, "survey")
    uploader(app, "table").upload("survey.csv", TABLE.encode(), "text/csv")
    incoming().forget("test session id")
    app.run()
    (error,) = errors(app)
    assert error.startswith("This file is no longer available: a session keeps at most 2 files, for at most an hour.")
    assert app.session_state["draft"]["table_id"] is None


def test_a_file_that_did_not_come_by_the_server_is_not_read() -> None:
    """Bytes that Streamlit itself took in are never taken for an upload: the way around the encryption is closed."""
    app = go(open_app(), "upload")
    new_people(app, "survey")
    uploader(app, "table").set_value(("survey.csv", TABLE.encode(), "text/csv")).run()
    assert errors(app)[0].startswith("This file is no longer available")


def test_a_codebook_over_its_limit_is_refused_in_words() -> None:
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "codebook").upload("c.yaml", b"#" * (5 * 2**20 + 1), "application/yaml")
    app.run()
    assert errors(app) == ["The file is larger than the 5 MB accepted here."]


def test_admin_names_what_was_out_of_place() -> None:
    service = application()
    app = go(open_app(), "admin")
    assert "Nothing was out of place." in texts(app)
    stray = service.settings.home / "vault" / "22222222-2222-3333-4444-555555555555.table"
    stray.write_bytes(b"ciphertext")
    Keeper(is_active=lambda session: True).round()
    assert not stray.exists()
    app.run()
    shown = [table.value for table in app.table if "what was removed" in table.value.columns]
    (frame,) = shown
    assert frame["table"].tolist() == [stray.stem]
    assert frame["what was removed"].tolist() == ["files without a record"]
    assert not app.exception
