"""A bundle as a set of named files, in a zip or a folder: packed in one way only, and read without trusting either.

A zip leaves much room for what nobody sees: bytes before, between and after its members, comments, extra fields, times.
Whatever is not what :func:`new_entry` and ``zipfile`` write together is refused; how a member is deflated is left open,
since that changes with the library. JSON is written in one way too, so that the same certificate is the same bytes.
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
"""Number of the form of a bundle, in its certificate under ``version``; versions before 0.9.0 wrote 1."""

LAST_DIGITS = 1e-9
"""Numbers that differ by a smaller part of themselves agree: last digits of what is fitted follow the processor."""

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
"""Every file of a table's bundle, in the order in which they are packed."""

MEMBERS_OF_MODEL = tuple(
    "model.json" if name == "synthetic.csv" else name for name in MEMBERS if name != "synthetic.parquet"
)
"""The same of a model's bundle: what was learned stands in the place of the rows."""

MEMBERS_OF_FINDING = ("found.json", "found.npz")
"""Behind either, where the configuration was filled by a finding: what it was asked, its receipts and its answers."""


def signed_by_hash(members: Sequence[str]) -> tuple[str, ...]:
    """Return the files whose hash stands in the certificate; the other three are the signature itself."""
    own = {"certificate.json", "certificate.json.sig", "public-key.pem"}
    return tuple(name for name in members if name not in own)


MEMBER_LIMIT = 2**31
"""From this many bytes on a member is written with a long header."""

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
        Their names: those of a table's bundle, or those of a model's; behind them, where there was one, a finding's.
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
    """Open a bundle: a zip or an unpacked folder, or the bytes of a zip, which stay open.

    Raises
    ------
    VerificationError
        If it is neither, a file is missing, unknown, given twice, too large, encrypted, or no plain file, or the zip
        holds a byte that belongs to no file.
    UnknownFormatError
        If another version of this program made it, whose bundles this one does not read.
    """
    with _opened(path) as archive:
        try:
            certificate = json.loads(archive.read("certificate.json"))
        except (ValueError, RecursionError):
            certificate = None  # whoever reads the certificate says what is wrong with it
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
        raise VerificationError(f"{path.name} cannot be opened: it is neither a bundle (a zip) nor a folder.") from None
    with stream:
        yield _zipped(stream, path.name)


def require_format(certificate: object) -> None:
    """Refuse a bundle by what its certificate says of the version that made it.

    Parameters
    ----------
    certificate : object
        JSON values, which a stranger may have written. What is no certificate at all passes here.

    Raises
    ------
    UnknownFormatError
        If the form of the bundle, or the version that it says has made it, is none that this program reads.
    """
    if not isinstance(certificate, dict) or type(certificate.get("version")) is not int:
        return
    number, versions = certificate["version"], certificate.get("versions")
    said = str(versions.get("hermitage")) if isinstance(versions, dict) else ""
    known = said.isascii() and len(said) <= _LONGEST_VERSION and all(map(str.isdecimal, said.split(".")))
    maker = f"version {said} of this program" if known else None
    if number > FORMAT:
        raise UnknownFormatError(
            f"The bundle was made by {maker or 'a later version of this program'}, and this is version {__version__}, "
            "which cannot read it: use that version or a later one."
        )
    if number < FORMAT or (known and is_before(said, OLDEST_READ)):
        raise UnknownFormatError(
            f"The bundle was made by {maker or 'an earlier version of this program'}, and this is version "
            f"{__version__}, which reads bundles from {OLDEST_READ} on: use the version that made it."
        )


_LONGEST_VERSION = 20
"""Characters of a version that is repeated in a sentence."""


def _zipped(stream: BinaryIO, name: str) -> Archive:
    packed = ExactZip(stream, name=name, attributes=_ATTRIBUTES)
    members = _checked_names([entry.filename for entry in packed.entries])
    for entry in packed.entries:
        if entry.flag_bits & 0x1:
            raise VerificationError(f"{entry.filename} is encrypted; a bundle never is.")
        _check_size(entry.filename, entry.file_size)
        _check_swelling(entry)
    packed.require_exact()
    return Archive(members, packed.open)


def _unpacked(folder: Path) -> Archive:
    entries = sorted(folder.iterdir())
    members = _checked_names([entry.name for entry in entries])
    for entry in entries:
        if not stat.S_ISREG(entry.lstat().st_mode):
            raise VerificationError(f"{entry.name} is not a plain file.")
        _check_size(entry.name, entry.lstat().st_size)
    return Archive(members, lambda name: (folder / name).open("rb"))


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    members = _members_among(names)
    for name in names:
        if name not in members:
            # The name is not repeated: it may be a path made to mislead.
            raise VerificationError("The bundle holds a file that does not belong to a bundle.")
    if len(set(names)) != len(names):
        raise VerificationError("The bundle holds a file twice.")
    missing = [name for name in members if name not in set(names)]
    if missing:
        raise VerificationError(f"The bundle lacks {', '.join(missing)}.")
    return members


def _members_among(names: Container[str]) -> tuple[str, ...]:
    """Return the files of the kind of bundle that some names are of."""
    found = MEMBERS_OF_FINDING if any(name in names for name in MEMBERS_OF_FINDING) else ()
    return (*(MEMBERS_OF_MODEL if "model.json" in names else MEMBERS), *found)


def _check_size(name: str, size: int) -> None:
    limit = _LARGE if name in _ROW_FILES else _SMALL
    if size > limit:
        raise VerificationError(f"{name} claims {size:,} bytes; at most {limit:,} are read.")


def _check_swelling(entry: zipfile.ZipInfo) -> None:
    # These are compressed inside already and are read whole: a zip that shrank them further was made to swell.
    if entry.filename in _COMPRESSED and entry.file_size > max(_SMALL, _SWELLING * entry.compress_size):
        raise VerificationError(f"{entry.filename} unpacks to {entry.file_size:,} bytes, which no honest bundle does.")


def write_zip(path: Path, members: dict[str, bytes | Path]) -> None:
    """Pack a bundle: fixed order, fixed times, so that the same contents are the same bytes.

    Parameters
    ----------
    path : Path
        Where the zip goes; it appears complete or not at all.
    members : dict
        For every name of :data:`MEMBERS`, or of :data:`MEMBERS_OF_MODEL`, its bytes or the file that holds them.
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


# Zip files written in one way only, and read so that every byte is accounted for -------------------------------------


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


class _Behind(io.BytesIO):
    """A new file whose first byte stands behind ``start`` others."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start

    def tell(self) -> int:
        return self._start + super().tell()

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._start + super().seek(place - self._start if whence == io.SEEK_SET else place, whence)


def _directory(start: int, entries: Sequence[zipfile.ZipInfo]) -> bytes:
    """Return the end of a zip as ``zipfile`` writes it behind members whose last byte is the ``start``-th."""
    written = _Behind(start)
    with zipfile.ZipFile(written, "w") as archive:
        archive.filelist += entries
    return written.getvalue()


# JSON written in one way only ----------------------------------------------------------------------------------------


def canonical_json(document: Any) -> bytes:
    """Write JSON with sorted keys, two spaces, plain ASCII, shortest exact numbers and one line feed at the end.

    Raises
    ------
    ValueError
        If a number is not finite: JSON has no word for it.
    """
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return (text + "\n").encode("ascii")


def parse_canonical(data: bytes, *, name: str) -> Any:
    """Read JSON and insist that it is written as :func:`canonical_json` writes it.

    That excludes keys given twice and numbers two readers could take differently.

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
        raise VerificationError(f"{name} is not in the canonical form in which it was signed; it has been edited.")
    return document


def documents_agree(ours: object, theirs: object) -> bool:
    """Whether two documents say the same, but for the last digits of floats."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(documents_agree(one, theirs[key]) for key, one in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(documents_agree, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=LAST_DIGITS)
    return type(ours) is type(theirs) and ours == theirs


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of what is left of a stream, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
