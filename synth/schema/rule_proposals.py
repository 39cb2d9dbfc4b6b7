"""Rules that the names of columns suggest, for the owner to accept or ignore; no row is read.

The tables below list what names may mean, word by word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from synth.names import words_of
from synth.schema.rules import quoted

__all__ = ["proposed_rules"]

_MOST = 20

_LATER = (
    ("start", "end"), ("start", "stop"), ("started", "ended"), ("begin", "end"), ("from", "to"), ("from", "until"),
    ("min", "max"), ("minimum", "maximum"), ("low", "high"), ("lowest", "highest"), ("lower", "upper"),
    ("first", "last"), ("birth", "death"), ("pickup", "dropoff"), ("admission", "discharge"),
    ("admitted", "discharged"), ("opened", "closed"), ("entry", "exit"), ("departure", "arrival"),
    ("ordered", "delivered"), ("issue", "expiry"), ("net", "gross"),
)  # fmt: skip
"""Words of two columns, the second of which is at least as large or as late as the first."""

_TOTALS = {"total", "sum", "overall"}

_WITHIN = (
    ("zone", "borough"), ("zip", "city"), ("zip", "state"), ("postcode", "city"), ("city", "county"),
    ("city", "state"), ("city", "country"), ("county", "state"), ("district", "region"), ("state", "country"),
    ("province", "country"), ("class", "department"), ("department", "division"), ("code", "name"), ("code", "label"),
    ("code", "description"), ("id", "description"),
)  # fmt: skip
"""Words of two columns, the first of which determines the second."""

_NUMBERED = {"num", "number", "code"}


def proposed_rules(names: Sequence[str]) -> list[str]:
    """Return lines of ``rules:`` that names of columns suggest, at most twenty.

    Examples
    --------
    >>> proposed_rules(["ride_start", "ride_end", "fare_amount", "tip_amount", "total_amount"])
    ['ride_end >= ride_start', 'total_amount = fare_amount + tip_amount']
    """
    words = {name: tuple(words_of(name)) for name in names}
    by_words: dict[tuple[str, ...], str] = {}
    for name, own in words.items():
        by_words.setdefault(own, name)
    return list(dict.fromkeys(islice(_proposed(words, by_words), _MOST)))


def _proposed(words: dict[str, tuple[str, ...]], by_words: dict[tuple[str, ...], str]) -> Iterator[str]:
    for name, own in words.items():
        for place, word in enumerate(own):
            for earlier, later in _LATER:
                other = by_words.get((*own[:place], later, *own[place + 1 :])) if word == earlier else None
                if other is not None:
                    yield f"{quoted(other)} >= {quoted(name)}"
    for name, own in words.items():
        rest = tuple(word for word in own if word not in _TOTALS)
        parts = [
            other
            for other, its in words.items()
            if other != name and len(its) > len(rest) and its[-len(rest) :] == rest
        ]
        if rest and len(rest) < len(own) and len(parts) > 1:
            yield f"{quoted(name)} = {' + '.join(map(quoted, parts))}"
    for name, own in words.items():
        for place, word in enumerate(own):
            for inner, outer in _WITHIN:
                other = by_words.get((*own[:place], outer, *own[place + 1 :])) if word == inner else None
                if other is not None:
                    yield f"{quoted(name)} determines {quoted(other)}"
        for word in _NUMBERED:
            other = by_words.get((*own, word))
            if other is not None:
                yield f"{quoted(name)} determines {quoted(other)}"
