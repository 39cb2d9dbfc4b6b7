"""A bundle as a set of named files, in a zip or a folder: packed in one way only, and read without trusting either.

A zip has many places to hide data: bytes before, between and after its members, comments, extra fields, times.
Anything that :func:`new_entry` and ``zipfile`` together would not write is refused. How a member is deflated is left
open, since that changes with the library. JSON is written in one way too, so the same certificate is the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from synth.errors import UnknownFormatError, VerificationError
from synth.version import OLDEST_READ, __version__, is_before

__all__ = [
    "FORMAT",
    "LAST_DIGITS",
    "MEMBERS",
    "MEMBERS_OF_FINDING",
    "MEMBERS_OF_MODEL",
    "MEMBER_LIMIT",
    "Archive",
    "ExactZip",
    "canonical_json",
    "documents_agree",
    "new_entry",
    "open_archive",
    "parse_canonical",
    "require_format",
    "sha256_of",
    "signed_by_hash",
    "write_zip",
]

FORMAT = 2
"""Version of the bundle format, under ``version`` in the certificate; programs before 0.9.0 wrote 1."""

LAST_DIGITS = 1e-9
"""Relative difference up to which numbers agree: the last digits of a fit depend on the processor."""

MEMBERS = (
    "README.txt",
    "CITATION.cff",
    "certificate.json",
    "certificate.json.sig",
    "public-key.pem",
    "synthetic.csv",
    "synthetic.parquet",
    "schema.json",
    "config.yaml",
    "measurements.npz",
    "model.safetensors",
    "report.html",
    "report.json",
)
"""The files of a table's bundle, in the order in which they are packed."""

MEMBERS_OF_MODEL = tuple(
    "model.json" if name == "synthetic.csv" else name for name in MEMBERS if name != "synthetic.parquet"
)
"""The same for a model's bundle, with the model in place of the rows."""

MEMBERS_OF_FINDING = ("found.json", "found.npz")
"""Added to either where the configuration uses a finding: what was asked, its receipts and its answers."""


def signed_by_hash(members: Sequence[str]) -> tuple[str, ...]:
    """Return the files whose hashes are in the certificate: all but the three that make up the signature."""
    own = {"certificate.json", "certificate.json.sig", "public-key.pem"}
    return tuple(name for name in members if name not in own)


MEMBER_LIMIT = 2**31
"""Members of this many bytes or more are written with a long header."""

_SMALL = 64 * 2**20
_LARGE = 16 * 2**30
_ROW_FILES = ("synthetic.csv", "synthetic.parquet", "measurements.npz", "model.safetensors")
_COMPRESSED = ("synthetic.parquet", "measurements.npz", "found.npz")
_SWELLING = 20
_ATTRIBUTES = stat.S_IFREG | 0o644
_BLOCK = 1 << 20
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MOST_MEMBERS = 2**17
_LOCAL = 30
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


# A bundle, a zip or a folder -----------------------------------------------------------------------------------------


class Archive:
    """Named files; every read is bounded.

    Parameters
    ----------
    members : tuple of str
        Their names: those of a table's bundle or of a model's, then those of a finding if there is one.
    opened : callable
        Opens a file by its name.
    """

    def __init__(self, members: tuple[str, ...], opened: Callable[[str], BinaryIO]) -> None:
        self.members, self._opened = members, opened

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""
        return self._opened(name)

    def read(self, name: str) -> bytes:
        """Return a small file as bytes."""
        with self.open(name) as stream:
            return stream.read()


@contextmanager
def open_archive(path: Path | BinaryIO) -> Iterator[Archive]:
    """Open a bundle: a zip, an unpacked folder, or the bytes of a zip, which stay open.

    Raises
    ------
    VerificationError
        If it is neither; a file is missing, unknown, duplicated, too large, encrypted, or not a regular file; or the
        zip contains a byte that belongs to no file.
    UnknownFormatError
        If a version of this program made it whose bundles this one does not read.
    """
    with _opened(path) as archive:
        try:
            certificate = json.loads(archive.read("certificate.json"))
        except (ValueError, RecursionError):
            certificate = None  # reported when the certificate is read
        require_format(certificate)
        yield archive


@contextmanager
def _opened(path: Path | BinaryIO) -> Iterator[Archive]:
    if not isinstance(path, Path):
        yield _zipped(path, "The bundle")
        return
    if path.is_dir():
        yield _unpacked(path)
        return
    try:
        stream = path.open("rb")
    except OSError:
        raise VerificationError(f"{path.name} cannot be opened: it must be a bundle (a zip) or a folder.") from None
    with stream:
        yield _zipped(stream, path.name)


def require_format(certificate: object) -> None:
    """Refuse a bundle made by a version of this program whose bundles this one does not read.

    Parameters
    ----------
    certificate : object
        Untrusted JSON values. What is not a certificate at all passes here.

    Raises
    ------
    UnknownFormatError
        If this program does not read the stated format, or bundles of the stated version.
    """
    if not isinstance(certificate, dict) or type(certificate.get("version")) is not int:
        return
    number, versions = certificate["version"], certificate.get("versions")
    said = str(versions.get("hermitage")) if isinstance(versions, dict) else ""
    known = said.isascii() and len(said) <= _LONGEST_VERSION and all(map(str.isdecimal, said.split(".")))
    maker = f"version {said} of this program" if known else None
    if number > FORMAT:
        raise UnknownFormatError(
            f"The bundle was made by {maker or 'a later version of this program'}; this is version {__version__}, "
            "which cannot read it. Use that version or a later one."
        )
    if number < FORMAT or (known and is_before(said, OLDEST_READ)):
        raise UnknownFormatError(
            f"The bundle was made by {maker or 'an earlier version of this program'}; this is version {__version__}, "
            f"which reads bundles from {OLDEST_READ} on. Use the version that made it."
        )


_LONGEST_VERSION = 20
"""Most characters of a version that a message repeats."""


def _zipped(stream: BinaryIO, name: str) -> Archive:
    packed = ExactZip(stream, name=name, attributes=_ATTRIBUTES)
    members = _checked_names([entry.filename for entry in packed.entries])
    for entry in packed.entries:
        if entry.flag_bits & 0x1:
            raise VerificationError(f"{entry.filename} is encrypted, which files in a bundle never are.")
        _check_size(entry.filename, entry.file_size)
        _check_swelling(entry)
    packed.require_exact()
    return Archive(members, packed.open)


def _unpacked(folder: Path) -> Archive:
    entries = sorted(folder.iterdir())
    members = _checked_names([entry.name for entry in entries])
    for entry in entries:
        if not stat.S_ISREG(entry.lstat().st_mode):
            raise VerificationError(f"{entry.name} is not a regular file.")
        _check_size(entry.name, entry.lstat().st_size)
    return Archive(members, lambda name: (folder / name).open("rb"))


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    members = _members_among(names)
    for name in names:
        if name not in members:
            # The message does not repeat the name: it may be a misleading path.
            raise VerificationError("The bundle contains a file that does not belong in a bundle.")
    if len(set(names)) != len(names):
        raise VerificationError("The bundle contains a file twice.")
    missing = [name for name in members if name not in set(names)]
    if missing:
        raise VerificationError(f"The bundle lacks {', '.join(missing)}.")
    return members


def _members_among(names: Container[str]) -> tuple[str, ...]:
    """Return the files that a bundle with some of these names has."""
    found = MEMBERS_OF_FINDING if any(name in names for name in MEMBERS_OF_FINDING) else ()
    return (*(MEMBERS_OF_MODEL if "model.json" in names else MEMBERS), *found)


def _check_size(name: str, size: int) -> None:
    limit = _LARGE if name in _ROW_FILES else _SMALL
    if size > limit:
        raise VerificationError(f"{name} claims to have {size:,} bytes; at most {limit:,} are read.")


def _check_swelling(entry: zipfile.ZipInfo) -> None:
    # These are already compressed and are read whole: a zip that compresses them much further is a zip bomb.
    if entry.filename in _COMPRESSED and entry.file_size > max(_SMALL, _SWELLING * entry.compress_size):
        raise VerificationError(
            f"{entry.filename} unpacks to {entry.file_size:,} bytes, far more than in any honest bundle."
        )


def write_zip(path: Path, members: dict[str, bytes | Path]) -> None:
    """Pack a bundle: fixed order, fixed times, so that the same contents are the same bytes.

    Parameters
    ----------
    path : Path
        Where the zip goes; it appears complete or not at all.
    members : dict
        The bytes, or the file with the bytes, of each name in :data:`MEMBERS` or :data:`MEMBERS_OF_MODEL`.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with zipfile.ZipFile(partial, "w", allowZip64=True) as archive:
            for name in _members_among(members):
                _pack(archive, name, members[name])
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _pack(archive: zipfile.ZipFile, name: str, contents: bytes | Path) -> None:
    entry = new_entry(name, attributes=_ATTRIBUTES)
    large = not isinstance(contents, bytes) and contents.stat().st_size >= MEMBER_LIMIT
    source: BinaryIO = io.BytesIO(contents) if isinstance(contents, bytes) else contents.open("rb")
    with source, archive.open(entry, "w", force_zip64=large) as sink:
        while block := source.read(_BLOCK):
            sink.write(block)


# Zip files: written in one way only, and read so that every byte is accounted for -------------------------------------


def new_entry(name: str, *, attributes: int) -> zipfile.ZipInfo:
    """Return the header of a member: deflated, dated 1980, from Unix.

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
    """A zip whose directory has been read; do not trust it before :meth:`require_exact`.

    Parameters
    ----------
    stream : BinaryIO
        The whole file; it can seek.
    name : str
        Name of the file in messages.
    attributes : int
        Those given to :func:`new_entry` for every member.

    Raises
    ------
    VerificationError
        If it is not a zip.
    """

    def __init__(self, stream: BinaryIO, *, name: str, attributes: int) -> None:
        self._stream, self._name, self._attributes = stream, name, attributes
        try:
            self._archive = zipfile.ZipFile(stream)
            self.entries = self._archive.infolist()
        except _UNREADABLE:
            raise VerificationError(f"{name} is damaged: it cannot be read as a zip.") from None
        if len(self.entries) > _MOST_MEMBERS:
            raise VerificationError(f"{name} claims to have {len(self.entries):,} members.")
        self._by_name = {entry.filename: entry for entry in self.entries}

    def size(self, name: str) -> int:
        """Return the claimed length of a member in bytes."""
        return self._by_name[name].file_size

    def open(self, name: str) -> BinaryIO:
        """Open a member; raise VerificationError if it is damaged or has bytes after its end."""
        return cast(BinaryIO, io.BufferedReader(_Member(self._stream, self._by_name[name])))

    def require_exact(self) -> None:
        """Refuse a zip with any byte that is not part of a member or of the one valid directory.

        Raises
        ------
        VerificationError
            If the members do not follow one another from the first byte, or the file does not end with the directory.
        """
        try:
            exact = self._is_exact()
        except _UNREADABLE:
            exact = False
        if not exact:
            raise VerificationError(
                f"{self._name} contains bytes that belong to none of its files, or was packed by another program. If "
                "it was repacked, check the unpacked folder instead."
            )

    def _is_exact(self) -> bool:
        place, plain_entries = 0, []
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
            plain_entries.append(plain)
        directory = _directory(place, plain_entries)
        self._stream.seek(0, io.SEEK_END)
        return self._stream.tell() == place + len(directory) and self._bytes(place, len(directory)) == directory

    def _bytes(self, start: int, length: int) -> bytes:
        self._stream.seek(start)
        return self._stream.read(length)


class _Member(io.RawIOBase):
    """A deflated member, read to its last byte and no further."""

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
        return VerificationError(f"{self._entry.filename} is damaged inside the zip.")


class _Behind(io.BytesIO):
    """A new file whose first byte is at position ``start``."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start

    def tell(self) -> int:
        return self._start + super().tell()

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._start + super().seek(place - self._start if whence == io.SEEK_SET else place, whence)


def _directory(start: int, entries: Sequence[zipfile.ZipInfo]) -> bytes:
    """Return the end of a zip, from position ``start`` on, as ``zipfile`` writes it after these members."""
    written = _Behind(start)
    with zipfile.ZipFile(written, "w") as archive:
        archive.filelist += entries
    return written.getvalue()


# JSON, written in one way only ----------------------------------------------------------------------------------------


def canonical_json(document: Any) -> bytes:
    """Write JSON with sorted keys, two spaces, plain ASCII, shortest exact numbers and one line feed at the end.

    Raises
    ------
    ValueError
        If a number is not finite, which JSON cannot express.
    """
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return (text + "\n").encode("ascii")


def parse_canonical(data: bytes, *, name: str) -> Any:
    """Read JSON that is written exactly as :func:`canonical_json` writes it.

    That excludes duplicate keys, and numbers that two readers could interpret differently.

    Raises
    ------
    VerificationError
        If it is not JSON, or not in the canonical form; ``name`` is the file named in the message.
    """
    try:
        document = json.loads(data.decode("ascii"))
        again = canonical_json(document)
    except (ValueError, RecursionError):
        raise VerificationError(f"{name} is not valid JSON.") from None
    if again != data:
        raise VerificationError(f"{name} is not in the canonical form in which it was signed: it has been edited.")
    return document


def documents_agree(ours: object, theirs: object) -> bool:
    """Whether two documents are equal up to the last digits of floats."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(documents_agree(one, theirs[key]) for key, one in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(documents_agree, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=LAST_DIGITS)
    return type(ours) is type(theirs) and ours == theirs


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a stream, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
