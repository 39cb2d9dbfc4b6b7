"""The reader of databases in the process of a test, where bugs can be planted in it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from synth.reading.more import database
from synth.schema.source import DatabaseSource
from synth.services import databases
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

__all__ = ["asks_for_password", "file_read_here"]


class _Heard(io.BytesIO):
    """What the reading process has answered."""

    def hear(self) -> tuple[bytes, bytes]:
        return read_frame(self)


def file_read_here(source: DatabaseSource, limits: ReaderLimits | None = None) -> io.BytesIO:
    """Stand in for :func:`synth.services.databases.rows_of`: the same request, the same file or sentence."""
    answers, file = _Heard(), io.BytesIO()
    database.serve(source, None, limits or ReaderLimits(), answers, only_names=False)
    answers.seek(0)
    while (piece := databases._piece(answers, source)) is not None:  # type: ignore[arg-type]
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
