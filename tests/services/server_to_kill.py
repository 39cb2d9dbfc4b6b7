"""Servers that are killed: one process that has loaded the application, and forks a server for every order it reads.

An order is one line of JSON on standard input; a server says "begun" when its work begins and prints one line of JSON
when it is done. It does with the application what the pages do: take a table in, start a run and watch it, seal.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from synth.config_file import parse_config, read_mapping
from synth.services.application import Application
from synth.store import RunState, TableState

CANARY = b"canary-7741-cell"
CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: public
number_of_units: 300
people_at_most: 1000
budget: {epsilon: 0.5, delta: 1.0e-6}
holdout: 0
generator: {name: independent}
rows: 2000
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south], fallback: north}
undeclared: drop
"""
HEADER = b"age,town,note\n"
ROWS = b"".join(b"%d,%s,%s\n" % (i % 90, (b"north", b"south")[i % 2], CANARY) for i in range(300))


class Arriving(io.BytesIO):
    """An upload that takes its time."""

    def read(self, size: int | None = -1) -> bytes:
        time.sleep(0.004)
        return super().read(size)


def upload(application: Application) -> None:
    application.receive(Arriving(HEADER + ROWS * 300), account="visitors", name="visits.csv")


def run(application: Application) -> None:
    account = application.store.accounts.named("town")
    assert account is not None
    table = application.store.tables.of_account(account.id)[0]
    run_id = application.start(parse_config(read_mapping(CONFIG)), table_id=table.id)
    while application.run(run_id).state in ("queued", "running"):
        time.sleep(0.05)


def seal(application: Application) -> None:
    for run in application.store.runs.in_states([RunState.REPORTED]):
        application.release(run.id, attestations=("yes",), attested_by="A. Steward")
        application.bundle(run.id)


def prepare(application: Application) -> None:
    application.receive(io.BytesIO(HEADER + ROWS), account="town", name="people.csv")


def look(application: Application) -> dict[str, Any]:
    """Wait until nothing is at work any more, and say what there is."""
    store = application.store
    end = time.monotonic() + 120
    while store.queue.waiting() or store.queue.active():
        application.engine.tend()
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    application.ledger.verify_chain()
    whole = []
    for account in store.accounts.all():
        for table in store.tables.of_account(account.id):
            if table.state is TableState.STORED:
                with application.vault.open(table.id) as stream:
                    whole.append(len(stream.read()) == table.size and bool(application.table(table.id).columns))
    runs = [
        {
            "id": found.id,
            "state": found.state.value,
            "began": found.claimed,
            "charges": [charge.state.value for charge in application.ledger.charges_of(found.id)],
        }
        for found in store.runs.all()
    ]
    return {
        "runs": runs,
        "whole": whole,
        "spent": sum(application.account(account.name).epsilon_spent for account in store.accounts.all()),
    }


ORDERS: dict[str, Callable[[Application], Any]] = {
    "prepare": prepare,
    "upload": upload,
    "run": run,
    "seal": seal,
    "look": look,
}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def serve(order: str) -> None:
    with Application.from_environment() as application:
        say("begun")
        say(json.dumps(ORDERS[order](application)))


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                serve(json.loads(line))
            except BaseException as error:
                say(json.dumps({"error": f"{type(error).__name__}: {error}"}))
            os._exit(0)
        say(str(child))
        os.waitpid(child, 0)
        say("over")
