"""What whoever runs this installation looks after: its public key, and stops that wait to be cleared."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.components.badges import badge
from pages.components.charts import show_table
from pages.components.notes import note
from pages.components.session import application
from pages.components.words import plain
from synth.bundle.signature import fingerprint_of
from synth.errors import SynthError

__all__ = ["signing_key", "stopped_releases"]


def signing_key() -> None:
    """Show the public key that bundles are signed with, its fingerprint, and how a stranger uses it."""
    public = application().keys.public_key_pem
    st.subheader("The key that signs")
    badge("safe")
    st.markdown(
        "Every bundle of this installation is signed with one key, made at the first start. Its public half lies in "
        "each bundle; publish it, or its fingerprint, where others find it without the bundle, so that they can tell "
        "your releases from altered ones."
    )
    st.markdown("Fingerprint")
    st.code(fingerprint_of(public), language=None)
    st.markdown("Public key")
    st.code(public.decode("ascii"), language=None)
    st.download_button(
        "Download the public key",
        data=public,
        file_name="hermitage-public-key.pem",
        mime="application/x-pem-file",
        on_click="ignore",
        key="download-public-key",
    )
    note("Checked with it: synth verify bundle.zip --public-key hermitage-public-key.pem")


def stopped_releases() -> None:
    """Show what rehearsals have stopped; a stop is cleared by somebody who gives a name and a reason."""
    st.subheader("Stopped by rehearsals")
    note(
        "A rehearsal reads public or simulated rows. Where an attack does better there than the proof allows, the "
        "program has a bug, and runs and releases with that configuration are stopped until somebody clears the "
        "incident."
    )
    found = application().stops.all()
    if not found:
        st.info("No rehearsal has stopped anything.")
        return
    frame = pd.DataFrame(
        {
            "incident": [one.incident for one in found],
            "time (UTC)": [one.time.strftime("%Y-%m-%d %H:%M") for one in found],
            "generator": [one.generator for one in found],
            "attacks": [one.attacks for one in found],
            "state": ["stands" if one.cleared_by is None else "cleared" for one in found],
        }
    )
    show_table(frame, alt="Releases that rehearsals have stopped", key="stops")
    for one in found:
        if one.cleared_by is not None:
            # Below the table, where a long reason stands in full.
            note(f"Incident {one.incident} was cleared by {plain(one.cleared_by)}: {plain(str(one.because))}")
    standing = [one.incident for one in found if one.cleared_by is None]
    if standing:
        _clearing(standing)


def _clearing(incidents: list[str]) -> None:
    with st.form("clear-incident", border=True):
        st.markdown("Clear an incident once its cause is found: its configuration can then be released again.")
        chosen = st.selectbox("Incident", incidents, key="clear-incident-id")
        who = st.text_input("Your name, kept with the incident", key="clear-incident-who")
        because = st.text_input("What was found", key="clear-incident-because")
        if st.form_submit_button("Clear the incident"):
            if not who.strip() or not because.strip():
                st.error("Give your name and what was found: both are kept with the incident.")
                return
            try:
                application().stops.clear(chosen, who=who.strip(), because=because.strip())
            except SynthError as error:
                st.error(str(error))
            else:
                st.rerun()
