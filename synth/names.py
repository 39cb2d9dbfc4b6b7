"""Untrusted text as it is shown, and the owner's words as they are kept: nothing in either is invisible.

Where text is shown, invisible characters and look-alike letters appear as their code points.

No regular expressions are used here: every function looks at each character a bounded number of times.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import groupby, takewhile
from typing import Any

from synth.limits import NAME_CHARACTERS

__all__ = [
    "SHOWN_CHARACTERS",
    "composed",
    "in_natural_order",
    "listed",
    "name_problem",
    "numbered",
    "odd_names",
    "one_form",
    "shown",
    "visible",
    "visible_lines",
    "words_of",
]

SHOWN_CHARACTERS = 60
"""Characters of the longest name that a sentence shows in full."""

_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Invisible letters and marks, besides what Python calls not printable: fillers and variation selectors."""

_LATIN_LOOKS = {
    # Cyrillic
    **dict(zip("аеіјорԛѕсухԁԝһӏ", "aeijopqscyxdwhl", strict=True)),  # noqa: RUF001
    **dict(zip("АВЕЅІЈКМНОРԚСТУХҮԜ", "ABESIJKMHOPQCTYXYW", strict=True)),
    # Greek
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοϲ", "ABEZHIKMNOPTYXoc", strict=True)),  # noqa: RUF001
    # Armenian
    **dict(zip("օսհոՕՍ", "ouhnOU", strict=True)),  # noqa: RUF001
}
"""Letters of other scripts that look like a Latin one in most typefaces."""


_BOUNDS = {
    **dict.fromkeys(("<", "<=", "≤", "under", "below", "less than", "fewer than", "up to"), -1),
    **dict.fromkeys((">", ">=", "≥", "over", "above", "more than", "at least"), 1),
}
"""What stands before a number: values below it come before the number itself, values above it after it."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CYCLES = tuple(
    {form: place for place, name in enumerate(names) for form in (name, name[:3])} for names in (_MONTHS, _DAYS)
)
"""The place of months and of days of the week, by their names in full or in three letters."""


def in_natural_order(texts: Iterable[str]) -> list[str]:
    """Return values as people list them: the order follows from the values alone, and not from how often they occur.

    Numbers are in the order of their size, and so are months and days of the week. In all other texts, numbers are
    compared by their size, capitals are like small letters, and "<5" comes before "5" and ">5" after it.

    Examples
    --------
    >>> in_natural_order(["10", "9.5", "-1"])
    ['-1', '9.5', '10']
    >>> in_natural_order([">10 years", "1-4 years", "5-10 years", "<1 year", "none"])
    ['<1 year', '1-4 years', '5-10 years', '>10 years', 'none']
    >>> in_natural_order(["Mar", "Feb", "Jan"])
    ['Jan', 'Feb', 'Mar']
    """
    listed = sorted(texts)
    numbers = {text: found for text in listed if (found := _as_number(text)) is not None}
    if len(numbers) == len(set(listed)):
        return sorted(listed, key=numbers.__getitem__)
    for places in _CYCLES:
        if all(text.casefold() in places for text in listed):
            return sorted(listed, key=lambda text: places[text.casefold()])
    return sorted(listed, key=_natural)


def _as_number(text: str) -> Decimal | None:
    """Return a number that is written with a point or a comma, or None."""
    if not text.isascii() or "_" in text:
        return None
    try:
        found = Decimal(text.replace(",", ".", 1))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _natural(text: str) -> tuple[Any, ...]:
    """Return what orders texts as people do."""
    folded = text.strip().casefold()
    before = "".join(takewhile(lambda sign: not _is_digit(sign), folded))
    bound = _BOUNDS.get(before.strip())
    if bound is not None and len(before) < len(folded):
        folded = folded[len(before) :]
    parts = ("".join(signs) for _, signs in groupby(folded, key=_is_digit))
    # A number with more digits is larger: a text of any length is compared without becoming a number.
    keys = tuple((0, len(one.lstrip("0")), one.lstrip("0")) if _is_digit(one[0]) else (1, 0, one) for one in parts)
    return keys[:1], bound or 0, keys[1:], text


def _is_digit(sign: str) -> bool:
    return sign in "0123456789"


def composed(text: str) -> str:
    """Return text with its letters composed (NFC), as texts are compared: u and a diaeresis are one letter.

    Examples
    --------
    >>> composed("Zu\N{COMBINING DIAERESIS}rich")
    'Zürich'
    """
    return unicodedata.normalize("NFC", text)


def visible(text: str) -> str:
    r"""Return text with deceptive characters written as code points, as in ``⟨U+202E⟩``.

    These are characters that are invisible or change the direction of others and, in a word with Latin letters, letters
    of other scripts that look like Latin ones. Applying it again changes nothing.

    Examples
    --------
    >>> visible("in\N{CYRILLIC SMALL LETTER ES}ome")
    'in⟨U+0441⟩ome'
    """
    if text.isascii() and text.isprintable():
        return text
    pieces = []
    for is_word, letters in groupby(text, key=str.isalpha):
        word = list(letters)
        disguised = is_word and any(character.isascii() for character in word)
        pieces += [
            _number(character) if _is_unseen(character) or (disguised and character in _LATIN_LOOKS) else character
            for character in word
        ]
    return "".join(pieces)


def visible_lines(text: str) -> str:
    """Return a text of ours, which may have line breaks, with any untrusted part of it made visible."""
    return "\n".join(map(visible, text.split("\n")))


def one_form(text: str, *, keeping: Iterable[str] = ()) -> str:
    """Return words of the owner in their one form, in which nothing can be hidden between letters.

    Letters are composed and of one kind (NFKC); invisible characters, and any run of blanks, are one space between
    words. Applying it again changes nothing.

    Parameters
    ----------
    text : str
    keeping : iterable of str
        Names of the table in the text, which stay as the table has them.

    Examples
    --------
    >>> one_form("  city\u2003\u200bsurvey ")
    'city survey'
    >>> one_form("the  column  a  b", keeping=["a  b"])
    'the column a  b'
    """
    names = sorted(filter(None, keeping), key=len, reverse=True)
    name = next((one for one in names if one in text), None)
    if name is not None:
        before, _, after = text.partition(name)
        # A blank beside the name stays; what it stands beside meanwhile composes with nothing.
        start = one_form(f"{before}|", keeping=names).removesuffix("|")
        return start + name + one_form(f"|{after}", keeping=names).removeprefix("|")
    composed = unicodedata.normalize("NFKC", text)
    return " ".join("".join(" " if _is_unseen(character) else character for character in composed).split())


def words_of(name: str) -> list[str]:
    """Split a name into its words of ASCII letters and digits, in lower case.

    Examples
    --------
    >>> words_of("birthDate_2")
    ['birth', 'date', '2']
    """
    words = [""]
    before = ""
    for character in name:
        kept = character.isascii() and character.isalnum()
        if not kept or (character.isupper() and before.isascii() and (before.islower() or before.isdigit())):
            words.append("")
        if kept:
            words[-1] += character.lower()
        before = character
    return [word for word in words if word]


def shown(name: str) -> str:
    """Return a name for use in a sentence: visible and short."""
    seen = visible(name[: SHOWN_CHARACTERS + 1])
    return seen if len(name) <= SHOWN_CHARACTERS else f"{visible(name[: SHOWN_CHARACTERS - 3])}..."


def listed(texts: Sequence[str], most: int) -> str:
    """Return texts as a sentence lists them; beyond ``most`` of them, only how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], 3), listed(["a", "b", "c"], 2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def name_problem(name: str) -> str | None:
    """Return in one sentence why a column cannot have this name, or None if it can."""
    if not name.strip():
        return "A column has no name. Give every column a name."
    if len(name) > NAME_CHARACTERS:
        return (
            f"A column's name has {len(name):,} characters; at most {NAME_CHARACTERS} are allowed. Give the column "
            f"that begins with '{shown(name)}' a shorter name."
        )
    return None


def numbered(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or the plural.

    Examples
    --------
    >>> numbered(1, "run"), numbered(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def odd_names(names: Sequence[str]) -> list[str]:
    """Return a warning for each name that is not what it looks like, and for each that looks like another one.

    Two names look the same if they agree after compatibility normalization (NFKC), without invisible characters, with
    one space for any white space, and with Latin letters for those of other scripts that look like them.
    """
    warnings = []
    first: dict[str, str] = {}
    for name in names:
        if visible(name) != name:
            kinds = list(dict.fromkeys(map(_called, filter(None, _oddities(name)))))
            more = f" and {len(kinds) - 3} more" if len(kinds) > 3 else ""
            warnings.append(f"The column name '{shown(name)}' is not what it looks like: {', '.join(kinds[:3])}{more}.")
        twin = first.setdefault(_skeleton(name), name)
        if twin != name:
            own = next((mine for mine, other in zip(name, twin, strict=False) if mine != other), name[-1])
            warnings.append(
                f"The columns '{shown(twin)}' and '{shown(name)}' look the same. The second differs by {_called(own)}. "
                "Make sure that you declare the one you mean, or rename it in the file."
            )
    return warnings


def _is_unseen(character: str) -> bool:
    return not character.isprintable() or character in _UNSEEN


def _number(character: str) -> str:
    return f"\N{MATHEMATICAL LEFT ANGLE BRACKET}U+{ord(character):04X}\N{MATHEMATICAL RIGHT ANGLE BRACKET}"


def _called(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'control character').capitalize()}"


def _oddities(name: str) -> list[str]:
    """Return the characters of a name that :func:`visible` writes as code points."""
    return [character for character in name if _is_unseen(character) or character in _LATIN_LOOKS]


def _skeleton(name: str) -> str:
    """Return a name as it looks: equal for names that look the same."""
    seen = "".join(character for character in name if character.isspace() or not _is_unseen(character))
    plain = unicodedata.normalize("NFKC", seen)
    return " ".join("".join(_LATIN_LOOKS.get(character, character) for character in plain).split())
