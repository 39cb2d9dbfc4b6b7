r"""One step of private EM: what a unit's rows add to the gradient of q, or to its statistic, bounded and added up.

Rows are read as numbers: each column's code is looked up in a public table and multiplied by a public factor. A model
of :mod:`synth.privacy.more.em_models` makes of a row the vector that Algorithms 1 to 3 of the DP EM paper (Wang 2020)
add up, at public parameters. The vectors of a unit's rows are added up, and the sum is bounded in one of three ways:

- "norm": shortened to C (Algorithm 1). A unit moves the answer by at most C, or 2 C where it is replaced.
- "coordinates": every number is cut off at plus and minus B.
- "soft": every number is truncated as the paper truncates it (Algorithms 2 and 3), which keeps it within B as well.

In the last two a unit moves the answer by at most :math:`\sqrt d B`, or twice that. No bound depends on how many rows a
unit has, on the model or on the parameters: it holds for whatever is handed to it (``docs/proofs/em-steps.md``).

What a row adds is calculated by single additions, multiplications and divisions of float64, number by number, cut off,
and truncated to whole steps of 2^-32; after that it is whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound
from synth.privacy.feature_maps import binned, frozen
from synth.privacy.more.em_models import MODELS, GaussianPair, MissingCovariates, Model
from synth.privacy.more.gradients import (
    CLIPPED_UNIT,
    LARGEST_CLIP,
    SMALLEST_CLIP,
    UNIT_BITS,
    UnitQuestion,
    clipped_units,
)
from synth.privacy.more.linear_predictions import FEATURE_BITS, on_grid
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED, smoothed_truncation
from synth.privacy.questions import Digest
from synth.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BOUNDINGS", "Bounding", "EMStepQuestion"]

Bounding = Literal["norm", "coordinates", "soft"]
BOUNDINGS: tuple[Bounding, ...] = get_args(Bounding)

LARGEST_SCALE = 2.0**10
LARGEST_PARAMETER = 2.0**20
SMALLEST_NOISE, LARGEST_NOISE = 2.0**-10, 2.0**10

LARGEST_ENTRY = 2.0**14
"""What a row adds is cut off here, number by number: at most 2^46 steps, so at most 2^62 for 2^16 rows of a unit."""

TABLE_BITS = 14
"""The soft truncation is looked up at multiples of 2^-14 of size / (1 + size), and in between on a straight line."""


@dataclass(frozen=True, slots=True, eq=False)
class EMStepQuestion(UnitQuestion):
    """What a step of EM adds up, at public parameters: each unit's sum bounded, and added up over units.

    Parameters
    ----------
    model : GaussianPair, RegressionPair or MissingCovariates
        What a row adds.
    tables : tuple of Lookup
        Columns of one number each, each column once: the coordinates, followed by the label where the model has one.
    scales : array of shape (len(tables),)
        What every column's number is multiplied by; positive, at most 2^10.
    parameters : array of shape (d,)
        beta, where the E-step is taken; at most 2^20, rounded to multiples of 2^-20.
    clip : float
        C where ``bounding`` is "norm", else B; from 2^-20 to 2^20.
    bounding : {"norm", "coordinates", "soft"}
        How a unit's sum is bounded. With "soft" the scale s of the paper is ``clip`` / (2 sqrt(2) / 3).
    precision : float
        beta of the soft truncation, one over the variance of the noise that it averages over.
    statistics : bool
        Whether the statistic f is added up and not the gradient (Algorithm 3); of a Gaussian pair alone.
    hidden : tuple of int
        For each coordinate of missing covariates the code that stands for a missing one, -1 for none; else empty.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or a number is out of bounds.
    """

    model: Model
    tables: tuple[Lookup, ...]
    scales: NDArray[np.float64]
    parameters: NDArray[np.float64]
    clip: float
    bounding: Bounding = "norm"
    precision: float = 1.0
    statistics: bool = False
    hidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        tables, d = tuple(self.tables), self.dimension
        names = [one.column for one in tables]
        if type(self.model) not in MODELS.values():
            raise PrivacyError("A step of EM is of one of the three models of the closed set.")
        if not all(type(one) is Lookup and one.dimension == 1 for one in tables) or len(set(names)) != len(names):
            raise PrivacyError("The columns of a step of EM are lookups of one number per code, each column once.")
        if d < 1:
            raise PrivacyError("A step of EM needs at least one coordinate, and a label where its model has one.")
        scales, given = (np.array(one, dtype=np.float64) for one in (self.scales, self.parameters))
        if scales.shape != (len(tables),) or not ((scales > 0) & (scales <= LARGEST_SCALE)).all():
            raise PrivacyError("Every column of a step of EM needs a factor above 0 and of at most 2^10.")
        if given.shape != (d,) or not (np.abs(given) <= LARGEST_PARAMETER).all():
            raise PrivacyError(f"A step of EM needs {d:,} parameters, each within 2^20 of 0.")
        if not SMALLEST_NOISE <= self.model.noise_std <= LARGEST_NOISE:
            raise PrivacyError("The noise of a model of EM must lie between 2^-10 and 2^10.")
        if not SMALLEST_CLIP <= self.clip <= LARGEST_CLIP:
            raise PrivacyError(f"The bound of a step of EM must lie between 2^-20 and 2^20, got {self.clip}.")
        if self.bounding not in BOUNDINGS or not 2.0**-10 <= self.precision <= 2.0**10:
            raise PrivacyError("A step of EM is bounded by norm, coordinates or soft, with a precision near 1.")
        if self.statistics and type(self.model) is not GaussianPair:
            raise PrivacyError("Only a pair of Gaussians has a statistic whose mean is the next step (Assumption 2).")
        if len(self.hidden) != (d if type(self.model) is MissingCovariates else 0):
            raise PrivacyError("Missing covariates need the code of a missing value for each coordinate, others none.")
        for name, array in (("scales", scales), ("parameters", on_grid(given))):
            object.__setattr__(self, name, frozen(array))
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "clip", float(self.clip))
        object.__setattr__(self, "precision", float(self.precision))
        object.__setattr__(self, "hidden", tuple(int(one) for one in self.hidden))

    @property
    def dimension(self) -> int:
        """Number d of coordinates."""
        return len(self.tables) - (type(self.model) is not GaussianPair)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the tables."""
        return tuple(one.column for one in self.tables)

    @property
    def unit_bound(self) -> Bound:
        """What one unit adds, in units of ``clip``: a vector of length 1, or d numbers of at most 1."""
        if self.bounding == "norm":
            return CLIPPED_UNIT
        longest = math.nextafter(math.sqrt(self.dimension), math.inf)
        return Bound(longest, 2 * longest)

    def check(self, schema: Schema) -> None:
        """Also refuse lookups that were made for another table."""
        UnitQuestion.check(self, schema)
        for one in self.tables:
            one.check_codes(schema)

    def digest(self) -> str:
        """Return the digest of model, columns, parameters and bound."""
        found = Digest("em step")
        found.add_words(self.said())
        for table in self.tables:
            found.add_map(table)
        found.add_array(self.scales)
        found.add_array(self.parameters)
        return found.hexdigest()

    def said(self) -> dict[str, Any]:
        """Return everything except tables, factors and parameters, as JSON types."""
        return {
            "model": next(name for name, one in MODELS.items() if one is type(self.model)),
            "noise_std": self.model.noise_std,
            "as_printed": self.model.as_printed,
            "clip": self.clip,
            "bounding": self.bounding,
            "precision": self.precision,
            "statistics": self.statistics,
            "hidden": list(self.hidden),
        }

    def adds(self, device: str) -> Callable[[dict[str, NDArray[Any]]], Tensor]:
        """Return a function from rows' codes to the vectors that they add; on the processor, whatever the device."""
        import torch

        numbers = [one.table[:, 0] * scale for one, scale in zip(self.tables, self.scales, strict=True)]
        return lambda codes: torch.from_numpy(_row_steps(self, numbers, codes)).to(device)

    def bounded(self, sums: Tensor) -> Tensor:
        """Bound what each unit adds."""
        if self.bounding == "norm":
            return clipped_units(sums, self.clip)
        return _bounded_numbers(self, sums)

    def _same_as(self, other: UnitQuestion) -> bool:
        return isinstance(other, EMStepQuestion) and self.digest() == other.digest()


def _row_steps(
    question: EMStepQuestion, numbers: list[NDArray[np.float64]], codes: dict[str, NDArray[Any]]
) -> NDArray[np.float64]:
    """Return what every row adds before it is bounded, in whole steps of 2^-32; shape (d, n_rows)."""
    given = [codes[table.column] for table in question.tables]
    columns = [of[binned(code, table.bins)] for of, code, table in zip(numbers, given, question.tables, strict=True)]
    if question.hidden:
        seen = [(code != hidden).astype(np.float64) for code, hidden in zip(given, question.hidden, strict=False)]
        columns = [*columns[:-1], *seen, columns[-1]]
    rows = np.stack(columns, axis=1)
    found = _row_vectors(question, rows)
    whole = np.trunc(np.clip(np.nan_to_num(found), -LARGEST_ENTRY, LARGEST_ENTRY) * 2.0 ** (2 * FEATURE_BITS))
    return np.ascontiguousarray(whole.T)


def _row_vectors(question: EMStepQuestion, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gradient or the statistic of every row, shape (n_rows, d)."""
    model = question.model
    if question.statistics and isinstance(model, GaussianPair):
        return model.statistics(rows, question.parameters)
    return model.gradients(rows, question.parameters)


def _bounded_numbers(question: EMStepQuestion, sums: Tensor) -> Tensor:
    """Bound every number by itself; whole steps of 2^-24 of the bound, within plus and minus 2^24 whatever comes in."""
    import torch

    inside = sums.mul_(1.0 / (question.clip * 2.0 ** (2 * FEATURE_BITS)))
    if question.bounding == "soft":
        inside = torch.from_numpy(_softly(inside.cpu().numpy(), question.precision)).to(sums.device)
    return inside.clamp_(-1.0, 1.0).mul_(2.0**UNIT_BITS).trunc_()


def _softly(numbers: NDArray[np.float64], precision: float) -> NDArray[np.float64]:
    """Truncate numbers in units of the bound softly, by a public table; each by itself."""
    size = np.abs(numbers) * LARGEST_TRUNCATED
    place = size / (1.0 + size) * 2.0**TABLE_BITS
    below = np.minimum(np.floor(place), 2.0**TABLE_BITS - 1)
    table, at = _soft_table(precision), below.astype(np.int64)
    low = table[at]
    return np.asarray(np.sign(numbers) * (low + (table[at + 1] - low) * (place - below)))


@functools.lru_cache(maxsize=4)
def _soft_table(precision: float) -> NDArray[np.float64]:
    """Return the soft truncation, in units of its bound, of sizes t / (1 - t) for t from 0 to 1. Public numbers."""
    t = np.arange(2**TABLE_BITS) / 2.0**TABLE_BITS
    sizes = np.append(t / (1.0 - t), np.inf)
    return smoothed_truncation(sizes, precision=precision) / LARGEST_TRUNCATED
