"""Choose the device of a run by what was measured here, and say in words which one it is, and why.

The choice follows from declared facts and from measured costs; no row decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from synth.estimators import describe, make
from synth.generators import GeneratorTask
from synth.generators.protocol import Card
from synth.schema import RunConfig
from synth.system.costs import CostTable, Work, costs_here
from synth.system.machine import is_lack_of_means, resolved_device

__all__ = [
    "CONTINUED_ON_CPU",
    "DeviceChoice",
    "device_choice",
    "device_words",
    "on_planned_device",
    "planned_device",
    "working_device",
]

CONTINUED_ON_CPU = "Memory or the GPU failed, so the CPU continued from the answers that were kept."

_NOT_MEASURED = "The CPU fits the model: this GPU has no room, or failed, when its speed was to be measured."


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The device that a run gets.

    Attributes
    ----------
    device : {"cpu", "cuda"}
    why : str
        The reason, in one sentence.
    is_weighed : bool
        Whether both could have been taken.
    """

    device: str
    why: str
    is_weighed: bool = False


def planned_device(config: RunConfig, home: Path, *, found: str) -> DeviceChoice:
    """Choose the device of a run; measures this machine first if it has a card and was not measured yet.

    Parameters
    ----------
    config : RunConfig
    home : Path
        Where the measured costs are kept.
    found : {"cpu", "cuda"}
        What the configuration's device can mean here (:func:`synth.system.machine.resolved_device`).
    """
    card = describe(config.generator)
    if config.device != "auto" or found == "cpu" or card.on_card == "never":
        return DeviceChoice(found, device_words(card, config.device, gpu=found == "cuda"))
    try:
        costs = costs_here(home)
    except Exception as error:
        if not is_lack_of_means(error):
            raise
        return DeviceChoice("cpu", _NOT_MEASURED, is_weighed=True)
    model = make(config.generator, GeneratorTask.of(config, device="cpu"), config.options)
    # The number of private rows may be private itself, so declared numbers stand for it.
    return device_choice(card, model.work(config.rows or config.schema.number_of_units or 0), costs)


def on_planned_device(config: RunConfig, home: Path) -> RunConfig:
    """Return a configuration whose device is the CPU if that was chosen although there is a card."""
    found = resolved_device(config.device)
    chosen = planned_device(config, home, found=found).device
    return replace(config, device=chosen) if chosen == "cpu" != found else config


def device_choice(card: Card, work: Work, costs: CostTable) -> DeviceChoice:
    """Choose the device that is predicted to be quicker for some work; the processor if both are alike."""
    cpu, gpu = costs.cpu_seconds(work), costs.card_seconds(work)
    of = "" if card.on_card == "whole" else " for a mixture of products, if it needs one"
    if gpu < cpu:
        why = f"GPU: {_seconds(gpu)}{of}; the CPU would take {_seconds(cpu)} (predicted)."
        return DeviceChoice("cuda", why, is_weighed=True)
    why = f"CPU: {_seconds(cpu)}{of}; the GPU would take {_seconds(gpu)} (predicted)."
    return DeviceChoice("cpu", why, is_weighed=True)


def device_words(card: Card, asked: str, *, gpu: bool) -> str:
    """Say which device a run will use, and why, before it is planned.

    Parameters
    ----------
    card : Card
        The card of the generator or model.
    asked : {"auto", "cpu", "cuda"}
    gpu : bool
        Whether this machine has a graphics card.
    """
    name = f"`{card.name}`"
    if asked == "cpu":
        return "The run uses the CPU, as you chose."
    if asked == "cuda" and not gpu:
        return "This machine has no GPU, so the run would be refused before anything is spent. Choose another device."
    if not gpu:
        return "The run uses the CPU: this machine has no GPU."
    if card.on_card == "never":
        return f"The CPU fits {name}, which a GPU would not speed up; sums over many rows use the GPU."
    if asked == "cuda":
        return f"The GPU fits {name}, as you chose. Answers and guarantee do not change; the last digits of rows may."
    quicker = "whichever is predicted to be quicker from what was measured on this machine. The run says which, and why"
    if card.on_card == "whole":
        return f"The GPU or the CPU does {card.card_work}: {quicker}."
    return f"The CPU fits {name}. For {card.card_work}, the run uses the GPU or the CPU, {quicker}."


def working_device(card: Card, device: str) -> str:
    """Say what computes a run whose stored device is ``device``: "CPU", "GPU" or both."""
    if device != "cuda" or card.on_card == "never":
        return "CPU"
    return "GPU" if card.on_card == "whole" else "CPU and GPU"


def _seconds(seconds: float) -> str:
    """Return predicted seconds with one or two digits: a prediction is not known better.

    Examples
    --------
    >>> _seconds(0.3), _seconds(8.2), _seconds(96.0), _seconds(400.0)
    ('under 1 s', '8 s', '100 s', '7 min')
    """
    if seconds < 1:
        return "under 1 s"
    if seconds >= 120:
        return f"{math.ceil(seconds / 60):,} min"
    return f"{round(seconds, -1 if seconds >= 20 else 0):.0f} s"
