"""The reader in the process of a test, where bugs can be planted in it; the program reads in a process of its own."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from json import loads
from typing import Any, BinaryIO

import pytest

from synth.reading.more.texts import answer_with_texts
from synth.reading.process import serve
from synth.reading.request import Request, error_named
from synth.services.first_reading import answer_with_losses
from synth.services.inspection import describe
from synth.system.conversation import read_frame

__all__ = ["read_all_here", "read_here"]


ANSWERS = {
    (): None,
    ("synth.reading.more.texts",): answer_with_texts,
    ("synth.services.first_reading",): answer_with_losses,
    ("synth.services.inspection",): describe,
}
"""What each parsing process answers, by what it is started as."""


def read_here(
    stream: BinaryIO,
    request: Request,
    on_batch: Callable[[bytes], None],
    *,
    parser: Sequence[str] = (),
    beat: Callable[[], None] | None = None,
) -> Any:
    """Stand in for :func:`synth.reading.reader.ask`: the same bytes in, the same frames out."""
    answers = io.BytesIO()
    serve(Request.from_bytes(request.to_bytes()), stream, answers, ANSWERS[tuple(parser)])
    answers.seek(0)
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            raise error_named(loads(body)["type"], loads(body)["text"])
        if kind == b"Z":
            return loads(body)
        on_batch(body)


def read_all_here(patch: pytest.MonkeyPatch) -> None:
    """Read in this process whatever reads."""
    for asker in ("synth.reading.reader.ask", "synth.reading.more.texts.ask", "synth.services.first_reading.ask"):
        patch.setattr(asker, read_here)
