"""The demonstration table: every question answered, so that each page has its button ready."""

from __future__ import annotations

from pages.ui.draft import fill_from_config, take_table
from pages.ui.session import application, draft, forget_widgets, start_again

__all__ = ["open_demonstration"]


def open_demonstration() -> None:
    """Take in the demonstration table and fill the draft with its configuration."""
    table, config = application().demonstration()
    start_again()
    held = draft()
    take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    fill_from_config(held, config)
    held.update(demonstration=True, account=table.account)
    forget_widgets()
