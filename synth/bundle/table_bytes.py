"""The bytes of the two table files: made again from the cells, and what a Parquet file holds beside its cells."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from synth.bundle.table_files import write_csv, write_parquet
from synth.schema import Schema

__all__ = ["digests_of_tables", "parquet_problems"]

_WRITER = re.compile(r"parquet-cpp-arrow version [0-9]+\.[0-9]+\.[0-9]+(-SNAPSHOT)?")
_MAGIC = b"PAR1"


class _Digest(io.RawIOBase):
    """A file that keeps nothing but its hash and its length."""

    def __init__(self) -> None:
        super().__init__()
        self.sha256 = hashlib.sha256()
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        block = memoryview(data).cast("B")
        self.sha256.update(block)
        self._length += len(block)
        return len(block)

    def tell(self) -> int:
        return self._length


def digests_of_tables(codes: NDArray[np.integer[Any]], schema: Schema, seed: int) -> dict[str, str]:
    """Write both files of a table again, and return the SHA-256 of each by name.

    Parameters
    ----------
    codes : array of integers of shape (n_rows, n_modelled)
    schema : Schema
    seed : int
        The public seed, which fresh identifiers are made from.
    """
    csv, parquet = _Digest(), _Digest()
    write_csv(codes, schema, cast(BinaryIO, csv), seed)
    write_parquet(codes, schema, cast(BinaryIO, parquet), seed)
    return {"synthetic.csv": csv.sha256.hexdigest(), "synthetic.parquet": parquet.sha256.hexdigest()}


def parquet_problems(data: bytes) -> Iterator[str]:
    """Yield what a Parquet file holds beside its cells: metadata, stray bytes, statistics of other cells.

    Parameters
    ----------
    data : bytes
        A file that can be read.
    """
    file = pa_parquet.ParquetFile(pa.BufferReader(data))
    known = file.metadata
    if known.metadata or file.schema_arrow.metadata:
        yield "synthetic.parquet holds metadata of its own, which no table of a bundle has."
    if _WRITER.fullmatch(known.created_by or "") is None:
        yield "synthetic.parquet was written by a library that writes no bundles."
    place = len(_MAGIC)
    for group in range(known.num_row_groups):
        for number in range(known.num_columns):
            chunk = known.row_group(group).column(number)
            begins = [chunk.data_page_offset] + [chunk.dictionary_page_offset] * chunk.has_dictionary_page
            if min(begins) != place:
                yield "synthetic.parquet holds bytes that belong to no column."
                return
            place += chunk.total_compressed_size
    footer = int.from_bytes(data[-8:-4], "little")
    if not data.startswith(_MAGIC) or place + footer + 8 != len(data):
        yield "synthetic.parquet holds bytes that belong to no column."
        return
    for group in range(known.num_row_groups):
        rows = file.read_row_group(group, use_threads=False)
        for number, name in enumerate(file.schema_arrow.names):
            found = known.row_group(group).column(number).statistics
            if found is not None and not _agrees(found, rows.column(number)):
                yield f"synthetic.parquet states other smallest, largest or missing cells of '{name}' than it holds."


def _agrees(stated: Any, cells: pa.ChunkedArray) -> bool:
    if stated.has_distinct_count or (stated.has_null_count and stated.null_count != cells.null_count):
        return False
    if stated.num_values != len(cells) - cells.null_count:
        return False
    if not stated.has_min_max:
        return True
    found = pc.min_max(cells).as_py()
    return bool((stated.min, stated.max) == (found["min"], found["max"]))
