"""The real worker, stopped at a place that a file in its home names, once for each attempt.

The file ``stops.json`` holds one entry for each attempt: how it stops (``kill``, ``memory``, ``cuda``), and where:
``after`` so many answers were kept, ``in`` the middle of writing the answer of that number, or at the ``phase`` of this
name. An attempt without an entry ends as any run does. A report for the owner is made where an entry asks for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from synth.progress import Progress
from synth.services import runs
from synth.services.installation import Installation
from synth.services.pipeline import PhaseTimer
from synth.store import Store
from synth.system.settings import Settings
from synth.vault.kept_answers import AnswerFile
from synth.worker import main

COMMAND = (sys.executable, str(Path(__file__).resolve()))


def stop(how: str) -> None:
    if how == "memory":
        raise MemoryError
    if how == "cuda":
        import torch  # here, as whoever takes over needs none of it

        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    os.kill(os.getpid(), signal.SIGKILL)


def plant(entry: dict[str, Any]) -> None:
    how = entry["how"]
    keep, append, phase = AnswerFile.keep, AnswerFile._append, PhaseTimer.phase

    def kept(self: AnswerFile, *arguments: Any) -> None:
        keep(self, *arguments)
        if len(self._places) == entry.get("after"):
            stop(how)

    def appended(self: AnswerFile, number: int, *arguments: Any) -> None:
        if number != entry.get("in"):
            return append(self, number, *arguments)
        right, size = os.write, 0

        def torn(file: int, data: Any) -> int:
            nonlocal size
            size += right(file, data[: min(len(data), 100 - size)])
            return stop(how) or 0 if size == 100 else size

        os.write = torn  # type: ignore[assignment]
        return append(self, number, *arguments)

    def begun(self: PhaseTimer, name: str) -> None:
        phase(self, name)
        if name == entry.get("phase"):
            stop(how)

    AnswerFile.keep, AnswerFile._append, PhaseTimer.phase = kept, appended, begun  # type: ignore[method-assign]
    if entry.get("device"):  # a card that is there when the run begins
        runs.resolved_device = lambda device: entry["device"] if device == "auto" else device  # type: ignore[assignment]


def execute(run_id: str, *, settings: Settings, progress: Progress) -> None:
    """Carry the run to its end without what the owner alone reads, which takes longer than the run."""
    with Installation.open(settings) as installation:
        runs.carry_out(installation, run_id, progress, owner_report=False)


if __name__ == "__main__":
    settings = Settings.from_environment()
    stops = json.loads((settings.home / "stops.json").read_text(encoding="utf-8"))
    with Store(settings) as store:
        attempt = store.runs[sys.argv[1]].attempts
    if attempt <= len(stops):
        plant(stops[attempt - 1])
    reported = any(entry.get("report") for entry in stops)
    sys.exit(main(settings=settings, command=COMMAND, execute=None if reported else execute))
