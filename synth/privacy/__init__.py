"""The promise: the only folder that reads rows for anything that leaves, and the only one that draws noise.

Reading order for an auditor: ``costs``, ``receipt`` and ``accounting`` (how far one row moves an answer, what noise
costs, what was paid, what a payment is worth), ``noise`` (where randomness comes from), ``table`` (which rows are
read), ``counting`` and ``feature_maps`` (what is added up), ``questions``, ``selection`` and ``answers`` (what may be
asked: sums, choices, the closed lists) and ``session`` (planned, charged, read, in this order). Questions that only
some generators ask are in ``more``. The proofs are in ``docs/proofs``.
"""

from __future__ import annotations

__all__: list[str] = []
