"""The locks of the images: what requirements.txt names and all that it needs, every file of it by its hash."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = {name: ROOT / "locks" / f"{name}.txt" for name in ("common", "cpu", "cuda")}
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "python_version": "3.11"}


def entries(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return version and hashes of every package of a lock; refuse a line that is neither."""
    found: dict[str, tuple[str, list[str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if entry := re.fullmatch(r"([a-z0-9-]+)==([^ ]+) \\", line):
            name = entry[1]
            assert name not in found
            found[name] = (entry[2], [])
        else:
            digest = re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})(?: \\)?", line)
            assert digest is not None, line
            found[name][1].append(digest[1])
    return found


def required() -> list[Requirement]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip()]


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_hashes(name: str) -> None:
    found = entries(LOCKS[name])
    assert found
    assert all(hashes for _, hashes in found.values())


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_an_image_has_what_requirements_name_and_nothing_twice(kind: str) -> None:
    common, own = entries(LOCKS["common"]), entries(LOCKS[kind])
    assert not set(common) & set(own)
    held = {name: version for name, (version, _) in (common | own).items()}
    for requirement in required():
        if requirement.marker is None or requirement.marker.evaluate(LINUX):
            assert requirement.specifier.contains(held[canonicalize_name(requirement.name)]), requirement.name


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_an_image_has_all_that_its_packages_need(kind: str) -> None:
    """Read from what is installed here; pip says the same of the image itself, where the Dockerfile asks it."""
    held = {name: version for name, (version, _) in (entries(LOCKS["common"]) | entries(LOCKS[kind])).items()}
    looked = 0
    for name in held:
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # CUDA is not installed here
        if name == "torch" and metadata.version(name) != held[name]:
            continue  # it is built with CUDA or without, and the other build needs other packages
        looked += 1
        for requirement in map(Requirement, needed):
            if requirement.marker is None or requirement.marker.evaluate(LINUX | {"extra": ""}):
                assert requirement.specifier.contains(held[canonicalize_name(requirement.name)]), (name, requirement)
    assert looked > 50


def test_only_the_image_with_cuda_holds_cuda() -> None:
    cards = re.compile(r"nvidia-|cuda-|triton")
    assert any(cards.match(name) for name in entries(LOCKS["cuda"]))
    assert not any(cards.match(name) for kind in ("common", "cpu") for name in entries(LOCKS[kind]))
    assert entries(LOCKS["cpu"])["torch"][0] == entries(LOCKS["cuda"])["torch"][0] + "+cpu"


def test_the_dockerfile_installs_by_hash_on_a_base_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$", text, re.M)
    bases = re.findall(r"^FROM (\S+)", text, re.M)
    assert set(bases) == {"${PYTHON_IMAGE}"}
    installs = re.findall(r"pip install ([^&\n]*)", text.partition("ARG PYTHON_IMAGE")[2])
    assert len(installs) == 3
    for arguments in installs:
        assert "--no-deps" in arguments
        assert "--require-hashes" in arguments or re.search(r"--no-build-isolation \.", arguments)


@pytest.mark.parametrize(
    ("words", "lock", "index"),
    [
        ({}, "cpu", "https://download.pytorch.org/whl/cpu"),
        ({"TORCH": "cpu", "TORCH_INDEX": "file:///wheels"}, "cpu", "file:///wheels"),
        ({"TORCH": "cuda"}, "cuda", ""),  # PyPI's own torch is the one with CUDA
    ],
)
def test_the_build_argument_decides_which_torch_pip_is_asked_for(
    words: dict[str, str], lock: str, index: str, tmp_path: Path
) -> None:
    """The Dockerfile's own command, run by sh beside a pip that only writes down what it is asked for."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"^RUN (.*\$TORCH\.txt.*)$", text, re.M)
    defaults = dict(re.findall(r"^ARG (TORCH\w*)=(\S+)$", text, re.M))
    assert set(words) <= set(defaults) == {"TORCH", "TORCH_INDEX"}
    pip = tmp_path / "pip"
    pip.write_text("""#!/bin/sh\nprintf '%s\\n' "$PIP_EXTRA_INDEX_URL" "$*"\n""", encoding="utf-8")
    pip.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"} | defaults | words
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True)
    asked, arguments = done.stdout.splitlines()
    assert asked == index
    assert arguments.startswith("install ")
    assert re.findall(r"-r (\S+)", arguments) == [f"locks/{lock}.txt"]
