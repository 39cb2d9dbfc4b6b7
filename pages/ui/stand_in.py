"""The verdict of a rehearsal: that its rows need no protection, or that it stopped something."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.evidence import badge, cards, read_evidence
from pages.ui.session import application
from pages.ui.words import plain
from synth.schema import RunConfig


def stand_in_attacks(config: RunConfig, section: str) -> None:
    """Show the numbers of one section of the rehearsal of a configuration, or how to get them."""
    report = application().rehearsals.report(config)
    if report is None:
        st.info(
            "This configuration has not been rehearsed. The Rehearse page, or synth rehearse, makes the same "
            "run from public or simulated rows. The results of attacks there may be published, and one above "
            "its ceiling stops the release."
        )
        return
    verdict(report)
    cards([entry for entry in read_evidence(report) if entry.section == section], key="stand-in-attacks")


def verdict(report: dict[str, Any]) -> None:
    """Say first what has to be said: what the rows are, or that something is stopped, or was and is no longer."""
    sentence, first = plain(str(report["sentence"])), report["incident"]
    if first is None:
        badge("safe")
        st.markdown(sentence)
        return
    incidents = report.get("incidents", [first])
    cleared = [stop for stop in application().stops.all() if stop.incident in incidents and stop.cleared_by]
    if len(cleared) < len(incidents):
        st.error(sentence)
    for stop in cleared:
        st.warning(
            f"With {stop.generator} an attack did better than the proof allowed ({plain(stop.attacks)}). Incident "
            f"{stop.incident} was cleared by {plain(str(stop.cleared_by))}: {plain(str(stop.because))}. Rehearse again."
        )
