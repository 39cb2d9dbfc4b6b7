"""Whether every cell of a synthetic table lies in the declared domain, without any private row.

A cell is checked as the text that is printed: it must be the print of one of the column's codes. Only distinct texts
are looked at one by one, so a million rows take seconds.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from synth.bundle.table_files import IDENTIFIER_PATTERN
from synth.errors import VerificationError
from synth.schema import Column, ModelledColumn, Schema
from synth.schema.encoding import arrow_type

__all__ = ["TableCheck", "check_csv", "check_parquet"]

_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_BATCH_ROWS = 65_536
_BLOCK_BYTES = 8 * 2**20
_LARGEST_CACHE = 1_000_000

Places = npt.NDArray[np.integer[Any]]


class _ColumnCheck:
    """One column: how many cells lie outside, and a hash of all codes by which two files are compared."""

    def __init__(self, column: ModelledColumn, *, keep: bool) -> None:
        self.column: Column = column
        self.outside = 0
        self.digest = hashlib.sha256()
        self.kept: list[Places] | None = [] if keep else None
        self._modelled = column
        self._known: dict[str, int] = {}

    def add(self, texts: list[str], places: Places) -> None:
        codes = np.array([self._code(text) for text in texts], dtype="<i8")[places]
        self.outside += int((codes < 0).sum())
        self.digest.update(codes.tobytes())
        if self.kept is not None:
            self.kept.append(codes.astype(np.min_scalar_type(-self._modelled.size)))

    def _code(self, text: str) -> int:
        if text not in self._known:
            if len(self._known) > _LARGEST_CACHE:
                self._known.clear()
            self._known[text] = self._modelled.code_of_text(text)
        return self._known[text]


class _IdentifierCheck:
    """A column of fresh ids: how many cells are none, and a hash of all by which two files are compared."""

    kept: list[Places] | None = None

    def __init__(self, column: Column) -> None:
        self.column = column
        self.outside = 0
        self.digest = hashlib.sha256()

    def add(self, texts: list[str], places: Places) -> None:
        fresh = np.array([_IDENTIFIER.fullmatch(text) is not None for text in texts], dtype=bool)
        self.outside += int((~fresh[places]).sum())
        # A line break after every text, the last one too: the two files come in batches of different lengths.
        self.digest.update("".join(f"{texts[place]}\n" for place in places).encode())


class TableCheck:
    """What was found in one file of a table.

    Attributes
    ----------
    rows : int
        Rows read.
    problems : list of str
        One sentence for each difference.
    """

    def __init__(self, name: str, schema: Schema, *, keep: bool = False) -> None:
        self.name = name
        self.rows = 0
        self.problems: list[str] = []
        modelled = {column.name: column for column in schema.modelled}
        self._columns = [
            _ColumnCheck(modelled[column.name], keep=keep) if column.name in modelled else _IdentifierCheck(column)
            for column in schema.printed
        ]

    @property
    def codes(self) -> Places:
        """The codes of all cells, shape (rows, n_modelled), where they were kept; -1 outside the domain."""
        kept = [check.kept for check in self._columns if check.kept is not None]
        return np.stack([np.concatenate([np.empty(0, dtype=np.int8), *codes]) for codes in kept], axis=1)

    def add(self, arrays: list[pa.Array]) -> None:
        """Take in a batch: one array of cells for every printed column, as texts or in the column's own type."""
        for check, array in zip(self._columns, arrays, strict=True):
            check.add(*_printed(check.column, array))
        self.rows += len(arrays[0])

    def finish(self, rows: int | None) -> TableCheck:
        """Compare the number of rows and turn counts into sentences."""
        if rows is not None and self.rows != rows:
            self.problems.append(f"{self.name} has {self.rows:,} rows; the certificate says {rows:,}.")
        for check in self._columns:
            if check.outside:
                self.problems.append(
                    f"{self.name}: {check.outside:,} cells of '{check.column.name}' lie outside its declared domain."
                )
        return self

    def differences(self, other: TableCheck) -> list[str]:
        """Name the columns in which two files do not hold the same cells."""
        pairs = zip(self._columns, other._columns, strict=True)
        return [
            f"{self.name} and {other.name} do not hold the same cells in '{mine.column.name}'."
            for mine, theirs in pairs
            if mine.digest.digest() != theirs.digest.digest()
        ]


def check_csv(stream: BinaryIO, schema: Schema, *, rows: int | None, keep: bool = False) -> TableCheck:
    """Check ``synthetic.csv`` against the schema and the stated number of rows, if there is one.

    Parameters
    ----------
    stream : BinaryIO
    schema : Schema
    rows : int, optional
    keep : bool
        Whether the codes of all cells are kept.

    Raises
    ------
    VerificationError
        If it is not a table with the printed columns of the schema.
    """
    check = TableCheck("synthetic.csv", schema, keep=keep)
    names = [column.printed_name for column in schema.printed]
    try:
        reader = pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1),
            convert_options=pa_csv.ConvertOptions(
                column_types={name: pa.string() for name in names}, strings_can_be_null=False
            ),
        )
        if reader.schema.names != names:
            raise VerificationError("synthetic.csv does not have the declared columns in the declared order.")
        for batch in reader:
            _check_size(check, rows, batch.num_rows)
            check.add(list(batch.columns))
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, ValueError):
        raise VerificationError("synthetic.csv is not a table that can be read.") from None
    return check.finish(rows)


def check_parquet(data: bytes, schema: Schema, *, rows: int | None) -> TableCheck:
    """Check ``synthetic.parquet`` against the schema and the stated number of rows, if there is one.

    Raises
    ------
    VerificationError
        If it is not a table with the printed columns of the schema, in their types.
    """
    check = TableCheck("synthetic.parquet", schema)
    columns = schema.printed
    try:
        footer = pa_parquet.read_metadata(pa.BufferReader(data))
        names = footer.schema.to_arrow_schema().names
        if names not in ([column.name for column in columns], [column.printed_name for column in columns]):
            raise VerificationError("synthetic.parquet does not have the declared columns in the declared order.")
        # By the names of the file: the library knows no others.
        texts = [name for name, column in zip(names, columns, strict=True) if arrow_type(column) == pa.string()]
        file = pa_parquet.ParquetFile(pa.BufferReader(data), metadata=footer, read_dictionary=texts)
        _check_size(check, rows, file.metadata.num_rows)
        if not all(map(_has_its_type, columns, file.schema_arrow.types)):
            raise VerificationError("synthetic.parquet holds a column of another type than declared.")
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            _check_size(check, rows, batch.num_rows)
            check.add(list(batch.columns))
    except MemoryError:  # which is an ArrowException too
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError):
        raise VerificationError("synthetic.parquet is not a table that can be read.") from None
    return check.finish(rows)


def _check_size(check: TableCheck, rows: int | None, more: int) -> None:
    if rows is not None and check.rows + more > rows:
        raise VerificationError(f"{check.name} has more rows than the {rows:,} of the certificate.")


def _printed(column: Column, array: pa.Array) -> tuple[list[str], Places]:
    """Return the distinct printed texts of an array, the last one for missing cells, and every row's place in them."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    texts = [column.text_of_cell(cell) for cell in encoded.dictionary.to_pylist()]
    return [*texts, ""], places


def _has_its_type(column: Column, kind: pa.DataType) -> bool:
    return bool((kind.value_type if pa.types.is_dictionary(kind) else kind) == arrow_type(column))
