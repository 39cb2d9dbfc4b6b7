"""The draft of a release: one dict of plain values from which a configuration is made; no Streamlit.

The draft is the only truth of the pages. Widgets are drawn from it and write to it, because Streamlit forgets the
state of a widget as soon as its page is left.

Its columns are rows as :mod:`pages.ui.column_rows` makes them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from pages.ui.column_rows import (
    IDENTIFIER,
    MODELLED_ROLES,
    Row,
    host_of,
    mapping_of_row,
    new_row,
    row_of_mapping,
    with_times,
)
from synth.errors import ConfigError
from synth.estimators import describe
from synth.reports.holdout import paid_refusal
from synth.schema import (
    LinkedTables,
    PrivacyUnit,
    RunConfig,
    config_to_mapping,
    parse_config,
    parse_format,
    prediction_refusal,
)
from synth.schema.schema import MERGE
from synth.services.linked import as_joined

Draft = dict[str, Any]

DEFAULT_ROWS = 10_000

EPSILON_STOPS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Stops of the slider, and what a grid of rehearsals offers."""

MOST_PILLS = 60
"""Columns that are offered side by side; a wider table names them in its codebook."""


def new_draft() -> Draft:
    """Return a draft with nothing decided; questions about people have no answer selected."""
    return {
        "table_id": None,
        "test_table_id": None,
        "run_id": None,
        "begun_id": None,  # under which this is saved before a table has come
        "demonstration": "",  # what the header says of a demonstration
        "described": False,
        "people": None,  # what was chosen on Upload: new people, or an account
        "account": "",
        "database": {},  # what was typed of one on Upload, without a password
        "format": {},
        "test_format": None,
        "tables": None,  # of two that were joined into the stored one: their names, their key, and columns of the first
        "joining": {},  # of two that are not joined yet: names and key, and rows of columns that the stored one lacks
        "columns": [],
        "dictionary": None,  # what was understood of one, until it is taken or put away
        "protects": None,
        "rows_per_unit": None,
        "id_column": None,
        "kept_together": "whole",  # whether the rows of one unit are, where there is an id column
        "same_in_all_rows": [],
        "ordered_by": None,
        "row_count": None,
        "number_of_units": None,
        "people_at_most": None,
        "about_rows": None,
        "protection": "record",
        "cell_change": 1.0,
        "label": None,
        "groups": [],
        "rules": [],
        "holdout": 0.2,
        "undeclared": "refuse",
        "domain_source": {},
        "found": None,  # which finding filled columns, as a configuration writes it
        "finding": None,  # whose end this draft has heard of
        "epsilon": 1.0,
        "delta": None,
        "evaluation_share": 0.1,
        "prediction_share": 0.0,
        "makes": "table",
        "generator": None,
        "options": {},
        "model": None,
        "model_options": {},
        "model_label": None,
        "model_columns": [],
        "model_prediction_share": 0.0,
        "rows": DEFAULT_ROWS,
        "by_people": False,  # whether that is a number of people
        "seed": 0,
        "device": "auto",
    }


def take_table(draft: Draft, table_id: str, account: str, columns: Sequence[tuple[str, str]]) -> None:
    """Begin a release of a stored table; what was declared for columns of the same names is kept.

    Parameters
    ----------
    columns : sequence of (name, guessed kind)
    """
    _part_tables(draft)
    described = [*draft["columns"], *draft["joining"].get("columns", ())]
    known = {row["name"]: row for row in described}
    rows = with_times([known.get(name) or new_row(name, kind) for name, kind in columns], described)
    draft.update(
        table_id=table_id,
        test_table_id=None,
        run_id=None,
        about_rows=None,
        account=account,
        described=False,
        columns=rows,
    )
    if draft["joining"]:
        there = {row["name"] for row in rows}
        draft["joining"]["columns"] = [row for row in described if row["name"] not in there]


# Two tables that belong together -------------------------------------------------------------------------------------


def take_joined(
    draft: Draft, table_id: str, columns: Sequence[tuple[str, str]], tables: LinkedTables, first: Sequence[str]
) -> None:
    """Go on with the table that two were joined into; what was declared for columns of the same names is kept.

    Parameters
    ----------
    columns : sequence of (name, guessed kind)
    tables : LinkedTables
        What they are called, and their key.
    first : sequence of str
        The columns of the first table.
    """
    take_table(draft, table_id, draft["account"], [one for one in columns if one[0] != MERGE.name])
    _link(draft, tables, first, two_files=True)
    draft["joining"] = {}


def _link(draft: Draft, tables: LinkedTables, first: Sequence[str], *, two_files: bool) -> None:
    """Settle what two tables answer by themselves: whose row it is, what belongs to a unit, and that it stays whole.

    With ``two_files`` both came as files, whose format the draft has; otherwise it is that of one file, joined before.
    """
    of_first = [name for name in first if name != tables.key]
    draft["tables"] = {**asdict(tables), "of_first": of_first, "two_files": two_files}
    draft.update(id_column=tables.key, same_in_all_rows=[], kept_together="whole", by_people=True)
    draft.update(makes="table", protection="record", test_table_id=None)
    if draft["rows_per_unit"] == 1:  # as was declared of the first table alone
        draft["rows_per_unit"] = None
    if draft["ordered_by"] in draft["tables"]["of_first"]:
        draft["ordered_by"] = None
    for row in draft["columns"]:
        if row["name"] == tables.key:
            row.update(role=IDENTIFIER, proposed="")


def _part_tables(draft: Draft) -> None:
    """Remember of two joined tables what they are called, where one table takes their place: they may come again."""
    tables = linked_of(draft)
    if tables is not None:
        draft.update(tables=None, joining={**asdict(tables), "columns": []})


def linked_of(draft: Draft) -> LinkedTables | None:
    """Return the two tables that the stored one was joined from, None where it is one by itself."""
    said = draft["tables"]
    return None if said is None else LinkedTables(said["first"], said["second"], said["key"])


def columns_of_unit(draft: Draft) -> list[str]:
    """Return the columns that belong to the unit: those of the first of two tables, or those that were chosen."""
    if draft["tables"] is None:
        return list(draft["same_in_all_rows"])
    of_first = set(draft["tables"]["of_first"])
    return [row["name"] for row in draft["columns"] if (host_of(row) or row["name"]) in of_first]


def as_files(draft: Draft, config: RunConfig) -> RunConfig:
    """Return a configuration as it leaves the page: of two tables, it reads files that are written as theirs were."""
    return replace(config, format=parse_format(draft["format"])) if _of_two_files(draft) else config


def _of_two_files(draft: Draft) -> bool:
    return draft["tables"] is not None and bool(draft["tables"]["two_files"])


def rename_columns(draft: Draft, names: Mapping[str, str]) -> None:
    """Call columns otherwise wherever the draft names them; a line in which nothing was typed is guessed anew.

    Rules are lines of text that the owner wrote, and stay as they are: the page marks a name that is not there.
    """

    def renamed(row: Row) -> Row:
        other = names.get(row["name"], row["name"])
        if host_of(row) in names:
            row = {**row, "extra": {**row["extra"], "of": names[host_of(row)]}}
        return new_row(other, "") if row == new_row(row["name"], "") else {**row, "name": other}

    draft["columns"] = [renamed(row) for row in draft["columns"]]
    draft["domain_source"] = {names.get(name, name): text for name, text in draft["domain_source"].items()}
    for key in ("groups", "same_in_all_rows"):
        draft[key] = [names.get(name, name) for name in draft[key]]
    named = ("id_column", "ordered_by", "label", "model_label")
    draft.update({key: names.get(draft[key], draft[key]) for key in named})


# What is saved of it with the table ----------------------------------------------------------------------------------

_IN_THE_ADDRESS = frozenset({"table_id", "run_id", "begun_id"})


def body_of(draft: Draft) -> dict[str, Any]:
    """Return what is saved of a draft with its table: plain values, its columns by name."""
    body = {key: value for key, value in draft.items() if key not in _IN_THE_ADDRESS}
    body["columns"] = {row["name"]: {key: row[key] for key in row if key != "name"} for row in draft["columns"]}
    return body


def fill_from_body(draft: Draft, body: Mapping[str, Any]) -> None:
    """Fill the draft of the same table with what was saved of it; unknown keys are ignored.

    Before a table has come the columns are those that were saved: a codebook may have described them.
    """
    columns = body.get("columns", {})
    saved = [{**new_row(name, ""), **said} for name, said in columns.items()]
    known = with_times([row for row in draft["columns"] if not host_of(row)], saved) if draft["table_id"] else saved
    # Which table a row comes from is not described, where the stored table was joined from two.
    known = [row for row in known if body.get("tables") is None or row["name"] != MERGE.name]
    rows = [{**row, **columns.get(row["name"], {})} for row in known]
    kept = {key: value for key, value in body.items() if key in draft and key not in _IN_THE_ADDRESS}
    draft.update(copy.deepcopy({**kept, "columns": rows}))


_ABSENT = object()

_LISTED = frozenset({"rules", "groups", "model_columns", "same_in_all_rows"})
"""Answers that are lists of things chosen one by one, each of which is an answer of its own."""


def merged(theirs: Mapping[str, Any], before: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was saved elsewhere with our changes in it: of an answer that both changed, ours is kept.

    Parameters
    ----------
    theirs, before, ours : mapping
        Bodies: saved elsewhere since, known to us before, and with our changes.
    """
    whole: dict[str, Any] = {}
    for key in dict.fromkeys([*theirs, *ours]):
        their, old, our = (body.get(key, _ABSENT) for body in (theirs, before, ours))
        if isinstance(their, Mapping) and isinstance(our, Mapping):
            whole[key] = merged(their, old if isinstance(old, Mapping) else {}, our)
            continue
        if key in _LISTED and isinstance(their, list) and isinstance(our, list):
            whole[key] = _merged_lists(their, old if isinstance(old, list) else [], our)
            continue
        kept = their if our == old else our
        if kept is not _ABSENT:
            whole[key] = kept
    return whole


def _merged_lists(theirs: list[Any], before: list[Any], ours: list[Any]) -> list[Any]:
    """Merge two changed lists: entries that either removed are gone, new ones come last."""
    gone = [one for one in before if one not in theirs or one not in ours]
    return [one for one in dict.fromkeys([*theirs, *ours]) if one not in gone]


def changed_answers(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Count the answers in which two bodies differ; that nothing is open any more is no answer."""
    count = 0
    for key in dict.fromkeys([*before, *after]).keys() - {"described"}:
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            count += changed_answers(old, new)
        elif key in _LISTED and isinstance(old, list) and isinstance(new, list):
            count += len(set(old) ^ set(new))
        else:
            count += old != new
    return count


# From a configuration, and to one ------------------------------------------------------------------------------------


def fill_from_config(draft: Draft, config: RunConfig) -> list[str]:
    """Fill the draft with a configuration; columns the table does not have are left out.

    Returns
    -------
    Names of declared columns that the table does not have. Those of the second of two tables, which may still come, are
    kept until then.
    """
    body = config_to_mapping(config)
    declared = {name: row_of_mapping(name, column) for name, column in body["columns"].items()}
    tables, joined = config.schema.tables, linked_of(draft)
    of_first: Sequence[str] = () if joined is None else draft["tables"]["of_first"]
    two_files = joined is not None and draft["tables"]["two_files"]
    own = [row for row in draft["columns"] if not host_of(row)]
    if joined is None and tables is not None and any(row["name"] == MERGE.name for row in own):
        # The table of a run, of which nothing was saved here; or its owner joined it before.
        joined, of_first = tables, config.schema.unit.same_in_all_rows
        own = [row for row in own if row["name"] != MERGE.name]
    described = [declared.get(row["name"]) or row for row in own]
    draft["columns"] = with_times(described, list(declared.values())) if own else list(declared.values())
    present = {row["name"] for row in draft["columns"]}
    absent = [name for name in declared if name not in present]
    if tables is not None and joined is None:  # what is said of them stays as well
        present |= set(absent)
    draft["domain_source"] = {name: text for name, text in config.domain_source.items() if name in present}
    unit = body["unit"]
    draft.update(
        protects=unit["protects"],
        rows_per_unit=unit["rows_per_unit"],
        id_column=unit.get("id_column"),
        same_in_all_rows=[name for name in unit.get("same_in_all_rows", []) if name in present],
        ordered_by=unit["ordered_by"] if unit.get("ordered_by") in present else None,
        epsilon=config.epsilon,
        delta=config.delta,
        described=False,
    )
    for key in ("row_count", "people_at_most", "seed", "device", "undeclared"):
        draft[key] = body[key]
    draft["number_of_units"] = config.schema.number_of_units
    draft.update(protection=config.schema.protection, cell_change=config.schema.cell_change)
    draft["groups"] = list(config.groups)
    draft["found"] = body.get("found")
    if config.is_model:
        _fill_model(draft, config)
    else:
        _fill_table(draft, config)
    draft["format"], draft["test_format"] = _format_here(draft["format"], body["format"]), body.get("test_format")
    if not draft["account"]:
        draft["account"] = config.account
    if joined is not None:
        _link(draft, joined, of_first, two_files=two_files)
    elif tables is not None:
        draft["joining"] = {**asdict(tables), "columns": [declared[name] for name in absent]}
        return []
    return absent


def _format_here(held: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the format that a document says, of rows that came from where those here did."""
    form = {key: value for key, value in read.items() if key != "origin"}
    if "origin" in read:  # whose document it is read a database
        form["kind"] = "auto"
    if "rename" in held:  # columns are called so since the table has come
        form.setdefault("rename", held["rename"])
    if "origin" in held:
        form |= {"origin": held["origin"], "kind": "parquet", "header": True}
        form.pop("names", None)
    return form


def _fill_model(draft: Draft, config: RunConfig) -> None:
    """What the file of a model leaves out, which is about rows that are made, stays as it was in the draft."""
    draft.update(makes="model", model=config.generator, model_options=dict(config.options))
    draft.update(model_label=config.label, model_columns=[], model_prediction_share=config.prediction_share)
    if config.holdout:
        draft["holdout"] = config.holdout


def _fill_table(draft: Draft, config: RunConfig) -> None:
    draft.update(makes="table", generator=config.generator, options=dict(config.options), rows=config.rows)
    draft.update(by_people=config.by_people)
    draft["kept_together"] = config.schema.people if config.schema.may_be_whole else "whole"
    draft.update(label=config.label, rules=list(config.constraints), holdout=config.holdout)
    draft.update(evaluation_share=config.evaluation_share, prediction_share=config.prediction_share)


def missing_answers(draft: Draft) -> list[str]:
    """Return the unanswered questions about people."""
    problems = []
    if not (draft["protects"] or "").strip():
        problems.append("Say who you are protecting.")
    if not draft["rows_per_unit"]:
        problems.append(f"Say how many rows one {draft['protects'] or 'person'} can have at most.")
    if draft["row_count"] not in {"public", "private"}:
        problems.append("Say whether their number is public.")
    if asks_for_number(draft):
        if not draft["number_of_units"]:
            problems.append(f"Say how many {plural_of(draft['protects'])} there are, as their number is public.")
    elif not draft["people_at_most"]:
        problems.append(f"Give a public upper bound on how many there are (unit: {draft['protects'] or 'person'}).")
    return problems


def asks_for_number(draft: Draft) -> bool:
    """Whether the number of units has to be typed: it is public, and each row's unit is known."""
    told_apart = draft["id_column"] is not None or draft["rows_per_unit"] == 1
    return bool(draft["row_count"] == "public" and told_apart and draft["protection"] == "record")


def most_people(draft: Draft) -> int | None:
    """Return the public bound on how many units there are: their number where that is public, else what was typed."""
    bound: int | None = draft["number_of_units"] if asks_for_number(draft) else draft["people_at_most"]
    return bound


def may_keep_together(draft: Draft) -> bool:
    """Whether several rows of one unit can be kept together: a column says which they are."""
    return draft["id_column"] is not None and (draft["rows_per_unit"] or 1) > 1


def keeps_together(draft: Draft) -> bool:
    """Whether each synthetic unit has several rows, as units of the table do."""
    return may_keep_together(draft) and draft["kept_together"] == "whole"


def plural_of(unit: str | None) -> str:
    """Return the word for several units."""
    return PrivacyUnit(unit or "person").plural


def config_of(draft: Draft) -> RunConfig:
    """Make the configuration this draft describes.

    Raises
    ------
    SynthError
        If something is still missing or cannot be used; the text says what.
    """
    problems = missing_answers(draft)
    if problems:
        raise ConfigError(problems[0])
    columns = {row["name"]: mapping_of_row(row) for row in draft["columns"]}
    body = config_body(draft, columns, _BESIDE)
    if draft["makes"] == "model":
        model = parse_config(_of_model(draft, body))
        share, held_out = draft["model_prediction_share"], replace(model, holdout=draft["holdout"])
        # As below, a share that cannot be used is ignored: the page says why.
        if share and paid_refusal(describe(model.generator), held_out) is None:
            return replace(held_out, prediction_share=share)
        return model
    if draft["generator"]:
        body["generator"] = {"name": draft["generator"], "options": draft["options"]}
    if draft["domain_source"]:
        body["domain_source"] = draft["domain_source"]
    config = parse_config(body)
    if _of_two_files(draft):  # what is read is the table of both, whatever the format of the files that came
        config = as_joined(config)
    # A share that can no longer be used, because the label was removed or delta is 0, is ignored: the Budget page says
    # so.
    refusal = prediction_refusal(config.schema, config.label, config.holdout, config.delta)
    if draft["prediction_share"] and refusal is None:
        return replace(config, prediction_share=draft["prediction_share"])
    return config


_OF_THE_UNIT = ("protects", "rows_per_unit", "id_column")

_BESIDE = (
    "test_format", "holdout", "label", "groups", "rules", "seed", "device", "evaluation_share", "found",
)  # fmt: skip


def config_body(draft: Draft, columns: dict[str, Any], beside: Sequence[str]) -> dict[str, Any]:
    """Return what a configuration says of the people, the budget and columns, with some keys of the draft beside."""
    body: dict[str, Any] = {
        "account": draft["account"],
        "unit": {key: draft[key] for key in ("protects", "rows_per_unit", "id_column")}
        | _rows_together(draft, columns),
        "budget": {"epsilon": draft["epsilon"], "delta": draft["delta"]},
        "columns": columns,
    }
    body |= {key: draft[key] for key in ("format", "row_count", "rows", "undeclared", *beside)}
    if may_keep_together(draft) and not keeps_together(draft):
        body["people"] = "separate_rows"
    elif keeps_together(draft) and draft["by_people"]:
        body["people"] = body.pop("rows")
    tables = linked_of(draft)
    if tables is not None:
        body["tables"] = {tables.first: None, tables.second: None, "key": tables.key}
    body["people_at_most"] = most_people(draft)
    if draft["row_count"] == "public":
        body["number_of_units"] = draft["number_of_units"]
    if draft["protection"] == "cell":
        body |= {"protection": "cell", "cell_change": draft["cell_change"]}
    return body


def _rows_together(draft: Draft, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a unit says of its rows where they are kept together, of the columns that are modelled."""
    if not keeps_together(draft):
        return {}
    unseen = ("identifier", "drop")
    modelled = {name for name, body in columns.items() if body.get("type") not in unseen}
    return {
        "same_in_all_rows": [name for name in columns_of_unit(draft) if name in modelled],
        "ordered_by": draft["ordered_by"] if draft["ordered_by"] in modelled else None,
    }


def _of_model(draft: Draft, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the draft says of a model; columns that it does not look at are left out."""
    if draft["model"] is None:
        raise ConfigError("Choose a model first.")
    label, chosen = draft["model_label"], set(draft["model_columns"])
    used = {row["name"] for row in draft["columns"] if row["role"] in MODELLED_ROLES}
    left_out = used - chosen - {label} if chosen else set()
    columns = {name: {"type": "drop"} if name in left_out else column for name, column in body["columns"].items()}
    kept = {key: value for key, value in body.items() if key not in _OF_ROWS_MADE}
    kept["unit"] = {key: body["unit"][key] for key in _OF_THE_UNIT}
    # A model holds nobody out unless its predictions are paid for: nothing else would use the hold-out.
    kept |= {"columns": columns, "label": label, "holdout": 0.0}
    kept["groups"] = [name for name in draft["groups"] if name not in left_out]
    kept["domain_source"] = {name: text for name, text in draft["domain_source"].items() if name not in left_out}
    return kept | {"model": {"name": draft["model"], "options": draft["model_options"]}}


_OF_ROWS_MADE = {"rows", "people", "rules", "evaluation_share"}
