"""Rehearse, between 3 Budget and 4 Generate: the same run on public or simulated rows; optional and free."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from pages.server.uploads import stream_of
from pages.ui.column_rows import split_list
from pages.ui.draft import EPSILON_STOPS, config_of
from pages.ui.evidence import cards, read_evidence
from pages.ui.guards import guard, require, through_the_application
from pages.ui.running import LongWork, follow_work
from pages.ui.session import TABLE_TYPES, application, draft, forget_widgets, go, show_refusal, taking, uploader_key
from pages.ui.stand_in import verdict
from pages.ui.words import count, note, plain
from synth.errors import InputError
from synth.generators import cards as generator_cards
from synth.rehearsal.grid import EVERY_GENERATOR, PURPOSES, Grid
from synth.rehearsal.simulation import SHAPES, Simulation, parse_simulation, simulated_table
from synth.rehearsal.stand_in import REHEARSAL_SENTENCE
from synth.reports.evidence import Evidence
from synth.reports.registry import report_of, reports
from synth.reports.report import Report
from synth.schema import RunConfig, modelled_columns

ONE_MODEL = "the model is tested on held-out rows. There is no grid for a model: it compares tables."
DECLARATION = "This table is public, or I may show every row of it to anyone."
_WHAT = {"one": "This configuration", "grid": "Several budgets and generators"}
_ROWS = {"upload": "A public table", "simulated": "Simulated rows"}
_SHAPE, _SHARES, _FOLLOWS, _STRENGTH = "shape", "shares", "goes with", "strength"
_KEPT, _TABLE = "simulation-kept", "simulation-table"
_MOST_ROWS, _USUAL_STRENGTH, _MOST_IN_FULL = 20_000, 0.5, 40


def screen() -> None:
    """Draw the screen."""
    st.title("Rehearse")
    require("table")
    require("description")
    config = config_of(draft())
    tried = ONE_MODEL if config.is_model else "every attack is tried on the result."
    st.markdown(
        f"Practise on a stand-in: the run uses rows that need no protection, and {tried} **{REHEARSAL_SENTENCE}**"
    )
    rehearsal(config)

    st.divider()
    if config.is_model:
        if st.button("Continue to Private models", type="primary", key="continue-models"):
            go("models")
        return
    if st.button("Continue to 4 Generate", type="primary", key="continue-generate"):
        go("generate")


def rehearsal(config: RunConfig) -> None:
    """Choose between one configuration and a grid; show what the latest one came to, and offer another."""
    several = False
    if not config.is_model:
        what = st.segmented_control(
            "What to rehearse",
            list(_WHAT),
            default="one",
            format_func=_WHAT.__getitem__,
            key="rehearsal-what",
            help="Several show how much accuracy each epsilon buys, but take several times as long.",
        )
        several = what == "grid"
    report = application().rehearsals.report(config, grid=several)
    if report is None:
        device = "CPU" if config.device == "cpu" else "CPU, or GPU if faster"
        about = "Each cell of a grid" if several else "It"
        st.info(
            f"No rehearsal yet. Choose rows below that need no protection. {about} takes about as long as a run on "
            f"this machine ({device})."
        )
    else:
        _report(report, config, several=several)
        st.header("Rehearse again")
    _form(config, several=several)


def _report(report: dict[str, Any], config: RunConfig, *, several: bool) -> None:
    st.header("Result of the latest rehearsal")
    verdict(report)
    if several:
        note(f"{_moment(report)}, on the table as it is described now.")
        grid_report(report)
        take_over(report)
        return
    note(f"{_moment(report)}, with {config.generator} at ε = {config.epsilon:g}, as the run is set now.")
    entries = read_evidence(report)
    titles = {part.id: part.title for part in _parts(entries)}
    found = list(titles)
    chosen = st.segmented_control(
        "What to look at", found, default=found[0], format_func=titles.__getitem__, key="rehearsal-part"
    )
    part = str(chosen) if chosen in found else found[0]
    shown = [entry for entry in entries if (of := report_of(entry.section)) is not None and of.id == part]
    cards(shown, key=f"rehearsal-{part}", badged=report["incident"] is None)


def _parts(entries: list[Evidence]) -> list[Report]:
    """Return the reports that have numbers, first those that may stop a release."""
    sections = {entry.section for entry in entries}
    found = [report for report in reports() if sections & set(report.sections)]
    return sorted(found, key=lambda report: report.stand_in is None)


def _form(config: RunConfig, *, several: bool) -> None:
    """Ask for rows and rehearse on them, in a process of its own."""
    work = LongWork(
        standing=partial(application().rehearsals.standing, config, grid=several),
        cancel=partial(application().rehearsals.cancel, config, grid=several),
        stop_label="Stop the rehearsal",
        steps="rehearsals" if several else "steps",
        shows_steps=several,
    )
    if follow_work(work, stop_key="stop-rehearsal"):
        return
    with guard():
        grid = ask_grid(config) if several else None
        if config.schema.tables is not None:
            note(
                "Two tables are rehearsed on simulated rows: a public stand-in would have to be two files as well, "
                "which is not offered here."
            )
            _simulated(config, grid)
            show_refusal("stand-in")
            return
        source = st.segmented_control(
            "Which rows to use",
            list(_ROWS),
            default="upload",
            format_func=_ROWS.__getitem__,
            key="rehearsal-rows",
            help="These rows need no protection, so a rehearsal costs no budget, however often you repeat it.",
        )
        if source == "simulated":
            _simulated(config, grid)
        else:
            _uploaded(config, grid)
    show_refusal("stand-in")


def _uploaded(config: RunConfig, grid: Grid | None) -> None:
    declared = st.checkbox(DECLARATION, key="stand-in-is-public")
    uploaded = st.file_uploader(
        "Stand-in: a table with the columns you described, in the format of the private one (CSV, TSV or Parquet)",
        type=TABLE_TYPES,
        key=uploader_key("stand-in"),
        max_upload_size=application().settings.maximum_upload_bytes // 2**20,
        disabled=not declared,
        help="For example a public sample, an older open file, or rows typed by hand. It is deleted after the "
        "rehearsal.",
    )
    if not declared:
        note("The numbers of a rehearsal are safe to publish only because its rows are public: confirm that first.")
    if uploaded is not None and declared:
        with taking("stand-in"), stream_of(uploaded) as rows:
            application().rehearsals.start(config, rows, grid=grid, simulated=False)


def _simulated(config: RunConfig, grid: Grid | None) -> None:
    simulation = ask_simulation(config)
    if st.button("Rehearse on simulated rows", key="rehearse-simulated", help="Free: no private row is read."):
        with taking("stand-in"):
            rows = io.BytesIO(simulated_table(simulation, config.schema))
            application().rehearsals.start(config, rows, grid=grid, simulated=True)


def _moment(report: dict[str, Any]) -> str:
    try:
        return f"Rehearsed on {datetime.fromisoformat(str(report['time'])):%Y-%m-%d at %H:%M} UTC"
    except ValueError:
        return "Rehearsed"


def ask_grid(config: RunConfig) -> Grid:
    """Ask which epsilons, generators and seeds are rehearsed.

    Raises
    ------
    InputError
        If that is no grid, or too large a one.
    """
    usual = Grid.usual(config)
    purpose = None
    if config.label is not None:
        purpose = st.segmented_control(
            "What the rows are for",
            list(PURPOSES),
            default=usual.purpose,
            format_func={"prediction": f"Predicting {config.label}", "counts": "Counting"}.__getitem__,
            key="grid-purpose",
            help="The generator that does best at it comes first.",
        )
    epsilons, generators, seeds = st.columns([3, 3, 1])
    chosen = epsilons.multiselect(
        "Epsilons",
        sorted({*EPSILON_STOPS, 8.0, config.epsilon}),
        default=list(usual.epsilons),
        format_func="{:g}".format,
        key="grid-epsilons",
        help="Each is tried with each generator. Two or three that are far apart show most.",
    )
    names = generators.multiselect(
        "Generators",
        [EVERY_GENERATOR, *(card.name for card in generator_cards())],
        default=list(usual.generators),
        format_func=lambda name: "every generator that can make the table" if name == EVERY_GENERATOR else name,
        key="grid-generators",
        help="'independent' keeps no relationships between columns: a generator that does no better is not "
        "worth using.",
    )
    number = seeds.number_input(
        "Seeds",
        min_value=1,
        max_value=10,
        value=usual.seeds,
        key="grid-seeds",
        help="How often each is repeated with different noise. Three or more show how much a number depends on chance.",
    )
    if not chosen or not names:
        raise InputError("Choose at least one epsilon and one generator.")
    grid = Grid.usual(
        config, epsilons=tuple(map(float, chosen)), generators=tuple(names), seeds=int(number), purpose=purpose
    )
    for sentence in grid.left_out:
        note(plain(sentence))
    note(
        f"{count(grid.cells)} rehearsals, one after the other, each about as long as a run with its predictions and "
        "attacks; the time left is shown after the first. If you stop, finished rehearsals are kept."
    )
    return grid


def grid_report(report: dict[str, Any]) -> None:
    """Show the cells side by side, and those that failed."""
    if report["done"] < report["of"]:
        st.info(f"{count(report['done'])} of {count(report['of'])} rehearsals are done; these are their numbers.")
    for sentence in report["left_out"]:
        note(plain(sentence))
    for failure in report["failures"]:
        st.warning(plain(failure))
    cards(read_evidence(report), key="grid", badged=report["incident"] is None)


def take_over(report: dict[str, Any]) -> None:
    """Take a generator and an epsilon of the grid into the draft."""
    cells = sorted({(str(cell["generator"]), float(cell["epsilon"])) for cell in report["cells"]})
    if not cells:
        return
    titles = {f"{name}, ε = {epsilon:g}": (name, epsilon) for name, epsilon in cells}
    held = draft()
    now = f"{held['generator']}, ε = {float(held['epsilon']):g}"
    choice, button = st.columns([3, 2], vertical_alignment="bottom")
    chosen = choice.selectbox(
        "Generator and budget",
        list(titles),
        index=list(titles).index(now) if now in titles else 0,
        key="grid-choice",
        help="What the run will use. Nothing is spent by choosing it.",
    )
    name, epsilon = titles[str(chosen)]
    if button.button("Use this generator and ε", key="grid-use"):
        if name != held["generator"]:
            # As when its card is chosen: options belong to a generator, and only one of them hides single cells.
            held.update(generator=name, options={}, protection="record")
        held["epsilon"] = epsilon
        forget_widgets()
        st.rerun()
    note(
        f"The run is set to {plain(now)}. Choosing by a rehearsal does not weaken the promise: no private row "
        f"is used in it."
    )


def ask_simulation(config: RunConfig) -> Simulation:
    """Ask for rows, shapes, public shares and links, and return what they declare.

    Raises
    ------
    ConfigError
        If something typed cannot be used.
    """
    names = [column.name for column in modelled_columns(config.schema.declared)]
    rows = st.number_input(
        "Rows to simulate",
        min_value=100,
        max_value=1_000_000,
        value=max(100, min(config.rows, _MOST_ROWS)),
        step=1000,
        key="simulation-rows",
        help="About as many as the private table has, if that is public: with fewer, the result looks worse "
        "than it will be.",
    )
    note(
        "Enter only what anyone could know without looking at the table; columns left empty have even shares "
        "and no relationships. Shares: one number per declared value (no before yes), or per equal part of a "
        "range. Goes with: high values occur together, or high with low if the strength is negative. A label "
        "that goes with nothing cannot be predicted."
    )
    frame = st.data_editor(
        _first_rows(names),
        key=_TABLE,
        hide_index=True,
        height="content" if len(names) <= _MOST_IN_FULL else "auto",
        disabled=["column"],
        column_config={
            _SHAPE: st.column_config.SelectboxColumn(options=list(SHAPES), required=True),
            _FOLLOWS: st.column_config.SelectboxColumn(options=["", *names]),
            _STRENGTH: st.column_config.NumberColumn(min_value=-1.0, max_value=1.0, step=0.1, format="%.1f"),
        },
    )
    rows_of_table = frame.fillna({_SHARES: "", _FOLLOWS: "", _STRENGTH: _USUAL_STRENGTH}).to_dict("records")
    st.session_state[_KEPT] = rows_of_table
    columns = {str(row["column"]): _mapping(row) for row in rows_of_table}
    return parse_simulation({"columns": columns}, rows=int(rows))


def _first_rows(names: list[str]) -> pd.DataFrame:
    """Return what the table starts from: the same for as long as it is on the screen, then what was typed last."""
    start = st.session_state.get("simulation-start", [])
    if _TABLE not in st.session_state or [row["column"] for row in start] != names:
        typed = {row["column"]: row for row in st.session_state.get(_KEPT, [])}
        fresh: dict[str, Any] = {_SHAPE: SHAPES[0], _SHARES: "", _FOLLOWS: "", _STRENGTH: _USUAL_STRENGTH}
        start = [{"column": name, **fresh, **typed.get(name, {})} for name in names]
        st.session_state["simulation-start"] = start
        st.session_state.pop(_TABLE, None)
    return pd.DataFrame(start)


def _mapping(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"shape": str(row[_SHAPE])}
    if str(row[_SHARES]).strip():
        body["shares"] = split_list(str(row[_SHARES]))
    if row[_FOLLOWS]:
        body |= {"follows": str(row[_FOLLOWS]), "strength": float(row[_STRENGTH])}
    return body


if __name__ == "__main__":
    through_the_application()
    screen()
