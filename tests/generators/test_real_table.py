"""On the real Adult table, with default options: how long a fit takes and how well classifiers do afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from simulated import session
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from suited import suited

from synth import generators
from synth.generators import GeneratorTask
from synth.progress import NullProgress
from synth.reading.reader import read_codes
from synth.schema import load_config

DATA = os.environ.get("HERMITAGE_DATA")
ADULT = Path(__file__).parents[2] / "examples" / "adult.yaml"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="HERMITAGE_DATA does not name a folder of real tables"),
]

LEAST_AREA = {
    "independent": 0.40,
    "independent-by-class": 0.87,
    "dp-merf": 0.87,
    "dp-hp": 0.86,
    "dp-hp-adaptive": 0.87,
    "kahm": 0.85,
    "dp-mixture": 0.87,
    "privbayes": 0.85,
    "kernel-sos": 0.79,
}
"""Measured 0.53, 0.90, 0.89, 0.89, 0.90, 0.88, 0.89, 0.87 and 0.82 at epsilon 1; the rest is room for noise.

The first forgets the label; the last takes six numbers and the sex alone. Generators for comparison alone are left out.
"""


@pytest.mark.parametrize("name", sorted(LEAST_AREA))
def test_adult(name: str) -> None:
    config = load_config(ADULT)
    schema = suited(name, config.schema, config.label)
    folder = Path(DATA or "") / "adult"
    train = read_codes(lambda: (folder / "adult.data.gz").open("rb"), config.format, schema)
    test = read_codes(lambda: (folder / "adult.test.gz").open("rb"), config.format, schema)
    made = generators.make(name, GeneratorTask(schema=schema, label=config.label, device="cpu"), {})
    opened = session(schema, dict(train._codes))
    made.fit(opened, NullProgress())

    rows = made.sample(train._n_rows, seed=0)
    label = schema.names.index("income")
    features = [d for d in range(len(schema.names)) if d != label]
    real = np.stack([test._codes[column] for column in schema.names], axis=1)
    model = HistGradientBoostingClassifier(random_state=0).fit(rows[:, features], rows[:, label])
    area = roc_auc_score(real[:, label], model.predict_proba(real[:, features])[:, 1])
    assert area > LEAST_AREA[name]
