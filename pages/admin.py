"""Admin: the key that signs, and what rehearsals have stopped."""

from __future__ import annotations

import streamlit as st

from pages.components.admin import signing_key, stopped_releases
from pages.components.entrance import through_the_application
from pages.components.guards import guard

through_the_application()

st.title("Admin")
with guard():
    signing_key()
with guard():
    stopped_releases()
