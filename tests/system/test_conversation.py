"""What a confined process that reads a file is sent of it."""

from __future__ import annotations

import io

import pytest

from synth.system.conversation import send_range


def test_ranges_beyond_the_file_are_not_sent() -> None:
    def asked(start: int, length: int) -> bytes:
        return start.to_bytes(8, "little") + length.to_bytes(8, "little")

    sent = io.BytesIO()
    with pytest.raises(ValueError):  # noqa: PT011  # whatever it says, the caller says that the file is damaged
        send_range(sent, io.BytesIO(b"0123"), 4, asked(2, 3))
    with pytest.raises(EOFError):
        send_range(sent, io.BytesIO(b"01"), 4, asked(0, 4))
    assert sent.getvalue() == b"01"
