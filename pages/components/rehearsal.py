"""A rehearsal on the screen: the stand-in and its declaration, progress, the numbers, and the stop."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from pages.components.badges import badge
from pages.components.evidence import cards, read_evidence, section_of
from pages.components.intake import TYPES
from pages.components.long_work import LongWork, follow_work
from pages.components.notes import note
from pages.components.session import application, forget_uploads, uploader_key
from pages.components.words import plain
from synth.config import RunConfig
from synth.errors import SynthError
from synth.reports import Evidence

__all__ = ["rehearsal_form", "rehearsal_report", "stand_in_attacks"]

DECLARATION = "This table is public, or I may show every row of it to anybody."
_PARTS = {
    "attacks": "Attacks",
    "marginals": "Sets of columns",
    "downstream": "Prediction",
    "fidelity": "Distributions and associations",
    "groups": "Groups",
    "scores": "Scores",
}


def rehearsal_form(config: RunConfig) -> None:
    """Ask for a stand-in and rehearse on it, in a process of its own."""
    work = LongWork(
        standing=partial(application().rehearsals.standing, config),
        cancel=partial(application().rehearsals.cancel, config),
        stop_label="Stop the rehearsal",
        steps="steps",
    )
    if follow_work(work, stop_key="stop-rehearsal"):
        return
    declared = st.checkbox(DECLARATION, key="stand-in-is-public")
    uploaded = st.file_uploader(
        "Stand-in: a table with the columns you described (CSV, TSV or Parquet), written as the private one is",
        type=TYPES,
        key=uploader_key("stand-in"),
        max_upload_size=application().settings.maximum_upload_bytes // 2**20,
        disabled=not declared,
        help="A public sample, last decade's open file, rows made up by hand. It is deleted after the rehearsal.",
    )
    if not declared:
        note("The numbers of a rehearsal are safe to publish only because its rows are public: say so first.")
    if uploaded is not None and declared:
        try:
            application().rehearsals.start(config, uploaded)
        except SynthError as error:
            st.session_state["stand-in-refusal"] = str(error)
        finally:
            # Whatever happened, the file leaves the memory of the server before the page is drawn again.
            forget_uploads()
        st.rerun()
    refusal = st.session_state.pop("stand-in-refusal", None)
    if refusal is not None:
        st.error(plain(refusal))


def rehearsal_report(config: RunConfig) -> None:
    """Show what the latest rehearsal of this configuration came to."""
    report = application().rehearsals.report(config)
    if report is None:
        device = "CPU" if config.device == "cpu" else "CPU, or GPU where there is one"
        st.info(f"No rehearsal yet. It takes about as long as a run on this machine ({device}).")
        return
    _verdict(report)
    entries = read_evidence(report)
    found = [part for part in _PARTS if any(section_of(entry) == part for entry in entries)]
    chosen = st.segmented_control(
        "What to look at", found, default=found[0], format_func=_PARTS.__getitem__, key="rehearsal-part"
    )
    part = str(chosen) if chosen in found else found[0]
    cards([entry for entry in entries if section_of(entry) == part], key=f"rehearsal-{part}")


def stand_in_attacks(config: RunConfig) -> None:
    """Show the attacks of the rehearsal of a configuration, or how to get them."""
    st.subheader("On a stand-in")
    report = application().rehearsals.report(config)
    if report is None:
        st.info(
            "No rehearsal of this configuration. On the page Rehearse, or with synth rehearse, the same run is made "
            "from a public table; what attacks reach there may be published, and one above its ceiling stops the "
            "release."
        )
        return
    _verdict(report)
    cards(_attacks(read_evidence(report)), key="stand-in-attacks")


def _verdict(report: dict[str, Any]) -> None:
    sentence = plain(str(report["sentence"]))
    if report["incident"] is None:
        badge("safe")
        note(sentence)
    else:
        st.error(sentence)


def _attacks(entries: list[Evidence]) -> list[Evidence]:
    return [entry for entry in entries if section_of(entry) == "attacks"]
