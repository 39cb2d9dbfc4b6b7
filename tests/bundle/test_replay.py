"""The table again, byte for byte, from the bundle alone; and other models on the same answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, config_of, members_of, run, seal
from choosing import few
from suited import suited

import synth
from synth.bundle.replay import replay
from synth.bundle.verify import Outcome
from synth.bundle.writer import write_bundle
from synth.cli import main
from synth.errors import InputError, PrivacyError, VerificationError
from synth.generators import GENERATORS, options_of
from synth.names import words_of
from synth.schema import NumberColumn, Schema
from synth.schema.contradictions import check_rules

SMALL = {
    "dp-merf": {"features": 50, "steps": 20},
    "dp-hp": {"order": 5, "order_product": 3, "epochs": 1, "steps_per_epoch": 5},
    "dp-hp-adaptive": {"cells": 20_000},
    "kernel-sos": {"features": 60, "support": 20, "steps": 10},
}


RULES = (
    "age >= 18",
    "if outcome = severe then age >= 40",
    "age is a multiple of 5 in 50 % of rows",
    "smoker is missing exactly when region = north",
    "if age < 30 and outcome in (none, mild) then region not in (west)",
    "region determines smoker",
)


def _is_about(schema: Schema, line: str) -> bool:
    """Whether a table has all columns of a rule."""
    return {"age", "outcome", "smoker", "region"} & set(words_of(line)) <= set(schema.names)


@pytest.mark.parametrize("name", few(sorted(GENERATORS), kept=("dp-hp-adaptive", "independent")))
def test_every_generator_keeps_every_rule_and_is_replayed_byte_for_byte(tmp_path: Path, key: Key, name: str) -> None:
    known = {field.name for field in options_of(name)}
    options = {option: value for option, value in SMALL.get(name, {}).items() if option in known}
    config = config_of(generator=name, options=options, label="outcome", rows=150)
    config = replace(config, schema=suited(name, config.schema, "outcome"))
    config = replace(config, constraints=tuple(line for line in RULES if _is_about(config.schema, line)))
    check_rules(config.constraints, config.schema)
    sealed = seal(config, tmp_path / "run", key)
    again = replay(sealed.path, tmp_path / "again")
    assert again.identical, again.lines
    assert again.report_identical, again.lines
    verdict = checked(sealed.path)
    assert verdict.ok, verdict.lines
    assert "rules between columns in every row" in verdict.json["checked"]
    for file in ("synthetic.csv", "synthetic.parquet", "report.json"):
        assert (tmp_path / "again" / file).read_bytes() == members_of(sealed.path)[file]
    refitted = replay(sealed.path, tmp_path / "refitted", refit=True)
    assert refitted.identical, refitted.lines
    assert refitted.as_certified, refitted.lines


def test_rules_are_repaired_again(tmp_path: Path, key: Key) -> None:
    columns = (NumberColumn("start", 0, 50, 1), NumberColumn("end", 0, 50, 1))
    sealed = seal(config_of(columns, constraints=("end >= start",)), tmp_path / "run", key)
    assert replay(sealed.path, tmp_path / "again").identical


def test_answers_are_fitted_again(bundle: Path, tmp_path: Path) -> None:
    again = replay(bundle, tmp_path, refit=True)
    assert again.identical, "the same counts give the same independent columns"
    assert again.report_identical
    assert again.lines[0] == "model.safetensors is what the noisy answers give, to the last bit."


@pytest.mark.parametrize("row_count", few(["public", "private"], kept=("private",)))
def test_private_choices_are_made_again(tmp_path: Path, key: Key, row_count: str) -> None:
    config = config_of(generator="dp-hp-adaptive", label="outcome", rows=150, row_count=row_count)
    sealed = seal(config, tmp_path / "run", key)
    asked = [receipt.mechanism for receipt in sealed.certificate.receipts]
    assert asked.count("exponential") > 2
    assert replay(sealed.path, tmp_path / "again", refit=True).identical


def test_another_generator_needs_its_own_answers(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="was never asked"):
        replay(bundle, tmp_path, generator="dp-merf")


def test_a_different_table_says_how_far_it_is(tmp_path: Path, key: Key) -> None:
    sealed = seal(config_of(label="outcome", generator="independent-by-class"), tmp_path / "run", key)

    def other_seed(data: bytes) -> bytes:
        return data.replace(b"seed: 5", b"seed: 6")

    forged = altered(sealed.path, tmp_path / "forged.zip", files={"config.yaml": other_seed}, sign_with=key)
    again = replay(forged, tmp_path / "again")
    assert not again.identical
    assert not again.report_identical
    assert again.distance is not None
    assert 0 < again.distance < 0.3
    table, report = again.differing
    assert table.startswith("synthetic.csv, made again, is not the certified one. The total variation distance")
    assert report == "report.json, made again, is not the certified one."
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [
        "report.json",
        "synthetic.csv",
        "synthetic.parquet",
    ]


def test_a_broken_bundle_is_named(tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").write_bytes(b"nothing")
    with pytest.raises(VerificationError, match=r"must be a bundle|cannot be read as a zip"):
        replay(tmp_path / "bundle.zip", tmp_path / "out")


def test_the_command_says_by_its_exit_code_whether_all_is_as_certified(
    bundle: Path, tmp_path: Path, key: Key, capsys: pytest.CaptureFixture[str]
) -> None:
    def replayed(path: Path, *options: str) -> int:
        return main(["replay", str(path), "--out", str(tmp_path / "out"), "--force", *options])

    assert replayed(bundle) == 0
    other_seed = {"config.yaml": lambda data: data.replace(b"seed: 5", b"seed: 6")}
    other_table = altered(bundle, tmp_path / "table.zip", files=other_seed, sign_with=key)
    assert replayed(other_table) == 1
    assert "synthetic.csv, made again, is not the certified one" in capsys.readouterr().out
    other_report = altered(bundle, tmp_path / "report.zip", files={"report.json": more_rows}, sign_with=key)
    assert replayed(other_report) == 1
    assert "report.json, made again, is not the certified one" in capsys.readouterr().out
    elsewhere = altered(other_report, tmp_path / "elsewhere.zip", certificate=of_another_program, sign_with=key)
    assert replayed(elsewhere) == 6
    assert "the certificate states source 00000000000000000000000000000000 (here " in capsys.readouterr().out
    # Anything may come of answers that are fitted again: that is asked for.
    labelled = seal(config_of(label="outcome", generator="independent-by-class"), tmp_path / "labelled", key).path
    assert replayed(labelled, "--generator", "independent") == 0
    assert replayed(bundle, "--refit") == 0
    assert replayed(tmp_path / "absent.zip") == 2


def of_another_program(document: dict[str, Any]) -> None:
    document["versions"]["source"] = "0" * 32


def other_words(data: bytes) -> bytes:
    assert b"The owner chose this number" in data
    return data.replace(b"The owner chose this number", b"The true number of rows")


def more_rows(data: bytes) -> bytes:
    return data.replace(b'"value": 700', b'"value": 701')


def last_bit(data: bytes) -> bytes:
    first = re.search(rb"0\.[0-9]{15,}", data)
    assert first is not None
    return data.replace(first[0], repr(float(np.nextafter(float(first[0]), 1.0))).encode(), 1)


@pytest.mark.parametrize("change", [other_words, more_rows, last_bit])
def test_a_report_is_compared_byte_for_byte(
    bundle: Path, tmp_path: Path, key: Key, change: Callable[[bytes], bytes]
) -> None:
    """A sentence that was changed is as bad as a number; elsewhere, neither proves anything."""
    path = altered(bundle, tmp_path / "forged.zip", files={"report.json": change}, sign_with=key)
    assert members_of(path)["report.json"] != members_of(bundle)["report.json"]
    again = replay(path, tmp_path / "again")
    assert not again.report_identical
    assert again.outcome is Outcome.FAILS
    assert (tmp_path / "again" / "report.json").read_bytes() == members_of(bundle)["report.json"]
    path = altered(path, path, certificate=of_another_program, sign_with=key)
    again = replay(path, tmp_path / "again")
    assert not again.report_identical
    assert again.outcome is Outcome.UNKNOWN
    assert again.lines[-1].startswith("This computer is not like the one that made the bundle: the certificate states")


def test_a_row_that_breaks_a_rule_is_found_though_everything_else_agrees(tmp_path: Path, key: Key) -> None:
    """A bundle that says of itself that its rows keep a rule, and whose rows, hashes and signature fit together."""
    columns = (NumberColumn("start", 0, 50, 1), NumberColumn("end", 0, 50, 1))
    config = config_of(columns)
    contents, _ = run(config, tmp_path / "run")
    ruled = replace(contents, config=replace(config, constraints=("end >= start",)))
    sealed = write_bundle(tmp_path / "bundle.zip", ruled, signer=key)
    verdict = checked(sealed.path, key.public_key_pem)
    (failure,) = [line for line in verdict.json["failures"] if "config.yaml" in line]
    assert "breaks 'end >= start'" in failure


def test_a_replay_is_of_the_signer_that_is_expected(
    bundle: Path, key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owners, others, junk = (tmp_path / f"{name}.pem" for name in ("owner", "other", "junk"))
    owners.write_bytes(key.public_key_pem)
    others.write_bytes(Key().public_key_pem)
    junk.write_text("no key")
    for given, code, words in (
        (owners, 0, "The certificate was signed with the key that you gave."),
        (others, VerificationError.exit_code, "was not signed with the key that you gave"),
        (junk, InputError.exit_code, "The public key that you gave is not an Ed25519 key in PEM format."),
        (tmp_path / "none.pem", InputError.exit_code, "The public key 'none.pem' cannot be read"),
    ):
        out = tmp_path / f"with {given.stem}"
        assert main(["replay", str(bundle), "--out", str(out), "--public-key", str(given)]) == code
        said = capsys.readouterr()
        assert words in said.out + said.err
        assert (out / "synthetic.csv").exists() == (code == 0)
    assert synth.replay(bundle, tmp_path / "python", owners).as_certified
