"""Rules about people, each with its meaning by hand: cell by cell, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from synth.schema import Schema

__all__ = ["RULES", "WARDS", "Row", "broken_by_hand", "rows_of"]

Row = dict[str, Any]
"""A day or a number for each column, a text for a category, None for an empty cell; ``count`` of the person's rows."""

WARDS = ("general", "surgery", "heart")


@dataclass(frozen=True)
class Meaning:
    """What is true of each row, or of each row and the next."""

    of_row: Callable[[Row], bool] = lambda row: True
    of_pair: Callable[[Row, Row], bool] = lambda row, following: True


def _apart(least: int, most: int) -> Meaning:
    def kept(row: Row, following: Row) -> bool:
        days = row["visited"], following["visited"]
        return None in days or least <= days[1] - days[0] <= most

    return Meaning(of_pair=kept)


RULES: dict[str, Meaning] = {
    "count <= 3": Meaning(lambda row: row["count"] <= 3),
    "count >= 2": Meaning(lambda row: row["count"] >= 2),
    "if count = 1 then ward = general": Meaning(lambda row: row["count"] != 1 or row["ward"] == "general"),
    "if count <= 2 then ward = general": Meaning(lambda row: row["count"] > 2 or row["ward"] == "general"),
    "if ward = surgery then count > 2": Meaning(lambda row: row["ward"] != "surgery" or row["count"] > 2),
    "if count >= 3 then sex = f": Meaning(lambda row: row["count"] < 3 or row["sex"] == "f"),
    "cost < 500": Meaning(lambda row: row["cost"] < 500),
    "next.visited - visited <= 30": _apart(-(10**6), 30),
    "visited - next.visited >= -40": _apart(-(10**6), 40),
    "next.visited > visited": _apart(1, 10**6),
    "next.visited - visited >= 100": _apart(100, 10**6),
    "next.visited >= 2022-03-01": Meaning(
        of_pair=lambda row, following: following["visited"] is None or following["visited"] >= 59
    ),
    "next.visited is missing exactly when ward = heart": Meaning(
        of_pair=lambda row, following: (following["visited"] is None) == (row["ward"] == "heart")
    ),
    "next.visited >= left": Meaning(
        of_pair=lambda row, following: following["visited"] is None or following["visited"] >= row["left"]
    ),
    "next.left >= left": Meaning(of_pair=lambda row, following: following["left"] >= row["left"]),
    "next.cost >= cost": Meaning(of_pair=lambda row, following: following["cost"] >= row["cost"]),
    "next.cost - cost = 10": Meaning(of_pair=lambda row, following: following["cost"] - row["cost"] == 10),
    "next.cost is a multiple of 50": Meaning(of_pair=lambda row, following: following["cost"] % 50 == 0),
    "if sex = f then next.cost > cost": Meaning(
        of_pair=lambda row, following: row["sex"] != "f" or following["cost"] > row["cost"]
    ),
    "if next.ward = surgery then cost < 300": Meaning(
        of_pair=lambda row, following: following["ward"] != "surgery" or row["cost"] < 300
    ),
    "if ward = heart then next.ward = heart": Meaning(
        of_pair=lambda row, following: row["ward"] != "heart" or following["ward"] == "heart"
    ),
    "ward determines next.ward (heart = surgery, surgery = general)": Meaning(
        of_pair=lambda row, following: (
            {"heart": "surgery", "surgery": "general"}.get(row["ward"], following["ward"]) == following["ward"]
        )
    ),
    "if ward = general and count > 2 then next.ward not in (general)": Meaning(
        of_pair=lambda row, following: (row["ward"], following["ward"]) != ("general", "general") or row["count"] <= 2
    ),
}


def rows_of(codes: np.ndarray, units: np.ndarray, schema: Schema) -> list[list[Row]]:
    """Return the rows of each person as cells."""
    texts = {column.name: column.texts(codes[:, place]) for place, column in enumerate(schema.modelled)}
    people: list[list[Row]] = [[] for _ in range(int(units[-1]) + 1)]
    for at, unit in enumerate(units.tolist()):
        row: Row = {name: text[at] for name, text in texts.items()}
        for name in ("visited", "left"):
            days = np.datetime64(row[name], "D") - np.datetime64("2022-01-01") if row[name] else None
            row[name] = None if days is None else int(days.astype(int))
        row["cost"] = int(float(row["cost"]))
        people[unit].append(row)
    for rows in people:
        for row in rows:
            row["count"] = len(rows)
    return people


def broken_by_hand(people: Sequence[Sequence[Row]], rules: Sequence[str]) -> dict[str, int]:
    """Return how many rows or pairs break each rule, of those that any does."""
    found = {}
    for text in rules:
        rule = RULES[text]
        rows = sum(not rule.of_row(row) for one in people for row in one)
        pairs = sum(not rule.of_pair(*pair) for one in people for pair in pairwise(one))
        if rows + pairs:
            found[text] = rows + pairs
    return found
