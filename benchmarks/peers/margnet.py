"""MargNet: a network of products of columns, fitted to adaptively chosen pairs (Chen 2025, arXiv 2511.13893).

    python margnet.py --input codes.npy --domain domain.json --epsilon E --delta D --neighbours add_remove|replace_one
                      --rows N --seed S --out synthetic.npy

For comparisons; written from the paper's description, README.md says what is reduced. It is a benchmark: its noise
comes from numpy's generator with a public seed, in floating point, so its output protects nobody.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent / "aim"))

from aim import MEASURING, Settings, candidates_of, counts_of, parser_of, zcdp_of

LATENT, HIDDEN = 128, 256
ROUNDS_PER_COLUMN = 16
"""A measurement at the beginning costs one part in so many, times the columns, of rho."""

BATCH, STEPS, LAST_STEPS, LEARNING_RATE = 512, 60, 800, 3e-3


class Generator(nn.Module):
    """From latent noise to one distribution for each column, padded to the largest."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(LATENT, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, len(sizes) * max(sizes)),
        )
        absent = torch.arange(max(sizes))[None, :] >= torch.tensor(sizes)[:, None]
        self.register_buffer("absent", absent)

    def forward(self, latent: Tensor) -> Tensor:
        """Return probabilities, shape (batch, columns, largest size)."""
        logits = self.body(latent).reshape(len(latent), *self.absent.shape)
        return torch.softmax(logits.masked_fill(self.absent, -torch.inf), dim=2)


@dataclass(frozen=True)
class Measurement:
    """A noisy table of one or two columns as shares of all rows, padded, and its weight in the loss."""

    columns: tuple[int, ...]
    shares: NDArray[np.float64]
    weight: float


class Model:
    """The generator, everything measured, and how one is fitted to the other."""

    def __init__(self, sizes: tuple[int, ...], seed: int) -> None:
        torch.manual_seed(seed)
        self._sizes = sizes
        self._network = Generator(sizes)
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=LEARNING_RATE)
        self._measured: list[Measurement] = []

    def add(self, columns: tuple[int, ...], table: NDArray[np.float64], total: float, sigma: float) -> None:
        """Keep a measurement; a table of one column is that column with itself."""
        largest = max(self._sizes)
        padded = np.zeros((largest, largest))
        shares = np.diag(table) if len(columns) == 1 else table
        padded[: shares.shape[0], : shares.shape[1]] = shares / total
        self._measured.append(Measurement(columns, padded, 1 / sigma))

    def fit(self, steps: int, *, newest: float) -> None:
        """Fit to all measurements by squared error; the newest counts ``newest`` times while it is new."""
        ones = [k for k, one in enumerate(self._measured) if len(one.columns) == 1]
        pairs = [k for k, one in enumerate(self._measured) if len(one.columns) == 2]
        weights = np.array([one.weight for one in self._measured])
        weights /= weights.mean()
        weights[-1] *= newest
        targets = torch.tensor(np.stack([one.shares for one in self._measured]), dtype=torch.float32)
        of = torch.tensor(weights, dtype=torch.float32)
        left = torch.tensor([self._measured[k].columns[0] for k in pairs], dtype=torch.int64)
        right = torch.tensor([self._measured[k].columns[-1] for k in pairs], dtype=torch.int64)
        alone = torch.tensor([self._measured[k].columns[0] for k in ones], dtype=torch.int64)
        for _ in range(steps):
            found = self._network(torch.randn(BATCH, LATENT))
            loss = (of[ones, None] * (found.mean(dim=0)[alone] - targets[ones].diagonal(dim1=1, dim2=2)).square()).sum()
            if pairs:
                joint = found[:, left].permute(1, 2, 0) @ found[:, right].permute(1, 0, 2) / BATCH
                loss = loss + (of[pairs, None, None] * (joint - targets[pairs]).square()).sum()
            self._optimiser.zero_grad()
            torch.autograd.backward(loss)
            self._optimiser.step()

    def marginals(self) -> dict[tuple[int, ...], NDArray[np.float64]]:
        """Return the tables of all columns and pairs as shares."""
        with torch.no_grad():
            found = torch.cat([self._network(torch.randn(BATCH, LATENT)) for _ in range(8)]).numpy()
        tables: dict[tuple[int, ...], NDArray[np.float64]] = {}
        for i, size in enumerate(self._sizes):
            tables[(i,)] = found[:, i, :size].mean(axis=0)
            for j in range(i + 1, len(self._sizes)):
                tables[i, j] = found[:, i, :size].T @ found[:, j, : self._sizes[j]] / len(found)
        return tables

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw rows: a product of columns for each, then a code of each column."""
        rows = np.empty((n_rows, len(self._sizes)), dtype=np.int64)
        for start in range(0, n_rows, 8192):
            with torch.no_grad():
                found = self._network(torch.randn(min(8192, n_rows - start), LATENT)).double().numpy()
            drawn = random.random(found.shape[:2])[:, :, None] >= found.cumsum(axis=2)
            rows[start : start + len(found)] = np.minimum(drawn.sum(axis=2), np.array(self._sizes) - 1)
        return rows


def fit(codes: NDArray[np.int64], settings: Settings, seed: int) -> Model:
    """Spend the whole budget: one-ways, then rounds of choosing a pair or column, measuring it and fitting."""
    random = np.random.default_rng(seed)
    rho = zcdp_of(settings.epsilon, settings.delta)
    rows, sizes = settings.rows_per_unit, settings.sizes
    squared_sensitivity = rows**2 * (2.0 if settings.replace_one else 1.0)
    score_factor = rows * (2.0 if settings.replace_one else 1.0)
    rounds = ROUNDS_PER_COLUMN * len(sizes)
    sigma = math.sqrt(rounds * squared_sensitivity / (2 * MEASURING * rho))
    parameter = math.sqrt(8 * (1 - MEASURING) * rho / rounds)
    weights = {r: weight for r, weight in candidates_of(settings).items() if len(r) == 2}
    answers = {r: counts_of(codes, sizes, r) for r in {**weights, **{(c,): 0.0 for c in range(len(sizes))}}}
    model, totals, used = Model(sizes, seed), [], 0.0
    for column in range(len(sizes)):
        table = answers[(column,)] + sigma * random.normal(size=sizes[column])
        totals.append(table.sum())
        used += squared_sensitivity / (2 * sigma**2)
        model.add((column,), table, max(float(np.mean(totals)), 1.0), sigma)
    total = float(len(codes)) if settings.replace_one and rows == 1 else max(float(np.mean(totals)), 1.0)
    model.fit(LAST_STEPS, newest=1.0)
    last = False
    while not last:
        left = rho - used
        if left < 2 * (squared_sensitivity / (2 * sigma**2) + parameter**2 / 8):
            sigma = math.sqrt(squared_sensitivity / (2 * MEASURING * left))
            parameter = math.sqrt(8 * (1 - MEASURING) * left)
            last = True
        used += squared_sensitivity / (2 * sigma**2) + parameter**2 / 8
        bias = math.sqrt(2 / math.pi) * sigma
        found, names = model.marginals(), list(weights)
        distances = (np.abs(answers[r] - total * found[r]).sum() - bias * answers[r].size for r in names)
        scores = np.array([weights[r] * each for r, each in zip(names, distances, strict=True)])
        gumbel = random.gumbel(size=len(scores))
        chosen = names[int(np.argmax(0.5 * parameter / (score_factor * max(weights.values())) * scores + gumbel))]
        table = answers[chosen] + sigma * random.normal(size=answers[chosen].shape)
        model.add(chosen, table, total, sigma)
        model.fit(LAST_STEPS if last else STEPS, newest=1.0 if last else float(len(sizes)))
        if np.abs(total * (model.marginals()[chosen] - found[chosen])).sum() <= bias * answers[chosen].size:
            # In zCDP twice the budget is half the variance.
            sigma /= math.sqrt(2)
            parameter *= math.sqrt(2)
    return model


def main() -> None:
    asked = parser_of(__doc__).parse_args()
    torch.set_num_threads(1)
    sizes = tuple(json.loads(asked.domain.read_text(encoding="utf-8")))
    replace_one = asked.neighbours == "replace_one"
    settings = Settings(sizes, asked.epsilon, asked.delta, replace_one=replace_one, rows_per_unit=asked.rows_per_unit)
    model = fit(np.load(asked.input).astype(np.int64), settings, asked.seed)
    rows = model.sample(asked.rows, np.random.default_rng([asked.seed, 1]))
    np.save(asked.out, rows.astype(np.min_scalar_type(max(sizes))))


if __name__ == "__main__":
    main()
