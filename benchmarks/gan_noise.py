"""Whether noise or the training holds dp-gan and dp-cgan back on MNIST: one training with hardly any noise.

    HERMITAGE_DATA=FOLDER python benchmarks/gan_noise.py [--side 7] [--steps 500 5000] [--epsilons 10 600]

Pictures are reduced to means of squares of pixels, with as many grey values as a pixel may have and be a number to the
critic. Prints the accuracy of logistic regression on 2,000 real test pictures, trained on 6,000 generated ones, and the
length of the noise in the mean gradient of a step, where that of a row is at most 1 long.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pictures import mnist
from sklearn.linear_model import LogisticRegression

from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema

DELTA, LEVELS, LABEL = 1e-5, 64, "digit"
MADE, TESTED = 6_000, 2_000

Codes = NDArray[np.int64]


def reduced(pixels: NDArray[np.float32], side: int) -> Codes:
    """Return the mean grey values of squares, shape (pictures, side * side)."""
    square = pixels.reshape(len(pixels), -1).shape[1]
    width = round(square**0.5) // side
    blocks = pixels.reshape(len(pixels), side, width, side, width).mean(axis=(2, 4))
    return np.rint(blocks.reshape(len(pixels), -1) * (LEVELS - 1)).astype(np.int64)


def accuracy(rows: Codes, test: Codes) -> float:
    """Train on generated rows, whose last column is the digit, and test on real ones."""
    if len(np.unique(rows[:, -1])) < 2:
        return float((test[:, -1] == rows[0, -1]).mean())
    model = LogisticRegression(max_iter=200).fit(rows[:, :-1] / (LEVELS - 1), rows[:, -1])
    return float(model.score(test[:, :-1] / (LEVELS - 1), test[:, -1]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train each generator at every number of steps and epsilon, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=7)
    parser.add_argument("--steps", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[10.0, 600.0])
    parser.add_argument("--generators", nargs="+", default=["dp-gan", "dp-cgan"])
    asked = parser.parse_args(arguments)
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables (mnist).")
    pictures = mnist(Path(os.environ["HERMITAGE_DATA"]))
    columns = [NumberColumn(f"x{place}", 0, LEVELS - 1, 1) for place in range(asked.side**2)]
    schema = Schema((*columns, CategoryColumn(LABEL, tuple(map(str, range(10))))), row_count="private")
    train = np.column_stack([reduced(pictures.train, asked.side), pictures.train_labels])
    test = np.column_stack([reduced(pictures.test, asked.side), pictures.test_labels])[:TESTED]
    print(f"real rows: accuracy {accuracy(train[:MADE], test):.3f}", flush=True)
    table = PrivateTable.from_codes(schema, dict(zip(schema.names, train.T, strict=True)))
    for name in asked.generators:
        for steps in asked.steps:
            for epsilon in asked.epsilons:
                began = time.process_time()
                session = PrivateSession(table, PrivacyBudget(epsilon, DELTA, schema.neighbours))
                session.count_rows(share=0.05)
                generator = make(
                    name, GeneratorTask(schema, LABEL, seed=0, device="cpu"), {"steps": steps, "hidden": 16}
                )
                generator.fit(session, NullProgress())
                rows = generator.sample(MADE, 0)
                noise = next(fact.value for fact in generator.facts() if fact.name == "noise")
                print(
                    f"{name}, {steps:,} steps, epsilon {epsilon:g}: accuracy {accuracy(rows, test):.3f}, noise of a "
                    f"step {noise:.3g}, {time.process_time() - began:.0f} CPU s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
