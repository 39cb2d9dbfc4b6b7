"""The side of the program: start the parsing process, hand it bytes, and listen within a time limit."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import IO, Any, BinaryIO

from synth.errors import InputError, TableError
from synth.reading.pipes import Readable, ReaderLimits, Request, error_named, read_frame, write_all, write_frame

__all__ = ["ask"]

CHUNK = 2**20
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT", "TZDIR")
_BROKEN_ANSWER = (EOFError, ValueError, KeyError, TypeError, BrokenPipeError)


def ask(stream: BinaryIO, request: Request, on_batch: Callable[[bytes], None] | None) -> dict[str, Any]:
    """Run the parsing process over a stream.

    Parameters
    ----------
    stream : binary file
        The bytes of the table. One that can seek serves a Parquet file by ranges.
    request : Request
        What to do with them.
    on_batch : callable, optional
        Called with the body of each batch of codes.

    Returns
    -------
    dict
        The last word of the process.

    Raises
    ------
    TableError
        If the file cannot be read, takes too long or needs too much memory; in one sentence without a cell.
    """
    form = request.format
    size = _size_of_parquet(stream) if form.header or form.kind == "parquet" else None
    process = _start()
    answers = _TimedPipe(process.stdout, request.limits.wall_seconds)
    questions = _pipe(process.stdin)
    feeder = _Feeder(stream, questions)
    try:
        write_frame(questions, b"Q", replace(request, size=size).to_bytes())
        if size is None:
            feeder.start()
        return _listen(answers, on_batch, _Ranges(stream, questions, size or 0))
    except TimeoutError:
        raise TableError(
            f"Reading the table took longer than {request.limits.wall_seconds:,.0f} seconds and was stopped. Split the "
            "table, or save it as Parquet."
        ) from None
    except _BROKEN_ANSWER:
        raise _death(process, request.limits) from None
    finally:
        process.kill()
        feeder.stop()
        process.wait()
        answers.close()
        # A stream that failed while it was read is the true reason for whatever the process said.
        if feeder.failure is not None:
            raise feeder.failure


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    # One thread and one plain memory pool keep the address space small, which is what is limited.
    variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    variables |= {"MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "synth.reading.reader"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
        bufsize=0,
    )


def _listen(answers: Readable, on_batch: Callable[[bytes], None] | None, ranges: _Ranges) -> dict[str, Any]:
    while True:
        kind, body = read_frame(answers)
        if kind == b"R":
            ranges.serve(body)
        elif kind == b"B" and on_batch is not None:
            on_batch(body)
        elif kind == b"E":
            refusal = loads(body)
            raise error_named(refusal["type"], refusal["text"])
        elif kind == b"Z":
            end: dict[str, Any] = loads(body)
            return end
        else:
            raise ValueError


class _Feeder:
    """A thread that copies the stream into the process, so that listening never waits for feeding."""

    def __init__(self, stream: BinaryIO, questions: BinaryIO) -> None:
        self.failure: Exception | None = None
        self._stream = stream
        self._questions = questions
        self._stopped = False
        self._thread = threading.Thread(target=self._feed, name="table-feeder", daemon=True)

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Stop copying and wait until it has."""
        self._stopped = True
        if self._thread.ident is not None:
            self._thread.join()
        self._close()

    def _feed(self) -> None:
        try:
            while not self._stopped and (data := self._stream.read(CHUNK)):
                if not self._give(data):
                    return
        except Exception as error:
            self.failure = error
        self._close()

    def _give(self, data: bytes) -> bool:
        try:
            write_all(self._questions, data)
        except (BrokenPipeError, ValueError):
            return False  # the process has said its last word
        return True

    def _close(self) -> None:
        try:
            self._questions.close()
        except BrokenPipeError:
            return


class _Ranges:
    """The stream as a file of which ranges can be asked for."""

    def __init__(self, stream: BinaryIO, questions: BinaryIO, size: int) -> None:
        self._stream = stream
        self._questions = questions
        self._size = size

    def serve(self, body: bytes) -> None:
        """Send the range that the process asked for."""
        start, length = int.from_bytes(body[:8], "little"), int.from_bytes(body[8:], "little")
        if start + length > self._size:
            raise ValueError
        self._stream.seek(start)
        while length > 0:
            data = self._stream.read(min(length, CHUNK))
            if not data:
                raise EOFError
            length -= len(data)
            write_all(self._questions, data)


class _TimedPipe:
    """A pipe that is read until a deadline."""

    def __init__(self, pipe: IO[bytes] | None, seconds: float) -> None:
        self._pipe = _pipe(pipe)
        self._deadline = time.monotonic() + seconds
        self._ready = select.poll()
        self._ready.register(self._pipe.fileno(), select.POLLIN)

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        left = self._deadline - time.monotonic()
        if left <= 0 or not self._ready.poll(1000 * left):
            raise TimeoutError
        return os.read(self._pipe.fileno(), min(size, CHUNK))

    def close(self) -> None:
        """Close the pipe."""
        self._pipe.close()


def _pipe(pipe: IO[bytes] | None) -> BinaryIO:
    if pipe is None:
        raise TableError("The parsing process could not be started. Try again.")
    return pipe  # type: ignore[return-value]


def _size_of_parquet(stream: BinaryIO) -> int | None:
    """Return the length of a Parquet file that can be read by ranges, else None; the stream stays at its start."""
    if not stream.seekable():
        return None
    if stream.tell() != 0:
        return None
    is_parquet = stream.read(4) == b"PAR1"
    size = stream.seek(0, os.SEEK_END) if is_parquet else None
    stream.seek(0)
    return size


def _death(process: subprocess.Popen[bytes], limits: ReaderLimits) -> InputError:
    process.kill()
    if process.wait() == -signal.SIGXCPU:
        return TableError(
            f"Reading the table took more than {limits.cpu_seconds:,} seconds of processor time and was stopped. Split "
            "the table, or save it as Parquet."
        )
    return TableError(
        "The table could not be read: the file is damaged, or needs more memory than is allowed. Save it as plain CSV "
        "and try again."
    )
