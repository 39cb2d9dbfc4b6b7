"""Descriptions that other programs write, and our own: Frictionless, C4.5, configurations, earlier bundles."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from synth.bundle.archive import open_archive, parse_canonical
from synth.dictionaries.understanding import Dictionary, DictionaryColumn, Facts, understand
from synth.dictionaries.values import number_in
from synth.errors import ConfigError, InputError, VerificationError
from synth.names import shown
from synth.schema import in_full, parse_column, schema_from_document
from synth.schema.documents import read_mapping

__all__ = ["dictionary_of_bundle", "dictionary_of_document", "dictionary_of_names"]


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("The dictionary is not UTF-8 text. Save it as UTF-8.") from None


# Documents: ours, and Frictionless -----------------------------------------------------------------------------------


def dictionary_of_document(name: str, data: bytes, names: Sequence[str]) -> Dictionary:
    """Read YAML or JSON: a configuration of ours, or a data package, a resource or a table schema of Frictionless."""
    document = _json(data) if name.lower().endswith(".json") else read_mapping(_text(data))
    found = _frictionless(document, names)
    if found is not None:
        return found
    columns = (in_full(document, lambda _: names) if names else in_full(document)).get("columns")
    if not isinstance(columns, Mapping):
        raise ConfigError(
            "This document describes no columns. A configuration has them under 'columns', a data package under "
            "'resources', 'schema' and 'fields'."
        )
    return Dictionary("a configuration", tuple(_declared(str(one), body) for one, body in columns.items()))


def _json(data: bytes) -> dict[str, Any]:
    # Not read as YAML, which does not allow the tabs that some programs indent with.
    try:
        document = json.loads(_text(data))
    except (ValueError, RecursionError):
        raise ConfigError("The dictionary is not valid JSON.") from None
    if not isinstance(document, dict):
        raise ConfigError("The dictionary must be a JSON object, with the columns under 'fields' or 'columns'.")
    return document


def _declared(name: str, body: object) -> DictionaryColumn:
    try:
        return DictionaryColumn(name, parse_column(name, body).to_mapping())
    except InputError as refusal:
        return DictionaryColumn(name, {}, (str(refusal),))


def _frictionless(document: Mapping[str, Any], names: Sequence[str]) -> Dictionary | None:
    """Return what a Frictionless description says; None where the document is none."""
    resources = document.get("resources")
    described = [one for one in resources if isinstance(one, Mapping)] if isinstance(resources, list) else [document]
    schemas = [one["schema"] for one in described if isinstance(one.get("schema"), Mapping)]
    if isinstance(document.get("fields"), list):
        schemas = [document]
    schemas = [schema for schema in schemas if isinstance(schema.get("fields"), list)]
    if not schemas:
        if isinstance(resources, list):
            raise ConfigError("No resource of this data package contains its schema. Put the schema into the package.")
        return None
    # Of several tables, the one that shares most names with ours; only public names are compared.
    schema = max(schemas, key=lambda one: len(set(names) & {_plain(f.get("name")) for f in _fields(one)}))
    left = [f"It describes {len(schemas):,} tables; the one whose column names are most like yours is used."]
    return Dictionary(
        "a Frictionless data package",
        tuple(map(_field, _fields(schema))),
        tuple(left if len(schemas) > 1 else ()),
    )


def _fields(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in schema["fields"] if isinstance(one, Mapping) and one.get("name")]


def _field(field: Mapping[str, Any]) -> DictionaryColumn:
    facts = Facts(_plain(field["name"]))
    said = field.get("constraints")
    limits: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    facts.kind, facts.format = _plain(field.get("type")), _plain(field.get("format"))
    facts.low, facts.high = _plain(limits.get("minimum")), _plain(limits.get("maximum"))
    facts.description = _plain(field.get("description")) or _plain(field.get("title"))
    facts.required = "yes" if limits.get("required") is True else "no"
    if limits.get("unique") is True or field.get("rdfType") == "http://schema.org/identifier":
        facts.kind = facts.kind if facts.kind not in {"string", ""} else "identifier"
    listed = field.get("categories") if isinstance(field.get("categories"), list) else limits.get("enum")
    if isinstance(listed, list):
        facts.codes = [_category(one) for one in listed]
        if field.get("categoriesOrdered") is True:
            facts.kind = "ordinal"
        elif facts.kind == "string":
            facts.kind = "categorical"
    if facts.kind == "boolean":
        yes, no = (_list(field, key) for key in ("trueValues", "falseValues"))
        facts.codes = [(_plain(yes[0]), "yes"), (_plain(no[0]), "no")] if len(yes) == len(no) == 1 else []
    # By the standard, a cell may be missing unless it is required; an empty one is, unless other texts are named.
    missing = [_category(one)[0] for one in _list(field, "missingValues")]
    facts.missing = "; ".join(text for text in missing if number_in(text) is not None)
    return understand(facts)


def _category(one: object) -> tuple[str, str | None]:
    """Return a listed text with its label, which only a newer form of the standard gives."""
    if isinstance(one, Mapping):
        label = one.get("label")
        return _plain(one.get("value")), None if label is None else _plain(label)
    return _plain(one), None


def _list(holder: Mapping[str, Any], key: str) -> list[Any]:
    found = holder.get(key)
    return found if isinstance(found, list) else []


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, list | Mapping) else str(value).strip()


# The names file of C4.5, which tables of the UCI repository have ---------------------------------------------------


def dictionary_of_names(name: str, data: bytes, names: Sequence[str]) -> Dictionary:
    """Read a names file: ``age: continuous.`` and ``sex: Female, Male.``; a line without a colon has the classes."""
    columns: list[DictionaryColumn] = []
    classes: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines():
        plain = line.partition("|")[0].strip().removesuffix(".").strip()
        called, colon, said = plain.partition(":")
        if not plain:
            continue
        if not colon:
            if not columns and not classes:
                classes = [value.strip() for value in plain.split(",")]
            continue
        columns.append(_attribute(called.strip(), said.strip()))
    if not columns:
        raise ConfigError("This names file describes no column. Its lines look like age: continuous.")
    left = []
    if classes:
        values = list(dict.fromkeys(classes))
        # A line of its data file may end with a full stop, which is not part of the class.
        aliases = {f"{value}.": value for value in values if f"{value}." not in values}
        columns.append(DictionaryColumn("class", {"type": "category", "values": values, "aliases": aliases}))
        left = ["Its classes become a last column called 'class', because such files do not name it."]
    return Dictionary("a names file", tuple(columns), tuple(left))


def _attribute(name: str, said: str) -> DictionaryColumn:
    if said.lower() == "continuous":
        return DictionaryColumn(name, {"type": "number"})
    if said.lower() == "ignore":
        return DictionaryColumn(name, {"type": "drop"})
    if said.lower() in {"symbolic", "label"} or said.lower().startswith("discrete"):
        return DictionaryColumn(name, {"type": "category"}, (f"'{shown(name)}': its values are not listed.",))
    values = list(dict.fromkeys(value.strip() for value in said.split(",") if value.strip()))
    missing = {"missing": True} if "?" in values else {}
    body = {"type": "category", "values": [value for value in values if value != "?"], **missing}
    try:
        parse_column(name, body)
    except InputError as refusal:
        return DictionaryColumn(name, {}, (str(refusal),))
    return DictionaryColumn(name, body)


# An earlier bundle ---------------------------------------------------------------------------------------------------


def dictionary_of_bundle(name: str, data: bytes, names: Sequence[str]) -> Dictionary:
    """Read the schema of a bundle, without checking whether the bundle is genuine, which does not matter here."""
    try:
        with open_archive(io.BytesIO(data)) as archive:
            schema = schema_from_document(parse_canonical(archive.read("schema.json"), name="schema.json"))
    except VerificationError as refusal:
        raise ConfigError(f"This zip is not a bundle whose schema can be read: {refusal}") from None
    return Dictionary(
        "the schema of an earlier bundle",
        tuple(DictionaryColumn(column.name, column.to_mapping()) for column in schema),
    )
