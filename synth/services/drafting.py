"""A first draft of a configuration, from the names of a table's columns and the types of a Parquet file.

Values are looked at only where the owner asks for it, and that is recorded with the account.
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.schema import COLUMN_TYPES, TableFormat
from synth.services.files import open_table
from synth.services.views import DraftColumn

__all__ = ["draft_columns", "draft_configuration"]

_KINDS = list(COLUMN_TYPES)
_BLANKS = {kind: column_type.blank for kind, column_type in COLUMN_TYPES.items()} | {
    "": f"{{type: }}  # {', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
}

_HEAD = """\
# A draft: kinds of columns are guessed from {source}. Fill in what anyone could know without looking at the table;
# whatever you write here will be published. Each column needs missing: true, or a fallback: what a cell that cannot be
# read becomes.
table: {name}
account: {account:<16}# the people the ledger protects, for example city-survey-2026
unit:
  protects:              # person, household, organisation, ...
  rows_per_unit:         # how many rows one of them can have at most
  id_column: null        # the column that says whose row it is; needed where one can have several
row_count:               # public (printed) or private (measured with noise)
number_of_units:         # how many there are, where that is public
people_at_most:          # else a public upper bound on how many there are: for delta and the forecast
budget: {{epsilon: 1.0}}
rows:                    # how many rows to make
columns:
"""


def draft_configuration(path: str, *, look_for: str | None = None) -> str:
    """Return a configuration to edit, as YAML text with blanks where the owner has to say something.

    Parameters
    ----------
    path : str
        The table.
    look_for : str, optional
        The account with which it is recorded that the owner looked at the rows; kinds are guessed from cells then.

    Raises
    ------
    TableError
        If the table cannot be read, or its first line looks like a row.
    """
    from synth.reading.reader import inspect_header

    with open_table(path, TableFormat()) as (name, stream):
        header = inspect_header(stream, TableFormat(), look=look_for is not None)
    if look_for is not None:
        from synth.services.application import Application

        with Application.from_environment() as application:
            application.note_look(look_for, "kinds of columns")
    columns = [DraftColumn(column, kind or "") for column, kind in zip(header.names, header.kinds, strict=True)]
    source = "names and types alone" if look_for is None else "names, types and cells, which is recorded as a look"
    account = "" if look_for is None else _quoted(look_for)
    return _HEAD.format(name=_quoted(name), source=source, account=account) + "".join(draft_columns(columns))


def draft_columns(columns: Sequence[DraftColumn]) -> list[str]:
    """Return one line of YAML for every column."""
    return [f"  {_quoted(column.name)}: {_BLANKS[column.kind]}\n" for column in columns]


def _quoted(text: str) -> str:
    plain = text.replace("_", "").replace("-", "").replace(".", "")
    if plain.isalnum() and plain.isascii() and not text[0].isdigit():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
