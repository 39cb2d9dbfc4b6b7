"""What is open in a configuration found privately in this process: what ``synth find`` and ``synth.find`` do.

``synth run --find`` and :class:`synth.Release` find first and run on what was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from synth.application import Application
from synth.cli.files import new_file
from synth.cli.received import closing, received
from synth.cli.speaking import Ask, Say, StoredAndSpokenProgress, agreed, on_terminal
from synth.errors import InputError, SynthError
from synth.jobs.processes import birth_of
from synth.privacy.more.found_columns import open_columns
from synth.schema import (
    FindColumn,
    RunConfig,
    config_to_mapping,
    load_config,
    parse_column,
    parse_config,
)
from synth.schema.documents import read_mapping, read_text
from synth.services.databases import as_read_from_source
from synth.services.finding import USUAL_SHARE, carry_out, completed
from synth.services.planning import check_config
from synth.system.paths import path_of

__all__ = [
    "FindResult",
    "check_what_is_described",
    "completed_where_open",
    "find_in_document",
    "find_locally",
    "found_and_kept",
]

_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True)
class FindResult:
    """A configuration whose open columns were found, as it is written, and what to say of it."""

    document: Mapping[str, Any]
    lines: tuple[str, ...]

    @property
    def config(self) -> RunConfig:
        """The configuration itself.

        Raises
        ------
        InputError
            If it cannot be used yet, for example because a label came back as nothing.
        """
        return parse_config(self.document)


def find_locally(
    config: str | Path,
    out: str | Path | None = None,
    *,
    table: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    keep_table: bool = False,
    password: str | None = None,
    say: Say | None = None,
) -> Path:
    """Find what is open in a configuration file, and write a configuration that can be run.

    Parameters
    ----------
    config : path
        A configuration in which columns are open: ``{type: find}``.
    out : path, optional
        A new file; by default beside the other, its name ending in ``-found``.
    table : path, optional
        The private table, instead of the one that the configuration names.
    epsilon, delta : float, optional
        What may be spent, by default a tenth of the configuration's budget; it is taken off that epsilon.
    keep_table : bool
        Keep the encrypted copy; otherwise it is deleted at the end, whatever happens.
    password : str, optional
        Of the database that ``source`` names; kept nowhere.
    say : callable, optional
        Told what it costs and loses beforehand, a line for every phase, and what was found.

    Returns
    -------
    Path
        The new file.

    Raises
    ------
    InputError
        If something given cannot be used; nothing is charged then.
    BudgetExceededError
        If the account's cap would be exceeded.
    """
    path = path_of(config, "the configuration")
    written = new_file(_beside(path) if out is None else out)
    document = dict(read_mapping(read_text(path, "The configuration")))
    if table is not None:
        document = {key: value for key, value in document.items() if key != "source"}
        document["table"] = str(path_of(table, "the table").absolute())
    base = path.resolve().parent
    parsed = parse_config(document, base=base)
    if written.absolute().parent.resolve() != base:
        # Paths in a configuration are relative to where it lies.
        named = {"table": parsed.table, "test_table": parsed.test_table}
        document |= {key: value for key, value in named.items() if value is not None}
    found = find_in_document(
        document, parsed, epsilon=epsilon, delta=delta, keep_table=keep_table, password=password, say=say
    )
    _write(found, written, "read what was found, change what you know better, then run it", say)
    return written


def found_and_kept(
    config: RunConfig, path: str | Path, *, epsilon: float | None, password: str | None, say: Say
) -> RunConfig:
    """Find what is open in the configuration that ``path`` held, keep what came of it beside it, and return it to run.

    Whatever stops the run afterwards: what was found is paid for once, and the file beside it goes on from there.

    Raises
    ------
    InputError
        If it was found before, so that the file is there; nothing is charged then. Or if it cannot be run as found.
    """
    written = new_file(
        _beside(path_of(path, "the configuration")),
        "It was found before: run that file, which pays for no second finding, or move it away to find anew.",
    )
    found = find_in_document(config_to_mapping(config), config, epsilon=epsilon, password=password, say=say)
    _write(found, written, "if anything stops this run, change what you like there and run that file", say)
    return found.config


def check_what_is_described(config: RunConfig) -> None:
    """Refuse what a run would refuse whatever is found in the open columns, before anything is charged.

    Nobody knows yet of what kind they are: it is enough that the rest fits one of two.
    """
    kinds: tuple[dict[str, object], ...] = (
        {"type": "category", "values": ["a", "b"], "other": True},
        {"type": "number", "low": 0, "high": 9, "step": 1, "missing": True},
    )
    refusals = []
    for kind in kinds:
        columns = (parse_column(one.name, kind) if isinstance(one, FindColumn) else one for one in config.schema)
        schema = replace(config.schema, columns=tuple(columns))
        try:
            check_config(replace(config, schema=schema, constraints=()))
        except SynthError as refusal:
            refusals.append(refusal)
    if len(refusals) == len(kinds):
        raise refusals[0]


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}-found{path.suffix or '.yaml'}")


def _write(found: FindResult, written: Path, then: str, say: Say | None) -> None:
    plain = {key: _with_numbers(value) for key, value in found.document.items()}
    written.write_text(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120), "utf-8")
    for line in (*found.lines, f"Wrote {written}: {then}."):
        (say or (lambda line: None))(line)


def completed_where_open(config: Path, ask: Ask) -> Path:
    """Find privately what was left open in a configuration, if somebody at the terminal says so; return what to run.

    Raises
    ------
    InputError
        If they say no: nothing is charged then.
    """
    count = len(open_columns(load_config(config).schema))
    if not count:
        return config
    columns = "one column" if count == 1 else f"{count} columns"
    if not agreed(f"Find {columns} privately now, for a tenth of epsilon", "y", ask=ask):
        raise InputError(f"Nothing was spent. Describe what is open in {config}, or find it with synth find.")
    with on_terminal() as shown:
        return find_locally(config, say=shown)


def _with_numbers(value: Any) -> Any:
    """Return a value, or the section unit or budget, with numbers that were read as they were typed as numbers."""
    if isinstance(value, Mapping) and not any(isinstance(inside, Mapping) for inside in value.values()):
        return {key: _with_numbers(inside) for key, inside in value.items()}
    return int(value) if isinstance(value, str) and _is_whole(value) else value


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and (text == "0" or text[0] != "0")


def find_in_document(
    document: Mapping[str, Any],
    config: RunConfig,
    *,
    rows: BinaryIO | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    keep_table: bool = False,
    password: str | None = None,
    first: bool = False,
    say: Say | None = None,
) -> FindResult:
    """Find what is open in a configuration that was read, in this process.

    Parameters
    ----------
    document : mapping
        The configuration as it is written.
    config : RunConfig
        The same as it was read.
    rows : binary file, optional
        The private table itself, written as ``config.format`` says, instead of a path.
    epsilon, delta, keep_table, password, say
        As in :func:`find_locally`.
    first : bool
        Refuse a table that was taken in before under another account.
    """
    if config.table is None and rows is None and config.source is None:
        raise InputError("No table is named. Write 'table:' in the configuration, or give --table.")
    config = as_read_from_source(config)
    tell = say or (lambda line: None)
    spend = config.epsilon * USUAL_SHARE if epsilon is None else epsilon
    with Application.from_environment() as application:
        plan = application.findings.plan(config, epsilon=spend, delta=delta)
        tell(
            f"Finding {len(plan.columns)} column{'' if len(plan.columns) == 1 else 's'} privately costs epsilon "
            f"{plan.epsilon:g} at delta {plan.delta:g} of the budget of {config.epsilon:g}; "
            f"{config.epsilon - plan.epsilon:g} remains for rows. {plan.loses}"
        )
        alone = replace(config, test_table=None)
        with received(application, alone, rows, password=password, first=first, keep=keep_table) as tables:
            work = application.findings.reserve(config, table_id=tables[0], epsilon=plan.epsilon, delta=plan.delta)
            with closing(application, work.id):
                store = application.store
                store.work.claim(work.id, host=str(work.host), pid=os.getpid(), pid_created=birth_of(os.getpid()))
                progress = StoredAndSpokenProgress(store.work, work.id, tell)
                finding = carry_out(application.installation, work.id, progress)
    filled = completed(document, finding)
    lines = [f"{one.name}: {one.said}" for one in finding.columns]
    try:
        parse_config(filled)
    except SynthError as refusal:
        lines.append(f"It cannot be run yet: {refusal}")
    return FindResult(filled, tuple(lines))
