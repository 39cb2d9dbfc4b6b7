"""The reader of databases in the process of a test, where bugs can be planted in it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from synth.reading.more import database
from synth.schema.source import DatabaseAccess, DatabaseSource
from synth.services import databases
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

__all__ = ["asks_for_password", "file_read_here"]


class _Heard(io.BytesIO):
    """What the reading process has answered."""

    def __init__(self, meanwhile: Callable[[], None] | None) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def write(self, data: Any, /) -> int:
        written = super().write(data)
        if self._meanwhile is not None and self.tell() > 1000:  # more than the first bytes of a file
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return written

    def hear(self) -> tuple[bytes, bytes]:
        return read_frame(self)


def file_read_here(
    source: DatabaseSource, limits: ReaderLimits | None = None, *, meanwhile: Callable[[], None] | None = None
) -> io.BytesIO:
    """Stand in for :func:`synth.services.databases.rows_of`: the same request, the same file or sentence.

    ``meanwhile`` happens once, as soon as the first piece of the file has come.
    """
    answers, file = _Heard(meanwhile), io.BytesIO()
    access = DatabaseAccess(url=str(source.url))
    database.serve(source, access, limits or ReaderLimits(), answers, only_names=False)
    answers.seek(0)
    while (piece := databases._piece(answers, source, lambda _: None)) is not None:  # type: ignore[arg-type]
        file.write(piece)
    file.seek(0)
    return file


@contextmanager
def asks_for_password(url: str, password: str) -> Iterator[str]:
    """Let the server of a test ask one name for a password; give the address of that name."""
    rules = Path(url.rpartition("=")[2]) / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS locked")
        connection.execute(f"CREATE ROLE locked LOGIN SUPERUSER PASSWORD '{password}'".encode())
        rules.write_text("local all locked scram-sha-256\n" + before)
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield url.replace("postgres@", "locked@")
        finally:
            rules.write_text(before)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP ROLE locked")
