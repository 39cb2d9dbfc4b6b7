"""Who the user of this session is: the only user, or the one that a proxy or a provider of OpenID Connect names."""

from __future__ import annotations

import streamlit as st

from pages.server import signing_in
from pages.ui.words import plain
from synth.store import SINGLE_USER
from synth.system.settings import Login, Settings

NOBODY = ""
"""A name that has no role."""


def user_name() -> str:
    """Return the name of the user of this session; it is empty where nobody has signed in."""
    login = Settings.from_environment().login
    if login is None:
        return SINGLE_USER
    if login.kind == "header":
        return (st.context.headers.get(login.name) or NOBODY).strip()
    return NOBODY if is_expired() or not st.user.is_logged_in else _claimed(login)


def is_expired() -> bool:
    """Whether the provider's word for who this is has passed its time."""
    return bool(st.user.is_logged_in) and signing_in.is_expired(st.user.to_dict())


def _claimed(login: Login) -> str:
    if login.name == "email" and st.user.get("email_verified") not in (True, "true"):
        return NOBODY  # anyone could have typed it
    return str(st.user.get(login.name) or NOBODY).strip()


def ask_to_sign_in() -> None:
    """Draw the screen of somebody who has not signed in."""
    login = Settings.from_environment().login
    st.title("Hermitage")
    if login is None or login.kind == "header":
        name = "" if login is None else login.name
        st.error(f"The proxy in front of this server did not say who you are (header {plain(name)}). Sign in there.")
        return
    if st.user.is_logged_in and not is_expired():
        st.error(
            f"Your provider gave no name that counts here ({plain(login.name)}"
            f"{', which must be verified' if login.name == 'email' else ''}). Ask an administrator."
        )
        if st.button("Sign in as somebody else", key="sign-out"):
            st.logout()
        return
    if st.user.is_logged_in:
        st.warning("Your sign-in has expired. Sign in again: your draft is saved with its table.")
    else:
        st.markdown(
            "Synthetic rows of private tables, with a privacy claim that anyone can check. Sign in to continue."
        )
    if st.button("Sign in", type="primary", key="sign-in"):
        st.login()


def offer_sign_out() -> None:
    """Offer to sign out, where somebody has signed in here."""
    login = Settings.from_environment().login
    if login is not None and login.kind == "oidc" and st.button("Sign out", key="sign-out"):
        st.logout()
