"""Admin: the public key as it lies in bundles, and clearing what a rehearsal stopped."""

from __future__ import annotations

import hashlib
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from driving import TABLE, errors, go, open_app, texts
from golden_homes import as_before_0_9_0, copy_of_golden_home
from streamlit.testing.v1 import AppTest

from pages.ui.session import application
from synth.errors import InputError
from synth.ledger.heads import heads_text
from synth.ledger.ledger import SPENT_OR_FREED
from synth.ledger.rulings import Role


def test_the_public_key_is_the_one_that_signs() -> None:
    app = go(open_app(), "admin")
    assert not errors(app)
    shown = {str(one.value) for one in app.code}
    public = application().keys.public_key_pem
    assert public.decode().strip() in shown
    key = load_pem_public_key(public)
    assert isinstance(key, Ed25519PublicKey)
    digits = hashlib.sha256(key.public_bytes_raw()).hexdigest()
    assert digits in {one.replace(" ", "") for one in shown}
    assert "PRIVATE" not in texts(app) + "".join(shown)
    assert "No rehearsal has stopped anything." in texts(app)


@pytest.mark.thorough
def test_a_stop_is_cleared_by_a_name_and_a_reason(finished: AppTest) -> None:
    service = application()
    run_id = finished.session_state["draft"]["run_id"]
    service.stops.record(service.config_of(run_id), "7f3a0000", "Closest record")
    app = go(finished, "admin")
    assert states(app) == ["open"]
    app.text_input(key="clear-incident-who").set_value("A. Admin")
    app.button[-1].click().run()
    assert any("what was found" in error for error in errors(app))
    assert service.stops.of(service.config_of(run_id)) is not None
    app.text_input(key="clear-incident-who").set_value("A. Admin")
    app.text_input(key="clear-incident-because").set_value("the stand-in held the rows")
    app.button[-1].click().run()
    assert not errors(app)
    assert service.stops.of(service.config_of(run_id)) is None
    assert states(app) == ["cleared"]
    assert "Incident 7f3a0000 was cleared by A. Admin: the stand-in held the rows" in texts(app)


def states(app: AppTest) -> list[str]:
    """Return the states of the stops."""
    (found,) = (one.value for one in app.table if "state" in one.value)
    return list(found["state"])


def table_with(app: AppTest, column: str) -> dict[str, list[str]]:
    (found,) = (one.value for one in app.table if column in one.value)
    return {name: list(found[name]) for name in found}


def press(app: AppTest, label: str) -> AppTest:
    (button,) = (one for one in app.button if one.label == label)
    return button.click().run()


def test_roles_and_the_policy_are_set_and_a_table_is_deleted_now() -> None:
    kept = application().intake.receive(io.BytesIO(TABLE.encode()), account="survey", name="a private name.csv")
    app = go(open_app(), "admin")
    assert not errors(app)
    # A table has no name here, which may be private, and no column.
    (identity,) = table_with(app, "owner")["table"]
    assert kept.table_id.startswith(identity)
    assert "a private name" not in texts(app) + str([one.value for one in app.table])
    press(app, "Delete now")
    assert errors(app) == ["Confirm that the rows are to be deleted: they cannot be brought back."]
    app.checkbox(key="delete-table-sure").check()
    press(app, "Delete now")
    assert "No table is stored." in texts(app)
    app.number_input(key="approval_epsilon").set_value(2.0)
    app.number_input(key="account_epsilon").set_value(3.0)
    press(app, "Set the policy")
    assert errors(app) == ["A limit for accounts needs both numbers: epsilon and delta."]
    app.number_input(key="account_delta").set_value(1e-6)
    press(app, "Set the policy")
    assert not errors(app)
    held = application().policy()
    assert (held.approval_epsilon, held.account_epsilon, held.account_delta) == (2.0, 3.0, 1e-6)
    # Without a login nobody can be told apart, so the first user would close the page to everybody.
    assert "There are no users: whoever reaches this server may do everything." in texts(app)
    assert "Give these roles" not in {one.label for one in app.button}
    with pytest.raises(InputError, match="Set up a login first"):
        application().give_roles("anna", [Role.ADMIN])


@pytest.mark.thorough
def test_what_fails_inside_the_program_is_listed_by_its_number_alone() -> None:
    try:
        raise ValueError("could not convert string to float: 'NHS-999-123'")
    except ValueError as error:
        application().note_incident("0badcafe", error)
    app = go(open_app(), "admin")
    found = table_with(app, "place in the code")
    assert (found["incident"], found["kind"]) == (["0badcafe"], ["ValueError"])
    assert "NHS" not in str(found) + texts(app)


def warnings(app: AppTest) -> str:
    return " ".join(str(one.value) for one in app.warning)


@pytest.mark.thorough
def test_a_missing_release_is_entered_and_the_ledger_accepted(finished: AppTest) -> None:
    """As after a restore: the account is frozen and its release is not in the ledger of another home."""
    service = application()
    run_id = finished.session_state["draft"]["run_id"]
    service.release(run_id, attestations=("may share",), attested_by="A. Owner")
    bundle = service.bundle(run_id)
    account = service.store.runs[run_id].account_id
    service.ledger.freeze(account, because="restored")
    app = go(finished, "admin")
    assert "Frozen until their ledger is accepted: survey" in warnings(app)

    app.button(key=form_button(app, "Enter the release")).click().run()
    assert any("Choose a bundle" in error for error in errors(app))
    app.file_uploader(key="enter-bundle").upload("bundle.zip", bundle, "application/zip")
    app.button(key=form_button(app, "Enter the release")).click().run()
    assert any("Give your name" in error for error in errors(app))
    app.text_input(key="enter-who").set_value("A. Owner")
    app.file_uploader(key="enter-bundle").upload("bundle.zip", bundle, "application/zip")
    app.button(key=form_button(app, "Enter the release")).click().run()
    assert not errors(app)
    assert "is already in the ledger" in texts(app), "nothing is entered twice"
    app.file_uploader(key="enter-bundle").upload("bundle.zip", b"PK no bundle", "application/zip")
    app.text_input(key="enter-who").set_value("A. Owner")
    app.button(key=form_button(app, "Enter the release")).click().run()
    assert len(errors(app)) == 1

    app.text_input(key="accept-who").set_value("A. Owner")
    app.button(key=form_button(app, "Accept the ledger")).click().run()
    assert any("Confirm that the ledger is complete" in error for error in errors(app))
    app.checkbox(key="accept-complete").check()
    app.button(key=form_button(app, "Accept the ledger")).click().run()
    assert not errors(app)
    assert "No account is frozen." in texts(app)
    assert not service.ledger.chain(account).frozen


def form_button(app: AppTest, label: str) -> str:
    (found,) = [str(one.key) for one in app.button if one.label == label]
    return found


@pytest.mark.usefixtures("without_trial")
def test_heads_are_kept_and_compared(finished: AppTest) -> None:
    service = application()
    kept = heads_text(service.ledger.heads())
    app = go(finished, "admin")
    app.file_uploader(key="check-heads").upload("heads.txt", kept.encode(), "text/plain")
    app.run()
    assert "complete: 'survey' has everything that was noted" in texts(app)
    app.file_uploader(key="check-heads").upload("heads.txt", kept.replace(" 2 ", " 9 ").encode(), "text/plain")
    app.run()
    assert any("BEHIND: 'survey' lacks entries that were noted" in error for error in errors(app))


def test_the_ledger_page_says_what_is_frozen_and_what_is_freed(finished: AppTest) -> None:
    service = application()
    account = service.store.accounts.named("survey")
    assert account is not None
    app = go(finished, "ledger")
    assert SPENT_OR_FREED in texts(app)
    service.ledger.freeze(account.id, because="restored")
    app = go(app, "ledger")
    assert "Frozen, so no run can start: survey." in warnings(app)


def test_a_deleted_mark_is_said_on_the_ledger_page(finished: AppTest, home: Path) -> None:
    (mark,) = (home / "vault").glob("*.mark")
    mark.unlink()
    app = go(finished, "ledger")
    assert any("mark of account 'survey' is missing" in error for error in errors(app))


def test_a_home_of_an_earlier_version_is_refused_on_the_page(home: Path) -> None:
    copy_of_golden_home(home)
    with closing(sqlite3.connect(home / "hermitage.sqlite")) as database, database:
        as_before_0_9_0(database)
    app = go(open_app(), "ledger")
    (error,) = errors(app)
    assert "written by a version before 0.9.0" in error
    assert not app.exception
