"""What starts a process: a command loads what it needs and no more; heavy libraries take longer than most commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DRAWING = {"streamlit", "plotly"}
LEARNING = {"sklearn", "xgboost"}


def loaded(program: str, *arguments: str) -> set[str]:
    """Return the top-level modules that a program has loaded when it ends."""
    program += "\nimport sys; sys.stdout.write('\\n' + ' '.join({name.split('.')[0] for name in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("import synth.cli", {*DRAWING, *LEARNING, "torch", "numpy", "pandas", "autodp", "sqlalchemy", "sqlglot"}),
        ("import synth.bundle.verify", {*DRAWING, *LEARNING, "torch", "sqlalchemy", "sqlglot"}),
        (
            "from synth.privacy.session import PrivateSession; import synth.generators.adaptive.dp_hp_adaptive",
            {*DRAWING, *LEARNING, "torch", "pandas", "pyarrow", "autodp", "sqlalchemy", "sqlglot"},
        ),
    ],
    ids=["the command line", "verification", "the default generator"],
)
def test_nothing_is_loaded_that_is_not_needed(program, unwanted):
    found = loaded(program)
    assert "synth" in found
    assert not found & unwanted


def test_a_bundle_is_verified_without_torch(bundle: Path):
    program = "import sys, synth; assert synth.verify(sys.argv[1]).ok"
    assert not loaded(program, str(bundle)) & {*DRAWING, *LEARNING, "torch", "sqlalchemy", "sqlglot"}


FITTED = """
import numpy as np
from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, Schema
random = np.random.default_rng(0)
schema = Schema(tuple(CategoryColumn(f"c{place}", tuple("abcdef")) for place in range(5)))
first = random.integers(6, size=5000)
codes = {name: np.where(random.random(5000) < 0.5, first, random.integers(6, size=5000)) for name in schema.names}
session = PrivateSession(PrivateTable.from_codes(schema, codes), PrivacyBudget(1.0, 1e-5, schema.neighbours))
make("dp-hp-adaptive", GeneratorTask(schema, "c0"), {"model": "field"}).fit(session, NullProgress()).sample(100, 0)
"""


def test_the_default_generator_asks_fits_and_draws_without_heavy_libraries():
    # A whole release loads them for ledger, files and report. A look at all pairs is a matrix product, which torch
    # makes, so it is left out.
    assert not loaded(FITTED) & {*DRAWING, *LEARNING, "torch", "pandas", "pyarrow", "autodp", "sqlalchemy", "sqlglot"}
