"""The real worker, with known noise and a known hold-out, and without what the owner alone reads."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

from synth.privacy import noise
from synth.progress import Progress
from synth.services import runs
from synth.services.installation import Installation
from synth.system.settings import Settings
from synth.vault import vault
from synth.worker import main

COMMAND = (sys.executable, str(Path(__file__).resolve()))
SPLIT_KEY = bytes(range(32))


def execute(run_id: str, *, settings: Settings, progress: Progress) -> None:
    noise.os = SimpleNamespace(urandom=random.Random(5512).randbytes, getpid=os.getpid)  # type: ignore[assignment]
    vault.new_key = lambda: SPLIT_KEY
    with Installation.open(settings) as installation:
        runs.carry_out(installation, run_id, progress, owner_report=False)


if __name__ == "__main__":
    sys.exit(main(command=COMMAND, execute=execute))
