"""The types of column that an owner can declare: each in its file, with a line in the registry below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synth.errors import SchemaError
from synth.names import name_problem, shown
from synth.schema.columns.base import Column, ModelledColumn
from synth.schema.columns.find import FindColumn
from synth.schema.columns.labels import CategoryColumn, YesNoColumn
from synth.schema.columns.moments import DateColumn, TimeColumn
from synth.schema.columns.number import NumberColumn
from synth.schema.columns.unmodelled import DropColumn, IdentifierColumn
from synth.schema.documents import as_text, read, read_as

__all__ = ["COLUMN_TYPES", "modelled_columns", "parse_column"]

COLUMN_TYPES: dict[str, type[Column]] = {
    column_type.kind: column_type
    for column_type in (
        NumberColumn,
        CategoryColumn,
        YesNoColumn,
        DateColumn,
        TimeColumn,
        IdentifierColumn,
        DropColumn,
    )
}
"""By the word under ``type:`` in a configuration; a new type needs its file and a line here."""


def parse_column(name: str, declared: object) -> Column:
    """Read one column of the ``columns`` section; :meth:`Column.to_mapping` writes it.

    Parameters
    ----------
    name : str
        Name of the column, used in every message.
    declared : object
        The value under that name: a mapping with a ``type`` and the keys of that type.

    Raises
    ------
    SchemaError
        If the type or a key is unknown, or a value cannot be used.
    """
    problem = name_problem(name)
    if problem is not None:
        raise SchemaError(problem)
    if not isinstance(declared, Mapping):
        raise SchemaError(f"'{shown(name)}' needs a mapping with its type, for example {{type: drop}}.")
    within = f"'{shown(name)}': "
    said = declared.get("type")
    kind = "missing" if said is None else read(f"{within}type", as_text, said)
    # "Find privately" is not a description, so it is not among the types that people can choose.
    found = FindColumn if kind == FindColumn.kind else COLUMN_TYPES.get(kind)
    if found is None:
        raise SchemaError(f"{within}type must be one of {', '.join(COLUMN_TYPES)}, got {shown(kind)}.")
    return read_as(found, declared, within=within, given={"name": name}, aside=("type",), error=SchemaError)


def modelled_columns(columns: Iterable[Column]) -> tuple[ModelledColumn, ...]:
    """Return the columns that have codes, in order."""
    return tuple(column for column in columns if isinstance(column, ModelledColumn))
