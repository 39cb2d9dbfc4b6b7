"""Titles and subtitles of figures: what is seen, and whether it is good, said by fixed rules from the numbers shown."""

from __future__ import annotations

from synth.reports.drawing import short_text

__all__ = ["beside_anchors", "beyond_noise", "closeness_words", "in_hundred"]


_SEEN_THROUGH = 0.1
"""Noise whose 95 % range is wider hides differences that matter."""


def in_hundred(share: float) -> str:
    """Write a share of rows as a reader counts them: 0.016 is "1.6 in 100 rows"."""
    return f"{short_text(100 * share)} in 100 rows"


def beyond_noise(clear: int, of: int, *, noise: float) -> str:
    """Say how many of some differences are larger than the privacy noise may have made them.

    Parameters
    ----------
    clear, of : int
    noise : float
        The widest 95 % range of the noise among them; where it is wide, nothing is called good.
    """
    if clear:
        which = "This is" if of == 1 else f"{clear:,} of {of:,} are"
        return f"{which} more than privacy noise explains."
    if noise > _SEEN_THROUGH:
        return "Privacy noise hides whether that is good."
    return "Good: no more than privacy noise explains."


def beside_anchors(ours: float, *, control: float | None, floor: float) -> str:
    """Say whether a distance from the private rows is good, held against unrelated columns and another draw of them.

    Single columns have no links to lose: what is said of them has no ``control``.
    """
    if ours <= floor:
        return "Good: as close as another draw of the same rows."
    if control is None:
        return "Farther than another draw of the same rows."
    if ours < control:
        return "Closer than unrelated columns, farther than another draw of the same rows."
    return "Not good: no closer than unrelated columns."


def closeness_words(ours: float, around: float, *, noise: float, control: float) -> str:
    """Say in one sentence whether a distance is good, held against noise alone and columns without their links."""
    if ours - around > control:
        return "Farther than columns without their links."
    if ours + around >= control:
        return "The noise hides how close they are."
    return "As close as the noise lets anybody see." if ours <= noise else "Closer than columns without their links."
