"""Make a home of layout 3; run with the code of commit bfcc408: ``make.py NEW_HOME``, with DATABASE_URL or without."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Store, WorkState
from synth.system.settings import Settings

home = Path(sys.argv[1])
url = os.environ.get("DATABASE_URL") or f"sqlite:///{home / 'hermitage.sqlite'}"
CONFIG = {
    "account": "town",
    "unit": {"protects": "person", "rows_per_unit": 1},
    "row_count": "public",
    "budget": {"epsilon": 1.0, "delta": 1e-6},
    "generator": {"name": "independent", "options": {}},
    "rows": 5,
    "columns": {"age": {"type": "number", "low": 0, "high": 100, "step": 1, "fallback": 40}},
}

with Store(Settings(home=home, database_url=url)) as store:
    ledger = Ledger(store)
    account, _ = store.accounts.ensure("town", Neighbours.REPLACE, PrivacyUnit())
    ledger.set_cap(account.id, epsilon=6.0, delta=1e-5)
    for state in ("waiting", "at work", "measured", "failed", "cancelled"):
        run = store.runs.add(account_id=account.id, config=json.dumps(CONFIG), owner=state)
        charge = ledger.reserve(account.id, run.id, PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE), purpose="run")
        if state == "cancelled":
            ledger.settle(run.id)
            store.work.move(run.id, WorkState.CANCELLED, message="The run was cancelled before it began.")
            continue
        store.work.put(run.id, gpus=0, cpus=0)
        if state == "waiting":
            continue
        store.work.claim(run.id, host="a machine of before", pid=1, pid_created=1.0)
        ledger.spend(charge)
        if state == "measured":
            store.work.advance(run.id, WorkState.MEASURED)
        if state == "failed":
            ledger.settle(run.id)
            store.work.move(run.id, WorkState.FAILED, message="The worker stopped without a word.")
