"""The two files of a table, ``synthetic.csv`` and ``synthetic.parquet``: written, read and checked.

The same table always gives the same bytes.

Columns come in the order of the declaration, dropped ones left out. A missing cell is empty (CSV) or null (Parquet);
dates are ISO; numbers have the decimals of ``step``. Texts and headers that a spreadsheet would take for a formula get
a leading apostrophe in both files, so that both contain the same table.

Checking needs no private row. The printed text of each cell of the CSV file must be that of one of the column's codes;
only distinct texts are looked at one by one, so a million rows take seconds. Both files are then written again from
these codes and compared: a stranger's Parquet file is never read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from synth.bundle.parquet import Field, ParquetFile
from synth.errors import TableError, VerificationError
from synth.schema import Column, ModelledColumn, Schema, guarded
from synth.schema.columns.base import code_dtype
from synth.schema.encoding import arrow_type, encode_column

__all__ = [
    "IDENTIFIER_PATTERN",
    "TableCheck",
    "as_rows",
    "check_csv",
    "fresh_ids",
    "is_written_as",
    "pieces",
    "printers_of",
    "quoted",
    "read_table",
    "read_units",
    "write_csv",
    "write_parquet",
    "write_table",
]

PIECE = 65_536
"""Rows written at a time; also the row groups of the Parquet file. Fewer where there are more columns than 64."""

IDENTIFIER_PATTERN = r"syn-[0-9a-f]{12}"
"""Regular expression of the new ids that replace identifiers."""

_ID_MASK = np.uint64(2**48 - 1)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_WIDE = 64
_BLOCK_BYTES = 8 * 2**20
_LARGEST_CACHE = 1_000_000
_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_Rows = npt.NDArray[np.int64]
Places = npt.NDArray[np.integer[Any]]

_Printer = Callable[[int, int], pa.Array]
"""Returns the cells from a first row to a last one (excluded)."""


# Writing and reading -------------------------------------------------------------------------------------------------


def write_table(
    codes: npt.ArrayLike,
    schema: Schema,
    path_csv: Path,
    path_parquet: Path,
    seed: int,
    *,
    units: npt.NDArray[np.int64] | None = None,
) -> None:
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
    units : array of shape (n_rows,), optional
        Where rows belong to people who are kept whole, the number of each row's person.

    Raises
    ------
    TableError
        If the codes do not have one column for every modelled one.
    SchemaError
        If a code is not one of its column's.
    """
    with Path(path_csv).open("wb") as target:
        write_csv(codes, schema, target, seed, units=units)
    with Path(path_parquet).open("wb") as target:
        write_parquet(codes, schema, target, seed, units=units)


def write_csv(
    codes: npt.ArrayLike,
    schema: Schema,
    target: BinaryIO,
    seed: int,
    *,
    units: npt.NDArray[np.int64] | None = None,
) -> None:
    """Write a synthetic table as UTF-8 CSV with a header; see :func:`write_table`."""
    rows = as_rows(codes, schema)
    # An empty line would be skipped when a table of one column is read.
    missing = '""' if len(schema.printed) == 1 else ""
    printers = printers_of(
        rows, schema, seed, lambda column, found: pa.array(_csv_texts(column, found, missing)), units=units
    )
    target.write(_header(schema).encode())
    for first, last in pieces(len(rows), schema):
        *before, end = (printer(first, last) for printer in printers)
        lines = pc.binary_join_element_wise(*before, pc.binary_join_element_wise(end, "\n", ""), ",")
        # Texts of an array lie one after the other, so its buffer is the file.
        _, offsets, data = lines.buffers()
        target.write(memoryview(data)[: np.frombuffer(offsets, dtype=np.int32)[last - first]])


def write_parquet(
    codes: npt.ArrayLike,
    schema: Schema,
    target: BinaryIO,
    seed: int,
    *,
    units: npt.NDArray[np.int64] | None = None,
) -> None:
    """Write a synthetic table as Parquet: nullable int64, float64, date32, string and bool; see :func:`write_table`."""
    rows = as_rows(codes, schema)
    printers = printers_of(rows, schema, seed, _parquet_cells, units=units)
    identifiers = set(schema.identifiers) - ({schema.unit.id_column} if units is not None else set())
    file = ParquetFile(
        target,
        [
            Field(column.printed_name, arrow_type(column), distinct=column.name in identifiers)
            for column in schema.printed
        ],
    )
    for first, last in pieces(len(rows), schema):
        file.write([printer(first, last) for printer in printers])
    file.close()


def pieces(rows: int, schema: Schema) -> Iterator[tuple[int, int]]:
    """Yield the first row of each piece that is written at once, and the row after its last."""
    step = _piece(schema)
    return ((first, min(first + step, rows)) for first in range(0, rows, step))


def _piece(schema: Schema) -> int:
    return max(PIECE * _WIDE // max(len(schema.printed), _WIDE), 1)


def read_table(source: Path | BinaryIO, schema: Schema, *, made_here: bool = True) -> _Rows:
    """Read a synthetic table back into codes.

    Parameters
    ----------
    source : Path or binary file
        A CSV, TSV (also .gz) or Parquet file with the printed columns, in any order; an open ``synthetic.csv``.
    schema : Schema
        What is declared.
    made_here : bool
        Whether a run made it; otherwise a user did.

    Returns
    -------
    array of shape (n_rows, n_modelled), columns in ``schema.names`` order

    Raises
    ------
    TableError
        If the file cannot be read, or a column is missing.

    Notes
    -----
    A grid value that is also a special value is read as the special value, since both print the same. For public
    tables only: :mod:`synth.reading.reader` reads private ones.
    """
    name = source.name if isinstance(source, Path) else "synthetic.csv"
    try:
        cells = _read_cells(source, schema)
    except (pa.ArrowException, OSError, ValueError):
        what = "a synthetic table. Make it again" if made_here else "a table. Save it as CSV, TSV or Parquet"
        raise TableError(f"'{name}' cannot be read as {what}.") from None
    missing = [column.name for column in schema.modelled if column.printed_name not in cells.column_names]
    if missing:
        raise TableError(f"'{name}' has no column '{missing[0]}'. Check that it belongs to this schema.")
    columns = [
        encode_column(column, cells.column(column.printed_name), strip=False).astype(np.int64)
        for column in schema.modelled
    ]
    return np.column_stack(columns)


def read_units(source: Path | BinaryIO, schema: Schema) -> npt.NDArray[np.int64] | None:
    """Return the number of each row's person in a table that a run made, or None where people are not kept whole.

    Parameters
    ----------
    source, schema
        As in :func:`read_table`.
    """
    if schema.people != "whole":
        return None
    ids = _read_cells(source, schema).column(guarded(str(schema.unit.id_column))).to_numpy()
    begins = np.ones(len(ids), dtype=bool)
    begins[1:] = ids[1:] != ids[:-1]
    return np.asarray(np.cumsum(begins) - 1, dtype=np.int64)


def fresh_ids(name: str, rows: npt.NDArray[np.int64], seed: int) -> pa.Array:
    """Return new ids for an identifier column.

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
        One id for each row, all different: 12 hexadecimal digits of a seeded permutation of the 48-bit numbers.
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


def as_rows(codes: npt.ArrayLike, schema: Schema) -> _Rows:
    """Return codes as an array; refuse them unless they have one column for each modelled column."""
    rows: npt.NDArray[Any] = np.asarray(codes)
    if rows.ndim != 2 or rows.shape[1] != len(schema.names):
        raise TableError(
            f"A synthetic table needs {len(schema.names)} columns of codes, one for every modelled column."
        )
    return rows


def printers_of(
    rows: _Rows,
    schema: Schema,
    seed: int,
    values: Callable[[ModelledColumn, npt.NDArray[np.int64]], pa.Array],
    *,
    units: npt.NDArray[np.int64] | None = None,
) -> list[_Printer]:
    """Return the printer of each printed column; values are computed once per code that occurs.

    Rows of one of ``units`` have one id in the column that names them; every other id is of one row.
    """
    place_of = {name: place for place, name in enumerate(schema.names)}

    def coded(column: ModelledColumn) -> _Printer:
        codes = column.smallest_codes(rows[:, place_of[column.name]])
        found = column.distinct_codes(codes)
        cells = values(column, found)
        return lambda first, last: cells.take(pa.array(np.searchsorted(found, codes[first:last])))

    def fresh(name: str) -> _Printer:
        if units is not None and name == schema.unit.id_column:
            return lambda first, last: fresh_ids(name, units[first:last], seed)
        return lambda first, last: fresh_ids(name, np.arange(first, last), seed)

    modelled = {column.name: column for column in schema.modelled}
    return [
        coded(modelled[column.name]) if column.name in modelled else fresh(column.name) for column in schema.printed
    ]


def _csv_texts(column: ModelledColumn, codes: npt.NDArray[np.int64], missing: str) -> list[str]:
    return [quoted(text) or missing for text in column.printed_texts(codes)]


def _parquet_cells(column: ModelledColumn, codes: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(column.printed_cells(codes), type=arrow_type(column))


def _header(schema: Schema) -> str:
    names = [quoted(column.printed_name) for column in schema.printed]
    if names[0].startswith("\ufeff"):  # without quotes every reader would take it for the file's byte order mark
        names[0] = f'"{names[0]}"'
    return ",".join(names) + "\n"


def quoted(text: str, separator: str = ",") -> str:
    """Return a cell as text in a line, in quotation marks if needed."""
    plain = not any(mark in text for mark in f'{separator}"\n\r') and text == text.strip()
    return text if plain else '"' + text.replace('"', '""') + '"'


def _read_cells(source: Path | BinaryIO, schema: Schema) -> pa.Table:
    endings = source.suffixes if isinstance(source, Path) else []
    if ".parquet" in endings:
        return pa_parquet.read_table(source)
    names = [column.printed_name for column in schema.printed]
    return pa_csv.read_csv(
        source,
        parse_options=pa_csv.ParseOptions(delimiter="\t" if ".tsv" in endings else ",", newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


# Whether every cell lies in the declared domain ----------------------------------------------------------------------


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
    check = TableCheck(schema, keep=keep)
    names = [column.printed_name for column in schema.printed]
    try:
        reader = pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1),
            # As a dictionary: a plain column of texts takes, of every block, the memory of the whole block.
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string())), strings_can_be_null=False
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


class TableCheck:
    """What was found in ``synthetic.csv``.

    Attributes
    ----------
    rows : int
        Rows read.
    problems : list of str
        One sentence for each difference.
    """

    def __init__(self, schema: Schema, *, keep: bool = False) -> None:
        self.rows = 0
        self.problems: list[str] = []
        self._id_column = schema.unit.id_column
        self._units: list[npt.NDArray[np.int64]] | None = [] if keep and schema.people == "whole" else None
        self._person, self._last_id = -1, None
        modelled = {column.name: column for column in schema.modelled}
        self._columns = [
            _ColumnCheck(modelled[column.name], keep=keep) if column.name in modelled else _IdentifierCheck(column)
            for column in schema.printed
        ]

    @property
    def codes(self) -> Places:
        """The codes of all cells, shape (rows, n_modelled), if they were kept and all are in the domain."""
        kept = [check.kept for check in self._columns if check.kept is not None]
        widest = np.result_type(np.uint8, *(blocks[0] for blocks in kept if blocks))
        codes = np.empty((self.rows, len(kept)), dtype=widest)
        for place, blocks in enumerate(kept):
            codes[:, place] = np.concatenate([np.empty(0, dtype=np.uint8), *blocks])
        return codes

    @property
    def units(self) -> npt.NDArray[np.int64] | None:
        """The number of each row's person where people are kept whole: it grows where the id changes."""
        return None if self._units is None else np.concatenate([np.empty(0, np.int64), *self._units])

    def add(self, arrays: list[pa.Array]) -> None:
        """Check a batch: one dictionary array of texts for each printed column."""
        for check, array in zip(self._columns, arrays, strict=True):
            check.add(array.dictionary.to_pylist(), array.indices.to_numpy())
            if self._units is not None and check.column.name == self._id_column:
                self._units.append(self._numbered(array.dictionary, array.indices.to_numpy()))
        self.rows += len(arrays[0])

    def _numbered(self, texts: pa.Array, places: Places) -> npt.NDArray[np.int64]:
        """Return the number of each row's person, by where the id changes; only texts at the ends are kept."""
        begins = np.diff(places, prepend=places[:1]) != 0
        if len(places):
            begins[0] = texts[int(places[0])].as_py() != self._last_id
            self._last_id = texts[int(places[-1])].as_py()
        numbers = self._person + np.cumsum(begins)
        self._person = int(numbers[-1]) if len(numbers) else self._person
        return np.asarray(numbers, dtype=np.int64)

    def finish(self, rows: int | None) -> TableCheck:
        """Compare the number of rows and turn counts into sentences."""
        if rows is not None and self.rows != rows:
            self.problems.append(f"synthetic.csv has {self.rows:,} rows; the certificate says {rows:,}.")
        for check in self._columns:
            if check.outside:
                self.problems.append(
                    f"synthetic.csv: {check.outside:,} cells of '{check.column.name}' are outside its declared domain."
                )
        return self


class _ColumnCheck:
    """One column: how many cells are outside the domain, and the codes of all of them."""

    def __init__(self, column: ModelledColumn, *, keep: bool) -> None:
        self.column: Column = column
        self.outside = 0
        self.kept: list[Places] | None = [] if keep else None
        self._modelled = column
        self._known: dict[str, int] = {}

    def add(self, texts: list[str], places: Places) -> None:
        codes = np.array([self._code(text) for text in texts], dtype="<i8")[places]
        self.outside += int((codes < 0).sum())
        if self.kept is not None:
            self.kept.append(np.maximum(codes, 0).astype(code_dtype(self._modelled.size)))

    def _code(self, text: str) -> int:
        if text not in self._known:
            if len(self._known) > _LARGEST_CACHE:
                self._known.clear()
            self._known[text] = self._modelled.code_of_text(text)
        return self._known[text]


class _IdentifierCheck:
    """A column of new ids: how many cells are not such ids."""

    kept: list[Places] | None = None

    def __init__(self, column: Column) -> None:
        self.column = column
        self.outside = 0

    def add(self, texts: list[str], places: Places) -> None:
        fresh = np.array([_IDENTIFIER.fullmatch(text) is not None for text in texts], dtype=bool)
        self.outside += int((~fresh[places]).sum())


def _check_size(check: TableCheck, rows: int | None, more: int) -> None:
    if rows is not None and check.rows + more > rows:
        raise VerificationError(f"synthetic.csv has more rows than the {rows:,} of the certificate.")


# Whether the bytes follow from the cells, and contain nothing else ---------------------------------------------------


def is_written_as(
    name: str,
    stream: BinaryIO,
    codes: npt.NDArray[np.integer[Any]],
    schema: Schema,
    seed: int,
    *,
    units: npt.NDArray[np.int64] | None = None,
) -> bool:
    """Return whether a file of a table is, byte for byte, what some cells are written as.

    Parameters
    ----------
    name : str
        ``synthetic.csv`` or ``synthetic.parquet``.
    stream : BinaryIO
        The file.
    codes : array of integers of shape (n_rows, n_modelled)
        The cells.
    schema : Schema
    seed : int
        The public seed, from which new identifiers are made.
    units : array of shape (n_rows,), optional
        As in :func:`write_table`.
    """
    compared = _Compared(stream)
    _WRITERS[name](codes, schema, cast(BinaryIO, compared), seed, units=units)
    return compared.is_same()


_WRITERS = {"synthetic.csv": write_csv, "synthetic.parquet": write_parquet}


class _Compared:
    """A file that compares what is written to it with another file, and keeps nothing."""

    def __init__(self, other: BinaryIO) -> None:
        self._other, self._same = other, True

    def write(self, data: bytes | memoryview) -> int:
        block = memoryview(data).cast("B")  # the bytes of a buffer may have signs, and then equal no others
        self._same = self._same and self._other.read(len(block)) == block
        return len(block)

    def is_same(self) -> bool:
        """Whether the other file is the same so far and ends here."""
        return self._same and not self._other.read(1)
