"""A canary in a column of every type, from the upload to the bundle and through forced errors: it sings nowhere."""

from __future__ import annotations

import io
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import Server
from walking import CODEBOOK, Walker, small_table, walk_to_bundle

pytestmark = pytest.mark.browser

CANARIES = {
    "person": "NHS-999-123-canary",
    "age": "48151623.42",
    "income": "86753090017",
    "region": "Canarywharf-undeclared",
    "visited": "1871-03-19",
    "smoker": "maybecanary",
    "remark": "free text with a canary7Q inside",
}
SONGS = [value.encode() for value in CANARIES.values()]


def test_no_canary_leaves_the_encrypted_store(server: Server, browser: Any, tmp_path: Path) -> None:
    table = small_table(tmp_path, "canaries.csv", first=CANARIES)
    codebook = tmp_path / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account="canary-survey"), encoding="utf-8")

    broken = Walker(browser, server.address)
    force_errors(broken, tmp_path)
    force_a_failed_run(broken, server, table, codebook)
    malformed = Walker(browser, server.address)
    take_in_malformed_lines(malformed, tmp_path)
    walker = Walker(browser, server.address)
    bundle = walk_to_bundle(walker, table, codebook, "canary-survey", tmp_path / "bundle.zip")
    walker.visit("Ledger", "Ledger")

    found = [
        f"{place}: {song.decode()}" for place, body in everything(server, bundle) for song in SONGS if song in body
    ]
    for name, heard in (("walker", walker.received), ("broken", broken.received), ("malformed", malformed.received)):
        together = b"\n".join(heard)
        found += [f"frames of {name}: {song.decode()}" for song in SONGS if song in together]
    assert found == []
    for one in (walker, broken, malformed):
        one.close()


def force_errors(walker: Walker, folder: Path) -> None:
    """Upload what cannot be read, with a canary at the place of every error."""
    line = ",".join(f'"{value}"' for value in CANARIES.values())
    header = ",".join(CANARIES)
    broken = {
        # No row refuses a table, so the canaries stand where refusals come from: in what is taken for the header.
        "headerless.csv": f"{line}\n{line}\n".encode(),
        "repeated.csv": f"{line},{line}\n{line},{line}\n".encode(),
        "latin.csv": f"{header},é{line}\n{line}\n".encode("latin-1"),
        "quotes.csv": f'{header},"{line.replace(chr(34), "")}\n{line}\n'.encode(),
        "nonsense.parquet": b"PAR1" + line.encode() + b"PAR1",
        "cut.csv.gz": b"\x1f\x8b\x08\x00" + line.encode(),
    }
    walker.open("upload")
    walker.choose("No, new people")
    walker.fill("A name for these people", "broken-files")
    for name, content in broken.items():
        path = folder / name
        path.write_bytes(content)
        walker.upload(0, path)
        walker.page.get_by_test_id("stAlertContentError").first.wait_for()
        walker.settle()
        assert "Stored" not in walker.text(), name
        # The sentence is shown once; it is gone when the page runs again.
        walker.fill("A name for these people", f"broken-files {name}")
        assert walker.page.get_by_test_id("stAlertContentError").count() == 0, name


def take_in_malformed_lines(walker: Walker, folder: Path) -> None:
    """Upload tables of rows whose every cell is malformed, canaries among them: no line refuses a table."""
    line = ",".join(f'"{value}"' for value in CANARIES.values())
    header = ",".join(CANARIES)
    malformed = {
        "ragged.csv": f"{header}\n{line}\n{line},{line}\n".encode(),
        "latin.csv": f"{header}\n{line}é\n".encode("latin-1"),
        "quotes.csv": f'{header}\n"{line.replace(chr(34), "")}\n'.encode(),
    }
    for name, content in malformed.items():
        walker.open("upload")
        walker.choose("No, new people")
        walker.fill("A name for these people", f"malformed {name}")
        path = folder / name
        path.write_bytes(content)
        walker.upload(0, path)
        walker.page.get_by_text("Stored, encrypted.").wait_for()
        walker.settle()


def force_a_failed_run(walker: Walker, server: Server, table: Path, codebook: Path) -> None:
    """Damage the encrypted table when the worker has begun, which tries made-up rows out first, so that it fails."""
    walker.upload(1, codebook)
    walker.page.get_by_text("The description has been filled in from the file.").wait_for()
    walker.upload(0, table)
    walker.page.get_by_text("Stored, encrypted.").wait_for()
    for label, heading in (("2 Describe", "Describe the table"), ("3 Budget", "Choose a privacy budget")):
        walker.press(f"Continue to {label}")
        walker.see(heading)
    walker.press("Continue to 4 Generate")
    walker.see("Generate rows")
    newest = max((server.home / "vault").glob("*.table"), key=lambda path: path.stat().st_mtime_ns)
    body = bytearray(newest.read_bytes())
    body[len(body) // 2] ^= 1
    walker.press("Spend 2.00 and generate")
    walker.page.get_by_role("dialog").get_by_role("button", name="Spend 2.00 and generate").click()
    while not any(map(_is_worker, psutil.Process(server.pid).children())):
        time.sleep(0.02)
    newest.write_bytes(body)
    walker.page.get_by_text("stays spent").first.wait_for()
    walker.page.get_by_test_id("stAlertContentError").first.wait_for()


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "synth.worker" in process.cmdline()
    except psutil.Error:
        return False


def everything(server: Server, bundle: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every byte outside the browser that the server wrote, by place; archives are opened."""
    yield "server log", server.log.read_bytes()
    for folder in (server.home, server.temporary):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield str(path.relative_to(folder)), path.read_bytes()
                if path.suffix == ".zip":
                    yield from opened(path)
    yield from opened(bundle)
    database = server.home / "hermitage.sqlite"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        yield "database as text", "\n".join(connection.iterdump()).encode()


def opened(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        for name in archive.namelist():
            yield f"{path.name}/{name}", archive.read(name)


def test_the_search_finds_a_canary_that_is_there(server: Server, tmp_path: Path) -> None:
    planted = server.temporary / "planted.txt"
    planted.write_bytes(b"before " + SONGS[0] + b" after")
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("inside.txt", SONGS[1] * 3)
    try:
        places = [place for place, body in everything(server, archive) if any(song in body for song in SONGS)]
        assert "planted.txt" in places
        assert "bundle.zip/inside.txt" in places
    finally:
        planted.unlink()
