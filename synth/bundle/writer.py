"""Seal a bundle: everything a stranger needs to use, check and remake a synthetic table, in one zip."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from synth.bundle.archive import SIGNED_BY_HASH, canonical_json, sha256_of, write_zip
from synth.bundle.certificate import Certificate, certificate_to_bytes
from synth.bundle.linter import LeakWords, lint_members
from synth.bundle.measurements import Measurements, measurements_to_bytes
from synth.bundle.model_file import ModelCard, model_to_bytes
from synth.bundle.texts import written_texts
from synth.errors import PrivacyError
from synth.generators.protocol import State
from synth.privacy.answers import RowCount
from synth.privacy.questions import Answer
from synth.reports.document import report_document
from synth.reports.evidence import Publishable, publishable
from synth.schema import RunConfig, config_to_yaml, schema_to_document

__all__ = ["Contents", "SealedBundle", "Signer", "write_bundle"]


class Signer(Protocol):
    """The installation's Ed25519 key."""

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of the signature of a message."""
        ...

    @property
    def public_key_pem(self) -> bytes:
        """The public key in PEM form."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What goes into a bundle; all of it public once its receipts are paid.

    Attributes
    ----------
    config : RunConfig
        The run; its paths are left out.
    synthetic_csv, synthetic_parquet : Path
        The table as it was written.
    answers : sequence of Answer
        Every noisy answer of the run.
    rows : RowCount, optional
        What the session said about the number of private rows; needed to fit the answers again.
    state : mapping of name to array
        The fitted generator.
    evidence : sequence of Publishable
        The numbers of the report; owner-only numbers are refused.
    certificate : Certificate
        The certificate without hashes.
    """

    config: RunConfig
    synthetic_csv: Path
    synthetic_parquet: Path
    answers: Sequence[Answer]
    state: State
    evidence: Sequence[Publishable]
    certificate: Certificate
    rows: RowCount | None = None


@dataclass(frozen=True, slots=True)
class SealedBundle:
    """A written bundle: the certificate with its hashes, and the two files that also stand beside the zip."""

    path: Path
    certificate: Certificate
    certificate_json: bytes
    report_json: bytes


def write_bundle(
    path: Path, contents: Contents, *, signer: Signer, leak_words: LeakWords | None = None
) -> SealedBundle:
    """Write ``bundle.zip``; the same contents and key give the same bytes.

    Parameters
    ----------
    path : Path
        Where the zip goes; nothing is left there when a check refuses.
    contents : Contents
        What goes in.
    signer : Signer
        The key that signs the certificate.
    leak_words : LeakWords, optional
        Texts that must not appear: this machine's user and host, the name of the uploaded file.

    Raises
    ------
    TypeError
        If evidence of another kind than safe or charged is among the contents.
    PrivacyError
        If a receipt or an answer was made with test noise, or the leak linter finds something.
    """
    evidence = publishable(contents.evidence)
    _refuse_test_noise(contents)
    config = contents.config.published()
    report_json = canonical_json(report_document(evidence))
    members: dict[str, bytes | Path] = {
        "synthetic.csv": contents.synthetic_csv,
        "synthetic.parquet": contents.synthetic_parquet,
        "schema.json": canonical_json(schema_to_document(config.schema)),
        "config.yaml": config_to_yaml(config).encode("utf-8"),
        "measurements.npz": measurements_to_bytes(Measurements(tuple(contents.answers), contents.rows)),
        "model.safetensors": model_to_bytes(ModelCard.of(config), contents.state),
        "report.json": report_json,
        **written_texts(contents.certificate, config.schema, evidence),
    }
    certificate = replace(contents.certificate, files={name: _hash(members[name]) for name in SIGNED_BY_HASH})
    certificate_json = certificate_to_bytes(certificate)
    members["certificate.json"] = certificate_json
    members["certificate.json.sig"] = signer.sign(certificate_json)
    members["public-key.pem"] = signer.public_key_pem
    _refuse_leaks(members, config, leak_words)
    write_zip(path, members)
    return SealedBundle(path, certificate, certificate_json, report_json)


def _refuse_test_noise(contents: Contents) -> None:
    certified = [receipt.to_dict() for receipt in contents.certificate.receipts]
    for receipt in (receipt for answer in contents.answers for receipt in answer.receipts):
        if not receipt.private:
            raise PrivacyError(f"The answer to '{receipt.query}' was made with test noise: NOT PRIVATE.")
        if receipt.to_dict() not in certified:
            raise PrivacyError(f"The answer to '{receipt.query}' has no receipt in the certificate.")


def _refuse_leaks(members: Mapping[str, bytes | Path], config: RunConfig, leak_words: LeakWords | None) -> None:
    findings = lint_members(members, config.schema, leak_words or LeakWords.of_this_machine())
    if findings:
        raise PrivacyError(f"The bundle was not written: {findings[0]}")


def _hash(contents: bytes | Path) -> str:

    with io.BytesIO(contents) if isinstance(contents, bytes) else contents.open("rb") as stream:
        return sha256_of(stream)
