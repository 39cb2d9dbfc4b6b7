"""The images as they are deployed: without a network, on a root that cannot be written to, as user 10001.

Asked for by ``scripts/image``, which builds them first. Docker and podman take the same command lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from compose_here import SERVICES
from serving import ROOT

pytestmark = pytest.mark.slow

IMAGE = os.environ.get("IMAGE", "hermitage")
CODE = "/opt/hermitage/lib/python3.11/site-packages"
CONFINED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--network=none")  # compose.yaml's, but for the network
TINY = "s/^rows: .*/rows: 200/"


def answers(program: str) -> bool:
    found = shutil.which(program)
    return found is not None and not subprocess.run([found, "info"], capture_output=True, check=False).returncode


@pytest.fixture(scope="module")
def engine() -> str:
    """Return the program that runs containers here."""
    for program in os.environ.get("ENGINE", "docker podman").split():
        if answers(program):
            return program
    pytest.skip("neither docker nor podman answers here: install one of them, and start it")


def typed(*words: str, rc: int | None = 0) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert rc is None or done.returncode == rc, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def health(engine: str) -> tuple[str, ...]:
    """Return the command of the image's own health check."""
    done = subprocess.run([engine, "image", "inspect", IMAGE], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no image '{IMAGE}' here: scripts/image builds it")
    (found,) = json.loads(done.stdout)
    kind, *command = (found.get("Healthcheck") or found["Config"]["Healthcheck"])[
        "Test"
    ]  # podman's place, and docker's
    assert kind == "CMD"
    return tuple(command)


@dataclass(frozen=True)
class Container:
    """A container that runs, and the program that runs it."""

    engine: str
    name: str
    health: tuple[str, ...]

    def does(self, *command: str, rc: int = 0) -> str:
        return typed(self.engine, "exec", self.name, *command, rc=rc)

    def is_healthy(self) -> bool:
        check = [self.engine, "exec", self.name, *self.health]
        return not subprocess.run(check, capture_output=True, check=False).returncode

    def wait(self) -> None:
        for _ in range(600):
            if self.is_healthy():
                return
            assert self.is_running, typed(self.engine, "logs", self.name, rc=None)
            time.sleep(1)
        raise RuntimeError("the container was not healthy within ten minutes")

    def verdict(self) -> str:
        """Return what the engine itself says of its health, which docker looks at every thirty seconds."""
        if Path(self.engine).name == "podman":  # its timers are systemd's, which may be missing
            typed(self.engine, "healthcheck", "run", self.name, rc=None)
        return typed(self.engine, "inspect", "--format", "{{.State.Health.Status}}", self.name).strip()

    @property
    def is_running(self) -> bool:
        return typed(self.engine, "inspect", "--format", "{{.State.Running}}", self.name).strip() == "true"


@pytest.fixture(scope="module")
def container(engine: str, health: tuple[str, ...]) -> Iterator[Container]:
    """Start the image as docs/deploying.md does, but with no network at all, and wait until it is healthy."""
    name = f"hermitage-test-{uuid.uuid4().hex[:8]}"
    started = Container(engine, name, health)
    typed(engine, "run", "--detach", "--name", name, "--hostname", "hermitage", *CONFINED, "-v", f"{name}:/data", IMAGE)
    try:
        started.wait()
        yield started
    finally:
        typed(engine, "rm", "--force", "--volumes", name, rc=None)
        typed(engine, "volume", "rm", "--force", name, rc=None)


def test_it_is_healthy_without_a_network_and_says_so_only_then(container: Container, engine: str) -> None:
    for _ in range(120):
        if container.verdict() == "healthy":
            break
        time.sleep(1)
    assert container.verdict() == "healthy"
    interfaces = container.does("python", "-c", "import socket; print(*[name for _, name in socket.if_nameindex()])")
    assert interfaces.split() == ["lo"]
    program, *check = container.health
    typed(engine, "run", "--rm", "--network", "none", "--entrypoint", program, IMAGE, *check, rc=1)


def test_it_runs_as_a_user_who_can_write_to_data_and_nowhere_else(container: Container) -> None:
    assert container.does("id", "-u").strip() == "10001"
    assert container.does("python", "-c", "import getpass; print(getpass.getuser())").strip() == "hermitage"
    container.does("touch", "/data/here", "/tmp/here")
    for folder in ("/app", "/opt/hermitage", "/usr/local", "/etc"):
        container.does("touch", f"{folder}/here", rc=1)
    assert container.does("stat", "-c", "%u %a", "/data/keys").split() == ["10001", "700"]


def test_it_holds_the_code_of_this_checkout_and_no_compiler(container: Container) -> None:
    copies = {"/app": [ROOT / "app.py", ROOT / "pages", ROOT / ".streamlit"], CODE: [ROOT / "synth"]}
    for folder, sources in copies.items():
        files = [path for source in sources for path in ([source] if source.is_file() else source.rglob("*"))]
        wanted = {
            str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
            if path.is_file() and path.suffix not in {".pyc", ".mako"}  # the template of a layout is a developer's
        }
        assert wanted
        printed = container.does("sh", "-c", f"cd {folder} && sha256sum {' '.join(wanted)}")
        found = dict(reversed(line.split()) for line in printed.splitlines())
        assert found == wanted
    container.does("sh", "-c", "command -v cc || command -v gcc", rc=127)


def test_a_release_is_made_in_it_checked_and_still_there_after_a_restart(container: Container) -> None:
    synth = ("python", "-m", "synth")
    container.does(*synth, "demo", "/data/demo", "--small")
    container.does("sed", "-E", "-i", TINY, "/data/demo/small-clinic.yaml")
    container.does(*synth, "run", "/data/demo/small-clinic.yaml", "--out", "/data/release")
    container.does(*synth, "verify", "/data/release/bundle.zip")
    spent = container.does(*synth, "ledger")
    begun = time.monotonic()
    typed(container.engine, "stop", "--time", "60", container.name)
    assert time.monotonic() - begun < 60  # it ends by itself, and is not killed
    assert typed(container.engine, "inspect", "--format", "{{.State.ExitCode}}", container.name).strip() == "0"
    typed(container.engine, "start", container.name)
    container.wait()
    assert container.does(*synth, "ledger") == spent


def test_a_home_that_it_may_not_write_to_is_a_sentence(engine: str, health: tuple[str, ...], tmp_path: Path) -> None:
    del health  # the image is here
    (tmp_path / "home").mkdir(mode=0o755)  # root's, and not user 10001's
    mount = f"{tmp_path / 'home'}:/data"
    command = ("--entrypoint", "python", IMAGE, "-m", "synth", "ledger")
    done = subprocess.run(
        [engine, "run", "--rm", "--network", "none", "-v", mount, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode not in {0, 125, 126, 127}
    assert "Traceback" not in done.stderr
    assert "HERMITAGE_HOME" in done.stderr


def test_the_command_line_of_compose_backs_up_a_postgresql_and_restores_it(
    engine: str, health: tuple[str, ...], own_server: Any, tmp_path: Path
) -> None:
    """The image of synth.Dockerfile; all that it reaches of the database is its socket."""
    del health  # the images are here
    backups = tmp_path / "backups"
    backups.mkdir()
    backups.chmod(0o777)
    own_server.directory.chmod(0o711)
    volume = f"hermitage-test-{uuid.uuid4().hex[:8]}"
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")

    def synth(database: str, *words: str) -> str:
        variables = {
            "DATABASE_URL": f"postgresql://postgres@/{database}?host=/database",
            "HERMITAGE_LOGIN": SERVICES["app"]["environment"]["HERMITAGE_LOGIN"],
        }
        mounts = (f"{own_server.directory}:/database", f"{volume}-{database}:/data", f"{backups}:/backups")
        options = [f"-v{mount}" for mount in mounts] + [f"-e{key}={value}" for key, value in variables.items()]
        program, *command = SERVICES["synth"]["entrypoint"]
        return typed(
            engine, "run", "--rm", *CONFINED, *options, "--entrypoint", program, f"{IMAGE}-synth", *command, *words
        )

    try:
        synth("postgres", "user", "anna", "--roles", "owner,admin")
        users = synth("postgres", "user")
        assert "anna" in users
        synth("postgres", "backup", "/backups/first")
        synth("restored", "restore", "/backups/first")
        assert synth("restored", "user") == users
    finally:
        for database in ("postgres", "restored"):
            typed(engine, "volume", "rm", "--force", f"{volume}-{database}", rc=None)
