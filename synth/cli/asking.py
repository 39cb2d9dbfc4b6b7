"""Ask for a configuration of a table at a terminal, question by question."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from synth.cli.files import format_of, new_file, said_of_format
from synth.cli.speaking import Ask, agreed
from synth.errors import ConfigError, InputError, TableError
from synth.names import shown
from synth.schema import COLUMN_TYPES, FormField, ModelledColumn, TableFormat, config_of_text, parse_column
from synth.schema.documents import to_yaml
from synth.schema.guesses import belongs_to_unit_by_name, order_by_name, step_by_name
from synth.services.inspection import Header
from synth.services.recognition import read_header
from synth.services.table_paths import open_table

__all__ = ["ask_configuration"]

_UNASKED: dict[str, Any] = {
    "account": "asked later",
    "unit": {"protects": "person", "rows_per_unit": 1},
    "row_count": "private",
    "people_at_most": 1000,
    "budget": {"epsilon": 1},
    "rows": 1,
    "columns": {"asked later": {"type": "yes_no", "missing": True}},
}
"""Placeholders for questions that were not asked yet, while an answer is checked."""


def ask_configuration(table: str | None, ask: Ask, tell: Callable[[str], None]) -> Path:
    """Ask for a configuration, and write it into the current folder.

    Only the first line of the table is read. An answer that cannot be used is refused in one sentence, and the question
    is asked again.

    Parameters
    ----------
    table : str, optional
        Its path; asked for if it is not given.
    ask : callable
    tell : callable
        Called with what is wrong with an answer, and with the name of the new file.

    Raises
    ------
    InputError
        If ``table`` cannot be read, or a configuration of its name exists already.
    """
    path, name, header, form = _asked_table(table, ask, tell)
    written = new_file(f"{Path(name).name.partition('.')[0]}.yaml", "Run it with synth run, or move it away.")
    body: dict[str, Any] = {"table": str(Path(path).absolute())}

    def settle(section: str, key: str, question: str, default: str) -> None:
        """Ask until the answer is valid with those before it; ``section`` is empty for a key at the top level."""
        while True:
            typed = ask(question, default)
            said = {**body, **({section: {**body.get(section, {}), key: typed}} if section else {key: typed})}
            try:
                config_of_text(to_yaml(_with_unasked(said)))
            except InputError as refusal:
                tell(str(refusal))
            else:
                body.update(said)
                return

    settle("", "account", "Account: a name for the people it is about, for example city-survey-2026", "")
    settle("unit", "protects", "Who are you protecting (person, household, ...)", "person")
    settle("unit", "rows_per_unit", f"The most rows that one {body['unit']['protects']} can have", "1")
    together = False
    if body["unit"]["rows_per_unit"] != "1":
        body["unit"]["id_column"] = _asked_id(header.names, ask, tell)
        together = agreed(
            f"Should each synthetic {body['unit']['protects']} have several rows too", "y", ask=ask, tell=tell
        )
    identifier = body["unit"].get("id_column")
    public = agreed("Is the number of them public? If so, it is printed", "n", ask=ask, tell=tell)
    body["row_count"] = "public" if public else "private"
    if public:
        settle("", "number_of_units", "How many are there", "")
    else:
        settle("", "people_at_most", "The most there can be, as anyone could know", "")
    settle("budget", "epsilon", "Epsilon (smaller protects more)", "1")
    if together:
        settle("", "people", f"How many to make (unit: {body['unit']['protects']}), each with one or several rows", "")
    else:
        settle("", "rows", "How many synthetic rows to make", "10000")
        if identifier is not None:
            body["people"] = "separate_rows"
    tell(
        f"Now the columns. Your answers will be published. Types: {', '.join(COLUMN_TYPES)}; or find, to find the type "
        "privately for a part of epsilon, which is stated before it is spent."
    )
    kinds = dict(zip(header.names, header.kinds, strict=True))
    body["columns"] = {
        column: {"type": "identifier"} if column == identifier else _asked_column(column, kind or "", ask, tell)
        for column, kind in kinds.items()
    }
    if together:
        body["unit"] |= _asked_together(body["columns"], body["unit"]["protects"], ask, tell)
    if form != TableFormat():
        body["format"] = said_of_format(form)
    text = to_yaml(body)
    config_of_text(text)
    written.write_text(text, encoding="utf-8")
    tell(f"Wrote {written}. Next time, run it with synth run, or edit it first.")
    return written


def _asked_table(table: str | None, ask: Ask, tell: Callable[[str], None]) -> tuple[str, str, Header, TableFormat]:
    """Return the path of a table, its name, header and format; ask for the path until the table can be read."""
    while True:
        path = table or ask("Path of the private table", "")
        try:
            return path, *_asked_format(path, ask, tell)
        except InputError as refusal:
            if table:
                raise
            tell(str(refusal))


_OF_A_FILE: dict[str, dict[str, str]] = {
    "encoding": {"encoding": "Encoding of the file, for example latin-1 or cp1252"},
    "sheet": {"sheet": "Name of the sheet with the table"},
    "header": {
        "separator": "Separator of cells (a comma, a semicolon, or the word tab)",
        "names": "Names of the columns in order, separated by commas",
        "skip_rows": "Lines to skip before the first row",
    },
}
"""Questions about a file in an unusual format, by the key that the refusal names."""


def _asked_format(path: str, ask: Ask, tell: Callable[[str], None]) -> tuple[str, Header, TableFormat]:
    """Return the name, header and format of a table; ask for the format if it is unusual."""
    said: dict[str, str] = {}
    asked: dict[str, str] = {}
    while True:
        try:
            form = format_of([f"{key}={value}" for key, value in said.items()])
            with open_table(path, form) as (name, stream):
                return name, read_header(stream, form), form
        except TableError as refusal:
            if refusal.key not in _OF_A_FILE:
                raise
            tell(str(refusal))
            asked = _OF_A_FILE[refusal.key]
            said |= {"header": "false"} if refusal.key == "header" else {}
        except ConfigError as refusal:
            tell(str(refusal))
        said |= {key: ask(question, "0" if key == "skip_rows" else "") for key, question in asked.items()}


def _with_unasked(said: Mapping[str, Any]) -> dict[str, Any]:
    answered = {"people_at_most": "number_of_units", "rows": "people"}
    unasked = {key: value for key, value in _UNASKED.items() if answered.get(key) not in said}
    unit = dict(said.get("unit", {}))
    identifier = unit.get("id_column")
    columns = _UNASKED["columns"] | ({identifier: {"type": "identifier"}} if identifier else {})
    return {**unasked, **said, "unit": _UNASKED["unit"] | unit, "columns": columns}


def _asked_id(names: Sequence[str], ask: Ask, tell: Callable[[str], None]) -> str:
    while True:
        typed = ask("Which column says whose row it is", "")
        if typed in names:
            return typed
        tell(f"The table has no column of that name. Its columns: {', '.join(map(shown, names))}.")


def _asked_together(columns: Mapping[str, Any], unit: str, ask: Ask, tell: Callable[[str], None]) -> dict[str, Any]:
    """Ask what is the same in all rows of one unit, and in what order its rows come."""
    parsed = [parse_column(name, said) for name, said in columns.items()]
    modelled = [column.name for column in parsed if isinstance(column, ModelledColumn)]
    ordered = [column.name for column in parsed if isinstance(column, ModelledColumn) and column.is_ordered]
    proposed = ", ".join(name for name in modelled if belongs_to_unit_by_name(name))
    while True:
        question = f"Which columns belong to the {unit}, the same in all rows, separated by commas"
        same = [name.strip() for name in ask(question, proposed).split(",") if name.strip()]
        if set(same) <= set(modelled) and len(set(same)) == len(same):
            break
        tell(f"Name each once, or none of them: {', '.join(map(shown, modelled))}.")
    left = [name for name in ordered if name not in same]
    if not left:
        return {"same_in_all_rows": same}
    while True:
        first = ask("Which column says in what order the rows come (none: no order)", order_by_name(left) or "none")
        if first in left:
            return {"same_in_all_rows": same, "ordered_by": first}
        if first.strip() in ("", "none"):
            return {"same_in_all_rows": same}
        tell(f"A number, a date or a time gives an order. Name one of: {', '.join(map(shown, left))}; or none.")


def _asked_column(name: str, kind: str, ask: Ask, tell: Callable[[str], None]) -> dict[str, Any]:
    """Ask for the type of a column and for the fields of that type, until they are valid."""
    while True:
        said: dict[str, Any] = {"type": ask(f"{shown(name)}: type", kind)}
        column_type = COLUMN_TYPES.get(said["type"])
        if column_type is not None and issubclass(column_type, ModelledColumn):
            said["missing"] = agreed(f"{shown(name)}: can cells be missing", "y", ask=ask, tell=tell)
        for field in () if column_type is None else column_type.form:
            if field.keys != ("fallback",) or not said["missing"]:
                said |= _asked_cell(name, said, field, ask, tell)
        try:
            return parse_column(name, said).to_mapping()
        except InputError as refusal:
            tell(str(refusal))


def _asked_cell(
    name: str, said: Mapping[str, Any], field: FormField, ask: Ask, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Ask for the values of a field until they are valid by themselves."""
    proposed = field.default or (step_by_name(name) if field.cell == "step" else "")
    while True:
        if field.shape == "flag":
            return {field.keys[0]: agreed(f"{shown(name)}: {field.cell}", proposed or "n", ask=ask, tell=tell)}
        typed = ask(f"{shown(name)}: {field.cell}{_HOW[field.shape]}", proposed)
        if not typed and field.cell == "step":
            tell(f"'{shown(name)}'{field.needed}")
            continue
        answers = _answers(field, typed)
        refusal = _refusal(name, {**said, **answers}, field, typed)
        if not refusal:
            return answers
        tell(refusal)


def _refusal(name: str, said: Mapping[str, Any], field: FormField, typed: str) -> str:
    """Return what is wrong with one field; fields that come later are not checked yet."""
    form = COLUMN_TYPES[said["type"]].form
    # Later fields get the same text, so that a refusal names this field first if it is wrong.
    later = {key: typed for one in form[form.index(field) + 1 :] for key in one.keys if one.needed}
    try:
        column = parse_column(name, {**later, **said})
    except InputError as refusal:
        about = str(refusal).partition(": ")[2]
        named = re.search(rf"\b({'|'.join(key for one in form for key in one.keys)})\b", about)
        return str(refusal) if named is not None and named[1] in field.keys else ""
    if field is form[-1] and isinstance(column, ModelledColumn) and column.fallback_code is None:
        return f"Say what an unreadable cell of '{shown(name)}' becomes."
    return ""


_HOW = {"texts": ", separated by commas", "numbers": ", separated by commas"} | dict.fromkeys(("text", "number"), "")


def _answers(field: FormField, typed: str) -> dict[str, Any]:
    parts = [part.strip() for part in typed.split(",") if part.strip()]
    if not parts:
        return {}
    if len(field.keys) > 1:
        return dict(zip(field.keys, parts, strict=False))
    return {field.keys[0]: parts if field.shape in ("texts", "numbers") else typed.strip()}
