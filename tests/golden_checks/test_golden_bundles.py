"""Bundles that were sealed verify, are made again, and are written again file by file."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from re import findall

import pytest
from bundles_written import PAGE, WORDED, digests, members_of, of_ten_digits, written_again
from golden_bundles import GOLDEN, PUBLIC_KEY, golden, made_here, same_digits_here
from golden_cases import KEPT, MODELS, configuration

from synth.bundle.archive import MEMBERS, MEMBERS_OF_FINDING, MEMBERS_OF_MODEL, parse_canonical
from synth.bundle.finding import Finding
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.generators import GENERATORS
from synth.reports.document import without_words
from synth.schema import config_to_yaml

by_bundle = pytest.mark.parametrize("name", GOLDEN)
by_bundle_of_a_table = pytest.mark.parametrize("name", [name for name in KEPT if name not in MODELS])


def test_none_is_missing() -> None:
    assert set(GOLDEN) == {*KEPT, "found"}
    # Answers and network of dp-cgan are those of dp-gan.
    assert {configuration(name).generator for name in KEPT if name not in MODELS} == set(GENERATORS) - {"dp-cgan"}


@pytest.mark.four_cases
@by_bundle
def test_it_verifies(name: str) -> None:
    verdict = verify(golden(name), public_key=PUBLIC_KEY)
    assert verdict.json["failures"] == []
    assert verdict.ok or not same_digits_here(name), verdict.lines
    assert verdict.json["signer"] == "as expected"
    own = MEMBERS_OF_MODEL if name in MODELS else MEMBERS
    assert tuple(members_of(golden(name))) == (*own, *(MEMBERS_OF_FINDING if name == "found" else ()))


@pytest.mark.four_cases
@by_bundle
def test_it_is_made_again(name: str, tmp_path: Path) -> None:
    """Also from a bundle that is made here, where the last digits of the kept one are of another processor."""
    path, folder = golden(name), tmp_path / "again"
    again = replay(path, folder)
    if not again.as_certified and not same_digits_here(name):
        path, folder = made_here(name, tmp_path), tmp_path / "own"
        again = replay(path, folder)
    assert again.as_certified, again.lines
    members = members_of(path)
    for table in {"synthetic.csv", "synthetic.parquet"} & members.keys():
        assert (folder / table).read_bytes() == members[table]


@pytest.mark.parametrize("name", KEPT)
def test_its_configuration_is_written_as_it_was(name: str) -> None:
    assert config_to_yaml(configuration(name).sealed()).encode() == members_of(golden(name))["config.yaml"]


@pytest.mark.four_cases
@by_bundle_of_a_table
def test_the_writer_writes_every_file_of_it_again(name: str, tmp_path: Path) -> None:
    """Of what is worded, its numbers."""
    path = golden(name)
    members, again = members_of(path), written_again(path, tmp_path)
    assert list(again) == list(members)
    before, now = (parse_canonical(one["certificate.json"], name="certificate.json") for one in (members, again))
    assert now == before | {"files": before["files"] | digests(again)}
    before, now = (parse_canonical(one["report.json"], name="report.json") for one in (members, again))
    assert of_ten_digits(without_words(now)) == of_ten_digits(without_words(before))
    remaining = members.keys() - {*WORDED, "certificate.json"}
    assert [name for name in remaining if again[name] != members[name]] == []


def test_what_was_found_follows_from_its_answers_byte_for_byte() -> None:
    members = members_of(golden("found"))
    finding = Finding.of_files(members)
    assert finding.files == {name: members[name] for name in MEMBERS_OF_FINDING}
    assert {found.name: found.kind for found in finding.columns} == {
        "age": "integer",
        "town": "text",
        "seen": "date",
        "remark": "text",
    }


MOST_WORDS = {"independent": 915, "kahm-cell": 435}
"""That a reader meets who unfolds nothing, tables and pictures aside."""


@pytest.mark.parametrize("name", MOST_WORDS)
def test_a_page_has_no_more_to_read_than_it_had(name: str, tmp_path: Path) -> None:
    page = _Read()
    page.feed(written_again(golden(name), tmp_path)[PAGE].decode())
    assert page.words <= MOST_WORDS[name]


class _Read(HTMLParser):
    """Counts what is read of a page: words outside tables, pictures and what is folded."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self._inside = 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside += tag in _NOT_READ

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag in _NOT_READ

    def handle_data(self, data: str) -> None:
        self.words += 0 if self._inside else len(findall(r"[^\W\d_][\w'-]*", data))


_NOT_READ = {"style", "svg", "table", "details", "title"}
