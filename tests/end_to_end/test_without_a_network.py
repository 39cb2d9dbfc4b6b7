"""An installation from a folder of packages, by the commands of docs/deploying.md; only the first has a network.

Collecting the packages takes some 600 MB from the registries, so this test is asked for by name.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from printed import ROOT, commands_by_section
from serving import wait_for_health

pytestmark = pytest.mark.slow

if (sys.platform, platform.machine()) != ("linux", "x86_64") or shutil.which("python3.11") is None:
    pytest.skip("the locks are for Python 3.11 on Linux (x86-64)", allow_module_level=True)

ALONE = ["unshare", "--map-root-user", "--net"]
"""Runs a command where there is no network, not even the loopback interface."""


@pytest.fixture(scope="module")
def alone() -> list[str]:
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody take the network away from a program (unshare --net)")
    return ALONE


def run(folder: Path, *command: str) -> str:
    ours = ("PIP_", "PYTHONPATH", "DATABASE_URL")  # nothing of this machine's may help
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    environment["HERMITAGE_HOME"] = str(folder / "home")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(alone: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Type the commands of the docs; return the folder in which the installation is."""
    collect, *install, start = commands_by_section("docs/deploying.md")["Without a network"]
    folder = tmp_path_factory.mktemp("alone")
    script, *arguments = collect.split()
    subprocess.run([ROOT / script, *arguments], cwd=folder, check=True)
    for line in install:
        run(folder, *alone, "sh", "-euc", line)
    assert start == "hermitage/bin/synth app"
    yield folder
    shutil.rmtree(folder)


def test_every_file_is_of_a_lock_or_hermitage_itself(installed: Path) -> None:
    locked = (installed / "wheels" / "torch.txt").read_text() + (installed / "wheels" / "common.txt").read_text()
    entries = [line for line in locked.splitlines() if "==" in line]
    packages = [path.name for path in (installed / "wheels").iterdir() if path.suffix != ".txt"]
    assert len(packages) == len(entries) + 1
    assert len([name for name in packages if name.startswith("hermitage-")]) == 1


def test_a_release_is_made_and_checked_in_it(installed: Path, alone: list[str]) -> None:
    synth = [*alone, "hermitage/bin/synth"]
    run(installed, *synth, "demo", "demo", "--small")
    run(installed, "sed", "-E", "-i", "s/^rows: .*/rows: 200/", "demo/small-clinic.yaml")
    run(installed, *synth, "run", "demo/small-clinic.yaml", "--out", "release")
    run(installed, *synth, "verify", "release/bundle.zip")


def test_its_server_starts(installed: Path) -> None:
    """With the screens of the installation, as nothing of a checkout is in the folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "DATABASE_URL"}}
    environment["HERMITAGE_HOME"] = str(installed / "other-home")
    server = subprocess.Popen(
        ["hermitage/bin/synth", "app", "--no-browser", "--port", str(port)], cwd=installed, env=environment
    )
    try:
        wait_for_health(f"http://127.0.0.1:{port}", server)
    finally:
        server.terminate()
        server.wait(timeout=600)
