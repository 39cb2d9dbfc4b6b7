"""Finished cells of a long benchmark, in a file of JSON lines: a stopped run loses nothing and goes on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

Cell = TypeVar("Cell")


class Kept(Generic[Cell]):
    """The cells that are done; the last line of a cell counts.

    Parameters
    ----------
    path : Path
        The file; absent at first.
    kind : type
        The frozen dataclass of a cell.
    """

    def __init__(self, path: Path, kind: type[Cell]) -> None:
        self._path = path
        self.results: dict[Cell, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                self.results[kind(**record["cell"])] = record["result"]

    def put(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep the result of a cell."""
        self.results[cell] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"cell": asdict(cell), "result": result}) + "\n")  # type: ignore[call-overload]

    @property
    def seconds(self) -> float:
        """CPU seconds of all cells together."""
        return sum(float(result["cpu_seconds"]) for result in self.results.values())
