"""What a check recomputes: every field of a bundle, from what and in which step; and what is only stated.

``synth verify --explain`` and ``docs/what-verify-checks.md`` print this table. A field that is in no entry fails a
test (``tests/bundle/test_fields.py``), so nothing enters a bundle without a decision.
"""

# ruff: noqa: E501 - the table has one line for each entry
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["FIELDS", "Check", "Field", "explained", "explained_as_markdown", "field_of", "stated_only"]


class Check(StrEnum):
    """The steps of a check, by the words of the verdict."""

    SIGNATURE = "signature"
    EPSILON = "epsilon recomputed from the receipts"
    FORM = "form of the stated ledger, versions and device"
    HASHES = "hash of every file"
    BESIDE = "files next to the bundle"
    CONFIGURATION = "schema and configuration"
    BUDGET = "budget of the configuration"
    FINDING = "private finding: questions, shares, threshold, texts, columns"
    DOMAIN = "domain of every cell"
    LINKED = "two tables, written again from synthetic.csv: their keys fit, and nobody is missing from the first"
    RULES = "rules between columns in every row"
    RULES_OF_PEOPLE = "rules about people, in every row and in every pair of a row and the next"
    ANSWERS = "receipts and sensitivities of the noisy answers"
    MODEL = "contents of the model file"
    ASSUMPTIONS = "assumptions, from the declarations, the receipts and the model"
    TOLD = "model.json, made again from the sealed model"
    NUMBERS = "kind and receipts of every number in the report"
    FROM_ANSWERS = "numbers in the report that follow from the noisy answers alone"
    QUESTIONS = "questions, their order, shares and receipts, as the generator asks them"
    FIT = "questions, their order, shares and receipts, and the model, fitted to the noisy answers again"
    ROWS = "synthetic.csv, drawn again from the sealed model"
    REPORT = "report.json, made again from the answers and the drawn rows"
    REPORT_OF_MODEL = "report.json, made again from the answers and the sealed model"
    TEXTS = "README.txt, CITATION.cff and report.html, made again from the rest"
    LEAKS = "absence of paths, owner-only numbers and private counts in the texts"


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of the table.

    Attributes
    ----------
    file : str
        Name of the file.
    path : str
        Keys joined by dots; ``[]`` is any entry of a list, ``*`` any key, and ``**`` at the end everything below. Empty
        for the file itself.
    what : str
        What it says; where it is only stated, what a reader has to believe.
    source : str
        What it is recomputed from or compared with; empty where it is only stated.
    steps : tuple of Check
        The steps that do so; empty where it is only stated. Several where it depends on the generator or the command.
    """

    file: str
    path: str
    what: str
    source: str = ""
    steps: tuple[Check, ...] = ()

    @property
    def place(self) -> str:
        """The file and the path."""
        return f"{self.file}: {self.path}" if self.path else self.file

    def covers(self, file: str, path: str) -> bool:
        """Whether a path of a file belongs to this entry."""
        whole = self.path == "**"
        parts = re.split(r"(\[\]|\*\*|\*)", self.path)
        meant = {"[]": r"\[\]", "*": r"(?:(?!\[\]).)+", "**": r".*"}
        pattern = "".join(meant.get(part, re.escape(part)) for part in parts)
        if self.path.endswith(".**"):
            pattern = pattern.removesuffix(r"\..*") + r"(?:[.\[].*)?"
        return file == self.file and (whole or re.fullmatch(pattern, path) is not None)


_ASKED = (Check.QUESTIONS, Check.FIT)
_PAID = (Check.EPSILON, Check.ANSWERS, *_ASKED)
_COPIED = (Check.CONFIGURATION, Check.MODEL)
_COPIES = "its copies in certificate.json, config.yaml, schema.json and model.safetensors"

_CERTIFICATE = "certificate.json"
_CONFIG = "config.yaml"
_ANSWERS = "measurements.npz"
_FOUND = "found.npz"


FIELDS: tuple[Field, ...] = (
    # The certificate
    Field(_CERTIFICATE, "version", "format of the bundle", "this program", (Check.SIGNATURE,)),
    Field(_CERTIFICATE, "epsilon", "the promise", "all receipts, at delta", (Check.EPSILON,)),
    Field(_CERTIFICATE, "delta", "the promise", "config.yaml", (Check.BUDGET,)),
    Field(_CERTIFICATE, "row_epsilon", "the promise for a whole row", "all receipts", (Check.EPSILON,)),
    Field(_CERTIFICATE, "neighbours", "the change that is hidden", "schema.json and all receipts", (Check.CONFIGURATION, Check.EPSILON)),
    Field(_CERTIFICATE, "unit.**", "who is protected", "schema.json and all receipts", (Check.CONFIGURATION, Check.EPSILON)),
    Field(_CERTIFICATE, "people", "whether people keep all of their rows, and receipts are about one row for each", "schema.json and all receipts", (Check.CONFIGURATION, Check.EPSILON)),
    Field(_CERTIFICATE, "generator", "what drew the rows", "config.yaml and model.safetensors", _COPIED),
    Field(_CERTIFICATE, "model", "the released model", "config.yaml and model.safetensors", _COPIED),
    Field(_CERTIFICATE, "options.**", "its options", "config.yaml, model.safetensors and the questions", (Check.CONFIGURATION, Check.MODEL, Check.QUESTIONS, Check.FIT)),
    Field(_CERTIFICATE, "rows", "number of synthetic rows", "the rows drawn again", (Check.DOMAIN, Check.ROWS)),
    Field(_CERTIFICATE, "seed", "the public seed", "the rows drawn again", (Check.ROWS,)),
    Field(_CERTIFICATE, "receipts[].**", "what each answer cost", "its question, its share of the budget and schema.json", _PAID),
    Field(_CERTIFICATE, "assumptions[]", "what must be true for the promise to hold", "the declarations, the receipts and the model", (Check.ASSUMPTIONS,)),
    Field(_CERTIFICATE, "files.*", "hashes", "the files", (Check.HASHES,)),
    Field(_CERTIFICATE, "found.**", "what a finding before the run cost", "found.json", (Check.FINDING,)),
    Field(_CERTIFICATE, "previews[].epsilon", "what a preview before the run was charged, which epsilon includes", "config.yaml and epsilon", (Check.EPSILON, Check.BUDGET)),
    Field(_CERTIFICATE, "previews[].delta", "what a preview before the run was charged, which epsilon includes", "config.yaml and epsilon", (Check.EPSILON, Check.BUDGET)),
    Field(_CERTIFICATE, "previews[].id", "the number of a preview in the account's ledger, and that there were no others"),
    Field(_CERTIFICATE, "account", "the account that was charged, as its owner called it"),
    Field(_CERTIFICATE, "domain_source.*", "where bounds and categories come from: declared, or read from the rows"),
    Field(_CERTIFICATE, "versions.*", "versions and the kind of processor that made the bundle"),
    Field(_CERTIFICATE, "device", "the device that fitted the model"),
    Field(_CERTIFICATE, "ledger.*", "the head of the account's ledger and its number of charges"),
    Field("certificate.json.sig", "", "the signature", "certificate.json and the key", (Check.SIGNATURE,)),
    Field("public-key.pem", "", "the key", "the reader's own copy of the owner's key", (Check.SIGNATURE,)),
    # The configuration
    Field(_CONFIG, "account", "the account", "certificate.json", (Check.CONFIGURATION,)),
    Field(_CONFIG, "unit.**", "who is protected", _COPIES, _COPIED),
    Field(_CONFIG, "row_count", "whether the number of people is public, as declared", _COPIES, _COPIED),
    Field(_CONFIG, "protection", "whether rows or single cells are protected", _COPIES, _COPIED),
    Field(_CONFIG, "cell_change", "how far one cell may change, as declared", _COPIES, _COPIED),
    Field(_CONFIG, "columns.**", "what is declared about each column", _COPIES, _COPIED),
    Field(_CONFIG, "tables.**", "the names of two tables that belong together, and their key", "schema.json and model.safetensors", _COPIED),
    Field(_CONFIG, "number_of_units", "the public number of people, as declared", "the number of rows in measurements.npz, where that follows from it, and its copies", (Check.ANSWERS, *_COPIED)),
    Field(_CONFIG, "budget.epsilon", "the budget of the run", "the receipts", (Check.BUDGET, Check.QUESTIONS, Check.FIT)),
    Field(_CONFIG, "evaluation_share", "the share of the report; the usual one, or 0, where nothing is asked for the report", "the receipts and the questions", (Check.CONFIGURATION, Check.BUDGET, Check.QUESTIONS, Check.FIT)),
    Field(_CONFIG, "prediction_share", "the share of charged predictions", "the receipts", (Check.BUDGET, Check.QUESTIONS, Check.FIT)),
    Field(_CONFIG, "budget.delta", "the budget of the run", "certificate.json", (Check.BUDGET,)),
    Field(_CONFIG, "generator.**", "the generator and its options", "certificate.json and model.safetensors", _COPIED),
    Field(_CONFIG, "model.**", "the model and its options", "certificate.json and model.safetensors", _COPIED),
    Field(_CONFIG, "rows", "number of synthetic rows", "certificate.json and the rows drawn again", (Check.CONFIGURATION, Check.ROWS)),
    Field(_CONFIG, "people", "the number of synthetic people, or that each row is one", "the rows drawn again, and schema.json", (Check.CONFIGURATION, Check.ROWS)),
    Field(_CONFIG, "seed", "the public seed", "certificate.json and the rows drawn again", (Check.CONFIGURATION, Check.ROWS)),
    Field(_CONFIG, "label", "the column to predict", "model.safetensors", (Check.MODEL,)),
    Field(_CONFIG, "groups[]", "columns whose groups are compared", "report.json", (Check.REPORT, Check.REPORT_OF_MODEL)),
    Field(_CONFIG, "rules[]", "rules between columns", "the rows drawn again and repaired", (Check.RULES, Check.RULES_OF_PEOPLE, Check.ROWS)),
    Field(_CONFIG, "domain_source.*", "where bounds and categories come from", "certificate.json", (Check.CONFIGURATION, Check.FINDING)),
    Field(_CONFIG, "found.**", "what a finding cost", "found.json", (Check.FINDING,)),
    Field(_CONFIG, "previews[].**", "what previews before the run were charged", "certificate.json", (Check.BUDGET,)),
    Field(_CONFIG, "format.**", "how the private table was written"),
    Field(_CONFIG, "people_at_most", "the most people there may be, as declared"),
    Field(_CONFIG, "holdout", "the part of the people that was held out"),
    Field(_CONFIG, "device", "the device that was asked for"),
    Field(_CONFIG, "undeclared", "what was done with undeclared columns of the table"),
    Field("schema.json", "**", "what is declared", "config.yaml", (Check.CONFIGURATION,)),
    # The answers
    Field(_ANSWERS, "format", "format of the file", "this program", (Check.ANSWERS,)),
    Field(_ANSWERS, "rows.**", "the number of private rows, public or noisy", "the answer that counted them, or schema.json", (Check.ANSWERS,)),
    Field(_ANSWERS, "*[].receipt.**", "what an answer cost", "certificate.json and the question", _PAID),
    Field(_ANSWERS, "row_releases[].receipts[].**", "what noisy rows cost", "certificate.json and the question", _PAID),
    Field(_ANSWERS, "releases[].noise_scale", "the noise of a sum", "its receipt", (Check.ANSWERS,)),
    Field(_ANSWERS, "releases[].question.**", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "releases[].tables.**", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "row_releases[].label", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "row_releases[].noise", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "row_releases[].question[].**", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "row_releases[].tables[].**", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "selections[].columns[]", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "selections[].table", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "selections[].bins[].**", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "selections[].weight", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "selections[].score", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "selections[].sizes[]", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "selections[].penalty", "the chosen candidate", "the candidates that the generator offers", _ASKED),
    Field(_ANSWERS, "gradients[].parameters", "where a gradient was taken", "the answers before it", _ASKED),
    Field(_ANSWERS, "gradients[].clip", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].loss", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].features.**", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].target.**", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].tables.**", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].step.**", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].columns[].**", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "gradients[].scales", "what was asked", "what the model asks", _ASKED),
    Field(_ANSWERS, "steps[].kind", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "steps[].question.**", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "steps[].tables.**", "what was asked", "what the generator asks", _ASKED),
    Field(_ANSWERS, "releases[].answer", "the noisy sums"),
    Field(_ANSWERS, "selections[].index", "what was chosen privately"),
    Field(_ANSWERS, "row_releases[].numbers", "the noisy rows"),
    Field(_ANSWERS, "row_releases[].labels", "the labels of the noisy rows"),
    Field(_ANSWERS, "gradients[].answer", "the noisy gradients and steps"),
    Field(_ANSWERS, "steps[].answer", "the noisy steps of a training"),
    # A finding
    Field("found.json", "version", "format of the file", "this program", (Check.FINDING,)),
    Field("found.json", "account", "the account that was charged", "certificate.json", (Check.FINDING,)),
    Field("found.json", "epsilon", "what was asked for", "its receipts and certificate.json", (Check.FINDING,)),
    Field("found.json", "delta", "what was asked for", "its receipts and certificate.json", (Check.FINDING,)),
    Field("found.json", "receipts[].**", "what each answer cost", "the finding, made again from its budget and its answers", (Check.FINDING,)),
    Field("found.json", "schema.**", "who is protected, and which columns were asked about", "certificate.json and the questions", (Check.FINDING,)),
    Field("found.json", "answers", "hash of found.npz", "found.npz", (Check.FINDING,)),
    Field("found.json", "columns.**", "what was concluded", "found.npz, by the public rule", (Check.FINDING,)),
    Field("found.json", "cells.**", "which texts meant a missing cell, and whether blanks around a text were left out"),
    Field(_FOUND, "format", "format of the file", "this program", (Check.FINDING,)),
    Field(_FOUND, "rows.**", "nothing: a finding counts no rows", "this program", (Check.FINDING,)),
    Field(_FOUND, "*[].receipt.**", "what an answer cost", "found.json and the question", (Check.FINDING,)),
    Field(_FOUND, "releases[].noise_scale", "the noise of a count", "its receipt", (Check.FINDING,)),
    Field(_FOUND, "releases[].question.**", "what was asked", "found.json and the answers before it", (Check.FINDING,)),
    Field(_FOUND, "releases[].tables.**", "what was asked", "found.json and the answers before it", (Check.FINDING,)),
    Field(_FOUND, "values[].columns[]", "what was asked", "found.json and the answers before it", (Check.FINDING,)),
    Field(_FOUND, "values[].delta_key", "what was asked", "found.json", (Check.FINDING,)),
    Field(_FOUND, "values[].threshold", "from which count a text is released", "the receipt and schema.json", (Check.FINDING,)),
    Field(_FOUND, "releases[].answer", "the noisy counts of kinds and bounds"),
    Field(_FOUND, "values[].values[][]", "the texts that were found"),
    Field(_FOUND, "values[].counts", "their noisy counts"),
    # What follows from all of that
    Field("model.safetensors", "**", "what made the model: generator, options, schema, label and seed", "certificate.json and config.yaml", (Check.MODEL,)),
    Field("model.safetensors", "", "the tensors of the model", "the noisy answers, fitted again (where that takes seconds, or with --refit)", (Check.MODEL, Check.FIT)),
    Field("model.json", "**", "the released model in plain numbers", "model.safetensors", (Check.TOLD,)),
    Field("synthetic.csv", "", "the rows", "model.safetensors and the seed", (Check.DOMAIN, Check.ROWS)),
    Field("synthetic.parquet", "", "the rows", "synthetic.csv", (Check.DOMAIN,)),
    Field("TABLE.csv", "", "each of two tables that belong together, under its own name", "synthetic.csv", (Check.LINKED,)),
    Field("TABLE.parquet", "", "each of two tables that belong together, under its own name", "synthetic.csv", (Check.LINKED,)),
    Field("report.json", "**", "the report", "the answers, the model and the rows", (Check.NUMBERS, Check.REPORT, Check.REPORT_OF_MODEL)),
    Field("report.html", "", "the report as a page", "report.json, certificate.json and the first rows", (Check.TEXTS,)),
    Field("README.txt", "", "the bundle in words", "certificate.json, schema.json and report.json", (Check.TEXTS,)),
    Field("CITATION.cff", "", "how to cite it", "certificate.json", (Check.TEXTS,)),
)  # fmt: skip
"""Every field of every file, by file in the order of a reader."""


def field_of(file: str, path: str) -> tuple[Field, ...]:
    """Return the entries that a field belongs to: exactly one, or the table is wrong.

    Parameters
    ----------
    file : str
        Name of the file in the bundle.
    path : str
        As in :class:`Field`, with ``[]`` for entries of lists.
    """
    return tuple(one for one in FIELDS if one.path and one.covers(file, path))


def stated_only() -> tuple[Field, ...]:
    """Return the fields that no check recomputes."""
    return tuple(one for one in FIELDS if not one.steps)


def explained() -> Iterator[str]:
    """Yield the table in lines of text: what is recomputed, from what and by which step; then what is only stated."""
    yield "Recomputed, and compared to the byte where nothing else is said:"
    yield from (f"  {one.place}: {one.what}; from {one.source} ({_steps(one)})" for one in FIELDS if one.steps)
    yield "Only stated, which no check can show:"
    yield from (f"  {one.place}: {one.what}" for one in stated_only())


def explained_as_markdown() -> str:
    """Return the same as two tables in Markdown."""
    rows = [f"| `{one.place}` | {one.what} | {one.source} | {_steps(one)} |" for one in FIELDS if one.steps]
    stated = [f"| `{one.place}` | {one.what} |" for one in stated_only()]
    head = ["| field | what it says | recomputed from | step |", "|---|---|---|---|"]
    other = ["| field | what you have to believe |", "|---|---|"]
    return "\n".join([*head, *rows, "", "## Only stated", "", *other, *stated, ""])


def _steps(one: Field) -> str:
    return "; ".join(one.steps)
