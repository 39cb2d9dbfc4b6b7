"""Golden bundles, unpacked for tests.

They are kept as ``.zip.xz``: the files in a bundle are stored as they are, so that it has one form, and would fill the
repository. Their last digits are those of the processor that made them, which their certificates state.
"""

from __future__ import annotations

import atexit
import functools
import json
import lzma
import shutil
import tempfile
import zipfile
from pathlib import Path

import pytest
from golden_cases import configuration, stand_in

from synth.cli.local import run_locally
from synth.system.machine import processor_kind

__all__ = ["GOLDEN", "PUBLIC_KEY", "golden", "keep", "made_here", "same_digits_here"]

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
def same_digits_here(name: str) -> bool:
    """Whether a golden bundle was made by such a processor as this, so that last digits are the same here."""
    with zipfile.ZipFile(golden(name)) as members:
        stated = json.loads(members.read("certificate.json"))["versions"]["processor"]
    return bool(stated == processor_kind())


def made_here(name: str, folder: Path) -> Path:
    """Make the bundle of a case anew in ``folder``, with the last digits of this processor and fresh noise."""
    table = folder / f"{name}.csv"
    table.write_bytes(stand_in(name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMITAGE_HOME", str(folder / "home-of-bundle"))
        ran = run_locally(configuration(name), folder / "made", table=table, owner_report=False, warn=lambda _: None)
    return ran.bundle


@functools.cache
def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="golden-bundles-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def keep(bundle: Path, name: str, folder: Path = FOLDER) -> None:
    """Keep a bundle under a name; the same bundle gives the same bytes."""
    packed = lzma.compress(bundle.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    (folder / f"{name}.zip.xz").write_bytes(packed)
