"""Signing in for a test: a real provider of OpenID Connect, a server that asks it, and browsers of several people."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from printed import blocks
from serving import ROOT, Server, started_server
from walking import Walker

from synth.services.access import local_user

__all__ = ["ADMIN", "APPROVER", "AUDITOR", "OWNER", "Institution", "command", "free_port", "provider", "signed_in"]

OWNER, APPROVER, AUDITOR, ADMIN = (f"{name}@example.org" for name in ("anna", "ben", "carla", "dan"))
ROLES = {OWNER: "owner", APPROVER: "approver,owner", AUDITOR: "auditor", ADMIN: "admin"}
NOBODY = "eve@example.org"
"""Has an account with the provider, and no role."""

UNVERIFIED = "mallory"
"""Says that her address is the administrator's, which her provider has not verified."""

CLAIMS: tuple[dict[str, object], ...] = (
    *({"sub": name, "email": name, "email_verified": True} for name in (*ROLES, NOBODY)),
    {"sub": UNVERIFIED, "email": ADMIN, "email_verified": False},
    {"sub": "silent", "email": ADMIN},
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def provider(port: int, log: Path, *, seconds: int = 3600, claims: Sequence[Mapping[str, object]] = CLAIMS) -> Any:
    """Run a provider whose word for who somebody is is good for so many seconds."""
    options = ["--port", str(port), "--token-max-age", str(seconds)]
    options += [part for one in claims for part in ("--user-claims", json.dumps(one))]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", *options],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        for _ in range(1200):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/jwks", timeout=5):
                break
            time.sleep(0.25)
        yield
    finally:
        process.terminate()
        process.wait(timeout=600)


def secrets(folder: Path, *, provider: int, port: int) -> Path:
    """Write the secrets.toml of the docs, with the addresses of this test."""
    (text,) = blocks("docs/deploying.md", "toml")
    for old, new in (
        ("https://synth.example.org/oauth2callback", f"http://127.0.0.1:{port}/oauth2callback"),
        ("https://login.example.org/", f"http://127.0.0.1:{provider}/"),
        ("64 CHARACTERS FROM: openssl rand -hex 32", "0123456789abcdef" * 4),
    ):
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "secrets.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def command(server: Server, *words: str, rc: int = 0) -> str:
    """Type a command of an administrator at the machine; return what it says."""
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    environment["HERMITAGE_HOME"] = str(server.home)
    done = subprocess.run(
        [sys.executable, "-m", "synth", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Institution:
    """A server with a login, and where its provider is to be found."""

    server: Server
    provider: int
    log: Path


@contextmanager
def institution(folder: Path, *, roles: Mapping[str, str] = ROLES, **variables: str) -> Iterator[Institution]:
    """Start a server with a login, and give people their roles; the provider is not started."""
    asked, port = free_port(), free_port()
    file = secrets(folder, provider=asked, port=port)
    options = ("--secrets.files", str(file))
    login = {"HERMITAGE_LOGIN": "oidc", **variables}
    with started_server(folder, *options, variables=login, port=port) as server:
        for name, given in {**roles, local_user(): "admin,auditor"}.items():
            command(server, "user", name, "--roles", given)
        yield Institution(server, asked, folder / "provider.log")


def signed_in(browser: Any, place: Institution, name: str, **more: Any) -> Walker:
    """Open a browser of somebody's own, and sign in as its user does."""
    walker = Walker(browser, place.server.address, **more)
    walker.page.goto(place.server.address)
    walker.page.get_by_role("button", name="Sign in", exact=True).wait_for()
    sign_in(walker, name)
    return walker


def sign_in(walker: Walker, name: str) -> None:
    """Press the button, and choose oneself at the provider."""
    walker.settle()  # a page that is still being drawn may lose a click
    walker.press("Sign in")
    walker.page.get_by_role("button", name=name, exact=True).click()
    walker.page.wait_for_url(f"{walker.address}/**")
    walker.page.get_by_role("heading", level=1).first.wait_for()
    walker.settle()
