"""5 Report: what the rows are worth, each number with its badge; what reports show is drawn here, piece by piece."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch

import streamlit as st

from pages.ui.charts import accent, ink, show_table, table_of
from pages.ui.counts import show_counts
from pages.ui.evidence import OWNER_ONLY_NOTE, badge, badge_text, cards, number_card, read_evidence, show_value
from pages.ui.forecast import forecast_panel
from pages.ui.guards import guard, require, through_the_application
from pages.ui.running import LongWork, follow_work
from pages.ui.session import application, draft, go
from pages.ui.stand_in import stand_in_attacks
from pages.ui.words import DELTA_MEANS, note, plain, stated
from synth.rehearsal.estimating import together
from synth.reports.document import first_screen_html, first_screen_style
from synth.reports.evidence import Evidence, Kind
from synth.reports.first_screen import first_screen
from synth.reports.panels import (
    Alarm,
    Badge,
    Cards,
    Choice,
    ExactWarning,
    Folded,
    ForecastDetails,
    Heading,
    Listing,
    NoisyCounts,
    OnRequest,
    Opening,
    Option,
    Panel,
    Panels,
    Part,
    Pick,
    PromiseCards,
    Questions,
    RehearsalResults,
    Words,
)
from synth.reports.registry import renewal_called, screens_of, tabs
from synth.reports.report import Shown, Tab
from synth.services.views import RunView


def screen() -> None:
    """Draw the screen."""
    title, buttons = st.columns([2, 4], vertical_alignment="center")
    title.title("Read the report")
    require("run")
    require("report")
    run_id = draft()["run_id"]

    evidence = read_evidence(application().report(run_id))
    found = tabs(application().config_of(run_id))
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        _downloads(application().run(run_id))
        st.button("Next tab", key="read-on", on_click=_open_tab, args=(found[min(1, len(found) - 1)].title,))
        if st.button("Continue to 6 Release", type="primary", key="continue-release"):
            go("release")
    # Only the open tab is drawn: exact numbers are looked at, and the look recorded, when their tab is opened.
    places = st.tabs([tab.title for tab in found], on_change="rerun", key="report-tab")
    for tab, place in zip(found, places, strict=True):
        # Each tab has its own guard: the failure of one never hides the others.
        if place.open:
            with place, guard():
                show_tab(tab, run_id, evidence)


def _downloads(run: RunView) -> None:
    """Offer the rows and the bundle where they are sealed; the right is checked again when a button is pressed."""
    asked, sealed = application(), run.state == "released"
    told = None if sealed else "Available once the release is sealed on 6 Release."
    offered = [("Download bundle", asked.bundle, "bundle", f"hermitage-{run.run_id[:8]}.zip")]
    if run.rows:
        joined = asked.config_of(run.run_id).schema.tables is not None  # 6 Release has each of the two
        label = "Download both, joined (CSV)" if joined else "Download CSV"
        offered.insert(0, (label, asked.rows, "rows", f"synthetic-{run.run_id[:8]}.csv"))
    for label, given, key, name in offered:
        st.download_button(
            label,
            data=partial(given, run.run_id),
            file_name=name,
            on_click="ignore",
            disabled=not sealed,
            help=told,
            key=f"download-{key}",
        )


def _open_tab(title: str) -> None:
    st.session_state["report-tab"] = title


def show_tab(tab: Tab, run_id: str, evidence: Sequence[Evidence]) -> None:
    """Show what all reports have on a tab; asking for exact numbers is entered in the ledger of these people."""
    config = application().config_of(run_id)
    screens = screens_of(tab, config)
    shown = Shown(config, tuple(evidence))
    pieces = [piece for screen in screens if not screen.exact for piece in screen.panels(shown)]
    _draw_section(pieces, run_id)
    exact = [screen for screen in screens if screen.exact]
    if not exact:
        return
    document = application().owner_report(run_id)
    if document is None:
        st.info(exact[0].without)
        return
    shown = Shown(config, tuple(evidence), tuple(read_evidence(document)))
    pieces = [piece for screen in exact for piece in screen.panels(shown)]
    _draw_section(pieces, run_id)


@dataclass(frozen=True, slots=True)
class _On:
    """What the pieces belong to: a run, and whether one badge above covers all of them."""

    run_id: str
    badged: bool = False


def _draw_section(pieces: Panels, run_id: str) -> None:
    """Draw what a tab has of one sort; numbers that are all of one kind have one badge."""
    kinds = set(_kinds(pieces))
    if len(kinds) == 1 and not any(isinstance(piece, ExactWarning) for piece in pieces):
        badge(*kinds)
    _draw_all(pieces, _On(run_id, badged=len(kinds) == 1))


def _kinds(pieces: Panels) -> Iterator[Kind]:
    for piece in pieces:
        if isinstance(piece, Cards):
            yield from (entry.kind for entry in piece.entries)
        elif isinstance(piece, Badge):
            yield piece.kind
        elif isinstance(piece, Alarm):
            yield piece.entry.kind
        elif isinstance(piece, Folded | Part):
            yield from _kinds(piece.panels)
        elif isinstance(piece, Choice | Pick):
            yield from (kind for option in piece.options for kind in _kinds(option.panels))


def _draw_all(pieces: Panels, on: _On) -> None:
    """Draw pieces in order; parts that several reports share are offered together, at the first of them."""
    parts = [piece for piece in pieces if isinstance(piece, Part)]
    warned = False
    for piece in pieces:
        if isinstance(piece, Part):
            if piece is parts[0]:
                # One part at a time: the tab stays short, and a wide table quick to draw.
                options = [Option(part.name, part.title, part.panels) for part in parts]
                _draw(Choice("What to compare", "owner-part", options), on)
        elif not (warned and isinstance(piece, ExactWarning)):
            warned = warned or isinstance(piece, ExactWarning)
            _draw(piece, on)


@singledispatch
def _draw(piece: Panel, on: _On) -> None:
    raise TypeError(f"Nothing draws a {type(piece).__name__}.")


@_draw.register
def _(piece: Cards, on: _On) -> None:
    cards(piece.entries, key=piece.key, badged=on.badged)


@_draw.register
def _(piece: Heading, on: _On) -> None:
    st.header(piece.text)


@_draw.register
def _(piece: Words, on: _On) -> None:
    text = plain(piece.text)
    if piece.kind == "paragraph":
        st.markdown(text)
    elif piece.kind == "note":
        note(text)
    else:
        st.info(text)


@_draw.register
def _(piece: Badge, on: _On) -> None:
    if not on.badged:
        badge(piece.kind)


@_draw.register
def _(piece: ExactWarning, on: _On) -> None:
    st.warning(f"{badge_text('owner_only')} {OWNER_ONLY_NOTE}")


@_draw.register
def _(piece: Alarm, on: _On) -> None:
    with st.container(border=True):
        st.error(plain(piece.entry.title))
        number_card(piece.entry, badged=on.badged, whole=True)


@_draw.register
def _(piece: Listing, on: _On) -> None:
    show_table(table_of(piece.table), alt=piece.table.title, key=piece.key, formats=piece.formats)


@_draw.register
def _(piece: Choice, on: _On) -> None:
    _draw_all(_chosen(piece).panels, on)


@_draw.register
def _(piece: Pick, on: _On) -> None:
    options = {option.name: option for option in piece.options}
    titles = {name: option.title for name, option in options.items()}
    chosen = st.selectbox(piece.label, list(options), format_func=titles.__getitem__, key=piece.key)
    _draw_all(options[chosen].panels, on)


@_draw.register
def _(piece: Folded, on: _On) -> None:
    with st.expander(piece.title):
        _draw_all(piece.panels, on)


@_draw.register
def _(piece: Opening, on: _On) -> None:
    asked, run_id = application(), on.run_id
    first = first_screen(read_evidence(asked.report(run_id)), asked.config_of(run_id), asked.first_rows(run_id))
    style = f"<style>:root{{--accent:{accent()}}}{first_screen_style()}</style>"
    st.html(style + _DRAWING.sub(_as_image, first_screen_html(first)))


_DRAWING = re.compile(r'<svg (viewBox="[^"]*" width="([^"]*)")([^>]*)>(.*?)</svg>', re.DOTALL)
_LABEL = re.compile(r'aria-label="([^"]*)"')


def _as_image(drawing: re.Match[str]) -> str:
    """Return a drawing as an image: Streamlit shows no other in markup. An image has no ink of the page's."""
    size, width, about, shapes = drawing.groups()
    whole = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{shapes}</svg>'.replace("currentColor", ink())
    label = _LABEL.search(about)
    coded = base64.b64encode(whole.encode()).decode()
    return f'<img alt="{label[1] if label else ""}" width="{width}" src="data:image/svg+xml;base64,{coded}">'


@_draw.register
def _(piece: Questions, on: _On) -> None:
    estimates, run_id = application().estimates, on.run_id
    work = LongWork(
        standing=partial(estimates.standing, run_id),
        cancel=partial(estimates.cancel, run_id),
        stop_label="Stop estimating",
        steps="second releases",
        after_stop="Stopped. Earlier estimates are below.",
    )
    if not follow_work(work, stop_key="stop-estimate"):
        with st.form("estimate", border=False):
            question = st.text_input("What to estimate", placeholder=next(iter(piece.examples), ""), key="estimate-of")
            if st.form_submit_button("Estimate"):
                estimates.ask(run_id, question)
                st.rerun()
        note("For example: " + "; ".join(f"`{one}`" for one in piece.examples))
    answers = estimates.answers(run_id)
    for place, one in enumerate(answers):
        with st.expander(plain(one.question), expanded=place == 0):
            shown = one.table.rename(columns={"low": "95 % from", "high": "to"})
            show_table(shown, alt=f"Estimates: {one.question}", key=f"estimate-{place}")
            note(" ".join(one.remarks))
    if answers:
        table = together(answers).to_csv(index=False)
        st.download_button("Download all estimates (CSV)", table, "estimates.csv", "text/csv", key="download-estimates")


@_draw.register
def _(piece: NoisyCounts, on: _On) -> None:
    asked = application()
    show_counts(asked.counts(on.run_id), key="counts", sealed=asked.run(on.run_id).state == "released")


@_draw.register
def _(piece: PromiseCards, on: _On) -> None:
    run = application().run(on.run_id)
    facts = (
        ("Epsilon", stated(run), piece.sentence),
        ("Delta", f"{run.delta:g}", DELTA_MEANS),
        ("Generator" if run.rows else "Model", run.generator, "Learned from noisy answers only."),
    )
    for (title, value, meaning), place in zip(facts, st.columns(3), strict=True):
        with place.container(border=True, height="stretch"):
            show_value(title, value)
            if not on.badged:
                badge("safe")
            note(meaning)


@_draw.register
def _(piece: ForecastDetails, on: _On) -> None:
    forecast_panel(application().plan(application().config_of(on.run_id)).forecast)


@_draw.register
def _(piece: RehearsalResults, on: _On) -> None:
    stand_in_attacks(application().config_of(on.run_id), piece.section)


@_draw.register
def _(piece: OnRequest, on: _On) -> None:
    renewal, asked, run_id = renewal_called(piece.name), application(), on.run_id
    work = LongWork(
        standing=partial(asked.renewal, run_id, piece.name),
        cancel=partial(asked.cancel_renewal, run_id, piece.name),
        stop_label=renewal.stop_label,
        steps="%",
    )
    if follow_work(work, stop_key=f"stop-{piece.name}"):
        return
    note(renewal.about(asked.renewal_minutes(run_id, piece.name)))
    if st.button(renewal.start_label, key=piece.name):
        asked.renew(run_id, piece.name)
        st.rerun()


def _chosen(piece: Choice) -> Option:
    """Let one be chosen; a nested choice is shown next to this one."""
    nested = all(isinstance(option.panels[0], Choice) for option in piece.options)
    places = st.columns(2) if nested else [st.container()]
    with places[0]:
        option = _choose(piece)
    if not nested:
        return option
    with places[1]:
        return _choose(option.panels[0])  # type: ignore[arg-type]


def _choose(piece: Choice) -> Option:
    options = {option.name: option for option in piece.options}
    names, titles = list(options), {name: option.title for name, option in options.items()}
    chosen = st.segmented_control(
        piece.label,
        names,
        default=names[0],
        format_func=titles.__getitem__,
        key=piece.key,
        help=piece.help or None,
    )
    return options[str(chosen)] if chosen in options else options[names[0]]


if __name__ == "__main__":
    through_the_application()
    screen()
