"""Which device computes, without starting torch where no graphics driver is installed."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from synth.errors import ConfigError

__all__ = ["computes_exactly", "cuda_is_available", "is_lack_of_means", "require_device", "resolved_device"]

_DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")
"""Libraries of graphics drivers, one of which every device that torch calls "cuda" needs."""

_NO_CUDA = "device is cuda, but no CUDA device was found. Use auto or cpu."

_DEVICE_WORDS = (
    "CUDA error",
    "CUDA out of memory",
    "CUDA driver",
    "CUBLAS_STATUS_",
    "cuDNN error",
    "DefaultCPUAllocator",
)


def cuda_is_available() -> bool:
    """Whether torch finds a CUDA device; it is not started to ask where there is no driver."""
    if not any(map(_loads, _DRIVERS)):
        return False
    import torch

    return bool(torch.cuda.is_available())


@functools.cache
def computes_exactly(device: str) -> bool:
    """Whether float64 on a device is what sums over private rows take it for; tried once in a process.

    Products of whole numbers must come out exact where they need 52 bits, whatever the number of rows, and single
    operations rounded as IEEE arithmetic says. Settings outside the program can have float64 emulated with fewer bits.

    Parameters
    ----------
    device : str
        "cpu" or "cuda".
    """
    import torch

    random = np.random.default_rng(0)
    for n_rows, width in ((1, 128), (7, 128), (4096, 64), (2**16, 16)):
        most = 2 ** ((52 - (n_rows - 1).bit_length()) // 2)
        left, right = random.integers(most // 2, most, (2, n_rows, width))
        on_device = (torch.from_numpy(side.astype(np.float64)).to(device) for side in (left, right))
        product = (next(on_device).T @ next(on_device)).cpu().numpy()
        if not np.array_equal(product, left.T @ right):
            return False
    one, other = random.normal(size=(2, 4099)) + 2.0
    first, second = (torch.from_numpy(side).to(device) for side in (one, other))
    single = ((first * second, one * other), (first + second, one + other), (first / second, one / other))
    return all(np.array_equal(found.cpu().numpy(), expected) for found, expected in single)


def require_device(device: str) -> None:
    """Refuse a device that this machine does not have, as :func:`resolved_device` does, without starting it.

    Raises
    ------
    ConfigError
        If "cuda" is asked for where there is none.
    """
    if device == "cuda" and not cuda_is_available():
        raise ConfigError(_NO_CUDA)


def is_lack_of_means(error: BaseException) -> bool:
    """Whether an error says that memory or the device failed: another attempt, on the processor, may succeed.

    Parameters
    ----------
    error : BaseException
        The text of one of torch is looked at, and goes nowhere.
    """
    if isinstance(error, MemoryError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.split(".")[0] == "torch"}
    if kinds & {"OutOfMemoryError", "AcceleratorError"}:
        return True
    # Of older errors torch says in words alone what they are.
    return type(error) is RuntimeError and any(words in str(error) for words in _DEVICE_WORDS)


def resolved_device(device: str) -> str:
    """Return the device to compute on, "cpu" or "cuda"; "auto" takes CUDA where there is one that computes exactly.

    Raises
    ------
    ConfigError
        If there is no such device, or "cuda" is asked for where there is none or it does not compute exactly.
    """
    if device not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"device must be auto, cpu or cuda, got {device}.")
    if device == "cpu":
        return device
    available = cuda_is_available()
    if device == "cuda" and not available:
        raise ConfigError(_NO_CUDA)
    exact = available and computes_exactly("cuda")
    if device == "cuda" and not exact:
        raise ConfigError(
            "device is cuda, but this one does not compute exactly in float64, which sums over private rows need. "
            "Unset what has float64 emulated (such as CUBLAS_EMULATE_DOUBLE_PRECISION), or use auto or cpu."
        )
    return "cuda" if exact else "cpu"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
