"""What a table that is not described yet seems to be: proposals about format and columns, each with its evidence.

All of it is for the owner alone: what a look at rows found depends on private rows, and no sentence here is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from synth.errors import InputError
from synth.reading.more.statistical import Described
from synth.schema import READ_FROM_ROWS, ModelledColumn, TableFormat, format_to_mapping, parse_column, parse_format

__all__ = ["ColumnProposal", "FormatProposal", "Recognised", "Together"]


@dataclass(frozen=True, slots=True)
class FormatProposal:
    """One key of a format that fits the file.

    Attributes
    ----------
    key : str
        The key of :class:`synth.schema.TableFormat`.
    value : object
        What to write under it; None where the file allows several values, among which only the owner can choose.
    evidence : str
        Why, in one sentence.
    choices : tuple
        The values that fit equally well; empty where there is one.
    """

    key: str
    value: Any
    evidence: str
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """What one column seems to be.

    Attributes
    ----------
    name : str
    body : mapping
        The keys of a configuration, ready for :func:`synth.schema.parse_column`; empty where only the owner can choose.
    evidence : str
        Why, in one sentence.
    rarer : int
        How many values are not shown because too few rows hold them.
    note : str
        What the owner should know beside it.
    choices : tuple of mapping
        The bodies that fit equally well; empty where there is one.
    rows_per_value : int
        Of an identifier: how many rows its most frequent value has; otherwise 0.
    """

    name: str
    body: Mapping[str, Any]
    evidence: str
    rarer: int = 0
    note: str = ""
    choices: tuple[Mapping[str, Any], ...] = ()
    rows_per_value: int = 0

    def with_description(self, description: str) -> Self:
        """Return the same with what the column means, in the file's own words; empty where it says nothing."""
        if not description:
            return self
        words = {"description": description}
        body = {**self.body, **words} if self.body else {}
        return replace(self, body=body, choices=tuple({**one, **words} for one in self.choices))

    @property
    def is_modelled(self) -> bool:
        """Whether it proposes a range or values, which are then taken from the rows."""
        return any(
            isinstance(parse_column(self.name, one), ModelledColumn) for one in (self.body, *self.choices) if one
        )


@dataclass(frozen=True, slots=True)
class Together:
    """What the rows of one id seem to have in common, by those at the top of the table.

    Attributes
    ----------
    id_column : str
    same : tuple of str
        Columns that never differ between rows of one id.
    order : str, optional
        A date or a number that never falls from a row of an id to its next, and mostly rises.
    evidence : str
        What this was seen in.
    """

    id_column: str
    same: tuple[str, ...]
    order: str | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Recognised:
    """How a file seems to be written, and what its columns seem to be.

    Attributes
    ----------
    form : TableFormat
        The format with all proposals that have one value.
    proposals : tuple of FormatProposal
        What differs from the format that was given.
    columns : tuple of ColumnProposal
        One for every column, in the order of the file; none without a look at the rows.
    looked : bool
        Whether rows were looked at.
    rows, unreadable, blank : int
        How many lines are rows in this format, how many of them cannot be read, and how many are blank; for the owner
        only, and 0 without a look.
    described : tuple of Described
        What a file of SPSS, Stata or SAS says about its columns, which is public; empty for other files.
    together : tuple of Together
        One for every column that identifies several rows of one person or other unit.
    """

    form: TableFormat
    proposals: tuple[FormatProposal, ...] = ()
    columns: tuple[ColumnProposal, ...] = ()
    looked: bool = False
    rows: int = 0
    unreadable: int = 0
    blank: int = 0
    described: tuple[Described, ...] = ()
    together: tuple[Together, ...] = ()

    @property
    def open(self) -> tuple[FormatProposal, ...]:
        """The proposals among whose values only the owner can choose."""
        return tuple(one for one in self.proposals if one.choices)

    @property
    def domain_source(self) -> dict[str, str]:
        """Where the ranges and values of the proposed columns come from, for every column that has some."""
        return {column.name: READ_FROM_ROWS for column in self.columns if column.is_modelled}

    def together_by(self, id_column: str | None) -> Together | None:
        """Return what the rows of one id have in common, where this column identifies them."""
        return next((one for one in self.together if one.id_column == id_column), None)

    def chosen(self, key: str, value: object) -> Self:
        """Return the same with a value chosen for an open key of the format, and what follows for the columns.

        Raises
        ------
        InputError
            If the key is not open, or the value is not one of its choices.
        """
        asked = next((one for one in self.open if one.key == key), None)
        if asked is None or value not in asked.choices:
            raise InputError(f"'{key}' is not an open question about this file, or has no such answer.")
        place = asked.choices.index(value)
        said = {**format_to_mapping(self.form), key: value}
        settled = tuple(replace(one, value=value, choices=()) if one is asked else one for one in self.proposals)
        columns = tuple(
            replace(one, body=one.choices[place], choices=()) if _asks_about(one, key) else one for one in self.columns
        )
        return replace(self, form=parse_format(said), proposals=settled, columns=columns)


_KEY_OF_COLUMN = {"dates": "pattern", "decimal": "decimal"}
"""By a key of a format, the key of a column that decides the same."""


def _asks_about(column: ColumnProposal, key: str) -> bool:
    return bool(column.choices) and _KEY_OF_COLUMN[key] in column.choices[0]
