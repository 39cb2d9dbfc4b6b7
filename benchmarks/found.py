"""What finding columns privately loses against columns that somebody described.

    HERMITAGE_DATA=FOLDER python benchmarks/found.py [--tables adult diabetes130 census] [--seeds 3] \
        [--generators independent dp-hp-adaptive] --json build/found.json [--resume]

Every column that a table declares is taken for unknown, and found from the file at epsilon .1 or 1 (delta 1e-7); then a
generator learns from the file as it was found to be. At .1 the run has what is left of a total of epsilon 1 at delta
1e-6, as the product's default does; at 1 it has epsilon 1 beside it, so that both show what the description costs and
not what the run has less. Beside them: the declared columns at epsilon 1.

Mean total variation over sets of one, two and three columns between the real rows and the made ones, both in the codes
of the declared columns (numbers in at most 32 parts, at most ``--subsets`` sets): a value that was not found, a cell
beyond the bounds and a column that was left out all count. Means and two standard errors over seeds, with fresh noise
in finding and in learning each time; the number of rows is private. Beside them, over columns: the mean part of cells
that the found columns cannot hold, how many columns were left out, and how many are of another kind than declared.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from cell import ROW_COUNT_SHARE
from metrics import mean_total_variation
from tables import Table, load

from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts, mu_of_budget
from synth.privacy.more.finding import find, finding_budget, key_delta, open_schema, open_table
from synth.privacy.more.found_columns import FoundColumn
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable, read_table
from synth.progress import NullProgress
from synth.schema import DropColumn, FindColumn, ModelledColumn, Schema
from synth.schema.encoding import encode_column

EPSILON, DELTA, FINDING_DELTA = 1.0, 1e-6, 1e-7
ALPHAS = (1, 2, 3)
KEY = b"the key of nobody: public tables"


@dataclass(frozen=True)
class Described:
    """A table's columns, the receipts they were paid with, and what they cannot hold.

    ``outside`` is the part of each found column's cells that become an end of its range, of those that are not missing.
    """

    schema: Schema
    receipts: tuple[Receipt, ...] = ()
    lost: float = 0.0
    outside: dict[str, float] = field(default_factory=dict)
    left_out: int = 0
    otherwise: int = 0


def as_found(table: Table, epsilon: float) -> Described:
    """Find every modelled column of a table from its file."""
    declared = table.schema
    opened = [FindColumn(one.name) if isinstance(one, ModelledColumn) else one for one in declared]
    schema = open_schema(replace(declared, columns=tuple(opened)))
    private = open_table(lambda: io.BytesIO(table.written), "", schema, table.form, account_key=KEY)
    session = PrivateSession(private, finding_budget(epsilon, FINDING_DELTA, schema.neighbours))
    found = {one.name: one for one in find(session, delta_key=key_delta(FINDING_DELTA))}
    schema = replace(declared, columns=tuple(found[one.name].column if one.name in found else one for one in declared))
    kinds = {"integer": "number", "decimal": "number", "date": "date", "text": "category"}
    otherwise = sum(
        kinds.get(one.kind) != declared[name].kind.replace("yes_no", "category") for name, one in found.items()
    )
    left_out = sum(isinstance(one.column, DropColumn) for one in found.values())
    return Described(schema, session.receipts, *_lost(table, schema, found), left_out, otherwise)


def _lost(table: Table, schema: Schema, found: dict[str, FoundColumn]) -> tuple[float, dict[str, float]]:
    """Return the mean part of cells that a column cannot hold, and that outside each range; of public tables, exact."""
    read = read_table(lambda: io.BytesIO(table.written), "", schema, table.form, account_key=KEY)
    parts, outside = [], {}
    for name, one in found.items():
        if isinstance(one.column, DropColumn):
            parts.append(1.0)
        else:
            counts, rows = read._reading.cells[name], read._n_rows  # noqa: SLF001  # of a public table
            parts.append((counts.outside + counts.malformed) / rows)
            outside[name] = counts.outside / max(rows - counts.missing - counts.malformed, 1)
    return statistics.fmean(parts), outside


def left_over(receipts: tuple[Receipt, ...]) -> float:
    """Return the epsilon at which a run still fits under the total, beside a finding that was paid for."""
    additive = sum(one.additive_delta for one in receipts)
    spent = sum(one.mu_squared_units for one in receipts) * 2.0**-40
    left = mu_of_budget(EPSILON, DELTA - 1.01 * additive) ** 2 - spent
    low, high = 0.0, EPSILON
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if mu_of_budget(middle, DELTA) ** 2 <= left else (low, middle)
    return low


def made(table: Table, described: Described, epsilon: float, generator: str, seed: int) -> tuple[np.ndarray, float]:
    """Return made rows in the codes of the declared columns, and the epsilon of finding and run together."""
    schema = described.schema
    (private,) = PrivateTable.open(lambda: io.BytesIO(table.written), "", schema, table.form, account_key=KEY)
    session = PrivateSession(private, PrivacyBudget(epsilon, DELTA, schema.neighbours))
    session.count_rows(share=ROW_COUNT_SHARE)
    label = table.label if isinstance(schema[table.label], ModelledColumn) else None
    fitted = make(generator, GeneratorTask(schema, label, seed, "cpu"), {}).fit(session, NullProgress())
    codes = dict(zip(schema.names, fitted.sample(len(table.codes), seed).T, strict=True))
    columns = []
    for column in table.schema.modelled:
        source = schema[column.name]
        if isinstance(source, ModelledColumn):
            texts = source.texts()
            of_text = encode_column(column, pa.array(texts, pa.string()), missing=("",))
            columns.append(of_text[codes[column.name]].astype(np.int64))
        else:
            columns.append(np.full(len(table.codes), column.unreadable_code))
    return np.stack(columns, axis=1), epsilon_of_receipts((*described.receipts, *session.receipts), DELTA)


def measure(table: Table, way: str, generator: str, seed: int, subsets: int) -> dict[str, object]:
    started = time.process_time()
    described = Described(table.schema) if way == "declared" else as_found(table, float(way))
    epsilon = left_over(described.receipts) if way == "0.1" else EPSILON
    rows, total = made(table, described, epsilon, generator, seed)
    real, synthetic = table.binned(table.codes), table.binned(rows)
    return {
        "table": table.name,
        "way": way,
        "generator": generator,
        "seed": seed,
        "run_epsilon": epsilon,
        "total_epsilon": total,
        "lost": described.lost,
        "left_out": described.left_out,
        "otherwise": described.otherwise,
        "columns": len(table.schema.names),
        **{f"{k}-way": mean_total_variation(real, synthetic, table.sizes, k, at_most=subsets) for k in ALPHAS},
        "seconds": time.process_time() - started,
    }


def shown(cells: list[dict[str, object]]) -> str:
    """Print means and two standard errors of the cells of one line."""

    def spread(key: str) -> str:
        values = [float(cell[key]) for cell in cells]
        error = 2 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        return f"{statistics.fmean(values):.4f} ({error:.4f})"

    keys = [*(f"{k}-way" for k in ALPHAS), "lost", "left_out", "otherwise", "total_epsilon"]
    return " | ".join(spread(key) for key in keys)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["adult", "diabetes130", "census"])
    parser.add_argument("--generators", nargs="+", default=["independent", "dp-hp-adaptive"])
    parser.add_argument("--ways", nargs="+", default=["declared", "0.1", "1"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--subsets", type=int, default=500)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    done = json.loads(asked.json.read_text()) if asked.resume and asked.json and asked.json.exists() else []
    for generator in asked.generators:
        for name in asked.tables:
            table = load(name, neighbours="add_remove")
            for way in asked.ways:
                held = {"table": table.name, "way": way, "generator": generator}
                for seed in range(asked.seeds):
                    if not any(cell.items() >= (held | {"seed": seed}).items() for cell in done):
                        done.append(measure(table, way, generator, seed, asked.subsets))
                        if asked.json:
                            asked.json.write_text(json.dumps(done, indent=1))
                cells = [cell for cell in done if cell.items() >= held.items()]
                print(f"{table.name} | {generator} | {way} | {shown(cells)}", flush=True)


if __name__ == "__main__":
    main()
