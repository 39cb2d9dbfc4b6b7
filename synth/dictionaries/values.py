"""What a cell of a codebook says about values: ranges, lists, codes with labels, codes for missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from synth.dictionaries.words import MISSING_WORDS, NOTHING_WORDS, folded

__all__ = ["Values", "number_in", "split_codes", "values_in"]

_NUMBER = r"[-+\u2212]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_DAY = r"\d{4}-\d{2}(?:-\d{2})?"
_JOINED = r"\s*(?:-|\u2013|\u2014|\u2212|\.\.\.?|\u2026|\bto\b|\bthrough\b|\bthru\b|\bbis\b|\buntil\b|\b[aà]\b|\bfino a\b|\bhasta\b|\bt/m\b)\s*"  # noqa: E501
_UNIT = r"(?:\s*[^\W\d_][^\d;|=]*|\s*%)?"
_RANGE = re.compile(
    rf"^(?:between |zwischen |entre |from |von |de |range:? )?[\[(]?\s*({_NUMBER})(?:{_JOINED}|\s*,\s*(?=[^\])]*[\])])|\s+and\s+|\s+und\s+|\s+et\s+|\s+y\s+)({_NUMBER})\s*[\])]?{_UNIT}$",  # noqa: E501
    re.IGNORECASE,
)
_DAYS = re.compile(rf"^({_DAY})(?:\s+-\s+|\s*(?:\u2013|\u2014|\.\.|/)\s*|\s+(?:to|bis|until|and|à)\s+)({_DAY})$", re.I)
_CHAIN = re.compile(rf"^({_NUMBER})\s*(?:<=|\u2264)\s*\w+\s*(?:<=|\u2264)\s*({_NUMBER})$")
_AT_LEAST = re.compile(
    rf"^(?:(?:>=|\u2265|at least|min(?:imum)?:?|from)\s*({_NUMBER})|({_NUMBER})\s*(?:\+|or more))$", re.I
)
_AT_MOST = re.compile(rf"^(?:<=|\u2264|at most|max(?:imum)?:?|up to)\s*({_NUMBER})$", re.I)
_PAIR_BY_COMMA = re.compile(r"^\s*(?P<code>[^\s,]{1,40})\s*,\s*(?P<label>.*\S)\s*$", re.S)
_SIGNS = ("=>", "->", "=", "\u2192", "\t")
"""Between a code and its label."""

_LONGEST_RANGE = 120
"""Most characters of a text that may be a range or a number: patterns only see short texts of strangers."""

_LONGEST_CODE = 40
"""Most characters of a code before a colon or a dash."""

_DOTS = {"...", "\u2026", ".."}
_GOES_ON = re.compile(r"(?:^|[\s,;])(?:etc\.?|and so on|usw\.?|u\.s\.w\.?)$", re.I)
_FEWEST_BANDS = 20
"""In lists of at least this many values, a range is one of the values."""

_MOST_DOTTED = 1_000
"""Most values that "1, 2, ..., 1000" may stand for."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a cell about values says.

    Attributes
    ----------
    codes : tuple of (code, label or None)
        Listed values in their order, without those that mean missing.
    missing : tuple of (code, label or None)
        Listed values whose labels say that they mean missing.
    low, high : str
        Bounds, where a range is named.
    unread : str
        What could not be understood, as the end of a sentence; empty where all was.
    """

    codes: tuple[tuple[str, str | None], ...] = ()
    missing: tuple[tuple[str, str | None], ...] = ()
    low: str = ""
    high: str = ""
    unread: str = ""


def number_in(text: str) -> str | None:
    """Return a number as a configuration writes it, or None where the text is not a number.

    A comma before three digits separates thousands, any other is a decimal sign.

    Examples
    --------
    >>> number_in("500,000"), number_in("0,5"), number_in("-1.50"), number_in("tall")
    ('500000', '0.5', '-1.50', None)
    """
    plain = text.strip().replace("\u2212", "-").replace("\u00a0", "").replace(" ", "")
    if len(plain) > _LONGEST_RANGE or not re.fullmatch(_NUMBER, plain):
        return None
    if re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    return plain.replace(",", ".").lstrip("+")


def values_in(text: str) -> Values:
    """Read a cell such as ``0-120``, ``1=yes; 2=no; 9=missing`` or ``low, middle, high``.

    Examples
    --------
    >>> values_in("0 to 120").high
    '120'
    >>> values_in("1=yes; 2=no; 9=missing").codes
    (('1', 'yes'), ('2', 'no'))
    """
    text = text.strip()
    if not text:
        return Values()
    bounds = _range_in(text)
    if bounds is not None:
        return Values(low=bounds[0], high=bounds[1])
    if _GOES_ON.search(text):
        return Values(unread="the list of values is not complete")
    return _listed(_parts_of(text))


def split_codes(text: str) -> list[tuple[str, str | None]]:
    """Split codes that mean missing, each with its label if it has one; "none" and "-" give no codes."""
    plain = text.strip()
    if not plain or plain in {"-", "\u2013", "\u2014"} or folded(plain) in NOTHING_WORDS:
        return []
    return [_pair(part) for part in _parts_of(plain)]


def _listed(parts: Iterable[str]) -> Values:
    pairs = [_pair(part) for part in _undotted(list(parts))]
    # Survey codebooks write "0-120 = years" too. Several ranges are bands, and each of them is a word.
    ranges = {place: found for place, (code, _) in enumerate(pairs) if (found := _full_range(code)) is not None}
    bounds = next(iter(ranges.items())) if len(ranges) == 1 and len(pairs) < _FEWEST_BANDS else None
    codes: list[tuple[str, str | None]] = []
    missing: list[tuple[str, str | None]] = []
    for place, (code, label) in enumerate(pairs):
        if bounds is None or place != bounds[0]:
            (missing if label is not None and _says_missing(label) else codes).append((code, label))
    low, high = ("", "") if bounds is None else bounds[1]
    if len({code for code, _ in [*codes, *missing]}) != len(codes) + len(missing):
        return Values(unread="a value is listed twice")
    if any(code in _DOTS for code, _ in codes):
        return Values(unread="it is not clear what the dots stand for")
    return Values(tuple(codes), tuple(missing), low, high)


def _says_missing(label: str) -> bool:
    return folded(label) in MISSING_WORDS


def _full_range(text: str) -> tuple[str, str] | None:
    bounds = _range_in(text)
    return bounds if bounds is not None and all(bounds) else None


def _range_in(text: str) -> tuple[str, str] | None:
    """Return the bounds of a range, one of which may be open, or None where the text is not a range."""
    if len(text) > _LONGEST_RANGE:
        return None
    for pattern in (_DAYS, _RANGE, _CHAIN):
        found = pattern.match(text)
        if found:
            bounds = found[1], found[2]
            return bounds if pattern is _DAYS else (number_in(bounds[0]) or "", number_in(bounds[1]) or "")
    found = _AT_LEAST.match(text)
    if found:
        return number_in(found[1] or found[2]) or "", ""
    found = _AT_MOST.match(text)
    return None if found is None else ("", number_in(found[1]) or "")


def _pair(part: str) -> tuple[str, str | None]:
    """Split a code from its label, where there is a sign between them."""
    places = [(part.find(sign), sign) for sign in _SIGNS if sign in part]
    if places:
        place, sign = min(places, key=lambda one: (one[0], -len(one[1])))
        code, label = part[:place].strip(), part[place + len(sign) :].strip()
        if code and label and not code.endswith(("<", ">", "!")):
            return _bare(code), _bare(label)
    for sign in (": ", " - ", " \u2013 "):
        code, found, label = part.strip().partition(sign)
        if found and label.strip() and 0 < len(code) <= _LONGEST_CODE and (sign == ": " or " " not in code):
            return _bare(code), _bare(label)
    return _bare(part), None


def _bare(text: str) -> str:
    plain = text.strip()
    return plain[1:-1] if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'" else plain


def _parts_of(text: str) -> list[str]:
    """Split a list at the strongest separator that it has: lines, bars, semicolons, commas, slashes."""
    lines = [line.strip(" ,;|") for line in text.splitlines() if line.strip(" ,;|")]
    if len(lines) > 1:
        return lines if any("=" in line for line in lines) else [part for line in lines for part in _split_line(line)]
    return _split_line(lines[0]) if lines else []


def _split_line(text: str) -> list[str]:
    if "|" in text:
        parts = _outside_quotes(text, "|")
        pairs = [_PAIR_BY_COMMA.match(part) for part in parts]
        # As REDCap writes its choices: "1, Female | 2, Male".
        return [f"{pair['code']}={pair['label']}" for pair in pairs if pair] if all(pairs) else parts
    if ";" in text:
        return _outside_quotes(text, ";")
    parts = _outside_quotes(text, ",")
    if len(parts) > 1:
        return _rejoined(parts)
    return [piece.strip() for piece in text.split("/")] if _is_slashed(text) else [text]


def _is_slashed(text: str) -> bool:
    pieces = [piece.strip() for piece in text.split("/")]
    return len(pieces) > 1 and "=" not in text and all(piece.isalpha() for piece in pieces)


def _rejoined(parts: list[str]) -> list[str]:
    """Rejoin labels that contain a comma, where other parts are codes with labels."""
    if not any(_is_pair(part) for part in parts):
        return parts
    whole: list[str] = []
    for part in parts:
        if whole and not _is_pair(part):
            whole[-1] += f", {part}"
        else:
            whole.append(part)
    return whole


def _is_pair(part: str) -> bool:
    return any(sign in part for sign in _SIGNS) and _pair(part)[1] is not None


def _outside_quotes(text: str, sign: str) -> list[str]:
    parts = re.findall(rf"(?:\"[^\"]*\"|\([^()]*\)|[^{re.escape(sign)}\"(]|[\"(])+", text)
    return [part.strip() for part in parts if part.strip()]


def _undotted(parts: list[str]) -> list[str]:
    """Write out "1, 2, ..., 5" where whole numbers around the dots are one apart."""
    if sum(part in _DOTS for part in parts) != 1:
        return parts
    place = next(place for place, part in enumerate(parts) if part in _DOTS)
    before, behind = parts[:place], parts[place + 1 :]
    if not before or len(behind) != 1 or not all(re.fullmatch(r"-?\d{1,9}", part) for part in [*before, *behind]):
        return parts
    first, last = int(before[-1]), int(behind[0])
    even = all(int(low) + 1 == int(high) for low, high in pairwise(before))
    if not even or not 0 < last - first <= _MOST_DOTTED:
        return parts
    return [*before, *map(str, range(first + 1, last + 1))]
