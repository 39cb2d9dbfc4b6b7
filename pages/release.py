"""6 Release: the checks, the attestations, the seal, and the download."""

from __future__ import annotations

import streamlit as st

from pages.ui.entrance import through_the_application
from pages.ui.guards import require
from pages.ui.sealing import attest_and_seal, certificate_summary, checklist, download, how_to_verify
from pages.ui.session import application, draft
from pages.ui.words import plain

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Release")
    require("run")
    require("report")
    run_id = draft()["run_id"]

    run = application().run(run_id)
    stop = application().stops.of(application().config_of(run_id))
    if stop is not None:
        st.error(plain(stop.sentence))
    checklist(run)
    if run.state != "released":
        if stop is None:
            attest_and_seal(run_id)
    else:
        st.success("Sealed and signed.")
        if stop is None:
            download(run_id)
        certificate_summary(run_id)
        how_to_verify()


if __name__ == "__main__":
    through_the_application()
    screen()
