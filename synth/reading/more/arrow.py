"""Arrow IPC files and streams, which are Feather files of version 2. The contract: cells follow from their own row.

pyarrow reads them, one record batch after the other and no columns but those that are asked for. Unlike the reader of
Parquet it trusts what it reads: an offset may lead anywhere in memory. So whatever says where cells lie is checked
before a cell is looked at. What cells say is not: a text in another encoding, or a date that no calendar has, is for
those who read cells, and ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO, RawIOBase

import pyarrow as pa
import pyarrow.ipc

from synth.system.settings import ReaderLimits, too_large

__all__ = ["ArrowFile"]

MAGIC = b"ARROW1"
"""First bytes of a file; a stream begins with its first message."""


class ArrowFile:
    """The table in an Arrow file or stream.

    Parameters
    ----------
    file : binary file
        With random access.
    limits : ReaderLimits
        What is refused.

    Attributes
    ----------
    fields : list of pyarrow.Field
        What it declares of its columns.

    Raises
    ------
    TableError
        If it is too large.
    pyarrow.ArrowException, OSError, ValueError
        If it is damaged; the message may quote a cell. :meth:`batches` raises the same.
    """

    def __init__(self, file: RawIOBase | BytesIO, limits: ReaderLimits) -> None:
        self._limits = limits
        self._data = (
            pa.BufferReader(pa.py_buffer(file.getbuffer())) if isinstance(file, BytesIO) else pa.PythonFile(file, "r")
        )
        self.fields: list[pa.Field] = list(self._opened(()).schema)
        if not self.fields:
            raise pa.ArrowInvalid("no columns")
        if len(self.fields) > limits.columns:
            raise limits.too_many_columns(len(self.fields))

    def _opened(self, places: Sequence[int]) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
        self._data.seek(0)
        is_file = self._data.read(len(MAGIC)) == MAGIC
        self._data.seek(0)
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=sorted(set(places)))
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(self._data, options=options)

    def batches(self, places: Sequence[int], rows: int) -> Iterator[list[pa.Array]]:
        """Yield the columns at ``places``, which must not be empty, of at most so many rows at a time."""
        opened = self._opened(places)
        order = {place: k for k, place in enumerate(sorted(set(places)))}
        seen = held = 0
        for batch in _batches_of(opened):
            seen += batch.num_rows
            if seen > self._limits.rows:
                raise self._limits.too_many_rows()
            columns = [batch.column(order[place]) for place in places]
            for column in columns:
                _require_sound(column)
            held += batch.nbytes
            if held > self._limits.text_bytes:
                raise too_large("The table inside the Arrow file", self._limits.text_bytes)
            for first in range(0, batch.num_rows, rows):
                yield [column.slice(first, rows) for column in columns]


def _batches_of(opened: pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(opened, pa.ipc.RecordBatchStreamReader):
        yield from opened
        return
    for place in range(opened.num_record_batches):
        yield opened.get_batch(place)


_AS_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
"""Types of texts, and types of bytes that lie in memory in the same way."""

_BYTES = frozenset(_AS_BYTES.values())


def _require_sound(cells: pa.Array) -> None:
    """Refuse cells if what says where they lie leads out of the memory that holds them; no cell is looked at."""
    if isinstance(cells, pa.ExtensionArray):
        _require_sound(cells.storage)
        return
    cells.validate()
    kind, types = _AS_BYTES.get(cells.type, cells.type), pa.types
    if kind in _BYTES:
        # Of missing cells too, because to change the type of a view is to follow it wherever it leads.
        pa.Array.from_buffers(kind, len(cells), [None, *cells.buffers()[1:]], offset=cells.offset).validate(full=True)
    elif types.is_dictionary(kind):
        _require_sound(cells.dictionary)
        # Places alone are checked, whatever the words are.
        pa.DictionaryArray.from_arrays(cells.indices, pa.nulls(len(cells.dictionary)), safe=True)
    elif types.is_struct(kind):
        for place in range(kind.num_fields):
            _require_sound(cells.field(place))
    elif types.is_run_end_encoded(kind):
        _require_sound(cells.values)
        pa.RunEndEncodedArray.from_arrays(cells.run_ends, pa.nulls(len(cells.values)))
