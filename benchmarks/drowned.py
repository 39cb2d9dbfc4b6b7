"""How often the report calls unrelated columns related, where 5 % is stated, and how weak a relation it sees.

    python benchmarks/drowned.py [--tables 1000]

Tables of two unrelated columns are drawn, each with margins of its own (uniform on the simplex), and noise is added as
an answer has it; every table counts once. Then a relation is put in: a part of the rows has the second column follow
the first. Seeds are fixed; nothing was tuned by these numbers.
"""

from __future__ import annotations

import argparse

import numpy as np

from synth.reports.relations.excess import excess_of

SHAPES = ((2, 2), (3, 4), (8, 8), (2, 32), (32, 32))
ROWS = (500, 5_000, 50_000)
NOISE = (1.0, 10.0, 40.0)


def called_related(shape: tuple[int, int], rows: int, noise: float, *, related: float, tables: int) -> float:
    """Return the part of the tables that say more than their noise.

    Parameters
    ----------
    shape : tuple of two ints
        Bins of the columns.
    rows : int
        Rows of a table.
    noise : float
        Standard deviation of the noise on a count, in rows.
    related : float
        Part of the rows whose second column follows the first.
    tables : int
    """
    random = np.random.default_rng([*shape, rows, round(noise)])
    clear = 0
    for _ in range(tables):
        first, second = (random.dirichlet(np.ones(size)) for size in shape)
        follows = np.zeros(shape)
        follows[np.arange(shape[0]), np.arange(shape[0]) * shape[1] // shape[0]] = first
        cells = (1 - related) * np.outer(first, second) + related * follows
        counts = random.multinomial(rows, cells.reshape(-1)).reshape(shape)
        found = excess_of(counts + noise * random.normal(size=shape), noise)
        clear += found is not None and found.clear
    return clear / tables


def main() -> None:
    """Print a line for every shape, number of rows and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    tables = parser.parse_args().tables
    print("bins, rows, noise of a count: unrelated; 5 %, 20 % of the rows related (all in % of the tables)")
    for shape in SHAPES:
        for rows in ROWS:
            for noise in NOISE:
                said = [called_related(shape, rows, noise, related=part, tables=tables) for part in (0.0, 0.05, 0.2)]
                words = "; ".join(f"{100 * one:.1f}" for one in said)
                print(f"{shape[0]} x {shape[1]}, {rows:,}, {noise:g}: {words}", flush=True)


if __name__ == "__main__":
    main()
