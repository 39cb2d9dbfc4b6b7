"""The reports of a run as documents: report.json for programs, and report.html, one page that needs no network.

What may be published is computed here from paid answers, in the same way for a run, its replay and its check.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.protocol import Fact, Picture
from synth.privacy.answers import ROW_COUNT_QUERY, NoisyAnswer, RowCount
from synth.privacy.receipt import Receipt
from synth.reports import drawing, wording
from synth.reports.evidence import Evidence, Publishable, evidence_from_dict, evidence_to_dict, publishable
from synth.reports.first_screen import FirstScreen
from synth.reports.measured import MeasuredTable, compare_both_ways, measured_tables
from synth.reports.registry import reports, section_words
from synth.reports.report import PaidAnswers
from synth.schema import RunConfig

__all__ = [
    "altered_evidence",
    "first_screen_html",
    "first_screen_style",
    "owner_document",
    "published_evidence",
    "published_rows",
    "report_document",
    "report_page",
    "without_words",
]

_WORDS = frozenset({"title", "subtitle", "sentence", "unit", "header", "name"})
_COUNTS = ("evaluated", "of")
"""Last words of ids that a page leaves out: the sentences beside the means say how many sets were compared."""

_UNIT = "overview.unit"

_ORIGIN = (
    "Every number here is computed from {}; none was read from the private rows. ± is the 95 % range of the privacy "
    "noise."
)
_ORIGIN_OF_ROWS = _ORIGIN.format("the synthetic rows, the noisy answers that were paid for, and what was declared")
_ORIGIN_OF_ROWS += " Distances compare synthetic rows with noisy counts."
_ORIGIN_OF_MODEL = _ORIGIN.format("the noisy answers that were paid for and from what was declared")


# What may be published ----------------------------------------------------------------------------------------------


def published_evidence(
    codes: NDArray[np.int64],
    releases: Sequence[NoisyAnswer],
    config: RunConfig,
    *,
    rows: RowCount | None = None,
    facts: Sequence[Fact] = (),
    pictures: Sequence[Picture] = (),
    receipts: Sequence[Receipt] = (),
) -> tuple[Publishable, ...]:
    """Return what may be published of every report.

    Parameters
    ----------
    codes : array of shape (n_rows, n_modelled)
        Synthetic codes, columns in ``schema.names`` order.
    releases : sequence of NoisyAnswer
        The paid answers of the run.
    config : RunConfig
        Declared facts.
    rows : RowCount, optional
        What the session said about the number of rows; without it, it is taken from the paid answers.
    facts : sequence of Fact
        What the fitted generator says about itself.
    pictures : sequence of Picture
        What it shows of itself.
    receipts : sequence of Receipt
        All receipts of the run; where single cells are protected, they say what that is worth for a whole row.
    """
    columns = [codes[:, place] for place in range(codes.shape[1])]
    count = published_rows(releases) if rows is None else rows
    fine, coarse = (
        ((), ())
        if count is None or config.is_model
        else compare_both_ways(columns, config.schema, releases, count, seed=config.seed)
    )
    answers = PaidAnswers(config, columns, len(codes), releases, receipts, facts, pictures, count, fine, coarse)
    return tuple(entry for report in reports() if report.public is not None for entry in report.public(answers))


def altered_evidence(
    document: Mapping[str, Any],
    releases: Sequence[NoisyAnswer],
    receipts: Sequence[Receipt],
    config: RunConfig,
    *,
    rows: RowCount | None,
    words: bool,
) -> Iterator[str]:
    """Yield the titles of reports whose numbers do not follow from the answers, among those that need nothing else.

    Parameters
    ----------
    document : mapping
        A report.json.
    releases, receipts
        The paid answers of the run, and all of its receipts.
    config : RunConfig
    rows : RowCount, optional
        What the file of answers says about the number of rows.
    words : bool
        Whether the words are compared too, because this version of the program wrote it.
    """
    count = published_rows(releases) if rows is None else rows
    answers = PaidAnswers(config, (), 0, releases, receipts, (), (), count)
    for report in reports():
        if report.public is None or not report.from_answers:
            continue
        made = [evidence_to_dict(entry) for entry in report.public(answers)]
        held = [entry for entry in document["evidence"] if entry["id"].partition(".")[0] in report.sections]
        if (made if words else list(map(_wordless, made))) != (held if words else list(map(_wordless, held))):
            yield report.title


def published_rows(releases: Sequence[NoisyAnswer]) -> RowCount | None:
    """Return what the paid answers say about the number of private rows, or None if they say nothing.

    It is the measured number of rows, or else the total of the measured table with the least noise on its total.
    """
    for release in releases:
        if release.receipt.query == ROW_COUNT_QUERY:
            value = float(np.asarray(release.value).reshape(-1)[0])
            return RowCount(max(value, 1.0), release.noise_std, public=False)
    tables = measured_tables(releases)
    if not tables:
        return None
    best = min(tables, key=_total_noise)
    return RowCount(max(float(best.counts.sum()), 1.0), _total_noise(best), public=False)


def _total_noise(table: MeasuredTable) -> float:
    return table.noise_std * math.sqrt(table.counts.size)


# report.json --------------------------------------------------------------------------------------------------------


def report_document(evidence: Sequence[Publishable]) -> dict[str, Any]:
    """Return the report that enters a bundle, in the one form that reading it and writing it again gives.

    Raises
    ------
    TypeError
        If evidence of another kind than safe or charged is among it.
    """
    # Read back: a number that is kept as a float may have been given as a whole one.
    return _document([evidence_from_dict(evidence_to_dict(entry)) for entry in publishable(evidence)])


def owner_document(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Return the report that stays in the owner's own folder; it may hold evidence of every kind."""
    return _document(evidence)


def _document(evidence: Sequence[Evidence]) -> dict[str, Any]:
    summaries = {report.id: report.summary(evidence) for report in reports() if report.summary is not None}
    return {"evidence": [evidence_to_dict(entry) for entry in evidence], **summaries}


def without_words(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report without its words, which another version may phrase differently.

    Parameters
    ----------
    document : mapping
        What :func:`report_document` made.

    Raises
    ------
    InputError
        If it is not a report.
    """
    try:
        evidence = [_wordless(entry) for entry in document["evidence"]]
    except (AttributeError, KeyError, TypeError):
        raise InputError("The report cannot be read.") from None
    return {**document, "evidence": evidence}


def _wordless(body: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the words of a number, its figures and their series."""
    kept = {key: value for key, value in body.items() if key not in _WORDS}
    return kept | {key: [_wordless(part) for part in kept[key]] for key in ("figures", "series") if key in kept}


# report.html --------------------------------------------------------------------------------------------------------


def report_page(
    evidence: Sequence[Publishable],
    *,
    heading: str,
    promise: Sequence[str],
    first: FirstScreen | None = None,
    from_rows: bool = True,
) -> str:
    """Write the page.

    Parameters
    ----------
    evidence : sequence of Publishable
        The numbers; those whose ids begin with the same word are under one heading.
    heading : str
        Title of the page.
    promise : sequence of str
        What the certificate promises, line by line.
    first : FirstScreen, optional
        What comes before everything else.
    from_rows : bool
        Whether numbers were computed from synthetic rows too; a model makes none.

    Raises
    ------
    TypeError
        If evidence of another kind than safe or charged is among it.
    """
    sections: dict[str, list[Publishable]] = {}
    for entry in publishable(evidence):
        shown = sections.setdefault(section_words(entry.section).heading, [])
        if entry.id.rpartition(".")[2] not in _COUNTS:
            shown.append(entry)
    style = _template_text("first_screen.css") + _template_text("report.css")
    return (
        _template("report.html").render(
            heading=heading,
            first=Markup("" if first is None else first_screen_html(first)),  # noqa: S704 - escaped there
            promise=promise,
            sections=sections,
            folded=_folded({entry.id for entry in evidence}, under=first),
            origin=_ORIGIN_OF_ROWS if from_rows else _ORIGIN_OF_MODEL,
            # Unescaped: a style sheet contains no text of a user.
            style=Markup(f"\n{style}"),  # noqa: S704
            drawing=drawing,
            wording=wording,
        )
        + "\n"
    )


def _folded(ids: Set[str], *, under: FirstScreen | None) -> frozenset[str]:
    """Return the numbers that are given elsewhere already: in coarse bins, or on the first screen."""
    above = set() if under is None else {_UNIT}
    heads = {one: one.rpartition(".") for one in ids}
    return frozenset(above | {one for one, (head, _, name) in heads.items() if f"{head}.coarse_{name}" in ids})


def first_screen_html(first: FirstScreen) -> str:
    """Write the first screen as HTML without a script, a link or a style; the owner's screen shows the same."""
    return _template("first_screen.html").render(first=first, drawing=drawing)


def first_screen_style() -> str:
    """Return the style sheet of the first screen."""
    return _template_text("first_screen.css")


@functools.cache
def _template(name: str) -> Template:
    """Read a template; everything it prints is shown letter for letter, unless it is markup already."""
    environment = Environment(autoescape=True, finalize=_shown, undefined=StrictUndefined)
    # Joined, so that the layout of a template changes no byte of a page.
    return environment.from_string("".join(map(str.strip, _template_text(name).splitlines())))


def _template_text(name: str) -> str:
    return resources.files("synth.reports").joinpath("templates", name).read_text(encoding="utf-8")


def _shown(value: object) -> Markup:
    return value if isinstance(value, Markup) else Markup(drawing.letters(str(value)))  # noqa: S704 - escaped
