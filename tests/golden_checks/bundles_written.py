"""The files of a golden bundle, written again by the program of today from the answers and the model that it holds."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from synth.bundle.archive import parse_canonical
from synth.bundle.certificate import certificate_from_dict
from synth.bundle.linter import LeakWords
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.model_file import model_from_bytes
from synth.bundle.table_files import read_table, read_units
from synth.bundle.writer import Contents, write_bundle
from synth.estimators import DrawnRows, drawn_rows, restore, rows_as_asked
from synth.generators import GeneratorTask
from synth.reports.document import published_evidence
from synth.schema import parse_config
from synth.schema.documents import read_mapping

__all__ = ["PAGE", "WORDED", "digests", "members_of", "of_ten_digits", "written_again"]

PAGE = "report.html"
"""The report as a page."""

WORDED = ("README.txt", PAGE, "report.json")
"""Files whose words may change from one version of the program to the next."""


class _SignerOfBefore:
    """Gives the signature that the bundle came with; its key was thrown away."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self._signature = members["certificate.json.sig"]
        self.public_key_pem = members["public-key.pem"]

    def sign(self, _: bytes) -> bytes:
        return self._signature


def members_of(path: Path) -> dict[str, bytes]:
    """Return the files of a bundle."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def digests(members: dict[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of what is worded."""
    return {name: hashlib.sha256(members[name]).hexdigest() for name in WORDED}


def of_ten_digits(document: Any) -> Any:
    """Return a document whose floats have ten digits."""
    if isinstance(document, dict):
        return {key: of_ten_digits(one) for key, one in document.items()}
    if isinstance(document, list):
        return list(map(of_ten_digits, document))
    return float(f"{document:.10g}") if isinstance(document, float) else document


def written_again(path: Path, folder: Path) -> dict[str, bytes]:
    """Write every file of a bundle again; ``folder`` is for files on the way."""
    members = members_of(path)
    card, state = model_from_bytes(members["model.safetensors"])
    known = measurements_from_bytes(members["measurements.npz"])
    config = replace(parse_config(read_mapping(members["config.yaml"].decode(), sealed=True)), schema=card.schema)
    for name in ("synthetic.csv", "synthetic.parquet"):
        (folder / name).write_bytes(members[name])
    codes = read_table(folder / "synthetic.csv", config.schema)
    units = read_units(folder / "synthetic.csv", config.schema)
    task = GeneratorTask.of(config, device="cpu")
    fitted = restore(card.generator, task, card.options, state)
    drawn = drawn_rows(fitted, config)  # some facts are about how the rows were made
    facts, pictures = (*fitted.facts(), *drawn.facts), fitted.pictures()
    receipts = [receipt for answer in known.answers for receipt in answer.receipts]
    contents = Contents(
        config=config,
        synthetic_csv=folder / "synthetic.csv",
        synthetic_parquet=folder / "synthetic.parquet",
        answers=known.answers,
        rows=known.rows,
        state=state,
        evidence=published_evidence(
            rows_as_asked(DrawnRows(codes, units=units), config),
            known.sums,
            config.asked,
            rows=known.rows,
            facts=facts,
            pictures=pictures,
            receipts=receipts,
        ),
        certificate=certificate_from_dict(parse_canonical(members["certificate.json"], name="certificate.json")),
    )
    signer = _SignerOfBefore(members)
    return members_of(write_bundle(folder / "again.zip", contents, signer=signer, leak_words=LeakWords(())).path)
