"""The steps of a check, without limits in this process; :mod:`synth.bundle.verify` runs them in a limited one.

Run as a module it is the confined process: it writes what was found so far, as one JSON object a line.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from synth.bundle.answers import ENTRIES
from synth.bundle.archive import (
    Archive,
    canonical_json,
    canonical_line,
    linked_in,
    open_archive,
    parse_canonical,
    sha256_of,
)
from synth.bundle.certificate import (
    DECLARED,
    PROCESSOR,
    SOURCE,
    STATED,
    Certificate,
    certificate_from_bytes,
    config_of,
    fingerprint_of,
    hash_problems,
    is_public_key,
    promise,
    signature_problem,
)
from synth.bundle.fields import Check
from synth.bundle.finding import bears_finding, finding_problems, receipt_problems
from synth.bundle.linter import TEXT_FILES, LeakWords, lint_members
from synth.bundle.measurements import measurements_from_bytes, pairing_problems, row_count_problems
from synth.bundle.model_file import ModelCard, differing, model_from_bytes, model_to_json
from synth.bundle.recorded_session import Repeated
from synth.bundle.remaking import (
    Agreement,
    agreement_of_models,
    asked_again,
    device_again,
    differs_elsewhere,
    report_of,
    rows_again,
)
from synth.bundle.table_files import Places, check_csv, is_written_as, linked_files
from synth.bundle.verify import Findings, State, left_out
from synth.bundle.writer import sealed_config, written_texts
from synth.errors import MissingPackageError, PrivacyError, SynthError, UnknownFormatError, VerificationError
from synth.estimators import MODELS, DrawnRows, describe, make, restore
from synth.generators import GENERATORS, GeneratorTask, PrivateModel
from synth.generators.protocol import ReleasedModel
from synth.generators.whole_people import broken_structure
from synth.ledger.notes import NOTES
from synth.limits import NAME_CHARACTERS
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts, units_left_beside, worth_for_a_row
from synth.privacy.more.together import budgets_of
from synth.privacy.receipt import Receipt
from synth.reports.document import altered_evidence, owner_document
from synth.reports.evidence import (
    ChargedEvidence,
    Evidence,
    OwnerOnlyEvidence,
    evidence_from_dict,
    publishable,
)
from synth.reports.first_screen import TableRows, first_rows
from synth.reports.holdout import PREDICTION_QUERY, asks_about, model_question
from synth.reports.measured import EVALUATION_QUERY
from synth.schema import RunConfig, Schema, config_to_yaml, people_of, schema_from_document, schema_to_document
from synth.schema.constraints import unkept
from synth.schema.contradictions import problems_of_rules
from synth.schema.people_rules import about_people
from synth.schema.rule_lines import read_rules
from synth.system.confined import answers_alone, confine, memory_is_short
from synth.system.machine import is_device_name, is_lack_of_means, resolved_device
from synth.system.packages import missing_package

__all__ = ["check", "main"]

_RELATIVE = 1e-8
"""Two computers may differ in epsilon by this much; the accountant is exact to about 1e-12."""

_ROW_RELATIVE = 1e-4
"""The same for the row epsilon of noise on cells, which is searched for on a grid."""

_SPENT = 0.995
"""Smallest part of its budget that a run spends: generators spend all of it, up to a thousandth for no question.

A receipt that is missing, or states less than its question cost, leaves a part of the budget unspent.
"""

_SHARE = 1e-4
"""How far the cost of an answer may differ from its share, as a part of the budget."""

_DIGEST = re.compile("[0-9a-f]{64}")
_VERSION = re.compile(
    r"\d{1,4}(\.\d{1,4}){1,3}((a|b|rc)\d{1,2})?(\.post\d{1,2})?(\.dev\d{1,8})?(\+[a-z0-9.]{0,12})?", re.ASCII
)
_SOURCE = re.compile("[0-9a-f]{32}")
_PROCESSOR = re.compile(
    r"[a-z0-9_]{1,12}(-(avx512|avx2|sve|neon))?(-(intel|amd))?(-[A-Za-z0-9_]{1,16}){0,3}(-set[0-9a-f]{8})?",
    re.ASCII | re.IGNORECASE,
)
_MOST_CHARGES = 2**31
_MOST_STATED = 2**40
_MOST_SIGNS = 50
_LONGEST_RULE = 2_000

_BLOCK = 2**20

_LONGEST_LINE = 4_000
_MOST_LINES = 500

Tell = Callable[[Findings], None]


class _NotCheckedError(Exception):
    """A step that could not be completed here; the message says what it takes."""


@dataclass(frozen=True, slots=True)
class _Again:
    """A fit to the recorded answers, beside the sealed model; ``device`` is where it was fitted."""

    repeated: Repeated
    agreement: Agreement
    device: str


def check(
    path: Path | BinaryIO,
    *,
    expected_key: bytes | None = None,
    quick: bool = False,
    refit: bool = False,
    tell: Tell = lambda findings: None,
) -> Findings:
    """Check a bundle; a difference is a finding, never an exception.

    Parameters
    ----------
    path : Path or binary file
        A zip or a folder; the bytes of a zip.
    expected_key : bytes, optional
        PEM of the signer that is expected.
    quick, refit : bool
        As in :func:`synth.bundle.verify.verify`.
    tell : callable, optional
        Called with what was found when each step begins, and at the end.
    """
    findings = Findings()
    tell(findings)
    beside = path if isinstance(path, Path) and path.is_dir() and (path / "bundle.zip").is_file() else None
    try:
        with open_archive(path) as archive:
            _Check(archive, findings, expected_key, tell, quick=quick, refit=refit).run(beside)
    except UnknownFormatError as unknown:
        findings.end(findings.step, State.NOT_CHECKED, str(unknown))
    except SynthError as problem:
        findings.end(findings.step, State.FAILED, str(problem))
    except MemoryError:
        findings.end(findings.step, State.NOT_CHECKED, _too_much_memory(findings.step))
    except Exception:
        if memory_is_short():
            findings.end(findings.step, State.NOT_CHECKED, _too_much_memory(findings.step))
        else:  # of a library, on content that no honest bundle has
            damaged = f"{findings.step[0].upper()}{findings.step[1:]} cannot be checked: it is damaged."
            findings.end(findings.step, State.FAILED, damaged)
    findings.step = ""
    tell(findings)
    return findings


def _too_much_memory(step: str) -> str:
    return (
        f"{step[0].upper()}{step[1:]} could not be checked: that needs more memory than allowed. If you trust the "
        "source of this bundle, allow more memory: synth verify --memory."
    )


class _Check:
    """One check of one open bundle."""

    def __init__(
        self,
        archive: Archive,
        findings: Findings,
        expected_key: bytes | None,
        tell: Tell,
        *,
        quick: bool,
        refit: bool,
    ) -> None:
        self.archive, self.findings, self.expected_key, self.tell = archive, findings, expected_key, tell
        self.quick, self.refit = quick, refit
        self.codes: Places | None = None
        self.units: npt.NDArray[np.int64] | None = None
        self.drawn: DrawnRows | None = None
        self.fitted: PrivateModel | None = None

    def run(self, beside: Path | None) -> None:
        archive = self.archive
        data = archive.read("certificate.json")
        self._step(Check.SIGNATURE, lambda: self._signature(data))
        certificate = certificate_from_bytes(data)
        if certificate.is_model != ("model.json" in archive.members):
            raise VerificationError(
                "The certificate is about a table and the bundle holds a model, or the other way round."
            )
        self.findings.promised += promise(certificate)
        self.findings.facts |= _facts(certificate)
        self.findings.left = self._left(certificate)
        self._step(Check.EPSILON, lambda: _receipt_problems(certificate))
        self._step(Check.FORM, lambda: _statement_problems(certificate))
        self._step(Check.HASHES, lambda: hash_problems(archive, certificate))
        if beside is not None:
            signature = archive.read("certificate.json.sig"), archive.read("public-key.pem")
            self._step(Check.BESIDE, lambda: _beside_problems(beside, certificate, data, signature))
        self._begin("schema.json")
        schema = schema_from_document(parse_canonical(archive.read("schema.json"), name="schema.json"))
        self._begin("config.yaml")
        config = config_of(archive)
        self._step(Check.CONFIGURATION, lambda: _schema_problems(archive, certificate, schema, config))
        self._step(Check.BUDGET, lambda: _budget_problems(config, certificate))
        # A bundle without a finding, and without any mention of one, has no such line in its verdict.
        if bears_finding(archive, certificate, config):
            self._step(Check.FINDING, lambda: finding_problems(archive, certificate, config))
        if not certificate.is_model:
            self._step(Check.DOMAIN, lambda: self._table_problems(certificate, schema))
        # Like a finding: a bundle without two tables has no such line in its verdict.
        if schema.tables is not None or linked_in(archive.members):
            self._step(Check.LINKED, lambda: self._linked_problems(certificate, schema))
        if config.constraints and self.codes is None and not certificate.is_model:
            rules = "The rules between columns could not be checked: that needs every cell of synthetic.csv."
            self.findings.end(Check.RULES, State.NOT_CHECKED, rules)
        elif config.constraints:
            self._step(Check.RULES, lambda: self._rule_problems(config, of_people=False))
            if _has_rules_of_people(config):
                self._step(Check.RULES_OF_PEOPLE, lambda: self._rule_problems(config, of_people=True))
        self._step(
            Check.ANSWERS,
            lambda: self._answer_problems(certificate, config),
        )
        self._step(Check.MODEL, lambda: self._model_problems(certificate, config))
        if Check.MODEL in self.findings.checked:
            self._step(Check.ASSUMPTIONS, lambda: self._assumption_problems(certificate, config))
        if certificate.is_model:
            self._step(Check.TOLD, lambda: self._told_problems(certificate, config))
        report = Check.NUMBERS
        self._step(report, lambda: _report_problems(archive, certificate))
        if report in self.findings.checked:
            self._step(
                Check.FROM_ANSWERS,
                lambda: self._answered_problems(certificate, config),
            )
        if not self.quick and certificate.generator in (*MODELS, *GENERATORS):
            self._remake(certificate, config)
        self._step(
            Check.TEXTS,
            lambda: self._text_problems(certificate, config),
        )
        self._step(
            Check.LEAKS,
            lambda: _leak_problems(archive, schema),
        )
        if not (self.quick or self.refit or self.findings.failures) and self._fits_soon(certificate, config):
            self._fit_soon(certificate, config)

    def _left(self, certificate: Certificate, *, soon: bool = False, elsewhere: str = "") -> list[str]:
        """Return what this check leaves out; ``soon`` and ``elsewhere`` as in :func:`left_out`."""
        how = {"quick": self.quick, "refit": self.refit, "predicted": certificate.predicts, "soon": soon}
        return [*left_out(certificate.generator, **how, elsewhere=elsewhere)]

    def _remake(self, certificate: Certificate, config: RunConfig) -> None:
        """Make rows, report, questions and model again, as far as this check goes."""
        card = describe(certificate.generator)
        if self.refit or card.fits_at_once:
            self._step(
                Check.FIT,
                lambda: self._fit_problems(certificate, config),
                remakes=True,
            )
        elif card.asks_first:
            self._step(
                Check.QUESTIONS,
                lambda: self._question_problems(certificate, config),
                remakes=True,
            )
        if not certificate.is_model:
            self._step(
                Check.ROWS,
                lambda: self._drawn_problems(certificate, config),
                remakes=True,
            )
        self._step(
            Check.REPORT_OF_MODEL if certificate.is_model else Check.REPORT,
            lambda: self._reported_problems(certificate, config),
            remakes=True,
        )

    def _fits_soon(self, certificate: Certificate, config: RunConfig) -> bool:
        """Whether a fit that no check makes otherwise takes seconds; without sound answers it proves nothing."""
        if certificate.generator not in (*MODELS, *GENERATORS):
            return False
        card = describe(certificate.generator)
        if card.fits_at_once or card.asks_first or Check.ANSWERS not in self.findings.checked:
            return False
        try:
            answers = measurements_from_bytes(self.archive.read("measurements.npz")).answers
            return make(config.generator, GeneratorTask.of(config), config.options).fits_soon(answers)
        except SynthError:
            return False

    def _fit_soon(self, certificate: Certificate, config: RunConfig) -> None:
        """Fit again although nobody asked for it: last, so that it can be stopped without harm to the rest."""
        self.findings.is_extra = True
        before = len(self.findings.steps)
        self._step(Check.FIT, lambda: self._soon_problems(certificate, config), remakes=True)
        if len(self.findings.steps) > before:
            self.findings.left = self._left(certificate, soon=True)
        self.findings.is_extra = False

    def _begin(self, step: str) -> None:
        # Reported before anything is read: if this process has to be stopped, its last step is known.
        self.findings.step = step
        self.tell(self.findings)

    def _step(self, what: str, problems: Callable[[], Iterable[str]], *, remakes: bool = False) -> None:
        """Take one step; where it ``remakes`` something, an error of a library proves nothing about the bundle."""
        self._begin(f"the {what}")
        failures: list[str] = []
        lacks: list[str] = []
        try:
            # One at a time: problems found before a step stops are kept.
            for problem in problems():
                failures.append(problem)
        except _NotCheckedError as lack:
            lacks.append(str(lack))
        except MissingPackageError as lack:
            lacks.append(f"The {what}. {lack}")
        except SynthError as refusal:
            failures.append(str(refusal))
        except MemoryError:
            lacks.append(_too_much_memory(self.findings.step))
        except ImportError as lack:
            lacks.append(f"The {what}. {missing_package(lack) or 'A package is not installed here.'}")
        except Exception as error:
            if is_lack_of_means(error) or memory_is_short():
                lacks.append(_too_much_memory(self.findings.step))
            elif remakes:
                lacks.append(f"The {what}: making it again stopped with an error ({type(error).__name__}).")
            else:  # of a library, on content that no honest bundle has
                failures.append(f"The {what} cannot be checked: a value has the wrong type or is out of range.")
        if lacks and not failures and self.findings.is_extra:
            return  # what it was to show is among what is not recomputed
        state = State.FAILED if failures else State.NOT_CHECKED if lacks else State.PASSED
        self.findings.end(what, state, *(failures or lacks))

    def _signature(self, data: bytes) -> Iterator[str]:
        inside = self.archive.read("public-key.pem")
        self.findings.facts["fingerprint"] = fingerprint_of(inside)
        expected = self.expected_key
        unusable = expected is not None and not is_public_key(expected)
        given = None if unusable else expected
        problem = signature_problem(data, self.archive.read("certificate.json.sig"), inside, given)
        if problem is not None:
            yield problem
        elif unusable:
            raise _NotCheckedError(
                "The signer could not be checked: the public key that you gave is not an Ed25519 key in PEM format, "
                "which says nothing about the bundle. Give the file that the owner sent you, such as public-key.pem."
            )

    def _made_again(self, what: str, same: bool, certificate: Certificate) -> Iterator[str]:
        """Yield a problem if something that was made again differs, or say why that proves nothing here."""
        if same:
            return
        elsewhere = differs_elsewhere(certificate)
        if elsewhere:
            raise _NotCheckedError(
                f"{what}: made again here, it differs, and this computer is not like the one that made it. The "
                f"certificate states {elsewhere}. Check it with those."
            )
        yield f"{what} does not follow, byte for byte, from the rest of the bundle: it was altered."

    def _table_problems(self, certificate: Certificate, schema: Schema) -> Iterator[str]:
        with self.archive.open("synthetic.csv") as stream:
            printed = check_csv(stream, schema, rows=certificate.rows, keep=True)
        yield from printed.problems
        if printed.problems:
            return
        self.codes, self.units = printed.codes, printed.units
        if self.units is not None:
            for broken in broken_structure(self.codes, self.units, people_of(schema)):
                yield f"synthetic.csv: {broken}."
        del printed  # before all of it is written again
        for name, whose in (
            ("synthetic.csv", "its own cells and identifiers are"),
            ("synthetic.parquet", "the table of synthetic.csv is"),
        ):
            with self.archive.open(name) as stream:
                if not is_written_as(name, stream, self.codes, schema, certificate.seed, units=self.units):
                    yield f"{name} is not what {whose} written as: there is one form, to the byte."

    def _linked_problems(self, certificate: Certificate, schema: Schema) -> Iterator[str]:
        """Yield why the two tables are not those of ``synthetic.csv``, in which every key has its person."""
        due = linked_files(schema)
        if linked_in(self.archive.members) != due:
            yield "The bundle does not hold exactly the two tables that schema.json declares, as CSV and as Parquet."
        elif self.codes is None or Check.DOMAIN not in self.findings.checked:
            raise _NotCheckedError("The two tables could not be checked: that needs a sound synthetic.csv.")
        else:
            for name in due:
                with self.archive.open(name) as stream:
                    if not is_written_as(name, stream, self.codes, schema, certificate.seed, units=self.units):
                        yield f"{name} is not what synthetic.csv gives: there is one form, to the byte."

    def _rule_problems(self, config: RunConfig, *, of_people: bool) -> Iterator[str]:
        if self.codes is None:
            return
        rules = read_rules(config.constraints, config.schema)
        about = about_people(rules.rules, config.schema)
        asked = about if of_people else tuple(rule for rule in rules.rules if rule not in about)
        for broken in unkept(replace(rules, rules=asked), config.schema, self.codes, self.units):
            yield f"Not every row of synthetic.csv satisfies the rules in config.yaml: {broken}."

    def _sealed(self) -> PrivateModel:
        """Return the sealed model, restored once for all steps."""
        if self.fitted is None:
            card, state = model_from_bytes(self.archive.read("model.safetensors"))
            self.fitted = restore(card.generator, card.task, card.options, state)
        return self.fitted

    def _drawn(self, config: RunConfig) -> DrawnRows:
        """Return the rows that the sealed model draws, drawn once for all steps."""
        if self.drawn is None:
            self.drawn = rows_again(self._sealed(), config)
        return self.drawn

    def _told_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        if certificate.generator not in MODELS:
            return  # the check of the model has reported that
        fitted, card = self._sealed(), ModelCard.of(config)
        if not isinstance(fitted, ReleasedModel):
            raise TypeError
        data = self.archive.read("model.json")
        parse_canonical(data, name="model.json")
        for answer in measurements_from_bytes(self.archive.read("measurements.npz")).sums:
            if answer.query == PREDICTION_QUERY:
                own = model_question(fitted, config.asked).is_same(answer.feature_map)
                if not own and not differs_elsewhere(certificate):
                    yield "The charged predictions are not those of the model in this bundle, but of another predictor."
                else:
                    yield from self._made_again("The predictor in measurements.npz", own, certificate)
        yield from self._made_again("model.json", data == model_to_json(card, fitted), certificate)

    def _answer_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        found = measurements_from_bytes(self.archive.read("measurements.npz"))
        asked = config.asked
        yield from pairing_problems(found.answers, certificate.receipts)
        for answer in found.answers:
            yield from ENTRIES[type(answer)].problems(answer, asked.schema)
        yield from row_count_problems(found, asked.schema, holdout=config.holdout)
        for answer in found.sums:
            if answer.query == PREDICTION_QUERY and not asks_about(answer.feature_map, asked):
                yield "The charged predictions are not about the label and the groups in config.yaml."
        card = MODELS.get(certificate.generator) or GENERATORS.get(certificate.generator)
        own = "" if card is None else card.asks_as or f"{card.kind} {card.name}"
        asking = {own, "report", "number of rows"}
        of_answers = {
            one.sequence: answer.assumptions(asked.schema) for answer in found.answers for one in answer.receipts
        }
        for receipt in certificate.receipts:
            if receipt.sequence not in of_answers:
                continue  # said above
            leans_on = [*asked.schema.assumptions, *of_answers[receipt.sequence]]
            unsaid = [sentence for sentence in leans_on if sentence not in receipt.assumptions]
            yield from self._assumed(certificate, unsaid, f"The receipt of '{receipt.query}'")
            # Free text could hide a number from the private rows.
            strange = [sentence for sentence in receipt.assumptions if sentence not in leans_on]
            if strange:
                yield from self._strange(
                    certificate,
                    f"The receipt of '{receipt.query}' states an assumption that neither the schema nor its question "
                    f"gives: {strange[0]}",
                )
            if receipt.source not in asking:
                yield f"The receipt of '{receipt.query}' names a source that such a run does not have."

    def _strange(self, certificate: Certificate, problem: str) -> Iterator[str]:
        """Yield a problem with words; they may be those of another version."""
        elsewhere = differs_elsewhere(certificate)
        if elsewhere:
            raise _NotCheckedError(f"{problem} The certificate states {elsewhere}. Check it with those.")
        yield problem

    def _assumption_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        """Yield assumptions that the certificate leaves out, or that nothing gives: they are free text."""
        own = (*config.format.assumptions, *self._sealed().assumptions)
        of_receipts = [sentence for receipt in certificate.all_receipts for sentence in receipt.assumptions]
        unsaid = [sentence for sentence in own if sentence not in certificate.assumptions]
        yield from self._assumed(certificate, unsaid, "The certificate")
        notes = [sentence for sentence in certificate.assumptions if sentence in NOTES]
        due = dict.fromkeys((*own, *notes, *of_receipts))
        strange = [one for one in certificate.assumptions if one not in due]
        for one in strange:
            yield from self._strange(certificate, f"The certificate assumes what nothing in the bundle gives: {one}")
        if not strange and not unsaid and tuple(due) != certificate.assumptions:
            yield "The certificate lists its assumptions in another order than a run does, or one of them twice."

    def _assumed(self, certificate: Certificate, sentences: Sequence[str], where: str) -> Iterator[str]:
        """Add assumptions to the promise in the words of this version; another one may have used other words."""
        lines = [f"Assumed: {sentence}" for sentence in sentences if sentence not in certificate.assumptions]
        self.findings.promised += [line for line in lines if line not in self.findings.promised]
        if sentences and not differs_elsewhere(certificate):
            yield f"{where} leaves out an assumption: {sentences[0]}"
        elif sentences:
            raise _NotCheckedError(
                f"{where} words an assumption differently from this version: {sentences[0]} The certificate states "
                f"{differs_elsewhere(certificate)}. Check it with those."
            )

    def _answered_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        report = parse_canonical(self.archive.read("report.json"), name="report.json")
        known = measurements_from_bytes(self.archive.read("measurements.npz"))
        receipts = [receipt for answer in known.answers for receipt in answer.receipts]
        words = not differs_elsewhere(certificate)
        for title in altered_evidence(report, known.sums, receipts, config.asked, rows=known.rows, words=words):
            yield f"What report.json says under '{title}' does not follow from the noisy answers."

    def _model_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        card, state = model_from_bytes(self.archive.read("model.safetensors"))
        problems = list(_card_problems(card, certificate, config))
        yield from problems
        if problems:
            return
        try:
            needed = self._sealed().state()
        except (LookupError, RuntimeError, TypeError, ValueError) as error:  # one for each library that generators use
            if is_lack_of_means(error):
                raise
            needed = {}
        if needed.keys() != state.keys():
            yield "model.safetensors does not contain exactly the tensors of its model."
            return
        for name in differing(needed, state):
            yield f"model.safetensors contains other numbers in '{name}' than its model uses."

    def _question_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        """Yield differences between the recorded questions and those that the run asks."""
        known = measurements_from_bytes(self.archive.read("measurements.npz"))
        _, repeated = asked_again(known, config, device="cpu", fit=False)
        yield from self._repeated_problems(repeated, certificate, "cpu")

    def _repeated_problems(self, repeated: Repeated, certificate: Certificate, device: str) -> Iterator[str]:
        yield from (f"'{query}' was answered, but the run does not ask it." for query in sorted(repeated.left))
        elsewhere = differs_elsewhere(certificate, device=device)
        if repeated.differences and elsewhere:
            raise _NotCheckedError(
                f"{repeated.differences[0]} The certificate states {elsewhere}. Check it with those."
            )
        yield from repeated.differences

    def _fit_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        yield from self._fitted_problems(self._fitted_again(certificate, config), certificate)

    def _soon_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        """Yield what a fit shows that nobody asked for, as it takes seconds.

        Where the bundle was made elsewhere, last digits of a fit differ, and with them what is asked next. That proves
        nothing, and is no reason not to vouch for the rest: it is said among what was not recomputed. A model that is
        far from its answers fails everywhere.
        """
        device = resolved_device(device_again(certificate, config))
        elsewhere = differs_elsewhere(certificate, device=device)
        self.findings.left = self._left(certificate, elsewhere=elsewhere)
        try:
            again = self._fitted_again(certificate, config)
        except PrivacyError as refusal:
            if elsewhere:
                raise _NotCheckedError(str(refusal)) from None
            raise
        same = not (again.repeated.left or again.repeated.differences)
        if elsewhere and not (same and again.agreement.identical) and (not same or again.agreement.is_close):
            raise _NotCheckedError(again.agreement.sentence)
        yield from self._fitted_problems(again, certificate)

    def _fitted_again(self, certificate: Certificate, config: RunConfig) -> _Again:
        known = measurements_from_bytes(self.archive.read("measurements.npz"))
        device = device_again(certificate, config)
        fitted, repeated = asked_again(known, config, device=device, fit=True, trained=self.refit)
        if fitted is None:
            raise TypeError
        return _Again(repeated, agreement_of_models(fitted, self._sealed(), config), resolved_device(device))

    def _fitted_problems(self, again: _Again, certificate: Certificate) -> Iterator[str]:
        yield from self._repeated_problems(again.repeated, certificate, again.device)
        agreement = again.agreement
        if agreement.identical:
            return
        if agreement.is_close and (elsewhere := differs_elsewhere(certificate, device=again.device)):
            raise _NotCheckedError(f"{agreement.sentence} The certificate states {elsewhere}. Check it with those.")
        yield agreement.sentence

    def _drawn_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        drawn = self._drawn(config)
        same = self.codes is not None and _are_equal(drawn.codes, self.codes)
        same = same and (drawn.units is None or (self.units is not None and np.array_equal(drawn.units, self.units)))
        # Its last use, and of a large table much memory.
        self.codes = None
        if not same:
            with self.archive.open("synthetic.csv") as stream:
                same = is_written_as(
                    "synthetic.csv", stream, drawn.codes, config.schema, config.seed, units=drawn.units
                )
        yield from self._made_again("synthetic.csv", same, certificate)

    def _reported_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        known = measurements_from_bytes(self.archive.read("measurements.npz"))
        made = report_of(known, config, self._sealed(), self._drawn(config))
        yield from self._made_again("report.json", made == self.archive.read("report.json"), certificate)

    def _text_problems(self, certificate: Certificate, config: RunConfig) -> Iterator[str]:
        evidence = publishable(_evidence(self.archive))  # type: ignore[arg-type]  # owner-only ones are refused here
        rows: TableRows = ()
        if not certificate.is_model:
            with self.archive.open("synthetic.csv") as table:
                rows = first_rows(table)
        made = written_texts(certificate, config, evidence, rows)
        altered = [name for name, written in made.items() if self.archive.read(name) != written]
        yield from self._made_again(", ".join(altered), not altered, certificate)


def _are_equal(one: npt.NDArray[np.integer[Any]], other: npt.NDArray[np.integer[Any]]) -> bool:
    """Return whether two tables of codes are equal; compared by column, as a whole they take memory for all cells."""
    return one.shape == other.shape and all(map(np.array_equal, one.T, other.T))


def _facts(certificate: Certificate) -> dict[str, Any]:
    return {
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "neighbours": certificate.neighbours.value,
        "row_epsilon": certificate.row_epsilon,
        "not_covered": list(certificate.read_columns),
        "device": certificate.device,
        "elsewhere": differs_elsewhere(certificate),
    }


def _receipt_problems(certificate: Certificate) -> Iterable[str]:
    yield from receipt_problems(certificate.receipts, certificate, rows_per_unit=certificate.rows_asked)
    # Where it was computed on a computer like this one it is the same to the last bit.
    elsewhere = bool(differs_elsewhere(certificate))
    beside = budgets_of(certificate.previews, certificate.neighbours)
    recomputed = epsilon_of_receipts(certificate.all_receipts, certificate.delta, beside)
    if not abs(recomputed - certificate.epsilon) <= elsewhere * _RELATIVE * certificate.epsilon:
        yield f"The receipts compose to epsilon = {recomputed!r}; the certificate states {certificate.epsilon!r}."
    if certificate.row_epsilon is not None:
        of_row = worth_for_a_row(certificate.receipts, certificate.delta)
        if of_row is None or not abs(of_row - certificate.row_epsilon) <= elsewhere * _ROW_RELATIVE * of_row:
            yield (
                f"For a whole row the receipts compose to epsilon = {of_row or 0.0:.6g}; the certificate states "
                f"{certificate.row_epsilon:.6g}."
            )


def _beside_problems(
    folder: Path, certificate: Certificate, data: bytes, signature: tuple[bytes, bytes]
) -> Iterable[str]:
    due = {**certificate.files, "certificate.json": hashlib.sha256(data).hexdigest()}
    for name in due:
        loose = folder / name
        if loose.is_file():
            with loose.open("rb") as stream:
                if sha256_of(stream) != due[name]:
                    yield f"{name} next to the bundle differs from the one inside it."
    signed_here = folder / "certificate.json.sig", folder / "public-key.pem"
    if any(one.is_file() and one.read_bytes() not in signature for one in signed_here):
        yield "The signature or the key next to the bundle is not the one inside it."


def _statement_problems(certificate: Certificate) -> Iterator[str]:
    """Yield malformed statements that no check can recompute: free text could hide a number from the private rows."""
    ledger = certificate.ledger
    charges, head = ledger.get("charges"), ledger.get("head")
    stated_well = (
        len(ledger) == 2
        and type(charges) is int
        and 1 <= charges <= _MOST_CHARGES
        and isinstance(head, str)
        and _DIGEST.fullmatch(head)
    )
    if ledger and not stated_well:
        yield "The certificate states more about its ledger than the head and the number of charges."
    stated = certificate.versions.items()
    forms = {SOURCE: _SOURCE, PROCESSOR: _PROCESSOR}
    if not all(name in STATED and forms.get(name, _VERSION).fullmatch(version) for name, version in stated):
        yield "The certificate states the version of a package that no run uses, or text that is not a version."
    if not is_device_name(certificate.device):
        yield "The device in the certificate is neither a processor nor a graphics card."


def _schema_problems(archive: Archive, certificate: Certificate, schema: Schema, config: RunConfig) -> Iterable[str]:
    stated = (certificate.unit, certificate.neighbours, certificate.people)
    if (schema.unit, schema.neighbours, schema.people) != stated:
        yield "schema.json and the certificate state different units or neighbouring relations."
    unknown = set(certificate.domain_source) - {column.name for column in schema}
    if unknown or not {column.name for column in schema.modelled} <= set(certificate.domain_source):
        yield "The certificate does not state the source of the domain for exactly the declared columns."
    if not set(config.domain_source) <= {column.name for column in schema}:
        yield "config.yaml states the source of the domain of something that is not a column."
    for name, source in certificate.domain_source.items():
        if source != config.domain_source.get(name, DECLARED):
            yield f"The certificate says that the domain of '{name}' was {source}; config.yaml does not."
    if archive.read("schema.json") != canonical_json(schema_to_document(schema)):
        yield "schema.json is not written as it was sealed, or contains more than a schema."
    if schema_to_document(config.schema) != schema_to_document(schema):
        yield "config.yaml and schema.json declare different columns or units."
    try:
        sealed = sealed_config(config)
    except SynthError:  # a generator or an option that there is not, which other steps say
        sealed = config.sealed()
    if config != sealed:
        yield "config.yaml names a private table, or states more than a sealed configuration does."
    elif archive.read("config.yaml") != config_to_yaml(sealed).encode("utf-8"):
        yield "config.yaml contains a comment, or is not written as it was sealed."
    yield from _declared_problems(config, schema)
    run = (certificate.generator, canonical_line(certificate.options), certificate.seed)
    # People are made whole, so they may have more rows than asked for.
    rows = config.rows if config.schema.people != "whole" else max(config.rows, certificate.rows)
    if (config.account, rows) != (certificate.account, certificate.rows):
        yield "config.yaml and the certificate state different accounts or numbers of rows."
    if (config.generator, canonical_line(config.options), config.seed) != run:
        yield "config.yaml and the certificate state different generators, options or seeds."


def _declared_problems(config: RunConfig, schema: Schema) -> Iterator[str]:
    """Yield declarations that no table needs: they would have room for something else."""
    if not config.format.codec:
        yield "config.yaml declares an encoding that no table is read in."
    if max(config.format.skip_rows, config.people_at_most) >= _MOST_STATED:
        yield "config.yaml states a number that is larger than that of any table."
    form = config.format
    names = (config.account, schema.unit.protects, form.comment or "", form.sheet or "", *form.missing, *form.dates)
    if max(map(len, names)) > NAME_CHARACTERS or len(form.missing) > _MOST_SIGNS or len(form.dates) > _MOST_SIGNS:
        yield "The account, the unit or the table format has a longer name or more signs than one needs."
    if any(len(rule) > _LONGEST_RULE for rule in config.constraints):
        yield "A rule in config.yaml is longer than a rule."
    yield from filter(None, problems_of_rules(config.constraints, config.schema))


def _has_rules_of_people(config: RunConfig) -> bool:
    """Whether a rule is about more than a row; a line that cannot be read is found by another step."""
    try:
        return bool(about_people(read_rules(config.constraints, config.schema).rules, config.schema))
    except SynthError:
        return False


def _set_aside(budget: PrivacyBudget, receipts: Iterable[Receipt]) -> int:
    """Return the units of a budget that sampled runs leave unspent, because they take a part of delta instead."""
    delta = math.fsum(one.additive_delta for one in receipts if one.mechanism == "sampled_gaussian")
    if not 0 < delta < budget.delta / 2:  # no run sets aside so much
        return 0
    return budget.units - units_left_beside(budget, delta)


def _budget_problems(config: RunConfig, certificate: Certificate) -> Iterator[str]:
    """Yield a problem if the receipts do not compose to the budget of the run at its delta."""
    if config.delta != certificate.delta:
        yield f"config.yaml asks for delta = {config.delta:g}; the certificate states {certificate.delta:g}."
    if config.previews != certificate.previews:
        yield "config.yaml and the certificate state different previews before the run."
    # A finding and previews before the run were charged separately.
    alone = certificate.found is None and not certificate.previews
    own = certificate.epsilon if alone else epsilon_of_receipts(certificate.receipts, config.delta)
    if not own <= config.epsilon * (1 + _RELATIVE):
        yield (
            f"config.yaml allows epsilon = {config.epsilon:g}; the certificate states {own:.9g}, more than a run may "
            "spend."
        )
    spent = sum(receipt.units for receipt in certificate.receipts)
    budget = PrivacyBudget(config.epsilon, config.delta, certificate.neighbours)
    allowed = budget.units
    if spent < _SPENT * (allowed - _set_aside(budget, certificate.receipts)):
        yield (
            f"The receipts spend {spent / allowed:.1%} of the budget in config.yaml, but a run spends all of it: a "
            "receipt is missing, or states less than its question cost."
        )
    shares = {EVALUATION_QUERY: config.evaluation_share, PREDICTION_QUERY: config.prediction_share}
    for receipt in certificate.receipts:
        if bool(receipt.pure_units) != budget.is_pure or bool(receipt.mu_squared_units) == budget.is_pure:
            how = "in pure epsilon alone" if budget.is_pure else "in mu^2 alone"
            yield f"The receipt of '{receipt.query}' is not paid for {how}, as the budget in config.yaml is."
        share, of_holdout = shares.get(receipt.query), receipt.part == "holdout"
        if share is not None and not abs(receipt.units - share * allowed) <= _SHARE * allowed:
            yield (
                f"The receipt of '{receipt.query}' is {receipt.units / allowed:.3%} of the budget; "
                f"config.yaml gives it {share:.3%}."
            )
        if of_holdout != (receipt.query == PREDICTION_QUERY):
            yield f"The receipt of '{receipt.query}' is about the wrong part of the table for its question."
        if of_holdout and not (config.holdout and config.prediction_share):
            yield (
                f"The receipt of '{receipt.query}' is about held-out rows; config.yaml pays for no prediction of them."
            )


def _card_problems(card: ModelCard, certificate: Certificate, config: RunConfig) -> Iterator[str]:
    """Yield a problem if the model is not the certified one."""
    if not config.format.codec:
        yield "config.yaml declares an encoding that no table is read in."
    run = (certificate.generator, canonical_line(certificate.options), certificate.seed, certificate.is_model)
    if (card.generator, canonical_line(card.options), card.seed, card.is_model) != run:
        yield "model.safetensors was made with a different generator, options or seed from those certified."
    if canonical_json(schema_to_document(card.schema)) != canonical_json(schema_to_document(config.schema)):
        yield "model.safetensors belongs to a different schema."
    if card.label != config.label:
        yield "model.safetensors was fitted for a different label from the one in config.yaml."
    kind, known = ("model", MODELS) if card.is_model else ("generator", GENERATORS)
    if card.generator not in known:
        yield f"model.safetensors belongs to the {kind} '{card.generator}', which this program does not know."


def _evidence(archive: Archive) -> list[Evidence]:
    report = parse_canonical(archive.read("report.json"), name="report.json")
    return [evidence_from_dict(entry) for entry in report["evidence"]]


def _report_problems(archive: Archive, certificate: Certificate) -> Iterable[str]:
    evidence = _evidence(archive)
    paid = {receipt.sequence: receipt for receipt in certificate.receipts}
    for entry in evidence:
        if isinstance(entry, OwnerOnlyEvidence):
            yield f"report.json contains a number that must not be published: {entry.title}."
        elif isinstance(entry, ChargedEvidence) and not paid.keys() >= set(entry.receipts):
            yield f"report.json contains a charged number without its receipt: {entry.title}."
        elif isinstance(entry, ChargedEvidence):
            alone = epsilon_of_receipts([paid[sequence] for sequence in entry.receipts], certificate.delta)
            if not abs(alone - entry.epsilon) <= _RELATIVE * alone:
                yield f"report.json states an epsilon for a charged number, not that of its receipts: {entry.title}."
    if canonical_json(owner_document(evidence)) != archive.read("report.json"):
        yield "report.json contains more than its numbers, or marginals that are not among them."


def _leak_problems(archive: Archive, schema: Schema) -> Iterable[str]:
    # The names of the owner's machine are unknown here; paths, owner-only numbers and private counts can be found.
    texts = {name: archive.read(name) for name in TEXT_FILES if name in archive.members}
    return lint_members(texts, schema, LeakWords(names=()))


def main() -> int:
    """Check a bundle within the limits of a request, and report what was found.

    The request is one line on standard input. It names the bundle, or how many bytes of it follow.
    """
    answers = answers_alone()
    request = json.loads(sys.stdin.buffer.readline())
    confine(memory_bytes=request["memory_bytes"], cpu_seconds=request["cpu_seconds"])

    def tell(findings: Findings) -> None:
        told = findings.to_json()
        told |= {"promised": _shortened(told["promised"])}
        told |= {"steps": [{**step, "found": _shortened(step["found"])} for step in told["steps"]]}
        answers.write(json.dumps(told).encode("ascii") + b"\n")
        answers.flush()

    key = request["public_key"]
    bundle = _rest(sys.stdin.buffer, request["size"]) if request["path"] is None else Path(request["path"])
    expected = None if key is None else key.encode("latin-1")
    check(bundle, expected_key=expected, quick=request["quick"], refit=request["refit"], tell=tell)
    return 0


def _rest(questions: BinaryIO, size: int) -> BinaryIO:
    held = io.BytesIO()
    while block := questions.read(min(_BLOCK, size - held.tell())):
        held.write(block)
    return held


def _shortened(texts: Sequence[str]) -> list[str]:
    """Shorten what no honest bundle says, so that the verdict stays readable."""
    cut = [text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]} ..." for text in texts[:_MOST_LINES]]
    return cut if len(texts) <= _MOST_LINES else [*cut, f"... and {len(texts) - _MOST_LINES:,} more."]


if __name__ == "__main__":
    sys.exit(main())
