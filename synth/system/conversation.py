"""The exchange between the program and a confined process that reads a file for it: frames, and bytes of the file.

The process reads untrusted bytes, so its output is not trusted: kinds, lengths and ranges are checked.
"""

from __future__ import annotations

import io
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from synth.system.confined import CHUNK, Confined

__all__ = ["AskedRanges", "Conversation", "Readable", "read_frame", "send_range", "write_frame"]

_HEAD = struct.Struct("<cQ")
MAXIMUM_FRAME = 2**31

_QUESTION, _RANGE = b"Q", b"R"
"""Kinds of frames: the request, and a range of the file that the process needs; answers have other letters."""


class Readable(Protocol):
    """Anything from which bytes can be read."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        ...


def write_frame(target: BinaryIO, kind: bytes, *parts: bytes | memoryview) -> None:
    """Send one frame, with its kind in one byte and its parts in order."""
    _write_all(target, _HEAD.pack(kind, sum(len(part) for part in parts)))
    for part in parts:
        _write_all(target, part)
    target.flush()


def read_frame(source: Readable) -> tuple[bytes, bytes]:
    """Receive one frame, and return its kind and its content.

    Raises
    ------
    EOFError
        If the other side ended before a complete frame, or announced one that is too long.
    """
    kind, length = _HEAD.unpack(_read_exactly(source, _HEAD.size))
    if length > MAXIMUM_FRAME:
        raise EOFError
    return kind, _read_exactly(source, length)


def _write_all(target: BinaryIO, data: bytes | memoryview) -> None:
    """Write all bytes, also to pipes that take fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[target.write(view) :]


def _read_exactly(source: Readable, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0:
        piece = source.read(size)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# The program ---------------------------------------------------------------------------------------------------


class Conversation:
    """A request to a confined process about a file, which is sent to it whole or by ranges, and the answers.

    At the end of the block the process is killed. If reading the file failed, that error is raised then: it is the true
    cause of whatever the process reported.

    Parameters
    ----------
    process : Confined
        The process.
    stream : binary file
        The file.
    size : int, optional
        Its length, if the process asks for ranges; otherwise the whole file follows the request.
    """

    def __init__(self, process: Confined, stream: BinaryIO, *, size: int | None) -> None:
        self._process = process
        self._stream = stream
        self._size = size
        self._stopped = False
        self._failure: Exception | None = None
        # Reading answers never waits for sending the file.
        self._feeder = threading.Thread(target=self._feed, name="file-feeder", daemon=True)

    def ask(self, question: bytes) -> None:
        """Send the request, and start to send the file."""
        write_frame(self._process.questions, _QUESTION, question)
        if self._size is None:
            self._feeder.start()

    def hear(self) -> tuple[bytes, bytes]:
        """Return the next answer of the process; send the ranges that it asks for before.

        Raises
        ------
        TimeoutError, EOFError, ValueError, BrokenPipeError
            If it ran out of time, ended, or asked for a range outside the file.
        """
        while True:
            kind, body = read_frame(self._process)
            if kind != _RANGE:
                return kind, body
            send_range(self._process.questions, self._stream, self._size or 0, body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._stopped = True
        if self._feeder.ident is not None:
            self._feeder.join()
        if self._failure is not None:
            raise self._failure

    def _feed(self) -> None:
        try:
            while not self._stopped and (data := self._stream.read(CHUNK)):
                if not self._give(data):
                    return
        except Exception as error:
            self._failure = error
        with suppress(BrokenPipeError):
            self._process.questions.close()

    def _give(self, data: bytes) -> bool:
        try:
            _write_all(self._process.questions, data)
        except (BrokenPipeError, ValueError):
            return False  # the process has finished
        return True


def send_range(questions: BinaryIO, stream: BinaryIO, size: int, body: bytes) -> None:
    """Send the range of a file of ``size`` bytes for which a frame asks.

    Raises
    ------
    ValueError, EOFError
        If the file has no such range, or is shorter than ``size``.
    """
    start, length = int.from_bytes(body[:8], "little"), int.from_bytes(body[8:], "little")
    if start + length > size:
        raise ValueError
    stream.seek(start)
    while length > 0:
        data = stream.read(min(length, CHUNK))
        if not data:
            raise EOFError
        length -= len(data)
        _write_all(questions, data)


# The process ---------------------------------------------------------------------------------------------------


class AskedRanges(io.RawIOBase):
    """A file of ``size`` bytes whose ranges the program sends on demand; it is never in memory as a whole.

    Where the program serves several files as one, this one begins at ``start`` of it.
    """

    def __init__(self, questions: BinaryIO, answers: BinaryIO, size: int, *, start: int = 0) -> None:
        super().__init__()
        self._questions = questions
        self._answers = answers
        self._size = size
        self._start = start
        self._place = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        """Return the position."""
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end."""
        left = max(0, self._size - self._place)
        wanted = left if size < 0 else min(size, left)
        if wanted == 0:
            return b""
        start = self._start + self._place
        write_frame(self._answers, _RANGE, start.to_bytes(8, "little"), wanted.to_bytes(8, "little"))
        data = _read_exactly(self._questions, wanted)
        self._place += wanted
        return data
