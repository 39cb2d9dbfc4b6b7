"""What a fitted generator can say of itself: numbers that follow from noisy answers alone, so anybody may see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["Fact", "TellsFacts"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One number about a fit, and the table that it sums up.

    Attributes
    ----------
    name : str
        Unique within a generator, in one word.
    title : str
        A few words above the number.
    value : float, int or str
    sentence : str
        One plain sentence below it.
    header : tuple of str
        Headings of the table; empty without one.
    rows : tuple of tuples
        Rows of the table.
    """

    name: str
    title: str
    value: float | int | str
    sentence: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[float | int | str, ...], ...] = ()


@runtime_checkable
class TellsFacts(Protocol):
    """A generator that has something to say of its fit."""

    def facts(self) -> tuple[Fact, ...]:
        """Return facts of the fit and of the rows that were last drawn; post-processing of noisy answers."""
        ...
