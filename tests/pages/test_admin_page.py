"""Admin: the public key as it lies in bundles, and clearing what a rehearsal stopped."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from driving import errors, go, open_app, texts
from streamlit.testing.v1 import AppTest

from pages.components.session import application


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


def test_a_stop_is_cleared_by_a_name_and_a_reason(finished: AppTest) -> None:
    service = application()
    run_id = finished.session_state["draft"]["run_id"]
    service.stops.record(service.config_of(run_id), "7f3a0000", "Closest record")
    app = go(finished, "admin")
    assert list(app.dataframe[0].value["state"]) == ["stands"]
    app.text_input(key="clear-incident-who").set_value("A. Admin")
    app.button[-1].click().run()
    assert any("what was found" in error for error in errors(app))
    assert service.stops.of(service.config_of(run_id)) is not None
    app.text_input(key="clear-incident-who").set_value("A. Admin")
    app.text_input(key="clear-incident-because").set_value("the stand-in held the rows")
    app.button[-1].click().run()
    assert not errors(app)
    assert service.stops.of(service.config_of(run_id)) is None
    assert list(app.dataframe[0].value["state"]) == ["cleared"]
    assert "Incident 7f3a0000 was cleared by A. Admin: the stand-in held the rows" in texts(app)
