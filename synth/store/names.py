"""Names that people type: kept for display only, never used as a path."""

from __future__ import annotations

import unicodedata

from synth.errors import InputError

__all__ = ["MAXIMUM_NAME_LENGTH", "display_name"]

MAXIMUM_NAME_LENGTH = 120


def display_name(text: str, *, what: str) -> str:
    """Return a typed name in one normal form: NFKC, no control characters, single spaces, at most 120 characters.

    Parameters
    ----------
    text : str
        What was typed, or the name of an uploaded file.
    what : str
        What the name is for, used in the error: ``"The account"``.

    Raises
    ------
    InputError
        If nothing printable is left.
    """
    printable = "".join(
        " " if unicodedata.category(character)[0] in "CZ" else character
        for character in unicodedata.normalize("NFKC", text)
    )
    name = " ".join(printable.split())[:MAXIMUM_NAME_LENGTH].rstrip()
    if not name:
        raise InputError(f"{what} has no name. Give it a name with at least one letter or digit.")
    return name
