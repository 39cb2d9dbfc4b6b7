"""Two simulated tables of codes that are written like numbers, beside numbers that are none: for ``found.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import declared
import numpy as np
import pandas as pd

from synth.schema import CategoryColumn, Column, NumberColumn

__all__ = ["CODED"]

SEED = 20_261_123


def _drawn(random: np.random.Generator, codes: Sequence[str], rows: int) -> np.ndarray:
    """Draw codes of which a few are frequent and most are rare, in an order that their text says nothing of."""
    shares = 1 / np.arange(1, len(codes) + 1)
    return np.array(codes)[random.permutation(len(codes))][random.choice(len(codes), rows, p=shares / shares.sum())]


def _with(random: np.random.Generator, cells: Sequence[str], word: str, share: float) -> np.ndarray:
    return np.where(random.random(len(cells)) < share, word, np.array(cells, dtype=object))


def _category(name: str, values: Sequence[str]) -> CategoryColumn:
    return CategoryColumn(name, tuple(values))


def bank() -> tuple[list[Column], str, pd.DataFrame]:
    """Payments: merchants by a code of four digits or a word, amounts of which most are whole, ages some do not say."""
    random, rows = np.random.default_rng(SEED), 30_000
    merchants = [str(4000 + 37 * k) for k in range(100)]
    merchants += [f"{word}{k}" for word in ("ATM", "FEE", "P2P") for k in range(5)]
    branches = [str(200 + 3 * k) for k in range(60)]
    spent = np.exp(random.normal(3, 1.2, rows))
    amounts = [f"{x:.0f}" if whole else f"{x:.2f}" for x, whole in zip(spent, random.random(rows) < 0.6, strict=True)]
    ages = random.integers(18, 96, rows).astype(str)
    cells = {
        "account": random.choice(["current", "savings", "joint"], rows, p=[0.6, 0.3, 0.1]),
        "merchant": _drawn(random, merchants, rows),
        "branch": _drawn(random, branches, rows),
        "amount": _with(random, amounts, "pending", 0.01),
        "age": _with(random, ages, "unknown", 0.03),
        "score": random.integers(300, 851, rows).astype(str),
        "default": random.choice(["no", "yes"], rows, p=[0.9, 0.1]),
    }
    columns: list[Column] = [
        _category("account", ["current", "savings", "joint"]),
        _category("merchant", merchants),
        _category("branch", branches),
        NumberColumn("amount", 0, 2000, 1, missing=True),
        NumberColumn("age", 18, 95, 1, missing=True),
        NumberColumn("score", 300, 850, 1),
        _category("default", ["no", "yes"]),
    ]
    return columns, "default", pd.DataFrame(cells)


def school() -> tuple[list[Column], str, pd.DataFrame]:
    """Courses as "101", "101.5" or "LAB3", hours of which most are whole, marks that some did not get."""
    random, rows = np.random.default_rng(SEED + 1), 20_000
    courses = [str(101 + 7 * k) for k in range(45)] + [f"{110 + 9 * k}.5" for k in range(20)]
    courses += [f"{word}{k}" for word in ("LAB", "SEM") for k in range(8)]
    grades = ["1", "2", "3", "4", "A", "B", "C"]
    hours = np.where(random.random(rows) < 0.85, random.integers(1, 41, rows), random.integers(1, 81, rows) / 2)
    cells = {
        "course": _drawn(random, courses, rows),
        "grade": random.choice(grades, rows),
        "hours": [f"{x:g}" for x in hours],
        "mark": _with(random, [f"{x:.1f}" for x in np.clip(random.normal(62, 15, rows), 0, 100)], "absent", 0.02),
        "campus": random.choice(["north", "south", "river"], rows),
        "year": random.integers(2015, 2026, rows).astype(str),
        "passed": random.choice(["no", "yes"], rows, p=[0.2, 0.8]),
    }
    columns: list[Column] = [
        _category("course", courses),
        _category("grade", grades),
        *declared.numbers("hours: 0 45 0.5"),
        NumberColumn("mark", 0, 100, 0.1, missing=True),
        _category("campus", ["north", "south", "river"]),
        NumberColumn("year", 2010, 2030, 1),
        _category("passed", ["no", "yes"]),
    ]
    return columns, "passed", pd.DataFrame(cells)


CODED: dict[str, Callable[[], tuple[list[Column], str, pd.DataFrame]]] = {"bank": bank, "school": school}
"""Declared columns, the label, and cells as they are written."""
