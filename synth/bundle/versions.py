"""Versions of what computes a certificate, a table and a report."""

from __future__ import annotations

import functools
import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["SOURCE", "STATED", "current_versions"]

_PACKAGES = ("hermitage", "autodp", "numpy", "pandas", "pyarrow", "safetensors", "scipy", "torch")

SOURCE = "source"
"""Key of the hash of this program's own source files: a version number alone does not say which words it prints."""


STATED = frozenset({"python", *_PACKAGES, SOURCE})
"""Names that a certificate may state a version of."""


def current_versions() -> dict[str, str]:
    """Return the versions printed in a certificate; a package that is not installed is left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {SOURCE: _source()}


@functools.cache
def _source() -> str:
    """Return the first 32 hexadecimal digits of SHA-256 over names and contents of all source files, by name."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:32]
