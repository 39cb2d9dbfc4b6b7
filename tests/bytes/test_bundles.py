"""From the bytes of a file to the sealed bundle: one odd line changes nothing there but the noisy answers.

The runs are whole ones, each in an installation of its own: file, command, encrypted table, ledger, worker's work,
bundle. What is compared is everything that is not noise or made from noise.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import FORMATS, SCHEMA, honest_cells

import synth
from synth.cli.local import run_locally
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, RowCountRule, RunConfig, Schema, TableFormat
from synth.services.intake import Reading

ODD = {
    "a stray quotation mark": b'p3,5,"Ayr,,yes\n',
    "a ragged line": b"p3,5\n",
    "a bad byte and a NUL": b"p3,\xff,\0,,yes\n",
    "a line that is too long": b"p3," + b"9" * (5 * 2**20) + b",Ayr,,yes\n",
    "values beyond all bounds": b"p3,1e400,Nowhere,9999-12-31,perhaps\n",
}
UNITS = 60


_READING = Reading(as_declared=True)


def run(tmp_path: Path, data: bytes, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a file through everything, however little of it is as declared; return what may not depend on one unit."""
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    tmp_path.mkdir()
    (tmp_path / "table.csv").write_bytes(data)
    result = run_locally(config, tmp_path / "out", table=tmp_path / "table.csv", owner_report=False, reading=_READING)
    assert synth.verify(result.bundle).ok
    with zipfile.ZipFile(result.bundle) as archive:
        return facts_of(archive)


def facts_of(archive: zipfile.ZipFile) -> dict[str, Any]:
    certificate = json.loads(archive.read("certificate.json"))
    del certificate["files"], certificate["ledger"]
    with np.load(io.BytesIO(archive.read("measurements.npz")), allow_pickle=False) as arrays:
        index = json.loads(arrays["index"].tobytes())
        shapes = {name: (array.shape, array.dtype.str) for name, array in arrays.items() if name != "index"}
    index["rows"] = index["rows"] if index["rows"]["public"] else index["rows"]["noise_std"]
    model = archive.read("model.safetensors")
    header = json.loads(model[8 : 8 + int.from_bytes(model[:8], "little")])
    return {
        "members": [(entry.filename, entry.date_time, entry.external_attr) for entry in archive.infolist()],
        "schema.json": archive.read("schema.json"),
        "config.yaml": archive.read("config.yaml"),
        "README.txt": archive.read("README.txt"),
        "certificate.json": certificate,
        "questions": index,
        "answers": shapes,
        "model": {name: (entry.get("shape"), entry.get("dtype")) for name, entry in header.items()},
        "rows": archive.read("synthetic.csv").count(b"\n"),
    }


@pytest.mark.usefixtures("without_trial")
def test_line_breaks_in_cells_are_an_assumption_of_the_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"age,town\n" + b'30,"Ay\nr"\n31,Ayr\n' * 40
    schema = Schema(
        (NumberColumn("age", 0, 120, 1, missing=True), CategoryColumn("town", ("Ayr", "Ay\nr"), other=True)),
        row_count="private",
    )
    config = RunConfig(
        schema=schema, account="people", epsilon=1.0, delta=1e-6, people_at_most=1_000, rows=9, generator="independent"
    )
    assumed = {}
    for newlines in (False, True):
        config = replace(config, format=TableFormat(newlines=newlines))
        facts = run(tmp_path / str(newlines), data, config, monkeypatch)
        assumed[newlines] = facts["certificate.json"]["assumptions"]
        assert (b"Every quotation mark of the table is closed" in facts["README.txt"]) == newlines
    assert [sentence for sentence in assumed[True] if sentence not in assumed[False]] == list(config.format.assumptions)


@pytest.mark.parametrize(
    ("row_count", "ids"),
    [
        pytest.param("private", False, marks=pytest.mark.thorough),
        pytest.param("public", True, marks=pytest.mark.thorough),
        pytest.param("public", False, marks=pytest.mark.audit),  # half a minute each
        pytest.param("private", True, marks=pytest.mark.audit),
    ],
)
def test_an_odd_line_changes_nothing_in_the_bundle_but_the_noisy_answers(
    row_count: RowCountRule, ids: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, random_ = FORMATS["csv"], random.Random(1)
    lines = [kind.line([f"p{unit}", *honest_cells(random_)[1:]]) for unit in range(UNITS)]
    number = UNITS if row_count == "public" else None
    unit = PrivacyUnit("person", 2 if ids and number is None else 1, "who" if ids else None)
    config = RunConfig(
        schema=replace(SCHEMA, unit=unit, row_count=row_count, number_of_units=number),
        account="people",
        epsilon=1.0,
        delta=1e-6,
        people_at_most=1_000,
        rows=50,
        holdout=0.25,
        generator="independent",
    )
    before = run(tmp_path / "before", kind.file(lines), config, monkeypatch)
    if number is not None:
        assert before["questions"]["rows"]["value"] == number - 15
    for name, odd in ODD.items():
        # Somebody comes under add/remove; under replace-one p3 is somebody else from now on.
        others = lines[:3] + lines[4:] if row_count == "public" or ids else lines
        changed = [*others[:20], odd, *others[20:]]
        after = run(tmp_path / name, kind.file(changed), config, monkeypatch)
        assert after == before, name
