"""Which device computes, without starting torch where no graphics driver is installed."""

from __future__ import annotations

import ctypes

from synth.errors import ConfigError

__all__ = ["cuda_is_available", "resolved_device"]

_DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")
"""Libraries of graphics drivers, one of which every device that torch calls "cuda" needs."""


def cuda_is_available() -> bool:
    """Whether torch finds a CUDA device; it is not started to ask where there is no driver."""
    if not any(map(_loads, _DRIVERS)):
        return False
    import torch

    return bool(torch.cuda.is_available())


def resolved_device(device: str) -> str:
    """Return the device to compute on, "cpu" or "cuda"; "auto" takes CUDA where there is one.

    Raises
    ------
    ConfigError
        If there is no such device, or "cuda" is asked for where there is none.
    """
    if device not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"device must be auto, cpu or cuda, got {device}.")
    if device == "cpu":
        return device
    available = cuda_is_available()
    if device == "cuda" and not available:
        raise ConfigError("device is cuda, but no CUDA device was found. Use auto or cpu.")
    return "cuda" if available else "cpu"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
