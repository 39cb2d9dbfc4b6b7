"""Compare: runs about the same people side by side, and what all of them cost."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.charts import draw, show_table, table_of
from pages.ui.evidence import badge
from pages.ui.guards import guard, invite, through_the_application
from pages.ui.session import application
from pages.ui.words import note, plain
from synth.reports.comparison import compared_table
from synth.reports.registry import reports
from synth.reports.wording import number_text
from synth.services.comparing import FEWEST_COMPARED, MOST_COMPARED, names_of

_READY = {"reported", "released"}
_MOST_NAMED = 2
_ABOUT_NOISE = (
    "Every run is compared with its own noisy counts, so each distance contains that run's noise: read it "
    "next to 'Distance due to noise alone' of the same run. Choosing by these numbers costs nothing extra; "
    "choosing by owner-only numbers would weaken the promise."
)


def screen() -> None:
    """Draw the screen."""
    st.title("Compare runs")
    st.markdown("Publishable numbers from two to four runs about the same people. Looking at them costs nothing.")

    chosen = choose_runs()
    if chosen:
        with guard():
            side_by_side(chosen)


def choose_runs() -> list[str]:
    """Ask for people and for runs about them; returns their ids, none while there are too few."""
    finished = [run for run in application().runs() if run.state in _READY]
    ready = [run for run in finished if run.rows]
    if len(ready) < len(finished):
        note("Runs that made a model are not listed: only tables are compared here.")
    accounts = sorted({run.account for run in ready})
    several = [name for name in accounts if sum(run.account == name for run in ready) >= FEWEST_COMPARED]
    if not several:
        invite(
            "You need two finished runs about the same people, for example with two generators or at two "
            "budgets. Every run is charged; a rehearsal compares them for free on rows that need no protection.",
            *(("generate", "4 Generate") if ready else ("start", "Start")),
        )
        return []
    account = st.selectbox("People", several, key="compare-account")
    runs = [run for run in ready if run.account == account]
    by_name = dict(zip(names_of(runs), (run.run_id for run in runs), strict=True))
    chosen = st.multiselect(
        "Runs",
        list(by_name),
        default=list(by_name)[:FEWEST_COMPARED],
        max_selections=MOST_COMPARED,
        key=f"compare-runs-{account}",
    )
    if len(chosen) < FEWEST_COMPARED:
        st.info("Choose at least two runs.")
        return []
    return [by_name[name] for name in chosen]


def side_by_side(run_ids: list[str]) -> None:
    """Draw one chosen number of every run, then all numbers as a table, under the sentence of what they cost."""
    found = application().compare(run_ids)
    st.warning(plain(found.sentence))
    badge("safe")
    note(_ABOUT_NOISE)
    if not found.numbers:
        st.info("These runs have no number in common.")
        return
    ids = [number.id for number in found.numbers]
    titles = {number.id: f"{number.title} ({number.id})" for number in found.numbers}
    first = next((ids.index(name) for report in reports() for name in report.compared if name in ids), 0)
    shown = st.selectbox("Number to show", ids, index=first, format_func=titles.__getitem__, key="compare-number")
    # Whole names of more than two runs would not fit beside each other.
    names = found.names if len(found.names) <= _MOST_NAMED else tuple("ABCD"[: len(found.names)])
    for letter, name in zip(names, found.names, strict=True):
        if letter != name:
            note(f"{letter}: {plain(name)}")
    draw(found.numbers[ids.index(shown)].bars(names), key=f"compare-{shown}")
    st.header("All numbers")
    frame = table_of(compared_table(found.numbers, names))
    # In one column, which has room for both.
    units = frame.pop("unit")
    frame["number"] = [
        f"{title}, {unit}" if unit else title for title, unit in zip(frame["number"], units, strict=True)
    ]
    for name in names:
        # As words: counts in full beside small distances, which no one format for a column writes.
        frame[name] = [number_text(value) if pd.notna(value) else "" for value in frame[name]]
    show_table(frame, alt="Runs side by side", key="compare-table")


if __name__ == "__main__":
    through_the_application()
    screen()
