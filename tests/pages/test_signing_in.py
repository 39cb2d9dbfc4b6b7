"""What a login needs before the server starts, whose cookie counts, and what a header has to say."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import open_app, texts
from streamlit import config
from streamlit.auth_util import set_cookie_with_chunks
from streamlit.runtime.secrets import secrets_singleton
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from pages.server.signing_in import SIGN_IN_PATH, has_signed_in, is_expired, require_configuration
from pages.ui.session import whole_application
from synth.errors import ConfigError, NotAllowedError
from synth.system.settings import Settings

KEY = "0123456789abcdef" * 4
COMPLETE = {
    "redirect_uri": "http://localhost:8501/oauth2callback",
    "cookie_secret": KEY,
    "client_id": "hermitage",
    "client_secret": "from the provider",
    "server_metadata_url": "http://localhost:9400/.well-known/openid-configuration",
}
OIDC = {"HERMITAGE_LOGIN": "oidc"}


@pytest.fixture
def secrets(tmp_path: Path) -> Iterator[Any]:
    """Write a secrets.toml, and forget it afterwards."""
    before = config.get_option("secrets.files")

    def write(section: dict[str, str]) -> None:
        path = tmp_path / "secrets.toml"
        path.write_text("[auth]\n" + "".join(f"{key} = {json.dumps(text)}\n" for key, text in section.items()), "utf-8")
        config.set_option("secrets.files", [str(path)])
        secrets_singleton._reset()

    yield write
    config.set_option("secrets.files", before)
    secrets_singleton._reset()


def refusal(**variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        require_configuration(Settings.from_environment({**OIDC, **variables}))
    return str(caught.value)


def test_a_complete_file_of_secrets_is_taken(secrets: Any) -> None:
    secrets(COMPLETE)
    require_configuration(Settings.from_environment(OIDC))
    secrets({**COMPLETE, "redirect_uri": "https://synth.example.org/oauth2callback"})
    require_configuration(Settings.from_environment({**OIDC, "HERMITAGE_HOSTS": "synth.example.org"}))


@pytest.mark.parametrize("key", COMPLETE)
def test_what_is_missing_is_named(secrets: Any, key: str) -> None:
    secrets({name: text for name, text in COMPLETE.items() if name != key})
    assert f"has no {key}: docs/deploying.md" in refusal()


def test_a_secret_that_can_be_guessed_is_refused(secrets: Any) -> None:
    secrets({**COMPLETE, "cookie_secret": "a" * 31})
    assert "at least 32 characters" in refusal()


@pytest.mark.parametrize(
    "address",
    [
        "http://synth.example.org/oauth2callback",
        "http://localhost:8501/",
        "ftp://localhost/oauth2callback",
        "localhost",
    ],
)
def test_an_address_to_which_nobody_could_come_back_is_refused(secrets: Any, address: str) -> None:
    secrets({**COMPLETE, "redirect_uri": address})
    assert "redirect_uri must be the address of this server" in refusal()


def test_without_a_login_no_secrets_are_asked_for() -> None:
    require_configuration(Settings.from_environment({}))
    require_configuration(Settings.from_environment({"HERMITAGE_LOGIN": "header:X-Forwarded-User"}))


def scope(cookies: dict[str, str]) -> dict[str, Any]:
    line = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return {"type": "http", "headers": [(b"cookie", line.encode("latin-1"))]}


def cookies_of(user: dict[str, object], *, key: str = KEY, name: str = "_streamlit_user") -> dict[str, str]:
    """Return the cookies of a user as Streamlit sets them: a long one in several parts."""
    found: dict[str, str] = {}

    def signed(part: str, value: str) -> bytes:
        return create_signed_value(key, part, value)

    def keep(part: str, value: str) -> None:
        found[part] = signed(part, value).decode()

    set_cookie_with_chunks(keep, signed, name, user, cookie_attr_size=60)
    return found


def test_a_cookie_counts_while_the_word_of_the_provider_does(secrets: Any) -> None:
    secrets(COMPLETE)
    user: dict[str, object] = {"is_logged_in": True, "email": "anna@example.org", "exp": int(time.time()) + 3600}
    assert has_signed_in(scope(cookies_of(user)))
    long = cookies_of({**user, "groups": [hashlib.sha256(bytes([number])).hexdigest() for number in range(200)]})
    assert len(long) > 2
    assert has_signed_in(scope(long))
    assert not has_signed_in(scope({name: value for name, value in long.items() if not name.endswith("_2")}))
    assert not has_signed_in(scope(cookies_of({**user, "exp": int(time.time()) - 1})))
    assert not has_signed_in(scope(cookies_of({**user, "exp": "later"})))
    assert not has_signed_in(scope(cookies_of({**user, "is_logged_in": False})))


def test_a_cookie_that_this_server_did_not_sign_for_it_does_not_count(secrets: Any) -> None:
    secrets(COMPLETE)
    user: dict[str, object] = {"is_logged_in": True, "exp": int(time.time()) + 3600}
    assert not has_signed_in(scope({}))
    assert not has_signed_in(scope(cookies_of(user, key="f" * 64)))
    assert not has_signed_in(scope({"_streamlit_user": json.dumps(user)}))
    moved = cookies_of(user, name="_streamlit_user_tokens")
    assert not has_signed_in(scope({"_streamlit_user": moved["_streamlit_user_tokens"]}))
    assert not has_signed_in(scope({"_streamlit_user": "\u00ff\u00fe"}))


def test_a_word_without_an_end_has_ended() -> None:
    assert is_expired({})
    assert is_expired({"exp": time.time() - 1})
    assert not is_expired({"exp": time.time() + 60})


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/auth/login", True),
        ("/base/oauth2callback", True),
        ("/auth/logout", True),
        ("/auth/login/more", False),
        ("/author/login", False),
        ("/upload", False),
    ],
)
def test_paths_of_signing_in(path: str, is_one: bool) -> None:
    assert bool(SIGN_IN_PATH.fullmatch(path)) == is_one


def test_where_the_proxy_says_nothing_no_screen_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_LOGIN", "header:X-Forwarded-User")
    app = open_app()
    assert "The proxy in front of this server did not say who you are (header X-Forwarded-User)." in texts(app)
    assert "Turn a private table" not in texts(app)


def test_what_is_asked_for_after_the_end_of_a_sign_in_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HERMITAGE_LOGIN", "header:X-Forwarded-User")
    with pytest.raises(NotAllowedError, match=r"You are not signed in, or your sign-in has expired\."):
        whole_application().as_user("").accounts()


def test_a_session_that_is_another_users_now_holds_nothing_of_the_one_before() -> None:
    """A browser names the session that it comes back to, and a proxy may have another user by then."""
    app = open_app()
    app.session_state["checked-heads"] = {"file": "heads.txt"}
    app.run()
    assert "checked-heads" in app.session_state
    app.session_state["user"] = "somebody else"
    app.run()
    assert "checked-heads" not in app.session_state
    assert "Turn a private table" in texts(app)
