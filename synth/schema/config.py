"""What one run is to do: its configuration, how it is read from YAML or JSON, and how it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from synth.errors import ConfigError, SchemaError
from synth.limits import CONSTRAINTS, GROUPS, NUMBER_CHARACTERS
from synth.names import one_form
from synth.schema.columns import parse_column
from synth.schema.columns.base import ModelledColumn
from synth.schema.columns_like import COLUMNS_LIKE, all_declared, columns_in_full
from synth.schema.documents import (
    Needed,
    Number,
    Read,
    Text,
    Texts,
    Whole,
    as_mapping,
    as_text,
    as_whole,
    each,
    read,
    read_as,
    read_mapping,
    read_text,
    refuse_unknown,
    to_yaml,
    without_signed_zeros,
)
from synth.schema.people import people_of
from synth.schema.rule_lines import with_tables
from synth.schema.schema import Neighbours, Schema, schema_to_document, size_problem, tables_of, unit_to_mapping
from synth.schema.source import DatabaseSource
from synth.schema.written import TableFormat, WholeOrBlank, format_to_mapping, parse_format
from synth.system.paths import path_of

__all__ = [
    "FOUND_THEN_EDITED",
    "MOST_CHARGED_CLASSES",
    "READ_FROM_ROWS",
    "DeclaredTable",
    "FoundReference",
    "NamesOf",
    "OptionValue",
    "PreviewSpent",
    "RunConfig",
    "config_of_schema",
    "config_of_text",
    "config_to_mapping",
    "config_to_yaml",
    "default_delta",
    "in_full",
    "is_found",
    "load_config",
    "load_schema",
    "parse_config",
    "parse_schema",
    "prediction_refusal",
]

OptionValue = str | int | float | bool | None | tuple["OptionValue", ...]

MAXIMUM_ROWS = 50_000_000
USUAL_GENERATOR = "dp-hp-adaptive"
_USUAL_FORMAT = TableFormat()


def _option(value: object) -> OptionValue:
    if isinstance(value, list | tuple):
        return tuple(map(_option, value))
    if isinstance(value, Mapping):
        raise ValueError("must be numbers, texts, truth values or lists of them.")
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    for convert in (int, float) if len(text) <= NUMBER_CHARACTERS else ():
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _options(value: object) -> dict[str, OptionValue]:
    return {str(name): _option(given) for name, given in as_mapping(value).items()}


def _texts_by_key(value: object) -> dict[str, str]:
    return {str(key): as_text(text) for key, text in as_mapping(value).items()}


_Options = Annotated[Mapping[str, OptionValue], Read(_options)]

MOST_CHARGED_CLASSES = 10
"""Most classes of a label whose predictions can be charged: with more, counts by guess and label are noise."""


def default_delta(people_at_most: int) -> float:
    """Return min(1e-6, 1 / (10 people)), rounded down to a power of ten.

    The number of people is the declared one, never the count of a private table.

    Raises
    ------
    ConfigError
        If it is below 1.
    """
    _require_people(people_at_most)
    return float(10.0 ** min(-6, math.floor(-math.log10(10 * people_at_most) + 1e-12)))


def _require_people(people_at_most: int) -> None:
    if people_at_most < 1:
        raise ConfigError(f"people_at_most must be at least 1, got {people_at_most:,}.")


def prediction_refusal(schema: Schema, label: str | None, holdout: float, delta: float) -> str | None:
    """Say in one sentence why predictions on the hold-out cannot be charged, or return None where they can."""
    if not schema.allows_sums:
        return "sums cannot be released where one cell is protected. Declare 'protection: record' or leave it out."
    if delta == 0:
        return (
            "predictions of held-out rows cannot be paid for with a delta of 0. Choose one above 0, for example 1e-6, "
            "or leave it out."
        )
    if label is None:
        return "no label is declared. Name the column to predict under 'label:' or leave it out."
    if holdout == 0:
        return (
            "nobody is held out. Write for example 'holdout: 0.2' or leave it out; a test_table does not count, as its "
            "people may be in the table too."
        )
    column = schema.modelled_column(label)
    classes = column.size - (column.missing_code is not None)
    if column.levels <= 2 and not 2 <= classes <= MOST_CHARGED_CLASSES:
        return (
            f"the label '{label}' must be a number or have 2 to {MOST_CHARGED_CLASSES} classes, got {classes:,}. "
            "Declare a label of few classes or leave it out."
        )
    return None


# Columns that were found privately: which finding it was, and what it cost --------------------------------------------

DECLARED = "declared"
"""Domain source of a column whose bounds or categories its owner declared."""

READ_FROM_ROWS = "read from the private rows"
"""Domain source of a column whose bounds or categories were taken from the private rows without a charge."""

FOUND_THEN_EDITED = "found privately, then edited"
"""Domain source of a column that was open in a finding, but that the owner declared differently."""

_FOUND = "found privately, epsilon "
_HEXADECIMAL = frozenset("0123456789abcdef")
_WRITTEN = Needed("synth find writes this section. Leave it as it is, or remove the whole section.")


@dataclass(frozen=True, slots=True)
class FoundReference:
    """Which finding filled columns of a configuration, and the cost that an accountant adds to that of the run.

    ``digest`` is SHA-256 of ``found.json``. ``epsilon`` and ``delta`` are as requested; the other numbers are sums over
    its receipts, in the units of a receipt.
    """

    digest: Annotated[Text, _WRITTEN]
    epsilon: Annotated[Number, _WRITTEN]
    delta: Annotated[Number, _WRITTEN]
    mu_squared_units: Annotated[Whole, _WRITTEN]
    slack: Annotated[Number, _WRITTEN]
    coordinates: Annotated[Whole, _WRITTEN]
    additive_delta: Annotated[Number, _WRITTEN]

    def __post_init__(self) -> None:
        if len(self.digest) != 64 or not set(self.digest) <= _HEXADECIMAL:
            raise ConfigError("found: digest must be 64 hexadecimal digits, as synth find wrote them.")
        costs = (self.epsilon, self.mu_squared_units, self.coordinates)
        sums = (self.slack, self.additive_delta)
        if not (all(cost > 0 for cost in costs) and all(math.isfinite(one) and one >= 0 for one in sums)):
            raise ConfigError("found: a cost is out of range. Leave the section as synth find wrote it.")
        if not (math.isfinite(self.epsilon) and 0 < self.delta < 1):
            raise ConfigError("found: epsilon must be finite and delta between 0 and 1, as synth find wrote them.")

    @property
    def source(self) -> str:
        """The domain source of a column that is declared exactly as it was found."""
        return f"{_FOUND}{self.epsilon:g}"


_LISTED = Needed("Hermitage writes this section when a run begins. Leave it as it is, or remove the whole section.")
_ID_DIGITS = 16


@dataclass(frozen=True, slots=True)
class PreviewSpent:
    """A preview of these people that was paid for before the run: its number in the ledger, and its whole budget."""

    id: Annotated[Text, _LISTED]
    epsilon: Annotated[Number, _LISTED]
    delta: Annotated[Number, _LISTED]

    def __post_init__(self) -> None:
        if len(self.id) != _ID_DIGITS or not set(self.id) <= _HEXADECIMAL:
            raise ConfigError("previews: id must be 16 hexadecimal digits, as Hermitage wrote them.")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 < self.delta < 1):
            raise ConfigError("previews: epsilon must be positive and finite, and delta between 0 and 1.")


def _previews(said: object) -> tuple[PreviewSpent, ...]:
    found = each(lambda one: read_as(PreviewSpent, as_mapping(one), within="previews: "))(said)
    if len({one.id for one in found}) < len(found):
        raise ConfigError("previews: one is listed twice. Leave the section as Hermitage wrote it, or remove it.")
    return found


def is_found(source: str) -> bool:
    """Whether a domain source says that the column was open in a finding."""
    return source == FOUND_THEN_EDITED or source.startswith(_FOUND)


USUAL_EVALUATION_SHARE = 0.1

# What a run is asked to do --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything one run needs to know; nothing in it comes from rows.

    ``generator`` names what is fitted. With ``rows`` above 0 that is a generator, which draws that many; with 0 it is a
    model, which is itself released (``model:`` in a file). With ``by_people`` it is the number of people to make
    (``people:`` in a file), each with one or several rows. ``table`` and ``test_table`` are paths on the owner's
    machine, ``table_files`` are those of two tables that belong together, and ``source`` is the database that is read
    instead; none of them leaves it (:meth:`published` drops them).
    ``seed`` is public and seeds training and sampling, never the privacy noise. ``found`` says which finding filled
    columns, and what it cost beside the run; ``previews`` are those that were paid for before it, as the ledger knows.
    ``evaluation_share`` and ``prediction_share`` are parts of mu^2 for the two charged parts of the report: one-way
    tables where the generator measures none, and predictions on the hold-out.
    """

    schema: Schema
    account: Annotated[Text, Needed("Name the people the ledger protects, for example city-survey-2026.")]
    epsilon: Number
    rows: Annotated[Whole, Needed("Write how many rows to make, a public number.")]
    delta: Number
    people_at_most: Whole
    by_people: bool = False
    generator: Text = USUAL_GENERATOR
    options: _Options = field(default_factory=dict)
    table: Text | None = None
    table_files: tuple[str, str] | None = None
    source: Annotated[DatabaseSource, Read(lambda said: read_as(DatabaseSource, said, within="source: "))] | None = None
    test_table: Text | None = None
    format: Annotated[TableFormat, Read(lambda said: parse_format(_or_empty(said)))] = _USUAL_FORMAT
    test_format: Annotated[TableFormat, Read(lambda said: parse_format(said, "test_format"))] | None = None
    undeclared: Literal["refuse", "drop"] = "refuse"
    holdout: Number = 0.2
    label: Text | None = None
    groups: Texts = ()
    constraints: Texts = ()
    seed: WholeOrBlank = 0
    device: Text = "auto"
    evaluation_share: Number = USUAL_EVALUATION_SHARE
    prediction_share: Number = 0.0
    domain_source: Annotated[Mapping[str, str], Read(_texts_by_key)] = field(default_factory=dict)
    found: Annotated[FoundReference, Read(lambda said: read_as(FoundReference, said, within="found: "))] | None = None
    previews: Annotated[tuple[PreviewSpent, ...], Read(_previews)] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ConfigError(f"budget: epsilon must be positive and finite, got {self.epsilon:g}.")
        if not 0 <= self.delta < 1:
            raise ConfigError(f"budget: delta must be at least 0 and below 1, got {self.delta:g}.")
        if self.delta == 0:
            self._check_pure()
        _require_people(self.people_at_most)
        if not 0 <= self.rows <= MAXIMUM_ROWS:
            raise _rows_refused(self.rows)
        for key in ("holdout", "evaluation_share", "prediction_share"):
            if not 0 <= getattr(self, key) < 1:
                raise ConfigError(f"{key} must be at least 0 and below 1, got {getattr(self, key):g}.")
        self._put_words_in_one_form()
        self._check_tables()
        if not self.account:
            raise ConfigError("account must name the people the ledger protects, for example city-survey-2026.")
        if self.format.origin != "file" and self.schema.neighbours is Neighbours.CELL:
            raise ConfigError(
                "protection: the rows of a database have no public order, which protecting single cells relies on. "
                "Save the table as a file, or leave 'protection' out."
            )
        if self.device not in {"auto", "cpu", "cuda"}:
            raise ConfigError(f"device must be auto, cpu or cuda, got {self.device}.")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        self._check_columns()
        if self.is_model and self.constraints:
            raise ConfigError("rules are about synthetic rows, and a model releases none. Leave the rules out.")
        if self.is_model and self.schema.people == "whole":
            raise ConfigError("people are made of synthetic rows, and a model releases none. Leave 'people' out.")
        if self.by_people and self.schema.people != "whole":
            raise ConfigError(
                "people is a number of people to make, each with their rows. That needs an id_column and a "
                "rows_per_unit above 1, and not 'people: separate_rows'. Otherwise write 'rows'."
            )

    def _check_pure(self) -> None:
        """Refuse what has a delta of its own beside a budget with a delta of 0."""
        if self.schema.neighbours is Neighbours.CELL:
            raise ConfigError(
                "budget: the promise about one cell has no delta; delta is that of what it is worth for a whole row. "
                "Choose one above 0, for example 1e-6."
            )
        if self.found is not None or self.previews:
            raise ConfigError(
                "budget: what was found or previewed privately has a delta above 0, so that of the release cannot be "
                "0. Choose one above 0, for example 1e-6, or declare the columns yourself and leave previews out."
            )

    def _check_tables(self) -> None:
        """Refuse more tables than one, or than the two that belong together."""
        if self.table is not None and self.source is not None:
            raise ConfigError("table and source are both given. Keep the one that holds the rows.")
        if self.table_files is not None and (self.table is not None or self.source is not None):
            raise ConfigError(
                "tables names two files, and another table is named as well. Leave out 'table' and 'source', or leave "
                "the files under 'tables' blank."
            )
        if self.schema.tables is None:
            return
        units = self.schema.unit.plural
        if self.test_table is not None:
            raise ConfigError(
                f"test_table is one table, and two belong together here. Leave it out, and hold {units} out instead."
            )
        if not self.by_people:
            raise ConfigError(
                f"tables: rows is a number of rows of one table. Write 'people: ' and how many {units} to make, each "
                "with their rows."
            )

    def _put_words_in_one_form(self) -> None:
        """Leave no room between the owner's words: a bundle with other ones is not as it was sealed."""
        object.__setattr__(self, "account", one_form(self.account))
        if any(one_form(rule) != rule for rule in self.constraints):
            declared = _texts_of(schema_to_document(self.schema)["columns"])
            # As they are, and as they are inside quotation marks.
            odd = {form for text in declared if one_form(text) != text for form in (text, text.replace('"', '""'))}
            object.__setattr__(self, "constraints", tuple(one_form(rule, keeping=odd) for rule in self.constraints))

    @property
    def asked(self) -> RunConfig:
        """The same run as questions, fits and reports see it: where units are kept whole, of one row for each.

        It is this configuration itself where they are not.
        """
        if self.schema.people != "whole":
            return self
        people = people_of(self.schema)
        rules = (*people.structure, *self.constraints)
        return replace(self, schema=people.asked, by_people=False, constraints=rules)

    def of_rows(self, schema: Schema) -> RunConfig:
        """Return the configuration for questions about rows one by one, of a schema that :meth:`Schema.of_rows` gave.

        Nothing in it is about columns that this schema may lack.
        """
        return replace(
            self, schema=schema, by_people=False, label=None, groups=(), constraints=(), prediction_share=0.0
        )

    @property
    def is_model(self) -> bool:
        """Whether a model is fitted and released, and no row is drawn."""
        return self.rows == 0

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Columns whose ranges or categories were taken from the rows, which the guarantee does not cover."""
        names = (column.name for column in self.schema.modelled)
        return tuple(name for name in names if self.domain_source.get(name) == READ_FROM_ROWS)

    def _check_columns(self) -> None:
        for column in self.schema.modelled:
            problem = column.notation.over(self.format.notation).problem
            if problem is not None:
                raise ConfigError(f"'{column.name}' and format: {problem}")
        if self.label is not None:
            self.schema.modelled_column(self.label)
        if len(set(self.groups)) != len(self.groups):
            raise ConfigError("groups names a column twice. Name each once.")
        for name in self.groups:
            self.schema.modelled_column(name)
        if self.prediction_share:
            refusal = prediction_refusal(self.schema, self.label, self.holdout, self.delta)
            if refusal is not None:
                raise ConfigError(f"prediction_share cannot be used: {refusal}")

    @property
    def names_rows(self) -> bool:
        """Whether it says where the private rows are: in a file, in two, or in a database."""
        return any(one is not None for one in (self.table, self.table_files, self.source))

    def published(self) -> RunConfig:
        """Return the configuration as it may leave the machine: without paths and addresses."""
        return replace(self, table=None, table_files=None, source=None, test_table=None)

    def sealed(self) -> RunConfig:
        """Return the configuration as it is in a bundle: published, without the format of a test table, in one form.

        Options are in the order of their names, sources of domains in that of the columns, and an encoding has one of
        its many names; what is declared by default is left out.
        """
        sources = {one.name: self.domain_source.get(one.name, DECLARED) for one in self.schema}
        return replace(
            self.published(),
            format=replace(self.format, encoding=self.format.codec or self.format.encoding),
            test_format=None,
            options=dict(sorted(self.options.items())),
            domain_source={name: source for name, source in sources.items() if source != DECLARED},
        )


@dataclass(frozen=True, slots=True)
class _Budget:
    epsilon: Annotated[Number, Needed("Write for example budget: {epsilon: 1.0}.")]
    delta: Number | None = None


@dataclass(frozen=True, slots=True)
class _Generator:
    name: Text = USUAL_GENERATOR
    options: _Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Model:
    name: Annotated[Text, Needed("Name the model to fit; synth model lists them.")]
    options: _Options = field(default_factory=dict)


_KEYS = {
    "table", "format", "test_format", "account", "unit", "row_count", "number_of_units", "people_at_most", "budget",
    "holdout", "test_table", "generator", "rows", "label", "groups", "rules", "seed", "device", "columns",
    "undeclared", "evaluation_share", "prediction_share", "domain_source", "protection", "cell_change", "model",
    "found", "previews", "source", "people", "tables", COLUMNS_LIKE,
}  # fmt: skip
_OF_ROWS_MADE = ("generator", "rows", "rules", "evaluation_share")
"""Keys about synthetic rows, of which a model releases none."""

_OF_SCHEMA = tuple(known.name for known in dataclass_fields(Schema) if known.init and known.name != "people")


# Columns that are declared by patterns of their names -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """Where a document says that its table is, and how it is written: what it takes to read the names of columns.

    ``says_names`` tells whether the document declares each of some names. A first line that looks like a row, as years
    do, is then a header. ``linked_as`` is what a table is called that is one of two.
    """

    path: str | None
    source: DatabaseSource | None
    format: TableFormat
    says_names: Callable[[Sequence[str]], bool] = lambda names: False
    linked_as: str | None = None

    @property
    def unnamed(self) -> ConfigError:
        """The error where the names of its columns are needed and there is no file to read them from."""
        if self.linked_as is None:
            return ConfigError(
                f"{COLUMNS_LIKE} goes by the names of a table, and no table is named. Write 'table:' in the "
                "configuration, or use --table."
            )
        return ConfigError(
            f"tables: no file is named for '{self.linked_as}', whose columns are asked for. Name it, or declare every "
            "column by name and list those of the first table under same_in_all_rows of the unit."
        )


NamesOf = Callable[[DeclaredTable], Sequence[str]]
"""Returns the names of a table's columns, in order; it is called only where a document declares columns by patterns."""


def _names_declared(table: DeclaredTable) -> Sequence[str]:
    """Return the names that the format gives to a table without a header."""
    if table.linked_as is not None:
        raise table.unnamed
    if table.format.names is None:
        raise ConfigError(
            f"{COLUMNS_LIKE} goes by the names of a table, and no table is known here. Name one under 'table:', or "
            "declare the columns by name."
        )
    return table.format.names


def in_full(
    document: Mapping[str, Any], names: NamesOf = _names_declared, *, base: Path | None = None
) -> Mapping[str, Any]:
    """Return a document with every column by name: this is the one place where ``columns_like`` is resolved.

    Parameters
    ----------
    document : mapping
        A configuration, or what it says of its table; one without ``columns_like`` is returned as it is.
    names : callable
        By default the names that the format of a table without a header gives.
    base : Path, optional
        Folder to which the path of the table is relative.

    Raises
    ------
    InputError
        If ``columns_like`` cannot be used, or the names cannot be read.
    """
    linked = document.get("tables")
    if linked is not None:
        return _linked_in_full(document, linked, names, base)
    if COLUMNS_LIKE not in document:
        return document
    path, source = document.get("table"), document.get("source")
    table = _declared_table(document, None if path is None else read("table", as_text, path), base)
    if source is not None:
        table = replace(table, source=read_as(DatabaseSource, source, within="source: "))
    return _without_patterns(document, names(table))


def _declared_table(document: Mapping[str, Any], path: str | None, base: Path | None) -> DeclaredTable:
    return DeclaredTable(
        path=_path(path, base),
        source=None,
        format=parse_format(_or_empty(document.get("format"))),
        says_names=partial(all_declared, document.get("columns"), document.get(COLUMNS_LIKE)),
    )


def _without_patterns(document: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    columns = columns_in_full(document.get("columns"), document[COLUMNS_LIKE], names)
    return {key: said for key, said in document.items() if key != COLUMNS_LIKE} | {"columns": columns}


def _linked_in_full(document: Mapping[str, Any], said: object, names: NamesOf, base: Path | None) -> Mapping[str, Any]:
    """Resolve patterns for two tables that belong together, and say which columns the first of them has."""
    tables, paths = read("tables", tables_of, said)
    unit = as_mapping(_or_empty(document.get("unit")))
    if COLUMNS_LIKE not in document and "same_in_all_rows" in unit:
        return document
    of_first, of_second = (
        _names_of_one(names, replace(_declared_table(document, path, base), linked_as=name))
        for name, path in zip((tables.first, tables.second), paths, strict=True)
    )
    if COLUMNS_LIKE in document:
        document = _without_patterns(document, list(dict.fromkeys((*of_first, *of_second))))
    columns = as_mapping(document.get("columns") or {})
    own = [name for name in of_first if name in columns and _is_modelled(name, columns[name])]
    return {**document, "unit": {"id_column": tables.key, "same_in_all_rows": own, **unit}}


def _names_of_one(names: NamesOf, table: DeclaredTable) -> list[str]:
    """Return the names in one of two tables; other names are given to columns of either."""
    rename = dict(table.format.rename)
    return [rename.get(name, name) for name in names(replace(table, format=replace(table.format, rename=())))]


def _is_modelled(name: str, said: object) -> bool:
    return isinstance(parse_column(name, said), ModelledColumn)


# Reading --------------------------------------------------------------------------------------------------------------


def load_config(path: str | Path, names: NamesOf = _names_declared) -> RunConfig:
    """Read a configuration file; table paths in it are relative to it.

    Parameters
    ----------
    path : path
    names : callable
        As :func:`in_full` takes it.

    Raises
    ------
    ConfigError
        If the file cannot be read, has an unknown key, or a value that cannot be used.
    """
    path = path_of(path, "the configuration")
    return config_of_text(read_text(path, "The configuration"), names, base=path.resolve().parent)


def config_of_text(text: str, names: NamesOf = _names_declared, *, base: Path | None = None) -> RunConfig:
    """Read a configuration that a user gives, within the limits on one input (:mod:`synth.limits`).

    Parameters
    ----------
    text : str
        YAML, of which JSON is a part.
    names : callable
        As :func:`in_full` takes it.
    base : Path, optional
        Folder to which the paths of tables are relative.

    Raises
    ------
    InputError
        If it exceeds a limit, has an unknown key, or a value that cannot be used.
    """
    config = parse_config(in_full(read_mapping(text), names, base=base), base=base)
    _require_size(config.schema)
    for what, entries, most in (("rules", config.constraints, CONSTRAINTS), ("groups", config.groups, GROUPS)):
        if len(entries) > most:
            raise ConfigError(f"{what} has {len(entries):,} entries, and at most {most:,} are allowed. Leave some out.")
    return config


def load_schema(path: str | Path, names: NamesOf = _names_declared) -> Schema:
    """Read what a file declares about a table; the other keys of a configuration are ignored.

    Parameters
    ----------
    path : path
    names : callable
        As :func:`in_full` takes it.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown key, or a value that cannot be used.
    """
    path = path_of(path, "the schema")
    document = in_full(read_mapping(read_text(path, "The schema")), names, base=path.resolve().parent)
    _require_keys(document)
    kept = {name: document[name] for name in _OF_SCHEMA if name in document}
    # A number of people to make is not about the table.
    return parse_schema(kept if _is_number(document.get("people")) else kept | _people(document))


def parse_schema(document: Mapping[str, Any]) -> Schema:
    """Turn a mapping into a schema: columns, unit, row_count and the other keys of a configuration about its table.

    Raises
    ------
    InputError
        If it exceeds a limit, has an unknown key, or a value that cannot be used.
    """
    schema = _of_document(document)
    _require_size(schema)
    return schema


def _of_document(document: Mapping[str, Any]) -> Schema:
    """Read a schema: the rows of a unit are kept together where its id shows which they are, unless it says not to."""
    said = document.get("people")
    body = {key: value for key, value in document.items() if key != "people"}
    if body.get("tables") is not None:
        tables, _ = read("tables", tables_of, body.pop("tables"))
        unit = {"id_column": tables.key, **as_mapping(_or_empty(body.get("unit")))}
        schema = read_as(Schema, body | {"unit": unit})
        return replace(
            schema, people="whole" if said is None and schema.may_be_whole else "separate_rows", tables=tables
        )
    schema = read_as(Schema, body)
    if said is None:
        return replace(schema, people="whole") if schema.may_be_whole else schema
    if said not in ("whole", "separate_rows"):
        raise ConfigError(
            "people must be a number of people to make, or separate_rows if each synthetic row may be a person of its "
            "own."
        )
    return replace(schema, people=said)


def _texts_of(document: object) -> Iterator[str]:
    """Yield every text of a document, keys included."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield from _texts_of([key, value])
    elif isinstance(document, Sequence):
        for value in document:
            yield from _texts_of(value)


def _require_size(schema: Schema) -> None:
    problem = size_problem(schema.columns)
    if problem is not None:
        raise SchemaError(problem)


def parse_config(document: Mapping[str, Any], *, base: Path | None = None) -> RunConfig:
    """Turn a parsed document into a configuration.

    Parameters
    ----------
    document : Mapping
        As :func:`synth.schema.documents.read_mapping` returns it, with every column by name (:func:`in_full`).
    base : Path, optional
        Folder to which the paths of tables are relative.
    """
    _require_keys(document)
    declared = {name: document[name] for name in _OF_SCHEMA if name in document}
    beside = {name: said for name, said in document.items() if name not in declared}
    if document.get("model") is not None:
        declared["people"] = "separate_rows"  # nobody is made
        if document.get("people") == "separate_rows":
            beside.pop("people")
    elif not _is_number(document.get("people")):
        declared |= _people(beside)
        beside.pop("people", None)
    if "tables" in declared:
        beside["tables"] = declared["tables"]
    return config_of_schema(_of_document(declared), beside, base=base)


def _people(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"people": document["people"]} if document.get("people") is not None else {}


def _is_number(said: object) -> bool:
    return said is not None and said not in ("whole", "separate_rows")


def _require_keys(document: Mapping[str, Any]) -> None:
    if not _KEYS & set(document):
        # Nothing of it is quoted, because a table may have been given instead.
        raise ConfigError(
            "This is not a configuration: none of its keys is known. It needs account, budget and columns."
        )
    refuse_unknown(document, _KEYS)
    if COLUMNS_LIKE in document:
        raise ConfigError(f"{COLUMNS_LIKE} cannot be used here. Declare every column by name, under columns.")


def config_of_schema(schema: Schema, document: Mapping[str, Any], *, base: Path | None = None) -> RunConfig:
    """Turn a schema and the other keys of a document into a configuration.

    Parameters
    ----------
    schema : Schema
    document : Mapping
        As :func:`parse_config` takes it, without the keys of a schema.
    base : Path, optional
        Folder to which the paths of tables are relative.
    """
    asked = dict(document)
    made = asked.pop("people", None)
    if made is not None and asked.get("model") is not None:
        raise ConfigError("'model' and 'people' are both given, and a model releases no rows. Leave one of them out.")
    if made is not None and "rows" in asked:
        raise ConfigError("people and rows are both given. Keep the one that you want a number of.")
    budget = read_as(_Budget, _or_empty(asked.pop("budget", None)), within="budget: ")
    fitted = _fitted(asked)
    rules = read("rules", each(as_text), asked.pop("rules", None))
    people = _people_at_most(asked.pop("people_at_most", None), schema.number_of_units)
    given = {
        "schema": schema,
        "epsilon": budget.epsilon,
        "delta": default_delta(people) if budget.delta is None else budget.delta,
        "people_at_most": people,
        "generator": fitted.name,
        "options": fitted.options,
        # A sealed configuration has no folder, so none of its lines makes anyone who reads it open a file.
        "constraints": rules if base is None else with_tables(rules, base),
    }
    paths = tables_of(asked.pop("tables"))[1] if asked.get("tables") is not None else (None, None)
    if paths != (None, None):
        given["table_files"] = _both(paths, base)
    if made is not None:
        given |= {"rows": read("people", as_whole, made), "by_people": True}
        if given["rows"] == 0:
            raise _rows_refused(0, "people")
    if isinstance(fitted, _Model):
        # A model has no hold-out unless one is declared.
        given |= {"rows": 0} if "holdout" in asked else {"rows": 0, "holdout": 0.0}
    config = read_as(RunConfig, asked, given=given)
    if config.is_model and not isinstance(fitted, _Model):
        raise _rows_refused(config.rows, "people" if config.by_people else "rows")
    return replace(config, table=_path(config.table, base), test_table=_path(config.test_table, base))


def _both(paths: tuple[str | None, str | None], base: Path | None) -> tuple[str, str]:
    first, second = (_path(path, base) for path in paths)
    if first is None or second is None:
        raise ConfigError("tables: one of the two files is blank. Name both.")
    return first, second


def _fitted(asked: dict[str, Any]) -> _Generator | _Model:
    """Take out of a document what is to be fitted: the model or the generator that it names, or the usual one."""
    if asked.get("model") is None:
        asked.pop("model", None)
        return read_as(_Generator, _or_empty(asked.pop("generator", None)), within="generator: ")
    beside = next((key for key in _OF_ROWS_MADE if key in asked), None)
    if beside is not None:
        raise ConfigError(
            f"'model' and '{beside}' are both given, and a model releases no rows. Leave one of them out."
        )
    section = asked.pop("model")
    return read_as(_Model, {"name": section} if isinstance(section, str) else section, within="model: ")


def _rows_refused(rows: int, what: str = "rows") -> ConfigError:
    return ConfigError(f"{what} must be between 1 and {MAXIMUM_ROWS:,}, got {rows:,}.")


def _people_at_most(asked: object, number_of_units: int | None) -> int:
    """Return the public bound on the number of units; their public number is one."""
    if number_of_units is None and asked is None:
        raise ConfigError(
            "people_at_most is missing. Write a public upper bound on how many people (or other protected units) the "
            "table can hold: delta follows from it, and so does the accuracy that the forecast expects."
        )
    people = read("people_at_most", as_whole, number_of_units if asked is None else asked)
    if number_of_units is not None and people < number_of_units:
        raise ConfigError(
            f"people_at_most must be at least number_of_units, {number_of_units:,}. Leave it out if both are the same."
        )
    return people


def _or_empty(section: object) -> object:
    """Return the content of a section, which may be blank if all its keys are optional."""
    return {} if section is None else section


def _path(path: str | None, base: Path | None) -> str | None:
    if path is None:
        return None
    found = Path(path).expanduser()
    return str(found if found.is_absolute() or base is None else base / found)


def config_to_mapping(config: RunConfig) -> dict[str, Any]:
    """Write a configuration as :func:`parse_config` reads it."""
    body: dict[str, Any] = {
        "table": config.table,
        "format": format_to_mapping(config.format),
        "account": config.account,
        "unit": unit_to_mapping(config.schema.unit),
        "row_count": config.schema.row_count,
        "number_of_units": config.schema.number_of_units,
        "people_at_most": config.people_at_most,
        "budget": {"epsilon": config.epsilon, "delta": config.delta},
        "holdout": config.holdout,
        "test_table": config.test_table,
        "generator": {"name": config.generator, "options": dict(config.options)},
        "rows": config.rows,
        "label": config.label,
        "groups": list(config.groups),
        "rules": list(config.constraints),
        "seed": config.seed,
        "device": config.device,
        "evaluation_share": config.evaluation_share,
        "undeclared": config.undeclared,
        "columns": {column.name: column.to_mapping() for column in config.schema.declared},
    }
    if config.schema.tables is not None:
        tables, paths = config.schema.tables, config.table_files or (None, None)
        body["tables"] = {tables.first: paths[0], tables.second: paths[1], "key": tables.key}
    if config.source is not None:
        body["source"] = config.source.to_mapping()
    if config.test_format is not None:
        body["test_format"] = format_to_mapping(config.test_format)
    if config.schema.protection != "record":
        body |= {"protection": config.schema.protection, "cell_change": config.schema.cell_change}
    if config.prediction_share:
        body["prediction_share"] = config.prediction_share
    if config.domain_source:
        body["domain_source"] = dict(config.domain_source)
    if config.found is not None:
        body["found"] = asdict(config.found)
    if config.previews:
        body["previews"] = [asdict(one) for one in config.previews]
    if config.by_people:
        body["people"] = body.pop("rows")
    elif config.schema.people == "separate_rows" and config.schema.may_be_whole and not config.is_model:
        body["people"] = "separate_rows"
    if config.is_model:
        body["model"] = body["generator"]
        body |= dict.fromkeys(_OF_ROWS_MADE)
    return {key: value for key, value in body.items() if value is not None}


def config_to_yaml(config: RunConfig) -> str:
    """Write a configuration as YAML text; :func:`read_mapping` and :func:`parse_config` give it back."""
    plain = json.loads(json.dumps(without_signed_zeros(config_to_mapping(config))))
    return to_yaml(plain)
