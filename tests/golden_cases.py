"""The configurations and simulated tables of the golden bundles, transcripts and forecasts; nobody is in them."""

from __future__ import annotations

from dataclasses import replace

from synth.rehearsal.simulation import SIMULATED_FORMAT, SimulatedColumn, Simulation, simulated_table
from synth.schema import RunConfig, parse_config
from synth.schema.documents import read_mapping

__all__ = ["BUNDLES", "KEPT", "LATER", "MODELS", "configuration", "stand_in"]

COLUMNS = """
  patient: {type: identifier}
  age: {type: number, low: 0, high: 99, step: 1, missing: true}
  weight: {type: number, low: 30, high: 150, step: 0.5, special: [-1, 999], fallback: -1, weight: high}
  ward: {type: category, values: [north, south, "=east"], other: true, missing: true, aliases: {n: north}}
  visited: {type: date, low: 2024-01-01, high: 2024-12-31, step: day, fallback: 2024-06-30, weight: low}
  smoker: {type: yes_no, yes: "yes", no: "no", missing: true}
  note: {type: drop}
  outcome: {type: category, values: [well, ill], fallback: well}
"""

DATES = """
  patient: {type: identifier}
  born: {type: date, low: 1920-01-01, high: 2019-12-31, step: year, missing: true, pattern: "%d.%m.%Y"}
  seen: {type: date, low: 2020-01-01, high: 2024-12-31, step: month, fallback: 2020-01-01}
  dose: {type: number, low: 0, high: 1, step: 0.01, missing: true, special: [-9]}
  paid: {type: yes_no, yes: "1", no: "0", fallback: "0"}
  region: {type: category, values: [a, b, c, d, e], fallback: a}
  outcome: {type: category, values: [none, mild, severe], fallback: none}
"""

NUMBERS = """
  a: {type: number, low: 0, high: 1, step: 0.01, missing: true}
  b: {type: number, low: -5, high: 5, step: 0.1, fallback: 0}
  c: {type: number, low: 0, high: 255, step: 1, fallback: 0}
  outcome: {type: category, values: [left, right], fallback: left}
"""

REPLACE = "unit: {protects: patient, rows_per_unit: 1}\nrow_count: public\nnumber_of_units: 1500\n"
BY_ID = "unit: {protects: patient, rows_per_unit: 1, id_column: patient}\nrow_count: public\nnumber_of_units: 1500\n"
ADD_REMOVE = "unit: {protects: patient, rows_per_unit: 1}\nrow_count: private\n"
SEVERAL = "unit: {protects: patient, rows_per_unit: 3, id_column: patient}\nrow_count: private\npeople: separate_rows\n"
SEVERAL_PUBLIC = (
    "unit: {protects: patient, rows_per_unit: 2, id_column: patient}\nrow_count: public\nnumber_of_units: 540\n"
    "people: separate_rows\n"
)
WHOLE = (
    "unit: {protects: patient, rows_per_unit: 3, id_column: patient, same_in_all_rows: [smoker], ordered_by: visited}\n"
    "row_count: private\n"
)
CELL = (
    "unit: {protects: patient, rows_per_unit: 1}\nrow_count: public\nprotection: cell\ncell_change: 0.5\n"
    "evaluation_share: 0\n"
)

LABEL = "label: outcome\n"
PREDICTIONS = "holdout: 0.3\nprediction_share: 0.2\n" + LABEL
RULES = 'rules: ["weight >= age"]\ngroups: [ward]\n'

HERMITE = "{order: 5, order_product: 3, prod_dimension: 2, epochs: 1, steps_per_epoch: 5}"

BUNDLES = {
    "dp-hp-adaptive": (COLUMNS, BY_ID, LABEL + RULES, "dp-hp-adaptive", "{cells: 4000}", 1500),
    "dp-hp-adaptive-no-label": (DATES, REPLACE, "", "dp-hp-adaptive", "{cells: 4000, model: field}", 1500),
    "dp-hp-adaptive-private-count": (DATES, ADD_REMOVE, LABEL, "dp-hp-adaptive", "{cells: 4000}", 1500),
    "dp-hp-adaptive-several-rows": (COLUMNS, SEVERAL, "", "dp-hp-adaptive", "{cells: 4000, model: mixture}", 1500),
    "dp-hp-adaptive-predictions": (DATES, REPLACE, PREDICTIONS, "dp-hp-adaptive", "{cells: 4000}", 1500),
    "independent": (COLUMNS, SEVERAL_PUBLIC, PREDICTIONS, "independent", "{}", 800),
    "independent-no-label": (DATES, ADD_REMOVE, "", "independent", "{bins: 16}", 400),
    "independent-by-class": (COLUMNS, SEVERAL, LABEL, "independent-by-class", "{bins: 8}", 400),
    "dp-merf": (COLUMNS, REPLACE, LABEL, "dp-merf", "{features: 40, steps: 20}", 400),
    "dp-merf-no-label": (NUMBERS, ADD_REMOVE, "", "dp-merf", "{features: 40, steps: 20}", 400),
    "dp-hp": (DATES, ADD_REMOVE, LABEL, "dp-hp", HERMITE, 400),
    "dp-hp-no-label": (NUMBERS, REPLACE, "", "dp-hp", HERMITE, 400),
    "kahm": (COLUMNS, REPLACE, LABEL, "kahm", "{n: 4, block: 50}", 400),
    "kahm-no-label": (NUMBERS, ADD_REMOVE, "", "kahm", "{n: 2, block: 50, steps: 0}", 400),
    "kahm-rows": (DATES, REPLACE, LABEL, "kahm", "{mode: rows, n: 4, block: 50}", 400),
    "kahm-rows-laplace": (NUMBERS, REPLACE, LABEL, "kahm", "{mode: rows, n: 2, block: 50, noise: laplace}", 300),
    "kahm-cell": (COLUMNS, CELL, LABEL, "kahm", "{mode: cell, n: 4, block: 50}", 400),
    "kahm-cell-no-label": (NUMBERS, CELL, "", "kahm", "{mode: cell, n: 2, block: 50}", 300),
}
"""Name of a bundle: columns, unit and relation, further settings, generator, its options, private rows."""


MODELS = {
    "gaussian-mixture": (NUMBERS, ADD_REMOVE, "", "gaussian-mixture", "{steps: 3}", 400),
    "regression-with-missing-inputs": (
        *(NUMBERS, REPLACE, "label: b\n"),
        *("regression-with-missing-inputs", "{steps: 3}", 400),
    ),
}
"""The same of models, which make no rows."""

LATER = {
    "kernel-sos": (NUMBERS, ADD_REMOVE, LABEL, "kernel-sos", "{features: 60, support: 20, steps: 10}", 400),
    "independent-whole-people": (COLUMNS, WHOLE, "", "independent", "{bins: 8}", 400),
    "dp-mixture": (COLUMNS, REPLACE, LABEL, "dp-mixture", "{components: 2, steps: 3}", 400),
    "privbayes": (COLUMNS, ADD_REMOVE, LABEL, "privbayes", "{bins: 8, usefulness: 1.0}", 400),
    "dp-gan": (
        *(COLUMNS, ADD_REMOVE, LABEL),
        *("dp-gan", "{steps: 4, hidden: 4, batch_size: 64, generated: 32}", 400),
    ),
    "gs-wgan": (
        *(COLUMNS, ADD_REMOVE, LABEL),
        *("gs-wgan", "{parts: 5, turns: 6, batch_size: 8, critic_steps: 2}", 400),
    ),
}
"""The same of generators without a transcript."""

_CASES = BUNDLES | MODELS | LATER

KEPT = (
    *("dp-hp-adaptive", "dp-hp-adaptive-several-rows", "independent", "independent-by-class"),
    *("dp-merf-no-label", "dp-hp", "kahm", "kahm-rows", "kahm-cell"),
    *LATER,
    *MODELS,
)
"""Cases of which a bundle is kept: every generator and kind of answer."""

SHAPES = {
    "age": SimulatedColumn(shape="bell"),
    "weight": SimulatedColumn(shape="bell", follows="age", strength=0.6),
    "ward": SimulatedColumn(shares=(5, 3, 2)),
    "born": SimulatedColumn(shape="rising"),
    "dose": SimulatedColumn(shape="falling", follows="born", strength=-0.5),
    "region": SimulatedColumn(follows="paid", strength=0.8),
    "a": SimulatedColumn(shape="bell"),
    "b": SimulatedColumn(shape="bell", follows="a", strength=0.9),
}
"""How the columns are drawn; the label follows the first number of its table."""


def configuration(name: str) -> RunConfig:
    """Return the configuration of a case."""
    columns, unit, further, fitted, options, _ = _CASES[name]
    kind = "model" if name in MODELS else "rows: 100\ngenerator"
    text = (
        f"account: {name}\n{unit}people_at_most: 5000\nbudget: {{epsilon: 4.0, delta: 1e-6}}\n"
        f"{further}{kind}: {{name: {fitted}, options: {options}}}\nseed: 3\ndevice: cpu\n"
        f"domain_source: {{outcome: the form that is filled in}}\ncolumns:{columns}"
    )
    return replace(parse_config(read_mapping(text)), format=SIMULATED_FORMAT)


def stand_in(name: str) -> bytes:
    """Return the simulated table of a case as CSV."""
    schema = configuration(name).schema
    shapes = {key: shape for key, shape in SHAPES.items() if key in schema.names}
    if "outcome" in schema.names:
        first = next(key for key in ("age", "dose", "b") if key in schema.names)
        shapes["outcome"] = SimulatedColumn(follows=first, strength=0.7)
    return simulated_table(Simulation(_CASES[name][-1], shapes, seed=list(_CASES).index(name)), schema)
