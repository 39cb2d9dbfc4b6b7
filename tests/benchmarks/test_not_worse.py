"""The default generator is not worse than independent columns: one verdict over tables of different kinds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import tables
from marginals import Found, Results, compare, differences
from metrics import mean_total_variation
from recorded_noise import RecordedNoise
from tables import Table

from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn

CONTROL, OURS = "independent", "dp-hp-adaptive"
MEASURES = ("tv2", "tv3")
SEEDS = range(4)


def broad_numbers() -> Table:
    """Many smooth numbers, hardly related, and few rows."""
    random = np.random.default_rng(1)
    hidden = random.normal(size=(900, 1))
    values = 100 + 30 * (0.3 * hidden + random.normal(size=(900, 24)))
    columns = tuple(NumberColumn(f"c{d}", 0, 200, 1) for d in range(24))
    return Table("broad", Schema(columns, row_count="public"), None, np.clip(values, 0, 200).astype(np.int64))


def rare_flags() -> Table:
    """Flags that are nearly always no, one of them by kind, and two numbers."""
    random = np.random.default_rng(2)
    kind = random.integers(0, 20, 8000)
    flags = [((kind == d) | (random.random(8000) < 0.002)).astype(np.int64) for d in range(20)]
    numbers = [np.clip(random.normal(500, 120, 8000), 0, 999).astype(np.int64) for _ in range(2)]
    columns = (*(YesNoColumn(f"f{d}") for d in range(20)), NumberColumn("a", 0, 999, 1), NumberColumn("b", 0, 999, 1))
    return Table("flags", Schema(columns, row_count="public"), None, np.stack([*flags, *numbers], axis=1))


def related_categories() -> Table:
    """A chain of categories, each following the one before."""
    random = np.random.default_rng(3)
    codes = [random.integers(0, 6, 6000)]
    for _ in range(7):
        codes.append(np.where(random.random(6000) < 0.7, codes[-1], random.integers(0, 6, 6000)))
    columns = tuple(CategoryColumn(f"k{d}", tuple("abcdef")) for d in range(8))
    return Table("related", Schema(columns, row_count="public"), "k7", np.stack(codes, axis=1))


def few_rows() -> Table:
    """Hardly more rows than a budget of one can count."""
    table = related_categories()
    return Table("few", table.schema, table.label, table.codes[:150])


MADE = (broad_numbers, rare_flags, related_categories, few_rows)


def distances(table: Table, generator: str, epsilon: float, seed: int) -> dict[str, object]:
    codes = {name: table.codes[:, d] for d, name in enumerate(table.schema.names)}
    session = PrivateSession(
        PrivateTable.from_codes(table.schema, codes),
        PrivacyBudget(epsilon, 1e-5, table.schema.neighbours),
        noise=RecordedNoise(100 + seed),
    )
    task = GeneratorTask(schema=table.schema, label=table.label, seed=seed, device="cpu")
    drawn = make(generator, task, {}).fit(session, NullProgress()).sample(len(table.codes), seed)
    real, made = table.binned(table.codes), table.binned(drawn)
    return {f"tv{alpha}": mean_total_variation(real, made, table.sizes, alpha, at_most=60) for alpha in (2, 3)}


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("table", MADE, ids=lambda made: made.__name__)
def test_sets_of_columns_are_no_further_off_than_those_of_independent_columns(
    table: Callable[[], Table], epsilon: float
) -> None:
    made = table()
    found: Found = {name: [distances(made, name, epsilon, seed) for seed in SEEDS] for name in (CONTROL, OURS)}
    verdicts = differences(f"{made.name} {epsilon:g}", found, CONTROL, MEASURES)
    assert len(verdicts) == len(MEASURES)
    if made.name == "broad":
        # Three columns have 36 cells for every row: hardly any two samples share one, and the distance says nothing.
        verdicts = verdicts[:1]
    assert not [line for line in verdicts if line.endswith("WORSE")]
    if made.name == "related":
        # A control that could not lose would prove nothing.
        assert all(line.endswith("better") for line in verdicts)


@pytest.mark.thorough
def test_one_verdict_for_every_table_epsilon_and_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMITAGE_DATA", str(tmp_path))
    for name, made in (("small", few_rows), ("larger", related_categories)):
        monkeypatch.setitem(tables.RAW, name, lambda _data, made=made: made())
    asked = argparse.Namespace(
        neighbours="add_remove", categories_only=False, delta=1e-5, seeds=2, first_seed=0, alphas=[1, 2],
        generators=["independent-by-class"], epsilons=[0.5, 2.0], aim_options={}, options={}, rows=None, subsets=20,
        against=CONTROL, untimed=True, keep=None,
    )  # fmt: skip
    results = Results(tmp_path / "found.json", resume=False)
    lines = [line for name in ("small", "larger") for line in compare(name, asked, results, tmp_path)]
    named = {(words[0], words[1], words[3]) for words in map(str.split, lines)}
    measures = ("tv1", "tv2", "ks", "wasserstein", "correlation")
    for name in ("small", "larger"):
        for epsilon in ("0.5", "2"):
            assert {(name, epsilon, measure) for measure in measures[:2]} <= named
    assert all(line.endswith(("better", "WORSE", "within two")) for line in lines)
    printed = capsys.readouterr().out
    # What is worse is said at once.
    assert sum(line.endswith("WORSE") for line in lines) == sum(line.endswith("WORSE") for line in printed.splitlines())
    again = Results(tmp_path / "found.json", resume=True)
    assert [line for name in ("small", "larger") for line in compare(name, asked, again, tmp_path)] == lines
