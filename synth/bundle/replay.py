"""A table or a model again from its bundle alone, or another generator on the same noisy answers, at no cost.

Rows are drawn again from the fitted generator. A model draws none, so it is fitted again to the answers.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from synth.bundle.archive import Archive, canonical_json, documents_agree, open_archive, parse_canonical, sha256_of
from synth.bundle.certificate import SOURCE, Certificate, certificate_of, config_of, current_versions
from synth.bundle.measurements import Measurements, measurements_from_bytes
from synth.bundle.model_file import (
    ModelCard,
    differing,
    model_from_bytes,
    model_to_bytes,
    model_to_json,
    restored_model,
    words_left_out,
)
from synth.bundle.recorded_session import DerivedSession, RecordedSession
from synth.bundle.table_files import read_table, write_parquet, write_table
from synth.errors import ConfigError, VerificationError
from synth.estimators import DrawnRows, drawn_rows, make, restore
from synth.generators import Generator, GeneratorTask, PrivateModel, State
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import RowCount
from synth.privacy.questions import Answer
from synth.progress import NullProgress, Progress
from synth.reports.code_tables import compare_marginals
from synth.reports.document import published_evidence, published_rows, report_document, without_words
from synth.schema import RunConfig
from synth.system.machine import device_name, is_lack_of_means, resolved_device

__all__ = ["Replay", "drawn_table", "replay", "saved_generator"]

_SHARE = 1e-4
"""Parts of the budget that differ by less agree. Costs are rounded to whole units and shares to floats, and the default
generator divides by a fitted model, whose last bits follow the processor and the version; rounds enlarge them."""

_OTHER_WORDS = "Its words are those of another version, so they were not compared."
_BUT_FOR_DIGITS = ", but for the last digits of some numbers, which another processor works out otherwise"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay made.

    Attributes
    ----------
    identical : bool
        Whether ``synthetic.csv`` is the certified one, byte for byte; where a model is released, whether every number
        of ``model.json`` and ``model.safetensors`` is, and byte for byte unless another version of this program wrote
        the words of ``model.json``.
    report_identical : bool, optional
        Whether ``report.json``, made again from the answers in the bundle, is the certified one: byte for byte, but for
        last digits of numbers, or but for its words where another version of this program wrote it (``lines`` says so).
        None where the answers of a table were fitted again.
    distance : float, optional
        Mean total variation over columns and pairs between the new table and the one of the bundle, where they differ.
    lines : tuple of str
        The same in words.
    costs_differ : tuple of str
        Where the answers were fitted again: one sentence for each receipt that states another part of the budget than
        the generator or model asks its question with.
    model_identical : bool, optional
        Where the generator of a table was fitted again by the very versions that sealed it: whether every number of its
        model is the certified one. None elsewhere.
    """

    identical: bool
    distance: float | None
    lines: tuple[str, ...]
    report_identical: bool | None = None
    costs_differ: tuple[str, ...] = ()
    model_identical: bool | None = None

    @property
    def as_certified(self) -> bool:
        """Whether everything that ought to be as certified is: of another generator another table may come."""
        if self.report_identical is None:
            return not self.costs_differ and self.model_identical is not False
        return self.identical and self.report_identical and not self.costs_differ


def replay(
    bundle: str | Path,
    out: str | Path,
    *,
    refit: bool = False,
    generator: str | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Make the table of a bundle again, or its model.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    out : path
        Folder for ``synthetic.csv``, ``synthetic.parquet`` and, where nothing is fitted again, ``report.json``; or for
        ``model.json`` and ``report.json``. Made if absent.
    refit : bool
        Fit the noisy answers again instead of sampling from what was saved; a model is fitted again in any case.
    generator : str, optional
        Fit another generator to the answers; implies ``refit``. Tables of counts that it asks for are worked out from
        those that were measured; it must need nothing else.
    progress : Progress, optional
        Told about fitting.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or its model is none that rows can be drawn from.
    PrivacyError
        If the generator asks a question that was never answered and follows from no answer.
    ConfigError
        If another generator is to be fitted to the answers of a model, or a model to those of a generator.
    """
    folder = Path(out)
    with _opened(bundle) as (archive, certificate, config, card, state):
        if config.is_model:
            if generator is not None:
                raise ConfigError(f"The bundle is of the model '{card.generator}': no rows follow from its answers.")
            return _model_again(archive, certificate, config, state, folder, progress=progress)
        again = refit or generator is not None
        costs_differ: tuple[str, ...] = ()
        device = _device_again(certificate, config)
        if again:
            fitted, costs_differ = _refitted(archive, certificate, config, generator, progress)
            drawn = drawn_rows(fitted, config)
        else:
            fitted, drawn = _drawn_from(card, device, state, config)
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / "synthetic.csv"
        write_table(drawn.codes, config.schema, written, folder / "synthetic.parquet", config.seed)
        with written.open("rb") as stream:
            identical = sha256_of(stream) == certificate.files.get("synthetic.csv")
        distance = None if identical else _distance(archive, written, config)
        report_identical, report_lines = None, tuple[str, ...]()
        if not again:
            _write_report(archive, config, drawn, fitted, folder / "report.json")
            report_identical, report_lines = _same_report(archive, certificate, folder / "report.json")
    model_identical, model_lines = None, tuple[str, ...]()
    if again and generator in (None, config.generator) and dict(certificate.versions) == current_versions():
        model_identical, model_lines = _same_model(fitted.state(), state)
    lines = _lines(identical, distance, generator or config.generator)
    other = () if identical and model_identical is not False else _other_device(certificate, device)
    lines = (*lines, *model_lines, *other, *report_lines, *costs_differ)
    return Replay(identical, distance, lines, report_identical, costs_differ, model_identical)


def drawn_table(bundle: str | Path, *, rows: int, seed: int) -> io.BytesIO:
    """Draw other rows from the generator of a bundle, which costs nothing; they are in no certificate.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    rows : int
        How many rows.
    seed : int
        Public; with as many rows as the certificate says, its seed draws the certified table.

    Returns
    -------
    file
        The rows as Parquet.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or its model is none that rows can be drawn from.
    ConfigError
        If it is of a model, or there cannot be so many rows.
    """
    with _opened(bundle) as (_, certificate, config, card, state):
        _require_rows(config)
        again = replace(config, rows=rows, seed=seed)
        if again.is_model:
            raise ConfigError("At least one row has to be drawn.")
        drawn = _drawn_from(card, _device_again(certificate, config), state, again)[1]
    made = io.BytesIO()
    write_parquet(drawn.codes, config.schema, made, seed)
    made.seek(0)
    return made


def saved_generator(bundle: str | Path) -> tuple[Generator, RunConfig, tuple[Answer, ...], float]:
    """Read the generator of a bundle, which draws its rows again.

    Parameters
    ----------
    bundle : path
        A zip or a folder.

    Returns
    -------
    fitted : Generator
    config : RunConfig
        As it was run.
    answers : tuple of Answer
        All that was answered.
    rows : float
        Private rows that were learnt from, as far as that may be known.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or its model is none that rows can be drawn from.
    ConfigError
        If it is of a model.
    """
    with _opened(bundle) as (archive, certificate, config, card, state):
        known = measurements_from_bytes(archive.read("measurements.npz"))
        _require_rows(config)
        rows = _rows_measured(known)
        fitted, _ = _drawn_from(card, _device_again(certificate, config), state, config)
    if not isinstance(fitted, Generator):
        raise ConfigError(f"From '{card.generator}' no rows are drawn.")
    return fitted, config, known.answers, rows.value


@contextmanager
def _opened(bundle: str | Path) -> Iterator[tuple[Archive, Certificate, RunConfig, ModelCard, State]]:
    """Open a bundle, and read what any replay needs of it."""
    with open_archive(Path(bundle)) as archive:
        card, state = model_from_bytes(archive.read("model.safetensors"))
        yield archive, certificate_of(archive), replace(config_of(archive), schema=card.schema), card, state


def _require_rows(config: RunConfig) -> None:
    if config.is_model:
        raise ConfigError(f"The bundle is of the model '{config.generator}', from which no rows are drawn.")


def _rows_measured(known: Measurements) -> RowCount:
    rows = known.rows or published_rows(known.sums)
    if rows is None:
        raise VerificationError("The bundle does not say how many rows were measured, so nothing can be fitted again.")
    return rows


def _drawn_from(card: ModelCard, device: str, state: State, config: RunConfig) -> tuple[PrivateModel, DrawnRows]:
    """Rebuild a saved generator, which a stranger may have written, and draw its rows."""
    try:
        fitted = restore(card.generator, replace(card.task, device=device), card.options, state)
        return fitted, drawn_rows(fitted, config)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:  # of what no fit leaves
        if is_lack_of_means(error):
            raise
        raise VerificationError(
            "No rows can be drawn from model.safetensors: it was altered or damaged. Ask for the bundle again."
        ) from None


def _same_model(ours: State, theirs: State) -> tuple[bool, tuple[str, ...]]:
    """Say whether a generator that was fitted again is the certified one, and where it is not."""
    away = [*sorted(ours.keys() ^ theirs.keys()), *differing(ours, theirs)]
    if not away:
        return True, ("model.safetensors holds what the noisy answers give, to the last bit.",)
    others = f" and {len(away) - 1} more tensors" if len(away) > 1 else ""
    return False, (
        f"model.safetensors does not hold what the noisy answers give: they differ in '{away[0]}'{others}. The bundle "
        "was altered, or another processor or number of threads than it was fitted with gives other last bits.",
    )


def _model_again(
    archive: Archive,
    certificate: Certificate,
    config: RunConfig,
    state: State,
    folder: Path,
    *,
    progress: Progress | None,
) -> Replay:
    """Fit a model to its answers again, and compare its tensors and what it tells."""
    fitted, costs_differ = _refitted(archive, certificate, config, None, progress)
    folder.mkdir(parents=True, exist_ok=True)
    again = fitted.state()
    card, written = model_from_bytes(model_to_bytes(ModelCard.of(config), again))
    told = model_to_json(card, restored_model(card, written))
    (folder / "model.json").write_bytes(told)
    certified = archive.read("model.json")
    # Another version of this program may have worded it otherwise; its numbers it may not have told otherwise.
    reworded = told != certified and not _by_this_program(certificate)
    same = words_left_out(told) == words_left_out(certified) if reworded else told == certified
    identical = same and again.keys() == state.keys() and not differing(again, state)
    _write_report(archive, config, drawn_rows(fitted, config), fitted, folder / "report.json")
    report_identical, report_lines = _same_report(archive, certificate, folder / "report.json")
    line = (
        f"model.json: every number is the certified one; the noisy answers were fitted again. {_OTHER_WORDS}"
        if identical and reworded
        else "model.json is the certified one, byte for byte: the noisy answers were fitted again."
        if identical
        else f"'{config.generator}', fitted again to the noisy answers, is another model than the certified one: the "
        "bundle was altered, or other versions of packages compute it otherwise (certificate.json names them)."
    )
    other = () if identical else _other_device(certificate, _device_again(certificate, config))
    lines = (line, *other, *report_lines, *costs_differ)
    return Replay(identical, None, lines, report_identical, costs_differ)


def _device_again(certificate: Certificate, config: RunConfig) -> str:
    """Return what to compute a bundle again on: where its certificate states a card, what its configuration asks for.

    The processor stands in for a card that is not there.
    """
    asked = "cpu" if certificate.device == "cpu" else config.device
    return "cpu" if asked == "cuda" and resolved_device("auto") == "cpu" else asked


def _other_device(certificate: Certificate, device: str) -> tuple[str, ...]:
    """Say that another device may be why bytes differ, where there is one."""
    here = device_name(resolved_device(device))
    if certificate.device == here:
        return ()
    return (
        f"It was computed on: {certificate.device}; here: {here}. Last digits depend on the device, and with them "
        "single rows: compare on the device that the certificate states.",
    )


def _write_report(archive: Archive, config: RunConfig, drawn: DrawnRows, fitted: PrivateModel, path: Path) -> None:
    """Make the report again from what the bundle holds."""
    known = measurements_from_bytes(archive.read("measurements.npz"))
    receipts = [receipt for answer in known.answers for receipt in answer.receipts]
    evidence = published_evidence(
        drawn.codes,
        known.sums,
        config,
        rows=known.rows,
        facts=(*fitted.facts(), *drawn.facts),
        pictures=fitted.pictures(),
        receipts=receipts,
    )
    path.write_bytes(canonical_json(report_document(evidence)))


def _same_report(archive: Archive, certificate: Certificate, path: Path) -> tuple[bool, tuple[str, ...]]:
    """Say whether a report made again is the certified one, and why.

    A report is compared byte for byte. Where bytes differ and all numbers agree within ``LAST_DIGITS``, it is the
    same: products of matrices have other last bits on other processors. Where the certificate does not state that this
    very program wrote it, all but the words is compared: they follow from the numbers.
    """
    made, certified = path.read_bytes(), archive.read("report.json")
    if made == certified:
        return True, ("report.json is the certified one, byte for byte, from the answers in the bundle.",)
    ours, stated = (parse_canonical(one, name="report.json") for one in (made, certified))
    if documents_agree(ours, stated):
        return True, (f"report.json is the certified one, from the answers in the bundle{_BUT_FOR_DIGITS}.",)
    if not _by_this_program(certificate):
        ours, stated = without_words(ours), without_words(stated)
        if documents_agree(ours, stated):
            digits = "" if ours == stated else _BUT_FOR_DIGITS
            line = (
                "report.json: every number is the certified one, worked out from the answers in the bundle"
                f"{digits}. {_OTHER_WORDS}"
            )
            return True, (line,)
    return False, ("report.json differs from the certified one; other versions of packages can be the reason.",)


def _by_this_program(certificate: Certificate) -> bool:
    """Whether the very files of this program sealed a bundle."""
    return certificate.versions.get(SOURCE) == current_versions()[SOURCE]


def _refitted(
    archive: Archive, certificate: Certificate, config: RunConfig, generator: str | None, progress: Progress | None
) -> tuple[PrivateModel, tuple[str, ...]]:
    known = measurements_from_bytes(archive.read("measurements.npz"))
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    other = generator is not None and generator != config.generator
    kind = DerivedSession if other else RecordedSession
    session = kind(config.schema, budget, rows=_rows_measured(known), answers=known.answers)
    task = GeneratorTask.of(config, device=_device_again(certificate, config))
    fresh = make(generator or config.generator, task, {} if other else config.options)
    if fresh.card.kind != ("model" if config.is_model else "generator"):
        raise ConfigError(f"'{fresh.card.name}' is a {fresh.card.kind}: the bundle holds another kind of release.")
    fitted = fresh.fit(session, progress or NullProgress())
    return fitted, () if other else tuple(_cost_problems(session.asked, known))


def _cost_problems(asked: Mapping[str, float], known: Measurements) -> Iterator[str]:
    """Yield where a receipt is another part of what the generator spent than the generator asked its question with.

    Noise cannot be seen in an answer, but a generator divides its budget by public rules: a receipt that was made
    cheaper afterwards stands out.
    """
    spent = {answer.query: sum(receipt.units for receipt in answer.receipts) for answer in known.answers}
    paid, whole = sum(spent[query] for query in asked), sum(asked.values())
    for query, share in asked.items():
        if abs(spent[query] / paid - share / whole) > _SHARE:
            yield (
                f"The receipt of '{query}' is {spent[query] / paid:.3%} of what the generator spent; the generator "
                f"gives this question {share / whole:.3%}. Its cost was altered, or another version divides the budget "
                "differently."
            )


def _distance(archive: Archive, written: Path, config: RunConfig) -> float:
    with archive.open("synthetic.csv") as original:
        tables = [read_table(table, config.schema) for table in (original, written)]
    columns = [[table[:, place] for place in range(table.shape[1])] for table in tables]
    found = compare_marginals(columns, config.schema, coarse=True, seed=config.seed)
    means = [found.by_alpha[alpha].means[0] for alpha in (1, 2)]
    return float(np.mean([mean for mean in means if mean is not None]))


def _lines(identical: bool, distance: float | None, generator: str) -> tuple[str, ...]:
    if identical:
        return ("synthetic.csv is the certified one, byte for byte.",)
    return (
        f"'{generator}' made another table than the certified one; nothing more was spent.",
        f"The two differ by {distance:.4f} in total variation, on average over columns and pairs "
        "(at most 32 public bins for numbers and dates).",
    )
