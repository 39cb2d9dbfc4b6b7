"""Data dictionaries: what others wrote of a table's columns, read into declarations. Nothing here is a private row.

A dictionary is public, so it may be looked at, and words in it may be understood; but no fact that it leaves open is
put in its place. One reader and one line below for each format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synth.dictionaries.drafting import Described, Description, chosen_presets, describe_columns, line_of
from synth.dictionaries.others import dictionary_of_bundle, dictionary_of_document, dictionary_of_names
from synth.dictionaries.tables import dictionary_of_text, dictionary_of_workbook
from synth.dictionaries.understanding import Dictionary, DictionaryColumn, open_facts, said_in_words
from synth.errors import ConfigError
from synth.limits import COLUMNS, DOCUMENT_BYTES
from synth.names import shown

__all__ = [
    "DICTIONARY_ENDINGS",
    "LARGEST_BUNDLE",
    "Described",
    "Description",
    "Dictionary",
    "DictionaryColumn",
    "chosen_presets",
    "describe_columns",
    "line_of",
    "open_facts",
    "read_dictionary",
    "said_in_words",
]

LARGEST_BUNDLE = 200_000_000
"""Bytes of an earlier bundle whose schema is taken; any other dictionary is at most as large as a document."""

Reader = Callable[[str, bytes, Sequence[str]], Dictionary]
"""Reads the file of a name; names of the table's columns are known where there is one."""

_READERS: dict[str, Reader] = {
    **dict.fromkeys(("csv", "tsv", "txt", "tab"), dictionary_of_text),
    **dict.fromkeys(("xlsx", "xlsm", "ods"), dictionary_of_workbook),
    **dict.fromkeys(("json", "yaml", "yml"), dictionary_of_document),
    "names": dictionary_of_names,
    "zip": dictionary_of_bundle,
}

DICTIONARY_ENDINGS = tuple(_READERS)
"""What the names of such files end with."""


def read_dictionary(name: str, data: bytes, *, names: Sequence[str] = ()) -> Dictionary:
    """Read a data dictionary.

    Parameters
    ----------
    name : str
        Its file's name, whose ending says what it is; ``pasted.tsv`` for cells from a spreadsheet.
    data : bytes
    names : sequence of str
        Columns of the table, where they are known: cells without a header are then told by them, and of several
        described tables the one that is meant.

    Raises
    ------
    InputError
        In one sentence, if nothing of it can be taken.
    """
    ending = name.rpartition(".")[2].lower()
    if ending not in _READERS:
        raise ConfigError(
            f"'{shown(name)}' is no dictionary that is known here. Give a table (csv, tsv, xlsx, ods), a "
            "datapackage.json, a configuration (yaml), a names file (names) or an earlier bundle (zip)."
        )
    most = LARGEST_BUNDLE if ending == "zip" else DOCUMENT_BYTES
    if len(data) > most:
        raise ConfigError(f"The dictionary has more than {most:,} bytes. Keep the lines of this table alone.")
    found = _READERS[ending](name, data, names)
    if not found.columns:
        raise ConfigError("The dictionary describes no column.")
    if len(found.columns) > COLUMNS:
        raise ConfigError(f"The dictionary names {len(found.columns):,} columns; at most {COLUMNS:,} are possible.")
    return found
