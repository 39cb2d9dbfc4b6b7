"""Admin: users and policy, tables and incidents, the key that signs, and keeping the ledger whole."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.server.uploads import stream_of, whole_stream
from pages.ui.charts import show_table
from pages.ui.evidence import badge
from pages.ui.guards import guard, through_the_application
from pages.ui.session import MOST_BUNDLE_MEGABYTES, application
from pages.ui.words import note, plain
from synth.bundle.certificate import fingerprint_of
from synth.errors import SynthError
from synth.ledger.rulings import Policy, Role, roles_called
from synth.system.settings import size_text

_MOST_HEADS_MEGABYTES = 2


def screen() -> None:
    """Draw the screen."""
    st.title("Admin")
    for part in (
        users,
        policy,
        kept_tables,
        incidents,
        signing_key,
        restored_ledgers,
        heads,
        stopped_releases,
        removed_strays,
    ):
        with guard(away="pass"):
            part()


def users() -> None:
    """List the users and their roles, and give roles."""
    st.header("Users")
    found = application().users()
    if application().access.is_single_user:
        note(
            "There are no users: whoever reaches this server may do everything. To share it, set up a login "
            "(HERMITAGE_LOGIN), and give the first user the role of admin with synth user NAME --roles admin."
        )
        return
    if found:
        frame = pd.DataFrame({"user": list(found), "roles": [", ".join(sorted(roles)) for roles in found.values()]})
        show_table(frame, alt="The users of this installation and their roles", key="users")
    with st.form("give-roles", border=True):
        left, right = st.columns(2)
        name = left.text_input("User, as the login names them", key="user-name")
        roles = right.multiselect(
            "Roles",
            [role.value for role in Role],
            key="user-roles",
            help="Exactly these from now on; none takes all away. An owner takes in tables and releases; an approver "
            "decides about large budgets; an auditor sees the ledger and no row; an admin gives roles.",
        )
        if st.form_submit_button("Give these roles"):
            with guard():
                application().give_roles(name, roles_called(roles))
                st.rerun()
    owners = [name for name, roles in found.items() if Role.OWNER in roles]
    names = application().account_names()
    if not (owners and names):
        return
    with st.form("hand-over", border=True):
        st.markdown("Hand an account over, with its tables, drafts and runs.")
        left, right = st.columns(2)
        account = left.selectbox("Account", names, key="hand-over-account")
        owner = right.selectbox("New owner", owners, key="hand-over-owner")
        if st.form_submit_button("Hand over"):
            with guard():
                application().hand_over(str(account), str(owner))
                st.success(f"{plain(account)} belongs to {plain(owner)} now.")


def policy() -> None:
    """Show what this installation allows, and change it."""
    st.header("Policy")
    held = application().policy()
    with st.form("policy", border=True):
        places = [*st.columns(2), *st.columns(2)]
        given = {
            name: place.number_input(words, min_value=0.0, value=getattr(held, name), format="%g", key=name, help=text)
            for place, (name, words, text) in zip(places, _POLICY, strict=True)
        }
        note("Leave a field empty for no limit.")
        if st.form_submit_button("Set the policy"):
            with guard():
                application().set_policy(Policy(**{name: value or None for name, value in given.items()}))
                st.rerun()


_POLICY = (
    ("release_epsilon", "Largest ε of one release", "A release with a larger epsilon is refused."),
    (
        "approval_epsilon",
        "Above this ε, a second person has to approve",
        "An approver, who is not the one who asked, says yes or no on the Approvals page.",
    ),
    ("account_epsilon", "Limit on ε of an account without one of its own", "For all releases about the same people."),
    ("account_delta", "at δ", "The delta at which that limit is added up, far below 1 / (number of people)."),
)


def kept_tables() -> None:
    """List the encrypted tables, without their names, and delete one now."""
    st.header("Tables")
    found = application().intake.kept()
    if not found:
        note("No table is stored.")
        return
    frame = pd.DataFrame(
        {
            "table": [one.table_id[:8] for one in found],
            "people": [one.account for one in found],
            "owner": [one.owner for one in found],
            "size": [size_text(one.size_bytes) for one in found],
            "taken in (UTC)": [one.created.strftime("%Y-%m-%d %H:%M") for one in found],
            "deleted (UTC)": [
                "when its owner does" if one.keep_until is None else one.keep_until.strftime("%Y-%m-%d %H:%M")
                for one in found
            ],
        }
    )
    show_table(frame, alt="The encrypted tables of this installation", key="kept-tables")
    with st.form("delete-table", border=True):
        chosen = st.selectbox(
            "Table", [one.table_id for one in found], format_func=lambda name: name[:8], key="delete-table-id"
        )
        sure = st.checkbox("Delete its rows for good", key="delete-table-sure")
        if st.form_submit_button("Delete now"):
            if not sure:
                st.error("Confirm that the rows are to be deleted: they cannot be brought back.")
                return
            with guard():
                application().intake.delete_table(str(chosen))
                st.rerun()


def incidents() -> None:
    """List failures inside the program by their number; neither a message nor a cell is kept."""
    st.header("Incidents")
    found = application().incidents()
    if not found:
        note("Nothing has failed inside the program.")
        return
    frame = pd.DataFrame(
        {
            "incident": [one.detail["incident"] for one in found],
            "time (UTC)": [one.time.strftime("%Y-%m-%d %H:%M") for one in found],
            "run": [(one.run_id or "")[:8] for one in found],
            "kind": [one.detail["type"] for one in found],
            "place in the code": [one.detail["where"] for one in found],
        }
    )
    show_table(frame, alt="Failures inside the program, by number", key="incidents")


def restored_ledgers() -> None:
    """Enter releases that a restored ledger lacks, and accept a ledger that is complete."""
    st.header("Ledgers after a restore")
    frozen = application().account_names(frozen=True)
    if frozen:
        st.warning(f"Frozen until their ledger is accepted: {plain(', '.join(frozen))}")
    else:
        note("No account is frozen. There is nothing to do here.")
    note(
        "An account is frozen after a restore, or when its ledger is behind its mark. Enter the bundle of "
        "every release missing from the ledger, one at a time; a release that is already there is not entered twice."
    )
    with st.form("enter-releases", border=True, clear_on_submit=True):
        given = st.file_uploader(
            "Bundle of a missing release",
            help="The zip downloaded when the release was sealed, or a copy from a recipient.",
            type="zip",
            key="enter-bundle",
            max_upload_size=MOST_BUNDLE_MEGABYTES,
        )
        who = _name("kept with the ledger", key="enter-who")
        if st.form_submit_button("Enter the release"):
            if given is not None:
                _enter(given, who)
            else:
                st.error("Choose a bundle (bundle.zip): the signature is in it.")
    if frozen:
        with st.form("accept-ledger", border=True):
            chosen = st.selectbox("Account", frozen, key="accept-account")
            who = _name("kept with the ledger", key="accept-who")
            complete = st.checkbox(
                "Every release about these people is in its ledger",
                key="accept-complete",
                help="Compare the list on the Ledger page with what you have shared. A missing release would "
                "not be counted.",
            )
            if st.form_submit_button("Accept the ledger"):
                _accept(str(chosen), who, complete=complete)


def _name(kept: str, *, key: str) -> str:
    """Ask for the name of somebody who decides; where users sign in, it is theirs, and nothing is asked."""
    access = application().access
    return st.text_input(f"Your name, {kept}", key=key) if access.is_single_user else access.name


def _enter(uploaded: Any, who: str) -> None:
    with guard(), stream_of(uploaded) as bundle:
        entered = application().enter_release(bundle, who=who)
        (st.info if entered.was_there else st.success)(plain(entered.sentence))


def _accept(name: str, who: str, *, complete: bool) -> None:
    if not complete:
        st.error("Confirm that the ledger is complete: a missing release would be forgotten.")
        return
    with guard():
        application().accept_ledger(name, who=who)
        st.rerun()


def heads() -> None:
    """Offer how far every ledger has come, and compare with what was kept."""
    st.header("Ledger heads")
    note(
        "If the whole installation is set back to an earlier state, ledger and marks together, nothing inside "
        "it can tell. Keep the heads elsewhere: they contain no keys and no amounts. Compared later, they "
        "show a ledger that is behind."
    )
    st.download_button(
        "Download the heads",
        data=application().heads,
        file_name="hermitage-heads.txt",
        mime="text/plain",
        on_click="ignore",
        key="download-heads",
    )
    kept = st.file_uploader(
        "Compare with heads you have kept",
        type="txt",
        key="check-heads",
        max_upload_size=_MOST_HEADS_MEGABYTES,
        help="The file hermitage-heads.txt from an earlier day.",
    )
    if kept is None:
        return
    checked = st.session_state.get("checked-heads")
    if checked is None or checked["file"] != kept.file_id:
        # An upload is taken once; what it came to is shown for as long as it is chosen.
        checked = st.session_state["checked-heads"] = {"file": kept.file_id, **_check(kept)}
    (st.success if checked["ok"] else st.error)("  \n".join(plain(line) for line in checked["lines"]))


def _check(uploaded: Any) -> dict[str, Any]:
    try:
        with whole_stream(uploaded, most=_MOST_HEADS_MEGABYTES * 2**20) as stream:
            text = stream.read().decode("utf-8", errors="replace")
        found = application().check_heads(text)
    except SynthError as error:
        return {"ok": False, "lines": [str(error)]}
    return {"ok": found.ok, "lines": list(found.lines)}


def removed_strays() -> None:
    """Name the encrypted tables that were in the vault and on no screen, and those on a screen and not in the vault."""
    st.header("Tables out of place")
    note(
        "The vault is compared with the records at every start and while the server runs. Encrypted files "
        "without a record, left by a crash or a restored database, are deleted; so is the record of a table "
        "whose files are gone."
    )
    found = application().strays()
    if not found:
        st.info("Nothing was out of place.")
        return
    frame = pd.DataFrame(
        {
            "time (UTC)": [one.time.strftime("%Y-%m-%d %H:%M") for one in found],
            "table": [one.detail["table"] for one in found],
            "what was removed": [one.detail["what"] for one in found],
        }
    )
    show_table(frame, alt="Encrypted tables that were removed because no screen listed them", key="strays")


def signing_key() -> None:
    """Show the public key that bundles are signed with, its fingerprint, and how a stranger uses it."""
    public = application().public_key()
    st.header("Signing key")
    badge("safe")
    st.markdown(
        "Every bundle from this installation is signed with one key, made at the first start. Its public half "
        "is in each bundle; publish it, or its fingerprint, elsewhere as well, so that others can tell your "
        "releases from altered ones."
    )
    st.markdown("Fingerprint")
    st.code(fingerprint_of(public), language=None)
    st.markdown("Public key")
    st.code(public.decode("ascii"), language=None)
    st.download_button(
        "Download the public key",
        data=public,
        file_name="hermitage-public-key.pem",
        mime="application/x-pem-file",
        on_click="ignore",
        key="download-public-key",
    )
    note("To check a bundle with it: `synth verify bundle.zip --public-key hermitage-public-key.pem`")


def stopped_releases() -> None:
    """Show what rehearsals have stopped; a stop is cleared by someone who gives a name and a reason."""
    st.header("Stopped by rehearsals")
    note(
        "A rehearsal reads public or simulated rows. If an attack does better there than the proof allows, "
        "the program has a bug, and runs and releases with that configuration are stopped until someone "
        "clears the incident."
    )
    found = application().stops.all()
    if not found:
        note("No rehearsal has stopped anything.")
        return
    frame = pd.DataFrame(
        {
            "incident": [one.incident for one in found],
            "time (UTC)": [one.time.strftime("%Y-%m-%d %H:%M") for one in found],
            "generator": [one.generator for one in found],
            "attacks": [one.attacks for one in found],
            "state": ["open" if one.cleared_by is None else "cleared" for one in found],
        }
    )
    show_table(frame, alt="Releases that rehearsals have stopped", key="stops")
    for one in found:
        if one.cleared_by is not None:
            # Below the table, where there is room for a long reason.
            note(f"Incident {one.incident} was cleared by {plain(one.cleared_by)}: {plain(str(one.because))}")
    standing = [one.incident for one in found if one.cleared_by is None]
    if standing:
        _clearing(standing)


def _clearing(incidents: list[str]) -> None:
    with st.form("clear-incident", border=True):
        st.markdown("Clear an incident once its cause is found: its configuration can then be released again.")
        chosen = st.selectbox("Incident", incidents, key="clear-incident-id")
        who = _name("kept with the incident", key="clear-incident-who")
        because = st.text_input(
            "What was found",
            key="clear-incident-because",
            help="Why the attack did better than the proof allows: a bug in the program, or a wrong declaration.",
        )
        if st.form_submit_button("Clear the incident"):
            if not who.strip() or not because.strip():
                st.error("Give your name and what was found: both are kept with the incident.")
                return
            with guard():
                application().stops.clear(chosen, who=who.strip(), because=because.strip())
                st.rerun()


if __name__ == "__main__":
    through_the_application()
    screen()
