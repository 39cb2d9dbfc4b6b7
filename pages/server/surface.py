"""The outside of the server: which names and methods it answers to, which paths are closed, and its headers."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages.server.uploads import UPLOAD_PATH
from synth.services.incidents import record_incident

__all__ = ["OPEN_PATHS", "Surface"]

OPEN_PATHS = ("health", "host-config", "stream", "upload_file")
"""All that is open below ``/_stcore``: metrics and whatever else comes with Streamlit is not."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)\.?(?::([0-9]{1,5}))?", re.IGNORECASE)
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


class Surface:
    """ASGI middleware, the outermost: requests are refused here, and every answer gets its headers.

    Parameters
    ----------
    app : ASGI application
    hosts : sequence of str
        Names under which browsers reach the server. Another name is refused on web sockets and plain HTTP alike: a
        page of another site may have bound its own name to this address.
    """

    def __init__(self, app: ASGIApp, *, hosts: tuple[str, ...]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._scripts = _hashes_of_inline_scripts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass a request on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        host, path = _only(scope, b"host"), scope["path"]
        is_named = _name_of(host) in self._hosts
        if scope["type"] == "websocket":
            if is_named and _is_open(path) and _is_own_origin(scope, host):
                await self._app(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            return
        answer = _with_headers(send, _headers(host if is_named else "", self._scripts))
        is_upload = scope["method"] in {"PUT", "DELETE"} and UPLOAD_PATH.fullmatch(path)
        if not is_named:
            await _answer(answer, 403, "This server does not answer to this name: see HERMITAGE_HOSTS.")
        elif not _is_open(path):
            await _answer(answer, 404, "There is nothing here.")
        elif scope["method"] not in {"GET", "HEAD", "OPTIONS"} and not is_upload:
            await _answer(answer, 405, "This cannot be done here.")
        else:
            await self._guarded(scope, receive, answer)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:  # its text may quote a cell, so it goes no further
            incident = record_incident(error)
            if not begun:
                await _answer(send, 500, f"Something went wrong (incident {incident}).")


def _only(scope: Scope, wanted: bytes) -> str:
    """Return the value of a header that was sent exactly once, else nothing."""
    values = [value for name, value in scope["headers"] if name == wanted]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _name_of(host: str) -> str:
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else ""


def _is_own_origin(scope: Scope, host: str) -> bool:
    """Whether a web socket was opened by a page of this very address; programs that are no browser send no origin."""
    if not any(name == b"origin" for name, _ in scope["headers"]):
        return True
    try:
        own = urlsplit(_only(scope, b"origin")).netloc.lower()
    except ValueError:  # no address at all
        return False
    return bool(host) and own == host.lower()


def _is_open(path: str) -> bool:
    _, below, rest = path.rpartition("/_stcore/")
    return not below or rest.split("/")[0] in OPEN_PATHS


def _headers(host: str, scripts: str) -> list[tuple[bytes, bytes]]:
    # Some browsers do not count a web socket of the same address as 'self'.
    sockets = f" ws://{host} wss://{host}" if host else ""
    policy = (
        "default-src 'none'",
        f"script-src 'self'{scripts}",
        "style-src 'self' 'unsafe-inline'",  # the styles of the screens are made in the browser
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        f"connect-src 'self'{sockets}",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return [
        (b"content-security-policy", "; ".join(policy).encode("latin-1")),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]


def _with_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    names = {name for name, _ in headers}

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            message = {**message, "headers": [*kept, *headers]}
        await send(message)

    return adding


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = sentence.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _hashes_of_inline_scripts() -> str:
    """Return as sources of the policy the scripts that stand in Streamlit's page itself, by their hash."""
    page = (Path(st.__file__).parent / "static" / "index.html").read_bytes()
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE_SCRIPT.findall(page))
    return "".join(f" 'sha256-{digest}'" for digest in digests)
