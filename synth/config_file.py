"""Configurations as YAML or JSON, and back.

Numbers are read as text and converted where a number is expected, so ``1e-6`` is a number (YAML 1.1 calls it a text)
and a category written 007 keeps its zeros.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import yaml

from synth.config import OptionValue, RunConfig, TableFormat, default_delta
from synth.errors import ConfigError
from synth.paths import path_of
from synth.schema import PrivacyUnit, Schema
from synth.schema_file import column_to_mapping, parse_column, parse_number

__all__ = [
    "config_to_mapping",
    "config_to_yaml",
    "format_to_mapping",
    "load_config",
    "parse_config",
    "parse_format",
    "read_mapping",
]

_KEYS = {
    "table", "format", "test_format", "account", "unit", "row_count", "number_of_units", "people_at_most", "budget",
    "holdout", "test_table", "generator", "rows", "label", "groups", "rules", "seed", "device", "columns",
    "undeclared", "evaluation_share", "prediction_share", "domain_source", "protection", "cell_change",
}  # fmt: skip


class _TextLoader(yaml.SafeLoader):
    """A safe loader that leaves numbers and dates as they are written and refuses a key given twice."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rsplit(":", 1)[-1] in {"bool", "null", "merge"}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _construct_mapping(loader: _TextLoader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        # Keys are read as written: a column may be called "no", which YAML would turn into a truth value.
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError(f"A key is not a plain text (line {key_node.start_mark.line + 1}).")
        if key_node.value in mapping:
            # Not quoted: a table may have been given instead of a configuration.
            raise ConfigError(f"A key is given twice (line {key_node.start_mark.line + 1}).")
        mapping[key_node.value] = loader.construct_object(value_node, deep=True)
    return mapping


_TextLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def load_config(path: str | Path) -> RunConfig:
    """Read a configuration file; table paths in it are relative to it.

    Raises
    ------
    ConfigError
        If the file cannot be read, has an unknown key, or a value that cannot be used.
    """
    path = path_of(path, "the configuration")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise ConfigError(f"The configuration '{path.name}' cannot be read. Check that the file exists.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration '{path.name}' is no text in UTF-8. Save it as UTF-8.") from None
    return parse_config(read_mapping(text), base=path.resolve().parent)


def read_mapping(text: str) -> dict[str, Any]:
    """Parse YAML (of which JSON is a part) into a mapping of texts, truth values, lists and mappings."""
    try:
        document = yaml.load(text, Loader=_TextLoader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ConfigError(f"The configuration is not valid YAML near line {line}.") from None
    except (yaml.YAMLError, RecursionError):
        raise ConfigError("The configuration is not valid YAML.") from None
    if not isinstance(document, dict):
        raise ConfigError("The configuration must be a mapping of keys such as account, budget and columns.")
    return document


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
        account=str(document["account"]),
        epsilon=parse_number("budget: epsilon", budget["epsilon"]),
        delta=default_delta(people) if delta is None else parse_number("budget: delta", delta),
        people_at_most=people,
        generator=str(generator.get("name", RunConfig.__dataclass_fields__["generator"].default)),
        options={str(key): _option(value) for key, value in (generator.get("options") or {}).items()},
        rows=_whole(document, "rows", "rows", 0),
        table=_path(document.get("table"), base),
        test_table=_path(document.get("test_table"), base),
        format=_format(document, "format") or TableFormat(),
        test_format=_format(document, "test_format"),
        undeclared=_choice(document, "undeclared", "refuse", ("refuse", "drop")),
        holdout=parse_number("holdout", document.get("holdout", 0.2)),
        label=None if document.get("label") is None else str(document["label"]),
        groups=_texts(document, "groups"),
        rules=_texts(document, "rules"),
        seed=_whole(document, "seed", "seed", 0),
        device=str(document.get("device", "auto")),
        evaluation_share=parse_number("evaluation_share", document.get("evaluation_share", 0.1)),
        prediction_share=parse_number("prediction_share", document.get("prediction_share", 0)),
        domain_source={str(key): str(value) for key, value in (document.get("domain_source") or {}).items()},
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
        "rules": list(config.rules),
        "seed": config.seed,
        "device": config.device,
        "evaluation_share": config.evaluation_share,
        "undeclared": config.undeclared,
        "columns": {column.name: column_to_mapping(column) for column in config.schema},
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
            protects=str(unit["protects"]),
            rows_per_unit=_whole(unit, "rows_per_unit", "unit: rows_per_unit", 0),
            id_column=None if identifier is None else str(identifier),
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
    comment = section.get("comment")
    return TableFormat(
        separator=str(section.get("separator", defaults.separator)),
        header=_truth(section, "header", key, True),
        names=None if names is None else tuple(str(name) for name in names),
        encoding=str(section.get("encoding", defaults.encoding)),
        missing=tuple("" if cell is None else str(cell) for cell in missing),
        strip=_truth(section, "strip", key, True),
        skip_rows=_whole(section, "skip_rows", f"{key}: skip_rows", 0),
        comment=None if comment is None else str(comment),
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


def _need(section: Mapping[str, Any], key: str, where: str, what: str) -> None:
    """Refuse a key that is absent or left blank, saying what belongs there."""
    if section.get(key) is None:
        raise ConfigError(f"{where} is missing. {what}")


def _refuse_unknown(section: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in section:
        if key not in known:
            raise ConfigError(f"{where}unknown key '{key}'. Known keys: {', '.join(sorted(known))}.")


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
    value = str(section.get(key, default))
    if value not in allowed:
        raise ConfigError(f"{key} must be {' or '.join(allowed)}, got {value}.")
    return value


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = document.get(key) or ()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{key} must be a list.")
    return tuple(str(value) for value in values)


def _path(value: object, base: Path | None) -> str | None:
    if value is None:
        return None
    path = Path(str(value)).expanduser()
    return str(path if path.is_absolute() or base is None else base / path)


def _option(value: object) -> OptionValue:
    if isinstance(value, list | tuple):
        return tuple(_option(entry) for entry in value)
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
