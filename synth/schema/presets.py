"""Presets: ready-made declarations of common columns. They are in ``presets.yaml`` and are public.

A preset may be proposed because of a column's name, and the owner of the table accepts it; no row is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from synth.errors import SchemaError
from synth.names import words_of
from synth.schema.columns import parse_column
from synth.schema.documents import as_number, read, read_mapping

__all__ = ["Preset", "preset_called", "preset_for", "presets"]

_PLACES_OF_MONEY = 10_000
"""Least number of steps from zero to the highest amount: fine enough where most amounts are far below it."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A declared column that fits many tables.

    Attributes
    ----------
    key : str
        What it is called in a command.
    title : str
        What it is called on the screen.
    source : str
        Where its values are from.
    asks : str
        ``"high"`` where the owner must give the highest value; empty where nothing is asked.
    """

    key: str
    title: str
    source: str
    asks: str
    words: tuple[tuple[str, ...], ...]
    column: Mapping[str, Any]

    @property
    def domain_source(self) -> str:
        """Where the certificate says that the column's values are from."""
        return f"declared from preset: {self.title}; {self.source}"

    def body(self, highest: str | None = None) -> dict[str, Any]:
        """Return the keys of such a column in a configuration.

        Raises
        ------
        SchemaError
            If the preset asks for the highest value and it is not given, or is not a positive number.
        """
        if not self.asks:
            return dict(self.column)
        if not highest:
            raise SchemaError(f"'{self.title}' needs its highest value: a public number, for example 500000.")
        most = read("The highest value", as_number, highest.replace(",", "").strip())
        if not 0 < most < math.inf:
            raise SchemaError("The highest value of a preset must be above 0.")
        # Powers of ten from a cent up to a unit, so that steps are amounts that people write.
        step = min(1.0, 10.0 ** max(-2, math.floor(math.log10(most / _PLACES_OF_MONEY))))
        return parse_column(self.title, {**self.column, "high": most, "step": step}).to_mapping()


@cache
def presets() -> Mapping[str, Preset]:
    """Return every preset by its key, in the order in which they are offered."""
    text = Path(__file__).with_name("presets.yaml").read_text(encoding="utf-8")
    return {key: _preset(key, said) for key, said in read_mapping(text).items()}


def _preset(key: str, said: Mapping[str, Any]) -> Preset:
    asks, body = said.get("asks", ""), said["column"]
    # A preset that asks nothing is read as a configuration is, so that an unusable one is found here.
    column = body if asks else parse_column(key, body).to_mapping()
    words = tuple(tuple(sorted(name.split())) for name in said.get("words", ()))
    return Preset(key, said["title"], said["source"], asks, words, column)


def preset_called(key: str) -> Preset:
    """Return the preset of a key or title.

    Raises
    ------
    SchemaError
        If there is none.
    """
    found = presets().get(key) or next((one for one in presets().values() if one.title == key), None)
    if found is None:
        raise SchemaError(f"There is no preset with this name. The presets are {', '.join(presets())}.")
    return found


def preset_for(name: str) -> Preset | None:
    """Return the preset that a column's name suggests, or None: it has every word of one of the preset's names.

    Examples
    --------
    >>> preset_for("Patient_Age").key, preset_for("pct_homeless").key, preset_for("village")
    ('age', 'percent', None)
    """
    known = words_of(name)
    if set(known) & _GROUPED:
        return None
    best: tuple[int, Preset] | None = None
    for preset in presets().values():
        for words in preset.words:
            if set(words) <= set(known) and _speaks_of(words, known) and (best is None or len(words) > best[0]):
                best = len(words), preset
    return None if best is None else best[1]


_GROUPED = {"group", "groups", "band", "bands", "bin", "bucket", "range", "class", "category", "level", "type"}
"""Words that make a name mean something coarser than its other words say."""


def _speaks_of(words: tuple[str, ...], known: list[str]) -> bool:
    """Whether a name is about these words: a single word must be at its beginning or end."""
    return len(words) > 1 or words[0] in (known[0], known[-1])
