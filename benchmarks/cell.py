"""One cell of ``marginals.py``: one generator, one epsilon, one seed, through the real session with real noise.

    python benchmarks/cell.py FOLDER --generator G --epsilon E --delta D --seed S --rows N --out synthetic.npy

A process of its own, so that its time and memory are the generator's, imports included.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import PrivacyUnit, Schema, parse_column

ROW_COUNT_SHARE = 0.02
"""Part of mu^2 that measures a private number of rows: what a run of the product spends on it."""


def write_folder(folder: Path, schema: Schema, label: str | None, codes: np.ndarray, units: np.ndarray | None) -> None:
    """Write what a cell reads: the declared schema and the rows as codes."""
    unit = {"protects": schema.unit.protects, "rows_per_unit": schema.unit.rows_per_unit}
    declared = {
        "columns": {column.name: column.to_mapping() for column in schema},
        "unit": unit | {"id_column": schema.unit.id_column},
        "row_count": schema.row_count,
        "label": label,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.json").write_text(json.dumps(declared), encoding="utf-8")
    np.save(folder / "codes.npy", codes.astype(np.int32))
    if units is not None:
        np.save(folder / "units.npy", units)


def read_folder(folder: Path) -> tuple[Schema, str | None, dict[str, np.ndarray], list[int] | None]:
    declared = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    columns = tuple(parse_column(name, body) for name, body in declared["columns"].items())
    schema = Schema(columns, PrivacyUnit(**declared["unit"]), declared["row_count"])
    codes = np.load(folder / "codes.npy")
    units = np.load(folder / "units.npy").tolist() if schema.unit.id_column else None
    return schema, declared["label"], {name: codes[:, d] for d, name in enumerate(schema.names)}, units


def synthetic(
    folder: Path,
    generator: str,
    options: dict[str, object],
    budget: tuple[float, float],
    rows: int,
    seed: int,
    *,
    groups: tuple[str, ...] = (),
) -> np.ndarray:
    """Return the codes of one synthetic table, made at a budget of (epsilon, delta); ``groups`` are compared."""
    schema, label, codes, units = read_folder(folder)
    return made(schema, label, codes, units, generator, options, budget, rows, seed, groups=groups)


def made(
    schema: Schema,
    label: str | None,
    codes: dict[str, np.ndarray],
    units: list[int] | None,
    generator: str,
    options: dict[str, object],
    budget: tuple[float, float],
    rows: int,
    seed: int,
    *,
    groups: tuple[str, ...] = (),
) -> np.ndarray:
    """Return the codes of one synthetic table, as :func:`synthetic`, from columns of codes."""
    table = PrivateTable.from_codes(schema, codes, unit_ids=units)
    session = PrivateSession(table, PrivacyBudget(*budget, schema.neighbours))
    if not schema.rows_are_public:
        session.count_rows(share=ROW_COUNT_SHARE)
    task = GeneratorTask(schema=schema, label=label, seed=seed, device="cpu", groups=groups)
    fitted = make(generator, task, options).fit(session, NullProgress())
    return fitted.sample(rows, seed).astype(np.int32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--options", type=json.loads, default={}, help="a JSON mapping")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    budget = (asked.epsilon, asked.delta)
    np.save(asked.out, synthetic(asked.folder, asked.generator, asked.options, budget, asked.rows, asked.seed))


if __name__ == "__main__":
    main()
