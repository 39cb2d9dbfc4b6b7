"""A build of PyTorch for CUDA takes most of a GiB by itself, which is no part of what a check may take."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from synth.system import machine
from synth.system.machine import cuda_library_bytes

TAKEN = """
import re
def taken():
    return 1024 * int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1])
import numpy, scipy.special
before = taken()
import torch
print(taken() - before)
"""


@pytest.mark.parametrize(("library", "counted"), [("libtorch_cuda.so", True), ("libtorch_cpu.so", False)])
def test_only_a_build_for_cuda_is_given_more(
    library: str, counted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / library).touch()
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: spec)
    assert (cuda_library_bytes() > 0) == counted


def test_without_pytorch_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    assert cuda_library_bytes() == 0


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux alone says how much memory is private")
def test_pytorch_leaves_room_for_a_check() -> None:
    """Of the usual 1 GiB a check has 832 MiB; more than half of it must be left, whatever the build."""
    found = subprocess.run([sys.executable, "-c", TAKEN], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 400 * 2**20 + cuda_library_bytes()
