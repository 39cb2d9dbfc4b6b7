"""Processes that spend from one account, for the tests of the ledger: run as a script, it forks its children.

Forking after the imports keeps each child's start short; a child opens its own connections.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from synth.errors import BudgetExceededError, PrivacyError
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget, mu_of_budget
from synth.schema import Neighbours, PrivacyUnit
from synth.store import PATIENCE_SECONDS, Store
from synth.system.settings import Settings

EPSILON, DELTA = 0.25, 1e-6


def fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def race(settings: Settings, account_id: str, processes: int, attempts: int) -> None:
    """Let several processes try to spend at once; print how many charges each was granted."""
    granted = settings.home / "granted"

    def work() -> None:
        budget = PrivacyBudget(EPSILON, DELTA, Neighbours.REPLACE)
        with Store(settings, patience=PATIENCE_SECONDS) as store:
            ledger = Ledger(store)
            for attempt in range(attempts):
                try:
                    charge = ledger.reserve(account_id, f"{os.getpid()}-{attempt}", budget, purpose="race")
                except BudgetExceededError:
                    continue
                note(granted, charge.charge_id)
                ledger.spend(charge)

    statuses = [os.waitpid(pid, 0)[1] for pid in [fork(work) for _ in range(processes)]]
    if any(statuses):
        sys.exit("a process was turned away by something else than the cap")


def die(settings: Settings, account_id: str, times: int, seed: int) -> None:
    """Kill a spending process at random moments; it notes a charge before it would read rows under it.

    A moment is a number of whole charges and a part of what the last one took, so that it falls anywhere in a charge on
    a machine of any speed.
    """
    opened = settings.home / "opened"
    budget = PrivacyBudget(EPSILON, DELTA, Neighbours.REPLACE)
    generator = random.Random(seed)

    def work(writer: int) -> None:
        with Store(settings, patience=PATIENCE_SECONDS) as store:
            ledger = Ledger(store)
            while True:
                os.write(writer, b"!")
                charge = ledger.spend(ledger.reserve(account_id, f"{os.getpid()}", budget, purpose="die"))
                note(opened, charge.charge_id)
                ledger.release(charge, "certificate")

    for _ in range(times):
        reader, writer = os.pipe()
        pid = fork(partial(work, writer))
        os.close(writer)
        began = 0.0
        for _ in range(generator.randint(2, 4)):
            began = time.monotonic()
            os.read(reader, 1)
        time.sleep((time.monotonic() - began) * generator.random())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)


def labels(settings: Settings, account_id: str, processes: int, attempts: int) -> None:
    """Let processes with a label each reserve on accounts of cells at once; note account and label of what was granted.

    Accounts are named after ``account_id``, and opened here.
    """
    budget = PrivacyBudget(EPSILON, DELTA, Neighbours.CELL)
    with Store(settings, patience=PATIENCE_SECONDS) as store:
        names = [f"{account_id} {attempt}" for attempt in range(attempts)]
        accounts = [store.accounts.ensure(name, Neighbours.CELL, PrivacyUnit())[0].id for name in names]
    gates = [os.pipe() for _ in range(processes)]
    ready, ready_in = os.pipe()

    def work(own: int) -> None:
        with Store(settings, patience=PATIENCE_SECONDS) as store:
            ledger = Ledger(store)
            for account in accounts:
                config = json.dumps({"protection": "cell", "label": f"column-{own}"})
                run = store.runs.add(account_id=account, config=config, owner="owner")
                os.write(ready_in, b"!")
                os.read(gates[own][0], 1)
                try:
                    ledger.reserve(account, run.id, budget, purpose="labels")
                except PrivacyError:
                    continue
                note(settings.home / "labels", f"{account}:{own}")

    children = [fork(lambda own=own: work(own)) for own in range(processes)]
    for _ in accounts:
        for _ in children:
            os.read(ready, 1)
        for _, gate in gates:
            os.write(gate, b"!")
    if any(os.waitpid(pid, 0)[1] for pid in children):
        sys.exit("a process was turned away by something else than the label")


def units(settings: Settings, account_id: str, processes: int, attempts: int) -> None:
    """Let processes whose runs protect another unit each reserve on new accounts at once; note account and unit."""
    budget = PrivacyBudget(EPSILON, DELTA, Neighbours.REPLACE)
    gates = [os.pipe() for _ in range(processes)]
    ready, ready_in = os.pipe()

    def work(own: int) -> None:
        with Store(settings, patience=PATIENCE_SECONDS) as store:
            ledger = Ledger(store)
            for attempt in range(attempts):
                os.write(ready_in, b"!")
                os.read(gates[own][0], 1)
                # No unit is settled beforehand: the charge alone decides.
                account = store.accounts.open(f"{account_id} {attempt}")
                config = json.dumps({"unit": {"protects": "person", "rows_per_unit": own + 1, "id_column": None}})
                run = store.runs.add(account_id=account.id, config=config, owner="owner")
                try:
                    ledger.reserve(account.id, run.id, budget, purpose="units")
                except PrivacyError:
                    continue
                note(settings.home / "units", f"{account.id}:{own + 1}")

    children = [fork(lambda own=own: work(own)) for own in range(processes)]
    for _ in range(attempts):
        for _ in children:
            os.read(ready, 1)
        for _, gate in gates:
            os.write(gate, b"!")
    if any(os.waitpid(pid, 0)[1] for pid in children):
        sys.exit("a process was turned away by something else than the unit")


def vouch(settings: Settings, account_id: str, processes: int, attempts: int) -> None:
    """Let processes spend, set limits, mark and check at once; every check has to find mark and chain in agreement."""
    budget = PrivacyBudget(EPSILON, DELTA, Neighbours.REPLACE)

    def work() -> None:
        with Store(settings, patience=PATIENCE_SECONDS) as store:
            ledger = Ledger(store)
            for attempt in range(attempts):
                charge = ledger.reserve(account_id, f"{os.getpid()}-{attempt}", budget, purpose="vouch")
                ledger.check_whole(account_id)
                ledger.spend(charge)
                ledger.check_whole(account_id)
                ledger.set_cap(account_id, epsilon=100.0 + attempt, delta=DELTA)
                ledger.mark(account_id)
                note(settings.home / "vouch", charge.charge_id)

    if any([os.waitpid(pid, 0)[1] for pid in [fork(work) for _ in range(processes)]]):
        sys.exit("a process was refused")


def note(path: Path, line: str) -> None:
    with path.open("a", encoding="ascii") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    mu_of_budget(EPSILON, DELTA)  # remembered, and so inherited by every child
    task, home, database_url, account_id, first, second = sys.argv[1:]
    chosen = {"race": race, "die": die, "labels": labels, "units": units, "vouch": vouch}[task]
    chosen(Settings(home=Path(home), database_url=database_url), account_id, int(first), int(second))
