"""Output and questions of the command line: results on standard output, progress and questions on standard error."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from synth.errors import InputError
from synth.names import visible_lines
from synth.progress import NullProgress, ProgressSink, StoredProgress
from synth.services.course import Course
from synth.system.packages import is_installed

__all__ = [
    "Ask",
    "Bars",
    "Lines",
    "Say",
    "SpokenProgress",
    "StoredAndSpokenProgress",
    "agreed",
    "ask",
    "on_terminal",
    "say",
    "tell",
    "time_left",
]

Say = Callable[[str], None]
Ask = Callable[[str, str], str]
"""Ask a question and return what was typed, or the second argument if nothing was."""


def say(*lines: str) -> None:
    """Print lines of a result; invisible characters, and those that a terminal lacks, are printed as their numbers."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.writelines(visible_lines(line) + "\n" for line in lines)
    sys.stdout.flush()


def tell(line: str) -> None:
    """Print a line about progress, apart from results."""
    sys.stderr.write(visible_lines(line) + "\n")
    sys.stderr.flush()


def ask(question: str, default: str) -> str:
    """Ask a question at the terminal, and return what was typed, or the default if nothing was.

    Raises
    ------
    InputError
        If the input ends.
    """
    sys.stderr.write(visible_lines(question) + (f" [{visible_lines(default)}]" if default else "") + ": ")
    sys.stderr.flush()
    typed = sys.stdin.readline()
    if not typed:
        raise InputError("Not every question was answered, so nothing was started.")
    return typed.strip() or default


def agreed(question: str, default: str, *, ask: Ask = ask, tell: Say = tell) -> bool:
    """Ask a question until the answer is yes or no."""
    while True:
        typed = ask(f"{question} (y/n)", default).strip().lower()
        if typed in _YES | _NO:
            return typed in _YES
        tell("Answer y or n.")


_YES, _NO = {"y", "yes"}, {"n", "no"}


# Progress -------------------------------------------------------------------------------------------------------------


class Lines:
    """Progress as lines of text, one for every phase."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def __call__(self, line: str) -> None:
        """Print a line."""
        self._say(line)

    def phase(self, name: str) -> None:
        """Print the phase that begins."""
        self(f"{name} ...")

    def step(self, k: int, of: int) -> None:
        """Print nothing: one line for every step would be too many."""

    def follow(self, course: Course) -> None:
        """Print nothing: the time left changes every second."""


class Bars(Lines):
    """Progress as bars on a terminal, one for every phase, with the time left.

    For a run, that is the time left of the whole run; for other work, the time left of a phase whose steps are counted.

    Parameters
    ----------
    console : rich.console.Console
        The terminal.
    clock : callable
        Returns monotonic seconds; a test passes its own.
    """

    def __init__(self, console: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Left(ProgressColumn):
            """A column that is computed each time it is drawn, because time passes between two steps too."""

            def render(self, task: Task) -> Text:
                """Return the time left."""
                return Text(task.fields["left"]())

        super().__init__(lambda line: console.print(visible_lines(line), markup=False, highlight=False, soft_wrap=True))
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), Left())
        self._bars = Progress(*columns, console=console)
        self._clock = clock
        self._now: Any = None
        self._course: Course | None = None
        self._phase, self._k, self._of = "", 0, 0
        self._begun = self._run_began = 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._end()
        self._bars.stop()

    def phase(self, name: str) -> None:
        """Complete the bar of the phase before, and begin a new one."""
        from rich.markup import escape

        self._end()
        self._phase, self._k, self._of, self._begun = name, 0, 0, self._clock()
        self._now = self._bars.add_task(escape(visible_lines(name)), total=None, left=self._left)

    def step(self, k: int, of: int) -> None:
        """Move the bar."""
        if self._now is not None:
            self._k, self._of = k, of
            self._bars.update(self._now, completed=k, total=of)

    def follow(self, course: Course) -> None:
        """Show the time left of a whole run from now on."""
        self._course, self._run_began = course, self._clock()

    def _left(self) -> str:
        if self._course is None:
            return time_left(self._clock() - self._begun, self._k, self._of)
        self._course.tell(self._clock() - self._run_began, self._phase, self._k, self._of)
        return self._course.left

    def _end(self) -> None:
        if self._now is not None:
            self._bars.update(self._now, completed=1, total=1, left=str)
            self._bars.stop_task(self._now)


_TOO_SOON = 2.0
"""Seconds after which the pace of a phase is informative."""


def time_left(seconds: float, k: int, of: int) -> str:
    """Return how long a phase will still take at its pace so far, or nothing while that is not known.

    Examples
    --------
    >>> time_left(40.0, 10, 40)
    'about 2 min left of this'
    >>> time_left(1.0, 1, 40)
    ''
    """
    if seconds < _TOO_SOON or not 0 < k < of:
        return ""
    left = seconds * (of - k) / k
    return f"about {math.ceil(left / 60)} min left of this" if left > 90 else f"about {math.ceil(left)} s left of this"


@contextmanager
def on_terminal() -> Iterator[Lines]:
    """Show progress as bars if standard error is a terminal, and as lines otherwise."""
    if not (sys.stderr.isatty() and is_installed("rich")):
        yield Lines(tell)
        return
    from rich.console import Console

    with Bars(Console(stderr=True)) as bars:
        yield bars


def _shown_by(say: Say) -> Lines:
    """Return what shows progress, given what prints lines."""
    return say if isinstance(say, Lines) else Lines(say)


class SpokenProgress(NullProgress):
    """Progress that is shown and not stored; only Ctrl-C cancels it."""

    def __init__(self, say: Say) -> None:
        self._shown = _shown_by(say)

    def phase(self, name: str) -> None:
        """Show the phase that begins."""
        self._shown.phase(name)

    def step(self, k: int, of: int) -> None:
        """Show a step."""
        self._shown.step(k, of)


class StoredAndSpokenProgress(StoredProgress):
    """Progress that is stored and shown."""

    def __init__(self, sink: ProgressSink, run_id: str, say: Say, course: Course | None = None) -> None:
        super().__init__(sink, run_id)
        self._shown = _shown_by(say)
        if course is not None:
            self._shown.follow(course)

    def phase(self, name: str) -> None:
        """Store the phase and show it."""
        super().phase(name)
        self._shown.phase(name)

    def step(self, k: int, of: int) -> None:
        """Store the step and show it."""
        super().step(k, of)
        self._shown.step(k, of)

    def owner_phase(self, name: str) -> None:
        """Show the phase on this terminal, which is the owner's, without storing it."""
        self._shown.phase(f"owner only: {name}")
