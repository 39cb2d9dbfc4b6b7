"""Machines of several parties' released rows, by the command: made from bundles, handed on as files, and asked."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import pytest
from golden_bundles import golden

from synth.cli.commands import main

PARTIES = ("kahm", "independent-by-class")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the synthetic rows of one of the parties."""
    with zipfile.ZipFile(golden("kahm")) as archive:
        return Path(archive.extract("synthetic.csv", tmp_path_factory.mktemp("rows")))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the files of the parties, as the command writes them."""
    folder = tmp_path_factory.mktemp("models")
    made = [str(folder / f"{name}.safetensors") for name in PARTIES]
    for name, path in zip(PARTIES, made, strict=True):
        assert main(["parties", str(golden(name)), "--out", path]) == 0
    return made


def test_rows_are_classified_by_the_machines_of_all_parties(
    rows: Path, models: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, like = tmp_path / "classes.csv", str(golden("kahm"))
    assert main(["parties", str(rows), "--models", *models, "--like", like, "--out", str(out)]) == 0
    assert "machines of 2 parties" in capsys.readouterr().out
    with rows.open(newline="") as stream:
        known = list(csv.DictReader(stream))
    with out.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    (label,) = found[0]
    assert len(found) == len(known)
    assert {one[label] for one in found} <= {one[label] for one in known}
    # Of two even classes of noisy rows: well above guessing, below what the party's own machines alone would say.
    assert sum(one[label] == other[label] for one, other in zip(found, known, strict=True)) > 0.65 * len(known)


def test_what_a_file_gives_away_is_said(models: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parties", str(golden("kahm")), "--out", str(tmp_path / "again.safetensors")]) == 0
    assert "The file contains the released rows" in capsys.readouterr().out
    assert (tmp_path / "again.safetensors").read_bytes() == Path(models[0]).read_bytes()


def test_rows_need_a_bundle_that_declares_them(
    rows: Path, models: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parties", str(rows), "--models", *models, "--out", str(tmp_path / "out.csv")]) == 2
    assert "--like" in capsys.readouterr().err
