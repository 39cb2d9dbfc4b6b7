"""The golden home, whose large files are kept compressed."""

from __future__ import annotations

import lzma
import shutil
import sqlite3
from pathlib import Path

__all__ = ["GOLDEN_HOME", "as_before_0_9_0", "copy_of_golden_home"]

GOLDEN_HOME = Path(__file__).parent / "golden" / "home"


def copy_of_golden_home(home: Path) -> Path:
    """Copy the golden home to a folder that is not there yet, and return the folder."""
    shutil.copytree(GOLDEN_HOME, home)
    for kept in home.rglob("*.xz"):
        kept.with_suffix("").write_bytes(lzma.decompress(kept.read_bytes()))
        kept.unlink()
    return home


def as_before_0_9_0(database: sqlite3.Connection) -> None:
    """Note the layout of a database as the last version before 0.9.0 did."""
    database.execute("DROP TABLE hermitage_layout")
    database.execute("CREATE TABLE store_version (number INTEGER PRIMARY KEY)")
    database.execute("INSERT INTO store_version VALUES (7)")
