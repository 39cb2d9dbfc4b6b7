"""What the server does while nobody looks: tables are deleted when their time is up, and uploads that nobody takes."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from streamlit.runtime import Runtime

from pages.components.session import application
from pages.server.uploads import incoming
from synth.services.incidents import record_incident

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
        self._seconds, self._is_active = seconds, is_active
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
        """Delete the tables whose time is up, and forget uploads; a failure of one does not keep the other."""
        for step in (lambda: incoming().sweep(self._is_active), lambda: application().purge()):
            try:
                step()
            except Exception as error:  # a database that is away for a while, for example: the next round tries again
                record_incident(error)

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
