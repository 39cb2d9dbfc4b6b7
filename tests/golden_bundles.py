"""Golden bundles, unpacked for tests.

They are kept as ``.zip.xz``: the files in a bundle are stored as they are, so that it has one form, and would fill the
repository.
"""

from __future__ import annotations

import atexit
import functools
import lzma
import shutil
import tempfile
from pathlib import Path

__all__ = ["GOLDEN", "PUBLIC_KEY", "golden", "keep"]

FOLDER = Path(__file__).resolve().parent / "golden" / "bundles"

PUBLIC_KEY = FOLDER / "public-key.pem"
"""The key that signed all of them."""

GOLDEN = sorted(path.name.removesuffix(".zip.xz") for path in FOLDER.glob("*.zip.xz"))


@functools.cache
def golden(name: str) -> Path:
    """Return the zip of a golden bundle, which this process unpacks once."""
    target = _scratch() / f"{name}.zip"
    target.write_bytes(lzma.decompress((FOLDER / f"{name}.zip.xz").read_bytes()))
    target.chmod(0o444)
    return target


@functools.cache
def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="golden-bundles-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def keep(bundle: Path, name: str, folder: Path = FOLDER) -> None:
    """Keep a bundle under a name; the same bundle gives the same bytes."""
    packed = lzma.compress(bundle.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    (folder / f"{name}.zip.xz").write_bytes(packed)
