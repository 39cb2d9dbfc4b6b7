"""Zip files written in one way only, and read so that every byte is accounted for.

A zip leaves much room for what nobody sees: bytes before, between and after its members, comments, extra fields, times.
Whatever is not what :func:`new_entry` and ``zipfile`` write together is refused; how a member is deflated is left open,
since that changes with the library.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any, BinaryIO, cast

from synth.errors import VerificationError

__all__ = ["MEMBER_LIMIT", "ExactZip", "new_entry"]

MEMBER_LIMIT = 2**31
"""From this many bytes on a member is written with a long header."""

_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MOST_MEMBERS = 2**17
_BLOCK = 1 << 20
_LOCAL, _CENTRAL, _END = 30, 46, 22
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


def new_entry(name: str, *, attributes: int) -> zipfile.ZipInfo:
    """Return the header of a member: deflated, made in 1980, on Unix.

    Parameters
    ----------
    name : str
        ASCII.
    attributes : int
        Type and permissions of the file.
    """
    entry = zipfile.ZipInfo(name, date_time=_FIXED_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX
    entry.external_attr = attributes << 16
    return entry


class ExactZip:
    """A zip whose directory has been read; nothing in it is believed before :meth:`require_exact`.

    Parameters
    ----------
    stream : BinaryIO
        The whole file; it can seek.
    name : str
        What the file is called in messages.
    attributes : int
        What :func:`new_entry` was given for every member.

    Raises
    ------
    VerificationError
        If it is no zip.
    """

    def __init__(self, stream: BinaryIO, *, name: str, attributes: int) -> None:
        self._stream, self._name, self._attributes = stream, name, attributes
        try:
            self._archive = zipfile.ZipFile(stream)
            self.entries = self._archive.infolist()
        except _UNREADABLE:
            raise VerificationError(f"{name} is damaged: it is neither a bundle (a zip) nor a part of one.") from None
        if len(self.entries) > _MOST_MEMBERS:
            raise VerificationError(f"{name} claims {len(self.entries):,} members.")
        self._by_name = {entry.filename: entry for entry in self.entries}

    def size(self, name: str) -> int:
        """Return the length of a member in bytes, as it is claimed."""
        return self._by_name[name].file_size

    def open(self, name: str) -> BinaryIO:
        """Open a member; damage, and anything after its end, is a VerificationError."""
        return cast(BinaryIO, io.BufferedReader(_Member(self._stream, self._by_name[name])))

    def require_exact(self) -> None:
        """Refuse a zip with a byte that is neither a member's nor the one way to point at it.

        Raises
        ------
        VerificationError
            If members do not follow one another from the first byte, or the directory does not end the file.
        """
        try:
            exact = self._is_exact()
        except _UNREADABLE:
            exact = False
        if not exact:
            raise VerificationError(
                f"{self._name} holds bytes that belong to no file in it, or was packed by another program: only what "
                "was sealed may be in it. An unpacked folder can be checked instead of a zip that was packed anew."
            )

    def _is_exact(self) -> bool:
        place, directory = 0, b""
        for entry in self.entries:
            plain = new_entry(entry.filename, attributes=self._attributes)
            plain.CRC, plain.compress_size, plain.file_size = entry.CRC, entry.compress_size, entry.file_size
            plain.header_offset = place
            head = self._bytes(place, _LOCAL + len(entry.filename))
            long = head[28:30] != b"\0\0"
            written = plain.FileHeader(zip64=long)
            if entry.header_offset != place or self._bytes(place, len(written)) != written:
                return False
            place += len(written) + entry.compress_size
            directory += _central(plain)
        directory += _end(place, len(directory), len(self.entries))
        self._stream.seek(0, io.SEEK_END)
        return self._stream.tell() == place + len(directory) and self._bytes(place, len(directory)) == directory

    def _bytes(self, start: int, length: int) -> bytes:
        self._stream.seek(start)
        return self._stream.read(length)


def _central(entry: zipfile.ZipInfo) -> bytes:
    """Return an entry of the directory, as ``zipfile`` writes it."""
    limit = zipfile.ZIP64_LIMIT
    sizes, offset, far = [entry.compress_size, entry.file_size], entry.header_offset, []
    if max(sizes) > limit:
        far, sizes = [entry.file_size, entry.compress_size], [0xFFFFFFFF] * 2
    if offset > limit:
        far, offset = [*far, offset], 0xFFFFFFFF
    extra = struct.pack(f"<HH{len(far)}Q", 1, 8 * len(far), *far) if far else b""
    version = max(45 if far else 20, entry.extract_version)
    name = entry.filename.encode("ascii")
    day, clock = (1980 - 1980) << 9 | 1 << 5 | 1, 0
    head = struct.pack(
        "<4s4B4H3L5H2L",
        *(b"PK\1\2", version, entry.create_system, version, 0, 0, entry.compress_type, clock, day),
        *(entry.CRC, *sizes, len(name), len(extra), 0, 0, 0, entry.external_attr, offset),
    )
    return head + name + extra


def _end(start: int, size: int, count: int) -> bytes:
    """Return what follows the directory: no comment, and the long form where the short one does not reach."""
    limit = zipfile.ZIP64_LIMIT
    long = b""
    if count > 0xFFFF or start > limit or size > limit:
        long = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
        long += struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1)
        count, size, start = min(count, 0xFFFF), min(size, 0xFFFFFFFF), min(start, 0xFFFFFFFF)
    return long + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, start, 0)


class _Member(io.RawIOBase):
    """A deflated member, read to its last byte and not beyond."""

    def __init__(self, stream: BinaryIO, entry: zipfile.ZipInfo) -> None:
        super().__init__()
        self._stream, self._entry = stream, entry
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        self._left, self._crc, self._length = entry.compress_size, 0, 0
        stream.seek(entry.header_offset)
        head = stream.read(_LOCAL)
        if len(head) < _LOCAL or head[:4] != b"PK\3\4" or entry.compress_type != zipfile.ZIP_DEFLATED:
            raise self._damaged()
        self._place = entry.header_offset + _LOCAL + sum(struct.unpack("<HH", head[26:30]))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._next(len(buffer))
        except zlib.error:
            raise self._damaged() from None
        buffer[: len(block)] = block
        self._crc = zlib.crc32(block, self._crc)
        self._length += len(block)
        if self._length > self._entry.file_size or (not block and not self._is_whole()):
            raise self._damaged()
        return len(block)

    def _next(self, size: int) -> bytes:
        while not self._inflate.eof:
            held = self._inflate.unconsumed_tail
            if not held:
                self._stream.seek(self._place)
                held = self._stream.read(min(_BLOCK, self._left))
                self._place += len(held)
                self._left -= len(held)
            block = self._inflate.decompress(held, size)
            if block:
                return block
            if not held:
                break
        return b""

    def _is_whole(self) -> bool:
        ended = self._inflate.eof and not self._inflate.unused_data and self._left == 0
        return ended and (self._crc, self._length) == (self._entry.CRC, self._entry.file_size)

    def _damaged(self) -> VerificationError:
        return VerificationError(f"{self._entry.filename} is damaged in the zip.")
