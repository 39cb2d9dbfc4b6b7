"""What one run is asked to do: a configuration, how it is read from YAML or JSON, and how it is written."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from synth.errors import ConfigError, SchemaError
from synth.limits import COLUMNS, CONSTRAINTS, GROUPS, NUMBER_CHARACTERS
from synth.names import shown
from synth.schema.columns import parse_column
from synth.schema.documents import Section, parse_text, read_mapping, read_text, refuse_unknown
from synth.schema.schema import PrivacyUnit, Schema, size_problem
from synth.system.paths import path_of

__all__ = [
    "MOST_CHARGED_CLASSES",
    "OptionValue",
    "RunConfig",
    "TableFormat",
    "config_of_text",
    "config_to_mapping",
    "config_to_yaml",
    "default_delta",
    "format_to_mapping",
    "load_config",
    "parse_config",
    "parse_format",
    "prediction_refusal",
]

OptionValue = str | int | float | bool | None | tuple["OptionValue", ...]

FileKind = Literal["auto", "csv", "tsv", "parquet"]
_FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)

MAXIMUM_ROWS = 50_000_000
USUAL_GENERATOR = "dp-hp-adaptive"

_CODECS = {"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16", "utf-16-le", "utf-16-be"}

MOST_CHARGED_CLASSES = 10
"""Most classes of a label whose predictions can be charged: with more, counts by guess and label are noise."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How the cells of a table file are written.

    ``comment``: lines at the top of the file that begin with this text are skipped. ``skip_rows`` lines are skipped
    after them and before the header, or before the first row of a file without one. ``names`` are the column names of a
    file without a header, which declares its separator too. ``newlines``: cells in quotation marks may hold line
    breaks; whoever says so says that every quotation mark is closed.
    """

    separator: str = "auto"
    header: bool = True
    names: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ("",)
    strip: bool = True
    skip_rows: int = 0
    comment: str | None = None
    kind: FileKind = "auto"
    newlines: bool = False

    def __post_init__(self) -> None:
        if self.separator != "auto" and len(self.separator) != 1:
            raise ConfigError("format: separator must be one character, or auto.")
        if not self.header and not self.names:
            raise ConfigError("format: a table without a header needs 'names', one for every column in order.")
        if self.header and self.names is not None:
            raise ConfigError("format: give 'names' only with 'header: false'.")
        if self.skip_rows < 0:
            raise ConfigError(f"format: skip_rows must not be negative, got {self.skip_rows}.")

    @property
    def codec(self) -> str:
        """Python's name of the encoding; empty where it is unknown here."""
        try:
            name = codecs.lookup(self.encoding).name
        except (LookupError, ValueError):
            return ""
        return name if name in _CODECS else ""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate says has to be true of the file, because no reader could hold it."""
        if not self.newlines or self.kind == "parquet":
            return ()
        return (
            "Every quotation mark of the table is closed: its cells may hold line breaks (declared as newlines: true), "
            "so an open quotation mark would draw the lines of other units into its own.",
        )

    def check(self) -> None:
        """Refuse a format that leaves open what could only be guessed from rows; nothing is read for that.

        It is no condition of the object itself, so that bundles made before it still open.

        Raises
        ------
        ConfigError
            If the encoding is unknown, there are too many names, the separator is no plain character, or a table
            without a header leaves its separator open or has comments, which could not be told from rows.
        """
        if not self.codec:
            raise ConfigError(
                f"format: the encoding '{shown(self.encoding)}' is not known here. Use utf-8, latin-1 or utf-16."
            )
        if self.names is not None and len(self.names) > COLUMNS:
            raise ConfigError(f"format: names has {len(self.names):,} entries, and at most {COLUMNS:,} are possible.")
        if self.separator != "auto" and (not self.separator.isascii() or self.separator in '"\r\n\0'):
            raise ConfigError("format: the separator must be one plain character, for example a comma.")
        if self.header or self.kind == "parquet":
            return
        if self.separator == "auto" and self.kind != "tsv":
            raise ConfigError(
                "format: a table without a header needs its separator; it could only be guessed from rows otherwise. "
                'Write for example separator: ",".'
            )
        if self.comment:
            raise ConfigError(
                "format: 'comment' needs a header; without one a row could be taken for a comment. Say with "
                "'skip_rows' how many lines stand before the first row."
            )


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


def prediction_refusal(schema: Schema, label: str | None, holdout: float) -> str | None:
    """Say in one sentence why predictions on the hold-out cannot be charged, or return None where they can."""
    if not schema.allows_sums:
        return "where one cell is protected no sum may be asked. Declare 'protection: record' or leave it out."
    if label is None:
        return "no label is declared. Name the column to predict under 'label:' or leave it out."
    if holdout == 0:
        return (
            "nobody is held out. Write for example 'holdout: 0.2' or leave it out; a test_table does not count, as its "
            "people may be in the table too."
        )
    column = schema.modelled_column(label)
    classes = column.size - (column.missing_code is not None)
    scale = column.levels > 2
    if scale or not 2 <= classes <= MOST_CHARGED_CLASSES:
        return (
            f"the label '{label}' must have 2 to {MOST_CHARGED_CLASSES} classes, got "
            f"{'a number or date' if scale else f'{classes:,}'}. Declare a label of few classes or leave it out."
        )
    return None


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything one run needs to know; nothing in it comes from rows.

    ``table`` and ``test_table`` are where the files lie on the owner's machine and never leave it
    (:meth:`published` drops them). ``seed`` is public and seeds training and sampling, never the privacy noise.
    ``evaluation_share`` and ``prediction_share`` are parts of mu^2 for the two charged parts of the report: one-way
    tables where the generator measures none, and predictions on the hold-out.
    """

    schema: Schema
    account: str
    epsilon: float
    rows: int
    delta: float
    people_at_most: int
    generator: str = USUAL_GENERATOR
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    table: str | None = None
    test_table: str | None = None
    format: TableFormat = TableFormat()
    test_format: TableFormat | None = None
    undeclared: Literal["refuse", "drop"] = "refuse"
    holdout: float = 0.2
    label: str | None = None
    groups: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    seed: int = 0
    device: str = "auto"
    evaluation_share: float = 0.1
    prediction_share: float = 0.0
    domain_source: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ConfigError(f"budget: epsilon must be positive and finite, got {self.epsilon:g}.")
        if not 0 < self.delta < 1:
            raise ConfigError(f"budget: delta must be between 0 and 1, got {self.delta:g}.")
        _require_people(self.people_at_most)
        if not 1 <= self.rows <= MAXIMUM_ROWS:
            raise ConfigError(f"rows must be between 1 and {MAXIMUM_ROWS:,}, got {self.rows:,}.")
        if not 0 <= self.holdout < 1:
            raise ConfigError(f"holdout must be at least 0 and below 1, got {self.holdout:g}.")
        if not 0 <= self.evaluation_share < 1:
            raise ConfigError(f"evaluation_share must be at least 0 and below 1, got {self.evaluation_share:g}.")
        if not 0 <= self.prediction_share < 1:
            raise ConfigError(f"prediction_share must be at least 0 and below 1, got {self.prediction_share:g}.")
        if not self.account.strip():
            raise ConfigError("account must name the people the ledger protects, for example city-survey-2026.")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise ConfigError(f"device must be auto, cpu or cuda, got {self.device}.")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        self._check_columns()

    def _check_columns(self) -> None:
        if self.label is not None:
            self.schema.modelled_column(self.label)
        for name in self.groups:
            self.schema.modelled_column(name)
        refusal = prediction_refusal(self.schema, self.label, self.holdout) if self.prediction_share else None
        if refusal is not None:
            raise ConfigError(f"prediction_share cannot be used: {refusal}")

    def published(self) -> RunConfig:
        """Return the configuration as it may leave the machine: without paths."""
        return replace(self, table=None, test_table=None)


_KEYS = {
    "table", "format", "test_format", "account", "unit", "row_count", "number_of_units", "people_at_most", "budget",
    "holdout", "test_table", "generator", "rows", "label", "groups", "rules", "seed", "device", "columns",
    "undeclared", "evaluation_share", "prediction_share", "domain_source", "protection", "cell_change",
}  # fmt: skip


def load_config(path: str | Path) -> RunConfig:
    """Read a configuration file; table paths in it are relative to it.

    Raises
    ------
    ConfigError
        If the file cannot be read, has an unknown key, or a value that cannot be used.
    """
    path = path_of(path, "the configuration")
    return config_of_text(read_text(path, "The configuration"), base=path.resolve().parent)


def config_of_text(text: str, *, base: Path | None = None) -> RunConfig:
    """Read a configuration that a user gives, within the limits on one input (:mod:`synth.limits`).

    Parameters
    ----------
    text : str
        YAML, of which JSON is a part.
    base : Path, optional
        Folder to which the paths of tables are relative.

    Raises
    ------
    InputError
        If it exceeds a limit, has an unknown key, or a value that cannot be used.
    """
    config = parse_config(read_mapping(text), base=base)
    problem = size_problem(config.schema.columns)
    if problem is not None:
        raise SchemaError(problem)
    for what, entries, most in (("rules", config.constraints, CONSTRAINTS), ("groups", config.groups, GROUPS)):
        if len(entries) > most:
            raise ConfigError(
                f"{what} has {len(entries):,} entries, and at most {most:,} are possible. Leave some out."
            )
    return config


def parse_config(document: Mapping[str, Any], *, base: Path | None = None) -> RunConfig:
    """Turn a parsed document into a configuration.

    Parameters
    ----------
    document : Mapping
        As :func:`synth.schema.documents.read_mapping` returns it.
    base : Path, optional
        Folder to which the paths of tables are relative.
    """
    if not _KEYS & set(document):
        # Nothing of it is quoted: a table may have been given instead.
        raise ConfigError("This is no configuration: none of its keys is known. It needs account, budget and columns.")
    refuse_unknown(document, _KEYS)
    asked = Section(document)
    budget = asked.section("budget", {"epsilon", "delta"})
    budget.need("epsilon", "Write for example budget: {epsilon: 1.0}.")
    generator = asked.section("generator", {"name", "options"})
    asked.need("rows", "Write how many rows to make, a public number.")
    asked.need("account", "Name the people the ledger protects, for example city-survey-2026.")
    number_of_units = asked.whole("number_of_units") if asked.has("number_of_units") else None
    people = _people_at_most(asked, number_of_units or None)
    return RunConfig(
        schema=_schema(asked, number_of_units),
        account=asked.text("account"),
        epsilon=budget.number("epsilon"),
        delta=budget.number("delta") if budget.has("delta") else default_delta(people),
        people_at_most=people,
        generator=generator.text("name", USUAL_GENERATOR),
        options={str(key): _option(value) for key, value in generator.mapping("options").items()},
        rows=asked.whole("rows"),
        table=_path(asked.take("table"), base),
        test_table=_path(asked.take("test_table"), base),
        format=_format(asked, "format") or TableFormat(),
        test_format=_format(asked, "test_format"),
        undeclared=asked.choice("undeclared", "refuse", ("refuse", "drop")),
        holdout=asked.number("holdout", 0.2),
        label=asked.text_or_none("label"),
        groups=asked.texts("groups"),
        constraints=asked.texts("rules"),
        seed=asked.whole("seed"),
        device=asked.text("device", "auto"),
        evaluation_share=asked.number("evaluation_share", 0.1),
        prediction_share=asked.number("prediction_share", 0),
        domain_source={
            str(key): parse_text("domain_source", value) for key, value in asked.mapping("domain_source").items()
        },
    )


def _people_at_most(asked: Section, number_of_units: int | None) -> int:
    """Take out the public bound on the number of units; their public number is one."""
    if number_of_units is None:
        asked.need(
            "people_at_most",
            "Write a public upper bound on how many people (or other protected units) the table can hold: delta "
            "follows from it, and the forecast says by it how poor the rows will be.",
        )
    people = asked.whole("people_at_most", number_of_units or 0)
    if number_of_units is not None and people < number_of_units:
        raise ConfigError(
            f"people_at_most must be at least number_of_units, {number_of_units:,}; leave it out where both agree."
        )
    return people


def _schema(asked: Section, number_of_units: int | None) -> Schema:
    columns = asked.take("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError("columns is missing: declare every column of the table.")
    # What the promise is about is never assumed: a default here would stand for a fact that only the owner knows.
    unit = asked.section("unit", {"protects", "rows_per_unit", "id_column"})
    unit.need("protects", "Name whom the promise protects, for example person.")
    unit.need("rows_per_unit", "Write how many rows one of them can have at most.")
    asked.need(
        "row_count", "Write public if the number of rows may be printed, or private if it is to be measured with noise."
    )
    return Schema(
        columns=tuple(parse_column(str(name), declared) for name, declared in columns.items()),
        unit=PrivacyUnit(
            protects=unit.text("protects"),
            rows_per_unit=unit.whole("rows_per_unit"),
            id_column=unit.text_or_none("id_column"),
        ),
        row_count=asked.choice("row_count", "public", ("public", "private")),
        number_of_units=number_of_units,
        protection=asked.choice("protection", "record", ("record", "cell")),
        cell_change=asked.number("cell_change", 1.0),
    )


def _format(asked: Section, key: str) -> TableFormat | None:
    if not asked.has(key):
        return None
    usual = TableFormat()
    section = asked.section(key, {known.name for known in dataclass_fields(TableFormat)})
    names, missing = section.take("names"), section.take("missing", usual.missing)
    if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
        raise ConfigError(f"{key}: names must be a list of column names.")
    if isinstance(missing, str):
        missing = [missing]
    if isinstance(missing, Mapping) or not isinstance(missing, Sequence):
        raise ConfigError(f"{key}: missing must be a list of the texts that stand for a missing cell.")
    return TableFormat(
        separator=section.text("separator", usual.separator),
        header=section.flag("header", usual.header),
        names=None if names is None else tuple(parse_text(f"{key}: names", name) for name in names),
        encoding=section.text("encoding", usual.encoding),
        missing=tuple("" if cell is None else parse_text(f"{key}: missing", cell) for cell in missing),
        strip=section.flag("strip", usual.strip),
        skip_rows=section.whole("skip_rows"),
        comment=section.text_or_none("comment"),
        kind=_kind(section.take("kind", usual.kind)),
        newlines=section.flag("newlines"),
    )


def _kind(value: object) -> FileKind:
    text = parse_text("kind", value)
    for kind in _FILE_KINDS:
        if kind == text:
            return kind
    raise ConfigError(f"kind must be {' or '.join(_FILE_KINDS)}, got {shown(text)}.")


def _path(value: object, base: Path | None) -> str | None:
    if value is None:
        return None
    path = Path(parse_text("The path of a table", value)).expanduser()
    return str(path if path.is_absolute() or base is None else base / path)


def _option(value: object) -> OptionValue:
    if isinstance(value, list | tuple):
        return tuple(_option(entry) for entry in value)
    if isinstance(value, Mapping):
        raise ConfigError("generator: options must be numbers, texts, truth values or lists of them.")
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    for convert in (int, float) if len(text) <= NUMBER_CHARACTERS else ():
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def config_to_mapping(config: RunConfig) -> dict[str, Any]:
    """Write a configuration as :func:`parse_config` reads it."""
    unit = config.schema.unit
    body: dict[str, Any] = {
        "table": config.table,
        "format": format_to_mapping(config.format),
        "account": config.account,
        "unit": {"protects": unit.protects, "rows_per_unit": unit.rows_per_unit, "id_column": unit.id_column},
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
        "columns": {column.name: column.to_mapping() for column in config.schema},
    }
    if config.test_format is not None:
        body["test_format"] = format_to_mapping(config.test_format)
    if config.schema.protection != "record":
        body |= {"protection": config.schema.protection, "cell_change": config.schema.cell_change}
    if config.prediction_share:
        body["prediction_share"] = config.prediction_share
    if config.domain_source:
        body["domain_source"] = dict(config.domain_source)
    return {key: value for key, value in body.items() if value is not None}


def config_to_yaml(config: RunConfig) -> str:
    """Write a configuration as YAML text; :func:`read_mapping` and :func:`parse_config` give it back."""
    plain = json.loads(json.dumps(config_to_mapping(config)))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)


def parse_format(section: Mapping[str, Any]) -> TableFormat:
    """Read what :func:`format_to_mapping` wrote."""
    return _format(Section({"format": section}), "format") or TableFormat()


def format_to_mapping(table_format: TableFormat) -> dict[str, Any]:
    """Write how a table's file is written, as the ``format`` section of a configuration."""
    body = {field.name: getattr(table_format, field.name) for field in dataclass_fields(TableFormat)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in body.items() if value is not None}
