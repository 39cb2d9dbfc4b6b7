"""A rehearsal on the screen: what is rehearsed, on which rows, progress, the numbers, and the stop."""

from __future__ import annotations

import io
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO

import streamlit as st

from pages.server.uploads import stream_of
from pages.ui.badges import badge
from pages.ui.evidence import cards, read_evidence, section_of
from pages.ui.intake import TYPES
from pages.ui.long_work import LongWork, follow_work
from pages.ui.notes import note
from pages.ui.rehearsal_grid import ask_grid, grid_report, take_over
from pages.ui.session import application, forget_uploads, uploader_key
from pages.ui.simulation import ask_simulation
from pages.ui.words import plain
from synth.errors import SynthError
from synth.rehearsal.grid import Grid
from synth.rehearsal.simulation import simulated_table
from synth.reports import Evidence
from synth.schema import RunConfig

__all__ = ["rehearsal", "stand_in_attacks"]

DECLARATION = "This table is public, or I may show every row of it to anybody."
_WHAT = {"one": "This configuration", "grid": "Several budgets and generators"}
_ROWS = {"upload": "A public table", "simulated": "Simulated rows"}
_REFUSAL = "stand-in-refusal"
_PARTS = {
    "attacks": "Attacks",
    "marginals": "Sets of columns",
    "downstream": "Prediction",
    "fidelity": "Distributions and associations",
    "groups": "Groups",
    "scores": "Scores",
}


def rehearsal(config: RunConfig) -> None:
    """Choose between one configuration and a grid; show what the latest one came to, and offer another."""
    what = st.segmented_control(
        "What to rehearse", list(_WHAT), default="one", format_func=_WHAT.__getitem__, key="rehearsal-what"
    )
    several = what == "grid"
    report = application().rehearsals.report(config, grid=several)
    if report is None:
        device = "CPU" if config.device == "cpu" else "CPU, or GPU where there is one"
        about = "Each cell of a grid" if several else "It"
        st.info(f"No rehearsal yet. {about} takes about as long as a run on this machine ({device}).")
    else:
        _report(report, config, several=several)
        st.subheader("Rehearse again")
    _form(config, several=several)


def _report(report: dict[str, Any], config: RunConfig, *, several: bool) -> None:
    st.subheader("What the latest rehearsal came to")
    _verdict(report)
    if several:
        note(f"{_moment(report)}, on the table as it is described now.")
        grid_report(report)
        take_over(report)
        return
    note(f"{_moment(report)}, with {config.generator} at ε = {config.epsilon:g}, as the run is set now.")
    entries = read_evidence(report)
    found = [part for part in _PARTS if any(section_of(entry) == part for entry in entries)]
    chosen = st.segmented_control(
        "What to look at", found, default=found[0], format_func=_PARTS.__getitem__, key="rehearsal-part"
    )
    part = str(chosen) if chosen in found else found[0]
    cards([entry for entry in entries if section_of(entry) == part], key=f"rehearsal-{part}")


def _form(config: RunConfig, *, several: bool) -> None:
    """Ask for rows and rehearse on them, in a process of its own."""
    work = LongWork(
        standing=partial(application().rehearsals.standing, config, grid=several),
        cancel=partial(application().rehearsals.cancel, config, grid=several),
        stop_label="Stop the rehearsal",
        steps="rehearsals" if several else "steps",
    )
    if follow_work(work, stop_key="stop-rehearsal"):
        return
    try:
        grid = ask_grid(config) if several else None
        source = st.segmented_control(
            "On which rows", list(_ROWS), default="upload", format_func=_ROWS.__getitem__, key="rehearsal-rows"
        )
        if source == "simulated":
            _simulated(config, grid)
        else:
            _uploaded(config, grid)
    except SynthError as error:
        st.error(plain(str(error)))
    refusal = st.session_state.pop(_REFUSAL, None)
    if refusal is not None:
        st.error(plain(refusal))


def _uploaded(config: RunConfig, grid: Grid | None) -> None:
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
            with stream_of(uploaded) as rows:
                _start(config, rows, grid, simulated=False)
        except SynthError as error:
            st.session_state[_REFUSAL] = str(error)
        finally:
            # Whatever happened, the upload is gone before the page is drawn again.
            forget_uploads()
        st.rerun()


def _simulated(config: RunConfig, grid: Grid | None) -> None:
    simulation = ask_simulation(config)
    if st.button("Rehearse on simulated rows", key="rehearse-simulated", help="Free: no private row is read."):
        _start(config, io.BytesIO(simulated_table(simulation, config.schema)), grid, simulated=True)
        st.rerun()


def _start(config: RunConfig, rows: BinaryIO, grid: Grid | None, *, simulated: bool) -> None:
    try:
        application().rehearsals.start(config, rows, grid=grid, simulated=simulated)
    except SynthError as error:
        st.session_state[_REFUSAL] = str(error)


def stand_in_attacks(config: RunConfig) -> None:
    """Show the attacks of the rehearsal of a configuration, or how to get them."""
    st.subheader("On a stand-in")
    report = application().rehearsals.report(config)
    if report is None:
        st.info(
            "No rehearsal of this configuration. On the page Rehearse, or with synth rehearse, the same run is made "
            "from public or simulated rows; what attacks reach there may be published, and one above its ceiling stops "
            "the release."
        )
        return
    _verdict(report)
    cards(_attacks(read_evidence(report)), key="stand-in-attacks")


def _verdict(report: dict[str, Any]) -> None:
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


def _moment(report: dict[str, Any]) -> str:
    try:
        return f"Rehearsed on {datetime.fromisoformat(str(report['time'])):%Y-%m-%d at %H:%M} UTC"
    except ValueError:
        return "Rehearsed"


def _attacks(entries: list[Evidence]) -> list[Evidence]:
    return [entry for entry in entries if section_of(entry) == "attacks"]
