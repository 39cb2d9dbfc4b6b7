"""Paths that somebody gave us: checked before anything else is done with them, and never quoted where they are none.

Rows are easily given for a path: a table in memory, or the text of a file instead of its name. Whatever is wrong with
what was given is said by its type, because its text may be somebody's row.
"""

from __future__ import annotations

import os
from pathlib import Path
from unicodedata import category

from synth.errors import InputError

__all__ = ["path_of"]

_LONGEST_NAME, _LONGEST_PATH = 255, 4095
_NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that no file name has here: controls, surrogates, separators of lines and paragraphs."""

_TOLD = frozenset({"builtins", "pandas", "pandas.core.frame", "pandas.core.series", "numpy", "polars", "pyarrow.lib"})
"""Whose types are named in the message: the name of any other may be made up from what it holds."""


def path_of(given: object, what: str) -> Path:
    """Return a path, after checking that it is one.

    Parameters
    ----------
    given : object
        What somebody gave for a path.
    what : str
        What it names, for the message: "the table".

    Raises
    ------
    InputError
        If it is no text and no path object, or holds what no file name holds: a line break or another control
        character, text that cannot be encoded, or too much of it.
    """
    if not isinstance(given, str | Path):
        kind = type(given)
        name = "another object" if kind.__module__ not in _TOLD else f"{kind.__module__}.{kind.__qualname__}"
        raise InputError(
            f"The path of {what} must be a text or a pathlib.Path, got {name.removeprefix('builtins.')}. Give the path "
            "of a file; what is in memory is written to one first."
        )
    text = str(given)
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        encoded = b""
    names = encoded.split(os.fsencode(os.sep))
    too_long = len(encoded) > _LONGEST_PATH or max(map(len, names)) > _LONGEST_NAME
    if not encoded or not _NO_NAME.isdisjoint(map(category, text)) or too_long:
        raise InputError(f"What was given as the path of {what} is no path. Give the path of a file, not its content.")
    return Path(text)
