"""What a configuration has to say of a table, asked question by question at a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from synth.cli.files import format_of, new_file, open_table, said_of_format
from synth.cli.speaking import Ask, agreed
from synth.errors import ConfigError, InputError, TableError
from synth.names import shown
from synth.schema import COLUMN_TYPES, FormField, ModelledColumn, TableFormat, config_of_text, parse_column
from synth.schema.guesses import step_by_name
from synth.services.inspection import Header, inspect_header

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
"""What stands for questions that were not asked yet, while an answer is looked at."""


def ask_configuration(table: str | None, ask: Ask, tell: Callable[[str], None]) -> Path:
    """Ask what a configuration has to say, and write it beside where the user stands.

    Only the first line of the table is read. Whatever cannot be used is refused in a sentence where it is typed, and
    asked again.

    Parameters
    ----------
    table : str, optional
        Its path; asked where it is not given.
    ask : callable
    tell : callable
        Told what is wrong with an answer, and where the configuration was written.

    Raises
    ------
    InputError
        If the table that was given cannot be read, or a configuration of its name is there already.
    """
    path, name, header, form = _asked_table(table, ask, tell)
    written = new_file(f"{Path(name).name.partition('.')[0]}.yaml", "Give that to synth run, or move it away.")
    body: dict[str, Any] = {"table": str(Path(path).absolute())}

    def settle(section: str, key: str, question: str, default: str) -> None:
        """Ask until the answer can be used beside those before it; a key without a section stands by itself."""
        while True:
            typed = ask(question, default)
            said = {**body, **({section: {**body.get(section, {}), key: typed}} if section else {key: typed})}
            try:
                config_of_text(yaml.safe_dump(_with_unasked(said), allow_unicode=True))
            except InputError as refusal:
                tell(str(refusal))
            else:
                body.update(said)
                return

    settle("", "account", "Name the people it is about", "")
    settle("unit", "protects", "Whom do you protect (person, household, ...)", "person")
    settle("unit", "rows_per_unit", f"How many rows can one {body['unit']['protects']} have at most", "1")
    if body["unit"]["rows_per_unit"] != "1":
        body["unit"]["id_column"] = _asked_id(header.names, ask, tell)
    public = agreed("May anybody know how many there are? Then the number is printed", "n", ask=ask, tell=tell)
    body["row_count"] = "public" if public else "private"
    if public:
        settle("", "number_of_units", "How many are there", "")
    else:
        settle("", "people_at_most", "How many are there at most, as anybody could say", "")
    settle("budget", "epsilon", "Epsilon: smaller protects more", "1")
    settle("", "rows", "How many rows are to be made", "10000")
    tell(
        f"Now the columns. What you say is published. Types: {', '.join(COLUMN_TYPES)}; or find, to have it found "
        "privately, for a part of epsilon that you are told before it is spent."
    )
    kinds = dict(zip(header.names, header.kinds, strict=True))
    identifier = body["unit"].get("id_column")
    body["columns"] = {
        column: {"type": "identifier"} if column == identifier else _asked_column(column, kind or "", ask, tell)
        for column, kind in kinds.items()
    }
    if form != TableFormat():
        body["format"] = said_of_format(form)
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120)
    config_of_text(text)
    written.write_text(text, encoding="utf-8")
    tell(f"Wrote {written}: edit it for more, or give it to synth run next time.")
    return written


def _asked_table(table: str | None, ask: Ask, tell: Callable[[str], None]) -> tuple[str, str, Header, TableFormat]:
    """Return where a table is, its name, header and format; one that was not given is asked until it can be read."""
    while True:
        path = table or ask("Path of the private table", "")
        try:
            return path, *_asked_format(path, ask, tell)
        except InputError as refusal:
            if table:
                raise
            tell(str(refusal))


_OF_A_FILE: dict[str, dict[str, str]] = {
    "encoding": {"encoding": "Its encoding, for example latin-1 or cp1252"},
    "sheet": {"sheet": "The sheet that holds the table"},
    "header": {
        "separator": "The sign between cells (a comma, a semicolon, or the word tab)",
        "names": "Names of the columns in order, with commas between",
        "skip_rows": "Lines to pass over before the first row",
    },
}
"""What is asked where a file is not as most are, by the key of a format that the refusal speaks of."""


def _asked_format(path: str, ask: Ask, tell: Callable[[str], None]) -> tuple[str, Header, TableFormat]:
    """Return the name and the header of a table; how it is written is asked where it is not written as most are."""
    said: dict[str, str] = {}
    asked: dict[str, str] = {}
    while True:
        try:
            form = format_of([f"{key}={value}" for key, value in said.items()])
            with open_table(path, form) as (name, stream):
                return name, inspect_header(stream, form), form
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
    unasked = {
        key: value for key, value in _UNASKED.items() if key != "people_at_most" or "number_of_units" not in said
    }
    unit = dict(said.get("unit", {}))
    identifier = unit.get("id_column")
    columns = _UNASKED["columns"] | ({identifier: {"type": "identifier"}} if identifier else {})
    return {**unasked, **said, "unit": _UNASKED["unit"] | unit, "columns": columns}


def _asked_id(names: Sequence[str], ask: Ask, tell: Callable[[str], None]) -> str:
    while True:
        typed = ask("Which column says whose row it is", "")
        if typed in names:
            return typed
        tell(f"The table has no column of that name. Its columns are: {', '.join(map(shown, names))}.")


def _asked_column(name: str, kind: str, ask: Ask, tell: Callable[[str], None]) -> dict[str, Any]:
    """Ask for the type of a column, and for what its type asks on the screen, until it can be used."""
    while True:
        said: dict[str, Any] = {"type": ask(f"{shown(name)}: type", kind)}
        column_type = COLUMN_TYPES.get(said["type"])
        if column_type is not None and issubclass(column_type, ModelledColumn):
            said["missing"] = agreed(f"{shown(name)}: may cells be missing", "y", ask=ask, tell=tell)
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
    """Ask for what stands under the keys of a field, until nothing is wrong with that by itself."""
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
    """Return what is wrong with one cell; of cells that come later nothing is said yet."""
    form = COLUMN_TYPES[said["type"]].form
    # What comes later stands here as the same text: a fault that a refusal names first is then one of this cell.
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


_HOW = {"texts": ", with commas between", "numbers": ", with commas between"} | dict.fromkeys(("text", "number"), "")


def _answers(field: FormField, typed: str) -> dict[str, Any]:
    parts = [part.strip() for part in typed.split(",") if part.strip()]
    if not parts:
        return {}
    if len(field.keys) > 1:
        return dict(zip(field.keys, parts, strict=False))
    return {field.keys[0]: parts if field.shape in ("texts", "numbers") else typed.strip()}
