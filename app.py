"""The application: the server, and for every view of a page navigation, header, guards and footer.

``streamlit run app.py`` imports this file once for the server, and runs it as a script for every view; every screen is
a file in pages/.
"""

from __future__ import annotations

import streamlit as st
from starlette.middleware import Middleware

from pages.server.serving import Surface, lifespan, warm_up
from pages.server.signing_in import require_configuration
from pages.server.uploads import EncryptedUploads
from pages.ui.frame import brand, footer, header, sidebar_at_first
from pages.ui.guards import guard, quiet_logs
from pages.ui.login import ask_to_sign_in, user_name
from pages.ui.session import keep_address, keep_to_one_user, keeping_draft, say_what_changed_elsewhere, standing
from synth.errors import ConfigError
from synth.ledger.rulings import Role
from synth.system.settings import Settings

_STEPS = {
    "upload": "1 Upload",
    "describe": "2 Describe",
    "budget": "3 Budget",
    "rehearse": "Rehearse (optional)",
    "generate": "4 Generate",
    "models": "Private models",
    "report": "5 Report",
    "release": "6 Release",
}
"""The screens of a release, in order; they are an owner's."""

_SCREENS = (
    {"start": "Start"}
    | _STEPS
    | {
        "compare": "Compare",
        "approvals": "Approvals",
        "ledger": "Ledger",
        "admin": "Admin",
    }
)
"""All screens, in order."""


def screens() -> None:
    """Draw the view that the address names."""
    st.set_page_config(layout="wide", initial_sidebar_state=sidebar_at_first(), menu_items={})
    keep_to_one_user()
    if not user_name():
        # Under the address of every screen: none of them is said to be missing.
        page = st.navigation(
            [st.Page(ask_to_sign_in, title="Sign in", url_path=name, default=name == "start") for name in _SCREENS],
            position="hidden",
        )
        brand(page.title)
        with guard():
            page.run()
        return
    offered = _offered()
    page = st.navigation(
        [st.Page(f"pages/{name}.py", title=title, default=name == "start") for name, title in offered.items()],
        expanded=True,
    )
    brand(page.title, first_record=1 + len(_STEPS) * ("upload" in offered))

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


def _offered() -> dict[str, str]:
    """Return the screens of a user by the name of their file; what a screen asks for is checked again by services."""
    roles, single = standing()
    mine = {"start"}
    if Role.OWNER in roles:
        mine |= {*_STEPS, "compare"}
    if not single and roles & {Role.OWNER, Role.APPROVER}:
        mine.add("approvals")
    if roles & {Role.OWNER, Role.AUDITOR, Role.ADMIN}:
        mine.add("ledger")
    if Role.ADMIN in roles:
        mine.add("admin")
    return {name: title for name, title in _SCREENS.items() if name in mine}


def settings() -> Settings:
    """Return the settings of the server; what cannot be read ends the start with its sentence."""
    try:
        found = Settings.from_environment()
        require_configuration(found)
    except ConfigError as error:
        raise SystemExit(str(error)) from None
    return found


quiet_logs()
# When the server imports this file, so that no visitor waits for it: the health check answers once it is done.
warm_up()
if __name__ == "__main__":
    screens()
else:
    # Once for the process, when the server imports this file. What belongs to the process is started by its lifespan.
    app = st.App(
        __file__,
        middleware=[
            Middleware(Surface, hosts=settings().hosts, login=settings().login),
            Middleware(EncryptedUploads),
        ],
        lifespan=lifespan,
    )
