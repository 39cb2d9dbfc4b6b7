"""Parquet files, written in one way only.

The bytes that a library writes change with its version: encodings, page sizes, statistics, its own name. Here the same
cells give the same bytes on every machine, so a check writes a file again and compares instead of reading what a
stranger sent. It takes a small part of the format, which every reader knows:

- A row group holds one chunk of each column, and a chunk one data page, uncompressed.
- Every column may have null cells. A level of one bit says of each cell whether it is there.
- The distinct cells of a chunk stand sorted in a dictionary page, and the data page holds their numbers. Truth values,
  of which the format has no dictionary, and the cells of columns called distinct stand in the data page themselves.
- Levels and numbers are one run of packed bits each. There are no statistics, no indexes and no metadata.

The format: https://github.com/apache/parquet-format (``src/main/thrift/parquet.thrift``, ``Encodings.md``). Its
headers are Thrift structs in the compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["Field", "ParquetFile"]

_MAGIC = b"PAR1"
_CREATED_BY = b"hermitage version 1"
"""The version of this writer, not of the program: it changes only with the bytes."""

_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_OPTIONAL, _UNCOMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 1, 0, 0, 2


@dataclass(frozen=True, slots=True)
class _Type:
    """How the format names a type: the physical type, and the older and the newer name of what it stands for."""

    physical: int
    converted: int | None = None
    logical: int | None = None


_TYPES = {
    pa.bool_(): _Type(0),
    pa.int64(): _Type(2),
    pa.float64(): _Type(5),
    pa.string(): _Type(6, converted=0, logical=1),
    pa.date32(): _Type(1, converted=6, logical=6),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, its type (bool, int64, float64, string or date32), and whether all its cells differ."""

    name: str
    kind: pa.DataType
    distinct: bool = False


class ParquetFile:
    """A Parquet file that is being written.

    Parameters
    ----------
    target : BinaryIO
        Where it goes; only ``write`` is called.
    fields : sequence of Field
        The columns.
    """

    def __init__(self, target: BinaryIO, fields: Sequence[Field]) -> None:
        self._target, self._fields = target, tuple(fields)
        self._place = self._rows = 0
        self._groups: list[_Written] = []
        self._write(_MAGIC)

    def write(self, cells: Sequence[pa.Array]) -> None:
        """Write a row group: an array of each column's type, all of one length of at least 1."""
        rows, start = len(cells[0]), self._place
        chunks = [self._chunk(field, array) for field, array in zip(self._fields, cells, strict=True)]
        self._rows += rows
        self._groups.append(_Written(_Struct({1: chunks, 2: self._place - start, 3: rows}).written()))

    def close(self) -> None:
        """Write the footer; the target stays open."""
        root = _Struct({4: b"schema", 5: _Small(len(self._fields))})
        footer = _Struct(
            {1: _Small(2), 2: [root, *map(_element, self._fields)], 3: self._rows, 4: self._groups, 6: _CREATED_BY}
        ).written()
        self._write(footer + struct.pack("<L", len(footer)) + _MAGIC)

    def _chunk(self, field: Field, cells: pa.Array) -> _Struct:
        start, present = self._place, cells.drop_null()
        levels = _packed(pc.is_valid(cells).to_numpy(zero_copy_only=False), 1)
        body, dictionary, encoding = struct.pack("<L", len(levels)) + levels, None, _PLAIN
        if field.distinct or field.kind == pa.bool_() or not len(present):
            body += _plain(present)
        else:
            found, numbers = _sorted_distinct(present)
            dictionary, encoding = self._place, _RLE_DICTIONARY
            self._page(_plain(found), {1: _Small(_DICTIONARY_PAGE), 7: {1: _Small(len(found)), 2: _Small(_PLAIN)}})
            width = max((len(found) - 1).bit_length(), 1)
            body += bytes([width]) + _packed(numbers, width)
        data = self._place
        page = {1: _Small(len(cells)), 2: _Small(encoding), 3: _Small(_RLE), 4: _Small(_RLE)}
        self._page(body, {1: _Small(_DATA_PAGE), 5: page})
        encodings = sorted({_PLAIN, _RLE, encoding})
        described = {
            1: _Small(_TYPES[field.kind].physical),
            2: list(map(_Small, encodings)),
            3: [field.name.encode()],
            4: _Small(_UNCOMPRESSED),
            5: len(cells),
            6: self._place - start,
            7: self._place - start,
            9: data,
        }
        return _Struct({2: 0, 3: _Struct(described | ({} if dictionary is None else {11: dictionary}))})

    def _page(self, body: bytes, header: dict[int, Any]) -> None:
        kind, *others = header.items()
        sizes = ((2, _Small(len(body))), (3, _Small(len(body))))
        said = ((number, _Struct(fields)) for number, fields in others)
        self._write(_Struct(dict((kind, *sizes, *said))).written())
        self._write(body)

    def _write(self, data: bytes) -> None:
        self._target.write(data)
        self._place += len(data)


def _element(field: Field) -> _Struct:
    """Describe a column in the schema."""
    kind = _TYPES[field.kind]
    said: dict[int, Any] = {1: _Small(kind.physical), 3: _Small(_OPTIONAL), 4: field.name.encode()}
    if kind.converted is not None and kind.logical is not None:
        said |= {6: _Small(kind.converted), 10: _Struct({kind.logical: _Struct({})})}
    return _Struct(said)


# Cells ----------------------------------------------------------------------------------------------------------------


def _sorted_distinct(cells: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the distinct cells in order, texts by their bytes, and the number in that order of every cell."""
    encoded = cells.dictionary_encode()
    found = encoded.dictionary
    # As bytes: texts of any language have one order.
    order = pc.sort_indices(found.cast(pa.binary()) if found.type == pa.string() else found)
    numbers = np.empty(len(found), dtype=np.int64)
    numbers[order.to_numpy()] = np.arange(len(found))
    return found.take(order), numbers[encoded.indices.to_numpy()]


def _plain(cells: pa.Array) -> bytes:
    """Return the bytes of cells, none of them null, one after another."""
    if cells.type == pa.bool_():
        return np.packbits(cells.to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    if cells.type == pa.string():
        return _texts(cells)
    values = cells.cast(pa.int32()) if cells.type == pa.date32() else cells
    plain: NDArray[Any] = values.to_numpy()
    return plain.astype(plain.dtype.newbyteorder("<")).tobytes()


def _texts(cells: pa.Array) -> bytes:
    """Return every text after its length, which has four bytes."""
    if not len(cells):
        return b""
    _, offsets, data = cells.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[cells.offset : cells.offset + len(cells) + 1]
    lengths = np.diff(places).astype("<i4")
    heads = (np.arange(len(cells)) * 4 + places[:-1] - places[0])[:, None] + np.arange(4)
    whole = np.empty(4 * len(cells) + places[-1] - places[0], dtype=np.uint8)
    of_text = np.ones(len(whole), dtype=bool)
    of_text[heads] = False
    whole[heads] = lengths[:, None].view(np.uint8)
    whole[of_text] = np.frombuffer(data, dtype=np.uint8)[places[0] : places[-1]] if data is not None else 0
    return whole.tobytes()


def _packed(numbers: NDArray[Any], width: int) -> bytes:
    """Return whole numbers as one run of so many bits each, the last eight filled up with zeros; none as no run."""
    if not len(numbers):
        return b""
    groups = -(-len(numbers) // 8)
    bits = np.zeros((8 * groups, width), dtype=np.uint8)
    as_bytes = numbers.astype("<u4")[:, None].view(np.uint8)
    bits[: len(numbers)] = np.unpackbits(as_bytes, axis=1, count=width, bitorder="little")
    return _varint(groups << 1 | 1) + np.packbits(bits, bitorder="little").tobytes()


# Thrift structs, in the compact protocol ------------------------------------------------------------------------------


class _Small(int):
    """A whole number of 32 bits; a plain one has 64."""


class _Written(bytes):
    """A struct that is written already; many as values would take much memory."""


class _Struct(dict[int, Any]):
    """Values by the numbers of their fields, in increasing order."""

    def written(self) -> bytes:
        """Return its bytes."""
        said, last = b"", 0
        for number, value in self.items():
            kind, body = _value(value)
            step = number - last
            said += bytes([step << 4 | kind]) + body
            last = number
        return said + b"\0"


_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_SHORT_LIST = 15


def _value(value: Any) -> tuple[int, bytes]:
    """Return the type of a value and its bytes."""
    match value:
        case _Struct():
            return _STRUCT, value.written()
        case _Written():
            return _STRUCT, value
        case _Small():
            return _I32, _varint(value << 1)
        case int():
            return _I64, _varint(value << 1)
        case bytes():
            return _BINARY, _varint(len(value)) + value
        case _:
            parts = [_value(one) for one in value]
            kind, count = parts[0][0] if parts else _STRUCT, len(parts)
            head = bytes([count << 4 | kind]) if count < _SHORT_LIST else bytes([0xF0 | kind]) + _varint(count)
            return _LIST, head + b"".join(body for _, body in parts)


def _varint(number: int) -> bytes:
    """Return a whole number that is not negative, seven bits a byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
