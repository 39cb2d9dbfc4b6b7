"""Counts what the confined processes of the program run, while ``scripts/test --coverage`` measures its tests.

Readers of tables and checkers of bundles are processes that may write no file and are killed once they have said their
last word. Loaded as a plugin of pytest this has them started through this very file, which measures them, lets them
write that one file, and waits until they have.
"""

from __future__ import annotations

import resource
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).resolve().parents[1]

PATIENCE_SECONDS = 3.0
"""How long a process that is to be killed may take to write what it counted; some hang, as their tests want."""


class MeasuredPopen(subprocess.Popen[Any]):
    """A process that is measured where it is a module of the program, started as the program starts them."""

    def __init__(self, arguments: Any, *others: Any, **options: Any) -> None:
        own = isinstance(arguments, list) and arguments[1:3] == ["-P", "-m"] and arguments[3].startswith("synth.")
        if own:
            arguments = [*arguments[:2], __file__, *arguments[3:]]
        self._own = own
        super().__init__(arguments, *others, **options)

    def kill(self) -> None:
        """Kill the process once it has written what it counted."""
        if self._own:
            try:
                self.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                super().kill()
        else:
            super().kill()


def run_measured(module: str, arguments: list[str]) -> None:
    """Run a module as ``python -m`` does, in a process of its own that may write files again."""
    limit = resource.setrlimit
    resource.setrlimit = lambda kind, most: None if kind == resource.RLIMIT_FSIZE else limit(kind, most)
    measured = coverage.Coverage(str(ROOT / ".coverage"), data_suffix=True, config_file=str(ROOT / "pyproject.toml"))
    measured.start()
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        measured.stop()
        measured.save()


if __name__ == "__main__":
    run_measured(sys.argv[1], sys.argv[2:])
else:
    subprocess.Popen = MeasuredPopen  # type: ignore[misc]
