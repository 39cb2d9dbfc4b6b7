"""Numbers and names as they are written on every page."""

from __future__ import annotations

import re

__all__ = ["amount", "count", "percent", "plain", "size_in_words"]

_MARKUP = re.compile(r"([\\`*\[\]<>$~|#])|(?<!\w)_|_(?!\w)")


def plain(text: object) -> str:
    """Escape a text that somebody else wrote, so that markdown shows it letter for letter."""
    return _MARKUP.sub(lambda match: "\\" + match.group(0), str(text))


def amount(epsilon: float) -> str:
    """Write an epsilon: two decimals, more where two would say zero."""
    if epsilon == 0 or epsilon >= 0.01:
        return f"{epsilon:.2f}"
    return f"{epsilon:.2g}"


def count(value: float) -> str:
    """Write a number of rows or cells: whole above ten, two figures below."""
    return f"{value:,.0f}" if abs(value) >= 10 or float(value).is_integer() else f"{value:.2g}"


def percent(share: float) -> str:
    """Write a share in hundredths; small ones and near certainties keep a decimal."""
    value = 100 * share
    return f"{value:.0f} %" if 10 <= value <= 90 else f"{value:.1f} %"


def size_in_words(size_bytes: int) -> str:
    """Write the size of a file."""
    for unit in ("bytes", "kB", "MB"):
        if size_bytes < 1000 or unit == "MB":
            return f"{size_bytes:,.0f} {unit}" if unit == "bytes" or size_bytes >= 10 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000  # type: ignore[assignment]
    return f"{size_bytes:,.0f} MB"
