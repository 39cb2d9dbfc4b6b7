"""What goes into a bundle, what is refused, and that the same contents are the same bytes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from bundle_making import Key, checked, config_of, members_of, run, seal
from recorded_noise import RecordedNoise

from synth.bundle.archive import MEMBERS
from synth.bundle.certificate import (
    CERTIFICATE_KEYS,
    certificate_from_dict,
    certificate_to_bytes,
    certify,
    promise,
)
from synth.bundle.linter import LeakWords
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.table_files import write_table
from synth.bundle.verify import CANNOT_SHOW
from synth.bundle.writer import write_bundle
from synth.errors import PrivacyError, VerificationError
from synth.reports.evidence import OwnerOnlyEvidence, Publishable, SafeEvidence
from synth.reports.figures import Bars, Series
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit


def test_a_bundle_holds_exactly_the_documented_files(bundle: Path) -> None:
    members = members_of(bundle)
    assert tuple(members) == MEMBERS
    document = json.loads(members["certificate.json"])
    assert set(document) == CERTIFICATE_KEYS
    assert {"evidence", "marginals"} == set(json.loads(members["report.json"]))
    config = yaml.safe_load(members["config.yaml"])
    assert "table" not in config
    assert "test_table" not in config
    assert b"elsewhere" not in b"".join(members.values())
    with zipfile.ZipFile(bundle) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_same_contents_are_the_same_bytes(tmp_path: Path, key: Key) -> None:
    contents, _ = run(config_of(), tmp_path)
    first = write_bundle(tmp_path / "first.zip", contents, signer=key).path.read_bytes()
    assert write_bundle(tmp_path / "second.zip", contents, signer=key).path.read_bytes() == first


def test_measurements_come_back_as_they_were_and_without_pickle(tmp_path: Path, key: Key) -> None:
    contents, session = run(config_of(), tmp_path)
    sealed = write_bundle(tmp_path / "bundle.zip", contents, signer=key)
    data = members_of(sealed.path)["measurements.npz"]
    found = measurements_from_bytes(data)
    assert found.rows == session.rows
    for mine, saved in zip(session.sums, found.sums, strict=True):
        assert saved.receipt == mine.receipt
        assert np.array_equal(saved.value, mine.value)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        names = set(arrays)
        assert all(arrays[name].dtype.kind in "iuf" for name in names)
    # The answers, the tables of the questions and the index; no draw.
    assert {name.split("_")[0] for name in names} <= {"answer", "table", "index"}
    assert sum(name.startswith("answer") for name in names) == len(session.sums)


def test_test_noise_never_enters_a_bundle(tmp_path: Path, key: Key) -> None:
    with pytest.raises(PrivacyError, match="test noise"):
        run(config_of(), tmp_path, noise=RecordedNoise())
    contents, _ = run(config_of(), tmp_path)
    fake = replace(contents.answers[0], receipt=replace(contents.answers[0].receipt, private=False))
    with pytest.raises(PrivacyError, match="NOT PRIVATE"):
        write_bundle(tmp_path / "bundle.zip", replace(contents, answers=[fake]), signer=key)
    assert not (tmp_path / "bundle.zip").exists()


def test_an_answer_without_a_receipt_is_refused(tmp_path: Path, key: Key) -> None:
    contents, _ = run(config_of(row_count="private"), tmp_path)
    assert len(contents.certificate.receipts) > 1
    certificate = replace(contents.certificate, receipts=contents.certificate.receipts[:1])
    with pytest.raises(PrivacyError, match="no receipt in the certificate"):
        write_bundle(tmp_path / "bundle.zip", replace(contents, certificate=certificate), signer=key)


def test_a_page_with_a_zero_that_has_a_sign_follows_from_the_report(tmp_path: Path, key: Key) -> None:
    contents, _ = run(config_of(), tmp_path)
    bars = Bars("Parts", "", ("a", "b"), (Series("parts", "measured", (-0.0, 1.0)),))
    zero = SafeEvidence(id="zero", title="Zero", value=1, figures=(bars,))
    sealed = write_bundle(tmp_path / "bundle.zip", replace(contents, evidence=[*contents.evidence, zero]), signer=key)
    assert not [line for line in checked(sealed.path).lines if "report.html does not follow" in line]


def test_owner_only_numbers_cannot_be_written(tmp_path: Path, key: Key) -> None:
    contents, _ = run(config_of(), tmp_path)
    exact = OwnerOnlyEvidence(id="exact", title="Exact", value=0.5)
    evidence: Sequence[Publishable] = [*contents.evidence, exact]  # type: ignore[list-item]
    with pytest.raises(TypeError, match="OwnerOnlyEvidence"):
        write_bundle(tmp_path / "bundle.zip", replace(contents, evidence=evidence), signer=key)
    assert list(tmp_path.glob("bundle.zip*")) == []


@pytest.mark.slow
def test_the_type_checker_refuses_owner_only_numbers(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from synth.reports.document import report_document\n"
        "from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence\n"
        "report_document([SafeEvidence(id='a', title='a', value=1)])\n"
        "report_document([OwnerOnlyEvidence(id='a', title='a', value=1)])\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", str(snippet)],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert "OwnerOnlyEvidence" in done.stdout, done.stdout + done.stderr
    assert "snippet.py:4" in done.stdout
    assert "snippet.py:3" not in done.stdout


def test_the_report_page_needs_no_network(bundle: Path) -> None:
    page = members_of(bundle)["report.html"].decode()
    for word in ("http:", "https:", "src=", "href=", "url(", "@import", "<script"):
        assert word not in page
    assert "<svg" in page
    assert "The promise" in page
    assert "NOT covered by the guarantee" in page
    # Whoever reads on a dark screen still prints dark letters on paper.
    assert "@media print{:root{color-scheme:light;--ink:#1F2933;" in page


def test_names_are_escaped_in_the_page(tmp_path: Path, key: Key) -> None:
    columns = (CategoryColumn("<b>bold</b>", ("<script>alert(1)</script>", "b")), NumberColumn("x & y", 0, 9, 1))
    page = members_of(seal(config_of(columns), tmp_path, key).path)["report.html"].decode()
    assert "<script" not in page
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold" in page


def test_readme_and_citation_say_what_it_is(bundle: Path) -> None:
    members = members_of(bundle)
    text = members["README.txt"].decode()
    assert "epsilon" in text
    assert "NOT covered by the guarantee: the domain of age" in text
    assert "- what the ranges and categories of age tell about anyone: the owner took them from the rows" in text
    for sentence in CANNOT_SHOW:
        assert sentence in text
    assert [name for name in members if name not in text] == ["README.txt", "CITATION.cff"]
    assert "found.json" not in text
    for quoted in re.findall(r"see '([A-Z][^']+)' in report.html", text):
        assert quoted in members["report.html"].decode()
    citation = yaml.safe_load(members["CITATION.cff"])
    assert citation["title"] == "Synthetic table of survey people"


def test_certificates_come_back_and_refuse_what_they_are_not(bundle: Path) -> None:
    document = json.loads(members_of(bundle)["certificate.json"])
    certificate = certificate_from_dict(document)
    assert json.loads(certificate_to_bytes(certificate)) == document
    for broken in ([], {}, document | {"version": 3}, document | {"rows": -1}, document | {"receipts": "none"}):
        with pytest.raises(VerificationError):
            certificate_from_dict(broken)
    with pytest.raises(PrivacyError, match="at least one receipt"):
        replace(certificate, receipts=())


@pytest.mark.parametrize(("epsilon", "words"), [(2.0, "a factor of 7.39,"), (800.5, "a factor of e^801,")])
def test_a_promise_names_its_odds_however_large_they_are(bundle: Path, epsilon: float, words: str) -> None:
    certificate = certificate_from_dict(json.loads(members_of(bundle)["certificate.json"]))
    assert any(words in line for line in promise(replace(certificate, epsilon=epsilon)))


def test_a_promise_names_the_unit_and_what_is_not_covered(tmp_path: Path) -> None:
    contents, session = run(config_of(unit=PrivacyUnit("household", 4, "person"), row_count="private"), tmp_path)
    lines = promise(contents.certificate)
    assert lines[0].startswith("NOT covered by the guarantee: the domain of age")
    assert "adding or removing one household with up to 4 rows" in lines[1]
    with pytest.raises(PrivacyError, match="a different neighbouring relation"):
        certify(
            session.receipts,
            delta=1e-6,
            neighbours=config_of().schema.neighbours,
            unit=PrivacyUnit(),
            account="a",
            generator="independent",
            options={},
            rows=1,
            seed=0,
        )


EDGES = {
    "one row": config_of(rows=1),
    "one column": config_of((CategoryColumn("only", ("a", "b"), missing=True),)),
    "one category": config_of((CategoryColumn("constant", ("a",)), NumberColumn("x", 0, 1, 1))),
    "one cell": config_of((CategoryColumn("constant", ("a",)),), rows=3),
    "sixty classes": config_of(
        (CategoryColumn("label", tuple(map(str, range(60)))), NumberColumn("x", -5, 5, 0.25)),
        label="label",
        generator="independent-by-class",
    ),
    "two hundred columns": config_of(tuple(NumberColumn(f"c{place}", 0, 3, 1) for place in range(200)), rows=50),
    "nearly unique numbers": config_of((NumberColumn("income", 0, 1e5, 0.1), NumberColumn("x", 0, 1, 1))),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", EDGES)
def test_edge_tables_are_sealed_and_checked(tmp_path: Path, key: Key, name: str) -> None:
    sealed = seal(EDGES[name], tmp_path, key)
    verdict = checked(sealed.path, public_key=key.public_key_pem)
    assert verdict.ok, verdict.lines


def test_a_table_where_everything_is_missing(tmp_path: Path, key: Key) -> None:
    config = config_of()
    contents, _ = run(config, tmp_path)
    schema = config.schema
    codes = [0 if column.missing_code is None else column.missing_code for column in schema.modelled]
    write_table(
        np.tile(codes, (config.rows, 1)), schema, contents.synthetic_csv, contents.synthetic_parquet, config.seed
    )
    sealed = write_bundle(tmp_path / "bundle.zip", contents, signer=key)
    assert checked(sealed.path, quick=True).ok
    failures = checked(sealed.path).json["failures"]
    assert any(one.startswith("synthetic.csv does not follow") for one in failures), "no model draws such a table"


def test_nothing_is_left_behind_when_a_check_refuses(tmp_path: Path, key: Key) -> None:
    contents, _ = run(config_of(), tmp_path)
    evidence = [*contents.evidence, SafeEvidence(id="x", title="see /home/someone/table.csv", value=1)]
    with pytest.raises(PrivacyError, match=r"report\.json contains a path"):
        write_bundle(
            tmp_path / "bundle.zip", replace(contents, evidence=evidence), signer=key, leak_words=LeakWords(())
        )
    assert list(tmp_path.glob("bundle.zip*")) == []
