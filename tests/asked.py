"""The statements that this process sends to databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.engine import Engine

__all__ = ["statements"]


@contextmanager
def statements() -> Iterator[list[str]]:
    """Note every statement that any engine of this process executes."""
    noted: list[str] = []

    def note(*executed: object) -> None:
        noted.append(str(executed[2]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield noted
    finally:
        event.remove(Engine, "before_cursor_execute", note)
