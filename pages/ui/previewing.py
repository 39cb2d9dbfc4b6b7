"""Preview columns privately: the offer with its cost and its error, the work, and the histograms."""

from __future__ import annotations

import streamlit as st

from pages.ui.counts import show_counts
from pages.ui.losses import draw_losses, start_unless_lost
from pages.ui.running import LongWork, follow_work
from pages.ui.session import application, draft
from pages.ui.words import amount, note, plain, upper
from synth.errors import InputError, PrivacyError
from synth.privacy.more.together import epsilon_together
from synth.schema import Neighbours, RunConfig, modelled_columns
from synth.services.previewing import USUAL_SHARE, PreviewPlan

_COLUMNS, _EPSILON, _BEGUN = "preview-columns", "preview-epsilon", "preview-begun"


def preview_panel(config: RunConfig) -> None:
    """Offer a preview of described columns, follow it, and show what earlier ones counted.

    Parameters
    ----------
    config : RunConfig
        The planned release of the draft.
    """
    if config.schema.neighbours is Neighbours.CELL:
        note("When single cells are protected, nothing can be previewed: counts of values protect whole rows.")
        return
    table_id = str(draft()["table_id"])
    if _follow(table_id):
        return
    _offer(config, table_id)
    _show(config.account)


def _follow(table_id: str) -> bool:
    """Follow the preview of this table that is going on, or say how the last one of this session ended."""
    previews = application().previews
    going = previews.going(table_id)
    begun = st.session_state.get(_BEGUN) if going is None else going.id
    if begun is None:
        return False
    draw_losses(begun)
    work = LongWork(
        standing=lambda: previews.standing(begun),
        cancel=lambda: previews.cancel(begun),
        stop_label="Stop (what was spent stays spent)",
        steps="steps",
        after_stop="Stopped. If it was paid for, the same preview continues at no cost.",
    )
    return follow_work(work, stop_key="stop-preview")


def _offer(config: RunConfig, table_id: str) -> None:
    st.markdown(
        "See noisy histograms of a few columns before you pay for a release. What you then choose is covered, as the "
        "preview is differentially private. It is charged to the same people. Its counts are not published; later "
        "releases state what it cost."
    )
    names = [column.name for column in modelled_columns(config.schema.declared)]
    columns = st.multiselect("Columns to preview", names, key=_COLUMNS, placeholder="The fewer, the less noise")
    most = config.epsilon * 0.9
    st.session_state[_EPSILON] = min(
        float(st.session_state.get(_EPSILON, float(f"{config.epsilon * USUAL_SHARE:.6g}"))), most
    )
    epsilon = st.number_input(
        "Epsilon for the preview",
        min_value=0.001,
        max_value=most,
        step=0.01,
        format="%.3f",
        key=_EPSILON,
        help="In addition to the budget of the release, a twentieth of it by default.",
    )
    if not columns:
        note("Choose a column: the error of its counts is stated before anything is spent.")
        return
    try:
        plan = application().previews.plan(config, columns, epsilon=float(epsilon))
        anew = plan.paid is not None and st.checkbox("Count the present table, for another charge", key="preview-anew")
        if anew:
            plan = application().previews.plan(config, columns, epsilon=float(epsilon), anew=True)
    except (InputError, PrivacyError) as error:
        st.warning(plain(error))
        return
    _before(config, plan)
    label = "Show it again" if plan.paid is not None else f"Preview (spends {amount(plan.epsilon)})"
    pressed = st.button(label, key="preview", disabled=plan.refusal is not None)
    spent = {"epsilon": plan.epsilon, "delta": plan.delta}
    begun = start_unless_lost(
        lambda reading: application().previews.reserve(
            config, columns, table_id=table_id, **spent, anew=anew, reading=reading, start=True
        ),
        pressed=pressed,
        about=(config, tuple(columns), table_id, spent),
        label=label,
    )
    if begun is not None:
        st.session_state[_BEGUN] = begun
        st.rerun()


def _before(config: RunConfig, plan: PreviewPlan) -> None:
    """Say what a preview costs and how accurate it will be, before it is paid for."""
    if plan.paid is not None:
        st.info(plain(plan.cost))
    else:
        st.markdown(
            f"**Spends ε = {amount(plan.epsilon)}** (δ = {plan.delta:g}) of these people, beside the release. Total "
            f"spent on them afterwards: {upper(plan.epsilon_after)}. For at most {config.epsilon:g} in all, set the "
            f"budget of the release to {plan.epsilon_left:g} above."
        )
    for one in plan.foreseen:
        note(
            plain(
                f"{one.column}: counts within ±{one.error:,.3g} rows; if its {one.bins} bins shared "
                f"{plan.rows_at_most:,} rows equally, each would have {plan.rows_at_most / one.bins:,.0f}."
            )
        )
    if plan.refusal is not None:
        st.error(plain(plan.refusal))


def _show(account: str) -> None:
    """Show what the previews of these people counted, the newest first."""
    for place, (charge, preview) in enumerate(application().previews.of_account(account)):
        names = ", ".join(column.name for column in preview.schema.modelled)
        title = f"{plain(names)} at ε = {amount(preview.epsilon)}, of {charge.time:%Y-%m-%d}"
        with st.container(border=True, key=f"preview-{charge.run_id}"):
            st.markdown(f"**Preview of {title}**")
            if place == 0 or st.toggle("Show", key=f"show-{charge.run_id}"):
                show_counts(preview.counts, key=f"counts-{charge.run_id}")


def previews_note(config: RunConfig) -> None:
    """Say beside a budget what was spent on previews of the same people; nothing where nothing was."""
    if config.previews:
        spent = ", ".join(f"ε = {amount(one.epsilon)}" for one in config.previews)
        note(
            f"Previews of these people were charged before ({spent}). The release states at most ε = "
            f"{upper(epsilon_together(config))} for all of it."
        )
