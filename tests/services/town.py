"""A town of three hundred people of two columns: the smallest table with which whole runs are tested."""

from __future__ import annotations

__all__ = ["CONFIG", "HEADER", "ROWS", "TABLE"]

CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: public
number_of_units: 300
people_at_most: 1000
budget: {epsilon: 1.0, delta: 1.0e-5}
holdout: 0
generator: {name: independent}
rows: 200
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south], fallback: north}
"""
HEADER = b"age,town\n"
ROWS = b"".join(b"%d,%s\n" % (i % 90, (b"north", b"south")[i % 2]) for i in range(300))
TABLE = HEADER + ROWS
