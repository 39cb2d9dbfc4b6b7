"""Paths from users: checked before they are used, and never quoted if they are not paths.

It is easy to give rows instead of a path: a table in memory, or the content of a file instead of its name. Messages
state only the type of what was given, because its text may be a private row.
"""

from __future__ import annotations

import os
from pathlib import Path
from unicodedata import category

from synth.errors import InputError

__all__ = ["path_of"]

_LONGEST_NAME, _LONGEST_PATH = 255, 4095
_NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories not allowed in file names: controls, surrogates, line and paragraph separators."""

_TOLD = frozenset({"builtins", "pandas", "pandas.core.frame", "pandas.core.series", "numpy", "polars", "pyarrow.lib"})
"""Modules whose types the message may name: other type names could be made from data."""


def path_of(given: object, what: str) -> Path:
    """Return a path, after checking that it is one.

    Parameters
    ----------
    given : object
        What was given as a path.
    what : str
        What the path is for, in the message: "the table".

    Raises
    ------
    InputError
        If it is neither text nor a path object, or contains what no file name has: a line break or another control
        character, text that cannot be encoded, or too much text.
    """
    if not isinstance(given, str | Path):
        kind = type(given)
        name = "another object" if kind.__module__ not in _TOLD else f"{kind.__module__}.{kind.__qualname__}"
        raise InputError(
            f"The path of {what} must be text or a pathlib.Path, got {name.removeprefix('builtins.')}. Give the path "
            "of a file; write data in memory to a file first."
        )
    text = str(given)
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        encoded = b""
    names = encoded.split(os.fsencode(os.sep))
    too_long = len(encoded) > _LONGEST_PATH or max(map(len, names)) > _LONGEST_NAME
    if not encoded or not _NO_NAME.isdisjoint(map(category, text)) or too_long:
        raise InputError(
            f"What was given as the path of {what} is not a path. Give the path of a file, not its content."
        )
    return Path(text)
