"""The reader in the process of a test, where bugs can be planted in it; the program reads in a process of its own."""

from __future__ import annotations

import io
from collections.abc import Callable
from json import loads
from typing import Any, BinaryIO

from synth.reading.process import serve
from synth.reading.request import Request, error_named
from synth.system.conversation import read_frame

__all__ = ["read_here"]


def read_here(stream: BinaryIO, request: Request, on_batch: Callable[[bytes], None]) -> Any:
    """Stand in for :func:`synth.reading.reader.ask`: the same bytes in, the same frames out."""
    answers = io.BytesIO()
    serve(Request.from_bytes(request.to_bytes()), stream, answers)
    answers.seek(0)
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            raise error_named(loads(body)["type"], loads(body)["text"])
        if kind == b"Z":
            return loads(body)
        on_batch(body)
