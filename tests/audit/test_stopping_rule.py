"""The attack on KAHM as published succeeds, and fails where the number of steps is public."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLE = Path(__file__).resolve().parents[2] / "benchmarks" / "attack_on_stopping_rule.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    found = importlib.util.spec_from_file_location("attack_on_stopping_rule", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # its dataclasses look for it there
    found.loader.exec_module(module)
    return module


def test_its_tables_differ_in_one_cell_by_at_most_one(example: ModuleType) -> None:
    one, other = example.neighbours()
    change = (one - other).abs()
    assert int((change > 0).sum()) == 1
    assert 0 < float(change.max()) <= 1
    assert 0 <= float(torch.minimum(one, other).min()) <= float(torch.maximum(one, other).max()) <= 1


@pytest.mark.thorough
def test_it_breaks_the_promise_of_the_published_rule(example: ModuleType) -> None:
    found = example.attack(as_published=True, runs=40)
    assert found.advantage > 10 * math.tanh(example.EPSILON / 2)
    # By Clopper-Pearson bounds, at 95 %: more than ten times the epsilon that is claimed.
    assert found.epsilon > 10 * example.EPSILON


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1000])
def test_it_fails_with_a_public_number_of_steps(example: ModuleType, seed: int) -> None:
    found = example.attack(as_published=False, runs=100, seed=seed)
    assert found.epsilon <= example.EPSILON
    assert abs(found.advantage) < 0.3
