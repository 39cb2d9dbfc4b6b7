"""What Alembic runs for every move: the revisions, on the connection and in the transaction of the caller."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy.types import TypeDecorator

from synth.store.layout import LAYOUT_TABLE


def _plain(kind: str, item: Any, _: Any) -> str | Literal[False]:
    """Write the stored type where a column has one of ours, so that a revision never changes with the code."""
    return f"sa.{item.impl!r}" if kind == "type" and isinstance(item, TypeDecorator) else False


given = context.config.attributes
context.configure(
    connection=given["connection"],
    target_metadata=given.get("tables"),  # only to draft a revision (scripts/new_layout.py)
    version_table=LAYOUT_TABLE.name,
    transactional_ddl=True,  # of SQLite too: synth/store/engine.py begins its transactions, not the driver
    render_as_batch=True,
    render_item=_plain,
)
with context.begin_transaction():
    context.run_migrations()
