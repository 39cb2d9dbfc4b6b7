"""What another version wrote is refused by one sentence, everywhere, and is left as it is."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from golden_bundles import golden
from golden_homes import as_before_0_9_0, copy_of_golden_home

import synth
from synth.bundle.archive import canonical_json, parse_canonical, write_zip
from synth.bundle.finding import Finding
from synth.bundle.predicting import predict
from synth.bundle.replay import drawn_table
from synth.bundle.verify import Outcome
from synth.cli import main
from synth.errors import UnknownFormatError
from synth.version import __version__

GOLDEN = Path(__file__).parents[1] / "golden"

EARLIER = f"this is version {__version__}, which reads bundles from 0.9.0 on. Use the version that made it."


def with_certificate(path: Path, **changes: Any) -> Path:
    """The golden bundle with other entries in its certificate; whoever has a key can sign such a one."""
    with zipfile.ZipFile(golden("independent")) as archive:
        members: dict[str, bytes | Path] = {name: archive.read(name) for name in archive.namelist()}
    document = parse_canonical(members["certificate.json"], name="certificate.json")  # type: ignore[arg-type]
    document["versions"] |= changes.pop("versions", {})
    members["certificate.json"] = canonical_json(document | changes)
    write_zip(path, members)
    return path


@pytest.fixture(
    params=[
        ({"version": 1, "versions": {"hermitage": "0.8.0"}}, f"made by version 0.8.0 of this program; {EARLIER}"),
        (
            {"version": 1, "versions": {"hermitage": "x" * 90}},
            f"made by an earlier version of this program; {EARLIER}",
        ),
        ({"versions": {"hermitage": "0.5.0"}}, f"made by version 0.5.0 of this program; {EARLIER}"),
        ({"version": 3, "versions": {"hermitage": "2.0"}}, "which cannot read it. Use that version or a later one."),
    ],
    ids=["0.8.0", "no version", "claims 0.5.0", "2.0"],
)
def of_another(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A bundle of another version, and the end of the sentence about it."""
    changes, sentence = request.param
    return with_certificate(tmp_path / "bundle.zip", **changes), sentence


def test_a_bundle_is_not_checked(of_another: tuple[Path, str]) -> None:
    path, sentence = of_another
    verdict = synth.verify(path)
    assert verdict.outcome is Outcome.UNKNOWN
    (said,) = verdict.json["not_checked"]
    assert said.startswith("The bundle was made by ")
    assert said.endswith(sentence)
    assert (verdict.json["failures"], verdict.json["checked"]) == ([], [])


def test_nothing_is_made_of_a_bundle(of_another: tuple[Path, str], tmp_path: Path) -> None:
    path, sentence = of_another
    table = tmp_path / "rows.csv"
    table.write_text("a\n1\n", encoding="utf-8")
    for use in (
        lambda: synth.replay(path, tmp_path / "again"),
        lambda: synth.estimate(path, "rows"),
        lambda: synth.rows_as_declared(path),
        lambda: drawn_table(path, rows=10, seed=1),
        lambda: predict(path, table),
    ):
        with pytest.raises(UnknownFormatError) as refused:
            use()
        assert str(refused.value).endswith(sentence)
    assert not (tmp_path / "again").exists()


def test_the_command_line_says_one_sentence(
    of_another: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, sentence = of_another
    assert main(["verify", str(path)]) == 6
    said, ended = capsys.readouterr().out.splitlines()
    assert said.endswith(sentence)
    assert ended == "Nothing in the bundle was checked."
    for command in (["replay", str(path), "--out", str(tmp_path / "again")], ["estimate", str(path), "rows"]):
        assert main(command) == 6
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith(sentence)


def test_a_finding_is_refused() -> None:
    with zipfile.ZipFile(golden("found")) as archive:
        files = {name: archive.read(name) for name in ("found.json", "found.npz")}
    document = parse_canonical(files["found.json"], name="found.json") | {"version": 1}
    with pytest.raises(UnknownFormatError, match=r"made by another version of this program; this is version 0\.9"):
        Finding.of_files(files | {"found.json": canonical_json(document)})


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        ("before 0.9.0", "written by a version before 0.9.0; this program"),
        ("99.0", "Use the later version that wrote it"),
    ],
)
def test_a_home_is_refused_and_nothing_in_it_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], layout: str, sentence: str
) -> None:
    home = tmp_path / "home"
    copy_of_golden_home(home)
    database = sqlite3.connect(home / "hermitage.sqlite")
    if layout == "before 0.9.0":
        as_before_0_9_0(database)
    else:
        database.execute("UPDATE hermitage_layout SET version_num = ?", (layout,))
    database.commit()
    database.close()
    before = digests(home)
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    for command in (["ledger"], ["account", "survey"], ["backup", str(tmp_path / "saved")]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert sentence in line
    assert digests(home) == before
    assert not (tmp_path / "saved").exists()


def test_a_backup_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_of_golden_home(tmp_path / "home")
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    assert main(["backup", str(tmp_path / "saved")]) == 0
    manifest = next((tmp_path / "saved").glob("*.json"))
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "new"))
    capsys.readouterr()
    for number, maker in ((1, "a version before 0.9.0"), (9, "a later version")):
        manifest.write_text(json.dumps(json.loads(manifest.read_bytes()) | {"version": number}), encoding="utf-8")
        assert main(["restore", str(tmp_path / "saved")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"was made by {maker} of this program" in line
    assert not (tmp_path / "new" / "hermitage.sqlite").exists()


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
