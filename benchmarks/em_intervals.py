r"""Coverage of the intervals of the three private EM models: nominal 95 %, over fits of simulated rows.

    python benchmarks/em_intervals.py [--tables 20] [--fits 25] [--models gaussian-mixture ...]

An interval is of the noise alone: it is to cover the coefficient that the same steps on the same rows lead to without
noise. Rows are drawn from the model (5,000 of them, 4 columns, signal to noise ratio 3), epsilon is 1, delta 1e-5, and
neighbours replace a row. Beside it stands how often the true coefficient is covered, which is not promised.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from numpy.typing import NDArray

from synth.estimators import make
from synth.generators import GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import NumberColumn, Schema

ROWS, COLUMNS, SIGNAL_TO_NOISE, MISSING, REACH, STEP = 5000, 4, 3.0, 0.1, 4.0, 0.01
MODELS = ("gaussian-mixture", "mixture-of-regressions", "regression-with-missing-inputs")


class Silence:
    """No noise at all: NOT PRIVATE, for what a fit would be without it."""

    private = False

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        """Return zeros."""
        return np.zeros(size, dtype=np.int64)


def drawn(model: str, random: np.random.Generator) -> tuple[PrivateTable, NDArray[np.float64]]:
    """Draw a table of a model and return it with the true coefficients."""
    beta = random.standard_normal(COLUMNS)
    beta /= np.linalg.norm(beta)
    signs, noise = random.choice([-1.0, 1.0], ROWS), 1 / SIGNAL_TO_NOISE
    if model == MODELS[0]:
        rows = signs[:, None] * beta + noise * random.standard_normal((ROWS, COLUMNS))
    else:
        x = random.standard_normal((ROWS, COLUMNS))
        label = (signs if model == MODELS[1] else 1.0) * (x @ beta) + noise * random.standard_normal(ROWS)
        rows = np.column_stack([x, label])
    names = [f"x{place}" for place in range(COLUMNS)] + ["label"] * (model != MODELS[0])
    columns = [NumberColumn(name, -REACH, REACH, STEP, missing=True) for name in names]
    whole = np.clip(np.rint((rows + REACH) / STEP), 0, 2 * REACH / STEP).astype(np.int64)
    if model == MODELS[2]:
        whole[:, :COLUMNS][random.random((ROWS, COLUMNS)) < MISSING] = columns[0].size - 1
    schema = Schema(tuple(columns), row_count="public")
    return PrivateTable.from_codes(schema, dict(zip(names, whole.T, strict=True))), beta


def coverage(model: str, algorithm: int, tables: int, fits: int) -> tuple[float, float, float]:
    """Return how often an interval covers what noiseless steps lead to, and the truth; and its mean half width."""
    options: dict[str, object] = {
        "algorithm": algorithm,
        "scaling": "declared",
        "spread": 1 / REACH,
        "noise_std": 1 / SIGNAL_TO_NOISE,
    }
    covered: list[NDArray[np.bool_]] = []
    true: list[NDArray[np.bool_]] = []
    widths = []
    for seed in range(tables):
        table, beta = drawn(model, np.random.default_rng([7, seed]))
        label = None if model == MODELS[0] else "label"
        task = GeneratorTask(table.schema, label, seed=seed)
        budget = PrivacyBudget(1.0, 1e-5, table.schema.neighbours)

        def fitted(noise: Silence | None) -> list[dict[str, float]]:
            session = PrivateSession(table, budget, noise=noise)  # noqa: B023
            found = make(model, task, options).fit(session, NullProgress()).document()["coefficients"]  # type: ignore[attr-defined] # noqa: B023
            return list(found)

        target = np.array([one["coefficient"] for one in fitted(Silence())])
        sign = 1.0 if model == MODELS[2] or beta @ target > 0 else -1.0
        for _ in range(fits):
            found = fitted(None)
            low, high = (np.array([one[end] for one in found]) for end in ("low", "high"))
            covered.append((low <= target) & (target <= high))
            true.append((low <= sign * beta) & (sign * beta <= high))
            widths.append((high - low).mean() / 2)
    return float(np.mean(covered)), float(np.mean(true)), float(np.mean(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--fits", type=int, default=25)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    asked = parser.parse_args()
    print(f"{'':>44}{'covered':>10}{'the truth':>12}{'half width':>12}")
    for model, algorithm in itertools.product(asked.models, (1, 2, 3)):
        if algorithm == 3 and model != MODELS[0]:
            continue
        noise, truth, width = coverage(model, algorithm, asked.tables, asked.fits)
        print(f"{f'{model}, algorithm {algorithm}':>44}{noise:>10.3f}{truth:>12.3f}{width:>12.4f}", flush=True)


if __name__ == "__main__":
    main()
