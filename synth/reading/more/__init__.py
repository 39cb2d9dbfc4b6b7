"""Further kinds of tables, each read in a process of its own and only where somebody declares it."""

from __future__ import annotations

__all__: list[str] = []
