"""The promise: the only folder that reads rows for anything that leaves, and the only one that makes noise.

Reading order for an auditor: ``receipt`` and ``accounting`` (what is promised, what was paid, what a payment is worth),
``noise`` (where randomness comes from), ``split`` and ``table`` (which rows there are), ``counting``, ``feature_maps``
and ``column_maps`` (what is added up, and how far one row moves it), ``questions``, ``noisy_sums`` and ``selection``
(what may be asked), ``answers`` (the closed list) and ``session`` (planned, charged, read, in this order). Questions
that only some generators ask stand in ``more``. The proofs are in ``docs/proofs``.
"""

from __future__ import annotations

__all__: list[str] = []
