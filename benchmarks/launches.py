"""What a training step asks of a graphics card, counted without one.

    python benchmarks/launches.py [--works dp-merf dp-hp] [--json FILE]

Fits run on the pretended card of the tests. The counts of a short one are taken from those of a longer one, which
leaves the steps. *Launches* are operations that calculate or copy: each starts at least one kernel, which takes a card
of the H100 class about 5 us whatever its size. *Views* only say how memory is read, and take the card nothing. After a
download or another wait the program stands still until the card has done all that it was asked before, about 20 us.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from device import fit_of, mixture
from tables import RAW

from synth.generators import make
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.blocks import fabricated_blocks
from synth.generators.protocol import GeneratorTask
from synth.models.marginals import NoisyMarginal
from synth.models.mixture_estimation import GroupedMarginals, fit_mixtures
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import Neighbours

Work = Callable[[str], object]
Counts = dict[str, float]

COUNTED = ("launches", "views", "uploads", "downloads", "waits")
FEW, MORE = 20, 40
"""Steps of the two fits; multiples of the steps between two losses that an owner is shown."""


def _trained(name: str, option: str) -> Callable[[], tuple[Work, Work, int]]:
    once = {"epochs": 1} if name == "dp-hp" else {}

    def works() -> tuple[Work, Work, int]:
        few, more = (fit_of(name, {option: steps, **once}, rows=1000) for steps in (FEW, MORE))
        return few, more, MORE - FEW

    return works


def _all_pairs(steps: int) -> Work:
    """Return what fits mixtures as the default generator does: side by side, to columns and to pairs of groups."""
    random = np.random.default_rng(0)
    sizes, groups = (2, 3, 9, 20, 20), (2, 3, 4, 4, 4)
    of_bins = tuple((np.arange(size) * most // size).astype(np.int32) for size, most in zip(sizes, groups, strict=True))
    ones = [NoisyMarginal((column,), random.normal(100, 5, size), 5.0) for column, size in enumerate(sizes)]
    pairs = [
        NoisyMarginal(pair, random.normal(50, 9, [groups[column] for column in pair]), 9.0)
        for pair in itertools.combinations(range(len(sizes)), 2)
    ]
    return lambda device: fit_mixtures(
        sizes,
        ones,
        1000.0,
        components=4,
        steps=steps,
        seeds=range(3),
        overlap=0.0,
        price=0.5,
        grouped=GroupedMarginals(of_bins, tuple(pairs)),
        device=device,
        report=lambda step, chi_squares: None,
    )


def _blocks(batches: int) -> Work:
    """Return what fabricates rows of some batches of 16 blocks, each of 20 rows of 100 numbers."""
    rows = np.random.default_rng(0).random((batches * 16 * 20, 100))
    parts = [(None, part) for part in np.array_split(np.arange(len(rows)), batches * 16)]
    return lambda device: list(fabricated_blocks(rows, parts, KahmOptions(), device=device))


def _asking(name: str, option: str, steps: int) -> Work:
    """Return what fits a generator whose steps are questions: the pass over rows is the step."""
    table = RAW["scm_tree"](Path())
    schema = replace(table.schema, row_count="public", number_of_units=None)
    coded = {column: table.codes[:, place] for place, column in enumerate(schema.names)}
    rows = PrivateTable.from_codes(schema, coded)

    def work(device: str) -> object:
        session = PrivateSession(rows, PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE), device=device)
        return make(name, GeneratorTask(schema, table.label, device=device), {option: steps}).fit(
            session, NullProgress()
        )

    return work


WORKS: dict[str, Callable[[], tuple[Work, Work, int]]] = {
    "dp-merf": _trained("dp-merf", "steps"),
    "dp-hp": _trained("dp-hp", "steps_per_epoch"),
    "all pairs": lambda: (_all_pairs(FEW), _all_pairs(MORE), MORE - FEW),
    "mixture": lambda: (mixture(FEW, 8, 6), mixture(MORE, 8, 6), MORE - FEW),
    "dp-mixture": lambda: (_asking("dp-mixture", "steps", 5), _asking("dp-mixture", "steps", 9), 4),
    "kahm": lambda: (_blocks(1), _blocks(4), 3),
}
"""A short work, a longer one, and how many steps that has more: of training, of EM, or batches of 16 blocks of rows."""


def counted(name: str) -> Counts:
    """Return what one step of a work asks of a card."""
    short, long, steps = WORKS[name]()
    first, second = map(_counts, (short, long))
    return {one: (second[one] - first[one]) / steps for one in COUNTED}


def _counts(work: Work) -> dict[str, int]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    import pytest
    from pretended_card import pretended_card

    with pytest.MonkeyPatch.context() as patch, pretended_card(patch) as traffic:
        work("cuda")
        return {one: getattr(traffic, one) for one in COUNTED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(f"{'a step of':14}" + "".join(f"{one:>10}" for one in COUNTED))
    found = {}
    for name in given.works:
        found[name] = counted(name)
        print(f"{name:14}" + "".join(f"{found[name][one]:10.2f}" for one in COUNTED), flush=True)
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
