"""The application: the server, and for every view of a page navigation, header, guards and footer.

``streamlit run app.py`` imports this file once for the server, and runs it as a script for every view; every screen is
a file in pages/.
"""

from __future__ import annotations

import streamlit as st
from starlette.middleware import Middleware

from pages.server.serving import Surface, lifespan, warm_up
from pages.server.uploads import EncryptedUploads
from pages.ui.frame import brand, footer, header, sidebar_at_first
from pages.ui.guards import guard, quiet_logs
from pages.ui.session import keep_address, keeping_draft, say_what_changed_elsewhere
from synth.errors import ConfigError
from synth.system.settings import Settings


def screens() -> None:
    """Draw the view that the address names."""
    st.set_page_config(layout="wide", initial_sidebar_state=sidebar_at_first(), menu_items={})
    page = st.navigation(
        [
            st.Page("pages/start.py", title="Start", default=True),
            st.Page("pages/upload.py", title="1 Upload"),
            st.Page("pages/describe.py", title="2 Describe"),
            st.Page("pages/budget.py", title="3 Budget"),
            st.Page("pages/rehearse.py", title="Rehearse (optional)"),
            st.Page("pages/generate.py", title="4 Generate"),
            st.Page("pages/models.py", title="Private models"),
            st.Page("pages/report.py", title="5 Report"),
            st.Page("pages/release.py", title="6 Release"),
            st.Page("pages/compare.py", title="Compare"),
            st.Page("pages/ledger.py", title="Ledger"),
            st.Page("pages/admin.py", title="Admin"),
        ],
        expanded=True,
    )
    brand(page.title)

    # The footer is drawn before the page, in its place below it: a page may stop early, the footer never does.
    top, body, bottom = st.container(), st.container(), st.container()
    with guard(away="hide"):
        keep_address()
    with top, guard(away="hide"):
        header()
    with bottom, guard(away="hide"):
        footer()
    with body, guard(), keeping_draft():
        say_what_changed_elsewhere()
        page.run()


def hosts() -> tuple[str, ...]:
    """Return the names that the server answers to; a list that cannot be read ends the start with its sentence."""
    try:
        return Settings.from_environment().hosts
    except ConfigError as error:
        raise SystemExit(str(error)) from None


quiet_logs()
# When the server imports this file, so that no visitor waits for it: the health check answers once it is done.
warm_up()
if __name__ == "__main__":
    screens()
else:
    # Once for the process, when the server imports this file. What belongs to the process is started by its lifespan.
    app = st.App(
        __file__, middleware=[Middleware(Surface, hosts=hosts()), Middleware(EncryptedUploads)], lifespan=lifespan
    )
