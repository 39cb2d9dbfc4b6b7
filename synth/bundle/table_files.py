"""Synthetic codes as files: ``synthetic.csv`` and ``synthetic.parquet``, the same bytes whenever they are written.

Columns come in the order of the declaration, dropped ones left out. A missing cell is empty (CSV) or null (Parquet);
dates are ISO; numbers have the decimals of ``step``. Texts and headers that a spreadsheet would take for a formula get
a leading apostrophe in both files, so that both hold the same table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from synth.errors import TableError
from synth.schema import ModelledColumn, Schema
from synth.schema.encoding import arrow_type, encode_column

__all__ = ["IDENTIFIER_PATTERN", "fresh_ids", "read_table", "write_csv", "write_parquet", "write_table"]

PIECE = 65_536
"""Rows written at a time; also the row groups of the Parquet file."""

IDENTIFIER_PATTERN = r"syn-[0-9a-f]{12}"
"""Regular expression of the ids that stand in for identifiers."""

_ID_MASK = np.uint64(2**48 - 1)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_Rows = npt.NDArray[np.int64]
_Printer = Callable[[int, int], pa.Array]
"""Returns the cells of the rows from a first one to a last one (excluded)."""


def write_table(codes: npt.ArrayLike, schema: Schema, path_csv: Path, path_parquet: Path, seed: int) -> None:
    """Write a synthetic table as CSV and as Parquet.

    Parameters
    ----------
    codes : array or tensor of integers of shape (n_rows, n_modelled)
        Columns in ``schema.names`` order.
    schema : Schema
        What is declared.
    path_csv, path_parquet : Path
        Where to write.
    seed : int
        The public seed; fresh ids are made from it.

    Raises
    ------
    TableError
        If the codes do not have one column for every modelled one.
    SchemaError
        If a code is not one of its column's.
    """
    with Path(path_csv).open("wb") as target:
        write_csv(codes, schema, target, seed)
    with Path(path_parquet).open("wb") as target:
        write_parquet(codes, schema, target, seed)


def write_csv(codes: npt.ArrayLike, schema: Schema, target: BinaryIO, seed: int) -> None:
    """Write a synthetic table as UTF-8 CSV with a header; see :func:`write_table`."""
    rows = _as_rows(codes, schema)
    printers = _printers(rows, schema, seed, lambda column, found: pa.array(_csv_texts(column, found, schema)))
    target.write((",".join(_quoted(column.printed_name) for column in schema.printed) + "\n").encode())
    for first in range(0, len(rows), PIECE):
        last = min(first + PIECE, len(rows))
        *before, end = (printer(first, last) for printer in printers)
        lines = pc.binary_join_element_wise(*before, pc.binary_join_element_wise(end, "\n", ""), ",")
        # Texts of an array lie one after the other, so its buffer is the file.
        _, offsets, data = lines.buffers()
        target.write(memoryview(data)[: np.frombuffer(offsets, dtype=np.int32)[last - first]])


def write_parquet(codes: npt.ArrayLike, schema: Schema, target: BinaryIO, seed: int) -> None:
    """Write a synthetic table as Parquet: nullable int64, float64, date32, string and bool; see :func:`write_table`."""
    rows = _as_rows(codes, schema)
    printers = _printers(rows, schema, seed, _parquet_cells)
    fields = pa.schema([(column.printed_name, arrow_type(column)) for column in schema.printed])
    # Without the Arrow schema in its metadata the file depends on the cells and the version of the library alone.
    with pyarrow.parquet.ParquetWriter(target, fields, store_schema=False) as writer:
        for first in range(0, len(rows), PIECE):
            last = min(first + PIECE, len(rows))
            batch = pa.record_batch([printer(first, last) for printer in printers], schema=fields)
            writer.write_batch(batch, row_group_size=PIECE)


def read_table(path: Path, schema: Schema) -> _Rows:
    """Read a synthetic table back into codes.

    Parameters
    ----------
    path : Path
        A CSV, TSV (also .gz) or Parquet file with the printed columns, in any order.
    schema : Schema
        What is declared.

    Returns
    -------
    array of shape (n_rows, n_modelled), columns in ``schema.names`` order

    Raises
    ------
    TableError
        If the file cannot be read, or a column is absent.

    Notes
    -----
    A grid value that is also a special value prints as the special value does, and is read back as it. For public
    tables alone: a private one is read by :mod:`synth.reading.reader`.
    """
    try:
        cells = _read_cells(Path(path), schema)
    except (pa.ArrowException, OSError, ValueError):
        raise TableError(f"'{Path(path).name}' cannot be read as a synthetic table. Make it again.") from None
    missing = [column.name for column in schema.modelled if column.printed_name not in cells.column_names]
    if missing:
        raise TableError(f"'{Path(path).name}' has no column '{missing[0]}'. Check that it belongs to this schema.")
    columns = [
        encode_column(column, cells.column(column.printed_name), strip=False).astype(np.int64)
        for column in schema.modelled
    ]
    return np.column_stack(columns)


def fresh_ids(name: str, rows: npt.NDArray[np.int64], seed: int) -> pa.Array:
    """Make ids that stand in for an identifier column.

    Parameters
    ----------
    name : str
        Name of the column; two columns get different ids.
    rows : array of int, values in [0, 2^48)
        Numbers of the rows.
    seed : int
        The public seed.

    Returns
    -------
    pyarrow string array
        Different for different rows: 12 hexadecimal digits of a seeded permutation of the 48-bit numbers.
    """
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=24, person=b"fresh ids").digest()
    shift, first, second = (np.uint64(number) for number in np.frombuffer(digest, dtype="<u8"))
    numbers = (rows.astype(np.uint64) * (first | np.uint64(1)) + shift) & _ID_MASK
    numbers ^= numbers >> np.uint64(24)
    numbers = (numbers * (second | np.uint64(1))) & _ID_MASK
    numbers ^= numbers >> np.uint64(24)
    texts = np.empty((len(rows), 16), dtype=np.uint8)
    texts[:, :4] = np.frombuffer(b"syn-", dtype=np.uint8)
    for place in range(12):
        texts[:, 4 + place] = _HEX_DIGITS[(numbers >> np.uint64(44 - 4 * place)) & np.uint64(15)]
    offsets = np.arange(0, 16 * len(rows) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(texts))


def _as_rows(codes: npt.ArrayLike, schema: Schema) -> _Rows:
    rows: npt.NDArray[Any] = np.asarray(codes)
    if rows.ndim != 2 or rows.shape[1] != len(schema.names):
        raise TableError(
            f"A synthetic table needs {len(schema.names)} columns of codes, one for every modelled column."
        )
    return rows


def _printers(
    rows: _Rows, schema: Schema, seed: int, values: Callable[[ModelledColumn, npt.NDArray[np.int64]], pa.Array]
) -> list[_Printer]:
    """Return, for each printed column, what makes its cells; values are worked out once per code that occurs."""
    place_of = {name: place for place, name in enumerate(schema.names)}

    def coded(column: ModelledColumn) -> _Printer:
        codes = column.smallest_codes(rows[:, place_of[column.name]])
        found, place = column.distinct_codes(codes)
        cells = values(column, found)
        return lambda first, last: cells.take(pa.array(place[codes[first:last]]))

    def fresh(name: str) -> _Printer:
        return lambda first, last: fresh_ids(name, np.arange(first, last), seed)

    modelled = {column.name: column for column in schema.modelled}
    return [
        coded(modelled[column.name]) if column.name in modelled else fresh(column.name) for column in schema.printed
    ]


def _csv_texts(column: ModelledColumn, codes: npt.NDArray[np.int64], schema: Schema) -> list[str]:
    # An empty line would be passed over when a table of one column is read.
    missing = '""' if len(schema.printed) == 1 else ""
    return [_quoted(text) or missing for text in column.printed_texts(codes)]


def _parquet_cells(column: ModelledColumn, codes: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(column.printed_cells(codes), type=arrow_type(column))


def _quoted(text: str) -> str:
    plain = not any(mark in text for mark in ',"\n\r') and text == text.strip()
    return text if plain else '"' + text.replace('"', '""') + '"'


def _read_cells(path: Path, schema: Schema) -> pa.Table:
    if ".parquet" in path.suffixes:
        return pyarrow.parquet.read_table(path)
    names = [column.printed_name for column in schema.printed]
    return pyarrow.csv.read_csv(
        str(path),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter="\t" if ".tsv" in path.suffixes else ",", newlines_in_values=True
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
