"""Lines of a draft for many columns at once: their names differ in a number, and the same is asked of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from glob import escape

from synth.schema.columns_like import around_number, names_like

__all__ = ["like_lines"]

_FEWEST = 5
"""Columns that share a line; fewer are as easy to read one by one."""


def like_lines(drafted: Mapping[str, str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return entries of ``columns_like`` for columns with equal lines, each with the columns that it stands for.

    Parameters
    ----------
    drafted : mapping
        What a draft says of each column that may share a line, by its name.
    names : sequence of str
        All names of the table.

    Examples
    --------
    >>> names = [*(f"q{number}" for number in range(1, 7)), "quota"]
    >>> like_lines(dict.fromkeys(names, "{type: }"), names)
    {'{like: "q[0-9]*", type: }': ['q1', 'q2', 'q3', 'q4', 'q5', 'q6']}
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, line in drafted.items():
        around = around_number(name)
        if around is not None:
            alike.setdefault((*around, line), []).append(name)
    return {
        f"{{{_chosen(before, after, group, names)}, {line.removeprefix('{')}": group
        for (before, after, line), group in alike.items()
        if len(group) >= _FEWEST
    }


def _chosen(before: str, after: str, group: list[str], names: Sequence[str]) -> str:
    """Return the shortest pattern that matches a group and nothing else; where there is none, the names."""
    for number in ("*", "[0-9]*"):
        pattern = f"{escape(before)}{number}{escape(after)}"
        if names_like(names, pattern) == group:
            return f"like: {json.dumps(pattern, ensure_ascii=False)}"
    return f"names: {json.dumps(group, ensure_ascii=False)}"
