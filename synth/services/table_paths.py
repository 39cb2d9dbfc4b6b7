"""Tables by path: one file, or several that match a pattern, read as one table from its first line to its last.

Several texts are read one after the other with one header; several Parquet files are put behind each other as they are
(:mod:`synth.reading.more.several`). Files are taken in the order of their paths. On the command line a user names what
the user can read; a screen opens only what lies in a folder that the operator listed in ``HERMITAGE_FOLDERS``.
"""

from __future__ import annotations

import csv
import fnmatch
import glob
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from synth.errors import InputError, TableError
from synth.names import shown, visible
from synth.reading.more.several import head_of
from synth.reading.more.workbooks import WORKBOOK_ENDINGS
from synth.schema import STATISTICAL_KINDS, TableFormat
from synth.schema.header import separator_named
from synth.system.paths import path_of

__all__ = ["open_listed", "open_table", "size_of"]

_MAGIC = set("*?[")
_PARQUET = (".parquet", ".pq")
_TYPED = (
    ".arrow",
    ".feather",
    ".ipc",
    ".zsav",
    *WORKBOOK_ENDINGS,
    *(f".{kind}" for kind in sorted(STATISTICAL_KINDS)),
)
_MOST_FILES = 10_000
"""Files of one table; each is open while it is taken in, a Parquet file's list of groups is held in memory."""


@contextmanager
def open_table(pattern: str | Path, table_format: TableFormat) -> Iterator[tuple[str, BinaryIO]]:
    """Open the file or files that match ``pattern``, as one stream of bytes.

    Several text files are read one after the other; the headers after the first are checked and left out.

    Yields
    ------
    name : str
        The name of the (first) file, without its folder.
    stream : BinaryIO

    Raises
    ------
    TableError
        If no file is found, a file cannot be opened, or the files cannot be joined.
    """
    with _as_one(_matching(str(path_of(pattern, "the table"))), table_format) as opened:
        yield opened


@contextmanager
def open_listed(
    pattern: str, table_format: TableFormat, *, folders: Sequence[str], home: Path
) -> Iterator[tuple[str, BinaryIO]]:
    """Open files as :func:`open_table` does, of listed folders alone.

    Parameters
    ----------
    pattern : str
        An absolute path, or a pattern whose matches are files; ``*`` and ``?`` stand for parts of one name.
    table_format : TableFormat
    folders : sequence of str
        The folders that the operator listed.
    home : Path
        The home of the installation, of which nothing is read, whatever is listed.

    Raises
    ------
    InputError
        If anything of it lies outside these folders, or a link leads out of them; before a file is opened.
    TableError
        As :func:`open_table`.
    """
    roots = [Path(folder).resolve() for folder in folders]
    with _as_one(_matching_in(pattern, roots, home.resolve()), table_format) as opened:
        yield opened


def size_of(stream: BinaryIO) -> int | None:
    """Return how many bytes a stream has from its beginning, or None where only reading it tells."""
    place = stream.tell()
    try:
        return stream.seek(0, io.SEEK_END)
    except io.UnsupportedOperation:
        return None
    finally:
        stream.seek(place)


@contextmanager
def _as_one(paths: Sequence[Path], form: TableFormat) -> Iterator[tuple[str, BinaryIO]]:
    if len(paths) == 1:
        with _opened(paths[0]) as stream:
            yield paths[0].name, stream
        return
    if len(paths) > _MOST_FILES:
        raise TableError(f"{len(paths):,} files are too many for one table, which may have {_MOST_FILES:,}. Join some.")
    endings = {path.name.lower().endswith(_PARQUET) for path in paths}
    if any(path.name.lower().endswith(_TYPED) for path in paths) or len(endings) > 1:
        raise TableError(
            "Several files are read as one table only if all of them are texts, or all are Parquet (.parquet). Join "
            "the others in one file first."
        )
    if True in endings:
        with ExitStack() as stack:
            joined = cast(BinaryIO, io.BufferedReader(_ParquetFiles(paths, stack)))
            stack.enter_context(joined)
            yield paths[0].name, joined
        return
    top = form.skip_rows or form.comment or form.header_rows > 1
    if top or form.codec.startswith("utf-16"):
        raise TableError(
            "Several files cannot be read as one table if lines at their top are skipped, if they have several header "
            "rows, or if they are in UTF-16. Join them in one file first."
        )
    with cast(BinaryIO, io.BufferedReader(_Texts(paths, header=form.header))) as joined:
        yield paths[0].name.removesuffix(".gz"), joined


def _matching(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_file() or not _MAGIC & set(pattern):
        if not path.is_file():
            raise TableError(f"There is no table '{path.name}'. Check the path after 'table:' or --table.")
        return [path]
    paths = sorted(Path(found) for found in glob.glob(pattern) if Path(found).is_file())
    if not paths:
        raise TableError(f"No file matches '{path.name}'. Check the pattern after 'table:' or --table.")
    return paths


# Folders that the operator listed -------------------------------------------------------------------------------------


def _matching_in(typed: str, roots: Sequence[Path], home: Path) -> list[Path]:
    """Return the real paths of the files that match, in the order of their names; nothing outside is looked into."""
    given = path_of(typed.strip(), "the table")
    outside = InputError(
        f"'{visible(typed.strip())}' leads out of the folders that this server may read. Its operator lists these in "
        "HERMITAGE_FOLDERS."
    )
    if not given.is_absolute():
        raise InputError("Type the whole path, from the first '/', as in /srv/claims/2024-*.parquet.")
    if ".." in given.parts:
        raise outside

    def require_inside(path: Path) -> Path:
        try:
            real = path.resolve()
            if any(part.is_symlink() for part in (real, *real.parents)):  # links in a circle, which Python 3.13 leaves
                raise outside
        except (OSError, RuntimeError):  # links in a circle, before Python 3.13
            raise outside from None
        if real.is_relative_to(home) or not any(real.is_relative_to(root) for root in roots):
            raise outside
        return real

    if require_inside(given).is_file():
        return [given.resolve()]
    # The part of the path without patterns names one folder; only from there on is a folder listed.
    fixed = 0
    while fixed < len(given.parts) and not _MAGIC & set(given.parts[fixed]):
        fixed += 1
    found = [Path(*given.parts[:fixed])]
    for path in found:
        require_inside(path)
    for name in given.parts[fixed:]:
        found = [path / one for path in found for one in _names_like(path, name)]
        for path in found:
            require_inside(path)
    files = sorted(path for path in found if path.is_file())
    if not files:
        raise TableError(f"There is no file '{visible(typed.strip())}' on this server. Check the path.")
    return [require_inside(path) for path in files]


def _names_like(folder: Path, name: str) -> list[str]:
    if not folder.is_dir():
        return []
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise TableError(f"The folder '{visible(str(folder))}' cannot be read ({error.strerror}).") from None
    # As in a shell, a pattern does not match hidden names.
    return [one for one in names if fnmatch.fnmatchcase(one, name) and one.startswith(".") <= name.startswith(".")]


# Opened ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise TableError(f"The table '{shown(path.name)}' cannot be opened ({error.strerror}).") from None
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise TableError(f"'{shown(path.name)}' is not a file. Name a file.")
        yield stream


class _ParquetFiles(io.RawIOBase):
    """Parquet files one after the other, behind a list of their names and lengths; with random access.

    Parameters
    ----------
    paths : sequence of Path
    stack : ExitStack
        Closes the files.
    """

    def __init__(self, paths: Sequence[Path], stack: ExitStack) -> None:
        super().__init__()
        self._paths = paths
        self._sizes = [_size_of(path) for path in paths]
        self._head = head_of([(path.name, size) for path, size in zip(paths, self._sizes, strict=True)])
        self._place = 0
        self._open: tuple[int, BinaryIO] | None = None
        stack.callback(self._close_file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        end = len(self._head) + sum(self._sizes)
        self._place = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: end}[whence] + offset
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        place = self._place
        if place < len(self._head):
            taken = self._head[place : place + len(buffer)]
        else:
            taken = self._of_file(place - len(self._head), len(buffer))
        buffer[: len(taken)] = taken
        self._place += len(taken)
        return len(taken)

    def _of_file(self, place: int, most: int) -> bytes:
        for number, size in enumerate(self._sizes):
            if place < size:
                file = self._file(number)
                file.seek(place)
                taken = file.read(min(most, size - place))
                if not taken:
                    name = shown(self._paths[number].name)
                    raise TableError(f"'{name}' became shorter while it was read. Take the files in again.")
                return taken
            place -= size
        return b""

    def _file(self, number: int) -> BinaryIO:
        # One at a time: there may be more files than a process may have open.
        if self._open is None or self._open[0] != number:
            self._close_file()
            try:
                self._open = number, self._paths[number].open("rb")
            except OSError as error:
                name = shown(self._paths[number].name)
                raise TableError(f"The table '{name}' cannot be opened ({error.strerror}).") from None
        return self._open[1]

    def _close_file(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def _size_of(path: Path) -> int:
    with _opened(path) as stream:
        return os.fstat(stream.fileno()).st_size


class _Texts(io.RawIOBase):
    """Text files one after the other, unpacked, with one header."""

    def __init__(self, paths: Sequence[Path], *, header: bool) -> None:
        super().__init__()
        self._paths, self._header = paths, header
        self._blocks = _joined_blocks(paths, header=header)
        self._rest = b""
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """Return True: the stream can be read again from the beginning."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if (offset, whence) == (0, io.SEEK_SET):
            self._blocks, self._rest, self._place = _joined_blocks(self._paths, header=self._header), b"", 0
        elif (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = block
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        self._place += len(taken)
        return len(taken)


def _joined_blocks(paths: Sequence[Path], *, header: bool) -> Iterator[bytes]:
    first: bytes | None = None
    for path in paths:
        with _opened(path) as raw:
            packed = path.name.lower().endswith(".gz")
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            try:
                if header:
                    line = stream.readline()
                    if separator_named(line.decode("latin-1").removeprefix("\xef\xbb\xbf").rstrip("\r\n")):
                        line += stream.readline()
                    if first is None:
                        first = line
                        yield line if line.endswith(b"\n") else line + b"\n"
                    elif line.strip() != first.strip():
                        raise _other_header((paths[0].name, first), (path.name, line))
                last = b"\n"
                while block := stream.read(1 << 20):
                    last = block[-1:]
                    yield block
                if last != b"\n":
                    yield b"\n"
            except (OSError, EOFError, zlib.error):
                raise TableError(f"The table '{path.name}' is damaged. Compress it again.") from None


def _other_header(first: tuple[str, bytes], other: tuple[str, bytes]) -> TableError:
    """Return the refusal of a text with another header, which names the first column that differs."""
    (one, names), (two, others) = ((name, _names_in(line)) for name, line in (first, other))
    pairs = enumerate(zip_longest(names, others), start=1)
    place, (this, that) = next(((place, pair) for place, pair in pairs if pair[0] != pair[1]), (0, (None, None)))
    if this is not None and that is not None:
        which = f": column {place} is '{shown(this)}' in '{shown(one)}' and '{shown(that)}' in '{shown(two)}'"
    elif place:
        more, less = (one, two) if that is None else (two, one)
        which = f": '{shown(more)}' has the column '{shown(str(this or that))}', and '{shown(less)}' has not"
    else:
        which = f": those of '{shown(one)}' and '{shown(two)}' are written differently"
    return TableError(f"The files have different headers{which}. Give all files the same header.")


def _names_in(line: bytes) -> list[str]:
    """Return the names in a header line, for a message; the separator is the one that occurs most often."""
    text = line.decode("utf-8-sig", errors="replace").strip()
    separator = max(",;\t|", key=text.count)
    return next(csv.reader([text], delimiter=separator), [])
