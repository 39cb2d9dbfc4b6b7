"""A proxy that says who somebody is: the nginx of docs/deploying.md with its line for the name, before the real server.

The name that counts is the one that nginx authenticated, whatever a browser sends; and what did not come through nginx
is refused on every path.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from printed import ROOT
from serving import Server, started_server
from signing_in import ADMIN, OWNER, command
from test_proxy import HOST, NAME, PASSWORD, asked, chromium, nginx, replaced
from visiting import Action, Visitor, visitor_of
from walking import Walker

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

HEADER = "X-Forwarded-User"
PEOPLE = "people of the first user"
UPGRADE = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
PATHS = ("/", "/upload", "/media/anything.zip", "/_stcore/host-config", "/_stcore/upload_file/a/b", "/auth/login")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    variables = {"HERMITAGE_HOSTS": HOST, "HERMITAGE_LOGIN": f"header:{HEADER}"}
    with started_server(tmp_path_factory.mktemp("header"), variables=variables) as started:
        command(started, "user", NAME, "--roles", "owner")
        command(started, "user", OWNER, "--roles", "owner")
        command(started, "user", ADMIN, "--roles", "admin")
        yield started


def naming(text: str) -> str:
    """Add the line of the docs that passes the name on."""
    document = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^ +(proxy_set_header +{HEADER} .*;)$", document, re.M)
    before = "proxy_set_header   Host $http_host;"
    return replaced(text, (before, f"{line}\n        {before}"))


def walked(browser: Any, folder: Path, server: Server, *, change: Any, pretending: str) -> str:
    """Open the pages as the user that nginx knows, with a header that says another one; return what is shown."""
    known = [f"--host-resolver-rules=MAP {HOST} 127.0.0.1", "--no-sandbox", "--disable-gpu"]
    program = browser.browser_type.launch(executable_path=chromium(browser), args=known)
    with nginx(folder, server, change) as proxy, closing(program):
        walker = Walker(
            program,
            proxy.address,
            ignore_https_errors=True,
            http_credentials={"username": NAME, "password": PASSWORD},
            extra_http_headers={HEADER: pretending},
        )
        try:
            walker.open("admin")
            held = {one["name"]: one["secure"] for one in walker.context.cookies()}
            assert held
            assert all(held.values())
            return walker.text()
        finally:
            walker.close()


def test_the_name_is_the_one_that_the_proxy_knows(server: Server, browser: Any, tmp_path: Path) -> None:
    shown = walked(browser, tmp_path, server, change=naming, pretending=ADMIN)
    assert f"You are {NAME} (owner)." in shown
    assert "Incidents" not in shown
    assert "Sign out" not in shown, "that is the proxy's business"


def test_a_proxy_that_lets_the_header_through_would_let_anybody_be_anybody(
    server: Server, browser: Any, tmp_path: Path
) -> None:
    """The same look sees it where the line is missing."""
    shown = walked(browser, tmp_path, server, change=str, pretending=ADMIN)
    assert f"You are {ADMIN} (admin)." in shown


def test_through_the_proxy_every_path_is_known(server: Server, tmp_path: Path) -> None:
    pretending = f"{HEADER}: {ADMIN}\r\n"
    with nginx(tmp_path, server, naming) as proxy:
        for more in ("", pretending, 2 * pretending):
            assert asked(proxy.port, "/", authorized=True, headers=more)[0] == 200
        assert asked(proxy.port, "/", authorized=False, headers=pretending)[0] == 401
        assert asked(proxy.port, "/auth/login", authorized=True)[0] == 404


@pytest.mark.parametrize(
    "headers", ["", f"{HEADER}: \r\n", 2 * f"{HEADER}: {ADMIN}\r\n", f"X_Forwarded_User: {ADMIN}\r\n"]
)
def test_what_did_not_come_through_the_proxy_is_refused(server: Server, headers: str) -> None:
    assert {path: status(server, path, headers) for path in PATHS} == dict.fromkeys(PATHS, 403)
    assert status(server, "/_stcore/upload_file/a/b", headers, method="PUT") == 403
    assert status(server, "/_stcore/stream", headers + UPGRADE) == 403
    assert status(server, "/_stcore/health", headers) == 200


def test_a_session_that_another_user_comes_back_to_holds_nothing_of_the_first(server: Server, tmp_path: Path) -> None:
    """Whoever names a session gets it: what it holds is for the user that the proxy names now."""

    async def take_over() -> tuple[list[str], list[bool]]:
        async with visitor_of(server.port, more={HEADER: NAME}) as first:
            await first.rerun()
            for verb, words in (
                ("press", "Start with your own table"),
                ("offered", "Is it about the same people = No, new people"),
                ("write", f"A name for these people = {PEOPLE}"),
            ):
                await first.perform(Action(verb, words, "Upload a table"), tmp_path)
        sessions, shown = [first.session_id], []
        for name in (NAME, OWNER):
            async with visitor_of(server.port, more={HEADER: name}, session=first.session_id) as again:
                await again.rerun()
                await again.perform(Action("visit", "1 Upload", "Upload a table"), tmp_path)
                sessions.append(again.session_id)
                shown.append(is_shown(again))
        return sessions, shown

    with ThreadPoolExecutor(1) as apart:  # the browser of other tests has the loop of this thread
        sessions, shown = apart.submit(asyncio.run, take_over()).result()
    assert len(set(sessions)) == 1, "each of them came back to the same session"
    assert shown == [True, False]


def is_shown(visitor: Visitor) -> bool:
    return any(PEOPLE.encode() in held.SerializeToString() for held, _ in visitor.elements.values())


def test_with_the_name_the_paths_answer(server: Server) -> None:
    named = f"{HEADER}: {ADMIN}\r\n"
    assert status(server, "/", named) == 200
    assert status(server, "/_stcore/stream", named + UPGRADE) == 101


def status(server: Server, path: str, headers: str, *, method: str = "GET") -> int:
    """Ask the server itself."""
    connection = "Upgrade" if "Upgrade" in headers else "close"
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as line:
        line.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: {connection}\r\n"
            f"{headers}\r\n".encode()
        )
        return int(line.recv(4096).split()[1])
