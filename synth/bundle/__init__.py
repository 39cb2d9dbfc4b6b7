"""The bundle: what leaves the machine, how it is sealed, and how a stranger checks and remakes it."""

from __future__ import annotations

__all__: list[str] = []
