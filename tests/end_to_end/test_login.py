"""Signing in with a real provider of OpenID Connect: who gets in, what is open before, and when it ends."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from serving import ROOT, starting
from signing_in import (
    ADMIN,
    APPROVER,
    NOBODY,
    OWNER,
    UNVERIFIED,
    Institution,
    institution,
    provider,
    sign_in,
    signed_in,
)
from walking import Walker

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

DEMO = "Open a table that is too small"
PEOPLE = "patients of one clinic"
BEHIND = (b"Upload a table", b"Ledger", b"Incidents")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institution]:
    with institution(tmp_path_factory.mktemp("institution")) as started:
        yield started


@pytest.fixture
def asked(place: Institution) -> Iterator[None]:
    """The provider answers, and its word is good for an hour."""
    with provider(place.provider, place.log):
        yield


def answer(place: Institution, path: str, *, method: str = "GET", cookies: list[Any] | None = None) -> int:
    headers = {"Cookie": "; ".join(f"{one['name']}={one['value']}" for one in cookies or [])}
    with closing(http.client.HTTPConnection("127.0.0.1", place.server.port, timeout=300)) as line:
        line.request(method, path, headers=headers)
        return line.getresponse().status


def begun(walker: Walker) -> str:
    """Open a table and change something of its draft; return its address."""
    walker.press(DEMO)
    walker.see("Upload a table")
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")
    assert "?table=" in walker.page.url
    return str(walker.page.url).removeprefix(f"{walker.address}/")


def test_before_signing_in_there_is_the_frame_and_nothing_else(place: Institution, browser: Any) -> None:
    walker = Walker(browser, place.server.address)
    for path in ("", "upload", "admin", "ledger", "approvals", "report?run=00000000-0000-0000-0000-000000000000"):
        walker.open(path)
        walker.page.get_by_role("button", name="Sign in", exact=True).wait_for()
        assert not walker.page.get_by_test_id("stSidebarNav").count(), path
    heard = b"\n".join(walker.received)
    assert not [words for words in BEHIND if words in heard]
    assert not walker.refused
    walker.close()
    assert answer(place, "/_stcore/health") == 200
    assert answer(place, "/media/anything.zip") == 403
    assert answer(place, "/_stcore/upload_file/a/b") == 403
    assert answer(place, "/_stcore/upload_file/a/b", method="PUT") == 403
    assert answer(place, "/auth/login", method="POST") == answer(place, "/oauth2callback", method="POST") == 405
    forged = [{"name": "_streamlit_user", "value": json.dumps({"email": ADMIN, "is_logged_in": True, "exp": 2**40})}]
    assert answer(place, "/media/anything.zip", cookies=forged) == 403


@pytest.mark.usefixtures("asked")
def test_signing_in_and_out(place: Institution, browser: Any) -> None:
    walker = signed_in(browser, place, OWNER)
    page = walker.page
    assert f"You are {OWNER} (owner)." in walker.text()
    cookies = {one["name"]: one for one in walker.context.cookies()}
    held = [one for name, one in cookies.items() if name.startswith("_streamlit_user")]
    assert held
    assert all(one["httpOnly"] and one["sameSite"] == "Lax" for one in held)
    assert answer(place, "/media/anything.zip", cookies=held) == 404, "somebody who has signed in may ask"
    assert "_streamlit_user" not in page.evaluate("document.cookie")
    walker.press("Sign out")
    page.get_by_role("button", name="End session").click()  # the provider asks as well
    page.get_by_role("button", name="Sign in", exact=True).wait_for()
    assert not [one for one in walker.context.cookies() if one["name"].startswith("_streamlit_user")]
    assert not walker.refused
    walker.close()


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("name", [UNVERIFIED, "silent"])
def test_a_name_that_the_provider_has_not_verified_gets_in_nowhere(place: Institution, browser: Any, name: str) -> None:
    walker = signed_in(browser, place, name)
    for path in ("", "admin", "ledger"):
        walker.open(path)
        walker.page.get_by_text(
            "Your provider gave no name that counts here (email, which must be verified)"
        ).wait_for()
        assert not walker.page.get_by_test_id("stSidebarNav").count()
    assert not [words for words in BEHIND if words in b"\n".join(walker.received)]
    walker.close()


@pytest.mark.usefixtures("asked")
def test_without_a_role_there_is_only_start(place: Institution, browser: Any) -> None:
    walker = signed_in(browser, place, NOBODY)
    walker.see("Turn a private table into rows you can share.")
    assert f"You are signed in as {NOBODY}, and have no role here yet." in walker.text()
    for path in ("upload", "approvals", "ledger", "admin"):
        walker.open(path)
        walker.see("Turn a private table into rows you can share.")
    assert DEMO not in walker.text()
    assert not [words for words in BEHIND if words in b"\n".join(walker.received)]
    walker.close()


@pytest.mark.usefixtures("asked")
def test_two_users_at_once_see_their_own_tables_and_drafts(place: Institution, browser: Any) -> None:
    walkers = {name: signed_in(browser, place, name) for name in (OWNER, APPROVER)}
    tables = {name: begun(walker) for name, walker in walkers.items()}
    assert tables[OWNER].partition("?")[2] != tables[APPROVER].partition("?")[2]
    for name, walker in walkers.items():
        for other, address in tables.items():
            walker.open(address)
            found = walker.page.get_by_text("No table is open. Upload one, or try the demo table.").count()
            assert found == (name != other)
            assert ("table=" in walker.page.url) == (name == other)
        walker.open()
        walker.press("Continue where you left off")
        walker.see("The latest tables and runs")
        assert walker.page.get_by_role("button", name="Continue", exact=True).count() == 1
    for walker in walkers.values():
        walker.close()


def test_a_sign_in_that_has_expired_shows_nothing_and_the_draft_is_there_afterwards(
    place: Institution, browser: Any
) -> None:
    with provider(place.provider, place.log):
        walker = signed_in(browser, place, OWNER)
        address = begun(walker)
        walker.open()
        walker.press("Sign out")
        walker.page.get_by_role("button", name="End session").click()
        walker.page.get_by_role("button", name="Sign in", exact=True).wait_for()
    walker.received.clear()
    with provider(place.provider, place.log, seconds=-60):  # over already, by less than clocks may differ
        sign_in(walker, OWNER)
        walker.page.get_by_text("Your sign-in has expired.").wait_for()
        walker.open(address)
        walker.page.get_by_text("Your sign-in has expired.").wait_for()
        assert not walker.page.get_by_test_id("stSidebarNav").count()
        assert not [words for words in (*BEHIND, b"Describe the table") if words in b"\n".join(walker.received)]
        cookies = walker.context.cookies()
        assert [one["name"] for one in cookies if one["name"] == "_streamlit_user"]
        assert answer(place, "/media/anything.zip", cookies=cookies) == 403
    with provider(place.provider, place.log):
        sign_in(walker, OWNER)
        walker.see("Turn a private table into rows you can share.")
        walker.open(address)
        walker.see("Describe the table")
        assert walker.page.get_by_text("No table is open").count() == 0
    walker.close()


def test_a_server_with_a_login_that_nobody_could_use_does_not_start(tmp_path: Path) -> None:
    environment = {"HERMITAGE_HOME": str(tmp_path / "home"), "HERMITAGE_LOGIN": "oidc", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", *starting(0)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode != 0
    assert "the section [auth] of secrets.toml has no redirect_uri, cookie_secret" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
