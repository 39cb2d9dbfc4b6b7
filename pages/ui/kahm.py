"""The modes of KAHM with their honest labels, and what is known of each before anything is spent."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.badges import badge
from pages.ui.charts import show_table
from pages.ui.draft import config_of
from pages.ui.session import application, bind, draft
from pages.ui.words import amount, note, plain, upper
from synth.generators.kahm.modes import MODES, PAPER_REFUSAL, KahmMode, mode_of
from synth.reports.expected import Forecast

__all__ = ["MANY_CATEGORIES", "kahm_panel"]

MANY_CATEGORIES = 3
"""From so many category columns on, a generator that counts them is the better choice."""

_CHOICE = "field:kahm-mode"
_NOISE = "noise of one cell (1 = the whole range of the column)"


def kahm_panel() -> bool:
    """Say where another generator is better, let a mode be chosen by what it promises, and show what it will do.

    Returns whether the chosen mode can make a release.
    """
    _steer([row["role"] for row in draft()["columns"]].count("category"))
    mode = _mode_chooser()
    if not mode.releases:
        st.error(plain(PAPER_REFUSAL))
    elif mode.name in {"rows", "cell"}:
        if not _shows_nothing_new():
            return False
        _mode_facts(application().plan(config_of(draft())).forecast)
    return mode.releases


def _shows_nothing_new() -> bool:
    """Whether one row for every private one may be let out, by what was declared; if not, say what to declare."""
    held = draft()
    if held["row_count"] == "public" and held["rows_per_unit"] == 1:
        return True
    unit = plain(held["protects"] or "person")
    st.error(
        "This mode lets out one noisy row for every private one, so the number of rows must be public and every "
        f"{unit} may have only one. Declare both on 2 Describe if they are true, or choose 'Record level (central)'."
    )
    return False


def _mode_chooser() -> KahmMode:
    held = draft()
    names, unit = [mode.name for mode in MODES], plain(held["protects"] or "person")
    chosen = str(held["options"].get("mode", names[0]))
    st.subheader("What KAHM is to hide")
    name = st.radio(
        "Mode",
        names,
        index=names.index(chosen) if chosen in names else 0,
        format_func=_title,
        captions=[plain(f"{mode.promise} {mode.beware}").replace("one person's", f"one {unit}'s") for mode in MODES],
        key=_CHOICE,
        on_change=_keep_mode,
    )
    mode = mode_of(name)
    if mode.name == "cell":
        st.warning(f"**{plain(mode.promise)}** {plain(mode.beware)}")
        st.slider(
            "How far that cell may change, as a part of its declared range",
            min_value=0.05,
            max_value=1.0,
            step=0.05,
            **bind("cell_change"),
        )
    return mode


def _mode_facts(forecast: Forecast) -> None:
    """Show what noisy rows will carry: the noise of every column, and what noise on cells is worth for a row."""
    if forecast.row_epsilon is not None:
        st.metric("The same setting, for replacing a whole row", f"ε = {upper(forecast.row_epsilon)}")
        badge("safe")
        note(
            f"At delta {forecast.delta:g}, for a row with the same label; a changed label has no protection. "
            f"The epsilon you enter, {amount(forecast.epsilon)}, is for one cell. Compare other generators with this "
            "number, not with that one."
        )
    if not forecast.row_noise:
        return
    drowned = [noise.column for noise in forecast.row_noise if noise.drowned]
    frame = pd.DataFrame(
        {"column": [noise.column for noise in forecast.row_noise], _NOISE: [noise.std for noise in forecast.row_noise]}
    )
    badge("safe")
    show_table(frame, alt="Noise that every cell will carry, by column", key="row-noise", formats={_NOISE: "%.2f"})
    if drowned:
        st.warning(
            f"In {len(drowned)} of {len(frame)} columns the noise is wider than the column's whole range. Single rows "
            "will mean nothing; choose mode 'Record level (central)', or a larger epsilon."
        )


def _steer(categories: int) -> None:
    if categories >= MANY_CATEGORIES:
        st.info(
            f"This table has {categories} category columns. KAHM averages rows and loses rare categories; "
            "`dp-hp-adaptive` counts them."
        )


def _title(name: str) -> str:
    return mode_of(name).title


def _keep_mode() -> None:
    held, name = draft(), str(st.session_state[_CHOICE])
    held["options"] = {key: value for key, value in held["options"].items() if key != "mode"}
    if name != MODES[0].name:
        held["options"]["mode"] = name
    held["protection"] = "cell" if name == "cell" else "record"
