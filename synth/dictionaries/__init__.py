"""Data dictionaries: what others wrote of a table's columns, read into declarations. Nothing here is a private row.

A dictionary is public, so it may be looked at, and words in it may be understood; but no fact that it leaves open is
put in its place. One protocol and one line below for each format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from synth.dictionaries.drafting import Described, Description, chosen_presets, describe_columns, line_of
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


@dataclass(frozen=True, slots=True)
class _Format:
    endings: tuple[str, ...]
    place: str
    most: int = DOCUMENT_BYTES


_FORMATS = (
    _Format(("csv", "tsv", "txt", "tab"), "synth.dictionaries.tables:dictionary_of_text"),
    _Format(("xlsx", "xlsm", "ods"), "synth.dictionaries.tables:dictionary_of_workbook"),
    _Format(("json", "yaml", "yml"), "synth.dictionaries.others:dictionary_of_document"),
    _Format(("names",), "synth.dictionaries.others:dictionary_of_names"),
    _Format(("zip",), "synth.dictionaries.others:dictionary_of_bundle", LARGEST_BUNDLE),
)

DICTIONARY_ENDINGS = tuple(ending for one in _FORMATS for ending in one.endings)
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
    kind = next((one for one in _FORMATS if ending in one.endings), None)
    if kind is None:
        raise ConfigError(
            f"'{shown(name)}' is no dictionary that is known here. Give a table (csv, tsv, xlsx, ods), a "
            "datapackage.json, a configuration (yaml), a names file (names) or an earlier bundle (zip)."
        )
    if len(data) > kind.most:
        raise ConfigError(f"The dictionary has more than {kind.most:,} bytes. Keep the lines of this table alone.")
    module, function = kind.place.split(":")
    read = cast(Reader, getattr(import_module(module), function))
    found = read(name, data, names)
    if not found.columns:
        raise ConfigError("The dictionary describes no column.")
    if len(found.columns) > COLUMNS:
        raise ConfigError(f"The dictionary names {len(found.columns):,} columns; at most {COLUMNS:,} are possible.")
    return found
