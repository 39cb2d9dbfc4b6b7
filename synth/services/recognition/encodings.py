"""Which encoding the bytes of a text are in.

charset-normalizer says which encodings give text at all. Among these it prefers none that people use: of German bytes
it likes a Macintosh best. So the letters decide: those of the languages an encoding is used for, where letters stand.
"""

from __future__ import annotations

import codecs
import math
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["encoding_of"]

_WESTERN = ("äöüß", "àâæçéèêëîïôœùûüÿ", "áéíñóúü¿¡ªº", "áâãàçéêíóôõúªº", "àèéìòù", "åäöæøé", "áæéíðóúýþö", "éëïöüá")
"""German, French, Spanish, Portuguese, Italian, Nordic, Icelandic, Dutch."""

_CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîșțşţ", "äöüß")
"""Polish, Czech, Slovak, Hungarian, Croatian, Romanian, German."""

_TURKISH = ("çğıöşüâîû",)
_BALTIC = ("āčēģīķļņšūž", "ąčęėįšųūž", "äõöüšž")
_SIGNS = "€£¥°²³µ§–—’‘“”„…«»±½¼¾×·´©®™№‰¹→↑•"  # noqa: RUF001

_LETTERS: dict[str, tuple[str, ...]] = {
    "cp1252": _WESTERN, "mac-roman": _WESTERN, "cp850": _WESTERN, "iso8859-15": _WESTERN, "cp437": _WESTERN,
    "cp1250": _CENTRAL, "iso8859-2": _CENTRAL, "cp852": _CENTRAL,
    "cp1254": _TURKISH, "iso8859-9": _TURKISH, "cp1257": _BALTIC, "iso8859-13": _BALTIC,
}  # fmt: skip
"""Letters beyond ASCII of the languages that an encoding of Latin letters is used for, without capitals."""

_SCRIPTS: dict[str, tuple[str, ...]] = {
    "cp1251": ("CYRILLIC",), "koi8-r": ("CYRILLIC",), "koi8-u": ("CYRILLIC",), "cp866": ("CYRILLIC",),
    "iso8859-5": ("CYRILLIC",),
    "cp1253": ("GREEK",), "iso8859-7": ("GREEK",),
    "cp1255": ("HEBREW",), "cp1256": ("ARABIC",), "cp874": ("THAI",),
    "cp932": ("CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH", "IDEOGRAPHIC"),
    "euc_jp": ("CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH", "IDEOGRAPHIC"),
    "cp949": ("HANGUL", "FULLWIDTH"),
    "big5": ("CJK", "FULLWIDTH", "IDEOGRAPHIC"),
    "gb18030": ("CJK", "FULLWIDTH", "IDEOGRAPHIC"),
}  # fmt: skip
"""First words of the names of the characters of other scripts."""

_PREFERRED = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp949", "cp932", "euc_jp", "gb18030", "big5", "iso8859-2",
    "cp1257", "koi8-r", "cp1255", "cp1256", "cp874", "mac-roman", "cp850", "cp852", "cp866", "iso8859-5", "iso8859-7",
    "iso8859-9", "iso8859-13", "koi8-u", "iso8859-15", "cp437",
)  # fmt: skip
"""The encodings that are proposed; of two that fit the same bytes equally well, the first."""

_ODD = 0.3
"""What charset-normalizer's measure of mess is taken to be for an encoding that it rules out."""

_LEAST = 0.6
"""Share of characters that must be plausible before an encoding is proposed."""

_MOST_BYTES = 2**16
"""Bytes with letters beyond ASCII that decide; more would change nothing."""


def encoding_of(data: bytes) -> str | None:
    r"""Return the encoding that a text seems to be in, by its name in :data:`synth.schema.ENCODINGS`.

    Parameters
    ----------
    data : bytes
        Whole lines of the text.

    Returns
    -------
    str or None
        None where the text is UTF-8 or is read without being told (it begins with a mark), or where nothing fits.

    Examples
    --------
    >>> encoding_of("Größe;Kosten (€)".encode("cp1252")), encoding_of("Größe".encode())
    ('cp1252', None)
    """
    if data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    wide = _two_bytes_each(data)
    if wide is not None:
        return wide
    if _decoded(data, "utf-8") is not None:
        return None
    lines = b"\n".join(_odd_lines(data))
    if not lines:
        return None
    mess = _mess(lines)
    scores = {name: _plausible(lines, name) - mess.get(codecs.lookup(name).name, _ODD) for name in _PREFERRED}
    best = max(_PREFERRED, key=lambda name: round(scores[name], 2))
    return best if scores[best] >= _LEAST else None


def _two_bytes_each(data: bytes) -> str | None:
    """Return UTF-16 with its order of bytes, where every other byte of the first characters is zero."""
    start = data[:200]
    for name, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if len(start) >= 4 and zeros.count(0) > 0.7 * len(zeros):
            return name
    return None


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _odd_lines(data: bytes) -> Iterator[bytes]:
    """Yield lines with bytes beyond ASCII, up to a limit."""
    size = 0
    for line in data.split(b"\n"):
        # A line that is too long decides nothing: cut anywhere, it could end within a character.
        if not line.isascii() and len(line) <= _MOST_BYTES:
            yield line
            size += len(line)
            if size > _MOST_BYTES:
                return


def _mess(data: bytes) -> dict[str, float]:
    """Return how messy charset-normalizer finds the text in each encoding that it does not rule out."""
    from charset_normalizer import from_bytes  # here: most files are UTF-8

    asked = [codecs.lookup(name).name.replace("-", "_") for name in _PREFERRED]
    found = from_bytes(data, cp_isolation=asked, enable_fallback=False, preemptive_behaviour=False)
    return {codecs.lookup(name).name: match.chaos for match in found for name in match.could_be_from_charset}


def _plausible(data: bytes, encoding: str) -> float:
    """Return the share of the characters beyond ASCII that stand where the languages of an encoding have them."""
    text = _decoded(data, encoding)
    if text is None:
        return -1.0
    scripts = _SCRIPTS.get(encoding, ())
    places = [
        (before, here, behind)
        for (before, here), behind in zip(pairwise(f" {text}"), f"{text} "[1:], strict=True)
        if not here.isascii()
    ]
    if not places:
        return 0.0
    # One language at a time: letters of several in one text are a sign of the wrong encoding.
    languages = _LETTERS.get(encoding, ("",))
    return max(math.fsum(_fits(*place, letters, scripts) for place in places) for letters in languages) / len(places)


def _fits(before: str, here: str, behind: str, letters: str, scripts: tuple[str, ...]) -> float:
    """Return from 0 to 1 how plausible a character is between its neighbours."""
    if here == "\N{RIGHT SINGLE QUOTATION MARK}" and before.isalpha() and not scripts:
        return 1.0  # as in don't and in nurses', where other encodings have a letter
    if not here.isalpha():
        in_word = before.isalpha() and behind.isalpha()
        return 0.0 if in_word or not (here in _SIGNS or _script(here) in scripts) else 0.9
    if before.islower() and here.isupper():
        return 0.0
    if scripts and any(one.isascii() and one.isalpha() for one in (before, behind)) and not _is_wide(scripts):
        return 0.0
    if _is_wide(scripts):
        mixed = before.isascii() and before.isalpha() and behind.isascii() and behind.isalpha()
        return float(_script(here) in scripts and not mixed and not _is_rare(here))
    alone = not (before.isalpha() or behind.isalpha())
    return (0.5 if alone else 1.0) * (_script(here) in scripts if scripts else here.lower() in letters)


def _is_wide(scripts: tuple[str, ...]) -> bool:
    """Whether characters of a script stand beside Latin letters, as in Chinese, Japanese and Korean."""
    return "CJK" in scripts or "HANGUL" in scripts


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0].partition("-")[0]


def _is_rare(character: str) -> bool:
    """Whether an ideograph or a syllable is none of the few thousand that most texts consist of."""
    if _script(character) == "HANGUL":
        return len(character.encode("euc_kr", "ignore")) != 2
    if _script(character) != "CJK":
        return False
    for encoding, last in (("gb2312", 0xD7), ("shift_jis", 0x97)):
        data = character.encode(encoding, "ignore")
        if data and data[0] <= last:
            return False
    data = character.encode("big5", "ignore")
    return not data or data[0] > 0xC6
