"""Data dictionaries: what others wrote about a table's columns, read into declarations. Nothing here is private.

A dictionary is public, so it may be read, and its words may be interpreted; but nothing is invented for a fact that it
leaves open. Each format has one reader and one line below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synth.dictionaries.drafting import Description, chosen_presets, describe_columns, line_of, with_words
from synth.dictionaries.others import dictionary_of_bundle, dictionary_of_document, dictionary_of_names
from synth.dictionaries.statistical import dictionary_of_file
from synth.dictionaries.tables import dictionary_of_text, dictionary_of_workbook
from synth.dictionaries.understanding import Dictionary, DictionaryColumn, open_facts
from synth.errors import ConfigError
from synth.limits import COLUMNS, DOCUMENT_BYTES
from synth.names import shown

__all__ = [
    "DICTIONARY_ENDINGS",
    "LARGEST_BUNDLE",
    "Description",
    "Dictionary",
    "DictionaryColumn",
    "chosen_presets",
    "describe_columns",
    "dictionary_of_file",
    "line_of",
    "open_facts",
    "read_dictionary",
    "with_words",
]

LARGEST_BUNDLE = 200_000_000
"""Most bytes of an earlier bundle whose schema is read; other dictionaries are at most as large as a document."""

Reader = Callable[[str, bytes, Sequence[str]], Dictionary]
"""Reads a file, given its name, its bytes and the names of the table's columns, if they are known."""

_READERS: dict[str, Reader] = {
    **dict.fromkeys(("csv", "tsv", "txt", "tab"), dictionary_of_text),
    **dict.fromkeys(("xlsx", "xlsm", "ods"), dictionary_of_workbook),
    **dict.fromkeys(("json", "yaml", "yml"), dictionary_of_document),
    "names": dictionary_of_names,
    "zip": dictionary_of_bundle,
}

DICTIONARY_ENDINGS = tuple(_READERS)
"""Endings of the names of such files."""


def read_dictionary(name: str, data: bytes, *, names: Sequence[str] = ()) -> Dictionary:
    """Read a data dictionary.

    Parameters
    ----------
    name : str
        The name of its file, whose ending says what it is; ``pasted.tsv`` for cells from a spreadsheet.
    data : bytes
    names : sequence of str
        Columns of the table, if they are known: they identify cells without a header, and the right one of several
        described tables.

    Raises
    ------
    InputError
        In one sentence, if nothing in it can be used.
    """
    ending = name.rpartition(".")[2].lower()
    if ending not in _READERS:
        raise ConfigError(
            f"'{shown(name)}' is not a known kind of data dictionary. Give a table (csv, tsv, xlsx, ods), a "
            "datapackage.json, a configuration (yaml), a names file (names) or an earlier bundle (zip)."
        )
    most = LARGEST_BUNDLE if ending == "zip" else DOCUMENT_BYTES
    if len(data) > most:
        raise ConfigError(f"The dictionary has more than {most:,} bytes. Keep only the lines about this table.")
    found = _READERS[ending](name, data, names)
    if not found.columns:
        raise ConfigError("The dictionary describes no column.")
    if len(found.columns) > COLUMNS:
        raise ConfigError(f"The dictionary names {len(found.columns):,} columns; at most {COLUMNS:,} are allowed.")
    return found
