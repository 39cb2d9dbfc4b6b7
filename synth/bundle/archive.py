"""A bundle as a set of named files, in a zip or a folder: packed in one way only, and read without trusting either.

A zip has many places to hide data: bytes before, between and after its members, comments, extra fields, times, and the
blocks of a compressed stream. So members are stored as they are, and :func:`zip_of` fixes every other byte: a zip that
it would not write is refused. JSON is written in one way too, so the same certificate is the same bytes.
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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from synth.errors import InputError, UnknownFormatError, VerificationError
from synth.schema.documents import without_signed_zeros
from synth.schema.schema import is_table_name
from synth.version import OLDEST_READ, __version__, is_before

__all__ = [
    "FORMAT",
    "LAST_DIGITS",
    "MEMBERS",
    "MEMBERS_OF_FINDING",
    "MEMBERS_OF_MODEL",
    "Archive",
    "ExactZip",
    "canonical_json",
    "canonical_line",
    "documents_agree",
    "linked_in",
    "linked_members",
    "open_archive",
    "parse_canonical",
    "require_format",
    "sha256_of",
    "signed_by_hash",
    "write_zip",
    "zip_of",
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


_ENDINGS = (".csv", ".parquet")


def linked_members(tables: Iterable[str]) -> tuple[str, ...]:
    """Return the files of two tables that belong together, by the names of these; packed behind ``synthetic.parquet``.

    Their order is that of the names, so that it is one whichever table is declared first.
    """
    return tuple(name + ending for name in sorted(tables) for ending in _ENDINGS)


def linked_in(members: Iterable[str]) -> tuple[str, ...]:
    """Return those among the files of a bundle."""
    return tuple(name for name in members if name.endswith(_ENDINGS) and name not in MEMBERS)


def signed_by_hash(members: Sequence[str]) -> tuple[str, ...]:
    """Return the files whose hashes are in the certificate: all but the three that make up the signature."""
    own = {"certificate.json", "certificate.json.sig", "public-key.pem"}
    return tuple(name for name in members if name not in own)


_SMALL = 64 * 2**20
_LARGE = 16 * 2**30
_LARGE_FILES = ("measurements.npz", "found.npz", "model.safetensors")
_ATTRIBUTES = stat.S_IFREG | 0o644
_BLOCK = 1 << 20


# A bundle, a zip or a folder -----------------------------------------------------------------------------------------


class Archive:
    """Named files; every read is bounded.

    Parameters
    ----------
    members : tuple of str
        Their names: those of a table's bundle, with those of two tables that belong together if there are any, or of a
        model's, then those of a finding if there is one.
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
    """Open a bundle: a zip, an unpacked folder, a folder that contains ``bundle.zip``, or the bytes of a zip.

    Raises
    ------
    InputError
        If there is nothing under this path.
    VerificationError
        If it is neither; a file is missing, unknown, duplicated, too large, or not a regular file; or the zip is not
        the one that :func:`write_zip` writes of its files.
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
    if not path.exists():
        raise InputError(f"There is no bundle '{path.name}'. Check the path.")
    inside = path / "bundle.zip"  # in the folder of a run
    if path.is_dir() and not inside.is_file():
        yield _unpacked(path)
        return
    try:
        stream = (inside if path.is_dir() else path).open("rb")
    except OSError:
        raise VerificationError(f"{path.name} cannot be opened: it must be a bundle (a zip) or a folder.") from None
    with stream:
        yield _zipped(stream, path.name)


def _zipped(stream: BinaryIO, name: str) -> Archive:
    try:
        return _exactly_zipped(stream, name)
    except VerificationError:
        _require_bundle_of_today(stream)
        raise


def _require_bundle_of_today(stream: BinaryIO) -> None:
    """Refuse a zip that is no bundle, or one of another version, for that reason; trust nothing else in it."""
    try:
        with zipfile.ZipFile(stream) as other:
            names = other.namelist()
            if other.infolist()[0].header_offset:
                return  # the last zip inside a bundle that was cut off
            found = other.open("certificate.json").read(_SMALL) if "certificate.json" in names else b"null"
            certificate = json.loads(found)
    except Exception:  # whatever a damaged zip makes a reader say
        return
    if certificate is None and not {*MEMBERS, *MEMBERS_OF_MODEL} & set(names):
        raise VerificationError(_NO_BUNDLE)
    require_format(certificate)


_NO_BUNDLE = "This is not a bundle: it holds none of the files of one."


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


def _exactly_zipped(stream: BinaryIO, name: str) -> Archive:
    packed = ExactZip(stream, name=name, attributes=_ATTRIBUTES, repacked=_CHECK_THE_FOLDER)
    members = _checked_names(packed.names)
    for member in members:
        _check_size(member, packed.size(member))
    if packed.names != members:
        raise VerificationError(f"{name} has its files in another order: it was {_CHECK_THE_FOLDER}")
    return Archive(members, packed.open)


def _unpacked(folder: Path) -> Archive:
    # No bundle has as many files, so a full folder is not listed to its end.
    entries = sorted(islice(folder.iterdir(), len(MEMBERS) + len(linked_members("ab")) + len(MEMBERS_OF_FINDING) + 1))
    members = _checked_names([entry.name for entry in entries])
    for entry in entries:
        if not stat.S_ISREG(entry.lstat().st_mode):
            raise VerificationError(f"{entry.name} is not a regular file.")
        _check_size(entry.name, entry.lstat().st_size)
    return Archive(members, lambda name: (folder / name).open("rb"))


_CHECK_THE_FOLDER = "repacked by another program. Unpack it and check the folder instead."


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    members = _members_among(names)
    others = len(set(names) - set(members))
    if others == len(names):
        raise VerificationError(_NO_BUNDLE)
    if others:
        # The message does not repeat the name: it may be a misleading path.
        raise VerificationError(
            "The bundle contains a file that does not belong in a bundle. Take out what you added, or ask for it again."
        )
    if len(set(names)) != len(names):
        raise VerificationError("The bundle contains a file twice.")
    missing = [name for name in members if name not in set(names)]
    if missing:
        raise VerificationError(f"The bundle lacks {', '.join(missing)}.")
    return members


def _members_among(names: Collection[str]) -> tuple[str, ...]:
    """Return the files that a bundle with some of these names has."""
    found = MEMBERS_OF_FINDING if any(name in names for name in MEMBERS_OF_FINDING) else ()
    if "model.json" in names:
        return (*MEMBERS_OF_MODEL, *found)
    behind = MEMBERS.index("synthetic.parquet") + 1
    return (*MEMBERS[:behind], *_linked_among(names), *MEMBERS[behind:], *found)


def _linked_among(names: Collection[str]) -> tuple[str, ...]:
    """Return the files of the two tables that a bundle with most of these has.

    Which tables these should be is declared in a file that nobody has read yet; a check compares them later.
    """
    others = linked_in(names)
    tables = {Path(name).stem for name in others if is_table_name(Path(name).stem)}
    return linked_members(tables) if len(tables) == 2 and len(others) > 2 else ()


def _check_size(name: str, size: int) -> None:
    limit = _LARGE if name in _LARGE_FILES or name.endswith(_ENDINGS) else _SMALL
    if size > limit:
        raise VerificationError(f"{name} claims to have {size:,} bytes; at most {limit:,} are read.")


def write_zip(path: Path, members: Mapping[str, bytes | Path]) -> None:
    """Pack a bundle: fixed order, fixed times, so that the same contents are the same bytes.

    Parameters
    ----------
    path : Path
        Where the zip goes; it appears complete or not at all.
    members : mapping
        The bytes, or the file with the bytes, of each name in :data:`MEMBERS` or :data:`MEMBERS_OF_MODEL`, and of
        those that may be added to them.
    """
    partial = path.with_name(path.name + ".partial")
    ordered = {name: members[name] for name in _members_among(members)}
    try:
        with partial.open("wb") as target:
            for block in zip_of(ordered, attributes=_ATTRIBUTES):
                target.write(block)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


# Zip files, of which there is one for any members --------------------------------------------------------------------

_LONG = 2**31
"""Sizes and places from here on do not fit the short fields: they stand in an extra field of 64-bit numbers."""

_LOCAL, _CENTRAL, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_LONG_END, _LOCATOR = b"PK\6\6", b"PK\6\7"
_LOCAL_LENGTH = 30
_FULL = 0xFFFFFFFF
_MOST_SHORT = 2**16 - 1
_MOST_MEMBERS = 2**17
_LONGEST_NAME = 256
_UNIX = 3
_OLD, _NEW = 20, 45
_DATE = 1 << 5 | 1
"""1 January 1980, the first day that a zip can state; its time is 0."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A stored member: what its headers state, and where they and its first byte are."""

    name: bytes
    size: int
    crc: int
    header: int

    @property
    def local(self) -> bytes:
        """The header before its bytes."""
        extra = struct.pack("<HHQQ", 1, 16, self.size, self.size) if self.size >= _LONG else b""
        size = _FULL if extra else self.size
        version = _NEW if extra else _OLD
        fields = (version, 0, 0, 0, _DATE, self.crc, size, size, len(self.name), len(extra))
        return _LOCAL + struct.pack("<HHHHHLLLHH", *fields) + self.name + extra

    @property
    def start(self) -> int:
        """Place of its first byte."""
        return self.header + len(self.local)

    @property
    def end(self) -> int:
        """Place after its last byte."""
        return self.start + self.size

    def central(self, attributes: int) -> bytes:
        """Return its entry in the directory."""
        sizes = (self.size, self.size) if self.size >= _LONG else ()
        long = (*sizes, self.header) if self.header >= _LONG else sizes
        extra = struct.pack(f"<HH{len(long)}Q", 1, 8 * len(long), *long) if long else b""
        size = _FULL if sizes else self.size
        header = _FULL if self.header >= _LONG else self.header
        version = _NEW if long else _OLD
        fields = (
            *(version, _UNIX, version, 0, 0, 0, _DATE, self.crc, size, size, len(self.name), len(extra)),
            *(0, 0, 0, attributes << 16, header),
        )
        return _CENTRAL + struct.pack("<BBHHHHHLLLHHHHHLL", *fields) + self.name + extra


def _directory(entries: Sequence[_Entry], attributes: int) -> bytes:
    """Return the end of a zip: an entry for every member, and where these entries are."""
    start, count = entries[-1].end if entries else 0, len(entries)
    listed = b"".join(entry.central(attributes) for entry in entries)
    size, end = len(listed), b""
    if start >= _LONG or size >= _LONG or count > _MOST_SHORT:
        end = _LONG_END + struct.pack("<QHHLLQQQQ", 44, _NEW, _NEW, 0, 0, count, count, size, start)
        end += _LOCATOR + struct.pack("<LQL", 0, start + size, 1)
    few = min(count, _MOST_SHORT)
    return listed + end + _END + struct.pack("<HHHHLLH", 0, 0, few, few, min(size, _FULL), min(start, _FULL), 0)


def zip_of(
    members: Mapping[str, bytes | Path | Sequence[bytes | memoryview]], *, attributes: int
) -> Iterator[bytes | memoryview]:
    """Yield the zip of some members, in their order: stored, dated 1980, from Unix, and nothing else.

    Parameters
    ----------
    members : mapping
        The bytes of each, in one or several parts, or the file that holds them, by name in ASCII.
    attributes : int
        Type and permissions of every file.
    """
    entries: list[_Entry] = []
    for name, contents in members.items():
        crc = size = 0
        for block in _blocks(contents):
            crc, size = zlib.crc32(block, crc), size + len(block)
        entries.append(_Entry(name.encode("ascii"), size, crc, entries[-1].end if entries else 0))
        yield entries[-1].local
        yield from _blocks(contents)
    yield _directory(entries, attributes)


def _blocks(contents: bytes | Path | Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    if isinstance(contents, Path):
        with contents.open("rb") as source:
            while block := source.read(_BLOCK):
                yield block
    else:
        yield from (contents,) if isinstance(contents, bytes) else contents


class ExactZip:
    """A zip in which every byte is accounted for: members one after another from the first byte, then the directory.

    Parameters
    ----------
    stream : BinaryIO
        The whole file; it can seek.
    name : str
        Name of the file in messages.
    attributes : int
        Those given to :func:`zip_of`.
    repacked : str
        The end of the sentence about a zip that another program has written.

    Raises
    ------
    VerificationError
        If :func:`zip_of` would not write it, but for the checksums of members: reading a member compares its own.
    """

    def __init__(
        self, stream: BinaryIO, *, name: str, attributes: int, repacked: str = "written by another program."
    ) -> None:
        self._stream, self._name, self._repacked = stream, name, repacked
        self._length = stream.seek(0, io.SEEK_END)
        if self._bytes(0, 2) != _LOCAL[:2]:
            raise VerificationError(f"{name} is damaged: it cannot be read as a zip.")
        entries = self._entries()
        place = entries[-1].end if entries else 0
        written = _directory(entries, attributes)
        found = self._bytes(place, len(written))
        if found != written or place + len(written) != self._length:
            raise self._cut_off() if found != written and written.startswith(found) else self._not_exact()
        self.names = tuple(entry.name.decode("ascii") for entry in entries)
        self._by_name = dict(zip(self.names, entries, strict=True))

    def _entries(self) -> list[_Entry]:
        """Follow the headers of members from the first byte of the file."""
        entries: list[_Entry] = []
        place = 0
        while (head := self._bytes(place, _LOCAL_LENGTH))[:4] == _LOCAL:
            if len(head) < _LOCAL_LENGTH:
                raise self._cut_off()
            crc, _, size, length, extra = struct.unpack("<LLLHH", head[14:])
            behind = self._bytes(place + _LOCAL_LENGTH, length + extra)
            if length > _LONGEST_NAME or extra not in (0, 20) or len(entries) == _MOST_MEMBERS:
                raise self._not_exact()
            if extra and len(behind) == length + extra:
                (size,) = struct.unpack("<Q", behind[-8:])
            entry = _Entry(behind[:length], size, crc, place)
            if head + behind != entry.local[: len(head) + len(behind)] or not entry.name.isascii():
                raise self._not_exact()
            if entry.end > self._length:
                raise self._cut_off()
            entries.append(entry)
            place = entry.end
        return entries

    def _cut_off(self) -> VerificationError:
        return VerificationError(f"{self._name} ends too early: it was cut off on its way. Fetch it again.")

    def _not_exact(self) -> VerificationError:
        return VerificationError(
            f"{self._name} contains bytes that belong to none of its files, or was {self._repacked}"
        )

    def size(self, name: str) -> int:
        """Return the length of a member in bytes."""
        return self._by_name[name].size

    def open(self, name: str) -> BinaryIO:
        """Open a member; reading its end raises VerificationError if its checksum is wrong."""
        return cast(BinaryIO, io.BufferedReader(_Member(self._stream, self._by_name[name]), _BUFFER))

    def _bytes(self, start: int, length: int) -> bytes:
        self._stream.seek(start)
        return self._stream.read(length)


_BUFFER = 1 << 16


class _Member(io.RawIOBase):
    """The bytes of a stored member, and a comparison of their checksum at the end."""

    def __init__(self, stream: BinaryIO, entry: _Entry) -> None:
        super().__init__()
        self._stream, self._entry, self._place, self._crc = stream, entry, entry.start, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._stream.seek(self._place)
        block = self._stream.read(min(len(buffer), self._entry.end - self._place))
        buffer[: len(block)] = block
        self._crc = zlib.crc32(block, self._crc)
        self._place += len(block)
        if not block and (self._place, self._crc) != (self._entry.end, self._entry.crc):
            raise VerificationError(f"{self._entry.name.decode('ascii')} is damaged inside the zip.")
        return len(block)


# JSON, written in one way only ----------------------------------------------------------------------------------------


def canonical_json(document: Any) -> bytes:
    """Write JSON with sorted keys, two spaces, plain ASCII, shortest exact numbers and one line feed at the end.

    Zero has no sign.

    Raises
    ------
    ValueError
        If a number is not finite, which JSON cannot express.
    """
    text = json.dumps(without_signed_zeros(document), sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return (text + "\n").encode("ascii")


def canonical_line(document: Any) -> str:
    """Write JSON as :func:`canonical_json` does, but on one line."""
    return json.dumps(without_signed_zeros(document), sort_keys=True, ensure_ascii=True, allow_nan=False)


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
