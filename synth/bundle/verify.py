"""Check a bundle with nothing but the bundle: no database, no network, no private table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from synth.bundle.archive import SIGNED_BY_HASH, Archive, open_archive
from synth.bundle.canonical import canonical_json, parse_canonical, sha256_of
from synth.bundle.certificate import Certificate, certificate_from_dict, promise
from synth.bundle.domain import check_csv, check_parquet
from synth.bundle.linter import TEXT_FILES, LeakWords, lint_members
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.model_file import card_from_stream
from synth.bundle.rows_check import rows_problems
from synth.bundle.schema_json import schema_from_document, schema_to_document
from synth.bundle.signature import fingerprint_of, signature_problem
from synth.bundle.texts import CANNOT_SHOW
from synth.config_file import parse_config, read_mapping
from synth.errors import SynthError, VerificationError
from synth.privacy.accounting import epsilon_of_receipts, pure_units_of_receipt, units_of_receipt
from synth.privacy.cell_conversion import row_epsilon_of_receipts
from synth.privacy.receipt import GAUSSIAN, Receipt, Release
from synth.reports.document import owner_document
from synth.reports.evidence import ChargedEvidence, OwnerOnlyEvidence, evidence_from_dict
from synth.schema import Schema

__all__ = ["Verdict", "verify"]

_RELATIVE = 1e-8
"""Two computers may disagree on epsilon by this much; the accountant is exact to about 1e-12."""

_ROW_RELATIVE = 1e-4
"""The same for what noise on cells is worth for a row, which is searched for on a grid."""

_UNCHECKABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What arithmetic and parsing raise on values that no honest bundle holds."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Attributes
    ----------
    ok : bool
        True when nothing differs from what the certificate states.
    lines : tuple of str
        What is promised, to whom, under which assumptions, what was checked and what cannot be shown; each
        difference with its reason.
    json : dict
        The same for programs: ok, failures, checked, epsilon, delta, neighbours, row_epsilon (where one cell is
        hidden), not_covered, fingerprint, signer, cannot_show.
    """

    ok: bool
    lines: tuple[str, ...]
    json: dict[str, Any] = field(default_factory=dict)


def verify(path: str | Path, public_key: str | Path | bytes | None = None) -> Verdict:
    """Check a bundle, a zip or a folder; a bundle that differs is a verdict, never an exception.

    Parameters
    ----------
    path : str or Path
        The bundle. A folder that holds ``bundle.zip`` is checked through that zip, and the loose files beside it too.
    public_key : path or bytes, optional
        PEM of the signer you expect; without it the signature is checked against the key in the bundle only, and the
        verdict says "signer not checked".
    """
    path = Path(path)
    expected = public_key if public_key is None or isinstance(public_key, bytes) else Path(public_key).read_bytes()
    beside = path if path.is_dir() and (path / "bundle.zip").is_file() else None
    check = _Check(expected)
    try:
        with open_archive(path if beside is None else beside / "bundle.zip") as archive:
            check.run(archive, beside)
    except VerificationError as problem:
        check.failures.append(str(problem))
    return check.verdict()


class _Check:
    """The state of one check: what was found so far."""

    def __init__(self, expected_key: bytes | None) -> None:
        self.expected_key = expected_key
        self.certificate: Certificate | None = None
        self.fingerprint: str | None = None
        self.failures: list[str] = []
        self.checked: list[str] = []

    def run(self, archive: Archive, beside: Path | None) -> None:
        data = archive.read("certificate.json")
        self._step("signature", lambda: self._signature(archive, data))
        self.certificate = certificate = certificate_from_dict(parse_canonical(data, name="certificate.json"))
        self._step("epsilon recomputed from the receipts", lambda: _receipt_problems(certificate))
        self._step("hash of every file", lambda: _hash_problems(archive, certificate))
        if beside is not None:
            self._step("files beside the bundle", lambda: _beside_problems(beside, certificate, data))
        schema = schema_from_document(parse_canonical(archive.read("schema.json"), name="schema.json"))
        self._step("schema and configuration", lambda: _schema_problems(archive, certificate, schema))
        self._step("domain of every cell", lambda: _table_problems(archive, certificate, schema))
        self._step("noisy answers", lambda: _measurement_problems(archive, certificate, schema))
        self._step("report", lambda: _report_problems(archive, certificate))
        self._step("no leak in any text", lambda: _leak_problems(archive, schema))

    def _step(self, what: str, problems: Callable[[], Iterable[str]]) -> None:
        before = len(self.failures)
        try:
            # One by one: what was found before a step broke off is kept.
            for problem in problems():
                self.failures.append(problem)
        except SynthError as refusal:
            self.failures.append(str(refusal))
        except _UNCHECKABLE:
            self.failures.append(f"The {what} cannot be checked: a value is of the wrong kind or out of all range.")
        if len(self.failures) == before:
            self.checked.append(what)

    def _signature(self, archive: Archive, data: bytes) -> Iterable[str]:
        inside = archive.read("public-key.pem")
        self.fingerprint = fingerprint_of(inside)
        problem = signature_problem(data, archive.read("certificate.json.sig"), inside, self.expected_key)
        return [] if problem is None else [problem]

    def verdict(self) -> Verdict:
        ok = not self.failures
        certificate = self.certificate
        signer = "not checked" if self.expected_key is None else ("as expected" if ok else "see failures")
        lines: list[str] = [] if certificate is None else list(promise(certificate))
        lines += [f"Checked: {what}." for what in self.checked]
        if self.fingerprint is not None:
            lines.append(f"Signed by the key with fingerprint {self.fingerprint}.")
        if self.expected_key is None:
            lines.append("Signer not checked: give the signer's key with --public-key to know who signed.")
        lines += [f"FAILED: {failure}" for failure in self.failures]
        lines += [f"No check can show {sentence}." for sentence in CANNOT_SHOW]
        lines.append("The bundle holds what it claims." if ok else "The bundle does NOT hold what it claims.")
        document = {
            "ok": ok,
            "failures": list(self.failures),
            "checked": list(self.checked),
            "epsilon": None if certificate is None else certificate.epsilon,
            "delta": None if certificate is None else certificate.delta,
            "neighbours": None if certificate is None else certificate.neighbours.value,
            "row_epsilon": None if certificate is None else certificate.row_epsilon,
            "not_covered": [] if certificate is None else list(certificate.read_columns),
            "fingerprint": self.fingerprint,
            "signer": signer,
            "cannot_show": list(CANNOT_SHOW),
        }
        return Verdict(ok, tuple(lines), document)


def _receipt_problems(certificate: Certificate) -> Iterable[str]:
    unit = certificate.unit
    if [receipt.sequence for receipt in certificate.receipts] != list(range(len(certificate.receipts))):
        yield "The receipts are not numbered 0, 1, 2, ...: one was taken out or added."
    for receipt in certificate.receipts:
        name = f"The receipt of '{receipt.query}'"
        if receipt.neighbours is not certificate.neighbours:
            yield f"{name} belongs to another neighbouring relation than the certificate."
        if (receipt.protects, receipt.rows_per_unit) != (unit.protects, unit.rows_per_unit):
            yield f"{name} protects another unit than the certificate."
        if abs(units_of_receipt(receipt) - receipt.mu_squared_units) > 1:
            yield f"{name} states a cost that does not follow from its sensitivity and noise."
        if abs(pure_units_of_receipt(receipt) - receipt.pure_units) > 1:
            yield f"{name} states a pure epsilon that does not follow from the noise of its cells."
        if receipt.mechanism in GAUSSIAN and receipt.slack < _slack(receipt) * (1 - _RELATIVE):
            yield f"{name} leaves out a part of the cost of noise on a grid."
    recomputed = epsilon_of_receipts(certificate.receipts, certificate.delta)
    if not abs(recomputed - certificate.epsilon) <= _RELATIVE * certificate.epsilon:
        yield f"The receipts compose to epsilon = {recomputed:.9g}; the certificate states {certificate.epsilon:.9g}."
    if certificate.row_epsilon is not None:
        of_row = row_epsilon_of_receipts(certificate.receipts, certificate.delta)
        if of_row is None or not abs(of_row - certificate.row_epsilon) <= _ROW_RELATIVE * of_row:
            yield (
                f"The receipts are worth epsilon = {of_row or 0.0:.6g} for a whole row; the certificate states "
                f"{certificate.row_epsilon:.6g}."
            )


def _slack(receipt: Receipt) -> float:
    return 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2


def _hash_problems(archive: Archive, certificate: Certificate) -> Iterable[str]:
    if set(certificate.files) != set(SIGNED_BY_HASH):
        yield "The certificate does not list exactly the files of a bundle."
    for name in SIGNED_BY_HASH:
        with archive.open(name) as stream:
            if sha256_of(stream) != certificate.files.get(name):
                yield f"{name} is not the file that was certified: its hash differs."


def _beside_problems(folder: Path, certificate: Certificate, data: bytes) -> Iterable[str]:
    for name in ("synthetic.csv", "synthetic.parquet", "report.json"):
        loose = folder / name
        if loose.is_file():
            with loose.open("rb") as stream:
                if sha256_of(stream) != certificate.files.get(name):
                    yield f"{name} beside the bundle is not the one inside it."
    loose = folder / "certificate.json"
    if loose.is_file() and loose.read_bytes() != data:
        yield "certificate.json beside the bundle is not the one inside it."


def _schema_problems(archive: Archive, certificate: Certificate, schema: Schema) -> Iterable[str]:
    if (schema.unit, schema.neighbours) != (certificate.unit, certificate.neighbours):
        yield "schema.json declares another unit or another rule for the number of rows than the certificate."
    unknown = set(certificate.domain_source) - {column.name for column in schema}
    if unknown or not {column.name for column in schema.modelled} <= set(certificate.domain_source):
        yield "The certificate does not say for exactly the declared columns where their domain comes from."
    try:
        config = parse_config(read_mapping(archive.read("config.yaml").decode("utf-8")))
    except (UnicodeDecodeError, SynthError):
        yield "config.yaml cannot be read."
        return
    if schema_to_document(config.schema) != schema_to_document(schema):
        yield "config.yaml and schema.json declare different columns or units."
    if config.table is not None or config.test_table is not None:
        yield "config.yaml names the file of a private table."
    run = (certificate.generator, dict(certificate.options), certificate.seed)
    if (config.account, config.rows) != (certificate.account, certificate.rows):
        yield "config.yaml names another account or number of rows than the certificate."
    if (config.generator, dict(config.options), config.seed) != run:
        yield "config.yaml names another generator, options or seed than the certificate."
    with archive.open("model.safetensors") as stream:
        card = card_from_stream(stream)
    if (card.generator, dict(card.options), card.seed) != run:
        yield "model.safetensors was made by another generator, options or seed than certified."
    if canonical_json(schema_to_document(card.schema)) != canonical_json(schema_to_document(schema)):
        yield "model.safetensors belongs to another schema."


def _table_problems(archive: Archive, certificate: Certificate, schema: Schema) -> Iterable[str]:
    with archive.open("synthetic.csv") as stream:
        printed = check_csv(stream, schema, rows=certificate.rows)
    typed = check_parquet(archive.read("synthetic.parquet"), schema, rows=certificate.rows)
    yield from (*printed.problems, *typed.problems, *printed.differences(typed))


def _measurement_problems(archive: Archive, certificate: Certificate, schema: Schema) -> Iterable[str]:
    by_sequence = {receipt.sequence: receipt for receipt in certificate.receipts}
    measurements = measurements_from_bytes(archive.read("measurements.npz"))
    receipts = [release.receipt for release in measurements.releases]
    receipts += [selection.receipt for selection in measurements.selections]
    receipts += [receipt for release in measurements.row_releases for receipt in release.receipts]
    for receipt in receipts:
        if by_sequence.get(receipt.sequence) != receipt:
            yield f"The answer to '{receipt.query}' carries another receipt than the certificate."
    for release in measurements.releases:
        yield from _answer_problems(release)
    for rows in measurements.row_releases:
        yield from rows_problems(rows, schema)
    answered = {receipt.sequence for receipt in receipts}
    for receipt in certificate.receipts:
        if receipt.sequence not in answered:
            yield f"measurements.npz lacks the answer to '{receipt.query}'."
    if measurements.rows is not None and measurements.rows.public and not schema.rows_are_public:
        yield "measurements.npz states an exact number of rows, which was not declared public."


def _answer_problems(release: Release) -> Iterable[str]:
    receipt, name = release.receipt, f"The noisy answer to '{release.receipt.query}'"
    if release.value.size != receipt.dimension:
        yield f"{name} has another number of coordinates than its receipt."
    elif not np.isfinite(release.value).all():
        yield f"{name} holds a number that is not finite."
    elif np.abs(release.value / receipt.grid - np.rint(release.value / receipt.grid)).max(initial=0.0) > 1e-3:
        yield f"{name} does not lie on the grid of its receipt."


def _report_problems(archive: Archive, certificate: Certificate) -> Iterable[str]:
    report = parse_canonical(archive.read("report.json"), name="report.json")
    evidence = [evidence_from_dict(entry) for entry in report["evidence"]]
    paid = {receipt.sequence: receipt for receipt in certificate.receipts}
    for entry in evidence:
        if isinstance(entry, OwnerOnlyEvidence):
            yield f"report.json holds a number that may not be published: {entry.title}."
        elif isinstance(entry, ChargedEvidence) and not paid.keys() >= set(entry.receipts):
            yield f"report.json holds a charged number without its receipt: {entry.title}."
        elif isinstance(entry, ChargedEvidence):
            alone = epsilon_of_receipts([paid[sequence] for sequence in entry.receipts], certificate.delta)
            if not abs(alone - entry.epsilon) <= _RELATIVE * alone:
                yield f"report.json states another epsilon than its receipts for a charged number: {entry.title}."
    if owner_document(evidence) != report:
        yield "report.json holds more than its numbers, or marginals that are not among them."


def _leak_problems(archive: Archive, schema: Schema) -> Iterable[str]:
    # Names of the owner's machine are unknown here; paths, owner-only numbers and counts of private rows are not.
    return lint_members({name: archive.read(name) for name in TEXT_FILES}, schema, LeakWords(names=()))
