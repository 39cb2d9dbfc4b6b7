"""Start: what this is, the ways in, and what it does not do."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.server.uploads import whole_stream
from pages.ui.draft import fill_from_config, take_table
from pages.ui.frame import ONE_OWNER
from pages.ui.guards import through_the_application
from pages.ui.latest import latest_work
from pages.ui.login import user_name
from pages.ui.session import (
    MOST_BUNDLE_MEGABYTES,
    application,
    draft,
    forget_widgets,
    go,
    show_refusal,
    standing,
    start_again,
    taking,
    uploader_key,
)
from pages.ui.words import plain
from synth.bundle.verify import Outcome
from synth.demonstration import CLINIC, NETWORK, Demonstration
from synth.ledger.rulings import Role

NOT_PROMISED = (
    "It is not legal advice.",
    "It protects the people you name in step 2, not facts about groups: patterns shared by many people will show.",
    "It does not hide that the table exists, its column names, or anything you declare public.",
    "Values outside the limits you declare are moved to the nearest limit.",
    "Small tables give inaccurate rows. The Budget page shows the expected accuracy before anything is spent.",
)


def screen() -> None:
    """Draw the screen."""
    st.title("Turn a private table into rows you can share.")
    st.markdown(
        "Declare what is public, choose a privacy budget, make synthetic rows, read the report, and leave with a table "
        "and a certificate that anyone can check."
    )

    roles, single = standing()
    is_owner = Role.OWNER in roles
    if not roles:
        st.info(f"You are signed in as {plain(user_name())}, and have no role here yet. Ask an administrator for one.")
    if is_owner:
        demonstration, begin, verify = st.columns(3, border=True)
        _ways_in(demonstration, begin)
    else:
        verify = st.container(border=True)
    with verify:
        st.header("Verify someone else's certificate")
        st.markdown(
            "Upload the bundle you received. Its promise and every file are checked, its rows are drawn again, and "
            "its report is made again."
        )
        # Before the bundle, which is checked as soon as it is there.
        owners = st.text_area(
            "The owner's public key, if you have it",
            key="verify-key",
            height=80,
            max_chars=2_000,
            placeholder="-----BEGIN PUBLIC KEY-----",
            help="The text of public-key.pem, as the owner sent it to you apart from the bundle. Without it, anyone "
            "may have signed.",
        )
        bundle = st.file_uploader(
            "Bundle (zip)", type="zip", key=uploader_key("bundle"), max_upload_size=MOST_BUNDLE_MEGABYTES
        )

    if bundle is not None:
        st.session_state.pop("verdict", None)
        with taking("bundle"), whole_stream(bundle, most=MOST_BUNDLE_MEGABYTES * 2**20) as stream:
            verdict = application().verify(stream, owners.strip().encode() or None)
            st.session_state["verdict"] = (verdict.outcome, list(verdict.lines))
    show_refusal("bundle")
    if "verdict" in st.session_state:
        show_verdict(*st.session_state["verdict"])

    if is_owner:
        latest_work()

    st.header("What this does not do")
    said = (*NOT_PROMISED, ONE_OWNER) if single else NOT_PROMISED
    st.markdown("\n".join(f"- {sentence}" for sentence in said))


def _ways_in(demonstration: DeltaGenerator, begin: DeltaGenerator) -> None:
    """Offer an owner the demonstrations and an own release."""
    with demonstration:
        st.header("Try the demo table")
        st.markdown(
            f"{NETWORK.visits:,} simulated visits to a clinic network, no real data. Every page is filled in: "
            f"click straight through."
        )
        offer(NETWORK, "Open the demo table", primary=True)
        st.markdown(f"Or see what too little data does: {CLINIC.visits:,} visits to one clinic, on a small budget.")
        offer(CLINIC, "Open a table that is too small")
    with begin:
        st.header("Start a release")
        st.markdown("Upload a table. It is kept encrypted on this server, and its rows are never shown.")
        if st.button("Start with your own table", key="start-release"):
            start_again()
            go("upload")


def offer(which: Demonstration, label: str, *, primary: bool = False) -> None:
    """Show the button that opens a demonstration."""
    if st.button(label, type="primary" if primary else "secondary", key=f"open-{which.stem}"):
        with st.spinner("Loading the table"):
            open_demonstration(which)
        go("upload")


def open_demonstration(which: Demonstration) -> None:
    """Take in a demonstration table and fill the draft with its configuration."""
    table, config = application().demonstration(which)
    start_again()
    held = draft()
    take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    fill_from_config(held, config)
    held.update(demonstration=which.why, account=table.account)
    forget_widgets()


def show_verdict(outcome: Outcome, lines: list[str]) -> None:
    """Say whether the bundle is what it claims, is not, or could not be checked here, and why."""
    with st.container(border=True):
        if outcome is Outcome.HOLDS:
            st.success(
                "Everything matches the certificate. What was checked, and what was not, is listed below.",
                icon=":material/check_circle:",
            )
        elif outcome is Outcome.UNKNOWN:
            st.info(
                "Nothing wrong was found, but not everything could be checked here. What is missing, and what it "
                "takes, is listed below as NOT CHECKED.",
                icon=":material/help:",
            )
        else:
            st.error("This bundle does not match its certificate, or cannot be read.", icon=":material/error:")
        for line in lines:
            st.markdown(f"- {plain(line)}")


if __name__ == "__main__":
    through_the_application()
    screen()
