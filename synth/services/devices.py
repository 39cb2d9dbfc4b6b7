"""Which device a run computes on, and why, in words."""

from __future__ import annotations

from synth.generators.protocol import Card

__all__ = ["device_words", "working_device"]


def device_words(card: Card, asked: str, *, gpu: bool) -> str:
    """Say which device will be used, and why.

    Parameters
    ----------
    card : Card
        Of the generator or model that is fitted.
    asked : {"auto", "cpu", "cuda"}
    gpu : bool
        Whether this machine has a graphics card.
    """
    name = f"`{card.name}`"
    if asked == "cpu":
        return "The CPU computes, as you chose."
    if asked == "cuda" and not gpu:
        return "This machine has no GPU: the run would be refused before anything is spent. Choose another device."
    if not gpu:
        return "The CPU computes: this machine has no GPU."
    if card.on_card == "never":
        return f"The CPU fits {name}, which has nothing that a GPU does quicker; sums over many rows go to the GPU."
    if asked == "cuda":
        return (
            f"The GPU fits {name}, as you chose. It changes no answer and no promise; last digits of rows can differ."
        )
    if card.on_card == "whole":
        return f"The GPU does {card.card_work}; the CPU does the rest."
    return f"The CPU fits {name}; the GPU takes over {card.card_work}."


def working_device(card: Card, device: str) -> str:
    """Say what is computing a run of which the store knows ``device``: "CPU", "GPU" or both."""
    if device != "cuda" or card.on_card == "never":
        return "CPU"
    return "GPU" if card.on_card == "whole" else "CPU and GPU"
