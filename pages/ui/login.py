"""Who the user of this session is: the only user, or the one that a proxy or a provider of OpenID Connect names."""

from __future__ import annotations

import time

import streamlit as st

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
    ends = st.user.get("exp") if st.user.is_logged_in else None
    return isinstance(ends, int | float) and ends <= time.time()


def _claimed(login: Login) -> str:
    if login.name == "email" and st.user.get("email_verified") is False:
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
        st.error(f"Your provider did not give a verified name ({plain(login.name)}). Ask an administrator.")
        if st.button("Sign in as somebody else", key="sign-out"):
            st.logout()
        return
    if st.user.is_logged_in:
        st.warning("Your sign-in has expired. Sign in again: what you typed is saved with its table.")
    else:
        st.markdown("Sign in to continue.")
    if st.button("Sign in", type="primary", key="sign-in"):
        st.login()


def offer_sign_out() -> None:
    """Offer to sign out, where somebody has signed in here."""
    login = Settings.from_environment().login
    if login is not None and login.kind == "oidc" and st.button("Sign out", key="sign-out"):
        st.logout()
