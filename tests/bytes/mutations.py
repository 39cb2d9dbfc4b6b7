"""Tables as bytes, lines that may stand in them, and the one check: no line changes what another one becomes.

A file is a top (what is public) and lines. ``outcomes`` reads it and says for every line what it became: its codes and
the hash of its id, or that it is no row. Whatever is done to one line, every other line must become the same.
"""

from __future__ import annotations

import datetime
import gzip
import io
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json import loads
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sheets import ods, ods_row, xlsx, xlsx_row

from synth.reading.process import serve
from synth.reading.request import HASH_BYTES, Request
from synth.schema import (
    CategoryColumn,
    DateColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    TableFormat,
    YesNoColumn,
    code_dtype,
)
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

SCHEMA = Schema(
    (
        IdentifierColumn("who"),
        NumberColumn("age", 0, 120, 1, special=(999.0,), fallback=40),
        CategoryColumn("town", ("Ayr", "Bath, Avon", "São Paulo"), other=True),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), missing=True),
        YesNoColumn("well", fallback="no"),
    ),
    PrivacyUnit("person", 2, "who"),
    "private",
)
"""Every way a malformed cell can go: a fallback, other, missing."""

NAMES = tuple(column.name for column in SCHEMA)
ONE_COLUMN = Schema((NumberColumn("age", 0, 120, 1, missing=True),), row_count="private")
LIMITS = ReaderLimits(cell_bytes=300)
LONGEST = 5_000
"""What tests set the longest line to, so that too long ones are many and cheap."""

TALLY: dict[str, tuple[int, int]] = {}
"""For each kind of file how many mutations were tried, and how many changed another line; printed at the end."""

Line = bytes
Outcome = tuple[int, ...]


@dataclass(frozen=True)
class Format:
    """A kind of text file: how a list of lines, each with its own end, becomes bytes."""

    form: TableFormat
    separator: str = ","
    encoding: str = "utf-8"
    end: str = "\n"
    quoted: bool = False
    bom: bytes = b""
    packed: bool = False
    schema: Schema = SCHEMA

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema)

    def line(self, cells: Sequence[str]) -> Line:
        """Write an honest row."""
        written = [
            '"' + cell.replace('"', '""') + '"' if self.quoted or self.separator in cell else cell for cell in cells
        ]
        return self.raw(self.separator.join(written))

    def raw(self, text: str) -> Line:
        return (text + self.end).encode(self.encoding, "replace")

    @property
    def top(self) -> bytes:
        in_file = {other: name for name, other in self.form.rename}
        names = self.line([in_file.get(name, name) for name in self.names])
        more = [self.line(["?"] * len(self.names))] * (self.form.header_rows - 1)
        return self.bom + (b"".join([names, *more]) if self.form.header else b"")

    def file(self, lines: Sequence[Line]) -> bytes:
        data = self.top + b"".join(lines)
        return gzip.compress(data, 1) if self.packed else data


@dataclass(frozen=True)
class FixedFormat(Format):
    """A text whose cells have fixed positions."""

    def line(self, cells: Sequence[str]) -> Line:
        return self.raw("".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)))


@dataclass(frozen=True)
class SheetFormat(Format):
    """A kind of workbook: a line is the XML of one row."""

    def line(self, cells: Sequence[str]) -> Line:
        return (ods_row(cells) if self.form.kind == "ods" else xlsx_row(cells)).encode()

    def file(self, lines: Sequence[Line]) -> bytes:
        rows = (self.line(self.names) + b"".join(lines)).decode()
        return ods(rows) if self.form.kind == "ods" else xlsx(rows)

    def hostile(self, random_: random.Random) -> Line:
        """Return a row of any cells that a sheet can hold, and some that none does."""
        cells = [
            random_.choice(ODS_CELLS if self.form.kind == "ods" else XLSX_CELLS) for _ in range(random_.randrange(9))
        ]
        # Something stands in it: a row of nothing is none.
        honest = [f'<c t="s" r="A{random_.randrange(9)}"><v>4</v></c>', "<t:table-cell o:string-value='p1'/>"]
        if self.form.kind == "ods":
            return f"<t:table-row>{honest[1]}{''.join(cells)}</t:table-row>".encode()
        number = random_.choice(["", ' r="1"', ' r="2"', ' r="77"', ' r="x"', ' r="9999999999"', ' hidden="1"'])
        return f"<row{number}>{honest[0]}{''.join(cells)}</row>".encode()


XLSX_CELLS = (
    "<c/>", "<c><v>47</v></c>", "<c><v>0.1</v></c>", "<c><v>1e400</v></c>", "<c><v>47 kg</v></c>", "<c><v/></c>",
    '<c r="B7"><v>12</v></c>', '<c r="C1" t="s"><v>1</v></c>', '<c t="s"><v>99</v></c>', '<c t="s"><v>-1</v></c>',
    '<c t="s"><v>x</v></c>', '<c t="e"><v>#N/A</v></c>', '<c t="b"><v>1</v></c>', '<c t="b"><v>7</v></c>',
    '<c s="1"><v>44000</v></c>', '<c s="1"><v>-3</v></c>', '<c s="1"><v>60</v></c>', '<c s="2"><v>44000.25</v></c>',
    '<c s="4"><v>0.5</v></c>', '<c s="77"><v>44000</v></c>', '<c t="d"><v>2021-03-04</v></c>', '<c t="?"><v>1</v></c>',
    '<c t="str"><f>A1&amp;B1</f><v>yes</v></c>', '<c t="inlineStr"><is><r><t>Ay</t></r><r><t>r</t></r></is></c>',
    '<c t="inlineStr"><is><t>A</t><rPh><t>spoken</t></rPh><t>yr</t></is></c>', '<c r="D4" t="inlineStr"><is/></c>',
    '<c t="inlineStr"><is><t>_xD800_</t></is></c>', '<c t="inlineStr"><is><t>a_x000A_b</t></is></c>',
    '<c r="ZZZZ9"><v>1</v></c>', '<c r="XFD1"><v>1</v></c>', '<c r="XFZ1"><v>1</v></c>', '<c r="2"><v>1</v></c>',
    '<c r="E2" t="inlineStr"><is><t>' + "x" * 400 + "</t></is></c>", "<c><c><v>3</v></c><v>4</v></c>", "<c>7</c>",
)  # fmt: skip
ODS_CELLS = (
    "<t:table-cell/>", "<t:covered-table-cell/>", '<t:covered-table-cell o:value-type="float" o:value="3"/>',
    '<t:table-cell t:number-columns-repeated="3"/>', '<t:table-cell t:number-columns-repeated="999999999"/>',
    '<t:table-cell t:number-columns-repeated="16384" o:string-value="Ayr"/>',
    '<t:table-cell o:value-type="float" o:value="47"/>', '<t:table-cell o:value-type="float" o:value="x"/>',
    '<t:table-cell o:value-type="percentage" o:value="0.25"/>', '<t:table-cell o:value-type="float"/>',
    '<t:table-cell o:value-type="date" o:date-value="2021-03-04"/>', '<t:table-cell o:value-type="date"/>',
    '<t:table-cell o:value-type="time" o:time-value="PT10H30M00S"/>', '<t:table-cell o:value-type="time"/>',
    '<t:table-cell o:value-type="boolean" o:boolean-value="true"/>', '<t:table-cell o:value-type="?"/>',
    '<t:table-cell o:value-type="string" calcext:value-type="error"><p:p>#N/A</p:p></t:table-cell>',
    "<t:table-cell><p:p>Bath,<p:s p:c='1'/>Avon</p:p></t:table-cell>",
    "<t:table-cell><o:annotation><p:p>a note</p:p></o:annotation><p:p>yes</p:p></t:table-cell>",
    "<t:table-cell><p:p>a</p:p><p:p>b<p:line-break/>c<p:tab/></p:p></t:table-cell>",
    "<t:table-cell><p:p>" + "x" * 400 + "</p:p></t:table-cell>",
    "<t:table-cell><t:table t:name='People'><t:table-row><t:table-cell/></t:table-row></t:table></t:table-cell>",
)  # fmt: skip

WIDTHS = (6, 4, 12, 10, 3)
ENDS = list(itertools.accumulate(WIDTHS))
FIELDS = tuple((name, end - width + 1, end) for name, width, end in zip(NAMES, WIDTHS, ENDS, strict=True))
HEADERLESS = {"header": False, "names": NAMES}
NOTED: dict[str, Any] = {"decimal": ",", "thousands": ".", "units": ("kg",), "dates": ("%d.%m.%Y", "%d/%m/%y")}
FORMATS: dict[str, Format] = {
    "csv": Format(TableFormat()),
    "semicolons": Format(TableFormat(separator=";"), separator=";"),
    "tabs": Format(TableFormat(kind="tsv"), separator="\t"),
    "every cell quoted": Format(TableFormat(), quoted=True),
    "line ends of Windows": Format(TableFormat(), end="\r\n"),
    "no header": Format(TableFormat(**HEADERLESS, separator=",")),
    "byte-order mark": Format(TableFormat(), bom=b"\xef\xbb\xbf"),
    "latin-1": Format(TableFormat(encoding="latin-1"), encoding="latin-1"),
    "cp1252": Format(TableFormat(encoding="cp1252"), encoding="cp1252"),
    "utf-16, little end": Format(TableFormat(encoding="utf-16"), encoding="utf-16-le", bom=b"\xff\xfe"),
    "utf-16, big end": Format(TableFormat(), encoding="utf-16-be", bom=b"\xfe\xff"),
    "utf-16 without header": Format(
        TableFormat(**HEADERLESS, encoding="utf-16-le", separator=";"), separator=";", encoding="utf-16-le"
    ),
    "gzip": Format(TableFormat(), packed=True),
    "one column": Format(TableFormat(), schema=ONE_COLUMN),
    "two header rows": Format(TableFormat(header_rows=2, names_from=1, rename=(("years", "age"),))),
    "decimal commas": Format(TableFormat(separator=";", **NOTED), separator=";"),
    "shift_jis": Format(TableFormat(encoding="shift_jis"), encoding="shift_jis"),
    "gb18030": Format(TableFormat(encoding="gb18030"), encoding="gb18030"),
    "fixed positions": FixedFormat(TableFormat(fields=FIELDS)),
    "fixed positions, utf-16": FixedFormat(TableFormat(fields=FIELDS, encoding="utf-16-be"), encoding="utf-16-be"),
    "xlsx": SheetFormat(TableFormat(kind="xlsx")),
    "ods": SheetFormat(TableFormat(kind="ods")),
}


def honest_cells(random_: random.Random, schema: Schema = SCHEMA) -> list[str]:
    """Return a row as people write it."""
    cells = {
        "who": f"p{random_.randrange(40)}",
        "age": random_.choice(["", "999", str(random_.randrange(121))]),
        "town": random_.choice(["Ayr", "Bath, Avon", "São Paulo", "Leith"]),
        "seen": random_.choice(["", f"202{random_.randrange(5)}-0{random_.randrange(1, 10)}-11"]),
        "well": random_.choice(["yes", "no"]),
    }
    return [cells[column.name] for column in schema]


PIECES = (
    "ਅĀਅĀ",  # in UTF-16 of either end it holds the bytes of a line feed where no unit begins
    '"', '""', '"""', '","', '"\r', "\r", "\r\r", "\0", "\ufeff", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c",
    "\x1e",
    "#", "|", ";", ",", "\t", ",,,,,,", " ", "\\", '\\"', "'", "=1+1", "80kg", "91 kg", "70,5", "1e400", "-inf", "nan",
    "1066-10-14", "99999-01-01", "PAR1", "%PDF", "\x1f\x8b\x08", "PK\x03\x04", "ORC", "who,age,town,seen,well", "NULL",
    "x" * 299, "x" * 301, "x" * (LONGEST - 3), "x" * (LONGEST + 1), "é" * 200, "\U0001f600", "NaN", "0", "-1", "yes",
    "Yes", "1.234,5 kg", "04.03.21", "04.03.2021",
    "Ayr ", " Ayr", "SÃO PAULO", "999.0", "+5", "5.", ".5", "٣", "1_000", "0x10",
)  # fmt: skip
BAD_BYTES = (
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\x81\x8d\x8f\x90\x9d",
    b"\x00\xd8",
    b"\x00\xdc",
)


def hostile_line(random_: random.Random, kind: Format) -> Line:
    """Return a line that somebody may have written, an honest one spoilt in one to three places."""
    if isinstance(kind, SheetFormat):
        return kind.hostile(random_)
    width = len(kind.names)
    if random_.random() < 0.04:
        return kind.raw(random_.choice(["", "", " ", "\t \t", "\ufeff"]))
    cells = honest_cells(random_, kind.schema)
    if random_.random() < 0.04:
        return kind.raw("\ufeff" + kind.line(cells).decode(kind.encoding).removesuffix(kind.end))
    text = kind.line(cells).decode(kind.encoding).removesuffix(kind.end) if random_.random() < 0.7 else ""
    for _ in range(random_.randrange(1, 4)):
        place = random_.choice([0, len(text), random_.randrange(len(text) + 1)])
        piece = random_.choice(PIECES)
        text = text[:place] + piece + text[place:]
    if random_.random() < 0.15:
        text = kind.separator.join(random_.choice(PIECES) for _ in range(width))
    end = random_.choice([kind.end, "\n", "\r\n", "\r\r\n"])
    line = (text.replace("\n", "") + end).encode(kind.encoding, "replace")
    if random_.random() < 0.2:
        bad = random_.choice(BAD_BYTES)
        unit = 2 if kind.encoding.startswith("utf-16") else 1
        bad = bad[: len(bad) // unit * unit]
        place = random_.randrange(len(line) // unit) * unit
        line = line[:place] + bad + line[place:]
    return line if _is_one_line(line, kind) else kind.raw('"')


def _is_one_line(line: Line, kind: Format) -> bool:
    """Whether the only LF of a line is its last unit: what is put into a file must be one line of it."""
    if not kind.encoding.startswith("utf-16"):
        return line.count(b"\n") == 1 and line.endswith(b"\n")
    units = np.frombuffer(line, "<u2" if kind.encoding.endswith("le") else ">u2")
    return bool(len(line) % 2 == 0 and (units == 10).sum() == 1 and units[-1] == 10)


def is_row(line: Line, kind: Format) -> bool:
    """Whether a line is a row: a blank one of a text of several columns is none."""
    if isinstance(kind, SheetFormat) or len(kind.names) == 1:
        return True
    try:
        text = line.decode(kind.encoding)
    except UnicodeError:
        return True
    held = set(text.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff"))
    return not held <= {" ", "\t"} - {kind.separator}


def of_lines(kind: Format, lines: Sequence[Line], read: Callable[..., list[Outcome]]) -> list[Outcome | None]:
    """Read a file and return what each of its lines became, None for one that is no row."""
    found = read(kind.file(lines), kind.form, kind.schema)
    rows = [is_row(line, kind) for line in lines]
    assert len(found) == sum(rows), "other lines are rows than should be"
    left = iter(found)
    return [next(left) if row else None for row in rows]


def codes_of(data: bytes, form: TableFormat, schema: Schema, *, limits: ReaderLimits = LIMITS) -> list[Outcome]:
    """Read a file as the parsing process does and return what each row became, the hash of its id last.

    A table that is refused has no outcome, and none of its lines became anything.
    """
    answers = io.BytesIO()
    request = Request(
        format=form, limits=limits, columns=schema.columns, id_column=schema.unit.id_column, key=b"a key of the test"
    )
    serve(request, io.BytesIO(data), answers)
    answers.seek(0)
    rows: list[Outcome] = []
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            return []
        if kind == b"Z":
            assert loads(body)["rows"] == len(rows)
            return rows
        rows += _rows_of(body, schema)


def _rows_of(body: bytes, schema: Schema) -> Iterator[Outcome]:
    n_rows, place = int.from_bytes(body[:8], "little"), 8
    columns = []
    for column in schema.modelled:
        kind = code_dtype(column.size)
        codes = np.frombuffer(body, kind, n_rows, place)
        assert codes.size == 0 or int(codes.max()) < column.size, "a code that is not of the declared domain"
        columns.append(codes.tolist())
        place += n_rows * kind.itemsize
    if schema.unit.id_column is not None:
        hashes = np.frombuffer(body, np.uint8, n_rows * HASH_BYTES, place).reshape(n_rows, HASH_BYTES)
        columns.append([int.from_bytes(one.tobytes(), "little") for one in hashes])
    return zip(*columns, strict=True)


@dataclass(frozen=True)
class Mutation:
    """What was done to a table, and where each line of it stands afterwards; None for the ones that were touched."""

    what: str
    lines: list[Line]
    places: list[int | None]


def mutations(kind: Format, lines: list[Line], number: int, seed: int) -> Iterator[Mutation]:
    """Insert, replace or delete one line, or exchange the ids of two; ``number`` of these."""
    random_ = random.Random(seed)
    for _ in range(number):
        what = random_.choice(["insert", "insert", "replace", "replace", "delete", "exchange"])
        place = random_.randrange(len(lines))
        before = list(range(len(lines)))
        if what == "insert":
            place = random_.randrange(len(lines) + 1)
            changed = [*lines[:place], hostile_line(random_, kind), *lines[place:]]
            yield Mutation(what, changed, [one + (one >= place) for one in before])
        elif what == "replace":
            changed = [*lines[:place], hostile_line(random_, kind), *lines[place + 1 :]]
            yield Mutation(what, changed, [None if one == place else one for one in before])
        elif what == "delete":
            yield Mutation(
                what,
                [*lines[:place], *lines[place + 1 :]],
                [None if one == place else one - (one > place) for one in before],
            )
        else:
            other = random_.randrange(len(lines))
            changed = list(lines)
            changed[place], changed[other] = _exchanged(kind, lines[place], lines[other])
            yield Mutation(what, changed, [None if one in (place, other) else one for one in before])


def _exchanged(kind: Format, one: Line, other: Line) -> tuple[Line, Line]:
    if isinstance(kind, SheetFormat):
        return other, one
    separator = kind.separator.encode(kind.encoding)
    (first, *rest), (second, *others) = one.split(separator, 1), other.split(separator, 1)
    if not rest or not others:
        return other, one
    return separator.join([second, *rest]), separator.join([first, *others])


def changed_lines(kind: Format, number: int, seed: int, read: Callable[..., list[Outcome]] = codes_of) -> list[str]:
    """Return what was done wherever it changed what another line became, over ``number`` mutations of one table."""
    random_ = random.Random(seed)
    lines = [kind.line(honest_cells(random_, kind.schema)) for _ in range(8)]
    # Some hostile lines stand there from the beginning: they have neighbours too.
    lines[2], lines[5] = hostile_line(random_, kind), hostile_line(random_, kind)
    before = of_lines(kind, lines, read)
    wrong = []
    for mutation in mutations(kind, lines, number, seed + 1):
        try:
            after = of_lines(kind, mutation.lines, read)
        except AssertionError:
            wrong.append(mutation.what)
            continue
        same = all(place is None or after[place] == before[line] for line, place in enumerate(mutation.places))
        if not same:
            wrong.append(mutation.what)
    return wrong


# Parquet ------------------------------------------------------------------------------------------------------------


def parquet_cells(random_: random.Random) -> dict[str, object]:
    """Return a typed row, with every value its types can hold."""
    return {
        "who": random_.choice(["a", "b", None, "", "x" * 400]),
        "age": random_.choice([0, 47, 999, -1, None, 2**62, -(2**63), 2**63 - 1]),
        "weight": random_.choice([0.0, -0.0, 1e308, -1e308, float("nan"), float("inf"), None, 5e-324, 70.5]),
        "town": random_.choice(
            [b"Ayr", b"Bath, Avon", b"\xff\xfe", b"S\xc3\xa3o Paulo", None, b"", b"y" * 301, b"\x00"]
        ),
        "seen": random_.choice([0, 1_600_000_000_000_000, None, -(2**63) + 1, 2**63 - 1, -1]),
        "well": random_.choice([True, False, None]),
    }


PARQUET_SCHEMA = Schema(
    (
        IdentifierColumn("who"),
        NumberColumn("age", 0, 120, 1, special=(999.0,), fallback=40),
        NumberColumn("weight", 0, 200, 0.5, missing=True),
        CategoryColumn("town", ("Ayr", "Bath, Avon", "São Paulo"), other=True),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), missing=True),
        YesNoColumn("well", fallback="no"),
    ),
    PrivacyUnit("person", 2, "who"),
    "private",
)


def parquet_file(rows: Sequence[dict[str, object]], *, seen: pa.DataType, dictionary: bool, group: int) -> bytes:
    """Write typed rows; texts may hold bytes that are no UTF-8, as files of other programs do."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    texts = pa.array(columns["town"], pa.binary())
    table = pa.table(
        {
            "who": pa.array(columns["who"], pa.string()),
            "age": pa.array(columns["age"], pa.int64()),
            "weight": pa.array(columns["weight"], pa.float64()),
            "town": pa.Array.from_buffers(pa.string(), len(texts), texts.buffers(), texts.null_count),
            "seen": pa.array(columns["seen"], pa.int64()).view(seen),
            "well": pa.array(columns["well"], pa.bool_()),
        }
    )
    target = io.BytesIO()
    pq.write_table(table, target, use_dictionary=dictionary, row_group_size=group, write_statistics=False)
    return target.getvalue()
