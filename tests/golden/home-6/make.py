"""Make a home of layout 6: what that of layout 5 holds, and a draft of a table. ``make.py NEW_HOME NEW_FOLDER``."""

from __future__ import annotations

import runpy
from pathlib import Path

from synth.store import Store, TableState
from synth.system.settings import Settings

runpy.run_path(str(Path(__file__).parents[1] / "home-5" / "make.py"))

AGE = {"role": "number", "low": "0", "high": "100", "step": "1", "missing": True}
with Store(Settings.from_environment()) as store:
    (table,) = store.tables.stored()
    assert table.state is TableState.STORED
    first = store.drafts.save(table.id, {"account": "survey", "columns": {"age": AGE}}, seen=0)
    assert first is not None
    body = {"account": "survey", "protects": "person", "epsilon": 1.0, "columns": {"age": AGE, "region": {"role": ""}}}
    store.drafts.save(table.id, body, seen=first.number)
