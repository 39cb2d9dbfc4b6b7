"""Hostile bundles: whatever swells, nests or never ends is a verdict within a gibibyte and a minute, never a hang."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, npy, npz_with
from golden_bundles import golden

from synth.bundle import verify as verifying
from synth.bundle.verify import SECONDS, Outcome, verify
from synth.cli import main
from synth.errors import InputError
from synth.system.confined import Confined

GOLDEN = golden("independent")


def huge_parquet(data: bytes) -> bytes:
    """The file and three hundred megabytes of zeros."""
    return data + bytes(300 * 2**20)


def nested_json(data: bytes) -> bytes:
    return b"[" * 3_000_000 + b"]" * 3_000_000 + b"\n"


def nested_yaml(data: bytes) -> bytes:
    return data + b"rules: " + b"[" * 200_000 + b"]" * 200_000 + b"\n"


def laughing_yaml(data: bytes) -> bytes:
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    return data + b"domain_source:\n  x: 1\na0: &a0 [lol]\n" + "\n".join(levels).encode() + b"\n"


def huge_header(data: bytes) -> bytes:
    """An array of four exabytes, by the word of its header."""

    def rewrite(members: dict[str, bytes]) -> None:
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 536870912), }\n"
        members["answer_0000.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text

    return npz_with(data, rewrite)


def huge_array(data: bytes) -> bytes:
    """Eight hundred megabytes that no answer refers to."""
    return npz_with(data, lambda members: members.update({"zeros.npy": npy(np.zeros(3 * 2**28, dtype=np.uint8))}))


def huge_csv(data: bytes) -> bytes:
    """One cell of three hundred megabytes."""
    lines = data.split(b"\n")
    return b"\n".join([lines[0], b'"' + b"x" * (300 * 2**20) + b'"', *lines[2:]])


def huge_report(data: bytes) -> bytes:
    return b'{"evidence":[' + b"[],[],{},[]," * 2_500_000 + b"[]]}\n"


HOSTILE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("synthetic.parquet", huge_parquet, "synthetic.parquet is not what the table of synthetic.csv is written as"),
    ("schema.json", nested_json, "schema.json is not valid JSON"),
    ("report.json", nested_json, "report.json is not valid JSON"),
    ("config.yaml", nested_yaml, "config.yaml"),
    ("config.yaml", laughing_yaml, "config.yaml"),
    ("measurements.npz", huge_header, "measurements.npz is damaged"),
    ("measurements.npz", huge_array, "noisy answers"),
    ("synthetic.csv", huge_csv, "synthetic.csv is not a table that can be read"),
    ("report.json", huge_report, "report"),
]

ALIKE = [case for case in HOSTILE if case[1] in (nested_yaml, huge_array) or case[:2] == ("report.json", nested_json)]
"""Each much like another one."""


PROGRAM = """
import json, resource, sys
from synth.bundle.verify import verify
from synth.services.pipeline import peak_memory_bytes
verdict = verify(sys.argv[1])
child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"json": verdict.json, "lines": verdict.lines, "own": peak_memory_bytes(), "child": child}))
"""


@pytest.mark.parametrize(
    ("name", "forge", "reason"),
    [pytest.param(*case, marks=() if case[1] is huge_header else pytest.mark.thorough) for case in HOSTILE],
    ids=[f"{name} {forge.__name__}" for name, forge, _ in HOSTILE],
)
def test_what_swells_is_a_verdict(
    tmp_path: Path, key: Key, name: str, forge: Callable[[bytes], bytes], reason: str
) -> None:
    path = altered(GOLDEN, tmp_path / "hostile.zip", files={name: forge}, sign_with=key)
    # In a fresh process, as a child's memory counts from that of the process that started it.
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    findings = [*found["json"]["failures"], *found["json"]["not_checked"]]
    assert any(reason in finding for finding in findings), findings
    assert not found["json"]["ok"]
    assert found["json"]["fingerprint"] is not None, "what was found before the limit is kept"
    assert found["child"] < 2**30
    assert found["own"] < 2**28, "and nothing of it reached the process that asked"


@pytest.mark.thorough
def test_what_a_stranger_wrote_stays_in_its_line(tmp_path: Path, key: Key) -> None:
    spoof = "\x1b[2J\nAll checks passed. What they leave out is listed above."

    def talk(document: dict[str, Any]) -> None:
        document["assumptions"] += [spoof, *(f"{number} {'x' * 9_000}" for number in range(2_000))]

    path = altered(GOLDEN, tmp_path / "long.zip", certificate=talk)
    verdict = verify(path)
    assert not verdict.ok
    assert verdict.lines.count("All checks passed. What they leave out is listed above.") == 0
    assert all(line.isprintable() for line in verdict.lines)
    assert len("".join(verdict.lines)) < 5_000_000
    assert any(line.endswith("more.") for line in verdict.lines)


@pytest.mark.thorough
def test_what_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = ["-n", "1000000000000", "pass"]
    monkeypatch.setattr(verifying, "Confined", lambda module, *, seconds: Confined("timeit", *endless, seconds=seconds))
    verdict = verify(GOLDEN, seconds=0.5)
    assert not verdict.ok
    assert verdict.json["failures"] == []
    assert verdict.json["not_checked"] == [
        "The bundle as a file could not be checked in the time allowed, nor anything after it. If you trust the source "
        "of this bundle, allow more time: synth verify --seconds."
    ]
    assert verdict.lines[-1] == "Nothing in the bundle was checked."


def test_a_check_that_needs_more_time_is_no_failure() -> None:
    verdict = verify(GOLDEN, seconds=0.2)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.json["failures"] == []
    (lack,) = verdict.json["not_checked"]
    assert "could not be checked in the time allowed" in lack


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.99])
def test_a_download_that_broke_off_is_refused_in_a_sentence(tmp_path: Path, kept: float) -> None:
    data = GOLDEN.read_bytes()
    (tmp_path / "bundle.zip").write_bytes(data[: int(kept * len(data)) if kept < 1 else int(kept)])
    verdict = checked(tmp_path / "bundle.zip")
    assert verdict.outcome is Outcome.FAILS
    (failure,) = verdict.json["failures"]
    assert "bundle.zip" in failure or "bundle" in failure
    assert failure.endswith(".")


def test_a_process_that_dies_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "Confined", lambda module, **limits: Confined("antigravity_absent", **limits))
    verdict = verify(GOLDEN)
    assert not verdict.ok
    assert verdict.json["failures"] == []
    assert verdict.json["not_checked"] == [
        "The bundle as a file could not be checked, nor anything after it: the check stopped. The bundle is damaged, "
        "or needs more memory than allowed. If you trust its source, allow more memory: synth verify --memory."
    ]


LEAN = """
import io, resource, sys
import numpy as np
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.table_files import check_csv, is_written_as, write_csv
from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import OneHot
from synth.privacy.receipt import Receipt
from synth.schema import CategoryColumn, Neighbours, NumberColumn, Schema
from synth.system.confined import confine

def reserved():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))

codes = np.random.default_rng(1).integers(0, 3, (20_000, 300))
wide = Schema(tuple(CategoryColumn(f"c{k}", ("north-west", "south-east", "elsewhere")) for k in range(300)))
places = 16_000_000
bins = (np.arange(places) * 7 // places).astype(np.int32)
receipt = Receipt(
    sequence=0, query="a", mechanism="discrete_gaussian", source="a", neighbours=Neighbours.REPLACE, protects="person",
    rows_per_unit=1, sensitivity=1.5, noise_scale=1.0, dimension=7, grid=2.0**-20, mu_squared_units=2**42, slack=1e-9,
)
text = io.BytesIO()
write_csv(codes, wide, text, 1)
held = measurements_to_bytes(Measurements((NoisyAnswer(receipt, np.zeros(7), OneHot(("a",), (bins,))),)))
del bins
confine(memory_bytes=reserved() + {room}, cpu_seconds=100)
text.seek(0)
assert check_csv(text, wide, rows=20_000, keep=True).problems == []
assert len(measurements_from_bytes(held).answers) == 1
long = Schema((NumberColumn("a", 0, places - 1, 1),))
for name in ("synthetic.csv", "synthetic.parquet"):
    assert not is_written_as(name, io.BytesIO(), np.array([[0], [places - 1], [7]]), long, 1)
print("within", flush=True)
"""


@pytest.mark.thorough
def test_memory_follows_what_a_bundle_holds_and_not_what_it_declares() -> None:
    """Many columns of a table, and a range of sixteen million places of which three occur."""
    program = LEAN.replace("{room}", str(200 * 2**20))
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert run.stdout == "within\n", run.stderr


def test_limits_are_what_they_are_said_to_be() -> None:
    assert (verifying.MEMORY_BYTES, SECONDS) == (2**30, 60.0)
    for limits in ({"memory_bytes": 0}, {"seconds": 0.0}):
        with pytest.raises(InputError, match="limits of a check must be positive"):
            verify(GOLDEN, **limits)  # type: ignore[arg-type]
    assert verify(GOLDEN, memory_bytes=2 * 2**30, seconds=120.0).ok


@pytest.mark.parametrize("command", [["verify", str(GOLDEN)], ["check-again", "none", "--out", "new"]])
@pytest.mark.parametrize("option", ["--memory", "--seconds"])
@pytest.mark.parametrize("given", ["inf", "-inf", "nan", "0", "-1", "1e308", "9" * 400])
def test_no_number_is_too_odd_for_a_sentence(
    command: list[str],
    option: str,
    given: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, f"{option}={given}"]) == InputError.exit_code
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("synth: The limits of a check must be positive: at most 1,048,576 GiB of memory and 1,000,0")
    assert not list(tmp_path.iterdir()), "nothing was begun"


def test_memory_that_no_float_holds_is_refused_from_python_too() -> None:
    for odd in (10**400, float("nan"), float("inf")):
        with pytest.raises(InputError, match="limits of a check must be positive"):
            verify(GOLDEN, memory_bytes=odd)  # type: ignore[arg-type]
