"""Find the open columns of a configuration privately, in this process: ``synth find`` and ``synth.find``.

``synth run --find`` and :class:`synth.Release` find first, then run with what was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from synth.application import Application
from synth.cli.files import new_file
from synth.cli.loading import load_config, names_in_table
from synth.cli.received import Once, Rows, as_stored, closing, kept_reading, received, require_rows
from synth.cli.speaking import Ask, Say, StoredAndSpokenProgress, agreed, on_terminal
from synth.errors import InputError, SynthError
from synth.jobs.processes import birth_of
from synth.names import numbered
from synth.privacy.more.found_columns import open_columns
from synth.schema import (
    FindColumn,
    ModelledColumn,
    RunConfig,
    config_to_mapping,
    in_full,
    parse_column,
    parse_config,
)
from synth.schema.documents import read_mapping, read_text, to_yaml
from synth.services.databases import as_read_from_source
from synth.services.finding import USUAL_SHARE, carry_out, completed
from synth.services.intake import Reading
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
    """A configuration whose open columns were found, as it is written, and the lines that report it."""

    document: Mapping[str, Any]
    lines: tuple[str, ...]

    @property
    def config(self) -> RunConfig:
        """The configuration itself.

        Raises
        ------
        InputError
            If it cannot be used yet, for example because nothing was found for the label, or in any column.
        """
        try:
            return parse_config(self.document)
        except SynthError:
            if any(isinstance(parse_column(*one), ModelledColumn) for one in self.document["columns"].items()):
                raise
            raise InputError(
                "Nothing was found in any open column: at this epsilon, the table has too few rows for so many open "
                "columns. Describe them by hand, with presets or with a data dictionary."
            ) from None


def find_locally(
    config: str | Path,
    out: str | Path | None = None,
    *,
    table: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    keep_table: bool = False,
    password: str | None = None,
    reading: Reading | None = None,
    written: Mapping[str, object] | None = None,
    say: Say | None = None,
    warn: Say | None = None,
) -> Path:
    """Find the open columns of a configuration file, and write a configuration that can be run.

    Parameters
    ----------
    config : path
        A configuration with open columns: ``{type: find}``.
    out : path, optional
        A new file; by default beside the configuration, with a name that ends in ``-found``.
    table : path, optional
        The private table, instead of the one in the configuration.
    epsilon, delta : float, optional
        What to spend, by default a tenth of the configuration's budget; epsilon is subtracted from that budget.
    keep_table : bool
        Keep the encrypted copy of the table; otherwise it is always deleted at the end.
    password : str, optional
        The password of the database in ``source``; it is not stored.
    reading : Reading, optional
        As in :func:`synth.cli.local.run_locally`; of open columns only whole lines can be lost.
    written : mapping, optional
        Keys of the format that replace those of the configuration.
    say : callable, optional
        Called with what the finding costs and loses, before it begins, with a line for every phase, and with what was
        found.
    warn : callable, optional
        As in :func:`synth.cli.local.run_locally`.

    Returns
    -------
    Path
        The new file.

    Raises
    ------
    InputError
        If an argument cannot be used; nothing is charged.
    NotAsDeclaredError
        If most lines are not as declared; nothing is charged.
    BudgetExceededError
        If the account's cap would be exceeded.
    """
    path = path_of(config, "the configuration")
    target = new_file(_beside(path) if out is None else out)
    document = dict(read_mapping(read_text(path, "The configuration")))
    if table is not None:
        document = {key: value for key, value in document.items() if key != "source"}
        document["table"] = str(path_of(table, "the table").absolute())
    if written:
        said = document.get("format") or {}
        # What is no mapping is refused below, in its own words.
        document["format"] = {**said, **written} if isinstance(said, Mapping) else said
    base = path.resolve().parent
    document = dict(in_full(document, partial(names_in_table, password=password), base=base))
    parsed = parse_config(document, base=base)
    if target.absolute().parent.resolve() != base:
        # Paths in a configuration are relative to its folder.
        named = {"table": parsed.table, "test_table": parsed.test_table}
        document |= {key: value for key, value in named.items() if value is not None}
        if parsed.table_files is not None:
            document["tables"] = config_to_mapping(parsed)["tables"]
    found = find_in_document(
        document,
        parsed,
        epsilon=epsilon,
        delta=delta,
        keep_table=keep_table,
        password=password,
        reading=reading,
        say=say,
        warn=warn,
    )
    _write(found, target, "check what was found, correct it where you know better, then run it", say)
    return target


def found_and_kept(
    config: RunConfig,
    path: str | Path,
    *,
    epsilon: float | None,
    password: str | None,
    reading: Reading | None = None,
    say: Say,
    warn: Say,
) -> RunConfig:
    """Find the open columns of the configuration in ``path``, write the result beside it, and return it.

    If anything stops the run afterwards, what was found is already paid for, and the run can start from that file.

    Raises
    ------
    InputError
        If the file exists, because it was found before; nothing is charged. Or if it cannot be run as found.
    """
    written = new_file(
        _beside(path_of(path, "the configuration")),
        "It was found before: run that file, which costs no second finding, or move it away to find again.",
    )
    found = find_in_document(
        config_to_mapping(config),
        config,
        epsilon=epsilon,
        password=password,
        reading=reading,
        say=say,
        warn=warn,
    )
    _write(found, written, "if anything stops this run, correct that file where needed and run it", say)
    try:
        return found.config
    except SynthError as refusal:
        raise InputError(
            f"{refusal} The finding is paid for and is not charged again: correct {written}, and run that file."
        ) from None


def check_what_is_described(config: RunConfig) -> None:
    """Refuse, before anything is charged, what a run would refuse whatever is found in the open columns.

    The types of the open columns are not known yet: it is enough that the rest is valid with one of two types.
    """
    kinds: tuple[dict[str, object], ...] = (
        {"type": "category", "values": ["a", "b"], "other": True},
        {"type": "number", "low": 0, "high": 9, "step": 1, "missing": True},
    )
    refusals = []
    for kind in kinds:
        columns = (parse_column(one.name, kind) if isinstance(one, FindColumn) else one for one in config.schema)
        try:
            # A schema may need one of the two: rows come in the order of a number.
            schema = replace(config.schema, columns=tuple(columns))
            check_config(replace(config, schema=schema, constraints=()))
        except SynthError as refusal:
            refusals.append(refusal)
    if len(refusals) == len(kinds):
        raise refusals[0]


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}-found{path.suffix or '.yaml'}")


def _write(found: FindResult, written: Path, then: str, say: Say | None) -> None:
    plain = {key: _with_numbers(value) for key, value in found.document.items()}
    written.write_text(to_yaml(plain), "utf-8")
    for line in (*found.lines, f"Wrote {written}: {then}."):
        (say or (lambda line: None))(line)


def completed_where_open(config: Path, ask: Ask, said: Once, *, look: bool, as_declared: bool) -> Path:
    """Find the open columns of a configuration privately, if the user at the terminal agrees; return what to run.

    Raises
    ------
    InputError
        If the user does not agree; nothing is charged.
    """
    count = len(open_columns(load_config(config).schema))
    if not count:
        return config
    columns = "one column" if count == 1 else f"{count} columns"
    if not agreed(f"Find {columns} privately now, for a tenth of epsilon", "y", ask=ask):
        raise InputError(f"Nothing was spent. Describe the open columns in {config}, or find them with synth find.")
    with on_terminal() as shown:
        warn = said.by(shown)
        return find_locally(config, reading=Reading(look, as_declared, warn), say=shown, warn=warn)


def _with_numbers(value: Any) -> Any:
    """Return a value, or the section unit or budget, with typed texts of whole numbers turned into numbers."""
    if isinstance(value, Mapping) and not any(isinstance(inside, Mapping) for inside in value.values()):
        return {key: _with_numbers(inside) for key, inside in value.items()}
    return int(value) if isinstance(value, str) and _is_whole(value) else value


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and (text == "0" or text[0] != "0")


def find_in_document(
    document: Mapping[str, Any],
    config: RunConfig,
    *,
    rows: Rows | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    keep_table: bool = False,
    password: str | None = None,
    first: bool = False,
    reading: Reading | None = None,
    say: Say | None = None,
    warn: Say | None = None,
) -> FindResult:
    """Find the open columns of a configuration that was read, in this process.

    Parameters
    ----------
    document : mapping
        The configuration as it is written.
    config : RunConfig
        The same as it was read.
    rows : binary file, or tuple of two, optional
        The private table itself, or two that belong together, in the format of ``config.format``, instead of a path.
    epsilon, delta, keep_table, password, reading, say, warn
        As in :func:`find_locally`.
    first : bool
        Refuse a table that was taken in before, under another account.
    """
    require_rows(config, rows)
    config = as_read_from_source(config)
    tell = say or (lambda line: None)
    spend = config.epsilon * USUAL_SHARE if epsilon is None else epsilon
    with Application.for_local_user() as application:
        plan = application.findings.plan(config, epsilon=spend, delta=delta)
        tell(
            f"Finding {numbered(len(plan.columns), 'column')} privately costs epsilon {plan.epsilon:g} at delta "
            f"{plan.delta:g}, from the budget of {config.epsilon:g}; {config.epsilon - plan.epsilon:g} remains for "
            f"rows. {plan.loses}"
        )
        alone = replace(config, test_table=None)
        with received(application, alone, rows, password=password, first=first, keep=keep_table, warn=warn) as tables:
            work = application.findings.reserve(
                as_stored(config, rows),
                table_id=tables[0],
                epsilon=plan.epsilon,
                delta=plan.delta,
                reading=kept_reading(reading),
            )
            with closing(application, work.id):
                store = application.store
                store.work.claim(work.id, host=str(work.host), pid=os.getpid(), pid_created=birth_of(os.getpid()))
                progress = StoredAndSpokenProgress(store.work, work.id, tell)
                finding = carry_out(application.installation, work.id, progress)
    filled = completed(document, finding)
    lines = [f"{one.name}: {one.said}" for one in finding.columns]
    try:
        FindResult(filled, ()).config  # noqa: B018
    except SynthError as refusal:
        lines.append(f"It cannot be run yet: {refusal}")
    return FindResult(filled, tuple(lines))
