"""The files of a table, ``synthetic.csv`` and ``synthetic.parquet``: written, read and checked.

Where two tables belong together, each of them has two files more (:mod:`synth.bundle.sheets`). The same table always
gives the same bytes.

Columns come in the order of the declaration, dropped ones left out. A missing cell is empty (CSV) or null (Parquet);
dates are ISO; numbers have the decimals of ``step``. Texts and headers that a spreadsheet would take for a formula get
a leading apostrophe in both files, so that both contain the same table.

Checking needs no private row. The printed text of each cell of the CSV file must be that of one of the column's codes;
only distinct texts are looked at one by one, so a million rows take seconds. All files are then written again from
these codes and compared: a stranger's Parquet file is never read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from synth.bundle.archive import linked_members
from synth.bundle.parquet import Field, ParquetFile
from synth.bundle.sheets import IDENTIFIER_PATTERN, Sheet, columns_of, is_of_rows, table_of_file
from synth.errors import TableError, VerificationError
from synth.schema import Column, ModelledColumn, Schema, guarded
from synth.schema.columns.base import code_dtype
from synth.schema.encoding import arrow_type, encode_column
from synth.schema.schema import LEFT_ONLY, MERGE

__all__ = [
    "Places",
    "TableCheck",
    "check_csv",
    "is_written_as",
    "linked_files",
    "quoted",
    "read_table",
    "read_units",
    "write_csv",
    "write_parquet",
    "write_table",
]

_BLOCK_BYTES = 8 * 2**20
_LARGEST_CACHE = 1_000_000
_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_Rows = npt.NDArray[np.int64]
Places = npt.NDArray[np.integer[Any]]


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
    """Write a synthetic table as CSV and as Parquet; where two tables belong together, each of them beside it too.

    Parameters
    ----------
    codes : array or tensor of integers of shape (n_rows, n_modelled)
        Columns in ``schema.names`` order.
    schema : Schema
        What is declared.
    path_csv, path_parquet : Path
        Where to write; files of two tables have their own names (:func:`linked_files`), in the folder of ``path_csv``.
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
    paths = [path_csv, path_parquet, *(path_csv.with_name(name) for name in linked_files(schema))]
    for path in paths:
        with path.open("wb") as target:
            write = write_parquet if path.suffix == ".parquet" else write_csv
            write(codes, schema, target, seed, units=units, table=table_of_file(path.name, schema))


def linked_files(schema: Schema) -> tuple[str, ...]:
    """Return the names of the files of two tables that belong together; none of any other table."""
    return () if schema.tables is None else linked_members((schema.tables.first, schema.tables.second))


def write_csv(
    codes: npt.ArrayLike,
    schema: Schema,
    target: BinaryIO,
    seed: int,
    *,
    units: npt.NDArray[np.int64] | None = None,
    table: str | None = None,
) -> None:
    """Write a synthetic table, or one of two by its name, as UTF-8 CSV with a header; see :func:`write_table`."""
    sheet = Sheet(codes, schema, units=units, table=table)
    # An empty line would be skipped when a table of one column is read.
    missing = '""' if len(sheet.columns) == 1 else ""
    printers = sheet.printers(seed, lambda column, found: pa.array(_csv_texts(column, found, missing)))
    target.write(_header(sheet.columns).encode())
    for first, last in sheet.pieces():
        *before, end = (printer(first, last) for printer in printers)
        lines = _line(*before, _line(end, "\n", ""), ",")
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
    table: str | None = None,
) -> None:
    """Write a synthetic table, or one of two by its name, as Parquet; see :func:`write_table`.

    Its columns are nullable int64, float64, date32, string and bool.
    """
    sheet = Sheet(codes, schema, units=units, table=table)
    printers = sheet.printers(seed, _parquet_cells)
    fields = [
        Field(column.printed_name, arrow_type(column), distinct=sheet.is_distinct(column)) for column in sheet.columns
    ]
    file = ParquetFile(target, fields)
    for first, last in sheet.pieces():
        file.write([printer(first, last) for printer in printers])
    file.close()


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


def _line(*cells: pa.Array | str) -> pa.Array:
    """Join cells by the last text; a null is an empty cell."""
    return pc.binary_join_element_wise(*cells, null_handling="replace", null_replacement="")


def _csv_texts(column: ModelledColumn, codes: npt.NDArray[np.int64], missing: str) -> list[str]:
    return [quoted(text) or missing for text in column.printed_texts(codes)]


def _parquet_cells(column: ModelledColumn, codes: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(column.printed_cells(codes), type=arrow_type(column))


def _header(columns: Sequence[Column]) -> str:
    names = [quoted(column.printed_name) for column in columns]
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


def check_csv(
    stream: BinaryIO, schema: Schema, *, rows: int | None, keep: bool = False, name: str = "synthetic.csv"
) -> TableCheck:
    """Check a CSV file against the schema and the stated number of rows, if there is one.

    Parameters
    ----------
    stream : BinaryIO
    schema : Schema
    rows : int, optional
    keep : bool
        Whether the codes of all cells are kept; of ``synthetic.csv`` only.
    name : str
        ``synthetic.csv``, or the file of one of two tables that belong together.

    Raises
    ------
    VerificationError
        If it is not a table with the printed columns of the schema.
    """
    check = TableCheck(schema, keep=keep, name=name)
    names = [column.printed_name for column in check.columns]
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
            raise VerificationError(f"{name} does not have the declared columns in the declared order.")
        for batch in reader:
            _check_size(check, rows, batch.num_rows)
            check.add(list(batch.columns))
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, ValueError):
        raise VerificationError(f"{name} is not a table that can be read.") from None
    return check.finish(rows)


class TableCheck:
    """What was found in a CSV file.

    Attributes
    ----------
    columns : tuple of Column
        Those that it has to have, in order.
    rows : int
        Rows read.
    problems : list of str
        One sentence for each difference.
    """

    def __init__(self, schema: Schema, *, keep: bool = False, name: str = "synthetic.csv") -> None:
        table = table_of_file(name, schema)
        self.columns = columns_of(schema, table)
        self.rows = 0
        self.problems: list[str] = []
        self._name = name
        self._id_column = schema.unit.id_column
        self._units: list[npt.NDArray[np.int64]] | None = [] if keep and schema.people == "whole" else None
        self._person, self._last_id = -1, None
        self._merge = self.columns.index(MERGE) if schema.tables is not None and table is None else None
        self._checks = [
            _ColumnCheck(column) if isinstance(column, ModelledColumn) else _IdentifierCheck(column)
            for column in self.columns
        ]
        sizes = [column.size for column in self.columns if isinstance(column, ModelledColumn)]
        self._codes = np.empty((0, len(sizes)), np.result_type(np.uint8, *map(code_dtype, sizes))) if keep else None
        self._of_rows = [self._merge is not None and is_of_rows(column, schema) for column in self.columns]

    @property
    def codes(self) -> Places:
        """The codes of all cells, shape (rows, n_modelled), if all are in the domain; they must have been kept."""
        if self._codes is None:
            raise ValueError("The codes were not kept.")
        return self._codes

    @property
    def units(self) -> npt.NDArray[np.int64] | None:
        """The number of each row's person where people are kept whole: it grows where the id changes."""
        return None if self._units is None else np.concatenate([np.empty(0, np.int64), *self._units])

    def add(self, arrays: list[pa.Array]) -> None:
        """Check a batch: one dictionary array of texts for each printed column."""
        alone = None if self._merge is None else _is_text(arrays[self._merge], MERGE.declared_labels[LEFT_ONLY])
        first, self.rows = self.rows, self.rows + len(arrays[0])
        if self._codes is not None:
            # Grown in its place: an array for each column and batch would leave the memory of a wide table in pieces.
            self._codes.resize((self.rows, self._codes.shape[1]), refcheck=False)
        place = 0
        for check, array, of_rows in zip(self._checks, arrays, self._of_rows, strict=True):
            empty = alone if of_rows else None
            codes = check.add(array.dictionary.to_pylist(), array.indices.to_numpy(), empty)
            if self._codes is not None and codes is not None:
                self._codes[first:, place] = codes
                place += 1
            if self._units is not None and check.column.name == self._id_column:
                self._units.append(self._numbered(array.dictionary, array.indices.to_numpy()))

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
            self.problems.append(f"{self._name} has {self.rows:,} rows; the certificate says {rows:,}.")
        for check in self._checks:
            if check.outside:
                self.problems.append(
                    f"{self._name}: {check.outside:,} cells of '{check.column.name}' are outside its declared domain."
                )
            if check.filled:
                self.problems.append(
                    f"{self._name}: {check.filled:,} cells of '{check.column.name}' are filled in a row that "
                    f"'{MERGE.name}' says has none."
                )
        return self


class _ColumnCheck:
    """One column: how many cells are outside the domain, or filled where there are none."""

    def __init__(self, column: ModelledColumn) -> None:
        self.column: Column = column
        self.outside = self.filled = 0
        self._modelled = column
        self._known: dict[str, int] = {}

    def add(self, texts: list[str], places: Places, empty: npt.NDArray[np.bool_] | None) -> Places:
        """Check some cells and return their codes, 0 where they are outside the domain."""
        codes = np.array([self._code(text) for text in texts], dtype="<i8")[places]
        if empty is not None:
            self.filled += _filled(texts, places, empty)
            # As an empty cell is read.
            codes[empty] = self._modelled.unreadable_code
        self.outside += int((codes < 0).sum())
        known: Places = np.maximum(codes, 0)
        return known

    def _code(self, text: str) -> int:
        if text not in self._known:
            if len(self._known) > _LARGEST_CACHE:
                self._known.clear()
            self._known[text] = self._modelled.code_of_text(text)
        return self._known[text]


class _IdentifierCheck:
    """A column of new ids: how many cells are not such ids, or are filled where there are none."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.outside = self.filled = 0

    def add(self, texts: list[str], places: Places, empty: npt.NDArray[np.bool_] | None) -> None:
        fresh = np.array([_IDENTIFIER.fullmatch(text) is not None for text in texts], dtype=bool)[places]
        if empty is not None:
            self.filled += _filled(texts, places, empty)
            fresh |= empty
        self.outside += int((~fresh).sum())


def _is_text(cells: pa.DictionaryArray, text: str) -> npt.NDArray[np.bool_]:
    """Return which cells are a text."""
    equal = np.array([one == text for one in cells.dictionary.to_pylist()], dtype=bool)
    found: npt.NDArray[np.bool_] = equal[cells.indices.to_numpy()]
    return found


def _filled(texts: list[str], places: Places, empty: npt.NDArray[np.bool_]) -> int:
    """Return how many cells have a text where there should be none."""
    return int((np.array([text != "" for text in texts], dtype=bool)[places] & empty).sum())


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
        ``synthetic.csv`` or ``synthetic.parquet``, or a file of one of two tables that belong together.
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
    write = write_parquet if name.endswith(".parquet") else write_csv
    write(codes, schema, cast(BinaryIO, compared), seed, units=units, table=table_of_file(name, schema))
    return compared.is_same()


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
