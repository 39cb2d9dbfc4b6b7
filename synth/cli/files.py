"""Files on the owner's machine: tables (one file, or several as one), drafts of configurations, and outputs.

A draft uses the names of a table's columns and the types of a Parquet file. Cells are read only if the owner asks for
it, and that look is recorded with the account.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from synth.cli.like_lines import like_lines
from synth.errors import ConfigError, InputError
from synth.names import shown
from synth.schema import (
    COLUMN_TYPES,
    DateColumn,
    LinkedTables,
    Preset,
    TableFormat,
    TimeColumn,
    format_to_mapping,
    parse_format,
    preset_for,
)
from synth.schema.documents import to_yaml
from synth.schema.guesses import (
    ColumnKind,
    fate_of,
    holds_time_by_name,
    order_by_name,
    with_step,
)
from synth.schema.rule_proposals import proposed_rules
from synth.schema.schema import is_table_name
from synth.schema.source import DatabaseSource
from synth.services.table_paths import open_table
from synth.system.paths import path_of
from synth.system.settings import ReaderLimits, Settings

if TYPE_CHECKING:
    from synth.dictionaries import Description, Dictionary
    from synth.services.inspection import Header
    from synth.services.recognition import Recognised

__all__ = [
    "draft_configuration",
    "empty_folder",
    "format_keys",
    "format_of",
    "format_over",
    "names_in_source",
    "new_file",
    "said_of_format",
]

_KINDS = list(COLUMN_TYPES)
_BLANKS = {kind: column_type.blank for kind, column_type in COLUMN_TYPES.items()} | {
    "": f"{{type: }}  # {', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
}

_HEAD = """\
# A draft: the types of columns are guessed from names and types only. Fill in what anyone could know without looking
# at the table: everything in this file will be published. Each column needs either missing: true, or a fallback that
# replaces cells that cannot be read. The step of a number is 1 for whole numbers, 0.1 or 0.01 for decimals.
{table}
account: {account:<16}# the people the ledger protects, for example city-survey-2026
unit:
  protects:              # person, household, organisation, ...
  rows_per_unit:         # the most rows that one of them can have
  id_column: {whose}{together}
row_count:               # public (printed) or private (measured with noise)
number_of_units:         # how many of them there are, if that is public
people_at_most:          # otherwise a public upper bound on how many there are, for delta and the forecast
budget: {{epsilon: 1.0}}
{made}
"""

_WHOSE = "null        # the column that says whose row it is; required if one can have several rows"
_ROWS = "rows:                    # how many synthetic rows to make; or instead people: and how many of them"
_PEOPLE = "people:                  # how many synthetic people to make, each with their rows"

_OF_MANY = "columns_like:  # each line is for all columns whose names fit: * is any text, [0-9] one digit\n"


def format_of(said: Sequence[str], names: Callable[[], Sequence[str]] = tuple) -> TableFormat:
    """Read the format of a file from texts such as ``encoding=latin-1``, with the keys of a configuration.

    The items of a list are separated by commas; a new name, or the positions of a field, follow a colon
    (``rename=column_3:income``, ``fields=id:1-5,age:6-7``); a tab is written as the word tab. ``names`` gives those of
    a dictionary, for a file without a header that names none.

    Raises
    ------
    ConfigError
        If a key is unknown, or a value cannot be used.
    """
    given = format_keys(said)
    if given.get("header") is False and "names" not in given and (known := list(names())):
        given["names"] = known
    form = parse_format(given, "--format")
    form.check()
    return form


def format_over(form: TableFormat, said: Sequence[str]) -> TableFormat:
    """Return a format with some of its keys replaced. Errors as :func:`format_of`."""
    if not said:
        return form
    return parse_format({**format_to_mapping(form), **format_keys(said)}, "--format")


def format_keys(said: Sequence[str]) -> dict[str, object]:
    """Return the keys of a format that texts such as ``encoding=latin-1`` name, as in a configuration.

    Raises
    ------
    ConfigError
        If a text names no key.
    """
    given: dict[str, object] = {}
    for one in said:
        key, sign, value = one.partition("=")
        if not sign:
            raise ConfigError(f"--format {shown(one)} must be a key and a value, such as encoding=latin-1.")
        plain = {"true": True, "yes": True, "false": False, "no": False, "tab": "\t"}.get(value.lower(), value)
        is_list = key in {"names", "missing", "units", "dates"} or (key == "labels" and not isinstance(plain, bool))
        given[key] = [part.strip() for part in value.split(",")] if is_list else plain
        if key in {"rename", "fields"}:
            given[key] = dict(part.strip().partition(":")[::2] for part in value.split(","))
    return given


def draft_configuration(
    path: str | DatabaseSource,
    *,
    look_for: str | None = None,
    dictionaries: Sequence[str] = (),
    presets: Sequence[str] = (),
    empty: bool = False,
    written: Sequence[str] = (),
    vouched: bool = False,
    tell: Callable[[str], None] | None = None,
    password: str | None = None,
    second: str | None = None,
    key: str | None = None,
) -> str:
    """Return a configuration to edit, as YAML text with blanks for the owner to fill in.

    Parameters
    ----------
    path : str or DatabaseSource
        The table, or a table of a database; no row of a database is read.
    look_for : str, optional
        Propose everything from cells too, and record with this account that the owner looked at the rows.
    dictionaries : sequence of str
        Paths of data dictionaries; a later one adds what the earlier ones leave open.
    presets : sequence of str
        Presets for columns, as :func:`synth.dictionaries.chosen_presets` reads them.
    empty : bool
        Whether empty and unreadable cells become missing in every column that says nothing else.
    written : sequence of str
        The format of the table, as :func:`format_of` reads it; if it needs names, the first dictionary gives them.
    vouched : bool
        Whether the owner vouches that the first line holds names, though it looks like a row.
    tell : callable, optional
        Called with what was not taken from a dictionary, and with the columns that a guess would drop or replace.
    password : str, optional
        The password of the database.
    second : str, optional
        A second table with rows of the same people.
    key : str, optional
        The column that says in both whose row it is; may be left out where they have one column in common.

    Raises
    ------
    InputError
        If the table or a dictionary cannot be read, the table's first line looks like a row, or two tables do not
        belong together.
    """
    from synth.cli.drafting import together_by_name
    from synth.dictionaries import chosen_presets, describe_columns, dictionary_of_file
    from synth.services.recognition import read_header

    form = format_of(written, lambda: [one.name for path in dictionaries[:1] for one in _dictionary(path).columns])
    tell = tell or _say_nothing
    if look_for is not None and isinstance(path, str):
        return _draft_after_look(path, look_for, form, dictionaries, chosen_presets(presets), empty, tell)
    opened = names_in_source(path, password) if isinstance(path, DatabaseSource) else open_table(path, form)
    with opened as (name, stream):
        header = read_header(stream, form, vouched=vouched)
    asked = {"whose": _WHOSE, "made": _ROWS, "together": together_by_name(header.names)}
    table, tables = f"table: {_quoted(name)}", None
    if second is not None:
        with open_table(second, form) as (other, stream):
            header, tables = _both(header, read_header(stream, form, vouched=vouched), name, other, key)
        both = {tables.first: name, tables.second: other, "key": tables.key}
        table = f"tables: {{{', '.join(f'{said}: {_quoted(one)}' for said, one in both.items())}}}"
        whose = f"  id_column: {_quoted(tables.key)}"
        order = "" if (found := order_by_name(header.names)) is None else _quoted(found)
        ordered = f"{f'  ordered_by: {order}':25}# the number or date by which rows of '{tables.second}' are in order"
        asked = {"whose": f"{whose:25}# the key of both tables"[13:], "made": _PEOPLE, "together": f"\n{ordered}"}
    read = [_dictionary(one, header.names) for one in dictionaries]
    own = dictionary_of_file(header.names, header.described)
    known = describe_columns(header.names, read if own is None else [*read, own], chosen_presets(presets))
    for note in known.notes:
        tell(note)
    _tell_fates(header, known, tell)
    if isinstance(path, DatabaseSource):
        table = to_yaml({"source": path.to_mapping()}).rstrip()
    head = _HEAD.format(table=table, account="", **asked)
    if form != TableFormat():
        head += f"format: {json.dumps(said_of_format(form), ensure_ascii=False)}\n"
    drafted = _drafted_columns(header, known, empty)
    if tables is not None:
        drafted = (
            f"columns:\n  {_quoted(tables.key)}: {{type: identifier}}\n{drafted.removeprefix('columns:' + chr(10))}"
        )
    return head + drafted + _sources(known) + _proposed(header.names)


def _both(
    first: Header, second: Header, first_file: str, second_file: str, key: str | None
) -> tuple[Header, LinkedTables]:
    """Return what two files that belong together say about their columns but the key, and what they are called."""
    from synth.services.inspection import Header

    shared = [name for name in first.names if name in second.names]
    if key is None and len(shared) == 1:
        key = shared[0]
    if key is None or key not in shared:
        have = f"Both have: {', '.join(map(shown, shared))}." if shared else "They have no column in common."
        raise InputError(f"Name the column that says in both tables whose row it is with --key. {have}")
    if len(shared) > 1:
        others = ", ".join(f"'{shown(name)}'" for name in shared if name != key)
        raise InputError(
            f"Both tables have {others} beside the key. Give columns of different contents different names."
        )
    stems = (Path(one).name.partition(".")[0] for one in (first_file, second_file))
    called = [one if is_table_name(one) else usual for one, usual in zip(stems, ("people", "rows"), strict=True)]
    tables = LinkedTables(called[0], called[1], key)
    kept = [[place for place, name in enumerate(one.names) if name != key] for one in (first, second)]

    def together(of: Callable[[Header], Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(of(one)[place] for one, places in zip((first, second), kept, strict=True) for place in places)

    described = together(lambda one: one.described) if first.described and second.described else ()
    joined = Header(together(lambda one: one.names), together(lambda one: one.kinds), n_rows=0, described=described)
    return joined, tables


def _say_nothing(text: str) -> None:
    """Tell nobody."""


def _draft_after_look(
    path: str,
    account: str,
    form: TableFormat,
    dictionaries: Sequence[str],
    presets: Mapping[str, tuple[Preset, str | None]],
    empty: bool,
    tell: Callable[[str], None],
) -> str:
    from synth.application import Application
    from synth.cli.drafting import drafted_after_look, fates_after_look
    from synth.dictionaries import describe_columns, dictionary_of_file

    with Application.for_local_user() as application, open_table(path, form) as (name, stream):
        found = application.intake.recognise(stream, form, look_for=account)
    names = [column.name for column in found.columns]
    own = dictionary_of_file(names, found.described, unlabelled=_unlabelled(found))
    read = [_dictionary(one, names) for one in dictionaries]
    known = describe_columns(names, read if own is None else [*read, own], presets)
    fates = fates_after_look(found, known)
    proposed = ["These are proposals. Change them in the file if they are wrong:"] if fates else []
    for note in (*known.notes, *proposed, *(f"  {fate}" for fate in fates)):
        tell(note)
    said = said_of_format(found.form)
    drafted = drafted_after_look(f"table: {_quoted(name)}", _quoted(account), found, known, form=said, empty=empty)
    return drafted + _proposed(names)


def _unlabelled(found: Recognised) -> set[str]:
    """Return the columns whose labels do not list what rows hold, by what the look at them proposes."""
    unlabelled = {column.name for column in found.columns}
    for column, described in zip(found.columns, found.described, strict=False):
        body = column.body
        proposed = body.get("values") or [body[key] for key in ("yes", "no") if key in body]
        if proposed and set(proposed) <= {cell for cell, _ in described.values}:
            unlabelled.discard(column.name)
    return unlabelled


def _proposed(names: Sequence[str]) -> str:
    """Return the rules that the names of columns suggest, as comments: none applies until the owner says so."""
    lines = proposed_rules(names)
    if not lines:
        return ""
    words = (
        "# By the names of the columns these rules may hold (docs/describing-a-table.md). Uncomment those that do.\n"
    )
    return words + "# rules:\n" + "".join(f"#   - {json.dumps(line, ensure_ascii=False)}\n" for line in lines)


@contextmanager
def names_in_source(source: DatabaseSource, password: str | None) -> Iterator[tuple[str, BinaryIO]]:
    """Open the table of a database without its rows, as :func:`open_table` opens a file."""
    from synth.services.databases import connections_for, rows_of

    connections = connections_for(Settings.from_environment())
    with (
        tempfile.TemporaryDirectory() as folder,
        rows_of(
            source,
            password=password,
            directory=Path(folder),
            limits=ReaderLimits(),
            connections=connections,
            only_names=True,
        ) as stream,
    ):
        yield source.name, stream


def _dictionary(path: str, names: Sequence[str] = ()) -> Dictionary:
    """Read a data dictionary that a user names; ``names`` are those of the table."""
    from synth.dictionaries import LARGEST_BUNDLE, read_dictionary

    place = path_of(path, "the dictionary")
    try:
        with place.open("rb") as stream:
            data = stream.read(LARGEST_BUNDLE + 1)
    except OSError:
        raise InputError(
            f"The dictionary '{place.name}' cannot be opened. Check the path after --dictionary."
        ) from None
    return read_dictionary(place.name, data, names=names)


def said_of_format(form: TableFormat) -> dict[str, Any]:
    """Return the keys of a format that differ from the default, as in a configuration."""
    usual = format_to_mapping(TableFormat())
    return {key: value for key, value in format_to_mapping(form).items() if usual.get(key) != value}


def _tell_fates(header: Header, known: Description, tell: Callable[[str], None]) -> None:
    """Report which columns a guess would drop or replace, and why."""
    guessed = {name: fate_of(name, kind or "") for name, kind in zip(header.names, header.kinds, strict=True)}
    fates = {name: fate for name, fate in guessed.items() if fate is not None and name not in known.declared}
    if fates:
        tell("These are guesses. Change them in the file if they are wrong:")
        for name, fate in fates.items():
            tell(f"  {shown(name)} would be {fate}")


def _drafted_columns(header: Header, known: Description, empty: bool) -> str:
    """Return the sections about columns: what is known of each, or a guess; many of which the same is asked share one.

    A guess that would drop or replace a column is followed by the reason.
    """
    from synth.dictionaries import line_of, with_words

    kinds = dict(zip(header.names, header.kinds, strict=True))
    declared = known.declared
    guessed = {name: _guessed(name, kind) for name, kind in kinds.items() if name not in declared}
    alone = {name for name in header.names if name in known.columns or holds_time_by_name(name)}
    shared = like_lines({name: line for name, line in guessed.items() if name not in alone}, header.names)
    in_shared = {name for group in shared.values() for name in group}
    lines = []
    for name, kind in kinds.items():
        if name in in_shared:
            continue
        column = declared.get(name)
        if column is not None:
            line = line_of(column.body, empty=empty)
        elif name in known.columns:
            line = with_words(guessed[name], known.columns[name].body)
        else:
            line = guessed[name]
        lines.append(f"  {_quoted(name)}: {line}\n")
        beside = {
            other: one.body
            for other, one in declared.items()
            if one.body.get("of") == name and other not in header.names
        }
        lines += [f"  {_quoted(other)}: {line_of(body, empty=empty)}\n" for other, body in beside.items()]
        if column is None and kind == DateColumn.kind and holds_time_by_name(name) and not beside:
            offered = line_of({"type": TimeColumn.kind, "step": "quarter", "of": name}, empty=empty)
            lines.append(f"  # {_quoted(f'{name} time')}: {offered}  # to learn the time in its cells too\n")
    of_one, of_many = "".join(lines), "".join(f"  - {entry}\n" for entry in shared)
    return (f"columns:\n{of_one}" if of_one else "") + (f"{_OF_MANY}{of_many}" if of_many else "")


def _guessed(name: str, kind: ColumnKind | None) -> str:
    """Return the line of a column of which nothing is declared: its type as guessed, with blanks."""
    fate, preset = fate_of(name, kind or ""), preset_for(name)
    line = with_step(_BLANKS[kind or ""], name) + (f"  # {fate}: is that right?" if fate else "")
    # An offer from the name only; the owner decides.
    return line + ("" if preset is None else f"  # or --preset {preset.key}={shlex.quote(name)}")


def _sources(known: Description) -> str:
    """Return the section that says where declarations come from; empty without a dictionary or a preset."""
    said = {name: column.source for name, column in known.declared.items()}
    if not said:
        return ""
    return to_yaml({"domain_source": said})


def _quoted(text: str) -> str:
    plain = text.replace("_", "").replace("-", "").replace(".", "")
    if plain.isalnum() and plain.isascii() and not text[0].isdigit():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# What is written ------------------------------------------------------------------------------------------------------


def new_file(out: str | Path, remedy: str = "Name a new file after --out.") -> Path:
    """Return the file that a user named, after checking that its folder exists and no file would be overwritten."""
    path = path_of(out, "the report")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"The folder of the file '{path.name}' does not exist. Name a file in an existing folder after --out."
        )
    if path.exists():
        raise InputError(f"The file '{path.name}' already exists. {remedy}")
    _require_writable(path.absolute().parent)
    return path


def empty_folder(out: str | Path, *, force: bool) -> Path:
    """Return the folder that a user named, after checking that no file in it would be overwritten."""
    folder = path_of(out, "the folder")
    if any(parent.is_file() for parent in folder.absolute().parents):
        raise InputError(f"The folder '{folder.name}' would be inside a file. Name another one after --out.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder.name}' is a file. Name a folder after --out.")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"The folder '{folder.name}' is not empty. Name a new one, or add --force.")
    _require_writable(folder.absolute())
    return folder


def _require_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be made, before anything is charged for what would be written there."""
    there = next(one for one in (folder, *folder.parents) if one.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError:
        raise InputError(
            f"Nothing can be written to the folder '{there.name or there}'. Choose another, or change its permissions."
        ) from None
