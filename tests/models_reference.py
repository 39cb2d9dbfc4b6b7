"""Reference values of private regression, kernel sum-of-squares densities and DP EM."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-10
"""Largest absolute difference from a reference value."""


@cache
def reference(part: str) -> dict[str, Any]:
    text = (Path(__file__).parent / "references" / "models.json").read_text(encoding="utf-8")
    return json.loads(text)[part]


def furthest(got: Any, want: Any) -> float:
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    assert got.shape == want.shape
    return float(np.abs(got - want).max())


def slope(function: Any, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient by central differences."""
    moves = step * np.eye(at.size)
    return np.array([(function(at + move) - function(at - move)) / (2 * step) for move in moves])


def beside_others(rows: np.ndarray, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same rows in other company: tables of them, and which row of each table is the first of ``rows``, and so on.

    Alone, shuffled, doubled among strangers, and as columns that lie apart in memory.
    """
    order = random.permutation(len(rows))
    strangers = np.concatenate([rows[order], rows[::-1], rows[order] * 1.7])
    return [
        *((rows[place : place + 1], np.array([place])) for place in range(min(len(rows), 9))),
        (rows[order], order),
        (strangers, order),
        (np.asfortranarray(rows), np.arange(len(rows))),
        (np.repeat(rows, 3, axis=0)[1::3], np.arange(len(rows))),
    ]
