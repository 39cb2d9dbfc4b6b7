"""The reader of databases in the process of a test, where bugs can be planted in it."""

from __future__ import annotations

import io

from synth.reading.more import database
from synth.schema.source import DatabaseSource
from synth.services import databases
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

__all__ = ["file_read_here"]


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
