r"""Turns of private critics: where each fake row should move to look like the rows, clipped, with noise (Chen 2020).

Units are divided into K parts by keyed hashes, and each part has a critic of its own, which learns from its rows
without noise and never leaves this module. Critics take turns in public order, turn t by critic t mod K. At a turn the
training hands in public fake rows x_1, ..., x_F; the critic of that turn learns from the rows of its part and from
these, and the answer of the turn is

.. math:: \mathrm{clip}\bigl(\nabla f(x_i) / C\bigr), \quad i = 1, \dots, B, \qquad \text{plus noise},

B vectors, each shortened to at most 1. Whatever a critic is, two lists of B such vectors lie at most 2 sqrt(B) apart:
that is the most by which one unit moves a turn of its own part's critic. It moves no other turn, and pays for the turns
of its part: ceil(T / K) of T. A replaced unit may leave one part and enter another, and pays for the turns of both
(``docs/proofs/critic-turns.md``). No sampling is claimed to amplify anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import Arrays, Inner, binned
from synth.privacy.more.gradients import GRIDS, LARGEST_CLIP, SMALLEST_CLIP, UNIT_BITS
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.private_critics import PrivateCritic, divided
from synth.privacy.more.row_moments import clipped_columns
from synth.privacy.more.training_steps import PublicTraining, Step, StepsPlan, StepsQuestion
from synth.privacy.noise import NoiseSource
from synth.privacy.questions import Allowance
from synth.privacy.receipt import Mechanism, PlannedCost
from synth.schema import Schema
from synth.system.machine import single_thread

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MOST_NUMBERS", "MOST_PARTS", "MOST_ROWS", "CriticTurns", "clipped_gradients", "parts_touched", "turns_paid"]

MOST_PARTS, MOST_ROWS, MOST_LEARNED = 2**14, 2**12, 10_000
"""Most critics, fake rows of an answer, and steps of a critic in one turn."""

MOST_NUMBERS = 2**24
"""Most numbers of an answer: 128 MB."""

ONE_PART = Bound(norm=1.0, diameter=2.0)
"""How many parts a row is in, and in how many a row and another one in its place are."""

LONGEST = 2.0**40
"""Every number of a gradient is cut off here, in units of the clip norm, before its length is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class CriticTurns(StepsQuestion):
    """Clipped gradients of private critics at fake rows, turn by turn.

    Parameters
    ----------
    tables : tuple of Lookup
        The columns of a row as numbers, side by side; each column once.
    parts : int
        Number K of parts of the units, and of critics.
    steps : int
        Number T of turns of all critics together.
    rows : int
        Number B of fake rows whose gradients are answered in a turn.
    clip : float
        C, the length to which longer gradients are shortened, and the unit of the answer; from 2^-20 to 2^20.
    learned : int
        Steps that a critic learns at each of its turns, before it answers.
    batch : int
        Rows of its part, and fake rows, in each of these.
    rate : float
        Learning rate of the critics.
    seed : int
        Public; draws critics' first weights and their batches, and no privacy noise.
    training : PublicTraining, optional
        Hands in fake rows, shape (F, width), F at least B, and learns from noisy gradients, shape (B * width,).

    Raises
    ------
    PrivacyError
        If a number is out of bounds.
    """

    kind: ClassVar[str] = "critic turns"
    mechanism: ClassVar[Mechanism] = "discrete_gaussian"

    tables: tuple[Lookup, ...]
    parts: int
    steps: int
    rows: int
    clip: float
    learned: int
    batch: int
    rate: float
    seed: int
    training: PublicTraining | None = None

    def __post_init__(self) -> None:
        tables = tuple(self.tables)
        names = [one.column for one in tables if type(one) is Lookup]
        if not tables or len(names) != len(tables) or len(set(names)) != len(names):
            raise PrivacyError("Critics see lookups of columns, at least one, each column once.")
        for what, value, most in (
            ("parts", self.parts, MOST_PARTS),
            ("turns", self.steps, MOST_NUMBERS),
            ("synthetic rows of a turn", self.rows, MOST_ROWS),
            ("steps of a critic in a turn", self.learned, MOST_LEARNED),
            ("rows of a critic's batch", self.batch, MOST_ROWS),
        ):
            if type(value) is not int or not 1 <= value <= most:
                raise PrivacyError(f"The number of {what} must be a whole number from 1 to {most:,}, got {value}.")
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise PrivacyError(f"The seed of critics must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        if not SMALLEST_CLIP <= self.clip <= LARGEST_CLIP:
            raise PrivacyError(f"The clip norm of critics must lie between 2^-20 and 2^20, got {self.clip}.")
        if not 0 < self.rate <= 1:
            raise PrivacyError(f"The learning rate of critics must be above 0 and at most 1, got {self.rate}.")
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "clip", float(self.clip))
        object.__setattr__(self, "rate", float(self.rate))
        numbers = self.steps * self.dimension
        if numbers > MOST_NUMBERS:
            raise PrivacyError(
                f"{self.steps:,} turns of {self.rows:,} synthetic rows with {self.width:,} numbers are {numbers:,} "
                f"numbers; at most {MOST_NUMBERS:,} can be released. Take fewer turns or fewer synthetic rows."
            )

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return sum(one.dimension for one in self.tables)

    @property
    def dimension(self) -> int:
        """Numbers of a turn: those of its fake rows, row after row."""
        return self.rows * self.width

    def check(self, schema: Schema) -> None:
        """Refuse lookups of another table, more parts or fake rows than declared units, and hidden cells."""
        schema.require_whole_rows()
        for one in self.tables:
            one.check_codes(schema)
        self.check_numbers(schema)

    def check_numbers(self, schema: Schema) -> None:
        """Refuse more parts or fake rows than declared units."""
        declared = schema.number_of_units
        turn = ("synthetic rows in a turn", "a smaller batch_size")
        for (what, less), value in ((("parts", "fewer parts"), self.parts), (turn, self.rows)):
            if declared is not None and value > declared:
                raise PrivacyError(
                    f"{value:,} {what} are more than the {declared:,} {schema.unit.plural} that are declared. "
                    f"Choose {less} (4 Generate)."
                )

    def sensitivity(self, schema: Schema) -> float:
        """Return how far one unit moves all turns together, in units of C: 2 sqrt(B) times the root of its turns."""
        paid = turns_paid(self.steps, self.parts, parts_touched(schema, self.parts))
        return math.nextafter(2.0 * math.sqrt(self.rows * paid), math.inf)

    def plan(self, allowed: Allowance) -> StepsPlan:
        """Find the least Gaussian noise for all turns; the same in each of them."""
        numbers, sensitivity = self.steps * self.dimension, self.sensitivity(allowed.schema)
        noise = allowed.least_noise(GRIDS, lambda _: sensitivity, numbers)
        return StepsPlan(noise, PlannedCost.of_sum(noise, numbers))

    def of_rows(self, plan: StepsPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Step:
        """Return what takes the turns; on the processor, whatever the device."""
        return _Turns(self, plan, rows)

    def to_json(self, name: str, arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Return columns and settings."""
        columns = [one.to_json(f"{name}.{place}", arrays) for place, one in enumerate(self.tables)]
        settings = {
            "parts": self.parts,
            "steps": self.steps,
            "rows": self.rows,
            "clip": self.clip,
            "learned": self.learned,
            "batch": self.batch,
            "rate": self.rate,
            "seed": self.seed,
        }
        return {"columns": columns, **settings}, arrays

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the question of columns and settings."""
        return cls(
            tables=tuple(one for one in map(inner, said["columns"]) if isinstance(one, Lookup)),
            **{name: said[name] for name in ("parts", "steps", "rows", "learned", "batch", "seed")},
            clip=float(said["clip"]),
            rate=float(said["rate"]),
        )


def parts_touched(schema: Schema, parts: int) -> int:
    """Return in how many parts one unit can change rows between neighbours.

    With ids all rows of a unit are in one part; without, each row is where its contents put it. A replaced unit changes
    the parts of both, the one that goes and the one that comes.
    """
    known = schema.unit.id_column is not None
    return min(parts, int(between_neighbours(ONE_PART, schema, rows=1 if known else None)))


def turns_paid(turns: int, parts: int, touched: int) -> int:
    """Return the most turns that critics of so many parts can have: critic t mod K has turn t."""
    return touched * (turns // parts) + min(touched, turns % parts)


class _Turns:
    """The critics of one question while it is answered; nothing of this leaves but clipped gradients."""

    __slots__ = ("_columns", "_critics", "_ends", "_order", "_plan", "_question", "_tables")

    def __init__(self, question: CriticTurns, plan: StepsPlan, rows: PrivateRows) -> None:
        if rows.keyed is None:
            raise PrivacyError("Units are divided among critics, and these rows do not say whose they are.")
        self._question, self._plan = question, plan
        self._order, self._ends = divided(rows.keyed(), question.parts)
        self._columns = {one.column: rows.column(one.column) for one in question.tables}
        self._tables = [one.table.astype(np.float32) for one in question.tables]
        self._critics: dict[int, PrivateCritic] = {}

    def __call__(self, number: int, at: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the clipped gradients of one turn in grid steps, before noise."""
        question = self._question
        fake = np.asarray(at, dtype=np.float64)
        if fake.ndim != 2 or fake.shape[1] != question.width or len(fake) < question.rows:
            raise PrivacyError(
                f"A turn of critics takes at least {question.rows:,} fake rows of {question.width:,} numbers."
            )
        if not (np.abs(fake) <= 1.0).all():
            raise PrivacyError("The numbers of a fake row must lie between -1 and 1.")
        part = number % question.parts
        own = self._order[self._ends[part - 1] if part else 0 : self._ends[part]]
        with single_thread():
            found = self._gradients(number, part, own, fake)
        return clipped_gradients(found, question.clip) << (2 * self._plan.gaussian.half_bits - UNIT_BITS)

    def _gradients(
        self, number: int, part: int, own: NDArray[np.int64], fake: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Let the critic of a part learn, and return its gradients at the first fake rows, shape (rows, width)."""
        question = self._question
        if not len(own):
            return np.zeros((question.rows, question.width))
        critic = self._critics.get(part)
        if critic is None:
            critic = PrivateCritic(question.width, rate=question.rate, seed=question.seed)
            self._critics[part] = critic
        rows, count = _owned(fake.astype(np.float32)), question.batch
        random = np.random.default_rng([question.seed, number])
        # A small part is read once, a large one as far as it is drawn; the numbers are the same.
        whole = self._encoded(own) if len(own) <= count * question.learned else None
        for _ in range(question.learned):
            places = random.integers(len(own), size=count)
            real = self._encoded(own[places]) if whole is None else whole[_owned(places)]
            chosen = rows[_owned(random.integers(len(rows), size=count))]
            between = _owned(random.random((count, 1), dtype=np.float32))
            critic.learn(real, chosen, between)
        return np.asarray(critic.gradients(rows[: question.rows]).double().numpy())

    def _encoded(self, places: NDArray[np.int64]) -> Tensor:
        """Return rows as numbers, shape (n, width)."""
        found = [
            table[binned(self._columns[one.column][places], one.bins)]
            for one, table in zip(self._question.tables, self._tables, strict=True)
        ]
        return _owned(np.concatenate(found, axis=1))

    def __repr__(self) -> str:
        return "<critics: not shown>"


def _owned(array: NDArray[Any]) -> Tensor:
    """Return a copy in memory of torch's own, which begins at a multiple of 64 bytes, as numpy's may not.

    The order in which a product adds up may depend on where its factors lie, and must not depend on the heap.
    """
    import torch

    return torch.from_numpy(array).clone()


def clipped_gradients(gradients: NDArray[np.float64], clip: float) -> NDArray[np.int64]:
    """Shorten every gradient to at most ``clip``, by itself.

    Parameters
    ----------
    gradients : array of shape (rows, width)
        Whatever they are: what is no number counts as 0.
    clip : float

    Returns
    -------
    array of shape (rows * width,), int64
        In whole steps of 2^-24 of ``clip``; the squares of a row's add up to at most 2^48.
    """
    import torch

    with np.errstate(over="ignore"):
        in_clips = np.nan_to_num(gradients / clip, nan=0.0, posinf=LONGEST, neginf=-LONGEST)
    columns: Tensor = torch.from_numpy(np.clip(in_clips, -LONGEST, LONGEST).T.copy())
    return np.ascontiguousarray(clipped_columns(columns, UNIT_BITS).numpy().T).astype(np.int64).reshape(-1)
