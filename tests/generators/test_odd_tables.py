"""Tables without a label, without numbers, of one row, drowned in noise, two hundred columns wide, ..."""

from __future__ import annotations

import numpy as np
import pytest
from choosing import each_once, few
from simulated import COLUMNS, check_domain, dependent_codes, fitted, random_codes, schema, schema_for
from suited import suited

from synth.errors import ConfigError
from synth.generators import GENERATORS
from synth.schema import CategoryColumn, NumberColumn, Schema

NAMES = sorted(GENERATORS)

ODD_TABLES = {
    "one row": (schema(), random_codes(schema(), 1), "outcome"),
    "label only": (schema("outcome"), random_codes(schema("outcome"), 40), "outcome"),
    "numbers only": (schema("age", "visited"), random_codes(schema("age", "visited"), 40), None),
    "numbers and a label": (schema("age", "visited", "outcome"), dependent_codes(40), "outcome"),
    "categories only": (schema("region", "smoker"), random_codes(schema("region", "smoker"), 40), None),
    "one column": (schema("region"), random_codes(schema("region"), 40), None),
    "one number": (schema("age", "outcome"), random_codes(schema("age", "outcome"), 40), "outcome"),
    "one category": (
        Schema((CategoryColumn("only", ("a",)), COLUMNS["outcome"])),
        {"only": np.zeros(30, dtype=int), "outcome": np.arange(30) % 3},
        "outcome",
    ),
    "label of one class": (
        Schema((COLUMNS["age"], CategoryColumn("only", ("a",)))),
        {"age": np.arange(30), "only": np.zeros(30, dtype=int)},
        "only",
    ),
    "two places": (
        Schema((NumberColumn("small", 0, 1, 1), NumberColumn("wide", 0, 10_000_000, 1))),
        {"small": np.arange(30) % 2, "wide": np.arange(30) * 300_000},
        None,
    ),
    "constant": (schema(), {name: np.zeros(50, dtype=int) for name in COLUMNS}, "outcome"),
}
ODD_TABLES = {
    key: (declared, {name: codes[name] for name in declared.names}, label)
    for key, (declared, codes, label) in ODD_TABLES.items()
}


@pytest.mark.parametrize(("odd", "name"), each_once(ODD_TABLES, NAMES, others=pytest.mark.slow))
def test_odd_tables(name, odd):
    declared, codes, label = ODD_TABLES[odd]
    if not GENERATORS[name].needs.are_met(declared, label):
        with pytest.raises(ConfigError, match=f"'{name}' needs "):
            fitted(name, declared, codes, label=label)
        return
    made, opened = fitted(name, declared, codes, label=label)
    check_domain(made.sample(64, seed=1), declared, 64)
    assert opened.remaining_share <= 1e-3


@pytest.mark.parametrize("name", few(NAMES, kept=("independent", "dp-hp-adaptive")))
def test_a_count_drowned_in_noise(name):
    declared = schema_for(name, row_count="private")
    for epsilon in (0.001, 0.01):
        made, _ = fitted(name, declared, dependent_codes(3), epsilon=epsilon)
        check_domain(made.sample(64, seed=1), declared, 64)


@pytest.mark.parametrize("name", few(NAMES, kept=("independent", "dp-hp-adaptive")))
def test_two_hundred_columns(name):
    kinds = [
        lambda i: NumberColumn(f"c{i}", 0, 999, 1, missing=i % 3 == 0),
        lambda i: CategoryColumn(f"c{i}", tuple("abcde")),
    ]
    declared = Schema(tuple(kinds[i % 2](i) for i in range(200)))
    if GENERATORS[name].needs.numbers:
        pytest.skip("it takes few numbers")
    declared = suited(name, declared, "c1")
    made, _ = fitted(name, declared, random_codes(declared, 30), label="c1")
    check_domain(made.sample(20, seed=1), declared, 20)


@pytest.mark.parametrize("name", few(NAMES, kept=("independent", "dp-hp-adaptive")))
def test_long_category_lists(name):
    declared = Schema((CategoryColumn("code", tuple(f"v{i}" for i in range(3000)), missing=True), COLUMNS["outcome"]))
    if GENERATORS[name].needs.numbers:
        pytest.skip("it takes numbers, and few categories")
    declared = suited(name, declared, "outcome")
    made, _ = fitted(name, declared, random_codes(declared, 100))
    rows = made.sample(2000, seed=1)
    check_domain(rows, declared, 2000)
    assert len(np.unique(rows[:, 0])) > 20
