"""Words of reports: how numbers and sentences are printed, and the fixed rules that say whether a result is good."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from synth.reports.figures import Cell
from synth.schema import Schema, asked_schema

__all__ = [
    "as_far_as_known",
    "beside_anchors",
    "beyond_noise",
    "closeness_words",
    "first_sentence",
    "in_hundred",
    "known_range",
    "listed",
    "number_text",
    "ranged_text",
    "rounded_up",
    "short_sentence",
    "short_text",
    "who_counts",
]


def number_text(value: Cell) -> str:
    """Write a number with three or four digits and thousands separators, or a dash if there is none."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) < 1:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


_MOST_WORDS = 16
"""Most words of a sentence under a number; a longer one is folded away with the others."""

_ROUNDING = 1e-12
"""A range that is at most this part of its value is a rounding error of floating-point numbers."""

_ENDS = re.compile(r"(?<=[a-z0-9)%'\]]\.) (?=[A-Z'])")
"""Where one sentence ends and the next begins; a number has no space after its point."""


def as_far_as_known(value: float, error: float) -> tuple[float, float]:
    """Round half a range to two significant digits, and the value to the same decimal place."""
    if not error > 0:
        return value, error
    places = 1 - math.floor(math.log10(error))
    return round(value, places), round(error, places)


def known_range(value: Cell, error: float | None) -> float | None:
    """Return half a range; None if there is none, or if it is only a rounding error."""
    if error is None or not isinstance(value, int | float) or error <= _ROUNDING * max(1.0, abs(value)):
        return None
    return error


def ranged_text(value: Cell, error: float | None) -> str:
    """Write a number with half its range, if it has one."""
    half = known_range(value, error)
    if half is None or not isinstance(value, int | float):
        return number_text(value)
    known, around = as_far_as_known(value, half)
    return f"{number_text(known)} ± {number_text(around)}"


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    return _ENDS.split(text, maxsplit=1)[0]


def short_sentence(text: str) -> str:
    """Return the first sentence of a text if it is short enough to stand under a number, else nothing."""
    first = first_sentence(text)
    return first if len(first.split()) <= _MOST_WORDS else ""


def rounded_up(bound: float, digits: int | None = None) -> float:
    """Round a positive upper bound up to some digits, by default those that :func:`number_text` prints."""
    digits = digits or (4 if bound >= 1 else 3)
    step = 10.0 ** (math.floor(math.log10(bound)) - digits + 1)
    # A bound that already has so many digits may be slightly larger as a binary number.
    return float(f"{math.ceil(bound / step - 1e-6) * step:.12g}")


def short_text(value: float) -> str:
    """Write a number with two significant digits, and whole from 10 on."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def in_hundred(share: float, of: str = "rows") -> str:
    """Write a share of rows, or of what else is counted, as a count in a hundred: 0.016 is "1.6 in 100 rows"."""
    return f"{short_text(100 * share)} in 100 {of}"


def who_counts(schema: Schema) -> str:
    """Say that everyone counts once, where the rows of one unit are kept together; nothing elsewhere.

    Parameters
    ----------
    schema : Schema
        The declared table, or what questions are asked about.
    """
    unit = asked_schema(schema).unit
    if unit.counted == "rows":
        return ""
    return f"Each {unit.protects} counts once, with one of their rows: numbers weigh {unit.plural}, not rows."


def listed(names: Sequence[str], most: int) -> str:
    """List names, at most so many of them."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# Whether it is good ------------------------------------------------------------------------------------------------


_SEEN_THROUGH = 0.1
"""Noise with a wider 95 % range hides differences that matter."""


def beyond_noise(clear: int, of: int, *, noise: float) -> str:
    """Say how many of some differences are larger than privacy noise explains.

    Parameters
    ----------
    clear, of : int
    noise : float
        The widest 95 % range of the noise among them; if it is wide, nothing is called good.
    """
    if clear:
        which = "This is" if of == 1 else f"{clear:,} of {of:,} {'is' if clear == 1 else 'are'}"
        return f"{which} larger than privacy noise explains."
    if noise > _SEEN_THROUGH:
        return "Privacy noise hides whether this is good."
    return "Good: privacy noise alone may explain it."


def beside_anchors(ours: float, *, control: float | None, floor: float) -> str:
    """Say whether a distance from the private rows is good, compared with unrelated columns and a random resample.

    Single columns have no relations to lose, so they are compared without a ``control``.
    """
    if ours <= floor:
        return "Good: as close as a random resample of the private rows."
    if control is None:
        return "Further away than a random resample of the private rows."
    if ours < control:
        return "Closer than unrelated columns, further away than a random resample."
    return "Not good: no closer than unrelated columns."


def closeness_words(ours: float, around: float, *, noise: float, control: float) -> str:
    """Say in one sentence whether a distance is good, compared with noise alone and with unrelated columns."""
    if ours - around > control:
        return "Further away than unrelated columns."
    if ours + around >= control:
        return "Noise hides how close they are."
    return "As close as can be seen through the noise." if ours <= noise else "Closer than unrelated columns."
