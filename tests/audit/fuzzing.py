"""Hostile inputs, made from a seed, and what is done with them: the reading child, and everything done with names."""

from __future__ import annotations

import gzip
import io
import json
import random
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from synth.errors import InputError, SynthError
from synth.names import odd_names, shown, visible
from synth.reading.reader import read_codes
from synth.schema import CategoryColumn, NumberColumn, Schema, TableFormat, config_of_text, config_to_yaml
from synth.schema.documents import read_mapping
from synth.schema.rule_lines import read_rules
from synth.services.inspection import inspect_header
from synth.services.recognition import recognise
from synth.system.settings import ReaderLimits

__all__ = ["CANARY", "LIMITS", "Outcome", "documents", "judged", "names_in_files", "read", "tables", "told"]

CANARY = "Zq7canary"
"""A cell of every table here: no sentence may quote it."""

LIMITS = ReaderLimits(
    input_bytes=8 * 2**20, text_bytes=16 * 2**20, memory_bytes=3 * 2**29, cpu_seconds=10, wall_seconds=300
)
"""Of the reading child; a file that needs more ends in a sentence."""

_SCHEMA = Schema(
    (NumberColumn("age", 0, 120, 1, missing=True), CategoryColumn("city", ("north", "south"), other=True)),
    row_count="private",
)
_PIECES = (
    "9" * 60_000, "_" * 60_000, "aA" * 30_000, "\u202e", "\u200b", "\0", "\r", "\n", '"', "'", ",", ";", "\t", "=1+1",
    "-" * 300, "\ufeff", "\U000e0001", "\ud7ff", "e\u0301" * 200, "age", "city", "1e999999", "nan", "{}", "[]", "&a",
    "*a", "!!x", "%", "|", ">", "?", ": ", "- ", "~", "__index_level_0__", "name\n", "<b>", "`", "$x$", "\\",
    "/etc/passwd",
)  # fmt: skip

_SIZES = ("0", "-1", "1e-300", "1e308", "9" * 30, "9" * 999, "0." + "3" * 900, "-0", "1_000", "\u0663")


@dataclass(frozen=True)
class Outcome:
    """What one input came to, and what it cost."""

    sentence: str | None
    server_seconds: float
    child_seconds: float
    grown_mebibytes: float


def judged(work: Callable[[], object]) -> Outcome:
    """Run one input through; whatever is no sentence of ours is raised.

    Costs are processor time of this process and of the children it waited for, and how far its memory grew.
    """
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, sentence = time.process_time(), None
    try:
        work()
    except SynthError as error:
        sentence = str(error)
    server = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    return Outcome(sentence, server, child, grown)


def read(data: bytes, form: TableFormat) -> None:
    """Take a file in as the server does: names and rows, a look, then codes, and all that is done with the names."""
    from pages.ui.words import plain

    header = inspect_header(io.BytesIO(data), form, limits=LIMITS)
    told(list(header.names))
    for column in recognise(io.BytesIO(data), form, look=True, limits=LIMITS).columns:
        plain(f"{column.evidence} {column.note}")
    read_codes(lambda: io.BytesIO(data), form, _SCHEMA, undeclared="drop", limits=LIMITS)


def told(names: list[str]) -> None:
    """Do with names what pages and commands do with them."""
    from pages.ui.column_rows import errors_of_rows, mapping_of_row, new_row
    from pages.ui.words import plain

    for sentence in odd_names(names):
        plain(sentence)
    rows = [new_row(name, "") for name in names]
    for problem in errors_of_rows(rows):
        plain(problem)
    for row in rows[:50]:
        visible(row["name"])
        shown(row["name"])
        try:
            mapping_of_row({**row, "role": "category", "categories": row["name"]})
            NumberColumn(row["name"], 0, 1, 1)
            read_rules([f"{row['name']} >= 1"], _SCHEMA)
        except InputError:
            continue


def _name(chance: random.Random) -> str:
    return "".join(chance.choice(_PIECES) for _ in range(chance.randint(1, 4)))


def names_in_files(chance: random.Random) -> Iterator[tuple[bytes, TableFormat]]:
    """Yield tables whose columns have nasty names, as text and as Parquet."""
    names = list(dict.fromkeys([*(_name(chance) for _ in range(chance.randint(1, 6))), "age", "city"]))
    cells = [[CANARY] * 3 for _ in names]
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    row = ",".join([CANARY] * len(names))
    newlines = chance.random() < 0.5
    yield f"{quoted}\n{row}\n{row}\n".encode("utf-8", "replace"), TableFormat(newlines=newlines)
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table(cells, names=names), buffer)
    yield buffer.getvalue(), TableFormat()
    yield b"", TableFormat(header=False, separator=",", names=tuple(names))
    yield f"{row}\n".encode(), TableFormat(header=False, separator=",", names=tuple(names))


def tables(chance: random.Random) -> Iterator[tuple[bytes, TableFormat]]:
    """Yield files with bytes changed, taken out, doubled and put in: text, gzip and Parquet, in any format."""
    text = "age,city\n" + f"33,{CANARY}\n44,north\n" * 50
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table({"age": [33, 44] * 50, "city": [CANARY, "north"] * 50}), buffer)
    whole = [text.encode(), gzip.compress(text.encode(), mtime=0), buffer.getvalue(), text.encode("utf-16")]
    data = bytearray(chance.choice(whole))
    for _ in range(chance.randint(1, 12)):
        place = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0 and place < len(data):
            data[place] = chance.randrange(256)
        elif kind == 1:
            del data[place : place + chance.randint(1, 40)]
        elif kind == 2:
            data[place:place] = data[place : place + chance.randint(1, 200)] * chance.randint(1, 50)
        else:
            data[place:place] = chance.choice(_PIECES).encode("utf-8", "replace")
    form = TableFormat(
        separator=chance.choice(["auto", ",", ";", "\t", "|"]),
        encoding=chance.choice(["utf-8", "latin-1", "utf-16", "ascii"]),
        missing=("", chance.choice(_PIECES)),
        strip=chance.random() < 0.5,
        skip_rows=chance.choice([0, 0, 1, 5]),
        comment=chance.choice([None, None, "#", "age"]),
        kind=chance.choice(["auto", "auto", "csv", "parquet"]),
        newlines=chance.random() < 0.3,
    )
    yield bytes(data), form


def documents(chance: random.Random) -> Iterator[str]:
    """Yield configurations with pieces of every kind put in, taken out and repeated."""
    text = (
        "account: a\nbudget: {epsilon: 1}\nrows: 1\nrow_count: private\npeople_at_most: 9\n"
        "unit: {protects: person, rows_per_unit: 1}\nrules: ['age >= 3']\ngroups: [city]\n"
        f"columns:\n  age: {{type: number, low: 0, high: 120, special: [999]}}\n"
        f"  city: {{type: category, values: [north, {CANARY}], other: true}}\n"
        "  seen: {type: date, low: 2020-01-01, high: 2021-01-01, pattern: '%d.%m.%Y', missing: true}\n"
        "  seen at: {type: time, low: 6:30, high: '18:00', step: hour, of: seen, fallback: 07:00}\n"
    )
    whole = text
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(text) + 1)
        kind = chance.randrange(3)
        if kind == 0:
            text = text[:place] + chance.choice(_PIECES) + text[place:]
        elif kind == 1:
            text = text[:place] + text[place + chance.randint(1, 30) :]
        else:
            piece = text[place : place + chance.randint(1, 60)]
            text = text[:place] + piece * chance.choice([2, 10, 3_000]) + text[place:]
    yield text
    yield text + "more: &a [1]\n" * 2 + "[" * chance.choice([1, 100, 20_000])
    yield json.dumps(_changed(read_mapping(whole), chance))


def _changed(body: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a configuration that is well written, with one or two values or keys exchanged for odd ones."""
    places = [body, body["columns"], *body["columns"].values(), body["unit"], body["budget"]]
    odd = (*_PIECES, *_SIZES, None, True, [], {}, [1, [2]], ["a", "a"], "age", "2020-02-30", "x" * 5_000)
    for _ in range(chance.randint(1, 2)):
        place = chance.choice(places)
        key = chance.choice(list(place))
        if chance.random() < 0.7:
            place[key] = chance.choice(odd)
        else:
            place[_name(chance)] = place.pop(key)
    return body


def read_document(text: str) -> None:
    """Read a configuration as the server does, and write it again."""
    config = config_of_text(text)
    config_to_yaml(config)
    read_rules(config.constraints, config.schema)
