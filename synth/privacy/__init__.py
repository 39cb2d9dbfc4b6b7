"""The privacy boundary: the only folder that sees rows and the only one that makes noise.

Reading order for an auditor: ``budget`` and ``receipt`` (what is promised and what was paid), ``accounting`` (what a
payment is worth), ``samplers`` and ``noise`` (where randomness comes from), then the table and the session that ask
questions of it. The proofs stand in ``docs/proofs``. Importing this package loads none of them.
"""

from __future__ import annotations

__all__: list[str] = []
