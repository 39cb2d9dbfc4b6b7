r"""What one private answer cost: everything an accountant needs, and nothing that was read from rows.

A receipt is a value (the idea of a ``DpEvent``): ``accounting`` interprets it, the ledger stores it, a certificate
prints it, and ``verify`` recomputes the promise from it. What a mechanism costs is its mu, in whole units of mu^2, and
the slack of noise on a grid. Noise on single cells is paid for in pure epsilon instead, which adds: a mu of pure
epsilon 1 would be worth more than epsilon 1 at any usual delta. Every number here is rounded up. The proofs stand in
``docs/proofs``: ``exponential-mechanism.md``, ``discretisation-slack.md`` and ``noisy-rows.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Self, get_args

from scipy.special import erfinv, expit, log_ndtr, ndtri

from synth.errors import PrivacyError, UnsupportedCostError
from synth.schema import Neighbours

__all__ = [
    "GAUSSIAN",
    "MU_UNIT",
    "CellNoise",
    "Mechanism",
    "Part",
    "PlannedCost",
    "Receipt",
    "discretisation_slack",
    "exponential_of_mu",
    "mu_of_exponential",
    "mu_of_gaussian",
    "mu_of_pure",
    "mu_squared_of",
    "pure_epsilon_of",
    "pure_of_mu",
    "pure_units_of",
    "pure_units_of_cells",
    "pure_units_of_receipt",
    "require_honest",
    "total_up",
    "units_of",
    "units_of_cells",
    "units_of_receipt",
]

MU_UNIT = 2.0**-40
"""Costs are whole multiples of this much mu^2, or of this much pure epsilon, rounded up."""

_MARGIN = 1e-9
"""Relative margin of searches, always on the safe side."""

_ROUNDING = 2.0**-46
"""Relative margin over the last bits of a few float64 operations."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """What a question is going to cost, as it is planned before a row is read; the fields are those of a receipt.

    ``named`` is what the receipt calls the question, of which ``{query}`` is the name.
    """

    mechanism: Mechanism
    sensitivity: float
    noise_scale: float
    dimension: int
    grid: float
    mu_squared_units: int
    slack: float = 0.0
    pure_units: int = 0
    cells: tuple[CellNoise, ...] = ()
    named: str = "{query}"


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
    """PlannedCost in multiples of 2^-40 of mu^2, rounded up; 0 where the cost is pure."""
    slack: float
    """Discretisation cost c = 6 dimension (grid / noise_scale)^2, rounded up; 0 where no noise is called Gaussian."""
    additive_delta: float = 0.0
    private: bool = True
    """False when a test's noise source was used; no certificate accepts such a receipt."""
    assumptions: tuple[str, ...] = ()
    """Sentences that the promise leans on, printed in the certificate."""
    pure_units: int = 0
    """PlannedCost in multiples of 2^-40 of pure epsilon, rounded up; only noise on single cells is paid for so."""
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

    @classmethod
    def of(cls, cost: PlannedCost, *, query: str, **values: Any) -> Self:
        """Make the receipt of a question that was planned to cost so much; ``values`` are the other fields."""
        planned = {field.name: getattr(cost, field.name) for field in fields(cost) if field.name != "named"}
        return cls(query=cost.named.format(query=query), **planned, **values)

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


def units_of(mu_squared: float) -> int:
    """Return the cost ``mu_squared`` in whole units of 2^-40, rounded up."""
    if not (math.isfinite(mu_squared) and mu_squared >= 0):
        raise PrivacyError(f"mu squared must be finite and at least 0, got {mu_squared}.")
    return math.ceil(mu_squared / MU_UNIT)


def mu_squared_of(units: int) -> float:
    """Return whole units of 2^-40 as mu^2; never below the true value."""
    if units < 0:
        raise PrivacyError(f"A cost cannot be negative, got {units} units.")
    value = units * MU_UNIT
    return value if int(value / MU_UNIT) >= units else math.nextafter(value, math.inf)


def mu_of_gaussian(*, sensitivity: float, noise_std: float) -> float:
    """Return mu = sensitivity / noise_std of a Gaussian release, rounded up; both in units of the answer."""
    _require_positive("sensitivity", sensitivity)
    _require_positive("noise_std", noise_std)
    return sensitivity / noise_std * (1 + _ROUNDING)


def mu_of_exponential(parameter: float) -> float:
    r"""Return mu of the exponential mechanism, rounded up: 2 Phi^-1(1 / (1 + exp(-e/2))).

    Parameters
    ----------
    parameter : float
        e, where candidates have weight exp(e * score / (2 * sensitivity)); positive.

    Notes
    -----
    The loss lies in an interval of length e; see ``docs/proofs/exponential-mechanism.md``.
    """
    _require_positive("The parameter of a selection", parameter)
    # Phi^-1(1/2 + y/2) = sqrt(2) erfinv(y) keeps its digits near 1/2, the lower tail keeps them near 1
    half = math.sqrt(2) * erfinv(math.tanh(parameter / 4)) if parameter < 4 else -ndtri(expit(-parameter / 2))
    return 2 * float(half) * (1 + _ROUNDING)


def exponential_of_mu(mu: float) -> float:
    """Return the largest parameter e, less a relative 1e-9, whose ``mu_of_exponential`` is at most ``mu``."""
    _require_positive("mu", mu)
    # the same two ways round as in mu_of_exponential
    exact = 4 * math.atanh(math.erf(mu / math.sqrt(8))) if mu < 2 else 2 * float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return exact * (1 - _MARGIN)


def mu_of_pure(epsilon: float) -> float:
    """Return mu of a pure epsilon-DP mechanism: its loss lies in an interval of length 2 epsilon."""
    _require_positive("epsilon", epsilon)
    return mu_of_exponential(2 * epsilon)


def pure_of_mu(mu: float) -> float:
    """Return the largest pure epsilon, less a relative 1e-9, whose ``mu_of_pure`` is at most ``mu``."""
    return exponential_of_mu(mu) / 2


def pure_units_of(epsilon: float) -> int:
    """Return a pure epsilon in whole units of 2^-40, rounded up."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise PrivacyError(f"A pure epsilon must be finite and at least 0, got {epsilon}.")
    return math.ceil(Fraction(epsilon) / Fraction(MU_UNIT))


def pure_epsilon_of(units: int) -> float:
    """Return whole units of 2^-40 as a pure epsilon; never below the true value."""
    return mu_squared_of(units)


def discretisation_slack(*, dimension: int, variance: int) -> float:
    """Return c = 6 dimension / variance of one discrete Gaussian release, rounded up.

    Parameters
    ----------
    dimension : int
        Noisy coordinates.
    variance : int
        Of the noise, in squared grid units; at least 1.
    """
    if dimension < 1 or variance < 1:
        raise PrivacyError(f"A release needs a dimension and a variance of at least 1, got {dimension} and {variance}.")
    return math.nextafter(6 * dimension / variance, math.inf)


def units_of_receipt(receipt: Receipt) -> int:
    """Return the cost that a receipt's sensitivity and noise amount to, in units of 2^-40 of mu^2."""
    if receipt.mechanism == "exponential":
        return units_of(mu_of_exponential(receipt.noise_scale) ** 2)
    if receipt.mechanism == "randomised_response":
        return units_of(mu_of_pure(receipt.noise_scale) ** 2)
    if receipt.mechanism == "discrete_laplace":
        return 0 if receipt.neighbours is Neighbours.CELL else units_of_cells(receipt.cells)
    return units_of(mu_of_gaussian(sensitivity=receipt.sensitivity, noise_std=receipt.noise_scale) ** 2)


def units_of_cells(cells: Iterable[CellNoise]) -> int:
    """Return the cost, in units of mu^2, of Laplace noise on every cell of a row that may change wholly."""
    return sum(units_of(mu_of_pure(math.nextafter(l1 / scale, math.inf)) ** 2) for l1, _, _, scale in cells if l1)


def pure_units_of_cells(cells: Iterable[CellNoise]) -> int:
    """Return the pure epsilon, in units of 2^-40, of Laplace noise on cells of which one may change.

    It moves the numbers of one column, so the dearest column is the cost of them all.
    """
    return max(math.ceil(Fraction(l1, scale) / Fraction(MU_UNIT)) for l1, _, _, scale in cells)


def pure_units_of_receipt(receipt: Receipt) -> int:
    """Return the pure epsilon that a receipt's noise amounts to, in units of 2^-40; 0 where it is paid for in mu^2."""
    if receipt.mechanism != "discrete_laplace" or receipt.neighbours is not Neighbours.CELL:
        return 0
    return pure_units_of_cells(receipt.cells)


def total_up(values: Iterable[float]) -> float:
    """Add numbers of at least 0 and round the sum up; an empty or zero sum stays 0."""
    total = math.fsum(values)
    return math.nextafter(total, math.inf) if total > 0 else 0.0


def require_honest(receipt: Receipt) -> None:
    """Refuse a receipt that states less than it cost."""
    least_units = units_of_receipt(receipt)
    if receipt.mu_squared_units < least_units:
        raise PrivacyError(
            f"Receipt {receipt.sequence} ('{receipt.query}') states a cost of {receipt.mu_squared_units} units; its "
            f"sensitivity and noise amount to {least_units}."
        )
    least_pure = pure_units_of_receipt(receipt)
    if receipt.pure_units < least_pure:
        raise PrivacyError(
            f"Receipt {receipt.sequence} ('{receipt.query}') states a pure epsilon of {receipt.pure_units} units; its "
            f"noise amounts to {least_pure}."
        )
    if receipt.neighbours is Neighbours.CELL and receipt.mechanism != "discrete_laplace":
        raise PrivacyError(f"Receipt {receipt.sequence} ('{receipt.query}') is of noise that does not hide one cell.")
    if receipt.mechanism in GAUSSIAN:
        least_slack = 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2
        if receipt.slack < least_slack * (1 - _MARGIN):
            raise PrivacyError(
                f"Receipt {receipt.sequence} ('{receipt.query}') states a discretisation cost of {receipt.slack:.6g}; "
                f"its dimension, grid and noise amount to {least_slack:.6g}."
            )


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise PrivacyError(f"{name} must be positive and finite, got {value}.")
