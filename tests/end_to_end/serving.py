"""Where a server of a test runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Server"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """Where the application runs, and the three places where nothing of a table may be found in clear."""

    address: str
    home: Path
    temporary: Path
    log: Path
    pid: int
