"""The experiments of the KAHM paper on MNIST, each figure beside the printed one (Kumar 2024, Tables 5 and 8 to 11).

    HERMITAGE_DATA=FOLDER python benchmarks/kahm.py --tables 5 8 9 10 11 --json build/kahm.json [--resume]
        [--epsilons 1 8] [--repeats 1] [--rows 60000] [--device cuda] [--parts again]

Everything here is the paper's own procedure, which protects ONE CELL of a picture and not even that (docs/kahm.md):
noise with an atom of mass 1e-5 on every cell (d = 1 and this delta are ours; the paper states neither), k-means blocks
of the original rows, the stopping rule that reads the original rows, labels in clear. It is run with the research code
of ``published_fabrication`` and reproduces figures; ``benchmarks/kahm_record.py`` measures the product.

The parts of a class's machine are its clusters, made noisy or fabricated: in strong noise they are not found again
(``--parts again`` looks for them in the rows that were made).

Table 5: accuracy on the test pictures and membership score (5,000 training pictures; all test pictures, as their first
half is unlike the second) of classifiers trained on fabricated rows (Definition 15) and on noisy rows (Definition 12).
Tables 8 to 10: federated classifiers, ten parties with a class each, twenty with half a class each, and random
distributions (ten in the paper, ``--repeats`` here) over 2 to 100 parties. Table 11: seconds of CPU for one machine by
size of the data; 1,000 rows, n = 20.

The depth is 1, not the paper's 5: deeper layers never were the nearest (``--depth 5`` shows it). float32, one thread.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from kahm_printed import CENTRAL, FEDERATED_1, FEDERATED_2, FEDERATED_3, TABLE_5, TABLE_11
from pictures import Pictures, mnist
from published_fabrication import draw_noise, fabricate_blocks_as_published
from published_layers import DeepHull
from torch import Tensor

from synth.models.affine_hull import AffineHull
from synth.models.wide_hull import WideHull, fit_hulls, fit_wide_hulls, partition_rows
from synth.reports.membership.score import membership_score_of_distances
from synth.system.machine import processor_name

DELTA = 1e-5
SCORED = 5000
DIMENSION = 20
BLOCK = 1000
REPEATS = 3


@dataclass(frozen=True)
class Cell:
    """One figure to measure, and the printed ones beside it."""

    key: str
    measure: Callable[[], dict[str, Any]]
    printed: dict[str, float]


class Experiment:
    """The paper's procedure on one set of pictures."""

    def __init__(self, pictures: Pictures, *, depth: int, device: str, parts: str = "clusters") -> None:
        self.rows, self.labels = torch.from_numpy(pictures.train), torch.from_numpy(pictures.train_labels)
        self.test = torch.from_numpy(pictures.test)
        self.test_labels = torch.from_numpy(pictures.test_labels)
        self.classes = pictures.classes
        self.depth, self.device, self.parts = depth, device, parts

    def fabricated(
        self, members: Tensor, *, epsilon: float, n: int, generator: torch.Generator
    ) -> tuple[list[Tensor], int]:
        """Fabricate rows of one class from some of its rows, by cluster; also the most steps that any cluster took."""
        rows = self.rows[members].to(self.device)
        made = fabricate_blocks_as_published(rows, n=n, epsilon=epsilon, delta=DELTA, block=BLOCK, generator=generator)
        return [one.rows for _, one in made], max(one.steps for _, one in made)

    def noisy(self, members: Tensor, *, epsilon: float, generator: torch.Generator) -> list[Tensor]:
        """Return one class's rows with the noise of Algorithm 1, by cluster of the original rows."""
        rows, seed = self.rows[members], int(torch.randint(2**31, (1,), generator=generator))
        parts = [rows[numbers] for numbers in partition_rows(rows, block=BLOCK, partition="k-means", seed=seed)]
        return [
            (part + draw_noise(tuple(part.shape), epsilon=epsilon, delta=DELTA, generator=generator)).float()
            for part in parts
        ]

    def hulls(self, classes: Sequence[Sequence[Tensor]], *, n: int) -> list[WideHull]:
        """Build a wide machine for every class, one part for each of its clusters."""
        if self.parts == "again":
            rows = [torch.cat(list(parts)) for parts in classes]
            wide = fit_wide_hulls(rows, n=n, block=BLOCK, device=self.device)
            return [WideHull(tuple(DeepHull.of(part, depth=self.depth) for part in hull.parts)) for hull in wide]
        machines = iter(fit_hulls([part for parts in classes for part in parts], n=n, device=self.device))
        return [WideHull(tuple(DeepHull.of(next(machines), depth=self.depth) for _ in parts)) for parts in classes]

    def members(self, label: int, among: Tensor | None = None) -> Tensor:
        """Return the numbers of the training rows of one class."""
        chosen = torch.nonzero(self.labels == label).flatten()
        return chosen if among is None else chosen[torch.isin(chosen, among)]

    def distances(self, hulls: Sequence[WideHull], points: Tensor) -> Tensor:
        """Return the distances of points from every class, shape (m, classes)."""
        return torch.stack([hull.distance(points.to(self.device)).cpu() for hull in hulls], dim=1)

    def accuracy(self, distances: Tensor) -> float:
        """Return the share of test pictures whose nearest class is their own."""
        return float((distances.argmin(dim=1) == self.test_labels).double().mean())

    def central(self, *, epsilon: float, n: int, definition: int, seed: int) -> dict[str, Any]:
        """Measure one line of Table 5."""
        generator = torch.Generator().manual_seed(seed)
        began, steps = time.process_time(), 0
        classes = []
        for label in range(self.classes):
            if definition == 15:
                parts, most = self.fabricated(self.members(label), epsilon=epsilon, n=n, generator=generator)
                steps = max(steps, most)
            else:
                parts = self.noisy(self.members(label), epsilon=epsilon, generator=generator)
            classes.append(parts)
        made = time.process_time()
        hulls = self.hulls(classes, n=n)
        fitted = time.process_time()
        tested = self.distances(hulls, self.test)
        chosen = torch.randperm(len(self.rows), generator=generator)[:SCORED]
        trained = self.distances(hulls, self.rows[chosen]).amin(dim=1)
        scores = [
            membership_score_of_distances(trained.numpy(), some.amin(dim=1).numpy(), seed=seed)
            for some in (tested, *tested.tensor_split(2))
        ]
        score = scores[0]
        return {
            "accuracy": self.accuracy(tested),
            "score": score.value,
            "score_by_halves": [half.value for half in scores[1:]],
            "auc": score.auc,
            "most_steps": steps,
            "seconds": {
                "fabrication": made - began,
                "fit": fitted - made,
                "distances": time.process_time() - fitted,
            },
        }

    def federated(self, parties: Sequence[Tensor], *, epsilon: float, n: int, seed: int) -> dict[str, Any]:
        """Measure the global classifier (eq. 104) of parties that hold these rows each."""
        generator = torch.Generator().manual_seed(seed)
        began = time.process_time()
        nearest = torch.full((len(self.test), self.classes), torch.inf)
        for party in parties:
            held = [label for label in range(self.classes) if len(self.members(label, party))]
            classes = [
                self.fabricated(self.members(label, party), epsilon=epsilon, n=n, generator=generator)[0]
                for label in held
            ]
            found = self.distances(self.hulls(classes, n=n), self.test)
            nearest[:, held] = torch.minimum(nearest[:, held], found.to(nearest))
        return {"accuracy": self.accuracy(nearest), "seconds": {"total": time.process_time() - began}}

    def by_class(self, shares: int) -> list[Tensor]:
        """Give every class to as many parties as there are shares, each an equal part of it."""
        return [part for label in range(self.classes) for part in torch.tensor_split(self.members(label), shares)]

    def at_random(self, parties: int, seed: int) -> list[Tensor]:
        """Give every row to a party at random."""
        owner = torch.randint(parties, (len(self.rows),), generator=torch.Generator().manual_seed(1000 + seed))
        return [torch.nonzero(owner == party).flatten() for party in range(parties)]


def cells_of(
    experiment: Experiment | None, tables: Sequence[int], epsilons: Sequence[float] | None, repeats: int
) -> Iterator[Cell]:
    if experiment is not None:
        for table in tables:
            yield from _cells_of_table(experiment, table, epsilons, repeats)
    if 11 in tables:
        for size, seconds in TABLE_11.items():
            yield Cell(f"table 11, {size:,} entries", lambda size=size: timed(size), {"seconds": seconds})


def _cells_of_table(
    experiment: Experiment, table: int, epsilons: Sequence[float] | None, repeats: int
) -> Iterator[Cell]:
    def wanted(epsilon: float) -> bool:
        return epsilons is None or epsilon in epsilons

    for seed in range(repeats):
        if table == 5:
            for (epsilon, n), (accuracy_15, accuracy_12, score_15, score_12) in TABLE_5.items():
                for definition, accuracy, score in ((15, accuracy_15, score_15), (12, accuracy_12, score_12)):
                    if wanted(epsilon):
                        yield Cell(
                            f"table 5, epsilon {epsilon:g}, n {n}, definition {definition}, seed {seed}",
                            lambda e=epsilon, n=n, d=definition, s=seed: experiment.central(
                                epsilon=e, n=n, definition=d, seed=s
                            ),
                            {"accuracy": accuracy, "score": score},
                        )
        if table in (8, 9):
            printed = FEDERATED_1 if table == 8 else FEDERATED_2
            for epsilon, accuracy in printed.items():
                if wanted(epsilon):
                    yield Cell(
                        f"table {table}, epsilon {epsilon:g}, seed {seed}",
                        lambda e=epsilon, t=table, s=seed: experiment.federated(
                            experiment.by_class(t - 7), epsilon=e, n=DIMENSION, seed=s
                        ),
                        {"accuracy": accuracy, "centralised": CENTRAL[epsilon]},
                    )
        if table == 10:
            for parties, accuracy in FEDERATED_3.items():
                yield Cell(
                    f"table 10, {parties} parties, seed {seed}",
                    lambda q=parties, s=seed: experiment.federated(
                        experiment.at_random(q, s), epsilon=16.0, n=DIMENSION, seed=s
                    ),
                    {"accuracy": accuracy, "centralised": CENTRAL[16.0]},
                )


def timed(entries: int) -> dict[str, Any]:
    """Build one machine from random rows of a size; the least CPU seconds of a few repeats."""
    rows = 1000 if entries >= 100_000 else 100
    columns = entries // rows
    found: dict[str, Any] = {"rows": rows, "columns": columns}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        data = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
        seconds = []
        for _ in range(REPEATS):
            began = time.process_time()
            AffineHull.fit(data, DIMENSION)
            seconds.append(time.process_time() - began)
        found[name] = min(seconds)
    return found


def line_of(cell: Cell, found: dict[str, Any]) -> str:
    shown = []
    for name in ("accuracy", "score", "float32", "float64"):
        if name in found:
            printed = cell.printed.get(name, cell.printed.get("seconds") if name.startswith("float") else None)
            beside = "" if printed is None else f" (printed {printed:.5g})"
            shown.append(f"{name} {found[name]:.5g}{beside}")
    if "score_by_halves" in found:
        shown.append("halves of the test pictures {:.5g}, {:.5g}".format(*found["score_by_halves"]))
    return f"{cell.key}: " + ", ".join(shown)


def read_results(path: Path | None, *, resume: bool) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    if not resume:
        sys.exit(f"{path} exists. Add --resume to keep its cells, or name another file.")
    return dict(json.loads(path.read_text(encoding="utf-8"))["cells"])


def write_results(path: Path | None, cells: dict[str, Any]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "threads": torch.get_num_threads(),
        },
        "cells": cells,
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1), encoding="utf-8")
    partial.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", type=int, choices=(5, 8, 9, 10, 11), default=[5, 8, 9, 10, 11])
    parser.add_argument("--epsilons", nargs="+", type=float, help="of tables 5, 8 and 9; by default all printed ones")
    parser.add_argument("--repeats", type=int, default=1, help="seeds")
    parser.add_argument("--rows", type=int, default=60_000, help="the first so many training pictures")
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", choices=("clusters", "again"), default="clusters")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    experiment = None
    if asked.tables != [11]:
        if "HERMITAGE_DATA" not in os.environ:
            sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables (mnist).")
        pictures = mnist(Path(os.environ["HERMITAGE_DATA"]))
        kept = slice(asked.rows)
        pictures = replace(pictures, train=pictures.train[kept], train_labels=pictures.train_labels[kept])
        experiment = Experiment(pictures, depth=asked.depth, device=asked.device, parts=asked.parts)
    cells = read_results(asked.json, resume=asked.resume)
    settings: dict[str, Any] = {"rows": asked.rows, "depth": asked.depth, "device": asked.device}
    for cell in cells_of(experiment, asked.tables, asked.epsilons, asked.repeats):
        # What another run measured with other settings is measured again.
        own = settings | ({"parts": asked.parts, "scored": "all test pictures"} if "accuracy" in cell.printed else {})
        done = cells.get(cell.key)
        if done is None or done["settings"] != own:
            done = {"found": cell.measure(), "printed": cell.printed, "settings": own}
            cells[cell.key] = done
            write_results(asked.json, cells)
        print(line_of(cell, done["found"]), flush=True)


if __name__ == "__main__":
    main()
