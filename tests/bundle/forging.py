"""Forge golden bundles: everything in them agrees with the forgery, and the signature is right."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bundle_making import Key, altered, checked, members_of
from numpy.typing import NDArray

from synth.bundle.archive import canonical_json, write_zip
from synth.bundle.certificate import certificate_from_dict, current_versions
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.model_file import ModelCard, model_from_bytes, model_to_bytes, model_to_json
from synth.bundle.remaking import report_of, rows_again
from synth.bundle.table_files import read_table, write_csv, write_parquet
from synth.bundle.writer import written_texts
from synth.estimators import restore
from synth.generators import ReleasedModel
from synth.privacy.accounting import epsilon_of_receipts, worth_for_a_row
from synth.privacy.answers import NoisyAnswer
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.questions import Answer
from synth.privacy.receipt import Receipt, pure_units_of_receipt, units_of_receipt
from synth.privacy.selection import Selection
from synth.reports.evidence import evidence_from_dict
from synth.reports.first_screen import first_rows
from synth.schema import RunConfig, config_to_yaml, parse_config, schema_to_document
from synth.schema.documents import read_mapping

SUMS = ["independent", "independent-by-class", "dp-hp", "dp-merf-no-label", "kahm", "dp-hp-adaptive-several-rows"]

Change = Callable[[Receipt], Receipt]


def answers_of(bundle: Path) -> Measurements:
    return measurements_from_bytes(members_of(bundle)["measurements.npz"])


def costing(receipt: Receipt) -> Receipt:
    """State the cost that follows from what is stated, as whoever believes the receipt would work it out."""
    slack = 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2 * 1.001 if receipt.slack else 0.0
    return dataclasses.replace(
        receipt,
        mu_squared_units=units_of_receipt(receipt) or receipt.mu_squared_units,
        pure_units=pure_units_of_receipt(receipt),
        slack=slack,
    )


def with_receipts(found: Measurements, change: Change) -> Measurements:
    def with_receipts(answer: Any) -> Any:
        if isinstance(answer, PerturbedRows):
            return dataclasses.replace(answer, receipts=tuple(map(change, answer.receipts)))
        return dataclasses.replace(answer, receipt=change(answer.receipt))

    return dataclasses.replace(found, answers=tuple(map(with_receipts, found.answers)))


def with_answer(found: Measurements, old: Answer, *new: Answer) -> Measurements:
    """The answers with one of them replaced, by one or more."""
    at = next(place for place, one in enumerate(found.answers) if one is old)
    return dataclasses.replace(found, answers=(*found.answers[:at], *new, *found.answers[at + 1 :]))


def forged(
    bundle: Path,
    target: Path,
    key: Key,
    *,
    receipts: Change | None = None,
    answers: Callable[[Measurements], Measurements] | None = None,
    certificate: Callable[[dict[str, Any]], None] | None = None,
    files: dict[str, Callable[[bytes], bytes]] | None = None,
    budget: bool = False,
) -> Path:
    """Change receipts wherever they stand, let epsilon and every text follow, and sign.

    With ``budget`` the configuration asks for what the forged receipts spend, so that this agrees too.
    """
    members = members_of(bundle)
    document = json.loads(members["certificate.json"])
    found = measurements_from_bytes(members["measurements.npz"])
    if receipts is not None:
        found = with_receipts(found, receipts)
        changed = [receipts(Receipt.from_dict(one)) for one in document["receipts"]]
        document["receipts"] = [receipt.to_dict() for receipt in changed]
        document["epsilon"] = epsilon_of_receipts(changed, document["delta"])
        if "row_epsilon" in document:
            document["row_epsilon"] = worth_for_a_row(changed, document["delta"])
    if answers is not None:
        found = answers(found)
    document["versions"] = current_versions()
    if certificate is not None:
        certificate(document)
    if receipts is not None or answers is not None:
        members["measurements.npz"] = measurements_to_bytes(found)
    if budget:
        text = members["config.yaml"].decode()
        spent = f"epsilon: {document['epsilon'] * 1.00002!r}"
        members["config.yaml"] = re.sub(r"epsilon: \S+", spent, text, count=1).encode()
    report = json.loads(members["report.json"])
    entries = report["evidence"]
    for entry in entries:
        if entry["kind"] == "charged":
            paid = [Receipt.from_dict(document["receipts"][sequence]) for sequence in entry["receipts"]]
            entry["epsilon"] = epsilon_of_receipts(paid, document["delta"])
    evidence = [evidence_from_dict(one) for one in entries]
    members["report.json"] = canonical_json(report)
    config = parse_config(read_mapping(members["config.yaml"].decode(), sealed=True))
    rows = first_rows(io.BytesIO(members["synthetic.csv"])) if "synthetic.csv" in members else ()
    members |= written_texts(certificate_from_dict(document), config, evidence, rows)  # type: ignore[arg-type]
    members["certificate.json"] = canonical_json(document)
    write_zip(target, members)
    return altered(target, target, files=files, certificate=lambda _: None, sign_with=key)


def following(bundle: Path, target: Path, key: Key) -> Path:
    """Make all that follows from the model, the answers and the configuration again: rows, report, texts; and sign."""
    members = members_of(bundle)
    card, state = model_from_bytes(members["model.safetensors"])
    config = parse_config(read_mapping(members["config.yaml"].decode(), sealed=True))
    fitted = restore(card.generator, card.task, card.options, state)
    drawn = rows_again(fitted, config)
    made = {"report.json": report_of(answers_of(bundle), config, fitted, drawn)}
    if isinstance(fitted, ReleasedModel):
        made["model.json"] = model_to_json(card, fitted)
    else:
        made |= _tables(drawn.codes, config)
    write_zip(target, members | made)
    return forged(target, target, key)


@dataclass
class Parts:
    """What a forger has in hand: everything of a bundle that other files follow from, each to be changed at will."""

    config: RunConfig
    known: Measurements
    card: ModelCard
    state: dict[str, NDArray[Any]]
    codes: NDArray[np.int64]
    document: dict[str, Any]
    members: dict[str, bytes]

    @classmethod
    def of(cls, bundle: Path) -> Parts:
        """Take a bundle apart."""
        members = members_of(bundle)
        config = parse_config(read_mapping(members["config.yaml"].decode(), sealed=True))
        known = measurements_from_bytes(members["measurements.npz"])
        table, codes = io.BytesIO(members.get("synthetic.csv", b"")), np.zeros((0, 0), dtype=np.int64)
        if not config.is_model:
            codes = read_table(table, config.schema)
        card, state = model_from_bytes(members["model.safetensors"])
        return cls(config, known, card, dict(state), codes, json.loads(members["certificate.json"]), members)

    def everywhere(self, **changes: Any) -> None:
        """Change the configuration, and what the certificate and the model say of the same."""
        self.config = config = dataclasses.replace(self.config, **changes)
        self.card = ModelCard.of(config)
        unit = config.schema.unit
        self.document |= {
            "account": config.account,
            "delta": config.delta,
            "options": dict(config.options),
            "seed": config.seed,
            "domain_source": {
                one.name: config.domain_source.get(one.name, "declared") for one in config.schema.modelled
            },
            "unit": {"protects": unit.protects, "rows_per_unit": unit.rows_per_unit, "id_column": unit.id_column},
            **({} if config.is_model else {"rows": config.rows}),
        }

    def exchange(self, old: NoisyAnswer | Selection, new: NoisyAnswer | Selection) -> None:
        """Replace one answer, wherever it stands, and its receipt."""
        answers = tuple(new if one is old else one for one in self.known.answers)
        self.known = dataclasses.replace(self.known, answers=answers)
        self.document["receipts"][old.receipt.sequence] = new.receipt.to_dict()
        receipts = [Receipt.from_dict(one) for one in self.document["receipts"]]
        self.document["epsilon"] = epsilon_of_receipts(receipts, self.document["delta"])

    def paid(self, *answers: NoisyAnswer | Selection) -> None:
        """Let these be all answers: numbered in order, with their receipts and what they compose to certified."""
        numbered = tuple(
            dataclasses.replace(answer, receipt=dataclasses.replace(answer.receipt, sequence=place))
            for place, answer in enumerate(answers)
        )
        receipts = [answer.receipt for answer in numbered]
        self.known = dataclasses.replace(self.known, answers=numbered)
        self.document["receipts"] = [one.to_dict() for one in receipts]
        self.document["epsilon"] = epsilon_of_receipts(receipts, self.document["delta"])

    def written(self, target: Path, key: Key, *, follow: bool = False) -> Path:
        """Write everything and sign it; with ``follow``, rows and report are made again from model and answers."""
        members = self.members | {
            "config.yaml": config_to_yaml(self.config).encode(),
            "schema.json": canonical_json(schema_to_document(self.config.schema)),
            "measurements.npz": measurements_to_bytes(self.known),
            "model.safetensors": model_to_bytes(self.card, self.state),
            "certificate.json": canonical_json(self.document),
        }
        if not self.config.is_model:
            members |= _tables(self.codes, self.config)
        write_zip(target, members)
        return following(target, target, key) if follow else forged(target, target, key)


def _tables(codes: NDArray[np.int64], config: RunConfig) -> dict[str, bytes]:
    files = {"synthetic.csv": io.BytesIO(), "synthetic.parquet": io.BytesIO()}
    write_csv(codes, config.schema, files["synthetic.csv"], config.seed)
    write_parquet(codes, config.schema, files["synthetic.parquet"], config.seed)
    return {name: file.getvalue() for name, file in files.items()}


def failures(path: Path, **how: bool) -> Sequence[str]:
    """What a quick check finds, which makes nothing again, so that each rule is tried by itself; or another check."""
    verdict = checked(path, **(how or {"quick": True}))
    assert verdict.ok is not bool(verdict.json["failures"])
    return verdict.json["failures"]


def require_half_a_sensitivity_is_found(bundle: Path, target: Path, key: Key, *, queries: str, given: str) -> None:
    """State less of all questions whose name begins so, with costs that follow: the schema gives another bound."""
    found = [one for answer in answers_of(bundle).answers for one in answer.receipts if one.query.startswith(queries)]
    path = forged(
        bundle,
        target,
        key,
        receipts=lambda one: (
            costing(dataclasses.replace(one, sensitivity=1.0)) if one.query.startswith(queries) else one
        ),
    )
    assert found
    assert sum(f"schema.json give {given}" in problem for problem in failures(path)) == len(found)


def only(path: Path, *reasons: str | tuple[str, ...], **how: bool) -> None:
    """Each reason is found, and nothing else; of several sentences for the same reason, one is enough."""
    found = failures(path, **how)
    wanted = [(reason,) if isinstance(reason, str) else reason for reason in reasons]
    told = [[any(words in failure for words in reason) for failure in found] for reason in wanted]
    assert all(map(any, told)), found or "nothing was found"
    assert all(map(any, zip(*told, strict=True))), found
