"""A finding as two files, and what must hold between them and the release that uses it.

``found.json`` says what was asked, with its receipts and the resulting columns; ``found.npz`` holds the noisy answers,
as ``measurements.npz`` does. Each next question, its share of the budget and the columns follow from earlier noisy
answers by public rules. A check makes the whole finding again from its schema, its budget and its answers.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from synth.bundle.answers import ENTRIES
from synth.bundle.archive import Archive, canonical_json, parse_canonical
from synth.bundle.certificate import Certificate, FoundReceipts
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes, pairing_problems
from synth.bundle.recorded_session import RecordedSession
from synth.errors import PrivacyError, SynthError, UnknownFormatError, VerificationError
from synth.names import numbered
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import AnswerT, RowCount
from synth.privacy.more.finding import find, finding_budget, key_delta, open_schema
from synth.privacy.more.found_columns import FoundColumn, columns_found
from synth.privacy.more.found_values import FoundValues
from synth.privacy.more.together import reference_of
from synth.privacy.questions import Answer, Question
from synth.privacy.receipt import Receipt, misstated
from synth.reading.more.texts import LONGEST_VALUE
from synth.schema import (
    FOUND_THEN_EDITED,
    READ_FROM_ROWS,
    DropColumn,
    FoundReference,
    ModelledColumn,
    RunConfig,
    Schema,
    TableFormat,
    is_found,
    parse_format,
    schema_from_document,
    schema_to_document,
)
from synth.schema.encoding import values_of_cells
from synth.version import __version__

__all__ = ["Finding", "bears_finding", "finding_problems", "own_problems", "receipt_problems"]

_VERSION = 2
"""Version of the format of ``found.json``; programs before 0.9.0 wrote 1."""

_KEYS = {"version", "account", "epsilon", "delta", "schema", "cells", "receipts", "answers", "columns"}
_RELATIVE = 1e-8

_LAST_DIGITS = 1e-9
"""Two computers may search for the mu of a budget to ends that differ by less than this part."""

_CALCULATED = ("sensitivity", "noise_scale", "mu_squared_units", "slack")
"""Fields of a receipt that two computers calculate with different last digits."""

_PLANNED = (
    "sequence", "mechanism", "source", "assumptions", "neighbours", "protects", "rows_per_unit", "dimension", "grid",
    "additive_delta", "private", "pure_units", "cells", "part", "sampling_rate", "steps",
)  # fmt: skip
"""Fields that are the same on every computer."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What was found privately. All of it is public, since it was charged.

    Attributes
    ----------
    account : str
        The account that was charged.
    schema : Schema
        What was asked: the unit, the neighbouring relation, and the open columns. Columns that were left out, and a
        declared number of people, played no part and are not kept.
    form : TableFormat
        How the table was written. What is kept of it: which texts meant a missing cell, and whether blanks around a
        text were left out.
    epsilon, delta : float
        The budget asked for; the receipts stay within it.
    receipts : tuple of Receipt
    answers : tuple of Answer
        The noisy answers, each with its receipts.
    """

    account: str
    schema: Schema
    form: TableFormat
    epsilon: float
    delta: float
    receipts: tuple[Receipt, ...]
    answers: tuple[Answer, ...]

    def __post_init__(self) -> None:
        asked = open_schema(self.schema)
        kept = tuple(column for column in asked.columns if not isinstance(column, DropColumn))
        object.__setattr__(self, "schema", replace(asked, columns=kept, number_of_units=None))

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
            "cells": {"missing": list(self.form.missing), "strip": self.form.strip},
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

    def sources(self, schema: Schema, said: Mapping[str, str]) -> dict[str, str]:
        """Return the source of the domain of each modelled column that was open in this finding.

        Parameters
        ----------
        schema : Schema
        said : mapping
            What the configuration says of each column: one that its owner took from the rows since stays marked so.
        """
        edited = {name: source for name, source in said.items() if source == READ_FROM_ROWS}
        return {
            column.name: self.reference.source
            if replace(column, description="").to_mapping() == self.mappings[column.name]
            else edited.get(column.name, FOUND_THEN_EDITED)
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
        schema, form = schema_from_document(document["schema"]), parse_format(document["cells"], "cells")
        return cls(account, schema, form, epsilon, delta, receipts, answers)


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
    # First of all: nothing else can be derived from answers that are not those of a finding.
    yield from own_problems(finding)
    yield from _paid_problems(finding, certificate, reference)
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
    # A finding asks about rows, whoever keeps theirs together.
    if (finding.schema.unit, finding.schema.neighbours) != (certificate.unit.of_rows, certificate.neighbours):
        yield "found.json and the certificate protect different units or hide different changes."
    yield from receipt_problems(finding.receipts, certificate, rows_per_unit=certificate.unit.rows_per_unit)
    spent = epsilon_of_receipts(finding.receipts, finding.delta)
    if not spent <= finding.epsilon * (1 + _RELATIVE):
        yield f"The receipts of the finding compose to epsilon = {spent:.9g}; {finding.epsilon:.9g} was asked for."
    if reference != finding.reference:
        yield "The costs of the finding in config.yaml are not those of its receipts."


def own_problems(finding: Finding) -> Iterator[str]:
    """Yield contradictions within a finding: between its schema, its budget, its receipts and its noisy answers."""
    yield from pairing_problems(finding.answers, finding.receipts, name="found.npz", stated="found.json")
    for answer in finding.answers:
        yield from ENTRIES[type(answer)].problems(answer, finding.schema)
        yield from _text_problems(answer, finding.form) if isinstance(answer, FoundValues) else ()
    yield from _asked_problems(finding)


def _text_problems(answer: FoundValues, form: TableFormat) -> Iterator[str]:
    """Yield a problem if a text is not one that a cell of the declared format is counted as."""
    texts = [text for _, text, _ in answer.values]
    read, place = values_of_cells(pa.array(texts, pa.string()), missing=form.missing, strip=form.strip)
    wrong = sum(text != read[at] or not _may_be_value(text) for text, at in zip(texts, place.tolist(), strict=True))
    if wrong:
        yield (
            f"The answer to '{answer.query}' contains {numbered(wrong, 'text')} that no cell is counted as: blank or "
            "missing, too long, not printable, or with blanks around it that were not read."
        )


def _may_be_value(text: str) -> bool:
    """Whether a text can be a value; characters that this Python does not know may be printable in a later one."""
    known = all(mark.isprintable() or unicodedata.category(mark) == "Cn" for mark in text)
    return 0 < len(text) <= LONGEST_VALUE and known


class _Again(RecordedSession):
    """Repeats the answers of a finding, and plans every question as the session did that asked it."""

    __slots__ = ()

    def __init__(self, finding: Finding) -> None:
        budget = finding_budget(finding.epsilon, finding.delta, finding.schema.neighbours)
        # A finding asks nothing that depends on the number of rows.
        super().__init__(finding.schema, budget, rows=RowCount(0.0, 0.0, public=True), answers=finding.answers)

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Return the recorded answer, and note the receipt that its question is due."""
        if query not in self._answers:
            raise VerificationError(f"The finding lacks the question '{query}', which its noisy answers lead to.")
        try:
            return super().ask(question, share=share, query=query, source=source)
        except PrivacyError:
            raise VerificationError(f"The question '{query}' is not the one that the finding leads to.") from None


def _asked_problems(finding: Finding) -> Iterator[str]:
    """Yield where a finding did not ask what its schema, its budget and its own noisy answers lead to."""
    try:
        again = _Again(finding)
        find(again, delta_key=key_delta(finding.delta))
    except SynthError as refusal:
        yield str(refusal)
        return
    planned = {receipt.query: receipt for receipt in again.repeated.receipts}
    stated = {receipt.query: receipt for receipt in finding.receipts}
    for query in stated:
        if query not in planned:
            yield f"The finding has a question that its noisy answers do not lead to: '{query}'."
    if [query for query in stated if query in planned] != [query for query in planned if query in stated]:
        yield "The questions of the finding are not in the order in which they were asked."
    due = [(receipt, stated[query]) for query, receipt in planned.items() if query in stated]
    fields = [name for name in (*_PLANNED, *_CALCULATED) if not all(_alike(name, *pair) for pair in due)]
    if fields:
        words = ", ".join(name.replace("_", " ") for name in fields)
        yield f"The receipts of the finding are not what its budget and its plan give its questions: {words}."


def _alike(name: str, due: Receipt, stated: Receipt) -> bool:
    one, other = getattr(due, name), getattr(stated, name)
    return bool(one == other) if name in _PLANNED else bool(abs(one - other) <= _LAST_DIGITS * abs(one))


def receipt_problems(receipts: Iterable[Receipt], certificate: Certificate, *, rows_per_unit: int) -> Iterator[str]:
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
        if (receipt.protects, receipt.rows_per_unit) != (unit.protects, rows_per_unit):
            yield f"{name} protects a different unit from the certificate."
        yield from misstated(receipt)


def _source_problems(finding: Finding, certificate: Certificate, config: RunConfig) -> Iterator[str]:
    """Yield columns whose stated source is not what the finding implies: found, edited or read since, or neither."""
    said = certificate.domain_source
    due = finding.sources(config.schema, config.domain_source)
    for column in config.schema:
        source = said.get(column.name, "")
        if isinstance(column, ModelledColumn) and column.name in due and source != due[column.name]:
            yield f"The domain of '{column.name}' was {due[column.name]}, which is not what the certificate says."
        elif column.name not in due and is_found(source):
            yield f"The domain of '{column.name}' is marked as found privately, but no finding asked for it."
