"""What a file of SPSS, Stata or SAS says about its own columns, read as a dictionary: labels of values, times of day.

It is declared in the file, not read from rows. A label counts whether or not a row has its value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from synth.dictionaries.understanding import Dictionary, DictionaryColumn, Facts, understand
from synth.names import shown
from synth.reading.more.statistical import MOST_LABELS, Described

__all__ = ["dictionary_of_file"]


def dictionary_of_file(
    names: Sequence[str], described: Sequence[Described], *, unlabelled: Collection[str] = ()
) -> Dictionary | None:
    """Return what a file says about its columns; None where it says nothing that a declaration needs.

    Parameters
    ----------
    names : sequence of str
        Of its columns.
    described : sequence of Described
        Of the same columns; empty for a file that says nothing.
    unlabelled : collection of str
        Columns of which it is known that not all values have labels, so that their labels say too little.
    """
    found = [_column(name, one) for name, one in zip(names, described, strict=False) if name not in unlabelled]
    columns = tuple(column for column in found if column is not None)
    return Dictionary("the file itself", columns) if columns else None


def _column(name: str, described: Described) -> DictionaryColumn | None:
    if described.kind == "time":
        return DictionaryColumn(name, {"type": "time", "step": "quarter", "missing": True})
    if len(described.values) < 2:  # a single label is that of a number among others
        return None
    if len(described.values) > MOST_LABELS:
        return DictionaryColumn(name, {}, (f"'{shown(name)}' has more than {MOST_LABELS:,} labels of values.",))
    codes = [(cell, None if cell == label else label) for cell, label in described.values]
    # In all three programs a cell of such a column may be missing.
    return understand(Facts(name, empty="yes", codes=codes))
