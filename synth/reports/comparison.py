"""Publishable numbers of several runs side by side, and which of them differ by more than their noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from synth.reports.evidence import Evidence, OwnerOnlyEvidence, Publishable
from synth.reports.figures import Bars, Series, Table

__all__ = ["ComparedNumber", "compared_table", "numbers_side_by_side"]

_DISTANCE = "total variation"

_COARSE, _COARSE_WORDS = ".coarse_", "at most 32 bins a column"
"""Marks the ids of distances by coarse bins, as opposed to every value, and the words that mark their titles."""


@dataclass(frozen=True, slots=True)
class ComparedNumber:
    """One number of several runs.

    Attributes
    ----------
    id, title, unit : str
        As in the reports.
    values : tuple of float or None
        One for each run; None where a run has no such number.
    errors : tuple of float or None
        Half the width of the range that covers 95 %, where it is known.
    """

    id: str
    title: str
    unit: str
    values: tuple[float | None, ...]
    errors: tuple[float | None, ...]

    @property
    def apart(self) -> bool | None:
        """Whether the smallest and the largest differ by more than the noise of both; None where that is not known."""
        known = [
            (value, error)
            for value, error in zip(self.values, self.errors, strict=True)
            if value is not None and error is not None
        ]
        if len(known) < 2 or len(known) < sum(value is not None for value in self.values):
            return None
        (low, low_error), (high, high_error) = min(known), max(known)
        return high - low > math.hypot(low_error, high_error)

    def bars(self, names: Sequence[str]) -> Bars:
        """Return a picture of the runs that have the number."""
        shown = [place for place, value in enumerate(self.values) if value is not None]
        values = tuple(value for value in self.values if value is not None)
        known = tuple(error for error in (self.errors[place] for place in shown) if error is not None)
        errors = known if len(known) == len(values) else None
        series = Series(
            name="synthetic rows",
            meaning="synthetic",
            values=values,
            errors=errors,
            # A distance cannot be below 0, however wide its noise.
            below=None
            if errors is None or self.unit != _DISTANCE
            else tuple(min(error, value) for error, value in zip(errors, values, strict=True)),
        )
        categories = tuple(names[place] for place in shown)
        low, high = (categories[values.index(end(values))] for end in (min, max))
        return Bars(
            title=f"{self.title}: smallest in {low}, largest in {high}" if low != high else f"{self.title}: alike",
            unit=self.unit,
            categories=categories,
            series=(series,),
            subtitle=_APART[self.apart],
        )


_APART = {
    True: "They differ by more than privacy noise explains.",
    False: "Privacy noise alone may explain the difference.",
    None: "",
}


def numbers_side_by_side(reports: Sequence[Sequence[Evidence]]) -> tuple[ComparedNumber, ...]:
    """Return every number that at least two reports have, in the order in which reports name it first.

    Parameters
    ----------
    reports : sequence of sequence of Evidence
        Publishable numbers of each run.

    Raises
    ------
    TypeError
        If a number is for the owner only: choosing between runs by it would not be covered by what was paid.
    """
    by_id: dict[str, Publishable] = {}
    of_run: list[Mapping[str, Publishable]] = []
    for report in reports:
        own: dict[str, Publishable] = {}
        for entry in report:
            if isinstance(entry, OwnerOnlyEvidence):
                raise TypeError(f"'{entry.id}' is for the owner only and cannot be compared.")
            if _is_number(entry):
                own[entry.id] = entry
                by_id.setdefault(entry.id, entry)
        of_run.append(own)
    compared = []
    for name, first in by_id.items():
        entries = [own.get(name) for own in of_run]
        if sum(entry is not None for entry in entries) > 1:
            compared.append(
                ComparedNumber(
                    id=name,
                    title=f"{first.title}, {_COARSE_WORDS}" if _COARSE in name else first.title,
                    unit=first.unit,
                    values=tuple(None if entry is None else float(entry.value or 0.0) for entry in entries),
                    errors=tuple(None if entry is None else entry.error for entry in entries),
                )
            )
    return tuple(compared)


def compared_table(numbers: Sequence[ComparedNumber], names: Sequence[str]) -> Table:
    """Return the numbers as a table with a column for each run."""
    words = {True: "yes", False: "no", None: ""}
    rows = tuple((one.title, one.unit, *one.values, words[one.apart]) for one in numbers)
    return Table("Runs side by side", ("number", "unit", *names, "differ by more than noise"), rows)


def _is_number(entry: Publishable) -> bool:
    return isinstance(entry.value, int | float) and not isinstance(entry.value, bool)
