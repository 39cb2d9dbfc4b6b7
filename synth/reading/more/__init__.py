"""Further kinds of tables, each read in a separate process and only where it is declared."""

from __future__ import annotations

__all__: list[str] = []
