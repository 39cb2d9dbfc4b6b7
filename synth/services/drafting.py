"""A first draft of a configuration, from the names and the parsed types of a table; never from its values."""

from __future__ import annotations

from collections.abc import Sequence

from synth.config import TableFormat
from synth.errors import TableError
from synth.services.files import open_table
from synth.services.views import DraftColumn

__all__ = ["draft_columns", "draft_configuration"]

_BLANKS = {
    "number": "{type: number, low: , high: , step: 1}",
    "category": "{type: category, values: []}",
    "yes_no": '{type: yes_no, yes: "yes", no: "no"}',
    "date": "{type: date, low: , high: , step: day}",
    "identifier": "{type: identifier}",
    "drop": "{type: drop}",
}

_HEAD = """\
# A draft: kinds are guessed from names and types alone. Fill in what anyone could know without looking at the table;
# whatever you write here will be published.
table: {name}
account:                 # the people the ledger protects, for example city-survey-2026
unit: {{protects: person, rows_per_unit: 1, id_column: null}}
row_count: public        # public or private
people_at_most: 100000
budget: {{epsilon: 1.0}}
rows:                    # how many rows to make
columns:
"""


def draft_configuration(path: str) -> str:
    """Return a configuration to edit, as YAML text with blanks where the owner has to say something."""
    from synth.privacy.reader import inspect_header

    with open_table(path, TableFormat()) as (name, stream):
        header = inspect_header(stream, TableFormat())
    columns = [DraftColumn(column, kind) for column, kind in zip(header.names, header.kinds, strict=True)]
    if header.first_row_is_data:
        raise TableError(f"The first row of '{name}' looks like data, not like names. Add a first row with the names.")
    return _HEAD.format(name=_quoted(name)) + "".join(draft_columns(columns))


def draft_columns(columns: Sequence[DraftColumn]) -> list[str]:
    """Return one line of YAML for every column."""
    return [f"  {_quoted(column.name)}: {_BLANKS[column.kind]}\n" for column in columns]


def _quoted(text: str) -> str:
    plain = text.replace("_", "").replace("-", "").replace(".", "")
    if plain.isalnum() and plain.isascii() and not text[0].isdigit():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
