"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["upgrade"]

revision = "${up_revision}"
down_revision = ${'None' if down_revision is None else '"%s"' % down_revision}


def upgrade() -> None:
    """Move the database from the layout before to this one; inside the caller's transaction."""
    ${upgrades if upgrades else "pass"}
