"""Draft the move to a new layout of the database: ``python scripts/new_layout.py VERSION "What changes"``.

What Alembic finds different between the tables that the code declares and the layout before is written to a file of
``synth/store/layouts/versions/``, to be read and completed: Alembic takes a renamed column for two, and does not know
what rows need. A file of that version is drafted anew; once it is released it must not change any more.
"""

from __future__ import annotations

import subprocess
import sys

from alembic import command
from sqlalchemy import create_engine

import synth.store  # noqa: F401 - declares all tables
from synth.store import moving
from synth.store.layout import METADATA


def draft(version: str, message: str) -> None:
    """Write the file of one version."""
    name = f"v{version.replace('.', '_')}"
    path = moving.FOLDER / "versions" / f"{name}.py"
    path.unlink(missing_ok=True)
    with create_engine("sqlite://").begin() as connection:
        config = moving.alembic_config(connection, tables=METADATA)
        config.set_main_option("file_template", name)
        command.upgrade(config, "head")
        command.revision(config, message, autogenerate=True, rev_id=version)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.strip().startswith("# ###")), encoding="utf-8")
    for arguments in (("check", "--fix", "--select=I"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *arguments, "--quiet", path], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draft(*sys.argv[1:])
