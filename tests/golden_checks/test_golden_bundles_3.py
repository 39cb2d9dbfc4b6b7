"""What was sealed in words of before verifies and is made again; every file is written again, in words of today."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from bundles_written import WORDED, digests, digests_of_words, members_of, of_ten_digits, written_again
from golden_cases import BUNDLES

from synth.bundle.archive import parse_canonical
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.reports.document import REPORT_VERSION, without_words

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles-3"
GOLDEN = sorted(FOLDER.glob("*.zip"))
SEALED = {"bundles-3": 1, "bundles-4": 2, "bundles-5-tables": 2}
"""Version of the words in which the bundles of a folder were sealed."""

by_bundle = pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
by_bundle_of_before = pytest.mark.parametrize(
    ("path", "version"),
    [(path, version) for name, version in SEALED.items() for path in sorted(FOLDER.with_name(name).glob("*.zip"))],
    ids=lambda given: f"{given.parent.name}-{given.stem}" if isinstance(given, Path) else f"words-{given}",
)


def test_they_are_the_golden_cases() -> None:
    assert {path.stem for path in GOLDEN} == set(BUNDLES)


@pytest.mark.parametrize("name", ["dp-hp-adaptive-predictions", "independent", "kahm-rows", "kahm-cell"])
def test_some_of_them_verify(name: str) -> None:
    """The others too: in ``tests/bundle/test_golden.py``, as every one takes a process of its own."""
    verdict = verify(FOLDER / f"{name}.zip", public_key=FOLDER / "public-key.pem")
    assert verdict.ok, verdict.json["failures"]


@by_bundle_of_before
def test_it_makes_the_certified_files(path: Path, version: int, tmp_path: Path) -> None:
    again = replay(path, tmp_path)
    assert again.identical, again.lines
    assert again.report_identical, again.lines
    assert again.words_version == version
    files = parse_canonical(members_of(path)["certificate.json"], name="certificate.json")["files"]
    for name in ("synthetic.csv", "synthetic.parquet"):
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == files[name]


@by_bundle_of_before
def test_the_writer_writes_every_file_of_it_again(path: Path, version: int, tmp_path: Path) -> None:
    """All but the zip itself, whose bytes follow from the version of zlib; what is worded, in the words of today."""
    members, again = members_of(path), written_again(path, tmp_path)
    assert list(again) == list(members)
    documents = [
        {name: parse_canonical(one[name], name=name) for name in ("certificate.json", "report.json")}
        for one in (members, again)
    ]
    before, now = (one["certificate.json"] for one in documents)
    assert now == before | {"files": before["files"] | digests(again)}
    before, now = (one["report.json"] for one in documents)
    assert (before["version"], now["version"]) == (version, REPORT_VERSION)
    assert of_ten_digits(without_words(now)) == of_ten_digits(without_words(before))
    remaining = members.keys() - {*WORDED, "certificate.json"}
    assert [name for name in remaining if again[name] != members[name]] == []


@by_bundle
def test_words_change_with_their_version(path: Path, tmp_path: Path) -> None:
    """A replay compares the sentences of one version byte for byte, so they may change with its number alone."""
    kept = json.loads((FOLDER / f"words-{REPORT_VERSION}.json").read_text(encoding="utf-8"))[path.stem]
    kept |= json.loads((FOLDER / "pages.json").read_text(encoding="utf-8"))[path.stem]
    assert digests_of_words(written_again(path, tmp_path)) == kept
