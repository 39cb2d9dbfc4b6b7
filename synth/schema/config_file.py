"""Configurations as YAML or JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import yaml

from synth.errors import ConfigError, SchemaError
from synth.limits import CONSTRAINTS, GROUPS, NUMBER_CHARACTERS
from synth.names import shown
from synth.schema.columns import parse_column
from synth.schema.config import OptionValue, RunConfig, TableFormat, default_delta
from synth.schema.documents import parse_number, parse_text, read_mapping, read_text
from synth.schema.schema import PrivacyUnit, Schema, size_problem
from synth.system.paths import path_of

__all__ = [
    "config_of_text",
    "config_to_mapping",
    "config_to_yaml",
    "format_to_mapping",
    "load_config",
    "parse_config",
    "parse_format",
]

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
        As :func:`read_mapping` returns it.
    base : Path, optional
        Folder to which the paths of tables are relative.
    """
    if not _KEYS & set(document):
        # Nothing of it is quoted: a table may have been given instead.
        raise ConfigError("This is no configuration: none of its keys is known. It needs account, budget and columns.")
    _refuse_unknown(document, _KEYS, "")
    budget = _section(document, "budget", {"epsilon", "delta"})
    _need(budget, "epsilon", "budget: epsilon", "Write for example budget: {epsilon: 1.0}.")
    generator = _section(document, "generator", {"name", "options"})
    _need(document, "rows", "rows", "Write how many rows to make, a public number.")
    _need(document, "account", "account", "Name the people the ledger protects, for example city-survey-2026.")
    number = _whole(document, "number_of_units", "number_of_units", 0) or None
    _need(
        document if number is None else {**document, "people_at_most": number},
        "people_at_most",
        "people_at_most",
        "Write a public upper bound on how many people (or other protected units) the table can hold: delta follows "
        "from it, and the forecast says by it how poor the rows will be.",
    )
    people = _whole(document, "people_at_most", "people_at_most", number or 0)
    if number is not None and people < number:
        raise ConfigError(
            f"people_at_most must be at least number_of_units, {number:,}; leave it out where both agree."
        )
    delta = budget.get("delta")
    return RunConfig(
        schema=_schema(document),
        account=parse_text("account", document["account"]),
        epsilon=parse_number("budget: epsilon", budget["epsilon"]),
        delta=default_delta(people) if delta is None else parse_number("budget: delta", delta),
        people_at_most=people,
        generator=parse_text(
            "generator: name", generator.get("name", RunConfig.__dataclass_fields__["generator"].default)
        ),
        options={
            str(key): _option(value) for key, value in _mapping(generator, "options", "generator: options").items()
        },
        rows=_whole(document, "rows", "rows", 0),
        table=_path(document.get("table"), base),
        test_table=_path(document.get("test_table"), base),
        format=_format(document, "format") or TableFormat(),
        test_format=_format(document, "test_format"),
        undeclared=_choice(document, "undeclared", "refuse", ("refuse", "drop")),
        holdout=parse_number("holdout", document.get("holdout", 0.2)),
        label=None if document.get("label") is None else parse_text("label", document["label"]),
        groups=_texts(document, "groups"),
        constraints=_texts(document, "rules"),
        seed=_whole(document, "seed", "seed", 0),
        device=parse_text("device", document.get("device", "auto")),
        evaluation_share=parse_number("evaluation_share", document.get("evaluation_share", 0.1)),
        prediction_share=parse_number("prediction_share", document.get("prediction_share", 0)),
        domain_source={
            str(key): parse_text("domain_source", value)
            for key, value in _mapping(document, "domain_source", "domain_source").items()
        },
    )


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


def _schema(document: Mapping[str, Any]) -> Schema:
    columns = document.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError("columns is missing: declare every column of the table.")
    # What the promise is about is never assumed: a default here would stand for a fact that only the owner knows.
    unit = _section(document, "unit", {"protects", "rows_per_unit", "id_column"})
    _need(unit, "protects", "unit: protects", "Name whom the promise protects, for example person.")
    _need(unit, "rows_per_unit", "unit: rows_per_unit", "Write how many rows one of them can have at most.")
    _need(
        document,
        "row_count",
        "row_count",
        "Write public if the number of rows may be printed, or private if it is to be measured with noise.",
    )
    identifier = unit.get("id_column")
    return Schema(
        columns=tuple(parse_column(str(name), declared) for name, declared in columns.items()),
        unit=PrivacyUnit(
            protects=parse_text("unit: protects", unit["protects"]),
            rows_per_unit=_whole(unit, "rows_per_unit", "unit: rows_per_unit", 0),
            id_column=None if identifier is None else parse_text("unit: id_column", identifier),
        ),
        row_count=_choice(document, "row_count", "public", ("public", "private")),
        number_of_units=(
            None
            if document.get("number_of_units") is None
            else _whole(document, "number_of_units", "number_of_units", 0)
        ),
        protection=_choice(document, "protection", "record", ("record", "cell")),
        cell_change=parse_number("cell_change", document.get("cell_change", 1.0)),
    )


def _format(document: Mapping[str, Any], key: str) -> TableFormat | None:
    if document.get(key) is None:
        return None
    known = {field.name for field in dataclass_fields(TableFormat)}
    section = _section(document, key, known)
    defaults = TableFormat()
    names, missing = section.get("names"), section.get("missing", defaults.missing)
    if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
        raise ConfigError(f"{key}: names must be a list of column names.")
    if isinstance(missing, str):
        missing = [missing]
    if isinstance(missing, Mapping) or not isinstance(missing, Sequence):
        raise ConfigError(f"{key}: missing must be a list of the texts that stand for a missing cell.")
    comment = section.get("comment")
    return TableFormat(
        separator=parse_text(f"{key}: separator", section.get("separator", defaults.separator)),
        header=_truth(section, "header", key, True),
        names=None if names is None else tuple(parse_text(f"{key}: names", name) for name in names),
        encoding=parse_text(f"{key}: encoding", section.get("encoding", defaults.encoding)),
        missing=tuple("" if cell is None else parse_text(f"{key}: missing", cell) for cell in missing),
        strip=_truth(section, "strip", key, True),
        skip_rows=_whole(section, "skip_rows", f"{key}: skip_rows", 0),
        comment=None if comment is None else parse_text(f"{key}: comment", comment),
        kind=_choice(section, "kind", "auto", ("auto", "csv", "tsv", "parquet")),
        newlines=_truth(section, "newlines", key, False),
    )


def parse_format(section: Mapping[str, Any]) -> TableFormat:
    """Read what :func:`format_to_mapping` wrote."""
    return _format({"format": section}, "format") or TableFormat()


def format_to_mapping(table_format: TableFormat) -> dict[str, Any]:
    """Write how a table's file is written, as the ``format`` section of a configuration."""
    body = {field.name: getattr(table_format, field.name) for field in dataclass_fields(TableFormat)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in body.items() if value is not None}


def _section(document: Mapping[str, Any], key: str, known: set[str]) -> Mapping[str, Any]:
    section = document.get(key)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{key} must be a mapping with the keys {', '.join(sorted(known))}.")
    _refuse_unknown(section, known, f"{key}: ")
    return section


def _mapping(section: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = section.get(key) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a mapping, with a colon after each key.")
    return value


def _need(section: Mapping[str, Any], key: str, where: str, what: str) -> None:
    """Refuse a key that is absent or left blank, saying what belongs there."""
    if section.get(key) is None:
        raise ConfigError(f"{where} is missing. {what}")


def _refuse_unknown(section: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in section:
        if key not in known:
            raise ConfigError(f"{where}unknown key '{shown(str(key))}'. Known keys: {', '.join(sorted(known))}.")


def _whole(section: Mapping[str, Any], key: str, where: str, default: int) -> int:
    if section.get(key) is None:
        return default
    value = parse_number(where, section[key])
    if not value.is_integer():
        raise ConfigError(f"{where} must be a whole number, got {value:g}.")
    # A float holds whole numbers exactly only up to 2^53; seeds may be larger.
    text = str(section[key]).strip()
    return int(text) if text.lstrip("+-").isdigit() else int(value)


def _truth(section: Mapping[str, Any], key: str, where: str, default: bool) -> bool:
    value = section.get(key, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {key} must be true or false.")
    return value


def _choice(section: Mapping[str, Any], key: str, default: str, allowed: tuple[str, ...]) -> Any:
    value = parse_text(key, section.get(key, default))
    if value not in allowed:
        raise ConfigError(f"{key} must be {' or '.join(allowed)}, got {shown(value)}.")
    return value


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = document.get(key) or ()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{key} must be a list.")
    return tuple(parse_text(key, value) for value in values)


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
