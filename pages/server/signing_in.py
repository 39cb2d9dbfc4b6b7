"""Signing in with OpenID Connect as the server sees it: what must be configured, and who has a cookie that counts.

Streamlit carries the sign-in out, with Authlib: its routes send a browser to the provider and back, and what the
provider says of the user then lies in a signed cookie that no script can read. This file adds what it leaves out: a
start that says what is missing, paths that are closed without the cookie, and an end when the provider's word ends.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.types import Scope
from streamlit.auth_util import get_cookie_with_chunks, get_secrets_auth_section
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from synth.errors import ConfigError
from synth.system.packages import is_installed
from synth.system.settings import Settings

SIGN_IN_PATH = re.compile(r"(?:/.*)?/(?:auth/login|auth/logout|oauth2callback)")
"""Where browsers are sent to the provider, come back from it, and sign out."""

_REQUIRED = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_SHORTEST_SECRET = 32
_WHERE = "docs/deploying.md shows a complete secrets.toml"


def require_configuration(settings: Settings) -> None:
    """Refuse to start with a login that nobody could use.

    Raises
    ------
    ConfigError
        What is missing.
    """
    if settings.login is None or settings.login.kind != "oidc":
        return
    if not (is_installed("authlib") and is_installed("httpx")):
        raise ConfigError(
            "HERMITAGE_LOGIN asks for OpenID Connect, which needs Authlib and httpx: pip install 'hermitage[app]'."
        )
    section = get_secrets_auth_section()
    missing = [key for key in _REQUIRED if not section.get(key)]
    if missing:
        raise ConfigError(
            f"HERMITAGE_LOGIN asks for OpenID Connect, and the section [auth] of secrets.toml has no "
            f"{', '.join(missing)}: {_WHERE}."
        )
    if len(str(section["cookie_secret"])) < _SHORTEST_SECRET:
        raise ConfigError(
            f"In secrets.toml, cookie_secret must have at least {_SHORTEST_SECRET} characters that nobody can guess: "
            "whoever knows it can sign in as anybody."
        )
    address = urlsplit(str(section["redirect_uri"]))
    named = address.hostname in settings.hosts
    if not (named and address.scheme in ("http", "https") and SIGN_IN_PATH.fullmatch(address.path)):
        raise ConfigError(
            "In secrets.toml, redirect_uri must be the address of this server that browsers use, followed by "
            "/oauth2callback; its name must be localhost, 127.0.0.1 or one that HERMITAGE_HOSTS lists."
        )


def is_expired(user: Mapping[str, Any]) -> bool:
    """Whether the provider's word for who somebody is has passed its time, or has none."""
    ends = user.get("exp")
    return not isinstance(ends, int | float) or ends <= time.time()


def has_signed_in(scope: Scope) -> bool:
    """Whether a request carries the cookie of somebody whose sign-in is still good."""
    cookies, secret = HTTPConnection(scope).cookies, get_cookie_secret()

    def decoded(name: str) -> bytes | None:
        value = cookies.get(name)
        return None if value is None else decode_signed_value(secret, name, value.encode("latin-1", "replace"))

    try:
        user = json.loads(get_cookie_with_chunks(decoded, USER_COOKIE_NAME) or b"{}")
    except ValueError:
        return False
    return isinstance(user, dict) and user.get("is_logged_in") is True and not is_expired(user)
