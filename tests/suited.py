"""Tables that a generator takes: those of the tests, without the columns that are not for it."""

from __future__ import annotations

from dataclasses import replace

from synth.estimators import describe
from synth.schema import DropColumn, Schema


def suited(name: str, schema: Schema, label: str | None) -> Schema:
    """Return the schema with columns dropped that a generator or model does not take, and a row count that it takes."""
    needs = describe(name).needs
    if needs.sampling:
        schema = replace(schema, row_count="private", number_of_units=None)
    if not needs.numbers or needs.are_met(schema, label):
        return schema

    def with_only(kept: set[str]) -> Schema:
        left_out = {column.name for column in schema.modelled} - kept
        columns = (DropColumn(one.name) if one.name in left_out else one for one in schema.columns)
        return replace(schema, columns=tuple(columns))

    # Plain numbers first: one of them it needs, and what else it takes is tried after them.
    kept = {label} if label is not None else set()
    for column in sorted(schema.modelled, key=lambda one: (one.levels < 2, one.size > one.levels)):
        more = kept | {column.name}
        if needs.are_met(with_only(more), label):
            kept = more
    return with_only(kept)
