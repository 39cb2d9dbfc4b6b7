"""How large one input may be: anything above these limits is refused before memory is used.

``docs/known-limits.md`` lists them, and a test compares the two. The size of a table's file is a setting of the
installation (:class:`synth.system.settings.Settings`); the limits of the process that reads a table are in
:class:`synth.system.settings.ReaderLimits`.
"""

from __future__ import annotations

__all__ = [
    "COLUMNS",
    "COLUMN_PATTERNS",
    "CONSTRAINTS",
    "COUNTED_PLACES",
    "DECLARED_VALUES",
    "DESCRIPTION_CHARACTERS",
    "DOCUMENT_BYTES",
    "DOCUMENT_DEPTH",
    "DOCUMENT_NODES",
    "GROUPS",
    "NAME_CHARACTERS",
    "NUMBER_CHARACTERS",
    "PLACES",
    "ROWS",
    "TEXT_CHARACTERS",
]

NAME_CHARACTERS = 256
"""Characters of a column's name."""

DESCRIPTION_CHARACTERS = 1_000
"""Characters of the sentence that says what a column means (``description:``)."""

COLUMNS = 5_000
"""Columns of one table."""

ROWS = 120_000_000
"""Rows of one private table: no sum over them leaves 64 bits (``docs/proofs/sensitivity.md``)."""

COLUMN_PATTERNS = 100
"""Patterns and entries by which many columns are declared at once (``columns_like:``) in one configuration."""

DECLARED_VALUES = 100_000
"""Values that are declared one by one, in all columns together: categories, aliases, special values."""

PLACES, COUNTED_PLACES = 2**25, 2**20
"""Levels of all numbers and dates together, of which one of them counts as at most the second number.

A forecast with four times as many used four gigabytes. Longer ranges repeat themselves: their memory hardly grows, only
the time to go through them.
"""

TEXT_CHARACTERS = 4_096
"""Characters of any other text of a configuration: a category, a rule, a path."""

NUMBER_CHARACTERS = 1_000
"""Characters of a number, in a configuration or in a cell; a longer cell is not a number."""

CONSTRAINTS = 1_000
"""Constraints (``rules:``) of one configuration."""

GROUPS = 100
"""Columns by whose groups a report is broken down."""

DOCUMENT_BYTES = 5_000_000
"""Bytes of a configuration, a codebook or a simulation."""

DOCUMENT_NODES = 500_000
"""Keys, texts, lists and mappings of such a document."""

DOCUMENT_DEPTH = 16
"""How deeply its lists and mappings may be nested."""
