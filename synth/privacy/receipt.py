"""What one private answer cost: everything an accountant needs, and nothing that was read from rows.

A receipt is a value (the idea of a ``DpEvent``): ``accounting`` interprets it, the ledger stores it, a certificate
prints it, and ``verify`` recomputes the promise from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError, UnsupportedCostError
from synth.schema import Neighbours

__all__ = ["GAUSSIAN", "CellNoise", "Mechanism", "NoisyAnswer", "Part", "Receipt"]

Mechanism = Literal["discrete_gaussian", "exponential", "gaussian_rows", "discrete_laplace", "randomised_response"]
"""How an answer was made noisy: a sum; a choice; every row by itself, with Gaussian or with Laplace noise; labels."""


Part = Literal["train", "holdout"]
"""A side of a table: the units that generators learn from, and those held out."""


class CellNoise(NamedTuple):
    """Laplace noise of one column's cells, all in grid steps.

    ``l1`` is the largest L1 change of a cell's numbers that the promise for one cell covers; ``row_l1`` and
    ``row_largest`` are the largest L1 change and the largest change of one number when the cell may change altogether,
    as it does with its row; ``scale`` is that of the noise on each number.
    """

    l1: int
    row_l1: int
    row_largest: int
    scale: int


GAUSSIAN = ("discrete_gaussian", "gaussian_rows")
"""Mechanisms whose noise on a grid is treated as Gaussian, at the cost of a slack."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The cost of one answered question.

    Raises
    ------
    PrivacyError
        If a number is out of its range.
    UnsupportedCostError
        If the mechanism is not one that ``accounting`` can interpret.
    """

    sequence: int
    """Place in the session's order of questions, from 0."""
    query: str
    """Name of the question, unique within a run."""
    mechanism: Mechanism
    source: str
    """Who asked: a generator's or a report's name."""
    neighbours: Neighbours
    protects: str
    """Whom the promise protects, in the owner's word."""
    rows_per_unit: int
    sensitivity: float
    """Largest change between neighbours, in units of the answer: L2 of the whole vector (gaussian), of one row's vector
    (gaussian rows), L1 of one cell's numbers (laplace, the dearest column), of one score (exponential), 1 (response);
    the relation and ``rows_per_unit`` are in it already."""
    noise_scale: float
    """Gaussian: standard deviation of the noise in units of the answer. Laplace: the scale on the dearest column.
    Exponential: the parameter e. Response: epsilon of one label."""
    dimension: int
    """Gaussian: number of noisy coordinates. Rows: coordinates of one row, as no other row's change between neighbours.
    Exponential, response: number of candidates, of classes."""
    grid: float
    """Grid step, in units of the answer."""
    mu_squared_units: int
    """Cost in multiples of 2^-40 of mu^2, rounded up; 0 where the cost is pure."""
    slack: float
    """Discretisation cost c = 6 dimension (grid / noise_scale)^2, rounded up; 0 where no noise is called Gaussian."""
    additive_delta: float = 0.0
    private: bool = True
    """False when a test's noise source was used; no certificate accepts such a receipt."""
    assumptions: tuple[str, ...] = ()
    """Sentences that the promise leans on, printed in the certificate."""
    pure_units: int = 0
    """Cost in multiples of 2^-40 of pure epsilon, rounded up; only noise on single cells is paid for so."""
    cells: tuple[CellNoise, ...] = ()
    """Laplace: the noise of every column, in order; one cell changes one column only, a whole row all of them."""
    part: Part = "train"
    """Which side of the table was asked: the rows a generator learns from, or those held out from it."""

    def __post_init__(self) -> None:
        if self.mechanism not in get_args(Mechanism):
            raise UnsupportedCostError(
                f"Receipt {self.sequence}: the mechanism must be one of {', '.join(get_args(Mechanism))}, "
                f"got '{self.mechanism}'."
            )
        for name in ("sensitivity", "noise_scale", "grid"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise self._refusal(name, "positive and finite")
        for name in ("slack", "additive_delta"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise self._refusal(name, "finite and at least 0")
        for name in ("rows_per_unit", "dimension"):
            if getattr(self, name) < 1:
                raise self._refusal(name, "at least 1")
        for name in ("sequence", "mu_squared_units", "pure_units"):
            if getattr(self, name) < 0:
                raise self._refusal(name, "at least 0")
        if self.mu_squared_units + self.pure_units < 1:
            raise self._refusal("mu_squared_units", "at least 1")
        if self.part not in get_args(Part):
            raise self._refusal("part", "train or holdout")
        if (self.mechanism == "discrete_laplace") != bool(self.cells) or not all(map(_is_noise, self.cells)):
            raise self._refusal("cells", "four whole numbers for every column, where noise is Laplace")

    def _refusal(self, name: str, rule: str) -> PrivacyError:
        return PrivacyError(f"Receipt {self.sequence}: {name} must be {rule}, got {getattr(self, name)}.")

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of JSON types from which ``from_dict`` makes an equal receipt."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"neighbours": self.neighbours.value, "assumptions": list(self.assumptions)}
        values["cells"] = [list(cell) for cell in self.cells]
        # What few answers need is left out where it says nothing: receipts of older bundles have no such fields.
        values["part"] = "" if self.part == "train" else self.part
        return {name: value for name, value in values.items() if value or name not in _OPTIONAL}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a receipt of what ``to_dict`` returned, after a round trip through JSON.

        Raises
        ------
        PrivacyError
            If a field is missing, unknown or of another type.
        """
        expected = {field.name for field in fields(cls)}
        if not expected - _OPTIONAL <= set(values) <= expected:
            names = ", ".join(sorted((expected - _OPTIONAL) ^ (set(values) - _OPTIONAL)))
            raise PrivacyError(f"A receipt must have exactly the documented fields; missing or unknown: {names}.")
        return cls(**{name: _typed(name, value) for name, value in values.items()})


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswer:
    """One noisy answer and its receipt; safe to keep, print and publish."""

    receipt: Receipt
    value: NDArray[np.float64]
    """Noisy answer, in units of the answer, in the shape of the question; read-only."""
    feature_map: object
    """The public question: a feature map of the closed set."""

    def __post_init__(self) -> None:
        value = np.array(self.value, dtype=np.float64)
        value.setflags(write=False)
        object.__setattr__(self, "value", value)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on every coordinate, in units of the answer.

        Raises
        ------
        PrivacyError
            If the answer came from a selection, which has no noise on coordinates.
        """
        if self.receipt.mechanism != "discrete_gaussian":
            raise PrivacyError(f"'{self.receipt.query}' is a selection; it has no standard deviation of noise.")
        return self.receipt.noise_scale


_TEXTS = ("query", "mechanism", "source", "protects")
_WHOLE_NUMBERS = ("sequence", "rows_per_unit", "dimension", "mu_squared_units", "pure_units")
_OPTIONAL = {"pure_units", "cells", "part"}


def _is_noise(cell: CellNoise) -> bool:
    return cell.row_l1 >= cell.l1 >= 0 and cell.row_l1 >= cell.row_largest >= 0 and cell.scale >= 1


def _typed(name: str, value: Any) -> Any:
    """Check one JSON value against its field and return what the field holds."""
    if name == "neighbours" and value in tuple(Neighbours):
        return Neighbours(value)
    if name == "assumptions" and isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    if name == "cells" and isinstance(value, list) and all(map(_is_cell, value)):
        return tuple(CellNoise(*cell) for cell in value)
    if name == "part" and value in get_args(Part):
        return value
    if name == "private" and isinstance(value, bool):
        return value
    if name in _TEXTS and isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in _WHOLE_NUMBERS and isinstance(value, int):
            return value
        if name in ("sensitivity", "noise_scale", "grid", "slack", "additive_delta"):
            return float(value)
    raise PrivacyError(f"A receipt's field '{name}' has a value of the wrong kind ({type(value).__name__}).")


def _is_cell(cell: Any) -> bool:
    whole = isinstance(cell, list) and all(isinstance(number, int) and not isinstance(number, bool) for number in cell)
    return whole and len(cell) == len(CellNoise._fields)
