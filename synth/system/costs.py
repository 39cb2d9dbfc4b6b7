"""What computing costs here: seconds for each kind of work on the processor and on a graphics card, measured and kept.

A fit is stated as :class:`Work`, in numbers; a :class:`CostTable` turns it into predicted seconds on either device. The
table is measured in less than a second the first time that a run has the choice, and again if the card, the processor
or torch is another one than before. Predictions decide only where a fit computes, never what is asked.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Self

from synth.system.disk import replace_durably
from synth.system.machine import device_name, processor_name, single_thread

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["COSTS_FILE", "CostTable", "Costs", "Work", "costs_here", "kept_costs", "measured_costs", "training_step"]

COSTS_FILE = "device-costs.json"
"""The file of the home that keeps the table."""

_LEAST_SECONDS = 0.01
"""Every kind of work is repeated for at least this long, three times; the shortest time counts."""

STEP_OPERATIONS = 26
"""Operations of :func:`training_step`, without those that only say how numbers are read."""

_SIDE, _NUMBERS = 768, 2**19
"""Side of the matrices, and numbers of the tables, that are worked on: about as large as those of a fit."""

_LEAST_TOLD = 1e-9
"""What a clock that stands still would make of a repetition, in seconds."""

_LARGEST_FILE = 2**14


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a fit computes, in numbers.

    Attributes
    ----------
    steps : int
        Steps of training, or blocks of rows.
    operations : float
        Operations of torch in each step; a card is given them one after another.
    single, double : float
        Floating-point operations of matrix products in each step, in float32 and in float64.
    bytes : float
        Bytes that each step reads and writes.
    """

    steps: int
    operations: float
    single: float = 0.0
    double: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds for each kind of work on one device.

    Attributes
    ----------
    operation : float
        For an operation of a training step on a few numbers: the time to launch it.
    single, double : float
        For a floating-point operation within a matrix product.
    byte : float
        For a byte that is read or written, element by element.
    """

    operation: float
    single: float
    double: float
    byte: float

    def __post_init__(self) -> None:
        if not all(isinstance(cost, float) and math.isfinite(cost) and cost > 0 for cost in asdict(self).values()):
            raise ValueError("A cost must be a positive number of seconds.")

    def parts(self, work: Work) -> tuple[float, float]:
        """Return the seconds that operations are launched for, and the seconds that they compute for."""
        computing = work.single * self.single + work.double * self.double + work.bytes * self.byte
        return work.steps * work.operations * self.operation, work.steps * computing


@dataclass(frozen=True, slots=True)
class CostTable:
    """The costs of the processor and of the card of one machine.

    Attributes
    ----------
    about : str
        The card, the processor and the version of torch that were measured.
    cpu, card : Costs
    """

    about: str
    cpu: Costs
    card: Costs

    def cpu_seconds(self, work: Work) -> float:
        """Return how long the processor is predicted to take: it launches an operation when the last one is done."""
        return sum(self.cpu.parts(work))

    def card_seconds(self, work: Work) -> float:
        """Return how long the card is predicted to take: operations are launched while it computes earlier ones."""
        return max(self.card.parts(work))

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Read a kept table.

        Raises
        ------
        ValueError, KeyError, TypeError
            If it is damaged.
        """
        kept = json.loads(content)
        names = [field.name for field in fields(Costs)]
        cpu, card = (Costs(**{name: kept[device][name] for name in names}) for device in ("cpu", "card"))
        return cls(str(kept["about"]), cpu, card)

    def to_json(self) -> bytes:
        """Return the table as it is kept."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()


# Keeping --------------------------------------------------------------------------------------------------------------


def costs_here(home: Path) -> CostTable:
    """Return the kept table of this machine; measure and keep it if there is none, or it is damaged or of another card.

    Imports torch. Only where a card can be used.
    """
    about = _about()
    kept = kept_costs(home)
    if kept is not None and kept.about == about:
        return kept
    table = CostTable(about, measured_costs("cpu"), measured_costs("cuda"))
    with suppress(OSError):  # a full disk is no reason to stop: it is measured again next time
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_durably(home / COSTS_FILE, table.to_json())
    return table


def kept_costs(home: Path) -> CostTable | None:
    """Return the table that is kept, of whichever card, or None if there is none that can be read."""
    try:
        with (home / COSTS_FILE).open("rb") as file:
            return CostTable.from_json(file.read(_LARGEST_FILE))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _about() -> str:
    return f"{device_name('cuda')}; {processor_name()}; torch {metadata.version('torch')}"


# Measuring ------------------------------------------------------------------------------------------------------------


def measured_costs(device: str) -> Costs:
    """Measure every kind of work on a device, "cpu" or "cuda", on one thread.

    An operation is one of a small training step with a gradient, as a fit has them.
    """
    import torch

    with single_thread():
        small = [torch.full((16, 16), 0.01, device=device) for _ in range(3)]
        single = torch.ones(_SIDE, _SIDE, device=device)
        double = single.double()
        numbers = torch.linspace(0.0, 1.0, _NUMBERS, device=device)
        return Costs(
            operation=_seconds(lambda: training_step(small)) / STEP_OPERATIONS,
            single=_seconds(lambda: single @ single) / (2 * _SIDE**3),
            double=_seconds(lambda: double @ double) / (2 * _SIDE**3),
            # Five tables of float32 are read or written.
            byte=_seconds(lambda: numbers.exp() * numbers) / (5 * 4 * _NUMBERS),
        )


def training_step(layers: list[Tensor]) -> Tensor:
    """Take a step on a few numbers: layers, a loss, its gradient, and new weights."""
    import torch

    learned = [layer.detach().requires_grad_() for layer in layers]
    rows = learned[0]
    for layer in learned:
        rows = torch.tanh(rows @ layer)
    slopes = torch.autograd.grad(rows.square().mean(), learned)
    with torch.no_grad():
        for layer, slope in zip(layers, slopes, strict=True):
            layer.sub_(slope, alpha=1e-6)
    return layers[0]


def _seconds(work: Callable[[], Tensor]) -> float:
    """Return the seconds of one repetition; waits for a card only after many."""
    _repeated(work, 1)  # what is loaded the first time
    times = 1
    while (taken := _repeated(work, times)) < _LEAST_SECONDS:
        times *= 2
    return max(min(taken, _repeated(work, times), _repeated(work, times)) / times, _LEAST_TOLD)


def _repeated(work: Callable[[], Tensor], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        made = work()
    made.flatten()[:1].cpu()
    return time.perf_counter() - begin
