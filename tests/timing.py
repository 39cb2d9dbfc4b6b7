"""How long something may take, on a machine that may have other things to do."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["require_within"]

TRIES = 3

_QUIET_SECONDS = 0.015
"""Processor time of the yardstick on a quiet machine, with room for slower ones; measured 0.007."""


def require_within(seconds: float, work: Callable[[], object]) -> None:
    """Require that one of a few tries takes no more processor time: what is too slow, is so every time.

    What else happens in this process, a collection of garbage for example, is not the work's. Processor time too grows
    where many processes share caches and clock, so each try may take longer by as much as a yardstick does beside it.
    """
    took, allowed = [], []
    for _ in range(TRIES):
        before = _spent(_yardstick)
        took.append(_spent(work))
        allowed.append(seconds * max(1.0, before / _QUIET_SECONDS, _spent(_yardstick) / _QUIET_SECONDS))
        if took[-1] < allowed[-1]:
            return
    raise AssertionError(f"took {took} seconds, and may take {allowed}")


def _spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _yardstick() -> int:
    return sum(number * number % 7 for number in range(200_000))
