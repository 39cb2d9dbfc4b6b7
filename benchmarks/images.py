"""MNIST as 784 columns at epsilon 1: twelve classifiers on generated pictures (Vinaroz 2022, Figures 3, 4 and 6).

    HERMITAGE_DATA=FOLDER python benchmarks/images.py [--generators dp-hp dp-merf] [--seeds 5] [--epsilon 1] \
        [--sizes 60 600 6000] [--levels 256] --out build/images [--resume]

Every pixel is a column of ``--levels`` grey values (256, as the pictures have; up to 32 a network would draw each
from a table of probabilities, which takes hours with 784 of them), the digit is the label; a generator learns from
all 60,000 pictures through a private session with real noise and makes as many. Twelve classifiers, each with the one
setting of ``synth.reports.prediction.classifiers``, are trained on the first so many of them (Figure 3: mean accuracy
by size) and tested on the 10,000 test pictures (Figure 6: accuracy by classifier, at the largest size). ``real`` is the
training pictures themselves. Figure 4 is the sample sheet: ten pictures of each digit, and the real ones beside them.

``dp-hp`` gets the paper's orders (100 and 20), two pixels together, ten draws of them and four fifths of the budget for
the sum kernel (Table 9); its widths are the defaults, as the paper's are for another scale. Everything else is the
default. The paper's settings of the classifiers are larger (Table 10), and its network is wider. Results are written
after every cell, so a stopped run resumes. The noise is fresh; a seed changes training and sampling.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import plotly.graph_objects as go
import torch
from kahm_record import LABEL, Cell, Problem, released
from numpy.typing import NDArray
from pictures import Pictures, mnist

from synth.reports.prediction.classifiers import CLASSIFIERS, classify
from synth.reports.tree_predictors import quiet_and_single
from synth.schema import CategoryColumn, NumberColumn, Schema

REAL = "real"
SIDE, CLASSES, SHEET_ROWS = 28, 10, 10
TWELVE = tuple(name for name in CLASSIFIERS if name != "hist_gradient_boosting")
OPTIONS: dict[str, dict[str, object]] = {
    "dp-hp": {"order": 100, "order_product": 20, "prod_dimension": 2, "gamma": 0.05, "epochs": 10, "split": 0.8}
}
"""The paper multiplies the sum kernel's distance by 20; here gamma multiplies the product kernel's."""

Codes = NDArray[np.int64]


def problem(pictures: Pictures, levels: int) -> Problem:
    """Return the pictures as codes of ``levels`` grey values, the label last."""

    def coded(pixels: NDArray[np.float32], labels: Codes) -> Codes:
        return np.column_stack([np.rint(pixels * (levels - 1)).astype(np.int64), labels])

    pixels = tuple(NumberColumn(f"x{place}", 0, levels - 1, 1) for place in range(SIDE * SIDE))
    schema = Schema((*pixels, CategoryColumn(LABEL, tuple(map(str, range(CLASSES))))))
    train = coded(pictures.train, pictures.train_labels)
    return Problem(schema, LABEL, train, coded(pictures.test, pictures.test_labels))


def made(generator: str, task: Problem, *, epsilon: float, seed: int) -> tuple[Codes, float]:
    """Return generated rows in random order, and the CPU seconds they took."""
    began = time.process_time()
    options = json.dumps(OPTIONS.get(generator, {}))
    rows = released(Cell("mnist", epsilon, seed, generator, options, len(task.train)), task)
    return np.random.default_rng(seed).permutation(rows), time.process_time() - began


def accuracies(rows: Codes, test: Codes, levels: int, *, size: int, seed: int) -> dict[str, float]:
    """Train the twelve on the first ``size`` rows; return accuracy on the test pictures by classifier."""
    learnt, labels = rows[:size, :-1] / (levels - 1), rows[:size, -1]
    matrix, truth = test[:, :-1] / (levels - 1), test[:, -1]
    asked = np.arange(CLASSES)
    with quiet_and_single():
        return {
            name: float((classify(CLASSIFIERS[name], learnt, labels, matrix, asked, seed=seed).classes == truth).mean())
            for name in TWELVE
        }


def sheet(rows: Codes, levels: int) -> NDArray[np.float64]:
    """Return the first ten pictures of every digit, one digit a line, shape (280, 280); empty where there are fewer."""
    page = np.zeros((CLASSES * SIDE, SHEET_ROWS * SIDE))
    for label in range(CLASSES):
        for place, picture in enumerate(rows[rows[:, -1] == label][:SHEET_ROWS, :-1]):
            top, left = label * SIDE, place * SIDE
            page[top : top + SIDE, left : left + SIDE] = picture.reshape(SIDE, SIDE) / (levels - 1)
    return page


def write_sheet(path: Path, name: str, rows: Codes, levels: int) -> None:
    """Write a sample sheet as a page of its own."""
    drawing = go.Figure(go.Heatmap(z=sheet(rows, levels)[::-1], colorscale="gray", showscale=False))
    drawing.update_layout(width=620, height=660, title=f"Ten pictures of each digit: {name}")
    drawing.update_xaxes(visible=False)
    drawing.update_yaxes(visible=False, scaleanchor="x")
    drawing.write_html(path, include_plotlyjs=True)


def cell(generator: str, task: Problem, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Make pictures and train on them; the first seed's are drawn as a sheet."""
    rows, seconds = made(generator, task, epsilon=asked.epsilon, seed=seed)
    if seed == 0:
        write_sheet(asked.out / f"sheet-{generator}.html", generator, rows, asked.levels)
    found = {str(size): accuracies(rows, task.test, asked.levels, size=size, seed=seed) for size in asked.sizes}
    return {"accuracy": found, "cpu_seconds": round(seconds, 1), "epsilon": asked.epsilon}


def show(cells: dict[str, dict[str, Any]], generator: str, asked: argparse.Namespace) -> None:
    """Print a line for every size, and one for every classifier at the largest."""
    of_size: dict[int, list[dict[str, float]]] = {}
    for seed in range(asked.seeds):
        for size in asked.sizes:
            of_size.setdefault(size, []).append(cells[f"{generator}, seed {seed}"]["accuracy"][str(size)])
    for size, found in of_size.items():
        means = [statistics.mean(one.values()) for one in found]
        print(f"{generator:>16} {size:>6} rows: mean {statistics.mean(means):.4f} +- {statistics.pstdev(means):.4f}")
    by_name = {name: statistics.mean(one[name] for one in of_size[max(asked.sizes)]) for name in TWELVE}
    print(" " * 17 + "  ".join(f"{name} {value:.3f}" for name, value in by_name.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", nargs="+", default=[REAL, "dp-hp", "dp-merf"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", type=int, default=[60, 600, 6000])
    parser.add_argument("--levels", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path("build/images"))
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    torch.set_num_threads(1)
    task = problem(mnist(Path(os.environ["HERMITAGE_DATA"])), asked.levels)
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "images.json"
    if results.exists() and not asked.resume:
        sys.exit(f"{results} exists. Add --resume to keep its cells, or name another folder.")
    cells: dict[str, dict[str, Any]] = json.loads(results.read_text()) if results.exists() else {}
    for seed in range(asked.seeds):
        for generator in asked.generators:
            key = f"{generator}, seed {seed}"
            if key not in cells:
                cells[key] = cell(generator, task, seed, asked)
                results.write_text(json.dumps(cells, indent=1), encoding="utf-8")
    for generator in asked.generators:
        show(cells, generator, asked)


if __name__ == "__main__":
    main()
