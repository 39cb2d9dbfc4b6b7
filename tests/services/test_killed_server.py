"""The server is killed at random moments of uploads, runs and seals; what is found after a restart."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from server_to_kill import CANARY

SCRIPT = Path(__file__).with_name("server_to_kill.py")
SEED = 20261122
KILLS = 20
LONGEST = {"upload": 3.0, "run": 9.0, "seal": 0.25}
"""Seconds within which a server is killed after its work has begun: about as long as the work takes."""

pytestmark = [pytest.mark.audit, pytest.mark.timeout(1800)]


class Servers:
    """Starts servers on one home, one after the other, and kills them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.temporary = folder / "home", folder / "tmp"
        self.temporary.mkdir()
        environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
        environment |= {"HERMITAGE_HOME": str(self.home), "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, order: str) -> int:
        """Start a server, and return its number once its work has begun."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        number = int(self._line())
        assert (line := self._line()) == "begun", line
        return number

    def end(self) -> list[str]:
        """Wait until the server is over, and return what it still said."""
        said = []
        while (line := self._line()) != "over":
            said.append(line)
        return said

    def ask(self, order: str) -> Any:
        self.begin(order)
        return json.loads(self.end()[-1])

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the servers ended"
        return line.strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    started = Servers(tmp_path)
    yield started
    started.close()


def orders() -> list[tuple[str, float]]:
    """What is at work at each kill, and after how many seconds it comes; seals come after runs that gave something."""
    chance = random.Random(SEED)
    kinds = ["run", "upload", "seal", "upload", "run"] * (KILLS // 5)
    return [(kind, chance.uniform(0, LONGEST[kind])) for kind in kinds]


def clear_bytes(*folders: Path) -> str:
    # In a process of its own: reading a database's file in this one would drop SQLite's locks on it.
    found = subprocess.run(["grep", "-rlaF", CANARY.decode(), *map(str, folders)], capture_output=True, text=True)
    return found.stdout


def test_a_killed_server_loses_nothing(servers: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    servers.ask("prepare")
    spent, in_time, counted = 0.0, 0, dict.fromkeys(LONGEST, 0)
    runs: list[dict[str, Any]] = []
    for kind, seconds in orders():
        number = servers.begin(kind)
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        said = servers.end()
        assert not [line for line in said if "error" in line], said
        in_time += not said  # it had not finished
        counted[kind] += 1
        assert clear_bytes(servers.home, servers.temporary) == ""

        seen = servers.ask("look")  # another server, on the same home
        assert "error" not in seen, seen
        assert all(seen["whole"]), "a half table is listed"
        for run in seen["runs"]:
            # Nothing is at work any more: who had begun has ended, and what was read is charged.
            assert run["state"] in {"reported", "released", "failed", "planned", "cancelled"}, run
            assert run["charges"] != [] or run["state"] == "planned", run
            if run["state"] in {"reported", "released"}:
                assert run["charges"] in (["spent"], ["released"]), run
            elif run["began"]:
                assert run["charges"] in (["failed-spent"], ["freed"]), run
            if run["state"] == "released":
                assert run["charges"] == ["released"], run
        assert seen["spent"] >= spent - 1e-9, "less is spent than before"
        spent, runs = seen["spent"], seen["runs"]
        assert not list((servers.home / "incoming").glob("*"))
        assert not list(servers.temporary.iterdir()), sorted(servers.temporary.iterdir())
    with capsys.disabled():
        ways = ", ".join(f"{number} of {kind}s" for kind, number in counted.items())
        ends = Counter(f"{run['state']} {'/'.join(run['charges'])}" for run in runs)
        ended = ", ".join(f"{number} {end}" for end, number in ends.items())
        sys.stdout.write(
            f"\n{KILLS} kills (seed {SEED}): {ways}; {in_time} before the work was done; nothing lost, nothing "
            f"under-counted: {len(runs)} runs ({ended}), epsilon {spent:.3g} spent\n"
        )
