"""Bugs planted between the bytes of a file and its codes: each must be found by one of the checks of this folder."""

from __future__ import annotations

import datetime
import decimal
import functools
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
import test_answers
from mutations import FORMATS, LONGEST, Format, changed_lines, codes_of, hostile_line, of_lines
from reading_faults import SHEET_FAULTS, Plant, plant_a_guessed_decimal_sign, plant_a_refusal
from reading_here import read_here

from synth.errors import TableError
from synth.privacy import table
from synth.reading import files, process
from synth.reading import text as reader_text
from synth.reading.more.xlsx import XlsxCells
from synth.reading.reader import EncodedTable
from synth.schema import CategoryColumn, DateColumn, ModelledColumn, NumberColumn, Schema, TableFormat, encoding
from synth.schema.encoding import CellEncoder, encode_cells

FAULTS: dict[str, tuple[Plant, Callable[[], None]]] = {}
ANSWERS: list[Callable[[], None]] = []


@functools.cache
def lines_are_independent(*names: str) -> Callable[[], None]:
    """Return the checks of ``test_lines`` on formats, in short."""

    def check() -> None:
        for name in names:
            assert not changed_lines(FORMATS[name], 60, seed=11)
            assert_alone_as_among_others(FORMATS[name], 60)

    return check


def assert_alone_as_among_others(kind: Format, number: int) -> None:
    random_ = random.Random(5)
    lines = [hostile_line(random_, kind) for _ in range(number)]
    together = codes_of(kind.file(lines), kind.form, kind.schema)
    assert together == [row for line in lines for row in codes_of(kind.file([line]), kind.form, kind.schema)]


def long_lines_are_long_anywhere() -> None:
    """Put lines of about the longest length behind lines of every length."""
    kind = FORMATS["csv"]
    for length in (LONGEST - 40, LONGEST, LONGEST + 80):
        line = kind.line(["p1", "30", "x" * length, "", "yes"])
        (alone,) = codes_of(kind.file([line]), kind.form, kind.schema)
        for filler in range(0, LONGEST, 97):
            found = codes_of(kind.file([kind.raw("y" * filler), line]), kind.form, kind.schema)
            assert found[-1] == alone


def lines_of_separators_are_rows() -> None:
    """Put lines of nothing but separators and spaces into files of both."""
    for name, lines in {"tabs": ["\t", " \t ", "  "], "semicolons": [";", " ; ", " \t "]}.items():
        kind = FORMATS[name]
        became = of_lines(kind, [kind.raw(line) for line in lines], codes_of)
        assert [one is None for one in became] == [False, False, True]


@functools.cache
def answers_hold(name: str, row_count: str, rows_per_unit: int, ids: bool) -> Callable[[], None]:
    """Return the checks of ``test_answers`` in one of its worlds."""
    assert (name, row_count, rows_per_unit, ids) in test_answers.CASES

    def check() -> None:
        test_answers.test_one_unit_moves_answers_by_at_most_their_receipts(name, row_count, rows_per_unit, ids)  # type: ignore[arg-type]
        test_answers.test_rows_without_an_id_are_on_no_side()
        test_answers.test_the_declared_number_splits_and_is_printed_whatever_the_table_holds(ids)

    ANSWERS.append(check)
    return check


def fault(name: str, check: Callable[[], None]) -> Callable[[Plant], None]:
    def keep(plant: Plant) -> None:
        FAULTS[name] = (plant, check)

    return keep


@fault("a quotation mark goes on over lines without a declaration", lines_are_independent("csv"))
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader_text.TextTable.__init__

    def opened(self: object, source: object, form: TableFormat, limits: object) -> None:
        right(self, source, replace(form, newlines=True), limits)  # type: ignore[arg-type]

    patch.setattr(reader_text.TextTable, "__init__", opened)


@fault("a carriage return ends a line", lines_are_independent("csv"))
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader_text._line_ends

    def ends(data: bytes, codec: str) -> np.ndarray:
        return right(data.replace(b"\r", b"\n"), codec)

    patch.setattr(reader_text, "_line_ends", ends)
    rows = reader_text._rows_of
    patch.setattr(reader_text, "_rows_of", lambda block, *a, **k: rows(block.replace(b"\r", b"\n"), *a, **k))


@fault("bytes end lines in UTF-16", lines_are_independent("utf-16, big end", "utf-16, little end"))
def _(patch: pytest.MonkeyPatch) -> None:
    def ends(data: bytes, codec: str) -> np.ndarray:
        mark = b"\n\0" if codec == "utf-16-le" else b"\0\n"
        found = [place for place in range(len(data)) if data.startswith(mark, place)]
        return np.array(found, dtype=np.int64) + 2

    patch.setattr(reader_text, "_line_ends", ends)


@fault("a ragged line refuses the table", lines_are_independent("csv"))
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader_text._rows_of

    def rows(*arguments: object, **named: object) -> object:
        found = right(*arguments, **named)  # type: ignore[arg-type]
        if found.malformed.any():
            raise TableError("Row 6 has 2 fields; the header has 5.")
        return found

    patch.setattr(reader_text, "_rows_of", rows)


@fault("a malformed line is left out", lines_are_independent("tabs"))
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader_text.TextTable.batches

    def batches(self: object, places: object) -> object:
        for columns, malformed in right(self, places):  # type: ignore[arg-type]
            yield [column.filter(pa.array(~malformed)) for column in columns], malformed[~malformed]

    patch.setattr(reader_text.TextTable, "batches", batches)


@fault("a blank line ends the table", lines_are_independent("csv"))
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader_text._rows_of

    def rows(block: bytes, *arguments: object, **named: object) -> object:
        until, end, _ = block.partition(b"\n\n")
        return right(until + b"\n" if end else block, *arguments, **named)  # type: ignore[arg-type]

    patch.setattr(reader_text, "_rows_of", rows)


@fault("a blank line is a row of nobody", lines_are_independent("semicolons", "utf-16, big end"))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader_text, "_is_blank", lambda line, separator: False)


@fault("tabs are blanks where they separate cells", lines_of_separators_are_rows)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader_text, "_is_blank", lambda line, separator: not line.strip())


@fault("one bad byte spoils its block", lines_are_independent("cp1252", "csv"))
def _(patch: pytest.MonkeyPatch) -> None:
    def decoded(self: reader_text.Blocks, data: bytes, ends: np.ndarray) -> bytes:
        try:
            return reader_text._utf8(data, self._encoding)
        except UnicodeError:
            return self._ill * data.count(b"\n")

    patch.setattr(reader_text.Blocks, "_decoded", decoded)


@fault("a byte-order mark is passed over at the start of a block", lines_are_independent("no header"))
def _(patch: pytest.MonkeyPatch) -> None:
    right = pyarrow.csv.read_csv

    def read(text: pa.BufferReader, **named: object) -> pa.Table:
        whole = text.read()
        first = whole.index(b"\n") + 1
        found = right(pa.BufferReader(whole[first:]), **named)
        return pa.concat_tables([found.slice(0, 1), found])

    patch.setattr(reader_text, "_MARK", b"\xfe\xfe\xfe")
    patch.setattr(reader_text.pyarrow.csv, "read_csv", read)


@fault("what is too long depends on where a piece ends", long_lines_are_long_anywhere)
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader_text.Blocks._decoded

    def decoded(self: reader_text.Blocks, data: bytes, ends: np.ndarray) -> bytes:
        longest, self._longest = self._longest, len(data)
        block = right(self, data, ends)
        self._longest = longest
        return block

    patch.setattr(reader_text.Blocks, "_decoded", decoded)
    patch.setattr(reader_text, "CHUNK", LONGEST // 2)


ROWS_ARE_INDEPENDENT = lines_are_independent("xlsx", "ods")


FAULTS |= {name: (plant, ROWS_ARE_INDEPENDENT) for name, plant in SHEET_FAULTS.items()}
fault("one cell refuses a workbook", ROWS_ARE_INDEPENDENT)(plant_a_refusal)


@fault("the numbers of rows say where rows stand", ROWS_ARE_INDEPENDENT)
def _(patch: pytest.MonkeyPatch) -> None:
    right = XlsxCells.taken

    def taken(self: XlsxCells) -> list[tuple[int, dict[int, str | None], int]]:
        return sorted(right(self), key=lambda row: max(row[1]))

    patch.setattr(XlsxCells, "taken", taken)


def each_number_is_read_by_itself() -> None:
    kind = FORMATS["decimal commas"]
    lines = [kind.line(["p1", age, "Ayr", "", "yes"]) for age in ("44,0", "45", "46.0", "1.044", "47 kg")]
    together = codes_of(kind.file(lines), kind.form, kind.schema)
    assert together == [codes_of(kind.file([line]), kind.form, kind.schema)[0] for line in lines]


def batches_are_independent() -> None:
    """Read lines in many small batches, and keep the codes of few texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_text, "CHUNK", LONGEST // 2)
        patch.setattr(files, "GATHERED_PIECES", 3)
        for kept in (2**19, 60, 0):
            patch.setattr(process, "KEPT_TEXTS", kept)
            assert_alone_as_among_others(FORMATS["csv"], 60)


@fault("pieces are joined in another order", batches_are_independent)
def _(patch: pytest.MonkeyPatch) -> None:
    right = files._joined
    patch.setattr(files, "_joined", lambda pieces, limits: right(pieces[::-1], limits))


@fault("a code is kept for a place among texts", batches_are_independent)
def _(patch: pytest.MonkeyPatch) -> None:
    right = CellEncoder._kept

    def kept(self: CellEncoder, texts: list[str | None]) -> object:
        before = self.__dict__.setdefault("before", [])
        before += texts[len(before) :]
        return right(self, before[: len(texts)])

    patch.setattr(CellEncoder, "_kept", kept)


LIKE = NumberColumn("age", 0, 99, 1, special=(-1,), missing=True)


def columns_declared_alike_are_independent() -> None:
    """Read columns with one declaration together, few cells at a time, and each by itself."""
    texts = [["5", "", "17.2", "5"], ["x", "-1", "5", "500"], ["8", "8", None, "17.2"], ["0", "1", "2", "3"]]
    columns = [pa.array(own, pa.string()).dictionary_encode() for own in texts]
    columns += [pa.array([5, None, -1, 500]), pa.array([1, 2, 3, 4]), pa.array([0.5, 17.2, None, 3.0]), columns[1]]
    alone = [encode_cells(LIKE, own) for own in columns]
    for room in (2**17, 7, 1):
        for kept in (0, 3, 100):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(encoding, "_TOGETHER", room)
                encoder = CellEncoder(LIKE, kept=kept)
                for some in (columns, columns[::-1][:5], columns):
                    for own, cells in zip(encoder.encode(some), some, strict=True):
                        expected = next(one for one, held in zip(alone, columns, strict=True) if held is cells)
                        assert (own.codes.tolist(), own.counts) == (expected.codes.tolist(), expected.counts)


@fault("a column has the codes of the one before", columns_declared_alike_are_independent)
def _(patch: pytest.MonkeyPatch) -> None:
    right = encoding._each
    patch.setattr(encoding, "_each", lambda values, held: right(values, [held[0]] * len(held)))


def columns_declared_otherwise_are_told_apart() -> None:
    """Read two columns that differ in their lowest value alone, and two that differ in nothing but name and words."""
    columns = [replace(LIKE, name="a"), replace(LIKE, name="b", description="Of the other", low=5)]
    columns += [replace(one, name=f"{one.name} again", description="") for one in columns]
    schema = Schema(tuple(columns))
    codes = codes_of(b"a,b,a again,b again\n7,7,8,8\n", TableFormat(), schema)
    assert [one[:4] for one in codes if one is not None] == [(7, 2, 8, 3)]


@fault("columns declared alike in part are taken for alike", columns_declared_otherwise_are_told_apart)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(process, "_declared_alike", lambda columns: [list(range(len(columns)))])


TOWN = CategoryColumn("town", ("Z\u00fcrich", "\u00c5s", "Bern"), missing=True)
TOWNS = ("Bern", "Zu\u0308rich", "Z\u00fcrich", "A\u030as", "\u212bs", "u\u0308", "Zu\u0308rich ")


def letters_are_composed_cell_by_cell() -> None:
    """Read towns written in both forms, alone and together."""
    together = encode_cells(TOWN, pa.array(TOWNS)).codes.tolist()
    assert together == [int(encode_cells(TOWN, pa.array([town])).codes[0]) for town in TOWNS] == [2, 0, 0, 1, 1, 3, 0]


@fault("letters are composed where the first text has such letters", letters_are_composed_cell_by_cell)
def _(patch: pytest.MonkeyPatch) -> None:
    right = encoding.composed_texts
    patch.setattr(
        encoding, "composed_texts", lambda texts: texts if (texts[0].as_py() or "").isascii() else right(texts)
    )


@fault("letters are composed unless all texts have such letters", letters_are_composed_cell_by_cell)
def _(patch: pytest.MonkeyPatch) -> None:
    right = encoding.composed_texts
    patch.setattr(encoding, "composed_texts", lambda texts: right(texts) if len(texts) > 2 else texts)


def days_are_read_cell_by_cell() -> None:
    """Read moments of which some are beyond every calendar, alone and together."""
    day = DateColumn("day", datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), missing=True)
    for kind in (pa.timestamp("s"), pa.timestamp("s", "Pacific/Auckland"), pa.date64()):
        seconds = [1_709_249_400, 2**52, None, -(2**53), 253_402_300_800, 1_720_000_000]
        of_kind = [second and second // 86_400 * 86_400_000 if kind == pa.date64() else second for second in seconds]
        cells = pa.array(of_kind, pa.int64()).view(kind)
        together = encode_cells(day, cells)
        assert together.codes.tolist() == [
            int(encode_cells(day, cell).codes[0]) for cell in map(cells.slice, range(6), [1] * 6)
        ]
        assert (together.counts.malformed, together.counts.missing, together.counts.outside) == (3, 1, 0)


@fault("one moment beyond the calendar changes the zone of all", days_are_read_cell_by_cell)
def _(patch: pytest.MonkeyPatch) -> None:
    right = encoding._local

    def local(cells: pa.Array) -> pa.Array:
        beyond = pc.max(pc.abs(cells.cast(pa.timestamp("s")).cast(pa.int64()))).as_py() or 0
        return cells.cast(pa.timestamp("s")) if beyond > 2**50 else right(cells)

    patch.setattr(encoding, "_local", local)


LONG = NumberColumn("case", 2**53 - 3, 2**53 + 60, 1, special=(2**62 + 1,), missing=True)
CASES = (2**53 + 1, 2**53 + 2, 2**53 + 3, 2**62 + 1, 2**62 + 2, 2**63 - 1, -(2**63), 0)


def whole_numbers_are_exact() -> None:
    """Read whole numbers that no float holds, as texts and stored as numbers of each type."""
    texts = [*map(str, CASES), "+9007199254740993", "9007199254740993.0", "x", ""]
    assert encode_cells(LONG, pa.array(texts)).codes.tolist() == [4, 5, 6, 64, 63, 63, 0, 0, 4, 4, 65, 65]
    stored = (pa.array(CASES), pa.array([decimal.Decimal(case) for case in CASES]), pa.array(CASES[:6], pa.uint64()))
    for cells in stored:
        assert encode_cells(LONG, cells).codes.tolist() == [4, 5, 6, 64, 63, 63, 0, 0][: len(cells)]
    assert LONG.cells(np.array([4, 64])) == [2**53 + 1, 2**62 + 1]


@fault("whole numbers are read as floats", whole_numbers_are_exact)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoding, "WHOLE", "^never$")


@fault("an unreadable cell is the special value that it is kept as", whole_numbers_are_exact)
def _(patch: pytest.MonkeyPatch) -> None:
    right = encoding.FileCells.wholes

    def wholes(self: encoding.FileCells, notation: object) -> object:
        values, unreadable, absent = right(self, notation)  # type: ignore[arg-type]
        return np.where(unreadable, 2**62 + 1, values), np.zeros_like(unreadable), np.zeros_like(absent)

    patch.setattr(encoding.FileCells, "wholes", wholes)


@fault("a moment beyond the calendar is at the bound", days_are_read_cell_by_cell)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoding, "LAST_DAY", 2**62)


fault("a decimal sign is guessed", each_number_is_read_by_itself)(plant_a_guessed_decimal_sign)


@fault("a malformed cell gets a code of its own", lines_are_independent("csv"))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelledColumn, "unreadable_code", property(lambda column: column.size))


@fault("rows without an id share a unit", answers_hold("no header", "public", 1, True))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "with_id", lambda hashes: np.ones(len(hashes), dtype=bool))


@fault("the number of units there are splits them", answers_hold("every cell quoted", "public", 1, False))
def _(patch: pytest.MonkeyPatch) -> None:
    def counted(encoded: EncodedTable, schema: Schema) -> int | None:
        return encoded._n_rows if schema.needs_number_of_units else None

    patch.setattr(table, "units_to_split", counted)


@fault("a row's place in the table decides its side", answers_hold("csv", "private", 1, False))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "row_hashes", lambda columns, **_: table.place_hashes(len(columns[0])))


@fault("a split of fixed size under add or remove", answers_hold("csv", "private", 1, False))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "units_to_split", lambda encoded, schema: encoded._n_rows)


@fault("rows that are alike share a side", answers_hold("every cell quoted", "public", 1, False))
def _(patch: pytest.MonkeyPatch) -> None:
    right = table.row_hashes

    def hashes(columns: list[np.ndarray], **named: bytes) -> np.ndarray:
        return right([np.zeros_like(columns[0])], **named)[np.zeros(len(columns[0]), dtype=int)]

    patch.setattr(table, "row_hashes", hashes)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_text, "LONGEST_LINE", LONGEST)
    monkeypatch.setattr("synth.reading.reader.ask", read_here)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = FAULTS[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError, TableError)):
        check()


def test_nothing_is_found_where_nothing_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_text, "CHUNK", LONGEST // 2)
    # Bugs that one check finds share it: it is made once. Those of ``answers_hold`` are tests by themselves.
    for check in dict.fromkeys(check for _, check in FAULTS.values()):
        if check not in ANSWERS:
            check()
