"""Many small trainings side by side, and how long one will take.

Trainings run on threads, not processes: rows stay in this process's memory, where a pool of processes would write them
to files. Every training itself runs on one thread, because several libraries' threads on few processors are slower than
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from threadpoolctl import threadpool_limits

from synth.reports.tree_predictors import quiet_and_single

__all__ = ["in_parallel", "in_words", "seconds_ahead"]

Answer = TypeVar("Answer")

_LOOK_SECONDS = 0.5
_SMALL, _LARGE = 300, 900


def in_parallel(
    works: Sequence[Callable[[], Answer]],
    *,
    threads: int,
    on_step: Callable[[int, int], None],
) -> list[Answer]:
    """Run every task and return the answers in order.

    Parameters
    ----------
    works : sequence of callables
        Each is independent; what they return must not depend on the order in which they run.
    threads : int
        How many at once, at least 1.
    on_step : callable
        Called with (done, total) at least twice a second, on the caller's thread; may raise to stop. Tasks that have
        begun are then waited for, the others are not begun.
    """
    total = len(works)
    with quiet_and_single(), ThreadPoolExecutor(max(1, threads), initializer=_single_thread) as pool:
        futures: list[Future[Answer]] = [pool.submit(work) for work in works]
        try:
            open_ones = set(futures)
            on_step(0, total)
            while open_ones:
                ended, open_ones = wait(open_ones, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
                on_step(total - len(open_ones), total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _single_thread() -> None:
    # OpenMP keeps its number of threads by thread, so every thread of the pool sets its own.
    threadpool_limits(1)


def seconds_ahead(
    train: Callable[[int], object], rows: int, *, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Estimate how long a training will take, from two small ones.

    Parameters
    ----------
    train : callable
        Trains on this many rows.
    rows : int
        How many rows the training in question has.
    clock : callable
        Seconds; a test passes its own.

    Returns
    -------
    float
        Seconds on a straight line through the two small trainings, never falling.
    """
    small, large = min(_SMALL, rows), min(_LARGE, rows)
    taken = []
    for size in (small, large):
        begun = clock()
        train(size)
        taken.append(clock() - begun)
    if large == small:
        return min(taken)
    slope = max(0.0, (taken[1] - taken[0]) / (large - small))
    return taken[1] + slope * (rows - large)


def in_words(seconds: float) -> str:
    """Write an estimated time in words."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {5 * round(seconds / 5)} seconds"
    minutes = round(seconds / 60)
    return f"about {minutes} minutes"
