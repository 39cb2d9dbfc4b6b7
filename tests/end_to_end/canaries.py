"""Cells that no declaration holds, and the look for them in everything that a server wrote."""

from __future__ import annotations

import io
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from serving import Server

__all__ = ["CANARIES", "SONGS", "everything", "heard", "sung"]

CANARIES = {
    "person": "NHS-999-123-canary",
    "age": "48151623.42",
    "income": "86753090017",
    "region": "Canarywharf-undeclared",
    "visited": "1871-03-19",
    "smoker": "maybecanary",
    "remark": "free text with a canary7Q inside",
}
"""A cell of every type of column that its declaration does not hold."""
SONGS = [value.encode() for value in CANARIES.values()]


def sung(server: Server, bundle: Path, songs: Iterable[bytes] = SONGS) -> list[str]:
    """Return where one of the cells stands in clear."""
    return [f"{place}: {song.decode()}" for place, body in everything(server, bundle) for song in songs if song in body]


def heard(frames: Iterable[bytes], songs: Iterable[bytes] = SONGS) -> list[str]:
    """Return which of the cells a browser was sent."""
    together = b"\n".join(frames)
    return [song.decode() for song in songs if song in together]


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
