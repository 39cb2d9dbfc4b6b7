"""A later layout, planted beside those of the program: what a later version would bring."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from synth.store import moving

__all__ = ["LATER", "plant", "use"]

LATER = "99.0.0"

REVISION = """
import os
import signal
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "{later}"
down_revision = "{before}"

HERE = Path(__file__).parent


def upgrade():
    op.add_column("charges", sa.Column("remark", sa.Text()))
    op.execute("UPDATE charges SET remark = 'kept ' || purpose")
    with op.batch_alter_table("accounts", recreate="auto") as accounts:
        accounts.alter_column("name", type_=sa.String(200), existing_type=sa.String(120), existing_nullable=False)
        accounts.add_column(sa.Column("grade", sa.Integer(), nullable=False, server_default="1"))
        accounts.create_check_constraint("grades", "grade > 0")
    with (HERE / "moves").open("a") as moves:
        moves.write("moved\\n")
    {then}
"""
"""Rows that are only ever added to get a new column, and a table that others refer to is made anew on SQLite."""


def plant(folder: Path, before: str, then: str = "pass") -> Path:
    """Copy the layouts of the program to a folder, and add a later one that does something at its end."""
    copy = folder / "layouts"
    shutil.copytree(moving.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    later = REVISION.format(later=LATER, before=before, then=then.replace("\n", "\n    "))
    (copy / "versions" / "v99_0_0.py").write_text(later, encoding="utf-8")
    return copy


def use(layouts: Path, patch: pytest.MonkeyPatch) -> None:
    """Be the later version of the program, in this process."""
    patch.setattr("synth.store.moving.FOLDER", layouts)
    patch.setattr("synth.store.moving.LAYOUT", LATER)
    patch.setattr("synth.store.store.LAYOUT", LATER)
