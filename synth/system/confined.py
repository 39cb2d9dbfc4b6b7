"""A sandbox for reading untrusted bytes: a process with limited memory and time, no files, and nothing inherited.

The program starts one of its own modules as :class:`Confined`, writes its request and reads the answers until a
deadline. The module calls :func:`answers_alone` and :func:`confine` before it reads anything untrusted.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import BinaryIO, Self, cast

from synth.system.machine import CHOOSE_KERNELS

__all__ = ["CHUNK", "Confined", "answers_alone", "confine", "memory_is_short"]

CHUNK = 2**20
"""Most bytes to read from such a process at once."""

_BEAT_SECONDS = 0.2

_KEPT_VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT", "TZDIR"),
    # These choose how libraries take sums, and with that the last digits of what is computed.
    *("OPENBLAS_CORETYPE", *CHOOSE_KERNELS),
)


class Confined:
    """A module of this program in a separate process; leaving the block kills it.

    Parameters
    ----------
    module : str
        Run as ``python -m module``.
    *arguments : str
        Its command line.
    seconds : float
        How long to wait for all of its answers together.
    shared : sequence of int
        Descriptors of memory that it may open; nothing else is inherited.
    beat : callable, optional
        Called several times a second while its answers are awaited; whatever it raises ends the waiting.

    Attributes
    ----------
    process : subprocess.Popen
        Its error output is discarded.
    questions : binary file
        What it reads.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        seconds: float,
        shared: Sequence[int] = (),
        beat: Callable[[], None] | None = None,
    ) -> None:
        root = str(Path(__file__).resolve().parents[2])
        variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
        # One thread and one plain memory pool keep the reserved memory, which is limited, small.
        variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        # Large arrays are given back one by one: left in the heap, they would hold it in pieces.
        variables |= {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(2**20), "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
            bufsize=0,
            pass_fds=tuple(shared),
        )
        self.questions = cast(BinaryIO, self.process.stdin)
        self._answers = cast(BinaryIO, self.process.stdout)
        self._deadline = time.monotonic() + seconds
        self._beat = beat
        self._ready = select.poll()
        self._ready.register(self._answers.fileno(), select.POLLIN)

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes of its output; none at the end.

        Raises
        ------
        TimeoutError
            If the deadline has passed.
        """
        while (left := self._deadline - time.monotonic()) > 0:
            if self._ready.poll(1000 * (left if self._beat is None else min(left, _BEAT_SECONDS))):
                return os.read(self._answers.fileno(), min(size, CHUNK))
            if self._beat is not None:
                self._beat()
        raise TimeoutError

    def kill(self) -> None:
        """Kill it, if it has not ended by itself."""
        self.process.kill()
        self.process.wait()

    def used_up_its_time(self) -> bool:
        """Whether it ended because it had used up its processor time; kill it if it has not ended."""
        self.kill()
        return self.process.returncode == -signal.SIGXCPU

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._answers.close()
        try:
            self.questions.close()
        except BrokenPipeError:
            return


def answers_alone() -> BinaryIO:
    """Return the stream for this process's answers; anything else it prints from now on is discarded."""
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    return answers


class _WithoutPandas(MetaPathFinder, Loader):
    """Pyarrow imports pandas before its first array but works without it, which halves the start time of a reader.

    Torch only asks whether there is such a package, so it is found, and refused when it is loaded.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ModuleNotFoundError("pandas is not imported here", name=spec.name)


def confine(*, memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process permanently: private memory, processor time, no core dumps, no files, no pandas.

    Parameters
    ----------
    memory_bytes : int
        Private memory, without the libraries' own pages.
    cpu_seconds : int
        Processor time; a second later the process is killed.
    """
    sys.meta_path.insert(0, _WithoutPandas())
    tempfile.gettempdir()  # which is found by writing a file, and remembered
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CPU, cpu_seconds, grace=1)
    if sys.platform != "darwin":  # which does not count mapped memory
        _limit(resource.RLIMIT_DATA, memory_bytes)


def memory_is_short() -> bool:
    """Whether this process is close to its limit, where libraries fail in other ways than by a ``MemoryError``."""
    try:
        bytearray(_ROOM)
    except MemoryError:
        return True
    return False


_ROOM = 64 * 2**20
"""Memory that a healthy process still has."""


def _limit(kind: int, most: int, *, grace: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    lowered = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit on processor time kills, so it is above the soft one, whose signal gives the reason.
    above = grace if lowered != hard else 0
    resource.setrlimit(kind, (lowered, lowered + above))
