"""Make a home of layout 7: that of layout 6, and a draft without a table. ``make.py NEW_HOME NEW_FOLDER``."""

from __future__ import annotations

import runpy
from pathlib import Path

from synth.store import Store
from synth.system.settings import Settings

runpy.run_path(str(Path(__file__).parents[1] / "home-6" / "make.py"))

with Store(Settings.from_environment()) as store:
    store.begun.save("7" * 36, {"people": "No, new people", "account": "begun"}, seen=0)
