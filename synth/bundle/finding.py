"""A finding as two files, and what must hold between them and the release that uses it.

``found.json`` says what was asked, with its receipts and the resulting columns; ``found.npz`` holds the noisy answers,
as ``measurements.npz`` does. The columns follow from the answers by a public rule, which a check applies again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from synth.bundle.answers import ENTRIES
from synth.bundle.archive import Archive, canonical_json, parse_canonical
from synth.bundle.certificate import Certificate, FoundReceipts
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes, pairing_problems
from synth.errors import PrivacyError, UnknownFormatError, VerificationError
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.more.found_columns import FoundColumn, columns_found
from synth.privacy.more.together import reference_of
from synth.privacy.questions import Answer
from synth.privacy.receipt import Receipt, misstated
from synth.schema import (
    FOUND_THEN_EDITED,
    FoundReference,
    ModelledColumn,
    RunConfig,
    Schema,
    is_found,
    schema_from_document,
    schema_to_document,
)
from synth.version import __version__

__all__ = ["Finding", "bears_finding", "finding_problems", "receipt_problems"]

_VERSION = 2
"""Version of the format of ``found.json``; programs before 0.9.0 wrote 1."""

_KEYS = {"version", "account", "epsilon", "delta", "schema", "receipts", "answers", "columns"}
_RELATIVE = 1e-8


@dataclass(frozen=True, eq=False)
class Finding:
    """What was found privately. All of it is public, since it was charged.

    Attributes
    ----------
    account : str
        The account that was charged.
    schema : Schema
        What was asked: the unit, the neighbouring relation, and the open columns.
    epsilon, delta : float
        The budget asked for; the receipts stay within it.
    receipts : tuple of Receipt
    answers : tuple of Answer
        The noisy answers, each with its receipts.
    """

    account: str
    schema: Schema
    epsilon: float
    delta: float
    receipts: tuple[Receipt, ...]
    answers: tuple[Answer, ...]

    @cached_property
    def columns(self) -> tuple[FoundColumn, ...]:
        """What the answers say about each open column, by the public rule."""
        return columns_found(self.schema, self.answers)

    @cached_property
    def mappings(self) -> dict[str, dict[str, Any]]:
        """The declaration found for each open column, as in a configuration."""
        return {found.name: found.column.to_mapping() for found in self.columns}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The two files, by name; the same finding gives the same bytes."""
        answers = measurements_to_bytes(Measurements(self.answers))
        document = {
            "version": _VERSION,
            "account": self.account,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "schema": schema_to_document(self.schema),
            "receipts": [receipt.to_dict() for receipt in self.receipts],
            "answers": hashlib.sha256(answers).hexdigest(),
            "columns": self.mappings,
        }
        return {"found.json": canonical_json(document), "found.npz": answers}

    @property
    def digest(self) -> str:
        """SHA-256 of ``found.json``, which contains the hash of ``found.npz``."""
        return hashlib.sha256(self.files["found.json"]).hexdigest()

    @property
    def certified(self) -> FoundReceipts:
        """What certificates state about it."""
        return FoundReceipts(self.digest, self.epsilon, self.delta, self.receipts)

    @property
    def reference(self) -> FoundReference:
        """How a configuration refers to it."""
        return reference_of(self.digest, self.epsilon, self.delta, self.receipts)

    def sources(self, schema: Schema) -> dict[str, str]:
        """Return the source of the domain of each modelled column that was open in this finding."""
        return {
            column.name: self.reference.source
            if column.to_mapping() == self.mappings[column.name]
            else FOUND_THEN_EDITED
            for column in schema.modelled
            if column.name in self.mappings
        }

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Finding:
        """Read the two files back.

        Raises
        ------
        VerificationError
            If they are not the two files of one finding.
        """
        document = parse_canonical(files["found.json"], name="found.json")
        if not isinstance(document, dict) or set(document) != _KEYS:
            raise VerificationError("found.json has missing or unknown keys.")
        if document["version"] != _VERSION:
            raise UnknownFormatError(
                f"The finding was made by another version of this program; this is version {__version__}, which cannot "
                "read it. Use the version that made it."
            )
        if hashlib.sha256(files["found.npz"]).hexdigest() != document["answers"]:
            raise VerificationError("found.npz is not the file that found.json refers to: its hash differs.")
        account, epsilon, delta = document["account"], document["epsilon"], document["delta"]
        if not (isinstance(account, str) and isinstance(epsilon, float) and isinstance(delta, float) and delta < 1):
            raise VerificationError("A value in found.json has the wrong type.")
        try:
            receipts = tuple(Receipt.from_dict(receipt) for receipt in document["receipts"])
        except (PrivacyError, TypeError, ValueError, AttributeError):
            raise VerificationError("found.json contains a receipt that cannot be read.") from None
        answers = measurements_from_bytes(files["found.npz"], name="found.npz").answers
        return cls(account, schema_from_document(document["schema"]), epsilon, delta, receipts, answers)


def bears_finding(archive: Archive, certificate: Certificate, config: RunConfig) -> bool:
    """Whether any part of a bundle contains a finding or mentions one."""
    sources = (*certificate.domain_source.values(), *config.domain_source.values())
    held = "found.json" in archive.members or certificate.found is not None or config.found is not None
    return held or any(map(is_found, sources))


def finding_problems(archive: Archive, certificate: Certificate, config: RunConfig) -> Iterator[str]:
    """Yield contradictions between a release and the finding it uses.

    Parameters
    ----------
    archive : Archive
        The bundle.
    certificate : Certificate
    config : RunConfig
        What config.yaml holds.
    """
    certified, reference = certificate.found, config.found
    inside = [name in archive.members for name in ("found.json", "found.npz")]
    if certified is None or reference is None or not all(inside):
        if certified is not None or reference is not None or any(inside):
            yield (
                "The bundle does not hold all of a finding: found.json, found.npz, the receipts in certificate.json "
                "and 'found' in config.yaml belong together."
            )
        for name, source in certificate.domain_source.items():
            if is_found(source):
                yield f"The domain of '{name}' is marked as found privately, but the bundle has no finding."
        return
    data = archive.read("found.json")
    digest = hashlib.sha256(data).hexdigest()
    if not digest == certified.digest == reference.digest:
        yield "found.json is not the finding that the certificate and config.yaml refer to."
    finding = Finding.of_files({"found.json": data, "found.npz": archive.read("found.npz")})
    yield from _paid_problems(finding, certificate, reference)
    yield from pairing_problems(finding.answers, finding.receipts, name="found.npz", stated="found.json")
    for answer in finding.answers:
        yield from ENTRIES[type(answer)].problems(answer, finding.schema)
    if parse_canonical(data, name="found.json")["columns"] != finding.mappings:
        yield "The columns in found.json do not follow from its noisy answers by the public rule."
    elif data != finding.files["found.json"]:
        yield "found.json is not written as it was sealed, or contains more than a finding."
    yield from _source_problems(finding, certificate, config)


def _paid_problems(finding: Finding, certificate: Certificate, reference: FoundReference) -> Iterator[str]:
    """Yield a problem if the receipts, or their cost, are not those that the certificate states."""
    certified = certificate.found
    if certified is None or finding.receipts != certified.receipts:
        yield "found.json and the certificate have different receipts."
    stated = (finding.epsilon, finding.delta)
    if certified is None or stated != (certified.epsilon, certified.delta):
        yield "The certificate and found.json state different epsilons or deltas of the finding."
    if finding.account != certificate.account:
        yield "The finding was charged to a different account."
    if (finding.schema.unit, finding.schema.neighbours) != (certificate.unit, certificate.neighbours):
        yield "found.json and the certificate protect different units or hide different changes."
    yield from receipt_problems(finding.receipts, certificate)
    spent = epsilon_of_receipts(finding.receipts, finding.delta)
    if not spent <= finding.epsilon * (1 + _RELATIVE):
        yield f"The receipts of the finding compose to epsilon = {spent:.9g}; {finding.epsilon:.9g} was asked for."
    if reference != finding.reference:
        yield "The costs of the finding in config.yaml are not those of its receipts."


def receipt_problems(receipts: Iterable[Receipt], certificate: Certificate) -> Iterator[str]:
    """Yield a problem if receipts of a session are missing, or do not support the promise of the certificate."""
    paid, unit = tuple(receipts), certificate.unit
    if [receipt.sequence for receipt in paid] != list(range(len(paid))):
        yield "The receipts are not numbered 0, 1, 2, ...: one was removed or added."
    if len({receipt.query for receipt in paid}) != len(paid):
        yield "Two receipts have questions of the same name, which no run has."
    for receipt in paid:
        name = f"The receipt of '{receipt.query}'"
        if not set(receipt.assumptions) <= set(certificate.assumptions):
            yield f"{name} relies on an assumption that the certificate leaves out."
        if receipt.neighbours is not certificate.neighbours:
            yield f"{name} uses a different neighbouring relation from the certificate."
        if (receipt.protects, receipt.rows_per_unit) != (unit.protects, unit.rows_per_unit):
            yield f"{name} protects a different unit from the certificate."
        yield from misstated(receipt)


def _source_problems(finding: Finding, certificate: Certificate, config: RunConfig) -> Iterator[str]:
    """Yield columns whose stated source is not what the finding implies: found, found then edited, or neither."""
    said = certificate.domain_source
    due = finding.sources(config.schema)
    for column in config.schema:
        source = said.get(column.name, "")
        if isinstance(column, ModelledColumn) and column.name in due and source != due[column.name]:
            yield f"The domain of '{column.name}' was {due[column.name]}, which is not what the certificate says."
        elif column.name not in due and is_found(source):
            yield f"The domain of '{column.name}' is marked as found privately, but no finding asked for it."
