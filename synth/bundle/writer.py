"""Seal a bundle: everything a recipient needs to use, check and reproduce a table or a model, in one zip.

Some of its texts follow from the rest of it (what it is, how to cite it, its report as a page): a check writes them
again (:func:`written_texts`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from synth.bundle.archive import canonical_json, parse_canonical, sha256_of, signed_by_hash, write_zip
from synth.bundle.certificate import Certificate, certificate_to_bytes, promise
from synth.bundle.finding import Finding
from synth.bundle.linter import LeakWords, lint_members
from synth.bundle.measurements import Measurements, measurements_to_bytes
from synth.bundle.model_file import ModelCard, model_from_bytes, model_to_bytes, model_to_json, restored_model
from synth.bundle.table_files import linked_files
from synth.bundle.verify import cannot_show, left_out
from synth.errors import PrivacyError
from synth.generators.protocol import State
from synth.names import visible
from synth.privacy.answers import ROW_COUNT_QUERY, RowCount
from synth.privacy.questions import Answer
from synth.reports.document import report_document, report_page
from synth.reports.evidence import Publishable, evidence_from_dict, publishable
from synth.reports.first_screen import PEOPLE_MADE, TableRows, first_rows, first_screen
from synth.reports.forecast import budget_parts
from synth.schema import (
    Neighbours,
    People,
    RunConfig,
    Schema,
    config_to_yaml,
    parse_config,
    people_of,
    schema_to_document,
)
from synth.schema.config import USUAL_EVALUATION_SHARE
from synth.schema.documents import read_mapping
from synth.schema.schema import MERGE

__all__ = ["Contents", "SealedBundle", "Signer", "sealed_config", "write_bundle", "written_texts"]

_MADE_BY_A_MODEL = (
    "The rows in synthetic.csv were drawn from a model that was fitted to noisy answers about a private table. None",
    "is a copy of a private row, though some may equal one by chance.",
)
_MADE_FROM_NOISY_ROWS = (
    "Noise was added to each row of the private table separately. The rows in synthetic.csv were smoothed from those",
    "noisy rows, one from each, in a different order, so there are as many of them as private rows.",
)


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
    """What goes into a bundle; all of it is public once it is charged.

    Attributes
    ----------
    config : RunConfig
        Of the run; its paths are left out.
    answers : sequence of Answer
        Every noisy answer of the run.
    rows : RowCount, optional
        The number of private rows as the session stated it, which is needed to fit the answers again.
    state : mapping of name to array
        The fitted model.
    evidence : sequence of Publishable
        The numbers in the report; owner-only numbers are refused.
    certificate : Certificate
        The certificate without hashes.
    synthetic_csv, synthetic_parquet : Path, optional
        The table as it was written; None if a model is released. The files of two tables that belong together lie
        beside it (:func:`synth.bundle.table_files.write_table`).
    finding : Finding, optional
        The finding that the configuration uses, if any.
    """

    config: RunConfig
    answers: Sequence[Answer]
    state: State
    evidence: Sequence[Publishable]
    certificate: Certificate
    rows: RowCount | None = None
    synthetic_csv: Path | None = None
    synthetic_parquet: Path | None = None
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class SealedBundle:
    """A written bundle: the certificate with its hashes, and the files that are also written next to the zip.

    ``model_json`` is empty if a table is released.
    """

    path: Path
    certificate: Certificate
    certificate_json: bytes
    report_json: bytes
    model_json: bytes = b""


def write_bundle(
    path: Path, contents: Contents, *, signer: Signer, leak_words: LeakWords | None = None
) -> SealedBundle:
    """Write ``bundle.zip``; the same contents and key give the same bytes.

    Parameters
    ----------
    path : Path
        Where the zip goes; nothing is left there if a check refuses.
    contents : Contents
        What goes in.
    signer : Signer
        The key that signs the certificate.
    leak_words : LeakWords, optional
        Texts that must not appear: the user and host of this machine, the name of the uploaded file.

    Raises
    ------
    TypeError
        If evidence that is neither safe nor charged is among the contents.
    PrivacyError
        If a receipt or an answer was made with test noise, or the leak linter finds something.
    """
    evidence = publishable(contents.evidence)
    _refuse_test_noise(contents)
    config = _as_read(contents.config)
    report_json = canonical_json(report_document(evidence))
    # The page says what is read there, which has no zero with a sign.
    read_back = parse_canonical(report_json, name="report.json")["evidence"]
    evidence = publishable(map(evidence_from_dict, read_back))  # type: ignore[arg-type]  # others are refused here
    card = ModelCard.of(config)
    model = model_to_bytes(card, contents.state)
    model_json = b""
    if card.is_model:
        read, state = model_from_bytes(model)  # as a check reads it
        model_json = model_to_json(read, restored_model(read, state))
    members: dict[str, bytes | Path] = {
        **({"model.json": model_json} if card.is_model else _tables(contents)),
        "schema.json": canonical_json(schema_to_document(config.schema)),
        "config.yaml": config_to_yaml(config).encode("utf-8"),
        "measurements.npz": measurements_to_bytes(Measurements(tuple(contents.answers), contents.rows)),
        "model.safetensors": model,
        "report.json": report_json,
        **written_texts(contents.certificate, config, evidence, _first_rows(contents)),
        **({} if contents.finding is None else contents.finding.files),
    }
    files = {name: _hash(members[name]) for name in signed_by_hash(tuple(members))}
    certificate = replace(contents.certificate, files=files)
    certificate_json = certificate_to_bytes(certificate)
    members["certificate.json"] = certificate_json
    members["certificate.json.sig"] = signer.sign(certificate_json)
    members["public-key.pem"] = signer.public_key_pem
    _refuse_leaks(members, config, leak_words)
    write_zip(path, members)
    return SealedBundle(path, certificate, certificate_json, report_json, model_json)


def sealed_config(config: RunConfig) -> RunConfig:
    """Return a configuration as it is in a bundle, where nothing is free that nothing is asked with.

    A generator that measures one-way tables itself leaves no question for the report, whose share is then the usual
    one, whatever was declared.
    """
    sealed = config.sealed()
    if sealed.is_model or not sealed.evaluation_share or "evaluation" in {part.name for part in budget_parts(sealed)}:
        return sealed
    return replace(sealed, evaluation_share=USUAL_EVALUATION_SHARE)


def _as_read(config: RunConfig) -> RunConfig:
    """Return a configuration as a reader of the bundle has it: a float that was given as 1 is 1.0."""
    return parse_config(read_mapping(config_to_yaml(sealed_config(config)), sealed=True))


def _tables(contents: Contents) -> dict[str, bytes | Path]:
    csv, parquet = contents.synthetic_csv, contents.synthetic_parquet
    if csv is None or parquet is None:
        raise PrivacyError("The bundle of a table needs the table.")
    linked = {name: csv.with_name(name) for name in linked_files(contents.config.schema)}
    return {"synthetic.csv": csv, "synthetic.parquet": parquet, **linked}


def _first_rows(contents: Contents) -> TableRows:
    if contents.synthetic_csv is None:
        return ()
    with contents.synthetic_csv.open("rb") as table:
        return first_rows(table)


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


# Texts that follow from the rest of a bundle -------------------------------------------------------------------------


def written_texts(
    certificate: Certificate, config: RunConfig, evidence: Sequence[Publishable], rows: TableRows
) -> dict[str, bytes]:
    """Return the files of a bundle that follow from the rest of it.

    Parameters
    ----------
    certificate : Certificate
        With or without the hashes of files.
    config : RunConfig
        What config.yaml holds.
    evidence : sequence of Publishable
        What report.json holds.
    rows : tuple
        The first rows of synthetic.csv below its header; empty if a model is released.

    Returns
    -------
    dict
        Bytes by the name of the file.
    """
    page = report_page(
        evidence,
        heading=_title(certificate),
        promise=promise(certificate),
        first=first_screen(evidence, config, rows),
        from_rows=not certificate.is_model,
    )
    return {
        "README.txt": _readme_text(certificate, config.schema, evidence).encode("utf-8"),
        "CITATION.cff": _citation_text(certificate).encode("utf-8"),
        "report.html": page.encode("utf-8"),
    }


def _title(certificate: Certificate) -> str:
    return f"{'Private model' if certificate.is_model else 'Synthetic table'} of {certificate.account}"


def _readme_text(certificate: Certificate, schema: Schema, evidence: Sequence[Publishable]) -> str:
    """Return README.txt."""
    people = next((entry.value for entry in evidence if entry.id == PEOPLE_MADE), None)
    lines = (
        _about_the_model(certificate, schema)
        if certificate.is_model
        else _about_the_table(certificate, schema, _the_people(schema, people))
    )
    return "\n".join(map(visible, lines))


def _about_the_model(certificate: Certificate, schema: Schema) -> list[str]:
    return [
        "PRIVATE MODEL",
        "",
        "The numbers in model.json were computed from noisy answers about a private table. It contains no rows.",
        "",
        "The promise",
        "-----------",
        *promise(certificate),
        "",
        "The model",
        "---------",
        f"'{certificate.generator}', as described in model.json: what was declared public, what was assumed, and what",
        "was learned. It is plain JSON and can be used without this program.",
        "",
        *_the_columns(schema),
        "The files",
        "---------",
        "model.json                what the model is and what it learned, in plain numbers",
        "schema.json               what was declared public about the private table",
        "config.yaml               the configuration of the run; add your own table to repeat it",
        "measurements.npz          the noisy answers and the scale of their noise",
        "model.safetensors         the same model as arrays, from which model.json follows",
        "report.html, report.json  publishable numbers about the model",
        *_found_files(certificate, width=26),
        "certificate.json          the promise with its receipts and the hashes of all files",
        "certificate.json.sig      its Ed25519 signature; public-key.pem is the key",
        "",
        "Check, reproduce and use",
        "------------------------",
        "synth verify bundle.zip --public-key KEY.pem      makes it again from the model, and compares",
        "synth replay bundle.zip --out FOLDER              fits the model again and writes model.json",
        "synth model predict bundle.zip TABLE --out FILE   predicts for your own rows, if the model can",
        *_how_far_checks_go(certificate),
    ]


def _about_the_table(certificate: Certificate, schema: Schema, people: Sequence[str]) -> list[str]:
    identifiers = schema.identifiers
    chosen = "how many to make" if people else "the number of rows"
    by_row = any(receipt.mechanism in ("gaussian_rows", "discrete_laplace") for receipt in certificate.receipts)
    return [
        "SYNTHETIC TABLE",
        "",
        *(_MADE_FROM_NOISY_ROWS if by_row else _MADE_BY_A_MODEL),
        "",
        "The promise",
        "-----------",
        *promise(certificate),
        "",
        "The table",
        "---------",
        f"{certificate.rows:,} rows, {len(schema.printed)} columns, made by the generator '{certificate.generator}'.",
        *people,
        *_two_tables(schema),
        *([] if by_row else [f"The owner chose {chosen}; it was not counted in the private table."]),
        *([f"New, meaningless identifiers: {', '.join(identifiers)}."] if identifiers else []),
        "An empty cell is a missing value. An apostrophe before = + - @ stops spreadsheets from reading a formula.",
        "",
        *_the_columns(schema),
        "The files",
        "---------",
        "synthetic.csv, synthetic.parquet   the table, in two formats",
        *_linked_lines(schema),
        "schema.json                        what was declared public about the private table",
        "config.yaml                        the configuration of the run; add your own table to repeat it",
        "measurements.npz                   the noisy answers and the scale of their noise",
        "model.safetensors                  the fitted generator",
        "report.html, report.json           how accurate the table is, in publishable numbers",
        *_found_files(certificate, width=35),
        "certificate.json                   the promise with its receipts and the hashes of all files",
        "certificate.json.sig               its Ed25519 signature; public-key.pem is the key",
        "",
        "Check and reproduce",
        "-------------------",
        "synth verify bundle.zip --public-key KEY.pem      makes rows and report again, and compares",
        "synth replay bundle.zip --out FOLDER              writes them: synthetic.csv and report.json",
        *_how_far_checks_go(certificate),
        "For how far to trust a count, see 'Accuracy you can expect' in report.html; small groups are mostly noise.",
        "",
    ]


def _two_tables(schema: Schema) -> tuple[str, ...]:
    """Return what a reader needs to know of two tables that belong together."""
    if schema.tables is None:
        return ()
    tables, who = schema.tables, schema.unit.protects
    return (
        f"It joins two tables by '{tables.key}', which are also in files of their own. '{tables.first}' has one row",
        f"for each {who}. Those without a row in '{tables.second}' have one row here with empty cells, in which",
        f"'{MERGE.name}' is left_only.",
    )


def _linked_lines(schema: Schema) -> tuple[str, ...]:
    """Return the lines about the files of two tables that belong together."""
    if schema.tables is None:
        return ()
    tables = schema.tables
    said = (f"the two tables; {tables.key} is the key of both", "the same, in the other format")
    return tuple(
        f"{f'{tables.first}{ending}, {tables.second}{ending}':34} {words}"
        for ending, words in zip((".csv", ".parquet"), said, strict=True)
    )


def _the_people(schema: Schema, people: object) -> tuple[str, ...]:
    """Return what a reader needs to know of people who keep all of their rows."""
    if schema.people != "whole" or not isinstance(people, int):
        return ()
    unit = schema.unit
    same = [f"The same in all rows of one {unit.protects}: {', '.join(unit.same_in_all_rows)}."]
    order = "in no order" if unit.ordered_by is None else f"in the order of {unit.ordered_by}"
    return (
        f"They belong to {people:,} {unit.plural}, whose '{unit.id_column}' is new and meaningless. The rows of one "
        f"{unit.protects}",
        f"lie together, {order}, and are at most {unit.rows_per_unit:,}.",
        *(same if unit.same_in_all_rows else ()),
        f"Every question was about each {unit.protects} once, and so are the numbers of the report: what belongs to",
        f"the {unit.protects}, one of their rows, and the row after it. So counts are of {unit.plural}, and so is the",
        f"answer to '{ROW_COUNT_QUERY}' in certificate.json.",
        f"Counts and estimates call by these names what else was asked about each {unit.protects}:",
        *(f"  {name:12} {words}" for name, words in _asked_besides(people_of(schema)).items()),
    )


def _asked_besides(people: People) -> dict[str, str]:
    """Return what the columns are that only the table of people has; those that stand for many once, of a column x."""
    alone = {one: people.title(one) for one in (people.count, people.place, people.gap) if one is not None}
    usual = {"usual.x": "a middle value of x in all rows, where x is a number"} if people.usual else {}
    return alone | usual | ({"next.x": "x in the next row"} if people.following else {})


def _the_columns(schema: Schema) -> tuple[str, ...]:
    """Return what the columns mean, of those whose owner says it."""
    if not schema.meanings:
        return ()
    return ("The columns", "-----------", *(f"{name}: {said}" for name, said in schema.meanings.items()), "")


def _found_files(certificate: Certificate, *, width: int) -> tuple[str, ...]:
    if certificate.found is None:
        return ()
    return (f"{'found.json, found.npz':{width}}what was found privately before the run, with its noisy answers",)


def _how_far_checks_go(certificate: Certificate) -> tuple[str, ...]:
    left = left_out(certificate.generator, predicted=certificate.predicts)
    head = ("What verify does not recompute", "------------------------------") if left else ()
    return (
        "Both need only this bundle and the program that wrote it (Hermitage, see 'versions' in certificate.json): no",
        "database, no account, no network. There are three outcomes: the bundle holds, it does not, or it could not be",
        "checked here, for example because another version or processor gives other last digits.",
        "Get KEY.pem from the owner: public-key.pem does not say whose it is.",
        "",
        "What no check can show",
        "----------------------",
        *(f"- {sentence}" for sentence in cannot_show(certificate.read_columns)),
        "",
        *head,
        *(f"- {sentence}" for sentence in left),
        *([""] if left else []),
    )


def _citation_text(certificate: Certificate) -> str:
    """Return CITATION.cff."""
    # JSON texts are YAML texts, so names with quotes or colons stay one value.
    title = json.dumps(_title(certificate), ensure_ascii=True)
    noun, what, made, keyword = (
        ("model", "model", f"Fitted by {certificate.generator}", "private model")
        if certificate.is_model
        else ("table", "synthetic table", f"{certificate.rows} rows by {certificate.generator}", "synthetic data")
    )
    abstract = json.dumps(
        f"Differentially private {what}: epsilon {certificate.epsilon:.6g}, delta {certificate.delta:.3g}, "
        f"protecting one {_protected(certificate)}. {made}.",
        ensure_ascii=True,
    )
    lines = [
        "cff-version: 1.2.0",
        f"message: Please cite this {noun} and its certificate when you use it.",
        "type: dataset",
        f"title: {title}",
        f"abstract: {abstract}",
        "authors:",
        "  - name: The owner of the private table",
        f"keywords: [{keyword}, differential privacy]",
        "",
    ]
    return "\n".join(lines)


def _protected(certificate: Certificate) -> str:
    return certificate.unit.protects if certificate.neighbours is not Neighbours.CELL else "cell of a table"
