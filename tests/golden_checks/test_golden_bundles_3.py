"""What version 0.3.0 sealed still verifies, is made again byte for byte, and is written again byte for byte."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from synth.bundle.archive import parse_canonical
from synth.bundle.certificate import certificate_from_dict
from synth.bundle.linter import LeakWords
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.model_file import model_from_bytes
from synth.bundle.replay import replay
from synth.bundle.table_files import read_table
from synth.bundle.verify import verify
from synth.bundle.writer import Contents, write_bundle
from synth.generators import GENERATORS, GeneratorTask, restore
from synth.reports.document import published_evidence
from synth.schema import parse_config
from synth.schema.documents import read_mapping

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles-3"
GOLDEN = sorted(FOLDER.glob("*.zip"))

by_bundle = pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)


class _SignerOfBefore:
    """Gives the signature that the bundle came with; its key was thrown away."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self._signature = members["certificate.json.sig"]
        self.public_key_pem = members["public-key.pem"]

    def sign(self, _: bytes) -> bytes:
        return self._signature


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_there_is_a_bundle_for_every_generator() -> None:
    assert set(GENERATORS) <= {path.stem for path in GOLDEN}
    assert len(GOLDEN) == 18


@pytest.mark.parametrize("name", ["dp-hp-adaptive-predictions", "independent", "kahm-rows", "kahm-cell"])
def test_some_of_them_verify(name: str) -> None:
    """The others too: in ``tests/bundle/test_golden.py``, as every one takes a process of its own."""
    verdict = verify(FOLDER / f"{name}.zip", public_key=FOLDER / "public-key.pem")
    assert verdict.ok, verdict.json["failures"]


@by_bundle
def test_it_makes_the_certified_files(path: Path, tmp_path: Path) -> None:
    again = replay(path, tmp_path)
    assert again.identical, again.lines
    assert again.report_identical, again.lines
    files = parse_canonical(members_of(path)["certificate.json"], name="certificate.json")["files"]
    for name in ("synthetic.csv", "synthetic.parquet"):
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == files[name]


@by_bundle
def test_the_writer_writes_every_file_of_it_again(path: Path, tmp_path: Path) -> None:
    """All but the zip itself, whose bytes follow from the version of zlib."""
    members = members_of(path)
    card, state = model_from_bytes(members["model.safetensors"])
    known = measurements_from_bytes(members["measurements.npz"])
    config = replace(parse_config(read_mapping(members["config.yaml"].decode(), sealed=True)), schema=card.schema)
    for name in ("synthetic.csv", "synthetic.parquet"):
        (tmp_path / name).write_bytes(members[name])
    codes = read_table(tmp_path / "synthetic.csv", config.schema)
    task = GeneratorTask(schema=config.schema, label=config.label, seed=config.seed, device="cpu")
    fitted = restore(card.generator, task, card.options, state)
    fitted.sample(config.rows, config.seed)  # some facts are about how the rows were made
    facts = fitted.facts()
    receipts = [receipt for answer in known.answers for receipt in answer.receipts]
    contents = Contents(
        config=config,
        synthetic_csv=tmp_path / "synthetic.csv",
        synthetic_parquet=tmp_path / "synthetic.parquet",
        answers=known.answers,
        rows=known.rows,
        state=state,
        evidence=published_evidence(codes, known.sums, config, rows=known.rows, facts=facts, receipts=receipts),
        certificate=certificate_from_dict(parse_canonical(members["certificate.json"], name="certificate.json")),
    )
    signer = _SignerOfBefore(members)
    written = write_bundle(tmp_path / "again.zip", contents, signer=signer, leak_words=LeakWords(()))
    again = members_of(written.path)
    assert list(again) == list(members)
    assert [name for name in members if again[name] != members[name]] == []
