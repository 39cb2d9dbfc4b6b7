"""Reproduce a table or a model from its bundle alone, or fit another generator to the same noisy answers, for free.

Rows are drawn again from the fitted generator. A model draws no rows, so it is fitted again to the answers.
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
"""Shares of the budget that differ by less agree. Costs are rounded to whole units and shares to floats. The default
generator divides its budget by a fitted model, whose last bits depend on processor and version and grow each round."""

_OTHER_WORDS = "Another version wrote its words, so they were not compared."
_BUT_FOR_DIGITS = ", up to the last digits of some numbers, which depend on the processor"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay made.

    Attributes
    ----------
    identical : bool
        Whether ``synthetic.csv`` is the certified one, byte for byte. Where a model is released: whether all numbers in
        ``model.json`` and ``model.safetensors`` are, and all bytes unless another version of this program wrote the
        words in ``model.json``.
    report_identical : bool, optional
        Whether ``report.json``, recomputed from the answers in the bundle, is the certified one: byte for byte, up to
        last digits of numbers, or up to its words if another version of this program wrote it (``lines`` says which).
        None if the answers of a table were fitted again.
    distance : float, optional
        Mean total variation over columns and pairs between the new table and the one in the bundle, if they differ.
    lines : tuple of str
        The same in words.
    costs_differ : tuple of str
        If the answers were fitted again: one sentence for each receipt whose share of the budget is not the one that
        the generator or model gives its question.
    model_identical : bool, optional
        If the generator of a table was fitted again with the versions that sealed it: whether every number of its model
        is the certified one. None otherwise.
    """

    identical: bool
    distance: float | None
    lines: tuple[str, ...]
    report_identical: bool | None = None
    costs_differ: tuple[str, ...] = ()
    model_identical: bool | None = None

    @property
    def as_certified(self) -> bool:
        """Whether everything is as certified that should be; another generator may make another table."""
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
    """Reproduce the table of a bundle, or its model.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    out : path
        Folder for ``synthetic.csv``, ``synthetic.parquet`` and, unless the answers are fitted again, ``report.json``;
        or for ``model.json`` and ``report.json``. Created if it does not exist.
    refit : bool
        Fit the noisy answers again instead of sampling from the saved generator; a model is always fitted again.
    generator : str, optional
        Fit another generator to the answers; implies ``refit``. Tables of counts that it asks for are derived from
        those that were measured; it must need nothing else.
    progress : Progress, optional
        Reports on fitting.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or no rows can be drawn from its model.
    PrivacyError
        If the generator asks a question that was not answered and does not follow from any answer.
    ConfigError
        If another generator were to be fitted to the answers of a model, or a model to those of a generator.
    """
    folder = Path(out)
    with _opened(bundle) as (archive, certificate, config, card, state):
        if config.is_model:
            if generator is not None:
                raise ConfigError(
                    f"This is the bundle of the model '{card.generator}': no generator can be fitted to its answers."
                )
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
    """Draw other rows from the generator of a bundle, for free; no certificate covers them.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    rows : int
        How many rows.
    seed : int
        Public. The seed and the number of rows in the certificate give the certified table.

    Returns
    -------
    file
        The rows as Parquet.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or no rows can be drawn from its model.
    ConfigError
        If it is the bundle of a model, or there cannot be so many rows.
    """
    with _opened(bundle) as (_, certificate, config, card, state):
        _require_rows(config)
        again = replace(config, rows=rows, seed=seed)
        if again.is_model:
            raise ConfigError("Draw at least one row.")
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
        Of the run.
    answers : tuple of Answer
        All noisy answers.
    rows : float
        The number of private rows that the answers are about, public or noisy.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or no rows can be drawn from its model.
    ConfigError
        If it is the bundle of a model.
    """
    with _opened(bundle) as (archive, certificate, config, card, state):
        known = measurements_from_bytes(archive.read("measurements.npz"))
        _require_rows(config)
        rows = _rows_measured(known)
        fitted, _ = _drawn_from(card, _device_again(certificate, config), state, config)
    if not isinstance(fitted, Generator):
        raise ConfigError(f"'{card.generator}' draws no rows.")
    return fitted, config, known.answers, rows.value


@contextmanager
def _opened(bundle: str | Path) -> Iterator[tuple[Archive, Certificate, RunConfig, ModelCard, State]]:
    """Open a bundle, and read what every replay needs from it."""
    with open_archive(Path(bundle)) as archive:
        card, state = model_from_bytes(archive.read("model.safetensors"))
        yield archive, certificate_of(archive), replace(config_of(archive), schema=card.schema), card, state


def _require_rows(config: RunConfig) -> None:
    if config.is_model:
        raise ConfigError(f"This is the bundle of the model '{config.generator}', which draws no rows.")


def _rows_measured(known: Measurements) -> RowCount:
    rows = known.rows or published_rows(known.sums)
    if rows is None:
        raise VerificationError(
            "The bundle does not say how many rows were measured, so the answers cannot be fitted again."
        )
    return rows


def _drawn_from(card: ModelCard, device: str, state: State, config: RunConfig) -> tuple[PrivateModel, DrawnRows]:
    """Rebuild a saved generator, which is untrusted, and draw its rows."""
    try:
        fitted = restore(card.generator, replace(card.task, device=device), card.options, state)
        return fitted, drawn_rows(fitted, config)
    except (
        ArithmeticError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # on content that no fit leaves
        if is_lack_of_means(error):
            raise
        raise VerificationError(
            "No rows can be drawn from model.safetensors: it was altered or damaged. Ask for the bundle again."
        ) from None


def _same_model(ours: State, theirs: State) -> tuple[bool, tuple[str, ...]]:
    """Return whether a generator that was fitted again is the certified one, and where they differ."""
    away = [*sorted(ours.keys() ^ theirs.keys()), *differing(ours, theirs)]
    if not away:
        return True, ("model.safetensors is what the noisy answers give, to the last bit.",)
    others = f" and {len(away) - 1} more tensors" if len(away) > 1 else ""
    return False, (
        f"model.safetensors is not what the noisy answers give: they differ in '{away[0]}'{others}. Either the bundle "
        "was altered, or a different processor or number of threads changes the last bits.",
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
    """Fit a model to its answers again, and compare its tensors and ``model.json``."""
    fitted, costs_differ = _refitted(archive, certificate, config, None, progress)
    folder.mkdir(parents=True, exist_ok=True)
    again = fitted.state()
    card, written = model_from_bytes(model_to_bytes(ModelCard.of(config), again))
    told = model_to_json(card, restored_model(card, written))
    (folder / "model.json").write_bytes(told)
    certified = archive.read("model.json")
    # Another version of this program may have used other words, but not other numbers.
    reworded = told != certified and not _by_this_program(certificate)
    same = words_left_out(told) == words_left_out(certified) if reworded else told == certified
    identical = same and again.keys() == state.keys() and not differing(again, state)
    _write_report(archive, config, drawn_rows(fitted, config), fitted, folder / "report.json")
    report_identical, report_lines = _same_report(archive, certificate, folder / "report.json")
    line = (
        f"model.json: fitted again to the noisy answers, every number is the certified one. {_OTHER_WORDS}"
        if identical and reworded
        else "model.json, fitted again to the noisy answers, is the certified one, byte for byte."
        if identical
        else f"'{config.generator}', fitted again to the noisy answers, differs from the certified model: either the "
        "bundle was altered, or other versions of packages give other numbers (certificate.json names the versions)."
    )
    other = () if identical else _other_device(certificate, _device_again(certificate, config))
    lines = (line, *other, *report_lines, *costs_differ)
    return Replay(identical, None, lines, report_identical, costs_differ)


def _device_again(certificate: Certificate, config: RunConfig) -> str:
    """Return the device for a replay: what the configuration asks for if the certificate states a graphics card.

    Without a card the processor is used.
    """
    asked = "cpu" if certificate.device == "cpu" else config.device
    return "cpu" if asked == "cuda" and resolved_device("auto") == "cpu" else asked


def _other_device(certificate: Certificate, device: str) -> tuple[str, ...]:
    """Return the sentence that a different device may explain the differences, if the devices differ."""
    here = device_name(resolved_device(device))
    if certificate.device == here:
        return ()
    return (
        f"The original was computed on {certificate.device}; this computer used {here}. Last digits, and with them "
        "single rows, depend on the device: compare on the device that the certificate states.",
    )


def _write_report(archive: Archive, config: RunConfig, drawn: DrawnRows, fitted: PrivateModel, path: Path) -> None:
    """Recompute the report from the bundle."""
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
    """Return whether a recomputed report is the certified one, and why.

    It is, if the bytes are the same, or all numbers agree within ``LAST_DIGITS``: the last bits of matrix products
    depend on the processor. If the certificate does not state that this very program wrote it, everything but the words
    is compared.
    """
    made, certified = path.read_bytes(), archive.read("report.json")
    if made == certified:
        return True, ("report.json, recomputed from the answers in the bundle, is the certified one, byte for byte.",)
    ours, stated = (parse_canonical(one, name="report.json") for one in (made, certified))
    if documents_agree(ours, stated):
        return True, (
            f"report.json, recomputed from the answers in the bundle, is the certified one{_BUT_FOR_DIGITS}.",
        )
    if not _by_this_program(certificate):
        ours, stated = without_words(ours), without_words(stated)
        if documents_agree(ours, stated):
            digits = "" if ours == stated else _BUT_FOR_DIGITS
            line = (
                "report.json: recomputed from the answers in the bundle, every number is the certified one"
                f"{digits}. {_OTHER_WORDS}"
            )
            return True, (line,)
    return False, ("report.json differs from the certified one; other versions of packages may be the reason.",)


def _by_this_program(certificate: Certificate) -> bool:
    """Whether exactly this program, by its source files, sealed the bundle."""
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
        raise ConfigError(
            f"'{fresh.card.name}' is a {fresh.card.kind}, which cannot be fitted to the answers in this bundle."
        )
    fitted = fresh.fit(session, progress or NullProgress())
    return fitted, () if other else tuple(_cost_problems(session.asked, known))


def _cost_problems(asked: Mapping[str, float], known: Measurements) -> Iterator[str]:
    """Yield receipts whose share of the budget is not the one that the generator gives their question.

    The amount of noise cannot be read off an answer, but a generator divides its budget by public rules, so a receipt
    that was made cheaper afterwards stands out.
    """
    spent = {answer.query: sum(receipt.units for receipt in answer.receipts) for answer in known.answers}
    paid, whole = sum(spent[query] for query in asked), sum(asked.values())
    for query, share in asked.items():
        if abs(spent[query] / paid - share / whole) > _SHARE:
            yield (
                f"The receipt of '{query}' is {spent[query] / paid:.3%} of what the generator spent; the generator "
                f"gives this question {share / whole:.3%}. Either the receipt was altered, or another version divides "
                "the budget differently."
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
        f"The table that '{generator}' made differs from the certified one; nothing more was spent.",
        f"The total variation distance between the two is {distance:.4f}, averaged over columns and pairs "
        "(at most 32 public bins for numbers and dates).",
    )
