"""Make a home of layout 5: what that of layout 4 holds, and work that is not a run. ``make.py NEW_HOME NEW_FOLDER``."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from synth.store import Store, WorkKind, WorkState
from synth.system.settings import Settings

runpy.run_path(str(Path(__file__).parents[1] / "home-4" / "make.py"))

HOST = "a machine of before"
with Store(Settings.from_environment()) as store:
    released = next(run for run in store.runs.all() if run.state is WorkState.RELEASED)
    for kind, subject, state in (
        (WorkKind.REHEARSAL, "0" * 64, WorkState.RUNNING),
        (WorkKind.GRID, "1" * 64, WorkState.FAILED),
        (WorkKind.REPORT, f"{released.id} predictions", WorkState.REPORTED),
        (WorkKind.REPORT, f"{released.id} shadow-models", WorkState.CANCELLED),
    ):
        work = store.work.begin(kind, subject, asked=json.dumps("what was asked"), owner="owner", host=HOST)
        store.work.claim(work.id, host=HOST, pid=1, pid_created=1.0)
        if state is not WorkState.RUNNING:
            store.work.move(work.id, state, message="The worker stopped without a word." * (state == "failed"))
