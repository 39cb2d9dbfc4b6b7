"""One step of DP-SGD beside one of Opacus: the same critic, the same expected rows, in one run.

    pip install --no-deps opacus opt_einsum     (where it may be: beside this project's requirements)
    python benchmarks/dp_sgd_step.py [--rows 512] [--columns 15] [--rounds 7] [--steps 40]

A step draws a Poisson sample of rows, takes the gradient of every drawn row, shortens it, adds up and adds noise. Here
that is everything between two points of a training (:class:`synth.privacy.more.sampled_gradients.SampledGradients`),
with exact whole numbers and noise from the operating system's key. Of Opacus it is the forward and backward pass on a
sample that is ready, and clipping and noise of its optimiser (``DPOptimizer.pre_step``), in float32 with torch's
generator; once with its usual noise and once with ``secure_mode``. Rounds alternate; the median counts. One thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.counting import PrivateRows
from synth.privacy.more.critics import Critic
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.sampled_gradients import SampledGradients
from synth.privacy.noise import SAMPLING_BITS, SystemNoise
from synth.privacy.questions import Allowance
from synth.schema import CategoryColumn, Neighbours, NumberColumn, Schema

LEVELS = 8
TABLE_ROWS = 32_768
HIDDEN = (32, 32)
CLIP = 1.0


def of_hermitage(rows: int, columns: int) -> Callable[[], object]:
    """Return one step on a table of numbers and categories, half of each."""
    random = np.random.default_rng(0)
    numbers = columns // 2
    names = [f"c{place}" for place in range(columns)]
    schema = Schema(
        tuple(
            NumberColumn(name, 0, 255, 1, fallback=0)
            if place < numbers
            else CategoryColumn(name, tuple("abcdefgh"), fallback="a")
            for place, name in enumerate(names)
        ),
        row_count="private",
    )
    sizes = [schema.modelled_column(name).size for name in names]
    codes = {name: random.integers(0, size, TABLE_ROWS) for name, size in zip(names, sizes, strict=True)}
    tables = tuple(
        Lookup(name, np.linspace(-1.0, 1.0, size)[:, None] if place < numbers else np.eye(size))
        for place, (name, size) in enumerate(zip(names, sizes, strict=True))
    )
    question = SampledGradients(
        tables, HIDDEN, "logistic", CLIP, rate=round(rows / TABLE_ROWS * 2**SAMPLING_BITS), steps=500
    )
    budget, noise = PrivacyBudget(1.0, 1e-6, Neighbours.ADD_REMOVE), SystemNoise()
    plan = question.plan(Allowance(schema, budget, budget.units, 1e-5, lambda bound: bound.norm))
    step = question.of_rows(plan, PrivateRows(codes.__getitem__, TABLE_ROWS), noise, device="cpu")
    weights = random.normal(size=question.dimension) / 8

    def once() -> object:
        return step(0, weights) + noise.gaussian(plan.gaussian.variance, question.dimension)

    return once


def of_opacus(rows: int, columns: int, *, secure: bool) -> Callable[[], object]:
    """Return one step of Opacus on rows of the same width."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    width = columns // 2 + LEVELS * (columns - columns // 2)
    critic = Critic(width, HIDDEN)
    layers: list[torch.nn.Module] = []
    for out, into in critic.shapes:
        layers += [torch.nn.Linear(into, out), torch.nn.LeakyReLU(0.25)]
    module = GradSampleModule(torch.nn.Sequential(*layers[:-1]), loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=0.1),
        noise_multiplier=1.7,
        max_grad_norm=CLIP,
        expected_batch_size=rows,
        loss_reduction="sum",
        secure_mode=secure,
    )
    sample = torch.randn(rows, width)

    def once() -> object:
        optimizer.zero_grad()
        torch.nn.functional.softplus(-module(sample)).sum().backward()
        return optimizer.pre_step()

    return once


def milliseconds(works: dict[str, Callable[[], object]], *, rounds: int, steps: int) -> dict[str, float]:
    """Time works in turn, and return the median of the rounds of each."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            begun = time.perf_counter()
            for _ in range(steps):
                work()
            if number:  # the first warms up
                found[name].append((time.perf_counter() - begun) / steps * 1000)
    return {name: statistics.median(times) for name, times in found.items()}


def main(arguments: Any = None) -> int:
    """Print milliseconds a step, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--columns", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    works = {"this": of_hermitage(options.rows, options.columns)}
    try:
        works["Opacus"] = of_opacus(options.rows, options.columns, secure=False)
        works["Opacus, secure mode"] = of_opacus(options.rows, options.columns, secure=True)
    except ImportError as missing:
        print(f"Opacus is left out: {missing}. Install it as the top of this file says.")
    found = milliseconds(works, rounds=options.rounds, steps=options.steps)
    for name, each in found.items():
        print(f"{name:20} {each:7.2f} ms a step   {found['this'] / each:5.2f} of it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
