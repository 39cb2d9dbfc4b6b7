"""1 Upload: whose table it is, then the file, straight into the encrypted store."""

from __future__ import annotations

import streamlit as st

from pages.ui.entrance import through_the_application
from pages.ui.intake import account_question, codebook_uploader, format_form, show_stored, table_uploader
from pages.ui.session import own_table

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Upload a table")

    table = own_table()
    if table is not None:
        show_stored(table)
    else:
        st.markdown(
            "The file is encrypted while it arrives. Its rows are never shown: no preview, no chart, no smallest or "
            "largest value."
        )
        account = account_question()
        if account is not None:
            format_form()
            table_uploader(account)
            codebook_uploader()


if __name__ == "__main__":
    through_the_application()
    screen()
