"""The resources of this machine: its name, processors and GPUs, the device that computes, and its threads.

Importing torch takes a second, so it is imported where something is computed, and not to find out what there is.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from synth.errors import ConfigError

__all__ = [
    "MACHINE_GPUS",
    "available_gpus",
    "computes_exactly",
    "core_cache_bytes",
    "cores",
    "cuda_is_available",
    "cuda_library_bytes",
    "device_name",
    "free_memory_bytes",
    "is_device_name",
    "is_lack_of_means",
    "local_processes",
    "one_thread",
    "processor_kind",
    "processor_name",
    "quota_threads",
    "require_device",
    "resolved_device",
    "single_thread",
    "this_host",
]

MACHINE_GPUS = "HERMITAGE_MACHINE_GPUS"
"""Environment variable by which a worker, which sees only one GPU, passes the names of all to the next worker."""

MOST_PROCESSES = 8
"""Processes that read or count a part of one table; each takes 150 to 220 MiB."""

CGROUPS = Path("/sys/fs/cgroup")


def this_host() -> str:
    """Return the name of this machine, to which its process numbers belong."""
    return platform.node() or "localhost"


def cores() -> int:
    """Return how many processors this process may use, with regard to the quota of a container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = map(int, _quota())
    except (OSError, ValueError):  # no quota, or one that reads "max"
        return allowed
    return max(1, min(allowed, quota // period)) if quota > 0 else allowed  # in cgroups v1 no quota reads -1


def _quota() -> list[str]:
    if (CGROUPS / "cpu.max").exists():
        return (CGROUPS / "cpu.max").read_text(encoding="ascii").split()
    older = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return [(CGROUPS / "cpu" / name).read_text(encoding="ascii") for name in older]


def local_processes(wanted: int = 0) -> int:
    """Return how many processes of one run may read or count a table side by side.

    Parameters
    ----------
    wanted : int
        A configured number; 0 looks at the machine.

    Returns
    -------
    int
        At most :data:`MOST_PROCESSES`, because each takes memory of its own.
    """
    return min(wanted if wanted > 0 else cores(), MOST_PROCESSES)


def free_memory_bytes() -> int:
    """Return how much memory can still be used, with regard to the limit of a container."""
    import psutil  # here, as confined processes do without

    free = int(psutil.virtual_memory().available)
    try:
        most = int((CGROUPS / "memory.max").read_text(encoding="ascii"))
        used = int((CGROUPS / "memory.current").read_text(encoding="ascii"))
        told = dict(line.split() for line in (CGROUPS / "memory.stat").read_text(encoding="ascii").splitlines())
        # What the system keeps of files makes room as soon as it is needed.
        return min(free, most - used + int(told["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no such limit, or one that reads "max"
        return free


@cache
def core_cache_bytes() -> int:
    """Return the size of the second-level cache of one core; 1 MiB if the machine does not say."""
    try:
        told = os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (AttributeError, OSError, ValueError):
        told = 0
    return told if told > 0 else 2**20


def processor_name() -> str:
    """Return the name of the processor, or its architecture if the machine does not say more."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, names), platform.processor() or platform.machine())


CHOOSE_KERNELS = ("NPY_DISABLE_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "MKL_CBWR")
"""Environment variables by which libraries choose how they take sums; OpenBLAS says which kernels it chose."""


@cache
def processor_kind() -> str:
    """Return the architecture of the processor, its widest vector instructions, and the kernels of its linear algebra.

    An example is "x86_64-avx512-intel-SkylakeX". Libraries choose by them how sums are taken, so last digits may differ
    between two kinds.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    kinds = (("avx512", "avx512f"), ("avx2", "avx2"), ("sve", "sve"), ("neon", "asimd"))
    widest = next((f"-{kind}" for kind, flag in kinds if flag in flags), "")
    machine = platform.machine() or "unknown"
    vendors = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")
    chosen = {name: os.environ[name] for name in CHOOSE_KERNELS if os.environ.get(name)}
    kernels = {str(library.get("architecture") or "") for library in threadpool_info()}
    digest = f"set{hashlib.sha256(repr(sorted(chosen.items())).encode()).hexdigest()[:8]}" if chosen else ""
    return "-".join(filter(None, (f"{machine}{widest}", vendors.get(named, ""), *sorted(kernels), digest)))


def available_gpus(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the GPUs this machine may use, lowest first, as ``CUDA_VISIBLE_DEVICES`` names them."""
    variables = os.environ if environment is None else environment
    for name in (MACHINE_GPUS, "CUDA_VISIBLE_DEVICES"):
        listed = variables.get(name)
        if listed is not None:
            return tuple(entry.strip() for entry in listed.split(",") if entry.strip() and entry.strip() != "-1")
    return _installed_gpus()


@cache
def _installed_gpus() -> tuple[str, ...]:
    # With the driver's tool, because importing torch takes seconds in a process that never computes.
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        answer = subprocess.run(
            [tool, "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip().isdigit())


# The device that computes ---------------------------------------------------------------------------------------------


_DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")
"""Libraries of graphics drivers; a device that torch calls "cuda" needs one of them."""

_NO_CUDA = "device is cuda, but no CUDA device was found. Use auto or cpu."

_DEVICE_WORDS = (
    "CUDA error",
    "CUDA out of memory",
    "CUDA driver",
    "CUBLAS_STATUS_",
    "cuDNN error",
    "DefaultCPUAllocator",
)


_CUDA_LIBRARIES = 768 * 2**20
"""Memory that PyTorch 2.13 for CUDA 13 takes by itself as soon as it is imported, beyond PyTorch without: 640 MiB."""


def cuda_library_bytes() -> int:
    """Return the private memory that PyTorch takes for CUDA as soon as it is imported; it is not imported here."""
    found = importlib.util.find_spec("torch")
    folder = None if found is None or found.origin is None else Path(found.origin).parent / "lib"
    return 0 if folder is None or not any(folder.glob("libtorch_cuda.*")) else _CUDA_LIBRARIES


def cuda_is_available() -> bool:
    """Whether torch finds a CUDA device; torch is not imported if there is no driver."""
    if not any(map(_loads, _DRIVERS)):
        return False
    import torch

    return bool(torch.cuda.is_available())


@cache
def computes_exactly(device: str) -> bool:
    """Whether float64 on a device is as exact as sums over private rows need; tested once per process.

    Products of whole numbers must be exact up to 52 bits, whatever the number of rows, and single operations must be
    rounded by the IEEE standard. Settings outside the program can have float64 emulated with fewer bits.

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


_CARDS = "NVIDIA|Tesla|Quadro|GeForce|TITAN|AMD|Radeon|Intel"
_A_CARD = "graphics card"
_DEVICE_NAME = re.compile(rf"cpu|{_A_CARD}|(?:{_CARDS})[A-Za-z0-9 ()./+-]{{0,60}}", re.ASCII)


def device_name(device: str) -> str:
    """Return the name of a device in a certificate: "cpu", or for "cuda" the name that the driver gives the card."""
    if device == "cpu":
        return device
    import torch

    named = torch.cuda.get_device_name()
    return named if is_device_name(named) else _A_CARD


def is_device_name(named: str) -> bool:
    """Whether :func:`device_name` can return this name."""
    return _DEVICE_NAME.fullmatch(named) is not None


def require_device(device: str) -> None:
    """Refuse a device that this machine does not have, as :func:`resolved_device` does, without using it.

    Raises
    ------
    ConfigError
        If "cuda" is asked for and there is none.
    """
    if device == "cuda" and not cuda_is_available():
        raise ConfigError(_NO_CUDA)


def is_lack_of_means(error: BaseException) -> bool:
    """Whether an error says that memory or the device failed, so that another attempt on the processor may succeed.

    Parameters
    ----------
    error : BaseException
        Torch's message is inspected, but never shown.
    """
    if isinstance(error, MemoryError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.split(".")[0] == "torch"}
    if kinds & {"OutOfMemoryError", "AcceleratorError"}:
        return True
    # Older errors of torch can only be recognised by their text.
    return type(error) is RuntimeError and any(words in str(error) for words in _DEVICE_WORDS)


def resolved_device(device: str) -> str:
    """Return the device to compute on, "cpu" or "cuda"; "auto" means CUDA if there is a device that computes exactly.

    Raises
    ------
    ConfigError
        If there is no such device, or "cuda" is asked for and there is none or it does not compute exactly.
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
            "device is cuda, but this one does not compute exactly in float64, as sums over private rows require. "
            "Unset what causes float64 to be emulated (such as CUBLAS_EMULATE_DOUBLE_PRECISION), or use auto or cpu."
        )
    return "cuda" if exact else "cpu"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


# Threads --------------------------------------------------------------------------------------------------------------


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one CPU thread, so that sums have one order; restores the number of threads."""
    with _threads(1):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread, in a run as in its check, so that sums have one order; also a decorator."""
    import scipy.linalg  # noqa: F401 - what it brings of its own is limited only once it is loaded

    with threadpool_limits(1):
        yield


@contextmanager
def quota_threads() -> Iterator[None]:
    """Run torch on at most as many CPU threads as this process may use; restores the number of threads.

    Torch starts a thread for each processor of the host. In a container that may use two of them, small matrices then
    take a hundred times as long.
    """
    import torch

    with _threads(min(torch.get_num_threads(), cores())):
        yield


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
