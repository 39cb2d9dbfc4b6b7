"""How fast tables are read, and in how much memory, from few columns to many, in each kind of file.

    python benchmarks/reading.py [--kinds csv tsv parquet xlsx] [--columns 10 100 1000 2000 5000] [--cells 4000000] \
        [--before FOLDER] [--json FILE]
    python benchmarks/reading.py --kinds csv parquet --columns 2000 --cells 200000000

Every file has the same number of cells, in more rows where there are fewer columns; an .xlsx file has a tenth of them.
A quarter of the columns are numbers of two decimals, 10,001 different ones; the others are small whole numbers and
words.
``--before`` is a checkout of another commit, which reads the same files in the same run. The program and the confined
process that parses are measured by themselves: MiB are the largest that each held, seconds those of the processor in
both together. What is refused is printed as the sentence that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

KINDS = ("csv", "tsv", "parquet", "xlsx")
COLUMNS = (10, 100, 1000, 2000, 5000)
WORDS = ("north-west", "south-east", "centre of town", "elsewhere")
POOL = 4_000
"""Different rows of a file, which come again and again."""


@dataclass(frozen=True)
class Read:
    """One reading: cells a second, and MiB of the program and of the process that parses; or why it was refused."""

    tree: str
    kind: str
    columns: int
    rows: int
    cells_per_second: float
    program_mib: float
    parser_mib: float
    refused: str = ""


def pool(columns: int, rows: int) -> pa.Table:
    """Return some rows of a table."""
    random = np.random.default_rng(5)

    def cells(place: int) -> pa.Array:
        if place % 4 == 1:
            return pa.array((random.integers(0, 10**4 + 1, rows) / 100).round(2))
        if place % 4 == 2:
            return pa.array(np.array(WORDS)[random.integers(0, 4, rows)])
        return pa.array(random.integers(0, 3 if place % 4 == 0 else 50, rows))

    return pa.table({f"q{place}": cells(place) for place in range(columns)})


def declared(columns: int) -> dict[str, Any]:
    """Declare them."""
    numbers = {0: (0, 2, 1), 1: (0, 100, 0.01), 3: (0, 49, 1)}
    return {
        f"q{place}": {"type": "category", "values": list(WORDS), "missing": True}
        if place % 4 == 2
        else {"type": "number", **dict(zip(("low", "high", "step"), numbers[place % 4], strict=True)), "missing": True}
        for place in range(columns)
    }


def write(kind: str, columns: int, rows: int, path: Path) -> None:
    """Write a table of ``rows`` rows."""
    some = pool(columns, min(rows, POOL))
    parts = [some] * (rows // len(some)) + [some.slice(0, rows % len(some))] * bool(rows % len(some))
    if kind == "parquet":
        with pyarrow.parquet.ParquetWriter(path, some.schema) as target:
            for at in range(0, len(parts), 4):
                target.write_table(pa.concat_tables(parts[at : at + 4]))
    elif kind == "xlsx":
        write_xlsx(parts, path)
    else:
        delimiter = "," if kind == "csv" else "\t"
        with path.open("wb") as target:
            target.write(delimiter.join(some.column_names).encode() + b"\n")
            options = pyarrow.csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
            text = {len(part): pa.BufferOutputStream() for part in parts}
            for part in {len(part): part for part in parts}.values():
                pyarrow.csv.write_csv(part, text[len(part)], options)
            written = {length: stream.getvalue() for length, stream in text.items()}
            for part in parts:
                target.write(written[len(part)])


def write_xlsx(parts: Sequence[pa.Table], path: Path) -> None:
    """Write a workbook of one sheet, with its words as shared texts, as spreadsheets do."""
    from synth.reading.more.xlsx import write_xlsx as small

    names = parts[0].column_names
    shared = {text: str(place) for place, text in enumerate([*names, *WORDS])}
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"

    def cell(value: Any) -> str:
        return f'<c t="s"><v>{shared[value]}</v></c>' if isinstance(value, str) else f"<c><v>{value}</v></c>"

    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain.xlsx"
        plain.write_bytes(small([["a"]]))
        with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
            for entry in old.namelist():
                body = old.read(entry)
                if entry.endswith("workbook.xml.rels"):
                    relation = body.decode().replace("rId1", "rId2").replace("worksheet", "sharedStrings")
                    relation = relation[relation.index("<Relationship ") : relation.index("</Relationships>")]
                    strings = relation.replace("sheet1.xml", "strings.xml")
                    body = body.replace(b"</Relationships>", f"{strings}</Relationships>".encode())
                if not entry.endswith("sheet1.xml"):
                    made.writestr(entry, body)
            made.writestr(
                "xl/strings.xml", f'<sst xmlns="{main}">{"".join(f"<si><t>{t}</t></si>" for t in shared)}</sst>'
            )
            with made.open("xl/sheet1.xml", "w", force_zip64=True) as sheet:
                sheet.write(f'<worksheet xmlns="{main}"><sheetData><row>'.encode())
                sheet.write("".join(map(cell, names)).encode() + b"</row>")
                for part in parts:
                    for row in zip(*(own.to_pylist() for own in part.columns), strict=True):
                        sheet.write(f"<row>{''.join(map(cell, row))}</row>".encode())
                sheet.write(b"</sheetData></worksheet>")


def read_here(path: Path, columns: int) -> None:
    """Read a file with the ``synth`` that is imported here, and print what it took as JSON."""
    from synth.errors import TableError
    from synth.reading.reader import read_codes
    from synth.schema import Schema, TableFormat, parse_column

    schema = Schema(tuple(parse_column(name, said) for name, said in declared(columns).items()), row_count="private")
    refused = ""
    try:
        read_codes(lambda: path.open("rb"), TableFormat(), schema)
    except TableError as refusal:
        refused = str(refusal)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(one.ru_utime + one.ru_stime for one in used)
    # Its own largest memory; ru_maxrss has that of the process that started this one, too.
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps([seconds, int(own.split()[1]) / 1024, used[1].ru_maxrss / 1024, refused]))


def read_by(tree: Path, path: Path, kind: str, columns: int, rows: int, name: str) -> Read:
    """Read a file with the program of a checkout, in a process of its own."""
    said = subprocess.run(
        [sys.executable, __file__, "--read", str(path), "--columns", str(columns)],
        env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
        cwd=tree,
    ).stdout
    seconds, program, parser, refused = json.loads(said)
    return Read(name, kind, columns, rows, 0.0 if refused else columns * rows / seconds, program, parser, refused)


def readings(arguments: argparse.Namespace) -> Iterator[Read]:
    """Yield every reading that was asked for."""
    here = Path(__file__).resolve().parents[1]
    trees = {"before": arguments.before, "now": here} if arguments.before else {"now": here}
    with tempfile.TemporaryDirectory() as scratch:
        for kind in arguments.kinds:
            for columns in arguments.columns:
                rows = max(1, arguments.cells // (10 if kind == "xlsx" else 1) // columns)
                path = Path(scratch) / f"table.{kind}"
                write(kind, columns, rows, path)
                for name, tree in trees.items():
                    yield read_by(tree, path, kind, columns, rows, name)
                path.unlink()


def main() -> int:
    """Print a line for each reading."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--cells", type=int, default=4_000_000)
    parser.add_argument("--before", type=Path, help="a checkout of another commit")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read is not None:
        read_here(arguments.read, arguments.columns[0])
        return 0
    print(f"{'file':8} {'columns':>7} {'rows':>9} {'tree':7} {'cells/s':>11} {'program':>8} {'parser':>8}  MiB")
    known = []
    for one in readings(arguments):
        known.append(one)
        speed = one.refused or f"{one.cells_per_second:11,.0f} {one.program_mib:8.0f} {one.parser_mib:8.0f}"
        print(f"{one.kind:8} {one.columns:7,} {one.rows:9,} {one.tree:7} {speed}", flush=True)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps([asdict(each) for each in known], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
