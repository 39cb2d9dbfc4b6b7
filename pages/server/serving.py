"""The server process: its outside, what it imports once at the start, and what it does in the background.

Its outside: which names and methods it answers to, which paths are closed, and the headers of its answers.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import importlib
import pkgutil
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.runtime import Runtime

import pages
from pages.server.signing_in import SIGN_IN_PATH, has_signed_in
from pages.server.uploads import UPLOAD_PATH, incoming
from pages.ui.forecast import promises
from pages.ui.session import whole_application
from synth.demonstration import CLINIC, demonstration_config
from synth.errors import SynthError
from synth.generators import cards
from synth.privacy.accounting import epsilon_of
from synth.reports.forecast import forecast
from synth.schema import default_delta
from synth.services.incidents import code_location, record_incident
from synth.system.settings import Login

OPEN_PATHS = ("bidi-components", "health", "host-config", "stream", "upload_file")
"""All that is open below ``/_stcore``: metrics and whatever else comes with Streamlit is not.

Of components only the files of those that the screens register are served: script and style of the dial.
"""

HEALTH_PATH = "/_stcore/health"

ROUND_SECONDS = 30.0

STOP_SECONDS = 5
"""How long unfinished requests may continue once the server is told to stop."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)\.?(?::([0-9]{1,5}))?", re.IGNORECASE)
_FILE_PATH = re.compile(r"(?:/.*)?/(?:media|_stcore/upload_file)/.*", re.DOTALL)
"""What somebody downloads or uploads, in every method."""

_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)

_lock = threading.Lock()
_warm = False


# What every screen needs is imported once ----------------------------------------------------------------------------


def warm_up() -> None:
    """Import every screen with all it uses, work out what a slider promises, and freeze what that made; once.

    The libraries are some 350,000 objects that live as long as the process, and looking through them for garbage takes
    longer than most pages do; frozen objects are not looked through. What a session leaves behind is collected in the
    rounds of the :class:`Keeper`, and by Python itself where there is much of it.

    The first caller does the work and the others wait for it: a page that began before would be frozen too.
    """
    global _warm
    with _lock:
        if _warm:
            return
        for found in pkgutil.walk_packages(pages.__path__, "pages."):
            importlib.import_module(found.name)
        cards()  # generators are imported when they are first asked for
        promises(default_delta(1), pure=False)
        forecast(demonstration_config(CLINIC))  # and so are libraries
        epsilon_of(1.0, default_delta(1))  # adding up releases needs a library of its own, which the budget shows
        gc.collect()
        gc.freeze()
        _warm = True


# In the background: the queue continues, and what must not be kept any longer is deleted -----------------------------


@asynccontextmanager
async def lifespan(server: Any) -> AsyncIterator[dict[str, Any] | None]:
    """Start what belongs to the server process and to no session, and stop it at the end."""
    del server
    _bound_the_stop()
    keeper = Keeper(is_active=Runtime.instance().is_active_session)
    keeper.start()
    try:
        yield None
    finally:
        keeper.stop()


class Keeper:
    """Keeps order in rounds, in a thread of its own, from the start of the server to its end.

    Parameters
    ----------
    seconds : float
        Between two rounds.
    is_active : callable
        Whether a session, by its id, has a browser.
    """

    def __init__(self, seconds: float = ROUND_SECONDS, *, is_active: Callable[[str], bool]) -> None:
        self._seconds = seconds
        self._steps: tuple[Callable[[], object], ...] = (
            lambda: incoming().sweep(is_active),
            lambda: whole_application().engine.tend(),
            lambda: whole_application().purge(),
            gc.collect,
        )
        self._failing: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin with the first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is going on."""
        self._stopped.set()
        self._thread.join(timeout=5.0)

    def round(self) -> None:
        """Forget uploads, look after the queue, delete the tables whose time is up, and collect garbage.

        A step that fails keeps no other.

        What fails in every round, while the database is away for example, is one incident and not one a round.
        """
        failing: set[str] = set()
        for step in self._steps:
            try:
                step()
            except Exception as error:  # the next round tries again
                # What is foreseen, as a database that is away, may be met at many places.
                where = "" if isinstance(error, SynthError) else code_location(error)
                name = f"{type(error).__name__} {where}"
                if name not in failing | self._failing:
                    record_incident(error)
                failing.add(name)
        self._failing = failing

    def _go_on(self) -> None:
        self.round()
        while not self._stopped.wait(self._seconds):
            self.round()


def _bound_the_stop() -> None:
    """Let a stop end what is still sent or read: by itself the server waits for it without end.

    Streamlit has no option for it. The server is reached by the handler of signals that it has set by now; a test holds
    that a stop ends.
    """
    running = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(running, uvicorn.Server):
        running.config.timeout_graceful_shutdown = STOP_SECONDS


# The outside ---------------------------------------------------------------------------------------------------------


class Surface:
    """ASGI middleware, the outermost: requests are refused here, and every answer gets its headers.

    Parameters
    ----------
    app : ASGI application
    hosts : sequence of str
        Names under which browsers reach the server. Another name is refused on web sockets and plain HTTP alike: a
        page of another site may have bound its own name to this address.
    login : Login, optional
        Where a proxy says in a header who somebody is, a request without exactly one such header is refused: it did
        not come through the proxy. Only the health check needs none. Where people sign in here, downloads and uploads
        are refused without the cookie of somebody who has; the paths for it are closed everywhere else.
    """

    def __init__(self, app: ASGIApp, *, hosts: tuple[str, ...], login: Login | None = None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._header = login.name.lower().encode() if login is not None and login.kind == "header" else None
        self._asks = login is not None and login.kind == "oidc"
        self._scripts = _hashes_of_inline_scripts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass a request on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        host, path = _only(scope, b"host"), scope["path"]
        is_named = _name_of(host) in self._hosts
        if scope["type"] == "websocket":
            if is_named and _is_open(path) and _is_own_origin(scope, host) and self._is_known(scope):
                await self._app(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            return
        answer = _with_headers(send, _headers(host if is_named else "", self._scripts))
        is_upload = scope["method"] in {"PUT", "DELETE"} and UPLOAD_PATH.fullmatch(path)
        if not is_named:
            await _answer(answer, 403, "This server does not answer to this name: see HERMITAGE_HOSTS.")
        elif not self._is_known(scope) and path != HEALTH_PATH:
            await _answer(answer, 403, "This server is reached through its proxy, which says who you are.")
        elif not _is_open(path) or (SIGN_IN_PATH.fullmatch(path) and not self._asks):
            await _answer(answer, 404, "There is nothing here.")
        elif scope["method"] not in {"GET", "HEAD", "OPTIONS"} and not is_upload:
            await _answer(answer, 405, "This is not allowed here.")
        elif self._asks and _FILE_PATH.fullmatch(path) and not has_signed_in(scope):
            await _answer(answer, 403, "Sign in first.")
        else:
            await self._guarded(scope, receive, answer)

    def _is_known(self, scope: Scope) -> bool:
        return self._header is None or bool(_only(scope, self._header).strip())

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
    """Return the inline scripts of Streamlit's own page as sources of the policy, by their hash."""
    page = (Path(st.__file__).parent / "static" / "index.html").read_bytes()
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE_SCRIPT.findall(page))
    return "".join(f" 'sha256-{digest}'" for digest in digests)
