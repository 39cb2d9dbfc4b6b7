"""The version of this program; whoever needs the number needs nothing else of it."""

from __future__ import annotations

__all__ = ["__version__", "is_before"]

__version__ = "0.8.0"


def is_before(version: str, other: str) -> bool:
    """Whether a version is earlier than another; what stands behind the numbers (``.dev1``) is not compared.

    Examples
    --------
    >>> is_before("0.7.0", "0.10.0")
    True
    """
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
