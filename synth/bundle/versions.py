"""Versions of what computes a certificate, a table and a report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["current_versions"]

_PACKAGES = ("hermitage", "autodp", "numpy", "pandas", "pyarrow", "safetensors", "scipy", "torch")


def current_versions() -> dict[str, str]:
    """Return the versions printed in a certificate; a package that is not installed is left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
