"""Fidelity on screen: sub-samples, distributions, missing cells and how columns belong together."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.ui.evidence import cards
from synth.names import visible
from synth.reports import Evidence

__all__ = ["FIDELITY_SECTION", "associations", "distributions", "subsamples"]

FIDELITY_SECTION = "fidelity"
_SCALES = ("fidelity.ks", "fidelity.wasserstein", "fidelity.apart", "fidelity.scales", "fidelity.apart_cells")
_QUANTILES = "fidelity.quantiles."
_SUBSAMPLES = "fidelity.subsample."
_DISTANCES = "fidelity.subsample.distances"
_ASSOCIATIONS = "fidelity.associations"


def subsamples(entries: Sequence[Evidence], *, key: str) -> None:
    """Show which random sub-sample a table is worth, and the distances that say so folded below."""
    found = [entry for entry in entries if entry.id.startswith(_SUBSAMPLES)]
    cards([entry for entry in found if entry.id != _DISTANCES], key=f"{key}-places")
    distances = [entry for entry in found if entry.id == _DISTANCES]
    if distances:
        with st.expander("How this was measured"):
            cards(distances, key=f"{key}-distances")


def distributions(entries: Sequence[Evidence], *, key: str) -> None:
    """Show numbers and dates as distributions, one picture at a time, and cells that are missing or special."""
    shown = [entry for entry in entries if entry.id in _SCALES]
    if not shown:
        st.info("There is no number or date, and no cell that may be missing, to compare.")
        return
    cards(shown, key=f"{key}-scales")
    drawn = {entry.id.removeprefix(_QUANTILES): entry for entry in entries if entry.id.startswith(_QUANTILES)}
    if drawn:
        chosen = st.selectbox(
            "Look at the quantiles of one column", list(drawn), format_func=visible, key=f"{key}-quantiles"
        )
        cards([drawn[chosen]], key=f"{key}-quantiles-{chosen}")


def associations(entries: Sequence[Evidence], *, key: str) -> None:
    """Show how pairs of columns belong together, beside the private rows."""
    shown = [entry for entry in entries if entry.id.startswith(_ASSOCIATIONS)]
    if not shown:
        st.info("There are no two columns to compare.")
        return
    cards(shown, key=f"{key}-associations")
