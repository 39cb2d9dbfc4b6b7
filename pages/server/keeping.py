"""What the server does while nobody looks: the queue goes on, and what must not be kept any longer is deleted."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from streamlit.runtime import Runtime

from pages.server.uploads import incoming
from pages.ui.session import application
from synth.errors import SynthError
from synth.services.incidents import code_location, record_incident

__all__ = ["Keeper", "lifespan"]

ROUND_SECONDS = 30.0

STOP_SECONDS = 5
"""How long requests that are not finished may go on once the server is told to stop."""


class Keeper:
    """Keeps order in rounds, in a thread of its own, from the start of the server to its end.

    Parameters
    ----------
    seconds : float
        Between two rounds.
    is_active : callable
        Whether a session, by its id, has a browser.
    """

    def __init__(self, seconds: float = ROUND_SECONDS, *, is_active: Callable[[str], bool]) -> None:
        self._seconds = seconds
        self._steps: tuple[Callable[[], object], ...] = (
            lambda: incoming().sweep(is_active),
            lambda: application().engine.tend(),
            lambda: application().purge(),
        )
        self._failing: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin with the first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is going on."""
        self._stopped.set()
        self._thread.join(timeout=5.0)

    def round(self) -> None:
        """Forget uploads, look after the queue and delete the tables whose time is up; one that fails keeps no other.

        What fails in every round, while the database is away for example, is one incident and not one a round.
        """
        failing: set[str] = set()
        for step in self._steps:
            try:
                step()
            except Exception as error:  # the next round tries again
                # What is foreseen, as a database that is away, may be met at many places.
                where = "" if isinstance(error, SynthError) else code_location(error)
                name = f"{type(error).__name__} {where}"
                if name not in failing | self._failing:
                    record_incident(error)
                failing.add(name)
        self._failing = failing

    def _go_on(self) -> None:
        self.round()
        while not self._stopped.wait(self._seconds):
            self.round()


@asynccontextmanager
async def lifespan(server: Any) -> AsyncIterator[dict[str, Any] | None]:
    """Start what belongs to the server process and to no session, and stop it at the end."""
    del server
    _bound_the_stop()
    keeper = Keeper(is_active=Runtime.instance().is_active_session)
    keeper.start()
    try:
        yield None
    finally:
        keeper.stop()


def _bound_the_stop() -> None:
    """Let a stop end what is still sent or read: by itself the server waits for it without end.

    Streamlit has no option for it. The server is reached by the handler of signals that it has set by now; a test holds
    that a stop ends.
    """
    running = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(running, uvicorn.Server):
        running.config.timeout_graceful_shutdown = STOP_SECONDS
