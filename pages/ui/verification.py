"""Checking a bundle that somebody else made: nothing but the bundle is needed."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.server.uploads import whole_stream
from pages.ui.session import application
from pages.ui.words import plain
from synth.errors import SynthError

__all__ = ["MOST_BUNDLE_MEGABYTES", "show_verdict", "verify_upload"]

MOST_BUNDLE_MEGABYTES = 200


def verify_upload(uploaded: Any) -> dict[str, Any]:
    """Check an uploaded bundle; the verdict is kept as plain values."""
    try:
        with whole_stream(uploaded, most=MOST_BUNDLE_MEGABYTES * 2**20) as bundle:
            verdict = application().verify(bundle)
    except SynthError as error:
        return {"ok": False, "lines": [str(error)]}
    return {"ok": verdict.ok, "lines": list(verdict.lines)}


def show_verdict(verdict: dict[str, Any]) -> None:
    """Say whether the bundle is what it claims, and why."""
    with st.container(border=True):
        if verdict["ok"]:
            st.success("Nothing differs from the certificate. Below: what was checked, and what was not.")
        else:
            st.error("This bundle differs from its certificate, or it cannot be read.")
        for line in verdict["lines"]:
            st.markdown(f"- {plain(line)}")
