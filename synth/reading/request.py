"""What the program asks its parsing process to do, and the errors of ours that the process may answer with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from synth.errors import ConfigError, InputError, MissingPackageError, SchemaError, TableError
from synth.schema import Column, PrivacyUnit, TableFormat, format_to_mapping, parse_column
from synth.schema.schema import LinkedTables, unit_from_mapping, unit_to_mapping
from synth.schema.written import as_fields
from synth.system.settings import ReaderLimits

__all__ = ["HASH_BYTES", "NO_ROWS", "SEVERAL", "START_BYTES", "Request", "error_named", "kind_of_start"]

HASH_BYTES = 16
"""Bytes of the keyed hash of one unit's id; a missing id is all zeros."""

NO_ROWS = "The table has a header but no rows. Send the whole table."

START_BYTES = 32
"""First bytes of a file, which say its kind."""

SEVERAL = b"HERMITAGE PARQUET FILES 1\n"
"""First bytes of several Parquet files that were joined into one (:mod:`synth.reading.more.several`)."""

_STARTS = {
    b"PAR1": "parquet",
    SEVERAL: "parquet",
    b"ARROW1": "arrow",
    b"PK\x03\x04": "workbook",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "xls",
    b"$FL2@(#)": "sav",
    b"$FL3@(#)": "sav",
    b"<stata_dta>": "dta",
    bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c": "sas7bdat",
    b"HEADER RECORD*******LIBRARY ": "xpt",
    b"HEADER RECORD*******LIBV8   ": "xpt",
}
"""First bytes of files that are read by ranges, and their kinds."""

_OLD_STATA = {105, 108, 110, 111, 113, 114, 115}
"""Versions of .dta files whose first byte is their version."""

_ERRORS = {kind.__name__: kind for kind in (TableError, SchemaError, ConfigError, MissingPackageError)}


def kind_of_start(start: bytes) -> str:
    """Return the kind of a file that begins with these bytes: "text" where no other kind begins so."""
    if len(start) > 3 and start[0] in _OLD_STATA and start[1] in (1, 2) and start[2:4] == b"\x01\0":
        return "dta"
    # A stream of Arrow begins with a message, and this with its length, which is a multiple of eight.
    if start.startswith(b"\xff\xff\xff\xff") and len(start) > 8 and start[4] % 8 == 0 and start[7] == 0:
        return "arrow"
    return next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), "text")


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """What the parsing process is asked to do.

    ``columns`` are the declared ones. ``size`` is the length of the file if ranges of it are served; None if the bytes
    follow the request. ``key`` is the key of the hashes of unit ids. ``together`` says whose rows are kept together,
    where that is asked about, and ``rules`` are what is declared of them. ``tables`` are two tables that the one to
    read is joined from, or that are to be joined: the second begins at byte ``second_at`` of what is served then.
    ``of_first`` names columns of the first of two that were joined, where such a table is looked at; None otherwise.
    ``part`` is which of several processes this is, from 0, and of how many, where each reads a part of the rows of a
    Parquet file.
    """

    format: TableFormat
    limits: ReaderLimits
    columns: tuple[Column, ...] = ()
    id_column: str | None = None
    drop_undeclared: bool = False
    key: bytes = b""
    size: int | None = None
    together: PrivacyUnit | None = None
    tables: LinkedTables | None = None
    second_at: int = 0
    rules: tuple[str, ...] = ()
    of_first: tuple[str, ...] | None = None
    part: tuple[int, int] = (0, 1)

    def to_bytes(self) -> bytes:
        """Write the request as JSON."""
        body = {one.name: getattr(self, one.name) for one in fields(self)} | {
            "format": format_to_mapping(self.format),
            "limits": asdict(self.limits),
            "columns": [[column.name, column.to_mapping()] for column in self.columns],
            "key": self.key.hex(),
            "together": None if self.together is None else unit_to_mapping(self.together),
            "tables": None if self.tables is None else asdict(self.tables),
        }
        return json.dumps(body).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Read what :meth:`to_bytes` wrote."""
        body: Mapping[str, Any] = json.loads(data)
        # Not read as a document, so that this process need not load what reads documents.
        form: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in body["format"].items()}
        if "fields" in form:
            form["fields"] = as_fields(form["fields"])
        read: dict[str, Any] = {
            "format": TableFormat(**form),
            "limits": ReaderLimits(**body["limits"]),
            "columns": tuple(parse_column(name, declared) for name, declared in body["columns"]),
            "key": bytes.fromhex(body["key"]),
            "together": None if body["together"] is None else unit_from_mapping(body["together"]),
            "tables": None if body["tables"] is None else LinkedTables(**body["tables"]),
            "rules": tuple(body["rules"]),
            "of_first": None if body["of_first"] is None else tuple(body["of_first"]),
            "part": (int(body["part"][0]), int(body["part"][1])),
        }
        return cls(**{**body, **read})


def error_named(name: str, text: str, **mended: Any) -> InputError:
    """Return the error that the parsing process named, with the part of the format that would mend it."""
    kind = _ERRORS.get(name, TableError)
    return TableError(text, **mended) if kind is TableError else kind(text)
