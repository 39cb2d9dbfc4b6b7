"""The declared schema as a JSON document, and back; columns keep their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synth.errors import InputError, VerificationError
from synth.schema import PrivacyUnit, Schema, parse_column

__all__ = ["schema_from_document", "schema_to_document"]

_OF_CELLS = {"protection", "cell_change"}
_OPTIONAL = {*_OF_CELLS, "number_of_units"}


def schema_to_document(schema: Schema) -> dict[str, Any]:
    """Write a schema as JSON values."""
    unit = schema.unit
    # Said only where it is not the whole row that is protected, so that other documents stay as they were.
    cell = {} if schema.protection == "record" else {"protection": "cell", "cell_change": schema.cell_change}
    return {
        "unit": {"protects": unit.protects, "rows_per_unit": unit.rows_per_unit, "id_column": unit.id_column},
        "row_count": schema.row_count,
        **({} if schema.number_of_units is None else {"number_of_units": schema.number_of_units}),
        **cell,
        "columns": [{"name": column.name, **column.to_mapping()} for column in schema],
    }


def schema_from_document(document: object) -> Schema:
    """Read a schema back.

    Raises
    ------
    VerificationError
        If it is not what :func:`schema_to_document` writes.
    """
    try:
        if not isinstance(document, Mapping) or set(document) - _OPTIONAL != {"unit", "row_count", "columns"}:
            raise TypeError
        cell = {key: document[key] for key in _OF_CELLS if set(document) >= _OF_CELLS}
        if set(document) & _OF_CELLS != set(cell) or cell.get("protection", "cell") != "cell":
            raise TypeError
        unit = document["unit"]
        if document["row_count"] not in ("public", "private") or not isinstance(unit["rows_per_unit"], int):
            raise TypeError
        number = document.get("number_of_units")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise TypeError
        columns = [dict(column) for column in document["columns"]]
        return Schema(
            columns=tuple(parse_column(str(column.pop("name")), column) for column in columns),
            unit=PrivacyUnit(**unit),
            row_count=document["row_count"],
            number_of_units=number,
            **cell,
        )
    except InputError as refusal:
        raise VerificationError(f"schema.json cannot be used: {refusal}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise VerificationError("schema.json does not describe a table.") from None
