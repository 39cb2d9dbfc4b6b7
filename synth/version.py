"""The version of this program, and the oldest version whose files it reads. It imports nothing."""

from __future__ import annotations

__all__ = ["OLDEST_READ", "__version__", "is_before"]

__version__ = "0.9.0"

OLDEST_READ = "0.9.0"
"""The oldest version whose bundles, backups and installations this one reads (docs/known-limits.md)."""


def is_before(version: str, other: str) -> bool:
    """Return whether a version is earlier than another; a suffix such as ``.dev1`` is not compared.

    Examples
    --------
    >>> is_before("0.7.0", "0.10.0")
    True
    """
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
