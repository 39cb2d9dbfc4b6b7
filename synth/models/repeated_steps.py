"""The same step many times over: a plain loop, and on a graphics card a graph that is recorded once and replayed.

A small operation takes a card less time than the program takes to ask for it. A graph of many steps is asked for once
(``torch.cuda.CUDAGraph``). Its operations, and their order, are those of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["RepeatedSteps"]


class RepeatedSteps:
    """Runs a step again and again, several together.

    Parameters
    ----------
    body : callable
        One step, given its place among those that run together, from 0 to ``together`` - 1. What it changes lies in
        tensors that were there before, and is changed in place. What differs from step to step it reads from row
        ``place`` of such tensors. It waits for nothing, draws nothing, and does the same work whatever the numbers are.
    device : torch.device or str
    together : int
        Steps of a graph.
    refill : callable, optional
        Given the first step and a number of steps, writes those rows, in place, before they are read. It may draw,
        upload and wait.
    changed : sequence of Tensor
        What the body changes. It is put back if a recording fails.

    Notes
    -----
    On a card, the first steps that run together are run one by one, on a stream of their own, as a recording has to
    find libraries loaded and workspaces allocated. The next ones are recorded and replayed, and so are all others but
    for a rest of fewer than ``together``. Where a recording fails, the loop goes on as it is.
    """

    def __init__(
        self,
        body: Callable[[int], None],
        *,
        device: torch.device | str,
        together: int,
        refill: Callable[[int, int], None] | None = None,
        changed: Sequence[Tensor] = (),
    ) -> None:
        self._body, self._together, self._refill, self._changed = body, together, refill, tuple(changed)
        self._recorder = _Recorder() if _can_record(torch.device(device)) else None
        self._replay: Callable[[], None] | None = None
        self._is_warm = False

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replayed from a graph."""
        return self._replay is not None

    def run(self, first: int, count: int) -> None:
        """Run ``count`` steps, the first of which has the number ``first``."""
        for start in range(first, first + count, self._together):
            several = min(self._together, first + count - start)
            if self._refill is not None:
                self._refill(start, several)
            self._several(several)

    def _several(self, several: int) -> None:
        if self._recorder is None or several < self._together:
            self._loop(several)
        elif not self._is_warm:
            self._recorder.warm_up(lambda: self._loop(several))
            self._is_warm = True
        else:
            if self._replay is None:
                self._replay = self._recorded(self._recorder)
            if self._replay is None:
                self._recorder = None
                self._loop(several)
            else:
                self._replay()

    def _loop(self, several: int) -> None:
        for place in range(several):
            self._body(place)

    def _recorded(self, recorder: _Recorder) -> Callable[[], None] | None:
        """Record the steps, which runs none of them; None if that fails."""
        before = [one.clone() for one in self._changed]
        try:
            return recorder.record(lambda: self._loop(self._together))
        except RuntimeError:
            # As where something waits, or memory for a graph is short. If the card itself failed, what follows says so.
            for one, value in zip(self._changed, before, strict=True):
                one.copy_(value)
            return None


def _can_record(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


class _Recorder:
    """Records what is asked of the card, on a stream of its own."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def warm_up(self, work: Callable[[], None]) -> None:
        """Do the work on the stream on which it will be recorded."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            work()
        current.wait_stream(self._stream)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record the work without doing it; return what does it, as often as it is called."""
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # Other threads of this process may allocate memory meanwhile.
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                work()
        finally:
            # A recording that fails at its end leaves its stream behind as the current one.
            torch.cuda.set_stream(current)
        return graph.replay
