"""The report as evidence: one number a card, its unit and its range under it, and always its badge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.components.badges import OWNER_ONLY_NOTE, badge
from pages.components.charts import draw
from pages.components.notes import note
from pages.components.session import application
from pages.components.words import amount, plain
from synth.reports import Evidence, evidence_from_dict
from synth.reports.drawing import number_text
from synth.services.views import RunView

__all__ = ["at_a_glance", "columns_and_pairs", "expected_accuracy", "owner_only", "read_evidence"]

_CARDS_IN_A_LINE = 3
_LONG_UNIT = 12
_WAYS = {"1": "single columns", "2": "pairs", "3": "triples", "4": "fours"}


def read_evidence(document: Mapping[str, Any]) -> list[Evidence]:
    """Read the numbers of a report document."""
    return [evidence_from_dict(entry) for entry in document["evidence"]]


def at_a_glance(run: RunView, report: Mapping[str, Any]) -> None:
    """Say what was made and at what promise, and show the overview of the report."""
    rows, epsilon, generator = st.columns(3, border=True)
    rows.metric("Synthetic rows", f"{run.rows:,}")
    with rows:
        badge("safe")
    epsilon.metric("Epsilon", amount(run.epsilon))
    note(f"δ = {run.delta:g}, for everything in this report that may be published", epsilon)
    with epsilon:
        badge("safe")
    generator.metric("Generator", run.generator)
    with generator:
        badge("safe")
    _cards(_section(read_evidence(report), "overview"), key="glance")


def columns_and_pairs(report: Mapping[str, Any]) -> None:
    """Show synthetic tables beside measured ones, for a chosen number of columns together."""
    entries = read_evidence(report)
    _cards(_section(entries, "columns"), key="columns")
    _marginals(_section(entries, "marginals"), key="ways")


def expected_accuracy(report: Mapping[str, Any]) -> None:
    """Show what the noise allows, which groups suffer, and everything else that may be published."""
    entries = read_evidence(report)
    known = {"overview", "columns", "marginals"}
    rest = [entry for entry in entries if _first(entry) not in known]
    if not rest:
        st.info("This generator left no publishable measurement to compare with.")
    _cards(rest, key="accuracy")


def owner_only(run_id: str) -> None:
    """Show what was computed on the private rows; asking for it is entered in the events of the store."""
    document = application().owner_report(run_id)
    if document is None:
        st.info("No owner-only report: the rows were deleted, or neither a hold-out nor a test table was given.")
        return
    st.warning(OWNER_ONLY_NOTE)
    entries = read_evidence(document)
    marginals = _section(entries, "marginals")
    _marginals(marginals, key="owner-ways")
    _cards([entry for entry in entries if entry not in marginals], key="owner")


def _marginals(entries: Sequence[Evidence], *, key: str) -> None:
    if not entries:
        return
    ways = sorted({entry.id.split(".")[1] for entry in entries if "." in entry.id})
    labels = {way: _WAYS.get(way, way) for way in ways}
    chosen = st.segmented_control(
        "Columns together", ways, default=ways[0], format_func=labels.__getitem__, key=f"{key}-alpha"
    )
    shown = [entry for entry in entries if entry.id.split(".")[1] == (chosen or ways[0])]
    _cards(shown, key=f"{key}-{chosen}")


def _cards(entries: Sequence[Evidence], *, key: str) -> None:
    """Draw numbers in lines of three, and below them whatever has pictures, in full width."""
    numbers = [entry for entry in entries if not entry.figures]
    for start in range(0, len(numbers), _CARDS_IN_A_LINE):
        line = numbers[start : start + _CARDS_IN_A_LINE]
        for entry, place in zip(line, st.columns(_CARDS_IN_A_LINE, border=True), strict=False):
            with place:
                _number(entry)
    for position, entry in enumerate(entry for entry in entries if entry.figures):
        with st.container(border=True):
            _number(entry)
            for place, figure in enumerate(entry.figures):
                draw(figure, key=f"{key}-{position}-{place}")


def _number(entry: Evidence) -> None:
    title = plain(entry.title or entry.id)
    if entry.value is None:
        st.markdown(f"**{title}**")
    else:
        unit = f" {plain(entry.unit)}" if entry.unit else ""
        st.metric(title, f"{_value(entry)}{unit}" if len(unit) < _LONG_UNIT else _value(entry))
        words = [plain(entry.unit)] if len(unit) >= _LONG_UNIT else []
        if entry.error is not None:
            words.append(f"± {number_text(entry.error)}, range caused by privacy noise (95 %)")
        if words:
            note(", ".join(words))
    badge(entry.kind)
    if entry.sentence:
        note(plain(entry.sentence))


def _value(entry: Evidence) -> str:
    if isinstance(entry.value, bool):
        return "yes" if entry.value else "no"
    return plain(number_text(entry.value))


def _section(entries: Sequence[Evidence], name: str) -> list[Evidence]:
    return [entry for entry in entries if _first(entry) == name]


def _first(entry: Evidence) -> str:
    return entry.id.partition(".")[0]
