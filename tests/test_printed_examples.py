"""What the README and other documents print is run as it is printed, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from printed import ROOT, blocks, commands_by_section

TYPED = dict.fromkeys(("Backups", "Restoring"), "tests/services/test_backup.py")
"""Sections of docs/deploying.md with the test that types their commands word by word."""

TYPED_WITH_OTHERS = {
    "Users and roles": "tests/test_printed_examples.py",
    "Compose": "tests/compose_here.py",
    "Without a network": "tests/end_to_end/test_without_a_network.py",
}
"""The same of sections whose commands are not all of ``synth``."""

IMAGES = ("Behind a proxy", "Graphics cards")
"""Sections that build an image and start it."""

NOT_TYPED = {
    "Behind a proxy": "builds an image and starts it, which needs an engine for containers and the network",
    "Graphics cards": "the same, with a graphics card",
    "After an update": "the same, with Compose",
}
"""Sections of docs/deploying.md whose commands no test can type, with the reason."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder in which ``.venv/bin/synth`` is this checkout's command line."""
    command = tmp_path / ".venv" / "bin" / "synth"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m synth "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"HERMITAGE_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


DROPPED = "insurance|diagnosis|stay_days|cost|systolic|diastolic|smoker"
FEWER = (
    f"s/^rows: .*/rows: 200/; s/^  ({DROPPED}): .*/  \\1: {{type: drop}}/; "
    "s/^  same_in_all_rows: .*/  same_in_all_rows: [age, sex, district]/"
)
SMALL = {
    "synth demo demo ": f"synth demo demo --small && sed -E -i '{FEWER}' demo/small-clinic.yaml ",
    "demo/demonstration.yaml": "demo/small-clinic.yaml",
}
"""What is typed otherwise where the other demonstration, of a thirtieth of the rows, has to do, with five columns."""


@pytest.mark.thorough
@pytest.mark.parametrize("otherwise", [SMALL, pytest.param({}, marks=pytest.mark.slow)], ids=["small", "as printed"])
def test_the_quickstart_of_the_readme_runs(otherwise: dict[str, str], folder: Path) -> None:
    (shell,), (python,) = blocks("README.md", "sh"), blocks("README.md", "python")
    for printed, typed in otherwise.items():
        assert printed in shell
        shell, python = shell.replace(printed, typed), python.replace(printed, typed)
    run(["bash", "-euc", shell], folder)
    run([sys.executable, "-c", python], folder)
    tables = [folder / name / "synthetic.csv" for name in ("release", "again", "second-release")]
    first, again, second = (table.read_bytes() for table in tables)
    assert first == again
    assert first != second


@pytest.mark.thorough
def test_a_private_model_is_fitted_checked_and_used_as_printed(folder: Path) -> None:
    (shell,) = blocks("docs/private-models.md", "sh")
    run(["bash", "-euc", shell], folder)
    predicted = (folder / "predictions.csv").read_text().splitlines()
    assert predicted[0] == "systolic"
    assert all(70 <= float(line) <= 230 for line in predicted[1:])
    assert len(predicted) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("document", ["docs/adding-a-generator.md", "docs/kahm.md"])
def test_the_python_of_a_document_runs_from_top_to_bottom(document: str, folder: Path) -> None:
    parts = blocks(document, "python")
    assert parts
    program = folder / "program.py"  # a file, as options take their help from their source
    program.write_text("\n".join(parts), encoding="utf-8")
    run([sys.executable, str(program)], folder)


@pytest.mark.thorough
def test_users_get_their_roles_as_printed(folder: Path) -> None:
    """The one other line of the section belongs into nginx's configuration, and is in that of examples/deploying."""
    *lines, for_nginx = commands_by_section("docs/deploying.md")["Users and roles"]
    assert for_nginx in (ROOT / "examples" / "deploying" / "nginx.conf").read_text(encoding="utf-8")
    printed = run(["bash", "-euc", "\n".join(['synth() { .venv/bin/synth "$@"; }', *lines])], folder)
    assert printed.splitlines()[-2:] == ["anna@example.org: owner", "dan@example.org: admin"]


def test_every_command_of_deploying_is_typed_or_says_why_not() -> None:
    commands = commands_by_section("docs/deploying.md")
    assert set(commands) == {*TYPED, *TYPED_WITH_OTHERS, *NOT_TYPED}
    for section, test in TYPED.items():
        assert f'follow("{section}")' in (ROOT / test).read_text(encoding="utf-8")
        assert not [line for line in commands[section] if not line.startswith("synth ")]
    for section, reader in TYPED_WITH_OTHERS.items():
        assert f'["{section}"]' in (ROOT / reader).read_text(encoding="utf-8")
    for section in NOT_TYPED:
        assert not [line for line in commands[section] if not line.startswith("docker ")]


@pytest.mark.parametrize("section", IMAGES)
def test_commands_for_containers_name_what_the_image_has(section: str) -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    deploying = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    build, start = commands_by_section("docs/deploying.md")[section]
    for name, lock in re.findall(r"--build-arg (\w+)=(\w+)", build):
        assert re.search(rf"^ARG {name}=", image, re.M)
        assert (ROOT / "locks" / f"{lock}.txt").exists()
    (tag,) = re.findall(r" -t (\S+) \.$", build)
    assert start.split()[-1] == tag
    assert re.search(rf"^EXPOSE {re.findall(r'-p 127.0.0.1:8501:([0-9]+)', start)[0]}$", image, re.M)
    (folder,) = re.findall(r"-v hermitage-data:(\S+)", start)
    assert re.search(rf"^VOLUME {folder}$", image, re.M)
    assert f"HERMITAGE_HOME={folder} " in image
    for variable in re.findall(r" -e (\w+)=", start):
        assert f"| `{variable}` |" in deploying
