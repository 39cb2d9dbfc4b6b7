"""Twenty runs in the queue while the server, its workers, the database and the proxy are killed: forty times.

A real server, real workers, a real PostgreSQL and a real nginx, each of them killed at random moments and started anew.
Meanwhile someone uploads through the proxy, of which half arrives. No charge may be lost, none may be made twice, and
nothing of a table may be on a disk in clear. What goes on by itself afterwards ends, or says why not.
"""

from __future__ import annotations

import io
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import Server, started_server
from test_proxy import CREDENTIALS, Proxy, connected, free_ports, nginx

from synth.application import Application
from synth.schema import RunConfig, parse_config
from synth.schema.documents import read_mapping
from synth.store import ChargeState, WorkState
from synth.system.settings import Settings

SEED = 20261128
RUNS, ACCOUNTS, KILLS = 20, 4, 40
PARTS = ("server", "worker", "database", "proxy")
CANARY = b"canary-of-the-killed-parts"
ROWS = 600
EPSILON = 0.5
CONFIG = f"""
account: ACCOUNT
unit: {{protects: person, rows_per_unit: 1}}
row_count: public
number_of_units: {ROWS}
people_at_most: 1000
budget: {{epsilon: {EPSILON}, delta: 1.0e-5}}
holdout: 0
generator: {{name: dp-hp-adaptive}}
rows: 200
columns:
  age: {{type: number, low: 0, high: 100, step: 1, fallback: 40}}
  town: {{type: category, values: [north, south], fallback: north}}
"""
TABLE = b"age,town\n" + b"".join(b"%d,%s\n" % (i % 90, (b"north", CANARY)[i % 2]) for i in range(ROWS))
ENDED = {WorkState.REPORTED, WorkState.FAILED}

pytestmark = [pytest.mark.audit, pytest.mark.timeout(3600)]


@dataclass
class Parts:
    """What is killed and started again, and what was seen of the charges so far."""

    folder: Path
    database: Any
    port: int
    servers: ExitStack = field(default_factory=ExitStack)
    proxies: ExitStack = field(default_factory=ExitStack)
    server: Server | None = None
    proxy: Proxy | None = None
    spent: set[str] = field(default_factory=set)
    killed: Counter[str] = field(default_factory=Counter)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def application(self) -> Application:
        return Application(Settings(home=self.home, database_url=self.database.url))

    def start_server(self) -> None:
        variables = {"DATABASE_URL": self.database.url, "HERMITAGE_JOB_SLOTS": "1"}
        self.server = self.servers.enter_context(started_server(self.folder, variables=variables, port=self.port))

    def start_proxy(self) -> None:
        assert self.server is not None
        self.proxy = self.proxies.enter_context(nginx(self.folder / "nginx", self.server))

    def kill(self, part: str, chance: random.Random) -> None:
        """Kill a part at a stroke, leave it dead for a moment, and start it again."""
        if part == "worker":
            self.killed[part] += self._kill_a_worker(chance)
            return
        self.killed[part] += 1
        if part == "database":
            self.database.stop()
            time.sleep(chance.uniform(0, 2))
            self.database.start()
            return
        running = self.server if part == "server" else self.proxy
        assert running is not None
        process = psutil.Process(running.pid)
        # Workers have a session of their own and go on; the children of nginx are its workers.
        for one in [process, *(process.children() if part == "proxy" else [])]:
            one.send_signal(signal.SIGKILL)
        time.sleep(chance.uniform(0, 2))
        (self.servers if part == "server" else self.proxies).close()
        (self.start_server if part == "server" else self.start_proxy)()

    def _kill_a_worker(self, chance: random.Random) -> bool:
        """Kill one of the workers, with what it has started; return whether there was one."""
        workers: list[psutil.Process] = []
        for _ in range(300):  # between two runs there is none for a moment
            workers = [one for one in psutil.process_iter(["cmdline", "environ"]) if self._is_worker(one)]
            if workers:
                break
            time.sleep(0.1)
        else:
            return False
        workers.sort(key=lambda one: one.pid)
        chosen = chance.choice(workers)
        with suppress(psutil.NoSuchProcess):
            for one in [chosen, *chosen.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    one.send_signal(signal.SIGKILL)
        return True

    def _is_worker(self, process: psutil.Process) -> bool:
        words, variables = process.info["cmdline"] or [], process.info["environ"] or {}
        return "synth.worker" in words and variables.get("HERMITAGE_HOME") == str(self.home)

    def note_charges(self, application: Application) -> None:
        """Remember what is spent, and that nothing that was spent is gone or spent a second time."""
        spent = set()
        for run in application.store.runs.all():
            states = Counter(charge.state for charge in application.store.charges.of_run(run.id))
            assert states[ChargeState.RESERVED] == 1, states
            assert states[ChargeState.SPENT] <= 1, "a run was charged twice"
            if states[ChargeState.SPENT]:
                spent.add(run.id)
        assert spent >= self.spent, "a charge is lost"
        self.spent = spent

    def clear_bytes(self) -> str:
        places = [self.home, self.folder / "tmp", self.folder / "nginx", self.database.directory]
        found = subprocess.run(
            ["grep", "-rlaF", CANARY.decode(), *map(str, places)], capture_output=True, text=True, check=False
        )
        return found.stdout


@pytest.fixture
def parts(tmp_path: Path, own_server: Any) -> Iterator[Parts]:
    (tmp_path / "nginx").mkdir()
    made = Parts(tmp_path, own_server, free_ports(1)[0])
    with made.servers, made.proxies:
        made.start_server()
        made.start_proxy()
        yield made


def queued(application: Application) -> None:
    """Put the runs into the queue, some about the same people."""
    for number in range(RUNS):
        account = f"people-{number % ACCOUNTS}"
        table = application.intake.receive(io.BytesIO(TABLE), account=account, name=f"{number}.csv").table_id
        application.store.tables.keep_until(table, None)
        config: RunConfig = parse_config(read_mapping(CONFIG.replace("ACCOUNT", account)))
        run = application.reserve(config, table_id=table)
        application.store.work.put(run.id, gpus=0, cpus=1)


def uploading(parts: Parts, stop: threading.Event) -> None:
    """Send half of an upload through the proxy, over and over; whatever is killed breaks it off."""
    piece = (CANARY + b",17,north\n") * 20_000
    while not stop.wait(0.2):
        proxy = parts.proxy
        assert proxy is not None
        head = (
            f"PUT /_stcore/upload_file/nobody/nothing HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n"
            f"Authorization: Basic {CREDENTIALS}\r\nContent-Type: multipart/form-data; boundary=line\r\n"
            f"Content-Length: {3 * len(piece)}\r\n\r\n"
            '--line\r\nContent-Disposition: form-data; name="file"; filename="table.csv"\r\n\r\n'
        )
        with suppress(OSError), closing(connected(proxy.port)) as line:
            line.sendall(head.encode() + piece)


def eventually(condition: Callable[[], bool], words: str) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.5)
    raise AssertionError(words)


def test_nothing_is_lost_when_any_part_is_killed(parts: Parts, capsys: pytest.CaptureFixture[str]) -> None:
    chance, stop = random.Random(SEED), threading.Event()
    with parts.application() as application:
        queued(application)
    kills = list(PARTS) * (KILLS // len(PARTS))
    chance.shuffle(kills)
    uploader = threading.Thread(target=uploading, args=(parts, stop), daemon=True)
    uploader.start()
    for part in kills:
        time.sleep(chance.uniform(0.2, 2))
        parts.kill(part, chance)
        with parts.application() as application:
            parts.note_charges(application)
        assert parts.clear_bytes() == ""
    stop.set()
    uploader.join()
    with parts.application() as application:
        store = application.store
        eventually(lambda: not (store.work.active() or store.work.waiting()), "the queue does not go on")
        parts.note_charges(application)
        runs = store.runs.all()
        assert len(runs) == RUNS
        assert {run.state for run in runs} <= ENDED, Counter(run.state for run in runs)
        for run in runs:
            states = [charge.state for charge in application.ledger.charges_of(run.id)]
            assert len(states) == 1
            if run.state is WorkState.REPORTED:
                assert states == [ChargeState.SPENT]
                assert application.folder(run.id).joinpath("bundle.zip").stat().st_size > 0
            else:
                assert states[0] in (ChargeState.FAILED_SPENT, ChargeState.FREED), (run, states)
        # The chains are whole, and their sum is that of the runs that spent.
        charged = sum(application.account(one.name).epsilon_simple_sum for one in store.accounts.all())
        assert charged == pytest.approx(EPSILON * len(parts.spent))
        for account in store.accounts.all():
            application.vault.check_ledger(account.id)
        went_on = sum(run.attempts > 1 for run in runs)
        ended = Counter(run.state.value for run in runs)
        why = sorted({run.message for run in runs if run.state is WorkState.FAILED})
    assert parts.clear_bytes() == ""
    with capsys.disabled():
        sys.stdout.write(
            f"\n{sum(parts.killed.values())} kills ({dict(parts.killed)}, seed {SEED}): {dict(ended)}; {went_on} went "
            f"on from their answers; {len(parts.spent)} charges, none lost, none twice; nothing in clear on disk\n"
            + "".join(f"failed: {words}\n" for words in why)
        )
