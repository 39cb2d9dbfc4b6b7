"""What the program asks its parsing process to do, and the errors of ours that the process may answer with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from synth.errors import ConfigError, InputError, SchemaError, TableError
from synth.schema import Column, TableFormat, format_to_mapping, parse_column
from synth.system.settings import ReaderLimits

__all__ = ["HASH_BYTES", "STARTS", "Request", "error_named"]

HASH_BYTES = 16
"""Bytes of the keyed hash of one unit's id; a missing id is all zeros."""

STARTS = {b"PAR1": "parquet", b"PK\x03\x04": "workbook"}
"""The first bytes of files that are read by ranges, and their kinds."""

_ERRORS = {kind.__name__: kind for kind in (TableError, SchemaError, ConfigError)}


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """What the parsing process is asked to do.

    ``columns`` are the declared ones. ``size`` is the length of the file if ranges of it are served; None if the bytes
    follow the request. ``key`` is the key of the hashes of unit ids.
    """

    format: TableFormat
    limits: ReaderLimits
    columns: tuple[Column, ...] = ()
    id_column: str | None = None
    drop_undeclared: bool = False
    key: bytes = b""
    size: int | None = None

    def to_bytes(self) -> bytes:
        """Write the request as JSON."""
        body = {one.name: getattr(self, one.name) for one in fields(self)} | {
            "format": format_to_mapping(self.format),
            "limits": asdict(self.limits),
            "columns": [[column.name, column.to_mapping()] for column in self.columns],
            "key": self.key.hex(),
        }
        return json.dumps(body).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Read what :meth:`to_bytes` wrote."""
        body: Mapping[str, Any] = json.loads(data)
        # Not read as a document, so that this process need not load what reads documents.
        form: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in body["format"].items()}
        read: dict[str, Any] = {
            "format": TableFormat(**form),
            "limits": ReaderLimits(**body["limits"]),
            "columns": tuple(parse_column(name, declared) for name, declared in body["columns"]),
            "key": bytes.fromhex(body["key"]),
        }
        return cls(**{**body, **read})


def error_named(name: str, text: str, **mended: Any) -> InputError:
    """Return the error that the parsing process named, with the part of the format that would mend it."""
    kind = _ERRORS.get(name, TableError)
    return TableError(text, **mended) if kind is TableError else kind(text)
