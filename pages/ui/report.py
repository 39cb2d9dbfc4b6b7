"""The tabs of the report: what may be published, what can be expected, and what is for the owner alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.attacks import ATTACKS_SECTION
from pages.ui.badges import OWNER_ONLY_NOTE, badge
from pages.ui.charts import draw, show_table
from pages.ui.evidence import cards, number_card, read_evidence, section_of
from pages.ui.fidelity import FIDELITY_SECTION, associations, distributions, subsamples
from pages.ui.forecast import forecast_panel
from pages.ui.groups import GROUPS_SECTION
from pages.ui.prediction import CHARGED_SECTION, PREDICTION_SECTION
from pages.ui.session import application
from pages.ui.words import DELTA_MEANS, amount, note, plain
from synth.names import visible
from synth.reports import Evidence
from synth.services.views import RunView

__all__ = ["at_a_glance", "columns_and_pairs", "expected_accuracy", "owner_only"]

_WAYS = {"1": "single columns", "2": "pairs", "3": "triples", "4": "fours"}
_GRAINS = {"coarse_": "at most 32 bins a column", "": "every declared value"}
_DISTANCE = ".distance"
_MOVED = "share of rows to move (total variation)"
_RANGE = "± range caused by privacy noise (95 %)"


def at_a_glance(run: RunView, report: Mapping[str, Any]) -> None:
    """Say what was made and at what promise, and show the overview of the report."""
    facts = (
        ("Epsilon", amount(run.epsilon), _meaning(report)),
        ("Delta", f"{run.delta:g}", DELTA_MEANS),
        ("Generator", run.generator, "Learned from noisy answers alone."),
    )
    for (title, value, meaning), place in zip(facts, st.columns(3), strict=True):
        with place.container(border=True, height="stretch"):
            st.metric(title, value)
            badge("safe")
            note(meaning)
    cards([entry for entry in read_evidence(report) if section_of(entry) in {"overview", "generator"}], key="glance")


def _meaning(report: Mapping[str, Any]) -> str:
    if any(entry.id == "overview.row_epsilon" for entry in read_evidence(report)):
        return "For ONE CELL of the table, in everything that may be published; what that is for a whole row is below."
    return "For everything in this report that may be published."


def columns_and_pairs(report: Mapping[str, Any]) -> None:
    """Show synthetic tables beside measured ones: every column, then several columns together."""
    entries = read_evidence(report)
    _each_column([entry for entry in entries if entry.id.startswith("columns.") and entry.id.endswith(_DISTANCE)])
    st.subheader("Columns together")
    _marginals([entry for entry in entries if section_of(entry) == "marginals"], key="ways")
    fidelity = [entry for entry in entries if section_of(entry) == FIDELITY_SECTION]
    if fidelity:
        st.subheader("Numbers, dates and missing cells")
        distributions(fidelity, key="scales")


def expected_accuracy(run_id: str, report: Mapping[str, Any]) -> None:
    """Show what the noise allows: the smallest count to trust, and the error of every column and pair."""
    known = {"overview", "generator", "columns", "marginals", FIDELITY_SECTION, PREDICTION_SECTION, CHARGED_SECTION}
    entries = read_evidence(report)
    badge("safe")
    cards([entry for entry in entries if section_of(entry) not in known], key="accuracy")
    st.subheader("As it was forecast before the run")
    note("From what was declared alone; above stands what the answers of this run carry.")
    forecast_panel(application().plan(application().config_of(run_id)).forecast)


def owner_only(run_id: str) -> None:
    """Show what was computed on the private rows; asking for it is entered in the ledger of these people."""
    document = application().owner_report(run_id)
    if document is None:
        st.info(
            "No owner-only report: the rows were deleted before it could be built, or building it failed (see the log)."
        )
        return
    st.warning(OWNER_ONLY_NOTE)
    entries = read_evidence(document)
    of_section: dict[str, list[Evidence]] = {}
    for entry in entries:
        of_section.setdefault(section_of(entry), []).append(entry)
    # Attacks, predictions and groups have tabs of their own.
    others = (ATTACKS_SECTION, PREDICTION_SECTION, GROUPS_SECTION)
    cards(of_section.pop("reading", []), key="owner-reading")
    marginals, fidelity, *_ = (of_section.pop(name, []) for name in ("marginals", FIDELITY_SECTION, *others))
    subsamples(fidelity, key="owner-subsamples")
    parts = {"sets": "Sets of columns", "scales": "Distributions", "associations": "Associations"}
    scores = of_section.pop("scores", [])
    # One part at a time: the tab stays short, and a wide table quick to draw.
    shown = parts if fidelity else {"sets": parts["sets"]}
    part = _choice("What to compare", shown | ({"scores": "Scores"} if scores else {}), key="owner-part")
    if part == "sets":
        _marginals(marginals, key="owner-ways")
    elif part == "scales":
        distributions(fidelity, key="owner-scales")
    elif part == "associations":
        associations(fidelity, key="owner-pairs")
    else:
        cards(scores, key="owner-scores")
    cards([entry for entries in of_section.values() for entry in entries], key="owner")


def _each_column(entries: Sequence[Evidence]) -> None:
    st.subheader("Single columns")
    if not entries:
        st.info("No single column was measured in this run, so none can be compared in public.")
        return
    names = [entry.id.removeprefix("columns.").removesuffix(_DISTANCE) for entry in entries]
    ordered = sorted(zip(names, entries, strict=True), key=lambda pair: -_value(pair[1]))
    badge(entries[0].kind)
    frame = pd.DataFrame(
        {
            "column": [name for name, _ in ordered],
            _MOVED: [_value(entry) for _, entry in ordered],
            _RANGE: [entry.error for _, entry in ordered],
        }
    )
    show_table(frame, alt="Distance of every column", key="column-distances", formats={_MOVED: "%.3f", _RANGE: "%.3f"})
    chosen = st.selectbox(
        "Look at one column", [name for name, _ in ordered], format_func=visible, key="look-at-column"
    )
    with st.container(border=True):
        entry = dict(ordered)[chosen]
        number_card(entry)
        for place, figure in enumerate(entry.figures):
            draw(figure, key=f"column-{chosen}-{place}")


def _marginals(entries: Sequence[Evidence], *, key: str) -> None:
    """Show tables of a chosen number of columns, always beside the independent control and the floor."""
    if not entries:
        st.info("Nothing about columns together was computed.")
        return
    left, right = st.columns(2)
    with left:
        ways = sorted({entry.id.split(".")[1] for entry in entries})
        way = _choice("Columns together", {way: _WAYS.get(way, way) for way in ways}, key=f"{key}-alpha")
    of_way = {entry.id.split(".", 2)[2]: entry for entry in entries if entry.id.split(".")[1] == way}
    with right:
        grains = {
            grain: words
            for grain, words in _GRAINS.items()
            if any(name.startswith("coarse_") == bool(grain) for name in of_way)
        }
        grain = _choice("Values", grains, key=f"{key}-grain")
    shown = {
        name.removeprefix("coarse_"): entry
        for name, entry in of_way.items()
        if name.startswith("coarse_") == bool(grain) or name == "map"
    }
    compared = shown.pop("evaluated", None)
    shown.pop("of", None)
    if all(entry.value is None and name != "map" for name, entry in shown.items()):
        st.info(plain(compared.sentence) if compared is not None else "Nothing was compared.")
        return
    cards(list(shown.values()), key=f"{key}-{way}-{grain}")


def _choice(label: str, options: Mapping[str, str], *, key: str) -> str:
    names = list(options)
    chosen = st.segmented_control(label, names, default=names[0], format_func=options.__getitem__, key=key)
    return str(chosen) if chosen in options else names[0]


def _value(entry: Evidence) -> float:
    return float(entry.value) if isinstance(entry.value, int | float) else 0.0
