"""Say in words which device a run uses, and why."""

from __future__ import annotations

from synth.generators.protocol import Card

__all__ = ["device_words", "working_device"]


def device_words(card: Card, asked: str, *, gpu: bool) -> str:
    """Say which device a run will use, and why.

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
    if card.on_card == "whole":
        return f"The GPU does {card.card_work}; the CPU does the rest."
    return f"The CPU fits {name}; the GPU handles {card.card_work}."


def working_device(card: Card, device: str) -> str:
    """Say what computes a run whose stored device is ``device``: "CPU", "GPU" or both."""
    if device != "cuda" or card.on_card == "never":
        return "CPU"
    return "GPU" if card.on_card == "whole" else "CPU and GPU"
