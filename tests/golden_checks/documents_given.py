"""Configurations, schemas and simulations as owners write them, right and wrong, and what is made of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synth.bundle.archive import canonical_json
from synth.errors import InputError, SynthError, VerificationError
from synth.generators import make
from synth.generators.protocol import GeneratorTask
from synth.rehearsal.simulation import parse_simulation
from synth.schema import config_of_text, config_to_yaml, schema_from_document, schema_to_document
from synth.schema.documents import read_mapping
from synth.services.planning import check_config

__all__ = ["everything"]

COLUMNS = """\
columns:
  id: {type: identifier}
  age: {type: number, low: 0, high: 120, step: 1, missing: true}
  weight: {type: number, low: 30, high: 150, step: 0.5, special: [-1, 999], fallback: -1, weight: high}
  ward: {type: category, values: [north, "007", 8, 2.0], other: true, missing: true, aliases: {n: north}, weight: low}
  visited: {type: date, low: 2024-01-01, high: 2024-12-31, step: month, fallback: 2024-06-30, pattern: "%d/%m/%Y"}
  smoker: {type: yes_no, yes: "yes", no: "no", fallback: "no"}
  note: {type: drop}
  outcome: {type: category, values: [well, ill], fallback: well}
"""

FULL = (
    """\
table: /tables/patients.csv
format: {separator: ";", header: false, names: [id, age], encoding: latin-1, missing: ["", NA], strip: false,
  skip_rows: 2, kind: csv, newlines: true}
test_table: /tables/later.csv
test_format: {separator: auto, header: true, comment: "#", kind: auto}
account: city survey 2026
unit: {protects: patient, rows_per_unit: 3, id_column: id}
row_count: public
number_of_units: 900
people_at_most: 1000
budget: {epsilon: 1.5, delta: 1e-7}
holdout: 0.25
prediction_share: 0.05
evaluation_share: 0.2
generator: {name: dp-hp-adaptive, options: {bins: 16, columns_share: 0.3, model: field}}
rows: 20000
label: outcome
groups: [ward, smoker]
rules: ["weight >= age"]
seed: 9223372036854775807
device: cpu
undeclared: drop
domain_source: {outcome: the form, age: a law}
"""
    + COLUMNS
)

SHORT = """\
account: survey
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 1000
budget: {epsilon: 1}
rows: 100
columns:
  age: {type: number, low: 0, high: 9, missing: true}
  sex: {type: yes_no, missing: true}
"""

CELLS = """\
account: cells
unit: {protects: cell, rows_per_unit: 1}
row_count: public
protection: cell
cell_change: 0.25
people_at_most: 1000
budget: {epsilon: 2, delta: 1e-5}
generator: {name: kahm, options: {mode: cell}}
rows: 100
columns:
  a: {type: number, low: -1, high: 1, step: 0.01, missing: true}
  b: {type: date, low: 2020-01-01, high: 2020-12-31, step: year, missing: true}
"""

ACCEPTED = {"full": FULL, "short": SHORT, "cells": CELLS, "json": json.dumps(read_mapping(SHORT))}

AGE = "{type: number, low: 0, high: 9, missing: true}"
SEX = "{type: yes_no, missing: true}"

COLUMNS_REFUSED = (
    "3", "[]", "{}", "{type: text}", "{type: [a]}", "{type: yes}",
    "{type: number}", "{type: number, low: 0}", "{type: number, low: a, high: 2}", "{type: number, low: yes, high: 2}",
    "{type: number, low: 5, high: 2}", "{type: number, low: 0, high: .inf}", "{type: number, low: 0, high: 1e400}",
    "{type: number, low: -1e308, high: 1e308}", "{type: number, low: 0, high: 9, step: 0}",
    "{type: number, low: 0, high: 9, step: -1}", "{type: number, low: 0, high: 9, step: 1e-9}",
    "{type: number, low: 1e15, high: 1.1e15, step: 0.01}", "{type: number, low: 0, high: 9, step: [1]}",
    "{type: number, low: 0, high: 9, special: 3}", "{type: number, low: 0, high: 9, special: [a]}",
    "{type: number, low: 0, high: 9, special: [1, 1]}", "{type: number, low: 0, high: 9, special: [.nan]}",
    "{type: number, low: 0, high: 9, special: 0}", "{type: number, low: 0, high: 9, fallback: 11}",
    "{type: number, low: 0, high: 9, fallback: x}", "{type: number, low: 0, high: 9, missing: maybe}",
    "{type: number, low: 0, high: 9, missing: 1}", "{type: number, low: 0, high: 9, weight: heavy}",
    "{type: number, low: 0, high: 9, weight: yes}", "{type: number, low: 0, high: 9, values: [1]}",
    "{type: number, low: 0, high: 9, Step: 1}", "{type: number, low: 0, high: 9}",
    "{type: category}", "{type: category, values: []}", "{type: category, values: north}",
    "{type: category, values: {a: b}}", "{type: category, values: [yes, no]}", "{type: category, values: [a, null]}",
    "{type: category, values: [a, [b]]}", "{type: category, values: [a, {b: c}]}", "{type: category, values: [a, a]}",
    '{type: category, values: [a, ""]}', "{type: category, values: ['=a', \"'=a\"]}",
    "{type: category, values: [a, b], other: x}", "{type: category, values: [a, b], aliases: [c]}",
    "{type: category, values: [a, b], aliases: {c: d}}", "{type: category, values: [a, b], aliases: {a: b}}",
    "{type: category, values: [a, b], aliases: {c: yes}}", "{type: category, values: [a, b], fallback: c}",
    "{type: category, values: [a, b], fallback: yes}", "{type: category, values: [a, b], low: 3}",
    "{type: category, values: [a, b]}",
    "{type: yes_no, yes: a, no: a}", '{type: yes_no, yes: ""}', "{type: yes_no, yes: yes}",
    "{type: yes_no, yes: [a]}", "{type: yes_no, yes: '=a', no: \"'=a\"}", "{type: yes_no, fallback: maybe}",
    "{type: yes_no, values: [a, b]}", "{type: yes_no}",
    "{type: date}", "{type: date, low: 2020-01-01}", "{type: date, low: 2020-01-32, high: 2020-12-31}",
    "{type: date, low: 1, high: 2020-12-31}", "{type: date, low: 2020-01-01, high: 2019-12-31}",
    "{type: date, low: 2020-01-01, high: 2020-12-31, step: week}",
    "{type: date, low: 2020-01-01, high: 2020-12-31, step: 1}",
    '{type: date, low: 2020-01-01, high: 2020-12-31, pattern: "%Q"}',
    '{type: date, low: 2020-01-01, high: 2020-12-31, pattern: "%d%d"}',
    "{type: date, low: 2020-01-01, high: 2020-12-31, pattern: yes}",
    "{type: date, low: 2020-01-01, high: 2020-12-31, fallback: 2021-01-01}",
    "{type: date, low: 2020-01-01, high: 2020-12-31, fallback: never}",
    "{type: date, low: 2020-01-01, high: 2020-12-31, special: [1]}", "{type: date, low: 2020-01-01, high: 2020-12-31}",
    "{type: identifier, missing: true}", "{type: drop, values: [a]}",
)  # fmt: skip
"""Declarations of one column; those without a missing code or a fallback are refused before a run alone."""

EDITS = (
    ("account: survey\n", ""), ("account: survey", "account:"), ("account: survey", "account: yes"),
    ("account: survey", "account: [a]"), ("account: survey", 'account: " "'), ("account: survey", "Account: survey"),
    ("account: survey", "account: survey\nacount: x"), ("account: survey", "account: survey\naccount: x"),
    ("account: survey", "account: &a survey"), ("account: survey", "account: !x survey"),
    ("account: survey", "account: *a"), ("account: survey", "account: {"), ("account: survey", "? [a]\n: b"),
    ("rows: 100\n", ""), ("rows: 100", "rows: 0"), ("rows: 100", "rows: 1.5"), ("rows: 100", "rows: many"),
    ("rows: 100", "rows: 1e12"), ("rows: 100", "rows: yes"), ("rows: 100", "rows: [1]"),
    ("people_at_most: 1000\n", ""), ("people_at_most: 1000", "people_at_most: 0"),
    ("people_at_most: 1000", "people_at_most: 2.5"), ("people_at_most: 1000", "people_at_most: 9\nnumber_of_units: 5"),
    ("row_count: private", "row_count: public\nnumber_of_units: 2000"),
    ("row_count: private", "row_count: public\nnumber_of_units: x"), ("row_count: private", "row_count: public"),
    ("row_count: private", "row_count: secret"), ("row_count: private\n", ""),
    ("row_count: private", "row_count: yes"),
    ("unit: {protects: person, rows_per_unit: 1}\n", ""), ("protects: person, ", ""), (", rows_per_unit: 1", ""),
    ("rows_per_unit: 1", "rows_per_unit: 0"), ("rows_per_unit: 1", "rows_per_unit: 1.5"),
    ("protects: person", 'protects: ""'), ("protects: person", 'protects: " "'), ("protects: person", "protects: yes"),
    ("rows_per_unit: 1", "rows_per_unit: 1, id_column: pid"), ("rows_per_unit: 1", "rows_per_unit: 1, id_column: age"),
    ("rows_per_unit: 1", "rows_per_unit: 1, id: age"), ("unit: {protects: person, rows_per_unit: 1}", "unit: person"),
    ("budget: {epsilon: 1}\n", ""), ("budget: {epsilon: 1}", "budget: 1"), ("epsilon: 1", "delta: 1e-6"),
    ("epsilon: 1", "epsilon: 0"), ("epsilon: 1", "epsilon: -1"), ("epsilon: 1", "epsilon: .inf"),
    ("epsilon: 1", "epsilon: one"), ("epsilon: 1", "epsilon: 1, delta: 0"), ("epsilon: 1", "epsilon: 1, delta: 1"),
    ("epsilon: 1", "epsilon: 1, delta: x"), ("epsilon: 1", "epsilon: 1, eps: 2"), ("epsilon: 1", "epsilon: 1e9"),
    ("rows: 100", "rows: 100\nholdout: 1"), ("rows: 100", "rows: 100\nholdout: -0.1"),
    ("rows: 100", "rows: 100\nholdout: x"), ("rows: 100", "rows: 100\nevaluation_share: 1"),
    ("rows: 100", "rows: 100\nprediction_share: 1"), ("rows: 100", "rows: 100\nprediction_share: 0.1"),
    ("rows: 100", "rows: 100\nprediction_share: 0.1\nlabel: sex\nholdout: 0"),
    ("rows: 100", "rows: 100\nprediction_share: 0.1\nlabel: age"),
    ("rows: 100", "rows: 100\nprediction_share: 0.5\nevaluation_share: 0.6\nlabel: sex"),
    ("rows: 100", "rows: 100\nlabel: nothing"), ("rows: 100", "rows: 100\nlabel: [sex]"),
    ("rows: 100", "rows: 100\ngroups: sex"), ("rows: 100", "rows: 100\ngroups: [nothing]"),
    ("rows: 100", "rows: 100\ngroups: [yes]"), ("rows: 100", "rows: 100\nrules: age"),
    ("rows: 100", "rows: 100\nrules: [age >= nothing]"), ("rows: 100", "rows: 100\nrules: [age is high]"),
    ("rows: 100", "rows: 100\nrules: [age >= sex]"),
    ("rows: 100", "rows: 100\nseed: -1"), ("rows: 100", "rows: 100\nseed: 9223372036854775808"),
    ("rows: 100", "rows: 100\nseed: 0.5"), ("rows: 100", "rows: 100\ndevice: tpu"),
    ("rows: 100", "rows: 100\ndevice: yes"), ("rows: 100", "rows: 100\nundeclared: keep"),
    ("rows: 100", "rows: 100\ndomain_source: law"), ("rows: 100", "rows: 100\ndomain_source: {age: yes}"),
    ("rows: 100", "rows: 100\nprotection: cell"), ("rows: 100", "rows: 100\nprotection: table"),
    ("rows: 100", "rows: 100\ncell_change: 0.5"), ("rows: 100", "rows: 100\ncell_change: 2"),
    ("rows: 100", "rows: 100\ntable: [a]"), ("rows: 100", "rows: 100\ntable: yes"),
    ("rows: 100", "rows: 100\ngenerator: kahm"), ("rows: 100", "rows: 100\ngenerator: {name: best}"),
    ("rows: 100", "rows: 100\ngenerator: {name: yes}"), ("rows: 100", "rows: 100\ngenerator: {title: kahm}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: [n]}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {m: 3}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {n: three}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {n: 0}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {n: {a: 1}}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {n: 2.5}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {mode: all}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {mode: paper}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {mode: rows, steps: 0}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: dp-hp-adaptive, options: {bins: true}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: dp-hp-adaptive, options: {columns_share: 2}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: dp-hp, options: {split: -1}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: dp-merf, options: {features: 0}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: independent, options: {bins: 5000}}"),
    ("rows: 100", "rows: 100\ngenerator: {name: independent-by-class}"),
    ("rows: 100", "rows: 100\ngenerator: {name: kahm, options: {mode: cell}}"),
    ("rows: 100", "rows: 100\nformat: csv"), ("rows: 100", "rows: 100\nformat: {sep: ','}"),
    ("rows: 100", "rows: 100\nformat: {separator: ';;'}"), ("rows: 100", "rows: 100\nformat: {separator: yes}"),
    ("rows: 100", "rows: 100\nformat: {header: 1}"), ("rows: 100", "rows: 100\nformat: {header: false}"),
    ("rows: 100", "rows: 100\nformat: {names: [age, sex]}"),
    ("rows: 100", "rows: 100\nformat: {header: false, names: age}"),
    ("rows: 100", "rows: 100\nformat: {header: false, names: [age, sex]}"),
    ("rows: 100", "rows: 100\nformat: {header: false, names: [age, sex], separator: ',', comment: '#'}"),
    ("rows: 100", "rows: 100\nformat: {missing: {a: b}}"), ("rows: 100", "rows: 100\nformat: {missing: [yes]}"),
    ("rows: 100", "rows: 100\nformat: {skip_rows: -1}"), ("rows: 100", "rows: 100\nformat: {skip_rows: 1.5}"),
    ("rows: 100", "rows: 100\nformat: {encoding: klingon}"), ("rows: 100", "rows: 100\nformat: {encoding: yes}"),
    ("rows: 100", "rows: 100\nformat: {kind: xlsx}"), ("rows: 100", "rows: 100\nformat: {strip: maybe}"),
    ("rows: 100", "rows: 100\nformat: {newlines: maybe}"), ("rows: 100", "rows: 100\nformat: {comment: yes}"),
    ("rows: 100", "rows: 100\ntest_format: {kind: xlsx}"), ("rows: 100", "rows: 100\nformat: {separator: é}"),
    (f"  age: {AGE}\n  sex: {SEX}\n", ""), (f"  age: {AGE}\n  sex: {SEX}\n", "  [age]\n"),
    (f"  age: {AGE}\n  sex: {SEX}\n", "  a: {type: drop}\n"), ("  sex:", "  age:"), ("  sex:", '  "":'),
    ("  sex:", '  "a\\nb":'), ("  sex:", "  ' a':"), ("  sex:", f"  {'x' * 300}:"),
)  # fmt: skip
"""What is replaced in the short configuration, and by what."""

WHOLE = ("", "3", "- a", "a: b", "{", "a: b\n---\nc: d", "a,b,c\n1,2,3\n", "\x00", "[" * 60, "a: " + "x" * 100_001)
"""Documents that are no configuration."""

SIMULATIONS = (
    "rows: 50\nseed: 3\ncolumns: {age: {shape: bell}, sex: {shares: [1, 2], follows: age, strength: -0.5}}",
    "columns: {sex: {follows: age}}", "{}", "rows: 0", "rows: 1.5", "rows: 2000000", "seed: -1", "seed: x", "extra: 1",
    "columns: [age]", "columns: {age: bell}", "columns: {age: {form: bell}}", "columns: {age: {shape: round}}",
    "columns: {age: {shares: 3}}", "columns: {age: {shares: [a]}}", "columns: {age: {shares: [-1, 2]}}",
    "columns: {age: {shares: [0, 0]}}", "columns: {age: {strength: 2, follows: sex}}",
    "columns: {age: {strength: 0.5}}", "columns: {age: {strength: x, follows: sex}}", "columns: {age: {follows: yes}}",
)  # fmt: skip

SCHEMAS = (
    ("row_count", "secret"), ("row_count", None), ("unit", None), ("unit", {"protects": "x"}),
    ("unit", {"protects": "x", "rows_per_unit": "1", "id_column": None}), ("columns", None), ("columns", []),
    ("columns", [{"type": "drop"}]), ("columns", [{"name": "a", "type": "text"}]), ("number_of_units", "5"),
    ("number_of_units", True), ("number_of_units", 0), ("protection", "cell"), ("cell_change", 0.5), ("extra", 1),
)  # fmt: skip
"""What is set in the document of the full configuration's schema; None takes it away."""


def everything() -> dict[str, Any]:
    """Return what is made of all of it: documents as they are written again, or the sentence of the refusal."""
    refused = [(f"age: {declared}", SHORT.replace(AGE, declared)) for declared in COLUMNS_REFUSED]
    for old, new in EDITS:
        assert SHORT.count(old) >= 1, old
        refused.append((f"{old.strip()} -> {new.strip()}"[:150], SHORT.replace(old, new)))
    refused += [(text[:40], text) for text in WHOLE]
    return {
        "accepted": {name: _written(text) for name, text in ACCEPTED.items()},
        "refused": [[said, _refusal(text)] for said, text in refused],
        "schemas": [[f"{key}: {value}", _schema_refusal(key, value)] for key, value in SCHEMAS],
        "simulations": [[text, _simulation(text)] for text in SIMULATIONS],
    }


def _written(text: str) -> dict[str, str]:
    config = config_of_text(text)
    schema = canonical_json(schema_to_document(config.schema)).decode()
    assert schema_from_document(json.loads(schema)) == config.schema
    assert config_of_text(config_to_yaml(config)) == config
    return {"yaml": config_to_yaml(config), "published": config_to_yaml(config.published()), "schema": schema}


def _refusal(text: str) -> str:
    """Say why a run is refused, whether its document is read or checked; a document that passes is written again."""
    try:
        config = config_of_text(text, base=Path("/tables"))
        task = GeneratorTask.of(config, device="cpu")
        make(config.generator, task, config.options)
        check_config(config)
    except SynthError as error:
        return _sentence(error)
    return f"accepted as:\n{config_to_yaml(config)}"


def _sentence(error: SynthError) -> str:
    """Return the sentence; which of the exceptions for bad input says it is left open."""
    assert isinstance(error, InputError | VerificationError), error
    return str(error)


def _schema_refusal(key: str, value: object) -> str:
    document = schema_to_document(config_of_text(FULL).schema) | {key: value}
    try:
        schema = schema_from_document({name: held for name, held in document.items() if held is not None})
    except SynthError as error:
        return _sentence(error)
    return f"accepted as:\n{canonical_json(schema_to_document(schema)).decode()}"


def _simulation(text: str) -> str:
    try:
        made = parse_simulation(read_mapping(text), rows=100)
    except SynthError as error:
        return _sentence(error)
    columns = {
        name: [column.shape, list(column.shares), column.follows, column.strength]
        for name, column in made.columns.items()
    }
    return f"{made.rows} rows, seed {made.seed}: {columns}"
