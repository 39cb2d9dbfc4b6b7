"""The two parts of the dp-hp loss: how far drawn rows are from released embeddings of tables of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.expected import ExpectedTables
from synth.generators.heads import Draw, HeadLayout
from synth.generators.neural import ClassBatch

__all__ = ["ProductEmbeddings", "SumEmbedding"]

_MOST_NUMBERS = 4_000_000
"""Numbers held in one training step by the outer products; more embeddings than fit take turns."""


class SumEmbedding:
    """The released embedding of one table of features for every column, side by side (Vinaroz 2022, eq. 10 and 15).

    Parameters
    ----------
    layout : HeadLayout
    tables : sequence of arrays of shape (places of column d, width of column d)
        Features of every column as the session summed them, weights included.
    target : array of shape (total width, classes)
        Released mean, columns in order.
    device : torch.device
    """

    def __init__(
        self,
        layout: HeadLayout,
        tables: Sequence[NDArray[np.float64]],
        *,
        target: NDArray[np.float64],
        device: torch.device,
    ) -> None:
        self._expected = ExpectedTables(layout, tables, device)
        self._tables = [torch.tensor(table, dtype=torch.float32, device=device) for table in tables]
        self._grams = [table @ table.T for table in self._tables]
        self._continuous = set(layout.continuous)
        self._target = torch.from_numpy(target.T.copy()).to(device, torch.float32)

    def squared_distance(self, batch: ClassBatch, draw: Draw) -> Tensor:
        """Return the squared distance to a drawn batch, without bias."""
        embeddings, norms = [], draw.values.new_zeros(batch.size)
        for d, table in enumerate(self._tables):
            if d in self._continuous:
                features = self._expected.column(d, draw)
                embeddings.append(batch.embedding(features))
                norms = norms + features.square().sum(dim=1)
            else:
                # Averaging probabilities first saves the features of every row; their norms come from the Gram matrix.
                choices = draw.choices[d]
                embeddings.append(batch.embedding(choices) @ table)
                norms = norms + ((choices @ self._grams[d]) * choices).sum(dim=1)
        return batch.squared_distance(torch.cat(embeddings, dim=1), norms, self._target)


class ProductEmbeddings:
    """Released product-kernel embeddings (Vinaroz 2022, eq. 15), compared with drawn rows.

    Tables are padded with zeros to one width, so that all embeddings of a step are one batched matrix product; a zero
    feature adds nothing to a distance.

    Parameters
    ----------
    layout : HeadLayout
    tables : sequence of arrays of shape (places of column d, width of column d)
        Features of every column, as the session was asked.
    column_sets : sequence of tuples of int
        Columns of each embedding, all of one length.
    answers : sequence of arrays of shape (width of first column, ..., width of last column, classes)
        Released means.
    device : torch.device
    """

    def __init__(
        self,
        layout: HeadLayout,
        tables: Sequence[NDArray[np.float64]],
        *,
        column_sets: Sequence[tuple[int, ...]],
        answers: Sequence[NDArray[np.float64]],
        device: torch.device,
    ) -> None:
        widths = [table.shape[1] for table in tables]
        self._width = max(widths)
        padded = [
            np.pad(table, ((0, 0), (0, self._width - width))) for table, width in zip(tables, widths, strict=True)
        ]
        self._expected = ExpectedTables(layout, padded, device)
        self._depth = len(column_sets[0])
        targets = np.stack([self._pad(answer) for answer in answers])
        self._targets = torch.from_numpy(targets).to(device, torch.float32)
        # Picking columns by a matrix product has an exact, ordered gradient on every device; indexing has not.
        chosen = torch.tensor(column_sets, device=device)
        self._pick = torch.nn.functional.one_hot(chosen, len(tables)).to(torch.float32)

    def squared_distance(self, batch: ClassBatch, draw: Draw, step: int) -> Tensor:
        """Return the mean over this step's embeddings of the squared distance to a drawn batch."""
        chosen = self._turn(batch, step)
        features = torch.stack(self._expected(draw))
        flat = features.flatten(start_dim=1)
        picked = [
            (self._pick[chosen, j] @ flat).reshape(len(chosen), batch.size, self._width) for j in range(self._depth)
        ]
        norms = torch.stack([factor.square().sum(dim=2) for factor in picked]).prod(dim=0)
        left = picked[0] if self._depth > 1 else torch.ones_like(picked[0][:, :, :1])
        for factor in picked[1:-1]:
            left = (left.unsqueeze(3) * factor.unsqueeze(2)).flatten(start_dim=2)
        by_class = left.unsqueeze(1) * batch.weights[:, :, None]
        embedding = (by_class.transpose(2, 3) @ picked[-1].unsqueeze(1)).flatten(start_dim=2)
        return batch.squared_distance(embedding, norms, self._targets[chosen]).mean()

    def _turn(self, batch: ClassBatch, step: int) -> NDArray[np.int64]:
        count = len(self._targets)
        classes = len(batch.weights)
        together = max(1, min(count, _MOST_NUMBERS // (batch.size * classes * self._width ** (self._depth - 1))))
        return np.asarray((step * together + np.arange(together)) % count, dtype=np.int64)

    def _pad(self, answer: NDArray[np.float64]) -> NDArray[np.float64]:
        by_class = np.moveaxis(answer, -1, 0)
        padding = [(0, 0), *((0, self._width - width) for width in by_class.shape[1:])]
        return np.pad(by_class, padding).reshape(len(by_class), -1)
