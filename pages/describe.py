"""2 Describe: what anyone could know without looking at the table."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.columns import errors_of_rows, notes_of_rows
from pages.ui.description import column_editor, domain_meter, kinds_by_looking, preset_form
from pages.ui.draft import config_of, missing_answers
from pages.ui.entrance import through_the_application
from pages.ui.guards import require
from pages.ui.notes import note
from pages.ui.people import task_questions, unit_questions
from pages.ui.session import draft, go
from pages.ui.words import plain
from synth.errors import SynthError
from synth.schema import config_to_yaml

__all__ = ["screen"]

MOST_PROBLEMS = 50
"""That are listed at once: a table may have 5,000 columns."""


def screen() -> None:
    """Draw the screen."""
    st.title("Describe the table")
    require("table")
    held = draft()

    st.markdown(
        "**Tell us what anyone could know without looking at this table. Whatever you type here will be published.**"
    )

    st.subheader("The people")
    unit_questions()

    st.subheader("The columns")
    note(
        "Bounds and categories start empty and are never read from the rows. Fill them from public knowledge. Roles "
        "are guessed from names; where a name says nothing, choose one."
    )
    preset_form()
    column_editor()
    kinds_by_looking()
    for sentence in notes_of_rows(held["columns"]):
        st.info(plain(sentence))
    domain_meter()

    st.subheader("What the rows are for")
    task_questions()

    problems = [*missing_answers(held), *errors_of_rows(held["columns"])]
    config = None
    if not problems:
        try:
            config = config_of(held)
        except SynthError as error:
            problems = [str(error)]

    st.divider()
    left, right = st.columns([1, 1], vertical_alignment="center")
    if left.button("Continue to 3 Budget", type="primary", key="continue-budget"):
        if problems:
            st.session_state["asked"] = True
        else:
            held["described"] = True
            st.session_state.pop("asked", None)
            go("budget")
    if config is not None:
        right.download_button(
            "Download this description (YAML)",
            data=partial(config_to_yaml, config.published()),
            file_name="hermitage.yaml",
            mime="application/yaml",
            on_click="ignore",
            key="download-description",
            help="Holds only what you declared. Upload it with the next table, or give it to the command line.",
        )
    held["described"] = held["described"] and not problems

    if problems and st.session_state.get("asked"):
        more = [f"- {len(problems) - MOST_PROBLEMS:,} more"] if len(problems) > MOST_PROBLEMS else []
        listed = [f"- {plain(problem)}" for problem in problems[:MOST_PROBLEMS]]
        st.error("\n".join(["Before you go on:", *listed, *more]))
    elif problems:
        note(f"{len(problems)} thing{'s' if len(problems) > 1 else ''} still to fill in.")


if __name__ == "__main__":
    through_the_application()
    screen()
