"""Uploads on their way from a browser to a screen, unencrypted only in the piece that is being read.

Streamlit writes an upload of more than 1 MiB to an unencrypted temporary file, and keeps all of it in memory for as
long as the session lasts. So it never sees one: :class:`EncryptedUploads` sits before it, encrypts the bytes while
they arrive (:mod:`synth.vault.incoming`), and hands a ticket on in their place. Streamlit decides as before whether the
upload is this page's and belongs to a living session; a screen exchanges the ticket for a stream.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synth.errors import InputError
from synth.system.settings import Settings
from synth.vault.incoming import Arrival, Incoming, NoPlaceError

UPLOAD_PATH = re.compile(r"(?:/.*)?/_stcore/upload_file/([^/]+)/([^/]+)")

_PIECE = 2**18
_MOST_HEADER_BYTES = 2**13
_ACCEPTED = 204
_BROKEN = "The upload is damaged or cut short. Choose the file again."

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote what was sent

_one = threading.Lock()


def incoming() -> Incoming:
    """Return the uploads that wait in this process, for the installation that the environment names."""
    return _incoming(Settings.from_environment().home)


@functools.cache
def _incoming(home: Path) -> Incoming:
    return Incoming(home / "incoming")


def ticket_of(uploaded: Any) -> bytes:
    """Return the ticket in what Streamlit's uploader returned."""
    uploaded.seek(0)
    ticket: bytes = uploaded.read()
    return ticket


def stream_of(uploaded: Any) -> BinaryIO:
    """Exchange what an uploader of Streamlit returned for the file itself, decrypted piece by piece.

    The file is kept until the stream is closed.

    Raises
    ------
    InputError
        If it is not kept any more, or could not be stored.
    """
    return incoming().claim(ticket_of(uploaded))


@contextmanager
def whole_stream(uploaded: Any, *, most: int) -> Iterator[BinaryIO]:
    """Give an upload that has to be held whole in memory, here or in a process that checks it: one of all at a time.

    Parameters
    ----------
    uploaded : UploadedFile
        What an uploader of Streamlit returned.
    most : int
        Largest size in bytes.

    Raises
    ------
    InputError
        If it is larger, is not kept any more, or could not be stored.
    """
    with _one, stream_of(uploaded) as stream:
        if stream.seek(0, os.SEEK_END) > most:
            raise InputError(too_large(most))
        stream.seek(0)
        yield stream


class EncryptedUploads:
    """ASGI middleware: uploads are encrypted while they arrive, and the application behind it gets tickets.

    Parameters
    ----------
    app : ASGI application
        Checks whether the request may be sent at all before it asks for the body; what it does not accept is
        forgotten.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; of an upload, with a ticket as its content."""
        place = UPLOAD_PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if place is None or scope["method"] not in {"PUT", "DELETE"}:
            await self._app(scope, receive, send)
            return
        session, file_id = place.groups()
        if scope["method"] == "DELETE":

            def taken_back(status: int) -> None:
                if status == _ACCEPTED:
                    incoming().forget(session, file_id)

            await self._app(scope, receive, _telling(send, taken_back))
            return
        upload = _Upload(scope, receive, session, file_id)
        try:
            await self._app(upload.scope, upload.receive, _telling(send, upload.decide))
        finally:
            upload.forget_unless_accepted()  # an answer that never came accepts nothing


def _telling(send: Send, decide: Callable[[int], None]) -> Send:
    """Report the status of an answer before it is sent, so that anyone who has read it finds what it says."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            decide(message["status"])
        await send(message)

    return told


class _Upload:
    """One upload: its request as the application sees it, and its body, taken in when the application asks for it."""

    def __init__(self, scope: Scope, receive: Receive, session: str, file_id: str) -> None:
        self._receive, self._session, self._file_id = receive, session, file_id
        self._boundary = f"ticket-{uuid4().hex}".encode()
        given = [(name, value) for name, value in scope["headers"] if name not in {b"content-type", b"content-length"}]
        self._headers = dict(scope["headers"])
        kind = b"multipart/form-data; boundary=" + self._boundary
        self.scope = {**scope, "headers": [*given, (b"content-type", kind)]}
        self._began = self._accepted = False

    def decide(self, status: int) -> None:
        """Keep what was taken in only where the application accepts it."""
        self._accepted = status == _ACCEPTED
        self.forget_unless_accepted()

    def forget_unless_accepted(self) -> None:
        """Forget the upload, if it began and was not accepted."""
        if self._began and not self._accepted:
            incoming().forget(self._session, self._file_id)

    async def receive(self) -> Message:
        """Return the small body at the first call; what the connection says afterwards."""
        if self._began:
            return await self._receive()
        return {"type": "http.request", "body": await self._take_in(), "more_body": False}

    async def _take_in(self) -> bytes:
        most = Settings.from_environment().maximum_upload_bytes
        kind, options = parse_options_header(self._headers.get(b"content-type"))
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise HTTPException(400, _BROKEN)
        length = self._headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise HTTPException(400, _BROKEN)
        if int(length) > most + 2 * _MOST_HEADER_BYTES:
            raise HTTPException(413, too_large(most))
        try:
            arrival = await run_in_threadpool(incoming().arrive, self._session, self._file_id)
        except NoPlaceError as error:
            raise HTTPException(429, str(error)) from None
        self._began = True
        try:
            part = _Part(options[b"boundary"])
            await self._copy(part, arrival, most)
            ticket = await run_in_threadpool(arrival.finish)
        except MultipartParseError:
            raise HTTPException(400, _BROKEN) from None
        return b"".join(
            (b"--", self._boundary, b"\r\n", part.head, b"\r\n", ticket, b"\r\n--", self._boundary, b"--\r\n")
        )

    async def _copy(self, part: _Part, arrival: Arrival, most: int) -> None:
        more, seen, framing = True, 0, 0
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise HTTPException(400, _BROKEN)
            body, more = message.get("body", b""), message.get("more_body", False)
            before = len(part.held)
            part.feed(body)
            arrived = len(part.held) - before
            seen, framing = seen + arrived, framing + len(body) - arrived
            if seen > most:
                raise HTTPException(413, too_large(most))
            if framing > 2 * _MOST_HEADER_BYTES:
                raise HTTPException(400, _BROKEN)
            if part.held and (len(part.held) >= _PIECE or not more):
                await run_in_threadpool(arrival.write, bytes(part.held))
                part.held.clear()
        if not part.is_complete:
            raise HTTPException(400, _BROKEN)


class _Part:
    """The one file of a multipart body, as it is parsed."""

    def __init__(self, boundary: bytes) -> None:
        self.held = bytearray()
        self.is_complete = False
        self._line = bytearray()
        self._parts = 0
        self._headers: list[bytes] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_begin": self._line.clear,
                "on_header_field": lambda data, start, end: self._line.extend(data[start:end]),
                "on_header_value": self._value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._check,
                "on_part_data": lambda data, start, end: self.held.extend(data[start:end]),
                "on_end": self._end,
            },
            max_header_size=_MOST_HEADER_BYTES,
        )
        self._in_value = False

    @property
    def head(self) -> bytes:
        """The lines of the part's header as they came, with the file's name."""
        return b"".join(line + b"\r\n" for line in self._headers)

    def feed(self, data: bytes) -> None:
        if data:
            self._parser.write(data)

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > 1:
            raise MultipartParseError("one file at a time")

    def _value(self, data: bytes, start: int, end: int) -> None:
        if not self._in_value:
            self._line += b": "
            self._in_value = True
        self._line += data[start:end]

    def _end_header(self) -> None:
        self._headers.append(bytes(self._line))
        self._in_value = False

    def _check(self) -> None:
        values = [
            line.partition(b": ")[2] for line in self._headers if line.lower().startswith(b"content-disposition:")
        ]
        if len(values) != 1 or b"filename" not in parse_options_header(values[0])[1]:
            raise MultipartParseError("no file")

    def _end(self) -> None:
        self.is_complete = True


def too_large(most: int) -> str:
    """Return what is said of a file over a limit in bytes."""
    return f"The file is larger than the {most / 2**20:,.0f} MB accepted here."
