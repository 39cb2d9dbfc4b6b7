"""What is declared: columns, schema, privacy unit and configuration. Nothing here ever comes from rows.

Beside the names below, :mod:`synth.schema.encoding` turns cells into codes, :mod:`synth.schema.constraints` keeps what
is declared between columns, and :mod:`synth.schema.documents` reads what people write.
"""

from synth.schema.columns import COLUMN_TYPES, modelled_columns, parse_column
from synth.schema.columns.base import Codes, Column, FormField, ModelledColumn, Weight, code_dtype, guarded
from synth.schema.columns.find import FindColumn
from synth.schema.columns.labels import CategoryColumn, YesNoColumn
from synth.schema.columns.moments import DateColumn, DateStep, TimeColumn, TimeStep
from synth.schema.columns.number import NumberColumn
from synth.schema.columns.unmodelled import DropColumn, IdentifierColumn
from synth.schema.config import (
    DECLARED,
    FOUND_THEN_EDITED,
    READ_FROM_ROWS,
    DeclaredTable,
    FoundReference,
    NamesOf,
    OptionValue,
    PreviewSpent,
    RunConfig,
    config_of_schema,
    config_of_text,
    config_to_mapping,
    config_to_yaml,
    default_delta,
    in_full,
    is_found,
    load_config,
    load_schema,
    parse_config,
    parse_schema,
    prediction_refusal,
)
from synth.schema.presets import Preset, preset_called, preset_for, presets
from synth.schema.schema import (
    Neighbours,
    PrivacyUnit,
    Protection,
    RowCountRule,
    Schema,
    domain_problem,
    schema_from_document,
    schema_to_document,
    size_problem,
    undeclared_facts,
)
from synth.schema.written import ENCODINGS, MOST_HEADER_ROWS, TYPED_KINDS, TableFormat, format_to_mapping, parse_format

__all__ = [
    "COLUMN_TYPES",
    "DECLARED",
    "ENCODINGS",
    "FOUND_THEN_EDITED",
    "MOST_HEADER_ROWS",
    "READ_FROM_ROWS",
    "TYPED_KINDS",
    "CategoryColumn",
    "Codes",
    "Column",
    "DateColumn",
    "DateStep",
    "DeclaredTable",
    "DropColumn",
    "FindColumn",
    "FormField",
    "FoundReference",
    "IdentifierColumn",
    "ModelledColumn",
    "NamesOf",
    "Neighbours",
    "NumberColumn",
    "OptionValue",
    "Preset",
    "PreviewSpent",
    "PrivacyUnit",
    "Protection",
    "RowCountRule",
    "RunConfig",
    "Schema",
    "TableFormat",
    "TimeColumn",
    "TimeStep",
    "Weight",
    "YesNoColumn",
    "code_dtype",
    "config_of_schema",
    "config_of_text",
    "config_to_mapping",
    "config_to_yaml",
    "default_delta",
    "domain_problem",
    "format_to_mapping",
    "guarded",
    "in_full",
    "is_found",
    "load_config",
    "load_schema",
    "modelled_columns",
    "parse_column",
    "parse_config",
    "parse_format",
    "parse_schema",
    "prediction_refusal",
    "preset_called",
    "preset_for",
    "presets",
    "schema_from_document",
    "schema_to_document",
    "size_problem",
    "undeclared_facts",
]
