"""The texts of a bundle that follow from the rest of it: what it is, how to cite it, its report as a page."""

from __future__ import annotations

import json
from collections.abc import Sequence

from synth.bundle.certificate import Certificate, promise
from synth.names import visible
from synth.reports.evidence import Publishable
from synth.reports.page import report_page
from synth.schema import Neighbours, Schema

__all__ = ["CANNOT_SHOW", "LEFT_TO_REPLAY", "citation_text", "readme_text", "written_texts"]

CANNOT_SHOW = (
    "that the noise was really drawn from the stated law and at the stated scale, nor that a private choice was drawn "
    "with the stated parameter",
    "that the receipts are complete, so that no other question was asked of the rows",
    "which other candidates a private choice was made among: the chosen one alone is kept",
    "that the declared unit is true, so that nobody has more rows than stated under one id or under several",
    "that bounds and categories marked as declared were written down without looking at the rows",
    "what else the account has released: the head of its ledger is stated, not shown",
    "that words which the owner chose (the account, what is assumed, names of columns and questions) say nothing about "
    "single rows",
)
"""What no check of a bundle can establish; it rests on the program and on the owner's word."""

LEFT_TO_REPLAY = (
    "that synthetic.csv was drawn from the model and the numbers of report.json were worked out from the rows made and "
    "the noisy answers (synth replay makes both again)",
    "that the model was fitted to the noisy answers and to nothing else, that the questions are those that the "
    "generator asks, and that each answer cost the part of the budget that it asks it with (synth replay --refit fits "
    "it again)",
    "that the trees which predict held-out rows, where predictions were paid for, were trained on the rows made "
    "(replay takes them as they are)",
)
"""What verifying leaves to a replay, which takes longer."""


_MADE_BY_A_MODEL = (
    "The rows of synthetic.csv were drawn from a model that was fitted to noisy answers about a private table. None",
    "is a copy of a private row, though some may equal one by chance.",
)

_MADE_FROM_NOISY_ROWS = (
    "Every row of the private table was made noisy by itself; the rows of synthetic.csv are what smoothing made of",
    "those noisy rows, one for each, in another order. So the number of private rows can be seen.",
)


def written_texts(certificate: Certificate, schema: Schema, evidence: Sequence[Publishable]) -> dict[str, bytes]:
    """Write every file of a bundle that follows from its certificate, its schema and the numbers of its report.

    Parameters
    ----------
    certificate : Certificate
        With or without the hashes of files.
    schema : Schema
    evidence : sequence of Publishable
        What report.json holds.

    Returns
    -------
    dict
        Bytes by the name of the file.
    """
    page = report_page(evidence, heading=f"Synthetic table of {certificate.account}", promise=promise(certificate))
    return {
        "README.txt": readme_text(certificate, schema).encode("utf-8"),
        "CITATION.cff": citation_text(certificate).encode("utf-8"),
        "report.html": page.encode("utf-8"),
    }


def readme_text(certificate: Certificate, schema: Schema) -> str:
    """Write README.txt."""
    identifiers = schema.identifiers
    by_row = any(receipt.mechanism in ("gaussian_rows", "discrete_laplace") for receipt in certificate.receipts)
    lines = [
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
        *(
            []
            if by_row
            else ["The number of rows is the one that the owner asked for; it was not counted in the private table."]
        ),
        *([f"Freshly made, meaningless identifiers: {', '.join(identifiers)}."] if identifiers else []),
        "An empty cell is a missing value. An apostrophe before = + - @ keeps spreadsheets from reading a formula.",
        "",
        "The files",
        "---------",
        "synthetic.csv, synthetic.parquet   the table, the same rows twice",
        "schema.json                        what was declared public about the private table",
        "config.yaml                        the run; give it your own table to repeat it",
        "measurements.npz                   the noisy answers and the scale of their noise",
        "model.safetensors                  the fitted generator",
        "report.html, report.json           how accurate the table is, in publishable numbers",
        "certificate.json                   the promise with its receipts and the hashes of all files",
        "certificate.json.sig               its Ed25519 signature; public-key.pem is the key",
        "",
        "Check and remake",
        "----------------",
        "python -m synth verify bundle.zip --public-key KEY.pem     checks the promise, every file and every cell",
        "python -m synth replay bundle.zip --out FOLDER             makes synthetic.csv and report.json again",
        "Both need the program that wrote this bundle (Hermitage, see 'versions' in certificate.json) and the bundle:",
        "no database, no account, no network. With those versions every byte comes out the same; with others verify",
        "names the files that it did not compare. Get KEY.pem from the owner: public-key.pem does not say whose it is.",
        "",
        "What no check can show",
        "----------------------",
        *(f"- {sentence}" for sentence in CANNOT_SHOW),
        "",
        "What verify leaves to replay",
        "----------------------------",
        *(f"- {sentence}" for sentence in LEFT_TO_REPLAY),
        "",
        "How far to trust a count: see 'Columns' in report.html; small groups are mostly noise.",
        "",
    ]
    return "\n".join(map(visible, lines))


def citation_text(certificate: Certificate) -> str:
    """Write CITATION.cff."""
    # JSON texts are YAML texts, so names with quotes or colons stay one value.
    title = json.dumps(f"Synthetic table of {certificate.account}", ensure_ascii=True)
    abstract = json.dumps(
        f"Differentially private synthetic table: epsilon {certificate.epsilon:.6g}, delta {certificate.delta:.3g}, "
        f"protecting one {_protected(certificate)}. {certificate.rows} rows by {certificate.generator}.",
        ensure_ascii=True,
    )
    lines = [
        "cff-version: 1.2.0",
        "message: Please name this table and its certificate when you use it.",
        "type: dataset",
        f"title: {title}",
        f"abstract: {abstract}",
        "authors:",
        "  - name: The owner of the private table",
        "keywords: [synthetic data, differential privacy]",
        "",
    ]
    return "\n".join(lines)


def _protected(certificate: Certificate) -> str:
    return certificate.unit.protects if certificate.neighbours is not Neighbours.CELL else "cell of a table"
