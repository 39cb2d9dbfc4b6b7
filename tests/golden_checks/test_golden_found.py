"""A bundle whose configuration was filled privately verifies, and its table comes again byte for byte."""

from __future__ import annotations

from pathlib import Path

from bundles_written import members_of

from synth.bundle.archive import MEMBERS, MEMBERS_OF_FINDING
from synth.bundle.finding import Finding
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.schema import config_to_yaml, parse_config
from synth.schema.documents import read_mapping

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles-6-found"
BUNDLE = FOLDER / "town.zip"


def test_it_verifies_with_what_was_found() -> None:
    verdict = verify(BUNDLE, public_key=FOLDER / "public-key.pem")
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["not_checked"] == []
    assert "what was found privately" in verdict.json["checked"]
    assert tuple(members_of(BUNDLE)) == (*MEMBERS, *MEMBERS_OF_FINDING)
    assert any(line.startswith("Within that epsilon: 1 at delta = 1e-07") for line in verdict.lines)


def test_its_configuration_is_written_as_it_was() -> None:
    written = members_of(BUNDLE)["config.yaml"]
    config = parse_config(read_mapping(written.decode(), sealed=True))
    assert config_to_yaml(config).encode() == written


def test_its_columns_follow_from_its_answers_byte_for_byte() -> None:
    members = members_of(BUNDLE)
    finding = Finding.of_files(members)
    assert finding.files == {name: members[name] for name in MEMBERS_OF_FINDING}
    assert {found.name: found.kind for found in finding.columns} == {
        "age": "integer",
        "town": "text",
        "seen": "date",
        "remark": "text",
    }


def test_its_table_and_its_report_are_made_again(tmp_path: Path) -> None:
    again = replay(BUNDLE, tmp_path)
    assert again.as_certified, again.lines
