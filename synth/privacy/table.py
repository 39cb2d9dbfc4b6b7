"""PrivateTable: the rows of a private table as codes, opened by id and never shown.

Only :class:`synth.privacy.session.PrivateSession` asks it for columns. It has no length, no iteration, no text and no
bytes; copying or pickling it is refused, so rows stay in the process that opened them.

Which rows of a unit are kept, and which units are held out, is keyed, so that it is the same in every later run
(``docs/proofs/split.md``). Both are decided for each unit by a keyed hash of its id, never by other units:

- at most ``rows_per_unit`` rows of an id are kept, those with the smallest hash of (id, occurrence), where occurrence
  is the position of a row among the rows of its id. Adding or removing an id changes no other id's rows.
- Where the number of units is private (add/remove), each unit is held out by its own independent coin: adding one unit
  leaves every other on its side, and neither size is public. A split of fixed size would turn "one unit added" into
  "one unit swapped".
- Where the number of units is public (replace-one), the units with the smallest hashes are held out, exactly
  round(share * units) of them. Replacing one unit replaces at most one unit on each side.

Where units are kept whole, their rows then become one (:mod:`synth.privacy.people`), which also says which are kept.

Without an id column a row is a unit, and its id is a keyed hash of its codes, with a number among the rows that have
the same codes: the position of a row in the table, and the rows before it, play no part. Where a cell is hidden the
position is the id instead, because the rest of a row must stay on its side when the cell changes; the number and the
order of the rows are public there. Where a unit may have several such rows, each has its own coin under either
relation.

A row without an id, where there is an id column, belongs to no unit. It is on neither side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from synth.errors import PrivacyError, SchemaError
from synth.privacy.counting_processes import CountingProcesses, can_share
from synth.privacy.hashing import (
    Hashes,
    begins,
    content_hashes,
    keyed_numbers,
    places_in_groups,
    purpose_key,
    units_and_occurrences,
)
from synth.privacy.people import folded
from synth.privacy.receipt import Part
from synth.reading.reader import EncodedTable, read_codes, with_id
from synth.reading.request import HASH_BYTES
from synth.schema import Codes, Neighbours, Schema, TableFormat, people_of
from synth.system.settings import ReaderLimits

__all__ = [
    "Part",
    "PrivateTable",
    "TableSource",
    "asked_rows",
    "chosen_rows",
    "divided_by",
    "hash_key",
    "held_of_many",
    "holdout_rows",
    "kept_rows",
    "place_hashes",
    "read_table",
    "require_number_of_units",
    "row_hashes",
    "rows_of",
    "units_to_split",
]

HASHED_ROWS = 2**23
"""Up to so many rows, the hashes of all rows are held at a time."""

ROWS_OF_PROCESS = 2**22
"""A process more counts for so many rows; it takes a second to start one."""

_Mask = npt.NDArray[np.bool_]


class TableSource(Protocol):
    """A store of tables, such as :class:`synth.vault.vault.Vault`."""

    def open(self, table_id: str) -> BinaryIO:
        """Return the decrypted bytes of a table."""
        ...


class PrivateTable:
    """Rows of a private table, as codes; opaque.

    Made by :meth:`open`, or from codes by :meth:`from_codes`. ``schema`` and ``part``, the side of the split, are
    public; nothing else is.
    """

    __slots__ = (
        "_columns",
        "_counting",
        "_keyed",
        "_processes",
        "_public_rows",
        "_rows",
        "_texts",
        "_units",
        "part",
        "schema",
    )

    schema: Schema
    part: Part
    _columns: Codes
    _rows: int
    _public_rows: int | None
    """The number of rows of this side that may be printed, from the declared number; None where private."""
    _units: npt.NDArray[np.int64] | None
    """A number for each row, shared by the rows of a unit; None where no ids show which rows belong together."""
    _texts: Callable[[Sequence[str]], Sequence[dict[str, int]]] | None
    """Counts texts of columns that are to be found privately; None where the table was not opened for that."""
    _keyed: Callable[[], npt.NDArray[np.uint64]]
    """Returns a secret number for each row, by which rows are divided; shape (n_rows, 2)."""
    _processes: int
    """How many processes may count."""
    _counting: CountingProcesses | None

    def __init__(self) -> None:
        raise PrivacyError("A private table is opened by its id; use PrivateTable.open.")

    @classmethod
    def open(
        cls,
        source: TableSource | Callable[[], BinaryIO],
        table_id: str,
        schema: Schema,
        form: TableFormat,
        *,
        account_key: bytes,
        holdout: float = 0.0,
        parts: Sequence[Part] = ("train",),
        undeclared: Literal["refuse", "drop"] = "refuse",
        public: bool = False,
        limits: ReaderLimits | None = None,
        processes: int = 1,
    ) -> tuple[PrivateTable, ...]:
        """Open sides of a table, reading it once: at most ``rows_per_unit`` rows of each unit, split by unit.

        Parameters
        ----------
        source : TableSource, or a callable that opens the file
            Where the decrypted bytes come from; they stay in memory.
        table_id : str
            Which table.
        schema : Schema
            What is declared.
        form : TableFormat
            How cells are written.
        account_key : bytes
            The account's secret; decides which rows are kept and which units are held out, the same in every run.
        holdout : float
            Part of the units that are held out, in [0, 1).
        parts : sequence of {"train", "holdout"}
            Which sides, in order.
        undeclared : {"refuse", "drop"}
            What to do with a column that is not declared.
        public : bool
            Whether the rows are public, as those of a stand-in are, so that they may be counted without a declared
            number.
        limits : ReaderLimits, optional
            What is refused while reading.
        processes : int
            How many processes of this machine may read and count; changes no code and no sum.

        Raises
        ------
        TableError
            If the table cannot be read as declared, in one sentence without a cell.
        PrivacyError
            If the number of units is public and not declared.
        """
        if not public:
            require_number_of_units(schema)
        encoded = read_table(
            source,
            table_id,
            schema,
            form,
            account_key=account_key,
            undeclared=undeclared,
            limits=limits,
            processes=processes,
        )
        sides: list[PrivateTable] = []
        for part in parts:
            last = len(sides) == len(parts) - 1
            side = cls._of(encoded, schema, account_key=account_key, holdout=holdout, part=part, last=last)
            side._processes = processes
            sides.append(side)
        return tuple(sides)

    @classmethod
    def open_smallest(
        cls,
        made_up: Callable[[], BinaryIO],
        schema: Schema,
        form: TableFormat,
        *,
        holdout: float,
        undeclared: Literal["refuse", "drop"],
    ) -> tuple[tuple[PrivateTable, PrivateTable], ...]:
        """Open the smallest possible tables, of simulated rows: one row on either side, and none.

        Parameters
        ----------
        made_up : callable
            Opens a file of a few rows as ``form`` says; the last one is used.
        schema, form, holdout, undeclared
            As in :meth:`open`. The numbers of rows that are declared public stay as they are declared.

        Returns
        -------
        tuple of pairs of PrivateTable
            The training part and the hold-out of each.
        """
        require_number_of_units(schema)
        encoded = read_table(made_up, "", schema, form, account_key=b"", undeclared=undeclared)

        def side(rows: int, part: Part) -> PrivateTable:
            chosen = np.arange(encoded._n_rows) >= encoded._n_rows - rows
            columns, asked = asked_rows(encoded, chosen, schema, account_key=b"")
            if schema.needs_number_of_units:
                return cls._side(columns, asked, part, n_units=schema.number_of_units or 0, holdout=holdout)
            # Their number is private, or released with them: it is that of this side.
            return cls._side(columns, asked, part, n_units=rows, holdout=float(part == "holdout"))

        return tuple((side(rows, "train"), side(rows, "holdout")) for rows in (1, 0))

    @classmethod
    def from_codes(
        cls,
        schema: Schema,
        codes: Mapping[str, npt.ArrayLike],
        *,
        unit_ids: Sequence[Hashable] | None = None,
        account_key: bytes = b"",
        holdout: float = 0.0,
        part: Part = "train",
    ) -> PrivateTable:
        """Make a table from codes in memory, capped and split as an opened one is.

        Parameters
        ----------
        schema : Schema
            What is declared.
        codes : mapping of name to array of shape (n_rows,)
            Codes of every modelled column.
        unit_ids : sequence of length n_rows, optional
            The unit of each row, None for a row without an id. Needed exactly where the schema has an id column.
        account_key, holdout, part
            As in :meth:`open`.

        Raises
        ------
        SchemaError
            If columns or codes do not fit the schema.
        """
        columns = {column.name: column.smallest_codes(codes[column.name]).copy() for column in schema.modelled}
        lengths = {len(values) for values in columns.values()}
        has_ids = schema.unit.id_column is not None
        if len(lengths) != 1 or set(codes) != set(columns):
            raise SchemaError("Codes are needed for every modelled column, all of one length, and for no other column.")
        n_rows = lengths.pop()
        if has_ids != (unit_ids is not None) or (unit_ids is not None and len(unit_ids) != n_rows):
            raise SchemaError("Unit ids are needed, one for every row, exactly where the schema has an id column.")
        hashes = None if unit_ids is None else _hashes_of(unit_ids, hash_key(account_key))
        encoded = EncodedTable(columns, hashes, n_rows)
        return cls._of(encoded, schema, account_key=account_key, holdout=holdout, part=part)

    @classmethod
    def _of(
        cls,
        encoded: EncodedTable,
        schema: Schema,
        *,
        account_key: bytes,
        holdout: float,
        part: Part,
        last: bool = False,
    ) -> PrivateTable:
        """Make one side of a table; the last one takes the codes, and leaves none behind."""
        chosen = chosen_rows(encoded, schema, account_key=account_key, holdout=holdout, part=part)
        n_units = units_to_split(encoded, schema) or encoded._n_rows
        columns, asked = asked_rows(encoded, chosen, schema, account_key=account_key, last=last)
        table = cls._side(columns, asked, part, n_units=n_units, holdout=holdout, account_key=account_key)
        if encoded._unit_hashes is not None:
            hashes = encoded._unit_hashes
            if asked.unit.rows_per_unit > 1:
                table._units = units_and_occurrences(hashes[chosen])[0]
            if asked is schema:
                table._keyed = lambda: divided_by(hashes[chosen], account_key=account_key)
        return table

    @classmethod
    def _side(
        cls, columns: Codes, schema: Schema, part: Part, *, n_units: int, holdout: float, account_key: bytes = b""
    ) -> PrivateTable:
        """Make one side of a table of ``n_units``, which is a public number where that of rows is."""
        table = object.__new__(cls)

        def keyed() -> npt.NDArray[np.uint64]:
            # Of what ``columns`` holds by then: codes may have moved to memory that is shared.
            hashes = row_hashes([columns[name] for name in schema.names], account_key=account_key)
            return divided_by(hashes, account_key=account_key)

        table._keyed = keyed
        table.schema, table.part, table._columns, table._units, table._texts = schema, part, columns, None, None
        table._rows = len(columns[schema.names[0]])
        table._processes, table._counting = 1, None
        table._public_rows = None
        if schema.rows_are_public:
            held = round(holdout * n_units)
            table._public_rows = held if part == "holdout" else n_units - held
        return table

    def _column(self, name: str) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the codes of one column, for the session alone; the array is read-only."""
        return self._columns[self.schema.modelled_column(name).name]

    def _counters(self) -> CountingProcesses | None:
        """Return what counts the rows in several parts, for the session alone; None where that is not worth it."""
        if self._counting is None and can_share():
            processes = min(self._processes, self._rows // ROWS_OF_PROCESS)
            if processes > 1:
                self._counting = CountingProcesses(self._columns, processes)
        return self._counting

    def __repr__(self) -> str:
        return "<PrivateTable: rows are not shown>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError("A private table cannot be copied or pickled; open it by its id.")

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(None)


def require_number_of_units(schema: Schema) -> None:
    """Refuse a table whose number of units is public and not declared."""
    if schema.needs_number_of_units and schema.number_of_units is None:
        raise PrivacyError(
            f"The number of {schema.unit.protects}s is declared public, so it has to be declared as well: "
            "write it as 'number_of_units'. It is printed and never counted."
        )


def read_table(
    source: TableSource | Callable[[], BinaryIO],
    table_id: str,
    schema: Schema,
    form: TableFormat,
    *,
    account_key: bytes,
    undeclared: Literal["refuse", "drop"] = "refuse",
    limits: ReaderLimits | None = None,
    processes: int = 1,
) -> EncodedTable:
    """Read all rows of a table as codes; for this package alone."""

    def open_stream() -> BinaryIO:
        return source() if callable(source) else source.open(table_id)

    # The table was read completely before the charge; a busy machine must not fail it now.
    within = limits or ReaderLimits().once_more
    return read_codes(
        open_stream,
        form,
        schema,
        undeclared=undeclared,
        limits=within,
        key=hash_key(account_key),
        processes=processes,
    )


def rows_of(encoded: EncodedTable, chosen: npt.NDArray[np.bool_], *, last: bool = False) -> Codes:
    """Return the codes of some rows, by column, read-only; for this package alone.

    Where these are the last that are wanted, all rows are let go column by column: so no more is held at a time than
    these and one column.
    """
    every = bool(chosen.all())
    columns: Codes = {}
    for name in list(encoded._codes):
        codes = encoded._codes.pop(name) if last else encoded._codes[name]
        columns[name] = codes if every else codes[chosen]
        columns[name].flags.writeable = False
    return columns


def asked_rows(
    encoded: EncodedTable,
    chosen: npt.NDArray[np.bool_],
    schema: Schema,
    *,
    account_key: bytes,
    last: bool = False,
) -> tuple[Codes, Schema]:
    """Return the rows that questions are about, by column, and their schema: one row for each unit that is kept whole.

    For this package alone; ``last`` is as in :func:`rows_of`.
    """
    columns = rows_of(encoded, chosen, last=last)
    if schema.people != "whole" or encoded._unit_hashes is None:
        return columns, schema
    people = people_of(schema)
    columns = folded(columns, encoded._unit_hashes[chosen], people, account_key=account_key)
    for codes in columns.values():
        codes.flags.writeable = False
    return columns, people.asked


def chosen_rows(
    encoded: EncodedTable, schema: Schema, *, account_key: bytes, holdout: float, part: Part
) -> npt.NDArray[np.bool_]:
    """Return which rows are on one side of a table after the cap on rows per unit; for this package alone.

    Parameters
    ----------
    encoded : EncodedTable
        All rows.
    schema : Schema
        Declares the unit and its cap, and the neighbouring relation that decides how to split.
    account_key : bytes
        The account's secret.
    holdout : float
        Part of the units to hold out, in [0, 1).
    part : {"train", "holdout"}
        Which side.

    Returns
    -------
    array of bool of shape (n_rows,)

    Raises
    ------
    PrivacyError
        If ``holdout`` is outside [0, 1).
    """
    if not 0 <= holdout < 1:
        raise PrivacyError(f"holdout must be at least 0 and below 1, got {holdout:g}.")
    hashes = encoded._unit_hashes
    chosen = np.ones(encoded._n_rows, dtype=bool)
    if hashes is not None:
        chosen = with_id(hashes)
        # Rows without an id are not read: they belong to no unit, so neither the cap nor the promise covers them.
        if schema.people != "whole":
            chosen[chosen] = kept_rows(hashes[chosen], rows_per_unit=schema.unit.rows_per_unit, account_key=account_key)
    if holdout == 0:
        return chosen if part == "train" else np.zeros_like(chosen)
    if hashes is not None:
        units = hashes[chosen]
    elif schema.neighbours is Neighbours.CELL:
        units = place_hashes(encoded._n_rows)
    else:
        columns = [encoded._codes[name] for name in schema.names]
        if encoded._n_rows > HASHED_ROWS:
            held = held_of_many(
                columns, share=holdout, n_units=units_to_split(encoded, schema), account_key=account_key
            )
            return held if part == "holdout" else ~held
        units = row_hashes(columns, account_key=account_key)
    held = holdout_rows(units, share=holdout, n_units=units_to_split(encoded, schema), account_key=account_key)
    chosen[chosen] = held if part == "holdout" else ~held
    return chosen


def units_to_split(encoded: EncodedTable, schema: Schema) -> int | None:
    """Return the public number of units, which an exact split needs; None where units are split by coins.

    It is the declared number, whatever the table holds. Codes in memory, of tests and public tables, may leave it
    undeclared and are counted; :meth:`PrivateTable.open` refuses that.
    """
    if schema.neighbours is Neighbours.CELL:
        return encoded._n_rows
    if not schema.needs_number_of_units:
        return None
    if schema.number_of_units is not None:
        return schema.number_of_units
    hashes = encoded._unit_hashes
    return encoded._n_rows if hashes is None else len(np.unique(hashes[with_id(hashes)], axis=0))


def _hashes_of(unit_ids: Sequence[Hashable], key: bytes) -> npt.NDArray[np.uint8]:
    digests = [
        bytes(HASH_BYTES)
        if unit_id is None
        else hashlib.blake2b(str(unit_id).encode(), digest_size=HASH_BYTES, key=key, person=b"unit").digest()
        for unit_id in unit_ids
    ]
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, HASH_BYTES)


def hash_key(account_key: bytes) -> bytes:
    """Return the key (32 bytes) with which the ids of an account's units are hashed while a table is read."""
    return purpose_key(account_key, b"unit ids")


def kept_rows(unit_hashes: Hashes, *, rows_per_unit: int, account_key: bytes) -> _Mask:
    """Choose at most ``rows_per_unit`` rows of every id.

    Parameters
    ----------
    unit_hashes : array of shape (n_rows, 16)
        The keyed hash of each row's id, in the order of the table.
    rows_per_unit : int
        The declared cap, at least 1.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of bool of shape (n_rows,)
    """
    unit, occurrence = units_and_occurrences(unit_hashes)
    crowded = np.bincount(unit)[unit] > rows_per_unit
    rows = np.flatnonzero(crowded)
    numbers = keyed_numbers(unit_hashes[rows], occurrence[rows], purpose_key(account_key, b"kept rows"))
    order = np.lexsort((numbers[:, 1], numbers[:, 0], unit[rows]))
    kept = ~crowded
    kept[rows[order]] = places_in_groups(unit[rows[order]]) < rows_per_unit
    return kept


def holdout_rows(unit_hashes: Hashes, *, share: float, n_units: int | None, account_key: bytes) -> _Mask:
    """Choose the rows of the units that are held out from every generator.

    Parameters
    ----------
    unit_hashes : array of shape (n_rows, 16)
        As in :func:`kept_rows`, or :func:`row_hashes` or :func:`place_hashes` where a row is a unit.
    share : float
        Part of the units to hold out, in [0, 1).
    n_units : int, optional
        The public number of units, as declared: exactly round(share * n_units) units are held out, or all where there
        are fewer. Without it each unit is held out by its own coin.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of bool of shape (n_rows,)
        All rows of a unit lie on one side.
    """
    numbers = keyed_numbers(unit_hashes, None, purpose_key(account_key, b"hold-out"))
    if n_units is None:
        # A coin of 53 bits, compared exactly.
        coins: _Mask = (numbers[:, 0] >> np.uint64(11)) < np.uint64(round(share * 2**53))
        return coins
    # Rows of one unit have one number of 128 bits, different from every other unit's: encryption is one-to-one.
    high, low = numbers[:, 0], numbers[:, 1]
    order = np.lexsort((low, high))
    first = np.flatnonzero(begins(numbers[order]))
    n_held = round(share * n_units)
    if n_held >= len(first):
        return np.ones(len(numbers), dtype=bool)
    beyond = order[first[n_held]]
    held: _Mask = (high < high[beyond]) | ((high == high[beyond]) & (low < low[beyond]))
    return held


def held_of_many(
    columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], *, share: float, n_units: int | None, account_key: bytes
) -> _Mask:
    """Choose what :func:`holdout_rows` of :func:`row_hashes` chooses, in a tenth of the memory.

    Equal rows have equal hashes of their contents, so rows are taken a few million at a time, by the first byte of that
    hash: the number of a row among its equals is the same as if all rows were taken together.

    Parameters
    ----------
    columns : sequence of arrays of shape (n_rows,)
        As in :func:`row_hashes`.
    share, n_units, account_key
        As in :func:`holdout_rows`.

    Returns
    -------
    array of bool of shape (n_rows,)
    """
    n_rows = len(columns[0])
    held = np.zeros(n_rows, dtype=bool)
    n_held = n_rows if n_units is None else round(share * n_units)
    if n_units is None:
        for rows, hashes in _hashes_in_turn(columns, account_key):
            held[rows] = holdout_rows(hashes, share=share, n_units=None, account_key=account_key)
        return held
    if n_held >= n_rows:
        return ~held
    key = purpose_key(account_key, b"hold-out")
    tops = np.empty(n_rows, dtype=np.uint32)
    for rows, hashes in _hashes_in_turn(columns, account_key):
        tops[rows] = keyed_numbers(hashes, None, key)[:, 0] >> np.uint64(32)
    # The number of the first row that is not held, by its 32 highest bits; rows that share these are told apart below.
    beyond = np.partition(tops, n_held)[n_held]
    np.less(tops, beyond, out=held)
    left = n_held - int(held.sum())
    if left:
        alike = tops == beyond
        found = [
            (rows[alike[rows]], keyed_numbers(hashes[alike[rows]], None, key))
            for rows, hashes in _hashes_in_turn(columns, account_key, wanted=alike)
        ]
        places = np.concatenate([rows for rows, _ in found])
        numbers = np.concatenate([one for _, one in found])
        held[places[np.lexsort((numbers[:, 1], numbers[:, 0]))[:left]]] = True
    return held


def _hashes_in_turn(
    columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], account_key: bytes, *, wanted: _Mask | None = None
) -> Iterator[tuple[npt.NDArray[np.int64], Hashes]]:
    """Yield places of rows, and what :func:`row_hashes` returns for them, until each row was among them once.

    With ``wanted``, turns without any of these rows are left out.
    """
    n_rows = len(columns[0])
    first = np.empty(n_rows, dtype=np.uint8)
    for start in range(0, n_rows, HASHED_ROWS):
        some = slice(start, start + HASHED_ROWS)
        first[some] = content_hashes([column[some] for column in columns], account_key=account_key)[:, 0]
    turns = min(256, 1 << max(0, (2 * n_rows // HASHED_ROWS).bit_length()))
    first &= turns - 1
    for turn in range(turns):
        rows = np.flatnonzero(first == turn)
        if len(rows) == 0 or (wanted is not None and not wanted[rows].any()):
            continue
        yield rows, row_hashes([column[rows] for column in columns], account_key=account_key)


def row_hashes(columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], *, account_key: bytes) -> Hashes:
    """Return replacements for unit hashes where every row is a unit: keyed hashes of the contents of each row.

    Parameters
    ----------
    columns : sequence of arrays of shape (n_rows,)
        The codes of all columns, in the order of the schema.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of shape (n_rows, 16)
        Different for all rows: the k-th row with the same codes has its own hash for every k. Adding or removing
        another row leaves the hashes of all others unchanged, up to the order of identical rows.
    """
    hashes = content_hashes(columns, account_key=account_key)
    _, occurrence = units_and_occurrences(hashes)
    return keyed_numbers(hashes, occurrence, purpose_key(account_key, b"rows alike")).view(np.uint8)


def divided_by(unit_hashes: Hashes, *, account_key: bytes) -> npt.NDArray[np.uint64]:
    """Return the secret numbers by which rows are divided among critics, shape (n_rows, 2).

    Parameters
    ----------
    unit_hashes : array of shape (n_rows, 16)
        As in :func:`kept_rows`, or :func:`row_hashes` where a row is a unit.
    account_key : bytes
        The account's secret.
    """
    return keyed_numbers(unit_hashes, None, purpose_key(account_key, b"parts"))


def place_hashes(n_rows: int) -> Hashes:
    """Return replacements for unit hashes where a cell is hidden: the position of each row in the table."""
    places = np.zeros((n_rows, 2), dtype=np.uint64)
    places[:, 0] = np.arange(n_rows, dtype=np.uint64)
    return places.view(np.uint8)
