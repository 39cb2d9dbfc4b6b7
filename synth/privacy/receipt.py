r"""What one private answer cost: everything an accountant needs, and nothing that was read from rows.

A receipt is a value (the idea of a ``DpEvent``): ``accounting`` interprets it, the ledger stores it, a certificate
prints it, and ``verify`` recomputes the promise from it. What a mechanism costs is its mu, in whole units of mu^2, and
the slack of noise on a grid. Noise on single cells, and all of a budget whose delta is 0, is paid for in pure epsilon
instead, which adds: a mu of pure epsilon 1 would be worth more than epsilon 1 at any usual delta. Every number here is
rounded up. The proofs are in
``docs/proofs``: ``exponential-mechanism.md``, ``discretisation-slack.md`` and ``noisy-rows.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, Self, get_args

from synth.errors import PrivacyError, UnsupportedCostError
from synth.privacy.costs import (
    MU_UNIT,
    GaussianPlan,
    LaplacePlan,
    discretisation_slack,
    mu_of_exponential,
    mu_of_gaussian,
    mu_of_pure,
    units_of,
)
from synth.privacy.more.cells import CellNoise, pure_units_of, pure_units_of_cells, units_of_cells
from synth.privacy.more.sampled_runs import SampledRun, mu_of_sampled_run, require_additive
from synth.schema import Neighbours, Schema

__all__ = [
    "GAUSSIAN",
    "SUMS",
    "Mechanism",
    "Part",
    "PlannedCost",
    "Receipt",
    "misstated",
    "pure_units_of_receipt",
    "require_honest",
    "slack_of_receipt",
    "units_of_receipt",
]

_MARGIN, _STATED_MARGIN = 1e-9, 1e-8
"""How much less than its cost a receipt may state, for differences in the last bits: when added up; in a bundle."""

_SAMPLED_MARGIN = 2.0**-11
"""The same for sampled runs: two processors may round their mu to neighbouring numbers of 14 binary digits."""

Mechanism = Literal[
    "discrete_gaussian",
    "laplace_sum",
    "exponential",
    "gaussian_rows",
    "discrete_laplace",
    "randomised_response",
    "sampled_gaussian",
]
"""How an answer was made noisy: a sum, with Gaussian or with Laplace noise; a choice; every row by itself, with
Gaussian or with Laplace noise; labels; sums of the units that every step of a run draws."""


Part = Literal["train", "holdout"]
"""A side of a table: the units that generators learn from, or those held out."""


GAUSSIAN = ("discrete_gaussian", "gaussian_rows", "sampled_gaussian")
"""Mechanisms whose noise on a grid is treated as Gaussian, at the cost of a slack."""

SUMS = ("discrete_gaussian", "laplace_sum")
"""Mechanisms of sums over all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """The planned cost of a question, before a row is read; the fields are those of a receipt.

    ``named`` is the name of the question on the receipt, where ``{query}`` stands for the query; ``assumptions`` are
    those on which it relies in addition to those of every receipt of the table.
    """

    mechanism: Mechanism
    sensitivity: float
    noise_scale: float
    dimension: int
    grid: float
    mu_squared_units: int
    slack: float = 0.0
    additive_delta: float = 0.0
    pure_units: int = 0
    cells: tuple[CellNoise, ...] = ()
    sampling_rate: float = 0.0
    steps: int = 0
    named: str = "{query}"
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of_sum(cls, noise: GaussianPlan, dimension: int) -> Self:
        """Return the cost of a sum of so many numbers with this noise."""
        return cls(
            mechanism="discrete_gaussian",
            sensitivity=noise.sensitivity,
            noise_scale=noise.noise_std,
            dimension=dimension,
            grid=noise.grid,
            mu_squared_units=noise.units,
            slack=noise.slack,
        )

    @classmethod
    def of_laplace_sum(cls, noise: LaplacePlan, dimension: int) -> Self:
        """Return the cost, in pure epsilon, of a sum of so many numbers with this noise."""
        return cls(
            mechanism="laplace_sum",
            sensitivity=noise.sensitivity,
            noise_scale=noise.noise_scale,
            dimension=dimension,
            grid=noise.grid,
            mu_squared_units=0,
            pure_units=_pure_units_of_sum(noise.sensitivity, noise.noise_scale),
        )

    @classmethod
    def of_sampled_run(
        cls, noise: GaussianPlan, dimension: int, *, sampling_rate: float, steps: int, additive_delta: float
    ) -> Self:
        """Return the cost of a run of noisy sums, each of the units that a step draws.

        Parameters
        ----------
        noise : GaussianPlan
            Of one step; its own slack and units do not count.
        dimension : int
            Numbers of all steps together.
        sampling_rate : float
            Chance of a unit to be taken, in each step.
        steps : int
        additive_delta : float
            What is added to delta beside the mu, as in :func:`mu_of_sampled_run`.
        """
        return cls(
            mechanism="sampled_gaussian",
            sensitivity=noise.sensitivity,
            noise_scale=noise.noise_std,
            dimension=dimension,
            grid=noise.grid,
            mu_squared_units=_units_of_run(
                sampling_rate, steps, noise.noise_std, noise.sensitivity, additive_delta=additive_delta
            ),
            slack=discretisation_slack(dimension=dimension, variance=noise.variance),
            additive_delta=additive_delta,
            sampling_rate=sampling_rate,
            steps=steps,
        )


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
    """Who is protected, in the owner's word."""
    rows_per_unit: int
    sensitivity: float
    """Largest change between neighbours, in units of the answer: L2 of the whole vector (gaussian) or L1 (laplace sum),
    of one row's vector (gaussian rows), L1 of one cell's numbers (laplace rows, the dearest column), of one score
    (exponential), 1 (response); the relation and ``rows_per_unit`` are in it already."""
    noise_scale: float
    """Gaussian: standard deviation of the noise in units of the answer, of each step. Laplace: its scale; of rows, that
    on the dearest column. Exponential: the parameter e. Response: epsilon of one label."""
    dimension: int
    """Sums: number of noisy coordinates, of all steps. Rows: coordinates of one row, as no other row's change between
    neighbours. Exponential, response: number of candidates, of classes."""
    grid: float
    """Grid step, in units of the answer."""
    mu_squared_units: int
    """Cost in multiples of 2^-40 of mu^2, rounded up; 0 where the cost is pure."""
    slack: float
    """Discretisation cost c = 6 dimension (grid / noise_scale)^2, rounded up; 0 where no noise is called Gaussian."""
    additive_delta: float = 0.0
    """Chance, at most, that what mu promises does not hold: a text of one unit is found; a sampled run's far tail."""
    private: bool = True
    """False when a test's noise source was used; no certificate accepts such a receipt."""
    assumptions: tuple[str, ...] = ()
    """Sentences that the promise relies on, printed in the certificate."""
    pure_units: int = 0
    """Cost in multiples of 2^-40 of pure epsilon, rounded up; used for noise on single cells, and at a delta of 0."""
    cells: tuple[CellNoise, ...] = ()
    """Laplace: the noise of every column, in order; one cell changes one column only, a whole row all of them."""
    part: Part = "train"
    """Which side of the table was asked: the rows a generator learns from, or those held out from it."""
    sampling_rate: float = 0.0
    """Sampled runs: chance of a unit to be taken, in each step independently; else 0."""
    steps: int = 0
    """Sampled runs: number of steps; else 0."""

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
        if (self.mechanism == "discrete_laplace") != bool(self.cells) or not all(cell.is_noise for cell in self.cells):
            raise self._refusal("cells", "four whole numbers for every column, where noise is Laplace")
        self._require_sampling()

    def _require_sampling(self) -> None:
        """Refuse what no run of sampled steps can be, and sampling where there is none."""
        if self.mechanism != "sampled_gaussian":
            for name in ("sampling_rate", "steps"):
                if getattr(self, name) != 0:
                    raise self._refusal(name, "0 where no units are drawn")
            return
        if self.neighbours is not Neighbours.ADD_REMOVE:
            raise PrivacyError(
                f"Receipt {self.sequence}: steps that draw units protect added and removed units, not "
                f"'{self.neighbours.value}'."
            )
        if self.dimension % max(self.steps, 1):
            raise self._refusal("dimension", "a multiple of the number of steps")
        require_additive(self.additive_delta)
        _run_of(self.sampling_rate, self.steps, self.noise_scale, self.sensitivity)

    @property
    def is_pure(self) -> bool:
        """Whether a sum or a choice is paid for in pure epsilon; noise on cells is by its relation."""
        return self.mechanism == "laplace_sum" or (self.mechanism == "exponential" and not self.mu_squared_units)

    @property
    def units(self) -> int:
        """What it cost, in units of the currency that its relation is paid for in."""
        return self.pure_units or self.mu_squared_units

    def _refusal(self, name: str, rule: str) -> PrivacyError:
        return PrivacyError(f"Receipt {self.sequence}: {name} must be {rule}, got {getattr(self, name)}.")

    @classmethod
    def of(cls, cost: PlannedCost, schema: Schema, *, query: str, **values: Any) -> Self:
        """Make the receipt of a question from its planned cost; ``values`` are the other fields."""
        planned: dict[str, Any] = {one.name: getattr(cost, one.name) for one in fields(cost) if one.name != "named"}
        planned["assumptions"] = (*schema.assumptions, *cost.assumptions)
        planned |= {"protects": schema.unit.protects, "rows_per_unit": schema.unit.rows_per_unit}
        return cls(query=cost.named.format(query=query), neighbours=schema.neighbours, **planned, **values)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of JSON types from which ``from_dict`` makes an equal receipt."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # A float is written as one, so that the receipt that is read back is written in the same way.
        values |= {name: float(values[name]) for name, kind in _KINDS.items() if kind is float}
        values |= {"neighbours": self.neighbours.value, "assumptions": list(self.assumptions)}
        values["cells"] = [list(cell) for cell in self.cells]
        # Fields that few answers need are left out where they are empty.
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


_OPTIONAL = {"pure_units", "cells", "part", "sampling_rate", "steps"}
_PLAIN = {"int": int, "float": float, "bool": bool, "str": str, "Mechanism": str, "Part": str}
_KINDS = {field.name: _PLAIN.get(str(field.type)) for field in fields(Receipt)}
"""The type of a JSON value for each field; None where the field is read separately."""


def _typed(name: str, value: Any) -> Any:
    """Check one JSON value against its field and return what the field holds."""
    if name == "neighbours" and value in tuple(Neighbours):
        return Neighbours(value)
    if name == "assumptions" and isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    if name == "cells" and isinstance(value, list) and None not in (cells := tuple(map(CellNoise.of_json, value))):
        return cells
    if type(value) is int and _KINDS[name] is float:
        return float(value)
    if type(value) is _KINDS[name]:
        return value
    raise PrivacyError(f"A receipt's field '{name}' has a value of the wrong kind ({type(value).__name__}).")


def units_of_receipt(receipt: Receipt) -> int:
    """Return the cost that a receipt's sensitivity and noise amount to, in units of 2^-40 of mu^2."""
    if receipt.is_pure:
        return 0
    if receipt.mechanism == "exponential":
        return units_of(mu_of_exponential(receipt.noise_scale) ** 2)
    if receipt.mechanism == "randomised_response":
        return units_of(mu_of_pure(receipt.noise_scale) ** 2)
    if receipt.mechanism == "discrete_laplace":
        return 0 if receipt.neighbours is Neighbours.CELL else units_of_cells(receipt.cells)
    if receipt.mechanism == "sampled_gaussian":
        return _units_of_run(
            receipt.sampling_rate,
            receipt.steps,
            receipt.noise_scale,
            receipt.sensitivity,
            additive_delta=receipt.additive_delta,
        )
    return units_of(mu_of_gaussian(sensitivity=receipt.sensitivity, noise_std=receipt.noise_scale) ** 2)


def _units_of_run(
    sampling_rate: float, steps: int, noise_scale: float, sensitivity: float, *, additive_delta: float
) -> int:
    """Return the cost of a sampled run beside its additive delta, in units of 2^-40 of mu^2."""
    run = _run_of(sampling_rate, steps, noise_scale, sensitivity)
    return units_of(mu_of_sampled_run(run, additive_delta=additive_delta) ** 2)


def _run_of(sampling_rate: float, steps: int, noise_scale: float, sensitivity: float) -> SampledRun:
    """Return the run, with a noise multiplier that is rounded down."""
    return SampledRun(sampling_rate, steps, math.nextafter(noise_scale / sensitivity, 0.0))


def pure_units_of_receipt(receipt: Receipt) -> int:
    """Return the pure epsilon that a receipt's noise amounts to, in units of 2^-40; 0 where it is paid for in mu^2."""
    if receipt.is_pure:
        if receipt.mechanism == "exponential":
            return pure_units_of(receipt.noise_scale)
        return _pure_units_of_sum(receipt.sensitivity, receipt.noise_scale)
    if receipt.mechanism != "discrete_laplace" or receipt.neighbours is not Neighbours.CELL:
        return 0
    return pure_units_of_cells(receipt.cells)


def _pure_units_of_sum(sensitivity: float, noise_scale: float) -> int:
    return math.ceil(Fraction(sensitivity) / Fraction(noise_scale) / Fraction(MU_UNIT))


def slack_of_receipt(receipt: Receipt) -> float:
    """Return the discretisation cost that dimension, grid and noise amount to; 0 where no noise is called Gaussian."""
    return 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2 if receipt.mechanism in GAUSSIAN else 0.0


def require_honest(receipt: Receipt) -> None:
    """Refuse a receipt that states less than it cost."""
    name = f"Receipt {receipt.sequence} ('{receipt.query}')"
    least_units, least_pure, least_slack = (
        found(receipt) for found in (units_of_receipt, pure_units_of_receipt, slack_of_receipt)
    )
    if receipt.mu_squared_units < least_units * (1 - _tolerance(receipt)):
        raise PrivacyError(
            f"{name} states a cost of {receipt.mu_squared_units} units; its sensitivity and noise amount to "
            f"{least_units}."
        )
    if receipt.pure_units < least_pure:
        raise PrivacyError(
            f"{name} states a pure epsilon of {receipt.pure_units} units; its noise amounts to {least_pure}."
        )
    if receipt.neighbours is Neighbours.CELL and receipt.mechanism != "discrete_laplace":
        raise PrivacyError(f"{name} states noise that does not hide one cell.")
    if receipt.slack < least_slack * (1 - _MARGIN):
        raise PrivacyError(
            f"{name} states a discretisation cost of {receipt.slack:.6g}; its dimension, grid and noise amount to "
            f"{least_slack:.6g}."
        )


def _tolerance(receipt: Receipt) -> float:
    """Return the part of a cost by which two processors may differ."""
    return _SAMPLED_MARGIN if receipt.mechanism == "sampled_gaussian" else 0.0


def misstated(receipt: Receipt) -> Iterator[str]:
    """Yield where the cost that a receipt states does not match its noise, in either direction."""
    name = f"The receipt of '{receipt.query}'"
    due = units_of_receipt(receipt)
    if abs(due - receipt.mu_squared_units) > max(1, due * _tolerance(receipt)):
        yield f"{name} states a cost that does not follow from its sensitivity and noise."
    if abs(pure_units_of_receipt(receipt) - receipt.pure_units) > 1:
        yield f"{name} states a pure epsilon that does not follow from its noise."
    if receipt.slack < slack_of_receipt(receipt) * (1 - _STATED_MARGIN):
        yield f"{name} leaves out a part of the cost of noise on a grid."
