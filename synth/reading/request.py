"""What passes between the program and its parsing process: one request, then frames of codes or one sentence.

The parsing process meets untrusted bytes, so nothing it sends is believed: kinds, lengths and codes are checked.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, Literal, Protocol

from synth.errors import ConfigError, InputError, SchemaError, TableError
from synth.limits import COLUMNS
from synth.schema import Column, TableFormat, parse_column

__all__ = [
    "HASH_BYTES",
    "Peekable",
    "Readable",
    "ReaderLimits",
    "Request",
    "error_named",
    "read_exactly",
    "read_frame",
    "size_text",
    "too_large",
    "write_all",
    "write_frame",
]

FrameKind = Literal[b"Q", b"B", b"E", b"Z", b"R"]
"""The request; then, from the parsing process, a batch of codes, an error, the end, or a range of the file it wants."""

_HEAD = struct.Struct("<cQ")
MAXIMUM_FRAME = 2**31

HASH_BYTES = 16
"""Bytes of the keyed hash of one unit's id; a missing id is all zeros."""

_ERRORS = {kind.__name__: kind for kind in (TableError, SchemaError, ConfigError)}


class Readable(Protocol):
    """Anything bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        ...


class Peekable(Readable, Protocol):
    """The same, and it can be looked into without reading."""

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes (fewer at the end) and leave them to be read."""
        ...


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """How much of a file the parsing process accepts, and how much of the machine it may use.

    ``input_bytes`` are the bytes of the file, ``text_bytes`` those after decompression; ``memory_bytes`` is the private
    memory of the parsing process, ``cpu_seconds`` its processor time.
    """

    input_bytes: int = 20 * 2**30
    text_bytes: int = 40 * 2**30
    rows: int = 50_000_000
    columns: int = COLUMNS
    cell_bytes: int = 2**20
    memory_bytes: int = 4 * 2**30
    cpu_seconds: int = 1_800
    wall_seconds: float = 3_600.0

    @property
    def once_more(self) -> ReaderLimits:
        """The same for a table that was read within these: more time and memory, as a busy machine takes."""
        return replace(
            self,
            memory_bytes=2 * self.memory_bytes,
            cpu_seconds=4 * self.cpu_seconds,
            wall_seconds=4 * self.wall_seconds,
        )

    def too_many_columns(self, columns: int) -> TableError:
        """Return the refusal of a table with too many columns."""
        return TableError(
            f"The table has {columns:,} columns; at most {self.columns:,} are read. Leave out columns you do not need."
        )

    def too_many_rows(self) -> TableError:
        """Return the refusal of a table with too many rows."""
        return TableError(f"The table has more than {self.rows:,} rows, the most this machine reads. Split the table.")


def too_large(what: str, limit: int) -> TableError:
    """Return the refusal of a file or a table of more than ``limit`` bytes."""
    return TableError(
        f"{what} is larger than {size_text(limit)}, the most this machine reads. Split the table, or ask your "
        "administrator for a higher limit."
    )


def size_text(size: int) -> str:
    """Return a number of bytes as people write it."""
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """What the parsing process is asked to do.

    ``columns`` are the declared ones. ``size`` is the length of the file where the asker serves ranges of it; None
    where the bytes follow the request. ``key`` keys the hashes of unit ids.
    """

    format: TableFormat
    limits: ReaderLimits
    columns: tuple[Column, ...] = ()
    id_column: str | None = None
    drop_undeclared: bool = False
    key: bytes = b""
    size: int | None = None

    def to_bytes(self) -> bytes:
        """Write the request as JSON."""
        body = {
            "format": asdict(self.format),
            "limits": asdict(self.limits),
            "columns": [[column.name, column.to_mapping()] for column in self.columns],
            "id_column": self.id_column,
            "drop_undeclared": self.drop_undeclared,
            "key": self.key.hex(),
            "size": self.size,
        }
        return json.dumps(body).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Read what :meth:`to_bytes` wrote."""
        body: Mapping[str, Any] = json.loads(data)
        form = dict(body["format"])
        form["missing"] = tuple(form["missing"])
        form["names"] = None if form["names"] is None else tuple(form["names"])
        return cls(
            format=TableFormat(**form),
            limits=ReaderLimits(**body["limits"]),
            columns=tuple(parse_column(name, declared) for name, declared in body["columns"]),
            id_column=body["id_column"],
            drop_undeclared=body["drop_undeclared"],
            key=bytes.fromhex(body["key"]),
            size=body["size"],
        )


def write_frame(target: BinaryIO, kind: FrameKind, *parts: bytes | memoryview) -> None:
    """Send one frame of a kind, made of parts in order."""
    write_all(target, _HEAD.pack(kind, sum(len(part) for part in parts)))
    for part in parts:
        write_all(target, part)
    target.flush()


def write_all(target: BinaryIO, data: bytes | memoryview) -> None:
    """Write every byte, to pipes that take fewer at a time too."""
    view = memoryview(data)
    while view:
        view = view[target.write(view) :]


def read_frame(source: Readable) -> tuple[bytes, bytes]:
    """Receive one frame.

    Raises
    ------
    EOFError
        If the other side ended before a whole frame, or announced an impossible one.
    """
    kind, length = _HEAD.unpack(read_exactly(source, _HEAD.size))
    if length > MAXIMUM_FRAME:
        raise EOFError
    return kind, read_exactly(source, length)


def read_exactly(source: Readable, size: int) -> bytes:
    """Read ``size`` bytes, or raise EOFError."""
    pieces: list[bytes] = []
    while size > 0:
        piece = source.read(size)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def error_named(name: str, text: str) -> InputError:
    """Return the error of our own tree that the parsing process named."""
    return _ERRORS.get(name, TableError)(text)
