"""PrivBayes as DataSynthesizer 0.1.13 publishes it (Ping 2017), on codes whose number is declared.

    python datasynthesizer.py --input codes.npy --domain domain.json --epsilon E --delta D --neighbours add_remove
                              --rows N --seed S --out synthetic.npy [--degree K] [--ordered PLACES] [--bins B]

For comparisons. Its network, noisy tables and rows are the package's own; what it reads from rows otherwise (types,
ranges, which values there are) is left out: see ``README.md``. Run by the package's environment.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from DataSynthesizer.DataGenerator import DataGenerator
from DataSynthesizer.lib import PrivBayes
from DataSynthesizer.lib.utils import set_random_seed

sys.path.insert(0, str(Path(__file__).parents[1] / "aim"))

from aim import parser_of


def synthetic(codes: np.ndarray, sizes: list[int], *, epsilon: float, degree: int, rows: int, seed: int) -> np.ndarray:
    """Return codes of synthetic rows; half of epsilon chooses the network, half is the noise of its tables."""
    names = [f"c{place}" for place in range(len(sizes))]
    table, size_of = pd.DataFrame(codes, columns=names), dict(zip(names, sizes, strict=True))

    def noisy_counts(columns: list[str], encoded: pd.DataFrame, epsilon: float) -> pd.DataFrame:
        """As the package's function of that name, except that a column ends with its last declared code.

        The package takes the largest code that occurs.
        """
        shape = tuple(size_of[name] for name in columns)
        cells = np.ravel_multi_index(tuple(encoded[name] for name in columns), shape)
        scale = PrivBayes.laplace_noise_parameter(len(columns) - 1, encoded.shape[1], len(encoded), epsilon)
        counts = np.bincount(cells, minlength=math.prod(shape)) + noise.laplace(0, scale, math.prod(shape))
        found = pd.DataFrame(dict(zip(columns, np.indices(shape).reshape(len(shape), -1), strict=True)))
        return found.assign(count=np.maximum(counts, 0.0))

    noise = np.random.default_rng(seed)
    PrivBayes.get_noisy_distribution_of_attributes = noisy_counts
    set_random_seed(seed)
    network = PrivBayes.greedy_bayes(table, degree, epsilon / 2, seed=seed)
    description = {
        "bayesian_network": network,
        "conditional_probabilities": PrivBayes.construct_noisy_conditional_distributions(network, table, epsilon / 2),
        "attribute_description": {
            name: {"distribution_probabilities": [1 / size] * size} for name, size in zip(names, sizes, strict=True)
        },
    }
    return DataGenerator.generate_encoded_dataset(rows, description)[names].to_numpy(dtype=np.int64)


def binned(codes: np.ndarray, sizes: list[int], ordered: list[int], bins: int) -> tuple[np.ndarray, list[int]]:
    """Put numbers into equal parts of their declared range, as the package does; return the new sizes."""
    made, new = codes.astype(np.int64), [min(size, bins) if d in ordered else size for d, size in enumerate(sizes)]
    for d in ordered:
        made[:, d] = made[:, d] * new[d] // sizes[d]
    return made, new


def unbinned(rows: np.ndarray, sizes: list[int], new: list[int], seed: int) -> np.ndarray:
    """Draw codes evenly inside the parts, as the package does."""
    made, random = rows.copy(), np.random.default_rng([seed, 1])
    for d, (size, parts) in enumerate(zip(sizes, new, strict=True)):
        edges = -(-np.arange(parts + 1) * size // parts)  # the first code of every part
        made[:, d] = random.integers(edges[rows[:, d]], edges[rows[:, d] + 1])
    return made


def main() -> None:
    """Do what is asked on the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--degree", type=int, default=1)
    parser.add_argument("--ordered", type=int, nargs="*", default=[], help="places of numbers")
    parser.add_argument("--bins", type=int, default=256, help="most parts of a number; the package's default is 20")
    asked = parser.parse_args()
    if asked.neighbours != "add_remove" or asked.rows_per_unit != 1:
        sys.exit("DataSynthesizer's noise is that of one row more or less.")
    sizes = json.loads(asked.domain.read_text(encoding="utf-8"))
    codes, new = binned(np.load(asked.input), sizes, asked.ordered, asked.bins)
    with contextlib.redirect_stdout(io.StringIO()):
        rows = synthetic(codes, new, epsilon=asked.epsilon, degree=asked.degree, rows=asked.rows, seed=asked.seed)
    rows = unbinned(rows, sizes, new, asked.seed)
    np.save(asked.out, rows)


if __name__ == "__main__":
    main()
