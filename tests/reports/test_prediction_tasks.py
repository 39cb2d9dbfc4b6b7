"""Trainings on threads: in order, told, stopped between two, and timed beforehand."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from synth.errors import RunCancelledError
from synth.reports.prediction import tasks
from synth.reports.prediction.tasks import in_parallel, in_words, seconds_ahead


def told(steps: list[tuple[int, int]]) -> object:
    return lambda done, total: steps.append((done, total))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_answers_come_in_order_whoever_is_first(threads: int) -> None:
    steps: list[tuple[int, int]] = []
    works = [lambda place=place: (time.sleep(0.002 * (7 - place)), place)[1] for place in range(7)]
    assert in_parallel(works, threads=threads, on_step=told(steps)) == list(range(7))  # type: ignore[arg-type]
    assert steps[0] == (0, 7)
    assert steps[-1] == (7, 7)
    assert in_parallel([], threads=1, on_step=lambda done, total: None) == []


def test_cancelling_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    release = threading.Event()

    class Pool(ThreadPoolExecutor):
        """What has begun ends after the pool was told to stop, never before."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            release.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr(tasks, "ThreadPoolExecutor", Pool)

    def work(place: int) -> None:
        begun.append(place)
        release.wait(60)

    def stop(done: int, total: int) -> None:
        if begun:
            raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        in_parallel([lambda place=place: work(place) for place in range(50)], threads=2, on_step=stop)
    assert 1 <= len(begun) <= 2


def test_the_first_failure_is_passed_on() -> None:
    def fail() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        in_parallel([fail] * 3, threads=2, on_step=lambda done, total: None)


def test_libraries_use_one_thread_and_advise_nobody() -> None:
    from threadpoolctl import threadpool_info

    def work() -> int:
        warnings.warn("does not converge", stacklevel=1)
        return max((one["num_threads"] for one in threadpool_info()), default=1)

    assert in_parallel([work] * 3, threads=2, on_step=lambda done, total: None) == [1, 1, 1]


def test_the_time_ahead_is_a_line_through_two_small_trainings() -> None:
    now = [0.0]

    def train(size: int) -> None:
        now[0] += 0.5 + size / 1000

    assert seconds_ahead(train, 20_000, clock=lambda: now[0]) == pytest.approx(20.5)
    assert seconds_ahead(train, 100, clock=lambda: now[0]) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("seconds", "words"), [(3, "a few seconds"), (42, "about 40 seconds"), (100, "about 2 minutes")]
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
