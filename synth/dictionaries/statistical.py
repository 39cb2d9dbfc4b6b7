"""What a file of SPSS, Stata or SAS says about its own columns, read as a dictionary.

These are labels of columns and of values, and times of day. All of it is declared in the file, not read from rows: a
label of a value counts whether or not a row has it.
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
        Columns of which it is known that not all values have labels, so that these say too little of the values.
    """
    found = (_column(name, one, use_labels=name not in unlabelled) for name, one in zip(names, described, strict=False))
    columns = tuple(column for column in found if column.body or column.left)
    return Dictionary("the file itself", columns) if columns else None


def _column(name: str, described: Described, *, use_labels: bool) -> DictionaryColumn:
    facts = Facts(name, description=described.label)
    too_many = f"'{shown(name)}' has more than {MOST_LABELS:,} labels of values."
    left = (too_many,) if len(described.values) > MOST_LABELS else ()
    # A single label is that of a number among others.
    if use_labels and not left and len(described.values) > 1:
        # In all three programs a cell of such a column may be missing.
        facts.empty = "yes"
        facts.codes = [(cell, None if cell == label else label) for cell, label in described.values]
    found = understand(facts)
    time = {"type": "time", "step": "quarter", "missing": True} if use_labels and described.kind == "time" else {}
    return DictionaryColumn(name, {**time, **found.body}, (*left, *found.left))
