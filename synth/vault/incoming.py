"""Uploads between their arrival and the screen that claims them: ciphertext on disk, keys in memory only.

Each upload is in a file without a name, encrypted under its own key, which only this process has. When the process
ends, for whatever reason, key and file are gone.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast
from uuid import uuid4

from synth.errors import InputError
from synth.vault.sealing import DecryptedStream, EncryptingWriter, new_key

__all__ = ["LONGEST_WAIT_SECONDS", "PLACES", "Arrival", "Incoming", "NoPlaceError"]

PLACES = 2
"""Most uploads that wait in one session; a third one replaces the oldest."""

LONGEST_WAIT_SECONDS = 3600.0
RECONNECT_SECONDS = 120.0
"""How long a session may be without its browser before its uploads are deleted; short disconnections are allowed."""

GONE = (
    f"This file is no longer available: a session keeps at most {PLACES} files, for at most an hour. Choose it again."
)
NO_PLACE = f"{PLACES} files of this session are already being uploaded. Wait for them, then choose this one again."


class NoPlaceError(InputError):
    """A session already has as many arriving files as it may."""


@dataclass(slots=True)
class _Waiting:
    ticket: str
    session: str
    file_id: str
    key: bytes
    table_id: str
    file: BinaryIO
    since: float
    seen: float
    size: int | None = None
    refusal: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Arrival:
    """One upload while its bytes arrive.

    Anything written after a disk error, or after the upload was deleted, is discarded.
    """

    def __init__(self, waiting: _Waiting) -> None:
        self._waiting = waiting
        self._writer = EncryptingWriter(waiting.file, key=waiting.key, table_id=waiting.table_id)

    def write(self, data: bytes) -> None:
        """Encrypt a piece into the file; a disk error is reported when the upload is claimed."""
        self._do(lambda: self._writer.write(data))

    def finish(self) -> bytes:
        """End the upload and return the ticket with which a screen claims it."""

        def end() -> None:
            size = self._writer.finish()
            self._waiting.file.flush()
            self._waiting.size = size

        self._do(end)
        return self._waiting.ticket.encode("ascii")

    def _do(self, step: Callable[[], None]) -> None:
        waiting = self._waiting
        with waiting.lock:
            if waiting.file.closed:
                return
            try:
                step()
            except OSError as error:
                waiting.refusal = _refusal(error)
                _close(waiting.file)


class Incoming:
    """The uploads of all sessions of this process.

    Parameters
    ----------
    directory : Path
        Whose disk has the files; they have no names in it.
    clock : callable
        Seconds, never backwards.
    """

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory, self._clock = directory, clock
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}

    def arrive(self, session: str, file_id: str) -> Arrival:
        """Begin an upload; the same file of a session starts again.

        Raises
        ------
        NoPlaceError
            If this session already has as many arriving files as it may.
        """
        self.forget(session, file_id)
        with self._lock:
            own = sorted((one for one in self._waiting.values() if one.session == session), key=lambda one: one.since)
            arrived = [one for one in own if one.size is not None or one.refusal is not None]
            if len(own) >= PLACES and not arrived:
                raise NoPlaceError(NO_PLACE)
            if len(own) >= PLACES:
                self._drop(arrived[0])
            begun = self._clock()
            file, refusal = self._new_file()
            waiting = _Waiting(
                ticket=os.urandom(16).hex(),
                session=session,
                file_id=file_id,
                key=new_key(),
                table_id=str(uuid4()),
                file=file,
                since=begun,
                seen=begun,
                refusal=refusal,
            )
            self._waiting[waiting.ticket] = waiting
        return Arrival(waiting)

    def _new_file(self) -> tuple[BinaryIO, str | None]:
        """Return a file without a name, or a closed one and the message for the claim."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return cast(BinaryIO, tempfile.TemporaryFile(dir=self._directory)), None
        except OSError as error:
            closed = io.BytesIO()
            closed.close()
            return closed, _refusal(error)

    def claim(self, ticket: bytes, *, keep: bool = False) -> BinaryIO:
        """Return the bytes of an upload as a seekable stream, decrypted in memory piece by piece.

        They are kept until the stream is closed, and cannot be claimed twice unless ``keep`` leaves them waiting.

        Raises
        ------
        InputError
            If the upload is no longer available, or could not be stored.
        """
        with self._lock:
            name = ticket.decode("ascii", errors="replace")
            waiting = self._waiting.get(name) if keep else self._waiting.pop(name, None)
            file = None if waiting is None else _again(waiting.file) if keep else waiting.file
        if waiting is None or (waiting.size is None and waiting.refusal is None):
            if waiting is not None:
                _close(waiting.file)
            raise InputError(GONE)
        if waiting.refusal is not None or waiting.size is None or file is None:
            raise InputError(waiting.refusal or GONE)
        raw = DecryptedStream(file, key=waiting.key, table_id=waiting.table_id, size=waiting.size)
        return cast(BinaryIO, io.BufferedReader(raw, buffer_size=2**17))

    def forget(self, session: str, file_id: str | None = None, *, keep: bytes | None = None) -> None:
        """Delete an upload of a session, or all of them but the one with the ticket ``keep``."""
        kept = None if keep is None else keep.decode("ascii", errors="replace")
        with self._lock:
            for one in list(self._waiting.values()):
                if one.session == session and file_id in (None, one.file_id) and one.ticket != kept:
                    self._drop(one)

    def sweep(self, is_active: Callable[[str], bool]) -> None:
        """Delete uploads that have waited too long, and those of sessions without a browser."""
        now = self._clock()
        with self._lock:
            for one in list(self._waiting.values()):
                if is_active(one.session):
                    one.seen = now
                if now - one.since > LONGEST_WAIT_SECONDS or now - one.seen > RECONNECT_SECONDS:
                    self._drop(one)

    def waiting(self, session: str) -> int:
        """Return how many uploads of a session are waiting or arriving."""
        with self._lock:
            return sum(one.session == session for one in self._waiting.values())

    def _drop(self, one: _Waiting) -> None:
        del self._waiting[one.ticket]
        with one.lock:
            _close(one.file)


def _refusal(error: OSError) -> str:
    return f"The file could not be stored ({error.strerror}). Check the disk of HERMITAGE_HOME, then choose it again."


def _again(file: BinaryIO) -> BinaryIO | None:
    """Open a file without a name a second time, so that closing it leaves the first open; None if it is closed."""
    return None if file.closed else os.fdopen(os.dup(file.fileno()), "rb", buffering=0)


def _close(file: BinaryIO) -> None:
    try:
        file.close()
    except OSError:
        return
