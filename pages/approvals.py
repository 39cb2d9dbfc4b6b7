"""Approvals: what was asked of a second person, and what they decided."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.charts import show_table
from pages.ui.guards import guard, through_the_application
from pages.ui.session import application
from pages.ui.words import amount, note, plain
from synth.ledger.rulings import Role
from synth.services.approvals import Request


def screen() -> None:
    """Draw the screen."""
    st.title("Approvals")
    policy = application().policy()
    if policy.approval_epsilon is None:
        st.markdown("The policy of this installation asks nobody for an approval.")
    else:
        st.markdown(
            f"A release with more than ε = {amount(policy.approval_epsilon)} needs a second person's approval. It is "
            "good for one run of exactly that configuration; nothing is reserved or read before."
        )
    found = application().approvals.all()
    may_decide = Role.APPROVER in application().access.roles
    waiting = [one for one in found if one.state == "waiting"]
    st.header("Waiting")
    if not waiting:
        note("Nothing waits for a decision.")
    for one in waiting:
        with st.container(border=True):
            _request(one, may_decide=may_decide)
    decided = [one for one in found if one.state != "waiting"]
    if decided:
        st.header("Decided")
        _decided(decided)


def _request(one: Request, *, may_decide: bool) -> None:
    config = one.config
    st.markdown(
        f"**{plain(one.account)}** · ε = {amount(one.epsilon)}, δ = {config.delta:g} · {plain(config.generator)} · "
        f"{config.rows:,} rows · {len(config.schema.modelled)} columns"
    )
    note(f"Request {one.id}, asked by {plain(one.asked_by)}, {one.asked:%Y-%m-%d %H:%M} UTC")
    st.markdown(f"{plain(config.schema.sentence)}. Columns: {plain(', '.join(config.schema.names))}.")
    if one.caution is not None:
        st.warning(plain(one.caution))
    if not may_decide:
        return
    hindrance = application().approvals.hindrance(one)
    if hindrance is not None:
        note(hindrance)
        return
    because = st.text_input("Reason, kept with the decision", key=f"because:{one.id}")
    row = st.container(horizontal=True)
    if row.button("Approve", type="primary", key=f"approve:{one.id}"):
        with guard():
            application().approvals.approve(one.id, because=because)
            st.rerun()
    if row.button("Refuse", key=f"refuse:{one.id}"):
        with guard():
            application().approvals.refuse(one.id, because=because)
            st.rerun()


def _decided(requests: list[Request]) -> None:
    frame = pd.DataFrame(
        {
            "request": [one.id for one in requests],
            "people": [one.account for one in requests],
            "epsilon": [one.epsilon for one in requests],
            "asked by": [one.asked_by for one in requests],
            "state": [one.state for one in requests],
            "decided by": [one.decided_by for one in requests],
            "time (UTC)": [f"{one.decided:%Y-%m-%d %H:%M}" if one.decided else "" for one in requests],
            "reason": [one.because for one in requests],
        }
    )
    show_table(frame, alt="Requests that were decided", key="decided", formats={"epsilon": "%.2f"})


if __name__ == "__main__":
    through_the_application()
    screen()
