"""The golden home, whose large files are kept compressed."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

__all__ = ["GOLDEN_HOME", "copy_of_golden_home"]

GOLDEN_HOME = Path(__file__).parent / "golden" / "home"


def copy_of_golden_home(home: Path) -> Path:
    """Copy the golden home to a folder that is not there yet, and return the folder."""
    shutil.copytree(GOLDEN_HOME, home)
    for kept in home.rglob("*.xz"):
        kept.with_suffix("").write_bytes(lzma.decompress(kept.read_bytes()))
        kept.unlink()
    return home
