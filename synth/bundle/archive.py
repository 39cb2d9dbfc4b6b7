"""A bundle as a set of named files, read from a zip or a folder without trusting either."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from synth.bundle.zips import MEMBER_LIMIT, ExactZip, new_entry
from synth.errors import VerificationError

__all__ = ["MEMBERS", "SIGNED_BY_HASH", "Archive", "open_archive", "write_zip"]

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
"""Every file of a bundle, in the order in which they are packed."""

SIGNED_BY_HASH = tuple(
    name for name in MEMBERS if name not in {"certificate.json", "certificate.json.sig", "public-key.pem"}
)
"""Files whose hash stands in the certificate; the other three are the signature itself."""

_SMALL = 64 * 2**20
_LARGE = 16 * 2**30
_ROW_FILES = ("synthetic.csv", "synthetic.parquet", "measurements.npz", "model.safetensors")
_COMPRESSED = ("synthetic.parquet", "measurements.npz")
_SWELLING = 20
_ATTRIBUTES = stat.S_IFREG | 0o644
_BLOCK = 1 << 20


class Archive(Protocol):
    """Named files; every read is bounded."""

    def size(self, name: str) -> int:
        """Return the length of a file in bytes."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""
        ...

    def read(self, name: str) -> bytes:
        """Return a small file as bytes."""
        ...


class _ZipArchive:
    def __init__(self, packed: ExactZip) -> None:
        self._zip = packed
        _check_names([entry.filename for entry in packed.entries])
        for entry in packed.entries:
            if entry.flag_bits & 0x1:
                raise VerificationError(f"{entry.filename} is encrypted; a bundle never is.")
            _check_size(entry.filename, entry.file_size)
            _check_swelling(entry)
        packed.require_exact()

    def size(self, name: str) -> int:
        return self._zip.size(name)

    def open(self, name: str) -> BinaryIO:
        return self._zip.open(name)

    def read(self, name: str) -> bytes:
        with self.open(name) as stream:
            return stream.read()


class _FolderArchive:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        entries = sorted(folder.iterdir())
        _check_names([entry.name for entry in entries])
        for entry in entries:
            if not stat.S_ISREG(entry.lstat().st_mode):
                raise VerificationError(f"{entry.name} is not a plain file.")
            _check_size(entry.name, entry.lstat().st_size)

    def size(self, name: str) -> int:
        return (self._folder / name).lstat().st_size

    def open(self, name: str) -> BinaryIO:
        return (self._folder / name).open("rb")

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


@contextmanager
def open_archive(path: Path | BinaryIO) -> Iterator[Archive]:
    """Open a bundle: a zip or an unpacked folder, or the bytes of a zip, which stay open.

    Raises
    ------
    VerificationError
        If it is neither, a file is missing, unknown, given twice, too large, encrypted, or no plain file, or the zip
        holds a byte that belongs to no file.
    """
    if not isinstance(path, Path):
        yield _ZipArchive(ExactZip(path, name="The bundle", attributes=_ATTRIBUTES))
        return
    if path.is_dir():
        yield _FolderArchive(path)
        return
    try:
        stream = path.open("rb")
    except OSError:
        raise VerificationError(f"{path.name} cannot be opened: it is neither a bundle (a zip) nor a folder.") from None
    with stream:
        yield _ZipArchive(ExactZip(stream, name=path.name, attributes=_ATTRIBUTES))


def _check_names(names: Sequence[str]) -> None:
    known = set(MEMBERS)
    for name in names:
        if name not in known:
            # The name is not repeated: it may be a path made to mislead.
            raise VerificationError("The bundle holds a file that does not belong to a bundle.")
    if len(set(names)) != len(names):
        raise VerificationError("The bundle holds a file twice.")
    missing = [name for name in MEMBERS if name not in set(names)]
    if missing:
        raise VerificationError(f"The bundle lacks {', '.join(missing)}.")


def _check_size(name: str, size: int) -> None:
    limit = _LARGE if name in _ROW_FILES else _SMALL
    if size > limit:
        raise VerificationError(f"{name} claims {size:,} bytes; at most {limit:,} are read.")


def _check_swelling(entry: zipfile.ZipInfo) -> None:
    # These are compressed inside already and are read whole: a zip that shrank them further was made to swell.
    if entry.filename in _COMPRESSED and entry.file_size > max(_SMALL, _SWELLING * entry.compress_size):
        raise VerificationError(f"{entry.filename} swells to {entry.file_size:,} bytes, which no honest bundle does.")


def write_zip(path: Path, members: dict[str, bytes | Path]) -> None:
    """Pack a bundle: fixed order, fixed times, so that the same contents are the same bytes.

    Parameters
    ----------
    path : Path
        Where the zip goes; it appears complete or not at all.
    members : dict
        For every name of :data:`MEMBERS`, its bytes or the file that holds them.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with zipfile.ZipFile(partial, "w", allowZip64=True) as archive:
            for name in MEMBERS:
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
