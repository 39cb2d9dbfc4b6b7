"""Each kind of leak is planted in each kind of file and found; what is declared public is no leak."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path

import pytest
from bundle_making import config_of, members_of
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from synth.bundle.archive import MEMBERS, canonical_json
from synth.bundle.linter import LeakWords, lint_members
from synth.schema import CategoryColumn, NumberColumn, Schema

WORDS = LeakWords(("ada.lovelace", "build-host-7", "patients 2024.csv"))
TEXTS = [name for name in MEMBERS if name.endswith((".txt", ".cff", ".json", ".yaml", ".html"))]


@pytest.fixture
def members(bundle: Path) -> dict[str, bytes | Path]:
    return dict(members_of(bundle))


@pytest.fixture
def schema() -> Schema:
    return config_of().schema


def test_an_honest_bundle_has_no_leak(members: dict[str, bytes | Path], schema: Schema) -> None:
    assert lint_members(members, schema, WORDS) == []
    assert lint_members(members, schema, LeakWords.of_this_machine(file_names=["/somewhere/private.csv"])) == []


@pytest.mark.parametrize("name", ["hermitage", "Synth", "hermitage.example.org"])
def test_a_machine_and_a_user_called_like_the_program_make_bundles(
    members: dict[str, bytes | Path], schema: Schema, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container or its user is often called."""
    assert lint_members(members, schema, LeakWords((name.split(".")[0],)))
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    monkeypatch.setattr(getpass, "getuser", lambda: name.split(".")[0])
    assert lint_members(members, schema, LeakWords.of_this_machine()) == []


@pytest.mark.four_cases
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "leak",
    [
        "/home/ada/tables/patients.csv",
        "/tmp/x1/upload.bin",
        "C:\\Users\\Ada\\patients.csv",
        "file:///srv/data.parquet",
        "ada.lovelace",
        "BUILD-HOST-7",
        "patients 2024.csv",
    ],
)
def test_a_planted_text_is_found_in_every_text_file(
    members: dict[str, bytes | Path], schema: Schema, name: str, leak: str
) -> None:
    original = members[name]
    assert isinstance(original, bytes)
    if name.endswith(".json"):
        members[name] = canonical_json(json.loads(original) | {"note": f"made from {leak} today"})
    else:
        members[name] = original + f"\nmade from {leak} today\n".encode()
    findings = lint_members(members, schema, WORDS)
    assert [text for text in findings if text.startswith(f"{name} contains")]
    assert leak not in " ".join(findings), "a finding does not repeat the leak"


def test_names_inside_the_model_are_found(members: dict[str, bytes | Path], schema: Schema) -> None:
    model = members["model.safetensors"]
    assert isinstance(model, bytes)
    members["model.safetensors"] = save_safetensors(load_safetensors(model), {"author": "ada.lovelace"})
    findings = " ".join(lint_members(members, schema, WORDS))
    assert "model.safetensors contains the name of this machine" in findings


def test_an_undeclared_cell_is_found(members: dict[str, bytes | Path], schema: Schema) -> None:
    text = members["synthetic.csv"]
    assert isinstance(text, bytes)
    members["synthetic.csv"] = text.replace(b"north", b"Ada Lovelace", 1)
    assert lint_members(members, schema, WORDS) == [
        "synthetic.csv: 1 cells of 'region' are outside its declared domain."
    ]
    members["synthetic.csv"] = text.replace(b"syn-", b"NHS-", 1)
    assert "of 'person' are outside" in lint_members(members, schema, WORDS)[0]


def test_a_formula_is_found(members: dict[str, bytes | Path], schema: Schema) -> None:
    text = members["synthetic.csv"]
    assert isinstance(text, bytes)
    assert b"'-no" in text
    members["synthetic.csv"] = text.replace(b"'-no", b"-no", 1)
    assert "of 'smoker' are outside" in lint_members(members, schema, WORDS)[0]


@pytest.mark.parametrize("kind", ["owner_only", "secret", None])
def test_an_owner_only_number_is_found(members: dict[str, bytes | Path], schema: Schema, kind: str | None) -> None:
    report = json.loads(members["report.json"])  # type: ignore[arg-type]
    report["evidence"][0]["kind"] = kind
    members["report.json"] = canonical_json(report)
    assert "report.json contains an owner-only number." in lint_members(members, schema, WORDS)


def test_an_owner_only_badge_in_the_page_is_found(members: dict[str, bytes | Path], schema: Schema) -> None:
    page = members["report.html"]
    assert isinstance(page, bytes)
    members["report.html"] = page.replace(b"safe to publish", b"owner only", 1)
    assert "report.html contains an owner-only number." in lint_members(members, schema, WORDS)


@pytest.mark.parametrize(
    "section", ["<![said[x]]>", "<![CDATA[x]]>", "<![if x]>", "<!-- x -->", "<!ELEMENT x>", "<?x>"]
)
def test_what_no_browser_shows_is_found_in_the_page(
    members: dict[str, bytes | Path], schema: Schema, section: str
) -> None:
    page = members["report.html"]
    assert isinstance(page, bytes)
    members["report.html"] = page.replace(b"<main", section.encode() + b"<main", 1)
    assert members["report.html"] != page
    (finding,) = lint_members(members, schema, WORDS)
    assert finding.startswith("report.html contains a ")


def test_a_count_of_private_rows_is_found(members: dict[str, bytes | Path], schema: Schema) -> None:
    certificate = json.loads(members["certificate.json"])  # type: ignore[arg-type]
    certificate["unit"]["private_rows"] = 31_442
    members["certificate.json"] = canonical_json(certificate)
    assert "certificate.json contains a count of private rows." in lint_members(members, schema, WORDS)


def test_an_unknown_file_is_found_and_not_named(members: dict[str, bytes | Path], schema: Schema) -> None:
    members["ada.lovelace.log"] = b"x"
    findings = lint_members(members, schema, WORDS)
    assert any("does not belong in a bundle" in text for text in findings)
    assert "ada" not in " ".join(findings)


def test_declared_words_are_public() -> None:
    schema = Schema((CategoryColumn("host", ("build-host-7", "other")), NumberColumn("x", 0, 1, 1)))
    report: dict[str, bytes | Path] = {"README.txt": b"Counts of build-host-7."}
    assert lint_members(report, schema, LeakWords(("build-host-7",))) == []
    other = Schema((NumberColumn("x", 0, 1, 1),))
    assert lint_members(report, other, LeakWords(("build-host-7",))) != []
    assert lint_members(report, other, LeakWords(("build-host-7",), ("build-host-7",))) == []


def test_a_name_inside_a_longer_word_is_none() -> None:
    schema = Schema((NumberColumn("x", 0, 1, 1),))
    report: dict[str, bytes | Path] = {"README.txt": b"An adaptive method with and/or more; see 3/4."}
    assert lint_members(report, schema, LeakWords(("ada",))) == []
