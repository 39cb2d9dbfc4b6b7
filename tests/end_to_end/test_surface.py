"""The outside of the server: headers on every answer, closed paths, foreign names, and nobody asked at the start."""

from __future__ import annotations

import http.client
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import OWN_NAMES, Server, started_server
from walking import Walker

pytestmark = pytest.mark.browser

RECORDER = """
import os, sys

def record(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
        asked = arguments[1] if event == "socket.connect" else arguments[0]
        if not str(asked).startswith(("/", "b'/")):
            with open(os.environ["CONNECTIONS"], "a") as file:
                print(event, asked, file=file)

sys.addaudithook(record)
"""
EXPECTED = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


@pytest.fixture
def recorded_server(tmp_path: Path) -> Iterator[Server]:
    """Start one of which every connection is written down."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(RECORDER, encoding="utf-8")
    variables = {
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "CONNECTIONS": str(folder / "connections"),
    }
    with started_server(folder, variables=variables) as server:
        yield server


def answer(server: Server, path: str, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    found = connection.getresponse()
    found.read()
    connection.close()
    return found.status, {name.lower(): value for name, value in found.getheaders()}


def opened_socket(server: Server, **headers: str) -> int:
    """Ask for the web socket of the pages and return the status of the answer: 101 where it opens."""
    asked = {
        "Host": f"127.0.0.1:{server.port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in asked.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as raw:
        raw.sendall(f"GET /_stcore/stream HTTP/1.1\r\n{lines}\r\n".encode())
        return int(raw.recv(4096).split()[1])


def static_file(server: Server) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("GET", "/")
    page = connection.getresponse().read().decode()
    connection.close()
    return "/" + re.findall(r'src="\./(static/js/[^"]+)"', page)[0]


def test_every_answer_has_its_headers(server: Server) -> None:
    asked = {
        "/": 200,
        "/upload": 200,
        static_file(server): 200,
        "/_stcore/health": 200,
        "/_stcore/host-config": 200,
        "/media/nothing.zip": 404,
        "/_stcore/metrics": 404,
        "/_stcore/upload_file/a/b": 200,
        "/_stcore/bidi-components/hermitage.dial/..%2Fforecast.py": 400,
    }
    for path, status in asked.items():
        found, headers = answer(server, path)
        assert found == status, path
        assert {name: headers.get(name) for name in EXPECTED} == EXPECTED, path
        policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'", path
        assert "unsafe" not in policy["script-src"], path
        assert "*" not in headers["content-security-policy"], path
    found, headers = answer(server, "/_stcore/upload_file/a/b", method="PUT")
    assert (found, headers["x-frame-options"]) == (403, "DENY")


@pytest.mark.parametrize(
    "path",
    ["metrics", "metrics/", "agent/openapi.json", "agent/mcp", "script-health-check", "upload_files", "anything"],
)
def test_what_no_page_needs_is_closed(server: Server, path: str) -> None:
    for before in ("", "/base"):
        assert answer(server, f"{before}/_stcore/{path}")[0] == 404
    assert answer(server, "/", method="POST")[0] == 405


@pytest.mark.parametrize("path", ["/auth/login", "/auth/logout", "/oauth2callback", "/base/auth/login"])
def test_without_a_login_there_is_no_way_to_one(server: Server, path: str) -> None:
    assert answer(server, path)[0] == 404


def test_a_foreign_name_is_refused_on_sockets_and_plain_http_alike(server: Server) -> None:
    port, (name, number) = server.port, OWN_NAMES
    own = ["localhost", f"localhost:{port}", f"127.0.0.1:{port}", name, f"{name.upper()}:443", number]
    foreign = ["evil.example", f"{name}.evil.example", f"evil.{name}", f"{name}@evil.example", "", "[::1]"]
    for host in own:
        assert answer(server, "/", host=host)[0] == 200, host
        assert opened_socket(server, Host=host, Origin=f"https://{host}") == 101, host
    for host in foreign:
        assert answer(server, "/", host=host)[0] == 403, host
        assert answer(server, "/_stcore/health", host=host)[0] == 403, host
        assert opened_socket(server, Host=host, Origin=f"https://{host}") == 403, host


def test_a_socket_is_opened_by_a_page_of_the_same_address_only(server: Server) -> None:
    port = server.port
    for origin in ("https://evil.example", f"http://localhost:{port}", "http://127.0.0.1:9", "null", "http://[", ""):
        assert opened_socket(server, Origin=origin) == 403, origin
    assert opened_socket(server, Origin=f"http://127.0.0.1:{port}") == 101
    assert opened_socket(server) == 101, "a program that is no browser sends no origin"


@pytest.mark.thorough
def test_neither_the_start_nor_a_page_nor_a_stranger_makes_the_server_ask_others(
    recorded_server: Server, browser: Any
) -> None:
    walker = Walker(browser, recorded_server.address)
    walker.open()
    walker.visit("Ledger", "Ledger")
    walker.close()
    opened_socket(recorded_server, Origin="https://evil.example")
    connections = recorded_server.home.parent / "connections"
    assert not connections.exists() or connections.read_text(encoding="utf-8") == ""


def test_the_recorder_records(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "sitecustomize.py").write_text(RECORDER, encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path), "CONNECTIONS": str(tmp_path / "connections")}
    asks = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    subprocess.run([sys.executable, "-c", asks], env=variables, check=True)
    assert "socket.connect ('127.0.0.1', 9)" in (tmp_path / "connections").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_the_screens_bear_the_content_policy(server: Server, browser: Any) -> None:
    """A walk over every screen; the walk from a file to a bundle sees charts, uploads and downloads too."""
    walker = Walker(browser, server.address)
    walker.open()
    walker.press("Open the demo table")
    walker.see("Upload a table")
    for label, heading in {
        "2 Describe": "Describe the table",
        "3 Budget": "Choose a privacy budget",
        "Rehearse (optional)": "Rehearse",
        "4 Generate": "Generate rows",
        "Compare": "Compare runs",
        "Ledger": "Ledger",
        "Admin": "Admin",
    }.items():
        walker.visit(label, heading)
    with walker.page.expect_download() as download:
        walker.press("Download the public key")
    assert Path(download.value.path()).read_bytes().startswith(b"-----BEGIN PUBLIC KEY")
    assert walker.refused == []
    # The list can fill: what the policy forbids is noted.
    with walker.page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        walker.page.evaluate(
            "() => { const s = document.createElement('script'); s.text = '1'; document.body.append(s); }"
        )
    assert len(walker.refused) == 1
    walker.close()
